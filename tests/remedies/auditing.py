"""Refusals of audits: what is audited, against what, by which criteria, and under which conditions a command fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch.utils.data import DataLoader, TensorDataset

import invariscope as iv
from tests.remedies import cli
from tests.remedies.case import Case, left_out

ROOM = ("auditing/", "criteria/material")
ENV = np.repeat(["a", "b"], 40)
Z = np.random.default_rng(0).normal(size=(80, 3))
Y = Z[:, 0] + np.random.default_rng(1).normal(size=80)
GUESS, OTHER = Y / 2 + np.random.default_rng(2).normal(size=(2, 80))
CLASS = np.where(Y > 0, "yes", "no")
FITTED = LogisticRegression().fit(Z, CLASS)
MAYBE = np.where(np.arange(80) % 20 == 0, "maybe", CLASS)
KNOWN = MAYBE != "maybe"
RATIO = iv.density_ratio(Z, ENV)


def audit(model: Any = None, X: Any = Z, y: Any = Y, env: Any = ENV, **options: Any) -> Any:
    """An audit whose regret could be had."""
    result = iv.audit(model, X, y, env, **{"n_boot": 0, "criteria": "regret", **options})
    assert np.isfinite(result["regret"].value)
    return result


def network(outputs: int) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(3, outputs)


def loader(**options: Any) -> Any:
    """An audit of batches (x, y, metadata), whose only column of metadata is the environment."""
    tensors = (torch.tensor(Z).float(), torch.tensor(Y).float(), torch.tensor(ENV == "b").long()[:, None])
    batches = DataLoader(TensorDataset(*tensors), batch_size=20)
    return audit(network(1), batches, **{"y": None, "env": None, **options})


def against(baseline: Any) -> Any:
    return audit(GUESS, criteria="dric", baseline=baseline)["dric"]


def index(columns: int) -> Any:
    """The influence index of so many columns, or the reason why an audit does without it."""
    X = np.random.default_rng(3).normal(size=(80, columns))
    audited = iv.audit(None, X, Y, ENV, n_boot=0, criteria="influence_index")
    return audited.results.get("influence_index") or left_out(audited, "influence_index")


def failing(on: str, *options: str, **settings: Any) -> Any:
    """The command, which fails on a condition."""
    return cli.audit("--fail-on", on, *options, **settings)


CASES = [
    Case("give one prediction per row", lambda: audit(GUESS[1:], None), lambda: audit(GUESS, None)),
    # --- what is audited ---
    Case("iv.audit(model, X, y, env)", lambda: iv.audit(Z, Y, ENV), lambda: audit(None, Z, Y, ENV)),
    Case("on the rows that it predicts", lambda: audit(FITTED, None, CLASS), lambda: audit(FITTED, Z, CLASS)),
    Case("iv.audit(predictions, None, y, env)", lambda: audit(lambda X: GUESS, None), lambda: audit(GUESS, None)),
    Case("the number or the name of a column", lambda: loader(env_column=1.5), lambda: loader(env_column=0)),
    Case("leave one of them out", lambda: loader(env=ENV, env_column=0), lambda: loader(env_column=0)),
    Case(
        "Leave out its rows", lambda: audit(FITTED, y=MAYBE), lambda: audit(FITTED, Z[KNOWN], MAYBE[KNOWN], ENV[KNOWN])
    ),
    Case(
        "or write it like one of these",
        lambda: audit(FITTED, y=MAYBE),
        lambda: audit(FITTED, y=np.where(KNOWN, MAYBE, "no")),
    ),
    Case(
        "iv.split(model, classes=[...])",
        lambda: audit(network(2), y=CLASS),
        lambda: audit(iv.split(network(2), classes=["no", "yes"]), y=CLASS),
    ),
    # --- against what, and by what ---
    Case("or an array of them", lambda: against(iv.Split(represent=lambda X: X)), lambda: against(OTHER)),
    Case("the name of an estimator or a classifier", lambda: audit(ratio=RATIO), lambda: audit(ratio="logistic")),
    Case('"dric": ask for that', lambda: audit(GUESS, criteria="cric"), lambda: audit(GUESS, criteria="dric")),
    Case("there are regret", lambda: audit(criteria="regrets"), lambda: audit(criteria="regret")),
    Case("Use fewer columns", lambda: index(90), lambda: index(3)),
    # --- conditions ---
    Case("write it like regret>0.1", lambda: failing("regret"), lambda: failing("regret>0.1")),
    Case("verdict takes = or !=", lambda: failing("verdict>good"), lambda: failing("verdict=invariant")),
    Case("compared with <, <=, > or >=", lambda: failing("regret=0.1"), lambda: failing("regret>=0.1")),
    Case("10 % is written 0.1", lambda: failing("regret>10%"), lambda: failing("regret>0.1")),
    Case("there are regret, regret-low", lambda: failing("regrets>0.1"), lambda: failing("regret>0.1")),
    Case("Raise --n-boot, or the limit", lambda: failing("p<0.01", n_boot=99), lambda: failing("p<0.01", n_boot=100)),
    Case("Raise --n-boot, or the limit", lambda: failing("p<0.01", n_boot=99), lambda: failing("p<0.02", n_boot=99)),
    Case("raise --n-boot from 0", lambda: failing("regret-low>0"), lambda: failing("regret-low>0", n_boot=99)),
    Case(
        "leave the condition out",
        lambda: failing("regret>0", target="twice", n_boot=99),
        lambda: cli.audit(target="twice", n_boot=99),
    ),
    Case(
        "add it to the criteria",
        lambda: failing("risk_variance>3"),
        lambda: failing("risk_variance>3", "--criteria", "risk_variance"),
    ),
]
