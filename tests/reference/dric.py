"""Slow, independent DRIC: loops over rows and pairs, straight from equations 6, 8 and 10 of the paper.

The classifier p̂(e | x) is given by its log densities at the rows; everything after it is done here row by row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

Row = Sequence[float]


def class_probability(log_density: Row, e: int, sizes: Sequence[int]) -> float:
    """p̂(e | x) of the classifier behind log densities log p_e(x) + c(x): environments count by their rows."""
    terms = [math.log(sizes[k]) + log_density[k] for k in range(len(sizes))]
    top = max(terms)
    return math.exp(terms[e] - top) / sum(math.exp(term - top) for term in terms)


def ratio(log_density: Row, e: int, e2: int, sizes: Sequence[int]) -> float:
    """ρ̂_{e,e'}(x) = n_e' p̂(e | x) / (n_e p̂(e' | x)); with two environments p̂(e' | x) = 1 − p̂ (eq. 10)."""
    p, p2 = class_probability(log_density, e, sizes), class_probability(log_density, e2, sizes)
    return sizes[e2] * p / (sizes[e] * p2)


def terms(
    f: Row, log_densities: Sequence[Row], env: Sequence[Hashable], labels: Sequence[Hashable], e: int, e2: int
) -> list[float]:
    """f(x) ρ̂_{e,e'}(x) for the rows of e'; f(x) itself for e = e'."""
    sizes = [sum(label == known for label in env) for known in labels]
    found = []
    for i in range(len(f)):
        if env[i] == labels[e2]:
            found.append(f[i] if e == e2 else f[i] * ratio(log_densities[i], e, e2, sizes))
    return found


def transported_means(
    f: Row, log_densities: Sequence[Row], env: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[list[float]]:
    """q(e, e') for all pairs: the mean over rows of e' (eq. 6)."""
    count = range(len(labels))
    found = [[terms(f, log_densities, env, labels, a, b) for b in count] for a in count]
    return [[sum(pair) / len(pair) for pair in row] for row in found]


def variances(
    f: Row, log_densities: Sequence[Row], env: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[list[float]]:
    """σ²(e, e'), the sample variance of the terms."""
    out = []
    for a in range(len(labels)):
        out.append([])
        for b in range(len(labels)):
            pair = terms(f, log_densities, env, labels, a, b)
            mean = sum(pair) / len(pair)
            out[-1].append(sum((term - mean) ** 2 for term in pair) / (len(pair) - 1))
    return out


def total_gap(means: Sequence[Sequence[float]]) -> float:
    """Σ_{e,e'} (q(e, e') − q(e, e))²: numerator or denominator of eq. 8."""
    total = 0.0
    for a in range(len(means)):
        for b in range(len(means)):
            total += (means[a][b] - means[a][a]) ** 2
    return total


def bound(y: Row, baseline: Row, env: Row) -> tuple[float, float]:
    """Cov²(Y, E) and R_Υ = Var(b(x) − E[Y | E]) of Theorem 3.5, for environments that are numbers."""
    n = len(y)
    mean_y, mean_e = sum(y) / n, sum(env) / n
    covariance = sum((y[i] - mean_y) * (env[i] - mean_e) for i in range(n)) / n
    rest = []
    for i in range(n):
        own = [y[j] for j in range(n) if env[j] == env[i]]
        rest.append(baseline[i] - sum(own) / len(own))
    mean_rest = sum(rest) / n
    return covariance**2, sum((value - mean_rest) ** 2 for value in rest) / n


# --- what else may stand in the sums ----------------------------------------------------------------------------------
def self_normalised_means(
    f: Row, log_densities: Sequence[Row], env: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[list[float]]:
    """Σ ρ̂ f / Σ ρ̂ over the rows of e', pair by pair."""
    ones = [1.0] * len(f)
    count = range(len(labels))
    found = [[sum(terms(f, log_densities, env, labels, a, b)) for b in count] for a in count]
    weight = [[sum(terms(ones, log_densities, env, labels, a, b)) for b in count] for a in count]
    return [[found[a][b] / weight[a][b] for b in count] for a in count]


def line(x: Row, y: Row) -> tuple[float, float]:
    """Intercept and slope of least squares on one column."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    return mean_y - slope * mean_x, slope


def own_means(phi: Row, y: Row, env: Sequence[Hashable], fold: Sequence[int] | None = None) -> list[float]:
    """m̂_e(φ) at every row of e: a line fitted to the rows of e alone, in other folds than the row's."""
    found = []
    for i in range(len(y)):
        seen = [j for j in range(len(y)) if env[j] == env[i] and (fold is None or fold[j] != fold[i])]
        intercept, slope = line([phi[j] for j in seen], [y[j] for j in seen])
        found.append(intercept + slope * phi[i])
    return found


def spread(f: Row, baseline: Row) -> float:
    """Standard deviation of f over that of the baseline."""
    variance = []
    for values in (f, baseline):
        mean = sum(values) / len(values)
        variance.append(sum((value - mean) ** 2 for value in values))
    return math.sqrt(variance[0] / variance[1])
