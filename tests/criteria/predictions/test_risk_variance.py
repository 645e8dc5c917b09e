from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.predictions.environment_means import NO_INTERVAL
from invariscope.criteria.predictions.risk_variance import risk_variance
from invariscope.errors import InputError
from invariscope.wording import number
from tests.reference import prediction_criteria as reference


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_regression_equals_the_loop(loss, seed):
    rng = np.random.default_rng(seed)
    p, y, env = rng.normal(size=90), rng.normal(size=90), rng.permutation(np.repeat([3, 1, 2], 30))
    expected = reference.risks(p.tolist(), y.tolist(), env.tolist(), loss)
    result = risk_variance(p, y, env, loss=loss)
    for label, (mean, _) in expected.items():
        assert result.per_environment[label].value == pytest.approx(mean, rel=1e-12)
    assert result.value == pytest.approx(reference.variance([mean for mean, _ in expected.values()]), rel=1e-10)
    bias = np.mean([squared for _, squared in expected.values()]) * (1 - 1 / 3)
    assert f"adds about {number(bias)} " in result.notes[0]
    assert result.unit == {"squared": "squared target units", "absolute": "target units"}[loss]


@pytest.mark.parametrize("loss", ["log_loss", "zero_one"])
def test_classes_equal_the_loop(loss, seed):
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.ones(4), size=120), np.repeat(["u", "v", "w"], 40)
    y = rng.permuted(np.tile(np.arange(4), (3, 10)), axis=1).ravel()
    expected = reference.risks(p.tolist(), y.tolist(), env.tolist(), loss)
    result = risk_variance(p, y, env, loss=loss)
    assert result.value == pytest.approx(reference.variance([mean for mean, _ in expected.values()]), rel=1e-10)
    for label, (mean, _) in expected.items():
        assert result.per_environment[label].value == pytest.approx(mean, rel=1e-12)
    assert result.unit == {"log_loss": "log-loss (nats)", "zero_one": "share"}[loss]
    assert result.worst == max(expected, key=lambda label: expected[label][0])


def test_by_hand():
    # squared errors: a 1, 1, 4, 4 (mean 2.5); b 0, 0, 1, 1 (mean 0.5): variance ((1)² + (1)²) / 2
    result = risk_variance([1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0, 2, 0, 4, 3, 4, 6, 5], list("aaaabbbb"))
    assert result.value == pytest.approx(1.0, rel=1e-14)
    assert (result.per_environment["a"].value, result.per_environment["b"].value) == (2.5, 0.5)
    # s²/n: a 3/4, b (1/3)/4; half the mean of both is noise
    assert result.notes[0] == "Sampling noise alone adds about 0.208 to this number; without it 0.792 is left."
    small = risk_variance(
        1e-4 * np.array([1.0, 1, 2, 2, 3, 4, 5, 6]), 1e-4 * np.array([0.0, 2, 0, 4, 3, 4, 6, 5]), list("aaaabbbb")
    )
    assert small.notes[0].endswith("adds about 2.08 × 10⁻¹⁷ to this number; without it 7.92 × 10⁻¹⁷ is left.")


def test_log_loss_of_two_classes_by_hand():
    """Minus the logarithm of the probability that was given to the class that occurred."""
    result = risk_variance([0.8, 0.1, 0.5, 0.75], [1, 0, 1, 0], list("aabb"))
    assert result.per_environment["a"].value == pytest.approx(-(np.log(0.8) + np.log(0.9)) / 2, rel=1e-14)
    assert result.per_environment["b"].value == pytest.approx(-(np.log(0.5) + np.log(0.25)) / 2, rel=1e-14)
    assert result.worst == "b"


@pytest.mark.parametrize("alias", ["log", "cross_entropy", "logistic", "softmax"])
def test_a_loss_has_one_name(alias):
    with pytest.raises(InputError, match=f'loss "{alias}" is unknown: use "auto", "squared", "absolute", "log_loss"'):
        risk_variance([0.2, 0.9, 0.4, 0.6], [0, 1, 0, 1], list("aabb"), loss=alias)


def test_ties_go_to_the_first_class():
    result = risk_variance([0.5, 0.5, 0.5, 0.6], [0, 1, 0, 1], list("aabb"), loss="zero_one")
    assert result.per_environment["a"].value == 0.5
    assert result.per_environment["b"].value == 0.0


def test_equal_risks_have_no_variance_but_an_interval():
    y = np.tile([1.0, -1.0, 3.0, -3.0], 20)
    result = risk_variance(np.zeros(80), y, np.repeat(["a", "b"], 40))
    assert result.value == pytest.approx(0.0, abs=1e-20)
    assert result.interval[0] == 0
    assert result.interval[1] > 0.1
    assert "explains all of it" in result.notes[0]


def test_no_errors_at_all_still_leave_uncertainty():
    y = np.tile([0, 1], 20)
    result = risk_variance(y.astype(float), y, np.repeat(["a", "b"], 20), loss="zero_one")
    assert result.value == 0
    assert result.interval[0] == 0
    assert result.interval[1] > 0
    assert result.per_environment["a"].interval == pytest.approx((0, 0.1611), abs=1e-4)  # Wilson at 0 of 20


def test_more_rows_narrow_the_interval_around_the_same_value():
    rng = np.random.default_rng(7)
    y, env = rng.normal(size=200) * np.repeat([1.0, 2.0], 100), np.repeat(["a", "b"], 100)
    once = risk_variance(np.zeros(200), y, env)
    often = risk_variance(np.zeros(200), y, env, weight=np.full(200, 100))
    assert often.value == pytest.approx(once.value, rel=1e-12)
    assert once.interval[0] < often.interval[0] < often.value < often.interval[1] < once.interval[1]
    assert np.diff(often.interval)[0] < np.diff(once.interval)[0] / 5


def test_huge_units_are_no_problem():
    y, env = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -1.0]), list("aaabbb")
    small, large = risk_variance(np.zeros(6), y, env), risk_variance(np.zeros(6), 1e15 * y, env)
    assert large.value == pytest.approx(1e60 * small.value, rel=1e-12)
    assert large.interval == pytest.approx((1e60 * small.interval[0], 1e60 * small.interval[1]), rel=1e-9)


def test_without_noise_there_is_nothing_to_say_about_it():
    """Squared errors of 1 in every row of a, of 4 in every row of b: ((2.5 − 1)² + (4 − 2.5)²) / 2."""
    result = risk_variance(np.repeat([1.0, 2.0], 30), np.zeros(60), np.repeat(["a", "b"], 30), task="regression")
    assert result.value == 2.25
    assert result.notes == (NO_INTERVAL,)  # and nothing of what noise adds
