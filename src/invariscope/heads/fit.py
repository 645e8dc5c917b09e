"""Linear heads: fitted for all environments in the same pass, from moments (squared) or by Newton steps (classes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from invariscope.heads.linear_algebra import NEWTON_TOLERANCE, newton, solved
from invariscope.heads.linear_head import LinearHead
from invariscope.heads.losses import loss_of, score_rows
from invariscope.heads.passes import Judged, by_fold, derivatives, products, slopes, steep, without_flat
from invariscope.heads.wide import VERY_WIDE, Curvature, Inverse, Steps, inverse_at_zero, without_free_constant
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import BLOCK_ROWS, Sums, sum_by_environment
from invariscope.rows.environments import Environments
from invariscope.rows.moments import moments_of
from invariscope.rows.resampling import rows_of_folds
from invariscope.rows.targets import Target

SEPARATED = 1e-3  # nats per row: a class head with less loss than this has split its classes (almost) perfectly
NO_ERROR = 1e-12  # of the target's mean square: what a head of numbers that makes no error may lose to rounding
#: heads of all rows, beside the target they belong to: an audit and its influence index fit the same
_POOLED: WeakKeyDictionary[Environments, tuple[Floats, Floats]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Heads:
    """One head per environment (own) or the same for all (shared), with the sums over rows at those heads.

    ``theta`` is (E, P) with P = n_scores · p, score after score, on the design (1, z − shift);
    ``loss`` (E,), ``gradient`` (E, P) and ``hessian`` (E, P, P) are sums over the rows of each environment.
    Heads fitted with one fold left out have a leading axis for the folds.
    """

    theta: Floats
    loss: Floats
    gradient: Floats
    hessian: Floats
    converged: bool = True


def least_loss(data: Environments, target: Target) -> Floats:
    """The mean loss (E,) up to which a head makes no error in an environment: rounding, or classes it has split.

    Numbers are summed about their mean over all rows, which is what rounding there is a share of.
    """
    if target.task != "regression":
        return np.full(len(data), SEPARATED)
    apart = target.values - np.average(target.values, axis=0, weights=data.weight)
    squares = (apart**2).reshape(len(apart), -1).sum(axis=1)
    counted = squares if data.weight is None else data.weight * squares
    return NO_ERROR * np.add.reduceat(counted, data.offsets[:-1]) / data.rows


def loss_of_constant(data: Environments, target: Target, rows: slice) -> float:
    """Summed loss of the best constant prediction for these rows: their mean, or the shares of their classes."""
    y, weight = target.values[rows], None if data.weight is None else data.weight[rows]
    if target.task == "regression":
        centred = y - np.average(y, weights=weight)
        return 0.5 * float(centred @ centred if weight is None else weight @ centred**2)
    counts = np.bincount(y.astype(np.intp), weight)
    counts = counts[counts > 0]  # a class may be elsewhere only
    return float(-counts @ np.log(counts / counts.sum()))


def evaluate(data: Environments, target: Target, theta: Floats) -> Heads:
    """Loss, gradient and Hessian of every environment at its row of ``theta``, in one pass.

    ``theta`` (E, P) is judged on all rows; a stack (F, E, P) on the rows outside fold f, all folds in the same pass.
    """
    data.refuse_out_of_range()
    loss = loss_of(target)
    if target.task == "regression":
        return _evaluate_from_moments(data, target, theta)
    stack = theta if theta.ndim == 3 else theta[None]

    def hessian(judged: Judged) -> Floats:
        return loss.gram(judged.design, judged.scores, judged.weight)

    sums = derivatives(data, target, stack, hessian, (stack.shape[2],) * 2)
    live = steep(data, loss, np.einsum("...pp->...p", sums["curvature"]))
    sums["curvature"] = without_flat(sums["curvature"], live, loss.n_scores)
    value, gradient, whole = (by_fold(sums[name], theta) for name in ("loss", "gradient", "curvature"))
    return Heads(theta, value, gradient, whole)


def fit_own(data: Environments, target: Target) -> Heads:
    """The best head of every environment by itself."""
    loss = loss_of(target)
    if target.task == "regression":
        total = moments_of(data, target).total
        theta = solved(total.hessian, total.cross)  # (Σ z zᵀ)⁺ Σ z y
        theta[:, 0] += total.centre
        return _evaluate_from_moments(data, target, theta)
    return _fit_by_newton(data, target, np.zeros((len(data), loss.n_scores * data.blocks.width)))


def fit_shared(
    data: Environments,
    target: Target,
    environment_weight: Floats,
    start: Floats | None = None,
    *,
    folds: int = 1,
    tolerance: float = NEWTON_TOLERANCE,
    near: Floats | None = None,
) -> Heads:
    """The one head that minimises Σ_e environment_weight_e · Σ_{i in e} loss_i.

    With ``folds`` > 1, as many heads as folds, each fitted without one of them, all in the same passes; wide ones
    without their Hessians. ``near`` (P, P) is the inverse of a Hessian nearby, which spares making some.
    """
    loss = loss_of(target)
    if target.task == "regression":
        moments = moments_of(data, target, folds)
        seen = moments.without_each if folds > 1 else moments.total
        # θ = (Σ_e a_e Σ z zᵀ)⁺ Σ_e a_e Σ z y
        hessian = np.einsum("e,...epq->...pq", environment_weight, seen.hessian)
        cross = np.einsum("e,...ep->...p", environment_weight, seen.cross)
        theta = solved(hessian, cross)
        theta[..., 0] += moments.centre
        return _evaluate_from_moments(data, target, np.repeat(theta[..., None, :], len(data), axis=-2))
    first = np.zeros(loss.n_scores * data.blocks.width) if start is None else start
    heads = _fit_by_newton(data, target, np.tile(first, (folds, 1)), environment_weight, tolerance, near)
    if folds > 1:
        return heads
    return Heads(heads.theta[0], heads.loss[0], heads.gradient[0], heads.hessian[0], heads.converged)


def fit_pooled(data: Environments, target: Target) -> Heads:
    """The head fitted by ERM, every row counting the same; of those who ask for it, one waits for the Newton steps."""
    known = _POOLED.get(data)
    start = known[1] if known is not None and known[0] is target.values else None
    fitted = fit_shared(data, target, np.full(len(data), 1.0 / data.rows.sum()), start)
    _POOLED[data] = target.values, fitted.theta[0].copy()
    return fitted


def pooled_head(data: Environments, target: Target) -> tuple[LinearHead, Floats]:
    """The head fitted by ERM, every row counting the same, in the user's own columns; and its scores (n, n_scores), in
    the stored row order."""
    shared = fit_pooled(data, target)
    theta: Floats = shared.theta[0].reshape(loss_of(target).n_scores, -1)  # intercepts first
    scores = np.empty((len(data.X), len(theta)))
    for block, design in data.blocks.designs(slice(0, len(data.X))):
        scores[block] = design @ theta.T
    return LinearHead(theta[:, 1:], theta[:, 0] - theta[:, 1:] @ data.blocks.shift), scores


def held_out_loss(data: Environments, target: Target, theta: Floats) -> Floats:
    """Sum of losses in every environment, each row judged by the head (F, E, P) that did not see its fold."""
    loss = loss_of(target)
    folds = len(theta)

    def collect(environment: int, rows: slice) -> Sums:
        total = np.zeros(())
        heads = theta[:, environment].reshape(folds, loss.n_scores, -1)
        for block, design in data.blocks.designs(rows):
            for k, rows_in in enumerate(rows_of_folds(data, environment, block, folds)):
                value = loss.value(design[rows_in] @ heads[k].T, target.values[block][rows_in])
                total += value.sum() if data.weight is None else value @ data.weight[block][rows_in]
        return {"loss": total}

    if target.task == "regression":
        moments = moments_of(data, target, folds)
        each = [_squares(moments.gram[:, k], _about(theta[k], moments.centre)) for k in range(folds)]
        return np.asarray(0.5 * np.sum(each, axis=0))
    return sum_by_environment(collect, data.offsets)["loss"]


def cross_losses(data: Environments, target: Target, theta: Floats) -> Floats:
    """Sum of losses in environment a under the head of environment b, for all pairs: (E, E)."""
    loss = loss_of(target)
    if target.task == "regression":
        total = moments_of(data, target).total
        heads = _about(theta, total.centre)
        return np.stack([0.5 * _squares(total.gram, np.tile(head, (len(data), 1))) for head in heads], axis=1)
    heads = theta.reshape(len(theta) * loss.n_scores, -1)

    def collect(environment: int, rows: slice) -> Sums:
        total = np.zeros(len(theta))
        for block, design in data.blocks.designs(rows):
            scores = design @ heads.T
            for b in range(len(theta)):
                value = loss.value(scores[:, b * loss.n_scores : (b + 1) * loss.n_scores], target.values[block])
                total[b] += value.sum() if data.weight is None else value @ data.weight[block]
        return {"loss": total}

    return sum_by_environment(collect, data.offsets)["loss"]


def theta_of(data: Environments, weight: Floats, bias: Floats) -> Floats:
    """One row of ``theta`` from a head given in the user's own columns."""
    return np.column_stack([bias + weight @ data.blocks.shift, weight]).ravel()


