"""Linear heads: fitted for all environments in the same pass, from moments (squared) or by Newton steps (classes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from invariscope.heads.linear_algebra import NEWTON_TOLERANCE, WIDE, newton, solved
from invariscope.heads.linear_head import LinearHead
from invariscope.heads.losses import loss_of, score_rows
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import BLOCK_ROWS, Sums, sum_by_environment
from invariscope.rows.environments import Environments
from invariscope.rows.moments import moments_of
from invariscope.rows.resampling import fold_of_rows
from invariscope.rows.targets import Target

SEPARATED = 1e-3  # nats per row: a class head with less loss than this has split its classes (almost) perfectly
NO_ERROR = 1e-12  # of the target's variance: what a head of numbers that makes no error may lose to rounding
#: heads of all rows, beside the target they belong to: an audit and its influence index fit the same
_POOLED: WeakKeyDictionary[Environments, tuple[Floats, Floats]] = WeakKeyDictionary()
FLAT = 1e-8  # of the curvature at even odds: a column with less holds rows of one class only, and its weight runs away


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


def least_loss(target: Target) -> float:
    """The mean loss up to which a fitted head makes no error: what is left is rounding, or classes it has split."""
    return NO_ERROR * float(np.var(target.values, axis=0).sum()) if target.task == "regression" else SEPARATED


def evaluate(data: Environments, target: Target, theta: Floats) -> Heads:
    """Loss, gradient and Hessian of every environment at its row of ``theta``, in one pass.

    ``theta`` (E, P) is judged on all rows; a stack (F, E, P) on the rows outside fold f, all folds in the same pass.
    """
    data.refuse_out_of_range()
    loss = loss_of(target)
    if target.task == "regression":
        return _evaluate_from_moments(data, target, theta)
    stack = theta if theta.ndim == 3 else theta[None]
    folds, _, size = stack.shape

    def collect(environment: int, rows: slice) -> Sums:
        sums = {"loss": np.zeros(folds), "gradient": np.zeros((folds, size)), "hessian": np.zeros((folds, size, size))}
        for block, design in data.blocks.designs(rows):
            y = target.values[block]
            for fold in range(folds):
                weight = None if data.weight is None else data.weight[block]
                if folds > 1:
                    seen = (fold_of_rows(data, environment, block, folds) != fold).astype(np.float64)
                    weight = seen if weight is None else seen * weight
                scores = design @ stack[fold, environment].reshape(loss.n_scores, -1).T
                residual, value = loss.residual(scores, y), loss.value(scores, y)
                if weight is not None:
                    residual *= weight[:, None]
                    value *= weight
                sums["loss"][fold] += value.sum()
                sums["gradient"][fold] += (residual.T @ design).ravel()
                sums["hessian"][fold] += loss.gram(design, scores, weight)
        return sums

    sums = sum_by_environment(collect, data.offsets)
    # what is left of the curvature there is rounding error, and its inverse would be taken for a huge variance
    at_even_odds = np.tile(data.column_squares, loss.n_scores)[:, None] / 4
    steep = np.einsum("...pp->...p", sums["hessian"]) > FLAT * at_even_odds
    sums["hessian"] *= steep[..., :, None] & steep[..., None, :]
    parts = (np.moveaxis(sums[name], 0, 1) for name in ("loss", "gradient", "hessian"))
    value, gradient, hessian = parts if theta.ndim == 3 else (part[0] for part in parts)
    return Heads(theta, value, gradient, hessian)


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
) -> Heads:
    """The one head that minimises Σ_e environment_weight_e · Σ_{i in e} loss_i.

    With ``folds`` > 1, as many heads as folds, each fitted without one of them, all in the same passes.
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
    heads = _fit_by_newton(data, target, np.tile(first, (folds, 1)), environment_weight, tolerance)
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
            fold = fold_of_rows(data, environment, block, folds)
            for k in range(folds):
                rows_in = fold == k
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
) -> Heads:
    """Newton steps with halving from ``start``: a head of its own for each environment (E, P), or, if weights are
    given, one for each fold (F, P) that all environments share."""
    heads = Heads(start, *(np.empty(0),) * 3)

    def combined(sums: Floats) -> Floats:  # over environments, where they share a head
        return sums if environment_weight is None else np.tensordot(environment_weight, sums, axes=(0, 1))

    def problems(theta: Floats) -> tuple[Floats, Floats, Floats]:
        nonlocal heads
        shared = environment_weight is not None
        heads = evaluate(data, target, np.repeat(theta[:, None], len(data), axis=1) if shared else theta)
        return combined(heads.loss), combined(heads.gradient), combined(heads.hessian)

    rows = data.rows if environment_weight is None else np.tile(data.rows, (len(start), 1))
    floor = 1e-2 * SEPARATED * combined(rows)
    scores = loss_of(target).n_scores

    def solve(hessian: Floats, gradient: Floats) -> Floats:
        return solved(_without_free_constant(hessian, scores), gradient)

    _, converged = newton(problems, solve, start, floor=floor, tolerance=tolerance)
    return replace(heads, converged=converged)


def _without_free_constant(hessian: Floats, scores: int) -> Floats:
    """Wide Hessians (k, P, P) of several scores, with curvature where they have none: the same added to all scores.

    Gradients have no part in these directions u_j = (e_j, e_j, …), so H + Σ_j c_j u_j u_jᵀ gives the same steps as H⁺
    but for a constant that no probability sees, and it can be inverted. Left as it is where a column is flat for
    some of the scores only.
    """
    if scores == 1 or hessian.shape[-1] < WIDE:
        return hessian
    size = np.einsum("...pp->...p", hessian).reshape(len(hessian), scores, -1)
    if ((size > 0).any(axis=1) != (size > 0).all(axis=1)).any():
        return hessian
    parts = hessian.reshape(len(hessian), scores, size.shape[2], scores, size.shape[2])
    pinned, column = parts.copy(), np.arange(size.shape[2])
    pinned[:, :, column, :, column] += np.moveaxis(size.mean(axis=1), 1, 0)[:, :, None, None]
    return pinned.reshape(hessian.shape)


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
