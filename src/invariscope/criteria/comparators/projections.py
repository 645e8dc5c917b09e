"""How far environments are from each other along one direction: for one deal of the environments, or for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.rows.arrays import Floats

KNOTS = 512  # values at which distribution functions are compared; fewer different ones are all taken


def directions(columns: int, count: int) -> Floats:
    """``count`` directions spread at random over the sphere, (count, columns): always the same ones.

    In one column there is one direction.
    """
    if columns == 1:
        return np.ones((1, 1))
    drawn = np.random.default_rng([columns, count]).normal(size=(count, columns))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True))


@dataclass(frozen=True)
class Projection:
    """Rows along one direction, in units of their spread there.

    ``bins`` (G, n) has a 1 where a row lies at a knot, or between the knot before and this one; ``steps`` (G,) are the
    distances from each knot to the next, ``below`` (G,) the share of all rows at or below it; ``exact`` says whether
    every different value is a knot.
    """

    bins: Any
    steps: Floats
    below: Floats
    exact: bool

    @classmethod
    def of(cls, along: Floats, weight: Floats) -> Projection:
        from scipy.sparse import csr_matrix

        centred = along - np.average(along, weights=weight)
        spread = float(np.sqrt(np.average(centred**2, weights=weight)))
        # columns are in units of their spread: what is left of them by rounding alone is no direction
        values = centred / spread if spread > 1e-9 else np.zeros(len(along))
        knots = np.unique(values)
        exact = len(knots) <= KNOTS
        if not exact:  # from the smallest to the largest, with as many rows from each to the next
            places = np.linspace(0, len(values) - 1, KNOTS).round().astype(np.intp)
            knots = np.unique(np.sort(values)[places])
        place = np.searchsorted(knots, values), np.arange(len(values))
        # counts below 2²⁴ are exact in single precision, which is read twice as fast
        kind = np.float32 if bool((weight == 1.0).all()) else np.float64
        ones: Any = np.ones(len(values), dtype=kind)
        bins: Any = csr_matrix((ones, place), shape=(len(knots), len(values)))
        below = np.cumsum(bins @ weight)
        return cls(bins, np.append(np.diff(knots), 0.0), below / below[-1], exact)

    def products(self, masses: Floats, shares: Floats, total: float) -> Floats:
        """∫ (F_a − F)(F_b − F) dt for every two environments, (draws, E, E), F being that of all rows together.

        ``masses`` (n, E − 1, draws) say how often a row counts in every environment but the last, ``shares``
        (E, draws) which share of the ``total`` of all rows is in each. The last one follows from
        Σ_e share_e (F_e − F) = 0.
        """
        n, others, draws = masses.shape
        each = np.cumsum(self.bins @ masses.reshape(n, -1), axis=0, dtype=np.float64).reshape(-1, others, draws)
        each /= total
        each -= self.below[:, None, None] * shares[:-1]  # share_e (F_e − F) at every knot
        each = np.concatenate([each, -each.sum(axis=1, keepdims=True)], axis=1) / shares
        each = np.ascontiguousarray(each.transpose(2, 1, 0))
        return np.asarray((each * self.steps) @ each.transpose(0, 2, 1))
