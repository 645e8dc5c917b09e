"""One meaning of ``n_boot`` and ``seed`` for every criterion: 0 draws are point estimates alone, all else stays.

A criterion without an entry in ``CALLS`` fails here.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from torch import nn

import invariscope as iv
from invariscope.criteria.registry import CRITERIA
from invariscope.rows.settings import NOT_DRAWN

SIZES = (90, 80, 70)
HEAD = iv.LinearHead([0.8, 0.3], 0.1)
#: The fewest draws that are accepted, where it is not 99: see the criteria.
FEWEST = {"influence_index": 1, "dric": 19}
NO_NUMBERS = [-5, 2.5, "99", True, False, math.nan, None, 99.0]


def some_rows() -> tuple[Any, ...]:
    rng = np.random.default_rng(3)
    env = np.repeat(["a", "b", "c"], SIZES)
    Z = rng.normal(size=(len(env), 2)) + 0.3 * (env == "c")[:, None]
    score = Z[:, 0] + (env == "b") * Z[:, 1]
    return Z, score + rng.normal(size=len(env)), env, (score + rng.logistic(size=len(env)) > 0).astype(int)


Z, Y, ENV, HITS = some_rows()
P = 1 / (1 + np.exp(-Z[:, 0]))
NETWORK = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
CALLS: dict[str, Callable[..., Any]] = {
    "regret": lambda **given: iv.regret(Z, Y, ENV, **given),
    "influence_index": lambda **given: iv.influence_index(Z, Y, ENV, **given),
    "transport_gap": lambda **given: iv.transport_gap(Z, Y, ENV, **given),
    "dric": lambda **given: iv.dric(Z[:, 0], Z, ENV, baseline=Z[:, 1], **given),
    "worst_case": lambda **given: iv.worst_case(HEAD, Z, Y, ENV, radii=[0.1, 0.5], **given),
    "worst_case_in_inputs": lambda **given: iv.worst_case_in_inputs(iv.split(NETWORK), Z, Y, rows=20, **given),
    "cramer_wold": lambda **given: iv.cramer_wold(Z, Y, ENV, projections=5, **given),
    "domain_classifier": lambda **given: iv.domain_classifier(Z, Y, ENV, **given),
    "conditional_mutual_information": lambda **given: iv.conditional_mutual_information(Z[:, 0], Y, ENV, **given),
    "risk_variance": lambda **given: iv.risk_variance(P, HITS, ENV, **given),
    "worst_environment_risk": lambda **given: iv.worst_environment_risk(P, HITS, ENV, **given),
    "calibration_variance": lambda **given: iv.calibration_variance(P, HITS, ENV, **given),
    "multi_environment_calibration": lambda **given: iv.multi_environment_calibration(P, HITS, ENV, **given),
    "irm_penalty": lambda **given: iv.irm_penalty(P, HITS, ENV, **given),
    "mmd": lambda **given: iv.mmd(Z, Y, ENV, **given),
    "hsic": lambda **given: iv.hsic(Z, Y, ENV, **given),
    "kmaxic": lambda **given: iv.kmaxic(Z, Y, ENV, **given),
    "subgroup_invariance": lambda **given: iv.subgroup_invariance(Z, HITS, ENV, **given),
}
#: Tests of chance: deals give them a p-value and nothing, or nothing but the value, an interval.
WITHOUT_INTERVALS = {
    *("mmd", "hsic", "kmaxic", "subgroup_invariance", "cramer_wold", "domain_classifier"),
    "conditional_mutual_information",
}
#: What noise says, by the last part of the field's name. All other fields are point estimates and words.
NOISE = (
    *("interval", "worst_interval", "numerator_interval", "pair_intervals", "band", "pvalue", "pair_pvalues"),
    "accuracy_pvalue",
)
DRAWS = ("null", "null_numerator", "accuracy_null", "numerator_draws", "denominator_draws")
every_criterion = pytest.mark.parametrize("name", sorted(CRITERIA))


def parts_of(result: Any, prefix: str = "") -> dict[str, Any]:
    """Fields by name, those of results inside results, and of every environment's estimate, as ``outer.inner``."""
    if isinstance(result, Mapping):
        named = {str(label): value for label, value in result.items()}
    else:
        named = {item.name: getattr(result, item.name) for item in dataclasses.fields(result)}
    found: dict[str, Any] = {}
    for name, value in named.items():
        inside = isinstance(value, Mapping) or dataclasses.is_dataclass(value)
        found |= parts_of(value, f"{prefix}{name}.") if inside else {prefix + name: value}
    return found


def test_every_criterion_has_its_place() -> None:
    assert set(CALLS) == set(CRITERIA)


@every_criterion
def test_every_criterion_takes_both(name: str) -> None:
    taken = inspect.signature(CRITERIA[name].function).parameters
    assert taken["n_boot"].kind == taken["seed"].kind == inspect.Parameter.KEYWORD_ONLY
    assert taken["seed"].default == 0


@every_criterion
def test_without_draws_there_are_point_estimates_alone(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = CALLS[name](n_boot=0)
    drawn = CALLS[name](n_boot=99)
    assert NOT_DRAWN in alone.notes
    assert NOT_DRAWN not in drawn.notes
    told = parts_of(drawn)
    noise = [part for part in told if part.rpartition(".")[2] in NOISE]
    assert noise
    for part, value in parts_of(alone).items():
        kind = part.rpartition(".")[2]
        if kind in NOISE:
            assert np.isnan(np.asarray(value, dtype=float)).all(), part
            silent = np.size(value) == 0 or (kind == "interval" and name in WITHOUT_INTERVALS)
            assert silent or np.isfinite(np.asarray(told[part], dtype=float)).any(), part
        elif kind in DRAWS:
            assert len(value) == 0, part
            assert len(told[part]) > 0, part
        elif kind != "notes" and not part.startswith("bound"):
            np.testing.assert_equal(value, told[part], err_msg=part)


@every_criterion
@pytest.mark.parametrize("n_boot", [*NO_NUMBERS, 10**12], ids=repr)
def test_what_is_no_number_of_draws_is_refused(name: str, n_boot: Any) -> None:
    fewest = FEWEST.get(name, 99)
    with pytest.raises(iv.InputError, match=f"^n_boot is {re.escape(repr(n_boot))}") as refused:
        CALLS[name](n_boot=n_boot)
    assert str(refused.value).endswith(
        f"0 for point estimates without intervals, or a whole number of draws from {fewest} to 1,000,000"
    )
    assert "more than 1,000,000 cost time" in str(refused.value) or n_boot != 10**12


@every_criterion
@pytest.mark.parametrize("seed", [-1, 2.5, "0", True, None, math.nan], ids=repr)
def test_what_is_no_seed_is_refused(name: str, seed: Any) -> None:
    with pytest.raises(iv.InputError, match=f"^seed is {re.escape(repr(seed))}: give a whole number of at least 0$"):
        CALLS[name](seed=seed, n_boot=0)


CLOSED_FORM = ("risk_variance", "worst_environment_risk", "calibration_variance", "irm_penalty")


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_formulas_do_not_know_how_often_or_what_is_drawn(name: str) -> None:
    assert CALLS[name]() == CALLS[name](n_boot=99, seed=7)


def test_an_audit_without_draws_has_no_interval_anywhere() -> None:
    audit = iv.audit(None, Z, HITS, ENV, n_boot=0)
    assert set(audit.results) >= set(CLOSED_FORM)
    for result in audit.results.values():
        for part, value in parts_of(result).items():
            if part.rpartition(".")[2] in NOISE:
                assert np.isnan(np.asarray(value, dtype=float)).all(), (type(result), part)
