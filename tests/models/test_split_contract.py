"""One contract for all ways to give a model: scikit-learn, invariscope's own, torch, functions and arrays by hand."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import Split, split
from invariscope.models.torch_networks import mlp

N = 60


@dataclass(frozen=True)
class Rows:
    """Inputs, and a target for every task."""

    X: Any
    y: dict[str, Any]


@pytest.fixture
def rows(seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    X = rng.normal(size=(N, 3))
    score = X @ [1.0, -1.0, 0.5] + rng.normal(size=N)
    return Rows(X, {"regression": score, "classification": np.argsort(np.argsort(score)) * 3 // N})


def trained(objective: str, rows: Rows) -> Any:
    kind = iv.InvariantRegressor if objective == "regression" else iv.InvariantClassifier
    return kind("erm", hidden=(4,), steps=3).fit(rows.X, rows.y[objective])


def by_hand(rows: Rows) -> Split:
    head = iv.LinearHead([[1.0, 2.0], [0.0, 1.0], [0.5, 0.5]], [0.1, 0.2, 0.3])
    return Split(lambda X: np.asarray(X)[:, :2], head=head, task="classification", classes=(0, 1, 2))


class Sayer(nn.Linear):
    """A module with a method that predicts, as scikit-learn's models have."""

    def predict_proba(self, x: torch.Tensor) -> torch.Tensor:
        return self(x).softmax(dim=1)


ADAPTERS: dict[str, tuple[str, Callable[[Rows], Any]]] = {
    "linear regression": ("regression", lambda r: LinearRegression().fit(r.X, r.y["regression"])),
    "pipeline": (
        "classification",
        lambda r: make_pipeline(StandardScaler(), LogisticRegression()).fit(r.X, r.y["classification"]),
    ),
    "MLP": (
        "regression",
        lambda r: MLPRegressor(hidden_layer_sizes=(4,), solver="lbfgs", max_iter=400, tol=1.0, random_state=0).fit(
            r.X, r.y["regression"]
        ),
    ),
    "forest": ("classification", lambda r: RandomForestClassifier(5, random_state=0).fit(r.X, r.y["classification"])),
    "invariant regressor": ("regression", lambda r: trained("regression", r)),
    "invariant classifier": ("classification", lambda r: trained("classification", r)),
    "torch chain": ("classification", lambda r: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))),
    "torch chain with softmax": (
        "classification",
        lambda r: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3), nn.Softmax(1)),
    ),
    "torch, one output": ("regression", lambda r: split(mlp(3, 1, (4,)).double(), task="regression")),
    "torch, by layer": (
        "classification",
        lambda r: split(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)), layer="1", rows=r.X),
    ),
    "torch, its predictions": ("classification", lambda r: split(nn.Linear(3, 3)).by_predictions()),
    "method of a torch module": (
        "classification",
        lambda r: split(Sayer(3, 3).double().predict_proba, task="classification", classes=(0, 1, 2)),
    ),
    "by hand": ("classification", by_hand),
    "array": ("regression", lambda r: Split(predict=r.y["regression"], task="regression")),
    "function": ("regression", lambda r: lambda X: np.asarray(X)[:, 0]),
}


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_adapter_keeps_the_contract(name: str, rows: Rows) -> None:
    task, make = ADAPTERS[name]
    halves = split(make(rows))
    Z, predictions = halves.represent(rows.X), halves.predict(rows.X)

    assert isinstance(halves, Split)
    assert split(halves) is halves
    assert halves.level in ("representation", "prediction")
    assert halves.description
    assert halves.task in ((None, task) if name == "function" else (task,))
    assert type(Z) is np.ndarray
    assert Z.ndim == 2
    assert Z.dtype in (np.float32, np.float64)
    assert len(Z) == len(predictions) == N
    assert predictions.dtype == np.float64
    names = halves.columns(rows.X, Z)
    assert names == halves.columns(rows.X)
    assert len(set(names)) == Z.shape[1]
    if task == "classification":
        assert halves.classes == (0, 1, 2)
        assert predictions.shape == (N, 3)
        np.testing.assert_allclose(predictions.sum(axis=1), 1.0, atol=1e-6)
    else:
        assert predictions.shape == (N,)
    if halves.head is not None:
        said = halves.head.scores(Z)[:, 0] if task == "regression" else halves.head.probabilities(Z)
        np.testing.assert_allclose(said, predictions, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(halves.predict(rows.X, Z), predictions, rtol=1e-4, atol=1e-6)
    assert (halves.network is not None) == (name.startswith("torch") and "predictions" not in name)
    np.testing.assert_array_equal(halves.represent(rows.X), Z)  # the same when asked again
    np.testing.assert_array_equal(halves.predict(rows.X), predictions)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name != "array"])
def test_every_adapter_reads_rows_one_by_one_and_tables_alike(name: str, rows: Rows) -> None:
    """A row's representation does not depend on the rows beside it, nor on the container they come in."""
    halves = split(ADAPTERS[name][1](rows))
    Z, order = halves.represent(rows.X), np.random.default_rng(0).permutation(N)
    np.testing.assert_allclose(halves.represent(rows.X[order[:9]]), Z[order[:9]], rtol=1e-4, atol=1e-6)
    frame = pd.DataFrame(rows.X, columns=["a", "b", "c"])
    np.testing.assert_allclose(halves.represent(frame), Z, rtol=1e-6)
    np.testing.assert_allclose(halves.predict(frame), halves.predict(rows.X), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in ("array", "function", "by hand")])
def test_every_adapter_refuses_other_columns(name: str, rows: Rows) -> None:
    halves = split(ADAPTERS[name][1](rows))
    for wrong in (rows.X[:, :2], np.hstack([rows.X, rows.X])):
        with pytest.raises(InputError):
            halves.represent(wrong)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in ("function", "by hand")])
def test_every_adapter_can_be_sent_elsewhere(name: str, rows: Rows) -> None:
    """Functions aside, which pickle cannot send."""
    halves = split(ADAPTERS[name][1](rows))
    again = pickle.loads(pickle.dumps(halves))
    np.testing.assert_array_equal(again.represent(rows.X), halves.represent(rows.X))
    np.testing.assert_array_equal(again.predict(rows.X), halves.predict(rows.X))
    assert repr(again) == repr(halves)


@pytest.mark.parametrize("name", ADAPTERS)
def test_every_adapter_is_frozen(name: str, rows: Rows) -> None:
    halves = split(ADAPTERS[name][1](rows))
    for one in fields(halves):
        with pytest.raises(AttributeError):
            setattr(halves, one.name, None)
