"""Sums over rows that the influence index and its shuffles are made of."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.influence.row_derivatives import LinearRows, group_means, row_covariance
from invariscope.heads.losses import LogisticLoss
from invariscope.rows.environments import Environments


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("slopes", [False, True])
def test_mean_and_covariance_of_a_row_are_numpys(slopes: bool, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y, env = rng.normal(size=(15, 2)), np.arange(15) % 2, np.repeat([0, 1, 2], [3, 5, 7])
    weight = rng.integers(1, 4, 15) if weighted else np.ones(15, dtype=int)
    rows = LinearRows(Environments(Z, y, env, weight.astype(float)), LogisticLoss(), y.astype(float))
    theta = np.array([0.3, -1.0, 0.5])
    lines = np.concatenate([part for _, part in rows.joint(theta)])
    repeated = np.repeat(lines, weight, axis=0)
    mean, covariance = row_covariance(rows, theta, slopes=slopes)
    wide = 6 if slopes else 3
    np.testing.assert_allclose(mean, repeated[:, :wide].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(covariance, np.cov(repeated[:, :wide].T), rtol=1e-10, atol=1e-15)
    means = group_means(rows, theta, env, 3)
    of_group = [repeated[np.repeat(env, weight) == k].mean(axis=0) for k in range(3)]
    found = np.column_stack([means.gradient, means.slope_gradient, means.loss, means.slope])
    np.testing.assert_allclose(found, of_group, rtol=1e-12)
