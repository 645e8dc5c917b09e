"""The table of environments: its numbers, its sentence, the frame."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.regret.inference import Draws, draw_excess, invert
from invariscope.criteria.regret.shared_head import fit_shared_head
from invariscope.report.parts.environments import environment_rows, environments, standing
from invariscope.report.parts.overlap import rows_left
from invariscope.results import Estimate
from invariscope.rows.resampling import generator
from invariscope.rows.targets import target_of
from tests.report.audits import HOSPITALS, audited, replaced, with_regrets, without

LOSSES = ["model_loss", "shared_head_loss", "own_head_loss"]
ALWAYS = ["environment", "rows", *LOSSES, "regret", "regret_low", "regret_high"]


# --- the frame --------------------------------------------------------------------------------------------------
def test_frame_holds_the_audit_s_numbers(audit: iv.Audit) -> None:
    frame = audit.frame()
    assert list(frame.columns) == [*ALWAYS, "ece", "overlap"]
    assert frame["environment"].tolist() == list(HOSPITALS)
    assert frame["rows"].tolist() == [303, 294, 123, 200]
    np.testing.assert_array_equal(frame["shared_head_loss"], audit["regret"].shared_loss)
    np.testing.assert_array_equal(frame["own_head_loss"], audit["regret"].own_loss)
    assert frame.loc[2, ["regret", "regret_low", "regret_high"]].tolist() == [0.38, 0.21, 0.6]
    assert frame["ece"].tolist() == [0.04, 0.07, 0.19, 0.11]
    assert frame["overlap"].tolist() == ["good", "good", "weak", "none"]


def test_every_frame_has_the_same_first_columns(any_audit: iv.Audit) -> None:
    frame = any_audit.frame()
    assert list(frame.columns)[: len(ALWAYS)] == ALWAYS
    assert frame["environment"].tolist() == list(any_audit.data.labels)
    assert "loss" not in frame
    known = frame[frame["regret"].notna()]
    assert len(known) >= 2
    np.testing.assert_allclose(known["shared_head_loss"] / known["own_head_loss"] - 1, known["regret"], rtol=1e-9)


def test_the_model_s_loss_is_that_of_its_own_predictions(model_audit: iv.Audit) -> None:
    """A head fitted here on the same columns has another loss."""
    frame = model_audit.frame()
    for name in ("worst_environment_risk", "risk_variance"):
        risks = model_audit[name].per_environment
        np.testing.assert_allclose(frame["model_loss"], [risks[label].value for label in model_audit.data.labels])
    assert not np.allclose(frame["model_loss"], frame["shared_head_loss"], rtol=1e-3)


def test_losses_that_are_not_there_are_nan(audit: iv.Audit) -> None:
    bare = without(audit, "regret", "dric", "transport_gap", "calibration_variance").frame()
    assert list(bare.columns) == ALWAYS
    assert bare["model_loss"].notna().all()
    assert bare[ALWAYS[3:]].isna().all(axis=None)
    empty = without(audit, *audit.results).frame()
    assert list(empty.columns) == ALWAYS
    assert empty[ALWAYS[2:]].isna().all(axis=None)
    assert empty["rows"].tolist() == [303, 294, 123, 200]


def test_labels_keep_their_type() -> None:
    assert audited((2001, 2002)).frame()["environment"].tolist() == [2001, 2002]


# --- rows -------------------------------------------------------------------------------------------------------
def test_numbers_follow_labels_not_places(audit: iv.Audit) -> None:
    """A result may list environments in another order than the data."""
    regret, order = audit["regret"], [2, 0, 3, 1]
    turned = replaced(
        audit,
        "regret",
        labels=tuple(regret.labels[k] for k in order),
        shared_loss=regret.shared_loss[order],
        own_loss=regret.own_loss[order],
    )
    assert environment_rows(turned) == environment_rows(audit)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((0.0201, 0.5), "over"),
        ((0.02, 0.5), "open"),
        ((-0.1, 0.0199), "under"),
        ((-0.1, 0.02), "open"),
        ((math.nan, math.nan), "unknown"),
    ],
)
def test_standing_against_the_margin(interval: tuple[float, float], expected: str) -> None:
    assert standing(Estimate(0.01, interval), 0.02) == expected


def test_overlap_in_words(audit: iv.Audit) -> None:
    words = [row.overlap_words for row in environment_rows(audit)]
    assert words == ["good", "good", "weak: 31 of 123 rows effective", "none: 8 of 200 rows effective"]
    assert [row.overlap_words for row in environment_rows(without(audit, "dric", "transport_gap"))] == ["–"] * 4


def test_overlap_is_that_of_the_representation_or_else_of_what_dric_compares(audit: iv.Audit) -> None:
    there = dataclasses.replace(audit["dric"].overlap, verdicts=("weak",) * 4)
    audit = replaced(audit, "dric", overlap=there)
    assert audit.frame()["overlap"].tolist() == ["good", "good", "weak", "none"]
    assert environments(audit).overlap_of == "the representation"
    only_dric = without(audit, "transport_gap")
    assert only_dric.frame()["overlap"].tolist() == ["weak"] * 4
    assert environments(only_dric).overlap_of == "the rows as DRIC compares them"
    assert "overlap" not in without(audit, "dric", "transport_gap").frame()


def test_worst_come_first_and_unknown_last(audit: iv.Audit) -> None:
    audit = with_regrets(audit, [(0.1, 0, 0.2), (math.nan,) * 3, (0.3, 0.1, 0.4), (-0.2, -0.3, 0.1)])
    names = [row.name for row in environments(audit).rows]
    assert names == ["Switzerland", "Cleveland", "VA Long Beach", "Hungary"]


def test_losses_are_called_by_whose_they_are_and_by_the_names_of_the_frame(audit: iv.Audit) -> None:
    risks = {label: Estimate(0.1 * (k + 1)) for k, label in enumerate(HOSPITALS)}
    audit = replaced(audit, "worst_environment_risk", per_environment=risks)
    table, frame = environments(audit), audit.frame()
    assert [title.replace(" ", "_") for title in table.losses(1)] == LOSSES
    first = {"model loss": ["0.300"], "shared head loss": ["0.581"], "own head loss": ["0.421"]}
    assert table.losses(1) == first  # Switzerland, the worst
    assert [float(cells[0]) for cells in first.values()] == pytest.approx(frame.loc[2, LOSSES].tolist(), abs=5e-4)
    table = environments(without(audit, "regret"))
    assert table.losses(4) == {"model loss": ["0.100", "0.200", "0.300", "0.400"]}
    assert environments(without(audit, "regret", "worst_environment_risk", "risk_variance")).losses(4) == {}
    assert list(environments(without(audit, "worst_environment_risk", "risk_variance")).losses(1)) == [
        *("shared head loss", "own head loss"),
    ]


# --- sentences --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("regrets", "expected"),
    [
        ([(0.38, 0.21, 0.6), (0, -0.01, 0.01)], 'Sharing one head costs "a" 38 % more loss (21 … 60 %)'),
        ([(0.38, 0.21, 0.6), (0.1, 0.05, 0.2)], "2 of 2 environments lose more than 2 % by sharing one head"),
        ([(0, -0.1, 0.1), (0, -0.01, 0.01)], "1 of 2 environments (a) could lose more than 2 %"),
        ([(0, -0.1, 0.1), (0, -0.1, 0.1)], "2 of 2 environments could lose more than 2 %"),
        ([(0, -0.01, 0.01), (0, -0.01, 0.01)], "No environment loses more than 2 % by sharing one head"),
    ],
)
def test_finding(regrets: list[tuple[float, ...]], expected: str) -> None:
    assert environments(with_regrets(audited(), regrets)).finding.startswith(expected)


def test_finding_allows_for_having_looked_at_all() -> None:
    """By itself the first environment would be over the margin; as the worst of six it is not."""
    rng = np.random.default_rng(0)
    env, X = np.repeat(np.arange(6), 80), rng.normal(size=(480, 1))
    y = X[:, 0] * (1 + 0.45 * (env == 0)) + rng.normal(size=480)
    data = iv.Environments(X, y, env)
    fit = fit_shared_head(data, target_of(data))
    draws, scale = draw_excess(fit, 1200, generator(0).spawn(2)[0])
    alone = invert(Draws(draws.linear[:, 0], draws.quadratic[:, 0]), scale[0], fit.excess[0])[0] / fit.own_risk[0]
    audit = iv.audit(None, X, y, env, criteria=[], n_boot=199)
    shown = audit["regret"].per_environment[0].interval[0]
    assert alone > 0.02 > shown == audit["regret"].worst_interval[0]
    assert audit.state == "CANNOT TELL YET"
    assert environments(audit).finding == (
        "6 of 6 environments could lose more than 2 % by sharing one head: still open"
    )


def test_a_name_that_ends_in_a_number_is_told_from_the_number_that_follows() -> None:
    audit = with_regrets(audited(("agreement 30 %", "b")), [(0.38, 0.21, 0.6), (0, -0.01, 0.01)])
    assert environments(audit).finding == 'Sharing one head costs "agreement 30 %" 38 % more loss (21 … 60 %)'


def test_a_regret_of_no_known_size_is_said_to_have_no_bound() -> None:
    audit = with_regrets(audited(), [(0.38, 0.021, 40.93), (0.1, -0.05, 17635.15)])
    table = environments(audit)
    assert table.finding == 'Sharing one head costs "a" 38 % more loss (at least 2.1 %, cannot be bounded)'
    assert [row.regret_words for row in table.rows] == [
        "+38 % (at least 2.1, cannot be bounded)",
        "+10 % (cannot be bounded)",
    ]
    assert audit.frame()["regret_high"].tolist() == [40.93, 17635.15]  # numbers stay numbers
    assert audit.to_dict()["results"]["regret"]["per_environment"]["a"]["interval"] == [0.021, 40.93]


def test_reasons_are_given_only_for_missing_numbers(audit: iv.Audit) -> None:
    noted = replaced(audit, "regret", notes=("Hungary has too few rows.",))
    assert environments(noted).reasons == ()
    missing = with_regrets(audit, [(0.1, 0, 0.2), (math.nan,) * 3], notes=("Too few rows.",))
    assert environments(missing).reasons == ("Too few rows.",)
    without_regret = without(audit, "regret", reason="Bern has 3 rows, too few for a head of its own.")
    assert environments(without_regret).reasons == (
        "Shared-head regret was left out: Bern has 3 rows, too few for a head of its own.",
    )
    assert environments(without_regret).finding == "How each environment fares"


def test_a_head_without_error_is_shown_without_loss(audit: iv.Audit) -> None:
    """Not with what rounding left of it, which would cost the other losses their common decimals."""
    own = np.array([0.9, 1.2, 9e-31, 1.1])
    numbers = environments(replaced(audit, "regret", own_loss=own, shared_loss=own + 0.1))
    losses = dict(zip([row.name for row in numbers.rows], numbers.losses(4)["own head loss"], strict=True))
    assert losses["Switzerland"] == "0.00"
    assert losses["Cleveland"] == "0.90"
    assert audit.frame()["own_head_loss"].gt(0).all()  # the frame has all digits


def test_weak_overlap_of_all_rows_says_that_they_are_too_few() -> None:
    audit = audited(("a", "b"), sizes=(16, 400), criteria=("transport_gap",), apart=0.0)
    rows = {row.name: row for row in environment_rows(audit)}
    assert rows["a"].overlap == "weak"
    assert rows["a"].effective > 0.3
    assert re.fullmatch(r"weak: \d+ of 16 rows effective, fewer than 20", rows["a"].overlap_words)
    assert re.fullmatch(r"\d+ of 16, fewer than 20", rows["a"].effective_rows)
    assert rows["b"].overlap_words == "good"


@pytest.mark.parametrize(
    ("effective", "rows", "verdict", "said"),
    [
        (12, 12, "weak", "12 of 12, fewer than 20"),
        (19.9, 66, "weak", "19 of 66, fewer than 20"),
        (19.7, 66, "weak", "20 of 66"),  # under 30 % of them: that is what makes it weak
        (2.4, 5, "none", "2 of 5, fewer than 3"),
        (90, 100, "weak", "90 of 100"),  # not for want of rows: some of the others lie beyond their reach
        (20, 20, "good", "20 of 20"),
    ],
)
def test_rows_are_called_too_few_only_where_that_makes_the_overlap_weak(
    effective: float, rows: float, verdict: str, said: str
) -> None:
    assert rows_left(effective, rows, verdict) == said
