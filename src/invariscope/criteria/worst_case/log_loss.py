"""Worst-case cross-entropy of a linear classifier: one sweep over multipliers, all rows at once, in K dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from invariscope.criteria.worst_case.ceilings import from_gradient, from_pairs, from_slabs, log_sum_exp
from invariscope.criteria.worst_case.curve import Curve, Sweep, band_of, curve_of, refined, shares
from invariscope.criteria.worst_case.linear_heads import Margins
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import run_over_rows

SETTLED = 1e-6  # change of a probability in one step: φ is then off by about its square
SETTLED_MANY = 3e-4  # the same where fixed points are found in single precision
LOOK = 4  # steps between two looks at which rows have settled
MOST_STEPS = 80
LARGE = 1e4  # scores for which single precision will not do
MANY = 1000  # rows from which fixed points are found in single precision
CONCAVE = 0.95  # of the entropy's curvature: beyond, ceilings from a gradient become loose
RIVAL = 1.0  # classes whose peaks are this far below the highest are not tried
NEARLY_CONCAVE = 0.6  # of the multiplier that makes φ concave: below, clipping the curvature bounds worse than slabs
SLABS, SLABS_OF_FEW = 16, 48  # that certify many rows, or few, where more of them cost nothing
BLOCK = 5000  # rows that a thread takes at a time: ten classes of them stay in a core's own cache
CLOSE = 1e-5  # a ceiling this near to what was reached is left alone
NEWTON_STEPS = 60  # Newton gains digits twice as fast at every step, except where two roots are about to meet
ROUNDING = 4e-16  # relative, of the two terms of φ


def log_loss(margins: Margins, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator) -> Curve:
    """The curve between certified bounds, from the fixed points of p ← softmax(u + M(p − e_y)/(2γ)).

    With q_k = ‖w_k − w_y‖², M = WWᵀ and u_k = s_k − s_y,

        φ(γ) = max over p of (p − e_y)·u + H(p) + (p − e_y)ᵀM(p − e_y)/(4γ),      z* = z + Wᵀ(p − e_y)/(2γ)

    Each step of the iteration raises the value. If 2γ > ½λ_max(M) there is one maximum; else rows start from the fixed
    point for the last γ and from the classes with the highest peaks û_k = u_k + q_k/(4γ), and keep the best. The
    multipliers are chosen by :func:`~invariscope.criteria.worst_case.curve.refined`.
    """
    start = log_sum_exp(margins.above.T)
    share = shares(weight, margins.n)
    largest = float(np.linalg.eigvalsh(margins.product)[-1])
    if not margins.apart.any() or not (radii > 0).any():  # nothing moves, or nothing may
        flat = np.full(len(radii), float(start @ share))
        still = Sweep(np.zeros(1), start[None], np.zeros((1, margins.n)), start[None])
        band = band_of(still, start, radii, weight, n_boot, rng)
        return Curve(flat, flat.copy(), flat.copy(), np.zeros(len(radii)), band)
    rows = float(margins.n if weight is None else weight.sum())
    solver = partial(_two_classes, margins) if margins.apart.shape == (2, 2) else _Classes.of(margins, rows)
    slope = float(np.sqrt(_steepness(margins) @ share))  # √mean ‖∇loss_i‖²: the slope of WC at ρ = 0
    sweep = refined(
        solver, start, radii, weight, slope=slope, concave_from=largest / 4.0, work=rows * margins.above.shape[1]
    )
    # a row's loss rises by at most max_k √q_k per unit, so WC(ρ) ≤ WC(0) + ρ √mean max_k q_k (Cauchy and Schwarz)
    lipschitz = float(np.sqrt(margins.lengths.max(axis=1) @ share))
    band = np.maximum(band_of(sweep, start, radii, weight, n_boot, rng), 0.0)
    return Curve(*curve_of(sweep, start, radii, weight, lipschitz), band)


def _steepness(margins: Margins) -> Floats:
    """(n,): ‖∇loss‖² = ‖Wᵀ(p − e_y)‖² = (p − e_y)ᵀM(p − e_y) in z, where the rows are."""
    return _pulled(margins.product, softmax(margins.above.T.copy(), axis=0), margins.codes)


def _two_classes(margins: Margins, gammas: Floats) -> Sweep:
    """Two classes: every row's equation has one unknown, and its highest root is found without doubt."""
    above = margins.above[np.arange(margins.n), 1 - margins.codes]
    points = [two_class_points(above, float(margins.apart[0, 1]), float(gamma)) for gamma in gammas]
    return Sweep(gammas, *(np.stack(part) for part in zip(*points, strict=True)))


