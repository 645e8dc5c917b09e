"""Doubly robust gaps between environments, their standard errors, and the noise they have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope.criteria.transport.outcome_models import OutcomeModels
from invariscope.heads.linear_algebra import spectrum
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments


@dataclass(frozen=True)
class Gaps:
    """Gaps of all pairs and classes, (E, E, K), with standard errors and their degrees of freedom.

    The rows of environment k enter pairs (a, k), weighted to look like a, and (k, b), as they are: ``covariance[k]`` is
    that of these 2 E K means, in this order. Means of different environments are independent.
    """

    gap: Floats
    se: Floats
    freedom: Floats
    covariance: Floats

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Noise of all gaps: (count, E, E, K)."""
        environments, size = self.covariance.shape[:2]
        out = np.zeros((count, *self.gap.shape))
        for k in range(environments):
            part = spectrum(self.covariance[k])
            # the symmetric root: unlike eigenvectors it moves little when the rows are added up in another order
            root = part.root() @ part.vectors.T
            means = (rng.standard_normal((count, size)) @ root.T).reshape(count, 2, environments, -1)
            out[:, :, k] += means[:, 0]
            out[:, k] += means[:, 1]
        return out


def estimate_gaps(data: Environments, outcome: OutcomeModels, scores: Floats) -> Gaps:
    """Gaps of all pairs from log densities at the rows, (n, E), and outcome models."""
    count = len(data)
    slopes = np.stack([outcome.slopes(k, _shares(data, scores, k)) for k in range(count)])
    # δ(a, k) moves with θ_k by Σ_{i in a} ∂f_k / n_a − Σ_{i in k} ρ_i ∂f_k / Σρ: what the ratio has not balanced
    unbalanced = np.swapaxes(slopes[:, 0], 0, 1) - slopes[:, 1]
    parts = [_means(data, outcome, scores, k, unbalanced[:, k]) for k in range(count)]
    mean, covariance, freedom = (np.stack(part) for part in zip(*parts, strict=True))
    variance = np.einsum("kjj->kj", covariance).reshape(mean.shape)
    weighted, plain = np.swapaxes(variance[:, 0], 0, 1), variance[:, 1]
    total = weighted + plain  # SE² = v_w + v_p; Welch: 1 / (s² / ν_w + (1 − s)² / ν_p), s = v_w / SE²
    part = np.divide(weighted, total, out=np.full(total.shape, 0.5), where=total > 0)
    welch = 1.0 / (part**2 / freedom[:, 0].T[:, :, None] + (1.0 - part) ** 2 / freedom[:, 1][:, :, None])
    gap = np.swapaxes(mean[:, 0], 0, 1) - mean[:, 1]  # δ(e, e') = Σ_{e'} ρ r / Σρ − mean_e r
    return Gaps(gap * ~np.eye(count, dtype=bool)[:, :, None], np.sqrt(total), welch, covariance)


def _shares(data: Environments, scores: Floats, k: int) -> Floats:
    """What every row of environment k weighs in its means, (n_k, 2, E): weighted to look like each other, and plain.

    Weights are divided by their sum. Their mean is 1 for the true ratio only; dividing by it undoes a constant factor
    in ρ̂, makes a constant in the residuals cancel, and keeps every weighted mean within the range of the residuals.
    """
    rows = slice(int(data.offsets[k]), int(data.offsets[k + 1]))
    logs = scores[rows] - scores[rows][:, [k]]
    counted = logs if data.weight is None else logs[data.weight[rows] > 0]
    # in units of the largest, or far-off environments would be 0 / 0; they are refused, but must not become NaN
    top = np.maximum(counted.max(axis=0), np.finfo(np.float64).min)
    ratio = np.exp(np.minimum(logs - top, 0.0))
    ratio[:, top == np.finfo(np.float64).min] = 1.0
    both = np.stack([ratio, np.ones_like(ratio)], axis=1)
    if data.weight is not None:
        both *= data.weight[rows, None, None]
    return np.asarray(both / both.sum(axis=0))


def _means(
    data: Environments, outcome: OutcomeModels, scores: Floats, k: int, unbalanced: Floats
) -> tuple[Floats, Floats, Floats]:
    """Mean residuals of the rows of environment k, (2, E, K); their covariance; its degrees of freedom, (2, E).

    ``unbalanced`` (E, K, P) is how far the means of pairs (a, k) move with the parameters of the model of k.
    """
    share = _shares(data, scores, k)
    residual = outcome.residuals(k)
    value = np.stack([np.broadcast_to(residual[:, [k]], residual.shape), residual], axis=1)
    mean = np.einsum("ija,ijac->jac", share, value)  # Σ_i s_i r_i
    repeated = None if data.weight is None else np.maximum(data.weight[data.offsets[k] : data.offsets[k + 1]], 1e-300)
    single = share if repeated is None else share / repeated[:, None, None]  # of one of the rows a row stands for
    squares = np.einsum("ija,ija->ja", share, single)
    # (r − mean)² is too small by 1 − 2 s + Σ s² where noise is even: for s = 1 / n that is the n − 1 of a variance
    influence = (single / np.sqrt(np.maximum(1.0 - 2.0 * single + squares, 1e-12)))[..., None] * (value - mean)
    influence[:, 0] -= outcome.noise(k, residual[:, k], unbalanced)
    influence[:, 1] *= -1.0
    influence[:, :, k] = 0.0  # the diagonal is 0, without noise
    flat = influence.reshape(len(residual), -1)
    if repeated is not None:
        flat *= np.sqrt(repeated)[:, None]
    return mean, flat.T @ flat, np.maximum(1.0 / squares - 1.0, 1.0)  # effective rows less one
