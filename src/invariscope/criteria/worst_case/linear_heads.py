"""Worst cases of linear heads: how far each row is from a mistake, and the losses whose whole curve is known exactly.

The error rate has a closed form, the hinge loss follows the corners of every row's envelope, the squared error has a
closed form for one output and one equation per radius for several.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from invariscope.criteria.worst_case.curve import TAILS, Curve, band_around, reweighted, shares
from invariscope.heads.linear_head import LinearHead
from invariscope.rows.arrays import Array, Floats, Integers

SAME = 4.0 * float(np.finfo(np.float64).eps)  # of the largest weight: smaller differences are rounding error
BETWEEN = 100  # multipliers beside those of the radii asked for, so that a bootstrap draw finds its own
HALVINGS = 80  # from a bracket of relative width 1 down to rounding error


@dataclass(frozen=True)
class Margins:
    """A linear head's scores as differences to the score of the true class.

    ``above`` (n, K): u_k = s_k − s_y, 0 for the class itself; ``codes`` (n,): the classes; ``product`` (K, K): M = WWᵀ
    with W centred over the classes (a common vector moves no difference); ``apart`` (K, K): ‖w_j − w_k‖².
    """

    above: Floats
    codes: Integers
    product: Floats
    apart: Floats

    @property
    def n(self) -> int:
        return len(self.codes)

    @cached_property
    def lengths(self) -> Floats:
        """(n, K): q_k = ‖w_k − w_y‖², the squared slope of u_k in z."""
        lengths: Floats = self.apart[self.codes]
        return lengths

    @cached_property
    def squared_distance(self) -> Floats:
        """(n,): d², the squared distance to the nearest wrong answer (a tie is one); 0 if wrong already.

        d² = min over k ≠ y of max(0, −u_k)² / q_k; infinite if the head is constant there.
        """
        behind, lengths = np.maximum(0.0, -self.above), self.lengths
        with np.errstate(divide="ignore", invalid="ignore"):
            squared = np.where(behind > 0, behind**2 / lengths, 0.0)
        squared[np.arange(self.n), self.codes] = np.inf
        nearest: Floats = squared.min(axis=1)
        return nearest


def margins_of(head: LinearHead, Z: Array, codes: Integers) -> Margins:
    """One product Z Wᵀ; a single output is the log-odds of the second of two classes.

    >>> margins = margins_of(LinearHead([[0.0], [1.0]], [0.0, 0.0]), np.array([[1.0], [3.0]]), np.array([1, 1]))
    >>> margins.above.tolist(), margins.squared_distance.tolist()
    ([[-1.0, 0.0], [-3.0, 0.0]], [1.0, 9.0])
    """
    scores, weight = head.scores(Z).astype(np.float64, copy=False), head.weight
    if head.n_outputs == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
        weight = np.vstack([np.zeros_like(weight), weight])
    above = scores - scores[np.arange(len(codes)), codes][:, None]
    centred = weight - weight.mean(axis=0)
    product = centred @ centred.T
    # from differences, not from products: those would lose what is below 1e-8 of the longest weight vector
    apart = np.stack([((weight - own) ** 2).sum(axis=1) for own in weight])
    apart[apart <= (SAME * float(np.abs(weight).max())) ** 2 * weight.shape[1]] = 0.0
    return Margins(above, codes, product, apart)


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


def hinge(margins: Margins, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator) -> Curve:
    """The whole curve of max(0, max over k ≠ y of 1 + s_k − s_y), exactly.

    With s = 1/(4γ), φ_i is the highest of the lines a_k + q_k s (a_k = 1 + u_k, q_k = ‖w_k − w_y‖²; and the line 0), so
    G(s) = mean φ_i is convex and piecewise linear, and WC(ρ) = min over s of ρ²/(4s) + G(s). Where G has intercept U
    and slope g, WC(ρ) = U + ρ√g for ρ = 2s√g of the piece; at a corner s of G, WC(ρ) = ρ²/(4s) + G(s): mass is split.

    Reference: the worst-case poster; the same holds for any loss that is a maximum of affine functions.
    """
    start, slopes = 1.0 + margins.above, margins.lengths  # intercepts and slopes (n, K) of every row's lines
    start[np.arange(margins.n), margins.codes] = 0.0  # the true class stands for the line 0
    walk = _walk(start, slopes, shares(weight, margins.n))
    loss, gamma = walk.at(radii)
    between = np.linspace(0.0, float(radii.max(initial=0.0)), BETWEEN + 1)[1:]
    grid = np.unique(np.concatenate([gamma, walk.at(between)[1]]))[::-1]
    grid = grid[np.isfinite(grid) & (grid > 0)]

    def pieces(rows: slice) -> Floats:
        lines = [(start[rows] + slopes[rows] / (4.0 * g)).max(axis=1) for g in grid]  # φ_i(γ) = max_k a_k + q_k/(4γ)
        return np.vstack([start[rows].max(axis=1), *lines])

    band = band_around(loss, pieces, margins.n, grid, radii, weight, n_boot, rng)
    return Curve(loss, loss.copy(), loss.copy(), gamma, np.maximum(band, 0.0))


@dataclass(frozen=True)
class _Walk:
    """G(s): corners s_1 < s_2 < ..., and intercept and slope of the pieces before, between and after them."""

    corner: Floats
    intercept: Floats
    slope: Floats

    def at(self, radii: Floats) -> tuple[Floats, Floats]:
        """WC(ρ) and γ. Along s, ρ = 2s√g rises on pieces and jumps at corners: both are looked up in one list."""
        root = np.sqrt(self.slope)  # √g
        ends = np.empty(2 * len(self.corner))
        # ρ = 2s√g on either side of every corner
        ends[0::2], ends[1::2] = 2.0 * self.corner * root[:-1], 2.0 * self.corner * root[1:]
        place = np.searchsorted(ends, radii, side="right")
        piece, at_corner = (place + 1) // 2, place % 2 == 1
        loss = self.intercept[piece] + radii * root[piece]  # U + ρ√g
        with np.errstate(divide="ignore", invalid="ignore"):
            # γ = 1/(4s) with s = ρ/(2√g)
            gamma = np.where(root[piece] > 0, root[piece] / (2.0 * radii), 0.0)
        if at_corner.any():
            j = place[at_corner] // 2
            s = self.corner[j]
            # ρ²/(4s) + G(s), G(s) = U + g s
            loss[at_corner] = radii[at_corner] ** 2 / (4.0 * s) + self.intercept[j] + self.slope[j] * s
            gamma[at_corner] = 1.0 / (4.0 * s)
        return loss, gamma


def _walk(start: Floats, slopes: Floats, share: Floats) -> _Walk:
    """Follow the highest line of every row as s grows, all rows at once: at most K − 1 corners each."""
    n = len(start)
    rows = np.arange(n)
    top = start.max(axis=1, keepdims=True)
    line = np.where(start == top, slopes, -1.0).argmax(axis=1)  # of lines that start equal, the steepest is ahead
    intercept, slope = start[rows, line], slopes[rows, line]
    first = np.array([intercept @ share, slope @ share])
    at, rise, fall = [], [], []
    while len(rows):
        with np.errstate(divide="ignore", invalid="ignore"):
            # a + q s of the line a row is on and of every other one meet at s = (a − a_k)/(q_k − q)
            meet = (intercept[:, None] - start[rows]) / (slopes[rows] - slope[:, None])
        meet = np.where(slopes[rows] > slope[:, None], meet, np.inf)
        when = meet.min(axis=1)
        go = np.isfinite(when)
        rows, when, meet, intercept, slope = rows[go], when[go], meet[go], intercept[go], slope[go]
        line = np.where(meet <= when[:, None] * (1 + 1e-15), slopes[rows], -1.0).argmax(axis=1)
        new_intercept, new_slope = start[rows, line], slopes[rows, line]
        at.append(when)
        rise.append((new_slope - slope) * share[rows])  # what slope and intercept of G change by at that corner
        fall.append((new_intercept - intercept) * share[rows])
        intercept, slope = new_intercept, new_slope
    when, rises, falls = (np.concatenate([*parts, np.empty(0)]) for parts in (at, rise, fall))
    order = np.argsort(when, kind="stable")
    sums = [np.concatenate([[first[0]], falls[order]]), np.concatenate([[first[1]], rises[order]])]
    return _Walk(when[order], np.cumsum(sums[0]), np.cumsum(sums[1]))


def squared(
    residuals: Floats, slopes: Floats, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator
) -> Curve:
    """The whole curve of ‖Wz + b − y‖² (summed over outputs), exactly, from mean squared residuals alone.

    One output, R the mean squared residual:  WC(ρ) = (√R + ρ‖w‖)²,  γ = ‖w‖² + ‖w‖√R / ρ. Several: along the
    eigenvectors of WWᵀ (eigenvalues λ_j) with C_j the mean squared residual along each,

        WC(ρ) = min over γ ≥ λ_max of γρ² + Σ_j C_j γ / (γ − λ_j),   where ρ² = Σ_j C_j λ_j / (γ − λ_j)²

    ``residuals`` (n, K), ``slopes`` (K, d). It has no ceiling: it grows like ρ²‖W‖².
    """
    values, vectors = np.linalg.eigh(slopes @ slopes.T)
    values = np.maximum(values, 0.0)
    along = (residuals @ vectors) ** 2
    share = shares(weight, len(along))
    loss, gamma = _solved(share @ along, values, radii)
    band = np.full((2, len(radii)), np.nan)
    if n_boot:
        _, draws = reweighted(lambda rows: along[rows].T, len(along), weight, n_boot, rng)
        band = np.quantile(_solved(draws, values, radii)[0], TAILS, axis=0)
    return Curve(loss, loss.copy(), loss.copy(), gamma, band)


def _solved(energy: Floats, values: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """WC and γ for mean squared residuals (..., K) along the eigenvectors: (..., n_radii) each."""
    largest = float(values[-1])
    if largest == 0.0:  # a constant prediction: moving z changes nothing
        flat = np.repeat(energy.sum(axis=-1)[..., None], len(radii), axis=-1)
        return flat, np.zeros_like(flat)
    if len(values) == 1:
        root = np.sqrt(energy)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(root > 0, np.sqrt(largest) * root / radii, 0.0)
        return (root + np.sqrt(largest) * radii) ** 2, largest + pull
    energy = energy[..., None, :]
    below = largest - values
    below[below <= 1e-12 * largest] = 0.0
    squares = (radii**2)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # γ = λ_max + x: one eigenvalue alone gives x from below, all of them at λ_max from above; then halve
        low = np.sqrt((energy * values * (below == 0)).sum(axis=-1) / squares[:, 0])
        high = np.sqrt((energy * values).sum(axis=-1) / squares[:, 0])
    finite = np.isfinite(high)
    low, high = (np.where(finite, bound, 1.0) for bound in (low, high))
    for _ in range(HALVINGS):
        middle = np.where(low > 0, np.sqrt(low * high), 0.5 * high)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = energy * values / (middle[..., None] + below) ** 2
        far = np.nan_to_num(terms).sum(axis=-1) > squares[:, 0]
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    # beyond the reach of the residuals the rest is moved along the steepest direction at γ = λ_max
    x = np.where(high > 1e-15 * largest, high, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pulled = energy * (x[..., None] + largest) / (x[..., None] + below)
    pulled = np.where((energy > 0) & np.isfinite(pulled), pulled, 0.0)
    loss = (largest + x) * squares[:, 0] + pulled.sum(axis=-1)
    return np.where(finite, loss, energy.sum(axis=-1)), np.where(finite, largest + x, np.inf)
