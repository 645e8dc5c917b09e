"""Normal laws by environment: densities by loops, exactness for Gaussians, few rows, dependent columns."""

from __future__ import annotations

import numpy as np

import invariscope as iv
from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.gaussian import FLOOR, SMALLEST, fit_gaussian
from tests.reference import ratios as reference


def test_densities_are_those_of_shrunk_moments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, d = [12, 30], 3
    weight = rng.uniform(0.5, 2.0, sum(sizes))
    rows = GroupedRows(rng.normal(size=(sum(sizes), d)), np.array([0, 12, 42]), weight)
    fit = fit_gaussian(rows, rng)
    means, scatters = [], []
    for part in (slice(0, 12), slice(12, 42)):
        mean = np.average(rows.X[part], axis=0, weights=weight[part])
        means.append(mean)
        scatters.append(sum(w * np.outer(x - mean, x - mean) for x, w in zip(rows.X[part], weight[part], strict=True)))
    pooled = sum(scatters) / weight.sum()
    pooled = pooled + np.diag(FLOOR * np.diag(pooled) + SMALLEST)
    totals = [weight[:12].sum(), weight[12:].sum()]
    covariances = [(s + 4 * pooled) / (t + 4) for s, t in zip(scatters, totals, strict=True)]
    expected = [
        [reference.log_normal(x, m, c) for m, c in zip(means, covariances, strict=True)] for x in rows.X.tolist()
    ]
    found = fit.log_densities(rows.X)
    np.testing.assert_allclose(found[:, 0] - found[:, 1], np.diff(expected)[:, 0] * -1, rtol=1e-8, atol=1e-8)


def test_exact_for_normal_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(20_000, 3)), 0.2 + np.sqrt(1.5) * rng.normal(size=(20_000, 3))])
    truth = 0.5 * np.sum((X - 0.2) ** 2 / 1.5 - X**2 + np.log(1.5), axis=1)
    found = iv.density_ratio(X, np.repeat(["p", "q"], 20_000), ratio="gaussian").log(X, "p", "q")
    assert np.abs(found - truth).mean() < 0.05
    assert np.abs(truth).mean() > 0.4


def test_an_environment_smaller_than_its_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, code = rng.normal(size=(205, 10)), np.repeat([0, 1], [5, 200])
    assert np.isfinite(iv.density_ratio(X, code, ratio="gaussian").at_rows).all()


def test_columns_that_depend_on_each_other(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(200, 1))
    code = np.repeat([0, 1], 100)
    twice = iv.density_ratio(np.hstack([x, 2 * x + 1]), code, ratio="gaussian")
    once = iv.density_ratio(x, code, ratio="gaussian")
    np.testing.assert_allclose(twice.log(np.hstack([x, 2 * x + 1]), 0, 1), once.log(x, 0, 1), atol=0.05)
