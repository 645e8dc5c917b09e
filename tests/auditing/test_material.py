"""What an audit finds to work with: representation, predictions, inputs, baseline, and reasons for what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import invariscope as iv
from invariscope.auditing.material import gather
from invariscope.criteria.material import MOST_WEIGHTS, NEEDS, Material, Missing, fittable, fittable_apart, have
from invariscope.heads.fit import pooled_head
from invariscope.heads.losses import softmax
from invariscope.rows.blocks import Blocks
from invariscope.rows.environments import Environments
from invariscope.rows.targets import target_of

N = 300


def material_of(*given: Any, **options: Any) -> Material:
    return gather(*given, **options)[0]


def missing(material: Material) -> set[str]:
    """Needs that cannot be met."""
    return {need for need in NEEDS if material.lacks(need) is not None}


def probabilities(material: Material) -> np.ndarray:
    predictions = have(material.predictions)
    assert predictions.kind == "probabilities"
    return predictions.values


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
    material, subject = gather(model, X, y, env)
    assert missing(material) == {"probabilities", "network", "baseline"}  # ERM on x is this very model
    assert material.task == "regression"
    assert have(material.predictions).kind == "numbers"
    np.testing.assert_allclose(have(material.predictions).values, model.predict(X))  # in the user's order
    halved = material_of(lambda rows: model.predict(rows) / 2, X, y, env)
    np.testing.assert_allclose(have(halved.baseline).values, model.predict(X), rtol=1e-6)
    assert material.compared is material.representation is material.own_heads
    assert material.head is material.trained_head
    assert material.representation.labels == ("a", "b", "c")
    assert material.representation.columns == subject.data.columns == ("age", "income", "dose")
    assert have(material.inputs).columns == ("age", "income", "dose")
    assert subject.notes == ()
    assert not subject.learned


def test_predictions_are_grouped_like_the_target(seed: int) -> None:
    X, y, env, _ = table(seed)
    model = LinearRegression().fit(X, y)
    material = material_of(model, X, y, env)
    predictions = have(material.predictions).rows
    for label in "abc":
        rows = env == label
        np.testing.assert_allclose(predictions[label].X[:, 0], model.predict(X)[rows])
        np.testing.assert_array_equal(predictions[label].y, y[rows])
        np.testing.assert_array_equal(material.representation[label].y, y[rows])


def test_columns_are_in_units_of_their_spread_and_the_head_follows(seed: int) -> None:
    X, y, env, _ = table(seed)
    model = LinearRegression().fit(X, y)
    material = material_of(model, X, y, env)
    data = material.representation
    np.testing.assert_allclose(data.X.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(data.X.std(axis=0), 1.0, rtol=1e-9)
    scores = data.original(have(material.trained_head).scores(data.X)[:, 0])
    np.testing.assert_allclose(scores, model.predict(X), rtol=1e-7, atol=1e-9)


def test_weighted_rows_count_in_the_spread(seed: int) -> None:
    """Columns in units of their spread: a row given twice counts twice, or weights would not be repetition."""
    X, y, env, _ = table(seed)
    weight = np.random.default_rng(seed).integers(1, 4, N)
    again = np.repeat(np.arange(N), weight)
    weighted = material_of(None, X, y, env, weight=weight).representation
    repeated = material_of(None, X.iloc[again], y[again], env[again]).representation
    for label in "abc":
        once = np.repeat(weighted[label].X, weight[env == label], axis=0)
        np.testing.assert_allclose(once, repeated[label].X, rtol=1e-9, atol=1e-9)


def test_constant_columns_are_only_centred(seed: int) -> None:
    X, y, env, _ = table(seed)
    material = material_of(None, X.assign(same=7.5, big=1e15), y, env)
    np.testing.assert_array_equal(material.representation.X[:, 3:], 0.0)


def test_a_pipeline_is_cut_before_its_last_step(seed: int) -> None:
    X, _, env, label = table(seed)
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, label)
    material, subject = gather(model, X, label, env)
    assert material.task == "binary"
    assert missing(material) == {"network"}
    assert "Pipeline" in subject.data.model
    np.testing.assert_allclose(probabilities(material), model.predict_proba(X))
    np.testing.assert_allclose(have(material.inputs).X, X.to_numpy()[np.argsort(env, kind="stable")])
    assert have(material.baseline).values.shape == (N, 2)
    np.testing.assert_allclose(have(material.baseline).values.sum(axis=1), 1.0)


def test_without_a_model_the_columns_are_judged_under_a_fitted_head(seed: int) -> None:
    X, y, env, label = table(seed)
    material, subject = gather(None, X, y, env)
    np.testing.assert_allclose(have(material.predictions).values, LinearRegression().fit(X, y).predict(X), rtol=1e-6)
    assert material.trained_head == Missing("no model was given")
    assert any("No model" in note for note in subject.notes)
    classes = material_of(None, X, label, env)
    expected = LogisticRegression(C=np.inf, max_iter=1000, tol=1e-10).fit((X - X.mean()) / X.std(), label)
    np.testing.assert_allclose(probabilities(classes), expected.predict_proba((X - X.mean()) / X.std()), atol=1e-4)


def test_weights_are_handed_on(seed: int) -> None:
    X, y, env, _ = table(seed)
    weight = np.random.default_rng(seed).integers(1, 4, N)
    expected = LinearRegression().fit(X, y, sample_weight=weight).predict(X)
    for given in (weight, torch.tensor(weight, dtype=torch.bfloat16, requires_grad=True)):
        material = material_of(None, X, y, env, weight=given)
        np.testing.assert_allclose(have(material.predictions).values, expected, rtol=1e-6, atol=1e-8)
        of_another = material_of(lambda rows: rows["age"], X, y, env, weight=given)
        np.testing.assert_allclose(have(of_another.baseline).values, expected, rtol=1e-6, atol=1e-8)
        for data in (material.representation, have(material.predictions).rows, have(material.inputs)):
            np.testing.assert_array_equal(data.rows, [weight[env == label].sum() for label in "abc"])


@pytest.mark.parametrize(
    ("model", "absent", "reason"),
    [
        (
            lambda X: iv.Split(represent=X.to_numpy()),
            {"predictions", "probabilities", "scores", "baseline"},
            "without its",
        ),
        (lambda X: iv.Split(predict=X["age"].to_numpy()), {"probabilities"}, "regression"),
    ],
)
def test_what_is_missing_has_a_reason(model: Any, absent: set[str], reason: str, seed: int) -> None:
    X, y, env, _ = table(seed)
    material = material_of(model(X), X, y, env)
    assert missing(material) == {*absent, "network", "trained_head"} | ({"head"} if "predictions" in absent else set())
    reasons = {need: lack.reason for need in NEEDS if (lack := material.lacks(need)) is not None}
    assert all(reason in reasons[name] for name in absent)
    assert "torch" in reasons["network"]
    with pytest.raises(iv.InputError, match="needs a torch model"):
        have(material.network)


def test_inputs_that_are_no_numbers_are_no_reason_to_stop(seed: int) -> None:
    X, y, env, _ = table(seed)
    material, subject = gather(lambda rows: rows["age"].to_numpy(), X.assign(ward="A"), y, env)
    assert material.inputs is material.representation
    assert any("on the representation" in note and '"ward"' in note for note in subject.notes)
    assert not {"baseline", "predictions"} & missing(material)


def test_labels_of_several_types_are_given_back_as_they_were(seed: int) -> None:
    X, _, env, label = table(seed)
    y = [1 if value == "yes" else "no" for value in label]
    assert material_of(None, X, y, env, needs=()).labels.tolist() == y


def test_a_model_that_predicts_is_asked_once(seed: int) -> None:
    X, y, env, _ = table(seed)
    asked = []

    def predict(rows: pd.DataFrame) -> np.ndarray:
        asked.append(len(rows))
        return rows["age"].to_numpy()

    for model in (predict, iv.Split(lambda rows: rows.to_numpy(), predict)):
        material = material_of(model, X, y, env)
        np.testing.assert_array_equal(have(material.predictions).values, X["age"])
    assert asked == [N, N]


@pytest.mark.parametrize("order", [("yes", "no"), ("no", "yes")])
def test_probabilities_follow_the_targets_classes(order: tuple[str, str], seed: int) -> None:
    X, _, env, label = table(seed)
    p = np.random.default_rng(seed).dirichlet([1, 1], N)
    material = material_of(iv.Split(predict=p, classes=order, task="classification"), X, label, env)
    np.testing.assert_array_equal(probabilities(material)[:, 1], p[:, order.index("yes")])


def test_the_models_task_decides(seed: int) -> None:
    """A regressor on a target of zeros and ones is judged as a regressor, also if the target looks like classes."""
    X, _, env, label = table(seed)
    y = (label == "yes").astype(float)
    assert material_of(LinearRegression().fit(X, y), X, y, env).task == "regression"
    assert material_of(LogisticRegression().fit(X, y), X, y, env).task == "binary"
    assert material_of(None, X, y, env).task == "binary"
    assert material_of(None, X, y, env, task="regression").task == "regression"


def test_names(seed: int) -> None:
    X, y, env, _ = table(seed)
    for given, names in (
        ((pd.Series(y, name="gain"), pd.Series(env, name="site")), {}),
        ((y, env), {"target_name": "gain", "env_name": "site"}),
    ):
        material = material_of(None, X, *given, **names)
        for data in (material.representation, have(material.predictions).rows, have(material.inputs)):
            assert (data.target_name, data.env_name) == ("gain", "site")


def test_the_users_arrays_are_left_alone(seed: int) -> None:
    X, y, env, _ = table(seed)
    order = np.argsort(env, kind="stable")  # grouped rows are not copied, so a write would be seen
    values, target, where = X.to_numpy()[order].copy(), y[order].copy(), env[order].copy()
    before = values.copy(), target.copy(), where.copy()
    iv.audit(None, values, target, where, n_boot=99)
    for now, then in zip((values, target, where), before, strict=True):
        np.testing.assert_array_equal(now, then)


def scores_of(material: Material) -> np.ndarray:
    """Scores of the head for all rows, in the user's order."""
    data = material.representation
    return have(material.head).scores(data.original(data.X))


