"""Conditions are read strictly: a gate that was misspelt must not stand open."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.auditing.conditions import Condition, met, parse
from invariscope.criteria.registry import CRITERIA
from invariscope.errors import InputError
from invariscope.results import Estimate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("regret>0.1", Condition("regret", ">", 0.1)),
        (" Regret  >=  1e-1 ", Condition("regret", ">=", 0.1)),
        ("regret_low>-.5", Condition("regret-low", ">", -0.5)),
        ("p<0.01", Condition("p", "<", 0.01)),
        ("explained<=0", Condition("explained", "<=", 0.0)),
        ("influence_p<0.05", Condition("influence-p", "<", 0.05)),
        ("risk-variance>3", Condition("risk_variance", ">", 3.0)),
        ("verdict=not-invariant", Condition("verdict", "=", "not-invariant")),
        ("verdict == NOT INVARIANT", Condition("verdict", "=", "not-invariant")),
        ("verdict!=cannot_tell_yet", Condition("verdict", "!=", "cannot-tell-yet")),
    ],
)
def test_conditions(text: str, expected: Condition) -> None:
    assert parse([text], 999) == (expected,)


@pytest.mark.parametrize("name", [name for name in CRITERIA if name != "regret"])
def test_every_criterion_can_be_watched(name: str) -> None:
    assert parse([f"{name}>1"], 999) == (Condition(name, ">", 1.0),)


def test_several() -> None:
    assert [str(c) for c in parse(["regret>0.1, p<0.01", "explained<0.2"], 999)] == [
        *("regret>0.1", "p<0.01", "explained<0.2"),
    ]
    assert parse([], 999) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "regret", "regret>", ">0.1", "regret=>0.1", "regret>0.1>0.2", "regret 0.1", "0.1<regret"),
        *("regret>0.1,", "regret>x", "regret>nan", "regret>inf", "regret>10%", "regret=0.1", "p!=0.1"),
        *("verdict>invariant", "verdict=good", "verdict=", "nothing>1", "regret>0.1;p<0.01", "__class__>1"),
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r'^"') as caught:
        parse([text], 999)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "n_boot"), [("p<0.001", 999), ("p<=0.0009", 999), ("p<0.01", 99), ("influence-p<0.01", 99)]
)
def test_conditions_that_no_audit_could_meet_are_refused(text: str, n_boot: int) -> None:
    with pytest.raises(InputError, match=rf"can never be met: with {n_boot} draws"):
        parse([text], n_boot)


@pytest.mark.parametrize("text", ["p<=0.001", "p<0.0011", "p>0.0001", "p>=0.001"])
def test_conditions_at_the_edge_are_accepted(text: str) -> None:
    assert len(parse([text], 999)) == 1


def test_a_verdict_is_the_one_that_was_named_or_any_other() -> None:
    found: Any = SimpleNamespace(state="NOT INVARIANT")
    conditions = parse(
        ["verdict=not-invariant", "verdict=invariant", "verdict!=invariant", "verdict!=not-invariant"], 99
    )
    said = "the verdict is not-invariant"
    assert [met(condition, found) for condition in conditions] == [said, None, said, None]


def test_the_influence_index_is_judged_by_its_p_value_and_the_worst_case_in_words(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(900, 2)), np.repeat(["a", "b", "c"], 300)
    y = X[:, 0] + 2.0 * (env == "c") * X[:, 1] + rng.normal(size=900)
    found = iv.audit(None, X, y, env, n_boot=99, criteria=["influence_index", "worst_case"])
    by_chance, worst = parse(["influence-p<0.05", "worst_case>0"], 99)
    assert met(by_chance, found) == f"p of the influence index is {found['influence_index'].pvalue:.4g}"
    assert met(worst, found) == f"the worst-case squared error at half of R is {found['worst_case'].value:.4g}"
    with pytest.raises(
        InputError, match=r'cannot be judged: "influence_index" was not asked for; add it to the criteria$'
    ):
        met(by_chance, iv.audit(None, X, y, env, n_boot=99, criteria=["regret"]))


@pytest.mark.parametrize("text", ["regret>0.1", "regret-low>0.1", "p<0.05", "explained<0.5", "influence-p<0.05"])
def test_what_was_left_out_cannot_be_judged(text: str, seed: int) -> None:
    """An environment without one of the classes has no head of its own, and so no regret."""
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 60)
    y = np.where(env == "b", "no", np.where(rng.uniform(size=120) > 0.5, "yes", "no"))
    found = iv.audit(None, rng.normal(size=(120, 1)), y, env, n_boot=99, criteria=["influence_index", "risk_variance"])
    with pytest.raises(InputError, match=r'cannot be judged: class "yes" of target "target" never occurs'):
        met(parse([text], 99)[0], found)
    assert met(parse(["risk_variance>=0"], 99)[0], found) is not None
    assert met(parse(["verdict=cannot-tell-yet"], 99)[0], found) is not None


def test_the_regret_that_is_judged_is_the_largest_and_not_the_mean(seed: int) -> None:
    """A gate between the two: only the largest is above it. Its lower end is that of whoever is surest."""
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "c", "d"], [300, 200, 400, 100])
    X = rng.normal(size=(1000, 1))
    y = X[:, 0] * np.where(env == "d", 2.0, 1.0) + rng.normal(size=1000)
    found = iv.audit(None, X, y, env, n_boot=99, criteria=[])
    regret = found["regret"]
    values = [estimate.value for estimate in regret.per_environment.values()]
    largest, mean = max(values), float(np.mean(values))
    assert regret.value == pytest.approx(mean)
    assert largest > 2 * mean > 0
    between = (largest + mean) / 2
    above, below = parse([f"regret>{between}", f"regret<{between}"], 99)
    assert met(above, found) == f"the largest regret, in d, is {largest:.4g}"
    assert met(below, found) is None
    assert met(parse([f"regret>{largest * 1.001}"], 99)[0], found) is None
    low = max(estimate.interval[0] for estimate in regret.per_environment.values())
    assert met(parse([f"regret-low>{low - 0.001}"], 99)[0], found) == (
        f"the lower end of the largest regret, in d, is {low:.4g}"
    )


def test_the_lower_end_is_told_with_the_environment_it_belongs_to(seed: int) -> None:
    """The largest regret may be vague: the lower end of the largest is then another's."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(120, 1)), np.repeat(["tiny", "large"], 60)
    found = iv.audit(None, X, X[:, 0] + rng.normal(size=120), env, n_boot=99, criteria=[])
    estimates = {"tiny": Estimate(0.31, (0.01, 0.9)), "large": Estimate(0.25, (0.23, 0.27))}
    changes = {"per_environment": estimates, "worst": "tiny", "worst_interval": (0.23, 0.9)}
    found = dataclasses.replace(found, results={"regret": dataclasses.replace(found["regret"], **changes)})
    assert met(parse(["regret>0.3"], 99)[0], found) == "the largest regret, in tiny, is 0.31"
    assert met(parse(["regret-low>0.2"], 99)[0], found) == "the lower end of the largest regret, in large, is 0.23"
