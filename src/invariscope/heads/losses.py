"""The three losses a linear head can have: value, gradient and curvature in the scores, row by row.

Scores ``s = Z Wᵀ + b`` have one column (squared, logistic) or one per class (softmax). The squared loss is
``½ (s − y)²`` inside the package, so that its curvature is 1; results report the mean squared error itself.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from invariscope.rows.arrays import Floats
from invariscope.rows.targets import Target

Rows = Floats | NDArray[np.float32]


class Loss(Protocol):
    """A loss of ``n_scores`` scores per row."""

    name: str
    n_scores: int
    reported: float  # what a mean internal loss is multiplied with before anyone sees it

    def value(self, scores: Floats, y: Floats) -> Floats:
        """Loss of every row: (n,)."""

    def residual(self, scores: Floats, y: Floats) -> Floats:
        """Derivative of the loss in the scores: (n, n_scores)."""

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        """Sum over rows of curvature ⊗ rows rowsᵀ: the Hessian, (n_scores p, n_scores p)."""

    def leverage(self, factor: Floats, rows: Rows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        """With ``factor @ factor.T`` = inverse Hessian: the mean leverage per free score of every row, and the
        squared length ‖factorᵀ g‖² of its gradient g. Both (n,)."""


class SquaredLoss:
    """½ (s − y)²."""

    name, n_scores, reported = "squared", 1, 2.0

    def value(self, scores: Floats, y: Floats) -> Floats:
        return 0.5 * (scores[:, 0] - y) ** 2

    def residual(self, scores: Floats, y: Floats) -> Floats:
        return scores - y[:, None]

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        return weighted_gram(rows, weight)

    def leverage(self, factor: Floats, rows: Rows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        norms = _squared_norms(rows, factor)
        return norms, residual[:, 0] ** 2 * norms


class LogisticLoss:
    """log(1 + e^s) − y s, for y in {0, 1}."""

    name, n_scores, reported = "logistic", 1, 1.0

    def value(self, scores: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, scores[:, 0]) - y * scores[:, 0]

    def residual(self, scores: Floats, y: Floats) -> Floats:
        return np.asarray(expit(scores) - y[:, None])

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        curvature = self._curvature(scores)
        return weighted_gram(rows, curvature if weight is None else curvature * weight)

    def leverage(self, factor: Floats, rows: Rows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        norms = _squared_norms(rows, factor)
        return self._curvature(scores) * norms, residual[:, 0] ** 2 * norms

    @staticmethod
    def _curvature(scores: Floats) -> Floats:
        p = expit(scores[:, 0])
        return p * (1.0 - p)


class SoftmaxLoss:
    """−log softmax(s)_y, with one score per class (adding a constant to all of them changes nothing)."""

    name, reported = "softmax", 1.0

    def __init__(self, n_classes: int) -> None:
        self.n_scores = n_classes

    def value(self, scores: Floats, y: Floats) -> Floats:
        top = scores.max(axis=1)
        normaliser = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
        return np.asarray(normaliser - scores[np.arange(len(scores)), y.astype(np.intp)])

    def residual(self, scores: Floats, y: Floats) -> Floats:
        out = _softmax(scores)
        out[np.arange(len(scores)), y.astype(np.intp)] -= 1.0
        return out

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        p = _softmax(scores)
        size = rows.shape[1]
        # curvature = diag(p) − p pᵀ
        total = -weighted_gram(score_rows(rows, p), weight)
        for k in range(self.n_scores):
            block = slice(k * size, (k + 1) * size)
            total[block, block] += weighted_gram(rows, p[:, k] if weight is None else p[:, k] * weight)
        return total

    def leverage(self, factor: Floats, rows: Rows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        p = _softmax(scores)
        # factorᵀ (e_k ⊗ z) for every row and class k: (K, n, r)
        parts = np.matmul(rows, factor.reshape(self.n_scores, rows.shape[1], -1))
        mean = np.einsum("nk,knr->nr", p, parts)
        spread = np.einsum("nk,knr,knr->n", p, parts, parts) - np.einsum("nr,nr->n", mean, mean)
        whole = np.einsum("nk,knr->nr", residual, parts)
        return spread / (self.n_scores - 1), np.einsum("nr,nr->n", whole, whole)


def loss_of(target: Target) -> Loss:
    """The loss that belongs to a target."""
    if target.task == "regression":
        return SquaredLoss()
    return LogisticLoss() if target.task == "binary" else SoftmaxLoss(len(target.classes))


def weighted_gram(rows: Floats, weight: Floats | None = None) -> Floats:
    """rowsᵀ diag(weight) rows for non-negative weights, by one symmetric rank-k update (half the work of a product)."""
    if weight is not None:
        rows = np.einsum("ij,i->ij", rows, np.sqrt(weight))
    return rows.T @ rows


def score_rows(rows: Floats, per_score: Floats, out: Floats | None = None) -> Floats:
    """Rows of the gradient: ``per_score[:, k] * rows`` side by side for every score k, (n, n_scores p).

    ``out`` is scratch space of at least that size: large blocks are not worth asking the system for memory each time.
    """
    size = rows.shape[1]
    if out is None:
        out = np.empty((len(rows), per_score.shape[1] * size))
    out = out[: len(rows)]
    for k in range(per_score.shape[1]):
        np.einsum("ij,i->ij", rows, per_score[:, k], out=out[:, k * size : (k + 1) * size])
    return out


def _softmax(scores: Floats) -> Floats:
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def _squared_norms(rows: Rows, factor: Floats) -> Floats:
    projected = rows @ factor.astype(rows.dtype, copy=False)  # in the precision the rows come in
    np.multiply(projected, projected, out=projected)
    return np.asarray(projected @ np.ones(projected.shape[1], rows.dtype), dtype=np.float64)
