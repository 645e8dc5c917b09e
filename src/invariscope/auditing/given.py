"""What a user gives to audit: the model taken apart, and the rows in memory as that model reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.models.adapters import is_array, is_network, split
from invariscope.models.inputs import NO_TABLE, NamedInputs, holds_torch, no_loader
from invariscope.models.outputs import refuse_labels, row_count
from invariscope.models.splits import Split
from invariscope.rows.environments import Environments
from invariscope.rows.not_tables import refuse_no_rows
from invariscope.rows.tables import matrix_of
from invariscope.rows.targets import labels_in


def taken_apart(
    model: Any, X: Any, y: Any, env: Any, env_column: Any = None, target_name: str | None = None
) -> tuple[Split | None, Any, Any, Any]:
    """The model, ``None`` where columns are audited; the rows that it reads, their target and their environments."""
    rows = _rows_of_values(model, y, env) if X is None else X
    X, y, env = _in_memory(model, rows, y, env, env_column, target_name)
    if isinstance(X, np.ma.MaskedArray):  # models would read what is under the mask
        X = matrix_of(X)[0]
    if env is None and is_array(model):  # what looks like predictions may be the rows themselves
        raise InputError(
            "no environments given: the model comes first, iv.audit(model, X, y, env); None in its place audits the "
            "columns of X"
        )
    if model is not None:
        refuse_no_rows(X)
    split_model = None if model is None else _in_order_of_labels(split(model, rows=X), X, y, env)
    return split_model, _as_read(split_model, X), y, env


def _in_memory(model: Any, X: Any, y: Any, env: Any, env_column: Any, target_name: str | None) -> tuple[Any, Any, Any]:
    if env_column is not None and (isinstance(env_column, bool) or not isinstance(env_column, int | str)):
        raise InputError(
            f"env_column is {env_column!r}: give the number or the name of a column of a loader's metadata"
        )
    if env_column is not None and env is not None:
        raise InputError("env and env_column were both given: leave one of them out")
    named = isinstance(X, Mapping) and (is_network(model) or getattr(model, "network", None) is not None)
    if not named and not any(holds_torch(values) for values in (X, y, env)):
        if env_column is not None:
            raise no_loader(X, env_column)
        return X, y, env
    from invariscope.models.torch_rows import in_memory  # here: torch is an extra

    return in_memory(X, y, env, env_column=env_column, target=target_name)


def _rows_of_values(model: Any, y: Any, env: Any) -> Any:
    """What stands for the inputs where none are given: predictions suffice for all that rests on them."""
    if not is_array(model) or env is None:
        raise InputError(
            "X is None: a model is audited on the rows that it predicts, iv.audit(model, X, y, env); only predictions "
            "that were made before do without, iv.audit(predictions, None, y, env)"
        )
    refuse_labels(model)
    values = matrix_of(model)[0]
    for what, given in (("env", env), ("the target", y)):
        of_rows = isinstance(given, list | tuple) or len(getattr(given, "shape", ())) > 0
        if of_rows and len(given) != len(values):
            raise InputError(
                f"there are {len(values)} predictions, but {what} has {len(given)} rows: give one prediction per row"
            )
    return values


def _as_read(split_model: Split | None, X: Any) -> Any:
    """Of several named inputs the one array that the model reads, if it reads no more."""
    if not isinstance(X, NO_TABLE):
        return X
    if split_model is not None and split_model.network is not None:
        return split_model.network.plain(X)
    return X.alone if isinstance(X, NamedInputs) else X


def _in_order_of_labels(split_model: Split, X: Any, y: Any, env: Any) -> Split:
    """Columns of predictions that are named after classes, in the order of these."""
    if not split_model.names_columns or y is None:
        return split_model
    rows = Environments(np.zeros((row_count(X) or len(y), 1)), y, env)
    return split_model if rows.y is None else split_model.for_labels(labels_in(rows.y, rows.classes))
