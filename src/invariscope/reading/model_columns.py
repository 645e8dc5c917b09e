"""A table as a fitted model reads it, its columns in its order and its encoding; or the column of its predictions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from invariscope.errors import InputError
from invariscope.models.splits import Split, SplitsItself
from invariscope.reading.dataset import Dataset
from invariscope.reading.named_table import NamedTable, some
from invariscope.reading.options import ReadOptions
from invariscope.reading.tidy_table import tidy
from invariscope.rows.environments import Environments
from invariscope.rows.targets import target_of_columns


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
    model : says what it was fitted on with ``feature_names_in_`` or ``n_features_in_``; one that does not reads all
    model_name : what messages call it

    It cannot tell whether columns of the same name hold the same things as those of the fit.

    Raises
    ------
    InputError : columns are lacking, the model reads the target, or an option would change what it was fitted on
    """
    encoded = _encoded_columns(table, options, model)
    if encoded:
        tidied = tidy(table, options, _sources(table, options, names, encoded, model_name))
        return _as_fitted(tidied, encoded, table, model_name)
    _refuse_changes(options)
    if hasattr(model, "feature_names_in_"):
        names = _named_columns(table, options, names, [str(name) for name in model.feature_names_in_], model_name)
    elif getattr(model, "n_features_in_", len(names)) != len(names):
        raise InputError(
            f"{model_name} was fitted on {model.n_features_in_} columns without names, {len(names)} are given "
            f"({some(names)}): name them with {options.spell('features')}, in the order of the fit"
        )
    return tidy(table, options, names, encode=False)


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
    column, option = data.others["prediction"].to_frame(), options.spell("prediction")
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
            f"give the model itself with {options.spell('model')}, or {options.spell('task', 'regression')} if these "
            "are amounts"
        )
    low, high = float(rows.X.min()), float(rows.X.max())
    if low < 0 or high > 1:
        raise InputError(
            f'column "{name}" ({option}) runs from {low:g} to {high:g}: for target "{data.target_name}" with the '
            f'classes {labels} it must hold the probability of "{target.classes[1]}", from 0 to 1'
        )
    return Split(predict=predictions, task="classification", classes=target.classes, name=words)


# --- models fitted on an encoded table --------------------------------------------------------------------------------
def _encoded_columns(table: NamedTable, options: ReadOptions, model: Any) -> list[str]:
    """What the model was fitted on, if that is a table as `invariscope.read` makes it ("workclass=Private").

    Our own estimators read numbers and nothing else, so a table is read for them as it was for their training.
    """
    fitted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(model, SplitsItself) and not set(fitted) & set(options.roles):
        return fitted
    absent = [name for name in fitted if name not in table.frame.columns]
    is_encoded = absent and all(any(_made_of(name, str(column)) for column in table.frame.columns) for name in absent)
    return fitted if is_encoded else []


def _made_of(name: str, column: str) -> bool:
    """Whether reading the column gives one of this name: itself, a level of its own, or where it is missing."""
    return name in (column, f"{column} missing") or name.startswith(f"{column}=")


def _sources(
    table: NamedTable, options: ReadOptions, names: list[str], fitted: Sequence[str], model_name: str
) -> list[str]:
    """The columns an encoded table was made of: gaps in others are nobody's business."""
    excluded = [name for name in fitted if name in table.frame.columns and name not in names]
    if excluded:
        spell = options.spell
        add, take_out = f"name it in {spell('features')} as well", f"take it out of {spell('drop')}"
        raise InputError(f'{model_name} reads column "{excluded[0]}": {add if options.features else take_out}')
    sources = {name: [column for column in names if _made_of(name, column)] for name in fitted}
    # a name in brackets, because another column was called so: nobody can tell
    if options.features or not all(sources.values()):
        return names
    needed = {*table.columns(options.categories, "categories"), *chain.from_iterable(sources.values())}
    return [column for column in names if column in needed]


def _as_fitted(tidied: Dataset, fitted: Sequence[str], table: NamedTable, model_name: str) -> Dataset:
    """Columns of 0 for levels the model knows and this table has no row of; a word on levels it does not know."""
    features = tidied.X
    texts = {_text(name) for name in features.columns if "=" in name and name not in table.frame.columns}
    known = {_text(name) for name in fitted if "=" in name}
    absent = [name for name in fitted if name not in features.columns and _text(name) in texts]
    new = [name for name in features.columns if name not in set(fitted) and _text(name) in texts & known]
    notes = [f"No row has {some(absent)}, which the model knows: columns of 0."] if absent else []
    notes += [f"The model has never seen {some(new)}: those rows have none of the levels it knows."] if new else []
    features = features.assign(**dict.fromkeys(absent, 0.0))
    _refuse_absent(table, fitted, features.columns, model_name)
    return replace(tidied, X=features[list(fitted)], columns=tuple(fitted), notes=(*tidied.notes, *notes))


def _text(name: str) -> str:
    """The column of text that a level belongs to."""
    return name.partition("=")[0]


# --- models that encode for themselves --------------------------------------------------------------------------------
def _refuse_changes(options: ReadOptions) -> None:
    """A model reads the columns it was fitted on, as they are: none may come, go or change its type."""
    spell = options.spell
    model = spell("model") if spell.shell else "model"
    if options.categories:
        raise InputError(f"{spell('categories')} is for columns that are audited themselves: a {model} encodes its own")
    if options.missing in ("indicator", "drop-columns"):
        what = "adds columns to" if options.missing == "indicator" else "takes columns from"
        raise InputError(
            f"{spell('missing', options.missing)} {what} those the {model} was fitted on: choose drop-rows or "
            "impute-median"
        )


def _named_columns(
    table: NamedTable, options: ReadOptions, names: list[str], fitted: list[str], model_name: str
) -> list[str]:
    """The columns a model reads, in the order it reads them."""
    spell, dropped = options.spell, set(table.columns(options.drop, "drop"))
    _refuse_absent(table, fitted, table.frame.columns, model_name)
    if options.target in fitted:
        raise InputError(f'{model_name} reads column "{options.target}", which is the target: fit it without')
    if options.features and set(names) != set(fitted):
        raise InputError(
            f"{model_name} was fitted on {some(fitted)}: leave out {spell('features')}, or name exactly these"
        )
    if dropped & set(fitted):
        raise InputError(f'{model_name} reads column "{min(dropped & set(fitted))}": take it out of {spell("drop")}')
    return fitted


def _refuse_absent(table: NamedTable, fitted: Sequence[str], there: Collection[str], model_name: str) -> None:
    absent = [name for name in fitted if name not in there]
    if absent:
        raise InputError(f"{model_name} was fitted on columns that {table.name} lacks: {some(absent)}")
