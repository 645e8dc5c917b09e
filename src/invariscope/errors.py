"""The one exception a user meets when an input cannot be used."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

#: Letters of a word, and of a whole message, that are shown: users' labels may be of any length.
LONGEST_WORD, LONGEST = 300, 2000


class InputError(ValueError):
    """Input that cannot be used: the message names the place (column, environment, count) and the remedy.

    ``environments`` are those that could be dropped to make it usable. What a message quotes does no harm where it is
    printed: see :func:`readable`.
    """

    def __init__(self, message: str, *, environments: Iterable[Hashable] = ()) -> None:
        super().__init__(readable(message))
        self.environments = tuple(environments)


def readable(message: str) -> str:
    """A message for people: what is too long is cut in the middle, what no terminal should see is written as an escape.

    >>> print(readable("there is no site " + 1000 * "x" + "\\x1b[31m"))  # doctest: +ELLIPSIS
    there is no site xxx...xxx…xxx...xxx\\x1b[31m
    """
    words = re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: _cut(word[0], LONGEST_WORD), message)
    # cut again, since escapes are longer; the place stands at the beginning of a sentence, the remedy at its end
    return _cut(printable(_cut(words, LONGEST)), LONGEST)


def printable(text: object) -> str:
    """A text on one line that terminals show and do not obey: what is no letter is written as Python would write it.

    >>> print(printable("page\\x1b[31m.html"))
    page\\x1b[31m.html
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - limit // 3 - 1]}…{text[-(limit // 3) :]}"
