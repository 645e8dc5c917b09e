"""Refusals of models: which are split, what they predict, and the files they are read from."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import joblib
import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import invariscope as iv
from invariscope.models.files import load_model
from tests.remedies.case import Case

ROOM = tuple(
    f"models/{name}" for name in ("adapters", "file", "native", "outputs", "sklearn", "splits", "trained_with")
)

RNG = np.random.default_rng(0)
X, SITE = RNG.normal(size=(60, 2)), np.repeat(["A", "B"], 30)
Y = X @ [1.0, 2.0] + RNG.normal(size=60)
CLASS, WORDS = (Y > 0).astype(int), np.where(Y > 0, "yes", "no")
THREE = np.digitize(Y, [-1.0, 1.0])
TABLE = pd.DataFrame(X, columns=["a", "b"])
P = np.clip(1 / (1 + np.exp(-Y)), 0.01, 0.99)
LINE = LinearRegression().fit(X, Y)
HEAD = iv.LinearHead(LINE.coef_[None], LINE.intercept_)
TREE = "sklearn.tree._tree.Tree"


def audit(model: Any, rows: Any = X, y: Any = Y, env: Any = SITE, **options: Any) -> Any:
    return iv.audit(model, rows, y, env, **{"criteria": ["risk_variance"], "n_boot": 0, **options})


def risks(predictions: Any, y: Any = Y, env: Any = SITE, **options: Any) -> Any:
    return iv.risk_variance(predictions, y, env, **options)


def certain(labels: Any, **options: Any) -> Any:
    with pytest.warns(UserWarning, match="labels, not probabilities"):
        return risks(pd.get_dummies(labels), labels, **options)


def dric(baseline: Any) -> Any:
    return audit(LogisticRegression().fit(X, CLASS), y=CLASS, baseline=baseline, criteria=["dric"])


def gap(predictions: Any, y: Any = Y) -> Any:
    return iv.transport_gap(X, y, SITE, predictions=predictions, n_boot=0)


def answers(model: Any, rows: Any = X, **options: Any) -> Any:
    return iv.split(model, **options).predict(rows)


def halves(represent: Any = None, predict: Any = None, head: Any = None, **options: Any) -> Any:
    split = iv.Split(represent, predict, head, **options)
    return split.represent(X), split.predict(X), split.columns(X)


class Grid(GridSearchCV):
    """A search over one setting."""

    def __init__(self, refit: bool = True) -> None:
        super().__init__(LogisticRegression(), {"C": [1.0]}, cv=2, refit=refit)


class Votes(ClassifierMixin, BaseEstimator):
    """A classifier of a user's, which says neither how sure it is nor which classes there are."""

    def fit(self, X: Any, y: Any) -> Votes:
        self.weight_ = np.ones(X.shape[1])
        return self

    def predict(self, X: Any) -> Any:
        return (X @ self.weight_ > 0).astype(int)


class Cautious(BaseEstimator):
    """A model of a user's that says by itself that it was not fitted."""

    def fit(self, X: Any, y: Any) -> Cautious:
        self.mean = float(np.mean(y))
        return self

    def predict(self, X: Any) -> Any:
        if not hasattr(self, "mean"):
            raise NotFittedError("not yet")
        return np.full(len(X), self.mean)


class Looked(Cautious):
    """It looks something up, and finds only what it was fitted on."""

    def predict(self, X: Any) -> Any:
        return np.array([{"a": self.mean}[name] for name in X["place"]])


def without_coefficients() -> Any:
    broken = MLPRegressor(hidden_layer_sizes=(2,))
    broken.coefs_ = broken.n_layers_ = None
    broken.__sklearn_is_fitted__ = None
    return broken


# --- files ------------------------------------------------------------------------------------------------------------
def saved(model: Any = LINE, name: str = "model.skops", **options: Any) -> Any:
    """Write a model as people do, and read it."""
    (skops.io.dump if name.endswith(".skops") else joblib.dump)(model, name)
    return load_model(name, **options)


def bytes_in(name: str, content: bytes, **options: Any) -> Any:
    Path(name).write_bytes(content)
    return load_model(name, **options)


def tampered() -> Any:
    model = LinearRegression().fit(X, Y)
    model.coef_ = model.coef_[:1]
    return saved(model)


def swollen(compression: int) -> Any:
    """A model packed so that it grows; or the same as skops writes it."""
    saved()
    with zipfile.ZipFile("model.skops") as archive, zipfile.ZipFile("again.skops", "w", compression) as packed:
        for part in archive.infolist():
            packed.writestr(part.filename, archive.read(part))
        packed.writestr("zeros", bytes(1_000_000))
    with patch("invariscope.models.files.HARMLESS_SIZE", 100_000):
        return load_model("again.skops")


def without_skops() -> Any:
    with patch.dict(sys.modules, {"skops": None, "skops.io": None}):
        return saved_before()


def saved_before() -> Any:
    Path("model.skops").write_bytes(skops.io.dumps(LINE))
    return load_model("model.skops")


