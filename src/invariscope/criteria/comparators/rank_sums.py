"""Accuracy and areas under the curve as sums over rows, so that many deals of the environments are one product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special

from invariscope.criteria.comparators.kernel_test import holm
from invariscope.rows.arrays import Floats, Integers

NUMBERS = 2**22  # codes of one block of deals


@dataclass(frozen=True)
class Gains:
    """What rows of one group (a fold) add where they are dealt to an environment: (n, E) each.

    ``hits`` are 1 where that environment is predicted, ``ranks`` the rows with a lower score for it, and half of those
    with the same; ``weight`` (n,) counts rows.
    """

    codes: Integers
    hits: Floats
    ranks: Floats
    weight: Floats

    @classmethod
    def of(cls, log_probabilities: Floats, codes: Integers, weight: Floats) -> Gains:
        predicted = log_probabilities.argmax(axis=1)
        hits = (predicted[:, None] == np.arange(log_probabilities.shape[1])).astype(np.float64)
        ranks = np.stack([mid_ranks(scores, weight) for scores in log_probabilities.T], axis=1)
        return cls(codes, hits, ranks, weight)

    def sums(self, codes: Integers) -> tuple[Floats, Floats, Floats]:
        """Hits (draws,), and for every environment concordant and all pairs of rows (draws, E), for (draws, n) codes.

        U_e = Σ_{i in e} w_i rank_i − W_e² / 2,   pairs_e = W_e (W − W_e)
        """
        hits, concordant, pairs = np.zeros(len(codes)), [], []
        total = self.weight.sum()
        for e in range(self.hits.shape[1]):
            there = (codes == e).astype(np.float64)
            columns = np.stack([self.hits[:, e], self.ranks[:, e], np.ones(len(self.weight))], axis=1)
            hit, rank, rows = (there @ (columns * self.weight[:, None])).T
            hits += hit
            concordant.append(rank - rows**2 / 2)
            pairs.append(rows * (total - rows))
        return hits, np.stack(concordant, axis=1), np.stack(pairs, axis=1)


def mid_ranks(scores: Floats, weight: Floats) -> Floats:
    """For every row the weight of the rows with a lower score, and half of that of the rows with the same."""
    distinct, place = np.unique(scores, return_inverse=True)
    counts = np.bincount(place, weights=weight, minlength=len(distinct))
    return np.asarray((np.cumsum(counts) - counts / 2)[place])


def accuracy_and_areas(groups: Sequence[Gains], codes: Sequence[Integers]) -> tuple[Floats, Floats]:
    """Accuracy (draws,), and for every environment the area under the curve (draws, E), pairs counted within groups."""
    parts = [group.sums(each) for group, each in zip(groups, codes, strict=True)]
    hits, concordant, pairs = (np.sum([part[j] for part in parts], axis=0) for j in range(3))
    return hits / sum(group.weight.sum() for group in groups), concordant / pairs


def dealt(groups: Sequence[Gains], draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The same where environments are dealt at random within every group, (draws,) and (draws, E)."""
    block = max(1, NUMBERS // max(len(group.codes) for group in groups))
    parts = []
    for first in range(0, draws, block):
        shape = min(block, draws - first), -1
        codes = [
            rng.permuted(np.broadcast_to(group.codes.astype(np.int16), (shape[0], len(group.codes))), axis=1)
            for group in groups
        ]
        parts.append(accuracy_and_areas(groups, codes))
    environments = groups[0].hits.shape[1]
    if not parts:
        return np.empty(0), np.empty((0, environments))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def pair_areas(log_probabilities: Floats, codes: Integers, group: Integers, weight: Floats) -> tuple[Floats, Floats]:
    """For every two environments the area under the curve, and how far it is from ½ in standard errors of chance.

    Rows of a and b are ranked by log p̂(a) − log p̂(b) within every group. By chance the sum of ranks has the mean
    n_a n_b / 2 and, with t rows of equal score, the variance n_a n_b / 12 · (N + 1 − Σ (t³ − t) / (N (N − 1))).
    """
    count = log_probabilities.shape[1]
    areas, deviations = np.full((count, count), 0.5), np.zeros((count, count))
    for a in range(count):
        for b in range(a):
            concordant, pairs, variance = 0.0, 0.0, 0.0
            for k in np.unique(group):
                rows = (group == k) & ((codes == a) | (codes == b))
                each = _pair(log_probabilities[rows, a] - log_probabilities[rows, b], codes[rows] == a, weight[rows])
                concordant, pairs, variance = concordant + each[0], pairs + each[1], variance + each[2]
            areas[a, b] = areas[b, a] = concordant / pairs
            if variance > 0:
                deviations[a, b] = deviations[b, a] = (concordant - pairs / 2) / math.sqrt(variance)
    return areas, deviations


def pair_pvalues(deviations: Floats) -> Floats:
    """One-sided, allowing for having looked at all pairs (Holm), never 0; 1 on the diagonal."""
    upper = np.triu_indices(len(deviations), 1)
    pvalues = np.ones(deviations.shape)
    pvalues[upper] = holm(np.maximum(scipy.special.ndtr(-deviations[upper]), np.finfo(float).tiny))
    return np.minimum(pvalues, pvalues.T)


def _pair(scores: Floats, first: Integers, weight: Floats) -> tuple[float, float, float]:
    """Concordant pairs, all pairs, and the variance of the former by chance."""
    distinct, place = np.unique(scores, return_inverse=True)
    tied = np.bincount(place, weights=weight, minlength=len(distinct))
    a = float(weight[first].sum())
    total = float(weight.sum())
    ranks = (np.cumsum(tied) - tied / 2)[place]
    concordant = float((weight * ranks)[first].sum()) - a**2 / 2
    pairs = a * (total - a)
    ties = float((tied**3 - tied).sum()) / (total * (total - 1)) if total > 1 else 0.0
    return concordant, pairs, max(0.0, pairs / 12 * (total + 1 - ties))
