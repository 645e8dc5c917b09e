"""Dates written as text: 2024-05-31, 31.05.2024, 5/31/2024; read where it is clear which part is the day."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.options import PYTHON, Spelling
from invariscope.reading.text_columns import MOSTLY, STRANGE_LIMIT

#: Rows that tell at a glance whether a column holds dates.
BEGINNING = 1000
_YEAR_FIRST = re.compile(r"(\d{4})([-./])(\d{1,2})\2(\d{1,2})(?:[T ]+(\d.*))?")
_YEAR_LAST = re.compile(r"(\d{1,2})([-./])(\d{1,2})\2(\d{4})(?:[T ]+(\d.*))?")


def look_like_dates(column: pd.Series) -> bool:
    """Whether nearly all texts of a column have the form of a date with a day.

    >>> [look_like_dates(pd.Series([text])) for text in ("2024-05-31", "31/05/2024 7:30", "2024", "1.5", "Bern")]
    [True, True, False, False, False]
    """
    # what begins with other things need not be looked at to its end
    return all(_mostly_dates(part) for part in (column.iloc[:BEGINNING], column))


def _mostly_dates(column: pd.Series) -> bool:
    counts = column.value_counts()
    dated = np.array([bool(_parts(str(text))) for text in counts.index.tolist()], dtype=bool)
    return bool(counts.sum() and counts[dated].sum() >= MOSTLY * counts.sum())


def dates_of(column: pd.Series, *, order_matters: bool = True, spell: Spelling = PYTHON) -> tuple[pd.Series, str]:
    """Text (or Python's dates) as pandas dates, and a note if the form is not that of ISO 8601.

    With points, the day comes first (31.05.2024). With slashes or dashes it is first if that gives a date in every row,
    and putting the month first does not; and the other way round. Where both do, the column is refused, unless
    the order does not matter (``order_matters=False``: for the year, say).

    >>> dates, note = dates_of(pd.Series(["5/31/2024", "6/1/2024"], name="admitted"))
    >>> dates.dt.month.tolist(), note
    ([5, 6], 'Dates in "admitted" are read as month/day/year: "5/31/2024" is 2024-05-31.')
    """
    known = column.astype(object).where(column.notna(), None)
    try:
        return pd.to_datetime(known, format="ISO8601"), ""
    except (ValueError, TypeError):
        iso = pd.to_datetime(known, format="ISO8601", errors="coerce", utc=True)
    if not (iso.isna() & column.notna()).any():
        return iso, ""  # several time zones: what they have in common is UTC
    codes, levels = pd.factorize(known)
    texts = [str(level).strip() for level in levels]
    parts = [_parts(text) for text in texts]
    # one way of writing in the whole column: 31.05.2024 among 05/31/2024 says nothing about which part is the day
    marks = {(part[0], part[1]) for part in parts if part}
    if not all(parts) or len(marks) > 1:
        raise _strange_dates(column, known[iso.isna() & column.notna()], spell)
    year_first, mark = marks.pop()
    forms = ("ymd",) if year_first else ("dmy", "mdy")
    read = {form: _in_order(parts, form) for form in forms}
    valid = [form for form, dates in read.items() if dates.notna().all()]
    if not valid:
        wrong = read[forms[0]].isna()
        raise _strange_dates(column, known[np.append(wrong, False)[codes]], spell)
    if len(valid) == 2 and mark != "." and order_matters:
        raise InputError(
            f'column "{column.name}" holds dates such as "{texts[0]}", of which the day or the month may come first: '
            f"write them as 2024-05-31, or pass {spell('env_bins', 'year')}, for which it does not matter"
        )
    dates = read[valid[0]]
    values = dates.to_numpy()
    missing = np.array([np.datetime64("NaT")], dtype=values.dtype)
    column_of_dates = pd.Series(np.concatenate([values, missing])[codes], index=column.index, name=column.name)
    return column_of_dates, _note_on_order(column, texts, dates, valid[0], mark)


def _note_on_order(column: pd.Series, texts: list[str], dates: pd.DatetimeIndex, form: str, mark: str) -> str:
    """How the dates are read, with an example that shows the order, if there is one."""
    shown = mark.join({"d": "day", "m": "month", "y": "year"}[part] for part in form)
    example = int(np.argmax(dates.day > 12))
    return f'Dates in "{column.name}" are read as {shown}: "{texts[example]}" is {dates[example]:%Y-%m-%d}.'


def _parts(text: str) -> tuple[bool, str, tuple[int, int, int], str] | None:
    """Whether the year is first, what stands between the parts, the parts as they stand, and the time of day."""
    for year_first, form in ((True, _YEAR_FIRST), (False, _YEAR_LAST)):
        match = form.fullmatch(text.strip())
        if match:
            first, mark, second, third, time = match.groups()
            return year_first, mark, (int(first), int(second), int(third)), time or ""
    return None


def _in_order(written: list[tuple[bool, str, tuple[int, int, int], str] | None], form: str) -> pd.DatetimeIndex:
    """The dates if the parts come in this order ("dmy"), missing where there is no such date."""
    iso = []
    for parts in written:
        assert parts is not None
        part = dict(zip(form, parts[2], strict=True))
        time = parts[3] if parts[3][1:2] != ":" else f"0{parts[3]}"
        iso.append(f"{part['y']:04d}-{part['m']:02d}-{part['d']:02d}" + (f"T{time}" if time else ""))
    return pd.DatetimeIndex(pd.to_datetime(pd.Series(iso, dtype=object), format="ISO8601", errors="coerce"))


def _strange_dates(column: pd.Series, strangers: pd.Series, spell: Spelling) -> InputError:
    texts = [str(text) for text in strangers.unique()]
    if not look_like_dates(column):
        remedy = f"name a column of dates, or leave out {spell('env_bins')}"
    elif len(texts) <= STRANGE_LIMIT:
        leave_out = f"{spell.each('na', texts)} {'' if spell.shell else 'and '}{spell('missing', 'drop-rows')}"
        remedy = f"write all dates that way, or leave these rows out with {leave_out}"
    else:
        remedy = "write all dates that way"
    return InputError(
        f'column "{column.name}" holds "{texts[0]}", which is no date of the form 2024-05-31 '
        f"(in {len(strangers):,} of {len(column):,} rows): {remedy}"
    )
