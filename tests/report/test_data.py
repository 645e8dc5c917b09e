from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from invariscope import wording
from invariscope.auditing.verdict import driving_columns
from invariscope.report import data, findings, heat_maps, record
from invariscope.results import Estimate

Build = Callable[..., SimpleNamespace]


def replaced(audit: SimpleNamespace, name: str, **changes: object) -> SimpleNamespace:
    audit.results[name] = dataclasses.replace(audit.results[name], **changes)
    return audit


# --- environments ---------------------------------------------------------------------------------------------------
def test_frame_holds_the_audit_s_numbers(audit: SimpleNamespace) -> None:
    frame = data.frame(audit)
    regret = audit.results["regret"]
    assert list(frame.columns) == [
        *("environment", "rows", "loss", "own_head_loss", "regret", "regret_low", "regret_high", "ece", "overlap"),
    ]
    assert frame["environment"].tolist() == ["Cleveland", "Hungary", "Switzerland", "Long Beach"]
    assert frame["rows"].tolist() == [303, 294, 123, 200]
    np.testing.assert_array_equal(frame["loss"], regret.shared_loss)
    np.testing.assert_array_equal(frame["own_head_loss"], regret.own_loss)
    assert frame.loc[2, ["regret", "regret_low", "regret_high"]].tolist() == [0.38, 0.21, 0.6]
    assert frame["ece"].tolist() == [0.04, 0.07, 0.19, 0.11]
    assert frame["overlap"].tolist() == ["good", "good", "weak", "none"]


def test_frame_has_only_columns_with_numbers(build_audit: Build) -> None:
    bare = build_audit(without=["regret", "dric", "transport_gap", "calibration_variance"])
    assert list(data.frame(bare).columns) == ["environment", "rows", "loss"]
    np.testing.assert_array_equal(
        data.frame(bare)["loss"], [e.value for e in bare.results["risk_variance"].per_environment.values()]
    )
    empty = build_audit(without=[*bare.results, "regret", "dric", "transport_gap", "calibration_variance"])
    assert list(data.frame(empty).columns) == ["environment", "rows"]


def test_numbers_follow_labels_not_places(audit: SimpleNamespace) -> None:
    """A result may list environments in another order than the data."""
    expected = {row.label: row for row in data.environments(audit)}
    regret = audit.results["regret"]
    order = [2, 0, 3, 1]
    replaced(
        audit,
        "regret",
        labels=tuple(regret.labels[k] for k in order),
        shared_loss=regret.shared_loss[order],
        own_loss=regret.own_loss[order],
    )
    assert {row.label: row for row in data.environments(audit)} == expected


def test_labels_keep_their_type(build_audit: Build) -> None:
    assert data.frame(build_audit(labels=[2001, 2002]))["environment"].tolist() == [2001, 2002]


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
    assert data.standing(Estimate(0.01, interval), 0.02) == expected


def test_overlap_in_words(audit: SimpleNamespace) -> None:
    words = [row.overlap_words for row in data.environments(audit)]
    assert words == ["good", "good", "weak: 31 of 123 rows effective", "none: 8 of 200 rows effective"]


def test_overlap_is_that_of_the_inputs_or_else_of_the_representation(build_audit: Build) -> None:
    audit = build_audit()
    there = dataclasses.replace(audit.results["dric"].overlap, verdicts=("weak",) * 4)
    replaced(audit, "transport_gap", overlap=there)
    assert data.frame(audit)["overlap"].tolist() == ["good", "good", "weak", "none"]
    del audit.results["dric"]
    assert data.frame(audit)["overlap"].tolist() == ["weak"] * 4
    del audit.results["transport_gap"]
    assert "overlap" not in data.frame(audit)


def test_worst_come_first_and_unknown_last(build_audit: Build) -> None:
    audit = build_audit(regrets=[(0.1, 0, 0.2), (math.nan,) * 3, (0.3, 0.1, 0.4), (-0.2, -0.3, 0.1)])
    rows = data.worst_first(data.environments(audit))
    assert [row.name for row in rows] == ["Switzerland", "Cleveland", "Long Beach", "Hungary"]


