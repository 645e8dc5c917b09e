"""Settings that a user gives (draws, folds, seeds, shares, words): checked in one place, refused in the same words.

A truth value is no number here: ``n_boot=True`` is a slip, not one draw.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.spelling import spelling
from invariscope.wording import short

FEWEST_DRAWS = 99  # of an interval: its ends are then the third draws from either end
MOST_DRAWS = 1_000_000
MOST_FOLDS = 10_000  # each has moments of its own
BEYOND = 1e30  # of a weight or a damping: its square, times numbers of any size that rows may hold, is no number
POSITIVE = math.ulp(0.0)  # the least number above 0
WHOLE = (int, np.integer)
REAL = (int, float, np.integer, np.floating)
TRUTH = (bool, np.bool_)  # Python counts True as 1: nobody means one step by it
#: What a result says of itself where ``n_boot`` is 0.
NOT_DRAWN = "Nothing was drawn, as asked: no intervals and no p-value, only point estimates."


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, of Python or numpy."""
    return isinstance(value, WHOLE) and not isinstance(value, TRUTH)


def is_real(value: Any) -> bool:
    """Whether it is a number, of Python or numpy, that floats can hold."""
    beyond = isinstance(value, int) and abs(value) > sys.float_info.max
    return isinstance(value, REAL) and not isinstance(value, TRUTH) and not beyond


def whole_number(value: Any, name: str, least: int = 0, most: int | None = None) -> int:
    """A whole number from ``least`` to ``most``.

    >>> whole_number(np.int64(5), "steps", 1)
    5
    >>> whole_number(True, "steps", 1)
    Traceback (most recent call last):
    invariscope.errors.InputError: steps is True: give a whole number of at least 1
    """
    if is_whole(value) and least <= value <= (value if most is None else most):
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
    if is_real(value) and (value > least if above else value >= least) and value < below:
        return float(value)
    bounds = f"above {least:g}" if above else f"of at least {least:g}"
    raise InputError(
        f"{name} is {shown(value)}: give a number {bounds}{f' and below {below:g}' if below < math.inf else ''}"
    )


def switch(value: Any, name: str) -> bool:
    """Yes or no, of Python or numpy: every other thing would be one of the two as well, and not the one that is meant.

    >>> switch(np.True_, "exact")
    True
    >>> switch("no", "exact")
    Traceback (most recent call last):
    invariscope.errors.InputError: exact is 'no': give True or False
    """
    if isinstance(value, TRUTH):
        return bool(value)
    raise InputError(f"{name} is {shown(value)}: give True or False")


def one_of(value: Any, name: str, words: Iterable[str]) -> str:
    """One of several words.

    >>> one_of("normal", "law", ("uniform", "normal"))
    'normal'
    >>> one_of("gamma", "law", ("uniform", "normal"))
    Traceback (most recent call last):
    invariscope.errors.InputError: law "gamma" is unknown: use "uniform" or "normal"
    """
    *others, last = [f'"{word}"' for word in words]
    if isinstance(value, str) and f'"{value}"' in (*others, last):
        return value
    said = f'"{value}"' if isinstance(value, str) else shown(value)
    raise InputError(f"{name} {said} is unknown: use {', '.join(others)}{' or ' if others else ''}{last}")


def several(given: Any, name: str, example: str) -> list[Any]:
    """One text, or several things, as a list; a number is neither.

    >>> several("regret", "criteria", '"dric"'), several(("a", "b"), "drop", '"age"')
    (['regret'], ['a', 'b'])
    """
    if isinstance(given, str):
        return [given]
    if isinstance(given, Iterable) and not isinstance(given, bytes) and getattr(given, "ndim", 1) > 0:
        return list(given)
    raise InputError(f"{name} is {shown(given)}: give a list, such as [{example}]")


def numbers(
    given: Any, name: str, wanted: str, least: float = -math.inf, most: float = math.inf, count: int | None = None
) -> list[float]:
    """Finite numbers from ``least`` to ``most``: a list of them, or one alone; ``count`` of them, or any but none.

    >>> numbers(range(0, 90, 45), "angles", "degrees"), numbers(0.1, "flip", "rates")
    ([0.0, 45.0], [0.1])
    >>> numbers([0.1, "a"], "flip", "rates")
    Traceback (most recent call last):
    invariscope.errors.InputError: flip is [0.1, 'a']: give rates
    """
    listed = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str | bytes)
    values = [*given] if listed and getattr(given, "ndim", 1) == 1 else [given]
    fit = all(is_real(value) and least <= value <= most and math.isfinite(value) for value in values)
    if fit and len(values) == (count or max(len(values), 1)):
        return [float(value) for value in values]
    raise InputError(f"{name} is {shown(given)}: give {wanted}")


def column_names(given: Any, count: int | None = None) -> tuple[str, ...]:
    """The names of columns, as many as there are.

    >>> column_names(["age", 7])
    ('age', '7')
    """
    names = tuple(map(str, several(given, "columns", '"age"')))
    if count is not None and len(names) != count:
        raise InputError(f"columns has {len(names)} names for {count} columns: give one name per column")
    return names


def shown(value: Any, limit: int = 60) -> str:
    """How Python writes a value, on one line and not without end."""
    try:
        return short(repr(value), limit)
    except ValueError:  # whole numbers of thousands of digits have no text
        return "a number of thousands of digits"


def number_of_draws(n_boot: Any, fewest: int = FEWEST_DRAWS, otherwise: str = "") -> int:
    """How often to draw: 0 for point estimates alone, or enough to mean anything; ``otherwise`` is a word also taken.

    >>> number_of_draws(0), number_of_draws(np.int64(99))
    (0, 99)
    """
    if is_whole(n_boot) and (n_boot == 0 or fewest <= n_boot <= MOST_DRAWS):
        return int(n_boot)
    too_many = is_whole(n_boot) and n_boot > MOST_DRAWS
    why = f", and more than {MOST_DRAWS:,} cost time and memory but change no digit that is shown" if too_many else ""
    raise InputError(
        f"{spelling().name('n_boot')} is {shown(n_boot)}{why}: give {otherwise}0 for point estimates without "
        f"intervals, or a whole number of draws from {fewest} to {MOST_DRAWS:,}"
    )


def intervals_wanted(n_boot: Any, seed: Any) -> bool:
    """Whether a criterion whose intervals are formulas is to give them: it draws nothing, and takes what others take.

    >>> intervals_wanted(0, 0), intervals_wanted(999, 0)
    (False, True)
    """
    whole_number(seed, "seed")
    return number_of_draws(n_boot) > 0


def share_above_zero(name: str, value: Any, example: float) -> float:
    """A number between 0 and 1, both excluded: who means 2 % by 2 is told how that is written.

    >>> share_above_zero("alpha", np.float32(0.5), 0.05)
    0.5
    """
    if not is_real(value) or not 0 < value < 1:
        wanted = f"a number above 0 and below 1, such as {example:g} for {100 * example:g} %"
        raise InputError(f"{name} is {shown(value)}: give {wanted}")
    return float(value)
