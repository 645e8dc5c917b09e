from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.report import heat_maps, transport

Build = Callable[..., SimpleNamespace]
NAN = math.nan


def with_gaps(audit: SimpleNamespace, gaps: Any, half: float = 0.04, **changes: Any) -> SimpleNamespace:
    """The audit with these gaps, ± ``half``; those further than that from 0 are sure."""
    gaps = np.array(gaps, float)
    given = {
        "pairs": gaps,
        "pair_intervals": np.stack([gaps - half, gaps + half], axis=2),
        "pair_pvalues": np.where(np.isnan(gaps), NAN, np.where(np.abs(gaps) > half, 0.01, 0.4)),
    }
    result = dataclasses.replace(audit.results["transport_gap"], **(given | changes))
    audit.results["transport_gap"] = result
    return audit


def found(audit: SimpleNamespace) -> tuple[transport.Gaps, transport.Cover]:
    both = transport.transport(audit)
    assert both is not None
    return both


# --- numbers --------------------------------------------------------------------------------------------------------
def test_pairs_hold_the_numbers_of_the_result(audit: SimpleNamespace) -> None:
    result = audit.results["transport_gap"]
    gaps, cover = found(audit)
    assert gaps.names == cover.names == ("Cleveland", "Hungary", "Switzerland", "Long Beach")
    pair = gaps.pairs[0][2]  # Cleveland's mean, Switzerland's relation
    assert pair is not None
    assert (pair.moved, pair.borrowed, pair.gap) == ("Cleveland", "Switzerland", result.pairs[0, 2])
    assert pair.interval == tuple(result.pair_intervals[0, 2])
    assert (pair.pvalue, pair.sure) == (0.004, True)
    assert (pair.effective, pair.rows, pair.overlap) == (0.25 * 123, 123, "weak")
    assert (pair.mean_ratio, pair.largest, pair.beyond_cap) == (0.97, 0.08, 0.013)
    assert pair.effective_words == "31 of 123"
    assert [row[k] for k, row in enumerate(gaps.pairs)] == [None] * 4
    assert cover.pairs == gaps.pairs


def test_nothing_without_a_transport_gap(build_audit: Build) -> None:
    bare = build_audit(without=["transport_gap"])
    assert transport.transport(bare) is None
    assert transport.in_short(bare) == ""


def test_sure_pairs_come_first_then_larger_gaps_and_refused_last(build_audit: Build) -> None:
    audit = with_gaps(build_audit(labels="abc"), [[0, 0.03, -0.09], [NAN, 0, 0.05], [-0.2, 0.01, 0]])
    order = [(pair.moved, pair.borrowed) for pair in found(audit)[0].ranked]
    assert order == [("c", "a"), ("a", "c"), ("b", "c"), ("a", "b"), ("c", "b"), ("b", "a")]


def test_the_level_is_the_callers(audit: SimpleNamespace) -> None:
    assert sum(pair.sure for pair in found(audit)[0].ranked) == 5
    audit.settings.alpha = 0.004
    assert sum(pair.sure for pair in found(audit)[0].ranked) == 0
    audit.settings.alpha = 0.5
    assert sum(pair.sure for pair in found(audit)[0].ranked) == 8  # all but those that are refused


# --- shades ---------------------------------------------------------------------------------------------------------
def test_shades_diverge_from_zero_and_noise_stays_pale(build_audit: Build) -> None:
    gaps = [[0, 0.9, 0.5, 0.2, 0.05], [-0.9, 0, -0.5, -0.2, NAN], *([[0.0] * 5] * 3)]
    audit = with_gaps(build_audit(labels="abcde", regrets=[(0.1, 0.0, 0.2)]), gaps)
    steps = found(audit)[0].steps
    np.testing.assert_array_equal(steps[:2], [[3, 6, 5, 4, 3], [0, 3, 1, 2, -1]])
    np.testing.assert_array_equal(steps[2:], 3)
    noise = found(with_gaps(audit, gaps, half=2.0))[0].steps
    np.testing.assert_array_equal(noise[:2], [[3, 4, 4, 4, 3], [2, 3, 2, 2, -1]])


def test_shades_of_overlap_change_where_its_words_do(audit: SimpleNamespace) -> None:
    overlap = audit.results["transport_gap"].overlap
    share = np.array([[1, 0.049, 0.051, 0.29], [0.31, 1, 0.54, 0.56], [0.79, 0.81, 1, 0.0], [0.3, 0.05, 0.99, 1]])
    sizes = np.array([303, 294, 123, 200])
    changed = dataclasses.replace(overlap, effective=share, effective_rows=share * sizes)
    _, cover = found(with_gaps(audit, np.zeros((4, 4)), overlap=changed))
    np.testing.assert_array_equal(cover.steps, [[4, 0, 1, 1], [2, 4, 2, 3], [3, 4, 4, 0], [2, 1, 4, 4]])


