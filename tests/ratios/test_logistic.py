"""Density ratios by classification: the algebra of ratios, closed forms, and awkward columns."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from invariscope.environments import Environments
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import overlap_of, ratios_within
from invariscope.ratios.logistic import fit_logistic


def gaussians(means: np.ndarray, covariance: np.ndarray, sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(means)), sizes)
    return rng.multivariate_normal(np.zeros(len(covariance)), covariance, len(code)) + means[code], code


MEANS = np.array([[0.0, 0.0, 0.0], [0.6, -0.4, 0.2], [-0.3, 0.5, 0.4]])
COVARIANCE = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]])


def true_log_ratio(X: np.ndarray, a: int, b: int) -> np.ndarray:
    """log N(x; μ_a, Σ) − log N(x; μ_b, Σ) = (μ_a − μ_b)ᵀ Σ⁻¹ (x − (μ_a + μ_b) / 2)."""
    direction = np.linalg.solve(COVARIANCE, MEANS[a] - MEANS[b])
    return (X - (MEANS[a] + MEANS[b]) / 2) @ direction


@pytest.mark.parametrize("sizes", [[50_000, 50_000], [70_000, 30_000], [40_000, 50_000, 60_000]])
def test_shifted_gaussians_have_the_log_ratio_of_the_closed_form(sizes: list[int], seed: int) -> None:
    X, code = gaussians(MEANS[: len(sizes)], COVARIANCE, sizes, seed)
    fitted = fit_logistic(Environments(X, None, code))
    grid = X[:: len(X) // 500]
    for a, b in itertools.permutations(range(len(sizes)), 2):
        wrong = fitted.log(grid, a, b) - true_log_ratio(grid, a, b)
        assert np.sqrt(np.mean(wrong**2)) < 0.05
        slope = (fitted.weight[a] - fitted.weight[b]) - np.linalg.solve(COVARIANCE, MEANS[a] - MEANS[b])
        assert np.abs(slope).max() < 0.06
    overlap = overlap_of(Environments(X, None, code), fitted.log_densities(X))
    np.testing.assert_allclose(overlap.mean_ratio, 1.0, atol=0.03)  # a density ratio has mean 1 under its denominator


def test_effective_rows_are_those_of_the_closed_form(seed: int) -> None:
    """(E ρ)² / E ρ² = exp(−δᵀ Σ⁻¹ δ) for Gaussians a shift δ apart."""
    X, code = gaussians(MEANS[:2], COVARIANCE, [50_000, 50_000], seed)
    data = Environments(X, None, code)
    overlap = overlap_of(data, fit_logistic(data).log_densities(data.X))
    shift = MEANS[1] - MEANS[0]
    expected = np.exp(-shift @ np.linalg.solve(COVARIANCE, shift))
    np.testing.assert_allclose(overlap.effective[[0, 1], [1, 0]], expected, atol=0.06)
    np.testing.assert_array_equal(np.diag(overlap.effective), 1.0)


@pytest.mark.parametrize("environments", [2, 3, 8])
def test_ratios_compose(environments: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(environments), 80)
    X = rng.normal(size=(len(code), 2)) + 0.3 * code[:, None]
    labels = np.array([f"site {k}" for k in code])
    fitted = fit_logistic(Environments(X, None, labels))
    assert fitted.labels == tuple(sorted(set(labels)))
    for a, b, c in itertools.product(fitted.labels, repeat=3):
        np.testing.assert_allclose(
            fitted.log(X, a, b) + fitted.log(X, b, c), fitted.log(X, a, c), rtol=1e-9, atol=1e-10
        )
        np.testing.assert_array_equal(fitted.log(X, a, a), 0.0)
    scores = fitted.log_densities(X)
    inside = ratios_within(scores, 1)
    np.testing.assert_array_equal(inside[:, 1], 1.0)
    np.testing.assert_allclose(np.log(inside[:, 0]), fitted.log(X, fitted.labels[0], fitted.labels[1]), atol=1e-12)


def test_sizes_are_corrected_for(seed: int) -> None:
    """The same law in a small and a large environment: the ratio is 1, not the ratio of the sizes."""
    rng = np.random.default_rng(seed)
    X, code = rng.normal(size=(22_000, 2)), np.repeat([0, 1], [2000, 20_000])
    fitted = fit_logistic(Environments(X, None, code))
    assert np.abs(fitted.log(X[:100], 0, 1)).max() < 0.5
    assert abs(fitted.log(np.zeros((1, 2)), 0, 1)[0]) < 0.02


def test_an_unknown_environment_is_named(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(40, 2))
    fitted = fit_logistic(Environments(X, None, np.repeat(["Bern", "Oslo"], 20)))
    with pytest.raises(InputError, match='no environment "Rome": there are Bern, Oslo'):
        fitted.log(X, "Bern", "Rome")


@pytest.mark.parametrize("environments", [2, 3, 5])
def test_constant_and_duplicated_columns_do_no_harm(environments: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(environments), 100)
    x = rng.normal(size=(len(code), 1)) + 0.5 * code[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = fit_logistic(Environments(x, None, code))
        padded = np.hstack([x, np.full_like(x, 7.0)])
        constant = fit_logistic(Environments(padded, None, code))
        nothing = fit_logistic(Environments(np.full((len(code), 2), 0.1), None, code))
        twice = fit_logistic(Environments(np.hstack([x, x]), None, code))
    np.testing.assert_allclose(constant.log(padded, 1, 0), plain.log(x, 1, 0), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(nothing.log(np.full((3, 2), 0.1), 0, 1), 0.0, atol=1e-6)
    np.testing.assert_allclose(twice.log(np.hstack([x, x]), 1, 0), plain.log(x, 1, 0), atol=0.1)  # a milder ridge


@pytest.mark.parametrize(("factor", "shift"), [(1e9, 0.0), (1e-9, 0.0), (1.0, 1e6), (1e12, 1e15)])
def test_units_do_not_matter(factor: float, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 200)
    X = rng.normal(size=(600, 2)) + 0.5 * code[:, None]
    moved = X * factor + shift
    expected = fit_logistic(Environments(X, None, code)).log(X, 0, 2)
    found = fit_logistic(Environments(moved, None, code)).log(moved, 0, 2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_separated_environments_stay_finite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, 2)) + 1000.0 * code[:, None]
    data = Environments(X, None, code)
    fitted = fit_logistic(data)
    assert np.isfinite(fitted.weight).all()
    assert np.isfinite(overlap_of(data, fitted.log_densities(X)).effective).all()


def test_many_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(60), 50)
    X = rng.normal(size=(3000, 2)) + 0.03 * code[:, None]
    fitted = fit_logistic(Environments(X, None, code))
    assert fitted.weight.shape == (60, 2)
    assert np.corrcoef(fitted.weight.sum(axis=1), np.arange(60))[0, 1] > 0.9
