"""Kernel mean matching: solved by hand, against the distance it minimises, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.kernels import Bumps, Sample
from invariscope.ratios.kmm import JITTER, _mean_matching, fit_kmm
from invariscope.ratios.least_squares import KernelMoments, solve_quadratic
from tests.reference import kernel_ratios as reference


def test_two_points_by_hand() -> None:
    """One environment at 0, the reference at 0 and far away: weight 2 at 0 and none far away match the means."""
    own, other = np.zeros((1, 1)), np.array([[0.0], [1000.0]])
    samples = (Sample(own, np.ones(1)), Sample(other, np.ones(2)))
    found = solve_quadratic(*samples, Bumps(own, 1.0), 0.0, alpha=0.0, equations=_mean_matching)
    np.testing.assert_allclose(found, [2.0], rtol=1e-9)


def test_the_quadratic_form_is_the_distance_of_kernel_means(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other, centres = rng.normal(size=(40, 2)), 1.5 * rng.normal(size=(50, 2)), rng.normal(size=(5, 2))
    k, there = reference.features(own, centres, 0.7), reference.features(other, centres, 0.7)
    moments = KernelMoments(k.mean(axis=0), reference.mean_outer(there))
    quadratic, linear = _mean_matching(moments, Bumps(centres, 0.7))
    kernel = reference.features(centres, centres, 0.7) + JITTER * np.eye(5)
    nothing = reference.squared_distance_of_means(k, there, np.zeros(5), kernel)
    for a in rng.random((4, 5)):
        expected = reference.squared_distance_of_means(k, there, a, kernel) - nothing
        assert a @ quadratic @ a - 2.0 * linear @ a == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("d", "band"), [(1, 0.09), (5, 0.25)])
def test_normal_laws(d: int, band: float, seed: int) -> None:
    """P = N(0, I), Q = N(0.2, 1.5 I), 3,000 rows each."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(3000, d)), 0.2 + np.sqrt(1.5) * rng.normal(size=(3000, d))])
    scores = fit_kmm(GroupedRows(X, np.array([0, 3000, 6000])), rng).log_densities(X)
    truth = -0.5 * (X**2).sum(axis=1) + ((X - 0.2) ** 2).sum(axis=1) / 3.0 + 0.5 * d * np.log(1.5)
    assert np.abs(scores[:, 0] - scores[:, 1] - truth).mean() < band
    weights = np.exp(scores[3000:, 0] - scores[3000:, 1])
    assert weights.mean() == pytest.approx(1.0, abs=0.05)  # the original's condition; the reference is Q