@dataclass(frozen=True)
class _Classes:
    """Several classes: fixed points, warm-started from one multiplier to the next.

    Arrays are (K, n) here: sums over classes then run along the rows, which is several times as fast. ``above`` is u,
    ``product`` M = VΛVᵀ (``values`` Λ, ``vectors`` V), ``apart`` ‖w_j − w_k‖².
    """

    above: Floats
    codes: Integers
    product: Floats
    apart: Floats
    values: Floats
    vectors: Floats
    precision: type[np.floating[Any]]

    @classmethod
    def of(cls, margins: Margins, rows: float) -> _Classes:
        values, vectors = np.linalg.eigh(margins.product)
        above = np.ascontiguousarray(margins.above.T)
        # fixed points of many rows are found in single precision: φ is off by the square of that, and the points that
        # they stand for are computed in double precision
        precision = np.float64 if rows <= MANY else np.float32
        values = np.maximum(values, 0.0)
        return cls(above, margins.codes, margins.product, margins.apart, values, vectors, precision)

    @cached_property
    def own(self) -> Floats:
        """M e_y of every row's class y."""
        return self.product[:, self.codes]

    @cached_property
    def lengths(self) -> Floats:
        """q_k = ‖w_k − w_y‖² of every row's class y."""
        return self.apart[:, self.codes]

    def _settled(self, base: Floats, step: Floats, p: Floats) -> Floats:
        precision = self.precision if np.abs(step).max() < LARGE else np.float64
        change = SETTLED if self.precision is np.float64 else SETTLED_MANY
        base, step, p = (values.astype(precision, copy=False) for values in (base, step, p))
        return settled(base, step, p, change).astype(np.float64, copy=False)

    def __call__(self, gammas: Floats) -> Sweep:
        n = len(self.codes)
        loss, moved, ceiling = (np.empty((len(gammas), n)) for _ in range(3))

        def solve(rows: slice) -> None:
            part = replace(self, above=np.ascontiguousarray(self.above[:, rows]), codes=self.codes[rows])
            p = softmax(part.above, axis=0)
            for g, gamma in enumerate(gammas):
                loss[g, rows], moved[g, rows], ceiling[g, rows], p = part.points(float(gamma), p)

        run_over_rows(solve, n, BLOCK)
        return Sweep(gammas, loss, moved, ceiling)

    def points(self, gamma: float, p: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """(loss, moved, ceiling, p) at one multiplier, from the p of the one before."""
        step = self.product / (2.0 * gamma)  # p ← softmax(base + step p) is p ← softmax(u + M(p − e_y)/(2γ))
        base = self.above - self.own / (2.0 * gamma)
        p = self._settled(base, step, p)
        curvature = float(self.values[-1]) / (4.0 * gamma)  # θ = λ_max(M)/(4γ); there is one maximum if θ < 1
        peaks = self.above + self.lengths / (4.0 * gamma)  # û_k = u_k + q_k/(4γ), the value at p = e_k
        if curvature >= 1.0:
            p = self._best(base, step, p, peaks, gamma)
        log_p = step @ p + base  # one step more, in double precision and with its logarithm
        log_p -= log_sum_exp(log_p)
        p = np.exp(log_p)
        logits = step @ p + base  # u at z* = z + Wᵀ(p − e_y)/(2γ)
        pulled = _pulled(self.product, p, self.codes)  # (p − e_y)ᵀM(p − e_y) = 4γ²‖z* − z‖²
        loss = log_sum_exp(logits) - logits[self.codes, np.arange(len(self.codes))]  # log Σ_k exp s_k(z*) − s_y(z*)
        reached = loss - pulled / (4.0 * gamma)  # loss − γ‖z* − z‖² ≤ φ(γ)
        if curvature < CONCAVE:
            # F(p) = p·u + H(p) + (p − e_y)ᵀM(p − e_y)/(4γ), since u_y = 0
            value = (p * (self.above - log_p)).sum(axis=0) + pulled / (4.0 * gamma)
            ceiling = from_gradient(logits, p, log_p, value, curvature)
        else:
            ceiling = self._ceiling(gamma, p, peaks, reached)
        return loss, pulled / (4.0 * gamma**2), np.maximum(ceiling, reached), p

    def _best(self, base: Floats, step: Floats, p: Floats, peaks: Floats, gamma: float) -> Floats:
        """The better of the fixed point p and those reached from the two other classes with the highest peaks.

        A place between many classes gains up to the logarithm of their number over a single peak.
        """
        rows = np.arange(p.shape[1])
        enough = peaks.max(axis=0) - RIVAL - math.log(len(p))  # û_k below max û − log K − 1 is not tried
        others = peaks.copy()
        others[self.codes, rows] = -np.inf
        near = p.argmax(axis=0)
        for _ in range(2):
            target = others.argmax(axis=0)
            some = np.flatnonzero((others[target, rows] > enough) & (near != target))
            enough = np.maximum(enough, others[target, rows] - RIVAL)  # a second one only if it is about as high
            others[target, rows] = -np.inf
            if len(some):
                corner = np.zeros((len(p), len(some)))  # p = e_k, the class aimed at
                corner[target[some], np.arange(len(some))] = 1.0
                tried = self._settled(base[:, some], step, corner)
                better = self._value(base, step, tried, gamma, some) > self._value(base, step, p[:, some], gamma, some)
                p[:, some[better]] = tried[:, better]
        return p

    def _value(self, base: Floats, step: Floats, p: Floats, gamma: float, rows: Integers) -> Floats:
        """loss(z*) − γ‖z* − z‖² at the point z* = z + Wᵀ(p − e_y)/(2γ) that p stands for."""
        logits = step @ p + base[:, rows]
        codes = self.codes[rows]
        loss = log_sum_exp(logits) - logits[codes, np.arange(len(rows))]
        return np.asarray(loss - _pulled(self.product, p, codes) / (4.0 * gamma))

    def _ceiling(self, gamma: float, p: Floats, peaks: Floats, reached: Floats) -> Floats:
        """The lowest of the ceilings that hold where F is not concave."""
        cost = self.apart / (8.0 * gamma)  # κ_jk = ‖w_j − w_k‖²/(8γ)
        ceiling = from_pairs(peaks, cost)
        rows = np.flatnonzero(ceiling - reached > CLOSE * (1.0 + np.abs(reached)))
        if len(rows):
            lead, slabs = p[:, rows].argmax(axis=0), SLABS_OF_FEW if self.precision is np.float64 else SLABS
            ceiling[rows] = np.minimum(ceiling[rows], from_slabs(peaks[:, rows], cost, lead, slabs, self.precision))
            if float(self.values[-1]) * NEARLY_CONCAVE <= 4.0 * gamma:
                ceiling[rows] = np.minimum(ceiling[rows], self._clipped(gamma, p[:, rows], rows))
        return ceiling

    def _clipped(self, gamma: float, p: Floats, rows: Integers) -> Floats:
        """Eigenvalues of M beyond concavity are clipped; what is cut off is convex, and below its chords.

        With M = A + C, A clipped:  (p − e_y)ᵀC(p − e_y) ≤ Σ_k p_k (e_k − e_y)ᵀC(e_k − e_y), which is linear in p, so
        F(p) ≤ p·{u + (C_kk + C_yy − 2C_ky)/(4γ)} + H(p) + (p − e_y)ᵀA(p − e_y)/(4γ), and that is concave.
        """
        clipped = np.minimum(self.values, 4.0 * gamma * CONCAVE)
        product = (self.vectors * clipped) @ self.vectors.T  # A
        cut = (self.vectors * (self.values - clipped)) @ self.vectors.T  # C
        size, codes = np.diag(cut), self.codes[rows]
        above = self.above[:, rows] + np.maximum(size[:, None] + size - 2.0 * cut, 0.0)[:, codes] / (4.0 * gamma)
        step = product / (2.0 * gamma)  # from here on as in `points`, with A for M
        base = above - step[:, codes]
        log_p = step @ self._settled(base, step, p) + base
        log_p -= log_sum_exp(log_p)
        p = np.exp(log_p)
        value = (p * (above - log_p)).sum(axis=0) + _pulled(product, p, codes) / (4.0 * gamma)
        return from_gradient(step @ p + base, p, log_p, value, float(clipped[-1]) / (4.0 * gamma))


def _pulled(product: Floats, p: Floats, codes: Integers) -> Floats:
    """(p − e_y)ᵀM(p − e_y) for every row, (n,)."""
    away = p.copy()
    away[codes, np.arange(len(codes))] -= 1.0
    pulled: Floats = np.maximum(((product @ away) * away).sum(axis=0), 0.0)
    return pulled


def settled(base: Floats, step: Floats, p: Floats, change: float = SETTLED) -> Floats:
    """Repeat p ← softmax(step·p + base) until no probability changes more; rows that have settled are left out."""
    out = np.empty_like(p)
    waiting = np.arange(p.shape[1])
    for count in range(1, MOST_STEPS + 1):
        new = step @ p
        new += base
        new -= new.max(axis=0)
        np.exp(new, out=new)
        new /= new.sum(axis=0)
        if count % LOOK == 0:
            moving = np.abs(new - p).max(axis=0) > change
            if not moving.all():
                out[:, waiting[~moving]] = new[:, ~moving]
                waiting, base, new = waiting[moving], base[:, moving], new[:, moving]
        p = new
        if not len(waiting):
            break
    out[:, waiting] = p
    return out


def two_class_points(above: Floats, length: float, gamma: float) -> tuple[Floats, Floats, Floats]:
    """(loss, moved, ceiling), each (n,): the highest point of log(1 + e^t) − γ‖z − z_i‖² for every row.

    ``above`` (n,) is u = s_other − s_y, ``length`` q = ‖w_other − w_y‖². With t the difference at the worst point and
    κ = q/(2γ):   t = u + κσ(t),   ‖z* − z‖² = qσ(t)²/(4γ²).
    h(t) = t − κσ(t) rises everywhere for κ ≤ 4; else it falls between ∓t₀, cosh t₀ = κ/2 − 1, and only roots outside
    are maxima. h is concave left of 0 and convex right of it, so Newton from u rises to the left root, and from u + κ
    falls to the right one, without a safeguard. The higher of the two is the maximum.

    >>> loss, moved, ceiling = two_class_points(np.zeros(1), 4.0, 1.4621171572600098)  # t = 1: moved by 1/2
    >>> np.round([loss[0], moved[0]], 6).tolist()
    [1.313262, 0.25]
    """
    kappa = length / (2.0 * gamma)
    turn = np.arccosh(kappa / 2.0 - 1.0) if kappa > 4.0 else 0.0
    candidates = []
    for side in (-1.0, 1.0):
        limit = side * turn - kappa * expit(side * turn)
        exists = side * above >= side * limit
        t = above if side < 0 else above + kappa
        t = np.where(exists, t, 0.0)
        goal = np.where(exists, above, -kappa / 2.0)
        for _ in range(NEWTON_STEPS):
            p = expit(t)
            slope = np.maximum(1.0 - kappa * p * (1.0 - p), 1e-12)
            step = np.where(exists, (goal - t + kappa * p) / slope, 0.0)
            # never past the turn, where the slope is 0 and rounding could throw it across
            t = np.minimum(t + step, -turn) if side < 0 else np.maximum(t + step, turn)
            if np.all(np.abs(step) <= 1e-13 * (1.0 + np.abs(t))):
                break
        p = expit(t)
        loss, moved = np.logaddexp(0.0, t), length * (p / (2.0 * gamma)) ** 2
        candidates.append((np.where(exists, loss - gamma * moved, -np.inf), loss, moved))
    (left, *_), (right, *_) = candidates
    loss, moved = (np.where(left >= right, candidates[0][j], candidates[1][j]) for j in (1, 2))
    return loss, moved, loss - gamma * moved + ROUNDING * (loss + gamma * moved)
