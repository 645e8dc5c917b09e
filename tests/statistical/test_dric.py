"""DRIC as a statistic: its shuffle test under exchangeability, what its interval covers, and how its terms vanish."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from invariscope.criteria.dric.dric import dric
from invariscope.datasets.synthetic.linear_sem import linear_sem
from tests.statistical.bands import band


def test_p_values_are_uniform_when_environments_are_exchangeable(seed: int) -> None:
    """Basis and ridge are chosen on the true labels and kept for the shuffles, so the test is exact but for that."""
    rng, runs, shuffles = np.random.default_rng(seed), 70, 19
    env = np.repeat([0, 1, 2], [40, 50, 60])
    pvalues = []
    for run in range(runs):
        X = rng.normal(size=(150, 2))
        found = dric(X[:, 0] + 0.5 * X[:, 1] ** 2, X, env, baseline=X[:, 0], n_boot=shuffles, seed=run)
        pvalues.append(found.pvalue)
    rate = np.mean(np.array(pvalues) <= 0.1)
    assert abs(rate - 0.1) <= band(0.1, runs)
    # multiples of 1/20: spread evenly below each, they are uniform; exceeded by chance once in 10,000 times
    smooth = np.array(pvalues) - rng.uniform(0, 1 / (1 + shuffles), runs)
    assert kstest(smooth, "uniform").statistic < 2.23 / np.sqrt(runs)


def test_environments_that_lie_apart_are_found(seed: int) -> None:
    """The p-value is about inputs, whatever the target does: no ratio bridges three spreads with 150 rows."""
    rng = np.random.default_rng(seed)
    env = np.repeat([0, 1], 150)
    for run in range(8):
        X = rng.normal(size=(300, 1)) + 3.0 * env[:, None]
        found = dric(X[:, 0], X, env, baseline=X[:, 0], overlap="ignored", n_boot=39, seed=run)
        assert found.pvalue == 1 / 40


def test_with_the_true_ratio_the_numerator_vanishes_like_one_over_n(seed: int) -> None:
    """For a predictor on spurious columns and for the invariant one alike; mean over runs, 40 times the rows."""
    mean = np.array([0.0, 0.7])
    rng = np.random.default_rng(seed)

    def truth(x: np.ndarray) -> np.ndarray:
        return x[:, [0]] * mean - mean**2 / 2

    def average(n: int, column: int) -> float:
        env = np.repeat([0, 1], n)
        found = []
        for _ in range(200):
            x = rng.normal(size=(2 * n, 2)) + np.outer(mean[env], [1.0, 0.0])
            f = np.column_stack([x[:, 0], x[:, 0] * x[:, 1] + x[:, 1]])[:, column]
            found.append(dric(f, x, env, baseline=f, ratio=truth, n_boot=0).numerator)
        return float(np.mean(found))

    for column in (0, 1):
        # heavy upper tails: a factor of 40, measured to within about a fifth
        assert 20 < average(50, column) / average(2000, column) < 80


def test_the_interval_holds_the_value_of_another_sample(seed: int) -> None:
    """It says how far the number moves: another sample's Q̂ lies inside in most cases, far more often than not."""
    inside, runs = 0, 16
    for run in range(runs):
        one, other = (
            linear_sem("FEU", n=200, dim=2, environments=(1.0, 1.5), seed=seed + 1000 * run + k) for k in (1, 2)
        )
        found, again = (
            dric(data.X[:, :2].sum(axis=1), data.X, data.env, baseline=data.X.sum(axis=1), n_boot=draws)
            for data, draws in ((one, 39), (other, 0))
        )
        inside += found.interval[0] <= again.value <= found.interval[1]
    # two samples differ by √2 standard errors: about 83 % for a normal statistic; 75 % is asked for
    assert inside >= 0.75 * runs - 3.5 * np.sqrt(runs * 0.75 * 0.25)


# --- eq. 4 and differences of two models ------------------------------------------------------------------------------
CENTRE, SLOPE = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([1.0, -1.0])


def relations(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y = x1 + s_e x2 + noise, x normal around its environment's centre: E[y | x1] = x1 + ½ in both environments."""
    X = np.repeat(CENTRE, n, axis=0) + rng.normal(size=(2 * n, 2))
    y = X[:, 0] + np.repeat(SLOPE, n) * X[:, 1] + 0.5 * rng.normal(size=2 * n)
    return X, y, np.repeat(["a", "b"], n)


def true_ratio(columns: list[int]) -> object:
    centre = CENTRE[:, columns]
    return lambda x: x @ centre.T - 0.5 * np.sum(centre**2, axis=1)


def test_own_means_have_the_population_value_of_eq_4(seed: int) -> None:
    """Numerators are 0, 4 and 2 for φ(x) = x1, x2 and x, so Q = 0 and 2; those of eq. 6 are 0 for all."""
    X, y, env = relations(np.random.default_rng(seed), 40_000)
    for columns, numerator in (([0], 0.0), ([1], 4.0), ([0, 1], 2.0)):
        ratios = true_ratio(columns), true_ratio([0, 1])
        given = {"representation": X[:, columns], "ratio": ratios, "n_boot": 0}
        own = dric(X[:, 0], X, env, baseline=None, y=y, terms="own_means", **given)
        # q has a standard error of about √(e² · 3 / n) = 0.025; gaps of up to 2 are squared
        assert abs(own.numerator - numerator) < 5 * 0.025 * (2 * 2 * (numerator > 0) + 0.1)
        f = X[:, columns] @ np.ones(len(columns))
        published = dric(f, X, env, baseline=f + 1.0, **given)
        assert published.numerator < 0.02
    assert own.value == pytest.approx(1.0, rel=1e-9)


def coverage(runs: int, n: int, seed: int, draws: int) -> float:
    """How often the interval of log10 Q̂_1 − log10 Q̂_2 for φ = x2 and φ = x, truly log10 2, holds it."""
    inside = 0
    for run in range(runs):
        X, y, env = relations(np.random.default_rng([seed, run]), n)
        given = {"baseline": None, "y": y, "terms": "own_means", "n_boot": draws, "seed": run}
        one = dric(X[:, 1], X, env, representation=X[:, [1]], ratio=(true_ratio([1]), true_ratio([0, 1])), **given)
        other = dric(X[:, 1], X, env, representation=X, ratio=(true_ratio([0, 1]),) * 2, **given)
        low, high = one.difference(other).log10_interval
        inside += low <= np.log10(2.0) <= high
    return inside / runs


def test_paired_intervals_of_two_models_cover_their_difference(seed: int) -> None:
    """39 draws give an interval of 1.1 % less than 95 %; a band of 3.5 standard errors below."""
    assert coverage(12, 200, seed, 39) >= 0.93 - band(0.93, 12)


@pytest.mark.calibration
def test_paired_intervals_of_two_models_cover_their_difference_in_many_samples(seed: int) -> None:
    assert abs(coverage(150, 300, seed, 99) - 0.945) <= band(0.945, 150)
