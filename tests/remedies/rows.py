"""Refusals of rows: tables, columns, labels, environments, weights, targets and settings."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import torch
from scipy import sparse
from sklearn.linear_model import LinearRegression

import invariscope as iv
from tests.remedies.case import Case

ROOM = "rows/"
ENV = np.repeat(["a", "b"], 40)
Z = np.random.default_rng(0).normal(size=(80, 3))
Y = Z[:, 0] + np.random.default_rng(1).normal(size=80)
CLASS = np.where(Y > 0, "yes", "no")
THREE = np.arange(80) % 3
ONES = np.ones(80)
HEAD = iv.LinearHead([1.0, 0.0, 0.0], 0.0)
NOISE = np.random.default_rng(2).normal(size=(80, 3))
FRAME = pd.DataFrame(Z, columns=["age", "dose", "size"])
DAYS = np.datetime64("2024-01-01") + np.arange(80)
LAZY = pl.from_pandas(FRAME).lazy()
ROWS = iv.Environments(Z, Y, ENV)
FITTED = LinearRegression().fit(Z, Y)
RECORDS = FRAME.to_records(index=False)
BOTH: list[Any] = [1, True, 0, False] * 20


class Closed:
    """An array that is not there any more."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise OSError("the file is closed")


def known(result: Any) -> Any:
    """A result whose number could be had."""
    assert np.isfinite(result.value)
    return result


def regret(Z: Any = Z, y: Any = Y, env: Any = ENV, **options: Any) -> Any:
    return known(iv.regret(Z, y, env, **{"n_boot": 0, **options}))


def regret_of(rows: Any, y: Any = Y, env: Any = ENV) -> Any:
    """Of some rows alone, as one does who drops the others."""
    return regret(Z[rows], np.asarray(y)[rows], np.asarray(env)[rows])


def index(y: Any = Y, **options: Any) -> Any:
    return known(iv.influence_index(Z, y, ENV, **{"n_boot": 0, **options}))


def audit(model: Any = None, X: Any = Z, y: Any = Y, env: Any = ENV, **options: Any) -> Any:
    return known(iv.audit(model, X, y, env, **{"n_boot": 0, "criteria": "regret", **options})["regret"])


def worst_case(head: Any = HEAD, y: Any = Y, **options: Any) -> Any:
    return known(iv.worst_case(head, Z, y, **{"n_boot": 0, **options}))


def trained(**options: Any) -> Any:
    return iv.InvariantRegressor(steps=2, **options).fit(Z, Y, env=ENV)


def outputs(count: int) -> Any:
    """A network of so many outputs."""
    torch.manual_seed(0)
    return torch.nn.Linear(3, count, dtype=torch.float64)


def labelled(name: str, rows: slice) -> Any:
    """The environments, some rows of them in one more."""
    env = ENV.astype(object)
    env[rows] = name
    return env


def weights(**where: float) -> Any:
    """Weights of 1, but for those of the environments named."""
    return np.array([where.get(label, 1.0) for label in ENV])


def where(condition: Any, value: Any, values: Any) -> Any:
    """The values, replaced where a condition holds."""
    return np.array([value if there else old for there, old in zip(condition, values, strict=True)], dtype=object)


def column(values: Any) -> Any:
    """The table with other values in a column."""
    return FRAME.assign(dose=values)


def from_file() -> Any:
    """The rows of a file, by the function that reads one."""
    FRAME.assign(y=Y, site=ENV).to_csv("t.csv", index=False)
    return regret(*iv.read("t.csv", target="y", env="site"))


FIRST = np.arange(80) < 1
NAMED = pd.DataFrame(Z, index=[f"row {k}" for k in range(80)])
NAMED_Y = pd.Series(Y, index=NAMED.index)


def nested(X: torch.Tensor) -> torch.Tensor:
    """The same rows as a tensor that could hold rows of different lengths."""
    return torch.nested.nested_tensor(list(X), layout=torch.jagged)


