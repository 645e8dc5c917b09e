"""Kernel estimators of density ratios by explicit loops, straight from their formulas; slow."""

from __future__ import annotations

import math

import numpy as np


def bump(x: np.ndarray, centre: np.ndarray, width: float) -> float:
    return math.exp(-sum((float(a) - float(b)) ** 2 for a, b in zip(x, centre, strict=True)) / (2.0 * width**2))


def features(X: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    """A bump at every centre."""
    return np.array([[bump(x, c, width) for c in centres] for x in X])


def mean_outer(k: np.ndarray) -> np.ndarray:
    total = np.zeros((k.shape[1], k.shape[1]))
    for row in k:
        total += np.outer(row, row)
    return total / len(k)


def minimum(quadratic: np.ndarray, linear: np.ndarray, sweeps: int = 20_000) -> np.ndarray:
    """argmin over a ≥ 0 of ½ aᵀ Q a − cᵀ a, one coordinate after the other."""
    a = np.zeros(len(linear))
    for _ in range(sweeps):
        before = a.copy()
        for j in range(len(a)):
            a[j] = max(0.0, a[j] + (linear[j] - quadratic[j] @ a) / quadratic[j, j])
        if np.abs(a - before).max() < 1e-14 * np.abs(a).max():
            break
    return a


def least_squares(own: np.ndarray, other: np.ndarray, penalty: float, alpha: float) -> np.ndarray:
    """uLSIF (α = 0) and RuLSIF, from the features of both samples."""
    gram = alpha * mean_outer(own) + (1.0 - alpha) * mean_outer(other)
    ridge = penalty * np.trace(gram) / len(gram)
    return minimum(gram + ridge * np.eye(len(gram)), own.mean(axis=0))


def squared_distance_of_means(own: np.ndarray, other: np.ndarray, a: np.ndarray, kernel: np.ndarray) -> float:
    """|mean_other[r k(x, ·)] − mean_own[k(x, ·)]|² in the span of kernels at the centres (``kernel``)."""
    gap = np.mean([(k @ a) * k for k in other], axis=0) - own.mean(axis=0)
    return float(gap @ np.linalg.solve(kernel, gap))


def likelihood_weights(own: np.ndarray, other: np.ndarray, rounds: int = 20_000) -> np.ndarray:
    """KLIEP by expectation maximisation: proportions of a mixture of bumps, each divided by its mean over ``other``."""
    unit = other.mean(axis=0)
    k = own / unit
    a = np.full(k.shape[1], 1.0 / k.shape[1])
    for _ in range(rounds):
        a = a * (k / (k @ a)[:, None]).mean(axis=0)
    return a / unit
