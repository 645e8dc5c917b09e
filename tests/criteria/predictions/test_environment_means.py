from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from invariscope.criteria.predictions.environment_means import (
    FEW_ROWS,
    NO_INTERVAL,
    EnvironmentMeans,
    _cumulants,
    _quadratic_form_cdf,
    environment_means,
    few_rows_notes,
    quadratic_interval,
)
from invariscope.criteria.predictions.irm_penalty import irm_penalty
from invariscope.criteria.predictions.risk_variance import risk_variance
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk
from invariscope.rows.environments import Environments


def test_means_and_students_interval_agree_with_scipy(seed):
    rng = np.random.default_rng(seed)
    values, env = rng.gamma(2.0, size=60), np.repeat([0, 1, 2], [10, 20, 30])
    means = environment_means(Environments(values, None, env), values)
    low, high = means.ends()
    for k in range(3):
        part = values[env == k]
        expected = stats.t.interval(0.95, len(part) - 1, part.mean(), stats.sem(part))
        assert means.value[k] == pytest.approx(part.mean(), rel=1e-13)
        assert (low[k], high[k]) == pytest.approx(expected, rel=1e-10)


def test_share_has_wilsons_interval_even_without_a_single_hit():
    means = EnvironmentMeans(np.array([0.0, 0.25]), np.array([0.0, 0.01]), np.array([20.0, 20.0]), share=True)
    low, high = means.ends()
    for k, hits in enumerate((0, 5)):
        expected = stats.binomtest(hits, 20).proportion_ci(0.95, method="wilson")
        assert (low[k], high[k]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert means.spread[0] > 0


def test_spread_survives_a_mean_that_dwarfs_it():
    values = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    means = environment_means(Environments(values, None, [0, 0, 1, 1]), values)
    assert means.squared_error == pytest.approx([0.25, 0.25], rel=1e-9)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("size", [0.2, 1.0, 4.0, 50.0])
def test_quadratic_interval_is_exact_for_equal_spreads(centred, size, seed):
    rng = np.random.default_rng(seed)
    value, spread = size * rng.normal(size=5), np.full(5, 0.7)
    low, high = quadratic_interval(value, spread, centred=centred)
    freedom = 4 if centred else 5
    observed = float(np.sum((value - value.mean() if centred else value) ** 2)) / 0.49
    plug_in = observed * 0.49 / 5
    if low > 0:
        assert stats.ncx2.sf(observed, freedom, low * 5 / 0.49) == pytest.approx(0.025, abs=1e-8)
    else:
        assert stats.chi2.sf(observed, freedom) >= 0.025 - 1e-8
    if high > plug_in:
        assert stats.ncx2.cdf(max(observed, freedom), freedom, high * 5 / 0.49) == pytest.approx(0.025, abs=1e-8)
    assert 0 <= low <= plug_in <= high


def test_distribution_of_the_quadratic_form_matches_simulation(seed):
    rng = np.random.default_rng(seed)
    variance, mean = np.array([0.2, 0.5, 1.0, 2.3]), np.array([0.5, -1.0, 1.5, 0.0])
    deviation = mean - mean.mean()
    noise, _ = _cumulants(np.zeros(4), variance, centred=True)
    projection = np.eye(4) - 0.25
    signal, vector = np.empty(4), deviation
    for k in range(4):
        signal[k] = (k + 1) * (deviation @ vector)
        vector = projection @ (variance * vector)
    draws = mean + np.sqrt(variance) * rng.normal(size=(200_000, 4))
    forms = np.sum((draws - draws.mean(axis=1, keepdims=True)) ** 2, axis=1)
    for probability in (0.025, 0.25, 0.5, 0.75, 0.975):
        # Monte-Carlo error is below 0.0011; the rest is the error of matching four moments
        assert _quadratic_form_cdf(np.quantile(forms, probability), noise + signal) == pytest.approx(
            probability, abs=0.012
        )


def test_cumulants_are_traces():
    variance = np.array([0.3, 1.0, 2.0])
    noise, _ = _cumulants(np.array([1.0, 0.0, -1.0]), variance, centred=True)
    matrix = (np.eye(3) - 1 / 3) @ np.diag(variance)
    power = np.eye(3)
    for k in range(4):
        power = power @ matrix
        assert noise[k] == pytest.approx(np.trace(power), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-140, 1e-6, 1e10, 1e140])
