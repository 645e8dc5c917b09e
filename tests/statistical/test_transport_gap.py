"""Coverage, size, power, double robustness and bias of the transport gap, over simulations with a known truth.

Limits are the requirements (coverage 92–97 %, size at most 7 %) plus a band of 3.5 Monte-Carlo standard errors.
The tables of the documentation come from ``transport_gap_grid`` beside this file.
"""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.transport.transport_gap import transport_gap
from tests.statistical.bands import band
from tests.statistical.coverage_grid import World
from tests.statistical.transport_gap_grid import NORMAL_SHIFT, SHIFT, quadratic_world, simulate, true_gaps


# --- coverage, size and the index -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("task", "rows"), [("regression", (200,) * 3), ("binary", (300,) * 2), ("regression", (100, 300, 900))]
)
def test_under_invariance(task, rows, seed):
    """Laws of z, and noise, differ between environments; E[Y | z] does not."""
    runs = 60
    found = simulate(World(task, rows, 3, shift=SHIFT), runs, np.random.default_rng(seed), n_boot=99)
    # pairs of one data set are hardly independent: their rate is judged as if it were that of one pair
    assert 0.92 - band(0.92, runs) <= found.pooled <= 0.97 + band(0.97, runs)
    assert found.rejected <= 0.07 + band(0.07, runs)
    assert np.nanmax(np.abs(found.standardised_bias)) < 0.2 + 4 / np.sqrt(0.5 * runs)
    # squares of noise add up to something, and the correction takes it away
    error = found.value.std() / np.sqrt(len(found.value))
    assert abs(found.value.mean()) < 4 * error
    assert found.plug_in > 3 * error
    assert found.value_covered >= 0.9 - band(0.9, runs)


@pytest.mark.parametrize(("task", "rows"), [("regression", (300,) * 3), ("binary", (400,) * 2)])
def test_away_from_invariance(task, rows, seed):
    runs = 50
    world = World(task, rows, 3, 1.0, shift=SHIFT)
    found = simulate(world, runs, np.random.default_rng(seed), n_boot=99)
    assert 0.92 - band(0.92, runs) <= found.pooled <= 0.97 + band(0.97, runs)
    if task == "regression":
        assert np.abs(true_gaps(world)).max() > 1.0
        assert found.rejected >= 0.9


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_power_against_another_level_in_one_environment(task, seed):
    rng, rejected = np.random.default_rng(seed), 0
    for _ in range(25):
        env = np.repeat([0, 1, 2], 400)
        Z = rng.normal(size=(1200, 3)) + 0.3 * env[:, None]
        score = Z[:, 0] + 1.0 * (env == 2)
        y = score + rng.normal(size=1200) if task == "regression" else score + rng.logistic(size=1200) > 0
        found = transport_gap(Z, y, env, n_boot=99)
        rejected += found.pvalue <= 0.05
    assert rejected >= 22


# --- double robustness ------------------------------------------------------------------------------------------------
def right(Z):
    """Log densities of the two normal laws."""
    return np.column_stack([-0.5 * Z[:, 0] ** 2, -0.5 * (Z[:, 0] - NORMAL_SHIFT) ** 2])


def wrong(Z):
    return np.zeros((len(Z), 2))


@pytest.mark.parametrize(
    ("curvature", "ratio", "biased"), [(1.0, right, False), (0.0, wrong, False), (1.0, wrong, True)]
)
def test_one_of_ratio_and_outcome_model_must_be_right(curvature, ratio, biased, seed):
    """The outcome model is linear: right without curvature, wrong with it."""
    rng, runs = np.random.default_rng(seed), 80
    truth, draw = quadratic_world(curvature, n=400)
    errors = np.stack([transport_gap(*draw(rng), ratio=ratio, n_boot=99).pairs - truth for _ in range(runs)])
    bias, error = errors.mean(axis=0), errors.std(axis=0) / np.sqrt(runs)
    for a, b in ((0, 1), (1, 0)):
        if biased:
            assert abs(bias[a, b]) > 8 * error[a, b]
        else:
            assert abs(bias[a, b]) < 4 * error[a, b]


# --- values that many rows share --------------------------------------------------------------------------------------
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_size_where_many_rows_are_equal(share, seed):
    """Identical environments, a value that many rows share and that the head treats apart: nothing may be found."""
    rng = np.random.default_rng(seed)
    runs, found, covered = 60, 0, []
    for _ in range(runs):
        v = np.where(rng.uniform(size=900) < share, 0.0, rng.normal(size=900))
        z = np.column_stack([v == 0.0, v]).astype(float)
        y = 1.5 * z[:, 0] + 0.5 * v + rng.normal(size=900)
        result = transport_gap(z, y, np.repeat(np.arange(3), 300), n_boot=199)
        found += result.pvalue <= 0.05
        off = ~np.eye(3, dtype=bool)
        covered.append(np.mean((result.pair_intervals[off, 0] <= 0) & (result.pair_intervals[off, 1] >= 0)))
    assert found / runs < 0.05 + band(0.05, runs)
    assert np.mean(covered) > 0.95 - band(0.95, runs)
