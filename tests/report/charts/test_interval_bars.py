from __future__ import annotations

import numpy as np
import pytest

from invariscope.report.charts.interval_bars import axis_of, bar, ticks
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


def test_ticks_are_few_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for scale in 10.0 ** rng.uniform(-4, 4, 100):
        low, high = -scale * rng.uniform(0, 0.5), scale
        marks = ticks(low, high)
        assert 2 <= len(marks) <= 5
        assert 0.0 in marks
        assert low - 1e-8 * scale <= min(marks)
        assert max(marks) <= high + 1e-8 * scale
