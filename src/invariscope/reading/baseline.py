"""Predictions of a baseline for the rows of a table: columns of it, or what a fitted model from a file says of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from invariscope.errors import InputError
from invariscope.models.adapters import split
from invariscope.models.splits import Split
from invariscope.reading.dataset import Dataset
from invariscope.reading.options import ReadOptions
from invariscope.reading.read import read_with
from invariscope.rows.spelling import spelt

#: Endings of files; every other name is that of a column, unless there is such a file.
ENDINGS = (".skops", ".safetensors", ".pkl", ".pickle", ".joblib", ".onnx", ".pt", ".pth")


def is_model_file(given: str) -> bool:
    """Whether a file is meant, and not columns.

    >>> is_model_file("erm.skops"), is_model_file("erm risk"), is_model_file("p_no,p_yes")
    (True, False, False)
    """
    return Path(given).suffix.lower() in ENDINGS or Path(given).is_file()


def baseline_in(data: Dataset) -> Any:
    """The columns that were read along as the baseline's predictions, one, or one per class.

    Several are taken in the order of the classes, or by their names, where these are the classes.
    """
    columns = data.others.get("baseline")
    if columns is None:
        raise InputError(f"{spelt('baseline')} names no column: give one, or one per class with commas between them")
    if columns.shape[1] == 1:
        return columns.iloc[:, 0].to_numpy()
    classes = {str(label) for label in pd.unique(pd.Series(data.y))}
    return columns if classes <= {*map(str, columns.columns)} else columns.to_numpy()


def baseline_of_model(model: Any, source: str | os.PathLike[str], options: ReadOptions, model_name: str) -> Split:
    """What a fitted model predicts for the very rows that were read, from its own columns of the same file.

    Raises
    ------
    InputError : rows may have been left out for gaps in columns that only one of the two models reads; or the file is
        standard input, which cannot be read twice
    """
    if str(source) == "-":
        raise InputError(
            f"{model_name} ({spelt('baseline')}) reads the table as well, and standard input can be read only once: "
            "save the table in a file"
        )
    if options.missing == "drop-rows":
        raise InputError(
            f"{model_name} ({spelt('baseline')}) may read other columns, so that {spelt('missing', 'drop-rows')} would "
            f"drop other rows: pass {spelt('missing', 'impute-median')}, or its predictions as a column"
        )
    own = read_with(source, options, model=model, model_name=model_name)
    parts = split(model, rows=own.X)
    if not parts.predicts:
        return parts  # refused where all baselines are
    said = parts.predict(own.X)
    return Split(predict=said, task=parts.task, classes=parts.classes, probabilistic=parts.probabilistic)
