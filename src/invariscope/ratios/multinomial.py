"""Multinomial logistic regression with a ridge: quasi-Newton steps from a factored guess of the curvature."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.special

from invariscope.heads.losses import softmax_in_place
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import Sums, one_blas_thread, run_over_rows, sum_by_environment

MAX_STEPS = 200
MEMORY = 12  # past steps that correct the guess of the curvature
TASK_ROWS = 4096  # scores of a few environments stay in cache
GAIN_TOLERANCE = 1e-5  # nats in all: what one more step could still gain; one standard error is half a nat


class Matrix(Protocol):
    """Rows by slices: an array, or one that is made as it is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice, /) -> Floats: ...


Solve = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Multinomial:
    """Scores s = B Wᵀ + b: ``weight`` (E, p), ``bias`` (E,)."""

    weight: Floats
    bias: Floats

    def log_probabilities(self, B: Floats) -> Floats:
        """log p(e | b) of every row: (n, E)."""
        scores = B @ self.weight.T + self.bias
        return np.asarray(scores - scipy.special.logsumexp(scores, axis=1, keepdims=True))


@one_blas_thread()
def fit_multinomial(
    B: Matrix,
    offsets: Integers,
    weight: Floats | None,
    ridge: float,
    start: Multinomial | None = None,
    *,
    tolerance: float = GAIN_TOLERANCE,
) -> Multinomial:
    """Minimise Σ_i w_i [ log Σ_e exp s_ie − s_i,e(i) ] + ½ ridge ‖W‖².

    Rows are grouped by environment; columns of B are centred and in units of their spread. The Hessian is guessed as
    A ⊗ BᵀB, A the mean curvature of the softmax, and inverted by the eigenvectors of both: 10 environments with 200
    columns cost two small decompositions. Past steps correct the guess (L-BFGS). Labels enter through Σ_{i in e} b_i
    alone, so that a step is one pass over the rows that does not know them.
    """
    sums = _environment_sums(B, offsets, weight)
    penalty = np.full(sums.shape, ridge)
    penalty[:, 0] = 0.0
    if start is None:
        theta = np.zeros(sums.shape)
        theta[:, 0] = np.log(sums[:, 0] / sums[:, 0].sum())
    else:
        theta = np.column_stack([start.bias, start.weight])

    def evaluate(theta: Floats) -> tuple[float, Floats]:
        loss, gradient = _pass(B, weight, theta)  # Σ w log Σ_e exp s_e, less Σ w s_e(i) = Σ_e θ_eᵀ Σ_{i in e} w b
        loss += 0.5 * np.sum(penalty * theta**2) - np.sum(sums * theta)
        return float(loss), gradient - sums + penalty * theta

    loss, gradient = evaluate(theta)
    solve = _kronecker_inverse(_mean_curvature(B, weight, theta), _gram(B, weight), penalty)
    history: deque[tuple[Floats, Floats, float]] = deque(maxlen=MEMORY)
    for _ in range(MAX_STEPS):
        step = _two_loops(gradient, history, solve)
        slope = float(np.sum(step * gradient))
        if slope <= 2 * tolerance:  # a Newton step would gain half of it
            break
        length = 1.0
        while True:
            trial = theta - length * step
            trial_loss, trial_gradient = evaluate(trial)
            if trial_loss <= loss - 1e-4 * length * slope + 1e-13 * abs(loss):  # Armijo, but for rounding
                break
            length *= 0.5
        moved, turned = trial - theta, trial_gradient - gradient
        along = float(np.sum(moved * turned))
        if along > 0:
            history.append((moved, turned, along))
        theta, loss, gradient = trial, trial_loss, trial_gradient
    return Multinomial(theta[:, 1:], theta[:, 0])


def _two_loops(gradient: Floats, history: Sequence[tuple[Floats, Floats, float]], solve: Solve) -> Floats:
    """The quasi-Newton step: the guess of the inverse curvature, corrected by what past steps have found."""
    step, shares = gradient.copy(), []
    # L-BFGS with s = moved, y = turned, sᵀy = along:  q ← q − (sᵀq / sᵀy) y, backwards;  then r ← r + (α − yᵀr / sᵀy) s
    for moved, turned, along in reversed(history):
        shares.append(np.sum(moved * step) / along)
        step -= shares[-1] * turned
    step = solve(step)
    if history:  # how far off the guess was on the last step
        moved, turned, along = history[-1]
        step *= along / np.sum(turned * solve(turned))
    for (moved, turned, along), share in zip(history, reversed(shares), strict=True):
        step += (share - np.sum(turned * step) / along) * moved
    return step


