"""Everything the regret, its interval and the score test need: own heads, the shared head, and how noisy both are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from invariscope.heads.fit import Heads, capped, fit_own, fit_shared, least_loss
from invariscope.heads.losses import Loss, loss_of, score_rows
from invariscope.heads.wide import Inverted, inverted
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.blocks import BLOCK_ROWS, Sums, sum_by_environment
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target

#: Mean leverage below which leave-one-out changes a squared-loss regret by less than 0.0001. A single p-value may move
#: by more, where a few rows have most of the leverage; how often the test rejects does not.
UNNOTICED = 5e-4
CLEARLY = 1e3  # times the loss of a head that makes no error: what is lost beyond that is no rounding


@dataclass(frozen=True)
class SharedHead:
    """Own heads and the shared head of all environments, with sums over rows.

    ``weights`` (E,) are a_e = 1 / (n_e R_e(own)), so that Σ_e a_e Σ_i loss_i is the shared objective. ``outer`` (E,
    P, P) is J_e = Σ g gᵀ and ``gradient`` (E, P) is Σ g, g the row gradients at the shared head; J_e is
    leverage-corrected and steadied. ``hessian`` (E, P, P) is H_e, midway between both heads, with its ``rank`` and
    its inverse ``own_inverse``; ``shared_inverse`` is that of H_e at the shared head. ``losses`` (E, 2) are the
    summed losses under the (shared, own) head, ``squares`` (E, 2, 2) their second moments and ``loss_gradient`` (E,
    2, P) = Σ loss · g. ``own_optimism`` (E,) is ½ tr(H_e⁻¹ J_e) at the own head; ``own_share`` (E,) the squared
    residuals of the own head as a share of those of the shared one; ``usable`` (E,) says whose own head makes any
    error to compare with; ``boundless`` (E,), where no own head makes any, who bears one under the shared head.
    """

    rows: Floats
    squared: bool
    scores: int
    weights: Floats
    own: Heads
    shared: Heads
    hessian: Floats
    rank: np.ndarray[tuple[int], np.dtype[np.intp]]
    own_inverse: Floats
    shared_inverse: Floats
    inverse: Floats
    outer: Floats
    gradient: Floats
    losses: Floats
    squares: Floats
    loss_gradient: Floats
    own_optimism: Floats
    own_share: Floats
    usable: Booleans
    boundless: Booleans

    @cached_property
    def own_risk(self) -> Floats:
        """R_e(w_e*): in-sample loss plus optimism, per row."""
        return (self.losses[:, 1] + self.own_optimism) / self.rows

    @cached_property
    def divisor(self) -> Floats:
        """R_e(w_e*) to divide by; 1 where an own head makes no error, and what comes of it is not used."""
        return np.where(self.usable, self.own_risk, 1.0)

    @cached_property
    def spare_rows(self) -> Floats:
        """Rows left when an own head is fitted, which tell the noise: what is judged by it has F's law, not χ²'s."""
        return np.maximum(self.rows - self.rank, 1.0)

    @cached_property
    def noise_excess(self) -> Floats:
        """What estimation noise alone makes of the in-sample excess: ½ tr(H_e Cov(w* − w_e)) / n_e."""
        return np.asarray(0.5 * np.einsum("epq,eqp->e", self.hessian, self.difference_noise) / self.rows)

    @cached_property
    def excess(self) -> Floats:
        """R_e(w*) − R_e(w_e*): the in-sample difference less what estimation noise alone would make of it.

        Squared loss: a row pulls the shared head towards itself by its whole residual, misfit included. (For classes
        that term is offset by others of its order; simulations say to leave it out.)
        """
        difference = (self.losses[:, 0] - self.losses[:, 1]) / self.rows - self.noise_excess
        if not self.squared:
            return difference
        # a_e tr(H⁻¹ J_e) / n_e
        pull = self.weights * np.einsum("pq,eqp->e", self.inverse, self.centred_outer) / self.rows
        return np.asarray(difference + (1.0 - self.own_share) * pull)

    @cached_property
    def shared_risk(self) -> Floats:
        """R_e(w*), per row."""
        return self.own_risk + self.excess

    @cached_property
    def centred_outer(self) -> Floats:
        """J_e about its mean: the covariance of a sum of gradients also where the mean gradient is not zero."""
        return np.asarray(self.outer - np.einsum("ep,eq,e->epq", self.gradient, self.gradient, 1.0 / self.rows))

    @cached_property
    def covariance(self) -> Floats:
        """Sandwich covariance of the shared head, H⁻¹ (Σ a_e² J_e) H⁻¹."""
        middle = np.einsum("e,epq->pq", self.weights**2, self.centred_outer)
        return np.asarray(self.inverse @ middle @ self.inverse)

    @cached_property
    def difference_noise(self) -> Floats:
        """Covariance of (shared − own head) in every environment: (E, P, P).

        J_e belongs to the shared head, whose residuals hold its misfit as well; of that only ``own_share`` is noise of
        the own head, and as much is common to both.
        """
        of_own = self.own_share[:, None, None] * self.centred_outer
        # Cov(w*) + H_e⁻¹ J°_e H_e⁻¹ − a_e (H⁻¹ J°_e H_e⁻¹ + its transpose), J°_e = own_share · J_e
        through = of_own @ self.own_inverse
        own = self.own_inverse @ through
        both = self.weights[:, None, None] * (self.inverse @ through)
        return np.asarray(self.covariance + own - both - np.swapaxes(both, -1, -2))


def fit_shared_head(data: Environments, target: Target) -> SharedHead:
    """Fit own heads and the shared head, then collect their noise in one more pass over the rows."""
    own = fit_own(data, target)
    risk = own.loss / data.rows
    least = least_loss(data, target)
    usable = risk > least
    # an environment whose own head makes no error would take over the shared head: it gets the weight of the next best
    weights = 1.0 / (data.rows * np.where(usable, risk, risk[usable].min() if usable.any() else 1.0))
    fit = _fit_shared_by(data, target, own, usable, weights)
    return replace(fit, boundless=_boundless(target, usable, fit.shared.loss / data.rows, least))


def fit_for_test(data: Environments, target: Target, fit: SharedHead) -> SharedHead:
    """The shared head that the score test looks from: that of all, but for environments whose classes are split.

    To be split by chance, classes must lie apart further than they do: such rows pull a head outwards every time, and
    the others, judged from there, would seem to differ. Numbers without noise are right about the head they share.
    """
    if fit.squared or fit.usable.all() or not fit.usable.any():
        return fit
    return _fit_shared_by(data, target, fit.own, fit.usable, np.where(fit.usable, fit.weights, 0.0))


def _fit_shared_by(data: Environments, target: Target, own: Heads, usable: Booleans, weights: Floats) -> SharedHead:
    """The shared head under these weights of the environments, and its noise."""
    shared = fit_shared(data, target, weights)
    # class heads: an over-fitted own head has too little curvature, the shared head too much where they differ
    hessian = (own.hessian + shared.hessian) / 2
    scores = loss_of(target).n_scores
    midway, at_shared, at_own = (inverted(each, scores) for each in (hessian, shared.hessian, own.hessian))
    together = inverted(np.einsum("e,epq->pq", weights, shared.hessian)[None], scores)
    sums = _collect(data, target, own, shared, at_own, together, weights)
    return SharedHead(
        rows=data.rows,
        squared=target.task == "regression",
        scores=scores,
        weights=weights,
        own=own,
        shared=shared,
        hessian=hessian,
        rank=midway.rank,
        own_inverse=midway.inverse,
        shared_inverse=at_shared.inverse,
        inverse=together.inverse[0],
        outer=_steadied(sums["outer"], shared.hessian, at_shared, sums["length_squares"], data.rows),
        gradient=sums["gradient"],
        losses=sums["losses"],
        squares=sums["squares"],
        loss_gradient=sums["loss_gradient"],
        own_optimism=sums["own_optimism"],
        own_share=_share(sums["residual_squares"]),
        usable=usable,
        boundless=np.zeros(len(usable), dtype=np.bool_),
    )


def _boundless(target: Target, usable: Booleans, shared_risk: Floats, least: Floats) -> Booleans:
    """Who loses something under the shared head and nothing under its own: only for numbers, and without any noise.

    Classes may be split without error by chance; numbers are not fitted exactly by chance with rows to spare. And noise
    of any environment moves the shared head away from one that is right everywhere.
    """
    if target.task != "regression" or usable.any():
        return np.zeros(len(usable), dtype=np.bool_)
    return np.asarray(shared_risk > CLEARLY * least)


def _share(residual_squares: Floats) -> Floats:
    """Squared residuals of the own head as a share of the shared one's; all of them where neither leaves any."""
    of_shared, of_own = residual_squares.T
    return np.asarray(np.minimum(1.0, np.divide(of_own, of_shared, out=np.ones(len(of_own)), where=of_shared > 0)))


