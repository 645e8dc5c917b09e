"""Refusals of density ratios."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import invariscope as iv
from tests.remedies.case import Case

ROOM = "ratios"
ENV = np.repeat(["a", "b"], 30)
X = np.random.default_rng(0).normal(size=(60, 2)) + (ENV == "b")[:, None]
GAP = np.where(np.arange(60)[:, None] == 3, np.nan, X)


def ratio(**options: Any) -> Any:
    return iv.density_ratio(X, ENV, **options)


def among(rows: np.ndarray[Any, Any], env: np.ndarray[Any, Any]) -> Any:
    """The ratio of all rows, used for those given."""
    return iv.density_ratio(rows, env, ratio=ratio())


def known(columns: int) -> Any:
    return ratio(ratio=lambda rows: np.zeros((len(rows), columns)))


def spreads(**options: Any) -> Any:
    """Three normal laws of heavy tails, as one normal law per environment cannot describe them."""
    rng = np.random.default_rng(0)
    return iv.density_ratio(rng.standard_t(1.5, size=(600, 2)), np.repeat([0, 1, 2], 200), **options)


CASES = [
    Case(
        'Use ratio="logistic", or give fewer columns',
        lambda: spreads(ratio="gaussian"),
        lambda: spreads(ratio="logistic"),
    ),
    Case(
        "call log(X, e, e2) for a pair",
        lambda: ratio(pairwise=True).log_densities(X),
        lambda: ratio(pairwise=True).log(X, "a", "b"),
    ),
    Case(
        'use ratio="logistic", or merge them',
        lambda: iv.density_ratio(X[:4], [0, 0, 1, 1], ratio="boosting", pairwise=True),
        lambda: iv.density_ratio(X[:4], [0, 0, 1, 1], ratio="logistic", pairwise=True),
    ),
    Case("leave pairwise out", lambda: ratio(ratio=ratio(), pairwise=True), lambda: ratio(ratio=ratio())),
    Case(
        "pass one, LogisticRegression()",
        lambda: ratio(ratio=LogisticRegression),
        lambda: ratio(ratio=LogisticRegression()),
    ),
    Case(
        "wrap it in CalibratedClassifierCV",
        lambda: ratio(ratio=LinearSVC()),
        lambda: ratio(ratio=CalibratedClassifierCV(LinearSVC())),
    ),
    Case(
        "leave them out, or repeat the rows instead",
        lambda: ratio(ratio=KNeighborsClassifier(), weight=np.full(60, 2)),
        lambda: ratio(ratio=KNeighborsClassifier()),
    ),
    Case("there are logistic,", lambda: ratio(ratio="logit"), lambda: ratio(ratio="logistic")),
    Case("give 0 for none, or a whole number from 2", lambda: ratio(folds=1), lambda: ratio(folds=2)),
    Case(
        'use ratio="logistic", or merge them',
        lambda: iv.density_ratio(X[:4], [0, 0, 1, 1], ratio="boosting"),
        lambda: iv.density_ratio(X[:4], [0, 0, 1, 1], ratio="logistic"),
    ),
    Case("leave svd out", lambda: ratio(ratio=ratio(), svd=1), lambda: ratio(ratio=ratio())),
    Case("at least 1", lambda: ratio(svd=0), lambda: ratio(svd=1)),
    Case("give rows of the same environments", lambda: among(X, np.where(ENV == "a", "a", "c")), lambda: among(X, ENV)),
    Case("60 rows by 2 environments", lambda: known(3), lambda: known(2)),
    Case("give the same columns", lambda: ratio().log_densities(X[:, :1]), lambda: ratio().log_densities(X)),
    Case("drop those rows or fill them in", lambda: ratio().log_densities(GAP), lambda: ratio().log_densities(GAP[4:])),
    Case("there are a, b", lambda: ratio().log(X, "a", "c"), lambda: ratio().log(X, "a", "b")),
]
