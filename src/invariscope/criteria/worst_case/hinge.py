"""Worst-case hinge loss of a linear classifier: the whole curve, exactly, from the corners of every row's envelope."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope.criteria.worst_case.curve import band_around, shares
from invariscope.criteria.worst_case.margins import Curve, Margins
from invariscope.rows.arrays import Floats

BETWEEN = 100  # multipliers beside those of the radii asked for, so that a bootstrap draw finds its own


def hinge(margins: Margins, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator) -> Curve:
    """The whole curve of max(0, max over k ≠ y of 1 + s_k − s_y), exactly.

    With s = 1/(4γ), φ_i is the highest of the lines a_k + q_k s (a_k = 1 + u_k, q_k = ‖w_k − w_y‖²; and the line 0), so
    G(s) = mean φ_i is convex and piecewise linear, and WC(ρ) = min over s of ρ²/(4s) + G(s). Where G has intercept U
    and slope g, WC(ρ) = U + ρ√g for ρ = 2s√g of the piece; at a corner s of G, WC(ρ) = ρ²/(4s) + G(s): mass is split.

    Reference: the worst-case poster; the same holds for any loss that is a maximum of affine functions.
    """
    start, slopes = _lines(margins)
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


def _lines(margins: Margins) -> tuple[Floats, Floats]:
    """Intercepts and slopes (n, K) of every row's lines; the true class stands for the line 0."""
    start = 1.0 + margins.above
    start[np.arange(margins.n), margins.codes] = 0.0
    return start, margins.lengths


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
