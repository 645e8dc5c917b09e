"""The noise behind the intervals of the regret, exactly: with unit vectors in place of random draws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from invariscope.criteria.regret.inference import Draws, _quantile, draw_excess, score_test
from invariscope.criteria.regret.regret import _estimates
from invariscope.criteria.regret.shared_head import SharedHead, fit_shared_head
from invariscope.datasets.synthetic.nulls import null_shifted
from invariscope.rows.environments import Environments
from invariscope.rows.targets import target_of
from tests.reference import regret as reference

SIZES, COLUMNS = (40, 160, 80), 2


def world(task: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Environments that differ in rows, in noise and in the relation, so that no part of the noise is negligible."""
    rng = np.random.default_rng(seed)
    data = null_shifted(n=SIZES, d=COLUMNS, environments=3, seed=seed)
    slope, noise = np.array([1.5, -1.0, 0.5])[data.env], np.array([2.0, 1.0, 0.3])[data.env]
    score = slope * data.X[:, 0] + noise * rng.standard_normal(len(data.env))
    return data.X, score if task == "regression" else (score + rng.logistic(size=len(score)) > 0).astype(int), data.env


def fit_of(X: np.ndarray, y: np.ndarray, env: np.ndarray) -> SharedHead:
    data = Environments(X, y, env)
    return fit_shared_head(data, target_of(data))


class UnitDraws:
    """In place of a generator: draw k is 1 in the k-th of all normal variables of a draw and 0 in the others.

    What is linear in the variables then has the covariance drawsᵀ draws, and the mean of a quadratic form is the sum
    over draws, both exactly. χ² draws are ``stretch`` (for all, or by environment) times their degrees of freedom,
    which are kept.
    """

    def __init__(self, fit: SharedHead, stretch: ArrayLike = 1.0) -> None:
        environments, size = fit.gradient.shape
        self.count = 2 * environments * (size + 1)
        self.place, self.stretch, self.freedom = 0, np.asarray(stretch), np.empty(0)

    def standard_normal(self, shape: tuple[int, ...]) -> np.ndarray:
        wide = int(np.prod(shape[1:]))
        unit = np.eye(self.count)[:, self.place : self.place + wide]
        self.place += wide
        return unit.reshape(shape)

    def chisquare(self, freedom: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        self.freedom = freedom
        return np.broadcast_to(self.stretch * freedom, shape)


def drawn(fit: SharedHead, stretch: ArrayLike = 1.0) -> tuple[Draws, UnitDraws]:
    rng = UnitDraws(fit, stretch)
    draws, _ = draw_excess(fit, rng.count, rng)  # type: ignore[arg-type]
    assert rng.place == rng.count  # every variable of a draw had its turn
    return draws, rng


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_linear_noise_equals_the_delta_method(task: str, seed: int) -> None:
    """Of the shared head, of both losses, and of the weights that own losses give environments in the shared head."""
    X, y, env = world(task, seed)
    draws, _ = drawn(fit_of(X, y, env))
    expected = reference.linear_noise(X, y, env, classes=0 if task == "regression" else 2)
    scale = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        draws.linear.T @ draws.linear / np.outer(scale, scale), expected / np.outer(scale, scale), atol=1e-5
    )


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_quadratic_noise_has_the_mean_that_is_taken_off_the_excess(task: str, seed: int) -> None:
    X, y, env = world(task, seed)
    fit = fit_of(X, y, env)
    found = reference.regret(X, y, env, classes=0 if task == "regression" else 2)
    raw = drawn(fit)[0].quadratic + fit.noise_excess
    expected = [0.5 * np.trace(h @ c) / n for h, c, n in zip(found.midway, found.differences, SIZES, strict=True)]
    np.testing.assert_allclose(raw.sum(axis=0), expected, rtol=1e-5)


def test_quadratic_noise_is_divided_by_an_estimated_noise_level(seed: int) -> None:
    """F, not χ²: a noise level estimated twice too high halves the noise; it has as many rows as are left to spare."""
    fit = fit_of(*world("regression", seed))
    once, rng = drawn(fit)
    twice, _ = drawn(fit, stretch=2.0)
    raw, halved = once.quadratic + fit.noise_excess, twice.quadratic + fit.noise_excess
    np.testing.assert_allclose(halved, raw / 2, rtol=1e-9, atol=1e-12 * raw.max())
    np.testing.assert_array_equal(rng.freedom, np.array(SIZES) - (COLUMNS + 1))


def with_noise(fit: SharedHead, times: np.ndarray) -> SharedHead:
    """The same fit, with gradients whose covariance is so many times as large in every environment."""
    mean = np.einsum("ep,eq,e->epq", fit.gradient, fit.gradient, 1 / fit.rows)
    return replace(fit, outer=times[:, None, None] * (fit.outer - mean) + mean)