def test_outputs_of_the_head_follow_the_order_of_the_targets_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 2)), np.repeat(["a", "b"], 150)
    y = np.array(["low", "mid", "top"])[rng.integers(0, 3, 300)]
    weight, bias = rng.normal(size=(3, 2)), rng.normal(size=3)

    def audited(order: list[int]) -> Material:
        names = np.array(["low", "mid", "top"])[order]
        given = iv.Split(
            lambda X: X, head=iv.LinearHead(weight[order], bias[order]), task="classification", classes=names.tolist()
        )
        return material_of(given, X, y, env)

    plain, turned = audited([0, 1, 2]), audited([2, 0, 1])
    np.testing.assert_allclose(have(plain.head).weight, have(turned.head).weight)
    np.testing.assert_allclose(have(plain.head).bias, have(turned.head).bias)
    np.testing.assert_allclose(scores_of(plain), X @ weight.T + bias, atol=1e-10)


def test_a_head_for_the_first_of_two_classes_is_turned_round(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env, y = rng.normal(size=(200, 1)), np.repeat(["a", "b"], 100), np.tile(["no", "yes"], 100)
    for classes, sign in ((["no", "yes"], 1.0), (["yes", "no"], -1.0)):
        given = iv.Split(lambda X: X, head=iv.LinearHead([[2.0]], 0.5), task="classification", classes=classes)
        np.testing.assert_allclose(scores_of(material_of(given, X, y, env)), sign * (2 * X + 0.5), atol=1e-10)


def test_without_a_model_the_head_is_the_pooled_one_and_without_a_linear_step_there_is_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(200, 2)), np.repeat(["a", "b"], 100)
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=200)
    head = have(material_of(None, X, y, env).head)
    np.testing.assert_allclose(head.weight[0] / X.std(axis=0), [1.0, -2.0], atol=0.1)
    as_predicted = material_of(iv.Split(predict=lambda X: 3 * X[:, 0]), X, y, env)
    np.testing.assert_allclose(scores_of(as_predicted)[:, 0], 3 * X[:, 0])
    assert isinstance(as_predicted.trained_head, Missing)
    no_head = material_of(iv.Split(lambda X: X, lambda X: X[:, 0]), X, y, env).head
    assert isinstance(no_head, Missing)
    assert "not linear" in no_head.reason


