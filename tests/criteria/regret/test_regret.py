"""Shared-head regret: against a slow reference, by hand, and under maps of the data that must not matter."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from invariscope.criteria.regret.inference import Draws, draw_excess, invert, score_test
from invariscope.criteria.regret.regret import LEVEL, regret
from invariscope.criteria.regret.shared_head import fit_shared_head
from invariscope.datasets.synthetic.linear_sem import linear_sem
from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
from invariscope.errors import InputError
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator
from invariscope.rows.targets import target_of
from tests.reference.regret import regret as reference_regret

CLASSES = {"regression": 0, "binary": 2, "multiclass": 3}


def world(task, sizes, d, seed, *, bend=0.5):
    """Rows whose relation to the target bends with the environment, so that the regret is not zero."""
    data = null_shifted(n=sizes, d=d, environments=len(sizes), task=task, seed=seed)
    y = data.y
    if task == "regression":
        y = y + bend * data.env * data.X[:, 0]
    else:  # in the last environment the classes of the extreme rows are swapped around
        turn = (data.env == len(sizes) - 1) & (data.X[:, -1] > 1.0)
        y = np.where(turn, (y + 1) % CLASSES[task], y)
    return data.X, y, data.env


def fit_of(X, y, env, weight=None):
    data = Environments(X, y, env, weight)
    return fit_shared_head(data, target_of(data))


def values(result):
    return np.array([estimate.value for estimate in result.per_environment.values()])


# --- the slow reference ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", CLASSES)
@pytest.mark.parametrize(("sizes", "d"), [((60, 90), 2), ((120, 80, 150), 4), ((70, 70, 70, 70), 1)])
def test_equals_the_reference(task, sizes, d, seed):
    X, y, env = world(task, sizes, d, seed)
    expected = reference_regret(X, y, env, CLASSES[task])
    result, fit = regret(X, y, env, n_boot=99), fit_of(X, y, env)
    # in-sample losses are exact to rounding (squared) or to the last Newton step
    np.testing.assert_allclose(
        fit.losses / fit.rows[:, None], expected.in_sample, rtol=1e-10 if task == "regression" else 1e-6
    )
    # leverages are computed in single precision, which the corrections for noise inherit
    tolerance = 1e-7 if task == "regression" else 1e-6
    np.testing.assert_allclose(fit.own_risk, expected.own_risk, rtol=tolerance)
    np.testing.assert_allclose(values(result), expected.regret, rtol=tolerance, atol=tolerance)
    assert result.value == pytest.approx(np.mean(expected.regret), rel=tolerance, abs=tolerance)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-6)
    scale = 2.0 if task == "regression" else 1.0  # the reference works with ½ (s − y)²
    np.testing.assert_allclose(result.own_loss, scale * np.array(expected.own_risk), rtol=tolerance)
    np.testing.assert_allclose(
        result.shared_loss, scale * (np.array(expected.own_risk) + expected.excess), rtol=tolerance
    )
    if task == "regression":
        assert np.abs(values(result)).max() > 0.005  # there is something to compare


def test_score_test_draws_have_the_mean_of_their_law(seed):
    X, y, env = world("regression", (120, 80, 150), 3, seed)
    expected, fit = reference_regret(X, y, env), fit_of(X, y, env)
    total = sum(w * h for w, h in zip(expected.weights, expected.hessians, strict=True))
    mean = 0.0
    for e, (outer, hessian) in enumerate(zip(expected.covariances, expected.hessians, strict=True)):
        # s_e less its share of what fitting the shared head takes away: covariance, environment by environment
        covariance = np.zeros_like(outer)
        for k, (other, weight) in enumerate(zip(expected.covariances, expected.weights, strict=True)):
            response = (e == k) * np.eye(len(outer)) - weight * hessian @ np.linalg.inv(total)
            spare = (120, 80, 150)[k] - 4  # rows that tell the noise: the mean of F is larger than that of χ²
            covariance += response @ other @ response.T * spare / (spare - 2)
        mean += np.trace(np.linalg.solve(outer, covariance))
    statistic, null = score_test(fit, 20_000, np.random.default_rng(seed))
    assert statistic == pytest.approx(expected.statistic, rel=1e-6)
    assert abs(null.mean() - mean) < 5 * null.std() / np.sqrt(len(null))
    assert mean == pytest.approx(4 * (3 - 1), rel=0.1)  # close to the free parameters: (environments − 1) heads of 4


@pytest.mark.parametrize("classes", [False, True])
def test_draws_of_who_shows_no_noise_count_only_by_their_pull(classes):
    """Environment a is exact (its gradients have no noise), or split by chance (all of its residuals are noise)."""
    rng = np.random.default_rng(4)
    z, env = rng.normal(size=(400, 3)), np.repeat(["a", "b", "c", "d"], 100)
    if classes:
        z[env == "a", 0] *= 8
        y = (2 * z[:, 0] + rng.logistic(size=400) > 0).astype(int)
    else:
        y = z @ [1.0, 2.0, 3.0] + (env != "a") * rng.normal(size=400)
    fit = fit_of(z, y, env)
    assert fit.usable.tolist() == [False, True, True, True]
    share = fit.own_share.copy()
    share[0] = 1.0 if classes else share[0]
    mean = 0.0
    for e in (1, 2, 3):
        covariance = np.zeros_like(fit.outer[e])
        for k in range(4):
            response = (e == k) * np.eye(4) - fit.weights[k] * fit.shared.hessian[e] @ fit.inverse
            covariance += response @ (share[k] * fit.outer[k]) @ response.T
        mean += np.trace(np.linalg.solve(share[e] * fit.outer[e], covariance)) * 96 / 94
    statistic, null = score_test(fit, 20_000, np.random.default_rng(0))
    assert abs(null.mean() - mean) < 5 * null.std() / np.sqrt(len(null))
    by_hand = [g @ np.linalg.solve(s * j, g) for g, s, j in zip(fit.gradient, share, fit.outer, strict=True)]
    assert statistic == pytest.approx(sum(by_hand[1:]), rel=1e-6)


def test_many_small_environments_of_one_law_are_not_told_apart():
    """30 environments of ten rows for four weights: judged by a χ², 73 % of such data sets were rejected."""
    rejected = 0
    for draw in range(40):
        rng = np.random.default_rng(draw)
        z = rng.normal(size=(300, 4))
        fit = fit_of(z, z[:, 0] + rng.normal(size=300), np.repeat(np.arange(30), 10))
        statistic, null = score_test(fit, 199, rng)
        rejected += np.mean(null >= statistic) < 0.05
    assert rejected <= 5


# --- by hand ---------------------------------------------------------------------------------------------------------
def slopes_by_hand(slopes, noises, spreads, rows, rng):
    """One centred column, y = slope_e z + noise_e: everything has a closed form."""
    z = np.concatenate([s * rng.standard_normal(n) for s, n in zip(spreads, rows, strict=True)])
    y = np.repeat(slopes, rows) * z + np.repeat(noises, rows) * rng.standard_normal(len(z))
    slopes, noises, variances = np.array(slopes), np.array(noises), np.square(spreads)
    precision = variances / noises**2
    shared = np.sum(precision * slopes) / np.sum(precision)
    truth = precision * (shared - slopes) ** 2
    pairs = precision[:, None] * (slopes[:, None] - slopes[None, :]) ** 2
    return z[:, None], y, np.repeat(np.arange(len(rows)), rows), truth, pairs


@pytest.mark.parametrize(
    ("slopes", "noises", "spreads", "rows"),
    [
        ((0.5, -0.5), (1.0, 1.0), (1.0, 1.0), (200_000, 200_000)),  # regret 0.25 in both
        ((1.0, 0.6), (1.0, 0.5), (1.0, 1.5), (200_000, 200_000)),
        ((1.0, 1.0, 0.7), (0.5, 2.0, 1.0), (1.0, 1.0, 0.5), (100_000, 200_000, 300_000)),
    ],
)
def test_equals_the_population_value_by_hand(slopes, noises, spreads, rows, seed):
    Z, y, env, truth, pairs = slopes_by_hand(slopes, noises, spreads, rows, np.random.default_rng(seed))
    result = regret(Z, y, env, n_boot=199)
    np.testing.assert_allclose(values(result), truth, atol=0.01 * (1 + truth.max()))
    np.testing.assert_allclose(result.pairs, pairs, atol=0.05 * (1 + pairs.max()))
    assert result.pvalue == pytest.approx(1 / 200)
    assert result.worst == int(np.argmax(values(result)))
    np.testing.assert_allclose(result.own_loss, np.square(noises), rtol=0.02)
    if slopes == (0.5, -0.5):
        np.testing.assert_allclose(truth, 0.25)
        np.testing.assert_allclose(result.shared_loss, 1.25, rtol=0.02)
        assert abs(result.explained) < 0.01  # the shared slope is 0: it predicts nothing


def test_regret_of_a_constant_is_that_of_the_means(seed):
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 50_000)
    y = np.where(env == "a", 0.4, -0.4) + rng.standard_normal(len(env))
    result = regret(np.ones((len(env), 1)), y, env, n_boot=199)
    np.testing.assert_allclose(values(result), 0.16, atol=0.02)  # (0.4 − 0)² / 1
    assert result.pvalue < 0.01
    assert abs(result.explained) < 0.01
    assert "constant (x0)" in result.notes[0]


def test_equals_the_truth_of_the_structural_equations(seed):
    data = linear_sem("FEU", n=100_000, seed=seed)
    prediction = data.X @ data.truth["erm"]
    result = regret(prediction, data.y, data.env, n_boot=199)
    for label, estimate in result.per_environment.items():
        assert estimate.value == pytest.approx(data.truth["erm_regret"][label], abs=0.02)


# --- peers -----------------------------------------------------------------------------------------------------------
def test_squared_losses_equal_statsmodels(seed):
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y, env = world("regression", (90, 140), 3, seed)
    fit = fit_of(X, y, env)
    design = statsmodels.add_constant(X)
    for e in range(2):
        own = statsmodels.OLS(y[env == e], design[env == e]).fit()
        press = own.get_influence().resid_press
        assert fit.losses[e, 1] == pytest.approx(own.ssr / 2, rel=1e-10)
        assert 2 * fit.own_risk[e] == pytest.approx(np.mean(own.resid * press), rel=1e-7)
    own_risk = 2 * fit.losses[:, 1] / fit.rows
    shared = statsmodels.WLS(y, design, weights=(1 / (own_risk * fit.rows))[env]).fit()
    residual = y - shared.predict(design)
    np.testing.assert_allclose(2 * fit.losses[:, 0], [np.sum(residual[env == e] ** 2) for e in range(2)], rtol=1e-10)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_log_losses_equal_scikit_learn(task, seed):
    X, y, env = world(task, (150, 250), 3, seed)
    fit = fit_of(X, y, env)
    exact = {"C": np.inf, "tol": 1e-10, "max_iter": 10_000}
    for e in range(2):
        own = LogisticRegression(**exact).fit(X[env == e], y[env == e])
        assert fit.losses[e, 1] / fit.rows[e] == pytest.approx(
            log_loss(y[env == e], own.predict_proba(X[env == e])), rel=1e-7
        )
    share = (1 / fit.losses[:, 1])[env]
    shared = LogisticRegression(**exact).fit(X, y, sample_weight=share / share.mean())
    for e in range(2):
        assert fit.losses[e, 0] / fit.rows[e] == pytest.approx(
            log_loss(y[env == e], shared.predict_proba(X[env == e])), rel=1e-6
        )


# --- what comes back -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("labels", [["north", "south", "west"], [2019, 2020, 2021], ["2024-01", "2024-02", "2024-03"]])
@pytest.mark.parametrize("task", CLASSES)
def test_keys_and_shapes(labels, task, seed):
    X, y, env = world(task, (80, 100, 120), 4, seed)
    frame = pd.DataFrame(X, columns=["age", "dose", "weight", "pressure"])
    result = regret(frame, y, np.array(labels)[env])
    assert list(result.per_environment) == labels == list(result.labels)
    assert result.worst in labels
    assert result.task == task
    assert result.columns == ("age", "dose", "weight", "pressure", LEVEL)
    assert result.pairs.shape == (3, 3)
    assert result.drivers.shape == (3, 5)
    assert result.null.shape == (999,)
    assert result.rows.tolist() == [80, 100, 120]
    assert result.shared_loss.shape == result.own_loss.shape == (3,)
    assert 0 < result.pvalue <= 1
    assert result.interval[0] <= result.value <= result.interval[1]
    for estimate in result.per_environment.values():
        assert estimate.interval[0] <= estimate.value <= estimate.interval[1]
    assert result.value == pytest.approx(values(result).mean(), rel=1e-12)
    assert result.per_environment[result.worst].value == values(result).max()
    assert result.worst_interval[1] == max(e.interval[1] for e in result.per_environment.values())
    assert result.worst_interval[0] == max(e.interval[0] for e in result.per_environment.values())
    assert list(result.known) == sorted(labels, key=lambda label: -result.per_environment[label].value)
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["value"] == result.value
    assert list(plain["per_environment"]) == [str(label) for label in labels]


@pytest.mark.parametrize(("n_boot", "level"), [(999, 0.025 / 4), (99, 0.025 / 4)])
def test_lower_ends_allow_for_having_looked_at_all_and_upper_ends_need_not(seed, n_boot, level):
    """At E times the confidence of one environment alone; the largest regret lies between the largest of both."""
    X, y, env = world("regression", (80, 100, 120, 90), 3, seed)
    data = Environments(X, y, env)
    fit = fit_shared_head(data, target_of(data))
    draws, scale = draw_excess(fit, max(n_boot, 800), generator(0).spawn(2)[0])
    result = regret(X, y, env, n_boot=n_boot)
    for e, label in enumerate(result.labels):
        single = Draws(draws.linear[:, e], draws.quadratic[:, e])
        low, high = result.per_environment[label].interval
        assert low * fit.own_risk[e] == pytest.approx(invert(single, scale[e], fit.excess[e], level)[0], rel=1e-9)
        alone = invert(single, scale[e], fit.excess[e])
        assert low * fit.own_risk[e] < alone[0]
        assert high * fit.own_risk[e] == pytest.approx(alone[1], rel=1e-9)
    ends = np.array([estimate.interval for estimate in result.per_environment.values()])
    assert result.worst_interval == tuple(ends.max(axis=0))


def test_no_lower_end_is_below_losing_nothing_at_all():
    """Few rows and many environments: noise of several times the loss is no reason to name a loss below 0."""
    rng = np.random.default_rng(0)
    Z, env = rng.normal(size=(600, 9)), np.repeat(np.arange(30), 20)
    found = regret(Z, Z[:, 0] + rng.normal(size=600), env, n_boot=199)
    lows = [one.interval[0] for one in found.per_environment.values()]
    assert min(lows) == -1.0
    assert min(found.interval[0], found.worst_interval[0]) >= -1.0
    assert all(low < one.value for low, one in zip(lows, found.per_environment.values(), strict=True))


def test_same_seed_same_answer(seed):
    X, y, env = world("binary", (100, 100), 3, seed)
    first, again, other = (regret(X, y, env, n_boot=99, seed=s) for s in (seed, seed, seed + 1))
    assert first.to_dict() == again.to_dict()
    assert first.value == other.value  # only the draws are random
    assert not np.array_equal(first.null, other.null)


def test_environments_may_be_grouped_before(seed):
    X, y, env = world("regression", (60, 80), 2, seed)
    order = np.random.default_rng(seed).permutation(len(y))
    grouped = regret(Environments(X, y, env), n_boot=99)
    shuffled = regret(X[order], y[order], env[order], n_boot=99)
    np.testing.assert_allclose(values(grouped), values(shuffled), rtol=1e-9, atol=1e-12)
    assert grouped.statistic == pytest.approx(shuffled.statistic, rel=1e-6)


# --- maps that must not matter ---------------------------------------------------------------------------------------
MAPS = {
    "shrunk": lambda X, rng: 1e-6 * X,
    "shifted": lambda X, rng: X + 1000.0,
    "columns in other units": lambda X, rng: X * np.array([1e-9, 1.0, 1e6, -3.0]),
    "mixed": lambda X, rng: X @ (np.linalg.qr(rng.normal(size=(4, 4)))[0] * [1.0, 2.0, 5.0, 10.0]) + rng.normal(size=4),
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("task", CLASSES)
def test_affine_maps_of_the_representation_change_nothing(name, task, seed):
    X, y, env = world(task, (150, 100, 200), 4, seed)
    before = regret(X, y, env)
    after = regret(MAPS[name](X, np.random.default_rng(seed)), y, env)
    np.testing.assert_allclose(values(after), values(before), atol=1e-6)
    assert after.statistic == pytest.approx(before.statistic, rel=1e-5)
    assert after.explained == pytest.approx(before.explained, abs=1e-6)
    np.testing.assert_allclose(after.pairs, before.pairs, atol=1e-5)
    # the draws may be others (a mixed basis), their law is the same: both p-values have binomial noise over 999 draws
    spread = np.sqrt(before.pvalue * (1 - before.pvalue) / 999)
    assert abs(after.pvalue - before.pvalue) < 6 * np.sqrt(2) * spread + 3e-3
    width = before.interval[1] - before.interval[0]
    np.testing.assert_allclose(after.interval, before.interval, atol=0.3 * width)


@pytest.mark.parametrize(("scale", "shift"), [(1e-3, 0.0), (-7.0, 3.0), (1.0, 1e6), (1e8, -1e8)])
def test_scale_and_shift_of_the_target_change_nothing(scale, shift, seed):
    X, y, env = world("regression", (100, 80, 120), 3, seed)
    before, after = regret(X, y, env, n_boot=99), regret(X, scale * y + shift, env, n_boot=99)
    np.testing.assert_allclose(values(after), values(before), atol=1e-6)
    np.testing.assert_allclose(after.interval, before.interval, atol=1e-3 if scale > 0 else 0.3)
    np.testing.assert_allclose(after.own_loss, scale**2 * before.own_loss, rtol=1e-6)
    assert after.explained == pytest.approx(before.explained, abs=1e-6)


def test_names_of_classes_and_environments_change_nothing(seed):
    X, y, env = world("multiclass", (150, 150), 3, seed)
    before = regret(X, y, env, n_boot=99)
    after = regret(X, np.array(["low", "middle", "top"])[y], np.array(["b", "a"])[env], n_boot=99)
    assert after.per_environment["b"].value == pytest.approx(before.per_environment[0].value, abs=1e-7)
    assert after.per_environment["a"].value == pytest.approx(before.per_environment[1].value, abs=1e-7)
    np.testing.assert_allclose(after.pairs, before.pairs[::-1, ::-1], atol=1e-6)
    np.testing.assert_allclose(after.drivers, before.drivers[::-1], atol=1e-6)


@pytest.mark.parametrize("task", CLASSES)
def test_weights_are_repetitions(task, seed):
    X, y, env = world(task, (120, 150), 3, seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = regret(X, y, env, weight=weight, n_boot=199)
    repeated = regret(*(np.repeat(part, weight, axis=0) for part in (X, y, env)), n_boot=199)
    np.testing.assert_allclose(values(weighted), values(repeated), atol=1e-7)
    np.testing.assert_allclose(weighted.rows, repeated.rows)
    np.testing.assert_allclose(weighted.own_loss, repeated.own_loss, rtol=1e-6)
    np.testing.assert_allclose(weighted.interval, repeated.interval, atol=1e-5)
    np.testing.assert_allclose(weighted.worst_interval, repeated.worst_interval, atol=1e-5)
    np.testing.assert_allclose(weighted.pairs, repeated.pairs, atol=1e-6)
    np.testing.assert_allclose(weighted.drivers, repeated.drivers, atol=1e-6)
    assert weighted.statistic == pytest.approx(repeated.statistic, rel=1e-5)
    assert weighted.pvalue == repeated.pvalue
    plain = regret(X, y, env, weight=np.ones(len(y)), n_boot=199)
    np.testing.assert_allclose(values(plain), values(regret(X, y, env, n_boot=199)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("task", CLASSES)
def test_constant_and_duplicated_columns_change_nothing_and_are_noted(task, seed):
    X, y, env = world(task, (150, 200), 3, seed)
    before = regret(X, y, env, n_boot=199)
    assert before.notes == ()
    more = pd.DataFrame(X, columns=["a", "b", "c"]).assign(site=7.0, twice=X[:, 0], sum=X[:, 1] - 2 * X[:, 2])
    after = regret(more, y, env, n_boot=199)
    np.testing.assert_allclose(values(after), values(before), atol=1e-6)
    assert after.statistic == pytest.approx(before.statistic, rel=1e-4)
    assert abs(after.pvalue - before.pvalue) < 0.2
    free = max(1, CLASSES[task] - 1)
    assert len(after.notes) == 1
    assert after.notes[0].startswith(f"{3 * free} parameters of the head are redundant")
    assert "constant (site)" in after.notes[0]


# --- triviality ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", CLASSES)
def test_a_constant_representation_explains_nothing(task, seed):
    data = null_same_law(n=400, task=task, seed=seed)
    result = regret(np.full((1200, 2), 3.0), data.y, data.env, n_boot=99)
    assert abs(result.explained) < 0.02
    assert result.notes
    assert regret(data.X, data.y, data.env, n_boot=99).explained > 0.05
    noise = np.random.default_rng(seed).normal(size=(1200, 2))
    assert abs(regret(noise, data.y, data.env, n_boot=99).explained) < 0.03


def test_explained_is_the_share_of_held_out_loss(seed):
    data = null_same_law(n=20_000, seed=seed)  # half of the variance is explained by the truth
    assert regret(data.X, data.y, data.env, n_boot=99).explained == pytest.approx(0.5, abs=0.02)


# --- drivers and pairs -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize("guilty", [0, 2, 4])
def test_drivers_add_up_and_name_the_guilty_column(task, guilty, seed):
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "c"], 1500)
    Z = rng.normal(size=(len(env), 4)) @ (np.eye(4) + 0.3) + np.array([0.0, 5.0, -2.0, 1.0])
    change = np.select([env == "a", env == "b"], [1.2, -1.2], 0.0)
    score = 0.5 * (Z - Z.mean(axis=0)).sum(axis=1)
    # position 4 is the level: the same for all columns, but the environments sit higher or lower
    score += change * ((Z[:, guilty] - Z[:, guilty].mean()) if guilty < 4 else 1.0)
    y = score + rng.normal(size=len(env)) if task == "regression" else (score + rng.logistic(size=len(env)) > 0)
    result = regret(Z, y, env, n_boot=99)
    np.testing.assert_allclose(result.drivers.sum(axis=1), values(result), rtol=1e-6, atol=1e-9)
    for e in (0, 1):
        assert int(np.argmax(result.drivers[e])) == guilty
        assert result.drivers[e, guilty] > 0.8 * result.drivers[e].sum()


def test_drivers_add_up_where_nothing_drives(seed):
    data = null_shifted(n=(100, 300), d=3, environments=2, seed=seed)
    result = regret(data.X, data.y, data.env, n_boot=99)
    np.testing.assert_allclose(result.drivers.sum(axis=1), values(result), rtol=1e-6, atol=1e-9)


def test_pairs_tell_who_disagrees_with_whom(seed):
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "odd"], 2000)
    z = rng.normal(size=(len(env), 2))
    y = z[:, 0] * np.where(env == "odd", -1.0, 1.0) + rng.normal(size=len(env))
    result = regret(z, y, env, n_boot=99)
    assert np.diagonal(result.pairs).tolist() == [0.0, 0.0, 0.0]
    assert abs(result.pairs[0, 1]) < 0.02
    assert abs(result.pairs[1, 0]) < 0.02
    np.testing.assert_allclose(result.pairs[[0, 1, 2, 2], [2, 2, 0, 1]], 4.0, rtol=0.25)  # slopes 2 apart, noise 1
    assert result.worst == "odd"


@pytest.mark.slow
def test_pairs_are_freed_from_the_noise_of_the_other_head(seed):
    """Under invariance the extra loss of a neighbour's head is 0 on average, though p / n = 0.1 adds 20 % in-sample."""
    found = [
        regret(data.X, data.y, data.env, n_boot=99).pairs[[0, 1], [1, 0]]
        for data in (null_same_law(n=100, d=9, environments=2, seed=1000 * seed + k) for k in range(60))
    ]
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found)) < 0.01 + 4 * error


