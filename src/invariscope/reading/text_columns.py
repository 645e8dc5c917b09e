"""Text as tables really hold it: stray blanks, signs for missing values, numbers. Nothing is mended unsaid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.read_table import MISSING, kind_of
from invariscope.reading.written_values import (
    MOSTLY,
    STRANGE_LIMIT,
    AmbiguousNumbersError,
    is_code,
    is_number,
    numbers_of,
)
from invariscope.rows.spelling import spelling, spelt

#: A target with more different numbers is an amount, not a class.
CLASS_LIMIT = 20


@dataclass
class TextRemarks:
    """What was found while cleaning text, column by column."""

    blanks: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def notes(self) -> tuple[str, ...]:
        """One sentence for each kind of remark."""
        said = {
            "Read as missing: {}.": self.missing,
            "Blanks around the texts are taken off: {}.": self.blanks,
            "Written as text and read as numbers: {}.": self.numbers,
            "Kept as text because of leading zeros: {}.": self.codes,
            "Taken as a level of its own, not as missing: {}.": self.markers,
        }
        return tuple(sentence.format(", ".join(dict.fromkeys(names))) for sentence, names in said.items() if names)


def without(column: pd.Series, na: Sequence[str], remarks: TextRemarks) -> pd.Series:
    """The column with gaps where it holds one of the texts that mean "missing"; numbers are compared as numbers.

    >>> remarks = TextRemarks()
    >>> without(pd.Series(["a", "- "], name="dose"), ["-"], remarks).isna().tolist()
    [False, True]
    >>> without(pd.Series([1.5, -9.0, -9.0], name="age"), ["-", "-9"], remarks).tolist(), remarks.notes()
    ([1.5, nan, nan], ('Read as missing: dose (1 × "-"), age (2 × "-9").',))
    """
    kind = kind_of(column) if na else ""
    values: dict[str, Iterable[Any]] = {}
    if kind == "text":
        stripped = pd.Series({level: str(level).strip() for level in column.dropna().unique()}, dtype=object)
        values = {text: stripped.index[stripped == text] for text in na}
    elif kind == "numbers" and not pd.api.types.is_bool_dtype(column.dtype):
        values = {text: [float(text)] for text in na if is_number(text) and "," not in text and "%" not in text}
    hits = {text: column.isin(wanted) for text, wanted in values.items()}
    counts = {text: int(hit.sum()) for text, hit in hits.items()}
    if not any(counts.values()):
        return column
    remarks.missing.append(f"{column.name} ({_counted(counts)})")
    return column.mask(np.logical_or.reduce([hit.to_numpy() for hit in hits.values()]))


def cleaned(
    column: pd.Series,
    remarks: TextRemarks,
    *,
    numbers: bool = True,
    option: str = "features",
) -> pd.Series:
    """Text without stray blanks; numbers where all of it is numbers, blanks and signs such as "?" aside.

    Texts such as 007 are codes, not numbers. Commas and points are taken for decimals or thousands where they can mean
    one of the two only. With ``numbers=False`` it stays text.

    Raises
    ------
    InputError : numbers that can be read in two ways, or numbers in most rows and something else in the others

    >>> remarks = TextRemarks()
    >>> cleaned(pd.Series([" 1,5", "2,25 ", "?"], name="dose"), remarks).tolist()
    [1.5, 2.25, nan]
    >>> remarks.notes()
    ('Written as text and read as numbers: dose (decimal comma, 1 × "?" as missing).',)
    >>> cleaned(pd.Series(["007", "011"], name="code"), remarks).tolist()
    ['007', '011']
    """
    codes, uniques = pd.factorize(column)  # every text is looked at once, however many rows have it
    levels = np.asarray(uniques, dtype=object).tolist()
    texts = [str(level).strip() for level in levels]
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    tally = pd.Series(counts, index=pd.Index(texts, dtype=object))
    marked = np.array([text in MISSING for text in texts], dtype=bool)
    signs = tally[marked].drop("", errors="ignore").groupby(level=0, sort=False).sum().to_dict()
    name = str(column.name)
    values = _values(tally[~marked], signs, name, remarks, option) if numbers else None
    if values is not None:
        known = np.full(len(texts) + 1, np.nan)
        known[:-1][~marked] = values
        return pd.Series(known[codes], index=column.index, name=column.name)
    if signs:
        remarks.markers.append(f"{name} ({_counted(signs)})")
    if texts == levels:
        return column
    if all(isinstance(level, str) for level in levels):
        remarks.blanks.append(name)
    stripped = np.array([*(text or None for text in texts), None], dtype=object)
    return pd.Series(stripped[codes], index=column.index, name=column.name, dtype="str")


def _values(
    tally: pd.Series, signs: Mapping[Any, int], name: str, remarks: TextRemarks, option: str
) -> list[float] | None:
    """The numbers that the texts of a column stand for; none if they are codes, or texts for the most part."""
    is_numeric = np.array([is_number(text) for text in tally.index], dtype=bool)
    if any(map(is_code, tally.index)):
        if is_numeric.all():
            remarks.codes.append(name)
        return None
    if not is_numeric.all() or not len(tally):
        _refuse_numbers_and_texts(tally, is_numeric, name, option)
        return None
    try:
        values, how = numbers_of(list(tally.index))
    except AmbiguousNumbersError as why:
        raise InputError(
            f'column "{name}" holds texts such as {why}: write them as numbers{_or_no_number(name, option)}'
        ) from why
    remark = ", ".join([*how, *(f"{_counted({text: count})} as missing" for text, count in signs.items())])
    remarks.numbers.append(f"{name} ({remark})" if remark else name)
    return values


def _refuse_numbers_and_texts(rest: pd.Series, is_numeric: np.ndarray, name: str, option: str) -> None:
    """Numbers in most rows and a few texts: nobody means categories by that."""
    numbers, rows = int(rest[is_numeric].sum()), int(rest.sum())
    if numbers < MOSTLY * rows or numbers == rows or (option == "target" and is_numeric.sum() <= CLASS_LIMIT):
        return
    strange = rest[~is_numeric].groupby(level=0).sum().sort_values(ascending=False, kind="stable")
    more = f" and {len(strange) - STRANGE_LIMIT:,} other texts" if len(strange) > STRANGE_LIMIT else ""
    shown = strange.iloc[:STRANGE_LIMIT]
    remedy = "write numbers there" if more else f"pass {spelling().each('na', list(shown.index))} if that means missing"
    raise InputError(
        f'column "{name}" holds numbers in {numbers:,} of {rows:,} rows, and {_counted(shown.to_dict())}{more}: '
        f"{remedy}{_or_no_number(name, option)}"
    )


def _or_no_number(name: str, option: str) -> str:
    return f", or pass {spelt('categories', name)} or {spelt('drop', name)}" if option == "features" else ""


def _counted(counts: Mapping[Any, int]) -> str:
    return ", ".join(f'{count:,} × "{text}"' for text, count in counts.items() if count)
