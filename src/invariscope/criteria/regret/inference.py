"""Intervals of the regret, and the score test of "one head serves all environments".

A regret is zero under invariance and quadratic around it, so that plain normal theory fails. The excess loss
of environment e under the shared head is, to second order,

    T(τ) = τ² + (τ / τ̂) · linear + quadratic,    τ² = true excess, τ̂² = that in the sample,

where ``linear`` is the usual (delta-method) noise at τ̂, which vanishes with τ, and ``quadratic`` = ½ ξᵀ H_e ξ − its
mean is the noise of fitting the heads, ξ = shared − own head, which is what is left at τ = 0. Both are simulated from
the additive statistics, jointly for all environments. An end of the interval is the true value under which the
observed one would be just as extreme as allowed (test inversion), which is right at zero, far from it, and in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.regret.shared_head import SharedHead
from invariscope.heads.linear_algebra import WIDE, solved, spectrum
from invariscope.heads.wide import without_free_constant
from invariscope.rows.arrays import Floats

MISSED = 0.05  # how often an interval may miss
FEWEST_BEYOND = 5  # draws that a quantile can be read off
TAIL = 0.02  # of the draws: those that show how the law goes on beyond the last of them


@dataclass(frozen=True)
class Draws:
    """Simulated noise of the excess: ``linear`` and ``quadratic`` (B, ...), both in units of loss."""

    linear: Floats
    quadratic: Floats


def draw_excess(fit: SharedHead, draws: int, rng: np.random.Generator) -> tuple[Draws, Floats]:
    """Noise of the excess loss of every environment, (B, E), and the in-sample excess it is scaled by, (E,).

    ``linear`` belongs to τ = √(in-sample excess).
    """
    environments, size = fit.gradient.shape
    per_row = 1.0 / fit.rows
    in_sample = np.maximum((fit.losses[:, 0] - fit.losses[:, 1]) * per_row, 1e-300)
    if not draws:
        return Draws(np.empty((0, environments)), np.empty((0, environments))), in_sample
    difference = fit.shared.theta - fit.own.theta
    slope = np.einsum("epq,eq,e->ep", fit.hessian, difference, per_row)  # H_e (w* − w_e) / n_e, ∇ of the excess in w*

    # loss(shared) − (1 + regret) loss(own) and loss(own) fluctuate jointly with the gradients: regress them on those
    part = spectrum(fit.centred_outer)
    root = part.root()  # root rootᵀ = J_e
    basis = np.tile(np.array([[1.0, 0.0], [0.0, 1.0]]), (environments, 1, 1))
    basis[:, 0, 1] = -fit.shared_risk / fit.divisor
    # with B this basis and ℓ the two losses of a row: Σ Bℓ, and Σ (Bℓ)(Bℓ)ᵀ − (Σ Bℓ)(Σ Bℓ)ᵀ / n_e
    sums = np.einsum("ejk,ek->ej", basis, fit.losses)
    squares = np.einsum("ejk,ekl,eml->ejm", basis, fit.squares, basis)
    variance = squares - np.einsum("ej,ek,e->ejk", sums, sums, per_row)
    # Cov(Bℓ, g) = Σ Bℓ gᵀ − (Σ Bℓ)(Σ g)ᵀ / n_e, and its coefficients J_e^{−½} Cov(g, Bℓ) on whitened gradients
    covariance = np.einsum("ejk,ekp->ejp", basis, fit.loss_gradient)
    covariance -= np.einsum("ej,ep,e->ejp", sums, fit.gradient, per_row)
    along = np.einsum("epr,ekp->ekr", part.inverse_root(), covariance)
    # Var(Bℓ | g) = Var(Bℓ) − along alongᵀ, and its root;
    # what is left over may come out slightly negative where J was steadied: nothing is left then, in any unit of loss
    unit = np.sqrt(np.maximum(np.einsum("ejj->ej", variance), 0.0))  # which rounding may leave just below 0
    unit[unit == 0] = 1.0
    left = (variance - np.einsum("ejr,ekr->ejk", along, along)) / unit[:, :, None] / unit[:, None, :]
    values, vectors = np.linalg.eigh(left)
    rest = unit[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    # a larger own loss lowers the environment's weight in the shared head: H⁻¹ a_e g_e per unit of relative change
    reweigh = np.einsum("pq,e,eq->ep", fit.inverse, fit.weights, fit.gradient)

    own_loss = np.where(fit.usable, fit.losses[:, 1] * per_row, 1.0)
    common = fit.own_share
    linear, quadratic = np.empty((draws, environments)), np.empty((draws, environments))
    batch = max(1, int(2e7 // (environments * size)))
    for start in range(0, draws, batch):
        rows = slice(start, min(start + batch, draws))
        noise = rng.standard_normal((rows.stop - rows.start, environments, size))
        scale = _of_estimated_noise(fit, len(noise), rng)
        gradients = np.einsum("ber,epr->bep", noise * scale, root, optimize=True)  # s_e ~ N(0, J_e), J_e estimated
        # δw* = −H⁻¹ Σ_e a_e s_e
        shared = -np.einsum("e,bep,pq->bq", fit.weights, gradients, fit.inverse, optimize=True)
        # gradients at the own head: the share of J_e that is theirs, and as much in common with the shared head's
        apart = np.einsum("ber,epr->bep", rng.standard_normal(noise.shape) * scale, root, optimize=True)
        of_own = gradients * common[:, None] + apart * np.sqrt(common * (1.0 - common))[:, None]
        own = -np.einsum("bep,epq->beq", of_own, fit.own_inverse, optimize=True)  # δw_e = −H_e⁻¹ s°_e
        shift = shared[:, None] - own  # ξ = δw* − δw_e, and ½ ξᵀ H_e ξ / n_e:
        curved = np.einsum("bep,epq->beq", shift, fit.hessian, optimize=True)
        quadratic[rows] = 0.5 * np.einsum("beq,beq->be", curved, shift) * per_row - fit.noise_excess
        # Bℓ / n_e: what follows from the gradients, and the rest
        losses = np.einsum("ber,ekr->bek", noise, along) * per_row[:, None]
        losses += np.einsum("bej,ekj->bek", rng.standard_normal((*noise.shape[:2], 2)), rest) * per_row[:, None]
        # δw* + Σ_e (δR_e / R_e) H⁻¹ a_e g_e, times the slope
        moved = shared + np.einsum("be,ep->bp", losses[:, :, 1] / own_loss, reweigh)
        linear[rows] = np.einsum("bp,ep->be", moved, slope) + losses[:, :, 0]
    return Draws(linear, quadratic), in_sample


def invert(draws: Draws, scale: float, observed: float, tail: float = MISSED / 2) -> tuple[float, float]:
    """The interval of the true value whose two ends each miss with probability ``tail``.

    ``draws`` are (B,); ``linear`` belongs to τ² = ``scale``. Below zero, where no true value can be, the interval goes
    on as that of a shift, so that it keeps its coverage at zero. Without any draw there is none.
    """
    if not len(draws.linear):
        return math.nan, math.nan
    from scipy.optimize import brentq  # here: keeps `import invariscope` light

    unit = draws.linear / np.sqrt(scale)

    def quantile(tau: float, level: float) -> float:
        return _quantile(tau**2 + tau * unit + draws.quadratic, level)

    def solve(level: float) -> float:
        """The τ² at which the given quantile of T(τ) is what was observed."""
        at_zero = quantile(0.0, level)
        if at_zero >= observed:
            return observed - at_zero
        low, high = 0.0, np.sqrt(max(observed - at_zero, scale))
        while quantile(high, level) < observed:
            low, high = high, 2 * high
        tau = brentq(lambda tau: quantile(tau, level) - observed, low, high, xtol=1e-12 * high, rtol=1e-12)
        return float(tau**2)

    return solve(1.0 - tail), solve(tail)


def _quantile(values: Floats, level: float) -> float:
    """The value that a further draw exceeds with probability 1 − ``level``.

    Where fewer than ``FEWEST_BEYOND`` draws would lie beyond it, the tail goes on as that of an exponential law does,
    with the mean of what the last draws exceed the ``TAIL`` by. (That of a normal law is shorter: ends are then wide.)
    """
    beyond = (1.0 - level) * (len(values) + 1)
    if beyond >= FEWEST_BEYOND:
        return float(np.quantile(values, level, method="weibull"))
    last = min(max(round(TAIL * len(values)), FEWEST_BEYOND), len(values) - 1)
    start, *rest = np.sort(np.partition(values, -last - 1)[-last - 1 :])
    return float(start + np.mean(np.subtract(rest, start)) * np.log(last / beyond))


def score_test(fit: SharedHead, draws: int, rng: np.random.Generator) -> tuple[float, Floats]:
    """Do the environments pull the shared head in directions that chance does not explain?

        S = Σ_e g_eᵀ J_e⁺ g_e;   null: s_e ~ N(0, J_e),  s_e ← s_e − H_e H⁻¹ Σ_k a_k s_k,  S again

    g_e is the summed gradient of environment e at the shared head, J_e its leverage-corrected covariance without
    misfit, H_e the Hessians, H = Σ a_e H_e. The projection is what fitting the shared head does to the gradients. J_e
    may differ between environments: other noise and other P(Z) are allowed under the null. Returns S and its draws.

    An environment whose own head makes no error shows no noise to judge its gradient by, and is left out of both sums:
    see :func:`~invariscope.criteria.regret.shared_head.fit_for_test`. Where that leaves none, or one that is compared
    with itself, S is NaN and nothing is drawn.
    """
    if np.count_nonzero(fit.usable) < (1 if fit.squared else 2):
        return math.nan, np.empty(0)
    # residuals at the shared head hold its misfit, too: counted as noise, it would hide what is being tested
    # (classes that an own head has split, perhaps by chance: all of it is noise, for all that is known)
    share = np.where(fit.usable | fit.squared, fit.own_share, 1.0)
    covariance = share[:, None, None] * fit.outer
    if not draws and covariance.shape[-1] >= WIDE:  # gᵀ J⁺ g alone
        along = solved(without_free_constant(covariance, fit.scores), fit.gradient)
        return float(np.sum((fit.gradient * along)[fit.usable])), np.empty(0)
    part = spectrum(covariance)
    whiten = part.inverse_root()  # S is a sum of squares in whitened gradients
    statistic = float(np.sum(np.einsum("epr,ep->er", whiten, fit.gradient)[fit.usable] ** 2))
    root = part.root()
    environments, size = fit.gradient.shape
    pull = np.einsum("e,epr->epr", fit.weights, root)
    # whitened response of environment e to a unit draw in environment k: identity (e = k) − whitenᵀ H_e H⁻¹ a_k root_k
    back = np.einsum("epr,epq,qs->ers", whiten, fit.shared.hessian, fit.inverse, optimize=True)
    null = np.empty(draws)
    live = (part.values > 0).astype(np.float64)
    batch = max(1, int(2e7 // (environments * size)))
    for start in range(0, draws, batch):
        noise = rng.standard_normal((min(batch, draws - start), environments, size)) * live
        noise *= _of_estimated_noise(fit, len(noise), rng)
        total = np.einsum("bkr,kpr->bp", noise, pull, optimize=True)  # Σ_k a_k s_k
        response = (noise - np.einsum("ers,bs->ber", back, total, optimize=True))[:, fit.usable]
        null[start : start + batch] = np.einsum("ber,ber->b", response, response)
    return statistic, null


def _of_estimated_noise(fit: SharedHead, draws: int, rng: np.random.Generator) -> Floats:
    """True noise as a multiple of that in the sample, (B, E, 1): √(f / χ²_f), f the rows left when heads are fitted.

    The draws are of that size where they arise: through the shared head, the noise of a small environment that is
    larger than it looks also reaches those whose own noise is well known.
    """
    return np.asarray(np.sqrt(fit.spare_rows / rng.chisquare(fit.spare_rows, (draws, len(fit.rows))))[:, :, None])
