"""Slow, independent transport gap: loops over rows and pairs, straight from the definition.

The outcome models and the density ratios are given at every row; everything after them is done here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Numbers = Sequence[float]
Matrix = Sequence[Sequence[float]]


def rows_of(env: Sequence[int], e: int) -> list[int]:
    return [i for i in range(len(env)) if env[i] == e]


def gap(y: Numbers, env: Sequence[int], f: Callable[[int, int], float], log_density: Matrix, a: int, b: int) -> float:
    """δ(a, b): weighted mean residual of b less mean residual of a; ``f(i, b)`` is b's model at row i."""
    weighted = total = 0.0
    for i in rows_of(env, b):
        ratio = math.exp(log_density[i][a] - log_density[i][b])
        weighted += ratio * (y[i] - f(i, b))
        total += ratio
    plain = 0.0
    for i in rows_of(env, a):
        plain += y[i] - f(i, b)
    return weighted / total - plain / len(rows_of(env, a))


def standard_error(
    y: Numbers, env: Sequence[int], f: Callable[[int, int], float], log_density: Matrix, a: int, b: int
) -> float:
    """Root of the variances of both means, for models that were not fitted on these rows.

    A row of share s has a squared distance from the mean that is too small by 1 − 2 s + Σ s² if noise is even.
    """
    variance = 0.0
    for e, ratio in ((b, True), (a, False)):
        rows = rows_of(env, e)
        weights = [math.exp(log_density[i][a] - log_density[i][b]) if ratio else 1.0 for i in rows]
        shares = [weight / sum(weights) for weight in weights]
        residuals = [y[i] - f(i, b) for i in rows]
        mean = sum(s * r for s, r in zip(shares, residuals, strict=True))
        squares = sum(s * s for s in shares)
        for s, r in zip(shares, residuals, strict=True):
            variance += s * s * (r - mean) ** 2 / (1.0 - 2.0 * s + squares)
    return math.sqrt(variance)


def least_squares(Z: Matrix, y: Numbers, rows: Sequence[int]) -> list[float]:
    """(intercept, slopes) by the normal equations, Gauss–Jordan."""
    size = len(Z[0]) + 1
    table = [[0.0] * (size + 1) for _ in range(size)]
    for i in rows:
        design = [1.0, *Z[i], y[i]]
        for j in range(size):
            for k in range(size + 1):
                table[j][k] += design[j] * design[k]
    for j in range(size):
        pivot = max(range(j, size), key=lambda r: abs(table[r][j]))
        table[j], table[pivot] = table[pivot], table[j]
        table[j] = [value / table[j][j] for value in table[j]]
        for r in range(size):
            if r != j:
                table[r] = [value - table[r][j] * own for value, own in zip(table[r], table[j], strict=True)]
    return [row[-1] for row in table]


def cross_fitted(
    Z: Matrix, y: Numbers, env: Sequence[int], fold: Sequence[int], folds: int
) -> Callable[[int, int], float]:
    """``f(i, b)``: rows of b by the head without their fold, others by the mean of b's heads in the folds' shares."""
    heads = {}
    for b in sorted(set(env)):
        for k in range(folds):
            heads[b, k] = least_squares(Z, y, [i for i in rows_of(env, b) if fold[i] != k])

    def predicted(i: int, head: Numbers) -> float:
        return head[0] + sum(w * z for w, z in zip(head[1:], Z[i], strict=True))

    def f(i: int, b: int) -> float:
        if env[i] == b:
            return predicted(i, heads[b, fold[i]])
        rows = rows_of(env, b)
        shares = [sum(fold[j] == k for j in rows) / len(rows) for k in range(folds)]
        return sum(shares[k] * predicted(i, heads[b, k]) for k in range(folds))

    return f
