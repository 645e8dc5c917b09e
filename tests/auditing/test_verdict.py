"""The verdict: every state, its borders, its words; and that more of the same rows do not change it."""

from __future__ import annotations

import dataclasses
import math
import re
import unicodedata
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.auditing.advice import MoreRows, driving_columns, rows_needed
from invariscope.auditing.verdict import (
    CANNOT_TELL,
    INVARIANT,
    MARGIN,
    NEGLIGIBLE,
    NOT_INVARIANT,
    STATES,
    UNINFORMATIVE,
    Verdict,
    state_of,
    verdict_of,
    verdict_without_regret,
)
from invariscope.results import Estimate, Overlap, RegretResult

SITES = ("Bern", "Oslo", "Rome")


def made(
    regrets: Sequence[tuple[float, float, float]],
    *,
    worst_interval: tuple[float, float] | None = None,
    pvalue: float = 0.3,
    explained: float = 0.4,
    explained_own: float = 0.5,
    labels: Sequence[Any] = SITES,
    task: str = "regression",
    rows: Sequence[float] | None = None,
    draws: int = 999,
    drivers: Sequence[float] = (0.1, 0.02, 0.01),
) -> RegretResult:
    """A result with these (value, low, high) by environment, as if it had been computed."""
    labels = tuple(labels)[: len(regrets)]
    value = np.array([v for v, _, _ in regrets])
    known = [entry for entry in regrets if not math.isnan(entry[0])]
    if worst_interval is None:
        worst_interval = (max(low for _, low, _ in known), max(high for _, _, high in known))
    return RegretResult(
        value=float(np.nanmean(value)),
        interval=(float(np.nanmean(value)) - 0.01, float(np.nanmean(value)) + 0.01),
        pvalue=pvalue,
        per_environment={
            label: Estimate(v, (low, high)) for label, (v, low, high) in zip(labels, regrets, strict=True)
        },
        worst=labels[int(np.nanargmax(value))],
        worst_interval=worst_interval,
        explained=explained,
        explained_own=explained_own,
        task=task,
        labels=labels,
        columns=("age", "dose", "(overall level)"),
        rows=np.full(len(labels), 200.0) if rows is None else np.asarray(rows, float),
        shared_loss=1 + value,
        own_loss=np.ones(len(labels)),
        pairs=np.where(np.isnan(value)[:, None] & ~np.eye(len(labels), dtype=bool), np.nan, 0.0),
        drivers=np.tile(drivers, (len(labels), 1)),
        statistic=3.0,
        null=np.linspace(0, 10, draws),
    )


ABOVE = ((0.30, 0.20, 0.45), (0.01, 0.0, 0.05), (0.02, 0.0, 0.06))
BELOW = ((0.004, -0.001, 0.012), (0.001, -0.002, 0.008), (0.002, -0.001, 0.009))
ACROSS = ((0.03, 0.005, 0.08), (0.001, -0.002, 0.03), (0.002, -0.001, 0.009))
MADE = {
    NOT_INVARIANT: made(ABOVE, pvalue=0.001),
    INVARIANT: made(BELOW, pvalue=0.4),
    NEGLIGIBLE: made(BELOW, pvalue=0.002),
    CANNOT_TELL: made(ACROSS, pvalue=0.03),
    UNINFORMATIVE: made(BELOW, explained=0.001, explained_own=-0.002),
}


# --- states from numbers ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("state", STATES)
def test_every_state_is_reached(state: str) -> None:
    assert state_of(MADE[state]) == state
    assert verdict_of(MADE[state]).state == state


def test_the_states_are_those_the_report_knows() -> None:
    assert set(STATES) == set(MADE)
    assert len(STATES) == 5


@pytest.mark.parametrize(
    ("low", "high", "pvalue", "state"),
    [
        (0.0200001, 0.5, 0.9, NOT_INVARIANT),  # the interval decides, not the p-value
        (0.02, 0.5, 0.001, CANNOT_TELL),  # the margin itself is not above the margin
        (-0.01, 0.02, 0.5, CANNOT_TELL),
        (-0.01, 0.0199999, 0.05, INVARIANT),  # p = α does not reject
        (-0.01, 0.0199999, 0.0499, NEGLIGIBLE),
        (-0.05, -0.01, 0.5, INVARIANT),
        (-0.01, 0.03, 0.001, CANNOT_TELL),  # a small p-value does not make a difference large
    ],
)
def test_borders(low: float, high: float, pvalue: float, state: str) -> None:
    assert state_of(made(BELOW, worst_interval=(low, high), pvalue=pvalue)) == state


@pytest.mark.parametrize(
    ("explained", "own", "state"),
    [
        (0.0099, 0.0099, UNINFORMATIVE),
        (0.01, 0.0, INVARIANT),
        (-0.5, 0.01, INVARIANT),
        (0.0, -0.2, UNINFORMATIVE),
    ],
)
def test_uninformative_means_that_neither_head_predicts(explained: float, own: float, state: str) -> None:
    assert state_of(made(BELOW, explained=explained, explained_own=own)) == state


def test_uninformative_comes_first() -> None:
    """Heads that predict nothing may well disagree: that is noise about noise."""
    assert state_of(made(ABOVE, explained=0.0, explained_own=0.0, pvalue=0.001)) == UNINFORMATIVE


def test_margin_and_level_are_the_callers() -> None:
    assert state_of(made(ABOVE), margin=0.5) == INVARIANT
    assert state_of(made(ABOVE), margin=0.3) == CANNOT_TELL
    assert state_of(made(BELOW, pvalue=0.03), alpha=0.01) == INVARIANT
    assert "50 %" in verdict_of(made(ABOVE, pvalue=0.001), margin=0.5).headline