def _fit_by_newton(
    data: Environments,
    target: Target,
    start: Floats,
    environment_weight: Floats | None = None,
    tolerance: float = NEWTON_TOLERANCE,
    near: Floats | None = None,
) -> Heads:
    """Newton steps with halving from ``start``: a head of its own for each environment (E, P), or, if weights are
    given, one for each fold (F, P) that all environments share."""
    heads, at = Heads(start, *(np.empty(0),) * 3), None

    def of_environments(theta: Floats) -> Floats:
        return theta if environment_weight is None else np.repeat(theta[:, None], len(data), axis=1)

    def combined(sums: Floats) -> Floats:  # over environments, where they share a head
        return sums if environment_weight is None else np.tensordot(environment_weight, sums, axes=(0, 1))

    def problems(theta: Floats) -> tuple[Floats, Floats, Floats]:
        nonlocal heads, at
        heads, at = evaluate(data, target, of_environments(theta)), theta
        return combined(heads.loss), combined(heads.gradient), combined(heads.hessian)

    def by_products(theta: Floats) -> tuple[Floats, Floats, Curvature]:
        stack = of_environments(theta)
        value, gradient, flat = slopes(data, target, stack)

        def times(along: Floats) -> Floats:
            return combined(products(data, target, stack, of_environments(along)))

        return combined(value), combined(gradient), Curvature(times, lambda: problems(theta)[2], flat)

    loss = loss_of(target)
    rows = data.rows if environment_weight is None else np.tile(data.rows, (len(start), 1))
    floor = 1e-2 * SEPARATED * combined(rows)

    def solve(hessian: Floats, gradient: Floats) -> Floats:
        return solved(without_free_constant(hessian, loss.n_scores), gradient)

    if start.shape[1] < VERY_WIDE:
        _, converged = newton(problems, solve, start, floor=floor, tolerance=tolerance)
        return replace(heads, converged=converged)
    inverse: Inverse | None = None
    if near is not None:
        inverse = near.__rmatmul__  # v ↦ v H⁻¹, of any number of problems
    elif not start.any():
        inverse = inverse_at_zero(data, loss, environment_weight)
    theta, converged = newton(by_products, Steps(inverse, loss.n_scores), start, floor=floor, tolerance=tolerance)
    if environment_weight is not None and len(start) > 1:  # with a fold left out: nobody asks for their Hessians
        stack = of_environments(theta)
        value, gradient, _ = slopes(data, target, stack)
        return Heads(stack, value, gradient, np.empty(0), converged)
    if at is not theta:
        problems(theta)
    return replace(heads, converged=converged)