# --- nothing to compare with -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_split_without_any_gap_leave_no_curvature_and_no_trace_of_it(classes):
    """Own heads of such rows grow until all columns are flat; 3 of these 40 sets ended in a matrix of NaN."""
    for draw in range(40):
        z = np.random.default_rng(draw).normal(size=(200, 2))
        y = np.digitize(z[:, 0], [0.0] if classes == 2 else [-0.4, 0.4])
        result = regret(z, y, np.arange(200) % 2, n_boot=99)
        assert sum("own heads separate the classes perfectly" in note for note in result.notes) == 1
        assert math.isnan(result.value)


@pytest.mark.parametrize(("apart", "draw"), [(2.5, 2), (3.0, 2), (3.0, 4)])
def test_classes_that_are_out_of_the_question_bring_no_weights_of_their_own(apart, draw):
    """Of six scores five are free. Where a class is out of the question for all rows, rounding was counted as more."""
    rng = np.random.default_rng(draw)
    y = np.tile(np.arange(6), 75)
    z = apart * np.eye(6)[y] + rng.normal(size=(450, 6))
    fit = fit_of(z[:, :5] - z[:, 5:], y, np.repeat([0, 1, 2], 150))
    assert fit.usable.any()
    assert fit.rank.max() <= 5 * 6
    assert np.all(fit.noise_excess > 0)


