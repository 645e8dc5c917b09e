from __future__ import annotations

import math

import numpy as np
import pytest

from invariscope import wording
from invariscope.results import Estimate


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.38, "38 %"),
        (0.0999, "10 %"),
        (0.09949, "9.9 %"),
        (0.02, "2 %"),
        (0.0, "0 %"),
        (-0.00001, "0 %"),
        (0.0031, "0.31 %"),
        (-0.5, "−50 %"),
        (12.4, "1,240 %"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_percentages_are_whole_from_ten_on(share: float, expected: str) -> None:
    assert wording.percent(share) == expected


def test_signs_of_changes() -> None:
    assert wording.percent(0.05, signed=True) == "+5 %"
    assert wording.percent(-0.05, signed=True) == "−5 %"
    assert wording.percent(0.0, signed=True) == "0 %"


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(0.38, (0.21, 0.6)), "+38 % (21 … 60)"),
        (Estimate(0.11, (0.016, 0.25)), "+11 % (1.6 … 25)"),
        (Estimate(0.02), "+2 %"),
        (Estimate(math.nan, (0.1, 0.2)), "–"),
    ],
)
def test_changes_carry_their_interval(estimate: Estimate, expected: str) -> None:
    assert wording.change(estimate.value, estimate.interval) == expected


@pytest.mark.parametrize(
    ("p", "draws", "expected"),
    [
        (1 / 1000, 999, "p ≤ 0.001"),
        (1 / 100, 99, "p ≤ 0.01"),
        (2 / 1000, 999, "p = 0.002"),
        (0.0001, None, "p < 0.001"),
        (0.001, None, "p = 0.001"),
        (1.0, None, "p = 1.00"),
        (math.nan, 999, "p –"),
    ],
)
def test_p_values_claim_no_more_than_their_draws(p: float, draws: int | None, expected: str) -> None:
    assert wording.pvalue(p, draws) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.9996, "1.00"), (999.9, "1,000"), (9.99e-5, "9.99 × 10⁻⁵"), (-3e12, "−3.00 × 10¹²"), (0.0, "0")],
)
def test_numbers_have_three_digits(value: float, expected: str) -> None:
    assert wording.number(value) == expected


def test_numbers_read_back_to_three_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for value in rng.normal(size=200) * 10.0 ** rng.integers(-3, 8, 200):
        text = wording.number(float(value)).replace("−", "-").replace(",", "").replace(" × 10", "e")
        read = float(text.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
        assert read == pytest.approx(value, rel=6e-3)


def test_columns_share_their_decimals() -> None:
    assert wording.aligned([123.4, 0.7, math.nan]) == ["123", "1", "–"]
    assert wording.aligned([0.58, 0.0404, math.nan]) == ["0.580", "0.040", "–"]
    assert wording.aligned([]) == []


def test_names_stay_apart_and_printable() -> None:
    assert wording.names(["a (2)", "a", "a"]) == ("a (2)", "a", "a (3)")
    assert wording.names(["", None, 3]) == ("(blank)", "None", "3")
    assert wording.clean("a\x00b\ud800c\u202ed") == "a b c d"


@pytest.mark.parametrize(
    ("rows", "expected"), [(7, 7), (50, 50), (99, 99), (101, 110), (1200, 1200), (1201, 1300), (98_765.4, 99_000)]
)
def test_advice_on_rows_is_rounded_up_to_two_digits(rows: float, expected: int) -> None:
    assert wording.round_up(rows) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.99, "under 1 s"), (1.0, "0:00:01"), (59.6, "0:01:00"), (3725.0, "1:02:05"), (36_000.0, "10:00:00")],
)
def test_durations_are_hours_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert wording.duration(seconds) == expected


def test_lists_name_every_item() -> None:
    assert wording.listed([]) == ""
    assert wording.listed(["a"]) == "a"
    assert wording.listed(["a", "b"]) == "a and b"
    assert wording.listed(["a", "b", "c", "d"]) == "a, b, c and d"
