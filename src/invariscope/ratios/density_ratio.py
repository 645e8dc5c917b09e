"""Density ratios between environments, and what they say about overlap."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.environments import Environments
from invariscope.errors import InputError
from invariscope.results import Floats, Overlap

GOOD, WEAK = 0.5, 0.1  # share of effective rows from which overlap is called good, and below which there is none
LARGEST_LOG_RATIO = 700.0  # exp() of more is infinite in double precision


@dataclass(frozen=True)
class DensityRatio:
    """ρ_{e,e'}(x) = dP_e / dP_e'(x) for all pairs of environments, from one function log p_e(x) + c(x) for each.

    Because all pairs come from the same (n, E) scores, ρ_{a,b} · ρ_{b,c} = ρ_{a,c} holds exactly. Scores are linear in
    the columns: ``weight`` (E, d), ``bias`` (E,), already corrected for the environments' sizes.
    """

    labels: tuple[Hashable, ...]
    weight: Floats
    bias: Floats

    def log_densities(self, X: Any) -> Floats:
        """log p_e(x) up to a term common to all environments: (n, E)."""
        return np.asarray(X, dtype=np.float64) @ self.weight.T + self.bias

    def log(self, X: Any, e: Hashable, e2: Hashable) -> Floats:
        """log ρ_{e,e2}(x): how much more likely x is in e than in e2."""
        for label in (e, e2):
            if label not in self.labels:
                raise InputError(f'no environment "{label}": there are {", ".join(map(str, self.labels))}')
        scores = self.log_densities(X)
        return np.asarray(scores[:, self.labels.index(e)] - scores[:, self.labels.index(e2)])


def ratios_within(scores: Floats, environment: int) -> Floats:
    """ρ_{a,b}(x) for all a, at the rows of environment b whose log densities are ``scores``: (n_b, E)."""
    return np.asarray(np.exp(np.minimum(scores - scores[:, [environment]], LARGEST_LOG_RATIO)))


def overlap_of(data: Environments, log_densities: Floats) -> Overlap:
    """Effective sample sizes (Σρ)² / Σρ² of every environment re-weighted to every other and to the pooled rows."""
    count = len(data)
    effective, mean_ratio, pooled = np.empty((count, count)), np.empty((count, count)), np.empty(count)
    share = data.rows / data.rows.sum()
    for b in range(count):
        rows = slice(int(data.offsets[b]), int(data.offsets[b + 1]))
        ratio = ratios_within(log_densities[rows], b)
        weight = np.ones(len(ratio)) if data.weight is None else data.weight[rows]
        both = np.column_stack([ratio, ratio @ share])
        kept = (weight @ both) ** 2 / (weight @ both**2) / weight.sum()
        effective[:, b], pooled[b] = kept[:-1], kept[-1]
        mean_ratio[:, b] = weight @ ratio / weight.sum()
    verdicts = tuple("good" if p >= GOOD else "weak" if p >= WEAK else "none" for p in pooled)
    return Overlap(labels=data.labels, effective=effective, mean_ratio=mean_ratio, pooled=pooled, verdicts=verdicts)
