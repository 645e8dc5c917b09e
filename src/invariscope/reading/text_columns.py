"""Text as tables really hold it: stray blanks, numbers written as text, decimal commas. Nothing is mended unsaid."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from invariscope.errors import InputError
from invariscope.reading.read_table import MISSING
from invariscope.reading.spelling import PYTHON, Spelling

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(_NUMBER)
_COMMA = re.compile(r"[+-]?\d*,\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_CODE = re.compile(r"0\d+")


@dataclass
class TextRemarks:
    """What was found while cleaning text, column by column."""

    blanks: list[str] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)
    markers: list[str] = field(default_factory=list)

    def notes(self) -> tuple[str, ...]:
        """One sentence for each kind of remark."""
        said = {
            "Blanks around the texts are taken off: {}.": self.blanks,
            "Written as text and read as numbers: {}.": self.numbers,
            "Taken as a level of its own, not as missing: {}.": self.markers,
        }
        return tuple(sentence.format(", ".join(names)) for sentence, names in said.items() if names)


def cleaned(column: pd.Series, remarks: TextRemarks, *, numbers: bool = True, spell: Spelling = PYTHON) -> pd.Series:
    """Text without stray blanks; numbers where all of it is numbers, blanks and signs such as "?" aside.

    Texts such as 007 are codes, not numbers. A comma is taken as a decimal comma if it cannot stand between thousands.
    With ``numbers=False`` it stays text.

    >>> remarks = TextRemarks()
    >>> cleaned(pd.Series([" 1,5", "2,25 ", "?"], name="dose"), remarks).tolist()
    [1.5, 2.25, nan]
    >>> remarks.notes()
    ('Written as text and read as numbers: dose (decimal comma, 1 × "?" as missing).',)
    >>> cleaned(pd.Series(["007", "011"], name="code"), remarks).tolist()
    ['007', '011']
    """
    codes, levels = pd.factorize(column)  # every text is looked at once, however many rows have it
    texts = [str(level).strip() for level in levels]
    marked = [text in MISSING for text in texts]
    rest = [text for text, marker in zip(texts, marked, strict=True) if not marker]
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    signs = [
        f'{count:,} × "{text}"' for text, count, marker in zip(texts, counts, marked, strict=True) if marker and text
    ]
    name = str(column.name)
    comma = numbers and _has_decimal_comma(rest, name, spell)
    if numbers and rest and not any(map(_CODE.fullmatch, rest)) and (comma or all(map(_PLAIN.fullmatch, rest))):
        how = [*(["decimal comma"] if comma else []), *(f"{sign} as missing" for sign in signs)]
        remarks.numbers.append(f"{name} ({', '.join(how)})" if how else name)
        values = [np.nan if m else float(text.replace(",", ".")) for text, m in zip(texts, marked, strict=True)]
        return pd.Series(np.array([*values, np.nan])[codes], index=column.index, name=column.name)
    if signs:
        remarks.markers.append(f"{name} ({', '.join(signs)})")
    if any(text != level for text, level in zip(texts, levels, strict=True)):
        if all(isinstance(level, str) for level in levels):
            remarks.blanks.append(name)
        known = np.array([*(text or None for text in texts), None], dtype=object)
        return pd.Series(known[codes], index=column.index, name=column.name, dtype="str")
    return column


def _has_decimal_comma(texts: list[str], name: str, spell: Spelling) -> bool:
    """All are numbers, some with a comma in the place of the point; refused where it could be thousands as well."""
    with_comma = [text for text in texts if _COMMA.fullmatch(text) or _THOUSANDS.fullmatch(text)]
    if not with_comma or not all(map(_PLAIN.fullmatch, set(texts) - set(with_comma))):
        return False
    if not all(map(_COMMA.fullmatch, with_comma)) or all(map(_THOUSANDS.fullmatch, with_comma)):
        raise InputError(
            f'column "{name}" holds texts such as "{with_comma[0]}", whose comma may mean decimals or thousands: '
            f"write them as numbers, or pass {spell('categories', name)} or {spell('drop', name)}"
        )
    return True
