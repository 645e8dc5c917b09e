"""Numbers and dates as people write them: decimal commas, percent signs, 31.05.2024; read where there is one way to."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.rows.spelling import spelling, spelt

#: A column of text is one of numbers or dates, with something else in between, from this share of its rows on.
MOSTLY = 0.9
#: Strange texts listed before "and N more".
STRANGE_LIMIT = 5
#: Rows that tell at a glance whether a column holds dates.
BEGINNING = 1000
# "1.5", "2e3", "1,234.50": a point before decimals, commas between thousands
_POINT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?)")
# "1,5", "1.234,50": a comma before decimals, points between thousands
_COMMA = re.compile(r"[+-]?(?:\d+|\d*,\d+|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?)")
_CODE = re.compile(r"0\d+")
_YEAR_FIRST = re.compile(r"(\d{4})([-./])(\d{1,2})\2(\d{1,2})(?:[T ]+(\d.*))?")
_YEAR_LAST = re.compile(r"(\d{1,2})([-./])(\d{1,2})\2(\d{4})(?:[T ]+(\d.*))?")


def mostly_numbers(column: pd.Series) -> bool:
    """Whether nearly all texts of a column are numbers."""
    return _mostly(column, is_number)


def _mostly(column: pd.Series, test: Callable[[str], object]) -> bool:
    counts = column.value_counts()
    passed = np.array([bool(test(str(text).strip())) for text in counts.index.tolist()], dtype=bool)
    return bool(counts[passed].sum() >= MOSTLY * max(counts.sum(), 1))


# --- numbers ----------------------------------------------------------------------------------------------------------
class AmbiguousNumbersError(ValueError):
    """The texts are numbers, but which ones can be read in several ways."""


def is_number(text: str) -> bool:
    """Whether a text is a number in one way of writing or another.

    >>> [is_number(text) for text in ("1.5", "1,234.50", "1.234,50", "12 %", "1.2.3", "-", "5 kg")]
    [True, True, True, True, False, False, False]
    """
    body = _body(text)
    return bool(_POINT.fullmatch(body) or _COMMA.fullmatch(body))


def is_code(text: str) -> bool:
    """Whether a text is one that loses something as a number: the zeros of 007.

    >>> is_code("007"), is_code("0"), is_code("0.7")
    (True, False, False)
    """
    return bool(_CODE.fullmatch(text))


def numbers_of(texts: Sequence[str]) -> tuple[list[float], list[str]]:
    """The numbers that a column of texts stands for, and what about the way they are written must be told.

    Parameters
    ----------
    texts : for each of which :func:`is_number` holds

    Raises
    ------
    AmbiguousNumbersError : they can be read in several ways; it says which texts, and why

    >>> numbers_of(["1,234.50", "7"])
    ([1234.5, 7.0], ['commas between thousands'])
    >>> numbers_of(["1.234,50", "0,5"])
    ([1234.5, 0.5], ['decimal comma', 'points between thousands'])
    >>> numbers_of(["12.5%", "7%"])
    ([12.5, 7.0], ['percent signs taken off'])
    >>> numbers_of(["1,234", "7"])
    Traceback (most recent call last):
    invariscope.reading.written_values.AmbiguousNumbersError: "1,234", whose comma may mean decimals or thousands
    """
    bodies = [_body(text) for text in texts]
    how = _percent_signs(texts, bodies)
    with_comma = [body for body in bodies if "," in body]
    by_point, by_comma = (all(map(style.fullmatch, bodies)) for style in (_POINT, _COMMA))
    if with_comma and by_point and by_comma:
        raise AmbiguousNumbersError(f'"{with_comma[0]}", whose comma may mean decimals or thousands')
    if by_point:
        how += ["commas between thousands"] if with_comma else []
        return [float(body.replace(",", "")) for body in bodies], how
    if not by_comma:
        pair = [next(body for body in bodies if not style.fullmatch(body)) for style in (_POINT, _COMMA)]
        raise AmbiguousNumbersError(f'"{pair[0]}" and "{pair[1]}", one with a decimal comma and one with a point')
    how += ["decimal comma"] if with_comma else []
    how += ["points between thousands"] if any("." in body for body in bodies) else []
    return [float(body.replace(".", "").replace(",", ".")) for body in bodies], how


def _percent_signs(texts: Sequence[str], bodies: Sequence[str]) -> list[str]:
    """What must be told about percent signs: all texts have one, or none has."""
    plain, percent = ([text for text, body in zip(texts, bodies, strict=True) if (text == body) is same]
                      for same in (True, False))  # fmt: skip
    if plain and percent:
        raise AmbiguousNumbersError(f'"{percent[0]}" and "{plain[0]}", with and without a percent sign')
    return ["percent signs taken off"] if percent else []


def _body(text: str) -> str:
    """The text without a percent sign."""
    return text[:-1].rstrip() if text.endswith("%") else text


# --- dates ------------------------------------------------------------------------------------------------------------
def look_like_dates(column: pd.Series) -> bool:
    """Whether nearly all texts of a column have the form of a date with a day.

    >>> [look_like_dates(pd.Series([text])) for text in ("2024-05-31", "31/05/2024 7:30", "2024", "1.5", "Bern")]
    [True, True, False, False, False]
    """
    # what begins with other things need not be looked at to its end
    return all(_mostly(part, _parts) for part in (column.iloc[:BEGINNING], column))


def dates_of(column: pd.Series, *, order_matters: bool = True) -> tuple[pd.Series, str]:
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
        strange = (iso.isna() & column.notna()).to_numpy()
        if len(marks) == 1:  # what has no date's form is to be told, not that the others have another form
            strange = strange & np.array([*(part is None for part in parts), False])[codes]
        raise _strange_dates(column, known[strange])
    year_first, mark = marks.pop()
    forms = ("ymd",) if year_first else ("dmy", "mdy")
    read = {form: _in_order(parts, form) for form in forms}
    valid = [form for form, dates in read.items() if dates.notna().all()]
    if not valid:
        wrong = read[forms[0]].isna()
        raise _strange_dates(column, known[np.append(wrong, False)[codes]])
    if len(valid) == 2 and mark != "." and order_matters:
        raise InputError(
            f'column "{column.name}" holds dates such as "{texts[0]}", of which the day or the month may come first: '
            f"write them as 2024-05-31, or pass {spelt('env_bins', 'year')}, for which it does not matter"
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
        match = form.fullmatch(text)
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


def _strange_dates(column: pd.Series, strangers: pd.Series) -> InputError:
    texts = [str(text) for text in strangers.unique()]
    if not look_like_dates(column):
        remedy = f"name a column of dates, or leave out {spelt('env_bins')}"
    elif len(texts) <= STRANGE_LIMIT:
        both = " " if spelling().shell else " and "
        leave_out = f"{spelling().each('na', texts)}{both}{spelt('missing', 'drop-rows')}"
        remedy = f"write all dates that way, or leave these rows out with {leave_out}"
    else:
        remedy = "write all dates that way"
    return InputError(
        f'column "{column.name}" holds "{texts[0]}", which is no date of the form 2024-05-31 '
        f"(in {len(strangers):,} of {len(column):,} rows): {remedy}"
    )
