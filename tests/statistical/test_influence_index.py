"""The influence index under exchangeability: p-values are uniform, and V is one of its shuffles; and its power.

V and the pooled head do not depend on how rows are dealt, so the shuffle test is exact for rows that are exchangeable.
Rates are held to the requirement (size 2–8 %) plus 3.5 standard errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from invariscope.criteria.influence.influence_index import influence_index
from invariscope.datasets.images.colored import colored_digits
from invariscope.datasets.synthetic.linear_sem import linear_sem
from invariscope.datasets.synthetic.nulls import null_same_law
from invariscope.heads.linear_head import LinearHead
from tests.statistical.bands import band

WORLDS = {
    "squared": ({"n": 200, "d": 4}, {}),
    "squared, imbalanced, five environments": ({"n": (50, 100, 200, 400, 800), "d": 2, "environments": 5}, {}),
    "squared, exact shuffles": ({"n": (60, 100, 140), "d": 3}, {"exact": True}),
    "logistic": ({"n": (100, 200, 400), "d": 4, "task": "binary"}, {}),
    "logistic, a wrong head": (
        {"n": 200, "d": 2, "task": "binary"},
        {"head": LinearHead([[0.5, -1.0]], 0.3)},
    ),
    "softmax": ({"n": 200, "d": 3, "task": "multiclass"}, {}),
}


@pytest.mark.parametrize("name", WORLDS)
def test_p_values_are_uniform_and_v_is_one_of_its_shuffles(name, seed):
    law, options = WORLDS[name]
    rng, runs = np.random.default_rng(seed), 600
    pvalues, distances = [], []
    for _ in range(runs):
        data = null_same_law(**law, seed=int(rng.integers(2**32)))
        result = influence_index(
            data.X, data.y, data.env, damping=0.0, n_boot=199, seed=int(rng.integers(2**32)), **options
        )
        pvalues.append(result.pvalue)
        distances.append((result.value - result.null.mean()) / result.null.std())
    rate = np.mean(np.array(pvalues) <= 0.05)
    assert 0.02 - band(0.02, runs) <= rate <= 0.08 + band(0.08, runs)
    # largest distance from uniform: exceeded by chance once in 10,000 times; p-values are multiples of 1/200
    assert kstest(pvalues, "uniform").statistic < 2.23 / np.sqrt(runs) + 1 / 200
    # in units of the shuffles' own spread V has mean 0 and spread 1
    assert abs(np.mean(distances)) < 3.5 / np.sqrt(runs) + 0.05
    assert 0.75 < np.std(distances) < 1.3


def test_auto_damping_keeps_the_size(seed):
    """Columns of very different spread call for damping; the shuffles are damped alike, so the test stays exact."""
    rng, runs = np.random.default_rng(seed), 300
    found = []
    for _ in range(runs):
        data = null_same_law(n=150, d=4, seed=int(rng.integers(2**32)))
        result = influence_index(
            data.X * [1.0, 1.0, 0.02, 0.005], data.y, data.env, n_boot=199, seed=int(rng.integers(2**32))
        )
        assert result.damping > 0
        found.append(result.pvalue)
    rate = np.mean(np.array(found) <= 0.05)
    assert 0.02 - band(0.02, runs) <= rate <= 0.08 + band(0.08, runs)


def test_power_where_slopes_differ(seed):
    rng, runs = np.random.default_rng(seed), 100
    found = []
    for _ in range(runs):
        data = null_same_law(n=300, d=3, seed=int(rng.integers(2**32)))
        y = data.y + 0.4 * (data.env - 1) * data.X[:, 0]
        found.append(influence_index(data.X, y, data.env, n_boot=199, seed=int(rng.integers(2**32))).pvalue)
    assert np.mean(np.array(found) <= 0.05) >= 0.9


@pytest.mark.parametrize("setting", ["FOU", "FEU"])
def test_all_columns_of_the_structural_equations_pull_the_head_apart(setting, seed):
    rng = np.random.default_rng(seed)
    for _ in range(10):
        data = linear_sem(setting, n=1000, seed=int(rng.integers(2**32)))
        result = influence_index(data.X, data.y, data.env, n_boot=199)
        assert result.value > result.null.max()
        assert result.pvalue == pytest.approx(1 / 200)


PENALISED = {
    "irm, a fixed head": {"penalty": "irm", "penalty_weight": 1.0, "head": LinearHead([[0.5, -1.0]], 0.3)},
    "irm_split, a fixed head": {"penalty": "irm_split", "penalty_weight": 1.0, "head": LinearHead([[0.5, -1.0]], 0.3)},
    "vrex, a fixed head": {"penalty": "vrex", "penalty_weight": 10.0, "head": LinearHead([[0.5, -1.0]], 0.3)},
    "vrex, a fixed head, exact": {
        "penalty": "vrex",
        "penalty_weight": 100.0,
        "head": LinearHead([[0.5, -1.0]], 0.3),
        "exact": True,
    },
}


@pytest.mark.parametrize("name", PENALISED)
def test_under_a_penalty_p_values_are_uniform_for_a_head_that_does_not_know_the_environments(name, seed):
    rng, runs = np.random.default_rng(seed), 300
    found = []
    for _ in range(runs):
        data = null_same_law(n=(150, 200, 300), d=2, task="binary", seed=int(rng.integers(2**32)))
        result = influence_index(data.X, data.y, data.env, n_boot=99, seed=int(rng.integers(2**32)), **PENALISED[name])
        found.append(result.pvalue)
    rate = np.mean(np.array(found) <= 0.05)
    assert 0.02 - band(0.02, runs) <= rate <= 0.08 + band(0.08, runs)
    assert kstest(found, "uniform").statistic < 2.23 / np.sqrt(runs) + 1 / 100


def pvalues_of_fitted_heads(penalty: str, weight: float, task: str, runs: int, seed: int) -> np.ndarray:
    """Rows of one law in environments of unequal sizes, and the head that is fitted to them under the penalty."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        data = null_same_law(n=(150, 200, 300), d=3, task=task, seed=int(rng.integers(2**32)))
        result = influence_index(
            *(data.X, data.y, data.env),
            penalty=penalty,
            penalty_weight=weight,
            n_boot=99,
            seed=int(rng.integers(2**32)),
        )
        found.append(result.pvalue)
    return np.array(found)


