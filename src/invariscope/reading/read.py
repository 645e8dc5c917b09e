"""`read`: a file or a table → features that are all numbers, a target and environments, ready for `audit`."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from invariscope.errors import InputError
from invariscope.models.adapters import is_network
from invariscope.models.splits import Split
from invariscope.reading.dataset import Dataset
from invariscope.reading.options import ReadOptions, names_of
from invariscope.rows.settings import shown
from invariscope.rows.spelling import spelt

if TYPE_CHECKING:
    from invariscope.reading.named_table import NamedTable


def read(
    path: str | os.PathLike[str] | Any,
    *,
    target: str,
    env: str,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
    categories: str | Sequence[str] = (),
    missing: str = "refuse",
    na: str | Sequence[str] = (),
    env_bins: str | int | Sequence[float] | None = None,
    drop_env: Hashable | Sequence[Hashable] = (),
    prediction: str | None = None,
    model: Any = None,
) -> Dataset:
    """Read a table: ``iv.audit(model, *iv.read("heart.csv", target="disease", env="hospital"))``.

    Numbers stay, true/false becomes 1/0, and text becomes one column of 0 and 1 per level ("workclass=Private").
    Numbers written as text (decimal commas, thousands, percent signs) and dates such as 31.05.2024 are read where there
    is one way to. Dates, nested values, and texts with more than 100 levels or one for more than every second row are
    left out. Whatever was left out, filled in or read in a way that could have been another is in ``.notes``, and so
    are features that tell the environment or the target under another name.

    Parameters
    ----------
    path : a CSV, TSV, Parquet, Feather or Arrow file, "-" for standard input, or a pandas, polars or pyarrow table
    target : the column that is predicted
    env : the column that says where a row comes from: site, year, camera, ...
    features : columns to use (default: all others)
    drop : columns not to use
    categories : columns of codes, to be treated as text is
    missing : what to do about missing values: "refuse" them, "drop-rows", "drop-columns", "impute-median" (the most
        frequent value in text), "indicator" (the same, with a column "chol missing" beside; in text a level) or "keep"
        (left to a ``model`` that fills them in by itself). All but the first leave out rows without target or
        environment.
        See :func:`invariscope.reading.missing_values.fill` for what that can hide.
    na : texts that mean "missing" besides "?", "NA" and the like in columns of numbers: ``"-"``, ``["n.d.", "-9"]``
    env_bins : group the environments: "year", "quarter", "month", "week", "day", "month-of-year", "weekday" or
        "hour-of-day" of a date; a number of groups of about equal size; or edges, as in ``(30, 50, 65)``
    drop_env : environments to leave out, by label, as they are called when grouped: ``"Oslo"``, ``["2019", "2020"]``
    prediction : a column of predictions, handed on as ``.others["prediction"]``: numbers, or for two classes the
        probability of the second. Nothing has to be made of the other columns then, so they may have gaps
    model : a fitted model, or its split: ``X`` gets the columns it was fitted on, in its order. If it was fitted on
        what this function read, they are encoded as they were then, and 0 for levels that no row has; else they stay
        as they are in the table, but for numbers written as text that it cannot read

    Returns
    -------
    Dataset : unpacks into ``X`` (a pandas table; of float64 unless a model encodes for itself), ``y`` and ``env``

    It cannot tell codes from amounts (say ``categories=``), numbers that stand for something missing (-9, 999) from
    numbers (say ``na=``), or a feature from something that nearly gives the target away (``drop=`` it).

    Raises
    ------
    InputError : no such file or column, missing values, a named feature that cannot be one, or columns that the
        model was fitted on and the table lacks, or of which it holds something else; with the remedy

    >>> import pandas as pd
    >>> table = pd.DataFrame({"ill": [0, 1, 1, 0], "age": [40, 71, 64, 30], "sex": list("fmmf"),
    ...                       "day": pd.to_datetime(["2024-05-31", "2024-06-01", "2025-01-01", "2025-02-01"])})
    >>> data = read(table, target="ill", env="day", env_bins="year")
    >>> data.columns, data.env.tolist()
    (('age', 'sex=f', 'sex=m'), ['2024', '2024', '2025', '2025'])
    """
    _refuse_no_model(model)
    options = ReadOptions(
        target=target,
        env=env,
        features=None if features is None else names_of(features, "features"),
        drop=names_of(drop, "drop"),
        categories=names_of(categories, "categories"),
        missing=missing,
        na=names_of(na, "na"),
        env_bins=env_bins,
        drop_env=drop_env,
        prediction=prediction,
    )
    options.refuse_two_models(model)
    return read_with(path, options, model=model)


def read_with(
    source: str | os.PathLike[str] | Any, options: ReadOptions, *, model: Any = None, model_name: str = "the model"
) -> Dataset:
    """Read a table with all options in one object; ``model_name`` is what messages call the model."""
    from invariscope.reading.model_columns import tidy_for_model
    from invariscope.reading.named_table import NamedTable
    from invariscope.reading.tidy_table import tidy

    table = NamedTable.of(source, options)
    options = replace(options, baseline=tuple(table.columns(options.baseline, "baseline")))
    table.check_roles(options)
    _refuse_kinds(table, options)
    names = table.features(options)
    if model is None:
        tidied = tidy(table, options, names)
    else:
        tidied = tidy_for_model(table, options, names, model, model_name)
    if not tidied.columns and options.prediction is None:
        besides = " and ".join(f'"{name}"' for name in options.roles)
        said = " ".join([*tidied.notes, "Give it a column of numbers or categories."])
        raise InputError(f"{table.name} has no feature besides {besides}. {said}")
    is_file = isinstance(source, str | os.PathLike)
    return replace(tidied, source=str(source) if is_file else f"a {type(source).__module__.split('.')[0]} table")


def _refuse_no_model(model: Any) -> None:
    """What is given as a model must be able to do something with columns."""
    if isinstance(model, str | os.PathLike):
        raise InputError(f"model is the path {model}: give the fitted model itself")
    fitted = isinstance(model, Split) or any(hasattr(model, name) for name in ("predict", "feature_names_in_"))
    works = (fitted or callable(model) or is_network(model)) and not isinstance(model, type)
    if model is not None and not works:
        raise InputError(
            f"model is {shown(model)}, which reads no columns: give the fitted model itself, or name a column of its "
            "predictions with prediction="
        )


def _refuse_kinds(table: NamedTable, options: ReadOptions) -> None:
    """Weights and predictions are numbers; target and environments are what a label can be."""
    from invariscope.reading.read_table import kind_of

    meanings = {
        "weight": "weights count rows, name a column of numbers",
        "prediction": "give the predicted value, or for two classes the probability of the second",
        "baseline": "give what the baseline predicts: numbers, or probabilities of classes",
    }
    for name, option in options.roles.items():
        kind, column = kind_of(table.frame[name]), f'column "{name}" ({spelt(option)})'
        if option in meanings and kind != "numbers":
            raise InputError(f"{column} does not hold numbers: {meanings[option]}")
        if kind == "nested values":
            raise InputError(f"{column} holds nested values: name a column of labels")
