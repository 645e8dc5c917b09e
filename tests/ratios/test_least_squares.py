"""uLSIF, RuLSIF and kernel mean matching: solved by hand, by loops, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.kernels import Bumps, Sample, absolute
from invariscope.ratios.least_squares import (
    JITTER,
    KernelMoments,
    _least_squares,
    _mean_matching,
    _minimum,
    fit_kmm,
    fit_rulsif,
    fit_ulsif,
    solve_quadratic,
)
from tests.reference import kernel_ratios as reference


def solved(own: np.ndarray, other: np.ndarray, bumps: Bumps, penalty: float, alpha: float) -> np.ndarray:
    samples = (Sample(own, np.ones(len(own))), Sample(other, np.ones(len(other))))
    return solve_quadratic(*samples, bumps, penalty, alpha=alpha, equations=_least_squares)


def test_the_score_is_half_the_squared_error_up_to_a_constant() -> None:
    """r is 1 and 3 on two rows of the reference, where the ratio is 2 and 0: ½ mean (r − ratio)² = 2.5, less ½ · 2."""
    at_rows, truth = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, 0.0])
    moments = KernelMoments(own=at_rows.T @ truth / 2, gram=at_rows.T @ at_rows / 2)
    assert moments.score(np.array([1.0, 3.0])) == 1.5
    mixed = KernelMoments.mixed({"k": truth, "kk": 4 * np.eye(2)}, {"kk": 2 * np.eye(2)}, 0.25)
    assert mixed.gram.tolist() == [[2.5, 0.0], [0.0, 2.5]]  # a quarter of the environment's own, three of the reference


def test_two_points_by_hand() -> None:
    """One environment at 0, the reference at 0 and far away: p/q is 1 / ½ = 2 at 0 and nothing elsewhere."""
    own, other = np.zeros((1, 1)), np.array([[0.0], [1000.0]])
    bumps = Bumps(np.zeros((1, 1)), 1.0)
    np.testing.assert_allclose(solved(own, other, bumps, 0.0, 0.0), [2.0], rtol=1e-12)
    relative = solved(own, other, bumps, 0.0, 0.1)
    np.testing.assert_allclose(relative, [1.0 / (0.1 + 0.9 * 0.5)], rtol=1e-12)
    np.testing.assert_allclose(absolute(relative, 0.1), 2.0, rtol=1e-12)


def test_penalty_by_hand() -> None:
    """One bump, H = 1, h = 1: the ridge λ makes the ratio 1 / (1 + λ), and a mean of 1 makes it 1 again."""
    point = np.zeros((1, 1))
    np.testing.assert_allclose(_minimum(np.ones((1, 1)), np.ones(1), 0.25), [0.8], rtol=1e-12)
    np.testing.assert_allclose(solved(point, point, Bumps(point, 1.0), 0.25, 0.0), [1.0], rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("penalty", [1e-3, 1e-1])
def test_against_loops(alpha: float, penalty: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other, centres = rng.normal(size=(80, 2)), 1.5 * rng.normal(size=(90, 2)), rng.normal(size=(6, 2))
    own_features, other_features = (reference.features(X, centres, 0.9) for X in (own, other))
    expected = reference.least_squares(own_features, other_features, penalty, alpha)
    expected /= (alpha * own_features.mean(axis=0) + (1 - alpha) * other_features.mean(axis=0)) @ expected
    np.testing.assert_allclose(solved(own, other, Bumps(centres, 0.9), penalty, alpha), expected, atol=1e-7)


@pytest.mark.parametrize("fit", [fit_ulsif, fit_rulsif])
@pytest.mark.parametrize(("d", "band"), [(1, 0.09), (5, 0.25)])
def test_normal_laws(fit: object, d: int, band: float, seed: int) -> None:
    """P = N(0, I), Q = N(0.2, 1.5 I), 3,000 rows each: published errors with 10,000 are 0.49 and 1.45 (RuLSIF)."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(3000, d)), 0.2 + np.sqrt(1.5) * rng.normal(size=(3000, d))])
    scores = fit(GroupedRows(X, np.array([0, 3000, 6000])), rng).log_densities(X)  # type: ignore[operator]
    truth = -0.5 * (X**2).sum(axis=1) + ((X - 0.2) ** 2).sum(axis=1) / 3.0 + 0.5 * d * np.log(1.5)
    assert np.abs(scores[:, 0] - scores[:, 1] - truth).mean() < band


# --- kernel mean matching: solved by hand, against the distance it minimises, and against the truth ---------------
def test_mean_matching_of_two_points_by_hand() -> None:
    """One environment at 0, the reference at 0 and far away: weight 2 at 0 and none far away match the means."""
    own, other = np.zeros((1, 1)), np.array([[0.0], [1000.0]])
    samples = (Sample(own, np.ones(1)), Sample(other, np.ones(2)))
    found = solve_quadratic(*samples, Bumps(own, 1.0), 0.0, alpha=0.0, equations=_mean_matching)
    np.testing.assert_allclose(found, [2.0], rtol=1e-9)


def test_the_quadratic_form_of_mean_matching_is_the_distance_of_kernel_means(seed: int) -> None:
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
def test_mean_matching_of_normal_laws(d: int, band: float, seed: int) -> None:
    """P = N(0, I), Q = N(0.2, 1.5 I), 3,000 rows each."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(3000, d)), 0.2 + np.sqrt(1.5) * rng.normal(size=(3000, d))])
    scores = fit_kmm(GroupedRows(X, np.array([0, 3000, 6000])), rng).log_densities(X)
    truth = -0.5 * (X**2).sum(axis=1) + ((X - 0.2) ** 2).sum(axis=1) / 3.0 + 0.5 * d * np.log(1.5)
    assert np.abs(scores[:, 0] - scores[:, 1] - truth).mean() < band
    weights = np.exp(scores[3000:, 0] - scores[3000:, 1])
    assert weights.mean() == pytest.approx(1.0, abs=0.05)  # the original's condition; the reference is Q