@pytest.mark.parametrize(("penalty", "weight"), [("irm", 1.0), ("vrex", 10.0), ("vrex", 1000.0)])
def test_under_a_penalty_fitted_heads_keep_the_size(penalty, weight, seed):
    """The fit moves the gradients of all environments alike, to first order: what is left is the dispersion of rows."""
    runs = 150
    found = pvalues_of_fitted_heads(penalty, weight, "regression", runs, seed)
    rate = np.mean(found <= 0.05)
    assert 0.02 - band(0.02, runs) <= rate <= 0.08 + band(0.08, runs)
    assert kstest(found, "uniform").statistic < 2.23 / np.sqrt(runs) + 1 / 100


@pytest.mark.calibration
@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("weight", [1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("penalty", ["irm", "irm_split", "vrex"])
def test_under_any_penalty_fitted_heads_keep_the_size(penalty, weight, task, seed):
    runs = 600
    found = pvalues_of_fitted_heads(penalty, weight, task, runs, seed)
    rate = np.mean(found <= 0.05)
    assert 0.02 - band(0.02, runs) <= rate <= 0.08 + band(0.08, runs)
    assert abs(found.mean() - 0.5) < 0.08


def test_shuffles_recomputed_reject_no_more_than_they_should(seed):
    """The paper's own shuffles: the head was fitted so that these environments agree, not those that are dealt."""
    rng, runs = np.random.default_rng(seed), 60
    found = []
    for _ in range(runs):
        data = null_same_law(n=200, d=3, seed=int(rng.integers(2**32)))
        options = {"penalty": "vrex", "penalty_weight": 10.0, "n_boot": 99, "shuffles": "recomputed"}
        found.append(influence_index(data.X, data.y, data.env, seed=int(rng.integers(2**32)), **options).pvalue)
    assert np.mean(np.array(found) <= 0.05) <= 0.08 + band(0.08, runs)


def share_rejected(penalty: str, weight: float, runs: int, seed: int, **options: str) -> float:
    """Of heads fitted under a penalty to rows with a spurious column (an effect of y whose slope is 0.7, 1 and 1.3)."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(runs):
        env = np.repeat([0, 1, 2], 300)
        causes = rng.normal(size=(900, 2))
        y = causes @ [1.0, 0.5] + rng.normal(size=900)
        effect = y * (1 + 0.3 * (env - 1)) + rng.normal(size=900)
        X = np.column_stack([causes, effect, rng.normal(size=(900, 2))])
        settings = {"penalty": penalty, "penalty_weight": weight, "n_boot": 99, "seed": int(rng.integers(2**32))}
        found.append(influence_index(X, y, env, **settings, **options).pvalue)
    return float(np.mean(np.array(found) <= 0.05))


@pytest.mark.parametrize(("penalty", "weight"), [("vrex", 10.0), ("vrex", 100.0), ("irm", 1.0)])
def test_power_of_heads_trained_with_a_penalty(penalty, weight, seed):
    assert share_rejected(penalty, weight, 40, seed) >= 0.5


@pytest.mark.calibration
@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("penalty", ["irm", "vrex"])
def test_power_along_the_weight(penalty, weight, seed):
    """With a Hessian for every deal it goes to nothing; with the fixed one it falls as heads get better."""
    fixed = share_rejected(penalty, weight, 200, seed)
    assert fixed >= 0.5
    if penalty == "vrex" and weight >= 10:
        assert share_rejected(penalty, weight, 40, seed, shuffles="recomputed") <= 0.1


def test_power_on_colored_digits(seed):
    """Eight principal columns of coloured digits under V-REx: colour agrees with the label in 90 and in 70 %."""
    data = colored_digits((0.1, 0.3), n=600, seed=seed)
    pixels = np.asarray(data.X, dtype=float)
    pixels -= pixels.mean(axis=0)
    left, _, _ = np.linalg.svd(pixels, full_matrices=False)
    features = left[:, :8] * np.sqrt(len(left))
    for weight in (1.0, 100.0, 1000.0):
        found = influence_index(features, data.y, data.env, penalty="vrex", penalty_weight=weight, n_boot=199)
        assert found.pvalue <= 0.05
    again = influence_index(
        features, data.y, data.env, penalty="vrex", penalty_weight=1000.0, n_boot=99, shuffles="recomputed"
    )
    assert again.pvalue > 0.5