# --- words ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("task", "gaps", "half", "expected"),
    [
        ("binary", [[0, -0.12], [0.02, 0]], 0.04, "If b's relation held in a, mean disease would be 12 points lower "
         "(95 %: 8–16)"),
        ("binary", [[0, 0.02], [0.12, 0]], 0.04, "If a's relation held in b, mean disease would be 12 points higher "
         "(95 %: 8–16)"),
        ("regression", [[0, -1234.4], [20, 0]], 100.2, "If b's relation held in a, mean disease would be 1,234 lower "
         "(95 %: 1,134–1,335)"),
        ("regression", [[0, 0.0321], [0, 0]], 0.01, "If b's relation held in a, mean disease would be 0.032 higher "
         "(95 %: 0.022–0.042)"),
        ("binary", [[0, 0.02], [-0.031, 0]], 0.04, "No environment's relation would move another's mean disease by "
         "more than 7.1 points (95 %)"),
        ("regression", [[0, 3], [NAN, 0]], 10, "No environment's relation would move another's mean disease by "
         "more than 13 (95 %), where they overlap"),
        ("binary", [[0, NAN], [NAN, 0]], 1, "a and b hardly overlap: neither's relation can be tried on the other"),
    ],
)  # fmt: skip
def test_finding(build_audit: Build, task: str, gaps: list[list[float]], half: float, expected: str) -> None:
    audit = with_gaps(build_audit(labels="ab", task=task), gaps, half)
    assert found(audit)[0].finding == expected


def test_finding_where_all_are_refused(audit: SimpleNamespace) -> None:
    gaps, _ = found(with_gaps(audit, np.full((4, 4), NAN)))
    assert gaps.finding == "The environments hardly overlap: no one's relation can be tried on another"
    assert gaps.tally == ""
    assert [gaps.text(pair.gap) for pair in gaps.ranked] == ["–"] * 12


def test_finding_where_most_are_refused(build_audit: Build) -> None:
    gaps = np.full((3, 3), NAN)
    gaps[0, 1] = 0.01
    found_there, _ = found(with_gaps(build_audit(labels="abc"), gaps))
    expected = "Only 1 of 6 pairs can be compared; there, mean disease would move by no more than 5.0 points (95 %)"
    assert found_there.finding == expected
    assert found_there.tally == ""
    gaps[0, 1] = 0.1
    sure, _ = found(with_gaps(build_audit(labels="abc"), gaps))
    assert sure.finding.startswith("If b's relation held in a, mean disease would be 10 points higher")
    assert sure.tally == "5 of 6 pairs cannot be compared"


def test_an_interval_that_crosses_zero_keeps_its_signs(build_audit: Build) -> None:
    """The simultaneous test and the single interval need not agree at the border."""
    audit = with_gaps(build_audit(labels="ab"), [[0, -0.12], [0, 0]], half=0.13, pair_pvalues=np.full((2, 2), 0.04))
    assert found(audit)[0].finding.endswith("mean disease would be 12 points lower (95 %: −1 … 25)")


def test_a_gap_without_an_interval_is_told_without(build_audit: Build) -> None:
    nothing = np.full((2, 2, 2), NAN)
    audit = with_gaps(build_audit(labels="ab"), [[0, -0.12], [0, 0]], pair_intervals=nothing)
    gaps, _ = found(audit)
    assert gaps.finding.endswith("mean disease would be 12 points lower")
    assert gaps.told(gaps.ranked[0]) == "a with the relation of b: −12 points, p = 0.010"
    calm, _ = found(with_gaps(audit, [[0, 0.02], [0, 0]], pair_intervals=nothing))
    assert calm.finding.endswith("by more than 2.0 points (95 %)")


def test_years_are_told_in_quotes(build_audit: Build) -> None:
    audit = with_gaps(build_audit(labels=[2010, 2011]), [[0, 0.12], [0, 0]])
    assert found(audit)[0].finding.startswith('If the relation of "2011" held in "2010", mean disease')


