"""An estimator's two halves: what it represents, the head in the user's units, and audits of both."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import invariscope as iv
from invariscope.errors import InputError


class Data:
    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(150, 3)) * [1.0, 20.0, 0.1] + [5.0, 0.0, 3.0]
        self.env = np.repeat(["a", "b", "c"], 50)
        self.number = 40 * self.X[:, 0] - self.X[:, 1] + 10 * rng.normal(size=150) + 1000
        ranks = np.argsort(np.argsort(self.number))
        self.binary = np.where(ranks < 75, "no", "yes")
        self.three = np.array(["low", "middle", "high"])[ranks // 50]
        self.frame = pd.DataFrame(self.X, columns=["age", "dose", "weight"])


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


def fitted(data: Data, target: str, **settings: Any) -> Any:
    kind = iv.InvariantRegressor if target == "number" else iv.InvariantClassifier
    return kind("vrex", **{"steps": 30, **settings}).fit(data.X, getattr(data, target), env=data.env)


@pytest.mark.parametrize("target", ["number", "binary", "three"])
@pytest.mark.parametrize("hidden", [(), (5, 4)], ids=["linear", "network"])
def test_the_head_of_the_representation_predicts_what_the_model_predicts(
    hidden: tuple[int, ...], target: str, data: Data
) -> None:
    model = fitted(data, target, hidden=hidden)
    for halves in (model.split(), iv.split(model)):
        Z = halves.represent(data.X)
        np.testing.assert_array_equal(Z, model.represent(data.X))
        assert halves.head is not None
        scores = halves.head.scores(Z)
        if target == "number":
            expected, ours = model.predict(data.X), scores[:, 0]
        elif target == "binary":
            expected, ours = model.predict_proba(data.X), np.column_stack([expit(-scores), expit(scores)])
        else:
            expected, ours = model.predict_proba(data.X), softmax(scores, axis=1)
        np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_array_equal(halves.predict(data.X), expected)
        assert halves.task == ("regression" if target == "number" else "classification")
        assert halves.classes == {"number": None, "binary": ("no", "yes"), "three": ("high", "low", "middle")}[target]
        assert halves.level == "representation"


def test_the_representation_of_a_network_is_computed_layer_by_layer(data: Data) -> None:
    model = fitted(data, "number", hidden=(5, 4), activation="tanh", dropout=0.5)
    layer = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    for place in range(2):
        weight, bias = (model.weights_[f"represent.layers.{place}.{name}"] for name in ("weight", "bias"))
        layer = np.tanh(layer @ weight.T + bias)
    np.testing.assert_allclose(model.represent(data.X), layer, atol=1e-12)
    assert model.split().columns(data.X) == ("hidden 1", "hidden 2", "hidden 3", "hidden 4")
    assert iv.split(model).description == "InvariantRegressor (vrex): last hidden layer"


@pytest.mark.parametrize(
    ("target", "columns"),
    [
        ("number", ("score",)),
        ("binary", ('score of "yes"',)),
        ("three", ('score of "high"', 'score of "low"', 'score of "middle"')),
    ],
)
def test_the_representation_of_a_linear_model_is_its_score(target: str, columns: tuple[str, ...], data: Data) -> None:
    model = fitted(data, target)
    Z = model.represent(data.X)
    assert model.split().columns(data.X) == columns
    assert Z.shape == (150, len(columns))
    if target == "number":
        np.testing.assert_allclose(Z[:, 0] * data.number.std() + data.number.mean(), model.predict(data.X), rtol=1e-9)
    else:
        np.testing.assert_array_equal(Z.squeeze(), model.decision_function(data.X))


def test_rows_beyond_one_block_are_represented_too(data: Data) -> None:
    model = fitted(data, "number", hidden=(3,))
    many = np.tile(data.X, (60, 1))  # 9,000 rows
    np.testing.assert_allclose(model.represent(many), np.tile(model.represent(data.X), (60, 1)), atol=1e-12)


# --- inside pipelines and searches -----------------------------------------------------------------------------------
def test_a_pipeline_is_its_transformers_and_then_the_representation(data: Data) -> None:
    pipe = make_pipeline(StandardScaler(), PCA(2), iv.InvariantClassifier("vrex", hidden=(4,), steps=30))
    pipe.fit(data.frame, data.binary, invariantclassifier__env=data.env)
    halves = iv.split(pipe)
    Z = pipe[-1].represent(pipe[:-1].transform(data.frame))
    np.testing.assert_array_equal(halves.represent(data.frame), Z)
    np.testing.assert_array_equal(halves.predict(data.frame), pipe.predict_proba(data.frame))
    assert halves.head is not None
    np.testing.assert_allclose(halves.head.probabilities(Z), pipe.predict_proba(data.frame), atol=1e-9)
    words = "Pipeline: StandardScaler → PCA → InvariantClassifier (vrex): last hidden layer"
    assert halves.description == words
    search = GridSearchCV(pipe, {"invariantclassifier__penalty": [1.0, 5.0]}, cv=KFold(2))
    search.fit(data.frame, data.binary, invariantclassifier__env=data.env)
    halves = iv.split(search)
    best = search.best_estimator_
    np.testing.assert_array_equal(halves.represent(data.frame), best[-1].represent(best[:-1].transform(data.frame)))
    assert halves.description == f"GridSearchCV's best model, {words}"
    again = pickle.loads(pickle.dumps(halves))
    np.testing.assert_array_equal(again.represent(data.frame), halves.represent(data.frame))


class Named(BaseEstimator):
    """Somebody's own model with a method of the same name."""

    def fit(self, X: Any, y: Any) -> Any:
        return self

    def represent(self, X: Any) -> Any:
        raise AssertionError("not ours to call")

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


