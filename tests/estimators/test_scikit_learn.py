"""scikit-learn's own checks of an estimator, and its copies, pipelines, searches and routing with environments."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from invariscope.errors import InputError
from invariscope.estimators import InvariantClassifier, InvariantRegressor, LeaveOneEnvironmentOut

# a short training that is told to compare no environments
SHORT_ERM: dict[str, Any] = {"objective": "erm", "steps": 60, "learning_rate": 0.1}


@parametrize_with_checks([InvariantRegressor(**SHORT_ERM), InvariantClassifier(**SHORT_ERM)])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow  # the same checks with ten times the steps
@pytest.mark.filterwarnings("ignore:no env given")
@parametrize_with_checks([InvariantRegressor(), InvariantClassifier()])
def test_scikit_learns_own_checks_at_the_defaults(estimator: Any, check: Any) -> None:
    check(estimator)


class Data:
    """Four environments; the first column is causal, the second an effect whose strength differs between them."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.env = np.tile(np.array(["a", "b", "c", "d"]), 60)
        strength = np.tile([2.0, 1.0, -0.5, -2.0], 60)
        cause = rng.normal(size=240)
        self.y = 2 * cause + rng.normal(size=240) + 7
        effect = strength * (self.y - 7) + rng.normal(size=240)
        self.X = np.column_stack([cause, effect])
        self.label = np.where(self.y > np.median(self.y), "high", "low")


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


SHORT = InvariantRegressor("vrex", steps=60, learning_rate=0.05)


# --- copies ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_copies_predict_the_same(hidden: tuple[int, ...], data: Data, tmp_path: Path) -> None:
    model = InvariantClassifier("vrex", hidden=hidden, steps=20).fit(data.X, data.label, env=data.env)
    expected = model.predict_proba(data.X)
    joblib.dump(model, tmp_path / "model.joblib")
    copies = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model), joblib.load(tmp_path / "model.joblib")]
    copies.append(joblib.load(tmp_path / "model.joblib", mmap_mode="r"))  # read-only arrays
    for other in copies:
        np.testing.assert_array_equal(other.predict_proba(data.X), expected)
    assert not hasattr(clone(model), "weights_")
    assert clone(model).get_params() == model.get_params()


def test_a_fitted_model_holds_no_torch_object(data: Data) -> None:
    model = InvariantRegressor("vrex", hidden=(4,), held_out=0.2, steps=20).fit(data.X, data.y, env=data.env)
    model.predict(data.X)
    assert b"torch" not in pickle.dumps(model)


def test_a_second_fit_forgets_the_first(data: Data) -> None:
    model = clone(SHORT).fit(data.X, data.y, env=data.env)
    first = model.predict(data.X)
    frame = pd.DataFrame(data.X, columns=["cause", "effect"])
    again = model.fit(frame, -data.y, env=data.env).predict(frame)
    assert not np.array_equal(again, first)
    np.testing.assert_array_equal(again, clone(SHORT).fit(frame, -data.y, env=data.env).predict(frame))
    assert not hasattr(model.fit(data.X, data.y, env=data.env), "feature_names_in_")


def test_parameters_changed_after_fit_do_not_change_predictions(data: Data) -> None:
    model = InvariantRegressor("vrex", hidden=(4,), steps=20).fit(data.X, data.y, env=data.env)
    expected = model.predict(data.X)
    again = pickle.loads(pickle.dumps(model)).set_params(hidden=(9, 9), activation="tanh", precision="float32")
    np.testing.assert_array_equal(again.predict(data.X), expected)


def test_repr_shows_what_was_changed() -> None:
    assert repr(InvariantRegressor("irm", penalty=3.0)) == "InvariantRegressor(objective='irm', penalty=3.0)"
    assert repr(LeaveOneEnvironmentOut()) == "LeaveOneEnvironmentOut()"


# --- env through pipelines and searches ------------------------------------------------------------------------------
def test_pipeline_without_routing_takes_env_by_the_steps_name(data: Data) -> None:
    model = make_pipeline(StandardScaler(), clone(SHORT)).fit(data.X, data.y, invariantregressor__env=data.env)
    assert model[-1].environments_ == ("a", "b", "c", "d")
    alone = clone(SHORT).fit(StandardScaler().fit_transform(data.X), data.y, env=data.env)
    np.testing.assert_array_equal(model.predict(data.X), alone.predict(StandardScaler().fit_transform(data.X)))


