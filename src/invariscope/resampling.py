"""Folds, null distributions and p-values: one random generator at the door, handed down, never global state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from invariscope.environments import Environments
from invariscope.errors import InputError

Floats = NDArray[np.float64]


def fold_of_rows(data: Environments, environment: int, rows: slice, folds: int) -> NDArray[np.intp]:
    """Row i of an environment belongs to fold i mod ``folds``: no state, the same in every pass and on every worker."""
    return (np.arange(rows.start, rows.stop) - int(data.offsets[environment])) % folds


def generator(seed: int) -> np.random.Generator:
    """The one source of randomness of a call."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed is {seed!r}: give a whole number of at least 0")
    return np.random.default_rng(seed)


def pvalue(observed: float, null: Floats) -> float:
    """Share of the null at least as large as what was observed, (1 + k) / (1 + n): never 0, ties count.

    >>> pvalue(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    slack = 1e-12 * max(abs(observed), 1.0)
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + len(null)))
