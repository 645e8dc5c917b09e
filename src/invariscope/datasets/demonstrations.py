"""The two demonstrations: a model trained in one place, and the rows of another on which it is audited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from invariscope.datasets.images.colored import colored_digits
from invariscope.datasets.images.images import Images
from invariscope.datasets.tables.bike_sharing import BIKE_FEATURES, bike_sharing
from invariscope.reading.dataset import Dataset

#: Rain and snow, light or heavy: a few hours of heavy rain a year are no class of their own.
WEATHER = {1: "clear", 2: "mist", 3: "rain or snow", 4: "rain or snow"}
NAMES = {
    "hr": "hour",
    "workingday": "working day",
    "weathersit": "weather",
    "temp": "temperature",
    "hum": "humidity",
    "windspeed": "wind speed",
}
SIDE = 8


@dataclass(frozen=True, eq=False)
class Demonstration:
    """A fitted model, rows it has not seen, and two lines on what they are."""

    model: Any
    X: pd.DataFrame
    y: pd.Series
    env: pd.Series
    target_name: str
    env_name: str
    lines: tuple[str, str]


def bikes() -> Demonstration:
    """Rentals per hour by season: a linear model of their logarithm, trained on 2011, audited on 2012.

    On the scale of the logarithm the growth from one year to the next is a change of level, the same in all seasons.
    """
    rentals = bike_sharing(features=BIKE_FEATURES)
    train, test = rentals.train, rentals.test
    encode = ColumnTransformer(
        [
            ("time", _one_hot(_time_of_day), ["hour", "working day"]),
            ("weather", _one_hot(_weather), ["weather"]),
            ("numbers", StandardScaler(), ["temperature", "humidity", "wind speed"]),
        ],
        verbose_feature_names_out=False,
    )
    model = Pipeline([("encode", encode), ("predict", Ridge())]).fit(*_bike_rows(train))
    X, y = _bike_rows(test)
    return Demonstration(
        model=model,
        X=X,
        y=y,
        env=test.env,
        target_name="log rentals",
        env_name=test.env_name,
        lines=(
            "Bike rentals in Washington, D.C.: a linear model of their logarithm, by time of day and weather.",
            f"Trained on 2011, {len(train):,} hours; audited on 2012, {len(X):,} hours, by season.",
        ),
    )


def digits() -> Demonstration:
    """Is a handwritten digit below 5? Colour tells, too, but not in all environments to the same degree."""
    images = colored_digits()
    X, y, env = _ink(images), pd.Series(images.y), pd.Series(images.env)
    train = np.arange(len(X)) % 2 == 0  # rows come in random order within environments
    model = Pipeline([("scale", StandardScaler()), ("predict", LogisticRegression(max_iter=1000))])
    model.fit(X[train], y[train])
    return Demonstration(
        model=model,
        X=X[~train],
        y=y[~train],
        env=env[~train],
        target_name="below 5",
        env_name="environment",
        lines=(
            "Handwritten digits, red or green: a logistic model of whether a digit is below 5.",
            f"Trained on {train.sum():,} images; audited on {(~train).sum():,} others, by how often colour misleads.",
        ),
    )


def _bike_rows(rentals: Dataset) -> tuple[pd.DataFrame, pd.Series]:
    return rentals.X.rename(columns=NAMES), np.log(rentals.y)


def _one_hot(words: Any) -> Pipeline:
    """One column per distinct text, named by that text and nothing else."""
    return Pipeline(
        [
            ("words", FunctionTransformer(words, feature_names_out=lambda transformer, names: ["words"])),
            ("one_hot", OneHotEncoder(sparse_output=False, feature_name_combiner=lambda feature, text: text)),
        ]
    )


def _time_of_day(X: pd.DataFrame) -> pd.DataFrame:
    day = X["working day"].map({0: "on days off", 1: "on working days"})
    return pd.DataFrame({"words": X["hour"].astype(str) + ":00 " + day})


def _weather(X: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"words": X["weather"].map(WEATHER)})


def _ink(images: Images) -> pd.DataFrame:
    """Colour, and how dark each of 4 x 4 fields of 2 x 2 pixels is whatever the colour."""
    pixels = images.images.astype(np.float64)
    fields = pixels.sum(axis=1).reshape(-1, SIDE // 2, 2, SIDE // 2, 2).mean(axis=(2, 4)).reshape(len(pixels), -1)
    names = [f"ink in row {row}, column {column}" for row in range(1, 5) for column in range(1, 5)]
    frame = pd.DataFrame(fields, columns=names)
    frame.insert(0, "red", (pixels[:, 0].sum(axis=(1, 2)) > 0).astype(np.float64))
    return frame
