"""Numbers far from 1 are refused by name at every door, or give what the same numbers near 1 give; never a silent 0."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.errors import InputError

ENV = np.repeat(["a", "b", "c"], 60)
HEAD = iv.LinearHead([[1.0, 0.5]], 0.0)
Criterion = Callable[[Any, Any], Any]
OF_COLUMNS: dict[str, Criterion] = {
    "regret": lambda X, y: iv.regret(X, y, ENV, n_boot=0),
    "influence_index": lambda X, y: iv.influence_index(X, y, ENV, n_boot=0),
    "transport_gap": lambda X, y: iv.transport_gap(X, y, ENV, n_boot=0),
    "worst_case": lambda X, y: iv.worst_case(HEAD, X, y, ENV, n_boot=0),
    "worst_case without environments": lambda X, y: iv.worst_case(HEAD, X, y, n_boot=0),
    "worst_case of Environments": lambda X, y: iv.worst_case(HEAD, iv.Environments(X, y, ENV), n_boot=0),
    "density_ratio": lambda X, y: iv.density_ratio(X, ENV),
    "dric": lambda X, y: iv.dric(y, X, ENV, baseline=y + 1, n_boot=0),
    "mmd": lambda X, y: iv.mmd(X, y, ENV, n_boot=0),
    "hsic": lambda X, y: iv.hsic(X, y, ENV, n_boot=0),
    "kmaxic": lambda X, y: iv.kmaxic(X, y, ENV, n_boot=0),
    "subgroup_invariance": lambda X, y: iv.subgroup_invariance(X, y, ENV, n_boot=0),
}
OF_PREDICTIONS: dict[str, Criterion] = {
    "risk_variance": lambda f, y: iv.risk_variance(f, y, ENV),
    "worst_environment_risk": lambda f, y: iv.worst_environment_risk(f, y, ENV),
    "irm_penalty": lambda f, y: iv.irm_penalty(f, y, ENV),
}
FAR = "holds? numbers of the order of .*, too far from 1 to compute with: multiply it by a constant first$"


def rows(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(180, 2)) + 0.3 * (ENV == "c")[:, None]
    return X, X[:, 0] + rng.normal(size=180)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e40, 1e-40])
@pytest.mark.parametrize("name", OF_COLUMNS)
def test_columns_far_from_one_are_refused_and_the_remedy_works(name: str, scale: float, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=rf'^(column "x0"|Z) {FAR}'):
        OF_COLUMNS[name](scale * X, y)
    OF_COLUMNS[name](scale * X / scale, y)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 1e40, 1e-40])
@pytest.mark.parametrize("name", [name for name in OF_COLUMNS if name not in ("density_ratio", "dric")])
def test_targets_far_from_one_are_refused(name: str, scale: float, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=f'^target "(target|y)" {FAR}'):
        OF_COLUMNS[name](X, scale * y)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("name", OF_PREDICTIONS)
def test_predictions_and_targets_far_from_one_are_refused(name: str, scale: float, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=f'^target "target" {FAR}'):
        OF_PREDICTIONS[name](scale * X[:, 0], scale * y)


def test_predictions_far_from_one_are_refused_by_dric(seed: int) -> None:
    X, y = rows(seed)
    for model, baseline in ((1e200 * y, y), (y, 1e200 * y), (1e-200 * y, 1e-200 * (y + 1))):
        with pytest.raises(InputError, match=f"^predictions or baseline {FAR}"):
            iv.dric(model, X, ENV, baseline=baseline, n_boot=0)
    assert iv.dric(1e-12 * y, X, ENV, baseline=y, n_boot=0).value == pytest.approx(1e-24)


def test_predictions_of_nearly_nothing_are_what_they_are(seed: int) -> None:
    """A model that collapsed, or a class it never gives: small numbers among predictions are no mistake."""
    X, y = rows(seed)
    collapsed = iv.risk_variance(1e-40 * X[:, 0], y, ENV)
    assert collapsed.value == pytest.approx(iv.risk_variance(np.zeros(180), y, ENV).value, rel=1e-12)
    classes = np.arange(180) % 3
    given = np.c_[np.full(180, 0.5), np.full(180, 0.5), np.full(180, 1e-40)]
    assert re.search("probability 0", iv.worst_environment_risk(given, classes, ENV).notes[-1])


@pytest.mark.parametrize("scale", [1e12, 1e-12])
def test_between_those_nothing_depends_on_the_scale(scale: float, seed: int) -> None:
    X, y = rows(seed)
    plain = iv.regret(X, y, ENV, n_boot=99)
    for changed in (iv.regret(scale * X, y, ENV, n_boot=99), iv.regret(X, scale * y, ENV, n_boot=99)):
        assert changed.value == pytest.approx(plain.value, rel=1e-6, abs=1e-9)
        assert changed.interval == pytest.approx(plain.interval, rel=1e-6, abs=1e-9)
        assert changed.pvalue == plain.pvalue


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_an_audit_of_columns_very_far_from_one_is_refused(scale: float, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=rf'^column "x0" {FAR}'):
        iv.audit(None, scale * X, y, ENV, n_boot=0)


@pytest.mark.parametrize("scale", [1e40, 1e-40])
def test_an_audit_puts_columns_in_units_of_their_spread(scale: float, seed: int) -> None:
    X, y = rows(seed)
    found, expected = (iv.audit(None, factor * X, y, ENV, n_boot=99).results for factor in (scale, 1.0))
    assert {*found} == {*expected}
    for name, result in expected.items():
        assert found[name].value == pytest.approx(result.value, rel=1e-9), name