def test_a_loss_that_so_few_rows_cannot_tell_is_not_shown_below_zero():
    """40 rows for 13 weights: what noise may have added to the shared head's loss is more than all of it."""
    rng = np.random.default_rng(0)
    env, y = np.repeat(["a", "b", "c"], 40), np.resize(["no", "yes"], 120)
    X = rng.normal(size=(120, 12))
    X[np.arange(120), (y == "yes").astype(int)] += 2.0
    assert (fit_of(X, y, env).shared_risk < 0).tolist() == [False, True, True]
    result = regret(X, y, env, n_boot=99)
    assert result.shared_loss[0] > 0
    assert np.isnan(result.shared_loss[1:]).all()
    assert np.isnan(values(result)).all()
    assert (
        "No loss of the shared head, and so no regret, for b, c: noise in the heads may have added all of it (40 "
        "rows and more, 13 weights in a head)." in result.notes
    )
    fewer = regret(X[:, 2:4], y, env, n_boot=99)
    assert np.isfinite(fewer.shared_loss).all()
    assert not any("noise in the heads" in note for note in fewer.notes)


def test_separable_classes_have_no_regret_and_say_so(seed):
    rng = np.random.default_rng(seed)
    env = np.repeat(["clear", "mixed", "other"], 200)
    z = rng.normal(size=(600, 2))
    y = (z[:, 0] + np.where(env == "clear", 0.0, 1.5) * rng.logistic(size=600) > 0).astype(int)
    z[:, 0] += np.where(env == "clear", np.sign(z[:, 0]), 0.0)  # a gap, so that no head can miss
    result = regret(z, y, env, n_boot=99)
    assert math.isnan(result.per_environment["clear"].value)
    assert all(math.isnan(end) for end in result.per_environment["clear"].interval)
    assert np.isnan(result.drivers[0]).all()
    assert np.isnan(result.pairs[0, 1:]).all()
    assert any("clear" in note and "separates the classes perfectly" in note for note in result.notes)
    rest = values(result)[1:]
    assert np.isfinite(rest).all()
    assert result.value == pytest.approx(rest.mean())
    assert result.worst != "clear"
    assert np.isfinite(result.worst_interval).all()