CASES = [
    # --- settings of a wrong type ---
    Case("give True or False", lambda: index(exact="no"), lambda: index(exact=False)),
    Case(
        'use "uniform" or "normal"',
        lambda: iv.datasets.overlap_dial(law=[], n=20),
        lambda: iv.datasets.overlap_dial(law="uniform", n=20),
    ),
    Case(
        "give one rate between 0 and 1 per environment",
        lambda: iv.datasets.colored_digits("0.1"),
        lambda: iv.datasets.colored_digits([0.1, 0.9], n=20),
    ),
    Case(
        "give one name per column",
        lambda: iv.Environments(Z, Y, ENV, columns=["age"]),
        lambda: iv.Environments(Z, Y, ENV, columns=[f"age {k}" for k in range(Z.shape[1])]),
    ),
    Case(
        "values are masked; fill them",
        lambda: iv.risk_variance(np.ma.masked_less(Y, 0), Y, ENV),
        lambda: iv.risk_variance(np.ma.masked_less(Y, 0).filled(0), Y, ENV),
    ),
    Case(
        "torch.nested.to_padded_tensor(X, 0.0)",
        lambda: regret(nested(torch.tensor(Z))),
        lambda: regret(torch.nested.to_padded_tensor(nested(torch.tensor(Z)), 0.0)),
    ),
    Case("on the device meta", lambda: regret(torch.empty(80, 3, device="meta")), lambda: regret(torch.tensor(Z))),
    Case("Closed that cannot be read (the file is closed)", lambda: regret(Closed()), lambda: regret(np.asarray(Z))),
    Case("X is an array of records (age, dose, size)", lambda: regret(RECORDS), lambda: regret(pd.DataFrame(RECORDS))),
    Case("y holds records (age, dose, size)", lambda: regret(y=RECORDS), lambda: regret(y=RECORDS["age"] + Y)),
    Case(
        "and are one as floats",
        lambda: regret(y=THREE + 2**60),
        lambda: [regret(y=THREE), regret(y=(THREE + 2**60).astype(str))],
    ),
    Case("X is a single value (3.0)", lambda: audit(FITTED, 3.0), lambda: audit(FITTED, Z)),
    Case(
        "in another order: give y.loc[X.index], or both with .reset_index(drop=True)",
        lambda: regret(NAMED, y=NAMED_Y[::-1]),
        lambda: [
            regret(NAMED, y=NAMED_Y[::-1].loc[NAMED.index]),
            regret(NAMED, y=NAMED_Y[::-1].reset_index(drop=True)),
        ],
    ),
    Case("X is a deque", lambda: audit(FITTED, deque(Z.tolist())), lambda: audit(FITTED, list(deque(Z.tolist())))),
    # --- what is no table ---
    Case("give X.toarray()", lambda: regret(sparse.csr_matrix(Z)), lambda: regret(sparse.csr_matrix(Z).toarray())),
    Case(
        "give pandas.DataFrame(X)",
        lambda: regret(FRAME.to_dict("list")),
        lambda: regret(pd.DataFrame(FRAME.to_dict("list"))),
    ),
    Case("give list(env)", lambda: regret(env=iter(ENV)), lambda: regret(env=list(iter(ENV)))),
    Case("write one of them otherwise, as a text", lambda: regret(y=BOTH), lambda: regret(y=[str(v) for v in BOTH])),
    Case(
        "such as str() of each",
        lambda: regret(env=where(ENV == "a", {}, ENV)),
        lambda: regret(env=[str(e) for e in where(ENV == "a", {}, ENV)]),
    ),
    Case("None: give a table", lambda: regret(None), regret),
    Case(
        "give env.toarray().ravel()",
        lambda: regret(env=sparse.csr_matrix(THREE)),
        lambda: regret(env=sparse.csr_matrix(THREE).toarray().ravel()),
    ),
    Case("give X.collect()", lambda: regret(LAZY), lambda: regret(LAZY.collect())),
    Case(
        "give pandas.DataFrame(X)",
        lambda: regret(FRAME.to_dict("records")),
        lambda: regret(pd.DataFrame(FRAME.to_dict("records"))),
    ),
    Case("or one of its columns", lambda: regret(y={"y": Y}), lambda: regret(y=pd.DataFrame({"y": Y})["y"])),
    Case("a list in the order of the rows", lambda: regret(env={*ENV}), lambda: regret(env=[*ENV])),
    Case("iv.read(path, target=, env=)", lambda: regret("t.csv"), from_file),
    # --- tables ---
    Case("give a table of rows x columns", lambda: regret(3.0), regret),
    Case("(flatten images first)", lambda: regret(Z[:, :, None]), lambda: regret(Z[:, :, None].reshape(80, -1))),
    Case("give one value per row", lambda: regret(env="site"), regret),
    Case("Give their real part, y.real", lambda: regret(y=Y + 0j), lambda: regret(y=(Y + 0j).real)),
    Case("choose one of them", lambda: regret(y=NOISE), lambda: regret(y=NOISE[:, 0])),
    Case("give one of them", lambda: regret(y=pd.DataFrame(NOISE)), lambda: regret(y=pd.DataFrame(NOISE)[0])),
    Case("Give all as many values", lambda: regret([[1.0, 2.0], [3.0]] * 40), lambda: regret([[1.0], [3.0]] * 40)),
    Case("real and imaginary parts as columns", lambda: regret(Z + 0j), lambda: regret(np.hstack([Z.real, Z.imag]))),
    Case(
        "turn it into numbers (days, say)",
        lambda: regret(column(DAYS - DAYS[0])),
        lambda: regret(column((DAYS - DAYS[0]).astype(float))),
    ),
    Case("drop it", lambda: regret(column(DAYS)), lambda: regret(FRAME.drop(columns="dose"))),
    Case(
        "Encode it as numbers (one-hot for categories)",
        lambda: regret(column(CLASS)),
        lambda: regret(pd.get_dummies(column(CLASS), columns=["dose"], drop_first=True)),
    ),
    # --- columns ---
    Case("give at least one of each", lambda: regret(Z[:, :0]), regret),
    Case("Drop the column", lambda: regret(column(np.nan)), lambda: regret(FRAME.drop(columns="dose"))),
    Case("Subtract a constant", lambda: regret(column(THREE + 1e16)), lambda: regret(column(THREE))),
    Case(
        "multiply it by a constant",
        lambda: regret(column(NOISE[:, 0] * 1e200)),
        lambda: regret(column(NOISE[:, 0] * 1e200 * 1e-200)),
    ),
    # --- environments ---
    Case("pass env=, one label per row", lambda: regret(env=None), regret),
    Case("pass them alone", lambda: iv.regret(ROWS, Y, n_boot=0), lambda: iv.regret(ROWS, n_boot=0)),
    Case("there are a, b", lambda: ROWS["c"], lambda: ROWS["a"]),
    Case("give one value per row", lambda: regret(y=Y[1:]), regret),
    Case("Choose another column", lambda: regret(env=["a"] * 80), regret),
    Case("Bin it into a few groups", lambda: regret(env=Y), lambda: regret(env=pd.qcut(Y, 2).astype(str))),
    Case("Choose a column that many rows share", lambda: regret(env=[f"P{i}" for i in range(len(Y))]), regret),
    Case("Drop it or merge it", lambda: regret(env=labelled("c", slice(1))), lambda: regret_of(slice(1, None))),
    Case(
        "drop them or give them a label",
        lambda: regret(env=labelled(None, slice(9))),
        lambda: regret_of(slice(9, None)),
    ),
    # --- weights ---
    Case(
        "drop it",
        lambda: regret(env=labelled("c", slice(9)), weight=np.arange(80) >= 9.0),
        lambda: regret_of(slice(9, None)),
    ),
    Case("one number of at least 0 per row", lambda: regret(weight=CLASS), lambda: regret(weight=ONES)),
    Case("give numbers of at least 0", lambda: regret(weight=weights(a=-1)), lambda: regret(weight=weights(a=0.5))),
    Case("give some of them more", lambda: regret(weight=0 * ONES), lambda: regret(weight=ONES)),
    Case("divide all by a constant", lambda: regret(weight=1e12 * ONES), lambda: regret(weight=1e12 * ONES / 1e12)),
    Case(
        "by 8e+06, they count as many rows",
        lambda: regret(weight=ONES * 1.25e-7),
        lambda: regret(weight=ONES * 1.25e-7 * 8e6),
    ),
    # --- targets ---
    Case("pass y, one value per row", lambda: regret(y=None), regret),
    Case("drop those rows", lambda: regret(y=where(FIRST, np.nan, Y)), lambda: regret_of(slice(1, None))),
    Case("Give rows in which it varies", lambda: regret(y=["yes"] * 80), lambda: regret(y=CLASS)),
    Case("Give rows in which it varies", lambda: regret(y=ONES), regret),
    Case("convert it to numbers first", lambda: regret(y=Y.astype(str)), lambda: regret(y=Y.astype(str).astype(float))),
    Case('use "auto"', lambda: regret(task="ranking"), lambda: regret(task="auto")),
    Case('leave out task="regression"', lambda: regret(y=CLASS, task="regression"), lambda: regret(y=CLASS)),
    Case(
        'or say "classification"',
        lambda: regret(y=THREE, task="binary"),
        lambda: regret(y=THREE, task="classification"),
    ),
    Case(
        'continuous numbers take task="regression"',
        lambda: regret(task="classification"),
        lambda: regret(task="regression"),
    ),
    Case("leave task out", lambda: audit(FITTED, task="classification"), lambda: audit(FITTED)),
    Case("Give rows of all classes", lambda: regret(y=THREE, weight=THREE < 2), lambda: regret(y=THREE)),
    Case(
        "merge the class with another",
        lambda: regret(y=np.where(ENV == "a", 0, THREE)),
        lambda: regret(y=THREE % 2),
    ),
    Case(
        "Drop that environment, or merge it",
        lambda: regret(y=np.where(ENV == "a", 5.0, Y)),
        lambda: regret(env=THREE, y=np.where(ENV == "a", 5.0, Y)),
    ),
    # --- what the model says of the target ---
    Case("Leave task out", lambda: index(Z[:, :2], task="classification"), lambda: index(Z[:, :2])),
    Case("leave task out", lambda: audit(outputs(3), y=THREE, task="regression"), lambda: audit(outputs(3), y=THREE)),
    Case(
        "name it there",
        lambda: worst_case(y=CLASS, classes=["no", "maybe"]),
        lambda: worst_case(y=CLASS, classes=["no", "yes"]),
    ),
    Case(
        "A classifier takes the target it was fitted on", lambda: audit(outputs(3)), lambda: audit(outputs(3), y=THREE)
    ),
    Case(
        'continuous numbers take task="regression", with a model of numbers',
        lambda: audit(outputs(3)),
        lambda: audit(outputs(1), task="regression"),
    ),
    Case(
        "a target of its classes: numbers 0 to 2",
        lambda: worst_case(outputs(3)),
        lambda: worst_case(outputs(3), y=THREE),
    ),
    Case(
        "give a model with one output per class",
        lambda: worst_case(outputs(1), y=THREE, task="classification"),
        lambda: worst_case(outputs(3), y=THREE, task="classification"),
    ),
    Case(
        "name one for each of its outputs",
        lambda: worst_case(outputs(3), y=CLASS, classes=["no", "yes"]),
        lambda: worst_case(outputs(3), y=CLASS, classes=["no", "yes", "maybe"]),
    ),
    Case(
        "give a model of one number per row",
        lambda: worst_case(outputs(3), task="regression"),
        lambda: worst_case(outputs(1), task="regression"),
    ),
    Case(
        "give as many of one as of the other",
        lambda: worst_case(outputs(3), y=Z[:, :2]),
        lambda: worst_case(outputs(2), y=Z[:, :2]),
    ),
    # --- settings ---
    Case("give a whole number of at least 0", lambda: regret(seed=1.5), lambda: regret(seed=1)),
    Case("give 0 for point estimates", lambda: regret(n_boot=5), lambda: regret(n_boot=0)),
    Case("give a number above 0", lambda: trained(learning_rate="0.1"), lambda: trained(learning_rate=0.1)),
    Case("give a list", lambda: audit(criteria=5), lambda: audit(criteria=["dric"])),
    Case("give a text", lambda: audit(env_name=5), lambda: audit(env_name="site")),
    Case("such as 0.05", lambda: audit(alpha=1), lambda: audit(alpha=0.05)),
    Case("such as 0.02 for 2 %", lambda: audit(margin=2), lambda: audit(margin=0.02)),
]