def test_noise_that_is_larger_than_it_looks_reaches_the_others_through_the_shared_head(seed: int) -> None:
    """The excess of each holds the noise of all: of an environment of few rows, whose noise level is badly known, too.

    Multiplied by the factor of the environment that bears it, small environments among large ones of the same law would
    be rejected in 24 % of cases.
    """
    fit, stretch = fit_of(*world("regression", seed)), np.array([0.25, 1.0, 0.5])
    raw = drawn(fit, stretch)[0].quadratic + fit.noise_excess
    np.testing.assert_allclose(raw.sum(axis=0), with_noise(fit, 1 / stretch).noise_excess, rtol=1e-9)
    rng = UnitDraws(fit, stretch)
    count = rng.count = int(np.prod(fit.gradient.shape))
    # Σ_e tr J_e⁻¹ Σ_k R_ek J_k R_ekᵀ / stretch_k,  R_ek = 1{e = k} − a_k H_e H⁻¹
    noise, mean = fit.own_share[:, None, None] * fit.outer, 0.0
    for e in range(3):
        for k in range(3):
            response = (e == k) * np.eye(COLUMNS + 1) - fit.weights[k] * fit.shared.hessian[e] @ fit.inverse
            mean += np.trace(np.linalg.solve(noise[e], response @ noise[k] @ response.T)) / stretch[k]
    assert score_test(fit, count, rng)[1].sum() == pytest.approx(mean, rel=1e-9)  # type: ignore[arg-type]


def test_quantiles_leave_their_share_of_further_draws_beyond_them() -> None:
    values = np.random.default_rng(0).permutation(np.arange(999.0))
    assert _quantile(values, 0.975) == pytest.approx(974.0)  # 25 of 1,000 places lie behind the 975th of 999 draws
    assert _quantile(values, 0.995) == pytest.approx(994.0)
    assert _quantile(values, 0.025) == pytest.approx(24.0)


def test_a_tail_without_draws_goes_on_as_its_last_ones_do() -> None:
    values = np.random.default_rng(0).permutation(np.arange(1000.0))
    # the last 20 (2 %) exceed 979 by 10.5 on average; 1.001 draws would lie beyond
    assert _quantile(values, 0.999) == pytest.approx(979 + 10.5 * np.log(20 / 1.001), rel=1e-9)
    assert _quantile(values, 0.9999) > _quantile(values, 0.999) > 999 > _quantile(values, 0.995)
    law = -np.log(1 - (np.arange(10_000) + 0.5) / 10_000)  # exponential, whose tail goes on like that
    assert _quantile(law, 1 - 1e-5) == pytest.approx(-np.log(1e-5), rel=0.01)
    few = np.arange(5.0)
    assert np.isfinite(_quantile(few, 0.99))


@pytest.mark.parametrize("count", [5999, 399])
def test_the_lower_end_of_the_largest_regret_allows_for_the_search(count: int) -> None:
    """With a shift as the only noise an end is the excess less a quantile of the noise, at 2.5 % by three."""
    X, y, env = world("regression", 0)
    value, risk = np.array([0.5, 0.45, 0.1]), np.array([2.0, 1.0, 4.0])
    noise = np.linspace(-1.0, 1.0, count)[:, None] * [0.8, 0.2, 0.1]
    draws = Draws(np.zeros_like(noise), noise)
    estimates, worst, (low, high) = _estimates(
        Environments(X, y, np.array(["a", "b", "c"])[env]), value, value * risk, risk, draws, np.ones(3)
    )
    assert worst == "a"
    for e, label in enumerate("abc"):
        highest = value[e] - np.quantile(noise[:, e], 0.025, method="weibull") / risk[e]  # which needs no adjustment
        assert estimates[label].interval[1] == pytest.approx(highest, abs=1e-9)
    beyond, step = (count + 1) * 0.025 / 3, 2 / (count - 1)
    end = 1 - (beyond - 1) * step  # so many draws from the last, which are evenly spaced; or, with fewer than 5 there,
    if beyond < 5:
        end = 1 - 8 * step + 4.5 * step * np.log(8 / beyond)  # as an exponential law behind the last 8, which are 2 %
    lower = value - end * np.array([0.8, 0.2, 0.1]) / risk
    assert int(np.argmax(lower)) == 1  # not that of the largest regret, which is less certain
    assert low == pytest.approx(lower[1], abs=1e-9)
    highest = 0.5 + np.quantile(noise[:, 0], 0.975, method="weibull") / 2
    assert high == estimates["a"].interval[1] == pytest.approx(highest, abs=1e-9)