# --- what cannot be had is known before anything is fitted ---------------------------------------------------------
@pytest.fixture
def no_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise AssertionError("a head was fitted")

    for place in ("heads.fit.fit_shared", "heads.fit.fit_own", "criteria.influence.top_model.fit_pooled"):
        monkeypatch.setattr(f"invariscope.{place}", refuse)


@pytest.mark.usefixtures("no_fits")
def test_a_head_of_too_many_weights_is_not_fitted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y = rng.normal(size=(5000, 768)), np.tile([*"abcdefghij"], 500)
    material, subject = gather(None, Z, y, np.repeat(["a", "b"], 2500))
    fitted = {"predictions", "probabilities", "scores", "head", "baseline", "own_heads"}
    assert missing(material) == {*fitted, "network", "trained_head"}
    for name in fitted - {"own_heads"}:
        lack = material.lacks(name)
        assert lack is not None
        assert (
            f"768 columns for 10 classes has 7,690 weights, and an audit fits at most {MOST_WEIGHTS:,}" in lack.reason
        )
    assert subject.notes == ()  # no head, so none is spoken of


def test_a_head_is_fitted_up_to_the_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env, y = np.repeat(["a", "b"], 1010), rng.normal(size=2020)
    for columns, too_many in ((MOST_WEIGHTS - 1, False), (MOST_WEIGHTS, True)):
        rows = Environments(rng.normal(size=(2020, columns)), y, env)
        assert isinstance(fittable(rows, target_of(rows)), Missing) == too_many