def test_regression_without_error_has_no_regret_and_says_so(seed):
    rng = np.random.default_rng(seed)
    env, z = np.repeat(["exact", "noisy"], 100), rng.normal(size=(200, 2))
    y = z @ [1.0, 2.0] + np.where(env == "exact", 0.0, 1.0) * rng.normal(size=200)
    result = regret(z, y, env, n_boot=99)
    assert math.isnan(result.per_environment["exact"].value)
    assert any("exact" in note and "makes no error" in note for note in result.notes)
    assert math.isfinite(result.per_environment["noisy"].value)
    everywhere = regret(z, z @ [1.0, 2.0], env, n_boot=99)
    assert math.isnan(everywhere.value)
    assert any("exact, noisy" in note for note in everywhere.notes)


NO_NOISE = "No p-value: no own head makes an error, so there is no noise to compare differences with."


@pytest.mark.parametrize("noise", [0.0, 1e-12])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_relation_without_noise_has_no_pvalue_that_rounding_made(noise, scale, seed):
    rng = np.random.default_rng(seed)
    env, z = np.repeat(["a", "b", "c"], 100), rng.normal(size=(300, 2))
    y = scale * (z @ [1.0, 2.0] + 3.0 + noise * rng.normal(size=300))
    result = regret(z, y, env, n_boot=99)
    assert np.isnan([result.pvalue, result.statistic, result.value, *result.worst_interval]).all()
    assert len(result.null) == 0
    assert result.notes == (
        "No regret for a, b, c: own heads make no error there, so there is no loss to compare with.",
        NO_NOISE,
    )
    noisy = regret(z, y + 1e-3 * scale * rng.normal(size=300), env, n_boot=99)
    assert 0 < noisy.pvalue <= 1


