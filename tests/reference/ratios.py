"""Density ratios by explicit loops: the multinomial loss, overlap diagnostics, normal densities, calibration."""

from __future__ import annotations

import math

import numpy as np


def multinomial_loss(B: list, codes: list, counts: list, weight: list, bias: list, ridge: float) -> float:
    """Σ w [ log Σ exp s − s_own ] + ½ ridge Σ W²."""
    total = 0.0
    for row, code, count in zip(B, codes, counts, strict=True):
        scores = [b + sum(w * x for w, x in zip(ws, row, strict=True)) for ws, b in zip(weight, bias, strict=True)]
        total += count * (math.log(sum(math.exp(s) for s in scores)) - scores[code])
    return total + 0.5 * ridge * sum(w * w for ws in weight for w in ws)


def log_normal(x: list, mean: list, covariance: list) -> float:
    """log N(x; mean, covariance)."""
    shift = np.array(x) - np.array(mean)
    quadratic = float(shift @ np.linalg.inv(np.array(covariance)) @ shift)
    return -0.5 * quadratic - 0.5 * math.log(np.linalg.det(np.array(covariance))) - len(x) / 2 * math.log(2 * math.pi)


def overlap(log_densities: list, codes: list, counts: list, environments: int, cap: float) -> dict:
    """Effective share, mean, largest share of weight and share beyond the cap of ρ_{a,b} over the rows of b."""
    shape = (environments, environments)
    found = {name: np.zeros(shape) for name in ("effective", "mean_ratio", "largest", "beyond_cap", "reached")}
    for a in range(environments):
        for b in range(environments):
            ratios, weights = [], []
            for scores, code, count in zip(log_densities, codes, counts, strict=True):
                if code == b:
                    ratios.append(math.exp(scores[a] - scores[b]))
                    weights.append(count)
            n = sum(weights)
            total = sum(w * r for w, r in zip(weights, ratios, strict=True))
            squares = sum(w * r * r for w, r in zip(weights, ratios, strict=True))
            inside = [s[a] - s[b] <= math.log(100) for s, c in zip(log_densities, codes, strict=True) if c == a]
            weights_a = [w for w, c in zip(counts, codes, strict=True) if c == a]
            reached = sum(w for w, i in zip(weights_a, inside, strict=True) if i) / sum(weights_a)
            found["reached"][a, b] = reached
            found["mean_ratio"][a, b] = total / n
            found["effective"][a, b] = total**2 / squares / n * min(total / n, n / total) * reached
            found["largest"][a, b] = max(ratios) / total
            found["beyond_cap"][a, b] = sum(w for w, r in zip(weights, ratios, strict=True) if r > cap) / n
    return found


def overlap_with_others(log_densities: list, codes: list, counts: list, environments: int) -> list:
    """Effective share of every environment weighted to look like the mixture of all others, each by its rows.

    It counts as far as the others' rows are within reach: Σ_{a ≠ b} n_a reached_ab / Σ_{a ≠ b} n_a.
    """
    sizes = [sum(w for w, c in zip(counts, codes, strict=True) if c == e) for e in range(environments)]
    reached = overlap(log_densities, codes, counts, environments, math.inf)["reached"]
    out = []
    for b in range(environments):
        others = [a for a in range(environments) if a != b]
        everybody = sum(sizes[a] for a in others)
        ratios, weights = [], []
        for scores, code, count in zip(log_densities, codes, counts, strict=True):
            if code == b:
                mixture = sum(sizes[a] * math.exp(scores[a]) for a in others) / everybody
                ratios.append(mixture / math.exp(scores[b]))
                weights.append(count)
        total = sum(w * r for w, r in zip(weights, ratios, strict=True))
        squares = sum(w * r * r for w, r in zip(weights, ratios, strict=True))
        mean = total / sizes[b]
        within = sum(sizes[a] * reached[a, b] for a in others) / everybody
        out.append(total**2 / squares / sizes[b] * min(mean, 1 / mean) * within)
    return out


def calibration(log_densities: list, codes: list, counts: list, environments: int, bins: int) -> list:
    """Mean over rows of |mean predicted share − share found| in bins of the predicted share."""
    sizes = [sum(w for w, c in zip(counts, codes, strict=True) if c == e) for e in range(environments)]
    distances = []
    for e in range(environments):
        surplus = [0.0] * bins
        for scores, code, count in zip(log_densities, codes, counts, strict=True):
            odds = [math.exp(s) * n for s, n in zip(scores, sizes, strict=True)]
            share = odds[e] / sum(odds)
            surplus[min(int(share * bins), bins - 1)] += count * (share - (code == e))
        distances.append(sum(abs(s) for s in surplus) / sum(sizes))
    return distances


def plain_logistic(X: list, y: list, penalty: float = 1.0, steps: int = 50) -> tuple[list, float]:
    """Slopes and intercept that minimise Σ log-loss + ½ penalty Σ w², by Newton's method, row after row."""
    d = len(X[0])
    theta = np.zeros(d + 1)
    for _ in range(steps):
        gradient, hessian = np.zeros(d + 1), np.zeros((d + 1, d + 1))
        for x, label in zip(X, y, strict=True):
            row = np.append(np.asarray(x, dtype=float), 1.0)
            p = 1.0 / (1.0 + math.exp(-float(row @ theta)))
            gradient += (p - label) * row
            hessian += p * (1.0 - p) * np.outer(row, row)
        for j in range(d):
            gradient[j] += penalty * theta[j]
            hessian[j, j] += penalty
        theta = theta - np.linalg.solve(hessian, gradient)
    return list(theta[:-1]), float(theta[-1])


def pairwise_log_ratios(X: list, env: list, labels: list, probability) -> dict:
    """log ρ̂_{e,e'} at the rows of e', by eq. 10: {(e, e'): [at the first row of e', ...]}.

    ``probability(rows, is_first)`` fits a classifier of two environments to rows and whether each is of the first, and
    gives p̂(first | x) of every one.
    """
    found = {}
    for i, first in enumerate(labels):
        for second in labels[i + 1 :]:
            rows = [(x, e) for x, e in zip(X, env, strict=True) if e in (first, second)]
            n = sum(e == first for _, e in rows)
            n2 = len(rows) - n
            p = probability([x for x, _ in rows], [e == first for _, e in rows])
            found[first, second], found[second, first] = [], []
            for (_, e), share in zip(rows, p, strict=True):
                rho = n2 * share / (n * (1.0 - share))  # eq. 10
                if e == second:
                    found[first, second].append(math.log(rho))
                else:
                    found[second, first].append(-math.log(rho))
    return found


def pairwise_dric(f: list, baseline: list, X: list, env: list, labels: list, probability) -> float:
    """Q̂ of eq. 8 with the ratios of :func:`pairwise_log_ratios`."""
    logs = pairwise_log_ratios(X, env, labels, probability)

    def gap(values: list) -> float:
        total = 0.0
        for e in labels:
            own = [v for v, label in zip(values, env, strict=True) if label == e]
            for e2 in labels:
                if e2 == e:
                    continue
                there = [v for v, label in zip(values, env, strict=True) if label == e2]
                moved = sum(v * math.exp(log) for v, log in zip(there, logs[e, e2], strict=True)) / len(there)
                total += (moved - sum(own) / len(own)) ** 2
        return total

    return gap(f) / gap(baseline)