CASES = [
    Case(
        "give an objective with its weight",
        lambda: iv.three_steps({"ERM": None}, X, Y, SITE, trained_with={"ERM": "irm"}, n_boot=0),
        lambda: iv.three_steps({"ERM": None}, X, Y, SITE, trained_with={"ERM": iv.objectives.IRM(weight=9)}, n_boot=0),
    ),
    Case("cannot be called with X alone", lambda: audit(lambda: P), lambda: audit(lambda rows: rows[:, 0])),
    # --- what can be split ---
    Case("LinearRegression(...).fit(X, y)", lambda: answers(LinearRegression), lambda: answers(LINE)),
    Case("leave it out", lambda: answers(LINE, layer="2"), lambda: answers(LINE)),
    Case('load_model("model.skops")', lambda: audit("model.skops"), lambda: audit(saved())),
    Case("or None to audit the columns of X", lambda: audit("linear"), lambda: audit(None)),
    Case("pass iv.Split(represent=", lambda: audit({}), lambda: audit(iv.Split(predict=LINE.predict))),
    # --- halves given by hand ---
    Case("needs represent=, predict= or both", lambda: iv.Split(), lambda: halves(X, Y)),
    Case(
        "give both halves of one model",
        lambda: halves(X[:, :1], head=HEAD, task="regression"),
        lambda: halves(X, head=HEAD, task="regression"),
    ),
    Case("pass predict= or head= as well", lambda: halves(X), lambda: halves(X, Y)),
    Case("give one name per column", lambda: halves(X, Y, columns=["a"]), lambda: halves(X, Y, columns=["a", "b"])),
    Case(
        "give iv.LinearHead(weight, bias)",
        lambda: halves(X, Y, LINE),
        lambda: halves(X, Y, iv.LinearHead(LINE.coef_[None], LINE.intercept_)),
    ),
    Case("pass represent= as well", lambda: halves(None, Y, HEAD), lambda: halves(X, Y, HEAD)),
    Case('task="regression" or', lambda: halves(X, head=HEAD), lambda: halves(X, head=HEAD, task="regression")),
    Case("such as its predict", lambda: halves(predict=LINE), lambda: halves(predict=LINE.predict)),
    # --- predictions ---
    Case("fill them", lambda: risks(np.ma.masked_less(Y, 0)), lambda: risks(np.ma.masked_less(Y, 0).filled(0))),
    Case("flatten images first", lambda: audit(iv.Split(X[:, None])), lambda: audit(iv.Split(X.reshape(60, -1), Y))),
    Case("about the very same rows", lambda: audit(Y[:-1]), lambda: audit(Y)),
    Case("Audit one target at a time", lambda: risks(X, task="regression"), lambda: risks(X[:, 0], task="regression")),
    Case("such as model.predict(X)", lambda: gap(LINE), lambda: gap(LINE.predict(X))),
    Case("give one column, or one per class", lambda: gap(X[:, None]), lambda: gap(X[:, 0])),
    Case("(A: 1 of 30); predict it too", lambda: audit([np.nan, *Y[1:]]), lambda: audit(Y)),
    Case("or drop it", lambda: audit([np.nan, *Y[1:]]), lambda: audit(Y[1:], X[1:], Y[1:], SITE[1:])),
    Case("give numbers, or for classes probabilities", lambda: risks(WORDS, WORDS), lambda: risks(P, WORDS)),
    Case("as pandas.get_dummies", lambda: risks(WORDS, WORDS), lambda: certain(WORDS)),
    Case(
        "name every column after its class",
        lambda: audit(pd.DataFrame({"low": 1 - P, "high": P}), y=WORDS),
        lambda: audit(pd.DataFrame({"no": 1 - P, "yes": P}), y=WORDS),
    ),
    Case(
        "(0, 1, 2), and 2 are asked for (0, 1): give a model that was fitted on these",
        lambda: dric(LogisticRegression().fit(X, THREE)),
        lambda: dric(LogisticRegression(C=0.1).fit(X, CLASS)),
    ),
    Case(
        "in the order 0, 1, 2",
        lambda: risks(np.column_stack([1 - P, P]), THREE),
        lambda: risks(np.column_stack([1 - P, P, 0 * P]), THREE),
    ),
    Case(
        "as pandas.get_dummies",
        lambda: risks(2.0 * CLASS + 1, 2 * CLASS + 1, task="classification"),
        lambda: certain(2 * CLASS + 1, task="classification"),
    ),
    Case(
        "give numpy.asarray(predictions).astype(float)",
        lambda: audit(P.astype(str), None, CLASS),
        lambda: audit(np.asarray(P.astype(str)).astype(float), None, CLASS),
    ),
    Case("predictions hold text", lambda: audit(WORDS, None, WORDS), lambda: audit(pd.get_dummies(WORDS), None, WORDS)),
    Case("Apply the sigmoid", lambda: risks(Y, CLASS), lambda: risks(1 / (1 + np.exp(-Y)), CLASS)),
    Case('or pass task="regression"', lambda: risks(Y, CLASS), lambda: risks(Y, CLASS, task="regression")),
    Case("Divide by 100 if they are per cent", lambda: audit(100 * P, None, WORDS), lambda: audit(P, None, WORDS)),
    Case(
        "Divide by 100 if they are per cent",
        lambda: risks(np.column_stack([100 - 100 * P, 100 * P]), WORDS),
        lambda: risks(np.column_stack([1 - P, P]), WORDS),
    ),
    Case(
        "every row summing to 1",
        lambda: risks(np.column_stack([P, P]), CLASS),
        lambda: risks(np.column_stack([1 - P, P]), CLASS),
    ),
    # --- scikit-learn's models ---
    Case("call fit first", lambda: answers(LinearRegression()), lambda: answers(LinearRegression().fit(X, Y))),
    Case("call fit first", lambda: answers(Cautious()), lambda: answers(Cautious().fit(X, Y))),
    Case(
        "fit it again",
        lambda: answers(without_coefficients()),
        lambda: answers(MLPRegressor(hidden_layer_sizes=(2,), max_iter=500, tol=1.0).fit(X, Y)),
    ),
    Case(
        "pass iv.Split(represent=",
        lambda: audit(DBSCAN().fit(X)),
        lambda: audit(iv.Split(represent=X, predict=Y)),
    ),
    Case(
        "fit it with refit=True",
        lambda: answers(Grid(refit=False).fit(X, CLASS)),
        lambda: answers(Grid(refit=True).fit(X, CLASS)),
    ),
    Case(
        "end it with a classifier or regressor",
        lambda: answers(make_pipeline(StandardScaler()).fit(X, Y)),
        lambda: answers(make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y)),
    ),
    Case(
        "has neither predict_proba nor classes_: pass iv.Split",
        lambda: audit(Votes().fit(X, CLASS), y=CLASS),
        lambda: audit(iv.Split(predict=lambda rows: Votes().fit(X, CLASS).predict(rows)), y=CLASS),
    ),
    Case(
        "fit it on rows of several",
        lambda: answers(DecisionTreeClassifier().fit(X, 0 * CLASS)),
        lambda: answers(DecisionTreeClassifier().fit(X, CLASS)),
    ),
    Case(
        "audit one target at a time",
        lambda: answers(LinearRegression().fit(X, X)),
        lambda: answers(LinearRegression().fit(X, X[:, 0])),
    ),
    Case(
        "give the model of that target, model.estimators_[0]",
        lambda: answers(MultiOutputClassifier(LogisticRegression()).fit(X, CLASS[:, None])),
        lambda: answers(MultiOutputClassifier(LogisticRegression()).fit(X, CLASS[:, None]).estimators_[0]),
    ),
    Case(
        "give these, in this order",
        lambda: iv.split(LinearRegression().fit(TABLE, Y)).represent(TABLE[["b", "a"]]),
        lambda: iv.split(LinearRegression().fit(TABLE, Y)).represent(TABLE[["b", "a"]][["a", "b"]]),
    ),
    Case(
        "give the same columns",
        lambda: iv.split(LINE).represent(X[:, :1]),
        lambda: iv.split(LINE).represent(X),
    ),
    Case("Give rows like those it was fitted on", lambda: answers(LINE, X[:, :1]), lambda: answers(LINE, X)),
    Case(
        "fit the model again, on rows like these",
        lambda: answers(Looked().fit(X, Y), pd.DataFrame({"place": ["b"]})),
        lambda: answers(Looked().fit(X, Y), pd.DataFrame({"place": ["a"]})),
    ),
    # --- files ---
    Case("Save the scikit-learn model as .skops", lambda: bytes_in("model.onnx", b""), saved),
    Case("a model file ends in .skops", lambda: bytes_in("model.bin", b""), saved),
    Case("there is no such file", lambda: load_model("model.skops"), saved),
    Case("pip install skops", without_skops, saved_before),
    Case("save the fitted model again, with skops.io.dump", lambda: bytes_in("model.skops", b"text"), saved),
    Case("save the fitted model again", tampered, saved),
    Case(
        f"trusted=['{TREE}']",
        lambda: saved(DecisionTreeRegressor().fit(X, Y)),
        lambda: saved(DecisionTreeRegressor().fit(X, Y), trusted=[TREE]),
    ),
    Case("save it without compression", lambda: swollen(zipfile.ZIP_DEFLATED), lambda: swollen(zipfile.ZIP_STORED)),
    Case(
        "trust_pickle=True",
        lambda: saved(name="model.pkl"),
        lambda: saved(name="model.pkl", trust_pickle=True),
    ),
    Case("or save the model as .skops", lambda: saved(name="model.pkl"), saved),
    Case(
        "save the fitted model again",
        lambda: bytes_in("model.pkl", b"text", trust_pickle=True),
        lambda: saved(name="model.pkl", trust_pickle=True),
    ),
]
