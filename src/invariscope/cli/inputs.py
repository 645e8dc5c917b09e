"""From options and a table to what `invariscope.audit` takes: a model or none, its inputs, and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.cli.columns import NamedTable, quoted, some
from invariscope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


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
    task: str = "auto"
    trust_pickle: bool = False
    trust: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Prepared:
    """Arguments of :func:`invariscope.audit`, and what was left out of the table on the way."""

    model: Any
    X: pd.DataFrame
    y: pd.Series
    env: pd.Series
    weight: pd.Series | None
    task: str
    notes: tuple[str, ...]


def prepare(table: NamedTable, wanted: Wanted) -> Prepared:
    """Find the columns, load or build the model, and keep only what it reads."""
    roles = _roles(table, wanted)
    if wanted.weight is not None and table.kinds([wanted.weight])[wanted.weight] != "numbers":
        raise InputError(f'column "{wanted.weight}" (--weight) does not hold numbers: weights count rows')
    dropped = table.columns(wanted.drop, "--drop")
    features = table.columns(wanted.features, "--features")
    _refuse_contradictions(roles, features, dropped)
    rest = features or [name for name in table.frame.columns if name not in roles and name not in dropped]
    model: Any = None
    notes: tuple[str, ...] = ()
    if wanted.model is not None:
        model, columns = _model_from_file(table, wanted, rest, set(dropped), bool(features))
    else:
        columns, notes = _numbers(table, rest, named=bool(features))
        if wanted.prediction is not None:
            model = _model_of_predictions(table, wanted, wanted.prediction)
        elif not columns:
            raise InputError(
                f"{table.path.name} has no column of numbers besides {' and '.join(quoted(list(roles)))}: "
                "encode text as numbers, or give --prediction"
            )
    return Prepared(
        model=model,
        X=table.frame[columns],
        y=table.frame[wanted.target],
        env=table.frame[wanted.env],
        weight=None if wanted.weight is None else table.frame[wanted.weight],
        task=wanted.task,
        notes=notes,
    )


def _roles(table: NamedTable, wanted: Wanted) -> dict[str, str]:
    """Columns with a part of their own, and the option that gave it to them."""
    roles: dict[str, str] = {}
    chosen = {
        "--target": wanted.target,
        "--env": wanted.env,
        "--weight": wanted.weight,
        "--prediction": wanted.prediction,
    }
    for option, name in chosen.items():
        if name is None:
            continue
        table.column(name, option)
        if name in roles:
            raise InputError(f'column "{name}" is both {roles[name]} and {option}: name two columns')
        roles[name] = option
    return roles


def _refuse_contradictions(roles: dict[str, str], features: list[str], dropped: list[str]) -> None:
    for names, option in ((features, "--features"), (dropped, "--drop")):
        both = [name for name in names if name in roles]
        if both:
            raise InputError(f'column "{both[0]}" is {roles[both[0]]}: take it out of {option}')
    both = [name for name in features if name in dropped]
    if both:
        raise InputError(f'column "{both[0]}" is in --features and in --drop: take it out of one')


def _numbers(table: NamedTable, names: list[str], *, named: bool) -> tuple[list[str], tuple[str, ...]]:
    """Columns of numbers; others are left out with a remark, or refused if the user asked for them by name."""
    kinds = table.kinds(names)
    others = {kind: [n for n in names if kinds[n] == kind] for kind in ("text", "dates", "nested values")}
    for kind, found in others.items():
        if found and named:
            raise InputError(
                f'column "{found[0]}" (--features) is {kind}: encode it as numbers (one-hot for categories) or leave '
                "it out"
            )
    notes = tuple(f"Left out because they are {kind}: {some(found)}." for kind, found in others.items() if found)
    return [name for name in names if kinds[name] == "numbers"], notes


def _model_of_predictions(table: NamedTable, wanted: Wanted, name: str) -> Any:
    """A model known only by its predictions, in one column."""
    from invariscope import Environments, Split
    from invariscope.targets import target_of

    if table.kinds([name])[name] != "numbers":
        raise InputError(
            f'column "{name}" (--prediction) does not hold numbers: give the predicted value, or for two classes the '
            "probability of the second"
        )
    frame = table.frame
    data = Environments(
        frame[[name]], frame[wanted.target], frame[wanted.env], target_name=wanted.target, env_name=wanted.env
    )
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


def _model_from_file(
    table: NamedTable, wanted: Wanted, columns: list[str], dropped: set[str], named: bool
) -> tuple[Any, list[str]]:
    """The model, and the columns it reads in the order it reads them."""
    from invariscope.model_files import load_model

    assert wanted.model is not None
    model = load_model(wanted.model, trust_pickle=wanted.trust_pickle, trusted=wanted.trust)
    file = wanted.model.name
    if hasattr(model, "feature_names_in_"):
        return model, _fitted_columns(
            table, wanted, file, [str(n) for n in model.feature_names_in_], columns, dropped, named
        )
    count = getattr(model, "n_features_in_", len(columns))
    if count != len(columns):
        raise InputError(
            f"{file} was fitted on {count} columns without names, {len(columns)} are given ({some(columns)}): "
            "name them with --features, in the order of the fit"
        )
    return model, columns


def _fitted_columns(
    table: NamedTable, wanted: Wanted, file: str, fitted: list[str], given: list[str], dropped: set[str], named: bool
) -> list[str]:
    absent = [name for name in fitted if name not in table.frame.columns]
    if absent:
        raise InputError(f"{file} was fitted on columns that {table.path.name} lacks: {some(absent)}")
    if wanted.target in fitted:
        raise InputError(f'{file} reads column "{wanted.target}", which is the target: fit it without')
    if named and set(given) != set(fitted):
        raise InputError(f"{file} was fitted on {some(fitted)}: leave out --features, or name exactly these")
    if dropped & set(fitted):
        raise InputError(f'{file} reads column "{min(dropped & set(fitted))}": take it out of --drop')
    return fitted
