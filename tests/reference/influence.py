"""The influence index, slowly: gradients row by row, the Hessian by finite differences, shuffles by dealing rows.

Parameters are ordered score after score, (weights, intercept) within each: the order in which results are reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.optimize import root


def row_gradient(z: np.ndarray, y: float, parameters: np.ndarray, loss: str) -> np.ndarray:
    """∇ of one row's loss in (weights, intercept) of every score."""
    design = np.concatenate([z, [1.0]])
    scores = parameters.reshape(-1, len(design)) @ design
    if loss == "squared":
        return (scores[0] - y) * design
    if loss == "logistic":
        return (1.0 / (1.0 + math.exp(-scores[0])) - y) * design
    powers = [math.exp(s - scores.max()) for s in scores]
    return np.concatenate([(powers[k] / sum(powers) - (int(y) == k)) * design for k in range(len(scores))])


def mean_gradient(rows: Sequence[tuple[np.ndarray, float]], parameters: np.ndarray, loss: str) -> np.ndarray:
    total = np.zeros(len(parameters))
    for z, y in rows:
        total += row_gradient(z, y, parameters, loss)
    return total / len(rows)


def finite_difference_hessian(
    rows: Sequence[tuple[np.ndarray, float]], parameters: np.ndarray, loss: str, step: float = 1e-4
) -> np.ndarray:
    """Derivative of the mean gradient, column by column, by fourth-order central differences."""
    columns = []
    for j in range(len(parameters)):
        total = np.zeros(len(parameters))
        for multiple, factor in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
            moved = parameters.copy()
            moved[j] += multiple * step
            total += factor * mean_gradient(rows, moved, loss)
        columns.append(total / (12 * step))
    hessian = np.array(columns)
    return (hessian + hessian.T) / 2


def pooled_head(Z: Any, y: Any, loss: str) -> np.ndarray:
    """The head that minimises the pooled mean loss (squared and logistic)."""
    rows = list(zip(np.asarray(Z, float), np.asarray(y, float), strict=True))
    start = np.zeros(np.shape(Z)[1] + 1)
    found = root(lambda parameters: mean_gradient(rows, parameters, loss), start, tol=1e-13)
    assert np.abs(found.fun).max() < 1e-10
    return found.x


def influence_index(
    Z: Any, y: Any, env: Any, parameters: np.ndarray, loss: str, damping: float = 0.0, null: float = 1e-9
) -> tuple[float, np.ndarray]:
    """V and the influences (E, P) at given parameters; eigenvalues below ``null`` × the largest are left out."""
    rows = list(zip(np.asarray(Z, float), np.asarray(y, float), strict=True))
    eigenvalues, vectors = np.linalg.eigh(finite_difference_hessian(rows, parameters, loss))
    influences = []
    for label in sorted(set(np.asarray(env).tolist())):
        mine = [row for row, found in zip(rows, np.asarray(env).tolist(), strict=True) if found == label]
        gradient = mean_gradient(mine, parameters, loss)
        influence = np.zeros(len(parameters))
        for value, vector in zip(eigenvalues, vectors.T, strict=True):
            if value > null * eigenvalues[-1]:
                influence -= vector * (vector @ gradient) / (value + damping)
        influences.append(influence)
    return index_of(influences), np.array(influences)


def index_of(influences: Sequence[np.ndarray]) -> float:
    """ln ‖Cov‖₂ with 1/m."""
    mean = sum(influences) / len(influences)
    covariance = sum(np.outer(one - mean, one - mean) for one in influences) / len(influences)
    return math.log(np.linalg.norm(covariance, 2))


def shuffled_index(
    Z: Any, y: Any, sizes: Sequence[int], parameters: np.ndarray, loss: str, deals: int, rng: np.random.Generator
) -> np.ndarray:
    """V of rows dealt at random into environments of the given sizes, deal after deal."""
    rows = list(zip(np.asarray(Z, float), np.asarray(y, float), strict=True))
    inverse = np.linalg.inv(finite_difference_hessian(rows, parameters, loss))
    per_row = np.array([-inverse @ row_gradient(z, target, parameters, loss) for z, target in rows])
    out = []
    for _ in range(deals):
        order, start, means = rng.permutation(len(rows)), 0, []
        for size in sizes:
            means.append(per_row[order[start : start + size]].mean(axis=0))
            start += size
        out.append(index_of(means))
    return np.array(out)
