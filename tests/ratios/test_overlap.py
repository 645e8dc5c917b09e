"""Overlap diagnostics: against loops, closed forms, and the words for them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from invariscope.ratios.overlap import BINS, CAP, _verdict, overlap_of, ratios_within, remarks
from invariscope.rows.environments import Environments
from tests.reference import ratios as reference


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loops(weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat([0, 1, 2], [20, 35, 50]))
    weight = rng.integers(1, 4, len(code)).astype(float) if weighted else None
    data = Environments(rng.normal(size=(len(code), 2)), None, code, weight)
    scores = 2.0 * rng.normal(size=(len(code), 3))
    found = overlap_of(data, scores)
    counts = np.ones(len(code)) if data.weight is None else data.weight
    given = (scores.tolist(), data.codes.tolist(), counts.tolist(), 3)
    for name, expected in reference.overlap(*given, CAP).items():
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(found.effective_rows, found.effective * data.rows, rtol=1e-12)
    np.testing.assert_allclose(found.calibration, reference.calibration(*given, BINS), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_an_environments_overlap_with_all_others_equals_the_loops(weighted: bool, seed: int) -> None:
    """Environments of unequal size, some of whose rows are out of reach of the others, unequally many of each."""
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], [20, 35, 80])
    weight = rng.integers(1, 4, len(code)).astype(float) if weighted else None
    scores = rng.normal(size=(len(code), 3))
    scores[code == 1, 0] -= 8.0 * (rng.uniform(size=35) < 0.3)
    scores[code == 2, 0] -= 8.0 * (rng.uniform(size=80) < 0.8)
    data = Environments(np.zeros((len(code), 1)), None, code, weight)
    found = overlap_of(data, scores)
    assert found.reached[2, 0] < found.reached[1, 0] < 1
    counts = np.ones(len(code)) if weight is None else weight
    expected = reference.overlap_with_others(scores.tolist(), code.tolist(), counts.tolist(), 3)
    np.testing.assert_allclose(found.pooled, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("share", "rows", "reached", "verdict"),
    [
        (0.3, 100, 1.0, "good"),
        (0.299, 100, 1.0, "weak"),
        (1.0, 20, 1.0, "good"),  # twenty effective rows are enough, and not one less
        (1.0, 19, 1.0, "weak"),
        (1.0, 100, 0.98, "good"),
        (1.0, 100, 0.979, "weak"),
        (1.0, 100, 0.9, "weak"),
        (1.0, 100, 0.899, "none"),
        (0.05, 100, 1.0, "weak"),
        (0.049, 100, 1.0, "none"),
        (0.04, 12_500, 1.0, "weak"),  # plenty, 500 effective rows, whatever their share
        (0.04, 12_499, 1.0, "none"),
        (0.25, 12, 1.0, "weak"),
        (0.25, 11, 1.0, "none"),  # below three effective rows
    ],
)
def test_thresholds_belong_to_the_better_side(share: float, rows: int, reached: float, verdict: str) -> None:
    assert _verdict(share, rows, reached) == verdict


def test_closed_form_of_a_shift(seed: int) -> None:
    """(E ρ)² / E ρ² = exp(−δ²) for unit Gaussians a shift δ apart, with the true ratio; verdicts follow it."""
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1], 40_000)
    for shift, verdict in ((0.5, "good"), (1.3, "weak"), (4.0, "none")):
        x = rng.normal(size=80_000) + shift * code
        scores = np.column_stack([-0.5 * x**2, -0.5 * (x - shift) ** 2])
        found = overlap_of(Environments(x[:, None], None, code), scores)
        if shift < 1:
            np.testing.assert_allclose(found.effective[[0, 1], [1, 0]], np.exp(-(shift**2)), atol=0.03)
            np.testing.assert_allclose(found.mean_ratio, 1.0, atol=0.03)
        np.testing.assert_allclose(np.diag(found.effective), 1.0)
        assert found.pair_verdicts[0][1] == found.pair_verdicts[1][0] == verdict
        assert found.verdicts == (verdict, verdict)
        assert np.all(found.calibration < 0.01)  # the true ratio is calibrated


def test_rows_without_like_are_no_overlap_however_many_others_have_one(seed: int) -> None:
    """40 % of a lie where b has no rows: the others cannot speak for them."""
    rng = np.random.default_rng(seed)
    far = rng.uniform(size=1000) < 0.4
    x = np.concatenate([np.where(far, 6 + 0.5 * rng.normal(size=1000), rng.normal(size=1000)), rng.normal(size=1000)])
    near, away = np.exp(-0.5 * x**2), 2 * np.exp(-2 * (x - 6) ** 2)
    scores = np.column_stack([np.log(0.6 * near + 0.4 * away), np.log(near)])
    found = overlap_of(Environments(x[:, None], None, np.repeat(["a", "b"], 1000)), scores)
    assert found.reached[0, 1] == pytest.approx(0.6, abs=0.06)
    assert found.pair_verdicts[0][1] == "none"  # b standing in for a
    assert found.pair_verdicts[1][0] == "good"  # a standing in for b: all of b is covered


def test_plenty_of_effective_rows_are_weak_overlap_whatever_their_share() -> None:
    x = np.concatenate([np.linspace(0, 0.04, 1000), np.linspace(0, 1, 50_000)])
    scores = np.column_stack([np.where(x <= 0.04, np.log(25.0), -np.inf), np.zeros(len(x))])
    found = overlap_of(Environments(x[:, None], None, np.repeat(["a", "b"], [1000, 50_000])), scores)
    assert found.effective[0, 1] == pytest.approx(0.04, abs=0.001)
    assert found.pair_verdicts[0][1] == "weak"


def test_a_handful_of_rows_is_no_good_overlap() -> None:
    data = Environments(np.zeros((53, 1)), None, np.repeat(["few", "many"], [3, 50]))
    found = overlap_of(data, np.zeros((53, 2)))
    assert found.pair_verdicts == (("weak", "good"), ("weak", "good"))


def test_a_row_that_carries_all_the_weight_is_seen() -> None:
    scores = np.zeros((200, 2))
    scores[0, 1] = 10.0
    found = overlap_of(Environments(np.zeros((200, 1)), None, np.repeat(["a", "b"], 100)), scores)
    heavy = np.exp(10.0)
    assert found.largest[1, 0] == pytest.approx(heavy / (heavy + 99))
    assert found.beyond_cap[1, 0] == 0.01
    assert found.beyond_cap[0, 1] == 0.0
    assert found.pair_verdicts[1][0] == "none"


def test_a_ratio_turned_round_is_not_calibrated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1], 2000)
    x = rng.normal(size=4000) + code
    scores = np.column_stack([-0.5 * x**2, -0.5 * (x - 1) ** 2])
    data = Environments(x[:, None], None, code)
    assert np.all(overlap_of(data, scores).calibration < 0.04)
    assert np.all(overlap_of(data, scores[:, ::-1]).calibration > 0.2)


def test_densities_that_are_known_to_be_zero() -> None:
    data = Environments(np.zeros((4, 1)), None, ["a", "a", "b", "b"])
    found = overlap_of(data, np.array([[0.0, -np.inf], [0.0, -np.inf], [-np.inf, 0.0], [-np.inf, 0.0]]))
    assert found.verdicts == ("none", "none")
    np.testing.assert_array_equal(found.mean_ratio, np.eye(2))
    np.testing.assert_array_equal(found.calibration, 0.0)


def test_huge_ratios_do_not_overflow() -> None:
    data = Environments(np.zeros((4, 1)), None, ["a", "a", "b", "b"])
    scores = np.array([[0.0, 1e5], [0.0, -1e5], [1e5, 0.0], [-1e5, 0.0]])
    found = overlap_of(data, scores)
    assert np.isfinite(found.effective).all()
    assert np.isfinite(ratios_within(scores[:2], 0)).all()


def test_an_environments_own_verdict_is_against_all_others_together(seed: int) -> None:
    """Of three, one is compared with the mixture of the other two, each by its rows, as if they were one."""
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], [400, 300, 100])
    x = rng.normal(size=800) + np.array([0.0, -0.7, 1.3])[code]
    logs = np.column_stack([-0.5 * (x - mean) ** 2 for mean in (0.0, -0.7, 1.3)])
    three = overlap_of(Environments(x[:, None], None, code), logs)
    mixture = np.log(0.75 * np.exp(logs[:, 1]) + 0.25 * np.exp(logs[:, 2]))
    together = overlap_of(Environments(x[:, None], None, np.minimum(code, 1)), np.column_stack([logs[:, 0], mixture]))
    within_reach = three.reached[1:, 0] @ [0.75, 0.25]
    assert three.pooled[0] == pytest.approx(together.effective[1, 0] / together.reached[1, 0] * within_reach)
    assert three.verdicts[0] == "good"
    assert three.pair_verdicts[2][0] == "weak"  # its rows hardly stand in for those of the third


def test_covering_half_of_the_others_is_weak_and_none_of_them_is_none() -> None:
    logs = np.repeat([[0.0, 0.0, -300.0], [0.0, 0.0, -300.0], [-300.0, -300.0, 0.0]], 200, axis=0)
    overlap = overlap_of(Environments(np.arange(600.0)[:, None], None, np.repeat([0, 1, 2], 200)), logs)
    assert overlap.verdicts == ("weak", "weak", "none")
    np.testing.assert_allclose(overlap.pooled, [0.25, 0.25, 0.0], atol=1e-12)  # half of the ratio, half within reach


def test_remarks_name_who_stands_in_for_whom() -> None:
    labels = tuple("abc")
    data = Environments(np.zeros((6, 1)), None, np.repeat(labels, 2))
    fine = overlap_of(data, np.zeros((6, 3)))
    even = (("good",) * 3,) * 3
    usable = dataclasses.replace(fine, calibration=np.array([0.1, 0.0, 0.1]), pair_verdicts=even, verdicts=even[0])
    assert remarks(usable) == ()  # a tenth is not too much

    one = dataclasses.replace(usable, pair_verdicts=(("good", "none", "weak"), *even[1:]))
    standing_in = "Hardly any overlap where rows of one environment stand in for another: "
    assert remarks(one) == (standing_in + "b for a.",)
    row = ("none",) * 3
    assert remarks(dataclasses.replace(one, pair_verdicts=(row, row, even[0]))) == (
        standing_in + "a for a, b for a, c for a, a for b, b for b, c for b.",
    )
    seven = dataclasses.replace(one, pair_verdicts=(row, row, ("good", "none", "good")))
    assert remarks(seven) == (standing_in + "a for a, b for a, c for a, a for b, b for b, c for b and 1 more.",)

    # an environment apart from all others is named once, not with every pair
    apart = dataclasses.replace(seven, verdicts=("good", "none", "weak"), calibration=np.array([0.11, 0.0, 0.304]))
    assert remarks(apart) == (
        "Hardly any overlap of b with the others: ratios there are noise.",
        "The predicted share of a and c is off by up to 30 % on average: the estimator does not suit these "
        "rows; try another.",
    )
