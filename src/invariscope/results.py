"""Frozen results: a value, its uncertainty, its whole null distribution, its parts by environment, and notes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariscope.wording import names

Floats = NDArray[np.float64]
Label = Hashable


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval (``(nan, nan)`` where none can be given)."""

    value: float
    interval: tuple[float, float] = (math.nan, math.nan)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What every criterion returns: one headline number, and remarks on how far it can be trusted."""

    value: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python data, ready for JSON: arrays become lists, numbers that do not exist become ``None``."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class RegretResult(Result):
    """Shared-head regret; see :func:`invariscope.regret`."""

    interval: tuple[float, float]
    pvalue: float
    per_environment: Mapping[Label, Estimate]
    worst: Label
    worst_interval: tuple[float, float]
    explained: float
    explained_own: float
    task: str
    labels: tuple[Label, ...]
    columns: tuple[str, ...]
    rows: Floats
    shared_loss: Floats
    own_loss: Floats
    pairs: Floats = field(repr=False)
    drivers: Floats = field(repr=False)
    statistic: float
    null: Floats = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class InfluenceResult(Result):
    """Influence index; see :func:`invariscope.influence_index`."""

    shuffled: Floats = field(repr=False)
    pvalue: float
    labels: tuple[Label, ...]
    parameters: tuple[str, ...]
    influences: Floats = field(repr=False)
    direction: Floats = field(repr=False)
    eigenvalues: Floats = field(repr=False)
    damping: float
    rank: int
    loss: str

    def top_columns(self, count: int) -> tuple[str, ...]:
        """The parameters with the largest loadings on the leading direction of disagreement."""
        return tuple(self.parameters[j] for j in np.argsort(-np.abs(self.direction))[:count])


@dataclass(frozen=True, kw_only=True)
class DricResult(Result):
    """Density-ratio criterion as published; see :func:`invariscope.dric`."""

    log10: float
    numerator: float
    denominator: float
    labels: tuple[Label, ...]
    pairs: Floats
    overlap: Overlap


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Do the environments cover the same ground? ``effective[a, b]``: the share of the rows of ``labels[b]`` that
    still count once they are weighted to look like ``labels[a]`` (1 = all, near 0 = no overlap); ``pooled[b]`` the same
    for all other environments together, and ``verdicts[b]`` what to call it."""

    labels: tuple[Label, ...]
    effective: Floats
    mean_ratio: Floats
    pooled: Floats
    verdicts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EnvironmentResult(Result):
    """A criterion made of one number per environment (risks, calibration errors, penalties)."""

    interval: tuple[float, float] = (math.nan, math.nan)
    per_environment: Mapping[Label, Estimate]
    worst: Label
    unit: str


def plain(value: Any) -> Any:
    """Turn results into what JSON can hold."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return dict(zip(names(value), map(plain, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if value is None or isinstance(value, str | int | bool):
        return value
    return str(value)
