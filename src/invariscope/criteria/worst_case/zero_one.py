"""Worst-case error rate of a linear classifier, in closed form: the cheapest rows are moved first."""

from __future__ import annotations

import numpy as np

from invariscope.criteria.worst_case.curve import band_around, shares
from invariscope.criteria.worst_case.margins import Curve, Margins
from invariscope.rows.arrays import Floats

BETWEEN = 100  # multipliers beside those of the radii asked for, so that a bootstrap draw finds its own


def zero_one(margins: Margins, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator) -> Curve:
    """The whole curve, exactly. A tie counts as an error.

    Moving row i to its nearest mistake costs d_i². Sorted by cost, rows 1 .. k are moved whole and a part of row k + 1:
    for C_k ≤ ρ² < C_{k+1}, C_k the mean cost of the first k (others counting 0),

        WC(ρ) = k/n + (ρ² − C_k) / d²_(k+1),      γ = 1 / d²_(k+1);      flat once all that can be moved is moved

    Reference: the worst-case poster; the sorting is the fractional knapsack.
    """
    squared = margins.squared_distance
    share = shares(weight, margins.n)
    loss, gamma = _walked(squared, share, radii)
    between = np.linspace(0.0, float(radii.max(initial=0.0)), BETWEEN + 1)[1:]
    grid = np.unique(np.concatenate([[0.0], gamma, _walked(squared, share, between)[1]]))[::-1]
    movable = np.where(np.isfinite(squared), squared, 0.0)

    def pieces(rows: slice) -> Floats:
        gained = np.maximum(0.0, 1.0 - np.outer(grid, movable[rows])) * np.isfinite(squared[rows])
        return np.vstack([squared[rows] == 0.0, gained])

    band = band_around(loss, pieces, margins.n, grid, radii, weight, n_boot, rng)
    return Curve(loss, loss.copy(), loss.copy(), gamma, np.clip(band, 0.0, 1.0))


def _walked(squared: Floats, share: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """Error rate and multiplier at each radius."""
    wrong = float(share[squared == 0.0].sum())
    costly = np.flatnonzero((squared > 0.0) & np.isfinite(squared) & (share > 0.0))
    order = costly[np.argsort(squared[costly], kind="stable")]
    if not len(order):
        return np.full(len(radii), wrong), np.zeros(len(radii))
    price, mass = squared[order], share[order]
    spent, reached = (np.concatenate([[0.0], np.cumsum(values)]) for values in (mass * price, mass))
    full = radii**2 >= spent[-1]
    k = np.minimum(np.searchsorted(spent, radii**2, side="right") - 1, len(order) - 1)
    loss = np.where(full, wrong + reached[-1], wrong + reached[k] + (radii**2 - spent[k]) / price[k])
    return np.minimum(loss, 1.0), np.where(full, 0.0, 1.0 / price[k])
