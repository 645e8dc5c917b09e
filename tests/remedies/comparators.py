"""Refusals of the comparators."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np

import invariscope as iv
from invariscope.criteria.comparators import subgroup_invariance as pieces
from tests.remedies.case import Case

ROOM = "criteria/comparators"
ENV = np.repeat(["a", "b"], 20)
Z = np.random.default_rng(0).normal(size=(40, 2))
Y = Z[:, 0] + np.random.default_rng(1).normal(size=40)
CLASS = np.where(Y > 0, "yes", "no")
FEW = np.repeat(["a", "b", "c"], [20, 17, 3])


def mmd(**options: Any) -> Any:
    return iv.mmd(Z, **{"y": Y, "env": ENV, "n_boot": 0, **options})


def hsic(rows: int = 40, **options: Any) -> Any:
    return iv.hsic(Z[:rows], **{"env": np.arange(rows) % 2, "n_boot": 0, **options})


def subgroups(**options: Any) -> Any:
    return iv.subgroup_invariance(Z, env=ENV, n_boot=0, **options)


def few_pieces(**options: Any) -> Any:
    """As if so few pieces were the most that are compared."""
    with patch.object(pieces, "MOST_PIECES", 8):
        return subgroups(**options)


def told_apart(env: Any = ENV, **options: Any) -> Any:
    return iv.domain_classifier(Z, Y, env, **{"n_boot": 0, **options})


def trained() -> iv.EnvironmentClassifier:
    return iv.EnvironmentClassifier().fit(Z, Y, ENV)


def counted(y: Any, **options: Any) -> Any:
    said = (Z[:, 0] > 0).astype(int)
    return iv.conditional_mutual_information(said, y, ENV, method="counted", n_boot=0, **options)


CASES = [
    # --- rows and widths ---
    Case('use "z" for the representation alone', lambda: mmd(on="y"), lambda: mmd(on="z")),
    Case('pass y, or on="z"', lambda: mmd(y=None, on="zy"), lambda: mmd(on="zy")),
    Case('use "collection", "median"', lambda: mmd(bandwidth="mean"), lambda: mmd(bandwidth="median")),
    Case("give at most 32", lambda: mmd(bandwidth=[1.0] * 33), lambda: mmd(bandwidth=[1.0] * 32)),
    Case(
        "multiply all weights by a constant",
        lambda: mmd(weight=np.where(ENV == "a", 1.0, 0.04)),
        lambda: mmd(weight=np.where(ENV == "a", 10.0, 0.4)),
    ),
    # --- kernel tests ---
    Case("HSIC takes at least 4", lambda: hsic(4, weight=np.full(4, 0.75)), lambda: hsic(4)),
    Case(
        'use "delta"',
        lambda: hsic(env=ENV, env_kernel="gaussian"),
        lambda: hsic(env=ENV, env_kernel="delta"),
    ),
    Case(
        "there are a, b",
        lambda: iv.kmaxic(Z, Y, ENV, reference="c", n_boot=0),
        lambda: iv.kmaxic(Z, Y, ENV, reference="b", n_boot=0),
    ),
    Case("give parts=20", lambda: subgroups(parts=21), lambda: subgroups(parts=20)),
    Case("at most 8", lambda: few_pieces(parts=5), lambda: few_pieces(parts=4)),
    # --- classifiers ---
    Case("there are logistic", lambda: told_apart(classifier="svm"), lambda: told_apart(classifier="logistic")),
    Case(
        "drop it, or merge it with another",
        lambda: told_apart(FEW),
        lambda: told_apart(np.where(FEW == "c", "b", FEW)),
    ),
    Case(
        "give the reference's (Z, y, env)",
        lambda: told_apart(trained_on=(Z, Y)),
        lambda: told_apart(trained_on=(-Z, Y, ENV)),
    ),
    Case("call fit first", lambda: iv.EnvironmentClassifier().apply(Z, Y, ENV), lambda: trained().apply(-Z, Y, ENV)),
    Case(
        "give a representation of the same width",
        lambda: trained().apply(Z[:, :1], Y, ENV),
        lambda: trained().apply(-Z, Y, ENV),
    ),
    Case(
        "give rows of the same environments",
        lambda: trained().apply(Z, Y, np.where(ENV == "a", "a", "c")),
        lambda: trained().apply(Z, -Y, ENV),
    ),
    # --- information ---
    Case('pass task="classification"', lambda: counted(np.round(Y * 9)), lambda: counted(CLASS)),
    Case(
        'pass task="classification"',
        lambda: counted(np.round(Y) / 4),
        lambda: counted(np.round(Y) / 4, task="classification"),
    ),
]