def _steadied(outer: Floats, hessian: Floats, part: Inverted, length_squares: Floats, rows: Floats) -> Floats:
    """J_e drawn towards a multiple of H_e as far as its own noise warrants (Ledoit and Wolf's shrinkage, H_e-whitened).

    For a well-specified head with constant noise J_e is proportional to H_e; a raw J_e of few rows is correlated with
    the gradient it is to judge (class heads reject twice as often as they should with 24 parameters and 200 rows).
    As rows grow the weight of H_e goes to 0 unless it is right. A column without curvature has no noise either.
    """
    outer = outer * (part.live[:, :, None] & part.live[:, None, :])
    trace, size = part.whitened(outer)  # of W = H_e^{−½} J_e H_e^{−½}
    # φ: J_e ≈ φ H_e; where classes are split so well that no curvature is left, there is nothing to draw it towards
    dispersion = trace / np.maximum(part.rank, 1)
    distance = size - part.rank * dispersion**2  # ‖W − φ I‖²
    # its noise is Σ_i ‖w_i w_iᵀ‖² − ‖W‖² / n_e, the sum being taken at the own heads, where it is free of their misfit
    share = np.clip((length_squares - size / rows) / np.where(distance > 0, distance, np.inf), 0.0, 1.0)
    return np.asarray(outer + share[:, None, None] * (dispersion[:, None, None] * hessian - outer))


