from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ("interval", "limit", "expected"),
    [
        ((0.2149, 0.6011), math.nan, ("21", "61")),  # away from each other
        ((-0.0149, -0.0111), math.nan, ("−1.5", "−1.1")),
        ((0.07, 0.07), math.nan, ("7", "7")),  # 100 × 0.07 is 7.000000000000001
        ((0.0201, 0.0996), 0.02, ("2.01", "10")),  # 2 would not be over 2
        ((0.020001, 0.5), 0.02, ("2.0001", "50")),
        ((0.01, 0.01999), 0.02, ("1", "1.999")),
        ((0.02, 0.02), 0.02, ("2", "2")),
        ((0.0699, 0.0701), 0.07, ("6.9", "7.1")),
        ((0.07004, 0.12), 0.07, ("7.004", "12")),
        ((0.1, 0.30000001), 0.3, ("10", "31")),
        ((0.12, 0.2999), 0.3, ("12", "29.99")),
        ((12.344, 99.001), math.nan, ("1,234", "9,901")),
        ((-0.000001, 0.000001), math.nan, ("−0.01", "0.01")),
    ],
)
def test_ends_are_rounded_outwards_and_never_over_a_limit(
    interval: tuple[float, float], limit: float, expected: tuple[str, str]
) -> None:
    assert wording.outwards(interval, limit) == expected


def test_what_is_shown_lies_on_the_same_side_of_the_limit_and_holds_the_interval(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(500):
        limit = float(rng.choice([0.02, 0.07, 0.1, 0.3, rng.uniform(0.001, 1)]))
        interval = sorted((limit + rng.normal(size=2) * 10.0 ** rng.uniform(-6, 1)).tolist())
        shown = [
            float(end.replace("−", "-").replace(",", "")) / 100 for end in wording.outwards(tuple(interval), limit)
        ]
        assert shown[0] <= interval[0] + 1e-9
        assert shown[1] >= interval[1] - 1e-9
        border = float(wording.exactly(limit).removesuffix(" %")) / 100
        for end, told in zip(interval, shown, strict=True):
            assert (end > limit, end < limit) == (told > border, told < border), (interval, limit)


@pytest.mark.parametrize(
    ("interval", "known"),
    [((0.1, 10.0), True), ((0.1, 10.001), False), ((-3.0, 17635.15), False), ((6.0, 11.0), True), ((5.0, 11.0), False)],
)
def test_what_may_be_above_a_thousand_per_cent_is_not_bounded(interval: tuple[float, float], known: bool) -> None:
    """Unless it is known to within a factor of two."""
    assert wording.bounded(interval) == known
    assert ("cannot be bounded" in wording.change(0.5, interval)) == (not known)
    assert ("cannot be bounded" in wording.between(interval)) == (not known)


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
    assert wording.aligned([123.4, 678.9, math.nan]) == ["123", "679", "–"]
    assert wording.aligned([0.58, 0.0404, math.nan]) == ["0.580", "0.040", "–"]
    assert wording.aligned([]) == []
    assert wording.aligned([0.0, 0.0]) == ["0.00", "0.00"]


def test_the_smallest_number_of_a_column_keeps_its_digits() -> None:
    assert wording.aligned([123.4, 0.7, 0.0]) == ["123.40", "0.70", "0.00"]
    assert wording.aligned([4.2, 0.00031]) == ["4.20000", "0.00031"]
    assert wording.aligned([4210.0, 0.031]) == ["4,210.000", "0.031"]
    assert wording.aligned([42100.0, 0.031, math.nan]) == ["42,100", "0.0310", "–"]  # too far apart


@given(st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=6))
def test_no_number_of_a_column_is_rounded_to_nothing(values: list[float]) -> None:
    for text, value in zip(wording.aligned(values), values, strict=True):
        mantissa, _, power = (
            text.replace(",", "").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")).partition(" × 10")
        )
        assert float(mantissa) * 10.0 ** int(power or 0) == pytest.approx(value, rel=0.051)


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


@pytest.mark.parametrize(
    "form",
    [
        "age at admission to the hospital (years) in ({}.0, {}.0]",
        "the university hospital of a long name, ward {} ({})",
    ],
)
def test_a_name_in_a_heading_keeps_what_tells_it_apart(form: str) -> None:
    texts = {wording.short(form.format(k, k + 1), limit) for limit in (24, 30, 40) for k in range(9)}
    assert len(texts) == 27
    assert max(map(len, texts)) <= 40


def test_a_long_word_is_cut_at_its_end() -> None:
    assert wording.short("x" * 300) == "x" * 39 + "…"
    assert wording.short("ends in a blank and " + "y" * 300) == "ends in a blank and " + "y" * 19 + "…"


def test_percentages_are_written_one_way_everywhere() -> None:
    """With a blank before the sign, as `percent` writes them, and with its digits."""
    source = Path(wording.__file__).parent
    own_way = re.compile(r"\{[^{}]*:[^{}]*%\}")
    assert own_way.search('f"{share:.0%}"')
    lines = [(path.name, line) for path in source.rglob("*.py") for line in path.read_text("utf-8").splitlines()]
    assert not [(name, line.strip()) for name, line in lines if own_way.search(line)]


@pytest.mark.parametrize("label", ["Bern", "VA Long Beach", "Québec Nord", "Saint-Denis", "St. Gallen", "東京", "USA"])
def test_proper_names_stand_in_a_sentence_as_they_are(label: str) -> None:
    assert wording.quoted(label) == label


@pytest.mark.parametrize(
    "label",
    [
        "no",
        "No",
        "a",
        "None",
        "north",
        "age (yrs) under 50",
        "age (yrs) over fifty",
        "Ward 3",
        "site_b",
        "30 %",
        "Ward B)",
    ],
)
def test_what_could_be_read_as_part_of_the_sentence_is_quoted(label: str) -> None:
    assert wording.quoted(label) == f'"{label}"'


@pytest.mark.parametrize(
    ("name", "several"),
    [
        *((name, name) for name in ("species", "series", "sites", "hospitals", "Years")),
        *((name, f"{name}s") for name in ("site", "Year", "day", "hospital", "admission date", "env", "age")),
        *((name, f"{name}es") for name in ("sex", "box", "campus", "bus", "class", "status", "batch", "brush")),
        ("city", "cities"),
        ("tax Country", "tax Countries"),
        ("analysis", "analyses"),
        ("Child", "Children"),
        ("young person", "young people"),
        *(
            (name, f"values of {name}")
            for name in ("hospital_id", "site no.", "cohort2", "X", "SITE", "CITY", "user-id", "hour-of-day", "país",
                         "病院", "day of week", "Is smoker", "child's", "siteName", "two  blanks", "", "2019", "data")
        ),
    ],
)  # fmt: skip
def test_names_of_columns_in_the_plural(name: str, several: str) -> None:
    assert wording.plural(name) == several
