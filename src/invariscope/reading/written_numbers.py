"""Numbers as people write them: decimal commas, thousands, percent signs; read where there is one way to, only."""

from __future__ import annotations

import re
from collections.abc import Sequence

# "1.5", "2e3", "1,234.50": a point before decimals, commas between thousands
_POINT = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?)")
# "1,5", "1.234,50": a comma before decimals, points between thousands
_COMMA = re.compile(r"[+-]?(?:\d+|\d*,\d+|[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?)")
_CODE = re.compile(r"0\d+")


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
    invariscope.reading.written_numbers.AmbiguousNumbersError: "1,234", whose comma may mean decimals or thousands
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
