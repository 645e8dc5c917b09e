"""Refusals of estimators: rows, networks, model files, exports, and environments left out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import sklearn
import torch
from safetensors.numpy import save_file
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from torch import Tensor, nn

import invariscope as iv
from invariscope.estimators.table_training import Training
from invariscope.models.torch_networks import Halves, convnet
from invariscope.objectives import objective_of
from tests.remedies.case import Case

ROOM = "estimators"
X = np.random.default_rng(0).normal(size=(24, 4))
Y = X[:, 0] + 0.1 * X[:, 1]
ENV = np.repeat(["a", "b", "c"], 8)
HOLES = np.ma.masked_less(X, 0)
TABLE = pd.DataFrame(X, columns=list("pqrs"))
DAYS = pd.Series(pd.date_range("2024", periods=24))
DICTS = [{"y": value} for value in Y]
DATES = [date(2020 + flag, 1, 1) for flag in Y > 0]


def fit(X: Any = X, y: Any = Y, env: Any = ENV, **settings: Any) -> Any:
    return iv.InvariantRegressor(**{"objective": "vrex", "steps": 2, **settings}).fit(X, y, env=env)


def classes(y: Any) -> Any:
    return iv.InvariantClassifier("vrex", steps=2).fit(X, y, env=ENV)


def without(package: str, call: Callable[[], Any]) -> Any:
    """Where a package is not installed."""
    with patch.dict(sys.modules, {package: None}):
        return call()


# --- networks of one's own ---
class Shift(nn.Module):
    """Prints the same, however many weights it has."""

    def __init__(self, weights: int = 1) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(weights))

    def forward(self, values: Tensor) -> Tensor:
        return values + self.shift


class Fixed(nn.Module):
    """Tracing writes the number of rows it saw into the graph."""

    def forward(self, values: Tensor) -> Tensor:
        return values + torch.zeros(len(values), 1, dtype=values.dtype)


class Branching(nn.Module):
    """Tracing sees one of its two ways only."""

    def forward(self, values: Tensor) -> Tensor:
        return values if len(values) == 2 else values + 1


class Untraceable(nn.Module):
    """ONNX has no such operation."""

    def forward(self, values: Tensor) -> Tensor:
        changed: Tensor = torch.special.bessel_j0(values)
        return changed


def own(*layers: nn.Module, inputs: int = 4, outputs: int = 1) -> Any:
    """A function that makes a network, so that the seed of the model decides where it starts."""
    return lambda *_: Halves(nn.Sequential(nn.Linear(inputs, 4), *layers), nn.Linear(4, outputs))


def fit_own(network: Any) -> Any:
    return fit(network=network)


def given_again(network: Any, shift: int = 1) -> Any:
    """A model with a network of the user's own, stored, and read with this one."""
    fit_own(own(Shift(shift))).to_safetensors("own")
    return iv.InvariantRegressor.from_safetensors("own", network=network).predict(X)


def given_later(network: Any) -> Any:
    fit_own(own(Shift())).to_safetensors("own")
    return iv.InvariantRegressor.from_safetensors("own").set_params(network=network).predict(X)


def altered(again: bool) -> Any:
    """A model one of whose numbers was changed by hand; and fitted again."""
    model = fit(hidden=(3,))
    model.n_representation_ = 9
    return (model.fit(X, Y, env=ENV) if again else model).predict(X)


def losing_weights(again: bool) -> Any:
    model = fit(hidden=(3,))
    model.weights_ = {name: values for name, values in model.weights_.items() if name != "head.bias"}
    return (model.fit(X, Y, env=ENV) if again else model).predict(X)


# --- files ---
def read(name: str, kind: Any = iv.InvariantRegressor, again: bool = False) -> Any:
    """One of: a model, a folder, weights alone, a damaged file; ``again``: a model is stored there first."""
    fit().to_safetensors("model")
    Path("folder").mkdir(exist_ok=True)
    save_file({"weight": np.zeros(3)}, "weights")
    save_file({"weight": np.zeros(3)}, "damaged", metadata={"format": "invariscope estimator 1"})
    if again:
        fit().to_safetensors(name)
    return kind.from_safetensors(name)


def stored(model: Any) -> Any:
    return model.to_safetensors("model")


def exported(layer: nn.Module) -> Any:
    return fit_own(own(layer)).to_onnx("model")


def exported_image(**precision: Any) -> Any:
    def network(_: int, outputs: int) -> Any:
        return convnet((1, 2, 2), outputs)

    return fit(network=network, learning_rate=1e-4).to_onnx("model", **precision)


def exported_as(precision: Any) -> Any:
    return fit().to_onnx("model", precision=precision)


