"""The transport gap and the overlap beside it: numbers, shades, sentences."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.report import html
from invariscope.report.parts.overlap import OverlapMatrix, overlap_matrix
from invariscope.report.parts.transport import Gaps, in_short, markup, transport
from tests.report.audits import HOSPITALS, audited, with_gaps, without

NAN = math.nan


def found(audit: iv.Audit) -> Gaps:
    gaps = transport(audit)
    assert gaps is not None
    return gaps


def overlaps(audit: iv.Audit) -> OverlapMatrix:
    return overlap_matrix(audit["transport_gap"].overlap, HOSPITALS)


def with_alpha(audit: iv.Audit, alpha: float) -> iv.Audit:
    return dataclasses.replace(audit, settings=dataclasses.replace(audit.settings, alpha=alpha))


def of(labels: str = "ab", task: str = "binary") -> iv.Audit:
    return audited(tuple(labels), task=task, criteria=("transport_gap",))


# --- numbers --------------------------------------------------------------------------------------------------------
def test_pairs_hold_the_numbers_of_the_result(audit: iv.Audit) -> None:
    result = audit["transport_gap"]
    gaps, overlap = found(audit), overlaps(audit)
    assert gaps.names == HOSPITALS
    pair = gaps.pairs[0][2]  # Cleveland's mean, Switzerland's relation
    assert pair is not None
    assert (pair.moved, pair.borrowed, pair.gap) == ("Cleveland", "Switzerland", result.pairs[0, 2])
    assert pair.interval == tuple(result.pair_intervals[0, 2])
    assert (pair.pvalue, pair.sure) == (0.004, True)
    assert [row[k] for k, row in enumerate(gaps.pairs)] == [None] * 4
    assert pair.overlap == overlap.pairs[0][2]
    assert (pair.overlap.effective, pair.overlap.rows, pair.overlap.verdict) == (0.25 * 123, 123, "weak")
    assert (pair.overlap.mean_ratio, pair.overlap.largest, pair.overlap.beyond_cap) == (0.97, 0.08, 0.013)
    assert pair.overlap.effective_rows == "31 of 123"


def test_nothing_without_a_transport_gap(audit: iv.Audit) -> None:
    bare = without(audit, "transport_gap")
    assert transport(bare) is None
    assert in_short(bare) == ""


def test_sure_pairs_come_first_then_larger_gaps_and_refused_last() -> None:
    audit = with_gaps(of("abc"), [[0, 0.03, -0.09], [NAN, 0, 0.05], [-0.2, 0.01, 0]])
    order = [(pair.moved, pair.borrowed) for pair in found(audit).ranked]
    assert order == [("c", "a"), ("a", "c"), ("b", "c"), ("a", "b"), ("c", "b"), ("b", "a")]


def test_the_level_is_the_callers(audit: iv.Audit) -> None:
    assert sum(pair.sure for pair in found(audit).ranked) == 5
    assert sum(pair.sure for pair in found(with_alpha(audit, 0.004)).ranked) == 0
    assert sum(pair.sure for pair in found(with_alpha(audit, 0.5)).ranked) == 8  # all but those that are refused


# --- shades ---------------------------------------------------------------------------------------------------------
def test_shades_diverge_from_zero_and_noise_stays_pale() -> None:
    gaps = [[0, 0.9, 0.5, 0.2, 0.05], [-0.9, 0, -0.5, -0.2, NAN], *([[0.0] * 5] * 3)]
    audit = with_gaps(of("abcde"), gaps)
    steps = found(audit).shades
    np.testing.assert_array_equal(steps[:2], [[3, 6, 5, 4, 3], [0, 3, 1, 2, -1]])
    np.testing.assert_array_equal(steps[2:], 3)
    noise = found(with_gaps(audit, gaps, half=2.0)).shades
    np.testing.assert_array_equal(noise[:2], [[3, 4, 4, 4, 3], [2, 3, 2, 2, -1]])


def test_shades_of_overlap_change_where_its_words_do(audit: iv.Audit) -> None:
    overlap = audit["transport_gap"].overlap
    share = np.array([[1, 0.049, 0.051, 0.29], [0.31, 1, 0.54, 0.56], [0.79, 0.81, 1, 0.0], [0.3, 0.05, 0.99, 1]])
    sizes = np.array([303, 294, 123, 200])
    changed = dataclasses.replace(overlap, effective=share, effective_rows=share * sizes)
    cover = overlaps(with_gaps(audit, np.zeros((4, 4)), overlap=changed))
    np.testing.assert_array_equal(cover.shades, [[4, 0, 1, 1], [2, 4, 2, 3], [3, 4, 4, 0], [2, 1, 4, 4]])


# --- words ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("task", "gaps", "half", "expected"),
    [
        ("binary", [[0, -0.12], [0.02, 0]], 0.04,
         'If the relation of "b" held in "a", mean disease would be 12 points lower '
         "(95 %: 8–16)"),
        ("binary", [[0, 0.02], [0.12, 0]], 0.04,
         'If the relation of "a" held in "b", mean disease would be 12 points higher '
         "(95 %: 8–16)"),
        ("regression", [[0, -1234.4], [20, 0]], 100.2,
         'If the relation of "b" held in "a", mean disease would be 1,234 lower '
         "(95 %: 1,134–1,335)"),
        ("regression", [[0, 0.0321], [0, 0]], 0.01,
         'If the relation of "b" held in "a", mean disease would be 0.032 higher '
         "(95 %: 0.022–0.042)"),
        ("binary", [[0, 0.02], [-0.031, 0]], 0.04, "No environment's relation would move another's mean disease by "
         "more than 7.1 points (95 %)"),
        ("regression", [[0, 3], [NAN, 0]], 10, "No environment's relation would move another's mean disease by "
         "more than 13 (95 %), where they overlap"),
        ("binary", [[0, NAN], [NAN, 0]], 1,
         '"a" and "b" hardly overlap: neither\'s relation can be tried on the other'),
    ],
)  # fmt: skip
def test_finding(task: str, gaps: list[list[float]], half: float, expected: str) -> None:
    audit = with_gaps(of("ab", task), gaps, half)
    assert found(audit).finding == expected


def test_finding_where_all_are_refused(audit: iv.Audit) -> None:
    gaps = found(with_gaps(audit, np.full((4, 4), NAN)))
    assert gaps.finding == "The environments hardly overlap: no one's relation can be tried on another"
    assert gaps.tally == ""
    assert [gaps.unit.text(pair.gap) for pair in gaps.ranked] == ["–"] * 12


def test_finding_where_most_are_refused() -> None:
    gaps = np.full((3, 3), NAN)
    gaps[0, 1] = 0.01
    found_there = found(with_gaps(of("abc"), gaps))
    expected = "Only 1 of 6 pairs can be compared; there, mean disease would move by no more than 5.0 points (95 %)"
    assert found_there.finding == expected
    assert found_there.tally == ""
    gaps[0, 1] = 0.1
    sure = found(with_gaps(of("abc"), gaps))
    assert sure.finding.startswith('If the relation of "b" held in "a", mean disease would be 10 points higher')
    assert sure.tally == "5 of 6 pairs cannot be compared"


def test_an_interval_that_crosses_zero_keeps_its_signs() -> None:
    """The simultaneous test and the single interval need not agree at the border."""
    audit = with_gaps(of(), [[0, -0.12], [0, 0]], half=0.13, pair_pvalues=np.full((2, 2), 0.04))
    assert found(audit).finding.endswith("mean disease would be 12 points lower (95 %: −1 … 25)")


def test_years_are_told_in_quotes() -> None:
    audit = with_gaps(audited((2010, 2011), criteria=("transport_gap",)), [[0, 0.12], [0, 0]])
    assert found(audit).finding.startswith('If the relation of "2011" held in "2010", mean disease')


@pytest.mark.parametrize(
    ("label", "subject"), [(1, "mean disease"), (True, "mean disease"), ("sick", 'the share of "sick" in disease')]
)
def test_two_classes_are_told_by_the_one_that_moves(label: Any, subject: str) -> None:
    audit = with_gaps(of(), [[0, 0.12], [0.01, 0]])
    audit = dataclasses.replace(audit, data=dataclasses.replace(audit.data, classes=("healthy", label)))
    gaps = found(audit)
    assert not gaps.several
    assert gaps.heading == f"How far {subject} would move, in percentage points"
    assert f", {subject} would be 12 points higher" in gaps.finding
    calm = found(with_gaps(audit, [[0, 0.01], [0.02, 0]]))
    assert f"another's {subject.removeprefix('the ')} by more than 6.0 points" in calm.finding


def test_of_several_classes_the_one_that_moves_most_is_named() -> None:
    moving = ((None, "setosa"), ("virginica", None))
    audit = with_gaps(of("ab", "multiclass"), [[0, 0.12], [-0.3, 0]], moving_class=moving)
    gaps = found(audit)
    assert gaps.several
    assert gaps.heading == "How far the class of disease that moves most would move, in percentage points"
    assert gaps.finding.startswith(
        'If the relation of "a" held in "b", the share of "virginica" in disease would be 30 points lower'
    )
    assert gaps.description(gaps.ranked[1]).startswith("a with the relation of b: setosa +12 points")
    calm = found(with_gaps(audit, [[0, 0.01], [0.02, 0]]))
    assert "another's share of any class of disease by more than 6.0 points" in calm.finding


@pytest.mark.parametrize(
    ("largest", "value", "expected"),
    [
        (0.9, 0.9, "+0.90"), (0.9, -0.04, "−0.04"), (0.9, 0.001, "0"), (12.0, 3.2, "+3"), (3.2e4, 12.0, "+12"),
        (3.2e4, -3.2e4, "−32,000"), (4e-7, 4e-7, "+4.0 × 10⁻⁷"), (0.9, NAN, "–"),
    ],
)  # fmt: skip
def test_gaps_in_the_users_units(largest: float, value: float, expected: str) -> None:
    audit = with_gaps(of("ab", "regression"), [[0, largest], [0, 0]], half=0.1 * largest)
    gaps = found(audit)
    assert gaps.heading == "How far mean disease would move, in units of disease"
    assert gaps.unit.text(value) == expected


def test_no_more_digits_than_the_intervals_bear() -> None:
    gaps = found(with_gaps(of(), [[0, -0.0089], [0.0, 0]], half=0.24))
    assert gaps.unit.text(gaps.ranked[0].gap) == "−1"
    assert gaps.finding.endswith("by more than 25 points (95 %)")


def test_long_names_that_begin_alike_are_told_apart() -> None:
    names = tuple(f"the university hospital of the {side} bank of it" for side in ("left", "right"))
    gaps = found(with_gaps(audited(names, criteria=("transport_gap",)), [[0, 0.12], [0, 0]]))
    assert gaps.finding.startswith('If the relation of "the…right bank of it" held in "the…left bank of it", mean ')


def test_overlap_in_words(audit: iv.Audit) -> None:
    cover = overlaps(audit)
    assert cover.finding == "Of 12 pairs, 4 hardly and 4 only weakly overlap"
    assert cover.calibration == (
        "The estimated chance that a row belongs to an environment is off by 3 % on average, most for Switzerland "
        "(6 %)."
    )
    overlap = audit["transport_gap"].overlap
    good = dataclasses.replace(overlap, pair_verdicts=(("good",) * 4,) * 4)
    assert overlaps(with_gaps(audit, np.zeros((4, 4)), overlap=good)).finding == "All pairs overlap well"


def test_a_cell_says_all_its_numbers(audit: iv.Audit) -> None:
    gaps = found(audit)
    assert gaps.draws == 999
    assert [gaps.description(gaps.ranked[place]) for place in (0, 5, -1)] == [
        "Cleveland with the relation of VA Long Beach: −18 points (95 %: −22 … −14), p = 0.004",
        "Hungary with the relation of Cleveland: +6 points (95 %: +2 … +10), p = 0.30",
        "VA Long Beach with the relation of Cleveland: not compared, none overlap, 12 of 303 rows effective",
    ]
    # no smaller than 999 draws can show
    assert gaps.chance(dataclasses.replace(gaps.ranked[0], pvalue=0.001)) == "p ≤ 0.001"


def test_every_pair_is_a_row_of_the_table(audit: iv.Audit) -> None:
    section = markup(audit, html.figure)
    _, *rows = re.findall(r"<tr>.*?</tr>", section.partition('<table class="gap-list">')[2])
    cells = [re.sub("<[^>]+>", "|", row.replace("><", "")).strip("|").split("|") for row in rows]
    assert len(rows) == 12
    assert cells[1] == ["Cleveland", "Switzerland", "−12*", "−16 … −8", "0.004", "31 of 123, weak", "100 %", "0.97",
                        "8 %", "1.3 %"]  # fmt: skip
    assert cells[5][:6] == ["Hungary", "Cleveland", "+6", "+2 … +10", "0.30", "245 of 303, good"]
    assert cells[-1][:6] == ["VA Long Beach", "Cleveland", "–", "–", "–", "12 of 303, none"]