def _kronecker_inverse(curvature: Floats, gram: Floats, penalty: Floats) -> Solve:
    """Solves (A ⊗ G + diag(penalty)) X = Y for (E, 1 + p) arrays, A (E, E), G (1 + p, 1 + p).

    The ridge is the same for all columns but the intercept, which is orthogonal to them up to rounding.
    """
    # A = L α Lᵀ, G = R γ Rᵀ:  X = L [ (Lᵀ Y R) / (α γᵀ + ridge) ] Rᵀ
    outer, left = np.linalg.eigh(curvature)
    inner, right = np.linalg.eigh(gram[1:, 1:])
    bent = np.maximum(outer, 0.0)[:, None]
    # adding the same to all environments changes no probability: the flat direction of A is left alone for the bias
    columns = 1.0 / (bent * np.maximum(inner, 0.0) + penalty[0, 1])
    bias = np.where(bent > 1e-10 * bent.max(), 1.0 / np.maximum(bent * gram[0, 0], 1e-300), 0.0)

    def solve(gradient: Floats) -> Floats:
        turned = left.T @ gradient
        turned[:, 1:] = (columns * (turned[:, 1:] @ right)) @ right.T
        turned[:, :1] *= bias
        return np.asarray(left @ turned)

    return solve


def _environment_sums(B: Matrix, offsets: Integers, weight: Floats | None) -> Floats:
    """Σ_{i in e} w_i (1, b_i): (E, 1 + p)."""

    def collect(environment: int, rows: slice) -> Sums:
        counts = np.ones(rows.stop - rows.start) if weight is None else weight[rows]
        return {"sums": np.concatenate([[counts.sum()], counts @ B[rows]])}

    return sum_by_environment(collect, offsets, TASK_ROWS)["sums"]


def _gram(B: Matrix, weight: Floats | None) -> Floats:
    """Σ w (1, b)(1, b)ᵀ, the products of the intercept, which are 0 for centred columns, left out."""

    def collect(rows: slice) -> Floats:
        block = B[rows]
        return block.T @ (block if weight is None else block * weight[rows][:, None])

    gram = np.zeros((B.shape[1] + 1, B.shape[1] + 1))
    gram[0, 0] = len(B) if weight is None else weight.sum()
    gram[1:, 1:] = np.sum(run_over_rows(collect, len(B), TASK_ROWS), axis=0)
    return gram


def _probabilities(B: Matrix, rows: slice, theta: Floats) -> tuple[Floats, Floats]:
    """Probabilities (E, n) of the environments at rows, and log Σ exp of their scores; sums over rows of memory."""
    scores = theta[:, 1:] @ B[rows].T
    scores += theta[:, :1]
    total, top = softmax_in_place(scores, axis=0)
    return scores, np.log(total) + top


def _pass(B: Matrix, weight: Floats | None, theta: Floats) -> tuple[float, Floats]:
    """Σ w log Σ exp s and its gradient Σ w p (1, b)."""

    def collect(rows: slice) -> tuple[float, Floats]:
        probabilities, value = _probabilities(B, rows, theta)
        if weight is not None:
            probabilities *= weight[rows]
            value *= weight[rows]
        gradient = np.empty(theta.shape)
        gradient[:, 0], gradient[:, 1:] = probabilities.sum(axis=1), probabilities @ B[rows]
        return float(value.sum()), gradient

    parts = run_over_rows(collect, len(B), TASK_ROWS)
    return sum(loss for loss, _ in parts), np.sum([gradient for _, gradient in parts], axis=0)


def _mean_curvature(B: Matrix, weight: Floats | None, theta: Floats) -> Floats:
    """Mean of diag p − p pᵀ, from at most a few thousand rows: it only has to be about right."""
    some = slice(0, None, max(1, len(B) // 4000))
    probabilities, _ = _probabilities(B, some, theta)
    counts = np.ones(probabilities.shape[1]) if weight is None else weight[some]
    outer = (probabilities * counts) @ probabilities.T
    return np.asarray((np.diag(probabilities @ counts) - outer) / counts.sum())