@pytest.mark.usefixtures("no_fits")
def test_a_head_that_fits_whatever_the_rows_say_is_not_fitted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y, env = rng.normal(size=(40, 39)), rng.normal(size=40), np.tile(["a", "b"], 20)
    material = material_of(None, Z, y, env)
    lack = Missing(
        "a linear head on 39 columns has as many weights as there are rows (40), so that it fits them whatever they "
        "say. Use fewer columns: choose some, or audit a model whose representation has fewer."
    )
    assert material.predictions == material.head == material.baseline == lack
    single = Environments(Z[:4, :1], y[:4], pd.Series(env[:4], name="site"), [1, 1, 0, 0])
    assert fittable(single, target_of(single, "regression")) == Missing(
        "a linear head on 1 column has as many weights as there are rows (2), so that it fits them whatever they say. "
        "Collect more rows in every site."
    )
    one_more = Environments(np.vstack([Z, Z[:1]]), np.append(y, 0.5), np.append(env, "a"), np.append(np.ones(40), 0.0))
    assert fittable(one_more, target_of(one_more)) == lack  # a row that counts nothing is none
    one_less = Environments(Z[:, 1:], y, env)
    assert fittable(one_less, target_of(one_less)) is one_less


def test_heads_of_their_own_are_fitted_up_to_so_many_for_so_many_environments(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, env, _ = table(seed)
    monkeypatch.setattr("invariscope.criteria.material.MOST_WORK", 3 * 4**3)
    material = material_of(None, X, y, env)
    assert material.own_heads is material.compared
    found = iv.audit(None, X.assign(more=y**2), y, env, n_boot=99)
    reason = (
        "linear heads of 5 weights for each of 3 environments take minutes, and an audit fits 4 weights for so many. "
        "Use fewer columns: choose some, or audit a model whose representation has fewer. Called by themselves, "
        "iv.regret and iv.transport_gap have no such limit."
    )
    assert found.left_out["regret"] == found.left_out["transport_gap"] == reason
    assert {"risk_variance", "influence_index", "worst_case"} <= set(found.results)
    assert "regret" in iv.audit(None, X, y, env, n_boot=99).results
    assert np.isfinite(iv.regret(X.assign(more=y**2), y, env, n_boot=99).value)
    assert iv.transport_gap(X.assign(more=y**2), y, env, n_boot=99).pairs.shape == (3, 3)


@pytest.mark.parametrize(("classes", "weights"), [(2, 4), (3, 12), (5, 20)])
def test_own_heads_for_classes_have_weights_for_each(
    classes: int, weights: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three columns and a level: four weights, for each class where there are more than two."""
    X, _, env, _ = table(seed)
    rows = Environments(X, np.arange(N) % classes, env)
    for work, too_much in ((3 * weights**3, False), (3 * weights**3 - 1, True)):
        monkeypatch.setattr("invariscope.criteria.material.MOST_WORK", work)
        found = fittable_apart(rows, target_of(rows))
        assert isinstance(found, Missing) == too_much
    assert isinstance(found, Missing)
    assert found.reason.startswith(f"linear heads of {weights} weights for each of 3 environments take minutes, ")


def test_no_matrix_is_decomposed_beyond_the_limit_and_a_wide_head_takes_the_way_of_wide_heads(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, _, env, label = table(seed)
    y, values = np.where(label == "no", 0, np.arange(N) % 2 + 1), X.to_numpy() / X.std().to_numpy()
    head = iv.LinearHead(np.random.default_rng(seed).normal(size=(3, 3)), np.zeros(3))
    model = iv.Split(lambda X: X, head=head, task="classification")
    for module in ("influence.influence_index", "dric.dric"):
        monkeypatch.setattr(f"invariscope.criteria.{module}.MOST_WEIGHTS", 4)
    found = iv.audit(model, values, y, env, n_boot=99)
    assert found["influence_index"].solver == "kronecker"  # 4 x 4 matrices, 12 weights
    assert "dric" in found.results
    wider = np.column_stack([values, values[:, :1] ** 2])
    model = iv.Split(lambda X: X, head=iv.LinearHead(np.eye(3, 4), np.zeros(3)), task="classification")
    found = iv.audit(model, wider, y, env, n_boot=99)
    assert found.left_out["influence_index"] == (
        "the influence index of a head on 4 columns decomposes a matrix of 5 x 5, and an audit goes up to 4. Use fewer "
        "columns: choose some, or audit a model whose representation has fewer. Called by itself, "
        "iv.influence_index(Z, y, env, head=...) takes its time."
    )
    assert np.isfinite(
        iv.influence_index(wider, y, env, head=iv.LinearHead(np.eye(3, 4), np.zeros(3)), n_boot=99).value
    )
    assert found.left_out["dric"] == (
        "density ratios of 4 columns take minutes, and an audit estimates them for less than 4. Use fewer columns, or "
        "call iv.dric(predictions, X, env, baseline=..., svd=128), which reduces them first."
    )
    by_hand = iv.dric(model.predict(wider), wider, env, baseline=np.full((N, 3), 1 / 3) + 0.1 * wider[:, :3], svd=2)
    assert np.isfinite(by_hand.value)


def without_a_class(y: np.ndarray, env: np.ndarray) -> np.ndarray:
    return np.where((env == "c") & (y == "no"), "yes", y)


@pytest.mark.parametrize("kind", ["class", "constant", "rows"])
def test_what_one_environment_lacks_leaves_out_heads_of_their_own_alone(kind: str, seed: int) -> None:
    X, y, env, label = table(seed)
    if kind == "rows":
        keep = (env != "c") | (np.cumsum(env == "c") <= 6)
        X, y, env, label = X[keep], y[keep], env[keep], label[keep]
    target = {"class": without_a_class(label, env), "constant": np.where(env == "c", 3.0, y), "rows": y}[kind]
    material = material_of(None, X, target, env)
    assert isinstance(material.own_heads, Missing)
    assert 'environment "c"' in material.own_heads.reason
    assert material.own_heads.environments == ("c",)
    assert missing(material) <= {"own_heads", "network", "trained_head", "probabilities", "baseline"}


def test_no_baseline_is_fitted_for_a_model_without_predictions_or_for_none(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    X, y, env, _ = table(seed)
    fits = []
    monkeypatch.setattr(
        "invariscope.auditing.subject.pooled_head", lambda *given: fits.append(given) or pooled_head(*given)
    )
    material_of(iv.Split(represent=X.to_numpy()), X, y, env)
    assert fits == []
    material_of(None, X, y, env)
    assert len(fits) == 1  # the head itself
    material_of(None, X, y, env, baseline=y)
    assert len(fits) == 2


def test_what_nobody_needs_is_not_fitted(no_fits: None, seed: int) -> None:
    X, y, env, _ = table(seed)
    material = material_of(None, X, y, env, needs={"own_heads", "target"})
    assert {"head", "predictions", "inputs", "baseline"} <= missing(material)


@pytest.mark.parametrize("model", [None, "linear", "pipeline", "classifier"])
def test_rows_are_grouped_once_and_blocks_made_once_per_matrix(
    model: str | None, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Representation, predictions and inputs are three matrices about the same rows."""
    X, y, env, label = table(seed)
    target = label if model == "classifier" else y
    made = {
        None: lambda: None,
        "linear": lambda: LinearRegression().fit(X, y),
        "pipeline": lambda: make_pipeline(StandardScaler(), LinearRegression()).fit(X, y),
        "classifier": lambda: LogisticRegression().fit(X, label),
    }[model]()
    counts = {"groupings": 0, "matrices": 0}
    group, block = Environments.__init__, Blocks.of

    def counted_group(self: Environments, *given: Any, **options: Any) -> None:
        counts["groupings"] += 1
        group(self, *given, **options)

    def counted_block(*given: Any) -> Blocks:
        counts["matrices"] += 1
        return block(*given)

    monkeypatch.setattr(Environments, "__init__", counted_group)
    monkeypatch.setattr(Blocks, "of", counted_block)
    results = iv.audit(made, X, target, env, n_boot=99).results
    assert {"regret", "transport_gap", "risk_variance", "worst_case", "influence_index"} <= set(results)
    assert counts == {"groupings": 1, "matrices": 3}


@pytest.mark.parametrize(("task", "rows_per_weight"), [("regression", 2), ("binary", 5), ("multiclass", 5)])
def test_a_learned_representation_is_judged_by_its_predictions_below_so_many_rows_per_weight(
    task: str, rows_per_weight: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    width = 6
    weights = (width + 1) * (2 if task == "multiclass" else 1)  # of a head, beside the class that is the reference
    weight = rng.normal(size=(3, width))
    outputs = rng.normal(size=(width, {"regression": 1, "binary": 2, "multiclass": 3}[task]))

    def represent(X: np.ndarray) -> np.ndarray:
        return np.maximum(X @ weight, 0.1 * X @ weight)

    def predict(X: np.ndarray) -> np.ndarray:
        scores = represent(X) @ outputs
        return scores[:, 0] if task == "regression" else softmax(scores)

    model = iv.Split(represent=represent, predict=predict)
    for short in (0, 1):
        sizes = [rows_per_weight * weights - short, 200]
        X = rng.normal(size=(sum(sizes), 3))
        y = X[:, 0] if task == "regression" else np.arange(len(X)) % outputs.shape[1]
        material = material_of(model, X, y, np.repeat(["a", "b"], sizes))
        assert material.representation.X.shape[1] == width
        assert material.compared.X.shape[1] == (max(1, outputs.shape[1] - 1) if short else width)


@pytest.mark.parametrize("channels", [1, 2])
def test_pixels_of_a_channel_are_in_one_unit(channels: int) -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(size=(90, channels, 3, 3)) * np.array([1.0, 10.0])[:channels, None, None]
    images[:, :, 0, :] = 0.0
    images[3, :, 0, 0] = 0.05  # a border pixel that is not black once
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(9 * channels, 2)).double()
    given = images, np.tile([0, 1], 45), np.repeat(["a", "b", "c"], 30)
    representation = material_of(iv.split(model), *given).representation
    ratio = representation.X.std(axis=0) / images.reshape(90, -1).std(axis=0).clip(1e-300)
    for channel in range(channels):
        part = slice(9 * channel, 9 * channel + 9)
        one = np.sqrt(np.mean(images[:, channel].var(axis=0)))
        there = images.reshape(90, -1)[:, part].std(axis=0) > 0
        np.testing.assert_allclose(ratio[part][there], 1 / one, rtol=1e-9)
    # the same numbers as a table are columns like any others
    table = material_of(None, images.reshape(90, -1), *given[1:]).representation
    spreads = table.X.std(axis=0)
    np.testing.assert_allclose(spreads[spreads > 0], 1.0, rtol=1e-9)


def test_a_network_out_of_reach_is_not_called_missing() -> None:
    rng = np.random.default_rng(0)
    X, y, env = rng.normal(size=(120, 3)), np.tile([0, 1], 60), np.repeat(["a", "b"], 60)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    trained = iv.InvariantClassifier(hidden=(4,), steps=2).fit(X, y, env=env)
    behind = make_pipeline(StandardScaler(), iv.InvariantClassifier("erm", hidden=(4,), steps=2)).fit(X, y)
    models: dict[str, Any] = {
        "needs the network itself, which is audited by its predictions here": iv.split(module).by_predictions(),
        "needs a torch model": lambda rows: 1 / (1 + np.exp(-rows[:, 0])),
        "needs the estimator by itself: through the steps before it no gradients lead": behind,
    }
    for reason, model in models.items():
        lack = material_of(model, X, y, env).lacks("network")
        assert lack is not None
        assert lack.reason == reason
    for model in (iv.split(module), trained, trained.split()):
        assert material_of(model, X, y, env).lacks("network") is None