def test_relations_without_noise_that_differ_are_not_passed_over(seed):
    rng = np.random.default_rng(seed)
    env, z = np.repeat(["a", "b", "c"], 100), rng.normal(size=(300, 1))
    result = regret(z, np.repeat([1.0, 2.0, 3.0], 100) * z[:, 0], env, n_boot=99)
    assert result.value == math.inf
    assert result.interval == result.worst_interval == (math.inf, math.inf)
    assert {one.value for one in result.per_environment.values()} == {math.inf}
    assert math.isnan(result.pvalue)
    assert result.notes == (
        "The regret of a, b, c is infinite: its own head makes no error there and the shared head does. So the heads "
        "differ; by how much of a loss of 0 nobody can say.",
        NO_NOISE,
    )
    alone = regret(z, np.repeat([1.0, 2.0, 3.0], 100) * z[:, 0], env, n_boot=0)
    assert alone.value == math.inf
    assert np.isnan([*alone.interval, *alone.worst_interval]).all()


def test_heads_that_are_exact_to_the_last_digit_are_no_division_by_zero():
    z, env = np.arange(40.0) % 10, np.repeat(["a", "b"], 20)
    same, apart = regret(z, 2.0 * z, env, n_boot=99), regret(z, np.where(env == "a", z, -z), env, n_boot=99)
    assert math.isnan(same.value)
    assert apart.value == math.inf
    assert np.isnan([same.pvalue, apart.pvalue]).all()


