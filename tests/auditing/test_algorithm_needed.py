"""Is an OOD algorithm needed? The answer of the influence paper's section 4.2, and its words."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.auditing.algorithm_needed import (
    COLLECT,
    LITTLE_TO_GAIN,
    OPEN,
    USE_ONE,
    algorithm_needed,
    answer_of,
    index_words,
    shuffled_bound,
)
from invariscope.auditing.verdict import CANNOT_TELL, INVARIANT, NEGLIGIBLE, NOT_INVARIANT, STATES, UNINFORMATIVE
from invariscope.results import InfluenceResult
from invariscope.rows.resampling import pvalue

SHUFFLED = np.linspace(-3.5, -2.5, 199)


def influence(value: float, shuffled: np.ndarray = SHUFFLED) -> InfluenceResult:
    return InfluenceResult(
        value=value,
        null=shuffled,
        pvalue=pvalue(value, shuffled) if len(shuffled) else float("nan"),
        labels=("a", "b"),
        parameters=("x", "(intercept)"),
        influences=np.zeros((2, 2)),
        direction=np.array([1.0, 0.0]),
        eigenvalues=np.ones(2),
        damping=0.0,
        rank=2,
        loss="squared",
    )


def test_far_above_the_shuffles_an_algorithm_is_worth_trying() -> None:
    assert answer_of(influence(1.0), NOT_INVARIANT) == USE_ONE
    told = algorithm_needed(influence(1.0), NOT_INVARIANT, env_name="hospital")
    assert told == (
        "An OOD algorithm is worth trying: the hospitals pull the head apart far more than chance does "
        "(V 1.00, up to −2.54 for shuffled rows (95 %); p ≤ 0.005)."
    )


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.5])
@pytest.mark.parametrize("draws", [99, 199, 999])
def test_the_index_is_above_what_is_told_of_its_shuffles_just_where_p_is_below_alpha(draws: int, alpha: float) -> None:
    """Also in the digits that are shown, and for every place among the shuffles."""
    shuffled = np.random.default_rng(draws).normal(4.0, 0.001, draws)
    for value in np.sort(shuffled)[-draws // 2 :] + 1e-9:
        found = influence(float(value), shuffled)
        told, bound = index_words(found, alpha)
        number = bound.removeprefix("up to ").partition(" ")[0]
        if draws * alpha >= 1:
            assert (float(told) > float(number)) == (found.pvalue < alpha), (told, bound, found.pvalue)
        assert bound.endswith(f" for shuffled rows ({100 - 100 * alpha:.0f} %)")


def test_too_few_shuffles_for_the_level_are_told_by_the_largest() -> None:
    shuffled = np.linspace(1.0, 2.0, 15)
    assert shuffled_bound(influence(3.0, shuffled)) == 2.0
    assert influence(3.0, shuffled).pvalue > 0.05


def test_by_exact_arithmetic() -> None:
    """Of 39 shuffles p < 0.05 needs none at or above V: (1 + 1) / 40 is not below 0.05."""
    shuffled = np.arange(1.0, 40.0)
    assert shuffled_bound(influence(50.0, shuffled)) == 39.0
    assert shuffled_bound(influence(50.0, np.arange(1.0, 100.0))) == 96.0  # 4 of 99 at or above: (1 + 4) / 100


def test_just_above_most_shuffles_is_not_called_far() -> None:
    told = algorithm_needed(influence(-2.52), NOT_INVARIANT)
    assert "apart more than chance does" in told


@pytest.mark.parametrize("state", [INVARIANT, NEGLIGIBLE])
def test_equal_to_its_shuffles_asks_for_environments(state: str) -> None:
    assert answer_of(influence(-3.0), state) == COLLECT
    told = algorithm_needed(influence(-3.0), state, env_name="country")
    assert told.startswith("No OOD algorithm is called for")
    assert "p = 0.51" in told  # (1 + 100) / (1 + 199)
    assert told.endswith("collect more countries instead.")


@pytest.mark.parametrize("state", [INVARIANT, NEGLIGIBLE])
def test_a_sure_difference_of_no_practical_size_has_little_to_gain(state: str) -> None:
    assert answer_of(influence(1.0), state) == LITTLE_TO_GAIN
    assert "costs under 5 %" in algorithm_needed(influence(1.0), state, margin=0.05)


def test_where_the_regret_sees_what_the_index_misses_that_is_said() -> None:
    told = algorithm_needed(influence(-3.0), NOT_INVARIANT)
    assert "would not ask" in told
    assert "regret" in told


@pytest.mark.parametrize(
    "found", [None, influence(1.0, np.empty(0)), influence(float("-inf"))], ids=["none", "no shuffles", "no value"]
)
def test_without_an_index_there_is_no_answer(found: InfluenceResult | None) -> None:
    assert algorithm_needed(found, NOT_INVARIANT) == ""


def test_an_uninformative_representation_gets_no_advice_on_algorithms() -> None:
    assert algorithm_needed(influence(1.0), UNINFORMATIVE) == ""


def test_a_model_of_another_objective_is_told_whether_that_worked() -> None:
    numbers = "(V 1.00, up to −2.54 for shuffled rows (95 %); p ≤ 0.005)"
    told = algorithm_needed(influence(1.0), NOT_INVARIANT, trained_by="vrex")
    assert told == f"Trained with vrex: the environments pull the head apart far more than chance does {numbers}."
    told = algorithm_needed(influence(1.0), NEGLIGIBLE, trained_by="vrex")
    assert told.endswith(f"than chance does {numbers}, but sharing it costs under 2 %.")
    told = algorithm_needed(influence(-3.0), INVARIANT, trained_by="irm", env_name="site")
    assert told == (
        "Trained with irm: the sites pull the head apart no more than chance does "
        "(V −3.00, up to −2.54 for shuffled rows (95 %); p = 0.51); collect more sites."
    )


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("value", [1.0, -2.52, -3.0])
def test_a_model_trained_for_unseen_environments_gets_no_advice_on_algorithms(state: str, value: float) -> None:
    told = algorithm_needed(influence(value), state, trained_by="irm")
    assert not re.search("OOD|penalty|objective|try", told)


@pytest.mark.parametrize(
    ("value", "far", "p", "rest"),
    [
        (1.0, "far more", "p ≤ 0.005", "what that costs is not settled"),
        (-3.0, "no more", "p = 0.51", "these rows may not show it"),
    ],
)
def test_rows_that_do_not_settle_the_regret_do_not_settle_this(value: float, far: str, p: str, rest: str) -> None:
    assert answer_of(influence(value), CANNOT_TELL) == OPEN
    sentence = algorithm_needed(influence(value), CANNOT_TELL, env_name="site")
    numbers = f"(V {'−' if value < 0 else ''}{abs(value):.2f}, up to −2.54 for shuffled rows (95 %); {p})"
    assert sentence == f"The sites pull the head apart {far} than chance does {numbers}; {rest}."
    assert "OOD" not in sentence


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("value", [1.0, -3.0])
def test_every_state_has_one_of_the_answers(state: str, value: float) -> None:
    assert answer_of(influence(value), state) in (
        {""} if state == UNINFORMATIVE else {USE_ONE, COLLECT, LITTLE_TO_GAIN, OPEN}
    )


def rows(seed: int, slope: float) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X, site = rng.normal(size=(1500, 3)), np.repeat(["Bern", "Oslo", "Rome"], 500)
    return X, X[:, 0] + slope * (site == "Rome") * X[:, 1] + rng.normal(size=1500), site


def test_the_audit_answers_in_its_verdict_its_page_and_its_file(seed: int, tmp_path: Any) -> None:
    options: dict[str, Any] = {"env_name": "site", "n_boot": 199, "criteria": ["influence_index"]}
    differs = iv.audit(None, *rows(seed, 1.0), **options)
    assert differs.algorithm.startswith("An OOD algorithm is worth trying: the sites")
    assert differs.verdict.endswith(differs.algorithm)
    assert differs.to_dict()["verdict"]["algorithm"] == differs.algorithm
    assert "An OOD algorithm is worth trying" in differs.to_html(tmp_path / "page.html").read_text()
    assert "OOD algorithm" in str(differs)
    same = [iv.audit(None, *rows(seed + draw, 0.0), **options).algorithm for draw in range(3)]
    assert sum("no more than chance does" in text for text in same) >= 2


@pytest.mark.parametrize("objective", ["irm", "vrex"])
def test_a_model_that_says_what_it_was_trained_with_gets_no_advice_on_training(objective: str, seed: int) -> None:
    X, _, site = rows(seed, 1.0)
    y = X[:, 0] * np.where(site == "Rome", 2.5, 1.0) + np.random.default_rng(seed).normal(size=1500)
    options: dict[str, Any] = {"env_name": "site", "n_boot": 99, "criteria": ["influence_index"]}
    model = iv.InvariantRegressor(objective, penalty=1.0, steps=30).fit(X, y, env=site)
    found = iv.audit(model, X, y, site, **options)
    assert found.state == NOT_INVARIANT
    assert found.algorithm.startswith(f"Trained with {objective}: the sites pull the head apart ")
    assert found.sentences[-1] == "Next: find out what sets Rome apart; then keep a head per site."
    assert not re.search("OOD|invariant model|penalty|objective", found.verdict)


@pytest.mark.parametrize("state", [INVARIANT, CANNOT_TELL])
def test_a_p_value_of_alpha_itself_is_chance(state: str) -> None:
    """49 of 999 shuffles at or above it: p = 50 / 1000, as often as alpha allows without a difference."""
    at, above = (influence(value, np.arange(1.0, 1000.0)) for value in (951.0, 952.0))
    assert (at.pvalue, above.pvalue) == (0.05, 0.049)
    words = "pull the head apart {} than chance does ("
    assert words.format("no more") in algorithm_needed(at, state, alpha=0.05)
    assert words.format("more") in algorithm_needed(above, state, alpha=0.05)