@pytest.mark.parametrize(
    ("label", "subject"), [(1, "mean disease"), (True, "mean disease"), ("sick", 'the share of "sick" in disease')]
)
def test_two_classes_are_told_by_the_one_that_moves(build_audit: Build, label: Any, subject: str) -> None:
    audit = with_gaps(build_audit(labels="ab"), [[0, 0.12], [0.01, 0]])
    audit.data.classes = ("healthy", label)
    gaps, _ = found(audit)
    assert not gaps.several
    assert gaps.heading == f"How far {subject} would move, in percentage points"
    assert f", {subject} would be 12 points higher" in gaps.finding
    calm, _ = found(with_gaps(audit, [[0, 0.01], [0.02, 0]]))
    assert f"another's {subject.removeprefix('the ')} by more than 6.0 points" in calm.finding


def test_of_several_classes_the_one_that_moves_most_is_named(build_audit: Build) -> None:
    moving = ((None, "setosa"), ("virginica", None))
    audit = with_gaps(build_audit(labels="ab", task="multiclass"), [[0, 0.12], [-0.3, 0]], moving_class=moving)
    gaps, _ = found(audit)
    assert gaps.several
    assert gaps.heading == "How far the class of disease that moves most would move, in percentage points"
    assert gaps.finding.startswith(
        'If a\'s relation held in b, the share of "virginica" in disease would be 30 points lower'
    )
    assert gaps.told(gaps.ranked[1]).startswith("a with the relation of b: setosa +12 points")
    calm, _ = found(with_gaps(audit, [[0, 0.01], [0.02, 0]]))
    assert "another's share of any class of disease by more than 6.0 points" in calm.finding


@pytest.mark.parametrize(
    ("largest", "value", "expected"),
    [
        (0.9, 0.9, "+0.90"), (0.9, -0.04, "−0.04"), (0.9, 0.001, "0"), (12.0, 3.2, "+3"), (3.2e4, 12.0, "+12"),
        (3.2e4, -3.2e4, "−32,000"), (4e-7, 4e-7, "+4.0 × 10⁻⁷"), (0.9, NAN, "–"),
    ],
)  # fmt: skip
def test_gaps_in_the_users_units(build_audit: Build, largest: float, value: float, expected: str) -> None:
    audit = with_gaps(build_audit(labels="ab", task="regression"), [[0, largest], [0, 0]], half=0.1 * largest)
    gaps, _ = found(audit)
    assert gaps.heading == "How far mean disease would move, in units of disease"
    assert gaps.text(value) == expected


def test_no_more_digits_than_the_intervals_bear(build_audit: Build) -> None:
    gaps, _ = found(with_gaps(build_audit(labels="ab"), [[0, -0.0089], [0.0, 0]], half=0.24))
    assert gaps.text(gaps.ranked[0].gap) == "−1"
    assert gaps.finding.endswith("by more than 25 points (95 %)")


def test_long_names_that_begin_alike_are_told_apart(build_audit: Build) -> None:
    names = [f"the university hospital of the {side} bank of it" for side in ("left", "right")]
    gaps, _ = found(with_gaps(build_audit(labels=names), [[0, 0.12], [0, 0]]))
    assert gaps.finding.startswith("If …right bank of it's relation held in …left bank of it, mean ")


def test_overlap_in_words(audit: SimpleNamespace) -> None:
    _, cover = found(audit)
    assert cover.finding == "Of 12 pairs, 4 hardly and 4 only weakly overlap"
    assert cover.calibration == (
        "The estimated chance that a row belongs to an environment is off by 3 % on average, most for Switzerland "
        "(6 %)."
    )
    overlap = audit.results["transport_gap"].overlap
    good = dataclasses.replace(overlap, pair_verdicts=(("good",) * 4,) * 4)
    assert found(with_gaps(audit, np.zeros((4, 4)), overlap=good))[1].finding == "All pairs overlap well"


# --- what fits into a cell ------------------------------------------------------------------------------------------
def test_cells_say_less_where_there_is_less_room(audit: SimpleNamespace) -> None:
    pair = found(audit)[0].pairs[0][2]
    assert pair is not None
    choices = {("a", "b"): heat_maps._overlap_lines(pair)}
    assert heat_maps._fitting(choices, 80)["a", "b"] == ("31 of 123", "weak")
    assert heat_maps._fitting(choices, 46)["a", "b"] == ("31", "of 123", "weak")
    large = dataclasses.replace(pair, effective=1_234_567.0, rows=7_654_321.0)
    both = choices | {("b", "a"): heat_maps._overlap_lines(large)}
    assert heat_maps._fitting(both, 80)["a", "b"] == ("31", "of 123", "weak")  # all cells of a map alike
    assert heat_maps._fitting(both, 46)["b", "a"] == ("1,234,567", "weak")
