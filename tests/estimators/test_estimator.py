"""What fit learns, what it refuses, and that nothing but the data, the parameters and the seed decides it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from torch import nn

from invariscope.errors import InputError
from invariscope.estimators import InvariantClassifier, InvariantRegressor
from invariscope.objectives import IRM


class Data:
    """Two environments; the second column is an effect of y, reversed in the second environment."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.env = np.repeat(["north", "south"], [120, 80])
        cause = rng.normal(size=200)
        self.y = 3 * cause + rng.normal(size=200)
        effect = np.where(self.env == "north", 1.0, -0.2) * self.y + 0.5 * rng.normal(size=200)
        self.X = np.column_stack([cause, effect, rng.normal(size=200)])
        self.binary = np.where(self.y + 2 * rng.normal(size=200) > 0, "yes", "no")
        self.three = np.array(["a", "b", "c"])[np.digitize(self.y + 2 * rng.normal(size=200), [-1.5, 1.5])]


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


LONG: dict[str, Any] = {"steps": 700, "learning_rate": 0.05}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tensors_of_16_bits_are_trained_on(dtype: torch.dtype, data: Data) -> None:
    X = torch.tensor(data.X, dtype=dtype, requires_grad=True)
    y, env = torch.tensor(data.y, dtype=dtype, requires_grad=True), torch.tensor(data.env == "north")
    rounded = X.detach().double().numpy(), y.detach().double().numpy()
    one = InvariantRegressor("erm", steps=5).fit(X, y, env=env)
    other = InvariantRegressor("erm", steps=5).fit(*rounded, env=data.env == "north")
    np.testing.assert_allclose(one.predict(X), other.predict(rounded[0]), rtol=1e-5, atol=1e-6)


# --- what are classes -----------------------------------------------------------------------------------------------
def test_classes_keep_the_type_they_came_in(data: Data) -> None:
    for given in (
        np.array([3, 7], np.int32),
        np.array([0.0, 1.0]),
        np.array([False, True]),
        np.array(["no", "yes"]),
        np.array(["no", "yes"], object),
        np.array(["2024-01-01", "2025-01-01"], "M8[D]"),
    ):
        model = InvariantClassifier("erm", steps=1).fit(data.X, given[(data.binary == "yes").astype(int)])
        assert model.classes_.dtype == given.dtype
        np.testing.assert_array_equal(model.classes_, given)
        assert set(model.predict(data.X)) <= set(given)


def test_labels_of_several_types_stay_apart(data: Data, tmp_path: Path) -> None:
    y = [1 if value == "yes" else "a" for value in data.binary]
    model = InvariantClassifier("erm", steps=1).fit(data.X, y)
    assert model.classes_.tolist() == [1, "a"]
    assert {type(label) for label in model.predict(data.X)} <= {int, str}
    again = InvariantClassifier.from_safetensors(model.to_safetensors(tmp_path / "m.safetensors"))
    assert again.classes_.tolist() == [1, "a"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (lambda data: data.y, '"y" has 200 different numbers: too many to be classes.*continuous.*InvariantRegressor'),
        (lambda data: [str(k) for k in range(200)], '"y" has 200 different labels in 200 rows'),
        (lambda data: np.column_stack([data.binary, data.binary]), r"y must be one column: it has shape \(200, 2\)"),
        (lambda data: [None, *data.binary[1:]], '"y" is missing in 1 of 200 rows'),
        (lambda data: np.r_[np.nan, np.ones(199)], '"y" has 1 missing or infinite values'),
        (lambda data: np.ones(200), 'one class only ."1".'),
        (lambda data: ["a"] * 200, 'one class only ."a".'),
    ],
)
def test_what_are_no_classes_is_one_sentence(y: Any, message: str, data: Data) -> None:
    with pytest.raises(InputError, match=message):
        InvariantClassifier("erm", steps=1).fit(data.X, y(data))


