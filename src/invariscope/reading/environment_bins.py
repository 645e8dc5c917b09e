"""Environments made of dates or numbers: years, weekdays or groups of ages."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.read_table import kind_of
from invariscope.reading.written_values import dates_of, look_like_dates
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.settings import REAL, shown, whole_number
from invariscope.rows.spelling import spelt

#: Parts of a date: a whole number that is in the order of the groups, from ``column.dt``; and its label.
DATE_BINS: Mapping[str, tuple[Callable[[Any], Any], Callable[[int], str]]] = {
    "year": (lambda date: date.year, str),
    "quarter": (lambda date: date.year * 10 + date.quarter, lambda key: f"{key // 10}-Q{key % 10}"),
    "month": (lambda date: date.year * 100 + date.month, lambda key: f"{key // 100}-{key % 100:02d}"),
    "week": (  # of year, week and day
        lambda date: date.isocalendar().astype(np.int64) @ (100, 1, 0),
        lambda key: f"{key // 100}-W{key % 100:02d}",
    ),
    "day": (
        lambda date: date.year * 10_000 + date.month * 100 + date.day,
        lambda key: f"{key // 10_000}-{key // 100 % 100:02d}-{key % 100:02d}",
    ),
    "month-of-year": (lambda date: date.month, calendar.month_name.__getitem__),
    "weekday": (lambda date: date.day_of_week, calendar.day_name.__getitem__),
    "hour-of-day": (lambda date: date.hour, "{0:02d}:00–{0:02d}:59".format),
}
#: As many groups of numbers as a message proposes.
PROPOSED = 4
#: More are refused as environments anyhow.
MOST_GROUPS = 1000


class Bin(str):
    """A label that sorts by the values it stands for: "age under 30" before "age 100–120".

    >>> sorted([Bin("age 100–120", 2), Bin("age under 30", 0), Bin("age 30–99", 1)])
    ['age under 30', 'age 30–99', 'age 100–120']
    """

    rank: int

    def __new__(cls, text: str, rank: int) -> Bin:
        label = super().__new__(cls, text)
        label.rank = rank
        return label

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return str(self), self.rank

    def __lt__(self, other: str) -> bool:
        return self.rank < other.rank if isinstance(other, Bin) else str.__lt__(self, other)

    def __gt__(self, other: str) -> bool:
        return self.rank > other.rank if isinstance(other, Bin) else str.__gt__(self, other)

    def __le__(self, other: str) -> bool:
        return not self > other

    def __ge__(self, other: str) -> bool:
        return not self < other


def bin_environments(column: pd.Series, how: str | int | Sequence[float]) -> tuple[pd.Series, tuple[str, ...]]:
    """Group the rows by a date or a number; every row comes into exactly one group.

    Parameters
    ----------
    column : (n,) dates (or text such as 2024-05-31 or 31.05.2024) or numbers; where it is missing, so is the group
    how : a part of the date ("year", "quarter", "month", "week", "day" in the order of time; "month-of-year",
        "weekday", "hour-of-day" that come again), a number of groups of about equal size, or the edges between groups,
        each of which belongs to the group above it

    Returns
    -------
    labels : (n,) in the user's units, sorting in the order of the values
    notes : if there are fewer groups than asked for, and how dates are read that could be read in another way

    Equal values are never split over two groups. It cannot tell whether the groups mean anything: an effect that
    changes smoothly with age differs between any two groups of ages.

    >>> ages = pd.Series([17, 22, 28, 40, 41, 90], name="age")
    >>> bin_environments(ages, 3)[0].tolist()
    ['age 17–22', 'age 17–22', 'age 28–40', 'age 28–40', 'age 41–90', 'age 41–90']
    >>> bin_environments(ages, [30, 65])[0].unique().tolist()
    ['age under 30', 'age 30–64', 'age 65 and over']
    >>> bin_environments(pd.Series(["2024-05-31", "2023-01-01"], name="day"), "quarter")[0].tolist()
    ['2024-Q2', '2023-Q1']
    """
    option = spelt("env_bins")
    if isinstance(how, str):
        if how not in DATE_BINS:
            raise InputError(
                f'{option} is "{how}": give one of {", ".join(DATE_BINS)}, a number of groups, or the edges of groups'
            )
        dates, note = _dates(column, how)
        codes, texts = _parts_of_dates(dates, how)
        return _labelled(column, codes, texts), (note,) if note else ()
    kind = kind_of(column)
    if kind != "numbers":
        dated = kind == "dates" or (kind == "text" and look_like_dates(column))
        remedy = f"pass {spelt('env_bins', 'month')}, say" if dated else f"leave out {option}"
        raise InputError(f'column "{column.name}" is {kind}, which cannot be cut into groups of numbers: {remedy}')
    values: Floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(how, REAL):
        if isinstance(how, int | np.integer) and how < 2:
            raise InputError(f"{option} is {shown(how)}: invariance compares at least 2 groups")
        return _quantile_groups(column, values, whole_number(how, option, 2, MOST_GROUPS))
    return _groups_between(column, values, _edges(how, option))


def _edges(how: Any, option: str) -> Floats:
    text = shown(how)
    try:
        edges = np.asarray([] if isinstance(how, Set) else list(how), dtype=np.float64)  # a set has no order
        text = f"({', '.join(f'{edge:g}' for edge in edges)})" if len(edges) < MOST_GROUPS else text
    except (TypeError, ValueError):
        edges = np.empty(0)
    if (
        edges.ndim != 1
        or not 0 < edges.size < MOST_GROUPS
        or not np.isfinite(edges).all()
        or (np.diff(edges) <= 0).any()
    ):
        raise InputError(
            f"{option} is {text}: give the edges between groups as numbers that go up, at most {MOST_GROUPS - 1}"
        )
    return edges


def _labelled(column: pd.Series, codes: Integers, texts: Sequence[str]) -> pd.Series:
    """The label of every row; code -1 is missing."""
    labels = np.array([*(Bin(text, rank) for rank, text in enumerate(texts)), None], dtype=object)
    return pd.Series(labels[codes], index=column.index, name=column.name, dtype=object)


# --- dates ------------------------------------------------------------------------------------------------------------
def _dates(column: pd.Series, how: str) -> tuple[pd.Series, str]:
    kind = kind_of(column)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return column, ""
    if kind in ("dates", "text") and not pd.api.types.is_timedelta64_dtype(column.dtype):
        return dates_of(column, order_matters=how != "year")
    remedy = f"pass {spelt('env_bins', PROPOSED)} for that many groups" if kind == "numbers" else "name another column"
    raise InputError(f'column "{column.name}" holds {kind}, not dates: {remedy}')


def _parts_of_dates(dates: pd.Series, how: str) -> tuple[Integers, list[str]]:
    known = dates.notna().to_numpy()
    number_of, text_of = DATE_BINS[how]
    keys, inverse = np.unique(number_of(dates[known].dt).to_numpy(dtype=np.int64), return_inverse=True)
    codes = np.full(len(dates), -1, dtype=np.intp)
    codes[known] = inverse
    return codes, [text_of(int(key)) for key in keys]


# --- numbers ----------------------------------------------------------------------------------------------------------
def _quantile_groups(column: pd.Series, values: Floats, count: int) -> tuple[pd.Series, tuple[str, ...]]:
    known = values[~np.isnan(values)]
    cuts = _even_cuts(known, count)
    groups, codes = np.unique(np.searchsorted(cuts, known, side="left"), return_inverse=True)
    members = pd.Series(known).groupby(codes)
    placed = np.full(len(values), -1, dtype=np.intp)
    placed[~np.isnan(values)] = codes
    labels = _labelled(column, placed, _ranges(str(column.name), members.min().tolist(), members.max().tolist()))
    sizes = np.bincount(codes, minlength=1)
    if len(groups) == count and sizes.max() <= 2 * sizes.min():
        return labels, ()
    wanted = "" if len(groups) == count else f" instead of {count}"
    rows = ", ".join(f"{size:,}" for size in sizes)
    why = f'"{column.name}" is cut into {len(groups)} groups{wanted}, of {rows} rows: equal values stay together.'
    return labels, (why,)


def _even_cuts(values: Floats, count: int) -> Floats:
    """Values between groups that are as even as ties allow; each belongs to the group below it."""
    distinct, occurrences = np.unique(values, return_counts=True)
    up_to = np.cumsum(occurrences)
    cuts: list[int] = []
    for left in range(count, 1, -1):
        first, done = (cuts[-1] + 1, up_to[cuts[-1]]) if cuts else (0, 0)
        goal = done + (len(values) - done) / left
        cut = int(np.searchsorted(up_to, goal))
        if cut > first and goal - up_to[cut - 1] < up_to[cut] - goal:
            cut -= 1
        if cut >= len(distinct) - 1:
            break
        cuts.append(cut)
    return distinct[cuts]


def _ranges(name: str, lowest: Sequence[float], highest: Sequence[float]) -> list[str]:
    """Labels such as "age 17–28", with as few digits as keep neighbours apart.

    Measurements with many decimals have neighbours so close that nobody wants to see all digits: there bounds may
    look the same, as in "2.1–3.4" and "3.4–5".
    """
    for digits, apart in [(3, True), (4, True), *((digits, False) for digits in range(3, 18))]:
        low, high = ([_number(value, digits) for value in bounds] for bounds in (lowest, highest))
        texts = [_range(*pair) for pair in zip(low, high, strict=True)]
        touching = apart and any(a == b for a, b in zip(low[1:], high[:-1], strict=True))
        if not touching and len(set(texts)) == len(texts):
            break
    return [f"{name} {text}" for text in texts]


def _range(low: str, high: str) -> str:
    if low == high:
        return low
    return f"{low} to {high}" if low.startswith("-") or high.startswith("-") else f"{low}–{high}"


def _number(value: float, digits: int) -> str:
    if float(value).is_integer():
        return str(int(value))
    return np.format_float_positional(value, precision=digits, fractional=False, trim="-")


def _groups_between(column: pd.Series, values: Floats, edges: Floats) -> tuple[pd.Series, tuple[str, ...]]:
    known = ~np.isnan(values)
    whole = bool((values[known] == np.floor(values[known])).all())
    # "30–49" is clearer than "30–50", and the same where there are only whole years
    below = [_number(edge - 1 if whole and float(edge).is_integer() else edge, 17) for edge in edges[1:]]
    at = [_number(edge, 17) for edge in edges]
    middle = [_range(low, high) for low, high in zip(at[:-1], below, strict=True)]
    texts = [f"{column.name} {text}" for text in (f"under {at[0]}", *middle, f"{at[-1]} and over")]
    codes = np.where(known, np.searchsorted(edges, values, side="right"), -1).astype(np.intp)
    empty = [text for rank, text in enumerate(texts) if rank not in set(np.unique(codes))]
    return _labelled(column, codes, texts), (f"No row has {', '.join(empty)}.",) if empty else ()
