"""What kernel tests have in common: rows, widths of the kernel, deals, and how a statistic becomes a result."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.criteria.comparators.bandwidths import LOOKED_AT, Bandwidths, bandwidths_of
from invariscope.criteria.comparators.deals import Deals
from invariscope.criteria.comparators.discrepancies import in_spreads
from invariscope.criteria.comparators.kernel_sums import KernelSums, Spreads, feature_sums, gram_sums
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.comparators.samples import Sample, sample_of
from invariscope.errors import InputError
from invariscope.results import Estimate
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.resampling import generator, notes_on_weights, pvalue
from invariscope.rows.settings import NOT_DRAWN, number_of_draws
from invariscope.wording import number

EXACT = 200_000_000  # rows² × groups up to which the Gram matrix is summed: 10,000 rows in two environments
TIES = 1e-4  # of the null's spread: statistics that close are the same but for rounding


@dataclass(frozen=True)
class KernelTest:
    """Rows that are ready to be compared by kernels of these widths, and how they are dealt."""

    sample: Sample
    columns: Floats
    widths: Bandwidths
    deals: Deals
    draws: int
    rng: np.random.Generator

    @classmethod
    def of(cls, sample: Sample, balanced: bool, bandwidth: Any, n_boot: int, seed: int) -> KernelTest:
        """``balanced``: z and y count alike in distances, however many columns each has."""
        draws, rng = number_of_draws(n_boot), generator(seed)
        deals = Deals.of(sample)
        columns = sample.columns
        if balanced and sample.y.shape[1]:
            columns = np.hstack([sample.z, sample.y * math.sqrt(sample.z.shape[1] / sample.y.shape[1])])
        _refuse_less_than_rows(sample)
        return cls(sample, columns, bandwidths_of(bandwidth, columns[deals.order]), deals, draws, rng)

    def sums(self, deals: Deals, draws: int | None = None) -> tuple[KernelSums, Spreads, str]:
        """Sums of kernels for these deals, how much kernels vary, and how both were computed."""
        draws = self.draws if draws is None else draws
        widths, rng = self.widths.values, copy.deepcopy(self.rng)  # the same, whatever else is compared
        groups = len(np.unique(deals.codes))
        with one_blas_thread():
            if len(np.unique(deals.order)) ** 2 * groups <= EXACT:
                sums, spreads = gram_sums(self.columns, widths, deals, draws, rng)
                return sums, spreads, "exact"
            sums = feature_sums(self.columns, widths, deals, draws, rng)
            return sums, self._spreads_of_some(deals), "random features"

    def _spreads_of_some(self, deals: Deals) -> Spreads:
        """How much kernels vary, from rows taken evenly along their ranking."""
        step = slice(None, None, -(-len(deals.order) // LOOKED_AT))
        some, weight = deals.order[step], None if deals.weight is None else deals.weight[step]
        together = np.zeros(len(some), dtype=np.intp)
        alone = Deals(np.arange(len(some)), together, together, weight, len(some), 1)
        return gram_sums(self.columns[some], self.widths.values, alone, 0, self.rng)[1]

    def best(self, values: Floats, spreads: Spreads) -> Floats:
        """The statistic (draws, ...) of (draws, G, ...): that of the one bandwidth, or the largest in comparable units.

        A deal is treated as what was observed is, so that choosing the largest costs the test nothing of its level.
        """
        return values[:, 0] if len(self.widths.values) == 1 else in_spreads(values, spreads).max(axis=1)

    def result(
        self,
        statistic: Floats,
        estimator: str,
        *,
        pairs: Floats,
        pair_pvalues: Floats | None = None,
        per_environment: Floats,
        notes: tuple[str, ...] = (),
    ) -> ComparatorResult:
        """``statistic`` (1 + draws,), the observed one first."""
        data = self.sample.data
        each: Mapping[Any, Estimate] = {
            label: Estimate(float(value)) for label, value in zip(data.labels, per_environment, strict=True)
        }
        return ComparatorResult(
            value=float(statistic[0]),
            pvalue=by_chance(statistic),
            null=statistic[1:],
            labels=data.labels,
            pairs=pairs,
            pair_pvalues=np.empty((0, 0)) if pair_pvalues is None else pair_pvalues,
            per_environment=each,
            compared=self.sample.compared,
            estimator=estimator,
            notes=(
                *([] if self.draws else [NOT_DRAWN]),
                *data.notes,
                *notes_on_weights(data.weight),
                *self._about_widths(),
                *self.widths.notes,
                *([] if estimator == "exact" else [FEATURES]),
                *notes,
            ),
        )

    def _about_widths(self) -> tuple[str, ...]:
        widths = self.widths.values
        if len(widths) == 1:
            return (f"The kernel's width is {number(float(widths[0]))}.",)
        return (
            f"Of {len(widths)} widths of the kernel, from {number(float(widths.min()))} to "
            f"{number(float(widths.max()))}, the one in which environments differ most counts, in environments as they "
            "are and as dealt alike; statistics are in units of the kernel's own spread.",
        )


FEATURES = (
    "Rows are many, so kernels were summed by random features: the value is off by some per cent of the kernel's "
    "spread, the test has its level all the same."
)


def kernel_test(
    Z: Any, y: Any, env: Any, weight: Any, *, on: str, task: str, scale: str, bandwidth: Any, n_boot: int, seed: int
) -> KernelTest:
    """The door of every kernel test."""
    sample = sample_of(Z, y, env, weight, on=on, task=task, scale=scale)
    return KernelTest.of(sample, scale == "spread", bandwidth, n_boot, seed)


def by_chance(statistic: Floats) -> float:
    """The share of deals that come out at least as large as [0]; those equal but for rounding count."""
    null = statistic[1:]
    if not len(null):
        return math.nan
    return pvalue(float(statistic[0] - TIES * null.std() - 1e-12), null)


def notes_on_pairs(pairs: int, draws: int) -> tuple[str, ...]:
    """What Holm's method leaves of p-values of pairs where draws are few.

    >>> notes_on_pairs(15, 99)
    ('With 15 pairs, 99 draws cannot make the p-value of a pair smaller than 0.15: n_boot=300 would.',)
    >>> notes_on_pairs(15, 999), notes_on_pairs(15, 0)
    ((), ())
    """
    least = pairs / (draws + 1)
    if not draws or least <= 0.05:
        return ()
    return (
        f"With {pairs} pairs, {draws} draws cannot make the p-value of a pair smaller than {least:.2g}: "
        f"n_boot={20 * pairs} would.",
    )


def holm(each: Floats) -> Floats:
    """p-values (m,) that allow for having looked at all of them (Holm 1979).

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(each, kind="stable")
    stepped = np.maximum.accumulate(each[order] * np.arange(len(each), 0, -1))
    out = np.empty(len(each))
    out[order] = np.minimum(stepped, 1.0)
    return out


def _refuse_less_than_rows(sample: Sample) -> None:
    data = sample.data
    if (data.rows <= 1).any():
        k = int(np.argmin(data.rows))
        raise InputError(
            f"{data.name(data.labels[k])} counts as {number(float(data.rows[k]))} rows: weights count rows, and "
            "a spread takes more than one. Drop it, or multiply all weights by a constant."
        )