def test_more_than_a_hundred_classes_that_repeat(data: Data) -> None:
    X = np.repeat(np.eye(110), 10, axis=0)
    model = InvariantClassifier("erm", steps=1).fit(X, [f"class {k}" for k in np.arange(1100) // 10])
    assert model.predict_proba(X[:2]).shape == (2, 110)


# --- what is learned -------------------------------------------------------------------------------------------------
def test_erm_without_environments_is_least_squares(data: Data) -> None:
    model = InvariantRegressor("erm", **LONG).fit(data.X, data.y)
    rows = np.column_stack([data.X, np.ones(200)])
    expected = rows @ np.linalg.lstsq(rows, data.y)[0]
    np.testing.assert_allclose(model.predict(data.X), expected, atol=1e-5)


@pytest.mark.parametrize("target", ["binary", pytest.param("three", marks=pytest.mark.slow)])
def test_erm_without_environments_is_logistic_regression(target: str, data: Data) -> None:
    y = getattr(data, target)
    model = InvariantClassifier("erm", **LONG).fit(data.X, y)
    expected = LogisticRegression(C=np.inf, tol=1e-8).fit(data.X, y).predict_proba(data.X)
    np.testing.assert_allclose(model.predict_proba(data.X), expected, atol=1e-4)


def test_weight_decay_is_ridge_regression(data: Data) -> None:
    """Mean squared error + ½ decay · |w|² on the standardised scale, intercept included, has a closed solution."""
    model = InvariantRegressor("erm", weight_decay=0.5, **LONG).fit(data.X, data.y)
    rows = np.column_stack([(data.X - data.X.mean(axis=0)) / data.X.std(axis=0), np.ones(200)])
    target = (data.y - data.y.mean()) / data.y.std()
    weight = np.linalg.solve(2 * rows.T @ rows / 200 + 0.5 * np.eye(4), 2 * rows.T @ target / 200)
    np.testing.assert_allclose(model.represent(data.X)[:, 0], rows @ weight, atol=1e-5)


def test_the_defaults_reach_the_least_squares_fit(data: Data) -> None:
    with pytest.warns(UserWarning, match="no env given"):
        model = InvariantRegressor().fit(data.X, data.y)
    rows = np.column_stack([data.X, np.ones(200)])
    best = rows @ np.linalg.lstsq(rows, data.y)[0]
    assert np.mean((model.predict(data.X) - best) ** 2) < 1e-3 * np.mean((data.y - best) ** 2)


def test_environments_count_the_same_however_many_rows_they_have(data: Data) -> None:
    """With env, ERM minimises the mean of the environments' risks: least squares with weights 1/n_e."""
    model = InvariantRegressor("erm", **LONG).fit(data.X, data.y, env=data.env)
    root = np.sqrt(np.where(data.env == "north", 1 / 120, 1 / 80))
    rows = np.column_stack([data.X, np.ones(200)])
    expected = rows @ np.linalg.lstsq(rows * root[:, None], data.y * root)[0]
    np.testing.assert_allclose(model.predict(data.X), expected, atol=1e-5)


@pytest.mark.slow
def test_vrex_is_the_default_and_brings_the_risks_together(data: Data) -> None:
    model = InvariantRegressor(penalty=100.0, **LONG).fit(data.X, data.y, env=data.env)
    plain = InvariantRegressor("erm", **LONG).fit(data.X, data.y, env=data.env)

    def mean_and_variance(fitted: Any) -> tuple[float, float]:
        losses = (fitted.predict(data.X) - data.y) ** 2 / data.y.var()  # the loss is that of the standardised target
        risks = np.array([losses[data.env == "north"].mean(), losses[data.env == "south"].mean()])
        return float(risks.mean()), float(risks.var())

    (risk, variance), (lowest_risk, its_variance) = mean_and_variance(model), mean_and_variance(plain)
    assert model.objective_ == "vrex"
    assert model.environments_ == ("north", "south")
    assert variance < its_variance
    assert risk > lowest_risk
    assert risk + 100 * variance < lowest_risk + 100 * its_variance
    np.testing.assert_allclose(model.history_["risk"][-1], risk, rtol=1e-3)
    np.testing.assert_allclose(model.history_["penalty"][-1], variance, rtol=1e-2, atol=1e-8)


@pytest.mark.parametrize("objective", ["vrex", "irm"])
def test_units_of_columns_and_target_do_not_matter(objective: str, data: Data) -> None:
    settings: dict[str, Any] = {"objective": objective, "hidden": (4,), "steps": 40}
    plain = InvariantRegressor(**settings).fit(data.X, data.y, env=data.env)
    X = data.X * [1000.0, 0.001, 5.0] + [50.0, -3.0, 1e3]
    other = InvariantRegressor(**settings).fit(X, 100 * data.y - 7, env=data.env)
    np.testing.assert_allclose(other.predict(X), 100 * plain.predict(data.X) - 7, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(other.represent(X), plain.represent(data.X), atol=1e-6)


def test_standardisation_is_by_mean_and_spread_and_can_be_left_out(data: Data) -> None:
    X = np.column_stack([data.X, np.full(200, 0.1)])
    model = InvariantRegressor("vrex", steps=10).fit(X, data.y, env=data.env)
    np.testing.assert_allclose(model.centre_, [*data.X.mean(axis=0), 0.1])
    np.testing.assert_allclose(model.scale_, [*np.sqrt(((data.X - data.X.mean(axis=0)) ** 2).mean(axis=0)), 1.0])
    assert model.target_centre_ == pytest.approx(data.y.mean())
    assert model.target_scale_ == pytest.approx(np.sqrt(((data.y - data.y.mean()) ** 2).mean()))
    raw = InvariantRegressor("vrex", steps=10, standardise=False).fit(X, data.y, env=data.env)
    assert (raw.centre_.tolist(), raw.scale_.tolist()) == ([0.0] * 4, [1.0] * 4)
    assert not np.allclose(raw.predict(X), model.predict(X))


def test_a_constant_target_is_predicted() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.warns(ConvergenceWarning, match="The target is the same in all rows: there was nothing to learn"):
        model = InvariantRegressor("erm", **LONG).fit(X, np.full(30, 4.5))
    np.testing.assert_allclose(model.predict(X), 4.5, atol=1e-3)


def test_options_and_objective_objects_say_the_same(data: Data) -> None:
    named = InvariantRegressor("irm", penalty=5.0, options={"form": "split"}, steps=30)
    given = InvariantRegressor(IRM(weight=5.0, form="split"), steps=30)
    expected = named.fit(data.X, data.y, env=data.env).predict(data.X)
    np.testing.assert_array_equal(given.fit(data.X, data.y, env=data.env).predict(data.X), expected)
    other = InvariantRegressor(IRM(form="square"), penalty=5.0, steps=30).fit(data.X, data.y, env=data.env)
    assert not np.array_equal(other.predict(data.X), expected)
    assert given.objective_ == "irm"


# --- environments ----------------------------------------------------------------------------------------------------
def test_labels_of_any_kind_name_environments(data: Data) -> None:
    codes = (data.env == "south").astype(int)
    frame = pd.DataFrame({"site": data.env})
    dates = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[codes]
    intervals = pd.cut(pd.Series(codes), [-1, 0, 1])
    given = [data.env, list(data.env), codes, frame, frame["site"].astype("category"), dates, intervals, codes == 1]
    models = [InvariantRegressor("vrex", steps=10).fit(data.X, data.y, env=env) for env in given]
    for model in models:
        np.testing.assert_array_equal(model.predict(data.X), models[0].predict(data.X))
    assert models[2].environments_ == (0, 1)
    assert models[5].environments_ == ("2020-01-01", "2021-01-01")
    assert models[6].environments_ == ("(-1, 0]", "(0, 1]")


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_order_of_rows_does_not_matter(hidden: tuple[int, ...], data: Data, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(200)
    settings: dict[str, Any] = {"objective": "vrex", "hidden": hidden, "steps": 100}
    model = InvariantRegressor(**settings).fit(data.X, data.y, env=data.env)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).iloc[order]
    other = InvariantRegressor(**settings).fit(frame, pd.Series(data.y).iloc[order], env=pd.Series(data.env[order]))
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(other.predict(frame), model.predict(data.X)[order], atol=1e-6)


def test_missing_and_miscounted_labels_are_refused(data: Data) -> None:
    env = data.env.astype(object)
    env[[3, 7, 9]] = None
    with pytest.raises(InputError, match='"env" is missing in 3 of 200 rows'):
        InvariantRegressor(steps=1).fit(data.X, data.y, env=env)
    with pytest.raises(InputError, match="X has 200 rows but env has 199: give one label per row"):
        InvariantRegressor(steps=1).fit(data.X, data.y, env=data.env[:-1])


def test_without_environments_auto_warns_and_others_are_refused(data: Data) -> None:
    with pytest.warns(
        UserWarning, match="^no env given: trained as plain ERM, which compares no environments$"
    ) as told:
        model = InvariantRegressor(steps=1).fit(data.X, data.y)
    assert told[0].filename == __file__
    assert (model.objective_, model.environments_) == ("erm", ())
    with pytest.warns(UserWarning, match=r'^env has one environment only \("x"\): trained as plain ERM'):
        assert InvariantRegressor(steps=1).fit(data.X, data.y, env=["x"] * 200).objective_ == "erm"
    words = 'objective "irm" compares environments: pass env=, one label per row, or objective="erm"'
    with pytest.raises(InputError, match=words):
        InvariantRegressor("irm").fit(data.X, data.y)
    with pytest.raises(InputError, match=r'objective "vrex" compares environments, but there is only one \("x"\)'):
        InvariantRegressor("vrex").fit(data.X, data.y, env=["x"] * 200)
    with pytest.raises(InputError, match='environment "b" has 1 row'):
        InvariantRegressor("vrex").fit(data.X, data.y, env=["a"] * 199 + ["b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        InvariantRegressor("erm", steps=1).fit(data.X, data.y)


# --- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "vrx"}, 'objective "vrx" is unknown: .* Did you mean "vrex"'),
        ({"options": {"form": "split"}}, 'objective "vrex" has no hyper-parameter "form"'),
        ({"hidden": ("many",)}, r"hidden is \('many',\): give whole numbers"),
        ({"hidden": (0,)}, r"hidden is \(0,\)"),
        ({"activation": "sine", "hidden": (3,)}, 'activation "sine" is unknown'),
        ({"dropout": 1.0}, "dropout is 1.0"),
        ({"precision": "half"}, "precision is 'half'"),
        ({"steps": 0}, "steps is 0"),
        ({"held_out": 1.5}, "held-out share is 1.5"),
        ({"wait": -1}, "wait is -1: give a number of at least 0"),
        ({"network": 3}, r"this network \(int\) cannot be cut into representation and head"),
        ({"network": nn.Sequential(nn.Linear(9, 2), nn.Linear(2, 1))}, "network cannot read rows of 3 columns"),
        (
            {"network": nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 4))},
            "network gives 4 outputs, but the target needs 1: give its last layer as many",
        ),
    ],
)
def test_parameters_that_cannot_be_used_are_named(settings: dict[str, Any], words: str, data: Data) -> None:
    with pytest.raises(InputError, match=words):
        InvariantRegressor(**{"steps": 1, **settings}).fit(data.X, data.y, env=data.env)


def test_rows_that_cannot_be_used_are_refused(data: Data) -> None:
    model = InvariantClassifier("vrex", steps=1).fit(pd.DataFrame(data.X, columns=list("abc")), data.binary, data.env)
    with pytest.raises(ValueError, match=r"feature names .*: give the columns it was fitted on, in their order$"):
        model.predict(pd.DataFrame(data.X, columns=list("cba")))
    model.fit(data.X, data.binary, data.env)
    with pytest.raises(
        ValueError, match="X has 2 features, but InvariantClassifier is expecting 3 features as input: give the"
    ):
        model.predict(data.X[:, :2])
    holes = data.X.copy()
    holes[0, 0] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        InvariantRegressor("vrex").fit(holes, data.y, env=data.env)
    with pytest.raises(InputError, match=r'y holds one class only \("yes"\)'):
        InvariantClassifier("vrex").fit(data.X, ["yes"] * 200, env=data.env)
    for method in ("predict", "represent", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(InvariantClassifier(), method)(data.X)


def test_without_torch_only_fit_is_refused(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    model = InvariantRegressor("vrex", hidden=(3,))
    with pytest.raises(InputError, match=r"need torch: pip install 'invariscope\[torch\]'"):
        model.fit(data.X, data.y, env=data.env)


# --- classes ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["u", "v", "w"]),
        np.array([3, -1, 7]),
        np.array([0.0, 2.0, 1.0]),
        np.array(["u", "v", "w"], dtype=object),
    ],
    ids=str,
)
def test_three_classes_of_any_label(labels: Any, data: Data) -> None:
    y = labels[np.unique(data.three, return_inverse=True)[1]]
    model = InvariantClassifier("vrex", steps=50).fit(data.X, y, env=data.env)
    assert model.classes_.tolist() == sorted(labels.tolist())
    probabilities, scores = model.predict_proba(data.X), model.decision_function(data.X)
    assert scores.shape == probabilities.shape == (200, 3)
    weights = np.exp(scores)
    np.testing.assert_allclose(probabilities, weights / weights.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(data.X, y) == np.mean(model.predict(data.X) == y)
    assert np.mean(model.predict(data.X) == y) > np.unique(y, return_counts=True)[1].max() / 200


@pytest.mark.parametrize("dtype", [bool, "category", "Int64", "boolean"])
def test_two_classes_of_any_type(dtype: Any, data: Data) -> None:
    y = pd.Series(data.binary == "yes").astype(dtype)
    model = InvariantClassifier("vrex", steps=50).fit(data.X, y, env=data.env)
    scores = model.decision_function(data.X)
    np.testing.assert_allclose(model.predict_proba(data.X)[:, 1], 1 / (1 + np.exp(-scores)), atol=1e-12)
    np.testing.assert_array_equal(model.predict(data.X) == model.classes_[1], scores > 0)
    assert np.mean(model.predict(data.X).astype(bool) == (data.binary == "yes")) > 0.65


# --- seeds, stopping, going on ---------------------------------------------------------------------------------------
def test_the_same_seed_gives_the_same_bits_and_another_another_network(data: Data) -> None:
    settings: dict[str, Any] = {"objective": "vrex", "hidden": (5,), "dropout": 0.2, "batch_size": 16, "steps": 30}

    def fitted(random_state: Any) -> Any:
        return InvariantRegressor(random_state=random_state, **settings).fit(data.X, data.y, env=data.env)

    before = torch.random.get_rng_state()
    first, second, other = fitted(1), fitted(1), fitted(2)
    assert torch.equal(before, torch.random.get_rng_state())  # the user's random numbers are left alone
    for name, value in first.weights_.items():
        np.testing.assert_array_equal(second.weights_[name], value)
    assert not np.allclose(other.predict(data.X), first.predict(data.X))
    drawn = fitted(np.random.RandomState(5)).predict(data.X)
    np.testing.assert_array_equal(fitted(np.random.RandomState(5)).predict(data.X), drawn)
    assert not np.array_equal(fitted(None).predict(data.X), fitted(None).predict(data.X))


def test_held_out_rows_stop_the_training(data: Data) -> None:
    model = InvariantRegressor("vrex", hidden=(32,), held_out=0.3, patience=2, learning_rate=0.1, steps=5000)
    model.fit(data.X, data.y, env=data.env)
    judged = model.history_["held_out"]
    assert model.n_iter_ == model.history_["step"][-1] < 5000
    assert model.kept_step_ == model.history_["step"][np.argmin(judged)] == model.n_iter_ - 20
    assert InvariantRegressor("vrex", steps=25).fit(data.X, data.y, env=data.env).n_iter_ == 25


def test_a_checkpoint_is_gone_on_from(data: Data, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"objective": "vrex", "hidden": (4,), "batch_size": 10}
    whole = InvariantRegressor(steps=60, **settings).fit(data.X, data.y, env=data.env)
    kept = InvariantRegressor(steps=30, checkpoint=tmp_path / "training.safetensors", **settings)
    kept.fit(data.X, data.y, env=data.env)
    kept.set_params(steps=60).fit(data.X, data.y, env=data.env)
    np.testing.assert_array_equal(kept.predict(data.X), whole.predict(data.X))


def test_the_penalty_waits_and_grows(data: Data) -> None:
    settings: dict[str, Any] = {"objective": "vrex", "penalty": 1000.0, "steps": 40}
    now = InvariantRegressor(**settings).fit(data.X, data.y, env=data.env)
    waiting = InvariantRegressor(wait=40, **settings).fit(data.X, data.y, env=data.env)
    light = InvariantRegressor(**{**settings, "penalty": 1.0}).fit(data.X, data.y, env=data.env)
    growing = InvariantRegressor(ramp=40, **settings).fit(data.X, data.y, env=data.env)
    np.testing.assert_array_equal(waiting.predict(data.X), light.predict(data.X))  # weight 1 while it waits
    assert not np.array_equal(now.predict(data.X), light.predict(data.X))
    assert not np.array_equal(growing.predict(data.X), now.predict(data.X))


def test_progress_is_told(data: Data) -> None:
    said: list[str] = []
    InvariantRegressor("vrex", steps=10, progress=said.append).fit(data.X, data.y, env=data.env)
    assert said == ["training vrex"]
