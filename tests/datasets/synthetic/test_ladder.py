"""The ladder of predictors: what f_β and φ_β are, their population regret, and where it grows with β."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.regret.regret import regret
from invariscope.datasets.synthetic.bayesian_network import bayesian_network, two_domain_example
from invariscope.datasets.synthetic.ladder import ladder
from invariscope.datasets.synthetic.linear_sem import SETTINGS, linear_sem, linear_sem_b6
from invariscope.datasets.synthetic.nonlinear_sem import nonlinear_sem
from invariscope.datasets.synthetic.nulls import null_same_law
from invariscope.errors import InputError
from tests.reference import structural


def test_predictions_and_representations_row_by_row(seed):
    data = nonlinear_sem("PEU", n=5, n_test=2, seed=seed, square=True)
    steps = ladder(data, betas=(0.0, 0.3, 1.0))
    assert steps.predictions.shape == (3, 21)
    for b, beta in enumerate((0.0, 0.3, 1.0)):
        for i, (x1, x1_squared, x2) in enumerate(data.X):
            np.testing.assert_array_equal(steps.representation(beta)[i], [x1, x1_squared, beta * x2])
            w = data.truth["erm"]
            expected = w[0] * x1 + w[1] * x1_squared + w[2] * beta * x2 + data.truth["erm_intercept"]
            assert steps.predictions[b, i] == pytest.approx(expected, rel=1e-10)


def test_default_steps():
    assert ladder(linear_sem(n=5)).betas.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


@pytest.mark.parametrize("setting", SETTINGS)
def test_last_step_is_least_squares_and_first_is_invariant(setting, seed):
    data = linear_sem(setting, n=(20, 30, 40), seed=seed)
    steps = ladder(data)
    np.testing.assert_allclose(steps.predictions[-1], data.X @ data.truth["erm"], rtol=1e-10)
    np.testing.assert_allclose(steps.regret[-1], list(data.truth["erm_regret"].values()), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(steps.regret[0], 0.0, atol=1e-9)
    covariances = list(data.truth["covariance"].values())
    half = data.truth["erm"] * np.repeat([1.0, 0.5], 5)
    expected = structural.regret_of_prediction(half, covariances, [np.zeros(11)] * 3)
    np.testing.assert_allclose(steps.regret[5], expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("make", [*SETTINGS, "B.6", "network"])
def test_mean_regret_grows_with_every_step(make, seed):
    if make == "network":
        data = bayesian_network(n=10, component=0, seed=seed)
    else:
        data = linear_sem_b6(n=10, seed=seed) if make == "B.6" else linear_sem(make, n=10, seed=seed)
    assert np.all(np.diff(ladder(data).regret.mean(axis=1)) > 1e-4)


@pytest.mark.slow
def test_growth_is_no_law():
    """What the docstring says about where the regret does not grow with β."""
    hidden = [ladder(linear_sem("PEU", n=10, hidden_scale=1.0, seed=k)).regret.mean(axis=1) for k in range(200)]
    assert 0.15 < np.mean([np.all(np.diff(values) > 0) for values in hidden]) < 0.35
    values = ladder(nonlinear_sem("FEU", n=10)).regret.mean(axis=1)
    assert values[-1] < values[0]
    np.testing.assert_allclose(values[1:], values[-1], rtol=1e-6)  # no weight on x1: f_β is x2 up to scale


def test_a_refitted_head_undoes_every_beta_but_zero(seed):
    data = linear_sem("FEU", n=500, seed=seed)
    steps = ladder(data)
    found = [regret(steps.representation(beta), data.y, data.env, n_boot=99).value for beta in (0.0, 0.1, 0.5, 1.0)]
    np.testing.assert_allclose(found[1:], found[1], rtol=1e-5)
    assert found[1] > found[0] + 0.1


def test_without_known_moments_the_head_comes_from_the_training_rows(seed):
    data = two_domain_example(n=50, seed=seed)
    steps = ladder(data)
    assert steps.regret is None
    design = np.column_stack([data.X, np.ones(100)])
    residual = data.y - steps.predictions[-1]
    np.testing.assert_allclose(design.T @ residual, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (null_same_law(n=5), {}, "every column of these data is invariant"),
        (bayesian_network(n=5), {}, "component=0"),
        (linear_sem(n=5), {"betas": ()}, "finite numbers"),
        (linear_sem(n=5), {"betas": (0.0, np.nan)}, "finite numbers"),
    ],
)
def test_impossible_requests_are_refused_in_words(data, options, words):
    with pytest.raises(InputError, match=words):
        ladder(data, **options)
