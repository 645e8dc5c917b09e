"""uLSIF and RuLSIF: solved by hand, by loops, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.kernels import Bumps, Sample, absolute
from invariscope.ratios.least_squares import _least_squares, _minimum, fit_rulsif, fit_ulsif, solve_quadratic
from tests.reference import kernel_ratios as reference


def solved(own: np.ndarray, other: np.ndarray, bumps: Bumps, penalty: float, alpha: float) -> np.ndarray:
    samples = (Sample(own, np.ones(len(own))), Sample(other, np.ones(len(other))))
    return solve_quadratic(*samples, bumps, penalty, alpha=alpha, equations=_least_squares)


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
