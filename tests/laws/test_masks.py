"""What is masked is missing: no door reads the numbers under a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import invariscope as iv
from invariscope.errors import InputError

RNG = np.random.default_rng(0)
X, ENV = RNG.normal(size=(120, 2)), np.repeat(["a", "b"], 60)
Y = X[:, 0] + RNG.normal(size=120)
MODEL = LinearRegression().fit(X, Y)
HEAD, BOTH = iv.LinearHead([[1.0, 0.0]], 0.0), iv.LinearHead(np.eye(2), [0.0, 0.0])
Call = Callable[[Any], Any]


def masked(values: Any) -> Any:
    """The first three rows are masked, with numbers under the mask that nobody could overlook."""
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[:3] = True
    under = values.copy()
    if under.dtype.kind == "f":
        under[:3] = 1e9
    return np.ma.array(under, mask=hidden)


DOORS: dict[str, tuple[Any, Call, str]] = {
    "columns": (X, lambda m: iv.regret(m, Y, ENV), '^column "x0" has 3 missing values'),
    "columns of a model": (X, lambda m: iv.audit(MODEL, m, Y, ENV, n_boot=0), '^column "x0" has 3 missing values'),
    "columns of no model": (X, lambda m: iv.audit(None, m, Y, ENV, n_boot=0), '^column "x0" has 3 missing values'),
    "target": (Y, lambda m: iv.regret(X, m, ENV), '^target "target" has 3 missing or infinite values'),
    "several targets": (np.c_[Y, Y], lambda m: iv.worst_case(BOTH, X, m), "^y has missing or infinite values"),
    "several targets of an index": (
        np.c_[Y, Y],
        lambda m: iv.influence_index(X, m, ENV),
        '^target "y0" has 3 missing or infinite values',
    ),
    "environments": (ENV, lambda m: iv.regret(X, Y, m), '^"environment" is missing in 3 of 120 rows'),
    "weights": (np.ones(120), lambda m: iv.regret(X, Y, ENV, weight=m), "^weight has 3 negative, missing or infinite"),
    "predictions": (Y, lambda m: iv.risk_variance(m, Y, ENV), "^predictions: 3 values are masked; fill them"),
    "predictions for DRIC": (
        Y,
        lambda m: iv.dric(m, X, ENV, baseline=Y, n_boot=0),
        "^predictions: 3 values are masked; fill them, or drop those rows here and in X, y and env alike$",
    ),
    "a baseline": (
        Y,
        lambda m: iv.dric(Y, X, ENV, baseline=m, n_boot=0),
        "^baseline: 3 values are masked; fill them, or drop those rows here and in X, y and env alike$",
    ),
    "a baseline of an audit": (
        Y,
        lambda m: iv.audit(None, X, Y, ENV, baseline=m, n_boot=0),
        "^predictions: 3 values are masked; fill them",
    ),
    "outcome models": (
        Y,
        lambda m: iv.transport_gap(X, Y, ENV, predictions=m, n_boot=0),
        "^predictions: 3 values are masked; fill them",
    ),
    "predictions of a Split": (
        Y,
        lambda m: iv.audit(iv.Split(predict=m), X, Y, ENV, n_boot=0),
        "^predictions: 3 values are masked; fill them",
    ),
    "rows of the worst case": (X, lambda m: iv.worst_case(HEAD, m, Y), '^column "x0" of Z has missing or infinite val'),
}


@pytest.mark.parametrize(("values", "call", "message"), DOORS.values(), ids=DOORS.keys())
def test_what_is_masked_is_missing(values: Any, call: Call, message: str) -> None:
    call(np.ma.array(values, mask=np.zeros(values.shape, dtype=bool)))  # a mask that hides nothing
    with pytest.raises(InputError, match=message):
        call(masked(values))
