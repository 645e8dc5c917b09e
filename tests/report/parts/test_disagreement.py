from __future__ import annotations

import numpy as np

import invariscope as iv
from invariscope.report.parts.disagreement import Pair, disagreement
from tests.report.audits import replaced, without


def test_extreme_pairs_are_the_largest_off_the_diagonal(audit: iv.Audit) -> None:
    values = np.array([[9.0, 0.1, 0.2, 0.0], [0.3, 9.0, 0.5, 0.1], [0.9, 0.1, 9.0, np.nan], [0.0, 0.0, 0.0, 9.0]])
    numbers = disagreement(replaced(audit, "regret", pairs=values))
    assert numbers is not None
    assert numbers.extreme[0] == Pair("Switzerland", "Cleveland", 0.9)
    assert numbers.extreme[1] == Pair("Hungary", "Switzerland", 0.5)
    assert len(numbers.extreme) == 11  # twelve pairs, one without a number
    assert numbers.finding == "Worst match: Switzerland with the head of Cleveland, +90 % loss"


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