# --- environments left out ---
def search(routed: bool = False, env: Any = ENV, **more: Any) -> Any:
    with sklearn.config_context(enable_metadata_routing=routed):
        grid = {"penalty": [1.0]}
        cv = iv.LeaveOneEnvironmentOut()
        return GridSearchCV(iv.InvariantRegressor("vrex", steps=2), grid, cv=cv).fit(X, Y, env=env, **more)


def splits(env: Any) -> Any:
    return list(iv.LeaveOneEnvironmentOut().split(X, env=env))


def from_table(objective: str = "vrex", leave_out: tuple[str, ...] = (), columns: str = "pqrs") -> Any:
    table = TABLE.assign(target=Y, site=ENV, same=[1.0] * 23 + [2.0])
    rows = iv.read(table[["same", *columns, "target", "site"]], target="target", env="site")
    training = Training.of(rows, objective_of(objective), leave_out=leave_out)
    return training.fitted(objective=objective, steps=2)


CASES = [
    # --- rows ---
    Case("give X.toarray()", lambda: fit(sparse.csr_matrix(X)), lambda: fit(sparse.csr_matrix(X).toarray())),
    Case("fill them", lambda: fit(HOLES), lambda: fit(HOLES.filled(0.0))),
    Case(
        "or drop those rows",
        lambda: fit(y=np.ma.masked_less(Y, -1)),
        lambda: fit(X[Y >= -1], Y[Y >= -1], ENV[Y >= -1]),
    ),
    Case(
        'X has several columns called "p": rename all but one',
        lambda: fit(TABLE.set_axis(list("ppqr"), axis=1)),
        lambda: fit(TABLE.set_axis(list("pqrs"), axis=1)),
    ),
    Case(
        "y holds text: use InvariantClassifier", lambda: fit(y=["no", "yes"] * 12), lambda: classes(["no", "yes"] * 12)
    ),
    Case("y has missing or infinite values", lambda: fit(y=[*Y[:23], None]), lambda: fit(y=[*Y[:23], 0.0])),
    Case("or turn it into numbers", lambda: fit(y=[*Y[:23], "1"]), lambda: fit(y=[*Y[:23], float("1")])),
    Case("y is a list of dicts", lambda: fit(y=DICTS), lambda: fit(y=[each["y"] for each in DICTS])),
    Case(
        "turn it into numbers (days, say)",
        lambda: fit(y=DAYS),
        lambda: fit(y=(DAYS - DAYS[0]).dt.days),
    ),
    Case("give rows of at least two", lambda: classes(["no"] * 24), lambda: classes(["no", "yes"] * 12)),
    Case("X has 24 rows but env has 20: give one label per row", lambda: fit(env=ENV[:20]), lambda: fit(env=ENV)),
    # --- what scikit-learn asks of rows ---
    Case(
        "Input X contains NaN (x0 2, x1 4, x2 6, x3 8): fill in what is missing",
        lambda: fit(np.where(X > 1, np.nan, X)),
        lambda: fit(np.where(X > 1, 1.0, X)),
    ),
    Case(
        "Input y contains infinity or a value too large for dtype('float64'): fill in what is missing, or drop those",
        lambda: fit(y=np.where(Y > 1, np.inf, Y)),
        lambda: fit(X[Y <= 1], Y[Y <= 1], ENV[Y <= 1]),
    ),
    Case("real and imaginary parts as columns", lambda: fit(X * 1j), lambda: fit(np.hstack([X, (X * 1j).imag]))),
    Case("give one target per row", lambda: fit(y=Y[:20]), lambda: fit(y=Y)),
    Case(
        "give at least as many rows",
        lambda: fit(X[:1], Y[:1], None, objective="erm"),
        lambda: fit(X[8:], Y[8:], ENV[8:]),
    ),
    Case("give at least one column", lambda: fit(X[:, :0]), lambda: fit(X[:, :1])),
    Case("give a table of rows x columns", lambda: fit(X[:, :, None]), lambda: fit(X)),
    Case("array.reshape(-1, 1) if your data has a single feature", lambda: fit(Y), lambda: fit(Y.reshape(-1, 1))),
    Case("pass y=, one target per row", lambda: fit(y=None), lambda: fit(y=Y)),
    Case("choose one of its columns", lambda: fit(y=X), lambda: fit(y=X[:, 0])),
    Case("give the columns it was fitted on", lambda: fit().predict(X[:, :3]), lambda: fit().predict(X)),
    Case(
        "Feature names unseen at fit time: - t Feature names seen at fit time, yet now missing: - p: give the columns",
        lambda: fit(TABLE).predict(TABLE.rename(columns={"p": "t"})),
        lambda: fit(TABLE).predict(TABLE),
    ),
    Case(
        "give the columns it was fitted on, in their order",
        lambda: fit(TABLE).predict(TABLE[list("srqp")]),
        lambda: fit(TABLE).predict(TABLE[list("pqrs")]),
    ),
    # --- objectives ---
    Case("leave penalty out", lambda: fit(objective="erm", penalty=3), lambda: fit(objective="erm")),
    Case("pass env=, one label per row", lambda: fit(env=None), lambda: fit(env=ENV)),
    Case('or objective="erm"', lambda: fit(env=None), lambda: fit(env=None, objective="erm")),
    # --- networks ---
    Case("pip install 'invariscope[torch]'", lambda: without("torch", fit), fit),
    Case('use "float64", or "float32"', lambda: fit(precision="half"), lambda: fit(precision="float32")),
    Case("such as (64, 64)", lambda: fit(hidden="64"), lambda: fit(hidden=(64, 64))),
    Case("give whole numbers, such as (64, 64)", lambda: fit(hidden=(6.5,)), lambda: fit(hidden=(64, 64))),
    Case("give one that takes as many", lambda: fit_own(own(inputs=9)), lambda: fit_own(own(inputs=4))),
    Case("1: give its last layer as many", lambda: fit_own(own(outputs=2)), lambda: fit_own(own(outputs=1))),
    Case("or from_safetensors(path, network=...)", lambda: given_later(None), lambda: given_again(own(Shift()))),
    Case("set_params(network=...)", lambda: given_later(None), lambda: given_later(own(Shift()))),
    Case("give that one", lambda: given_again(own(nn.Tanh())), lambda: given_again(own(Shift()))),
    Case(
        "give the one they were trained in",
        lambda: given_again(own(Shift(4))),
        lambda: given_again(own(Shift(1))),
    ),
    Case("or fit the model again", lambda: losing_weights(again=False), lambda: losing_weights(again=True)),
    Case("gives 3 features: fit the model again", lambda: altered(again=False), lambda: altered(again=True)),
    # --- files ---
    Case("name the one that to_safetensors wrote", lambda: read("absent"), lambda: read("model")),
    Case("(it is a folder): name the one", lambda: read("folder"), lambda: read("model")),
    Case("store the fitted model with that", lambda: read("weights"), lambda: read("weights", again=True)),
    Case("store the fitted model again", lambda: read("damaged"), lambda: read("damaged", again=True)),
    Case(
        "load it with InvariantRegressor.from_safetensors",
        lambda: read("model", iv.InvariantClassifier),
        lambda: read("model", iv.InvariantRegressor),
    ),
    Case(
        'parameter "hidden" holds a range: a .safetensors file keeps only text, numbers and lists; give one of these',
        lambda: stored(fit(hidden=range(3, 5))),
        lambda: stored(fit(hidden=[3, 4])),
    ),
    Case(
        "classes_ holds a date: a .safetensors file keeps only text",
        lambda: stored(classes(DATES)),
        lambda: stored(classes([str(day) for day in DATES])),
    ),
    Case(
        "pip install 'invariscope[torch]'",
        lambda: without("safetensors.numpy", lambda: stored(fit())),
        lambda: stored(fit()),
    ),
    # --- exports ---
    Case('use "float64" or "float32"', lambda: exported_as("half"), lambda: exported_as("float32")),
    Case(
        "pip install 'invariscope[onnx]'", lambda: without("onnx", lambda: exported_as(None)), lambda: exported_as(None)
    ),
    Case('try precision="float32"', lambda: exported_image(precision="float64"), exported_image),
    Case(
        "the network cannot be exported to ONNX",
        lambda: exported(Untraceable()),
        lambda: stored(fit_own(own(Untraceable()))),
    ),
    Case("does not run", lambda: exported(Fixed()), lambda: stored(fit_own(own(Fixed())))),
    Case(
        "something else than the model: store it with to_safetensors instead",
        lambda: exported(Branching()),
        lambda: stored(fit_own(own(Branching()))),
    ),
    Case(
        'give True, False or "together"',
        lambda: fit(standardise="pixels"),
        lambda: fit(standardise="together"),
    ),
    # --- environments left out ---
    Case("pass env= to fit, after sklearn.set_config(", search, lambda: search(routed=True)),
    Case("or without that env=env and groups=env", search, lambda: search(groups=ENV)),
    Case("give env with at least two labels", lambda: splits(["a"] * 24), lambda: splits(["a", "b"] * 12)),
    Case("leave out fewer", lambda: from_table(leave_out=("a", "b")), lambda: from_table(leave_out=("a",))),
    Case(
        'or pass objective="erm"',
        lambda: from_table(leave_out=("a", "b")),
        lambda: from_table("erm", leave_out=("a", "b")),
    ),
    Case("leave out fewer", lambda: from_table(leave_out=("a", "b", "c")), lambda: from_table(leave_out=("a",))),
    Case(
        "have the same value: same. Give columns that differ between these rows.",
        lambda: from_table(leave_out=("c",), columns=""),
        lambda: from_table(leave_out=("c",), columns="p"),
    ),
]
