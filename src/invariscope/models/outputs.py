"""What comes out of a model, or was given as an array: dense numbers, checked, with the names they came with."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.tables import matrix_of

Names = tuple[str, ...]


def given_values(values: Array, what: str, X: Any) -> Array:
    """Values computed beforehand: they answer only for as many rows as they have."""
    refuse_other_rows(X, values, f"the {what} array")
    return values


def as_array(values: Any) -> Array:
    """A numpy array; sparse matrices become dense."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)


def dense_matrix(values: Any, what: str) -> tuple[Array, Names | None]:
    """A dense (n, d) float matrix, and the names it came with."""
    names = own_names(values)
    table = values if names is not None else as_array(values)
    if names is None and table.ndim not in (1, 2):
        raise InputError(f"{what} gives {table.ndim} dimensions: give rows x columns (flatten images first)")
    matrix, _ = matrix_of(table)
    return matrix, names


def refuse_other_rows(X: Any, values: Array, what: str) -> None:
    """Values about other rows than those of X are refused, as far as their number tells."""
    if comes_from(X, "torch") and not hasattr(X, "shape"):
        return  # a loader: it counts batches, and only reading it tells its rows
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(values) != n:
        raise InputError(f"X has {n} rows but {what} has {len(values)}: they must be about the very same rows")


def checked_predictions(values: Any, X: Any, task: str | None, classes: tuple[Any, ...] | None) -> Floats:
    """Predictions as (n,) numbers or (n, K) class probabilities; one column of probabilities is the second class's.

    >>> checked_predictions([0.25, 1.0], [[0.0], [0.0]], "classification", None).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    first = as_array(values).ravel()[:1].tolist()
    if first and isinstance(first[0], str):
        raise InputError(f'predict gives labels ("{first[0]}"), not numbers: give probabilities, as predict_proba does')
    matrix = dense_matrix(values, "predict")[0].astype(np.float64)
    refuse_other_rows(X, matrix, "predict")
    bad = int(np.sum(~np.isfinite(matrix)))
    if bad:
        raise InputError(f"predictions hold {bad} missing or infinite values: mend them before the audit")
    width = matrix.shape[1]
    if width == 1 and task != "classification":
        return matrix[:, 0]
    if task == "regression":
        raise InputError(f"predict gives {width} numbers per row: audit one target at a time")
    if width == 1:
        matrix = np.hstack([1 - matrix, matrix])
    if matrix.min() < 0 or np.abs(matrix.sum(axis=1) - 1).max() > 1e-4:
        raise InputError("predict does not give probabilities: each row must hold numbers from 0 to 1 that sum to 1")
    if classes is not None and matrix.shape[1] != len(classes):
        raise InputError(f"predict gives {matrix.shape[1]} columns for {len(classes)} classes: give one per class")
    return matrix


def comes_from(thing: Any, package: str) -> bool:
    """Whether its class, or one that class is made from, is a package's; the package itself is not imported."""
    return any(ancestor.__module__.partition(".")[0] == package for ancestor in type(thing).__mro__)


def numbered(prefix: str, count: int) -> Names:
    """Names for columns that have none: z0, z1, ..."""
    return tuple(f"{prefix}{j}" for j in range(count))


def own_names(X: Any) -> Names | None:
    """The column names of a pandas, polars or pyarrow table; ``None`` for an array."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else tuple(map(str, names))
