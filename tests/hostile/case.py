"""A hostile input: how it is made from a plain one, and what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: What may be right. The last is for what is odd but has an answer: finite, or NaN with a note.
REFUSED, SAME, REFUSED_OR_SAME, SOUND = "refused", "same", "refused or same", "sound or refused"


@dataclass(frozen=True)
class Input:
    """``make`` turns the plain value into the hostile one, and a call with it ends as ``expected``.

    Where that is "same", the numbers are those of a call with ``like`` of the plain value (itself, unless said), up to
    ``rtol``. ``says`` are words, as a pattern, that a refusal must have, so that it is about this input alone.
    """

    name: str
    make: Callable[[Any], Any]
    expected: str = REFUSED
    like: Callable[[Any], Any] | None = None
    says: str = ""
    rtol: float = 1e-9


def settings(says: str, refused: tuple[Any, ...], taken: tuple[Any, ...] = ()) -> list[Input]:
    """Values of a setting: those to be refused in words that name it, and those that are odd but mean something."""
    return [
        *(Input(_name(value), lambda _, value=value: value, REFUSED, says=says) for value in refused),
        *(Input(_name(value), lambda _, value=value: value, SOUND) for value in taken),
    ]


def _name(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # whole numbers of thousands of digits have no text
        text = "huge"
    return f"{type(value).__name__} {text}"[:40].encode("ascii", "backslashreplace").decode().replace("\n", " ")
