from __future__ import annotations

import math

import numpy as np
import pytest

import invariscope as iv
from invariscope.report.parts.influence import Cloud, cloud
from tests.report.audits import audited, replaced, without


def found(audit: iv.Audit) -> Cloud:
    numbers = cloud(audit)
    assert numbers is not None
    return numbers


def test_cloud_is_the_histogram_of_all_finite_shuffles(audit: iv.Audit, seed: int) -> None:
    shuffled = np.random.default_rng(seed).normal(-3, 0.2, 500)
    null = np.append(shuffled, [-np.inf, np.nan])
    numbers = found(replaced(audit, "influence_index", null=null, pvalue=0.013))
    assert numbers.counts.sum() == numbers.draws == 500
    assert numbers.edges[0] == shuffled.min()
    assert numbers.edges[-1] == shuffled.max()
    assert numbers.bound == f"up to −{abs(np.sort(shuffled)[-25]):.2f} by chance (95 %)"  # p = (1 + 24) / 502 < 0.05
    assert numbers.finding == "The environments pull the head apart more than chance does (p = 0.013)"


def test_finding_without_evidence(audit: iv.Audit) -> None:
    numbers = found(replaced(audit, "influence_index", pvalue=0.31))
    assert numbers.finding == "The environments pull the head apart no more than chance does (p = 0.31)"


def test_pull_names_the_furthest_environment(audit: iv.Audit) -> None:
    size = len(audit["influence_index"].parameters)
    influences = np.zeros((4, size))
    influences[2, 4], influences[0, 4] = -8.0, 1.0
    numbers = found(replaced(audit, "influence_index", influences=influences, direction=np.eye(size)[4]))
    assert numbers.pull == "Switzerland stands furthest out; the pull is mostly on cholesterol."


def test_of_two_environments_neither_stands_furthest_out() -> None:
    numbers = found(replaced(audited(("a", "b"), task="regression"), "influence_index", pvalue=0.01))
    assert numbers.pull.startswith("The pull is mostly on ")


def test_what_chance_makes_as_large_has_no_direction(audit: iv.Audit) -> None:
    assert found(replaced(audit, "influence_index", pvalue=0.05)).pull == ""
    assert found(replaced(audit, "influence_index", pvalue=0.049)).pull != ""


def test_where_another_has_the_largest_regret_that_is_said(audit: iv.Audit) -> None:
    size = len(audit["influence_index"].parameters)
    influences = np.zeros((4, size))
    influences[0, 4] = 8.0
    pulled = replaced(audit, "influence_index", influences=influences, direction=np.eye(size)[4])
    first = "Cleveland stands furthest out; the pull is mostly on cholesterol."
    assert found(pulled).pull == (
        f"{first} Whoever pulls the head furthest need not pay for it: the largest regret is that of Switzerland."
    )
    assert found(without(pulled, "regret")).pull == first


@pytest.mark.parametrize("changes", [{"value": -math.inf}, {"value": math.nan}, {"null": np.array([])}])
def test_no_cloud_without_numbers(audit: iv.Audit, changes: dict[str, object]) -> None:
    assert cloud(replaced(audit, "influence_index", **changes)) is None
    assert cloud(without(audit, "influence_index")) is None
