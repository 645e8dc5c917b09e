"""The plain rows that hostile input is made from: small, out of order, and exact in eight bits of mantissa."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression

import invariscope as iv

SIZE = 90
ENV = np.tile(["a", "b", "c"], SIZE // 3).astype(object)
_rng = np.random.default_rng(0)


def _short(values: Any) -> Any:
    """Multiples of 1/16 below 8: the same in bfloat16, float16, float32 and float64."""
    return np.clip(np.round(values * 16) / 16, -7.9375, 7.9375)


X = _short(_rng.normal(size=(SIZE, 2)) + 0.25 * (ENV == "c")[:, None])
Y = _short(X[:, 0] + 0.5 * (ENV == "b") * X[:, 1] + _rng.normal(size=SIZE))
CLASSES = np.where(X[:, 0] + _rng.logistic(size=SIZE) > 0, "yes", "no").astype(object)
WEIGHT = _rng.integers(1, 4, SIZE).astype(float)
PREDICTIONS = _short(0.5 * X[:, 0])
PROBABILITIES = np.round(64 / (1 + np.exp(-X[:, 0]))) / 64
TENSORS = [torch.tensor(X[label == ENV]) for label in "abc"]
LOGITS = [torch.tensor(PREDICTIONS[label == ENV])[:, None] for label in "abc"]
TARGETS = [torch.tensor(Y[label == ENV]) for label in "abc"]
HEAD = iv.LinearHead([[1.0, 0.5]], 0.25)


@cache
def linear() -> LinearRegression:
    return LinearRegression().fit(X, Y)


@cache
def logistic() -> LogisticRegression:
    return LogisticRegression().fit(X, CLASSES)


@cache
def network() -> torch.nn.Module:
    generator = torch.manual_seed(0)
    del generator
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1)).double()


@cache
def regressor() -> Any:
    return iv.InvariantRegressor("erm", steps=3).fit(X, Y, env=ENV)


@cache
def classifier() -> Any:
    return iv.InvariantClassifier("erm", steps=3).fit(X, CLASSES, env=ENV)


def function(rows: Any) -> Any:
    """A model that somebody wrote by hand."""
    return np.asarray(rows, dtype=float)[:, 0]
