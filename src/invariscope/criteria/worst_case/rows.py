"""The door of the worst case, for linear heads and for those that are searched: rows, target, losses, radii."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats, Integers
from invariscope.rows.blocks import refuse_out_of_range
from invariscope.rows.digits import notes_on_lost_digits
from invariscope.rows.environments import Environments, checked_weights
from invariscope.rows.labels import numbers_or_labels
from invariscope.rows.not_tables import refuse_no_table
from invariscope.rows.settings import several, switch
from invariscope.rows.tables import array_of, matrix_of, vector_of
from invariscope.rows.targets import Target, target_in

LOSSES = ("log_loss", "hinge", "zero_one", "squared")
FURTHEST = 1e15  # of a radius, in units or of Z: a network in single precision still has its square


@dataclass(frozen=True)
class Rows:
    """Checked rows. Of ``target`` only its column is known before the head's outputs are.

    ``Z`` is (n, d), or (n, ...) for a head that reads such rows; ``column`` is numbers, (n,) or (n, q), or codes into
    ``labels``; ``env`` codes into ``environments``, if there are any.
    """

    Z: Array
    column: Array
    labels: tuple[Any, ...] | None
    weight: Floats | None
    environments: tuple[Hashable, ...] = ()
    env: Integers | None = None
    name: str = "y"
    notes: tuple[str, ...] = ()

    def target(self, task: str, outputs: int, classes: Sequence[Any] | None) -> Target:
        """Classes or numbers, by the rule of :func:`~invariscope.rows.targets.target_of`."""
        return target_in(self.column, self.labels, task, outputs=outputs, classes=classes, name=self.name)

    def counted(self, target: Target) -> tuple[Rows, Target]:
        """The rows that count, and their target: neither grids nor searches look at rows of weight 0."""
        if self.weight is None or self.weight.all():
            return self, target
        there = self.weight > 0
        env = None if self.env is None else self.env[there]
        rows = replace(self, Z=self.Z[there], column=self.column[there], weight=self.weight[there], env=env)
        return rows, replace(target, values=target.values[there])


def rows_of(Z: Any, y: Any, env: Any, weight: Any, *, grouped: bool) -> Rows:
    """Rows, target, weights and environments; with ``grouped``, environment after environment."""
    if isinstance(Z, Environments):
        data = Environments.of(Z, y, env, weight)
        if data.y is None:
            raise InputError("the Environments hold no target: make them with y, one value per row")
        data.refuse_out_of_range()
        return Rows(data.X, data.y, data.classes, data.weight, data.labels, data.codes, data.target_name, data.notes)
    if y is None:
        raise InputError("no target given: pass y, one value per row")
    column, labels, name = _column(y)
    matrix, columns, shape = _matrix(Z)
    if len(column) != len(matrix):
        raise InputError(f"Z has {len(matrix)} rows but y has {len(column)}: give one value per row")
    counts, of_numbers = None if weight is None else checked_weights(weight, len(matrix)), labels is None
    odd = notes_on_lost_digits(column[:, None], [f'Target "{name}"'], counts) if of_numbers and column.ndim == 1 else ()
    if env is None:
        _refuse_missing(matrix, columns)
        odd = (*odd, *notes_on_lost_digits(matrix, [f'Column "{column_name}"' for column_name in columns], counts))
        return Rows(matrix.reshape(shape), column, labels, counts, name=name, notes=odd)
    data = Environments(matrix, None, env, weight)
    refuse_out_of_range(float(np.abs(matrix).max()), "Z")
    counts, codes, rows = data.weight, data.codes, data.X
    if grouped:
        column = data.grouped(column, "y")
    else:
        rows, codes = data.original(rows), data.original(codes)
        counts = None if counts is None else data.original(counts)
    return Rows(rows.reshape(shape), column, labels, counts, data.labels, codes, name, (*odd, *data.notes))


def _column(y: Any) -> tuple[Array, tuple[Any, ...] | None, str]:
    """The target as numbers, (n,) or (n, q), or as codes into labels; and its name."""
    refuse_no_table(y, "y", table=False)
    shape = tuple(getattr(y, "shape", None) or array_of(y, "y", table=False).shape)
    if len(shape) == 2 and shape[1] > 1:
        values = matrix_of(y)[0].astype(np.float64, copy=False)
        if not np.isfinite(values).all():
            raise InputError("y has missing or infinite values: drop those rows or fill them in")
        return values, None, "y"
    values, name = vector_of(y, "y")
    return *numbers_or_labels(values, name or "y"), name or "y"


def _matrix(Z: Any) -> tuple[Array, tuple[str, ...], tuple[int, ...]]:
    """Rows as (n, d), names of their columns, and the shape they had."""
    refuse_no_table(Z, "Z", table=True)
    shape = np.shape(Z) if getattr(Z, "ndim", 2) > 2 else ()
    if 0 not in shape:
        matrix, columns = matrix_of(array_of(Z, "Z", table=True).reshape(shape[0], -1) if shape else Z)
        shape = shape or matrix.shape
    if 0 in shape:
        raise InputError(f"Z is empty: it has shape {shape}, give at least one row and one column")
    return matrix, columns, shape


def _refuse_missing(matrix: Array, columns: tuple[str, ...]) -> None:
    bad = ~np.isfinite(matrix).all(axis=0)
    if bad.any():
        worst = columns[int(bad.argmax())]
        raise InputError(f'column "{worst}" of Z has missing or infinite values: drop or fill them')
    refuse_out_of_range(float(np.abs(matrix).max()), "Z")


def losses_of(loss: str | Sequence[str], task: str) -> tuple[list[str], str]:
    """The losses asked for, and the task that their names imply: squared loss is for numbers, the others for classes.

    >>> losses_of("squared", "auto"), losses_of(["hinge", "auto"], "auto"), losses_of("auto", "auto")
    ((['squared'], 'regression'), (['hinge', 'auto'], 'classification'), (['auto'], 'auto'))
    """
    names = several(loss, "loss", '"log_loss"')
    unknown = [name for name in names if name not in (*LOSSES, "auto")]
    if unknown or not names:
        raise InputError(f'loss {unknown[0] if unknown else ""!r} is unknown: use "auto", {", ".join(LOSSES)}')
    of_numbers = {name == "squared" for name in names if name != "auto"}
    if len(of_numbers) > 1:
        raise InputError("squared loss is for numbers, the others are for classes: ask for one kind at a time")
    if not of_numbers:
        return names, task
    implied = "regression" if True in of_numbers else "classification"
    if task != "auto" and (task == "regression") != (implied == "regression"):
        raise InputError(f'loss "{names[0]}" is for {implied}, but task is "{task}": leave one of them out')
    return names, implied if task == "auto" else task


def losses_for(names: Sequence[str], target: Target) -> list[str]:
    """ "auto" is the squared loss of numbers and the log-loss of classes; no loss twice."""
    usual = "squared" if target.task == "regression" else "log_loss"
    return list(dict.fromkeys(usual if name == "auto" else name for name in names))


def radii_of(radii: Any, relative: bool, unit: float, apart: Floats | None = None) -> Floats:
    """Radii in the units of the representation.

    By default 50 from 0 to 1.5 × unit, or to a little beyond the furthest environment if that is further (but not
    beyond 3 × unit); 0 alone where there is no unit.
    """
    usable, relative = np.isfinite(unit) and unit > 0, switch(relative, "relative")
    if radii is None:
        furthest = max([1.5 * unit, *(1.1 * apart[np.isfinite(apart)] if apart is not None else [])])
        return np.linspace(0.0, min(furthest, 3.0 * unit), 50) if usable else np.zeros(1)
    try:
        values = np.atleast_1d(np.array(radii, dtype=np.float64))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"radii must be numbers of at least 0: {error}") from error
    furthest = FURTHEST if relative or not usable else FURTHEST * max(unit, 1.0)
    given = values.ndim == 1 and len(values) and np.asarray(radii).dtype.kind in "iufO"
    if not given or not np.all((values >= 0) & (values < furthest)):
        raise InputError(f"radii must be one or more finite distances of at least 0 and below {furthest:.0e}")
    if relative and not usable:
        raise InputError(f"the unit of distance is {unit:g}, so relative radii mean nothing: give radii in units of Z")
    return values * unit if relative else values
