"""Names shortened so that they stay apart: on axes, in tables, on the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from invariscope.wording import SEAM, clean, numbered
from invariscope.wording import names as told_apart

#: Letters of a name that is shown whole somewhere: in a sentence, a note, or when it is pointed at.
LONGEST = 300
#: Letters of a name in a heading or a sentence of the page.
SPOKEN = 40
#: Rounds of looking where names that still read the same part; what then does is numbered.
ROUNDS = 8


def cells(text: str) -> int:
    """The width of a text in letters: those of East Asia are twice as wide.

    >>> cells("Tokyo"), cells("東京")
    (5, 4)
    """
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def distinct(texts: Sequence[str], limit: int) -> tuple[str, ...]:
    """Names at most ``limit`` letters wide that can still be told apart: where beginnings agree, what differs is shown.

    >>> distinct(["station 1, north", "station 2, north", "harbour"], 8)
    ('…1, nor…', '…2, nor…', 'harbour')
    >>> distinct(["blood pressure, systolic", "blood pressure, diastolic"], 15)
    ('blo…systolic', 'blo…diastolic')
    """
    lines = [clean(text) for text in texts]
    shown = [cut(line, limit) for line in lines]
    for _ in range(ROUNDS):
        groups = _alike(shown)
        if not groups:
            break
        for group in groups:
            start = _parting([lines[k] for k in group], limit)
            for k in group:
                shown[k] = _from(lines[k], start, limit)
    return numbered(shown, lambda text, taken: cut(text, limit - taken))


def among(name: Any, names: Iterable[Any], limit: int = SPOKEN) -> str:
    """One of these names, shortened for a heading or a sentence so that it cannot be taken for another of them.

    >>> among("ward 2 of the hospital", ["ward 1 of the hospital", "ward 2 of the hospital"], 14)
    'ward 2 of the…'
    """
    labels = list(names)
    return distinct(told_apart(labels), limit)[labels.index(name)]


Record = TypeVar("Record")


def abridged(record: Record, names: Iterable[Any]) -> Record:
    """A copy of a record in which these names of a user's, where they are too long to be read, are shortened together.

    Wherever they stand, as labels, as keys or inside a sentence: a page repeats them hundreds of times.

    >>> abridged({"a" * 999: "a" * 999 + " pays"}, ["a" * 999, "b"]) == {"a" * 299 + "…": "a" * 299 + "… pays"}
    True
    """
    texts = list(dict.fromkeys(str(name) for name in names if isinstance(name, str)))
    if all(len(text) <= LONGEST for text in texts):
        return record
    shown = {text: name for text, name in zip(texts, distinct(texts, LONGEST), strict=True) if len(text) > LONGEST}
    shown |= {clean(text): name for text, name in shown.items()}
    # the longest first: one may be part of another
    rewritten: Record = _rewritten(record, sorted(shown.items(), key=lambda item: -len(item[0])))
    return rewritten


def _rewritten(part: Any, shown: Sequence[tuple[str, str]]) -> Any:
    """A value with all texts in it rewritten."""
    if isinstance(part, str):
        for long, name in shown:
            part = part.replace(long, name) if len(part) >= len(long) else part
        return part
    if isinstance(part, Mapping):
        return {_rewritten(key, shown): _rewritten(value, shown) for key, value in part.items()}
    if isinstance(part, tuple | list):
        return type(part)(_rewritten(one, shown) for one in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: _rewritten(getattr(part, one.name), shown) for one in fields(part)})
    return part


def cut(text: str, limit: int) -> str:
    """The beginning of a text, with an ellipsis where something is missing.

    >>> cut("a very long name of a hospital", 12)
    'a very long…'
    """
    if len(text) <= limit and cells(text) <= limit:
        return text
    kept = text[: max(limit - 1, 0)]
    while cells(kept) > max(limit - 1, 0):
        kept = kept[:-1]
    return kept.rstrip() + "…"


def _alike(shown: Sequence[str]) -> list[list[int]]:
    """The places of names that read the same, group by group."""
    places: dict[str, list[int]] = {}
    for k, text in enumerate(shown):
        places.setdefault(text, []).append(k)
    return [group for group in places.values() if len(group) > 1]


def _parting(lines: Sequence[str], limit: int) -> int:
    """From where on these names are shown.

    From the first seam behind which they fit, or else the last one before they part, as long as the letter that differs
    can be seen; without a seam, with as much before that letter as after it.
    """
    first, last = min(lines), max(lines)  # in the order of the alphabet, all others lie between these
    parted = (k for k, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    common = first[: next(parted, len(first))]
    room = max(limit - _head(limit) - 4, 0)  # two ellipses, and a letter that may be wide
    before = room
    while cells(common[len(common) - before :]) > room:
        before -= 1
    window = max(len(common) - before, 0)
    seams = [seam.end() for seam in SEAM.finditer(common, window)]
    if not seams:
        return len(common) - min(before, len(common)) // 2
    longest = max(map(len, lines))
    return next((seam for seam in seams if longest - seam <= room + 2), seams[-1])


def _from(line: str, start: int, limit: int) -> str:
    """A name without what lies between its first letters, whole words if possible, and ``start``."""
    head = line[: _head(limit)]
    while cells(head) > _head(limit):
        head = head[:-1]
    if start <= len(head) + 1:
        return cut(line, limit)
    whole_words = [seam.start() for seam in SEAM.finditer(head) if seam.start()]
    head = head[: whole_words[-1]] if whole_words and not SEAM.match(line, len(head)) else head
    return f"{head}…{cut(line[start:], limit - cells(head) - 1)}"


def _head(limit: int) -> int:
    """How many of the first letters are kept: a quarter, unless that says nothing."""
    return limit // 4 if limit >= 12 else 0
