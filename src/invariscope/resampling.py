"""Folds, null distributions and p-values: one random generator at the door, handed down, never global state."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from invariscope.environments import Environments
from invariscope.errors import InputError

Floats = NDArray[np.float64]


def fold_of_rows(data: Environments, environment: int, rows: slice, folds: int) -> NDArray[np.intp]:
    """Row i of an environment belongs to fold i mod ``folds``: no state, the same in every pass and on every worker."""
    return (np.arange(rows.start, rows.stop) - int(data.offsets[environment])) % folds


def ranks_by_content(X: Floats, offsets: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rank of every row within its environment along one fixed direction; equal rows share a rank.

    It is found from the values, so that rows in another order, or repeated, or in other units, are ranked alike.
    ``X`` must have columns of comparable size.
    """
    along = X @ _direction(X.shape[1])
    rank = np.empty(len(X), dtype=np.intp)
    for start, stop in itertools.pairwise(offsets):
        order = np.argsort(along[start:stop], kind="stable")
        values = along[start:stop][order]
        apart = np.diff(values) > 1e-9 * (1 + np.abs(values[1:]))  # closer than rounding error is the same row
        rank[start + order] = np.concatenate([[0], np.cumsum(apart)])
    return rank


def places_by_content(X: Floats, offsets: NDArray[np.intp]) -> NDArray[np.intp]:
    """A place for every row within its environment, 0, 1, …, as if drawn by lot; equal rows share a place.

    The lots are drawn for ranks, of rows and of environments along one direction, so that rows in another order, or
    repeated, or in other units, draw alike. Dealt in turn along the direction instead, folds would be alike in every
    detail there, and no fold could tell that a fit to the others goes too far.
    """
    ranks = ranks_by_content(X, offsets)
    along = X @ _direction(X.shape[1])
    runs = list(itertools.pairwise(offsets))
    different = [np.unique(ranks[start:stop], return_index=True)[1] for start, stop in runs]
    centres = [along[start:stop][first].mean() for (start, stop), first in zip(runs, different, strict=True)]
    places = np.empty(len(X), dtype=np.intp)
    for number, k in enumerate(np.argsort(centres, kind="stable")):
        start, stop = runs[k]
        lots = np.random.default_rng([number, len(different[k])]).permutation(len(different[k]))
        places[start:stop] = lots[ranks[start:stop]]
    return places


def folds_by_content(X: Floats, offsets: NDArray[np.intp], folds: int) -> NDArray[np.intp]:
    """The fold of every row: :func:`places_by_content` dealt in turn, so that equal rows share a fold.

    An environment with fewer different rows than folds has its rows dealt one by one: none may lose all of them.
    """
    fold = places_by_content(X, offsets) % folds
    for start, stop in itertools.pairwise(offsets):
        if len(np.unique(fold[start:stop])) < min(folds, stop - start):
            fold[start:stop] = np.arange(stop - start) % folds
    return fold


def _direction(d: int) -> Floats:
    return np.random.default_rng(d).normal(size=d)


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
    slack = 1e-12 * abs(observed) if np.isfinite(observed) else 0.0
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + len(null)))
