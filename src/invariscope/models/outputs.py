"""What comes out of a model, or was given as an array: dense numbers, checked, with the names they came with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.models.inputs import holds_torch
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.tables import array_of, matrix_of

Names = tuple[str, ...]

RANGE_SLACK = 1e-6  # rounding of single precision around 0 and 1
SUM_SLACK = 1e-4  # row sums of probabilities kept in single precision or written with a few decimals
SHORT_SUM_SLACK = 4e-3  # of those kept in bfloat16 or float16; every one of them is off by up to 1 / 512 of itself


def as_array(values: Any, what: str = "the array") -> Array:
    """A numpy array; sparse matrices become dense, and what is masked is missing."""
    return array_of(values.toarray() if hasattr(values, "toarray") else values, what, table=True)


def dense_matrix(values: Any, what: str) -> tuple[Array, Names | None]:
    """A dense (n, d) float matrix, and the names it came with."""
    names = own_names(values)
    table = values if names is not None else as_array(values, what)
    if names is None and table.ndim not in (1, 2):
        raise InputError(f"{what} gives {table.ndim} dimensions: give rows x columns (flatten images first)")
    matrix, _ = matrix_of(table)
    return matrix, names


def row_count(X: Any) -> int | None:
    """How many rows X has; ``None`` for loaders, which count batches: only reading them tells their rows."""
    if isinstance(X, Mapping) or (holds_torch(X) and not hasattr(X, "shape")):
        return None
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def refuse_other_rows(rows: int | None, values: Array, what: str) -> None:
    """Values about other rows than those of X are refused, as far as their number tells."""
    if rows is not None and len(values) != rows:
        raise InputError(f"X has {rows} rows but {what} has {len(values)}: they must be about the very same rows")


def checked_predictions(
    values: Any,
    *,
    rows: int | None = None,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    columns: Sequence[Any] | None = None,
    target_name: str | None = None,
) -> Floats:
    """The door for predictions: (n,) numbers, or (n, K) class probabilities in the order of ``classes``.

    Numbers for ``task="regression"``, probabilities for any other task; without one, several columns are classes.
    One column of probabilities is the second class's. ``columns`` are the labels of the columns where a model has them
    in an order of its own.

    >>> checked_predictions([0.25, 1.0], task="classification").tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    >>> checked_predictions([[0.75, 0.25]], task="binary", classes=("no", "yes"), columns=("yes", "no")).tolist()
    [[0.25, 0.75]]
    """
    matrix = prediction_columns(values, rows)
    width = matrix.shape[1]
    if task == "regression" and width != 1:
        raise InputError(
            f"predictions have {width} columns: a numeric target needs one prediction per row. "
            "Audit one target at a time."
        )
    if width == 1 and task in (None, "regression"):
        return matrix[:, 0]
    _refuse_other_classes(width, classes, columns, target_name)
    _refuse_outside_unit_interval(matrix)
    if width == 1:
        matrix = np.hstack([1.0 - matrix, matrix])
    matrix = _summing_to_one(matrix, values)
    if classes is not None and columns is not None:
        matrix = matrix[:, [columns.index(label) for label in classes]]
    return np.clip(matrix, 0.0, 1.0)


def prediction_columns(values: Any, rows: int | None = None, what: str = "predictions") -> Floats:
    """Predictions of whatever kind as finite numbers (n, K), one row for each of ``rows``."""
    if hasattr(values, "predict"):
        raise InputError(f"{what}: a model was given; give the numbers it predicts, such as model.predict(X)")
    array = as_array(values, what)
    first = array.ravel()[:1].tolist()
    if first and isinstance(first[0], str):
        raise InputError(
            f'{what} hold text ("{first[0]}"), not numbers: give numbers, or probabilities as predict_proba gives them'
        )
    if array.ndim not in (1, 2):
        raise InputError(f"{what}: give one column, or one per class, not shape {array.shape}")
    matrix = dense_matrix(values, what)[0].astype(np.float64, copy=False)
    refuse_other_rows(rows, matrix, what)
    bad = int(np.sum(~np.isfinite(matrix)))
    if bad:
        raise InputError(f"{what}: {bad} missing or infinite values; predict those rows too, or drop them")
    return matrix


def _refuse_other_classes(
    width: int, classes: Sequence[Any] | None, columns: Sequence[Any] | None, target_name: str | None
) -> None:
    """As many columns as classes; of two classes one column will do."""
    if classes is not None and columns is not None and len(columns) != len(classes):
        raise InputError(
            f"the model predicts {len(columns)} classes but the rows hold {len(classes)}: audit rows with all of them"
        )
    if classes is not None and width != len(classes) and (width, len(classes)) != (1, 2):
        whose = "there are" if target_name is None else f'target "{target_name}" has'
        raise InputError(
            f"predictions have {width} columns, but {whose} {len(classes)} classes: "
            f"give one probability per class, in the order {', '.join(map(str, columns or classes))}"
        )


def _refuse_outside_unit_interval(probabilities: Floats) -> None:
    outside = (probabilities < -RANGE_SLACK) | (probabilities > 1.0 + RANGE_SLACK)
    if outside.any():
        raise InputError(
            f"predictions of {int(outside.any(axis=1).sum())} rows lie outside 0..1 (they range from "
            f"{probabilities.min():.4g} to {probabilities.max():.4g}): classes need probabilities. "
            'Apply the sigmoid or softmax first, or pass task="regression".'
        )


def _summing_to_one(probabilities: Floats, given: Any) -> Floats:
    """The probabilities; those given in 16 bits, whose sums are rounded, are divided by them."""
    short = getattr(getattr(given, "dtype", None), "itemsize", 8) < 4
    sums = probabilities.sum(axis=1)
    bad = np.abs(sums - 1.0) > (SHORT_SUM_SLACK if short else SUM_SLACK)
    if bad.any():
        raise InputError(
            f"the probabilities of {int(bad.sum())} rows do not sum to 1 (sums range from {sums.min():.4g} to "
            f"{sums.max():.4g}): give one column per class, every row summing to 1"
        )
    return probabilities / sums[:, None] if short else probabilities


def numbered(prefix: str, count: int) -> Names:
    """Names for columns that have none: z0, z1, ..."""
    return tuple(f"{prefix}{j}" for j in range(count))


def own_names(X: Any) -> Names | None:
    """The column names of a pandas, polars or pyarrow table; ``None`` for an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else tuple(map(str, names))
