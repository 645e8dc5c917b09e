"""Losses of several models on the same rows, row by row: what a model loses that another one does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.predictions.environment_means import (
    NORMAL_QUANTILE,
    EnvironmentMeans,
    environment_means,
    estimates,
)
from invariscope.criteria.predictions.risks import row_losses
from invariscope.results import Estimate, Label
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target

ACCURACY = "zero_one"


@dataclass(frozen=True)
class RowLosses:
    """One loss per row, grouped by environment; ``name`` is the loss, and environments count equally in a mean."""

    rows: Environments
    values: Floats
    name: str

    def per_environment(self) -> dict[Label, Estimate]:
        """Accuracy or mean loss of every environment, with 95 % intervals."""
        return self._shown(self.rows.labels, environment_means(self.rows, self.values, share=self.name == ACCURACY))

    def in_groups(self, labels: tuple[Label, ...], codes: Integers) -> dict[Label, Estimate]:
        """The same in groups other than the environments; ``codes`` are in the user's row order."""
        values, count = self.rows.original(self.values), np.bincount(codes).astype(np.float64)
        mean = np.bincount(codes, values) / count
        with np.errstate(divide="ignore", invalid="ignore"):
            squared_error = np.bincount(codes, (values - mean[codes]) ** 2) / (count - 1.0) / count
        return self._shown(labels, EnvironmentMeans(mean, squared_error, count, self.name == ACCURACY))

    def _shown(self, labels: tuple[Label, ...], means: EnvironmentMeans) -> dict[Label, Estimate]:
        low, high = means.ends()
        if self.name == ACCURACY:
            return estimates(labels, 1.0 - means.value, 1.0 - high, 1.0 - low)
        return estimates(labels, means.value, np.maximum(low, 0.0), high)

    def mean(self) -> Estimate:
        """The mean over environments of accuracy or loss."""
        found = mean_over_environments(self.rows, self.values, share=self.name == ACCURACY)
        if self.name != ACCURACY:
            return found
        return Estimate(1.0 - found.value, (1.0 - found.interval[1], 1.0 - found.interval[0]))

    def beyond(self, reference: RowLosses) -> Estimate:
        """What this model loses beyond a reference: points of accuracy, or extra loss as a share of the reference's.

        Paired row by row: with d_i = ℓ_i − ℓ_i', the mean over environments of their mean d, or of a loss R / R' − 1,
        whose error is that of (ℓ_i − (R / R') ℓ_i') / R'.
        """
        if self.name == ACCURACY:
            return difference_of_shares(self.rows, self.values - reference.values)
        base = mean_over_environments(self.rows, reference.values).value
        if not base > 0:
            return Estimate(math.nan)
        ratio = mean_over_environments(self.rows, self.values).value / base
        residual = mean_over_environments(self.rows, (self.values - ratio * reference.values) / base)
        return Estimate(ratio - 1.0, (ratio - 1.0 + residual.interval[0], ratio - 1.0 + residual.interval[1]))


def losses_of(values: Floats, rows: Environments, target: Target, name: str) -> RowLosses:
    """From predictions as columns of ``rows``, grouped like these."""
    judged = values[:, -1] if target.task != "multiclass" else values
    return RowLosses(rows, row_losses(judged, target, name), name)


def losses_of_constant(rows: Environments, target: Target, name: str) -> RowLosses:
    """Those of the best constant for all environments, which count equally: mean, most frequent class, or shares."""
    share = np.ones(len(rows.X)) if rows.weight is None else rows.weight
    share = share / np.repeat(rows.rows, rows.sizes) / len(rows)
    if target.task == "regression":
        constant = _median(target.values, share) if name == "absolute" else float(share @ target.values)
        return RowLosses(rows, row_losses(np.full(len(rows.X), constant), target, name), name)
    shares = np.bincount(target.values.astype(np.intp), share, minlength=len(target.classes))
    return losses_of(np.broadcast_to(shares, (len(rows.X), len(shares))), rows, target, name)


def mean_over_environments(rows: Environments, values: Floats, *, share: bool = False) -> Estimate:
    """(1/E) Σ_e mean_e with its 95 % interval, from every environment's own error: √(Σ_e SE_e²) / E."""
    means = environment_means(rows, values, share=share)
    spread = means.spread if share else np.where(means.squared_error > 0, means.spread, np.sqrt(means.squared_error))
    return _together(means.value, means.value, spread)


def difference_of_shares(rows: Environments, values: Floats) -> Estimate:
    """The same for the difference of two shares, values −1, 0 and 1 per row.

    Half a row more is counted for each of the four things that may happen to a pair (Agresti and Min, 2005): where two
    models agree on all rows, that is no certainty about other rows.
    """
    n, mean = rows.rows, environment_means(rows, values).value
    differing = environment_means(rows, values**2).value * n
    spread = np.sqrt(np.maximum(differing + 1.0 - (n * mean) ** 2 / (n + 2.0), 0.0)) / (n + 2.0)
    return _together(mean, n * mean / (n + 2.0), spread)


def _together(value: Floats, centre: Floats, spread: Floats) -> Estimate:
    middle, error = float(centre.mean()), NORMAL_QUANTILE * float(np.sqrt(np.sum(spread**2))) / len(spread)
    return Estimate(float(value.mean()), (middle - error, middle + error))


def _median(values: Floats, share: Floats) -> float:
    order = np.argsort(values, kind="stable")
    return float(values[order][np.searchsorted(np.cumsum(share[order]), 0.5)])
