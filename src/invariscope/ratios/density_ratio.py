"""Density ratios between environments, and what they say about overlap."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.environments import Environments
from invariscope.errors import InputError
from invariscope.results import Floats, Overlap

GOOD, WEAK = 0.3, 0.05  # share of effective rows from which overlap is called good, and below which there is none
LARGEST_LOG_RATIO = 150.0  # sums of squares of exp() of more than about 340 are infinite


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
    """How much of every environment is left when it is weighted to look like each other one, and like all others.

    That is Kish's effective sample size (Σρ)² / Σρ² as a share of the rows, times the mean of ρ where that is below 1:
    rows that never reach the other environment have equal weights, near 0, and must not count as overlap.
    """
    count = len(data)
    effective, mean_ratio, pooled = np.empty((count, count)), np.empty((count, count)), np.empty(count)
    share = data.rows / data.rows.sum()
    for b in range(count):
        rows = slice(int(data.offsets[b]), int(data.offsets[b + 1]))
        ratio = ratios_within(log_densities[rows], b)
        weight = np.ones(len(ratio)) if data.weight is None else data.weight[rows]
        others = np.where(np.arange(count) == b, 0.0, share)
        both = np.column_stack([ratio, ratio @ others / others.sum()])
        mean = weight @ both / weight.sum()
        kept = mean**2 / (weight @ both**2 / weight.sum()) * np.minimum(mean, 1.0)
        effective[:, b], pooled[b] = kept[:-1], kept[-1]
        mean_ratio[:, b] = weight @ ratio / weight.sum()
    verdicts = tuple("good" if p >= GOOD else "weak" if p >= WEAK else "none" for p in pooled)
    return Overlap(labels=data.labels, effective=effective, mean_ratio=mean_ratio, pooled=pooled, verdicts=verdicts)
