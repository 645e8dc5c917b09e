"""Calibration in all environments: pair by pair, by hand, weights, size, memory and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.predictions import multi_environment_calibration as module
from invariscope.criteria.predictions.multi_environment_calibration import multi_environment_calibration
from tests.reference import prediction_criteria as reference


def some_rows(seed, sizes=(40, 60, 30)):
    rng = np.random.default_rng(seed)
    env = np.repeat(["u", "v", "w"], sizes)
    p = np.round(rng.uniform(size=len(env)), 2)  # some are alike
    return p, (rng.uniform(size=len(env)) < p**1.5).astype(int), env


@pytest.mark.parametrize("width", [0.01, 0.1, 0.4, 50.0])
def test_equals_the_sum_over_pairs(width, seed):
    p, y, env = some_rows(seed)
    expected = reference.kernel_calibration_errors(p.tolist(), y.tolist(), env.tolist(), width)
    result = multi_environment_calibration(p, y, env, width=width, n_boot=0)
    for label, error in expected.items():
        assert result.per_environment[label].value == pytest.approx(error, rel=1e-9)
    assert result.value == pytest.approx(sum(expected.values()) / 3, rel=1e-9)
    assert result.worst == max(expected, key=expected.get)


def test_several_classes_are_judged_by_the_most_probable_one(seed):
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.ones(4), size=90), np.repeat(["a", "b"], 45)
    y = rng.permuted(np.tile(np.arange(4), 23)[:90])
    hits = (p.argmax(axis=1) == y).astype(float)
    expected = reference.kernel_calibration_errors(p.max(axis=1).tolist(), hits.tolist(), env.tolist(), 0.4)
    result = multi_environment_calibration(p, y, env, n_boot=0)
    assert [one.value for one in result.per_environment.values()] == pytest.approx(list(expected.values()), rel=1e-9)


def test_by_hand():
    # a: two rows at 0.5, both hits: each pair gives ½ · ½ · 1, so MMCE = 1/2. b: one hit, one miss at 0.5: 0
    result = multi_environment_calibration([0.5] * 4, [1, 1, 1, 0], list("aabb"), n_boot=0)
    assert result.per_environment["a"].value == pytest.approx(0.5, rel=1e-12)
    assert result.per_environment["b"].value == pytest.approx(0.0, abs=1e-9)
    assert (result.value, result.worst, result.unit) == (pytest.approx(0.25, rel=1e-9), "a", "share")
    # two rows at 0 and 1, a hit and a miss: gaps 1 and −1 at distance 1, (2 − 2 exp(−1/0.4)) / 4
    apart = multi_environment_calibration([0.0, 1.0, 0.5, 0.5], [1, 0, 1, 0], list("aabb"), n_boot=0)
    assert apart.per_environment["a"].value == pytest.approx(math.sqrt(2 - 2 * math.exp(-2.5)) / 2, rel=1e-12)
    assert math.isnan(result.pvalue)
    assert len(result.null) == 0


def test_errors_of_opposite_environments_do_not_cancel(seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.3, 0.7, size=4000)
    y = (rng.uniform(size=4000) < p + np.repeat([0.2, -0.2], 2000)).astype(int)
    env = np.repeat(["over", "under"], 2000)
    together = multi_environment_calibration(p, y, np.tile(["first", "second"], 2000))
    apart = multi_environment_calibration(p, y, env)
    assert together.pvalue > 0.01
    assert apart.pvalue == 1 / 1000
    assert apart.interval[0] > 0.1


def test_draws_are_the_same_in_tiles(seed, monkeypatch):
    p, y, env = some_rows(seed)
    whole = multi_environment_calibration(p, y, env, n_boot=99)
    monkeypatch.setattr(module, "TILE", 200)
    parts = multi_environment_calibration(p, y, env, n_boot=99)
    assert parts.value == whole.value
    assert len(parts.null) == 99
    assert np.all(parts.null > 0)
    # tiles draw labels and signs in turn: the same law, other draws
    assert abs(parts.null.mean() - whole.null.mean()) < 0.25 * whole.null.mean()


def test_what_chance_shows_is_told(seed):
    p, y, env = some_rows(seed)
    note = multi_environment_calibration(p, y, env, n_boot=0).notes[-1]
    floor = [np.sqrt(np.sum(p[env == e] * (1 - p[env == e]))) / np.sum(env == e) for e in "uvw"]
    assert note.endswith(f"about u: {floor[0]:.2g}, v: {floor[1]:.2g}, w: {floor[2]:.2g}.")
    result = multi_environment_calibration(p, (np.random.default_rng(seed).uniform(size=len(p)) < p).astype(int), env)
    assert 0.5 * np.mean(floor) < result.null.mean() < np.mean(floor)  # a mean is below the root mean square


def test_hard_labels_miss_for_certain():
    with pytest.warns(UserWarning, match="All predictions are 0 or 1"):
        result = multi_environment_calibration([1.0, 0.0, 1.0, 0.0], [1, 0, 0, 0], list("aabb"), n_boot=99)
    assert result.per_environment["a"].value == 0.0
    assert not np.any(result.null)  # what is stated to be certain happens in every draw
    assert result.pvalue == 0.01


def test_fifty_thousand_rows_in_bounded_memory(seed):
    import tracemalloc

    rng = np.random.default_rng(seed)
    p = rng.uniform(size=50_000)
    y, env = (rng.uniform(size=50_000) < p).astype(int), np.repeat(["a", "b"], 25_000)
    tracemalloc.start()
    result = multi_environment_calibration(p, y, env, n_boot=99)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6
    assert result.value < 0.01


@pytest.mark.parametrize("width", [0.0, 0.001, -1.0, "0.4", None, math.nan])
def test_bad_widths_are_refused(width):
    with pytest.raises(iv.InputError, match=r"width is .*: give a number of at least 0.01"):
        multi_environment_calibration([0.5] * 4, [1, 1, 1, 0], list("aabb"), width=width)


def test_reach_of_rows_that_are_alike_by_hand():
    """Twenty rows of one probability: with random signs their mean is |2 B − 20| / 20 of one of them, B ~ Bin(20, ½).

    P(|2 B − 20| ≤ 6) = 88.5 % and P(|2 B − 20| ≤ 8) = 95.9 %, so the reach is 0.4 of the gap of 0.3.
    """
    result = multi_environment_calibration([0.7] * 40, [1] * 20 + [0, 1] * 10, ["u"] * 20 + ["v"] * 20, n_boot=9999)
    assert result.per_environment["u"].value == pytest.approx(0.3)
    assert result.per_environment["u"].interval == pytest.approx((0.18, 0.42))


@pytest.mark.parametrize("weight", [0.4, 2.5])
def test_broken_weights_vary_as_so_many_rows(weight):
    """A row of weight 2.5 is three of which each counts less: variance 2.5 r (1 − r)."""
    rows = module._SortedRows(*np.array([[0.3], [0.7], [weight]]), total=weight, growth=np.ones(1))
    drawn = rows.deviations(rows.confidence, slice(0, 40_000), np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(0.0, abs=5 * math.sqrt(weight * 0.21 / 40_000))
    assert drawn.var() == pytest.approx(weight * 0.21, rel=0.04)
