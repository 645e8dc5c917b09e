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


def domains_of(Z: Any, y: Any, env: Any) -> list[list[tuple[np.ndarray, float]]]:
    """The rows of every environment."""
    domains: dict[Any, list[tuple[np.ndarray, float]]] = {}
    for z, target, label in zip(np.asarray(Z, float), np.asarray(y, float), np.asarray(env).tolist(), strict=True):
        domains.setdefault(label, []).append((z, target))
    return [domains[label] for label in sorted(domains)]


def shares_of(domains: list[list[tuple[np.ndarray, float]]], hessian: str) -> list[float]:
    """What each environment counts in the risk: as much as any other ("domains"), or as many rows as it has."""
    counts = [len(rows) if hessian == "rows" else 1 for rows in domains]
    return [count / sum(counts) for count in counts]


def fitted_head(Z: Any, y: Any, env: Any, loss: str, hessian: str = "domains") -> np.ndarray:
    """The head that minimises Σ_e q_e ℓ_e (squared and logistic)."""
    domains = domains_of(Z, y, env)
    shares, start = shares_of(domains, hessian), np.zeros(np.shape(Z)[1] + 1)

    def gradient(parameters: np.ndarray) -> np.ndarray:
        return sum(q * mean_gradient(rows, parameters, loss) for q, rows in zip(shares, domains, strict=True))

    found = root(gradient, start, tol=1e-13)
    assert np.abs(found.fun).max() < 1e-10
    return found.x


def influence_index(
    Z: Any,
    y: Any,
    env: Any,
    parameters: np.ndarray,
    loss: str,
    damping: float = 0.0,
    null: float = 1e-9,
    hessian: str = "domains",
) -> tuple[float, np.ndarray]:
    """V and the influences (E, P) at given parameters, H = Σ_e q_e H_e; eigenvalues below ``null`` × the largest are
    left out."""
    domains = domains_of(Z, y, env)
    whole = sum(
        q * finite_difference_hessian(rows, parameters, loss)
        for q, rows in zip(shares_of(domains, hessian), domains, strict=True)
    )
    eigenvalues, vectors = np.linalg.eigh(whole)
    influences = []
    for mine in domains:
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
    """V of rows dealt at random into environments of the given sizes, deal after deal; one Hessian for all of them,
    that of the rows as they come: the first ``sizes[0]`` are the first environment, and so on."""
    rows = list(zip(np.asarray(Z, float), np.asarray(y, float), strict=True))
    whole = sum(
        finite_difference_hessian(rows[end - size : end], parameters, loss) / len(sizes)
        for size, end in zip(sizes, np.cumsum(sizes), strict=True)
    )
    inverse = np.linalg.inv(whole)
    per_row = np.array([-inverse @ row_gradient(z, target, parameters, loss) for z, target in rows])
    out = []
    for _ in range(deals):
        order, start, means = rng.permutation(len(rows)), 0, []
        for size in sizes:
            means.append(per_row[order[start : start + size]].mean(axis=0))
            start += size
        out.append(index_of(means))
    return np.array(out)
