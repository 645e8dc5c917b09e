"""The rows an estimator is given: what scikit-learn would take for numbers, or refuse in other words, is told here."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from invariscope.errors import InputError
from invariscope.reading.named_table import some
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.blocks import refuse_out_of_range
from invariscope.rows.digits import notes_on_lost_digits
from invariscope.rows.not_tables import refuse_masked, refuse_no_table
from invariscope.rows.tables import array_of, matrix_of, vector_of

#: What scikit-learn refuses without saying what to do, by some of its words, and what to do.
REMEDIES = {
    "Input X contains": "fill in what is missing, or drop those rows",
    "Input y contains": "fill in what is missing, or drop those rows",
    "Complex data": "give real and imaginary parts as columns of their own",
    "inconsistent numbers of samples": "give one target per row",
    "sample(s)": "give at least as many rows",
    "feature(s)": "give at least one column",
    "Found array with dim": "give a table of rows x columns",
    "requires y": "pass y=, one target per row",
    "y should be a 1d array": "choose one of its columns",
    "features, but": "give the columns it was fitted on",
    "feature names should match": "give the columns it was fitted on, in their order",
}


def refuse_unreadable(X: Any, y: Any = None, numeric: bool = False) -> None:
    """Texts, dates, sparse matrices and what a mask hides, by name; a ``numeric`` target must hold numbers."""
    for name, values in (("X", X), ("y", y)):
        if issparse(values):
            raise InputError(f"{name} is a sparse matrix, and rows are trained on as they are: give {name}.toarray()")
        if values is not None:
            refuse_no_table(values, name, table=name == "X")
        refuse_masked(values, name)
    if hasattr(X, "columns") or getattr(getattr(X, "dtype", None), "kind", "") in "mM":
        _, names = matrix_of(X)  # which names the column that holds text or dates
        twice = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
        if twice:
            raise InputError(f'X has several columns called "{twice[0]}": rename all but one')
    if numeric and y is not None:
        _refuse_unless_numbers(y)


def _refuse_unless_numbers(y: Any) -> None:
    kind = array_of(y, "y", table=False).dtype.kind
    if kind in "mM":
        raise InputError("y holds dates or durations: turn it into numbers (days, say)")
    if kind in "cV":
        vector_of(y, "y")  # which says what to give instead
    values = np.asarray(y, dtype=object).ravel() if kind in "OUST" else ()
    others = (value for value in values if not isinstance(value, Number) and value is not None and value is not pd.NA)
    for other in others:
        what = "text" if isinstance(other, str) else f"a {type(other).__name__}"
        raise InputError(f"y holds {what}: use InvariantClassifier for classes, or turn it into numbers")
    if len(values) and not np.isfinite(vector_of(y, "y")[0].astype(np.float64)).all():
        raise InputError("y has missing or infinite values: fill them in or drop those rows")


def validated(estimator: Any, X: Any, **options: Any) -> Any:
    """What scikit-learn asks of rows; a refusal is one line, and of missing values it names the columns."""
    try:
        return validate_data(estimator, X, dtype=(np.float64, np.float32), **options)
    except TypeError as error:
        raise NotNumbersError(_with_remedy(str(error), X)) from error
    except (ValueError, OverflowError) as error:
        raise InputError(_with_remedy(str(error), X)) from error


class NotNumbersError(InputError, TypeError):
    """What can be no number at all: a TypeError, as scikit-learn asks of its estimators."""


def _with_remedy(message: str, X: Any) -> str:
    # without the numbers themselves, which it lists line after line; names of columns come after dashes
    lines = [line for line in message.splitlines() if line[:1].isalpha() or line.startswith("- ")]
    said = " ".join(line for line in lines if not line.startswith("array="))
    if said.startswith("could not convert string"):
        matrix_of(X)  # which names the column
    if said.startswith("Input X contains"):
        said = f"{lines[0].rstrip('.')}{_where(X)}"
    remedy = next((remedy for words, remedy in REMEDIES.items() if words in said), None)
    return f"{(said or message).rstrip('.')}: {remedy or 'give a table of numbers, rows x columns'}"


def _where(X: Any) -> str:
    """The columns that hold missing or infinite values."""
    values, names = matrix_of(X)
    bad = ~np.isfinite(values)
    return f" ({some([f'{name} {count:,}' for name, count in zip(names, bad.sum(axis=0), strict=True) if count])})"


def refuse_magnitudes_of(X: Array, columns: Sequence[str], y: Floats | None) -> tuple[str, ...]:
    """Refuse columns, or a numeric target, too far from 1 to compute with; notes on those that have lost their digits.

    The bounds are those of an audit, which could not judge such a model either.
    """
    named = [f'column "{name}"' for name in columns]
    notes: tuple[str, ...] = ()
    for values, names in ((X, named), *([] if y is None else [(np.asarray(y)[:, None], ["y"])])):
        for name, size in zip(names, np.abs(values).max(axis=0).tolist(), strict=True):
            refuse_out_of_range(size, name)
        notes += notes_on_lost_digits(values, names)
    return notes
