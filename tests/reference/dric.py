"""Slow, independent DRIC: loops over rows and pairs, straight from equations 6, 8 and 10 of the paper.

The classifier p̂(e | x) is given by its scores; everything after it is done here row by row.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

Row = Sequence[float]


def class_probability(x: Row, e: int, weight: Sequence[Row], bias: Row, sizes: Sequence[int]) -> float:
    """p̂(e | x) of the classifier behind log densities ``weight · x + bias``: environments count by their rows."""
    terms = []
    for k in range(len(bias)):
        score = bias[k]
        for j in range(len(x)):
            score += weight[k][j] * x[j]
        terms.append(math.log(sizes[k]) + score)
    top = max(terms)
    return math.exp(terms[e] - top) / sum(math.exp(term - top) for term in terms)


def ratio(x: Row, e: int, e2: int, weight: Sequence[Row], bias: Row, sizes: Sequence[int]) -> float:
    """ρ̂_{e,e'}(x) = n_e' p̂(e | x) / (n_e p̂(e' | x)); with two environments p̂(e' | x) = 1 − p̂ (eq. 10)."""
    p = class_probability(x, e, weight, bias, sizes)
    p2 = class_probability(x, e2, weight, bias, sizes)
    return sizes[e2] * p / (sizes[e] * p2)


def transported_mean(
    f: Sequence[float],
    X: Sequence[Row],
    env: Sequence[Hashable],
    labels: Sequence[Hashable],
    e: int,
    e2: int,
    weight: Sequence[Row],
    bias: Row,
) -> float:
    """q(e, e'): the mean over rows of e' of f(x) ρ̂_{e,e'}(x); for e = e' the plain mean (eq. 6)."""
    sizes = [sum(label == known for label in env) for known in labels]
    total, count = 0.0, 0
    for i in range(len(f)):
        if env[i] != labels[e2]:
            continue
        total += f[i] if e == e2 else f[i] * ratio(X[i], e, e2, weight, bias, sizes)
        count += 1
    return total / count


def transported_means(
    f: Sequence[float],
    X: Sequence[Row],
    env: Sequence[Hashable],
    labels: Sequence[Hashable],
    weight: Sequence[Row],
    bias: Row,
) -> list[list[float]]:
    """q(e, e') for all pairs."""
    count = range(len(labels))
    return [[transported_mean(f, X, env, labels, a, b, weight, bias) for b in count] for a in count]


def total_gap(means: Sequence[Sequence[float]]) -> float:
    """Σ_{e,e'} (q(e, e') − q(e, e))²: numerator or denominator of eq. 8."""
    total = 0.0
    for a in range(len(means)):
        for b in range(len(means)):
            total += (means[a][b] - means[a][a]) ** 2
    return total