@pytest.mark.parametrize("half", [10, 27, 55, 61])
def test_constant_predictions_of_balanced_classes_are_no_root_of_rounding(half):
    """Their losses do not vary at all: rounding left less than nothing of their variance (warnings are errors)."""
    result = regret(np.full(4 * half, 0.3), np.tile([0, 1], 2 * half), np.repeat(["a", "b"], 2 * half), n_boot=99)
    assert result.value == pytest.approx(0, abs=0.1)
    assert np.isfinite(result.interval).all()


def test_the_score_test_leaves_out_who_shows_no_noise():
    """Classes that own heads split by chance: judged by the residuals of those heads, the shared one would always be
    called wrong: all of these sets, of one law for all environments, were rejected."""
    rejected = 0
    for draw in (4, 5, 6, 10, 15, 20, 21, 23, 36, 38):
        rng = np.random.default_rng(draw)
        z, env = rng.normal(size=(400, 3)), np.repeat(["a", "b", "c", "d"], 100)
        z[env == "a", 0] *= 8
        y = (2 * z[:, 0] + rng.logistic(size=400) > 0).astype(int)
        result = regret(z, y, env, n_boot=99, seed=draw)
        rejected += result.pvalue < 0.05
        assert math.isnan(result.per_environment["a"].value), draw
        assert "The score test judges the others: there is no noise to judge a by." in result.notes
    assert rejected <= 2
    # and it still sees that the others differ
    y = np.where(env == "d", 1 - y, y)
    assert regret(z, y, env, n_boot=99).pvalue == 0.01


