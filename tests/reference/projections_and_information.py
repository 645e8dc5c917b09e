"""Comparators by projections, areas and information, row by row and straight from their definitions."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np


def squared_distance(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    """∫ (F − G)² dt of two weighted samples [(value, weight)], step by step between neighbouring values."""
    total = 0.0
    for low, high in pairwise(sorted({value for value, _ in (*one, *other)})):
        shares = [
            sum(weight for value, weight in sample if value <= low) / sum(weight for _, weight in sample)
            for sample in (one, other)
        ]
        total += (shares[0] - shares[1]) ** 2 * (high - low)
    return total


def cramer_wold(columns: Any, env: Any, weight: Any, directions: Any, over: str) -> tuple[float, dict[Any, float]]:
    """Σ_{a<b} π_a π_b ∫ (F_a − F_b)² dt along every direction, their mean or maximum; and the same of pairs."""
    columns, weight = np.asarray(columns, dtype=float), np.asarray(weight, dtype=float)
    for j in range(columns.shape[1]):
        mean = sum(w * x for w, x in zip(weight, columns[:, j], strict=True)) / weight.sum()
        variance = sum(w * (x - mean) ** 2 for w, x in zip(weight, columns[:, j], strict=True)) / weight.sum()
        columns[:, j] = (columns[:, j] - mean) / math.sqrt(variance)
    labels = sorted(set(env))
    share = {a: sum(w for w, e in zip(weight, env, strict=True) if e == a) / weight.sum() for a in labels}
    values, pairs = [], {(a, b): [] for a in labels for b in labels if a < b}
    for direction in directions:
        along = [float(sum(x * t for x, t in zip(row, direction, strict=True))) for row in columns]
        mean = sum(w * t for w, t in zip(weight, along, strict=True)) / weight.sum()
        spread = math.sqrt(sum(w * (t - mean) ** 2 for w, t in zip(weight, along, strict=True)) / weight.sum())
        samples = {
            a: [(t / spread, w) for t, w, e in zip(along, weight, env, strict=True) if e == a and w > 0] for a in labels
        }
        total = 0.0
        for a, b in pairs:
            distance = squared_distance(samples[a], samples[b])
            pairs[a, b].append(distance)
            total += share[a] * share[b] * distance
        values.append(total)
    pick = max if over == "max" else (lambda numbers: sum(numbers) / len(numbers))
    return pick(values), {pair: pick(found) for pair, found in pairs.items()}


def area(scores: Any, positive: Any, group: Any, weight: Any) -> float:
    """Share of pairs (one positive, one not, of one group) in which the positive one has the higher score."""
    right = total = 0.0
    for i, j in ((i, j) for i in range(len(scores)) for j in range(len(scores))):
        if positive[i] and not positive[j] and group[i] == group[j]:
            pair = weight[i] * weight[j]
            total += pair
            right += pair * (1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
    return right / total


def conditional_information(strata: Any, y: Any, env: Any, weight: Any) -> float:
    """Σ p(e, y, s) log( p(e, y, s) p(s) / (p(e, s) p(y, s)) ), in nats."""
    rows = list(zip(env, y, strata, weight, strict=True))
    n = sum(w for *_, w in rows)
    of_all, of_env, of_y, of_stratum = Counter(), Counter(), Counter(), Counter()
    for e, target, s, w in rows:
        of_all[e, target, s] += w
        of_env[e, s] += w
        of_y[target, s] += w
        of_stratum[s] += w
    return sum(
        count / n * math.log(count * of_stratum[s] / (of_env[e, s] * of_y[target, s]))
        for (e, target, s), count in of_all.items()
        if count
    )
