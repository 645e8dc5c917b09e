"""The Bayesian network and the two domains: covariances, closed forms, published numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.datasets.entry import facts
from invariscope.datasets.synthetic.bayesian_network import ENTRIES, bayesian_network, two_domain_example
from invariscope.errors import InputError
from tests.reference import structural

SCALES = np.array([0.2, 0.7, 1.2, 1.7, 2.2])


@pytest.mark.parametrize("weights", ["identity", "random"])
@pytest.mark.parametrize("component", [None, 2])
def test_covariances_are_those_of_the_equations(weights, component, seed):
    data = bayesian_network(n=5, dim=3, seed=seed, weights=weights, component=component)
    whole = bayesian_network(n=5, dim=3, seed=seed, weights=weights)
    kept = range(9) if component is None else [*range(6), 6 + component]
    for e in SCALES:
        expected = structural.network_covariance(e, whole.truth["head"], whole.truth["effect_weights"])
        np.testing.assert_allclose(data.truth["covariance"][e], expected[np.ix_(kept, kept)], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 5])
@pytest.mark.parametrize("n", [1000, (10, 10, 10, 10, 60)])
def test_identity_weights_in_closed_form(dim, n):
    rows = np.broadcast_to(n, 5)
    mean = float(np.average(SCALES**2, weights=rows))
    data = bayesian_network(n=n, dim=dim)
    one = np.eye(dim)
    np.testing.assert_allclose(data.truth["erm"], np.vstack([mean * one, one]) / (1 + mean), atol=1e-12)
    for name in ("causal_error", "noncausal_error"):
        assert data.truth[name] == pytest.approx(dim / (1 + mean) ** 2, rel=1e-10)
    # 1/m in the variance; with unequal rows the influences do not average to 0, but their spread is the same
    expected = np.log(2 * dim * np.var(SCALES**2) / (1 + mean) ** 4)
    assert data.truth["V"] == pytest.approx(expected, abs=1e-10)
    single = bayesian_network(n=n, dim=dim, component=dim - 1)
    assert single.truth["V"] == pytest.approx(expected - np.log(dim), abs=1e-10)
    np.testing.assert_allclose(single.truth["erm"], data.truth["erm"][:, -1], atol=1e-12)
    np.testing.assert_allclose(list(data.truth["invariant_risk"].values()), dim, rtol=1e-10)
    # y given (x1, x2): weight s̄/(1+s̄) off the noise of y, 1/(1+s̄) on that of x2
    risks = dim * (mean**2 + SCALES**2) / (1 + mean) ** 2
    np.testing.assert_allclose(list(data.truth["erm_risk"].values()), risks, rtol=1e-10)


def test_errors_of_least_squares_are_near_the_published_ones():
    truth = bayesian_network().truth
    assert truth["causal_error"] == pytest.approx(5 * (1 / (1 + np.mean(SCALES**2))) ** 2)
    assert truth["causal_error"] == pytest.approx(0.582, abs=0.005)
    assert truth["noncausal_error"] == pytest.approx(0.581, abs=0.005)
    assert any("15.844" in choice for choice in bayesian_network(n=5).choices)


def test_random_weights_truths_follow_from_the_covariances(seed):
    data = bayesian_network(n=(5, 6, 7, 8, 9), seed=seed, weights="random", component=1)
    covariances = list(data.truth["covariance"].values())
    rows = [5, 6, 7, 8, 9]
    assert data.truth["V"] == pytest.approx(structural.influence_index(covariances, rows), abs=1e-8)
    expected = structural.regret_of_prediction(data.truth["erm"], covariances, [np.zeros(11)] * 5)
    np.testing.assert_allclose(list(data.truth["erm_regret"].values()), expected, rtol=1e-7, atol=1e-10)
    assert data.truth["noncausal_error"] == pytest.approx(np.sum(data.truth["erm"][5:] ** 2))
    assert data.truth["causal_error"] == pytest.approx(np.sum((data.truth["erm"][:5] - data.truth["head"]) ** 2))
    np.testing.assert_allclose(data.truth["population"].selected(data.invariant).regrets(), 0.0, atol=1e-10)


def test_a_component_is_a_column_of_the_same_rows(seed):
    whole = bayesian_network(n=20, seed=seed, weights="random", n_test=5)
    assert whole.y.shape == (125, 5)
    assert whole.test.y.shape == (25, 5)
    for k in range(5):
        one = bayesian_network(n=20, seed=seed, weights="random", component=k, n_test=5)
        np.testing.assert_array_equal(one.X, whole.X)
        np.testing.assert_array_equal(one.y, whole.y[:, k])
        np.testing.assert_array_equal(one.truth["head"], whole.truth["head"][:, k])
        np.testing.assert_allclose(one.truth["erm"], whole.truth["erm"][:, k], rtol=1e-9, atol=1e-12)


def test_closed_form_of_equal_domains_is_the_published_one():
    truth = two_domain_example(sigma=(0.7, 1.9), n=10).truth
    s = 0.7**2 + 1.9**2
    np.testing.assert_allclose(truth["beta"], [s / (s + 2), 2 / (s + 2)], rtol=1e-14)
    assert truth["V"] == pytest.approx(2 * np.log(2 * np.sqrt(2) * (1.9**2 - 0.7**2) / (s + 2) ** 2), rel=1e-14)
    assert two_domain_example(sigma=(1.3, 1.3), n=10).truth["V"] == -np.inf


def test_entries_agree_with_what_is_published():
    assert [entry.name for entry in ENTRIES] == ["bayesian_network", "two_domain_example"]
    for entry in ENTRIES:
        for number in entry.published:
            assert facts(entry.load(**number.options))[number.what] == number.value


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        (bayesian_network, {"weights": "ones"}, '"identity" or "random"'),
        (bayesian_network, {"dim": 0}, "give a whole number from 1"),
        (bayesian_network, {"component": 5}, "from 0 to 4"),
        (bayesian_network, {"component": -1}, "from 0 to 4"),
        (bayesian_network, {"environments": (1.0, 1.0)}, "different positive"),
        (bayesian_network, {"n": (1, 2)}, "each of 5 environments"),
        (two_domain_example, {"sigma": (1.0, -1.0)}, "two positive numbers"),
        (two_domain_example, {"n": (1, 2, 3)}, "each of 2 environments"),
    ],
)
def test_impossible_requests_are_refused_in_words(make, options, words):
    with pytest.raises(InputError, match=words):
        make(**options)
