from __future__ import annotations

import math
import re

import numpy as np
import pytest

from invariscope.report.charts.interval_bars import Axis, axis_of, bar, ticks, ticks_above
from invariscope.results import Estimate


def test_axis_holds_every_estimate_and_cuts_only_intervals() -> None:
    regrets = [(0.1, 0.05, 40.0), (0.02, -0.9, 0.05), (0.01, 0.0, 0.02), (-0.04, -0.06, 0.0)]
    axis = axis_of([Estimate(value, (low, high)) for value, low, high in regrets], 0.02)
    assert axis.low == pytest.approx(-0.125)
    assert axis.high == pytest.approx(0.25)
    assert axis.position(axis.low) == pytest.approx(4)
    assert axis.position(axis.high) == pytest.approx(96)
    assert axis.position(40.0) == pytest.approx(96)
    assert axis.position(0.0) == pytest.approx(4 + 92 / 3)
    assert axis.ticks == (-0.1, 0.0, 0.1, 0.2)


def test_what_has_no_bound_does_not_stretch_the_axis() -> None:
    regrets = [Estimate(0.1, (0.05, 0.2)), Estimate(500.0, (0.021, 17635.15))]
    axis = axis_of(regrets, 0.02)
    assert axis.high == pytest.approx(25.0)  # 2.5 times 1,000 %
    drawn = bar(regrets[1], "over", axis, 0.02)
    assert 'aria-label="+50,000 % (at least 2.1, cannot be bounded)"' in drawn
    assert 'd="M-1,-5 L6,0 L-1,5 Z"' in drawn  # an arrow: it goes on
    known = [Estimate(50.0, (48.0, 52.0))]
    assert axis_of(known, 0.02).high == pytest.approx(52.0)


@pytest.mark.parametrize(
    ("high", "expected"),
    [(0.4, (0.0, 0.1, 0.2, 0.3, 0.4)), (0.8, (0.0, 0.2, 0.4, 0.6, 0.8)), (2.0, (0.0, 0.5, 1.0, 1.5, 2.0))],
)
def test_ticks_are_ones_twos_and_fives(high: float, expected: tuple[float, ...]) -> None:
    assert ticks(0.0, high) == expected


def test_ticks_are_few_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for scale in 10.0 ** rng.uniform(-4, 4, 100):
        low, high = -scale * rng.uniform(0, 0.5), scale
        marks = ticks(low, high)
        assert 2 <= len(marks) <= 5
        assert 0.0 in marks
        assert low - 1e-8 * scale <= min(marks)
        assert max(marks) <= high + 1e-8 * scale


#: 92 % of the width for 0.4: 23 % for each tenth, from 4 % on.
AXIS = Axis(-0.1, 0.3, (-0.1, 0.0, 0.1, 0.2, 0.3))


def test_a_bar_as_drawn() -> None:
    drawn = bar(Estimate(0.1, (-0.05, 0.2)), "over", AXIS, 0.05)
    lines = re.findall(r'<line class="([^"]*)" x1="([\d.]+)%" x2="([\d.]+)%"', drawn)
    assert lines == [("zero", "27.00", "27.00"), ("margin", "38.50", "38.50"), ("range over", "15.50", "73.00")]
    assert re.findall(r'<circle class="over" cx="([\d.]+)%"', drawn) == ["50.00"]
    assert "<path" not in drawn  # it ends where it ends
    goes_on = bar(Estimate(0.1, (-0.2, 0.5)), "open", AXIS, 0.05)
    arrows = re.findall(r'<svg x="([\d.]+)%" y="15" class="open"><path d="M(-?1),', goes_on)
    assert arrows == [("4.00", "1"), ("96.00", "-1")]  # one to the left at the left end, one to the right at the right
    assert "range" not in bar(Estimate(0.1, (-0.05, math.nan)), "over", AXIS, 0.05)
    assert "circle" not in bar(Estimate(math.nan, (-0.05, 0.2)), "over", AXIS, 0.05)


@pytest.mark.parametrize(
    ("margin", "place", "anchor"), [(0.01, "29.30", "start"), (0.05, "38.50", "middle"), (0.2, "73.00", "end")]
)
def test_ticks_stand_above_their_places_and_the_margin_above_them(margin: float, place: str, anchor: str) -> None:
    form = r'<text x="([\d.]+)%" y="(\d+)" text-anchor="(\w+)">([^<]*)</text>'
    *numbers, words = re.findall(form, ticks_above(AXIS, margin))
    assert [(x, y, text) for x, y, _, text in numbers] == [
        ("4.00", "29", "−10"),
        ("27.00", "29", "0"),
        ("50.00", "29", "10"),
        ("73.00", "29", "20"),
        ("96.00", "29", "30 %"),
    ]
    assert words[:3] == (place, "12", anchor)
    assert words[3].startswith("margin ")
