"""Names shortened so that they stay apart: on axes, in tables, on the terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from invariscope.wording import clean

#: Rounds of looking where names that still read the same part; what then does is numbered.
ROUNDS = 8
#: Where a name may be cut without cutting a word or a number.
SEAM = re.compile(r"[^\w.,]+|_")


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
    return _numbered(shown, limit)


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


def _numbered(shown: Sequence[str], limit: int) -> tuple[str, ...]:
    """What still reads the same, numbered."""
    taken: set[str] = set()
    texts = []
    for text in shown:
        name, count = text, 1
        while name in taken:
            count += 1
            name = f"{cut(text, limit - len(f' ({count})'))} ({count})"
        taken.add(name)
        texts.append(name)
    return tuple(texts)
