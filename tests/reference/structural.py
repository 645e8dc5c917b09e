"""Structural equations by explicit loops, one row and one variable at a time, and their moments source by source.

Nothing here uses a matrix product or a vectorised draw: what is compared with it shares no code and no algebra with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Terms = dict[Any, float]  # a variable as a sum of independent sources: source → coefficient


# --- rows ----------------------------------------------------------------------------------------------------------
def linear_rows(
    rows: int,
    e: float,
    target_noise: float,
    effect_noise: float,
    to_causes: Floats,
    to_target: Floats,
    to_effects: Floats,
    effect_of_target: Floats,
    rng: np.random.Generator,
) -> Floats:
    """(rows, 2·dim + 1): X1, X2, Y of section 4.1 (``to_effects`` = 0) or appendix B.6 of paper 000.

    ``effect_of_target`` is W_{Y→2}, one number per effect.
    """
    dim = len(to_target)
    table = np.zeros((rows, 2 * dim + 1))
    for i in range(rows):
        hidden = [rng.normal(0.0, e) for _ in range(dim)]
        causes = []
        for j in range(dim):
            cause = rng.normal(0.0, e)
            for k in range(dim):
                cause += to_causes[j, k] * hidden[k]
            causes.append(cause)
        y = rng.normal(0.0, target_noise)
        for j in range(dim):
            y += causes[j] + to_target[j] * hidden[j]
        for j in range(dim):
            effect = effect_of_target[j] * y + rng.normal(0.0, effect_noise)
            for k in range(dim):
                effect += to_effects[j, k] * hidden[k]
            table[i, dim + j] = effect
            table[i, j] = causes[j]
        table[i, 2 * dim] = y
    return table


def student_t3(rng: np.random.Generator) -> float:
    """A normal over the root of the mean of three squared normals."""
    return rng.normal() / math.sqrt((rng.normal() ** 2 + rng.normal() ** 2 + rng.normal() ** 2) / 3)


def nonlinear_rows(
    rows: int,
    e: float,
    target_noise: float,
    effect_noise: float,
    hidden_weights: Floats,
    effect_of_target: float,
    rng: np.random.Generator,
) -> Floats:
    """(rows, 3): x1, x2, Y of appendix B.1.3 of paper 000; ``effect_of_target`` is W_{Y→2}."""
    table = np.zeros((rows, 3))
    for i in range(rows):
        hidden = rng.normal(0.0, e)
        x1 = hidden_weights[0] * hidden + rng.normal(0.0, e)
        y = x1 * x1 + hidden_weights[1] * hidden + target_noise * student_t3(rng)
        x2 = effect_of_target * y + hidden_weights[2] * hidden + effect_noise * student_t3(rng)
        table[i] = x1, x2, y
    return table


def network_rows(rows: int, e: float, to_target: Floats, to_effects: Floats, rng: np.random.Generator) -> Floats:
    """(rows, 3·dim): x1, x2, y of equation 8 of paper 002, where vectors are rows."""
    dim = len(to_target)
    table = np.zeros((rows, 3 * dim))
    for i in range(rows):
        x1 = [rng.normal(0.0, e) for _ in range(dim)]
        y = [sum(x1[j] * to_target[j, k] for j in range(dim)) + rng.normal() for k in range(dim)]
        x2 = [sum(y[j] * to_effects[j, k] for j in range(dim)) + rng.normal(0.0, e) for k in range(dim)]
        table[i] = [*x1, *x2, *y]
    return table


# --- moments -------------------------------------------------------------------------------------------------------
def plus(*terms: tuple[float, Terms]) -> Terms:
    total: Terms = {}
    for factor, variable in terms:
        for source, coefficient in variable.items():
            total[source] = total.get(source, 0.0) + factor * coefficient
    return total


def covariance_of(variables: list[Terms], variance: Callable[[Any], float]) -> Floats:
    result = np.zeros((len(variables), len(variables)))
    for i, first in enumerate(variables):
        for j, second in enumerate(variables):
            result[i, j] = sum(c * second.get(source, 0.0) * variance(source) for source, c in first.items())
    return result


def linear_covariance(
    e: float,
    target_noise: float,
    effect_noise: float,
    to_causes: Floats,
    to_target: Floats,
    to_effects: Floats,
    effect_of_target: Floats,
) -> Floats:
    """Covariance of (X1, X2, Y), by writing every variable as a sum of independent sources."""
    dim = len(to_target)
    hidden: list[Terms] = [{("hidden", k): 1.0} for k in range(dim)]
    causes = [plus((1.0, {("cause", j): 1.0}), *((to_causes[j, k], hidden[k]) for k in range(dim))) for j in range(dim)]
    y = plus((1.0, {("target", 0): 1.0}), *((1.0, c) for c in causes), *zip(to_target, hidden, strict=True))
    effects = [
        plus(
            (1.0, {("effect", j): 1.0}), (effect_of_target[j], y), *((to_effects[j, k], hidden[k]) for k in range(dim))
        )
        for j in range(dim)
    ]
    sizes = {"hidden": e, "cause": e, "target": target_noise, "effect": effect_noise}
    return covariance_of([*causes, *effects, y], lambda source: sizes[source[0]] ** 2)


def network_covariance(e: float, to_target: Floats, to_effects: Floats) -> Floats:
    """Covariance of (x1, x2, y) of equation 8 of paper 002."""
    dim = len(to_target)
    x1: list[Terms] = [{("cause", k): 1.0} for k in range(dim)]
    y = [plus((1.0, {("target", k): 1.0}), *((to_target[j, k], x1[j]) for j in range(dim))) for k in range(dim)]
    x2 = [plus((1.0, {("effect", k): 1.0}), *((to_effects[j, k], y[j]) for j in range(dim))) for k in range(dim)]
    return covariance_of([*x1, *x2, *y], lambda source: 1.0 if source[0] == "target" else e**2)


def nonlinear_moments(
    e: float, target_noise: float, effect_noise: float, hidden_weights: Floats, effect_of_target: float
) -> tuple[Floats, Floats]:
    """Mean and covariance of (x1, x1², x2, Y): quadrature over H and the noise of x1, exact for polynomials.

    The t noise enters Y and x2 linearly, with mean 0 and variance ν/(ν − 2) = 3 at scale 1.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    mean, second = np.zeros(4), np.zeros((4, 4))
    for hidden, hidden_share in zip(e * nodes, weights, strict=True):
        for own, own_share in zip(e * nodes, weights, strict=True):
            x1 = hidden_weights[0] * hidden + own
            y = x1**2 + hidden_weights[1] * hidden
            values = np.array([x1, x1**2, effect_of_target * y + hidden_weights[2] * hidden, y])
            mean += hidden_share * own_share * values
            second += hidden_share * own_share * np.outer(values, values)
    covariance = second - np.outer(mean, mean)
    reach = np.array([effect_of_target, 1.0])
    covariance[2:, 2:] += 3.0 * target_noise**2 * np.outer(reach, reach)
    covariance[2, 2] += 3.0 * effect_noise**2
    return mean, covariance


