"""Heart disease: patients of four hospitals, who was found to have a narrowed vessel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate_all
from invariscope.datasets.sources import Url
from invariscope.reading.dataset import Dataset
from invariscope.reading.missing_values import fill
from invariscope.rows.settings import one_of, several

_HOME = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"


def _file(place: str, sha256: str, size: int) -> DataFile:
    name = f"processed.{place}.data"
    return DataFile(f"heart_disease/{name}", sha256, size, (Url(f"{_HOME}/{name}"),))


FILES = {
    "Cleveland": _file("cleveland", "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8", 18461),
    "Hungary": _file("hungarian", "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796", 10263),
    "Switzerland": _file("switzerland", "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314", 4109),
    "VA Long Beach": _file("va", "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f", 6737),
}
#: Names of the 13 features, in the order of the files (age, sex, cp, trestbps, chol, ... at UCI).
FEATURES = (
    *("age", "sex", "chest pain type", "resting blood pressure", "cholesterol", "fasting blood sugar > 120"),
    *("resting ECG", "maximum heart rate", "exercise angina", "ST depression", "ST slope", "major vessels", "thallium"),
)
# nobody has a blood pressure or a cholesterol of 0: these are gaps
_NEVER_ZERO = ["resting blood pressure", "cholesterol"]
_TARGET = "heart disease"


def heart_disease(missing: str = "impute-median", drop: Sequence[str] = ()) -> Dataset:
    """Patients of four hospitals: was a vessel of the heart found to be narrowed by more than half?

    The hospital is the environment: Cleveland (303 rows), Hungary (294), Switzerland (123), VA Long Beach (200). There
    is no split into training and test.

    Parameters
    ----------
    missing : what to do about missing values: "impute-median", "indicator", "drop-columns", "drop-rows" or "refuse",
        see :func:`invariscope.reading.missing_values.fill`. Only age, sex and chest pain type are complete. To drop
        rows, drop columns as well: only 299 of the 920 rows have all 13, two of them outside Cleveland
    drop : which of the 13 columns to leave out

    Returns
    -------
    Dataset : the 13 features of the processed files, ``y`` 1 for heart disease. ``notes`` say how many values are
        missing, by column and hospital, and what was done about them

    What it cannot tell: much about columns a hospital hardly recorded. Switzerland has no cholesterol at all, and
    Hungary next to no count of vessels; what is filled in there is the median of the others.

    Raises
    ------
    InputError : an option is unknown, values are missing and ``missing`` is "refuse", dropping rows leaves a hospital
        too few, or a file in INVARISCOPE_DATA is damaged
    DataUnavailable : a file cannot be had; the message says how to get it by hand

    References
    ----------
    Janosi, Steinbrunn, Pfisterer and Detrano (1989), Heart Disease, UCI Machine Learning Repository.

    >>> heart_disease(drop=["weight"])
    Traceback (most recent call last):
    invariscope.errors.InputError: feature "weight" is unknown: use "age", "sex", "chest pain type", ...
    """
    dropped = [one_of(name, "feature", FEATURES) for name in several(drop, "drop", '"age"')]
    tables = [
        pd.read_csv(located.path, header=None, names=[*FEATURES, _TARGET], na_values="?", dtype=np.float64)
        for located in locate_all([*FILES.values()])
    ]
    table = pd.concat(tables, ignore_index=True)
    env = pd.Series(np.repeat(list(FILES), [len(rows) for rows in tables]), name="hospital")
    y = (table.pop(_TARGET) > 0).astype(np.int64)
    table[_NEVER_ZERO] = table[_NEVER_ZERO].replace(0.0, np.nan)
    table = table[[name for name in FEATURES if name not in dropped]]
    X, done = fill(table, missing, env=env)
    return Dataset(
        X=X.reset_index(drop=True),
        y=y[X.index].reset_index(drop=True),
        env=env[X.index].reset_index(drop=True),
        columns=tuple(X.columns),
        description="Patients examined for heart disease: age in years, sex (1 male), chest pain type 1-4 (4: none), "
        "blood pressure in mm Hg, cholesterol in mg/dl, fasting blood sugar above 120 mg/dl (1 yes), resting ECG 0-2, "
        "maximum heart rate, angina on exercise (1 yes), ST depression on exercise, ST slope 1-3, major vessels seen "
        "0-3, thallium scan 3, 6 or 7. The target is 1 where a vessel is narrowed by more than half.",
        source="UCI Heart Disease, processed files of four hospitals",
        choices=_CHOICES,
        notes=(*_gaps(table, env), *done),
        target_name=_TARGET,
        env_name="hospital",
    )


_CHOICES = (
    "The diagnosis num is 0 or 1-4; the target is whether it is above 0. Hungary's file has 0 and 1 only.",
    "A cholesterol or blood pressure of 0 is a missing value, like ?.",
    "Chest pain type, resting ECG, ST slope and thallium scan are codes; they are left as numbers.",
    "Medians are those of all hospitals together; a code that is missing is filled with the median code.",
)

#: Hospitals in the order of the files.
_PUBLISHED = {
    "rows in": (303, 294, 123, 200),
    "rows of 0 in": (164, 188, 8, 51),
    "rows of 1 in": (139, 106, 115, 149),  # 55 + 36 + 35 + 13 and so on: the table of diagnoses 1 to 4
}

ENTRY = Entry(
    kind="table",
    title="Heart disease among patients of four hospitals",
    load=heart_disease,
    files=tuple(FILES.values()),
    licence="CC BY 4.0",
    reference="Janosi, Steinbrunn, Pfisterer and Detrano (1989), Heart Disease, UCI Machine Learning Repository, "
    "doi:10.24432/C52P4X",
    published=(
        Published("features", 13, "heart-disease.names"),
        *(
            Published(f"{what} {hospital}", count, "heart-disease.names")
            for what, counts in _PUBLISHED.items()
            for hospital, count in zip(FILES, counts, strict=True)
        ),
    ),
)


def _gaps(table: pd.DataFrame, env: pd.Series) -> list[str]:
    """How many values are missing, by column and hospital."""
    counts = table.isna().groupby(env).sum()
    return [
        f"{column}: {total} of {len(table)} values are missing ("
        + ", ".join(f"{hospital} {count}" for hospital, count in counts[column].items() if count)
        + ")."
        for column, total in counts.sum().items()
        if total
    ]