def test_quadratic_interval_scales_with_the_unit(scale):
    value, spread = np.array([1.0, 2.0, 4.0]), np.array([0.3, 0.2, 0.5])
    low, high = quadratic_interval(value, spread, centred=True)
    scaled = quadratic_interval(scale * value, scale * spread, centred=True)
    assert scaled == pytest.approx((low * scale**2, high * scale**2), rel=1e-9, abs=0)
    assert 0 < low < np.var(value) < high


def test_quadratic_interval_at_its_borders():
    flat = quadratic_interval(np.ones(3), np.full(3, 0.1), centred=True)
    assert flat[0] == 0
    assert flat[1] > 0.01  # equal means do not prove equal truths
    assert quadratic_interval(np.array([1.0, 3.0]), np.zeros(2), centred=True) == (1.0, 1.0)
    assert np.isnan(quadratic_interval(np.array([1.0, 3.0]), np.array([np.nan, 1.0]), centred=True)).all()
    # with a million times more signal than noise the interval is the delta method's
    low, high = quadratic_interval(np.array([0.0, 2.0]), np.full(2, 1e-6), centred=True)
    half = stats.norm.ppf(0.975) * np.sqrt(2) * 1e-6
    assert (low, high) == pytest.approx((1 - half, 1 + half), abs=1e-8)


def test_many_environments_are_quick_enough(seed):
    rng = np.random.default_rng(seed)
    low, high = quadratic_interval(rng.normal(size=300), np.full(300, 0.1), centred=True)
    assert 0.6 < low < high < 1.5


def test_few_rows_are_said_of_the_environments_that_have_them() -> None:
    def notes(*rows: int) -> tuple[str, ...]:
        labels = np.repeat([f"e{number}" for number in range(len(rows))], rows)
        return few_rows_notes(Environments(np.zeros((len(labels), 1)), None, labels))

    assert FEW_ROWS == 30
    assert notes(30, 31) == ()
    assert notes(30, 29, 40, 2) == ("Fewer than 30 rows in e1, e3: intervals there are rough.",)
    assert notes(*[2] * 5, 30) == ("Fewer than 30 rows in e0, e1, e2, e3, e4: intervals there are rough.",)
    assert notes(*[2] * 7) == ("Fewer than 30 rows in e0, e1, e2, e3, e4 and 2 more: intervals there are rough.",)


def test_rows_that_are_all_alike_say_nothing_of_noise() -> None:
    """No certainty: the next row may be another. Losses of 0.1 in every row differ by rounding at most."""
    env = np.repeat(["a", "b"], 30)
    y = np.tile([1.0, 3.0], 30)
    for off in (0.0, 0.1):
        predictions = np.where(env == "a", y + off, y + np.arange(60) % 4)
        for criterion in (risk_variance, worst_environment_risk, irm_penalty):
            constant = np.where(env == "a", 2.0, predictions) if criterion is irm_penalty else predictions
            target = np.where(env == "a", 2.0 - off, y) if criterion is irm_penalty else y
            result = criterion(constant, target, env, task="regression")
            assert np.isnan([*result.interval, *result.per_environment["a"].interval]).all()
            assert np.isfinite(result.per_environment["b"].interval).all()
            assert np.isfinite(result.value)
            assert NO_INTERVAL in result.notes
    share = risk_variance(np.full(60, 0.1), np.r_[np.zeros(59), 1.0], env, loss="zero_one")  # Wilson knows what to say
    assert share.per_environment["a"].value == 0.0
    assert share.per_environment["a"].interval[1] > 0.05
    assert NO_INTERVAL not in share.notes
