"""How often the environment of a row is guessed from density ratios, as in Tables 5 and 6 of the DRIC paper."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from invariscope.ratios.estimator import GroupedRows
from invariscope.rows.arrays import Floats


@dataclass(frozen=True)
class Guesses:
    """Accuracy by a fit that saw the rows and by fits that did not (NaN where there are none), of pairs, and by chance.

    Of pairwise ratios, which have no p(e | x) of all environments, the means over pairs.
    """

    accuracy: float
    held_out: float
    pairs: Floats
    chance: float
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: GroupedRows, seen: Floats, held_out: Floats | None, pairwise: bool) -> Guesses:
        """From the scores of the fitted rows."""

        def share(scores: Floats | None) -> float:
            if scores is None:
                return math.nan
            return mean_over_pairs(shares_guessed_of_pairs(rows, scores)) if pairwise else share_guessed(rows, scores)

        accuracy = share(seen)
        notes = ("No accuracy: the ratio is no number at some of the rows.",) if math.isnan(accuracy) else ()
        pairs = shares_guessed_of_pairs(rows, seen)
        return cls(accuracy, share(held_out), pairs, largest_share(rows.totals, pairwise), notes)


def share_guessed(rows: GroupedRows, scores: Floats) -> float:
    """Share of rows whose own environment has the largest p(e | x) ∝ n_e p_e(x); of k that tie, 1/k of a guess."""
    chances = scores + np.log(rows.totals)
    if np.isnan(chances).any():
        return math.nan
    best = chances == chances.max(axis=1, keepdims=True)
    guessed = best[np.arange(len(best)), rows.codes] / best.sum(axis=1)
    return float(np.average(guessed, weights=rows.weight))


def shares_guessed_of_pairs(rows: GroupedRows, scores: Floats) -> Floats:
    """The same among the rows of two environments alone, for all pairs (E, E); on the diagonal NaN.

    p(a | x) / p(b | x) = n_a ρ_{a,b}(x) / n_b; ``scores`` are those of :meth:`Fit.scores_at`.
    """
    count = rows.environments
    out = np.full((count, count), math.nan)
    weight = np.ones(len(scores)) if rows.weight is None else rows.weight
    margin = scores[np.arange(len(scores)), rows.codes][:, None] - scores - np.log(rows.totals)
    margin += np.log(rows.totals)[rows.codes][:, None]  # log of n_own p_own / (n_a p_a)
    right = np.where(np.isnan(margin), math.nan, 0.5 + 0.5 * np.sign(margin))
    hits = np.add.reduceat(weight[:, None] * right, rows.offsets[:-1])  # [b, a]: rows of b guessed right against a
    for a, b in itertools.combinations(range(count), 2):
        out[a, b] = out[b, a] = (hits[a, b] + hits[b, a]) / (rows.totals[a] + rows.totals[b])
    return out


def mean_over_pairs(values: Floats) -> float:
    """Mean over pairs of different environments."""
    return float(np.mean(values[np.triu_indices(len(values), 1)]))


def largest_share(totals: Floats, pairwise: bool) -> float:
    """What guessing the largest environment always gets right; pairwise, the mean of that over pairs."""
    if not pairwise:
        return float(totals.max() / totals.sum())
    return mean_over_pairs(np.maximum(totals[:, None], totals) / (totals[:, None] + totals))
