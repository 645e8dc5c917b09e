"""Splitting scikit-learn's models: the representation is the right one, and the head says what the model says."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.covariance import EllipticEnvelope
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC, LinearSVR

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.models import Split, split

NAMES = ["age", "dose", "weight"]


class Data:
    """Rows with a number, two classes (text) and three classes as targets."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(90, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, -1.0]
        self.number = self.X @ [1.0, -0.5, 2.0] + 0.3 + 0.5 * rng.normal(size=90)
        ranks = np.argsort(np.argsort(self.number))
        self.binary = np.where(ranks < 45, "no", "yes")
        self.three = np.array(["a", "b", "c"])[ranks // 30]
        self.count = np.exp(self.number / 4)
        self.frame = pd.DataFrame(self.X, columns=NAMES)


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


def network(kind: type, **settings: Any) -> Any:
    """A small network; lbfgs, cut short, without the warning about it."""
    return kind(hidden_layer_sizes=(5, 4), solver="lbfgs", max_iter=400, tol=1e-1, random_state=0, **settings)


def scaled(model: Any) -> Pipeline:
    return make_pipeline(StandardScaler(), PCA(2), model)


# --- the head says what the model says -------------------------------------------------------------------------------
REGRESSORS = [
    LinearRegression(),
    LinearRegression(fit_intercept=False),
    Ridge(),
    Lasso(alpha=0.01),
    ElasticNet(alpha=0.01),
    SGDRegressor(random_state=0),
    LinearSVR(random_state=0, max_iter=100_000, tol=1e-2),
    scaled(Ridge()),
    network(MLPRegressor),
    network(MLPRegressor, activation="tanh"),
    scaled(network(MLPRegressor, activation="logistic")),
    GridSearchCV(scaled(Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=2),
    FrozenEstimator(Ridge()),
]


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_head_of_a_regressor_predicts_what_the_model_predicts(model: Any, data: Data) -> None:
    if isinstance(model, FrozenEstimator):
        model.estimator.fit(data.X, data.number)
    halves = split(model.fit(data.X, data.number))
    expected = model.predict(data.X)
    assert halves.task == "regression"
    assert halves.classes is None
    assert halves.level == "representation"
    assert halves.head is not None
    assert halves.head.n_outputs == 1
    np.testing.assert_allclose(halves.head.scores(halves.represent(data.X))[:, 0], expected, atol=1e-8)
    np.testing.assert_array_equal(halves.predict(data.X), expected)


CLASSIFIERS = [
    LogisticRegression(),
    LogisticRegression(fit_intercept=False),
    LinearDiscriminantAnalysis(),
    scaled(LogisticRegression()),
    network(MLPClassifier),
    network(MLPClassifier, activation="identity"),
    scaled(network(MLPClassifier, activation="tanh")),
    RandomizedSearchCV(scaled(LogisticRegression()), {"logisticregression__C": [0.1, 1.0]}, n_iter=2, cv=2),
]


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_head_of_a_classifier_gives_the_models_probabilities(model: Any, target: str, data: Data) -> None:
    model.fit(data.X, getattr(data, target))
    halves = split(model)
    expected = model.predict_proba(data.X)
    classes = ("no", "yes") if target == "binary" else ("a", "b", "c")
    assert halves.task == "classification"
    assert halves.classes == classes
    assert halves.probabilistic
    assert halves.head is not None
    assert halves.head.n_outputs == (1 if target == "binary" else 3)
    scores = halves.head.scores(halves.represent(data.X))
    ours = np.column_stack([expit(-scores), expit(scores)]) if target == "binary" else softmax(scores, axis=1)
    np.testing.assert_allclose(ours, expected, atol=1e-8)
    np.testing.assert_array_equal(halves.predict(data.X), expected)


def test_binary_sgd_with_log_loss_has_a_head(data: Data) -> None:
    model = SGDClassifier(loss="log_loss", random_state=0).fit(data.X, data.binary)
    halves = split(model)
    assert halves.head is not None
    np.testing.assert_allclose(halves.head.probabilities(data.X), model.predict_proba(data.X), atol=1e-8)


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.parametrize(
    "model", [RidgeClassifier(), LinearSVC(random_state=0, tol=1e-2), SGDClassifier(random_state=0)]
)
def test_classifiers_that_only_vote(model: Any, target: str, data: Data) -> None:
    model.fit(data.X, getattr(data, target))
    halves = split(model)
    assert halves.head is not None
    assert not halves.probabilistic
    scores = halves.head.scores(halves.represent(data.X))
    np.testing.assert_allclose(scores.squeeze(), model.decision_function(data.X), atol=1e-8)
    votes = halves.predict(data.X)
    assert votes.shape == (90, len(model.classes_))
    assert set(np.unique(votes)) <= {0.0, 1.0}
    np.testing.assert_array_equal(np.array(halves.classes)[votes.argmax(axis=1)], model.predict(data.X))


# --- no head where the scores are not the model's --------------------------------------------------------------------
class Clipped(Ridge):
    """A linear model whose predictions are not linear."""

    def predict(self, X: Any) -> Any:
        return np.maximum(super().predict(X), 0.0)


@pytest.mark.parametrize(
    ("model", "target"),
    [
        (PoissonRegressor(), "count"),
        (Clipped(), "number"),
        (SGDClassifier(loss="log_loss", random_state=0), "three"),  # one-versus-rest, normalised: not softmax
        (SGDClassifier(loss="modified_huber", random_state=0), "binary"),
        (SVC(kernel="linear"), "three"),  # one-versus-one
        (PLSRegression(2), "number"),  # centres its inputs first
    ],
    ids=str,
)
def test_linear_models_with_another_link_keep_the_features_but_have_no_head(
    model: Any, target: str, data: Data
) -> None:
    halves = split(model.fit(data.X, getattr(data, target)))
    assert halves.head is None
    assert halves.level == "representation"
    assert (
        halves.description
        == f"{type(model).__name__}: the features themselves; {type(model).__name__} is no linear head"
    )
    np.testing.assert_array_equal(halves.represent(data.X), data.X)


def test_network_with_a_log_link_has_its_hidden_layer_but_no_head(data: Data) -> None:
    if "loss" not in inspect.signature(MLPRegressor).parameters:
        pytest.skip("this scikit-learn knows no Poisson loss for networks")
    halves = split(network(MLPRegressor, loss="poisson").fit(data.X, data.count))
    assert halves.head is None
    assert halves.represent(data.X).shape == (90, 4)


# --- which representation it is --------------------------------------------------------------------------------------
def test_pipeline_representation_is_the_input_of_the_last_step(data: Data) -> None:
    model = scaled(Ridge()).fit(data.X, data.number)
    halves = split(model)
    np.testing.assert_array_equal(halves.represent(data.X), model[:-1].transform(data.X))
    assert halves.columns(data.X) == ("pca0", "pca1")
    assert halves.description == "Pipeline: all steps but the last (StandardScaler → PCA)"


def test_pipeline_with_a_forest_keeps_its_features_without_a_head(data: Data) -> None:
    model = scaled(RandomForestClassifier(5, random_state=0)).fit(data.X, data.binary)
    halves = split(model)
    assert halves.head is None
    assert halves.level == "representation"
    assert "no linear head" in halves.description
    assert halves.represent(data.X).shape == (90, 2)
    np.testing.assert_array_equal(halves.predict(data.X), model.predict_proba(data.X))


def test_pipeline_of_one_step_and_passthrough_steps(data: Data) -> None:
    model = Pipeline([("nothing", "passthrough"), ("line", Ridge())]).fit(data.X, data.number)
    assert split(model).description == "Ridge: the features themselves"
    np.testing.assert_array_equal(split(model).represent(data.X), data.X)


def test_nested_pipelines_and_searches_are_unrolled(data: Data) -> None:
    inner = Pipeline([("pca", PCA(2)), ("line", Ridge())])
    search = GridSearchCV(inner, {"line__alpha": [0.1, 1.0]}, cv=2)
    model = make_pipeline(StandardScaler(), search).fit(data.X, data.number)
    halves = split(model)
    assert halves.head is not None
    assert halves.head.n_features == 2
    assert halves.columns(data.X) == ("pca0", "pca1")
    np.testing.assert_allclose(halves.head.scores(halves.represent(data.X))[:, 0], model.predict(data.X), atol=1e-8)
    outer = GridSearchCV(scaled(Ridge()), {"ridge__alpha": [1.0]}, cv=2).fit(data.X, data.number)
    assert (
        split(outer).description == "GridSearchCV's best model, Pipeline: all steps but the last (StandardScaler → PCA)"
    )


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic", "identity"])
def test_hidden_layer_is_computed_layer_by_layer(activation: str, data: Data) -> None:
    model = network(MLPRegressor, activation=activation).fit(data.X, data.number)
    function = {"relu": lambda h: np.where(h > 0, h, 0), "tanh": np.tanh, "logistic": expit, "identity": lambda h: h}
    hidden = data.X
    for layer in range(2):
        hidden = function[activation](hidden @ model.coefs_[layer] + model.intercepts_[layer])
    halves = split(model)
    np.testing.assert_allclose(halves.represent(data.X), hidden, atol=1e-12)
    assert halves.columns(data.X) == ("hidden 1", "hidden 2", "hidden 3", "hidden 4")
    assert halves.description == "MLPRegressor: last hidden layer"
    piped = make_pipeline(StandardScaler(), model).fit(data.X, data.number)
    assert split(piped).description == "Pipeline: StandardScaler → MLPRegressor's last hidden layer"


def test_network_without_hidden_layers_is_a_linear_model(data: Data) -> None:
    model = MLPRegressor(hidden_layer_sizes=(), solver="lbfgs", random_state=0, tol=1e-2).fit(data.X, data.number)
    halves = split(model)
    np.testing.assert_array_equal(halves.represent(data.X), data.X)
    assert halves.head is not None
    assert halves.columns(data.X) == ("x0", "x1", "x2")


def test_sparse_inputs_and_sparse_transformers_become_dense(data: Data) -> None:
    words = pd.DataFrame({"site": np.where(data.X[:, 0] > 0, "north", "south"), "dose": data.X[:, 1]})
    encode = ColumnTransformer([("site", OneHotEncoder(), ["site"])], remainder="passthrough", sparse_threshold=1.0)
    model = make_pipeline(encode, LogisticRegression()).fit(words, data.binary)
    halves = split(model)
    Z = halves.represent(words)
    assert isinstance(Z, np.ndarray)
    assert Z.dtype == np.float64
    assert Z.shape == (90, 3)
    assert halves.columns(words, Z) == ("site__site_north", "site__site_south", "remainder__dose")
    assert halves.head is not None
    np.testing.assert_allclose(halves.head.probabilities(Z), model.predict_proba(words), atol=1e-8)
    rows = sparse.csr_array(data.X)
    for network_or_line in (Ridge(), network(MLPRegressor)):
        halves = split(network_or_line.fit(rows, data.number))
        np.testing.assert_allclose(halves.represent(rows), halves.represent(data.X), atol=1e-12)


def test_frames_reach_the_model_unchanged_and_give_their_names(data: Data) -> None:
    model = make_pipeline(StandardScaler(), Ridge()).fit(data.frame, data.number)
    halves = split(model)
    assert halves.columns(data.frame) == tuple(NAMES)  # a warning about names would be an error here
    assert split(Ridge().fit(data.frame, data.number)).columns(data.frame) == tuple(NAMES)
    frames = make_pipeline(StandardScaler().set_output(transform="pandas"), Ridge()).fit(data.frame, data.number)
    assert isinstance(split(frames).represent(data.frame), np.ndarray)


def test_names_are_numbered_where_a_step_has_none(data: Data) -> None:
    half = FunctionTransformer(lambda X: X[:, :2])
    model = make_pipeline(half, Ridge()).fit(data.X, data.number)
    assert split(model).columns(data.X) == ("functiontransformer0", "functiontransformer1")
    longer = make_pipeline(half, StandardScaler(), Ridge()).fit(data.X, data.number)
    assert split(longer).columns(data.X) == ("functiontransformer0", "functiontransformer1")


# --- prediction level ------------------------------------------------------------------------------------------------
def test_forests_are_judged_by_their_predictions(data: Data) -> None:
    model = RandomForestRegressor(5, random_state=0).fit(data.X, data.number)
    halves = split(model)
    assert halves.level == "prediction"
    assert halves.head is None
    assert halves.columns(data.X) == ("prediction",)
    assert halves.description == "RandomForestRegressor: its predictions"
    np.testing.assert_array_equal(halves.represent(data.X)[:, 0], model.predict(data.X))


def test_classifiers_are_judged_by_their_log_odds(data: Data) -> None:
    binary = CalibratedClassifierCV(LogisticRegression(), cv=2).fit(data.X, data.binary)
    p = binary.predict_proba(data.X)[:, 1]
    halves = split(binary)
    np.testing.assert_allclose(halves.represent(data.X)[:, 0], np.log(p / (1 - p)), atol=1e-10)
    assert halves.columns(data.X) == ('log-odds of "yes"',)
    three = RandomForestClassifier(5, random_state=0).fit(data.X, data.three)
    halves, p = split(three), np.clip(three.predict_proba(data.X), 1e-6, 1 - 1e-6)
    np.testing.assert_allclose(halves.represent(data.X), np.log(p[:, :2] / p[:, 2:]), atol=1e-10)
    assert halves.columns(data.X) == ('log-odds of "a" against "c"', 'log-odds of "b" against "c"')


@pytest.mark.parametrize(("target", "width"), [("binary", 1), ("three", 3)])
def test_kernel_machines_are_judged_by_their_decision_scores(target: str, width: int, data: Data) -> None:
    model = SVC().fit(data.X, getattr(data, target))
    halves = split(model)
    assert halves.level == "prediction"
    assert not halves.probabilistic
    assert halves.description == "SVC: its decision scores"
    np.testing.assert_allclose(halves.represent(data.X).squeeze(), model.decision_function(data.X))
    assert halves.columns(data.X)[-1] == ('score of "yes"' if width == 1 else 'score of "c"')


def test_transformed_target_says_why_it_is_not_split(data: Data) -> None:
    model = TransformedTargetRegressor(Ridge(), func=np.log, inverse_func=np.exp).fit(data.X, data.count)
    halves = split(model)
    assert halves.level == "prediction"
    assert "transformed target" in halves.description
    np.testing.assert_allclose(halves.represent(data.X)[:, 0], model.predict(data.X))


def test_estimators_of_other_packages_that_name_their_state_freely(data: Data) -> None:
    class Mean(RegressorMixin, BaseEstimator):
        def fit(self, X: Any, y: Any) -> Mean:
            self.state = float(np.mean(y))
            return self

        def predict(self, X: Any) -> Any:
            return np.full(len(X), self.state)

    assert split(Mean().fit(data.X, data.number)).predict(data.X)[0] == pytest.approx(data.number.mean())


def test_splits_can_be_frozen_and_pickled(data: Data) -> None:
    halves = split(scaled(network(MLPClassifier)).fit(data.X, data.three))
    again = pickle.loads(pickle.dumps(halves))
    np.testing.assert_array_equal(again.represent(data.X), halves.represent(data.X))
    with pytest.raises(AttributeError):
        halves.task = "regression"  # type: ignore[misc]


# --- what cannot be split, in words ----------------------------------------------------------------------------------
class VotingBase(ClassifierMixin, BaseEstimator):
    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Ridge(), r"model is not fitted: call fit first \(Ridge\)"),
        (make_pipeline(StandardScaler(), Ridge()), r"model is not fitted: call fit first \(Pipeline\)"),
        (GridSearchCV(Ridge(), {}), r"model is not fitted: call fit first \(GridSearchCV\)"),
        (RandomForestClassifier(), "model is not fitted: call fit first"),
        (MLPClassifier(), "model is not fitted: call fit first"),
        (Ridge, r"Ridge is a class: pass a fitted model, Ridge\(...\).fit\(X, y\)"),
        (VotingBase(), "VotingBase has neither predict_proba nor classes_"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_is_not_fitted_or_only_votes_without_saying_for_what(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(model)


def test_what_cannot_be_split_although_it_is_fitted(data: Data) -> None:
    X, two = data.X, np.column_stack([data.number, data.count])
    for model, message in [
        (KMeans(2, n_init=1).fit(X), "KMeans groups rows, it does not predict a target"),
        (EllipticEnvelope(random_state=0).fit(X), "EllipticEnvelope groups rows"),
        (PCA(2).fit(X), "PCA does not predict: end it with a classifier or regressor"),
        (make_pipeline(StandardScaler(), PCA(2)).fit(X), "Pipeline does not predict"),
        (GridSearchCV(Ridge(), {}, cv=2, refit=False).fit(X, data.number), "kept no model: fit it with refit=True"),
        (Ridge().fit(X, two), "Ridge predicts 2 targets: audit one target at a time"),
        (network(MLPRegressor).fit(X, two), "MLPRegressor predicts 2 targets"),
        (RandomForestRegressor(2).fit(X, two), "RandomForestRegressor predicts 2 targets"),
        (RandomForestClassifier(2).fit(X, two > 1), "RandomForestClassifier predicts 2 targets"),
        (network(MLPClassifier).fit(X, two > 1), "MLPClassifier predicts 2 targets"),
        (
            MultiOutputClassifier(LogisticRegression()).fit(X, two[:, :1] > 1),
            r"MultiOutputClassifier predicts a list with one target in it: give .*, model\.estimators_\[0\]",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            split(model)


def test_rows_that_do_not_fit_the_model(data: Data) -> None:
    line = split(Ridge().fit(data.frame, data.number))
    with pytest.raises(InputError, match="Ridge was fitted on the columns age, dose, weight; X has them in another"):
        line.represent(data.frame[["dose", "age", "weight"]])
    with pytest.raises(InputError, match="Ridge was fitted on the columns age, dose, weight; X differs in height"):
        line.represent(data.frame.rename(columns={"age": "height"}))
    with pytest.raises(InputError, match="Ridge was fitted on 3 columns, X has 2"):
        split(Ridge().fit(data.X, data.number)).represent(data.X[:, :2])
    with pytest.raises(InputError, match=r"StandardScaler.transform cannot use X: X has 2 features"):
        split(scaled(Ridge()).fit(data.X, data.number)).represent(data.X[:, :2])
    with pytest.raises(InputError, match="model is not fitted: call fit first"):
        split(make_pipeline(FunctionTransformer(), Pipeline([("scale", StandardScaler())]), Clipped())).predict(data.X)


class SplitsByItself(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator of nobody we know that says what its halves are."""

    def fit(self, X: Any, y: Any) -> SplitsByItself:
        self.is_fitted_ = True
        return self

    def represent(self, X: Any) -> Any:
        return np.asarray(X)[:, :1]

    def predict(self, X: Any) -> Any:
        return 2.0 * self.represent(X)[:, 0]

    def split(self) -> Split:
        head = LinearHead([[2.0]], 0.0)
        return Split(self.represent, self.predict, head, columns=["first"], name="first column", task="regression")


def test_a_model_that_splits_itself_is_asked_also_at_the_end_of_a_pipeline(data: Data) -> None:
    pipe = make_pipeline(StandardScaler(), SplitsByItself()).fit(data.X, data.number)
    halves = split(pipe)
    scaled = StandardScaler().fit_transform(data.X)[:, :1]
    np.testing.assert_allclose(halves.represent(data.X), scaled)
    np.testing.assert_allclose(halves.predict(data.X), 2 * scaled[:, 0])
    assert halves.columns(data.X) == ("first",)
    assert halves.description == "Pipeline: StandardScaler → first column"
    with pytest.raises(InputError, match=r"model is not fitted: call fit first \(SplitsByItself\)"):
        split(SplitsByItself())
