"""From options and a table to what `invariscope.audit` takes: a model or none, its inputs, and remarks."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.errors import InputError
from invariscope.models.splits import SplitsItself
from invariscope.reading.named_table import NamedTable, quoted, some

if TYPE_CHECKING:
    import pandas as pd

    from invariscope.reading.tidy_table import TidyTable


@dataclass(frozen=True)
class Wanted:
    """The options that choose columns and model, as typed."""

    target: str
    env: str
    weight: str | None = None
    prediction: str | None = None
    model: Path | None = None
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    categories: Sequence[str] = ()
    missing: str = "refuse"
    na: Sequence[str] = ()
    env_bins: str | None = None
    drop_env: Sequence[str] = ()
    task: str = "auto"
    trust_pickle: bool = False
    trust: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """Arguments of :func:`invariscope.audit`, and what was done to the table on the way."""

    model: Any
    X: pd.DataFrame
    y: pd.Series
    env: pd.Series
    weight: pd.Series | None
    task: str
    notes: tuple[str, ...]


def prepare(table: NamedTable, wanted: Wanted) -> Prepared:
    """Find the columns, load or build the model, and bring what it reads into shape."""
    from invariscope.models.files import load_model
    from invariscope.reading.tidy_table import tidy

    roles = table.roles(target=wanted.target, env=wanted.env, weight=wanted.weight, prediction=wanted.prediction)
    _refuse_texts(table, wanted)
    names = table.features(roles, wanted.features, wanted.drop)
    model: Any = None
    encoded: list[str] = []
    notes: list[str] = []
    if wanted.model is not None:
        model = load_model(wanted.model, trust_pickle=wanted.trust_pickle, trusted=wanted.trust)
        encoded = _encoded_columns(table, model, roles)
        if encoded:
            names = _makings(table, wanted, encoded, names)
        else:
            _refuse_with_model(wanted)
            names = _model_columns(table, wanted, wanted.model.name, model, names)
    found = tidy(
        table,
        roles,
        names,
        categories=wanted.categories,
        missing=wanted.missing,
        na=wanted.na,
        env_bins=None if wanted.env_bins is None else parsed_bins(wanted.env_bins),
        drop_env=wanted.drop_env,
        named=bool(wanted.features),
        encode=wanted.model is None or bool(encoded),
    )
    features = found.features
    if wanted.model is not None and encoded:
        features, notes = _as_fitted(features, encoded, table)
        _refuse_absent(table, wanted.model.name, encoded, features.columns)
        features = features[encoded]
    if wanted.prediction is not None:
        model = _model_of_predictions(found, wanted, wanted.prediction)
    elif not features.shape[1]:
        besides = " and ".join(quoted(list(roles)))
        raise InputError(f"{table.name} has no feature besides {besides}. {' '.join(found.notes)}".strip())
    return Prepared(
        model=model,
        X=features,
        y=found.target,
        env=found.env,
        weight=None if wanted.weight is None else found.others[wanted.weight],
        task=wanted.task,
        notes=(*found.notes, *notes),
    )


def parsed_bins(text: str) -> str | int | tuple[float, ...]:
    """What --env-bins means: a part of a date, a number of groups, or edges (one edge has a comma behind it).

    >>> parsed_bins("weekday"), parsed_bins("4"), parsed_bins("30, 50.5"), parsed_bins("30,")
    ('weekday', 4, (30.0, 50.5), (30.0,))
    """
    try:
        if "," in text:
            return tuple(float(part) for part in text.split(",") if part.strip())
        return int(text)
    except ValueError:
        return text


def how_to_drop(labels: Sequence[Hashable], env: pd.Series, wanted: Wanted) -> str:
    """The option to type, where an audit fails because of some environments.

    >>> import pandas as pd
    >>> sites = pd.Series([1, 2, 2], name="site")
    >>> how_to_drop([1], sites, Wanted(target="y", env="site"))
    ' To drop it, pass --drop-env 1; to group the values of site, pass --env-bins 4.'
    """
    from invariscope.reading.environment_bins import PROPOSED
    from invariscope.reading.read_table import kind_of
    from invariscope.reading.spelling import SHELL

    if not labels:
        return ""
    proposed = {"numbers": PROPOSED, "dates": "month"}.get(kind_of(env)) if wanted.env_bins is None else None
    grouped = "" if proposed is None else f"; to group the values of {wanted.env}, pass {SHELL('env_bins', proposed)}"
    what = "it" if len(labels) == 1 else "all of these"
    return f" To drop {what}, pass {SHELL('drop_env', [str(label) for label in labels])}{grouped}."


def _refuse_texts(table: NamedTable, wanted: Wanted) -> None:
    """Weights and predictions are numbers."""
    meanings = {
        "weight": (wanted.weight, "weights count rows"),
        "prediction": (
            wanted.prediction,
            "give the predicted value, or for two classes the probability of the second",
        ),
    }
    for option, (name, meaning) in meanings.items():
        if name is not None and table.kinds([name])[name] != "numbers":
            raise InputError(f'column "{name}" ({table.spell(option)}) does not hold numbers: {meaning}')


def _refuse_with_model(wanted: Wanted) -> None:
    """A model reads the columns it was fitted on, as they are: none may come, go or change its type."""
    if wanted.categories:
        raise InputError("--categories is for columns that are audited themselves: a --model encodes its own")
    if wanted.missing in ("indicator", "drop-columns"):
        what = "adds columns to" if wanted.missing == "indicator" else "takes columns from"
        raise InputError(
            f"--missing {wanted.missing} {what} those the --model was fitted on: choose drop-rows or impute-median"
        )


def _model_of_predictions(found: TidyTable, wanted: Wanted, name: str) -> Any:
    """A model known only by its predictions, in one column."""
    from invariscope import Environments, Split
    from invariscope.rows.targets import target_of

    data = Environments(found.others[[name]], found.target, found.env, target_name=wanted.target, env_name=wanted.env)
    target = target_of(data, wanted.task)
    words = f'the predictions in column "{name}"'
    if target.task == "regression":
        return Split(predict=data.original(data.X[:, 0]), columns=[name], task="regression", name=words)
    labels = ", ".join(map(str, target.classes))
    if target.task != "binary":
        raise InputError(
            f'--prediction is one column, but target "{wanted.target}" has {len(target.classes)} classes ({labels}): '
            "give the model itself with --model, or --task regression if these are amounts"
        )
    low, high = float(data.X.min()), float(data.X.max())
    if low < 0 or high > 1:
        raise InputError(
            f'column "{name}" (--prediction) runs from {low:g} to {high:g}: for target "{wanted.target}" with the '
            f'classes {labels} it must hold the probability of "{target.classes[1]}", from 0 to 1'
        )
    return Split(predict=data.original(data.X[:, 0]), task="classification", classes=target.classes, name=words)


def _encoded_columns(table: NamedTable, model: Any, roles: Collection[str]) -> list[str]:
    """What the model was fitted on, if that is a table as `invariscope.read` makes it ("workclass=Private").

    Our own estimators read numbers and nothing else, so a table is read for them as it was for their training.
    """
    fitted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if isinstance(model, SplitsItself) and not set(fitted) & set(roles):
        return fitted
    absent = [name for name in fitted if name not in table.frame.columns]
    makings = tuple(f"{column}=" for column in table.frame.columns)
    beside = {f"{column} missing" for column in table.frame.columns}
    return fitted if absent and all(name.startswith(makings) or name in beside for name in absent) else []


def _makings(table: NamedTable, wanted: Wanted, fitted: Sequence[str], columns: list[str]) -> list[str]:
    """The columns an encoded table was made of: gaps in others are nobody's business."""
    file = "the model" if wanted.model is None else wanted.model.name
    for name in fitted:
        if name in table.frame.columns and name not in columns:
            remedy = "name it in --features as well" if wanted.features else "take it out of --drop"
            raise InputError(f'{file} reads column "{name}": {remedy}')
    if wanted.features:
        return columns
    codes = table.columns(wanted.categories, "categories")
    made = {
        name: [column for column in columns if name in (column, f"{column} missing") or name.startswith(f"{column}=")]
        for name in fitted
    }
    if not all(made.values()):  # a name in brackets, because another column was called so: nobody can tell
        return columns
    needed = {column for found in made.values() for column in found}
    return [column for column in columns if column in needed or column in codes]


