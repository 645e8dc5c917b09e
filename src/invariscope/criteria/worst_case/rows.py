"""The door of the worst case: a head and whatever table the user has → rows, class codes or numbers, weights, radii."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.rows.arrays import Array, Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.tables import matrix_of, vector_of

LOSSES = ("log_loss", "hinge", "zero_one", "squared")


@dataclass(frozen=True)
class Rows:
    """Checked rows: the representation, the raw target, weights, environments' labels, and class labels if it has any.

    ``target`` holds codes into ``labels`` where there are some, else what was given, as numbers where possible;
    ``env`` codes into ``environments``, if there are any.
    """

    Z: Array
    target: Array
    weight: Floats | None
    environments: tuple[Hashable, ...]
    labels: tuple[Any, ...] | None
    env: Integers | None = None


def rows_of(Z: Any, y: Any, env: Any, weight: Any) -> Rows:
    """Rows for a linear head, environment after environment where environments are given."""
    if isinstance(Z, Environments):
        data = Environments.of(Z, y, env, weight)
        if data.y is None:
            raise InputError("the Environments hold no target: make them with y, one value per row")
        return Rows(data.X, data.y, data.weight, data.labels, data.classes, data.codes)
    if y is None:
        raise InputError("no target given: pass y, one value per row")
    wide = np.ndim(y) == 2 and np.shape(y)[1] > 1
    if env is not None:
        data = Environments(Z, None if wide else y, env, weight)
        target = data.grouped(np.asarray(y, dtype=np.float64), "y") if wide else data.y
        assert target is not None
        return Rows(data.X, target, data.weight, data.labels, data.classes, data.codes)
    matrix, names = matrix_of(Z)
    if 0 in matrix.shape:
        raise InputError(f"Z is empty: it has shape {matrix.shape}")
    bad = ~np.isfinite(matrix).all(axis=0)
    if bad.any():
        raise InputError(f'column "{names[int(bad.argmax())]}" of Z has missing or infinite values: drop or fill them')
    target = np.asarray(y, dtype=np.float64) if wide else vector_of(y, "y")[0]
    weights = None if weight is None else checked_weights(weight, len(matrix))
    if len(target) != len(matrix):
        raise InputError(f"Z has {len(matrix)} rows but y has {len(target)}: give one value per row")
    return Rows(matrix, target, weights, (), None)


def checked_weights(weight: Any, n: int) -> Floats:
    """Weights as counts of rows: finite, none below 0, not all of them 0."""
    values = vector_of(weight, "weight")[0]
    if values.dtype.kind not in "iufb" or len(values) != n:
        raise InputError(f"weight must be one number of at least 0 for each of the {n} rows")
    counts = values.astype(np.float64)
    if not (np.isfinite(counts) & (counts >= 0)).all() or not counts.any():
        raise InputError("weight has negative or missing values, or is 0 everywhere: weights count rows")
    return counts


def losses_of(loss: str | Sequence[str], target: Array, labels: tuple[Any, ...] | None, outputs: int) -> list[str]:
    """The losses asked for; "auto" is squared where the target is numbers, else cross-entropy.

    A head of several outputs with one label per row is a classifier; a head of one output is one if the target has
    labels, two different values, or whole numbers 0 and 1 only.
    """
    names = [loss] if isinstance(loss, str) else list(loss)
    unknown = [name for name in names if name not in (*LOSSES, "auto")]
    if unknown or not names:
        raise InputError(f'loss {unknown[0] if unknown else ""!r} is unknown: use "auto", {", ".join(LOSSES)}')
    if "auto" in names:
        numbers = target.ndim == 2
        if outputs == 1 and labels is None and target.ndim == 1 and target.dtype.kind in "iuf":
            different = np.unique(target)
            numbers = len(different) != 2 and not set(different.tolist()) <= {0, 1}
        names = ["squared" if numbers else "log_loss" if name == "auto" else name for name in names]
    names = list(dict.fromkeys(names))
    if "squared" in names and len(names) > 1:
        raise InputError("squared loss is for numbers, the others are for classes: ask for one kind at a time")
    return names


def codes_of(target: Array, labels: tuple[Any, ...] | None, classes: Sequence[Any] | None, count: int) -> Integers:
    """Class codes 0..K−1 in the order of the head's outputs.

    Whole numbers 0..K−1 are codes as they are; other labels are looked up in ``classes``, or sorted if there are K.

    >>> codes_of(np.array(["b", "a", "b"], dtype=object), None, None, 2).tolist()
    [1, 0, 1]
    >>> codes_of(np.array([1.0, 1.0]), None, None, 3).tolist()
    [1, 1]
    """
    if target.ndim != 1:
        raise InputError(f"y must be one label per row for a classifier: it has shape {target.shape}")
    if labels is None and target.dtype.kind in "iufb" and not np.isfinite(target).all():
        raise InputError("y has missing or infinite values: drop those rows or give them a label")
    if labels is None and classes is None and target.dtype.kind in "iufb":
        numbers = target.astype(np.float64)
        if np.all((numbers == np.round(numbers)) & (numbers >= 0) & (numbers < count)):
            return numbers.astype(np.intp)
    if labels is None:
        labels, found = _sorted_labels(target)
    else:
        found = target.astype(np.intp)
    order = list(labels) if classes is None else list(classes)
    if len(order) != count:
        raise InputError(
            f"the head tells {count} classes apart, but {'y has' if classes is None else 'classes lists'} {len(order)}"
            f" ({', '.join(map(str, order[:5]))}): give classes=, one label per output, in the head's order"
        )
    missing = [label for label in labels if label not in order]
    if missing:
        raise InputError(f'y has the label "{missing[0]}", which is not among classes ({", ".join(map(str, order))})')
    places: Integers = np.array([order.index(label) for label in labels], dtype=np.intp)[found]
    return places


def _sorted_labels(target: Array) -> tuple[tuple[Any, ...], Integers]:
    try:
        labels, found = np.unique(target, return_inverse=True)
    except TypeError as error:
        raise InputError("y mixes labels that cannot be sorted: give classes=, in the order of the head") from error
    return tuple(labels.tolist()), found.astype(np.intp)


def residuals_of(head: LinearHead, Z: Array, target: Array, labels: tuple[Any, ...] | None) -> Floats:
    """(n, K): prediction minus target."""
    if labels is not None or target.dtype.kind not in "iufb":
        raise InputError('y holds labels, but loss="squared" needs numbers')
    if not np.isfinite(target).all():
        raise InputError("y has missing or infinite values: drop those rows or fill them in")
    wanted = target[:, None] if target.ndim == 1 else target
    if wanted.shape[1] != head.n_outputs:
        raise InputError(f"the head has {head.n_outputs} outputs but y has {wanted.shape[1]} columns: they must match")
    return np.asarray(head.scores(Z) - wanted, dtype=np.float64)


def radii_of(radii: Any, relative: bool, unit: float, apart: Floats | None = None) -> Floats:
    """Radii in the units of the representation.

    By default 50 from 0 to 1.5 × unit, or to a little beyond the furthest environment if that is further (but not
    beyond 3 × unit); 0 alone where there is no unit.
    """
    usable = np.isfinite(unit) and unit > 0
    if radii is None:
        furthest = max([1.5 * unit, *(1.1 * apart[np.isfinite(apart)] if apart is not None else [])])
        return np.linspace(0.0, min(furthest, 3.0 * unit), 50) if usable else np.zeros(1)
    try:
        values = np.atleast_1d(np.array(radii, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"radii must be numbers of at least 0: {error}") from error
    if values.ndim != 1 or not len(values) or not np.all(np.isfinite(values) & (values >= 0)):
        raise InputError("radii must be one or more finite distances of at least 0")
    if relative and not usable:
        raise InputError(f"the unit of distance is {unit:g}, so relative radii mean nothing: give radii in units of Z")
    return values * unit if relative else values
