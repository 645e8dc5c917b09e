"""Audits of every kind of model on every kind of rows, models taken apart, and data read: for :mod:`same_numbers`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Array = np.ndarray[Any, Any]
Add = Callable[..., None]
TASKS = ("regression", "binary", "multiclass")
OUTPUTS = {"regression": 1, "binary": 1, "multiclass": 3}


@dataclass(frozen=True)
class World:
    """Rows in random order; ``f`` are predictions of a model that knows the relation roughly."""

    X: Array
    y: Array
    env: Array
    weight: Array
    f: Array

    @property
    def rows(self) -> tuple[Array, Array, Array]:
        return self.X, self.y, self.env

    @property
    def table(self) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
        """The same with names."""
        columns = ["age", "dose", "weight", "height"]
        return (
            pd.DataFrame(self.X, columns=columns),
            pd.Series(self.y, name="outcome"),
            pd.Series(self.env, name="site"),
        )

    def labels(self, *names: str) -> Array:
        """Classes by these names."""
        return np.array(names)[self.y]


def world(
    task: str = "regression",
    sizes: tuple[int, ...] = (90, 120, 100),
    *,
    shift: float = 0.4,
    apart: float = 0.3,
    seed: int = 0,
) -> World:
    """Environments whose rows lie ``apart``, and whose relation shifts by ``shift`` from one to the next."""
    rng = np.random.default_rng([seed, TASKS.index(task)])
    code = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(code), 4)) + apart * code[:, None] * (np.arange(4) == 1)
    score = X[:, 0] - 0.5 * X[:, 1] + shift * code * X[:, -1] + 0.5 * shift * code
    known = X[:, 0] - 0.4 * X[:, 1]
    if task == "regression":
        y, f = score + rng.normal(size=len(code)), known
    elif task == "binary":
        y, f = (score + rng.logistic(size=len(code)) > 0).astype(int), 1 / (1 + np.exp(-known))
    else:
        y = np.argmax(np.column_stack([score, -score, 0.8 * X[:, 1]]) + rng.gumbel(size=(len(code), 3)), axis=1)
        shares = np.exp(np.column_stack([known, -known, 0.5 * X[:, 1]]))
        f = shares / shares.sum(axis=1, keepdims=True)
    return World(X, y, np.array(list("abcdefgh"))[code], rng.integers(1, 4, len(code)), f)


def network(outputs: int, inputs: int = 4, hidden: int = 6, *behind: nn.Module) -> nn.Sequential:
    """The same small network whenever it is asked for."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs), *behind).double()


def small_convnet() -> nn.Sequential:
    """Of images (1, 4, 4), for three classes."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3))


def cases(iv: Any) -> dict[str, Callable[[], Any]]:
    """All of them by name, ready to be run."""
    found: dict[str, Callable[[], Any]] = {}

    def add(name: str, function: Callable[..., Any], *given: Any) -> None:
        found[name] = partial(function, iv, *given)

    def audit(name: str, model: Callable[[], Any] | None, rows: Any, **options: Any) -> None:
        add(f"audit/{name}", _audited, model, rows, {"n_boot": 199, **options})

    worlds = [world(task) for task in TASKS]
    for audits in (_columns, _models, _own_halves, _networks, _options, _real_data):
        audits(audit, iv, *worlds)
    _splits(add, iv, *worlds)
    _data_sets(add)
    _files(add)
    add("Environments", _environments, worlds[1])
    return found


# --- audits -----------------------------------------------------------------------------------------------------------
def _audited(iv: Any, model: Callable[[], Any] | None, rows: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What an audit says, but for the time it took."""
    given = rows() if callable(rows) else rows
    audit = iv.audit(None if model is None else model(), *given, **options)
    names = ("state", "headline", "sentences", "algorithm", "verdict", "notes", "left_out", "data", "results")
    return {name: getattr(audit, name) for name in names} | {"frame": audit.frame()}