@pytest.mark.parametrize(
    ("regrets", "expected"),
    [
        ([(0.38, 0.21, 0.6), (0, -0.01, 0.01)], "Sharing one head costs a 38 % more loss (21 … 60 %)"),
        ([(0.38, 0.21, 0.6), (0.1, 0.05, 0.2)], "2 of 2 environments lose more than 2 % by sharing one head"),
        ([(0, -0.1, 0.1), (0, -0.01, 0.01)], "1 of 2 environments (a) could lose more than 2 %"),
        ([(0, -0.1, 0.1), (0, -0.1, 0.1)], "2 of 2 environments could lose more than 2 %"),
        ([(0, -0.01, 0.01), (0, -0.01, 0.01)], "No environment loses more than 2 % by sharing one head"),
    ],
)
def test_finding_of_the_table(build_audit: Build, regrets: list[tuple[float, ...]], expected: str) -> None:
    assert data.environments_finding(build_audit(labels=["a", "b"], regrets=regrets)).startswith(expected)


def test_finding_allows_for_having_looked_at_all(build_audit: Build) -> None:
    """One environment's own interval is over the margin, but that of the largest regret is not."""
    audit = build_audit(labels=["a", "b"], regrets=[(0.05, 0.021, 0.09), (0, -0.01, 0.01)])
    replaced(audit, "regret", worst_interval=(0.012, 0.09))
    expected = "1 of 2 environments (a) could lose more than 2 % by sharing one head: still open"
    assert data.environments_finding(audit) == expected


def test_axis_holds_every_estimate_and_cuts_only_intervals(build_audit: Build) -> None:
    regrets = [(0.1, 0.05, 40.0), (0.02, -0.9, 0.05), (0.01, 0.0, 0.02), (-0.04, -0.06, 0.0)]
    axis = data.regret_axis(data.environments(build_audit(regrets=regrets)), 0.02)
    assert axis.low == pytest.approx(-0.125)
    assert axis.high == pytest.approx(0.25)
    assert axis.position(axis.low) == pytest.approx(4)
    assert axis.position(axis.high) == pytest.approx(96)
    assert axis.position(40.0) == pytest.approx(96)
    assert axis.position(0.0) == pytest.approx(4 + 92 / 3)
    assert axis.ticks == (-0.1, 0.0, 0.1, 0.2)


def test_ticks_are_few_and_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for scale in 10.0 ** rng.uniform(-4, 4, 100):
        low, high = -scale * rng.uniform(0, 0.5), scale
        found = data.ticks(low, high)
        assert 2 <= len(found) <= 5
        assert 0.0 in found
        assert low - 1e-8 * scale <= min(found)
        assert max(found) <= high + 1e-8 * scale


# --- who disagrees with whom ----------------------------------------------------------------------------------------
def test_extreme_pairs_are_the_largest_off_the_diagonal(audit: SimpleNamespace) -> None:
    values = np.array([[9.0, 0.1, 0.2, 0.0], [0.3, 9.0, 0.5, 0.1], [0.9, 0.1, 9.0, np.nan], [0.0, 0.0, 0.0, 9.0]])
    found = findings.disagreement(replaced(audit, "regret", pairs=values))
    assert found is not None
    assert found.extreme[0] == findings.Pair("Switzerland", "Cleveland", 0.9)
    assert found.extreme[1] == findings.Pair("Hungary", "Switzerland", 0.5)
    assert len(found.extreme) == 11  # twelve pairs, one without a number
    assert found.finding == "Worst match: Switzerland with the head of Cleveland, +90 % loss"


def test_pairs_under_the_margin(audit: SimpleNamespace) -> None:
    found = findings.disagreement(replaced(audit, "regret", pairs=np.full((4, 4), 0.01)))
    assert found is not None
    assert found.finding == "No environment would lose more than 2 % with the head of another"
    assert findings.disagreement(replaced(audit, "regret", pairs=np.full((4, 4), np.nan))) is None


def test_shades_begin_at_the_margin() -> None:
    for margin in (0.001, 0.02, 0.05, 0.3, 7.0, 100.0):
        steps = heat_maps.heat_steps(margin)
        assert steps[0] == margin
        assert len(steps) == heat_maps.HEAT_STEPS - 1
        assert np.all(np.diff(steps) > 0)


