"""Settings that are numbers: whole or not, within their bounds, or refused with the name they go by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.wording import short

WHOLE = (int, np.integer)
REAL = (int, float, np.integer, np.floating)
TRUTH = (bool, np.bool_)  # Python counts True as 1: nobody means one step by it


def whole_number(value: Any, name: str, least: int = 0, most: int | None = None) -> int:
    """A whole number from ``least`` to ``most``.

    >>> whole_number(np.int64(5), "steps", 1)
    5
    >>> whole_number(True, "steps", 1)
    Traceback (most recent call last):
    invariscope.errors.InputError: steps is True: give a whole number of at least 1
    """
    if (
        isinstance(value, WHOLE)
        and not isinstance(value, TRUTH)
        and least <= value <= (value if most is None else most)
    ):
        return int(value)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most:,}"
    raise InputError(f"{name} is {shown(value)}: give a whole number {bounds}")


def real_number(value: Any, name: str, least: float = 0.0, below: float = math.inf, *, above: bool = False) -> float:
    """A finite number of at least ``least`` (or ``above`` it) and below ``below``.

    >>> real_number(0.2, "held_out", below=1.0)
    0.2
    >>> real_number("0.1", "learning_rate", above=True)
    Traceback (most recent call last):
    invariscope.errors.InputError: learning_rate is '0.1': give a number above 0
    """
    number = isinstance(value, REAL) and not isinstance(value, TRUTH)
    if number and (value > least if above else value >= least) and value < below:
        return float(value)
    bounds = f"above {least:g}" if above else f"of at least {least:g}"
    raise InputError(
        f"{name} is {shown(value)}: give a number {bounds}{f' and below {below:g}' if below < math.inf else ''}"
    )


def shown(value: Any, limit: int = 60) -> str:
    """How Python writes a value, on one line and not without end."""
    try:
        return short(repr(value), limit)
    except ValueError:  # whole numbers of thousands of digits have no text
        return "a number of thousands of digits"