def split_by_chance(draw: int, sizes: tuple[int, ...] = (15, 300, 300)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One law for all environments, of which the first has so few rows that a head may split its classes."""
    rng = np.random.default_rng(draw)
    z, env = rng.normal(size=(sum(sizes), 3)), np.repeat(list("abc")[: len(sizes)], sizes)
    return z, (z @ [1.5, -1.0, 0.5] + rng.logistic(size=len(z)) > 0).astype(int), env


def test_who_is_split_by_chance_does_not_move_the_head_that_is_tested():
    """Chance splits classes that lie far apart, and these would pull the head outwards every time."""
    z, y, env = next(
        rows
        for rows in map(split_by_chance, range(50))
        if math.isnan(regret(*rows, n_boot=0).per_environment["a"].value)
    )
    result, others = regret(z, y, env, n_boot=99), regret(z[15:], y[15:], env[15:], n_boot=99)
    assert result.statistic == pytest.approx(others.statistic, rel=1e-6)
    assert "The score test judges the others: there is no noise to judge a by." in result.notes
    # the shared head, whose costs are told, is still that of all
    assert regret(z, y, env, n_boot=0).shared_loss[1] > others.shared_loss[0]


def test_one_that_is_left_is_compared_with_nobody():
    z, y, env = next(
        rows
        for rows in (split_by_chance(draw, (12, 300)) for draw in range(50))
        if math.isnan(regret(*rows, n_boot=0).per_environment["a"].value)
    )
    result = regret(z, y, env, n_boot=99)
    assert math.isnan(result.pvalue)
    assert len(result.null) == 0
    assert "No p-value: only the head of b makes errors, and there is no other to compare." in result.notes


def test_a_missing_code_in_rows_of_weight_zero_hides_no_error():
    """Such rows are not there: neither in the scale that rounding is judged by, nor in the centre of the sums."""
    rng = np.random.default_rng(0)
    z, env = rng.normal(size=(600, 2)), np.repeat(["a", "b"], 300)
    y, weight = z[:, 0] + (env == "b") * 0.8 * z[:, 1] + rng.normal(size=600), np.ones(600)
    weight[::20] = 0
    there = weight > 0
    coded = regret(z, np.where(there, y, -99_999_999.0), env, weight=weight, n_boot=99)
    dropped = regret(z[there], y[there], env[there], n_boot=99)
    assert values(coded) == pytest.approx(values(dropped), rel=1e-9)
    assert coded.statistic == pytest.approx(dropped.statistic, rel=1e-9)
    assert not any("no error" in note for note in coded.notes)


def test_small_numbers_beside_large_ones_have_errors_of_their_own():
    rng = np.random.default_rng(1)
    z, env = rng.normal(size=(600, 2)), np.repeat(["a", "b"], 300)
    y = z[:, 0] + rng.normal(size=600)
    y[env == "b"] = 1e7 * (y[env == "b"] - y[env == "b"].mean())
    result = regret(z, y, env, n_boot=99)
    assert np.isfinite(values(result)).all()
    assert not any("no error" in note for note in result.notes)


@pytest.mark.parametrize(("task", "needed"), [("regression", 5 + 5), ("binary", 5 + 5), ("multiclass", 2 * 5 + 5)])
def test_too_few_rows_name_the_environment(task, needed, seed):
    data = null_same_law(n=(300, needed - 1), d=4, environments=2, task="regression", seed=seed)
    classes = CLASSES[task]
    y = data.y if classes == 0 else np.arange(len(data.y)) % classes
    with pytest.raises(InputError, match=rf'hospital "B" has {needed - 1}\b.*4 columns needs at least {needed}\b'):
        regret(data.X, y, pd.Series(np.array(["A", "B"])[data.env], name="hospital"))
    enough = null_same_law(n=(300, needed), d=4, environments=2, task="regression", seed=seed)
    y = enough.y if classes == 0 else np.random.default_rng(seed).permutation(np.arange(len(enough.y)) % classes)
    regret(enough.X, y, enough.env, n_boot=99)


@pytest.mark.parametrize(
    ("sizes", "remedy"),
    [
        ((100, 100, 6), "Drop it, or merge it with another."),
        ((100, 6), "Add rows to it."),
        ((6, 5), "Collect more rows in every site."),
    ],
)
def test_of_one_column_nobody_is_told_to_use_fewer(sizes, remedy, seed):
    X, y, env = world("regression", sizes, 1, seed)
    with pytest.raises(InputError, match=rf"on 1 column needs at least 7\. {remedy}$"):
        regret(X, y, pd.Series(env, name="site"))


def test_unusable_settings_are_refused(seed):
    X, y, env = world("regression", (60, 60), 2, seed)
    for wrong in ({"folds": 1}, {"n_boot": 10}, {"task": "ranking"}):
        with pytest.raises(InputError):
            regret(X, y, env, **wrong)
    with pytest.raises(InputError, match="no target"):
        regret(X, None, env)
    with pytest.raises(InputError, match="only one environment"):
        regret(X, y, np.zeros(len(y)))


# --- intervals, piece by piece ---------------------------------------------------------------------------------------
def test_draws_are_centred_and_scale_with_the_rows(seed):
    data = null_shifted(n=(150, 400), d=3, environments=2, seed=seed)
    fit = fit_of(data.X, data.y, data.env)
    draws, scale = draw_excess(fit, 20_000, np.random.default_rng(seed))
    assert draws.linear.shape == draws.quadratic.shape == (20_000, 2)
    error = draws.quadratic.std(axis=0) / np.sqrt(20_000)
    inflation = (fit.rows - 4) / (fit.rows - 6) - 1  # the mean of an F draw; which one depends on whose noise it is
    assert np.all(draws.quadratic.mean(axis=0) > inflation.min() * fit.noise_excess - 5 * error)
    assert np.all(draws.quadratic.mean(axis=0) < inflation.max() * fit.noise_excess + 5 * error)
    assert np.all(np.abs(draws.linear.mean(axis=0)) < 5 * draws.linear.std(axis=0) / np.sqrt(20_000))
    np.testing.assert_allclose(scale, (fit.losses[:, 0] - fit.losses[:, 1]) / fit.rows)


def test_inversion_of_pure_shift_and_of_pure_scale(seed):
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(4001)
    # below zero: the interval of a shift
    ends = invert(Draws(np.zeros(4001), noise), 1.0, -5.0)
    np.testing.assert_allclose(ends, -5.0 - np.quantile(noise, [0.975, 0.025], method="weibull"), rtol=1e-12)
    # without quadratic noise: τ² + τ u = observed has the root τ = (−u + √(u² + 4 observed)) / 2
    unit = 0.1 * noise
    ends = invert(Draws(2.0 * unit, np.zeros(4001)), 4.0, 1.0)
    quantiles = np.quantile(unit, [0.975, 0.025], method="weibull")
    np.testing.assert_allclose(ends, ((-quantiles + np.sqrt(quantiles**2 + 4)) / 2) ** 2, rtol=1e-6)
    assert invert(Draws(2.0 * unit, np.zeros(4001)), 4.0, 1.0, tail=0.005)[0] < ends[0]
    # an end is a value under which the observed one is just as extreme as allowed
    draws = Draws(0.3 * rng.standard_normal(4001), rng.chisquare(3, 4001) / 3 - 1)
    low, high = invert(draws, 1.0, 4.0)
    assert 0 < low < 4.0 < high
    for end, share in ((low, 0.025), (high, 0.975)):
        simulated = end + np.sqrt(end) * draws.linear + draws.quadratic
        assert np.mean(simulated >= 4.0) == pytest.approx(share, abs=2 / 4001)


def test_intervals_shrink_with_rows(seed):
    widths = []
    for n in (200, 20_000):
        Z, y, env, _, _ = slopes_by_hand((0.5, -0.5), (1.0, 1.0), (1.0, 1.0), (n, n), np.random.default_rng(seed))
        low, high = regret(Z, y, env, n_boot=499).interval
        widths.append(high - low)
    assert widths[0] / widths[1] == pytest.approx(10, rel=0.5)
    assert low > 0.15
    assert high < 0.35


def test_many_copies_of_the_same_rows_keep_the_value(seed):
    """Rows given k times: noise corrections shrink like 1/k, the in-sample excess stays."""
    X, y, env = world("regression", (200, 200), 2, seed)
    once = regret(X, y, env, n_boot=99)
    often = regret(*(np.repeat(part, 100, axis=0) for part in (X, y, env)), n_boot=99)
    fit = fit_of(X, y, env)
    plain = fit.losses[:, 0] / fit.losses[:, 1] - 1
    np.testing.assert_allclose(values(often), plain, rtol=0.02, atol=1e-3)
    assert np.all(values(once) <= plain)


def test_many_rows_need_no_leave_one_out(seed, monkeypatch):
    """Where single rows weigh nothing, leverages are replaced by their mean: unseen, even with heavy tails."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((60_000, 6)) * rng.standard_t(5, size=(60_000, 1))
    env = rng.integers(0, 3, 60_000)
    y = Z[:, 0] + 0.1 * env * Z[:, 1] + rng.standard_normal(60_000)
    fast = regret(Z, y, env, n_boot=99)
    monkeypatch.setattr("invariscope.criteria.regret.shared_head.UNNOTICED", 0.0)
    exact = regret(Z, y, env, n_boot=99)
    assert fast.value != exact.value  # or nothing was replaced
    for label in range(3):
        assert fast.per_environment[label].value == pytest.approx(exact.per_environment[label].value, abs=2e-5)
    np.testing.assert_allclose(fast.own_loss, exact.own_loss, rtol=2e-4)


def test_a_column_that_is_constant_in_the_rows_that_count_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 2)), np.repeat([0, 1], 150)
    y, weight = X[:, 0] + rng.normal(size=300), (np.arange(300) % 10 > 0).astype(float)
    X[weight > 0, 1] = 3.0
    (note,) = regret(X, y, env, weight=weight, n_boot=99).notes
    assert note.startswith("1 parameters of the head are redundant: columns that are constant (x1), follow")