def _columns(audit: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    for task, rows in zip(TASKS, (numbers, two, three), strict=True):
        audit(f"columns {task}", None, rows.rows)
    years, noise = np.array([2019, 2020, 2021])[np.arange(310) % 3], np.random.default_rng(5).normal(size=310)
    audit("columns weighted", None, numbers.rows, weight=numbers.weight)
    audit("columns weighted classes", None, two.rows, weight=two.weight)
    audit("columns two environments", None, world("binary", (150, 200)).rows)
    audit("columns five environments", None, world("regression", (60, 80, 100, 70, 90), shift=0.1, seed=1).rows)
    audit("columns named", None, numbers.table, target_name="rent", env_name="season")
    audit("columns text labels", None, (two.X, two.labels("well", "ill"), two.env))
    audit("columns numbered environments", None, (three.X, three.y, years))
    audit("columns few rows", None, world("regression", (14, 15, 40), seed=2).rows)
    audit("columns constant", None, (np.ones((310, 2)), numbers.y, numbers.env))
    audit("columns with a constant one", None, (np.column_stack([two.X, np.ones(310)]), two.y, two.env))
    audit("columns uninformative", None, (numbers.X, noise, numbers.env))
    audit("columns invariant", None, lambda: iv.datasets.null_same_law(n=2500, d=2, environments=2, seed=1))


def _models(audit: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    frame, outcome, site = two.table
    mixed = frame.assign(ward=np.array(["north", "south", "east"])[np.arange(len(frame)) % 3])
    encoded = make_column_transformer((OneHotEncoder(), ["ward"]), remainder=StandardScaler())
    steps = make_pipeline(encoded, LogisticRegression())
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    short = {"hidden_layer_sizes": (5,), "max_iter": 30, "random_state": 0}
    forest = {"n_estimators": 15, "max_depth": 4, "random_state": 0}
    levels, counts = three.labels("low", "mid", "high"), np.abs(np.round(numbers.y))
    audit("LogisticRegression", lambda: LogisticRegression().fit(two.X, two.y), two.rows)
    audit("LogisticRegression labels", lambda: LogisticRegression().fit(three.X, levels), (three.X, levels, three.env))
    audit("Ridge", lambda: Ridge().fit(numbers.X, numbers.y), numbers.rows, weight=numbers.weight)
    audit("pipeline", lambda: make_pipeline(StandardScaler(), Ridge()).fit(*numbers.table[:2]), numbers.table)
    audit("pipeline of mixed columns", lambda: steps.fit(mixed, outcome), (mixed, outcome, site))
    audit("GridSearchCV", lambda: search.fit(two.X, two.y), two.rows)
    audit("RandomForestClassifier", lambda: RandomForestClassifier(**forest).fit(three.X, three.y), three.rows)
    audit("RandomForestRegressor", lambda: RandomForestRegressor(**forest).fit(numbers.X, numbers.y), numbers.rows)
    audit("MLPClassifier", lambda: MLPClassifier(**short).fit(three.X, three.y), three.rows)
    audit("MLPRegressor", lambda: MLPRegressor(**short).fit(numbers.X, numbers.y), numbers.rows)
    audit("RidgeClassifier", lambda: RidgeClassifier().fit(two.X, two.y), two.rows)
    audit("PoissonRegressor", lambda: PoissonRegressor().fit(numbers.X, counts), (numbers.X, counts, numbers.env))


def _own_halves(audit: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    head = iv.LinearHead([[1.0, -0.4]], 0.1)
    fitted = partial(MLPClassifier((5,), max_iter=30, random_state=0).fit, three.X, three.y)
    audit("function", lambda: lambda X: X[:, 0] - 0.4 * X[:, 1], numbers.rows)
    audit("function of classes", lambda: lambda X: np.column_stack([1 - two.f, two.f]), two.rows)
    audit("Split with a head", lambda: iv.Split(lambda X: X[:, :2], head=head, task="regression"), numbers.rows)
    audit("Split of arrays", lambda: iv.Split(three.X[:, :2], three.f, columns=("left", "right")), three.rows)
    audit("Split without predictions", lambda: iv.Split(np.tanh(two.X)), two.rows)
    audit("Split of predictions", lambda: iv.Split(predict=two.f, task="classification"), two.rows)
    audit("by_predictions", lambda: iv.split(fitted()).by_predictions(), three.rows)


def _networks(audit: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    images = np.random.default_rng(0).normal(size=(310, 1, 4, 4)).astype(np.float32)
    tensors = TensorDataset(*(torch.as_tensor(values) for values in (two.X, two.y, np.arange(310) % 3)))
    levels, few = three.labels("low", "mid", "high"), {"steps": 40, "learning_rate": 0.05}
    rows, settings = iv.training.Rows.of(*numbers.rows), iv.training.Settings(steps=30)
    named = partial(iv.split, network(3), classes=["high", "low", "mid"])
    two_halves = (network(5), network(1, 4, 5)[2])
    split_form = partial(iv.training.train, network(1), rows, iv.objectives.IRM(5.0, "split"), settings=settings)
    regressor, classifier = iv.InvariantRegressor, iv.InvariantClassifier
    audit("torch two outputs", lambda: network(2), two.rows)
    audit("torch log-odds", lambda: network(1, 4, 6, nn.Sigmoid()), two.rows)
    audit("torch several classes", named, (three.X, levels, three.env))
    audit("torch regression", lambda: network(1), numbers.rows)
    audit("torch wide", lambda: network(3, 4, 40), three.rows)
    audit("torch pair", lambda: two_halves, two.rows)
    audit("torch images", small_convnet, (images, three.y, three.env), criteria=["dric", "worst_case_in_inputs"])
    audit("torch loader", lambda: network(2), lambda: [DataLoader(tensors, batch_size=64, shuffle=True)])
    audit("torch trained", split_form, numbers.rows)
    audit("InvariantRegressor", lambda: regressor("vrex", penalty=10, **few).fit(*numbers.rows), numbers.rows)
    audit("InvariantClassifier", lambda: classifier("irm", hidden=(5,), **few).fit(*two.rows), two.rows)
    audit("InvariantClassifier classes", lambda: classifier("erm", hidden=(4,), **few).fit(*three.rows), three.rows)


def _options(audit: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    ridge = partial(Ridge().fit, numbers.X, numbers.y)
    audit("criteria one", ridge, numbers.rows, criteria="influence_index", seed=3)
    audit("criteria some", None, three.rows, criteria=["transport_gap", "risk_variance", "calibration_variance"])
    audit("ratio gaussian", ridge, numbers.rows, ratio="gaussian")
    audit("ratio ulsif", None, two.rows, ratio="ulsif")
    audit("ratio classifier", None, two.rows, ratio=GaussianNB())
    audit("baseline", ridge, numbers.rows, baseline=Ridge(10.0).fit(numbers.X, numbers.y))
    audit("margin", ridge, numbers.rows, margin=2.0, alpha=0.01)
    audit("refused criterion", None, two.rows, criteria="cric")
    audit("refused rows", None, (two.X[:12], numbers.y[:12], two.env[:12]))
    audit("refused labels", lambda: LogisticRegression().fit(two.X, two.y), three.rows)
    audit("refused margin", None, two.rows, margin=0)


def _real_data(audit: Add, iv: Any, *worlds: World) -> None:
    def some(data: Any, count: int) -> Any:
        """So many rows of every environment."""
        env, rng = np.asarray(data.env), np.random.default_rng(0)
        chosen = [rng.permutation(np.flatnonzero(env == label))[:count] for label in np.unique(env)]
        return data.rows(np.sort(np.concatenate(chosen)))

    def adults() -> Any:
        X, y, env = some(iv.datasets.adult().test, 300)
        return X[["age", "education-num", "hours-per-week", "capital-gain"]], y, env

    rentals = partial(iv.datasets.bike_sharing, ["hr", "workingday", "weathersit", "temp", "hum", "windspeed"])
    steps = make_pipeline(StandardScaler(), Ridge())
    audit("bike", lambda: steps.fit(rentals().train.X, rentals().train.y), lambda: some(rentals().test, 250))
    audit("heart", None, lambda: some(iv.datasets.heart_disease(drop=["cholesterol"]), 110))
    audit("adult", lambda: LogisticRegression(max_iter=500).fit(*adults()[:2]), adults)
    audit("law school", None, lambda: some(iv.datasets.law_school(), 150))


# --- models taken apart -----------------------------------------------------------------------------------------------
def _splits(add: Add, iv: Any, numbers: World, two: World, three: World) -> None:
    images = np.random.default_rng(1).normal(size=(20, 1, 4, 4)).astype(np.float32)
    curved = make_pipeline(PolynomialFeatures(2), StandardScaler(), LogisticRegression())
    boosting, mlp = HistGradientBoostingClassifier(max_iter=5), MLPClassifier((4,), max_iter=20, random_state=0)
    estimator = iv.InvariantClassifier("erm", hidden=(3,), steps=9)
    for name, model, rows, options in (
        ("Lasso", lambda: Lasso(0.1).fit(numbers.X, numbers.y), numbers.X, {}),
        ("pipeline", lambda: curved.fit(*two.table[:2]), two.table[0], {}),
        ("SGDClassifier", lambda: SGDClassifier(random_state=0).fit(two.X, two.y), two.X, {}),
        ("SVC", lambda: SVC().fit(two.X, two.y), two.X, {}),
        ("boosting", lambda: boosting.fit(three.X, three.y), three.X, {}),
        ("MLPClassifier", lambda: mlp.fit(three.X, three.y), three.X, {}),
        ("function", lambda: lambda X: X[:, 0], numbers.X, {}),
        ("module", lambda: network(3), three.X, {}),
        ("module log-odds", lambda: network(1), two.X, {"task": "classification", "classes": ["no", "yes"]}),
        ("module softmax", lambda: network(3, 4, 6, nn.Softmax(dim=1)), three.X, {"batch_size": 7}),
        ("module layer", lambda: network(3), three.X, {"layer": "0"}),
        ("convnet", small_convnet, images, {}),
        ("estimator", lambda: estimator.fit(*three.rows), three.X, {}),
        ("class", lambda: Lasso, numbers.X, {}),
    ):
        add(f"split/{name}", _halves, model, rows, options)


def _halves(iv: Any, model: Callable[[], Any], X: Any, options: dict[str, Any]) -> dict[str, Any]:
    parts = iv.split(model(), **options)
    head = {} if parts.head is None else {"weight": parts.head.weight, "bias": parts.head.bias}
    arrays = {"Z": parts.represent(X), "predictions": parts.predict(X), "columns": parts.columns(X)}
    words = {name: getattr(parts, name) for name in ("task", "level", "description", "probabilistic", "classes")}
    return head | arrays | words | {"by predictions": parts.by_predictions().represent(X)}


# --- data -------------------------------------------------------------------------------------------------------------
def _told(data: Any) -> dict[str, Any]:
    """Numbers and words of a data set, but for where it came from."""
    X, names = np.asarray(data.X), ("columns", "description", "choices", "notes", "target_name", "env_name", "truth")
    parts = {"X": X, "means": X.mean(axis=0), "y": np.asarray(data.y), "env": np.asarray(data.env), "part": data.part}
    return parts | {name: getattr(data, name) for name in names}


def _made(iv: Any, name: str, options: dict[str, Any]) -> dict[str, Any]:
    return _told(getattr(iv.datasets, name)(**options))


def _data_sets(add: Add) -> None:
    for name, *choices in (
        ("linear_sem", *({"setting": setting, "n": 40, "seed": 1} for setting in ("FEU", "FOU", "PEU", "POU"))),
        ("linear_sem", {"setting": "POU", "total": 1300, "hidden_scale": 1.0}, {"setting": "XYZ"}),
        ("linear_sem_b6", {"n": (20, 30, 40), "dim": 3}),
        ("nonlinear_sem", {"n": 30, "n_test": 10}, {"setting": "POU", "n": 30, "square": True}),
        ("bayesian_network", {"n": 20, "component": 0}, {"n": 30, "dim": 2, "weights": "random", "n_test": 5}),
        ("two_domain_example", {"n": 30}),
        ("null_same_law", *({"n": 30, "task": task} for task in TASKS)),
        ("null_shifted", *({"n": 30, "task": task, "shift": 0.5} for task in TASKS)),
        ("overlap_dial", {"overlap": 0.3, "n": 40}, {"n": 40, "law": "normal", "task": "binary"}),
        ("adult", {}, {"environments": "correlation", "seed": 1}),
        ("heart_disease", {}, {"missing": "indicator"}),
        *((name, {}) for name in ("bike_sharing", "law_school", "financial_indicators")),
    ):
        for options in choices:
            words = " ".join(f"{key}={value}" for key, value in options.items())
            add(f"datasets/{name} {words}", _made, name, options)
    add("datasets/ladder", lambda iv: iv.datasets.ladder(iv.datasets.linear_sem("FEU", n=30), betas=(0.0, 0.5, 1.0)))


def _files(add: Add) -> None:
    rng, place = np.random.default_rng(3), np.arange(60)
    columns = {
        "ill": np.array(["yes", "no"])[place % 2],
        "age": rng.integers(20, 80, 60),
        "dose": np.where(place % 7, rng.normal(size=60).round(3), np.nan),
        "share": [f"{k / 4} %" for k in place],
        "sex": np.array(list("fm"))[rng.integers(0, 2, 60)],
        "ward": rng.integers(1, 4, 60),
        "day": pd.date_range("2023-11-05", periods=60, freq="9D").strftime("%Y-%m-%d"),
        "hospital": np.array(["Bern", "Oslo", "Rome"])[place % 3],
    }
    whole = {"drop": "dose"}
    choices: list[dict[str, Any]] = [
        *({"missing": how} for how in ("refuse", "drop-rows", "drop-columns", "impute-median", "indicator")),
        *({**whole, "env": "day", "env_bins": how} for how in ("year", "quarter", "month-of-year", "weekday", "hours")),
        *({**whole, "env": "age", "env_bins": how} for how in (3, (35, 60))),
        *({**whole, "target": target} for target in ("age", "weight")),
        {"features": ["age", "sex"]},
        {**whole, "categories": "ward"},
        {**whole, "drop_env": "Oslo"},
        {"missing": "impute-median", "na": "f"},
    ]
    for number, options in enumerate(choices):
        words = " ".join(f"{key}={value}" for key, value in options.items())
        given = {"target": "ill", "env": "hospital", **options}
        add(f"read/{words}", _read, pd.DataFrame(columns), given, ("csv", "tsv", "parquet")[number % 3])


def _read(iv: Any, table: pd.DataFrame, options: dict[str, Any], ending: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"visits.{ending}"
        if ending == "parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
        return _told(iv.read(path, **options))


def _environments(iv: Any, rows: World) -> dict[str, Any]:
    data = iv.Environments(*rows.table, rows.weight)
    names = ("X", "y", "weight", "labels", "offsets", "sizes", "rows", "codes", "columns", "classes", "order")
    return {name: getattr(data, name) for name in names}
