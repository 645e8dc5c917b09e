"""The worst case of heads that are not linear: what a search finds, made into the same curve."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.criteria.worst_case.curve import Sweep, band_of, curve_of
from invariscope.criteria.worst_case.margins import Curve
from invariscope.criteria.worst_case.rows import checked_weights, codes_of
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.environments import Environments, unique_labels
from invariscope.rows.tables import vector_of

MOST_CLASSES = 10  # whole numbers 0, 1, ... up to here are classes, unless the loss says otherwise


@dataclass(frozen=True)
class Arrays:
    """Rows of any shape (n, ...), class codes or numbers, weights, and the environments' labels."""

    Z: Array
    y: Array
    weight: Floats | None
    environments: tuple[Hashable, ...]
    numbers: bool


def arrays_of(Z: Any, y: Any, env: Any, weight: Any, classes: Sequence[Any] | None, losses: Sequence[str]) -> Arrays:
    """Rows for a head whose number of outputs nobody has told: labels are classes, and so are whole numbers from 0."""
    labels: tuple[Any, ...] | None = None
    environments: tuple[Hashable, ...] = ()
    if isinstance(Z, Environments):
        data = Environments.of(Z, y, env, weight)
        if data.y is None:
            raise InputError("the Environments hold no target: make them with y, one value per row")
        rows, target, counts, labels, environments = data.X, data.y, data.weight, data.classes, data.labels
    else:
        if y is None:
            raise InputError("no target given: pass y, one value per row")
        rows, (target, _) = np.asarray(Z), vector_of(y, "y")
        if rows.dtype.kind not in "iuf" or rows.ndim < 2 or len(rows) != len(target) or not np.isfinite(rows).all():
            raise InputError(f"Z must hold finite numbers, one row for each of the {len(target)} values of y")
        counts = None if weight is None else checked_weights(weight, len(rows))
        if env is not None:
            given = vector_of(env, "env")[0]
            if len(given) != len(rows):
                raise InputError(f"Z has {len(rows)} rows but env has {len(given)}: give one environment per row")
            environments = unique_labels(given, "env")[0]
    whole = labels is None and target.dtype.kind in "iufb" and np.all(target == np.round(target)) and target.min() >= 0
    numbers = "squared" in losses
    if "auto" in losses:
        numbers = labels is None and target.dtype.kind in "iuf" and len(np.unique(target)) != 2
        numbers = numbers and not (whole and target.max() < MOST_CLASSES)
    if numbers:
        if labels is not None or target.dtype.kind not in "iufb":
            raise InputError('y holds labels, but loss="squared" needs numbers')
        return Arrays(rows, target.astype(np.float64), counts, environments, True)
    count = int(target.max()) + 1 if whole and classes is None else _count(target, labels, classes)
    return Arrays(rows, codes_of(target, labels, classes, count), counts, environments, False)


def _count(target: Array, labels: tuple[Any, ...] | None, classes: Sequence[Any] | None) -> int:
    known = classes if classes is not None else labels
    return len(np.unique(target) if known is None else known)


def searched_unit(head: Any, arrays: Arrays, loss: str) -> float:
    """The unit of distance; infinite where no row could be made wrong."""
    return float(_torch_heads().unit_of(head, arrays.Z, arrays.y, loss, weight=arrays.weight))


def searched_curve(
    head: Any, arrays: Arrays, loss: str, radii: Floats, n_boot: int, seed: int, rng: np.random.Generator
) -> Curve:
    """The curve through the points a search has reached."""
    sweep: Sweep
    sweep, start, lipschitz = _torch_heads().sweep(
        head, arrays.Z, arrays.y, loss, weight=arrays.weight, radius=float(radii.max()), seed=seed
    )
    loss_at, lower, upper, gamma = curve_of(sweep, start, radii, arrays.weight, lipschitz)
    return Curve(loss_at, lower, upper, gamma, band_of(sweep, start, radii, arrays.weight, n_boot, rng))


def _torch_heads() -> Any:
    try:
        return importlib.import_module("invariscope.criteria.worst_case.torch_heads")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError(
            "a head that is not a LinearHead is searched with torch, which is not installed: "
            'pip install "invariscope[torch]", or give a LinearHead'
        ) from error