def _collect(
    data: Environments, target: Target, own: Heads, shared: Heads, at_own: Inverted, together: Inverted, weights: Floats
) -> Sums:
    """The sums of :class:`SharedHead` that need both heads, in one pass over the rows."""
    loss = loss_of(target)
    size = own.theta.shape[1]
    shapes = {"outer": (size, size), "gradient": (size,), "losses": (2,), "squares": (2, 2), "loss_gradient": (2, size)}
    shapes |= {"own_optimism": (), "length_squares": (), "residual_squares": (2,)}

    def collect(environment: int, rows: slice) -> Sums:
        sums = {name: np.zeros(shape) for name, shape in shapes.items()}
        heads = np.concatenate([both.theta[environment].reshape(loss.n_scores, -1) for both in (shared, own)])
        # a_e H⁻¹: a row's leverage on the shared head
        weight_here, rows_here = weights[environment], data.rows[environment]
        own_mean = at_own.rank[environment] / rows_here
        pull_mean = weight_here * float(np.sum(shared.hessian[environment] * together.inverse[0])) / rows_here
        many = target.task == "regression" and own_mean < UNNOTICED
        scratch = np.empty((min(BLOCK_ROWS, rows.stop - rows.start), size))
        for block, design in data.blocks.designs(rows):
            y = target.values[block]
            both_scores = design @ heads.T
            scores, own_scores = both_scores[:, : loss.n_scores], both_scores[:, loss.n_scores :]
            residual, own_residual = loss.residual(scores, y), loss.residual(own_scores, y)
            values = np.stack([loss.value(scores, y), loss.value(own_scores, y)])
            own_squares = np.einsum("ij,ij->i", own_residual, own_residual)
            if many:  # what single rows weigh in the fits is past noticing: the mean does
                leverage, length = np.full(1, own_mean), own_squares * own_mean
            else:
                leverage, length = _leverage(loss, at_own, environment, design, own_scores, own_residual)
            # residual × leave-one-out residual: r² / (1 − h), and ‖H_e^{−½} g°‖² / (1 − h)
            length /= 1.0 - capped(leverage)
            own_squares /= 1.0 - capped(leverage)
            leverage = np.full(1, pull_mean)
            if not many:
                leverage = _leverage(loss, together, 0, design, scores, residual, weight_here)[0]
            correction = 1.0 / np.sqrt(1.0 - capped(leverage))  # HC2
            counted, weight = values, np.ones(1)
            if data.weight is not None:
                weight = data.weight[block]
                counted, correction = values * weight, correction * np.sqrt(weight)
            sums["losses"] += counted.sum(axis=1)
            sums["squares"] += counted @ values.T
            sums["own_optimism"] += 0.5 * (length * weight).sum()  # ½ tr(H_e⁻¹ Σ g° g°ᵀ)
            sums["length_squares"] += (length**2 * weight).sum()
            squares = np.einsum("ij,ij->i", residual, residual) / (1.0 - capped(leverage))
            sums["residual_squares"] += [(squares * weight).sum(), (own_squares * weight).sum()]
            per_row = [residual * weight[:, None], *(residual * loss_of_row[:, None] for loss_of_row in counted)]
            gradients = (np.concatenate(per_row, axis=1).T @ design).reshape(3, size)  # Σ g, Σ ℓ* g, Σ ℓ° g
            sums["gradient"] += gradients[0]
            sums["loss_gradient"] += gradients[1:]
            scaled = score_rows(design, residual * correction[:, None], scratch)
            sums["outer"] += scaled.T @ scaled  # Σ g gᵀ / (1 − h)
        return sums

    return sum_by_environment(collect, data.offsets)


def _leverage(
    loss: Loss,
    part: Inverted,
    which: int,
    design: Floats,
    scores: Floats,
    residual: Floats,
    scale: float = 1.0,
) -> tuple[Floats, Floats]:
    """Leverage and length of every row's gradient under one of the inverses, times a number."""
    if part.factor is None:
        return loss.leverage_by_inverse(scale * part.inverse[which], design, scores, residual)
    # leverages only correct other numbers, by a few per cent: single precision halves the dearest step
    factor = np.sqrt(scale) * part.factor[which]
    return loss.leverage(factor, design.astype(np.float32), scores, residual)
