"""The losses a linear head can have, one for each task: values, and derivatives in the scores, row by row.

Scores ``s = Z Wᵀ + b`` have one column for each number to predict, one for two classes (the log-odds of the second),
one per class for more. The squared loss is ``½ (s − y)²`` inside the package, so that its curvature is 1; results
report the mean squared error itself.

The slope of a row is d/dt loss(t · s) at t = 1, that is Σ_k s_k r_k with r = ∂loss/∂s: IRM's penalty is made of its
means. With C = ∂²loss/∂s², its own derivative in the scores is r + C s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from invariscope.rows.arrays import Floats
from invariscope.rows.targets import Target

DesignRows = Floats | NDArray[np.float32]
Curvatures = Iterator[tuple[tuple[int, int], Any, Any]]


class Loss(Protocol):
    """A loss of ``n_scores`` scores per row."""

    n_scores: int
    reported: float  # what a mean internal loss is multiplied with before anyone sees it

    def value(self, scores: Floats, y: Floats) -> Floats:
        """Loss of every row: (n,)."""

    def residual(self, scores: Floats, y: Floats) -> Floats:
        """r, the derivative of the loss in the scores: (n, n_scores)."""

    def slope(self, scores: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Slope of every row, Σ_k s_k r_k: (n,), and its derivative in the scores, r + C s: (n, n_scores)."""
        residual = self.residual(scores, y)
        return (scores * residual).sum(axis=1), residual + self.curved(scores, scores[:, None])[:, 0]

    def curvature(self, scores: Floats) -> Floats:
        """C = ∂²loss/∂s² at scores (..., n_scores): (..., n_scores, n_scores)."""

    def diagonal(self, scores: Floats) -> Floats:
        """The diagonal of C of every row: (n, n_scores)."""
        return np.asarray(np.einsum("nkk->nk", self.curvature(scores)))

    def curvatures(self, scores: Floats) -> Curvatures:
        """Second derivatives of loss and slope in scores k <= j, (n,) or one number each, pairs that are 0 left out."""

    def curved(self, scores: Floats, along: Floats) -> Floats:
        """C times directions ``along`` (n, r, n_scores)."""
        return np.asarray(np.einsum("nkj,nrj->nrk", self.curvature(scores), along))

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        """Sum over rows of C ⊗ rows rowsᵀ: the Hessian, (n_scores p, n_scores p)."""

    def leverage(self, factor: Floats, rows: DesignRows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        """With ``factor @ factor.T`` = inverse Hessian: the mean leverage per free score of every row, and the
        squared length ‖factorᵀ g‖² of its gradient g. Both (n,)."""
        norms = _squared_norms(rows, factor)  # ‖factorᵀ z‖², where C is a number; with several classes it is not
        return self.curvature(scores)[:, 0, 0] * norms, (residual**2).sum(axis=1) * norms

    def leverage_by_inverse(
        self, inverse: Floats, rows: Floats, scores: Floats, residual: Floats
    ) -> tuple[Floats, Floats]:
        """The same from the inverse Hessian itself, in half the operations for several scores: for wide heads."""
        norms = np.einsum("ip,ip->i", rows @ inverse, rows)
        return self.curvature(scores)[:, 0, 0] * norms, (residual**2).sum(axis=1) * norms


class SquaredLoss(Loss):
    """½ Σ_k (s_k − y_k)², for y (n,) or several numbers (n, K)."""

    reported = 2.0

    def __init__(self, n_scores: int = 1) -> None:
        self.n_scores = n_scores

    def value(self, scores: Floats, y: Floats) -> Floats:
        return np.asarray(0.5 * (self.residual(scores, y) ** 2).sum(axis=1))

    def residual(self, scores: Floats, y: Floats) -> Floats:
        return scores - y.reshape(scores.shape)

    def curvature(self, scores: Floats) -> Floats:
        return np.broadcast_to(np.eye(self.n_scores), (*scores.shape, self.n_scores))

    def curvatures(self, scores: Floats) -> Curvatures:
        for k in range(self.n_scores):
            yield (k, k), 1.0, 2.0

    def curved(self, scores: Floats, along: Floats) -> Floats:
        return along

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        gram = weighted_gram(rows, weight)
        return gram if self.n_scores == 1 else np.asarray(np.kron(np.eye(self.n_scores), gram), dtype=np.float64)


class LogisticLoss(Loss):
    """log(1 + e^s) − y s, for y in {0, 1}."""

    n_scores, reported = 1, 1.0

    def value(self, scores: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, scores[:, 0]) - y * scores[:, 0]

    def residual(self, scores: Floats, y: Floats) -> Floats:
        return np.asarray(expit(scores) - y[:, None])

    def curvature(self, scores: Floats) -> Floats:
        p = expit(scores)
        return np.asarray((p * (1.0 - p))[..., None])

    def curvatures(self, scores: Floats) -> Curvatures:
        p = expit(scores[:, 0])
        curvature = p * (1.0 - p)
        yield (0, 0), curvature, curvature * (2.0 + scores[:, 0] * (1.0 - 2.0 * p))

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        curvature = self.curvature(scores)[:, 0, 0]
        return weighted_gram(rows, curvature if weight is None else curvature * weight)


class SoftmaxLoss(Loss):
    """−log softmax(s)_y, with one score per class (adding a constant to all of them changes nothing)."""

    reported = 1.0

    def __init__(self, n_classes: int) -> None:
        self.n_scores = n_classes

    def value(self, scores: Floats, y: Floats) -> Floats:
        of_truth = scores[np.arange(len(scores)), y.astype(np.intp)]  # the score of the class that occurred
        return np.asarray(log_sum_exp(scores) - of_truth)

    def residual(self, scores: Floats, y: Floats) -> Floats:
        residual = softmax(scores)
        residual[np.arange(len(scores)), y.astype(np.intp)] -= 1.0
        return residual

    def slope(self, scores: Floats, y: Floats) -> tuple[Floats, Floats]:
        p, truth = softmax(scores), (np.arange(len(scores)), y.astype(np.intp))  # once for both
        mean = np.einsum("nk,nk->n", p, scores)  # Σ_k p_k s_k
        derivative = p * (1.0 + scores - mean[:, None])
        derivative[truth] -= 1.0
        return mean - scores[truth], derivative

    def curvature(self, scores: Floats) -> Floats:
        p = softmax(scores)
        return np.asarray(np.eye(p.shape[-1]) * p[..., None] - p[..., :, None] * p[..., None, :])  # diag(p) − p pᵀ

    def diagonal(self, scores: Floats) -> Floats:
        p = softmax(scores)
        return p * (1.0 - p)

    def curvatures(self, scores: Floats) -> Curvatures:
        p = softmax(scores)
        u = p * (1.0 + scores - np.einsum("nk,nk->n", p, scores)[:, None])  # derivative of Σ_k p_k s_k
        for k in range(self.n_scores):
            for j in range(k, self.n_scores):
                curvature, of_slope = -p[:, k] * p[:, j], -u[:, k] * p[:, j] - p[:, k] * u[:, j]
                if k == j:
                    curvature, of_slope = curvature + p[:, k], of_slope + p[:, k] + u[:, k]
                yield (k, j), curvature, of_slope

    def curved(self, scores: Floats, along: Floats) -> Floats:
        p = softmax(scores)[:, None]
        return np.asarray(p * (along - (p * along).sum(axis=2, keepdims=True)))

    def gram(self, rows: Floats, scores: Floats, weight: Floats | None) -> Floats:
        p = softmax(scores)
        size = rows.shape[1]
        # Σ (diag(p) − p pᵀ) ⊗ z zᵀ: −p pᵀ in one product, then p_k (1 − p_k) block by block. (Σ p_k z zᵀ − Σ p_k² z zᵀ
        # would be rounding alone where a class is told apart so well that p_k is near 0 or 1 everywhere.)
        total = -weighted_gram(score_rows(rows, p), weight)
        others = p @ (1.0 - np.eye(self.n_scores))
        for k in range(self.n_scores):
            block, curvature = slice(k * size, (k + 1) * size), p[:, k] * others[:, k]
            total[block, block] = weighted_gram(rows, curvature if weight is None else curvature * weight)
        return total

    def leverage(self, factor: Floats, rows: DesignRows, scores: Floats, residual: Floats) -> tuple[Floats, Floats]:
        p = softmax(scores)
        parts = np.matmul(rows, factor.reshape(self.n_scores, rows.shape[1], -1))  # factorᵀ (e_k ⊗ z): (K, n, r)
        mean = np.einsum("nk,knr->nr", p, parts)  # Σ_k p_k v_k, v_k the part of class k
        # tr[C (v vᵀ)] = Σ_k p_k ‖v_k‖² − ‖Σ_k p_k v_k‖²
        spread = np.einsum("nk,knr,knr->n", p, parts, parts) - np.einsum("nr,nr->n", mean, mean)
        whole = np.einsum("nk,knr->nr", residual, parts)  # factorᵀ g = Σ_k r_k v_k
        return spread / (self.n_scores - 1), np.einsum("nr,nr->n", whole, whole)

    def leverage_by_inverse(
        self, inverse: Floats, rows: Floats, scores: Floats, residual: Floats
    ) -> tuple[Floats, Floats]:
        p, size = softmax(scores), rows.shape[1]
        leverage, length = np.zeros(len(rows)), np.zeros(len(rows))
        for k in range(self.n_scores):  # with M_kl = zᵀ (H⁻¹)_kl z: Σ_kl C_kl M_kl and Σ_kl r_k r_l M_kl, by symmetry
            parts = (rows @ inverse[k * size : (k + 1) * size, k * size :]).reshape(len(rows), -1, size)
            forms = np.einsum("nlp,np->nl", parts, rows)
            forms[:, 1:] *= 2.0
            leverage += p[:, k] * (forms[:, 0] - np.einsum("nl,nl->n", forms, p[:, k:]))
            length += residual[:, k] * np.einsum("nl,nl->n", forms, residual[:, k:])
        return leverage / (self.n_scores - 1), length


def loss_of(target: Target) -> Loss:
    """The loss that belongs to a target."""
    if target.task == "regression":
        return SquaredLoss(1 if target.values.ndim == 1 else target.values.shape[1])
    return LogisticLoss() if target.task == "binary" else SoftmaxLoss(len(target.classes))


def softmax(scores: Floats, axis: int = -1) -> Floats:
    """exp(s_k) / Σ_j exp(s_j) along an axis.

    >>> softmax(np.array([[0.0, np.log(3.0)]])).tolist()
    [[0.25, 0.75]]
    """
    out = np.array(scores)
    softmax_in_place(out, axis)
    return out


def softmax_in_place(scores: Floats, axis: int = -1) -> tuple[Floats, Floats]:
    """Turn scores into their softmax without a second array; gives Σ_j exp(s_j − top) and top = max_j s_j."""
    top = scores.max(axis=axis, keepdims=True)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(axis=axis, keepdims=True)
    scores /= total
    return total.squeeze(axis), top.squeeze(axis)


def log_sum_exp(scores: Floats) -> Floats:
    """log Σ_k exp(s_k) over the last axis, in units of the largest so that nothing overflows."""
    top = scores.max(axis=-1)
    return np.asarray(top + np.log(np.exp(scores - top[..., None]).sum(axis=-1)))


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


def _squared_norms(rows: DesignRows, factor: Floats) -> Floats:
    projected = rows @ factor.astype(rows.dtype, copy=False)  # in the precision the rows come in
    np.multiply(projected, projected, out=projected)
    return np.asarray(projected @ np.ones(projected.shape[1], rows.dtype), dtype=np.float64)
