"""Linear heads the slow way: one row at a time, straight from the formulas, with scipy as the optimiser.

A head is a (K, p) matrix on rows that start with 1; K = 1 for the squared and the logistic loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize


def name_of(loss: object) -> str:
    """What the formulas here call a loss: "squared", "logistic" or "softmax"."""
    return type(loss).__name__.removesuffix("Loss").lower()


def scores_of(head: Any, row: Any) -> list[float]:
    return [sum(float(w) * float(x) for w, x in zip(weights, row, strict=True)) for weights in head]


def row_loss(name: str, head: Any, row: Any, y: float) -> float:
    scores = scores_of(head, row)
    if name == "squared":
        return 0.5 * (scores[0] - y) ** 2
    if name == "logistic":  # -log of the probability of what happened
        return math.log1p(math.exp(-scores[0])) if y == 1 else math.log1p(math.exp(scores[0]))
    return math.log(sum(math.exp(s - scores[int(y)]) for s in scores))


def score_slopes(name: str, scores: Sequence[float], y: float) -> list[float]:
    """Derivative of the loss in every score."""
    if name == "squared":
        return [scores[0] - y]
    if name == "logistic":
        return [1.0 / (1.0 + math.exp(-scores[0])) - y]
    exponentials = [math.exp(s) for s in scores]
    return [e / sum(exponentials) - (k == int(y)) for k, e in enumerate(exponentials)]


def score_curvatures(name: str, scores: Sequence[float]) -> list[list[float]]:
    """Second derivatives of the loss in the scores."""
    if name == "squared":
        return [[1.0]]
    if name == "logistic":
        p = 1.0 / (1.0 + math.exp(-scores[0]))
        return [[p * (1.0 - p)]]
    exponentials = [math.exp(s) for s in scores]
    p_of = [e / sum(exponentials) for e in exponentials]
    return [[p * ((j == k) - q) for k, q in enumerate(p_of)] for j, p in enumerate(p_of)]


def row_gradient(name: str, head: Any, row: Any, y: float) -> list[float]:
    """Derivative of a row's loss in the parameters, score after score."""
    return [slope * float(x) for slope in score_slopes(name, scores_of(head, row), y) for x in row]


def row_hessian(name: str, head: Any, row: Any) -> Any:
    curvatures = score_curvatures(name, scores_of(head, row))
    size = len(row)
    out = np.zeros((len(head) * size, len(head) * size))
    for j in range(len(head)):
        for k in range(len(head)):
            for a in range(size):
                for b in range(size):
                    out[j * size + a, k * size + b] = curvatures[j][k] * row[a] * row[b]
    return out


def total_loss(name: str, head: Any, rows: Any, y: Any, weight: Any = None) -> float:
    weight = np.ones(len(rows)) if weight is None else weight
    return sum(float(w) * row_loss(name, head, row, float(v)) for row, v, w in zip(rows, y, weight, strict=True))


def total_gradient(name: str, head: Any, rows: Any, y: Any, weight: Any = None) -> Any:
    weight = np.ones(len(rows)) if weight is None else weight
    out = np.zeros(np.size(head))
    for row, v, w in zip(rows, y, weight, strict=True):
        out += float(w) * np.array(row_gradient(name, head, row, float(v)))
    return out


def total_hessian(name: str, head: Any, rows: Any, weight: Any = None) -> Any:
    weight = np.ones(len(rows)) if weight is None else weight
    out = np.zeros((np.size(head), np.size(head)))
    for row, w in zip(rows, weight, strict=True):
        out += float(w) * row_hessian(name, head, row)
    return out


def fit(name: str, n_scores: int, rows: Any, y: Any, weight: Any = None) -> Any:
    """The head with the least weighted loss, by a quasi-Newton method with the loops' own gradient."""
    shape = (n_scores, np.shape(rows)[1])
    found = minimize(
        lambda theta: total_loss(name, theta.reshape(shape), rows, y, weight),
        np.zeros(shape[0] * shape[1]),
        jac=lambda theta: total_gradient(name, theta.reshape(shape), rows, y, weight),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 2000},
    )
    return found.x.reshape(shape)


def score_covariance(name: str, head: Any, rows: Any, y: Any, weight: Any = None, inverse: Any = None) -> Any:
    """Σ w g gᵀ; with the inverse Hessian of the fit, residuals grow by 1/√(1 − leverage) (HC2).

    The leverage of a row is tr(H⁻¹ H_row) / (K − 1), the mean over its free scores; K − 1 is 1 for a single score.
    """
    weight = np.ones(len(rows)) if weight is None else weight
    out = np.zeros((np.size(head), np.size(head)))
    for row, v, w in zip(rows, y, weight, strict=True):
        gradient = np.array(row_gradient(name, head, row, float(v)))
        if inverse is not None:
            leverage = np.trace(inverse @ row_hessian(name, head, row)) / max(1, len(head) - 1)
            gradient = gradient / math.sqrt(1.0 - min(leverage, 0.99))
        out += float(w) * np.outer(gradient, gradient)
    return out


def slope(function: Callable[[Any], Any], at: Any, step: float = 1e-5) -> Any:
    """Central differences of a function of a vector, one coordinate after the other: last axis = coordinate."""
    at = np.asarray(at, dtype=np.float64)
    columns = []
    for j in range(at.size):
        away = np.zeros(at.size)
        away[j] = step
        away = away.reshape(at.shape)
        columns.append((np.asarray(function(at + away)) - np.asarray(function(at - away))) / (2 * step))
    return np.stack(columns, axis=-1)


def raw_parameters(data: Any, loss: Any, theta: Any) -> tuple[Any, Any]:
    """Weight (n_scores, d) and bias (n_scores,) in the user's own columns, from one row of ``theta``."""
    head = np.asarray(theta).reshape(loss.n_scores, -1)
    return head[:, 1:], head[:, 0] - head[:, 1:] @ data.blocks.shift
