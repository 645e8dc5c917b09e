"""The truths that synthetic data sets state are the truths of the rows they return, within Monte-Carlo bands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from invariscope.datasets import linear_sem, null_same_law, null_shifted, two_domain_example
from invariscope.datasets.synthetic import SETTINGS, Synthetic
from invariscope.errors import InputError

Floats = NDArray[np.float64]
MANY = 70_000  # rows per environment
BAND = 5.5  # standard errors: exceeded by chance about once in 25 million comparisons


def least_squares(X: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Coefficients and their heteroskedasticity-robust standard errors."""
    inverse = np.linalg.inv(X.T @ X)
    coefficients = inverse @ (X.T @ y)
    scores = X * (y - X @ coefficients)[:, None]
    return coefficients, np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse))


def by_environment(data: Synthetic) -> dict[Any, tuple[Floats, Floats]]:
    return {label: (data.X[data.env == label], data.y[data.env == label]) for label in np.unique(data.env).tolist()}


# --- linear structural equations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_best_head_on_the_causes_is_the_same_in_every_environment(setting: str, seed: int) -> None:
    data = linear_sem(setting, n=MANY, seed=seed)
    for X, y in by_environment(data).values():
        coefficients, errors = least_squares(X[:, data.invariant], y)
        assert np.all(np.abs(coefficients - data.truth["head"]) < BAND * errors)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_causes_say_nothing_nonlinear_either(setting: str, seed: int) -> None:
    """E[Y | X1] is the linear head, not merely its best linear stand-in: squares of X1 add nothing."""
    data = linear_sem(setting, n=MANY, seed=seed)
    for X, y in by_environment(data).values():
        causes = X[:, data.invariant]
        coefficients, errors = least_squares(np.hstack([causes, causes**2]), y)
        assert np.all(np.abs(coefficients[5:]) < BAND * errors[5:])


@pytest.mark.parametrize("setting", SETTINGS)
def test_with_the_effects_no_head_serves_all_environments(setting: str, seed: int) -> None:
    data = linear_sem(setting, n=20_000, seed=seed)
    fits = [least_squares(X, y) for X, y in by_environment(data).values()]
    gap = (fits[0][0] - fits[-1][0]) / np.hypot(fits[0][1], fits[-1][1])
    assert np.abs(gap).max() > 20


@pytest.mark.parametrize("setting", SETTINGS)
def test_covariance_of_the_rows_is_the_stated_one(setting: str, seed: int) -> None:
    data = linear_sem(setting, n=MANY, seed=seed)
    for label, (X, y) in by_environment(data).items():
        rows = np.column_stack([X, y])
        truth = data.truth["covariance"][label]
        errors = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / MANY)
        assert np.all(np.abs(rows.T @ rows / MANY - truth) < BAND * errors)
        assert np.all(np.abs(rows.mean(axis=0)) < BAND * np.sqrt(np.diag(truth) / MANY))


@pytest.mark.parametrize(("setting", "target_noise", "effect_noise"), [("FOU", "e", "1"), ("FEU", "1", "e")])
def test_noise_is_where_the_setting_puts_it(setting: str, target_noise: str, effect_noise: str, seed: int) -> None:
    data = linear_sem(setting, n=MANY, seed=seed)
    for e, (X, y) in by_environment(data).items():
        sizes = {"e": e, "1": 1.0}
        for noise, size in ((y - X[:, :5].sum(axis=1), target_noise), (X[:, 5] - y, effect_noise)):
            assert abs(noise.var() / sizes[size] ** 2 - 1) < BAND * np.sqrt(2 / MANY)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("n", [MANY, (20_000, 80_000, 40_000)])
def test_pooled_coefficients_are_the_stated_ones(setting: str, n: int | tuple[int, ...], seed: int) -> None:
    data = linear_sem(setting, n=n, seed=seed)
    coefficients, errors = least_squares(data.X, data.y)
    assert np.all(np.abs(coefficients - data.truth["erm"]) < BAND * errors)


@pytest.mark.parametrize("setting", SETTINGS)
def test_regret_of_the_pooled_prediction_is_the_stated_one(setting: str, seed: int) -> None:
    data = linear_sem(setting, n=MANY, seed=seed)
    prediction = data.X @ data.truth["erm"]
    parts = [(prediction[data.env == label], data.y[data.env == label]) for label in data.truth["erm_regret"]]
    own = [float(np.mean((y - f * (f @ y) / (f @ f)) ** 2)) for f, y in parts]
    shared = sum((f @ y) / risk for (f, y), risk in zip(parts, own, strict=True))
    shared /= sum((f @ f) / risk for (f, y), risk in zip(parts, own, strict=True))
    regret = [float(np.mean((y - shared * f) ** 2)) / risk - 1 for (f, y), risk in zip(parts, own, strict=True)]
    np.testing.assert_allclose(regret, list(data.truth["erm_regret"].values()), rtol=0.055, atol=2.2e-3)
    assert np.mean(list(data.truth["erm_regret"].values())) > 0.08


