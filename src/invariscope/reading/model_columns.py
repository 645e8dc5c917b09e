"""A table as a fitted model reads it, its columns in its order and its encoding; or the column of its predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from invariscope.errors import InputError
from invariscope.models.splits import Split, SplitsItself
from invariscope.reading.dataset import Dataset
from invariscope.reading.encoding import Origin
from invariscope.reading.fitted_columns import FittedColumns, candidates, refuse_absent
from invariscope.reading.named_table import NamedTable, some
from invariscope.reading.options import ReadOptions
from invariscope.reading.read_table import kind_of
from invariscope.reading.text_columns import TextRemarks, cleaned, without
from invariscope.reading.tidy_table import tidy
from invariscope.rows.environments import Environments
from invariscope.rows.spelling import spelling, spelt
from invariscope.rows.targets import target_of_columns

#: Rows that tell whether a model can read a table.
ROWS_TRIED = 1000


def tidy_for_model(
    table: NamedTable, options: ReadOptions, names: list[str], model: Any, model_name: str = "the model"
) -> Dataset:
    """The table with the columns that a fitted model reads, and no others.

    Where the model was fitted on a table that :func:`invariscope.read` made, the columns are encoded in the same way;
    levels that only one of the two tables has are noted. Any other model gets its columns as they are in the table.

    Parameters
    ----------
    table, options : as in :func:`invariscope.reading.tidy_table.tidy`
    names : the columns that may be read
    model : says what it was fitted on with ``feature_names_in_`` or ``n_features_in_``; one that does not reads all.
        Of a split it is the model that was split
    model_name : what messages call it

    It cannot tell whether columns of the same name hold the same things as those of the fit.

    Raises
    ------
    InputError : columns are lacking, the model reads the target, or an option would change what it was fitted on
    """
    if isinstance(model, Split) and model.model is not None:
        model = model.model
    fitted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    # our own estimators read numbers and nothing else: a table is read for them as it was for their training
    if (fitted and isinstance(model, SplitsItself)) or any(candidates(fitted, table.frame.columns).values()):
        return _tidy_as_fitted(table, options, names, fitted, model_name)
    _refuse_changes(options)
    if fitted:
        names = _named_columns(table, options, names, fitted, model_name)
    elif getattr(model, "n_features_in_", len(names)) != len(names):
        raise InputError(
            f"{model_name} was fitted on {model.n_features_in_} columns without names, {len(names)} are given "
            f"({some(names)}): name them with {spelt('features')}, in the order of the fit"
        )
    tidied = tidy(table, options, names, encode=False)
    if not _reads(model, tidied.X):
        tidied = tidy(_with_numbers(table, options, names), options, names, encode=False)
    if options.missing == "keep":
        _refuse_gaps(model, tidied.X, options, model_name)
    return tidied


def model_of_predictions(data: Dataset, options: ReadOptions, task: str = "auto") -> Split:
    """The predictions that were read along with the rows, as a model of these rows.

    Parameters
    ----------
    data : rows that were read with the options
    options : ``prediction`` names the column: numbers, or for two classes the probability of the second
    task : "auto", "regression" or "classification"

    Raises
    ------
    InputError : the target has more than two classes, or what should be probabilities is not between 0 and 1
    """
    column, option = data.others["prediction"].to_frame(), spelt("prediction")
    name = str(options.prediction)
    rows = Environments(column, data.y, data.env, target_name=data.target_name, env_name=data.env_name)
    target = target_of_columns(rows, task, columns=1)
    words = f'the predictions in column "{name}"'
    predictions = rows.original(rows.X[:, 0])
    if target.task == "regression":
        return Split(predict=predictions, columns=[name], task="regression", name=words)
    labels = ", ".join(map(str, target.classes))
    if target.task != "binary":
        raise InputError(
            f'{option} is one column, but target "{data.target_name}" has {len(target.classes)} classes ({labels}): '
            f"give the model itself with {spelt('model')}, or {spelt('task', 'regression')} if these "
            "are amounts"
        )
    low, high = float(rows.X.min()), float(rows.X.max())
    if low < 0 or high > 1:
        raise InputError(
            f'column "{name}" ({option}) runs from {low:g} to {high:g}: for target "{data.target_name}" with the '
            f'classes {labels} give the probability of "{target.classes[1]}", from 0 to 1'
        )
    return Split(predict=predictions, task="classification", classes=target.classes, name=words)


# --- models fitted on an encoded table --------------------------------------------------------------------------------
def _tidy_as_fitted(
    table: NamedTable, options: ReadOptions, names: list[str], fitted: list[str], model_name: str
) -> Dataset:
    """The table as `invariscope.read` made that of the fit ("workclass=Private")."""
    readable = {*names, *options.roles}
    read = {name: [Origin(name)] if name in table.frame.columns else [] for name in fitted}
    read |= candidates(fitted, table.frame.columns)
    excluded = [given[0].column for given in read.values() if given and readable.isdisjoint(o.column for o in given)]
    if excluded:
        add, take_out = f"name it in {spelt('features')} as well", f"take it out of {spelt('drop')}"
        raise InputError(f'{model_name} reads column "{excluded[0]}": {add if options.features else take_out}')
    table.columns(options.categories, "categories")
    columns = FittedColumns.traced(fitted, readable, table, model_name)
    _refuse_target(columns.reads, options, model_name)
    gaps = [name for name, origin in columns.origins.items() if origin.rest == " missing"]
    if gaps and options.missing == "impute-median":
        raise InputError(
            f'{model_name} reads "{gaps[0]}", which {spelt("missing", options.missing)} does not tell: pass '
            f"{spelt('missing', 'indicator')}"
        )
    # which columns are categories is up to the model
    return tidy(table, replace(options, categories=columns.codes), columns.reads, encode=columns.encode)


# --- models that encode for themselves --------------------------------------------------------------------------------
def _refuse_changes(options: ReadOptions) -> None:
    """A model reads the columns it was fitted on, as they are: none may come, go or change its type."""
    model = spelling().name("model")
    if options.categories:
        raise InputError(
            f"{spelt('categories')} is for columns that are audited themselves: a {model} encodes its own, leave it out"
        )
    if options.missing in ("indicator", "drop-columns"):
        what = "adds columns to" if options.missing == "indicator" else "takes columns from"
        raise InputError(
            f"{spelt('missing', options.missing)} {what} those the {model} was fitted on: choose drop-rows or "
            "impute-median"
        )


def _named_columns(
    table: NamedTable, options: ReadOptions, names: list[str], fitted: list[str], model_name: str
) -> list[str]:
    """The columns a model reads, in the order it reads them."""
    dropped = set(table.columns(options.drop, "drop"))
    refuse_absent(table, fitted, table.frame.columns, model_name)
    _refuse_target(fitted, options, model_name)
    if options.features and set(names) != set(fitted):
        raise InputError(
            f"{model_name} was fitted on {some(fitted)}: leave out {spelt('features')}, or name exactly these"
        )
    if dropped & set(fitted):
        raise InputError(f'{model_name} reads column "{min(dropped & set(fitted))}": take it out of {spelt("drop")}')
    return fitted


def _reads(model: Any, X: Any) -> bool:
    """Whether a model makes something of the texts in a table; only an encoder of its own can."""
    if not hasattr(model, "n_features_in_") or all(kind_of(column) != "text" for _, column in X.items()):
        return True
    try:
        with warnings.catch_warnings(action="ignore"):  # a model fitted on an array is given a table
            model.predict(X.head(ROWS_TRIED))
    except Exception:  # a model from a file can fail anywhere; its own words come when it predicts
        return False
    return True


def _refuse_gaps(model: Any, X: Any, options: ReadOptions, model_name: str) -> None:
    """Gaps may stay where a model makes something of them."""
    gaps = X[X.isna().any(axis=1)].head(ROWS_TRIED)
    if gaps.empty or not hasattr(model, "predict"):
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            model.predict(gaps)
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(
            f"{model_name} cannot predict rows with missing values, which {spelt('missing', 'keep')} leaves to "
            "it: choose drop-rows or impute-median"
        ) from error


def _with_numbers(table: NamedTable, options: ReadOptions, names: Sequence[str]) -> NamedTable:
    """The table with numbers where it has them as text; other texts stay as they are."""
    remarks, frame = TextRemarks(), table.frame
    texts = [without(frame[name], options.na, remarks) for name in names if kind_of(frame[name]) == "text"]
    columns = [cleaned(column, remarks) for column in texts]
    numbers = {str(column.name): column for column in columns if kind_of(column) == "numbers"}
    said = TextRemarks(missing=remarks.missing, numbers=remarks.numbers).notes()
    return replace(table, frame=frame.assign(**numbers), notes=(*table.notes, *said))


def _refuse_target(read: Sequence[str], options: ReadOptions, model_name: str) -> None:
    if options.target in read:
        raise InputError(f'{model_name} reads column "{options.target}", which is the target: fit it without')
