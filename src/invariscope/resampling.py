"""Folds, null distributions and p-values: one random generator at the door, handed down, never global state."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from invariscope.environments import Environments
from invariscope.errors import InputError

Floats = NDArray[np.float64]


def folds_by_environment(data: Environments, folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """A fold number for every stored row, dealt at random within each environment so that folds are equal in size."""
    out = np.empty(len(data.X), np.intp)
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        out[start:stop] = rng.permutation(np.arange(stop - start) % folds)
    return out


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
