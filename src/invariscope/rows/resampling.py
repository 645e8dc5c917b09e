"""Folds, null distributions and p-values: one random generator at the door, handed down, never global state."""

from __future__ import annotations

import itertools
import math

import numpy as np

from invariscope import wording
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.settings import whole_number

MANY_TIMES = 10  # the rows that whole weights are worth: who counts so many has hardly counted them one by one
ALIKE = 1.1  # times the rows that broken weights are worth: nearer nobody need scale them


def rows_of_folds(data: Environments, environment: int, rows: slice, folds: int) -> list[slice | Booleans]:
    """Where the rows of every fold are among these of one environment, its ith row being in fold i mod ``folds``.

    No state, the same in every pass and on every worker. Rows of weight 0 take no turn: they are not there.
    """
    if data.turns is None:
        first = rows.start - int(data.offsets[environment])
        return [slice((fold - first) % folds, None, folds) for fold in range(folds)]
    return [data.turns[rows] % folds == fold for fold in range(folds)]


def ranks_by_content(X: Floats, offsets: Integers) -> Integers:
    """The rank of every row within its environment along one fixed direction; equal rows share a rank.

    It is found from the values, so that rows in another order, or repeated, or in other units, are ranked alike.
    ``X`` must have columns of comparable size.
    """
    along = X @ direction(X.shape[1])
    rank = np.empty(len(X), dtype=np.intp)
    for start, stop in itertools.pairwise(offsets):
        order = np.argsort(along[start:stop], kind="stable")
        values = along[start:stop][order]
        apart = np.diff(values) > 1e-9 * (1 + np.abs(values[1:]))  # closer than rounding error is the same row
        rank[start + order] = np.concatenate([[0], np.cumsum(apart)])
    return rank


def places_by_content(X: Floats, offsets: Integers, tie: Floats | None = None) -> Integers:
    """A place for every row within its environment, 0, 1, …, as if drawn by lot.

    The lots are drawn for ranks, of rows and of environments along one direction, so that rows in another order or in
    other units draw alike: which of several equal rows gets which place makes no difference. Where rows equal in X
    differ otherwise, ``tie`` ranks them. Equal rows must not share
    a place: with few different rows, a fold would hold out whole values, and models would have to guess what they never
    saw. Nor must places follow the ranks: folds dealt in turn along a direction are alike in every detail there, and
    none could tell that a fit to the others goes too far.
    """
    along = X @ direction(X.shape[1])
    runs = list(itertools.pairwise(offsets))
    centres = [along[start:stop].mean() if stop > start else 0.0 for start, stop in runs]
    places = np.empty(len(X), dtype=np.intp)
    for number, k in enumerate(np.argsort(np.round(centres, 9), kind="stable")):
        start, stop = runs[k]
        second = np.zeros(stop - start) if tie is None else tie[start:stop]
        order = np.lexsort((second, np.round(along[start:stop], 10)))
        places[start + order] = np.random.default_rng([number, stop - start]).permutation(stop - start)
    return places


def folds_by_content(X: Floats, offsets: Integers, folds: int, tie: Floats | None = None) -> Integers:
    """The fold of every row: :func:`places_by_content` dealt in turn."""
    return places_by_content(X, offsets, tie) % folds


def whole(weight: Floats) -> Integers | None:
    """Weights as counts of rows, if that is what they are, and rows written out are not many more."""
    counts = weight.astype(np.intp)
    return counts if np.array_equal(counts, weight) and counts.sum() <= 10 * len(counts) else None


def direction(d: int) -> Floats:
    """One direction in d columns, always the same, along which rows are ranked."""
    return np.random.default_rng(d).normal(size=d)


def generator(seed: int) -> np.random.Generator:
    """The one source of randomness of a call."""
    return np.random.default_rng(whole_number(seed, "seed"))


def pvalue(observed: float, null: Floats) -> float:
    """Share of the null at least as large as what was observed, (1 + k) / (1 + n): never 0, ties count.

    NaN where nothing was drawn, or nothing observed.

    >>> pvalue(3.0, np.array([1.0, 2.0, 3.0]))
    0.5
    """
    if not len(null) or np.isnan(observed):
        return math.nan
    slack = 1e-12 * abs(observed) if np.isfinite(observed) else 0.0
    return float((1 + np.count_nonzero(null >= observed - slack)) / (1 + len(null)))


def notes_on_weights(weight: Floats | None) -> tuple[str, ...]:
    """How many rows weighted ones count as; and how to scale weights that are hardly counts of rows.

    Those are broken numbers, or very many rows, unlike what they are worth. Worth is Kish's effective number of rows,
    (Σw)² / Σw²: to it, weights of a survey can be scaled.

    >>> print(*notes_on_weights(np.array([120.5, 80.25, 99.0])))
    Weights count as repeated rows: 3 rows count as 300. If they are survey or importance weights, intervals are too
    narrow: multiply all by 0.00974, so that they count as the 2.92 rows they are worth.
    """
    if weight is None or (weight == 1.0).all():
        return ()
    total, worth = float(weight.sum()), float(weight.sum() ** 2 / (weight**2).sum())
    far = total > MANY_TIMES * worth if whole(weight) is not None else not 1 / ALIKE <= total / worth <= ALIKE
    counted = f"Weights count as repeated rows: {len(weight):,} rows count as {wording.number(total)}."
    if not far:
        return (counted,)
    off = "narrow" if total > worth else "wide"
    return (
        f"{counted} If they are survey or importance weights, intervals are too {off}: multiply all by "
        f"{worth / total:.3g}, so that they count as the {wording.number(worth)} rows they are worth.",
    )
