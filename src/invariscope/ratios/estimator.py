"""What an estimator of density ratios is given, and what it gives back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.environments import Environments


@dataclass(frozen=True)
class GroupedRows:
    """Rows an estimator is fitted on, environment after environment.

    ``X`` (n, d) has its columns in units of their spread over all rows, constant ones left out; environment ``k`` is
    rows ``offsets[k]:offsets[k + 1]``; ``weight`` (n,), all positive, counts rows (``None``: every row once).
    """

    X: Floats
    offsets: Integers
    weight: Floats | None = None

    @property
    def environments(self) -> int:
        return len(self.offsets) - 1

    @property
    def codes(self) -> Integers:
        """Environment number of every row."""
        return np.repeat(np.arange(self.environments), np.diff(self.offsets))

    @property
    def totals(self) -> Floats:
        """Rows every environment stands for."""
        if self.weight is None:
            return np.diff(self.offsets).astype(np.float64)
        return np.add.reduceat(self.weight, self.offsets[:-1])

    def of(self, environment: int) -> slice:
        return slice(int(self.offsets[environment]), int(self.offsets[environment + 1]))

    def pair(self, first: int, second: int) -> GroupedRows:
        """The rows of two environments alone."""
        parts = self.of(first), self.of(second)
        offsets = np.concatenate([[0], np.cumsum([part.stop - part.start for part in parts])]).astype(np.intp)
        weight = None if self.weight is None else np.concatenate([self.weight[part] for part in parts])
        return GroupedRows(np.concatenate([self.X[part] for part in parts]), offsets, weight)

    def take(self, mask: Booleans) -> GroupedRows:
        """The rows of a mask, still grouped."""
        sizes = np.add.reduceat(mask, self.offsets[:-1], dtype=np.intp)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        return GroupedRows(self.X[mask], offsets, None if self.weight is None else self.weight[mask])

    def written_out(self, counts: Integers) -> GroupedRows:
        """Row i written down ``counts[i]`` times, without weights."""
        sizes = np.add.reduceat(counts, self.offsets[:-1])
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        return GroupedRows(np.repeat(self.X, counts, axis=0), offsets)

    def reweighted(self, weight: Floats) -> GroupedRows:
        """The same rows, row i counted ``weight[i]`` times; rows of weight 0 leave."""
        counted = weight > 0
        if counted.all():
            return replace(self, weight=weight)
        return replace(self, weight=weight).take(counted)


class Fit(Protocol):
    """A fitted estimator: from one fit of all environments (:class:`JointFit`), or one of every pair.

    Everything that reweights rows reads :meth:`scores_at`, everything else :meth:`log_ratio`.
    """

    @property
    def description(self) -> str:
        """What was fitted, in words."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks for the user, whole sentences."""

    @property
    def held_out(self) -> Floats | None:
        """Scores at the rows it was fitted on, each by a fit that did not see it; ``None`` if all were seen."""

    def log_ratio(self, X: Floats, a: int, b: int) -> Floats:
        """log ρ_{a,b}(x) of two environments, (n,), for rows in the units of :class:`GroupedRows`."""

    def scores_at(self, rows: GroupedRows) -> Floats:
        """(n, E), at a row of environment b: column a less column b is log ρ_{a,b}(x)."""

    def backward_at(self, rows: GroupedRows) -> Floats | None:
        """(n, E), at a row of environment b: −log ρ_{b,a}(x), where that is not the log ρ_{a,b}(x) of the scores."""

    def log_densities(self, X: Floats) -> Floats:
        """log p_e(x) up to a term common to all environments, (n, E), for rows in the units of :class:`GroupedRows`.

        Corrected for the environments' sizes: adding rows to an environment does not move its column.
        """

    def again(self, rows: GroupedRows) -> Fit:
        """The same choices (basis, bandwidth, penalty, ...) fitted to other rows: folds, bootstrap, shuffles."""


class JointFit(ABC):
    """All environments from one fit: ratios of pairs are differences of log densities, and agree with each other."""

    @abstractmethod
    def log_densities(self, X: Floats) -> Floats:
        """log p_e(x) up to a term common to all environments, (n, E)."""

    def log_ratio(self, X: Floats, a: int, b: int) -> Floats:
        scores = self.log_densities(X)
        return np.asarray(scores[:, a] - scores[:, b])

    def scores_at(self, rows: GroupedRows) -> Floats:
        return self.log_densities(rows.X)

    def backward_at(self, rows: GroupedRows) -> Floats | None:
        return None


Estimator = Callable[[GroupedRows, np.random.Generator], Fit]


@dataclass(frozen=True)
class Units:
    """Takes the user's columns to those of :class:`GroupedRows`: centred, in units of spread, constant ones left out.

    With ``axes`` (d, k), the columns are the first singular directions of the centred columns instead.
    """

    columns: Integers
    centre: Floats
    scale: Floats
    axes: Floats | None = None

    @classmethod
    def of(cls, data: Environments, svd: int | None = None) -> Units:
        data.refuse_out_of_range()
        shifted = data.X - data.blocks.shift
        mean = np.average(shifted, axis=0, weights=data.weight)
        shifted -= mean
        scale = np.sqrt(np.average(shifted**2, axis=0, weights=data.weight))
        centre = data.blocks.shift + mean
        columns = np.flatnonzero(scale > 1e-12 * np.maximum(np.abs(centre), 1e-300))
        if not columns.size:  # nothing moves: one column of zeros says so
            columns, scale = np.array([0]), np.ones(len(scale))
        units = cls(columns, centre[columns], scale[columns])
        if svd is None or svd >= len(columns):
            return units
        shifted = shifted[:, columns]
        weighted = shifted if data.weight is None else shifted * data.weight[:, None]
        variances, axes = scipy.linalg.eigh(
            weighted.T @ shifted / data.rows.sum(), subset_by_index=(len(columns) - svd, len(columns) - 1)
        )
        return cls(columns, centre[columns], np.sqrt(np.maximum(variances[::-1], 1e-300)), axes[:, ::-1])

    @classmethod
    def as_given(cls, data: Environments, svd: int | None = None) -> Units:
        """The columns as they are, all of them; with ``svd``, the singular scores as they are."""
        if svd is None or svd >= data.X.shape[1]:
            data.refuse_out_of_range()
            every = np.arange(data.X.shape[1])
            return cls(every, np.zeros(len(every)), np.ones(len(every)))
        units = cls.of(data, svd)
        return replace(units, scale=np.ones(len(units.scale)))

    def apply(self, X: NDArray[np.generic]) -> Floats:
        out = np.asarray(X[:, self.columns], dtype=np.float64) - self.centre
        if self.axes is not None:
            out = out @ self.axes
        out /= self.scale
        return out


def grouped_rows(data: Environments, units: Units) -> GroupedRows:
    """What an estimator sees of the data."""
    rows = GroupedRows(units.apply(data.X), data.offsets)
    return rows if data.weight is None else rows.reweighted(data.weight)
