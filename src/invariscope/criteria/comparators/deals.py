"""Rows dealt to environments at random: what environments look like when they mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from invariscope.criteria.comparators.samples import Sample
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import run_over_rows
from invariscope.rows.resampling import direction, whole

DRAWS_AT_ONCE = 64  # by one generator


@dataclass(frozen=True)
class Deals:
    """Environments dealt anew among the rows of some of them, each keeping as many rows as it has.

    Draws depend on what rows hold, not on their order, on names or on how repetitions are written down: rows are ranked
    along one direction of their columns, environments by where they lie on it. ``order`` are the stored rows of
    positive weight in that ranking, one that counts w times standing there w times; where weights are broken or large,
    once, and it takes its ``weight`` along. ``codes`` are the environments there are to deal, as often as each has
    rows; ``observed`` those that the rows of ``order`` have. ``rows`` and ``environments`` are how many are stored.

    >>> from invariscope.criteria.comparators.samples import sample_of
    >>> deals = Deals.of(sample_of([[3.0], [1.0], [2.0], [5.0], [4.0]], None, list("aabbb")))
    >>> np.sort(deals.draw(np.random.default_rng(0), 2), axis=1).tolist()
    [[0, 0, 1, 1, 1], [0, 0, 1, 1, 1]]
    """

    order: Integers
    codes: Integers
    observed: Integers
    weight: Floats | None
    rows: int
    environments: int

    @classmethod
    def of(cls, sample: Sample, among: Sequence[int] | None = None) -> Deals:
        """Deals among all environments, or among those of these numbers, whose rows alone change places."""
        data = sample.data
        columns, codes = sample.columns, data.codes
        there = np.ones(len(codes), dtype=bool) if among is None else np.isin(codes, among)
        if sample.weight is not None:
            there &= sample.weight > 0
        along = columns @ direction(columns.shape[1])
        order = np.flatnonzero(there)
        order = order[np.argsort(along[order], kind="stable")]
        weight = None if sample.weight is None else sample.weight[order]
        # whole weights are rows written once
        if weight is not None and (times := whole(weight)) is not None:
            order, weight = np.repeat(order, times), None
        mass = np.ones(len(order)) if weight is None else weight
        observed = codes[order]
        sizes = np.bincount(observed, minlength=len(data))
        sums, masses = (np.bincount(observed, each, len(data)) for each in (mass * along[order], mass))
        centres = sums / np.maximum(masses, np.finfo(float).tiny)  # of an environment that takes no part: 0
        ranked = np.lexsort((sizes, np.round(centres, 9)))
        small = np.min_scalar_type(len(data))
        return cls(
            order,
            np.repeat(ranked, sizes[ranked]).astype(small),
            observed.astype(small),
            weight,
            len(codes),
            len(data),
        )

    def draw(self, rng: np.random.Generator, draws: int) -> Integers:
        """Environment codes for the rows of ``order``, (draws, len(order)), one deal in every line."""
        out = np.tile(self.codes, (draws, 1))
        seeds = rng.integers(2**63, size=-(-draws // DRAWS_AT_ONCE))  # a generator each: threads then draw the same

        def deal(lines: slice) -> None:
            child = np.random.default_rng(seeds[lines.start // DRAWS_AT_ONCE])
            child.permuted(out[lines], axis=1, out=out[lines])

        run_over_rows(deal, draws, DRAWS_AT_ONCE)
        return out

    def masses(self, codes: Integers) -> Floats:
        """How often stored rows count in every environment, (draws, environments, rows), for codes (draws, order)."""
        draws = len(codes)
        place = np.arange(draws)[:, None] * self.environments + codes
        place = place * self.rows + self.order
        weight = None if self.weight is None else np.broadcast_to(self.weight, codes.shape).ravel()
        counted = np.bincount(place.ravel(), weight, draws * self.environments * self.rows)
        return counted.reshape(draws, self.environments, self.rows).astype(np.float64, copy=False)

    def split(self, parts: int, rng: np.random.Generator) -> Deals:
        """The same rows with every environment cut at random into ``parts`` of equal size, to one row.

        Part s of environment e is environment e · parts + s of the new deals.
        """
        lots = np.lexsort((rng.random(len(self.order)), self.observed))  # environment after environment, by lot
        sizes = np.bincount(self.observed, minlength=self.environments)
        place = np.empty(len(lots), dtype=np.intp)
        place[lots] = np.arange(len(lots)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        small = np.min_scalar_type(self.environments * parts)
        observed = self.observed.astype(np.intp) * parts + place % parts
        starts = np.flatnonzero(np.diff(self.codes, prepend=-1))
        within = np.arange(len(self.codes)) - np.repeat(starts, np.diff(np.append(starts, len(self.codes))))
        codes = self.codes.astype(np.intp) * parts + within % parts
        return replace(
            self, codes=codes.astype(small), observed=observed.astype(small), environments=self.environments * parts
        )