# --- features -------------------------------------------------------------------------------------------------------
def test_drivers_of_all_environments_together(build_audit: Build) -> None:
    audit = build_audit(columns=[f"c{j}" for j in range(15)])
    parts = np.zeros((4, 15))
    parts[2] = [0.01] * 12 + [0.4, 0.2, 0.0]  # Switzerland
    parts[3] = [0.08] + [-0.5] * 14  # Long Beach; what pulls the other way does not count
    parts[0] = np.nan
    found = findings.drivers(replaced(audit, "regret", drivers=parts))
    assert found is not None
    assert found.columns == ("c12", "c13", "c0", *(f"c{j}" for j in range(1, 10)))
    assert found.shares == pytest.approx([0.5, 0.25, 0.1125, *[0.0125] * 9])
    assert (found.others, found.rest) == (3, pytest.approx(0.025))
    assert found.finding == "c12, c13 and c0 carry 86 % of the extra loss"
    # Hungary and Cleveland are not surely over the margin
    assert found.apart == (("Switzerland", "c12 56 % · c13 28 %"), ("Long Beach", "c0 100 %"))


def test_drivers_are_shares_whatever_the_regret(audit: SimpleNamespace) -> None:
    shares = findings.drivers(audit)
    scaled = findings.drivers(replaced(audit, "regret", drivers=0.38 * audit.results["regret"].drivers))
    assert shares is not None
    assert scaled is not None
    assert scaled.shares == pytest.approx(shares.shares, rel=1e-12)
    assert sum(scaled.shares) + scaled.rest == pytest.approx(1.0, rel=1e-12)


def test_chart_names_the_columns_that_the_verdict_names(audit: SimpleNamespace) -> None:
    found = findings.drivers(audit)
    named = driving_columns(audit.results["regret"], 3)
    assert found is not None
    assert named
    assert found.columns[: len(named)] == named
    assert found.finding.startswith(wording.listed(named) + " carr")


def test_no_column_stands_out(build_audit: Build) -> None:
    audit = build_audit(columns=[f"c{j}" for j in range(25)])
    found = findings.drivers(replaced(audit, "regret", drivers=np.full((4, 25), 0.01)))
    assert found is not None
    assert found.finding == "No column stands out: the largest, c0, carries 4 %"


def test_overall_level_is_spoken_of_in_words(build_audit: Build) -> None:
    audit = build_audit(columns=["age", "(overall level)"])
    found = findings.drivers(replaced(audit, "regret", drivers=np.tile([0.05, 0.95], (4, 1))))
    assert found is not None
    assert found.columns == ("(overall level)", "age")
    assert found.finding == "The overall level carries 95 % of the extra loss"


def test_no_drivers_without_a_difference(build_audit: Build) -> None:
    small = [(0.01, -0.005, 0.015)] * 4
    assert findings.drivers(build_audit(regrets=small, pvalue=0.4)) is None
    assert findings.drivers(build_audit(regrets=small, pvalue=0.01)) is not None  # small, but surely there
    assert findings.drivers(build_audit(columns=["prediction"])) is None
    assert findings.drivers(build_audit(without=["regret"])) is None


# --- influence ------------------------------------------------------------------------------------------------------
def test_cloud_is_the_histogram_of_all_finite_shuffles(audit: SimpleNamespace, seed: int) -> None:
    shuffled = np.random.default_rng(seed).normal(-3, 0.2, 500)
    found = findings.cloud(
        replaced(audit, "influence_index", null=np.append(shuffled, [-np.inf, np.nan]), pvalue=0.013)
    )
    assert found is not None
    assert found.counts.sum() == found.draws == 500
    assert found.edges[0] == shuffled.min()
    assert found.edges[-1] == shuffled.max()
    assert (found.low, found.high) == pytest.approx(np.quantile(shuffled, [0.025, 0.975]))
    assert found.finding == "The environments pull the head apart more than chance does (p = 0.013)"


def test_cloud_finding_without_evidence(audit: SimpleNamespace) -> None:
    found = findings.cloud(replaced(audit, "influence_index", pvalue=0.31))
    assert found is not None
    assert found.finding == "The environments pull the head apart no more than chance does (p = 0.31)"


