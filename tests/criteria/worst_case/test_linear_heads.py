"""Squared error with several outputs: the secular equation against a search over multipliers, hard case included."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from invariscope.criteria.worst_case.linear_heads import squared


def searched(residuals: np.ndarray, W: np.ndarray, radius: float) -> float:
    """min over γ of γρ² + mean of r'(I − WWᵀ/γ)⁻¹r, by a search over log(γ/λ_max − 1)."""
    product = W @ W.T
    largest = np.linalg.eigvalsh(product)[-1]

    def upper(x: float) -> float:
        gamma = largest * (1 + np.exp(x))
        solved = np.linalg.solve(np.eye(len(W)) - product / gamma, residuals.T)
        return gamma * radius**2 + np.mean(np.sum(residuals.T * solved, axis=0))

    return float(minimize_scalar(upper, bounds=(-18, 25), options={"xatol": 1e-9}).fun)


def curve(residuals: np.ndarray, W: np.ndarray, radii: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    return squared(residuals, W, radii, weight, 0, np.random.default_rng(0)).loss


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_curve_is_what_a_search_finds(outputs: int, seed: int) -> None:
    rng = np.random.default_rng([seed, outputs])
    residuals, W = rng.normal(size=(30, outputs)), rng.normal(size=(outputs, 5))
    radii = np.array([0.01, 0.3, 2.0, 50.0])
    np.testing.assert_allclose(curve(residuals, W, radii), [searched(residuals, W, r) for r in radii], rtol=1e-7)


def test_residuals_off_the_steepest_direction_are_the_hard_case() -> None:
    """W = diag(2, 1), residuals along the second output: beyond its reach the rest goes along the first."""
    residuals, W = np.array([[0.0, 3.0]]), np.diag([2.0, 1.0])
    # along output 2: γ = 1 + 3/ρ ≥ 4 up to ρ = 1, then γ = 4: 4ρ² + 9 · 4/3
    radii = np.array([0.0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(curve(residuals, W, radii), [9, 3.5**2, 16, 28], rtol=1e-9)


def test_perfect_fits_and_constant_heads() -> None:
    radii = np.array([0.0, 2.0])
    np.testing.assert_allclose(curve(np.zeros((3, 2)), np.diag([2.0, 1.0]), radii), [0, 16])
    np.testing.assert_allclose(curve(np.ones((3, 2)), np.zeros((2, 4)), radii), [2, 2])
    np.testing.assert_allclose(curve(np.ones((3, 1)), np.zeros((1, 4)), radii), [1, 1])


def test_equal_eigenvalues_are_one(seed: int) -> None:
    """W = cI: every residual grows along itself, (√R + cρ)²."""
    residuals = np.random.default_rng(seed).normal(size=(20, 3))
    root = np.sqrt(np.mean(np.sum(residuals**2, axis=1)))
    radii = np.array([0.1, 1.0, 10.0])
    np.testing.assert_allclose(curve(residuals, 0.7 * np.eye(3), radii), (root + 0.7 * radii) ** 2, rtol=1e-10)


def test_the_band_holds_the_curve_and_weights_repeat(seed: int) -> None:
    rng = np.random.default_rng(seed)
    residuals, W, weight = rng.normal(size=(50, 2)), rng.normal(size=(2, 3)), rng.integers(0, 4, 50).astype(float)
    radii = np.array([0.0, 1.0])
    repeated = curve(np.repeat(residuals, weight.astype(int), axis=0), W, radii)
    np.testing.assert_allclose(curve(residuals, W, radii, weight), repeated, rtol=1e-10)
    found = squared(residuals, W, radii, weight, 199, rng)
    assert np.all((found.band[0] < found.loss) & (found.loss < found.band[1]))
