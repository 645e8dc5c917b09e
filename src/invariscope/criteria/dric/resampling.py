"""Means of one environment taken from the rows of another, q(e, e') = mean_{e'}[ f ρ̂_{e,e'} ] for all pairs; how far
DRIC moves for other rows of the same environments, and what it is when environments mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.dric.own_means import OwnMeans
from invariscope.progress import Say
from invariscope.ratios.estimator import Fit, GroupedRows
from invariscope.ratios.overlap import ratios_within
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.resampling import direction

WRITTEN_OUT = 1e7  # rows that are drawn one by one; how often each of more is drawn is drawn at once
EVERY = 10  # refits between two messages
FURTHEST = -1e300  # of a log ratio: a known one may be infinite


def transported_means(
    rows: GroupedRows, scores: Floats, outputs: Sequence[Floats], self_normalised: bool = False
) -> list[Floats]:
    """q(e, e') of eq. 6 for all pairs, (E, E, K), one array for each of ``outputs`` (n, K).

    ``scores`` (n, E) are log densities, or whatever else has log ρ_{a,b} as the difference of its columns at the rows
    of b. Column b of the result holds the rows of b weighted to look like every other environment;
    for e = e' the ratio is 1 and q is the plain mean. Every output has a product of its own: the same numbers then give
    the same sums to the last digit, so that the baseline scores exactly 1. ``self_normalised`` divides by Σ ρ̂ instead
    of the number of rows.
    """
    count, totals = rows.environments, rows.totals
    means = [np.empty((count, count, values.shape[1])) for values in outputs]
    for b in range(count):
        part = rows.of(b)
        ratio = relative_ratios(scores[part], b) if self_normalised else ratios_within(scores[part], b)
        if rows.weight is not None:
            ratio *= rows.weight[part][:, None]
        total = ratio.sum(axis=0)[:, None] if self_normalised else totals[b]
        for mean, values in zip(means, outputs, strict=True):
            mean[:, b] = ratio.T @ values[part] / total  # eq. 6
    return means


def relative_ratios(scores: Floats, environment: int) -> Floats:
    """ρ_{a,b} of :func:`ratios_within` over the largest among these rows: far from a, 0 / 0 would be left otherwise."""
    logs = np.maximum(scores - scores[:, [environment]], FURTHEST)
    return np.asarray(np.exp(logs - logs.max(axis=0)))


def variances(
    rows: GroupedRows, scores: Floats, outputs: Floats, means: Floats, self_normalised: bool = False
) -> Floats:
    """σ²(e, e') = Var_{e'}[ f ρ̂_{e,e'} ], (E, E, K): the variance that the sample size of section 3.2 asks for.

    Of a weighted mean that is ``self_normalised`` it is that of (f − q) ρ̂ / mean ρ̂, to first order.
    """
    out = np.empty_like(means)
    for b in range(rows.environments):
        part = rows.of(b)
        ratio = relative_ratios(scores[part], b) if self_normalised else ratios_within(scores[part], b)
        weight = np.ones(len(ratio)) if rows.weight is None else rows.weight[part]
        if self_normalised:
            ratio /= weight @ ratio / weight.sum()
        for a in range(rows.environments):
            centred = ratio[:, [a]] * outputs[part] - means[a, b]
            if self_normalised:
                centred = ratio[:, [a]] * (outputs[part] - means[a, b])
            out[a, b] = weight @ centred**2 / max(weight.sum() - 1.0, 1.0)
    return out


def total_gap(means: Floats) -> float:
    """Σ_{e,e'} (q(e, e') − q(e, e))²: the numerator, or the denominator, of eq. 8."""
    own = np.einsum("aak->ak", means)
    return float(np.sum((means - own[:, None]) ** 2))


@dataclass(frozen=True)
class Side:
    """A density ratio and the outputs it reweights: the model's, the baseline's, or both where they share the ratio.

    ``rows`` are all stored rows, without weights; ``given`` says that the ratio came from outside and stays as it is.
    Outputs that are conditional means of the environments' own are refitted to other rows by ``own_means``.
    """

    fit: Fit
    rows: GroupedRows
    outputs: tuple[Floats, ...]
    given: bool
    own_means: tuple[OwnMeans, ...] = ()
    self_normalised: bool = False

    def gaps(self, rows: GroupedRows, index: Integers) -> list[float]:
        """Total gap of each output on other rows, row i of which is stored row ``index[i]``; the ratio is refitted."""
        fit = self.fit if self.given else self.fit.again(rows)
        scores = fit.scores_at(rows) if self.given or fit.held_out is None else fit.held_out
        outputs = [values[index] for values in self.outputs]
        if self.own_means:
            outputs = [each.again(index, rows.offsets, rows.weight) for each in self.own_means]
        means = transported_means(rows, scores, outputs, self.self_normalised)
        return [total_gap(each) for each in means]


@dataclass(frozen=True)
class Sampler:
    """Draws that depend on what the rows hold, not on their order, their names or how repetitions are written down.

    ``order``: stored rows of positive weight, environments and the rows in them ranked along one direction of X;
    ``environments``: that ranking; ``sizes``: rows of ``order`` per environment, in it; ``weight``: of each, or None.
    """

    order: Integers
    environments: Integers
    sizes: Integers
    weight: Floats | None
    rows: int

    @classmethod
    def of(cls, rows: GroupedRows, weight: Floats | None) -> Sampler:
        along = rows.X @ direction(rows.X.shape[1])
        counted = np.ones(len(along)) if weight is None else weight
        centre = np.add.reduceat(counted * along, rows.offsets[:-1])
        environments = np.argsort(centre / np.add.reduceat(counted, rows.offsets[:-1]), kind="stable")
        ranked = []
        for k in environments:
            members = np.arange(rows.offsets[k], rows.offsets[k + 1])[counted[rows.of(k)] > 0]
            ranked.append(members[np.argsort(along[members], kind="stable")])
        order = np.concatenate(ranked)
        sizes = np.array([len(members) for members in ranked])
        # whole weights are rows written once
        if weight is not None and np.all(weight == np.rint(weight)) and weight.sum() <= WRITTEN_OUT:
            times = weight[order].astype(np.intp)
            sizes = np.add.reduceat(times, np.cumsum(sizes) - sizes)
            order, weight = np.repeat(order, times), None
        return cls(order, environments, sizes, None if weight is None else weight[order], len(along))

    def bootstrap(self, rng: np.random.Generator) -> Floats:
        """How often every stored row is drawn: as many rows as there are, with replacement, in every environment."""
        counts = np.zeros(self.rows)
        start = 0
        for size in self.sizes:
            members = self.order[start : start + size]
            if self.weight is None:
                drawn = rng.integers(size, size=size)
            elif (total := float(self.weight[start : start + size].sum())) > WRITTEN_OUT:
                counts[members] += rng.multinomial(round(total), self.weight[start : start + size] / total)
                start += size
                continue
            else:
                ends = np.cumsum(self.weight[start : start + size])
                drawn = np.searchsorted(ends[:-1], ends[-1] * rng.random(max(1, round(ends[-1]))), side="right")
            counts += np.bincount(members[drawn], minlength=self.rows)
            start += size
        return counts

    def deal(self, rng: np.random.Generator) -> tuple[Integers, Integers, Floats | None]:
        """Stored rows dealt at random into environments of the same sizes: their index, offsets and weight."""
        placed = rng.permutation(len(self.order))
        parts = np.split(placed, np.cumsum(self.sizes)[:-1])
        back = np.argsort(self.environments)
        placed = np.concatenate([parts[k] for k in back])
        offsets = np.concatenate([[0], np.cumsum(self.sizes[back])]).astype(np.intp)
        return self.order[placed], offsets, None if self.weight is None else self.weight[placed]


def resample(
    sides: Sequence[Side], sampler: Sampler, resamples: int, rng: np.random.Generator, say: Say
) -> tuple[Floats, Floats]:
    """Numerator and denominator, (resamples, 2), of bootstrap samples and of rows dealt at random.

    The second is empty where a ratio was given from outside: it is that of these environments, not of dealt ones.
    """
    for_bootstrap, for_deals = rng.spawn(2)
    dealt = not any(side.given for side in sides)
    total = resamples * (2 if dealt else 1)
    booted, shuffled = np.empty((resamples, 2)), np.empty((resamples if dealt else 0, 2))
    for r in range(total):
        if r % EVERY == 0:
            say(f"resampling DRIC: {r} of {total}")
        if r < resamples:
            counts = sampler.bootstrap(for_bootstrap)
            index = np.flatnonzero(counts)
            booted[r] = _gaps([(side, side.rows.reweighted(counts)) for side in sides], index)
        else:
            index, offsets, weight = sampler.deal(for_deals)
            shuffled[r - resamples] = _gaps(
                [(side, GroupedRows(side.rows.X[index], offsets, weight)) for side in sides], index
            )
    return booted, shuffled


def _gaps(sides: Sequence[tuple[Side, GroupedRows]], index: Integers) -> list[float]:
    return [gap for side, rows in sides for gap in side.gaps(rows, index)]