def test_an_environment_without_a_regret_leaves_the_question_open() -> None:
    nothing = (math.nan, math.nan, math.nan)
    assert state_of(made((BELOW[0], BELOW[1], nothing))) == CANNOT_TELL
    assert state_of(made((ABOVE[0], ABOVE[1], nothing))) == NOT_INVARIANT  # one that disagrees is enough
    assert "Rome" in " ".join(verdict_of(made((BELOW[0], BELOW[1], nothing))).sentences)


def test_no_environment_with_a_regret_leaves_the_question_open() -> None:
    found = dataclasses.replace(
        made(BELOW),
        value=math.nan,
        per_environment=dict.fromkeys(SITES, Estimate(math.nan)),
        worst_interval=(math.nan, math.nan),
        drivers=np.full((3, 3), math.nan),
    )
    verdict = verdict_of(found)
    assert verdict.state == CANNOT_TELL
    assert "nan" not in str(verdict).lower()
    assert "inf" not in str(verdict).lower().split()


# --- words --------------------------------------------------------------------------------------------------------
GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
APART = Overlap(
    labels=SITES,
    effective=np.full((3, 3), 0.02),
    effective_rows=np.full((3, 3), 4.0),
    mean_ratio=np.full((3, 3), 0.1),
    largest=np.full((3, 3), 0.5),
    beyond_cap=np.full((3, 3), 0.1),
    reached=np.ones((3, 3)),
    cap=20.0,
    calibration=np.zeros(3),
    pair_verdicts=(("none",) * 3,) * 3,
    pooled=np.full(3, 0.05),
    verdicts=("good", "none", "none"),
)


@pytest.mark.parametrize("overlap", [None, APART], ids=["overlap", "apart"])
@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("state", STATES)
def test_words(state: str, task: str, overlap: Overlap | None) -> None:
    found = dataclasses.replace(MADE[state], task=task)
    verdict = verdict_of(found, env_name="hospital", target_name="gain", overlap=overlap)
    text = str(verdict)
    assert text.startswith(f"{state}. ")
    assert verdict.headline in text
    assert 1 <= len(verdict.sentences) <= 3
    for sentence in (verdict.headline, *verdict.sentences):
        assert sentence.endswith(".")
        assert sentence[0].isupper()
        assert len(re.findall(r"\.(?=\s+[A-Z])", sentence)) == 0  # one sentence, not several
        assert "  " not in sentence
    assert not GREEK.search(text)
    assert not any(unicodedata.category(character) == "Co" for character in text)
    assert not re.search(r"\bnan\b|\binf\b|None|environment", text)  # "hospital" is what the user calls them
    assert "hospital" in text or state == UNINFORMATIVE
    assert verdict.sentences[-1].startswith("Next: ")


def test_who_disagrees_and_by_how_much() -> None:
    text = str(verdict_of(MADE[NOT_INVARIANT], env_name="site", target_name="gain"))
    assert "Bern" in text
    assert re.search(r"Bern 30 % more loss", text)
    assert re.search(r"20\D{1,3}45 %", text)
    assert "age" in text
    assert "3 sites" in text


def test_the_overall_level_is_named_after_the_target() -> None:
    text = str(verdict_of(made(ABOVE, drivers=(0.0, 0.0, 0.3)), target_name="gain"))
    assert "level of gain" in text
    assert "(overall level)" not in text


def test_environments_that_do_not_overlap_are_named() -> None:
    for state in (NOT_INVARIANT, INVARIANT, NEGLIGIBLE):
        last = verdict_of(MADE[state], overlap=APART).sentences[-1]
        assert "Oslo" in last
        assert "Rome" in last
        assert "overlap" in last


@pytest.mark.parametrize("draws", [99, 999, 9999, 99_999])
@pytest.mark.parametrize("rank", [1, 2, 3, 7, 50])
def test_a_pvalue_is_never_printed_as_zero(draws: int, rank: int) -> None:
    pvalue = rank / (draws + 1)
    headline = verdict_of(made(ABOVE, pvalue=pvalue, draws=draws)).headline
    shown = re.search(r"p [=≤<] (\S+?)\)", headline)
    assert shown is not None, headline
    assert float(shown.group(1)) > 0
    assert abs(float(shown.group(1)) - pvalue) <= 0.00051


@pytest.mark.parametrize("labels", [(2010, 2011, 2012), ("α-site", "Ω", "β"), ("a.b", 'say "x"', "<b>")])
def test_the_users_own_labels_appear(labels: tuple[Any, ...]) -> None:
    assert str(labels[0]) in verdict_of(made(ABOVE, labels=labels)).sentences[0]


def test_two_environments_are_enough() -> None:
    for regrets in (ABOVE[:2], BELOW[:2], ACROSS[:2]):
        assert "Bern" in str(verdict_of(made(regrets))) or state_of(made(regrets)) == INVARIANT


def test_a_verdict_is_one_paragraph() -> None:
    verdict = Verdict("INVARIANT", "One.", ("Two.", "Three."))
    assert str(verdict) == "INVARIANT. One. Two. Three."
    with pytest.raises(dataclasses.FrozenInstanceError):
        verdict.state = "other"  # type: ignore[misc]


# --- states from rows ---------------------------------------------------------------------------------------------
def exact_slopes(slopes: Sequence[float], n: int, seed: int, noise: float = 1.0) -> tuple[np.ndarray, ...]:
    """Rows of which every environment's own head is exactly (0, slope), with exactly this much noise around it.

    So the regret of the sample is known and the verdict does not hang on the luck of a seed.
    """
    rng = np.random.default_rng(seed)
    columns, targets = [], []
    for slope in slopes:
        z, rest = rng.normal(size=n), rng.normal(size=n)
        z = (z - z.mean()) / z.std()
        design = np.column_stack([np.ones(n), z])
        rest -= design @ np.linalg.lstsq(design, rest, rcond=None)[0]
        columns.append(z)
        targets.append(slope * z + noise * rest / rest.std())
    env = np.repeat(np.array([f"site {chr(97 + k)}" for k in range(len(slopes))]), n)
    return np.concatenate(columns)[:, None], np.concatenate(targets), env