@pytest.mark.usefixtures("routing")
def test_routed_pipelines_searches_and_cross_validation_take_env_as_it_is(data: Data) -> None:
    pipe = make_pipeline(StandardScaler(), clone(SHORT)).fit(data.X, data.y, env=data.env)
    assert pipe[-1].environments_ == ("a", "b", "c", "d")
    search = GridSearchCV(pipe, {"invariantregressor__penalty": [0.0, 10.0]}, cv=KFold(2))
    search.fit(data.X, data.y, env=data.env)
    assert search.best_estimator_[-1].environments_ == ("a", "b", "c", "d")
    found = cross_validate(clone(SHORT), data.X, data.y, cv=KFold(2), params={"env": data.env}, return_estimator=True)
    assert [model.objective_ for model in found["estimator"]] == ["vrex", "vrex"]


def test_unrouted_searches_and_cross_validation_hand_env_on(data: Data) -> None:
    search = GridSearchCV(clone(SHORT), {"penalty": [0.0, 10.0]}, cv=KFold(2)).fit(data.X, data.y, env=data.env)
    assert search.best_estimator_.environments_ == ("a", "b", "c", "d")
    found = cross_validate(
        clone(SHORT), data.X, data.y, cv=KFold(2), params={"env": list(data.env)}, return_estimator=True
    )
    assert [model.environments_ for model in found["estimator"]] == [("a", "b", "c", "d")] * 2


# --- leaving environments out ----------------------------------------------------------------------------------------
def by_hand(data: Data, penalty: float) -> list[float]:
    """Scores in every environment of a model that never saw it."""
    scores = []
    for left_out in "abcd":
        train, test = data.env != left_out, data.env == left_out
        model = clone(SHORT).set_params(penalty=penalty).fit(data.X[train], data.y[train], env=data.env[train])
        assert left_out not in model.environments_
        scores.append(model.score(data.X[test], data.y[test]))
    return scores


@pytest.mark.slow
@pytest.mark.parametrize("routed", [True, False])
def test_a_search_over_the_penalty_leaves_one_environment_out_at_a_time(routed: bool, data: Data) -> None:
    search = GridSearchCV(clone(SHORT), {"penalty": [0.0, 10.0]}, cv=LeaveOneEnvironmentOut())
    with sklearn.config_context(enable_metadata_routing=routed):
        given = {"env": data.env} if routed else {"env": data.env, "groups": data.env}
        search.fit(data.X, data.y, **given)
    for place, penalty in enumerate([0.0, 10.0]):
        found = [search.cv_results_[f"split{k}_test_score"][place] for k in range(4)]
        np.testing.assert_allclose(found, by_hand(data, penalty), rtol=1e-9)
    assert search.best_params_["penalty"] == max([0.0, 10.0], key=lambda penalty: np.mean(by_hand(data, penalty)))


@pytest.mark.usefixtures("routing")
def test_routed_cross_validation_leaves_environments_out_for_models_that_know_none(data: Data) -> None:
    splitter = LeaveOneEnvironmentOut()
    scores = cross_validate(Ridge(), data.X, data.y, cv=splitter, params={"env": data.env})["test_score"]
    test = data.env == "b"
    assert scores[1] == pytest.approx(Ridge().fit(data.X[~test], data.y[~test]).score(data.X[test], data.y[test]))


def test_every_environment_is_the_test_set_once() -> None:
    env = np.array(["y", "x", "z", "x", "y"])
    pairs = list(LeaveOneEnvironmentOut().split(np.zeros((5, 1)), env=env))
    assert [(train.tolist(), test.tolist()) for train, test in pairs] == [
        ([0, 2, 4], [1, 3]),
        ([1, 2, 3], [0, 4]),
        ([0, 1, 3, 4], [2]),
    ]
    assert LeaveOneEnvironmentOut().get_n_splits(env=env) == 3
    assert LeaveOneEnvironmentOut().get_n_splits(np.zeros((5, 1)), groups=env) == 3


def test_splitting_without_two_environments_is_refused(data: Data) -> None:
    splitter = LeaveOneEnvironmentOut()
    with pytest.raises(InputError, match="no environments reached LeaveOneEnvironmentOut: pass env= to fit"):
        list(splitter.split(data.X))
    with pytest.raises(InputError, match="no environments reached"):
        GridSearchCV(clone(SHORT), {"penalty": [1.0]}, cv=splitter).fit(data.X, data.y, env=data.env)
    with pytest.raises(InputError, match=r'only one environment \("a"\), .*: give env with at least two labels$'):
        list(splitter.split(data.X, env=["a"] * 240))
    with pytest.raises(InputError, match="X has 240 rows but env has 3"):
        list(splitter.split(data.X, env=["a", "b", "c"]))
