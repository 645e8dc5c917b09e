"""Shared-head regret and its score test, slowly: loops over environments, rows and classes, straight from the formulas.

Nothing here is shared with the package. Class heads have K − 1 free scores (the last class scores 0), which spans the
same heads as K scores without their redundant constant; heads are found by ``lstsq`` (squared) or from gradient = 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, root

LARGEST_LEVERAGE = 0.99


@dataclass
class Row:
    """One row: its environment, design (1, z) and target (a number, or a class code)."""

    label: Hashable
    design: np.ndarray
    y: float


@dataclass
class Reference:
    """Regret, in-sample and corrected losses and noise by environment, in label order; and the test's statistic."""

    labels: list[Hashable]
    regret: list[float]
    own_risk: list[float]
    excess: list[float]
    in_sample: list[tuple[float, float]]
    statistic: float
    own_heads: list[np.ndarray]
    shared_head: np.ndarray
    covariances: list[np.ndarray]
    hessians: list[np.ndarray]
    weights: list[float]


def rows_of(Z: Any, y: Any, env: Any) -> dict[Hashable, list[Row]]:
    """Rows by environment; classes become codes 0..K-1 in sorted order for the caller."""
    out: dict[Hashable, list[Row]] = {label: [] for label in sorted(set(np.asarray(env).tolist()))}
    for z, target, label in zip(np.asarray(Z, float), np.asarray(y), np.asarray(env).tolist(), strict=True):
        out[label].append(Row(label, np.concatenate([[1.0], z]), target))
    return out


# --- one row ---------------------------------------------------------------------------------------------------------
def row_scores(row: Row, head: np.ndarray, classes: int) -> list[float]:
    """Squared: the prediction. Classes: K − 1 free scores and 0."""
    free = [float(row.design @ part) for part in head.reshape(max(1, classes - 1), -1)]
    return free if classes == 0 else [*free, 0.0]


def probabilities(scores: list[float]) -> list[float]:
    top = max(scores)
    powers = [math.exp(s - top) for s in scores]
    return [power / sum(powers) for power in powers]


def row_loss(row: Row, head: np.ndarray, classes: int) -> float:
    scores = row_scores(row, head, classes)
    if classes == 0:
        return 0.5 * (scores[0] - row.y) ** 2
    top = max(scores)
    return top + math.log(sum(math.exp(s - top) for s in scores)) - scores[int(row.y)]


def row_gradient(row: Row, head: np.ndarray, classes: int) -> np.ndarray:
    scores = row_scores(row, head, classes)
    if classes == 0:
        return (scores[0] - row.y) * row.design
    chances = probabilities(scores)
    return np.concatenate([(chances[k] - (int(row.y) == k)) * row.design for k in range(classes - 1)])


def row_hessian(row: Row, head: np.ndarray, classes: int) -> np.ndarray:
    square = np.outer(row.design, row.design)
    if classes == 0:
        return square
    chances = np.array(probabilities(row_scores(row, head, classes)))[:-1]
    return np.kron(np.diag(chances) - np.outer(chances, chances), square)


# --- heads -----------------------------------------------------------------------------------------------------------
def fitted_head(groups: list[tuple[float, list[Row]]], classes: int) -> np.ndarray:
    """The head that minimises Σ weight · Σ loss over groups of rows."""
    if classes == 0:
        design = np.array([math.sqrt(weight) * row.design for weight, rows in groups for row in rows])
        target = np.array([math.sqrt(weight) * row.y for weight, rows in groups for row in rows])
        return np.linalg.lstsq(design, target, rcond=None)[0]
    scale = sum(weight * len(rows) for weight, rows in groups)

    def value(head: np.ndarray) -> float:
        return sum(weight * row_loss(row, head, classes) for weight, rows in groups for row in rows) / scale

    def slope(head: np.ndarray) -> np.ndarray:
        return sum(weight * row_gradient(row, head, classes) for weight, rows in groups for row in rows) / scale

    def curvature(head: np.ndarray) -> np.ndarray:
        return sum(weight * row_hessian(row, head, classes) for weight, rows in groups for row in rows) / scale

    start = np.zeros((classes - 1) * len(groups[0][1][0].design))
    near = minimize(value, start, jac=slope, method="BFGS", options={"gtol": 1e-4})
    found = root(slope, near.x, jac=curvature, tol=1e-14)
    assert np.abs(found.fun).max() < 1e-12
    return found.x