def _model_columns(table: NamedTable, wanted: Wanted, file: str, model: Any, columns: list[str]) -> list[str]:
    """The columns a model reads, in the order it reads them."""
    if hasattr(model, "feature_names_in_"):
        return _fitted_columns(table, wanted, file, [str(n) for n in model.feature_names_in_], columns)
    count = getattr(model, "n_features_in_", len(columns))
    if count != len(columns):
        raise InputError(
            f"{file} was fitted on {count} columns without names, {len(columns)} are given ({some(columns)}): "
            "name them with --features, in the order of the fit"
        )
    return columns


def _as_fitted(features: pd.DataFrame, fitted: Sequence[str], table: NamedTable) -> tuple[pd.DataFrame, list[str]]:
    """Columns of 0 for levels the model knows and this table has no row of; a word on levels it does not know."""
    texts = {name.partition("=")[0] for name in features.columns if "=" in name and name not in table.frame.columns}
    known = set(fitted)
    absent = [name for name in fitted if name not in features.columns and name.partition("=")[0] in texts]
    new = [name for name in features.columns if name not in known and name.partition("=")[0] in texts]
    new = [name for name in new if any(one.startswith(f"{name.partition('=')[0]}=") for one in fitted)]
    notes = [f"No row has {some(absent)}, which the model knows: columns of 0."] if absent else []
    notes += [f"The model has never seen {some(new)}: those rows have none of the levels it knows."] if new else []
    return features.assign(**dict.fromkeys(absent, 0.0)), notes


def _refuse_absent(table: NamedTable, file: str, fitted: Sequence[str], there: Collection[str]) -> None:
    absent = [name for name in fitted if name not in there]
    if absent:
        raise InputError(f"{file} was fitted on columns that {table.name} lacks: {some(absent)}")


def _fitted_columns(table: NamedTable, wanted: Wanted, file: str, fitted: list[str], given: list[str]) -> list[str]:
    dropped = set(table.columns(wanted.drop, "drop"))
    _refuse_absent(table, file, fitted, table.frame.columns)
    if wanted.target in fitted:
        raise InputError(f'{file} reads column "{wanted.target}", which is the target: fit it without')
    if wanted.features and set(given) != set(fitted):
        raise InputError(f"{file} was fitted on {some(fitted)}: leave out --features, or name exactly these")
    if dropped & set(fitted):
        raise InputError(f'{file} reads column "{min(dropped & set(fitted))}": take it out of --drop')
    return fitted
