"""Kernel statistics of environments by loops over rows, straight from the definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

Kernel = Callable[[np.ndarray, np.ndarray], float]


def gaussian(width: float) -> Kernel:
    return lambda a, b: math.exp(-sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / (2 * width**2))


def median_distance(X: np.ndarray) -> float:
    return float(np.median([math.dist(a, b) for a, b in itertools.combinations(X, 2)]))


def mmd2(A: np.ndarray, B: np.ndarray, k: Kernel, unbiased: bool = True) -> float:
    """Gretton et al. (2012), eq. 3 and eq. 5."""

    def within(X: np.ndarray) -> float:
        pairs = [(i, j) for i in range(len(X)) for j in range(len(X)) if i != j or not unbiased]
        return sum(k(X[i], X[j]) for i, j in pairs) / len(pairs)

    across = sum(k(a, b) for a in A for b in B) / (len(A) * len(B))
    return within(A) + within(B) - 2 * across


def pairs_of(X: np.ndarray, env: np.ndarray, statistic: Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
    labels = sorted(set(env.tolist()))
    out = np.zeros((len(labels), len(labels)))
    for i, j in itertools.combinations(range(len(labels)), 2):
        out[i, j] = out[j, i] = statistic(X[env == labels[i]], X[env == labels[j]])
    return out


def gram(rows: Sequence, k: Callable) -> np.ndarray:
    return np.array([[k(a, b) for b in rows] for a in rows])


def centred(M: np.ndarray, unbiased: bool) -> np.ndarray:
    """Gretton et al. (2007) by centring matrices; unbiased by U-centring every entry (Szekely & Rizzo)."""
    n = len(M)
    if not unbiased:
        H = np.eye(n) - 1 / n
        return H @ M @ H
    M = M - np.diag(np.diag(M))
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                out[i, j] = M[i, j] - M[i].sum() / (n - 2) - M[:, j].sum() / (n - 2) + M.sum() / ((n - 1) * (n - 2))
    return out


def hsic(K: np.ndarray, L: np.ndarray, unbiased: bool = True) -> float:
    """Normalised: the correlation of two kernels, each :func:`centred`."""
    A, B = centred(K, unbiased), centred(L, unbiased)
    return float((A * B).sum() / math.sqrt((A * A).sum() * (B * B).sum()))


def spread(K: np.ndarray, unbiased: bool = True) -> float:
    """√HSIC(K, K), of :func:`centred` kernels; unbiased no less than √0.1 times the biased one, which 3 rows leave."""
    n, whole = len(K), float((centred(K, False) ** 2).mean())
    if not unbiased:
        return math.sqrt(whole)
    two = float((centred(K, True) ** 2).sum()) / (n * (n - 3)) if n > 3 else 0.0
    return math.sqrt(max(two, 0.1 * whole))


def all_deals(sizes: Sequence[int]) -> Iterator[np.ndarray]:
    """Every way of dealing rows to environments of these sizes."""
    n = sum(sizes)

    def fill(codes: np.ndarray, k: int) -> Iterator[np.ndarray]:
        if k == len(sizes) - 1:
            yield np.where(codes < 0, k, codes)
            return
        for chosen in itertools.combinations(np.flatnonzero(codes < 0), sizes[k]):
            more = codes.copy()
            more[list(chosen)] = k
            yield from fill(more, k + 1)

    yield from fill(np.full(n, -1), 0)