def test_other_models_with_a_method_represent_are_left_alone(data: Data) -> None:
    assert iv.split(Named().fit(data.X, data.number)).description == "Named: its predictions"


def test_models_that_are_not_fitted_and_other_columns_are_refused(data: Data) -> None:
    with pytest.raises(InputError, match=r"model is not fitted: call fit first \(InvariantRegressor\)"):
        iv.split(iv.InvariantRegressor())
    model = iv.InvariantRegressor("vrex", steps=1).fit(data.frame, data.number, env=data.env)
    with pytest.raises(
        InputError, match="InvariantRegressor was fitted on the columns age, dose, weight; X has them in"
    ):
        iv.split(model).represent(data.frame[["dose", "age", "weight"]])


# --- networks of one's own -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("head", "linear"), [(nn.Linear(4, 1), True), (nn.Sequential(nn.ReLU(), nn.Linear(4, 1)), False)]
)
def test_an_own_network_has_a_head_if_its_last_half_is_linear(head: nn.Module, linear: bool, data: Data) -> None:
    model = fitted(data, "number", network=(nn.Linear(3, 4), head))
    halves = iv.split(model)
    assert (halves.head is not None) == linear
    assert ("its head is not linear" in halves.description) != linear
    assert halves.columns(data.X) == ("feature 1", "feature 2", "feature 3", "feature 4")
    np.testing.assert_array_equal(halves.predict(data.X), model.predict(data.X))


def test_a_linear_half_without_bias_or_on_more_dimensions(data: Data) -> None:
    model = fitted(data, "number", network=(nn.Linear(3, 4), nn.Linear(4, 1, bias=False)))
    head = model.split().head
    assert head is not None
    np.testing.assert_allclose(head.scores(model.represent(data.X))[:, 0], model.predict(data.X), rtol=1e-9)
    folded = nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (1, 2, 2)), nn.Flatten(2))  # (n, 1, 4): not plain columns
    model = fitted(data, "number", network=(folded, nn.Linear(4, 1)))
    head = model.split().head
    assert head is not None
    np.testing.assert_allclose(head.scores(model.represent(data.X))[:, 0], model.predict(data.X), rtol=1e-9)


# --- audits ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["number", "three"])
def test_audits_judge_the_learned_representation(target: str, data: Data) -> None:
    model = fitted(data, target, hidden=(3,))
    report = iv.audit(model, data.X, getattr(data, target), data.env)
    by_hand = iv.regret(model.represent(data.X), getattr(data, target), data.env)
    found = report["regret"].per_environment
    for environment, expected in by_hand.per_environment.items():
        # the audit puts columns in units of their spread first, where the heads of classes stop a little elsewhere
        assert found[environment].value == pytest.approx(expected.value, abs=3e-4)


def test_the_verdict_does_not_send_people_to_look_at_how_a_score_was_recorded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = np.repeat(["Bern", "Oslo"], 300)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] * np.where(site == "Bern", 2.0, -1.0) + 0.3 * rng.normal(size=600)
    model = iv.InvariantRegressor("erm", steps=50).fit(X, y, env=site)
    words = iv.audit(model, X, y, site, criteria=["regret"]).verdict
    assert "NOT INVARIANT" in words
    assert "is recorded" not in words
    assert "is recorded" in iv.audit(None, X, y, site, criteria=["regret"]).verdict