# --- least squares in the population ----------------------------------------------------------------------------------
def influence_index(covariances: list[Floats], rows: list[int]) -> float:
    """V of least squares without intercept, all means 0: H = 2 E[xxᵀ] over rows, IF_e = −H⁻¹ ∇ℓ_e, eq. 5 and 6."""
    total = sum(rows)
    second = sum(n / total * c[:-1, :-1] for n, c in zip(rows, covariances, strict=True))
    cross = sum(n / total * c[:-1, -1] for n, c in zip(rows, covariances, strict=True))
    beta = np.linalg.solve(second, cross)
    influences = [-np.linalg.solve(2 * second, -2 * (c[:-1, -1] - c[:-1, :-1] @ beta)) for c in covariances]
    middle = sum(influences) / len(influences)
    spread = sum(np.outer(i - middle, i - middle) for i in influences) / len(influences)
    return math.log(max(np.linalg.eigvalsh(spread)))


def regret_of_prediction(coefficients: Floats, covariances: list[Floats], means: list[Floats]) -> list[float]:
    """R_e(shared) / R_e(own) − 1 of a line a + b f on f = coefficientsᵀ x, from its normal equations.

    An f that is constant explains nothing: what is shared is the level, with b = 0.
    """
    parts = []
    for covariance, mean in zip(covariances, means, strict=True):
        variance = coefficients @ covariance[:-1, :-1] @ coefficients
        cross = coefficients @ covariance[:-1, -1]
        parts.append((variance, cross, covariance[-1, -1], coefficients @ mean[:-1], mean[-1]))
    own = [total - (cross**2 / variance if variance > 1e-20 * total else 0.0) for variance, cross, total, _, _ in parts]
    normal, right = np.zeros((2, 2)), np.zeros(2)
    for (variance, cross, _, f, y), risk in zip(parts, own, strict=True):
        normal += np.array([[1.0, f], [f, variance + f**2]]) / risk
        right += np.array([y, cross + f * y]) / risk
    a, b = np.linalg.lstsq(normal, right, rcond=1e-15)[0]
    return [
        (total - 2 * b * cross + b**2 * variance + (y - a - b * f) ** 2) / risk - 1
        for (variance, cross, total, f, y), risk in zip(parts, own, strict=True)
    ]