def audited(Z: np.ndarray, y: np.ndarray, env: np.ndarray, **options: Any) -> iv.Audit:
    return iv.audit(None, Z, y, env, criteria=[], env_name="site", **options)


NEGLIGIBLE_SLOPES = (1 - math.sqrt(0.003), 1 + math.sqrt(0.003))  # the shared slope is 1: regret 0.3 % in both


@pytest.mark.parametrize(
    ("slopes", "n", "state"),
    [
        ((0.5, 1.5), 400, NOT_INVARIANT),
        ((1.0, 1.0, 1.0), 2000, INVARIANT),
        (NEGLIGIBLE_SLOPES, 4000, NEGLIGIBLE),
        ((0.85, 1.15), 150, CANNOT_TELL),
        ((0.0, 0.0), 500, UNINFORMATIVE),
    ],
)
def test_every_state_from_rows(slopes: tuple[float, ...], n: int, state: str, seed: int) -> None:
    found = audited(*exact_slopes(slopes, n, seed))
    assert found.state == state, found.verdict
    assert found.verdict.startswith(state)
    expected = np.mean((np.array(slopes) - np.mean(slopes)) ** 2)
    assert found["regret"].value == pytest.approx(expected, abs=0.02)


def test_every_state_from_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, env = rng.normal(size=(3000, 1)), np.repeat(["a", "b"], 1500)
    chance = rng.logistic(size=3000)
    sign = np.where(env == "a", 1.0, -1.0)
    for score, state in ((2 * sign * z[:, 0], NOT_INVARIANT), (np.zeros(3000), UNINFORMATIVE)):
        assert audited(z, np.where(score + chance > 0, "ill", "well"), env).state == state
    once = (2 * z[:1500, 0] + chance[:1500]) > 0  # the same rows in both: one head is exactly best in both
    assert audited(np.tile(z[:1500], (2, 1)), np.tile(once, 2), env).state == INVARIANT


def test_opposite_slopes_are_not_uninformative(seed: int) -> None:
    """The shared head explains nothing, own heads do: that is disagreement, not ignorance."""
    found = audited(*exact_slopes((-1.0, 1.0), 500, seed))
    assert abs(found["regret"].explained) < 0.01 < 0.4 < found["regret"].explained_own
    assert found.state == NOT_INVARIANT


@pytest.mark.parametrize("level", [0.0, 5.0])
def test_a_constant_representation_is_uninformative(level: float, seed: int) -> None:
    """Also where the environments' levels differ, so that its regret is anything but small."""
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "c"], 300)
    y = rng.normal(size=900) + level * (env == "b")
    found = audited(np.full((900, 2), 3.0), y, env)
    assert found.state == UNINFORMATIVE
    if level:
        assert found["regret"].value > 1
        assert found["regret"].pvalue < 0.01


def test_a_collapsed_representation_is_uninformative_for_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 400)
    y = rng.uniform(size=800) < np.where(env == "a", 0.2, 0.7)
    assert audited(np.zeros((800, 1)), y, env).state == UNINFORMATIVE