def test_pull_names_the_furthest_environment(audit: SimpleNamespace) -> None:
    influences = np.zeros((4, 13))
    influences[2, 4], influences[0, 4] = -8.0, 1.0
    found = findings.cloud(replaced(audit, "influence_index", influences=influences, direction=np.eye(13)[4]))
    assert found is not None
    assert found.pull == "Switzerland stands furthest out; the pull is mostly on cholesterol."


@pytest.mark.parametrize("changes", [{"value": -math.inf}, {"value": math.nan}, {"null": np.array([])}])
def test_no_cloud_without_numbers(audit: SimpleNamespace, changes: dict[str, object]) -> None:
    assert findings.cloud(replaced(audit, "influence_index", **changes)) is None


# --- particulars ----------------------------------------------------------------------------------------------------
def test_criteria_as_text(audit: SimpleNamespace) -> None:
    rows = {row.name: row for row in record.criteria(audit)}
    assert next(iter(rows)) == "regret"
    assert (rows["regret"].value, rows["regret"].interval) == ("+15 %", "7.3 … 26 %")
    assert rows["regret"].detail == "mean over environments; score test p ≤ 0.001"
    assert (rows["dric"].value, rows["dric"].interval) == ("0.830", "0.610 … 1.12")
    assert rows["dric"].detail == "log10 −0.081; 0.110 … 0.490 when shuffled"
    assert (rows["transport_gap"].value, rows["transport_gap"].interval) == ("0.310", "0.120 … 0.550")
    assert rows["transport_gap"].detail == "all pairs together p ≤ 0.001"
    assert rows["risk_variance"].interval == "0.00343 … 0.00784"
    assert rows["worst_environment_risk"].detail == "worst: Switzerland, 0.581 log-loss"
    assert rows["irm_penalty"].value == "2.10 × 10⁻⁵"
    assert rows["influence_index"].detail.endswith(" when shuffled; p ≤ 0.001")
    assert rows["dric"].cannot_tell == "invariance: see the manual."


def test_dric_without_interval_and_shuffles(audit: SimpleNamespace) -> None:
    replaced(audit, "dric", interval=(math.nan, math.nan), null=np.empty(0))
    row = next(row for row in record.criteria(audit) if row.name == "dric")
    assert (row.interval, row.detail) == ("", "log10 −0.081")


def test_unregistered_criterion_is_shown_by_its_name(audit: SimpleNamespace) -> None:
    audit.results["new_thing"] = SimpleNamespace(value=0.5, pvalue=0.02, notes=("a remark",))
    row = record.criteria(audit)[-1]
    assert (row.title, row.value, row.detail, row.notes) == ("New thing", "0.500", "p = 0.020", ("a remark",))


def test_facts(audit: SimpleNamespace) -> None:
    assert [value for _, value in record.facts(audit)] == ["+38 % (21 … 60)", "p ≤ 0.001", "34 %", "2 %"]


def test_reasons_are_given_only_for_missing_numbers(build_audit: Build) -> None:
    audit = replaced(build_audit(), "regret", notes=("Hungary has too few rows.",))
    assert record.reasons(audit, data.environments(audit)) == ()
    missing = replaced(build_audit(regrets=[(0.1, 0, 0.2), (math.nan,) * 3]), "regret", notes=("Too few rows.",))
    assert record.reasons(missing, data.environments(missing)) == ("Too few rows.",)


def test_provenance_is_complete_and_short(build_audit: Build) -> None:
    found = dict(record.provenance(build_audit(columns=[f"c{j}" for j in range(500)])))
    assert found["seed"] == "0"
    assert found["environments"] == "4, of 123 to 303 rows"
    assert found["features"].startswith("500: c0, c1, ")
    assert found["features"].endswith("c23 and 476 more")
    assert found["versions"] == "invariscope 0.1.0 · numpy 2.4.0 · scikit-learn 1.9.0"
    assert found["density ratios by"] == "logistic (logistic regression, second-order)"
    assert found["made"] == "2025-11-15 21:04 UTC"
