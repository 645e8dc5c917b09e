from __future__ import annotations

import dataclasses

import numpy as np

import invariscope as iv
from invariscope.report.parts.disagreement import Pair, disagreement
from tests.report.audits import replaced, without

VALUES = np.array([[9.0, 0.1, 0.2, 0.0], [0.3, 9.0, 0.5, 0.1], [0.9, 0.1, 9.0, np.nan], [0.0, 0.0, 65.08, 9.0]])
#: Of the rows of the column's environment, how many look like those of the row's: (VA, Switzerland) and back have none.
APART = [["good", "none"][{a, b} == {2, 3}] for a in range(4) for b in range(4)]


def overlapping(audit: iv.Audit, verdicts: list[str]) -> iv.Audit:
    overlap = dataclasses.replace(
        audit["transport_gap"].overlap, pair_verdicts=tuple(tuple(verdicts[4 * k : 4 * k + 4]) for k in range(4))
    )
    return replaced(audit, "transport_gap", overlap=overlap)


def test_extreme_pairs_are_the_largest_off_the_diagonal(audit: iv.Audit) -> None:
    values = np.where(VALUES == 65.08, 0.0, VALUES)
    numbers = disagreement(replaced(without(audit, "dric", "transport_gap"), "regret", pairs=values))
    assert numbers is not None
    assert numbers.extreme[0] == Pair("Switzerland", "Cleveland", 0.9)
    assert numbers.extreme[1] == Pair("Hungary", "Switzerland", 0.5)
    assert len(numbers.extreme) == 11  # twelve pairs, one without a number
    assert numbers.finding == "Worst match: Switzerland with the head of Cleveland, +90 % loss"
    assert not numbers.apart.any()


def test_pairs_without_common_rows_are_no_headline(audit: iv.Audit) -> None:
    """VA with the head of Switzerland would lose 6,508 % more: where Switzerland has no rows, its head only guesses."""
    audit = replaced(audit, "regret", pairs=VALUES)
    headline = disagreement(without(audit, "dric", "transport_gap"))
    assert headline is not None
    assert headline.finding == "Worst match: VA Long Beach with the head of Switzerland, over 1,000 % more loss"
    numbers = disagreement(overlapping(audit, APART))
    assert numbers is not None
    assert numbers.finding == "Worst match: Switzerland with the head of Cleveland, +90 % loss"
    assert len(numbers.extreme) == 10
    assert np.argwhere(numbers.apart).tolist() == [[3, 2]]  # the other way round there is no number anyway


def test_overlap_follows_labels_not_places(audit: iv.Audit) -> None:
    order = [2, 0, 3, 1]
    overlap = overlapping(audit, APART)["transport_gap"].overlap
    turned = dataclasses.replace(
        overlap,
        labels=tuple(overlap.labels[k] for k in order),
        pair_verdicts=tuple(tuple(overlap.pair_verdicts[a][b] for b in order) for a in order),
    )
    numbers = disagreement(replaced(replaced(audit, "transport_gap", overlap=turned), "regret", pairs=VALUES))
    assert numbers is not None
    assert np.argwhere(numbers.apart).tolist() == [[3, 2]]


def test_few_pairs_that_can_be_compared_are_counted(audit: iv.Audit) -> None:
    verdicts = ["none"] * 16
    verdicts[4 * 2] = verdicts[4 * 1] = "weak"  # Switzerland and Hungary with the head of Cleveland
    few = overlapping(audit, verdicts)
    numbers = disagreement(replaced(few, "regret", pairs=VALUES))
    assert numbers is not None
    assert numbers.finding == (
        "Only 2 of 12 pairs can be compared; worst match: Switzerland with the head of Cleveland, +90 % loss"
    )
    numbers = disagreement(replaced(few, "regret", pairs=np.full((4, 4), 0.01)))
    assert numbers is not None
    assert numbers.finding == (
        "Only 2 of 12 pairs can be compared; there, none would lose more than 2 % with the head of another"
    )


def test_where_no_two_have_common_rows_that_is_the_finding(audit: iv.Audit) -> None:
    numbers = disagreement(replaced(overlapping(audit, ["none"] * 16), "regret", pairs=VALUES))
    assert numbers is not None
    assert numbers.finding == "No two environments have rows in common on which their heads could be compared"
    assert numbers.extreme == ()


def test_pairs_under_the_margin(audit: iv.Audit) -> None:
    numbers = disagreement(replaced(audit, "regret", pairs=np.full((4, 4), 0.01)))
    assert numbers is not None
    assert numbers.finding == "No environment would lose more than 2 % with the head of another"


def test_chance_alone(audit: iv.Audit) -> None:
    numbers = disagreement(replaced(audit, "regret", pvalue=0.31))
    assert numbers is not None
    assert numbers.finding == "Differences between heads are within what chance makes (p = 0.31)"


def test_nothing_without_numbers(audit: iv.Audit) -> None:
    assert disagreement(replaced(audit, "regret", pairs=np.full((4, 4), np.nan))) is None
    assert disagreement(without(audit, "regret")) is None
