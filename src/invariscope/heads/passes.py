"""Passes over the rows of class heads: losses, gradients and what is known of the Hessians, for all folds at once.

Heads are a stack (E, P), one for each environment, or (F, E, P), each judged on the rows outside fold f.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from invariscope.heads.losses import Loss, loss_of
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.blocks import Sums, sum_by_environment
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import rows_of_folds
from invariscope.rows.targets import Target

FLAT = 1e-8  # of the curvature at even odds: a column with less holds rows of one class only, and its weight runs away


@dataclass(frozen=True)
class Judged:
    """A block of rows under the head of one fold; ``weight`` is 0 for rows of the fold itself."""

    fold: int
    design: Floats
    y: Floats
    scores: Floats
    weight: Floats | None


def judged_blocks(data: Environments, target: Target, stack: Floats, environment: int, rows: slice) -> Iterator[Judged]:
    """Blocks of an environment's rows under its heads ``stack`` (F, E, P), every fold's head on the rows outside it."""
    folds, scores = len(stack), loss_of(target).n_scores
    for block, design in data.blocks.designs(rows):
        for fold, left_out in enumerate(rows_of_folds(data, environment, block, folds)):
            weight = None if data.weight is None else data.weight[block]
            if folds > 1:
                weight = np.ones(len(design)) if weight is None else weight.copy()
                weight[left_out] = 0.0
            head = stack[fold, environment].reshape(scores, -1)
            yield Judged(fold, design, target.values[block], design @ head.T, weight)


def derivatives(
    data: Environments,
    target: Target,
    stack: Floats,
    curvature: Callable[[Judged], Floats],
    shape: tuple[int, ...],
) -> Sums:
    """Sums (E, F, …) of losses, gradients and what is to be known of the curvature, in one pass."""
    loss, (folds, _, size) = loss_of(target), stack.shape

    def collect(environment: int, rows: slice) -> Sums:
        sums = {"loss": np.zeros(folds), "gradient": np.zeros((folds, size)), "curvature": np.zeros((folds, *shape))}
        for judged in judged_blocks(data, target, stack, environment, rows):
            residual, value = loss.residual(judged.scores, judged.y), loss.value(judged.scores, judged.y)
            if judged.weight is not None:
                residual *= judged.weight[:, None]
                value *= judged.weight
            sums["loss"][judged.fold] += value.sum()
            sums["gradient"][judged.fold] += (residual.T @ judged.design).ravel()
            sums["curvature"][judged.fold] += curvature(judged)
        return sums

    return sum_by_environment(collect, data.offsets)


def steep(data: Environments, loss: Loss, diagonal: Floats) -> Booleans:
    """Which weights (E, F, P) have any curvature to speak of, given that along each of them.

    What is left of it elsewhere is rounding error, and its inverse would be taken for a huge variance.
    """
    at_even_odds = np.tile(data.column_squares, loss.n_scores)[:, None] / 4
    return np.asarray(diagonal > FLAT * at_even_odds)


def without_flat(hessian: Floats, live: Booleans, scores: int) -> Floats:
    """Hessians (..., P, P) without the weights that are not ``live``, nor what the others of their column share.

    The same added to all scores of a column moves nothing; added to the live ones, it moves only classes that nobody is
    of. What curvature rounding leaves there, 1e-13 to 1e-7 of the rest, is none to invert: with u_j the unit vector
    along the live scores of column j, H ← (I − Σ u_j u_jᵀ) H (I − Σ u_j u_jᵀ).
    """
    kept = hessian * (live[..., :, None] & live[..., None, :])
    by_score = live.reshape(*live.shape[:-1], scores, -1)
    partly = np.asarray(by_score.any(axis=-2) & ~by_score.all(axis=-2))
    if scores == 1 or not partly.any():
        return kept
    along = np.where(by_score & partly[..., None, :], 1.0, 0.0)
    along /= np.sqrt(np.maximum(along.sum(axis=-2, keepdims=True), 1.0))
    parts = kept.reshape(*by_score.shape, *by_score.shape[-2:])
    parts = parts - np.einsum("...kp,...lp,...lpmq->...kpmq", along, along, parts, optimize=True)
    parts = parts - np.einsum("...kplq,...lq,...mq->...kpmq", parts, along, along, optimize=True)
    return np.asarray(parts.reshape(hessian.shape))


def by_fold(sums: Floats, theta: Floats) -> Floats:
    """Sums (E, F, …) in the order of ``theta``: (F, E, …), or (E, …) where it has no folds."""
    return np.moveaxis(sums, 0, 1) if theta.ndim == 3 else sums[:, 0]


def slopes(data: Environments, target: Target, theta: Floats) -> tuple[Floats, Floats, bool]:
    """Losses and gradients as of :func:`evaluate`, and whether some column is flat, without the Hessians."""
    loss = loss_of(target)

    def diagonal(judged: Judged) -> Floats:
        along = loss.diagonal(judged.scores)
        along = along if judged.weight is None else along * judged.weight[:, None]
        return np.asarray((along.T @ judged.design**2).ravel())

    stack = theta if theta.ndim == 3 else theta[None]
    sums = derivatives(data, target, stack, diagonal, (stack.shape[2],))
    flat = not steep(data, loss, sums["curvature"]).all()
    return by_fold(sums["loss"], theta), by_fold(sums["gradient"], theta), flat


def products(data: Environments, target: Target, theta: Floats, along: Floats) -> Floats:
    """The Hessians of :func:`evaluate` times directions, one for each head, in one pass over the rows."""
    loss = loss_of(target)
    stack, directions = (each if each.ndim == 3 else each[None] for each in (theta, along))

    def collect(environment: int, rows: slice) -> Sums:
        total = np.zeros((len(stack), stack.shape[2]))
        for judged in judged_blocks(data, target, stack, environment, rows):
            moved = judged.design @ directions[judged.fold, environment].reshape(loss.n_scores, -1).T
            curved = loss.curved(judged.scores, moved[:, None])[:, 0]  # C (Z v)
            if judged.weight is not None:
                curved = curved * judged.weight[:, None]
            total[judged.fold] += (curved.T @ judged.design).ravel()
        return {"product": total}

    return by_fold(sum_by_environment(collect, data.offsets)["product"], theta)
