"""All kinds of hostile input by name, and the plain value of each where a door has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression

import invariscope as iv
from tests.hostile import columns, example, labels, options
from tests.hostile.case import REFUSED, SAME, SOUND, Input

#: Weights count rows.
OF_WEIGHTS = [
    Input("negative", lambda v: v - 2.5, says="weight"),
    Input("all zero", np.zeros_like, says="weight"),
    Input("zero in one environment", lambda v: np.where(example.ENV == "a", 0.0, v), says="weight"),
    Input("1e-300", lambda v: v * 1e-300, says="weight"),
    Input("some 1e300", lambda v: np.where(np.arange(len(v)) == 3, 1e300, v), says="weight"),
    Input("booleans", lambda v: v > 1, SAME, like=lambda v: (v > 1).astype(float)),
]
OF_PREDICTIONS = [
    Input("1e-200", lambda v: v * 1e-200, SOUND),
    Input("constant", np.zeros_like, SOUND),
    Input("booleans", lambda v: v > 0, SOUND),
    Input("a model", lambda v: example.linear(), says="model|LinearRegression"),
]
PROBABILITIES = [
    Input("percent", lambda v: v * 100, says="0..1|probabilit"),
    Input("log-odds", lambda v: np.log(v) - np.log1p(-v) + 5, says="0..1|probabilit"),
    Input("three columns", lambda v: np.column_stack([v, 1 - v, 0 * v]), says="column|class"),
    Input("sums of 2", lambda v: np.column_stack([v, 2 - v]), says="0..1|sum"),
    Input("hard", lambda v: np.round(v), SOUND),
    Input("exact", lambda v: np.column_stack([1 - v, v]), SAME),
    Input("labels", lambda v: np.where(v > 0.5, "yes", "no"), says="text|label"),
]


class Raises:
    """A model that fails."""

    def predict(self, X: Any) -> Any:
        raise RuntimeError("no such device")


class Says:
    """A model that predicts whatever it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def predict(self, X: Any) -> Any:
        return self.answer(len(X))


MODELS = [
    Input("class", lambda m: LinearRegression, says="class|fit"),
    Input("not fitted", lambda m: LinearRegression(), says="fit"),
    Input("a text", lambda m: "model.skops", says="path|file|text|model"),
    Input("a number", lambda m: 3, says="int"),
    Input("a dict", lambda m: {"model": m}, says="dict|model"),
    Input("a tuple", lambda m: (m, m), says="tuple|model|pair"),
    Input("a module", lambda m: np, says="module|model"),
    Input("an object", lambda m: object(), says="model|object"),
    Input(
        "fitted on other columns", lambda m: LinearRegression().fit(example.X[:, :1], example.Y), says="feature|column"
    ),
    Input("of NaN", lambda m: Says(lambda n: np.full(n, np.nan)), says="missing|NaN|predict"),
    Input("of infinities", lambda m: Says(lambda n: np.full(n, np.inf)), says="infin|predict"),
    Input("of None", lambda m: Says(lambda n: None), says="predict"),
    Input("of texts", lambda m: Says(lambda n: ["a"] * n), says="text|label"),
    Input("of one row too few", lambda m: Says(lambda n: np.zeros(n - 1)), says="89|rows"),
    Input("of one number", lambda m: Says(lambda n: 3.0), says="predict"),
    Input("of three axes", lambda m: Says(lambda n: np.zeros((n, 2, 2))), says="dimension|shape"),
    Input("of complex numbers", lambda m: Says(lambda n: np.zeros(n) + 1j), says="omplex"),
    Input("of constants", lambda m: Says(np.zeros), SOUND),
    Input("of a list", lambda m: Says(lambda n: example.linear().predict(example.X).tolist()), SOUND),
    Input("that fails", lambda m: Raises(), says="no such device"),
    Input("weights of NaN", lambda m: _with_coefficients(np.nan), says="NaN|missing|infin|predict|finite"),
    Input("function without arguments", lambda m: lambda: 3, says="function|argument|model"),
    Input("generator", lambda m: (k for k in range(3)), says="generator"),
]
HEADS = [
    Input("a model", lambda h: example.linear(), SOUND),
    Input("a text", lambda h: "head", says="head"),
    Input("an array", lambda h: np.ones(2), says="head|LinearHead"),
    Input("wrong width", lambda h: iv.LinearHead([[1.0, 2.0, 3.0]], 0.0), says="columns|features"),
    Input("two outputs", lambda h: iv.LinearHead([[1.0, 2.0], [1.0, 2.0]], [0.0, 0.0]), says="output|class"),
    Input("a class", lambda h: iv.LinearHead, says="head|LinearHead|class"),
    Input("1e200", lambda h: iv.LinearHead([[1e200, 1.0]], 0.0), SOUND),
    Input("zeros", lambda h: iv.LinearHead([[0.0, 0.0]], 0.0), SOUND),
]


def _with_coefficients(value: float) -> Any:
    model = LinearRegression().fit(example.X, example.Y)
    model.coef_ = np.full(2, value)
    return model


def _of_vectors(forms: list[Input], size: str) -> list[Input]:
    """Forms of a column for a vector of two numbers."""
    skipped = (
        "one NaN",
        "row",
        "1e",
        "text",
        "two",
        "uint8",
        "int8",
        "uint64",
        "Int8",
        "pyarrow",
        "duplicated",
        "one ",
        "nulls",
        "NA",
        "null",
        "NaN",
        "digits",
    )
    return [given for given in forms if not any(word in given.name for word in skipped)]


PLAIN: dict[str, Any] = {
    "weight": example.WEIGHT,
    "predictions": example.PREDICTIONS,
    "predictions as a model": example.Y,
    "head": example.HEAD,
}
FORMS: dict[str, list[Input]] = {
    **columns.FORMS,
    **labels.FORMS,
    **options.FORMS,
    "weight": [*columns.FORMS["numbers"], *OF_WEIGHTS],
    "predictions": [*columns.FORMS["numbers"], *OF_PREDICTIONS],
    "probabilities": [*(given for given in columns.FORMS["numbers"] if given.like is None), *PROBABILITIES],
    "predictions as a model": [*columns.FORMS["numbers"]],
    "model": MODELS,
    "head": HEADS,
    "coefficients": [],
}
assert replace(MODELS[0]).expected == REFUSED
