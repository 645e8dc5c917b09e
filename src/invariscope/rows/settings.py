"""Settings that a user gives as numbers (draws, folds, seeds, shares): checked in one place, refused in the same words.

A truth value is no number here: ``n_boot=True`` is a slip, not one draw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from invariscope.errors import InputError

FEWEST_DRAWS = 99  # of an interval: its ends are then the third draws from either end
MOST_DRAWS = 1_000_000
#: What a result says of itself where ``n_boot`` is 0.
NOT_DRAWN = "n_boot=0: no intervals and no p-value, only point estimates."


def is_whole(value: Any) -> bool:
    """Whether it is a whole number, of Python or numpy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole_number(name: str, value: Any, least: int) -> int:
    """A whole number of at least so much.

    >>> whole_number("folds", np.int64(5), 2)
    5
    """
    if not is_whole(value) or value < least:
        raise InputError(f"{name} is {value!r}: give a whole number of at least {least}")
    return int(value)


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
        f"n_boot is {n_boot!r}{why}: give {otherwise}0 for point estimates without intervals, or a whole number of "
        f"draws from {fewest} to {MOST_DRAWS:,}"
    )


def share_above_zero(name: str, value: Any, most: float, example: str) -> float:
    """A number between 0 and ``most``, both excluded.

    >>> share_above_zero("alpha", np.float32(0.5), 1.0, "0.05")
    0.5
    """
    is_number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not is_number or not 0 < value < most:
        wanted = "above 0" if math.isinf(most) else f"above 0 and below {most:g}"
        raise InputError(f"{name} is {value!r}: give a number {wanted}, such as {example}")
    return float(value)