def test_hidden_paths_only_in_the_partially_observed_settings(seed: int) -> None:
    for setting in SETTINGS:
        moved = np.abs(linear_sem(setting, n=10, seed=seed).truth["head"] - 1).max()
        assert (moved > 1e-4) if setting[0] == "P" else (moved == 0)
    wide, narrow = (linear_sem("POU", n=10, seed=seed, hidden_scale=s).truth["covariance"][5.0] for s in (1.0, 0.1))
    assert np.trace(wide[:5, :5]) > np.trace(narrow[:5, :5])


def test_sem_shapes_labels_and_imbalance(seed: int) -> None:
    data = linear_sem("POU", n=(5, 20, 10), environments=(3.0, 1.0, 2.0), dim=4, seed=seed)
    assert data.X.shape == (35, 8)
    assert len(data.columns) == 8
    assert data.y.shape == data.env.shape == (35,)
    assert data.env.tolist() == [3.0] * 5 + [1.0] * 20 + [2.0] * 10
    assert data.invariant == (0, 1, 2, 3)
    assert data.X.flags.c_contiguous


def test_more_rows_in_one_environment_change_nothing_in_the_others(seed: int) -> None:
    few, many = linear_sem("PEU", n=(10, 10, 10), seed=seed), linear_sem("PEU", n=(10, 99, 10), seed=seed)
    for label in (0.2, 5.0):
        np.testing.assert_array_equal(few.X[few.env == label], many.X[many.env == label])


# --- two domains with a closed form ------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [400_000, (600_000, 200_000)])
@pytest.mark.parametrize("spread", [(1.0, 1.5), (2.0, 0.5)])
def test_influence_index_converges_to_the_closed_form(
    n: int | tuple[int, int], spread: tuple[float, float], seed: int
) -> None:
    data = two_domain_example(sigma=(1.0, 2.0), n=n, seed=seed, spread=spread)
    beta, errors = least_squares(data.X, data.y)
    assert np.all(np.abs(beta - data.truth["beta"]) < BAND * errors)
    hessian = 2 * data.X.T @ data.X / len(data.X)
    influences = []
    for X, y in by_environment(data).values():
        gradient = -2 * X.T @ (y - X @ beta) / len(X)
        influences.append(-np.linalg.solve(hessian, gradient))
    index = np.log(np.linalg.norm(np.cov(np.array(influences).T, bias=True), 2))
    assert abs(index - data.truth["V"]) < 0.05  # 5.4 standard deviations


def test_closed_form_for_equal_domains_is_the_published_one() -> None:
    truth = two_domain_example(sigma=(0.7, 1.9), n=10).truth
    s = 0.7**2 + 1.9**2
    np.testing.assert_allclose(truth["beta"], [s / (s + 2), 2 / (s + 2)], rtol=1e-14)
    assert truth["V"] == pytest.approx(2 * np.log(2 * np.sqrt(2) * (1.9**2 - 0.7**2) / (s + 2) ** 2), rel=1e-14)
    assert two_domain_example(sigma=(1.3, 1.3), n=10).truth["V"] == -np.inf


def test_cause_alone_is_invariant_in_the_two_domains(seed: int) -> None:
    data = two_domain_example(n=MANY, seed=seed)
    for X, y in by_environment(data).values():
        coefficients, errors = least_squares(X[:, data.invariant], y)
        assert abs(coefficients[0] - 1) < BAND * errors[0]


# --- worlds in which invariance holds ----------------------------------------------------------------------------


def scores(data: Synthetic, X: Floats, y: Floats) -> Floats:
    """Gradient of every row's loss at the stated head; its mean is 0 in every environment if the head serves all."""
    inputs = np.column_stack([X, np.ones(len(X))])
    outputs = X @ np.atleast_2d(data.truth["head"]).T + data.truth["bias"]
    if "noise" in data.truth:
        residual = y[:, None] - outputs
    elif outputs.shape[1] == 1:
        residual = y[:, None] - 1 / (1 + np.exp(-outputs))
    else:
        odds = np.exp(outputs)
        # one class is redundant: probabilities and indicators both add up to 1
        residual = (np.eye(3)[y.astype(int)] - odds / odds.sum(axis=1, keepdims=True))[:, :2]
    return (residual[:, :, None] * inputs[:, None, :]).reshape(len(X), -1)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("make", [null_same_law, null_shifted])
