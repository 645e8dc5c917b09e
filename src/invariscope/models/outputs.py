"""What comes out of a model, or was given as an array: dense numbers, checked, with the names they came with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.errors import InputError
from invariscope.models.inputs import holds_torch
from invariscope.rows.arrays import Array, Booleans, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.not_tables import refuse_masked, refuse_no_table
from invariscope.rows.settings import is_real
from invariscope.rows.spelling import spelt
from invariscope.rows.tables import array_of, matrix_of, plain

Names = tuple[str, ...]

RANGE_SLACK = 1e-6  # rounding of single precision around 0 and 1
PER_CENT = 100
SUM_SLACK = 1e-4  # row sums of probabilities kept in single precision or written with a few decimals
MOST_NAMED = 3  # environments with rows that were not predicted, those with the most
SHORT_SUM_SLACK = 4e-3  # of those kept in bfloat16 or float16; every one of them is off by up to 1 / 512 of itself


#: Said of probabilities that are none, wherever somebody could take them for some.
HARD_LABELS = (
    "All predictions are 0 or 1: labels, not probabilities. The log-loss of a row is then 0 or its cap, and "
    "calibration counts errors. Pass probabilities, as predict_proba gives them, or the model itself."
)
OF_LABELS = (
    "of labels alone, give one column of 0 and 1 per class, as pandas.get_dummies(labels) does (they count as certain)"
)


def as_array(values: Any, what: str = "predictions") -> Array:
    """A numpy array; sparse matrices become dense, tensors leave their graph and device, masks must hide nothing."""
    refuse_masked(values, what)
    return array_of(values.toarray() if hasattr(values, "toarray") else values, what, table=True)


def dense_matrix(values: Any, what: str) -> tuple[Array, Names | None]:
    """A dense (n, d) float matrix, and the names it came with."""
    names = own_names(values)
    in_arrow = hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")  # one column of a table
    table = values if names is not None or in_arrow else as_array(values, what)
    if names is None and not in_arrow and table.ndim not in (1, 2):
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
    _refuse_outside_unit_interval(matrix, classes)
    if width == 1:
        matrix = np.hstack([1.0 - matrix, matrix])
    matrix = _summing_to_one(matrix)
    if classes is not None and columns is not None:
        matrix = matrix[:, [columns.index(label) for label in classes]]
    return np.clip(matrix, 0.0, 1.0)


def second_of_two(columns: Floats) -> Floats:
    """Probabilities of two classes as one column, that of the second: which of the two is written makes no difference.

    Anything else stays as it is.

    >>> second_of_two(np.array([[0.75, 0.25], [0.0, 1.0]])).tolist()
    [[0.25], [1.0]]
    >>> second_of_two(np.array([[0.75, 0.5]])).tolist()
    [[0.75, 0.5]]
    """
    if columns.shape[1] != 2 or columns.min() < -RANGE_SLACK or columns.max() > 1.0 + RANGE_SLACK:
        return columns
    slack = SHORT_SUM_SLACK if _of_16_bits(columns) else SUM_SLACK
    if np.abs(columns.sum(axis=1) - 1.0).max() > slack:
        return columns
    return np.ascontiguousarray(columns[:, 1:])  # laid out as one column is: sums are then the same to the last digit


def prediction_columns(values: Any, rows: int | None = None, what: str = "predictions") -> Floats:
    """Predictions of whatever kind as finite numbers (n, K), one row for each of ``rows``."""
    if hasattr(values, "predict"):
        raise InputError(f"{what}: a model was given; give the numbers it predicts, such as model.predict(X)")
    values = plain(values)
    if not hasattr(values, "toarray"):
        refuse_no_table(values, what, table=True)
    refuse_labels(values, what)
    shape = as_array(values, what).shape if own_names(values) is None else (1,)
    if len(shape) not in (1, 2):
        raise InputError(f"{what}: give one column, or one per class, not shape {shape}")
    matrix = dense_matrix(values, what)[0].astype(np.float64, copy=False)
    refuse_other_rows(rows, matrix, what)
    return refuse_not_finite(matrix, what)


class NotPredictedError(InputError):
    """Predictions that are missing or infinite, in the rows that ``missing`` marks."""

    def __init__(self, what: str, missing: Booleans) -> None:
        super().__init__(_not_predicted(what, missing))
        self.what, self.missing = what, missing


def _not_predicted(what: str, missing: Booleans, where: str = "") -> str:
    count = int(np.count_nonzero(missing))
    rows, too, them = ("1 row has", "it", "it") if count == 1 else (f"{count:,} rows have", "those rows", "them")
    return f"{what}: {rows} missing or infinite values{where}; predict {too} too, or drop {them}"


def refuse_not_finite(matrix: Array, what: str = "predictions") -> Array:
    """Predictions (n, K), every row of which was predicted."""
    missing = np.asarray(~np.isfinite(matrix).all(axis=1))
    if missing.any():
        raise NotPredictedError(what, missing)
    return matrix


@contextmanager
def counted_by_environment(env: Any, what: str | None = None) -> Iterator[None]:
    """Rows that were not predicted are counted by environment: ``env`` is that of every row, or the rows as grouped.

    >>> with counted_by_environment(["Oslo", "Bern", "Oslo", "Bern"]):
    ...     refuse_not_finite(np.array([[np.nan], [0.3], [np.nan], [0.4]]))
    Traceback (most recent call last):
    invariscope.errors.InputError: predictions: 2 rows have missing or infinite values (Oslo: 2 of 2); predict those
    rows too, or drop them
    """
    try:
        yield
    except NotPredictedError as error:
        rows = env if isinstance(env, Environments) else Environments(np.zeros((len(error.missing), 1)), None, env)
        if len(rows.X) != len(error.missing):  # a network is first asked about a few rows
            raise
        counts = np.add.reduceat(rows.grouped(error.missing, error.what), rows.offsets[:-1], dtype=np.intp)
        most = [k for k in np.argsort(-counts, kind="stable")[:MOST_NAMED] if counts[k]]
        named = [f"{rows.labels[k]}: {counts[k]:,} of {rows.sizes[k]:,}" for k in most]
        more = ", ..." if np.count_nonzero(counts) > len(most) else ""
        where = f" ({', '.join(named)}{more})"
        raise InputError(_not_predicted(what or error.what, error.missing, where)) from error


def refuse_labels(values: Any, what: str = "predictions") -> None:
    """Texts are labels: no number tells how sure they are."""
    names = own_names(values)
    if names:
        values = values.iloc[:, 0] if hasattr(values, "iloc") else values[names[0]]
    flat = as_array(values, what).ravel()
    first = next(
        (value for value in flat[: 1 if flat.dtype.kind != "O" else None].tolist() if isinstance(value, str)), None
    )
    if first is None:
        return
    if _are_written_numbers(flat):
        raise InputError(
            f'{what} are numbers written as text ("{first}"): give numpy.asarray({what}).astype(float) in their place'
        )
    raise InputError(
        f'{what} hold text ("{first}"): give numbers, or for classes probabilities, as predict_proba gives '
        f"them; {OF_LABELS}"
    )


def _are_written_numbers(texts: Array) -> bool:
    """Whether every text is a number, as Python writes it."""
    try:
        texts.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def are_hard(probabilities: Floats) -> bool:
    """Whether probabilities are labels in disguise: all of them 0 or 1."""
    return bool(np.all((probabilities == 0.0) | (probabilities == 1.0)))


def order_of_columns(names: Sequence[str] | None, labels: Sequence[Any]) -> list[int] | None:
    """Where the column of every label is, if columns are named after labels; None if they have no names to go by.

    Columns that are only numbered (x0, x1, ...) are in the order of the classes. Other names than those of the classes
    are refused: nobody can tell which column is whose.

    >>> order_of_columns(["yes", "no"], ["no", "yes"]), order_of_columns(["p0", "p1"], ["no", "yes"])
    ([1, 0], None)
    """
    if names is None or not 2 <= len(labels) <= len(names):
        return None  # one column, or too few: their number is judged elsewhere
    wanted = [str(label) for label in labels]
    if {*wanted} <= {*names} and len(names) == len({*names}):
        return [list(names).index(label) for label in wanted]
    numbers = [name[len(name.rstrip("0123456789")) :] for name in names]
    stems = {name.rstrip("0123456789") for name in names}
    if len(stems) == 1 and numbers in ([str(j + first) for j in range(len(names))] for first in (0, 1)):
        return None
    raise InputError(
        f"the columns of the predictions are named {', '.join(names[:5])}, but the classes are "
        f"{', '.join(wanted[:5])}: name every column after its class, or give them without names, in this order"
    )


def _refuse_other_classes(
    width: int, classes: Sequence[Any] | None, columns: Sequence[Any] | None, target_name: str | None
) -> None:
    """As many columns as classes; of two classes one column will do."""

    def shown(labels: Sequence[Any]) -> str:
        return wording.short(", ".join(map(str, labels)))

    if classes is not None and columns is not None and len(columns) != len(classes):
        raise InputError(
            f"the model predicts {len(columns)} classes ({shown(columns)}), and {len(classes)} are asked for "
            f"({shown(classes)}): give a model that was fitted on these"
        )
    if classes is not None and width != len(classes) and (width, len(classes)) != (1, 2):
        whose = "there are" if target_name is None else f'target "{target_name}" has'
        raise InputError(
            f"predictions have {width} columns, but {whose} {len(classes)} classes: "
            f"give one probability per class, in the order {', '.join(map(str, columns or classes))}"
        )


def _refuse_outside_unit_interval(probabilities: Floats, classes: Sequence[Any] | None) -> None:
    outside = (probabilities < -RANGE_SLACK) | (probabilities > 1.0 + RANGE_SLACK)
    if outside.any():
        values = np.unique(probabilities)
        if len(values) <= 2 and all(value in (classes or ()) for value in values.tolist()):
            said = ", ".join(f"{value:g}" for value in values)
            raise InputError(
                f"predictions are labels ({said}), not probabilities: give what predict_proba gives; {OF_LABELS}"
            )
        raise InputError(
            f"predictions of {int(outside.any(axis=1).sum())} rows lie outside 0..1 (they range from "
            f"{probabilities.min():.4g} to {probabilities.max():.4g}): classes need probabilities. "
            f"{_way_into_unit_interval(probabilities, classes)}."
        )


def _way_into_unit_interval(values: Floats, classes: Sequence[Any] | None) -> str:
    """Per cent are divided, scores go through a link; a target of labels has no other way."""
    several = values.shape[1] > 1
    link = "softmax" if several else "sigmoid or softmax"
    way = f"Apply the {link} first"
    if values.min() >= 0.0 and values.max() <= PER_CENT * (1.0 + RANGE_SLACK):
        way = f"Divide by {PER_CENT} if they are per cent, else apply the {link}"
    if not all(map(is_real, classes or ())):
        return way
    return (
        f"{way}; for a target of numbers give one column"
        if several
        else f"{way}, or pass {spelt('task', 'regression')}"
    )


def _summing_to_one(probabilities: Floats) -> Floats:
    """The probabilities; those of 16 bits, whose sums are rounded, are divided by them."""
    sums, short = probabilities.sum(axis=1), _of_16_bits(probabilities)
    bad = np.abs(sums - 1.0) > (SHORT_SUM_SLACK if short else SUM_SLACK)
    if bad.any():
        raise InputError(
            f"the probabilities of {int(bad.sum())} rows do not sum to 1 (sums range from {sums.min():.4g} to "
            f"{sums.max():.4g}): give one column per class, every row summing to 1"
        )
    return probabilities / sums[:, None] if short else probabilities


def _of_16_bits(values: Floats) -> bool:
    """Whether float16 or bfloat16 holds all of them, whatever holds them now: tables widen what they read."""
    single = values.astype(np.float32)
    if not np.array_equal(single, values):
        return False
    return bool(np.array_equal(single.astype(np.float16), single) or not np.any(single.view(np.uint32) & 0xFFFF))


def numbered(prefix: str, count: int) -> Names:
    """Names for columns that have none: z0, z1, ..."""
    return tuple(f"{prefix}{j}" for j in range(count))


def own_names(X: Any) -> Names | None:
    """The column names of a pandas, polars or pyarrow table; ``None`` for an array."""
    lazy = type(X).__name__.startswith("Lazy")  # which would have to be computed to know them
    names = None if lazy else getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else tuple(map(str, names))