def _evaluate_from_moments(data: Environments, target: Target, theta: Floats) -> Heads:
    moments = moments_of(data, target, len(theta) if theta.ndim == 3 else 1)
    seen, centred = moments.without_each if theta.ndim == 3 else moments.total, _about(theta, moments.centre)
    gradient = np.einsum("...pq,...q->...p", seen.hessian, centred) - seen.cross  # Σ z (zᵀθ − y)
    return Heads(theta, 0.5 * _squares(seen.gram, centred), gradient, seen.hessian)


def _about(theta: Floats, centre: float) -> Floats:
    """The heads for y − centre: only the intercept moves."""
    out = theta.copy()
    out[..., 0] -= centre
    return out


def _squares(gram: Floats, theta: Floats) -> Floats:
    """Σ (y − θᵀz)² from second moments of (z, y), both about the same centre."""
    with_target = np.concatenate([-theta, np.ones((*theta.shape[:-1], 1))], axis=-1)
    return np.asarray(np.maximum(np.einsum("...p,...pq,...q->...", with_target, gram, with_target), 0.0))


def score_covariances(
    data: Environments, target: Target, theta: Floats, factor: Floats | None = None
) -> tuple[Floats, Floats]:
    """Σ g gᵀ and Σ g of every environment, g the row gradients at ``theta``; one weighted pass.

    With ``factor`` (E, P, r), F Fᵀ = the inverse Hessian that belongs to the fit, residuals are divided by
    √(1 − leverage): fitted residuals are too small by that factor (HC2).
    """
    loss = loss_of(target)
    size = theta.shape[1]

    def collect(environment: int, rows: slice) -> Sums:
        head = theta[environment].reshape(loss.n_scores, -1)
        sums = {"outer": np.zeros((size, size)), "gradient": np.zeros(size)}
        scratch = np.empty((min(BLOCK_ROWS, rows.stop - rows.start), size))
        for block, design in data.blocks.designs(rows):
            scores = design @ head.T
            residual = loss.residual(scores, target.values[block])
            weighted = residual if data.weight is None else residual * data.weight[block][:, None]
            sums["gradient"] += (weighted.T @ design).ravel()
            if factor is not None:
                leverage, _ = loss.leverage(factor[environment], design, scores, residual)
                residual /= np.sqrt(1.0 - capped(leverage))[:, None]
            if data.weight is not None:
                residual *= np.sqrt(data.weight[block])[:, None]
            gradients = score_rows(design, residual, scratch)
            sums["outer"] += gradients.T @ gradients
        return sums

    sums = sum_by_environment(collect, data.offsets)
    return sums["outer"], sums["gradient"]


def capped(leverage: Floats) -> Floats:
    """Leverages kept below 0.99: a row that alone determines a coefficient says nothing about its noise."""
    return np.minimum(leverage, 0.99)
