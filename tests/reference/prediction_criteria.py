"""Slow, independent implementations of the criteria on predictions: loops over rows, straight from the definitions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import combinations

from scipy.stats import binom


def row_loss(prediction: float | Sequence[float], outcome: float, loss: str) -> float:
    """Loss of one row. Classes: ``prediction`` is the list of probabilities and ``outcome`` the class code."""
    if loss == "squared":
        return (prediction - outcome) ** 2
    if loss == "absolute":
        return abs(prediction - outcome)
    if loss == "log_loss":
        return -math.log(prediction[int(outcome)])
    best = 0
    for k in range(len(prediction)):
        if prediction[k] > prediction[best]:
            best = k
    return float(best != int(outcome))


def risks(predictions: Sequence, y: Sequence, env: Sequence, loss: str) -> dict[Hashable, tuple[float, float]]:
    """Mean loss and squared standard error by environment."""
    out = {}
    for label in sorted(set(env)):
        losses = [row_loss(p, t, loss) for p, t, e in zip(predictions, y, env, strict=True) if e == label]
        mean = sum(losses) / len(losses)
        variance = sum((v - mean) ** 2 for v in losses) / (len(losses) - 1)
        out[label] = (mean, variance / len(losses))
    return out


def variance(values: Sequence[float]) -> float:
    """Mean squared deviation from the mean, 1/E."""
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / len(values)


def calibration_errors(
    confidence: Sequence[float], hits: Sequence[float], env: Sequence, bins: int
) -> dict[Hashable, float]:
    """ECE by environment: bin by bin, row by row."""
    out = {}
    for label in sorted(set(env)):
        total, error = sum(e == label for e in env), 0.0
        for b in range(bins):
            low, high = b / bins, (b + 1) / bins
            inside = [
                (p, h)
                for p, h, e in zip(confidence, hits, env, strict=True)
                if e == label and low <= p and (p < high or b == bins - 1)
            ]
            if inside:
                stated = sum(p for p, _ in inside) / len(inside)
                occurred = sum(h for _, h in inside) / len(inside)
                error += len(inside) / total * abs(stated - occurred)
        out[label] = error
    return out


def adaptive_calibration_errors(
    confidence: Sequence[float], hits: Sequence[float], env: Sequence, bins: int
) -> dict[Hashable, float]:
    """ECE over bins of equal numbers of rows: each row stands where the middle of those of its probability stands."""
    out = {}
    for label in sorted(set(env)):
        rows = [(p, h) for p, h, e in zip(confidence, hits, env, strict=True) if e == label]
        inside: dict[int, list[tuple[float, float]]] = {}
        for p, h in rows:
            below, alike = sum(q < p for q, _ in rows), sum(q == p for q, _ in rows)
            inside.setdefault(int(bins * (2 * below + alike) // (2 * len(rows))), []).append((p, h))
        out[label] = sum(abs(sum(p - h for p, h in part)) for part in inside.values()) / len(rows)
    return out


def kernel_calibration_errors(
    confidence: Sequence[float], hits: Sequence[float], env: Sequence, width: float
) -> dict[Hashable, float]:
    """MMCE by environment: pair by pair, a row with itself included."""
    out = {}
    for label in sorted(set(env)):
        rows = [(p, h) for p, h, e in zip(confidence, hits, env, strict=True) if e == label]
        total = sum((h - p) * (g - q) * math.exp(-abs(p - q) / width) for p, h in rows for q, g in rows)
        out[label] = math.sqrt(max(total, 0.0)) / len(rows)
    return out


def calibrated_error(confidence: Sequence[float], rows: Sequence[int]) -> float:
    """Expected ECE of a calibrated model with ``rows[b]`` rows at probability ``confidence[b]``: sum over outcomes."""
    expected = 0.0
    for p, n in zip(confidence, rows, strict=True):
        for k in range(n + 1):
            expected += binom.pmf(k, n, p) * abs(k - n * p)
    return expected / sum(rows)


def scaled_loss(prediction: float | Sequence[float], outcome: float, factor: float) -> float:
    """Loss of one row after multiplying the prediction (or the logits log p) by ``factor``."""
    if isinstance(prediction, float):
        return (factor * prediction - outcome) ** 2
    logits = [factor * math.log(p) for p in prediction]
    return math.log(sum(math.exp(v) for v in logits)) - logits[int(outcome)]


def scale_gradient(prediction: float | Sequence[float], outcome: float, step: float = 1e-5) -> float:
    """Derivative of :func:`scaled_loss` at factor 1, by central differences."""
    up, down = scaled_loss(prediction, outcome, 1 + step), scaled_loss(prediction, outcome, 1 - step)
    return (up - down) / (2 * step)


def split_penalty(gradients: Sequence[float]) -> float:
    """Mean product of two different rows' gradients."""
    n = len(gradients)
    return sum(gradients[i] * gradients[j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def split_penalty_by_halves(gradients: Sequence[float]) -> float:
    """Product of the mean gradients of two halves, averaged over every way to halve the rows."""
    n = len(gradients)
    products = []
    for first in combinations(range(n), n // 2):
        second = [i for i in range(n) if i not in first]
        products.append(sum(gradients[i] for i in first) / len(first) * sum(gradients[i] for i in second) / len(second))
    return sum(products) / len(products)