def test_uninformative_is_said_of_what_heads_looked_at(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, env = rng.normal(size=(1200, 300)), np.tile([0, 1], 600), np.repeat(["a", "b"], 600)
    wide = iv.LinearHead(rng.normal(size=(1, 300)) / 20, [0.0])
    narrow = iv.LinearHead([[0.1, 0.1]], [0.0])
    models = {
        ("this representation, so its", "improve the representation first, then audit it again"): iv.Split(
            lambda X: 1.0 * X[:, :2], head=narrow, task="classification"
        ),
        ("the model's predictions, so their", "improve the model first, then audit it again"): iv.Split(
            predict=rng.uniform(0.4, 0.6, 1200), task="classification"
        ),
        ("the model's predictions, so their", "improve the model, or audit a narrower layer of it"): iv.Split(
            lambda X: 1.0 * X, head=wide, task="classification"
        ),
    }
    for (what, advice), model in models.items():
        found = iv.audit(model, X, y, env, n_boot=99, criteria=[], target_name="ill")
        assert found.state == UNINFORMATIVE
        assert found.headline == f"No linear head predicts ill from {what} invariance means nothing."
        assert found.sentences[-1] == f"Next: {advice}."


# --- the verdict is not driven by n -------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("times", [10, 100])
def test_more_of_the_same_rows_stay_negligible(times: int, seed: int) -> None:
    Z, y, env = exact_slopes(NEGLIGIBLE_SLOPES, 4000, seed)
    once = audited(Z, y, env)
    assert once["regret"].pvalue < 0.05
    weighted = audited(Z, y, env, weight=np.full(len(y), times))
    repeated = audited(np.tile(Z, (times, 1)), np.tile(y, times), np.tile(env, times))
    for found in (once, weighted, repeated):
        assert found.state == NEGLIGIBLE, found.verdict
        assert found["regret"].value == pytest.approx(0.003, abs=0.001)
    assert weighted["regret"].pvalue <= once["regret"].pvalue
    assert weighted["regret"].worst_interval[1] < once["regret"].worst_interval[1]  # surer, and still negligible
    assert weighted["regret"].value == pytest.approx(repeated["regret"].value, rel=1e-6)


def test_a_hundredfold_difference_of_nothing_stays_invariant(seed: int) -> None:
    Z, y, env = exact_slopes((1.0, 1.0), 1000, seed)
    found = audited(Z, y, env, weight=np.full(len(y), 100))
    assert found.state == INVARIANT
    assert abs(found["regret"].value) < 1e-4


# --- how many more rows -------------------------------------------------------------------------------------------
def needed(regrets: Any, own_loss: Any = (1.0, 1.0, 1.0), **changes: Any) -> MoreRows:
    plan = rows_needed(dataclasses.replace(made(regrets, **changes), own_loss=np.array(own_loss)), MARGIN)
    assert plan is not None
    return plan


def test_more_rows_are_needed_the_closer_to_the_margin() -> None:
    counts = [needed(((value, 0.0, 2 * value), *BELOW[1:])).rows for value in (0.10, 0.05, 0.03)]
    assert counts[0] < counts[1] < counts[2]
    assert math.isinf(needed(((0.0201, 0.0, 0.05), *BELOW[1:])).rows)
    assert math.isinf(needed(((MARGIN, 0.0, 0.05), *BELOW[1:])).rows)
    nothing = dataclasses.replace(made(BELOW), per_environment=dict.fromkeys(SITES, Estimate(math.nan)))
    assert rows_needed(nothing, MARGIN) is None


def test_rows_needed_by_hand() -> None:
    """0.05 is 0.03 above the margin and 0.045 above its lower end: 1.5² times the rows bring that to the margin, and
    twice as many surely over it; 3.5 times the 200 that there are must be added."""
    assert needed(((0.05, 0.005, 0.11), *BELOW[1:])) == MoreRows(pytest.approx(700.0), None, "Bern", True)
    # below the margin it is the upper end that must come down: 0.03 from 0.01 away, 18 times the rows
    assert needed(((0.01, 0.0, 0.04), *BELOW[1:])) == MoreRows(pytest.approx(3400.0), None, "Bern", False)
    unequal = needed(((0.05, 0.005, 0.11), *BELOW[1:]), rows=(200, 300, 400))
    noise = [sum(part**2 / (rows + more) for part, rows in zip((2 / 3, 1 / 3, 1 / 3), (200, 300, 400), strict=True))
             for more in (0, unequal.rows)]  # fmt: skip
    assert (unequal.where, noise[0] / noise[1]) == (None, pytest.approx(4.5))


def test_rows_in_one_environment_are_asked_for_where_they_are_enough() -> None:
    """Bern's own head brings most of the noise: (2/3)² / 100 of it, and the others (1/3)² / 400 each, 0.005 in all."""
    found = needed(((0.06, 0.06 - 0.04 * math.sqrt(1.25), 0.1), *BELOW[1:]), rows=(100, 400, 400))
    assert found == MoreRows(pytest.approx(4 / 9 / (0.005 / 2.5 - 2 / 9 / 400) - 100), "Bern", "Bern", True)
    # Oslo's few rows blur the head that all share
    small = needed(((0.06, 0.06 - 0.04 * math.sqrt(1.25), 0.1), *BELOW[1:]), rows=(4000, 40, 4000))
    noise = np.array([4 / 9 / 4000, 1 / 9 / 40, 1 / 9 / 4000])
    left = noise.sum() / 2.5 - noise[0] - noise[2]
    assert small == MoreRows(pytest.approx(1 / 9 / left - 40), "Oslo", "Bern", True)


def test_where_noise_is_large_rows_are_lacking() -> None:
    """Bern is nine times as noisy, so it weighs 1/19 in the shared head: nearly all noise of its regret is its own.

    Counted alike, 300 rows in every one of the three would have been asked for.
    """
    regrets, rows = ((0.06, 0.06 - 0.04 * math.sqrt(2), 0.1), *BELOW[1:]), (100, 100, 100)
    found = needed(regrets, rows=rows, own_loss=(9.0, 1.0, 1.0))
    squares = np.array([(18 / 19) ** 2 * 9, (9 / 19) ** 2, (9 / 19) ** 2])
    left = squares.sum() / 100 / 4 - squares[1:].sum() / 100
    assert found == MoreRows(pytest.approx(squares[0] / left - 100), "Bern", "Bern", True)
    assert needed(regrets, rows=rows, own_loss=(9.0, 9.0, 9.0)).rows == pytest.approx(300)
    # of classes a small loss says little of the noise; an own head without error weighs as much as the next best
    assert needed(regrets, rows=rows, own_loss=(9.0, 1.0, 1.0), task="binary") == needed(regrets, rows=rows)
    assert needed(regrets, rows=rows, own_loss=(9.0, 1.0, 0.0)).rows == pytest.approx(found.rows)


def test_one_regret_over_the_margin_decides_and_all_must_be_under_it() -> None:
    """The widest interval is Bern's; Oslo is nearly surely over the margin, and one that is settles it."""
    assert needed(((0.3, -0.5, 1.5), (0.06, 0.018, 0.11), BELOW[2])).deciding == "Oslo"
    assert needed(((0.012, -0.01, 0.03), (0.005, -0.01, 0.021), BELOW[2])).deciding == "Bern"
    assert needed(((0.005, -0.01, 0.5), (0.0199, 0.01, 0.021), BELOW[2])).deciding == "Oslo"
    # a regret under the margin does not settle it while another seems to be over it
    assert needed(((0.03, 0.01, 0.05), (0.019, 0.0, 0.5), BELOW[2])).deciding == "Bern"


def test_what_may_be_chance_is_not_asked_about_alone() -> None:
    """With the rows of one environment its regret may come down; the others are then as open as before."""
    sizes = (100, 150, 10_000)
    assert needed(((0.3, 0.0001, 0.6), *BELOW[1:]), rows=sizes).where == "Bern"
    assert needed(((0.3, -0.0001, 0.6), *BELOW[1:]), rows=sizes).where is None


def test_rows_are_needed_where_an_interval_all_but_clears_the_margin() -> None:
    found = made(((0.06, 0.012, 0.12), *BELOW[1:]), rows=(400, 400, 400))
    assert state_of(found) == CANNOT_TELL
    assert 400 < needed(((0.06, 0.012, 0.12), *BELOW[1:]), rows=(400, 400, 400)).rows < 1000


def test_infinitely_many_rows_are_not_advised() -> None:
    text = verdict_of(made(((MARGIN, 0.0, 0.05), *BELOW[1:]))).sentences[-1]
    assert "inf" not in text
    assert not re.search(r"\d{2,} more rows", text)


def simulated(sizes: Sequence[int], slopes: Sequence[float], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    code = np.repeat(np.arange(len(sizes)), sizes)
    Z = rng.normal(size=(len(code), 2))
    return Z, Z[:, 0] * np.asarray(slopes)[code] + rng.normal(size=len(code)), code


def followed_advice(
    sizes: Sequence[int], slopes: Sequence[float], seed: int
) -> tuple[list[Hashable | None], list[bool]]:
    """In simulated open cases: where rows are asked for, and is the case settled once those rows are there?

    Only answers of at most 20,000 rows are followed.
    """
    places, settled = [], []
    for rng in np.random.default_rng(seed).spawn(40):
        rows = simulated(sizes, slopes, rng)
        first = iv.regret(*rows, n_boot=199)
        if state_of(first) != CANNOT_TELL:
            continue
        plan = rows_needed(first, MARGIN)
        assert plan is not None
        if plan.rows > 20_000:
            continue
        places.append(plan.where)
        more = [math.ceil(plan.rows) if plan.where in (None, k) else 0 for k in range(len(sizes))]
        both = [np.concatenate(pair) for pair in zip(rows, simulated(more, slopes, rng), strict=True)]
        settled.append(state_of(iv.regret(*both, n_boot=199)) != CANNOT_TELL)
    return places, settled


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sizes", "slopes"),
    [
        ([200, 200], (1.0, 1.0)),
        ([200, 200], (1.0, 1.5)),
        ([300, 300, 30, 300], (1.0, 1.0, 1.0, 1.35)),
        ([150] * 12, (*[1.0] * 11, 1.35)),
    ],
    ids=["invariant", "not invariant", "one too vague to decide", "one of twelve"],
)
def test_that_many_rows_usually_settle_it(sizes: list[int], slopes: tuple[float, ...], seed: int) -> None:
    _, settled = followed_advice(sizes, slopes, seed)
    assert len(settled) >= 5
    assert np.mean(settled) > 0.8 - 2.5 * math.sqrt(0.16 / len(settled))  # 0.85 to 1 in long runs


@pytest.mark.statistical
@pytest.mark.parametrize("slopes", [(1.0, 1.0), (1.0, 1.4)], ids=["invariant", "not invariant"])
def test_rows_are_asked_for_where_they_are_few(slopes: tuple[float, ...], seed: int) -> None:
    """Environments count alike in the shared head, so the noise in all regrets is that of the smallest one."""
    places, settled = followed_advice([3000, 150], slopes, seed)
    assert len(settled) >= 5
    assert np.mean([place == 1 for place in places]) > 0.6
    assert 0 not in places
    assert np.mean(settled) > 0.8 - 2.5 * math.sqrt(0.16 / len(settled))


def test_the_sentence_gives_the_interval_that_the_table_gives() -> None:
    """The state rests on the interval of the largest regret, which may reach as far as another environment's does."""
    found = made(((0.31, 0.14, 0.68), (0.03, -0.26, 6.1), (0.05, 0.0, 0.3)), worst_interval=(0.11, 6.1))
    assert f"costs {SITES[0]} 31 % more loss than its own head would (95 %: 14–68 %)" in str(verdict_of(found))


def test_an_environment_that_is_merely_unknown_is_not_said_to_sit_at_the_margin() -> None:
    found = made(((0.017, -0.03, 0.47), (0.005, -0.01, 0.02), (0.004, -0.01, 0.02)))
    advice = verdict_of(found, env_name="site").sentences[-1]
    assert advice == (
        f"Next: 200 rows leave the cost to {SITES[0]} anywhere in −3 … 47 %; use fewer columns, collect more rows in "
        f"{SITES[0]}, or merge it with another site."
    )
    near = made(((0.0201, 0.015, 0.025), (0.005, -0.01, 0.015), (0.004, -0.01, 0.015)))
    assert verdict_of(near, env_name="site").sentences[-1] == (
        f"Next: the cost to {SITES[0]} seems to be the margin itself; if so, more rows will hardly settle it, and "
        "another site may."
    )


def test_a_regret_far_under_the_margin_is_not_said_to_be_the_margin() -> None:
    """0.5 % with an interval to 19 % is unknown, not near 2 %, though more than 100 times the rows would be needed."""
    found = made(((0.005, -0.05, 0.19), (0.004, -0.01, 0.02), (0.003, -0.01, 0.02)))
    assert "200 rows leave the cost to" in verdict_of(found).sentences[-1]
    assert "anywhere in −5 … 19 %" in verdict_of(found).sentences[-1]
    vaguer = made(((0.019, -0.05, 0.18), (0.004, -0.05, 0.19), (0.003, -0.01, 0.02)))  # the first one decides
    assert f"the cost to {SITES[0]} seems to be the margin" in verdict_of(vaguer).sentences[-1]


def test_heads_with_errors_are_not_said_to_make_none() -> None:
    """A regret may also be missing because noise could have added all of the shared head's loss."""
    found = made(((0.005, -0.01, 0.015), (0.004, -0.01, 0.015), (math.nan,) * 3))
    hidden = dataclasses.replace(found, pairs=np.full((3, 3), 0.1))
    assert verdict_of(hidden, env_name="site").sentences[-1] == (
        f"Next: noise in the heads hides what the shared one costs {SITES[2]}; use fewer columns, or collect more rows "
        "in every site."
    )
    perfect = np.array([[0.0, 0.1, 0.1], [0.1, 0.0, 0.1], [math.nan, math.nan, 0.0]])
    assert "makes no error" in verdict_of(dataclasses.replace(found, pairs=perfect)).sentences[-1]
    nothing = dataclasses.replace(hidden, per_environment=dict.fromkeys(SITES, Estimate(math.nan)))
    assert verdict_of(nothing).sentences[0] == (
        "No regret could be computed: own heads make no error, or noise in the heads hides what the shared one costs."
    )


# --- without a regret ----------------------------------------------------------------------------------------------
def test_without_a_regret_the_verdict_says_why_and_what_to_do() -> None:
    reason = 'site "St. Gallen" has 12 rows, but a head of its own needs 16. Drop it, or merge it with another.'
    verdict = verdict_without_regret(reason, 3, "site")
    assert verdict.state == CANNOT_TELL
    assert "all 3 sites" in verdict.headline
    assert verdict.sentences == (
        'Site "St. Gallen" has 12 rows, but a head of its own needs 16.',
        "Next: drop it, or merge it with another.",
    )
    assert "both environments" in verdict_without_regret(reason, 2).headline


def test_a_reason_without_a_remedy_stands_alone() -> None:
    assert verdict_without_regret("nobody knows", 2).sentences == ("nobody knows",)


def test_a_name_with_a_full_stop_does_not_end_a_sentence() -> None:
    reason = 'site "Oslo" has 3 rows (too few also: St. Olav), but needs 9. Drop "St. Olav" or merge it.'
    assert verdict_without_regret(reason, 3, "site").sentences == (
        'Site "Oslo" has 3 rows (too few also: St. Olav), but needs 9.',
        'Next: drop "St. Olav" or merge it.',
    )
    rng = np.random.default_rng(0)
    X, env = rng.normal(size=(300, 2)), np.repeat(["Oslo", "Bergen", "St. Olav"], 100)
    X[250:, 0] = np.nan
    found = iv.audit(X[:, 1], X, X[:, 1] + rng.normal(size=300), env, criteria="dric", n_boot=0, env_name="site")
    (note,) = [note for note in found.notes if "usable numbers" in note]
    assert note.endswith('not all usable numbers (column "x0" has 50 missing values (St. Olav: 50 of 100)).')


# --- who is named ---------------------------------------------------------------------------------------------------
def test_advice_names_the_one_who_suffers_and_the_odd_one_out_who_is_why(seed: int) -> None:
    """Rome's slope is another; its rows have the least noise, so it draws the shared head to itself and others pay."""
    rng = np.random.default_rng(seed)
    env = np.repeat(SITES, 400)
    slope, noise = (np.repeat(values, 400) for values in ([1.0, 1.0, 1.6], [1.2, 1.0, 0.3]))
    X = rng.normal(size=(1200, 2))
    regret = iv.regret(X, slope * X[:, 0] + noise * rng.normal(size=1200), env, n_boot=199, seed=seed)
    assert regret.worst == "Oslo"
    verdict = verdict_of(regret, env_name="city")
    assert verdict.state == NOT_INVARIANT
    assert verdict.sentences[0].startswith("Sharing one head costs Oslo ")
    assert verdict.sentences[-1] == (
        "Next: Oslo suffers because Rome pulls the shared head away; look at how x0 is recorded in Rome; if it is "
        "right, train an invariant model (invariscope train --objective vrex) or keep a head per city."
    )


def with_pairs(pairs: Sequence[Sequence[float]], **changes: Any) -> RegretResult:
    return dataclasses.replace(made(ABOVE, pvalue=0.001), pairs=np.array(pairs), **changes)


def test_the_odd_one_out_is_blamed_only_where_it_explains_the_largest_regret() -> None:
    """Bern has the largest regret, 30 %. pairs[a, b]: extra loss in a under the head of b; Rome is the odd one out."""
    blamed = with_pairs([[0, 0.01, 0.5], [0.01, 0, 0.5], [0.6, 0.6, 0]])
    assert "Bern suffers because Rome pulls the shared head away; look at how age is recorded in Rome;" in str(
        verdict_of(blamed)
    )
    bern_too = with_pairs([[0, 0.4, 0.5], [0.01, 0, 0.5], [0.6, 0.6, 0]])  # Oslo's head is not for Bern either
    weaker = with_pairs([[0, 0.01, 0.2], [0.01, 0, 0.5], [0.6, 0.6, 0]])  # Rome's head costs less than sharing does
    bern = with_pairs([[0, 0.9, 0.9], [0.9, 0, 0.01], [0.9, 0.01, 0]])  # Bern is the odd one itself
    unknown = with_pairs(np.full((3, 3), math.nan))
    for found in (bern_too, weaker, bern, unknown):
        assert verdict_of(found, env_name="site").sentences[-1] == (
            "Next: look at how age is recorded in Bern; if it is right, train an invariant model (invariscope train "
            "--objective vrex) or keep a head per site."
        )


def test_heads_that_only_guess_blame_nobody() -> None:
    """Bern and Rome have no common rows: what Rome's head loses in Bern says nothing."""
    found = with_pairs([[0, 0.01, 50.0], [0.01, 0, 0.5], [60.0, 0.5, 0]])
    assert "because" in str(verdict_of(found))
    pairs = (("good", "good", "none"), ("good", "good", "good"), ("none", "good", "good"))
    apart = dataclasses.replace(APART, pair_verdicts=pairs, verdicts=("good",) * 3)
    assert "because" not in str(verdict_of(found, overlap=apart))


def test_the_column_to_look_at_is_that_of_the_environment_that_is_named() -> None:
    drivers = np.array([[0.0, 0.05, 0.0], [0.9, 0.0, 0.0], [0.9, 0.0, 0.0]])
    verdict = verdict_of(dataclasses.replace(made(ABOVE, pvalue=0.001), drivers=drivers))
    assert verdict.sentences[1] == "They disagree mostly about age."
    assert verdict.sentences[-1].startswith("Next: look at how dose is recorded in Bern;")


@pytest.mark.parametrize(
    ("regrets", "who"),
    [
        (
            ((0.3, 0.2, 0.45), (0.01, -0.01, 0.05), (0.12, 0.06, 0.2)),
            "Bern 30 % more loss than its own head would (95 %: 20–45 %); Rome 12 % (6–20 %).",
        ),
        (  # the second largest costs nothing: nobody else is named
            ((0.3, 0.2, 0.45), (0.0001, -0.01, 0.05), (-0.02, -0.06, 0.02)),
            "Bern 30 % more loss than its own head would (95 %: 20–45 %).",
        ),
        (  # the largest is vague: the state rests on another
            ((0.31, 0.017, 0.68), (0.01, -0.01, 0.05), (0.25, 0.23, 0.27)),
            "Rome 25 % more loss than its own head would (95 %: 23–27 %); Bern perhaps more, 31 % (1.7–68 %).",
        ),
        (  # the largest is settled, and another keeps the question open
            ((0.012, 0.008, 0.016), (0.0001, -0.04, 0.07), (0.001, -0.004, 0.005)),
            "Oslo no more loss than its own head would (95 %: −4 … 7 %); Bern 1.2 % (0.8–1.6 %).",
        ),
        (
            ((0.31, 0.0217, 40.93), (0.01, -0.01, 0.05), (0.02, -0.2, 1763.0)),
            "Bern 31 % more loss than its own head would (95 %: at least 2.1 %, cannot be bounded); Rome 2 % (cannot "
            "be bounded).",
        ),
    ],
)
def test_the_most_affected_are_named_with_the_interval_that_the_state_rests_on(regrets: Any, who: str) -> None:
    assert verdict_of(made(regrets, pvalue=0.001)).sentences[0] == f"Sharing one head costs {who}"


def test_the_margin_is_told_with_all_its_digits_and_ends_stay_on_their_side_of_it() -> None:
    found = made(((0.1, 0.023441, 0.2), *BELOW[1:]), pvalue=0.001)
    verdict = verdict_of(found, margin=0.02344)
    assert verdict.state == NOT_INVARIANT
    assert "(95 %: 2.3441–20 %)" in verdict.sentences[0]
    assert "to within 2.3442 % (" in verdict_of(found, margin=0.023442).headline
    assert "(95 %: 2.3–20 %)" in verdict_of(found, margin=0.023442).sentences[0]


def test_an_unknown_size_is_not_a_range_to_advise_on() -> None:
    found = made(((0.017, -0.03, 17635.15), (0.005, -0.01, 0.02), (0.004, -0.01, 0.02)))
    verdict = verdict_of(found, env_name="site")
    assert verdict.sentences[-1] == (
        "Next: 200 rows leave the cost to Bern without a bound; use fewer columns, collect more rows in Bern, or merge "
        "it with another site."
    )
    assert "1,763" not in str(verdict)
    nothing = made(((0.0, -0.03, 17635.15), (0.0, -0.01, 0.02), (0.0, -0.01, 0.02)))
    assert verdict_of(nothing).sentences[0] == (
        "Sharing one head costs none of them more loss on these rows; how much it may cost cannot be bounded."
    )


@pytest.mark.parametrize(("high", "rest"), [(0.7312, "; it may cost up to 74 %."), (-0.001, "."), (math.nan, ".")])
def test_what_costs_nothing_here_may_still_cost_something(high: float, rest: str) -> None:
    found = made(((-0.01, -0.03, high), (-0.02, -0.03, high), (-0.02, -0.03, high)), worst_interval=(-0.03, high))
    assert verdict_of(found).sentences[0] == f"Sharing one head costs none of them more loss on these rows{rest}"


@pytest.mark.parametrize(
    ("regrets", "rows", "where"),
    [
        (((0.06, 0.012, 0.09), (0.005, -0.03, 0.1), BELOW[2]), (200,) * 3, "380 more rows in every site"),
        (((0.3, -0.5, 1.5), (0.06, 0.018, 0.11), BELOW[2]), (200,) * 3, "250 more rows in every site"),
        (((0.06, 0.018, 0.12), *BELOW[1:]), (100, 400, 400), "160 more rows in Bern"),
        (((0.06, 0.018, 0.12), *BELOW[1:]), (4000, 40, 4000), "54 more rows in Oslo, which has the fewest,"),
        (((0.3, -0.5, 1.5), (0.06, 0.018, 0.11), BELOW[2]), (900, 100, 400),
         "150 more rows in Oslo, where the fewest are lacking,"),
    ],
)  # fmt: skip
def test_rows_are_asked_for_with_the_reason_where_another_environment_is_named(
    regrets: Any, rows: Any, where: str
) -> None:
    """The verdict speaks of Bern, whose regret is the largest; Oslo's may be what settles the question."""
    verdict = verdict_of(made(regrets, rows=rows), env_name="site")
    assert "costs Bern" in verdict.sentences[0]
    by = ", by the cost to Oslo" if regrets[0][0] == 0.3 and "Oslo" not in where else ""
    few = ' Or drop Oslo (40 rows, others have 4,000; drop_env="Oslo" of iv.read), or merge it with another site.'
    drop = few if min(rows) == 40 else ""
    assert verdict.sentences[-1] == f"Next: about {where} would probably settle it{by}.{drop}"


def test_an_environment_without_a_regret_needs_more_than_the_rows_of_others() -> None:
    """All others may be known to be under the margin: it keeps the question open. One over it would settle it."""
    unknown = (math.nan, math.nan, math.nan)
    assert "the head of Rome makes no error" in verdict_of(made(((0.01, 0.0, 0.04), BELOW[1], unknown))).sentences[-1]
    assert "would probably settle it" in verdict_of(made(((0.06, 0.0, 0.09), BELOW[1], unknown))).sentences[-1]


def test_fewer_columns_are_advised_where_there_are_several_that_can_be_chosen() -> None:
    vague = ((0.017, -0.03, 0.47), (0.005, -0.01, 0.02), (0.004, -0.01, 0.02))
    one = dataclasses.replace(made(vague), columns=("age", "(overall level)"), drivers=np.ones((3, 2)))
    advice = "Next: 200 rows leave the cost to Bern anywhere in −3 … 47 %; collect more rows in Bern, or merge it with"
    assert verdict_of(one, env_name="site").sentences[-1] == f"{advice} another site."
    assert verdict_of(made(vague), env_name="site", learned=True).sentences[-1] == f"{advice} another site."


def test_of_two_environments_none_is_merged_with_the_other(seed: int) -> None:
    """Six rows and one column: nobody could use fewer, and of one environment nothing can be compared."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(16, 1)), np.repeat(["a", "b"], 8)
    found = audited(X, X[:, 0] + 0.1 * rng.normal(size=16), env)
    assert found.state == CANNOT_TELL
    assert re.search(r'^Next: 8 rows leave the cost to "[ab]" .*; collect more rows in "[ab]"\.$', found.sentences[-1])


# --- no advice that nothing speaks for ------------------------------------------------------------------------------
OOD = re.compile(r"OOD|invariant model|invariscope train|objective|penalty")


@pytest.mark.parametrize("trained_by", ["irm", "vrex", "group_dro"])
@pytest.mark.parametrize("overlap", [None, APART], ids=["overlap", "apart"])
@pytest.mark.parametrize("state", STATES)
def test_a_model_trained_for_unseen_environments_is_not_told_to_train_one(
    state: str, overlap: Overlap | None, trained_by: str
) -> None:
    told = str(verdict_of(MADE[state], overlap=overlap, trained_by=trained_by, env_name="site"))
    assert not OOD.search(told)
    if state == NOT_INVARIANT and overlap is None:
        assert told.endswith("Next: look at how age is recorded in Bern; if it is right, keep a head per site.")


@pytest.mark.parametrize("high", [0.05, 0.5, 50.0])
def test_what_is_not_settled_gets_no_advice_on_training(high: float) -> None:
    assert not OOD.search(str(verdict_of(made(((0.03, 0.005, high), *BELOW[1:])))))


def test_heads_without_errors_for_want_of_rows_are_told_how_many(seed: int) -> None:
    """Six classes on twelve columns: with few rows they are split without error, whatever they are."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 12)), np.repeat(["a", "b"], 150)
    y = np.array(list("uvwxyz"))[rng.integers(0, 6, 300)]
    X[np.arange(300), np.searchsorted(list("uvwxyz"), y)] += 4.0
    open_one = audited(X, y, env)
    assert open_one.state == CANNOT_TELL
    assert open_one.sentences == (
        "No regret could be computed: own heads make no error.",
        'Next: 150 rows in "a" are too few for the 65 weights of a head of its own; use fewer columns, or collect at '
        "least 330 rows in every site.",
    )
    assert math.isfinite(audited(X[:, :2], y, env)["regret"].value)  # fewer columns, as told


def test_rows_are_not_said_to_be_lacking_where_more_do_not_help(seed: int) -> None:
    """The head of "b" makes no error either, and it has all the rows that "a" would be asked for."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(800, 3)), np.repeat(["a", "b"], [15, 785])
    X[:, 0] = np.sign(X[:, 0]) * (4 + np.abs(X[:, 0]))
    found = audited(X, np.where(X[:, 0] > 0, "yes", "no"), env)
    assert found.state == CANNOT_TELL
    assert found.sentences[-1].startswith('Next: the head of "b" makes no error on its own rows; look for a column')


def test_a_relation_without_noise_gets_no_advice_on_training(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 2)), np.repeat(["a", "b"], 150)
    found = iv.audit(None, X, X @ [1.0, 2.0], env, n_boot=99, criteria=["influence_index"], env_name="site")
    assert found.state == CANNOT_TELL
    assert not OOD.search(found.verdict)
    assert found.sentences[-1].startswith('Next: the head of "a" makes no error on its own rows; look for a column')


def test_without_a_pvalue_none_is_told() -> None:
    found = dataclasses.replace(MADE[CANNOT_TELL], pvalue=math.nan)
    assert verdict_of(found, env_name="site").headline == (
        "The rows do not settle whether one head serves all 3 sites to within 2 %."
    )


def test_without_intervals_the_verdict_asks_for_them() -> None:
    values = {site: Estimate(value) for site, value in zip(SITES, (0.3, 0.1, 0.0), strict=True)}
    nan = (math.nan, math.nan)
    found = dataclasses.replace(MADE[NOT_INVARIANT], per_environment=values, worst_interval=nan, pvalue=math.nan)
    verdict = verdict_of(found)
    assert verdict.state == CANNOT_TELL
    assert verdict.sentences == (
        "Sharing one head costs Bern 30 % more loss than its own head would; Oslo 10 %.",
        "Next: ask for intervals (n_boot), without which nothing is sure.",
    )


def test_columns_are_ranked_by_what_they_cost_not_by_what_they_save() -> None:
    """A column that one environment gains by, and another loses by, is one that they disagree about."""
    parts = np.array([[0.3, 0.1, 0.0], [-0.3, 0.1, 0.02], [-0.2, np.nan, 0.0]])
    regret = dataclasses.replace(made(ABOVE), drivers=parts)
    assert driving_columns(regret, 3) == ("age", "dose")  # 0.3 and 0.2 of 0.52: the level has less than a tenth
    assert driving_columns(regret, 1) == ("age",)
    assert driving_columns(dataclasses.replace(regret, drivers=-np.ones((3, 3))), 3) == ()
