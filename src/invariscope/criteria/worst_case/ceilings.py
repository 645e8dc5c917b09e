"""Certified ceilings on φ(γ) for cross-entropy with several classes: nothing of the kind hides above them.

    φ(γ) = max over p in the simplex of F(p) = p·û + H(p) − pᵀκp,   û_k = u_k + q_k/(4γ),   κ_jk = ‖w_j − w_k‖²/(8γ)

F is the mean score, plus entropy, minus what it costs to stand between classes. The last term is convex, so a local
maximum need not be the highest; each function here bounds F from above for all p.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr, logit

from invariscope.rows.arrays import Floats, Integers

SMALLEST = 1e-37  # a sum below counts as this: it is positive in single precision, too


def from_gradient(logits: Floats, p: Floats, log_p: Floats, value: Floats, curvature: float) -> Floats:
    """A ceiling from any p where F is concave: exact at the maximum, and off by a square near it. Arrays are (K, n).

    F(r) ≤ F(p) + g·(r − p) − (1 − θ) KL(r‖p) with g = ``logits`` − log p its gradient and θ = ``curvature`` < 1 the
    share of the entropy's curvature that the quadratic term takes away (λ_max(M)/(4γ), since ‖v‖₂² ≤ ½‖v‖₁² ≤ KL for
    v = r − p). The maximum of the right side over r is F(p) − g·p + (1 − θ) log Σ p_k exp(g_k/(1 − θ)).
    """
    gradient = logits - log_p  # g = ∇F(p), up to a constant that cancels: g·(r − p)
    left = 1.0 - curvature  # 1 − θ
    # F(p) − g·p + (1 − θ) log Σ_k exp(log p_k + g_k/(1 − θ))
    ceiling: Floats = value - (gradient * p).sum(axis=0) + left * log_sum_exp(log_p + gradient / left)
    return ceiling


def from_pairs(peaks: Floats, cost: Floats) -> Floats:
    """A quick ceiling: F(p) ≤ max_j log Σ_k exp(û_k − κ_jk), by the argument of :func:`from_slabs` without slabs."""
    top = peaks.max(axis=0)  # taken out before exp, so that nothing overflows
    ceiling: Floats = top + np.log((np.exp(-cost) @ np.exp(peaks - top)).max(axis=0))
    return ceiling


def from_slabs(
    peaks: Floats, cost: Floats, lead: Integers, slabs: int = 16, precision: type[np.floating[Any]] = np.float64
) -> Floats:
    """A ceiling whatever the shape of F: the simplex is cut into slabs by x = p_m, the share of a leading class m.

    With p = x e_m + (1 − x) r and h(x) the entropy of (x, 1 − x),

        F(p) = x û_m + h(x) + (1 − x) { r·(û − 2xκ_m) + H(r) − (1 − x) rᵀκr }

    and {...} ≤ B(x) = max_j log Σ_k exp(û_k − 2xκ_mk − (1 − x)κ_jk) over the other classes, because for every j the
    logarithm is at least r·(û − 2xκ_m − (1 − x)κ_j) + H(r) (Gibbs), and r averages the j. B is convex, so its chord
    bounds it on a slab; x û_m + (1 − x) · chord lies below its own chord, plus a quarter of slope × width² where it is
    concave; and a line plus h(x) has its maximum where the logistic function says.

    ``peaks`` (K, n) are û, ``cost`` (K, K) is κ, ``lead`` (n,) is m; any m gives a ceiling, a likely one a low ceiling.
    What the width of ``slabs`` slabs costs falls with the square of their number; in single ``precision`` the ceiling
    is raised by its rounding.
    """
    rows = np.arange(peaks.shape[1])
    top = peaks.max(axis=0)  # taken out before exp
    others = np.exp((peaks - top).astype(precision))
    others[lead, rows] = 0.0
    fade = np.exp(-2.0 * cost / slabs).astype(precision)[:, lead]  # exp(−2κ_mk Δx) from one edge to the next
    edges = np.linspace(0.0, 1.0, slabs + 1)
    bound = np.empty((len(edges), len(rows)), precision)
    for number, x in enumerate(edges):
        # Σ_k exp(−(1 − x)κ_jk) · exp(û_k − 2xκ_mk) for every j; its largest, for j ≠ m, is exp B(x)
        sums = np.exp(-(1.0 - x) * cost).astype(precision) @ others
        sums[lead, rows] = 0.0
        sums.max(axis=0, out=bound[number])
        others *= fade
    np.maximum(bound, SMALLEST, out=bound)  # what has vanished is bounded by something tiny
    np.log(bound, out=bound)
    ahead = peaks[lead, rows] - top  # û_m
    highest = _highest(edges.astype(precision), bound, ahead.astype(precision))
    # rounding of numbers as large as these, with something to spare
    ceiling: Floats = top + highest + 8.0 * np.finfo(precision).eps * (100.0 - ahead)
    return ceiling


def log_sum_exp(scores: Floats) -> Floats:
    """log Σ_k exp(scores_k) over the first axis."""
    top = scores.max(axis=0)
    result: Floats = top + np.log(np.exp(scores - top).sum(axis=0))
    return result


def _highest(edges: Floats, bound: Floats, peak: Floats) -> Floats:
    """The maximum over all slabs of h(x) plus the line above x·peak + (1 − x)·(chord of B), B at the edges given.

    A slope s and h(x) together are highest, at log(1 + e^s), where x is the logistic function of s, or at an edge.
    """
    edges, width = edges[:, None], edges[1]
    turn, spread = logit(edges), entr(edges) + entr(1.0 - edges)  # h'(x) = −logit(x), and h(x)
    ends = edges * peak + (1.0 - edges) * bound  # x û_m + (1 − x) B(x) at the edges
    slope = np.diff(ends, axis=0) / width
    lifted = np.maximum(np.diff(bound, axis=0), 0.0) * (width / 4.0)  # (1 − x)·chord is concave where B rises
    at_edge = ends + spread
    inside = ends[:-1] - slope * edges[:-1]  # the line at x = 0, plus max over x of s x + h(x) = log(1 + e^s)
    inside += np.maximum(slope, 0.0) + np.log1p(np.exp(-np.abs(slope)))
    within = (slope > turn[:-1]) & (slope < turn[1:])
    highest: Floats = (np.where(within, inside, np.maximum(at_edge[:-1], at_edge[1:])) + lifted).max(axis=0)
    return highest