# --- the criterion ---------------------------------------------------------------------------------------------------
def regret(Z: Any, y: Any, env: Any, classes: int = 0) -> Reference:
    """Reference values; ``classes`` = 0 is squared loss, K ≥ 2 log-loss on codes 0..K-1."""
    groups = rows_of(Z, y, env)
    labels = list(groups)
    heads = [fitted_head([(1.0, rows)], classes) for rows in groups.values()]
    in_sample_own = [
        sum(row_loss(row, head, classes) for row in rows) / len(rows)
        for head, rows in zip(heads, groups.values(), strict=True)
    ]
    # w* = argmin Σ_e R_e(w) / R_e(w_e): every row of e counts 1 / (n_e R_e)
    weights = [1.0 / (len(rows) * risk) for rows, risk in zip(groups.values(), in_sample_own, strict=True)]
    shared = fitted_head(list(zip(weights, groups.values(), strict=True)), classes)
    in_sample_shared = [sum(row_loss(row, shared, classes) for row in rows) / len(rows) for rows in groups.values()]

    own_risk = [
        leave_one_out_risk(rows) if classes == 0 else corrected_risk(rows, head, classes)
        for rows, head in zip(groups.values(), heads, strict=True)
    ]

    shared_hessians = [sum(row_hessian(row, shared, classes) for row in rows) for rows in groups.values()]
    pooled = sum(weight * hessian for weight, hessian in zip(weights, shared_hessians, strict=True))
    inverse = np.linalg.inv(pooled)
    outers, gradients, hessians, own_hessians = [], [], [], []
    for e, rows in enumerate(groups.values()):
        outer = steadied_outer(rows, shared, heads[e], weights[e] * inverse, shared_hessians[e], classes)
        outers.append(outer)
        gradients.append(sum(row_gradient(row, shared, classes) for row in rows))
        own_hessians.append(sum(row_hessian(row, heads[e], classes) for row in rows))
        hessians.append((shared_hessians[e] + own_hessians[e]) / 2)

    # Cov(w* − w_e): both are −inverse Hessian × gradients, and the gradients of e are in both
    centred = [
        outer - np.outer(gradient, gradient) / len(rows)
        for outer, gradient, rows in zip(outers, gradients, groups.values(), strict=True)
    ]
    # ... but only the own head's share of J_e is noise of the own head; the rest is misfit of the shared one
    covariances, pulls, shares = [], [], []
    for e, rows in enumerate(groups.values()):
        own_inverse = np.linalg.inv(hessians[e])
        common = min(
            1.0,
            squared_residuals(rows, heads[e], np.linalg.inv(own_hessians[e]), classes)
            / squared_residuals(rows, shared, weights[e] * inverse, classes),
        )
        covariance = np.zeros_like(pooled)
        for k in range(len(labels)):
            response = weights[k] * inverse
            if k != e:
                covariance += response @ centred[k] @ response.T
                continue
            both = response - own_inverse
            covariance += common * both @ centred[k] @ both.T + (1 - common) * response @ centred[k] @ response.T
        covariances.append(covariance)
        # squared loss: a row pulls the shared head by its whole residual, of which 1 − common is misfit
        pulls.append((1 - common) * weights[e] * np.trace(inverse @ centred[e]) / len(rows) if classes == 0 else 0.0)
        shares.append(common)
    excess = [
        in_sample_shared[e] - in_sample_own[e] - 0.5 * np.trace(hessians[e] @ covariances[e]) / len(rows) + pulls[e]
        for e, rows in enumerate(groups.values())
    ]
    statistic = sum(
        gradient @ np.linalg.solve(share * outer, gradient)
        for gradient, outer, share in zip(gradients, outers, shares, strict=True)
    )
    return Reference(
        labels=labels,
        regret=[extra / risk for extra, risk in zip(excess, own_risk, strict=True)],
        own_risk=own_risk,
        excess=excess,
        in_sample=list(zip(in_sample_shared, in_sample_own, strict=True)),
        statistic=float(statistic),
        own_heads=heads,
        shared_head=shared,
        covariances=[share * outer for share, outer in zip(shares, outers, strict=True)],
        hessians=shared_hessians,
        weights=weights,
    )


