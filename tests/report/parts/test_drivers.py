from __future__ import annotations

import numpy as np
import pytest

import invariscope as iv
from invariscope import wording
from invariscope.auditing.advice import driving_columns
from invariscope.criteria.regret.regret import LEVEL
from invariscope.report.parts.drivers import Drivers, drivers
from tests.report.audits import audited, replaced, with_regrets, without


def found(audit: iv.Audit) -> Drivers:
    numbers = drivers(audit)
    assert numbers is not None
    return numbers


def test_all_environments_together(audit: iv.Audit) -> None:
    names = tuple(f"c{j}" for j in range(15))
    parts = np.zeros((4, 15))
    parts[2] = [0.01] * 12 + [0.4, 0.2, 0.0]  # Switzerland
    parts[3] = [0.08] + [-0.5] * 14  # VA Long Beach; what pulls the other way does not count
    parts[0] = np.nan
    numbers = found(replaced(audit, "regret", drivers=parts, columns=names))
    assert numbers.columns == ("c12", "c13", "c0", *(f"c{j}" for j in range(1, 10)))
    assert numbers.shares == pytest.approx([0.5, 0.25, 0.1125, *[0.0125] * 9])
    assert (numbers.others, numbers.rest) == (3, pytest.approx(0.025))
    assert numbers.finding == "c12, c13 and c0 carry 86 % of the extra loss"
    # Hungary and Cleveland are not surely over the margin
    assert numbers.apart == (("Switzerland", "c12 56 % · c13 28 %"), ("VA Long Beach", "c0 100 %"))


def test_shares_whatever_the_regret(audit: iv.Audit) -> None:
    numbers = found(audit)
    scaled = found(replaced(audit, "regret", drivers=0.38 * audit["regret"].drivers))
    assert scaled.shares == pytest.approx(numbers.shares, rel=1e-12)
    assert sum(scaled.shares) + scaled.rest == pytest.approx(1.0, rel=1e-12)


def test_chart_names_the_columns_that_the_verdict_names(audit: iv.Audit) -> None:
    numbers, named = found(audit), driving_columns(audit["regret"], 3)
    assert named
    assert numbers.columns[: len(named)] == named
    assert numbers.finding.startswith(wording.listed(named) + " carr")


def test_no_column_stands_out(audit: iv.Audit) -> None:
    names = tuple(f"c{j}" for j in range(25))
    numbers = found(replaced(audit, "regret", drivers=np.full((4, 25), 0.01), columns=names))
    assert numbers.finding == "No column stands out: the largest, c0, carries 4 %"


def test_overall_level_is_spoken_of_in_words() -> None:
    audit = with_regrets(audited(), [(0.38, 0.21, 0.6)], pvalue=0.001)
    assert audit["regret"].columns == ("height", "weight", LEVEL)
    numbers = found(replaced(audit, "regret", drivers=np.tile([0.02, 0.03, 0.95], (2, 1))))
    assert numbers.columns == (LEVEL, "weight", "height")
    assert numbers.finding == "The overall level carries 95 % of the extra loss"


def test_nothing_without_a_difference(audit: iv.Audit) -> None:
    small = [(0.01, -0.005, 0.015)] * 4
    assert drivers(with_regrets(audit, small, pvalue=0.4)) is None
    assert drivers(with_regrets(audit, small, pvalue=0.01)) is not None  # small, but surely there
    assert drivers(without(audit, "regret")) is None
