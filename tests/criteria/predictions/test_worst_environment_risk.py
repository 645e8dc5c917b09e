from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk
from tests.reference import prediction_criteria as reference


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_value_and_interval_equal_the_definition(loss, seed):
    rng = np.random.default_rng(seed)
    env = np.repeat(["u", "v", "w"], [20, 30, 40])
    p, y = rng.normal(size=90), rng.normal(size=90)
    expected = reference.risks(p.tolist(), y.tolist(), env.tolist(), loss)
    result = worst_environment_risk(p, y, env, loss=loss)
    assert result.value == pytest.approx(max(mean for mean, _ in expected.values()), rel=1e-12)
    assert result.worst == max(expected, key=lambda label: expected[label][0])
    lower, upper = [], []
    for label, (mean, squared) in expected.items():
        freedom = np.sum(env == label) - 1
        lower.append(mean - stats.t.ppf(1 - 0.025 / 3, freedom) * squared**0.5)
        upper.append(mean + stats.t.ppf(0.975, freedom) * squared**0.5)
    assert result.interval == pytest.approx((max(0.0, *lower), max(upper)), rel=1e-10)


def test_classes_equal_the_loop(seed):
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.ones(3), size=90), np.repeat([1, 2, 3], 30)
    y = rng.permuted(np.tile(np.arange(3), (3, 10)), axis=1).ravel()
    for loss in ("log_loss", "zero_one"):
        expected = reference.risks(p.tolist(), y.tolist(), env.tolist(), loss)
        result = worst_environment_risk(p, y, env, loss=loss)
        assert result.value == pytest.approx(max(mean for mean, _ in expected.values()), rel=1e-12)


def test_share_of_errors_uses_wilsons_ends():
    y = np.tile([0, 1], 20)
    p = y.astype(float)
    p[:5] = 1 - p[:5]  # 5 of 20 wrong in a, none in b
    result = worst_environment_risk(p, y, np.repeat(["a", "b"], 20), loss="zero_one")
    assert (result.value, result.worst, result.unit) == (0.25, "a", "share")
    narrow = stats.binomtest(5, 20).proportion_ci(0.95, method="wilson")
    wide = stats.binomtest(5, 20).proportion_ci(0.975, method="wilson")
    assert result.interval == pytest.approx((wide.low, narrow.high), rel=1e-9)


def test_lower_end_never_falls_below_zero():
    result = worst_environment_risk([0.0, 0.0, 0.0, 0.0], [0.1, 3.0, 0.1, 2.0], list("aabb"), task="regression")
    assert result.interval[0] == 0
    assert result.per_environment["b"].interval[0] == 0


def test_rivals_of_the_worst_environment_are_named():
    rng = np.random.default_rng(1)
    y = rng.normal(size=300) * np.repeat([2.0, 2.0, 0.5], 100)
    result = worst_environment_risk(np.zeros(300), y, np.repeat(["a", "b", "calm"], 100))
    other = {"a": "b", "b": "a"}[result.worst]
    assert result.notes == (
        f'Which environment is worst is not certain: "{other}" cannot be told from "{result.worst}".',
    )
    alone = worst_environment_risk(np.zeros(200), y[100:], np.repeat(["b", "calm"], 100))
    assert alone.worst == "b"
    assert alone.notes == ()
