"""One real audit of every kind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.report import html
from tests.report.audits import COLUMNS, DRAWS, HOSPITALS, NASTY, SIZES, Rows, audited, hospitals, risk_by_age, rows_of

THREE = ("Bern", "Oslo", "Rome")
SMALL = ("height", "weight", "age")
NAMES = {"env_name": "hospital", "target_name": "disease"}


def small_rows(task: str) -> Rows:
    return rows_of(THREE, (70, 60, 80), SMALL, task, 0.2)


@functools.cache
def of_model(fit: Callable[[Rows], Any], task: str = "binary") -> iv.Audit:
    rows = small_rows(task)
    X = rows.X.to_numpy(np.float32)
    return iv.audit(fit(rows), X, rows.y, rows.env, n_boot=DRAWS, criteria="all", **NAMES)


def logistic(rows: Rows) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(rows.X.to_numpy(np.float32), rows.y)


def network(rows: Rows) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    X, y = torch.tensor(rows.X.to_numpy(np.float32)), torch.tensor(rows.y)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(40):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X), y).backward()
        optimizer.step()
    return model


def predictions_only(_: Rows) -> Any:
    return lambda X: 1 / (1 + np.exp(-X[:, 0]))


def votes(_: Rows) -> Any:
    class Votes:
        classes_ = np.array([0, 1])

        def predict(self, X: Any) -> Any:
            return (np.asarray(X)[:, 0] > 0.2).astype(int)

    return Votes()


def own_head_without_error() -> iv.Audit:
    rows = small_rows("regression")
    y = np.where(rows.env == "Oslo", rows.X["height"], rows.y)
    return iv.audit(None, rows.X, y, rows.env, n_boot=DRAWS, **NAMES)


#: Every kind of audit that a person may want to see.
KINDS: dict[str, Callable[[], iv.Audit]] = {
    "numbers": lambda: audited(THREE, task="regression", columns=SMALL),
    "two classes": lambda: audited(HOSPITALS, columns=COLUMNS, sizes=SIZES, baseline=risk_by_age),
    "several classes": lambda: audited(THREE, task="multiclass", columns=SMALL),
    "a model": lambda: of_model(logistic),
    "a network": lambda: of_model(network),
    "predictions only": lambda: of_model(predictions_only),
    "votes": lambda: of_model(votes),
    "many environments": lambda: audited(
        tuple(f"site {k}" for k in range(14)), task="regression", criteria=("transport_gap",), sizes=(40,)
    ),
    "more than a page holds": lambda: audited(
        tuple(range(64)), task="regression", criteria=("risk_variance",), sizes=(30,)
    ),
    "few criteria": lambda: audited(THREE, task="regression", criteria=("risk_variance",)),
    "hostile names": lambda: audited(NASTY, columns=(*NASTY, "\x00")),
    "few rows": lambda: audited(THREE, task="regression", sizes=(12,)),
    "no overlap": lambda: audited(THREE, task="regression", apart=6.0),
    "no error": own_head_without_error,
}


#: Those that are audited and drawn in a moment, or are needed by other tests anyway.
QUICK = {"numbers", "two classes", "few criteria"}


@pytest.fixture(
    scope="session", params=[pytest.param(kind, marks=[pytest.mark.slow] * (kind not in QUICK)) for kind in KINDS]
)
def any_audit(request: pytest.FixtureRequest) -> iv.Audit:
    """An audit of every kind, one after the other."""
    return KINDS[request.param]()


@pytest.fixture(scope="session")
def model_audit() -> iv.Audit:
    """The audit of a scikit-learn model."""
    return KINDS["a model"]()


@pytest.fixture(scope="session")
def network_audit() -> iv.Audit:
    """The audit of a torch network: the one with a worst case in input space."""
    return KINDS["a network"]()


@pytest.fixture
def audit() -> iv.Audit:
    """All criteria of four hospitals, with numbers that tests know by heart."""
    return hospitals()


@pytest.fixture(scope="session")
def whole_page() -> str:
    """The page of :func:`audit`."""
    return html.render(hospitals())
