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
    """Regret, in-sample and corrected losses and noise by environment, in label order; and the test's statistic.

    ``covariances`` are those of the own heads' gradients, ``centred`` those of the shared head's about their mean,
    ``midway`` the Hessians between both heads, ``differences`` the covariances of (shared − own head).
    """

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
    gradients: list[np.ndarray]
    centred: list[np.ndarray]
    midway: list[np.ndarray]
    differences: list[np.ndarray]


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
        gradients=gradients,
        centred=centred,
        midway=hessians,
        differences=covariances,
    )


def pairs(Z: Any, y: Any, env: Any, classes: int = 0) -> np.ndarray:
    """Relative extra loss in a under the head of b, less the noise of that head, ½ φ_b tr(H_a H_b⁻¹) / n_a.

    φ_b, by which the variance of b's gradients exceeds H_b, is twice its optimism per parameter.
    """
    found, groups = regret(Z, y, env, classes), list(rows_of(Z, y, env).values())
    out = np.zeros((len(groups), len(groups)))
    for a, rows in enumerate(groups):
        for b, others in enumerate(groups):
            if a == b:
                continue
            loss = sum(row_loss(row, found.own_heads[b], classes) for row in rows) / len(rows)
            optimism = len(others) * (found.own_risk[b] - found.in_sample[b][1])
            dispersion = 2 * optimism / len(found.shared_head)
            noise = 0.5 * dispersion * np.trace(found.midway[a] @ np.linalg.inv(found.midway[b])) / len(rows)
            out[a, b] = (loss - noise) / found.own_risk[a] - 1
    return out


def drivers(Z: Any, y: Any, env: Any) -> np.ndarray:
    """Squared loss: ½ d_j (H d)_j less its noise, d = shared − own head, on columns centred within the environment.

    The parts are scaled to add up to the regret; the level comes last.
    """
    found, groups = regret(Z, y, env), list(rows_of(Z, y, env).values())
    out = []
    for e, rows in enumerate(groups):
        design = np.array([row.design for row in rows])
        centre = design.mean(axis=0)
        centred = np.column_stack([np.ones(len(rows)), design[:, 1:] - centre[1:]])
        # the same head on (1, z − centre): weights stay, the level takes up weights · centre
        move = np.eye(len(centre))
        move[0, 1:] = centre[1:]
        step = move @ (found.shared_head - found.own_heads[e])
        hessian = centred.T @ centred
        noise = hessian @ move @ found.differences[e] @ move.T
        parts = np.array([0.5 * (step[j] * (hessian[j] @ step) - noise[j, j]) for j in range(len(step))])
        parts *= found.regret[e] / parts.sum()
        out.append([*parts[1:], parts[0]])
    return np.array(out)


def linear_noise(Z: Any, y: Any, env: Any, classes: int = 0) -> np.ndarray:
    """Delta-method covariance (E, E) of R_e(own) · (R_e(w*) / R_e(own) − 1), as the rows of every environment move it.

    A row of k moves the shared head by −a_k H⁻¹ g and, by its loss under the own head, which sets a_k, once more by
    H⁻¹ a_k g_k per relative change of R_k; of its own environment it moves both losses as well.
    """
    found, groups = regret(Z, y, env, classes), list(rows_of(Z, y, env).values())
    inverse = np.linalg.inv(sum(weight * part for weight, part in zip(found.weights, found.hessians, strict=True)))
    count, size = len(groups), len(found.shared_head)
    total = np.zeros((count, count))
    for k, rows in enumerate(groups):
        n, joint = len(rows), joint_noise(rows, found, k, classes)
        response = np.zeros((count, size + 2))
        for e, others in enumerate(groups):
            slope = found.midway[e] @ (found.shared_head - found.own_heads[e]) / len(others)
            response[e, :size] = -found.weights[k] * inverse @ slope
            response[e, -1] = slope @ inverse @ (found.weights[k] * found.gradients[k]) / (n * found.in_sample[k][1])
        response[k, -2] = 1 / n
        total += response @ joint @ response.T
    return total


def joint_noise(rows: list[Row], found: Reference, k: int, classes: int) -> np.ndarray:
    """Covariance of sums over the rows of k: gradient, loss(shared) − (1 + regret) · loss(own), loss(own).

    The gradients have the corrected covariance J; what losses have beside what follows from the gradients may then be
    less than nothing, in units of their spread, and counts as nothing.
    """
    gradients = np.array([row_gradient(row, found.shared_head, classes) for row in rows])
    of_shared, of_own = (
        [row_loss(row, head, classes) for row in rows] for head in (found.shared_head, found.own_heads[k])
    )
    losses = np.column_stack([np.array(of_shared) - (1 + found.regret[k]) * np.array(of_own), of_own])
    losses -= losses.mean(axis=0)
    cross = losses.T @ (gradients - gradients.mean(axis=0))
    follows = cross @ np.linalg.inv(found.centred[k]) @ cross.T
    unit = np.sqrt(np.diag(losses.T @ losses))
    values, vectors = np.linalg.eigh((losses.T @ losses - follows) / np.outer(unit, unit))
    beside = sum(value * np.outer(vector, vector) for value, vector in zip(values, vectors.T, strict=True) if value > 0)
    return np.block([[found.centred[k], cross.T], [cross, follows + np.outer(unit, unit) * beside]])


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
