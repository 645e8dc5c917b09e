"""Means of one environment taken from the rows of another: q(e, e') = mean_{e'}[ f ρ̂_{e,e'} ] for all pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.overlap import ratios_within
from invariscope.rows.arrays import Floats


def transported_means(rows: GroupedRows, scores: Floats, outputs: Sequence[Floats]) -> list[Floats]:
    """q(e, e') of eq. 6 for all pairs, (E, E, K), one array for each of ``outputs`` (n, K).

    ``scores`` (n, E) are log densities. Column b holds the rows of b weighted to look like every other environment;
    for e = e' the ratio is 1 and q is the plain mean. Every output has a product of its own: the same numbers then give
    the same sums to the last digit, so that the baseline scores exactly 1.
    """
    count, totals = rows.environments, rows.totals
    means = [np.empty((count, count, values.shape[1])) for values in outputs]
    for b in range(count):
        part = rows.of(b)
        ratio = ratios_within(scores[part], b)
        if rows.weight is not None:
            ratio *= rows.weight[part][:, None]
        for mean, values in zip(means, outputs, strict=True):
            mean[:, b] = ratio.T @ values[part] / totals[b]  # eq. 6
    return means


def variances(rows: GroupedRows, scores: Floats, outputs: Floats, means: Floats) -> Floats:
    """σ²(e, e') = Var_{e'}[ f ρ̂_{e,e'} ], (E, E, K): the variance that the sample size of section 3.2 asks for."""
    out = np.empty_like(means)
    for b in range(rows.environments):
        part = rows.of(b)
        ratio = ratios_within(scores[part], b)
        weight = np.ones(len(ratio)) if rows.weight is None else rows.weight[part]
        for a in range(rows.environments):
            centred = ratio[:, [a]] * outputs[part] - means[a, b]
            out[a, b] = weight @ centred**2 / max(weight.sum() - 1.0, 1.0)
    return out


def total_gap(means: Floats) -> float:
    """Σ_{e,e'} (q(e, e') − q(e, e))²: the numerator, or the denominator, of eq. 8."""
    own = np.einsum("aak->ak", means)
    return float(np.sum((means - own[:, None]) ** 2))