def leave_one_out_risk(rows: list[Row]) -> float:
    """½ mean of residual × leave-one-out residual, by refitting without every row in turn."""
    total = 0.0
    whole = fitted_head([(1.0, rows)], 0)
    for i, row in enumerate(rows):
        without = fitted_head([(1.0, rows[:i] + rows[i + 1 :])], 0)
        total += 0.5 * (row.y - row.design @ whole) * (row.y - row.design @ without)
    return total / len(rows)


def corrected_risk(rows: list[Row], head: np.ndarray, classes: int) -> float:
    """In-sample loss plus its optimism ½ Σ gᵀ H⁻¹ g / (1 − leverage)."""
    inverse = np.linalg.inv(sum(row_hessian(row, head, classes) for row in rows))
    total = 0.0
    for row in rows:
        gradient = row_gradient(row, head, classes)
        kept = 1 - leverage(row, head, inverse, classes)
        total += row_loss(row, head, classes) + 0.5 * gradient @ inverse @ gradient / kept
    return total / len(rows)


def squared_residuals(rows: list[Row], head: np.ndarray, inverse: np.ndarray, classes: int) -> float:
    """Σ ‖residual‖² / (1 − leverage), over all scores: those of classes add up to zero."""
    total = 0.0
    for row in rows:
        residuals = row_gradient(row, head, classes).reshape(max(1, classes - 1), -1)[:, 0]  # the design begins with 1
        squares = residuals @ residuals + (residuals.sum() ** 2 if classes else 0.0)
        total += squares / (1 - leverage(row, head, inverse, classes))
    return total


def leverage(row: Row, head: np.ndarray, inverse: np.ndarray, classes: int) -> float:
    """Mean leverage per free score: trace of inverse Hessian × the row's share of the Hessian."""
    share = np.trace(inverse @ row_hessian(row, head, classes)) / max(1, classes - 1)
    return min(share, LARGEST_LEVERAGE)


def steadied_outer(
    rows: list[Row],
    shared: np.ndarray,
    own: np.ndarray,
    inverse: np.ndarray,
    hessian: np.ndarray,
    classes: int,
) -> np.ndarray:
    """Σ g gᵀ / (1 − leverage) at the shared head, shrunk towards a multiple of the Hessian (Ledoit and Wolf).

    In units in which the Hessian is the identity: share = Σ_i ‖g_i g_iᵀ − mean‖² / ‖J − multiple · I‖². The fourth
    moments are those of the gradients at the own head, where their mean is zero.
    """
    outer = np.zeros_like(hessian)
    for row in rows:
        gradient = row_gradient(row, shared, classes)
        outer += np.outer(gradient, gradient) / (1 - leverage(row, shared, inverse, classes))
    own_inverse = np.linalg.inv(sum(row_hessian(row, own, classes) for row in rows))
    fourth = 0.0
    for row in rows:
        gradient = row_gradient(row, own, classes)
        fourth += (gradient @ own_inverse @ gradient / (1 - leverage(row, own, own_inverse, classes))) ** 2
    ratio = np.linalg.solve(hessian, outer)
    size, multiple = np.trace(ratio @ ratio), np.trace(ratio) / len(ratio)
    share = (fourth - size / len(rows)) / (size - len(ratio) * multiple**2)
    share = min(max(share, 0.0), 1.0)
    return (1 - share) * outer + share * multiple * hessian
