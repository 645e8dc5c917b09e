"""What an audit finds to work with: representation, predictions, inputs, baseline, and reasons for what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import invariscope as iv
from invariscope.auditing.material import Material, gather
from invariscope.criteria.registry import NEEDS

N = 300


def table(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, np.ndarray]:
    """Columns in different units, rows of three environments mixed, a number and a class to predict."""
    rng = np.random.default_rng(seed)
    plain = rng.normal(size=(N, 3))
    X = pd.DataFrame(plain * [1.0, 100.0, 0.1] + [0.0, 500.0, 1.0], columns=["age", "income", "dose"])
    env = rng.permutation(np.repeat(["a", "b", "c"], N // 3))
    y = plain @ [1.0, -0.5, 0.2] + rng.normal(size=N)
    return X, y, env, np.where(y + rng.normal(size=N) > 0, "yes", "no")


def test_everything_is_there_for_a_linear_model(seed: int) -> None:
    X, y, env, _ = table(seed)
    model = LinearRegression().fit(X, y)
    found = gather(model, X, y, env)
    assert isinstance(found, Material)
    assert set(found.has) == set(NEEDS) - {"probabilities", "network"}
    assert set(found.lacks) == {"probabilities", "network"}
    assert set(found.has) & set(found.lacks) == set()
    assert found.task == "regression"
    np.testing.assert_allclose(found.has["predictions"], model.predict(X))  # in the user's order
    np.testing.assert_allclose(found.has["baseline"], model.predict(X), rtol=1e-6)  # ERM on x is this very model
    assert found.data.labels == ("a", "b", "c")
    assert found.data.columns == ("age", "income", "dose")
    assert found.has["inputs"].columns == ("age", "income", "dose")
    assert found.notes == ()


def test_predictions_are_grouped_like_the_target(seed: int) -> None:
    X, y, env, _ = table(seed)
    model = LinearRegression().fit(X, y)
    found = gather(model, X, y, env)
    assert found.judged is not None
    for label in "abc":
        rows = env == label
        np.testing.assert_allclose(found.judged[label].X[:, 0], model.predict(X)[rows])
        np.testing.assert_array_equal(found.judged[label].y, y[rows])
        np.testing.assert_array_equal(found.data[label].y, y[rows])


def test_columns_are_in_units_of_their_spread_and_the_head_follows(seed: int) -> None:
    X, y, env, _ = table(seed)
    model = LinearRegression().fit(X, y)
    found = gather(model, X, y, env)
    np.testing.assert_allclose(found.data.X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.data.X.std(axis=0), 1.0, rtol=1e-9)
    assert found.head is not None
    scores = found.data.original(found.head.scores(found.data.X)[:, 0])
    np.testing.assert_allclose(scores, model.predict(X), rtol=1e-7, atol=1e-9)


def test_weighted_rows_count_in_the_spread(seed: int) -> None:
    """Columns in units of their spread: a row given twice counts twice, or weights would not be repetition."""
    X, y, env, _ = table(seed)
    weight = np.random.default_rng(seed).integers(1, 4, N)
    again = np.repeat(np.arange(N), weight)
    weighted, repeated = gather(None, X, y, env, weight=weight), gather(None, X.iloc[again], y[again], env[again])
    for label in "abc":
        once = np.repeat(weighted.data[label].X, weight[env == label], axis=0)
        np.testing.assert_allclose(once, repeated.data[label].X, rtol=1e-9, atol=1e-9)


def test_constant_columns_are_only_centred(seed: int) -> None:
    X, y, env, _ = table(seed)
    found = gather(None, X.assign(same=7.5, big=1e15), y, env)
    np.testing.assert_array_equal(found.data.X[:, 3:], 0.0)


def test_a_pipeline_is_cut_before_its_last_step(seed: int) -> None:
    X, _, env, label = table(seed)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, label)
    found = gather(model, X, label, env)
    assert found.task == "binary"
    assert set(found.lacks) == {"network"}
    assert "Pipeline" in found.model
    np.testing.assert_allclose(found.has["probabilities"], model.predict_proba(X))
    np.testing.assert_allclose(found.has["inputs"].X, X.to_numpy()[np.argsort(env, kind="stable")])
    assert found.has["baseline"].shape == (N, 2)
    np.testing.assert_allclose(found.has["baseline"].sum(axis=1), 1.0)


def test_without_a_model_the_columns_are_judged_under_a_fitted_head(seed: int) -> None:
    X, y, env, label = table(seed)
    found = gather(None, X, y, env)
    np.testing.assert_allclose(found.has["predictions"], LinearRegression().fit(X, y).predict(X), rtol=1e-6)
    assert found.head is None
    assert any("No model" in note for note in found.notes)
    classes = gather(None, X, label, env)
    expected = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-10).fit((X - X.mean()) / X.std(), label)
    np.testing.assert_allclose(
        classes.has["probabilities"], expected.predict_proba((X - X.mean()) / X.std()), atol=1e-4
    )


def test_weights_are_handed_on(seed: int) -> None:
    X, y, env, _ = table(seed)
    weight = np.random.default_rng(seed).integers(1, 4, N)
    found = gather(None, X, y, env, weight=weight)
    expected = LinearRegression().fit(X, y, sample_weight=weight).predict(X)
    np.testing.assert_allclose(found.has["predictions"], expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.has["baseline"], expected, rtol=1e-6, atol=1e-8)
    assert found.judged is not None
    for data in (found.data, found.judged, found.has["inputs"]):
        np.testing.assert_array_equal(data.rows, [weight[env == label].sum() for label in "abc"])


@pytest.mark.parametrize(
    ("model", "missing", "reason"),
    [
        (lambda X: iv.Split(represent=X.to_numpy()), {"predictions", "probabilities", "scores"}, "without its"),
        (lambda X: iv.Split(predict=X["age"].to_numpy()), {"probabilities"}, "regression"),
    ],
)
def test_what_is_missing_has_a_reason(model: Any, missing: set[str], reason: str, seed: int) -> None:
    X, y, env, _ = table(seed)
    found = gather(model(X), X, y, env)
    assert set(found.lacks) == {*missing, "network"} | ({"head"} if "predictions" in missing else set())
    assert set(found.lacks) & set(found.has) == set()
    assert all(reason in found.lacks[name] for name in missing)
    assert "torch" in found.lacks["network"]


def test_inputs_that_are_no_numbers_are_no_reason_to_stop(seed: int) -> None:
    X, y, env, _ = table(seed)
    found = gather(lambda rows: rows["age"].to_numpy(), X.assign(ward="A"), y, env)
    assert found.has["inputs"] is found.data
    assert any("on the representation" in note and '"ward"' in note for note in found.notes)
    assert {"baseline", "predictions"} <= set(found.has)


@pytest.mark.parametrize("order", [("yes", "no"), ("no", "yes")])
def test_probabilities_follow_the_targets_classes(order: tuple[str, str], seed: int) -> None:
    X, _, env, label = table(seed)
    p = np.random.default_rng(seed).dirichlet([1, 1], N)
    found = gather(iv.Split(predict=p, classes=order, task="classification"), X, label, env)
    np.testing.assert_array_equal(found.has["probabilities"][:, 1], p[:, order.index("yes")])


def test_the_models_task_decides(seed: int) -> None:
    """A regressor on a target of zeros and ones is judged as a regressor, also if the target looks like classes."""
    X, _, env, label = table(seed)
    y = (label == "yes").astype(float)
    assert gather(LinearRegression().fit(X, y), X, y, env).task == "regression"
    assert gather(LogisticRegression().fit(X, y), X, y, env).task == "binary"
    assert gather(None, X, y, env).task == "binary"
    assert gather(None, X, y, env, task="regression").task == "regression"


def test_names(seed: int) -> None:
    X, y, env, _ = table(seed)
    found = gather(None, X, pd.Series(y, name="gain"), pd.Series(env, name="site"))
    assert (found.data.target_name, found.data.env_name) == ("gain", "site")
    assert found.judged is not None
    assert (found.judged.target_name, found.judged.env_name) == ("gain", "site")
    found = gather(None, X, y, env, target_name="gain", env_name="site")
    assert (found.data.target_name, found.data.env_name) == ("gain", "site")


def test_the_users_arrays_are_left_alone(seed: int) -> None:
    X, y, env, _ = table(seed)
    order = np.argsort(env, kind="stable")  # grouped rows are not copied, so a write would be seen
    values, target, where = X.to_numpy()[order].copy(), y[order].copy(), env[order].copy()
    before = values.copy(), target.copy(), where.copy()
    iv.audit(None, values, target, where, n_boot=99)
    for now, then in zip((values, target, where), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_outputs_of_the_head_follow_the_order_of_the_targets_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 2)), np.repeat(["a", "b"], 150)
    y = np.array(["low", "mid", "top"])[rng.integers(0, 3, 300)]
    weight, bias = rng.normal(size=(3, 2)), rng.normal(size=3)

    def audited(order: list[int]) -> Any:
        names = np.array(["low", "mid", "top"])[order]
        given = iv.Split(
            lambda X: X, head=iv.LinearHead(weight[order], bias[order]), task="classification", classes=names.tolist()
        )
        return gather(given, X, y, env)

    plain, turned = audited([0, 1, 2]), audited([2, 0, 1])
    np.testing.assert_allclose(plain.has["head"].weight, turned.has["head"].weight)
    np.testing.assert_allclose(plain.has["head"].bias, turned.has["head"].bias)
    standard = plain.data.original(plain.data.X)
    np.testing.assert_allclose(plain.has["head"].scores(standard), X @ weight.T + bias, atol=1e-10)


def test_a_head_for_the_first_of_two_classes_is_turned_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env, y = rng.normal(size=(200, 1)), np.repeat(["a", "b"], 100), np.tile(["no", "yes"], 100)
    for classes, sign in ((["no", "yes"], 1.0), (["yes", "no"], -1.0)):
        given = iv.Split(lambda X: X, head=iv.LinearHead([[2.0]], 0.5), task="classification", classes=classes)
        found = gather(given, X, y, env)
        np.testing.assert_allclose(
            found.has["head"].scores(found.data.original(found.data.X)), sign * (2 * X + 0.5), atol=1e-10
        )


def test_without_a_model_the_head_is_the_pooled_one_and_without_a_linear_step_there_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=200)
    head = gather(None, X, y, env).has["head"]
    np.testing.assert_allclose(head.weight[0] / X.std(axis=0), [1.0, -2.0], atol=0.1)
    as_predicted = gather(iv.Split(predict=lambda X: 3 * X[:, 0]), X, y, env)
    np.testing.assert_allclose(
        as_predicted.has["head"].scores(as_predicted.data.original(as_predicted.data.X))[:, 0], 3 * X[:, 0]
    )
    no_head = gather(iv.Split(lambda X: X, lambda X: X[:, 0]), X, y, env)
    assert "head" not in no_head.has
    assert "not linear" in no_head.lacks["head"]
