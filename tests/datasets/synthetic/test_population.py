"""Least squares with infinitely many rows: by hand, in closed form, and against explicit normal equations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invariscope.datasets.synthetic.bayesian_network import two_domain_example
from invariscope.datasets.synthetic.population import Population, linear_truth
from tests.reference import structural


def two_domains(sigma: tuple[float, float], spread: tuple[float, float], rows: tuple[int, int]) -> Population:
    """Moments of (x1, x2, y), written out from x1 ~ N(0, spread²), y = x1 + N(0, 1), x2 = y + N(0, σ²)."""
    covariances = [[[d, d, d], [d, d + 1 + s, d + 1], [d, d + 1, d + 1]] for s, d in zip(np.square(sigma), np.square(spread), strict=True)]  # fmt: skip  # noqa: E501
    return Population.of(np.array(covariances), rows=rows)


def random_moments(environments: int, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((environments, width, width))
    return roots @ np.swapaxes(roots, 1, 2), rng.standard_normal((environments, width))


@pytest.mark.parametrize("rows", [(10, 10), (30, 10)])
@pytest.mark.parametrize(("sigma", "spread"), [((0.7, 1.9), (1.0, 1.5)), ((3.0, 1.0), (2.0, 0.5))])
def test_closed_form_of_the_two_domains(sigma, spread, rows):
    law = two_domains(sigma, spread, rows)
    truth = two_domain_example(sigma=sigma, spread=spread, n=rows).truth
    np.testing.assert_allclose(law.least_squares()[:, 0], [*truth["beta"], 0.0], rtol=1e-12, atol=1e-14)
    assert law.influence_index() == pytest.approx(truth["V"], rel=1e-11)


def test_no_pull_is_minus_infinity():
    assert two_domains((1.3, 1.3), (1.0, 2.0), (10, 10)).influence_index() == -math.inf


def test_two_slopes_by_hand():
    """y = x + noise and y = 2x + noise, Var x = 1 and 4, noise 1: the shared slope is (1 + 8)/(1 + 4)."""
    law = Population.of(np.array([[[1.0, 1.0], [1.0, 2.0]], [[4.0, 8.0], [8.0, 17.0]]]))
    np.testing.assert_allclose(law.least_squares(), [[1.8], [0.0]], atol=1e-14)
    np.testing.assert_allclose(law.risks(law.least_squares()), [1 + 0.8**2, 1 + 4 * 0.2**2], rtol=1e-13)
    np.testing.assert_allclose(law.regrets(), [0.64, 0.16], rtol=1e-12)
    # gradients at 1.8 are ∓2·0.8, H = 2·2.5, so IF_e = ∓0.32
    np.testing.assert_allclose(law.influences(), [[-0.32, 0.0], [0.32, 0.0]], atol=1e-14)
    assert law.influence_index() == pytest.approx(math.log(0.32**2), rel=1e-12)


def test_levels_by_hand():
    """A column that explains nothing and two levels 0 and 2: own risk 1, shared level 1, regret 1."""
    law = Population.of(np.broadcast_to(np.eye(2), (2, 2, 2)), np.array([[0.0, 0.0], [0.0, 2.0]]))
    np.testing.assert_allclose(law.own_heads()[:, :, 0], [[0.0, 0.0], [0.0, 2.0]], atol=1e-14)
    np.testing.assert_allclose(law.regrets(), [1.0, 1.0], rtol=1e-12)
    uneven = Population.of(np.broadcast_to(np.eye(2), (2, 2, 2)), np.array([[0.0, 0.0], [0.0, 2.0]]), rows=[3, 1])
    assert uneven.least_squares()[1, 0] == pytest.approx(0.5)
    np.testing.assert_allclose(uneven.regrets(), [1.0, 1.0], rtol=1e-12)  # the regret does not weigh by rows


@pytest.mark.parametrize("rows", [[5, 5, 5], [1, 2, 7]])
def test_equals_explicit_normal_equations(rows, seed):
    covariances, means = random_moments(3, 5, seed)
    centred = Population.of(covariances, rows=rows)
    assert centred.influence_index() == pytest.approx(structural.influence_index(list(covariances), rows), abs=1e-9)
    law = Population.of(covariances, means, rows=rows)
    weights = np.random.default_rng([seed, 1]).standard_normal(4)
    expected = structural.regret_of_prediction(weights, list(covariances), list(means))
    np.testing.assert_allclose(law.mapped(weights[:, None]).regrets(), expected, rtol=1e-8, atol=1e-10)


def test_a_map_that_loses_nothing_changes_no_risk(seed):
    covariances, means = random_moments(3, 5, seed)
    law = Population.of(covariances, means)
    mixed = law.mapped(np.random.default_rng([seed, 2]).standard_normal((4, 4)))
    np.testing.assert_allclose(mixed.regrets(), law.regrets(), rtol=1e-6)
    np.testing.assert_allclose(law.selected([3, 0, 1, 2]).regrets(), law.regrets(), rtol=1e-9)
    np.testing.assert_allclose(law.selected([1]).moments[:, 0, 0], covariances[:, 1, 1] + means[:, 1] ** 2, rtol=1e-12)


def test_a_column_of_zeros_is_no_obstacle(seed):
    covariances, means = random_moments(2, 3, seed)
    law = Population.of(covariances, means)
    np.testing.assert_allclose(law.mapped(np.eye(2) * [1.0, 0.0]).regrets(), law.selected([0]).regrets(), rtol=1e-9)


def test_several_targets_are_those_one_by_one(seed):
    covariances, means = random_moments(3, 6, seed)
    both = Population.of(covariances, means, targets=2)
    for k in range(2):
        kept = [0, 1, 2, 3, 4 + k]
        one = Population.of(covariances[:, kept][:, :, kept], means[:, kept])
        np.testing.assert_allclose(both.least_squares()[:, k], one.least_squares()[:, 0], rtol=1e-9)
        np.testing.assert_allclose(both.influences()[:, k::2], one.influences(), rtol=1e-7, atol=1e-9)
    risks = sum(
        Population.of(covariances[:, kept][:, :, kept], means[:, kept]).risks(both.least_squares()[:, k : k + 1])
        for k, kept in enumerate(([0, 1, 2, 3, 4], [0, 1, 2, 3, 5]))
    )
    np.testing.assert_allclose(both.risks(both.least_squares()), risks, rtol=1e-9)


def test_truths_carry_labels_and_shapes(seed):
    covariances, means = random_moments(3, 6, seed)
    for targets, shape in ((1, (5,)), (2, (4, 2))):
        law = Population.of(covariances, means, targets=targets)
        truth = linear_truth(law, law.selected([0]), ("a", "b", "c"))
        assert truth["erm"].shape == shape
        assert list(truth["erm_risk"]) == list(truth["erm_regret"]) == list(truth["invariant_risk"]) == ["a", "b", "c"]
        # the pooled head has the smallest mean risk there is, so no head on fewer columns does better
        assert sum(truth["erm_risk"].values()) < sum(truth["invariant_risk"].values())