def test_one_head_serves_every_environment(make: Callable[..., Synthetic], task: str, seed: int) -> None:
    data = make(n=(60_000, 20_000, 90_000), d=4, environments=3, task=task, seed=seed)
    assert data.truth["regret"] == 0
    for X, y in by_environment(data).values():
        g = scores(data, X, y)
        total = g.sum(axis=0)
        assert total @ np.linalg.solve(g.T @ g, total) < stats.chi2.ppf(1 - 1e-7, g.shape[1])


@pytest.mark.parametrize("make", [null_same_law, null_shifted])
def test_laws_of_the_features_are_the_stated_ones(make: Callable[..., Synthetic], seed: int) -> None:
    data = make(n=MANY, d=3, environments=3, seed=seed)
    for e, (X, y) in by_environment(data).items():
        mean, covariance = data.truth["mean"][e], data.truth["covariance"][e]
        variances = np.diag(covariance)
        assert np.all(np.abs(X.mean(axis=0) - mean) < BAND * np.sqrt(variances / MANY))
        errors = np.sqrt((np.outer(variances, variances) + covariance**2) / MANY)
        assert np.all(np.abs(np.cov(X.T) - covariance) < BAND * errors)
        noise = y - X @ data.truth["head"] - data.truth["bias"]
        assert abs(noise.std() / data.truth["noise"][e] - 1) < BAND / np.sqrt(2 * MANY)


def test_same_law_and_shifted_differ_in_what_they_promise(seed: int) -> None:
    same, shifted = (make(n=10, d=3, environments=3, seed=seed).truth for make in (null_same_law, null_shifted))
    for name in ("mean", "covariance", "noise"):
        assert np.all(same[name] == same[name][0])
        assert np.abs(shifted[name][0] - shifted[name][1]).max() > 0.02
    assert shifted["noise"].tolist() == pytest.approx([0.5, 1.0, 2.0])


@pytest.mark.parametrize("make", [null_same_law, null_shifted])
@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("classification", 2), ("multiclass", 3)])
def test_every_class_is_common_everywhere(make: Callable[..., Synthetic], task: str, classes: int, seed: int) -> None:
    data = make(n=2_000, d=5, environments=4, task=task, seed=seed)
    assert data.y.dtype.kind == "i"
    for _, y in by_environment(data).values():
        shares = np.bincount(y.astype(int), minlength=classes) / len(y)
        assert len(shares) == classes
        assert shares.min() > 0.01


# --- all of them ---------------------------------------------------------------------------------------------------

MAKERS: list[Callable[..., Synthetic]] = [
    lambda seed: linear_sem("PEU", n=20, seed=seed),
    lambda seed: two_domain_example(n=20, seed=seed),
    lambda seed: null_same_law(n=20, seed=seed, task="multiclass"),
    lambda seed: null_shifted(n=20, seed=seed),
]


@pytest.mark.parametrize("make", MAKERS)
def test_same_seed_same_rows(make: Callable[..., Synthetic], seed: int) -> None:
    first, again, other = make(seed), make(seed), make(seed + 1)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    np.testing.assert_array_equal(first.env, again.env)
    assert not np.any(first.X == other.X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linear_sem("XYZ"), "POU, PEU, FOU, FEU"),
        (lambda: linear_sem(environments=(1.0, 1.0)), "different positive"),
        (lambda: linear_sem(environments=(0.0, 1.0)), "different positive"),
        (lambda: linear_sem(dim=0), "at least 1 cause"),
        (lambda: linear_sem(n=(10, 10)), "each of 3 environments"),
        (lambda: linear_sem(n=0), "positive number of rows"),
        (lambda: two_domain_example(sigma=(1.0, -1.0)), "two positive numbers"),
        (lambda: null_same_law(task="ranking"), '"regression", "binary" or "multiclass"'),
        (lambda: null_same_law(d=0), "at least 1 column"),
        (lambda: null_shifted(environments=2, noise=(1.0, 2.0, 3.0)), "each of the 2 environments"),
        (lambda: null_shifted(task="binary", noise=(1.0, 2.0, 3.0)), "only regression has a noise scale"),
    ],
)
def test_impossible_requests_are_refused_in_words(call: Callable[[], Synthetic], words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        call()
