"""Environments from dates and numbers: every row in exactly one group, labels in the user's units and in order."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariscope.errors import InputError
from invariscope.reading.environment_bins import DATE_BINS, Bin, bin_environments
from invariscope.rows.environments import Environments
from invariscope.rows.spelling import SHELL, typed_in

DAYS = ["2024-12-30", "2023-03-05", "2024-02-29", "2023-03-06"]
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-20, 20).map(float)


def labels_of(values: Sequence[object], how: str | int | Sequence[float], name: str = "age") -> list[str]:
    return list(bin_environments(pd.Series(values, name=name), how)[0])


# --- dates ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("year", ["2024", "2023", "2024", "2023"]),
        ("quarter", ["2024-Q4", "2023-Q1", "2024-Q1", "2023-Q1"]),
        ("month", ["2024-12", "2023-03", "2024-02", "2023-03"]),
        ("week", ["2025-W01", "2023-W09", "2024-W09", "2023-W10"]),  # as ISO 8601 counts them
        ("day", DAYS),
        ("month-of-year", ["December", "March", "February", "March"]),
        ("weekday", ["Monday", "Sunday", "Thursday", "Monday"]),
        ("hour-of-day", ["00:00–00:59"] * 4),
    ],
)
def test_parts_of_dates(how: str, expected: list[str]) -> None:
    dates = pd.to_datetime(DAYS)
    assert labels_of(DAYS, how) == expected
    assert labels_of(list(dates), how) == expected
    assert labels_of([date.date() for date in dates], how) == expected
    assert labels_of(list(dates.tz_localize("Europe/Zurich")), how) == expected  # the clock on the wall there


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("month-of-year", ["February", "March", "December"]),
        ("weekday", ["Monday", "Thursday", "Sunday"]),
        ("year", ["2023", "2024"]),
    ],
)
def test_labels_sort_in_the_order_of_time(how: str, expected: list[str]) -> None:
    env = bin_environments(pd.Series(DAYS * 2, name="day"), how)[0]
    assert Environments(np.arange(8.0), None, env).labels == tuple(expected)


def test_hours_and_missing_dates() -> None:
    labels = labels_of(["2024-05-31T07:59:59", None, "2024-05-31 23:00", "2024-06-01"], "hour-of-day")
    assert labels == ["07:00–07:59", None, "23:00–23:59", "00:00–00:59"]


@pytest.mark.parametrize(
    ("values", "months", "form"),
    [
        (["01.02.2024", "03.04.2024 7:30"], ["2024-02", "2024-04"], 'day.month.year: "01.02.2024" is 2024-02-01'),
        (
            ["01/02/2024", "13/04/2024", None],
            ["2024-02", "2024-04", None],
            'day/month/year: "13/04/2024" is 2024-04-13',
        ),
        (["1/2/2024", "4/13/2024 07:30:01"], ["2024-01", "2024-04"], 'month/day/year: "4/13/2024 07:30:01" is 2024-04'),
        (["31-05-2024", "01-02-2024 "], ["2024-05", "2024-02"], 'day-month-year: "31-05-2024" is 2024-05-31'),
    ],
)
def test_dates_that_can_be_read_in_one_way(values: list[str | None], months: list[str | None], form: str) -> None:
    labels, notes = bin_environments(pd.Series(values, name="day"), "month")
    assert labels.tolist() == months
    assert len(notes) == 1
    assert notes[0].startswith(f'Dates in "day" are read as {form}')


def test_dates_with_the_year_first_need_no_word() -> None:
    labels, notes = bin_environments(pd.Series(["2024/01/02", "2024/4/13"], name="day"), "month")
    assert (labels.tolist(), notes) == (["2024-01", "2024-04"], ())


def test_the_year_does_not_depend_on_the_order_of_day_and_month() -> None:
    assert labels_of(["05/06/2023", "06/05/2024"], "year") == ["2023", "2024"]


def test_several_time_zones_are_compared_in_utc() -> None:
    assert labels_of(["2024-01-01T00:30+01:00", "2024-01-01T00:30Z"], "year") == ["2023", "2024"]


@pytest.mark.parametrize(
    ("values", "how", "sentence"),
    [
        (
            ["31.12.2024", "2024-01-01"],
            "year",
            r'"31.12.2024", .* form 2024-05-31 \(in 1 of 2 rows\): .* na="31.12.2024" and missing="drop-rows"$',
        ),
        (["05/06/2024", "06/05/2024"], "month", r'"05/06/2024", of .* 2024-05-31, or pass env_bins="year", for which'),
        (["31/12/2024", "12/31/2024"], "year", r'holds "12/31/2024", which is no date .* \(in 1 of 2 rows\)'),
        (["31.12.2024", "31.02.2024"], "year", r'holds "31.02.2024", which is no date .* \(in 1 of 2 rows\)'),
        ([f"{day}.12.2024" for day in range(32, 40)], "year", r"in 8 of 8 rows\): write all dates that way$"),
        (["Bern", "Oslo"], "year", 'holds "Bern", which is no date .*: name a column of dates, or leave out env_bins='),
        (["31.12.2024", "30.12.2024"], 3, 'is text, which cannot .*: pass env_bins="month", say'),
        ([1.5, 2.5], "year", "holds numbers, not dates: pass env_bins=4 for that many groups"),
        ([pd.Timedelta(hours=3)], "year", "not dates: name another column"),
        ([datetime.time(7), datetime.time(8)], "year", 'holds "07:00:00", which is no date'),
        (
            DAYS,
            "fortnight",
            'env_bins= is "fortnight": give one of year, quarter, .*, a number of groups, or the edges',
        ),
        (["Bern", "Oslo"], 3, 'column "age" is text, which cannot be cut into groups of numbers: leave out env_bins='),
        (list(pd.to_datetime(DAYS)), 3, 'column "age" is dates, .*: pass env_bins="month", say'),
        ([1, 2], 1, "env_bins= is 1: invariance compares at least 2 groups"),
        ([1, 2], True, "env_bins= is True: invariance compares at least 2 groups"),
        ([1, 2], [50, 30], r"env_bins= is \(50, 30\): give the edges between groups as numbers that go up"),
        ([1, 2], [], r"env_bins= is \(\): give the edges"),
        ([1, 2], -2, "env_bins= is -2: invariance compares at least 2 groups"),
        ([1, 2], 10**30, r"env_bins= is 10{30}: give a whole number from 2 to 1,000$"),
        ([1, 2], 10**6, r"env_bins= is 1000000: give a whole number from 2 to 1,000$"),
        ([1, 2], 1e30, r"env_bins= is 1e\+30: give a whole number from 2 to 1,000$"),
        ([1, 2], np.nan, "env_bins= is nan: give a whole number from 2 to 1,000$"),
        ([1, 2], 3.0, r"env_bins= is 3\.0: give a whole number from 2 to 1,000$"),
        ([1, 2], ["a"], r"env_bins= is \['a'\]: give the edges between groups as numbers that go up, at most 999$"),
        ([1, 2], {3, 4}, r"env_bins= is \(\): give the edges"),
        (
            [1, 2],
            range(1000),
            r"env_bins= is range\(0, 1000\): give the edges between groups as numbers that go up, at m",
        ),
        ([1, 2], [30, 30], r"env_bins= is \(30, 30\): give the edges"),
    ],
)
def test_what_cannot_be_grouped(values: list[object], how: str | int | list[float], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        labels_of(values, how)


def test_the_shell_is_told_its_own_options() -> None:
    with pytest.raises(InputError, match="pass --env-bins 4 for that many groups"), typed_in(SHELL):
        bin_environments(pd.Series([1, 2], name="age"), "year")


# --- numbers ----------------------------------------------------------------------------------------------------------
def test_groups_of_equal_size() -> None:
    ages = np.arange(17, 97)
    labels, notes = bin_environments(pd.Series(ages, name="age"), 4)
    assert notes == ()
    assert labels.value_counts(sort=False).to_dict() == {
        "age 17–36": 20, "age 37–56": 20, "age 57–76": 20, "age 77–96": 20
    }  # fmt: skip


def test_labels_sort_by_value_not_by_alphabet() -> None:
    env = bin_environments(pd.Series([5, 7, 90, 99, 100, 1000], name="n"), 3)[0]
    assert Environments(np.arange(6.0), None, env).labels == ("n 5–7", "n 90–99", "n 100–1000")
    edges = bin_environments(pd.Series([5, 7, 90, 99, 100, 1000], name="n"), [8, 100])[0]
    assert Environments(np.arange(6.0), None, edges).labels == ("n under 8", "n 8–99", "n 100 and over")


def test_fewer_values_than_groups() -> None:
    labels, notes = bin_environments(pd.Series([0, 0, 0, 0, 0, 0, 3, 5, 5], name="gain"), 4)
    assert labels.tolist() == ["gain 0"] * 6 + ["gain 3", "gain 5", "gain 5"]
    assert notes == ('"gain" is cut into 3 groups instead of 4, of 6, 1, 2 rows: equal values stay together.',)


def test_what_ties_leave_is_shared_evenly() -> None:
    labels, notes = bin_environments(pd.Series([0] * 60 + list(range(1, 41)), name="gain"), 3)
    assert labels.value_counts().to_dict() == {"gain 0": 60, "gain 1–20": 20, "gain 21–40": 20}
    assert notes == ('"gain" is cut into 3 groups, of 60, 20, 20 rows: equal values stay together.',)
    # the spike goes with whichever neighbours leave the groups more even
    labels, notes = bin_environments(pd.Series([1] * 40 + [2] * 15 + [3] * 45, name="gain"), 2)
    assert labels.value_counts().to_dict() == {"gain 1–2": 55, "gain 3": 45}
    assert notes == ()


@pytest.mark.parametrize(
    ("values", "how", "expected"),
    [
        ([0.5, 1.0, 1.5, 2.0], 2, ["age 0.5–1", "age 1.5–2"]),
        ([0.12341, 0.12342, 0.12343, 0.12344], 2, ["age 0.12341–0.12342", "age 0.12343–0.12344"]),
        ([1.23456, 2.34567, 2.34568, 9.87654], 2, ["age 1.23–2.35", "age 2.35–9.88"]),
        ([-5, -3, 2, 4], 2, ["age -5 to -3", "age 2–4"]),
        ([123456.7, 123466.7, 223456.7, 323456.7], 2, ["age 123000", "age 223000–323000"]),
        ([29, 30, 49, 50, 65], [30, 50, 65], ["age under 30", "age 30–49", "age 50–64", "age 65 and over"]),
        ([29.5, 30, 49.5, 50], [30, 50], ["age under 30", "age 30–50", "age 50 and over"]),
        ([1, 2, 3], [2, 3], ["age under 2", "age 2", "age 3 and over"]),
        ([0.1, 0.9], [0.5], ["age under 0.5", "age 0.5 and over"]),
    ],
)
def test_labels(values: list[float], how: int | list[float], expected: list[str]) -> None:
    assert list(dict.fromkeys(labels_of(values, how))) == expected


def test_an_edge_belongs_to_the_group_above_and_empty_groups_are_told() -> None:
    labels, notes = bin_environments(pd.Series([30, 70, None], name="age"), [30, 50, 65])
    assert labels.tolist() == ["age 30–49", "age 65 and over", None]
    assert notes == ("No row has age under 30, age 50–64.",)


@given(st.lists(NUMBERS, min_size=1, max_size=60), st.integers(2, 9))
def test_groups_of_numbers_cover_every_row_once_and_in_order(values: list[float], count: int) -> None:
    labels, notes = bin_environments(pd.Series(values, name="x"), count)
    assert len(labels) == len(values)
    assert labels.notna().all()
    found = pd.DataFrame({"value": values, "label": labels.tolist(), "rank": [label.rank for label in labels]})
    assert (found.groupby("value")["rank"].nunique() == 1).all()  # ties stay together
    assert found.sort_values("value")["rank"].is_monotonic_increasing
    assert found["label"].nunique() == found["rank"].nunique() <= count
    sizes = found["rank"].value_counts()
    assert bool(notes) == (len(sizes) < count or sizes.max() > 2 * sizes.min())
    if len(set(values)) == len(values):  # without ties the groups differ by a row
        assert sizes.max() - sizes.min() <= 1
        assert len(sizes) == min(count, len(values))


@given(st.lists(NUMBERS, min_size=1, max_size=40), st.lists(NUMBERS, min_size=1, max_size=5, unique=True))
def test_groups_between_edges_cover_every_row_once(values: list[float], edges: list[float]) -> None:
    edges = sorted(edges)
    labels, _ = bin_environments(pd.Series(values, name="x"), edges)
    bounds = [-np.inf, *edges, np.inf]
    for value, label in zip(values, labels, strict=True):
        assert [k for k in range(len(bounds) - 1) if bounds[k] <= value < bounds[k + 1]] == [label.rank]


@pytest.mark.slow
@given(st.lists(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)), min_size=1, max_size=30))
def test_groups_of_dates_cover_every_row_once(dates: list[datetime.datetime]) -> None:
    for how in DATE_BINS:
        labels = bin_environments(pd.Series(dates, name="day"), how)[0]
        assert labels.notna().all()
        assert len({(label, label.rank) for label in labels}) == labels.nunique() == len({b.rank for b in labels})
        if how in ("year", "quarter", "month", "week", "day"):
            ordered = [label.rank for _, label in sorted(zip(dates, labels, strict=True), key=lambda pair: pair[0])]
            assert ordered == sorted(ordered)


# --- labels -----------------------------------------------------------------------------------------------------------
def test_labels_survive_pickling_and_compare_with_text() -> None:
    low, high = Bin("z", 0), Bin("a", 1)
    again = pickle.loads(pickle.dumps([high, low]))
    assert sorted(again) == ["z", "a"]
    assert (low < high, low <= high, low > high, low >= high) == (True, True, False, False)
    assert low == "z"
    assert low > "y"
    assert {low: 1}["z"] == 1


def test_as_many_groups_as_there_may_be() -> None:
    ages = pd.Series(np.arange(5000), name="age")
    assert bin_environments(ages, 1000)[0].nunique() == 1000
    assert bin_environments(ages, np.arange(1.0, 1000.0))[0].nunique() == 1000
