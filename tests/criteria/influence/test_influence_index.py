"""The influence index: against a slow reference and a closed form, its shuffles, and Hessians that are singular."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ks_2samp

from invariscope.criteria.influence.influence_index import INTERCEPT, influence_index
from invariscope.criteria.influence.shuffles import gaussian_shuffles, largest_spread
from invariscope.criteria.influence.solution import _in_any_units, index_of
from invariscope.datasets.synthetic.bayesian_network import two_domain_example
from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.rows.environments import Environments
from tests.reference import influence as reference


def rows_of(task, sizes, d, seed):
    data = null_shifted(n=sizes, d=d, environments=len(sizes), task=task, seed=seed)
    return data.X, data.y, data.env


def parameters_of(head):
    """The reference's order: weights, then the intercept, score after score."""
    return np.column_stack([head.weight, head.bias]).ravel()


def random_head(outputs, d, seed):
    rng = np.random.default_rng([seed, outputs])
    return LinearHead(0.5 * rng.standard_normal((outputs, d)), 0.3 * rng.standard_normal(outputs))


def assert_equals(result, expected, *, rtol=1e-6):
    value, influences = expected
    assert result.value == pytest.approx(value, rel=rtol, abs=rtol)
    np.testing.assert_allclose(result.influences, influences, rtol=rtol, atol=rtol * np.abs(influences).max())


# --- the slow reference ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("task", "loss"), [("regression", "squared"), ("binary", "logistic")])
@pytest.mark.parametrize(("sizes", "d"), [((40, 60), 2), ((50, 30, 40), 3)])
def test_equals_the_reference_with_a_fitted_head(task, loss, sizes, d, seed):
    X, y, env = rows_of(task, sizes, d, seed)
    # a logistic head is as exact as its last Newton step
    rtol = 1e-8 if loss == "squared" else 1e-5
    for hessian in ("rows", "domains"):
        parameters = reference.fitted_head(X, y, env, loss, hessian)
        result = influence_index(X, y, env, damping=0.0, n_boot=99, hessian=hessian)
        expected = reference.influence_index(X, y, env, parameters, loss, hessian=hessian)
        assert_equals(result, expected, rtol=rtol)
    assert result.loss == ("squared" if loss == "squared" else "log_loss")
    assert result.rank == d + 1


@pytest.mark.parametrize(
    ("task", "loss", "outputs"),
    [
        ("regression", "squared", 1),
        ("binary", "logistic", 1),
        ("binary", "softmax", 2),
        ("multiclass", "softmax", 3),
    ],
)
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_equals_the_reference_with_a_given_head(task, loss, outputs, damping, seed):
    X, y, env = rows_of(task, (40, 50, 30), 3, seed)
    head = random_head(outputs, 3, seed)
    result = influence_index(X, y, env, head=head, damping=damping, n_boot=99)
    assert_equals(result, reference.influence_index(X, y, env, parameters_of(head), loss, damping))
    assert result.loss == ("squared" if loss == "squared" else "log_loss")
    assert result.damping == damping
    assert result.rank == (outputs if outputs == 1 else outputs - 1) * 4
    assert len(result.parameters) == result.influences.shape[1] == 4 * outputs


def test_two_scores_and_one_score_tell_the_same_story(seed):
    """A two-class head may have one score or two: the influences on the difference of the scores are equal."""
    X, y, env = rows_of("binary", (80, 120, 60), 3, seed)
    head = random_head(1, 3, seed)
    twin = LinearHead(np.vstack([-head.weight / 2, head.weight / 2]), [-head.bias[0] / 2, head.bias[0] / 2])
    one, two = (influence_index(X, y, env, head=h, damping=0.0, n_boot=199, seed=seed) for h in (head, twin))
    np.testing.assert_allclose(two.influences[:, 4:] - two.influences[:, :4], one.influences, rtol=1e-8)
    assert two.value == pytest.approx(one.value - math.log(2), abs=1e-8)  # ‖(v/2, −v/2)‖² = ½ ‖v‖²
    assert abs(two.pvalue - one.pvalue) < 0.2


def test_a_given_fitted_head_gives_what_fitting_gives(seed):
    X, y, env = rows_of("regression", (100, 150), 3, seed)
    solution = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    fitted = influence_index(X, y, env, seed=seed, hessian="rows")
    given = influence_index(X, y, env, head=LinearHead(solution[:-1], solution[-1]), seed=seed, hessian="rows")
    assert given.value == pytest.approx(fitted.value, abs=1e-9)
    np.testing.assert_allclose(given.null, fitted.null, atol=1e-8)


# --- the closed form -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sigma", [(0.5, 1.5), (2.0, 0.5), (1.0, 2.0), (3.0, 1.0)])
def test_equals_the_closed_form(sigma, seed):
    # one sample of 400,000 rows per domain has a standard error of 0.005 to 0.010: the mean of four is held to 0.03
    found = []
    for part in range(4):
        data = two_domain_example(sigma=sigma, n=400_000, seed=4 * seed + part)
        result = influence_index(data.X, data.y, data.env, n_boot=199)
        found.append(result.value)
        assert result.pvalue == pytest.approx(1 / 200)
        assert result.damping == 0.0
        # the domains disagree along (1, −1): more of the cause, less of the effect
        np.testing.assert_allclose(np.abs(result.direction), [math.sqrt(0.5), math.sqrt(0.5), 0.0], atol=0.05)
        assert result.direction[0] * result.direction[1] < 0
    s = sigma[0] ** 2 + sigma[1] ** 2
    expected = 2 * math.log(2 * math.sqrt(2) * abs(sigma[0] ** 2 - sigma[1] ** 2) / (s + 2) ** 2)
    assert data.truth["V"] == pytest.approx(expected)
    assert np.mean(found) == pytest.approx(expected, abs=0.03)


def test_index_of_vectors_by_hand():
    value, direction = index_of(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert value == pytest.approx(math.log(18 / 4))  # Cov = diag(18, 2) / 4
    np.testing.assert_allclose(direction, [1.0, 0.0], atol=1e-12)
    assert index_of(np.ones((3, 2)))[0] == -math.inf


# --- shuffles --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("task", "sizes"), [("regression", (150, 150, 150)), ("binary", (60, 150, 400)), ("multiclass", (200, 300))]
)
def test_gaussian_shuffles_agree_with_exact_ones(task, sizes, seed):
    X, y, env = rows_of(task, sizes, 4, seed)
    count = 1500
    drawn = influence_index(X, y, env, n_boot=count, seed=seed)
    dealt = influence_index(X, y, env, n_boot=count, exact=True, seed=seed + 1)
    assert drawn.value == dealt.value
    # largest distance of two empirical distributions: exceeded by chance once in 10,000 times at 2.23 √(2 / n)
    assert ks_2samp(drawn.null, dealt.null, method="asymp").statistic < 2.23 * np.sqrt(2 / count) + 0.02
    for level in (0.1, 0.5, 0.9):
        quantile = np.quantile(drawn.null, level)
        share = np.mean(dealt.null <= quantile)
        assert abs(share - level) < 4 * np.sqrt(2 * level * (1 - level) / count) + 0.02
    spread = np.sqrt(drawn.pvalue * (1 - drawn.pvalue) / count)
    assert abs(drawn.pvalue - dealt.pvalue) < 6 * np.sqrt(2) * spread + 0.02


def test_exact_shuffles_agree_with_dealing_rows_one_by_one(seed):
    X, y, env = rows_of("regression", (30, 50), 2, seed)
    parameters = reference.fitted_head(X, y, env, "squared")
    slow = reference.shuffled_index(X, y, (30, 50), parameters, "squared", 600, np.random.default_rng(seed))
    fast = influence_index(X, y, env, damping=0.0, n_boot=600, exact=True, seed=seed).null
    assert ks_2samp(slow, fast, method="asymp").statistic < 2.23 * np.sqrt(2 / 600)


def test_variance_of_dealt_means_is_that_of_sampling_without_replacement(seed):
    """For one parameter V is ln of the variance over environments, whose mean is known."""
    rows = np.array([30.0, 70.0, 400.0])
    values = gaussian_shuffles(np.array([[2.0]]), rows, 40_000, np.random.default_rng(seed))
    covariance = 2.0 * (np.diag(1 / rows) - 1 / rows.sum())
    expected = np.trace(covariance) / 3 - covariance.sum() / 9
    found = np.exp(values)
    assert abs(found.mean() - expected) < 5 * found.std() / np.sqrt(len(found))


def test_largest_spread_is_the_spectral_norm(seed):
    means = np.random.default_rng(seed).normal(size=(5, 4, 6))
    expected = [np.log(np.linalg.norm(np.cov(one.T, bias=True), 2)) for one in means]
    np.testing.assert_allclose(largest_spread(means), expected, rtol=1e-10)


@pytest.mark.parametrize("exact", [False, True])
def test_weights_are_repetitions(exact, seed):
    X, y, env = rows_of("binary", (100, 150), 3, seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = influence_index(X, y, env, weight=weight, n_boot=199, exact=exact)
    repeated = influence_index(*(np.repeat(part, weight, axis=0) for part in (X, y, env)), n_boot=199, exact=exact)
    assert weighted.value == pytest.approx(repeated.value, abs=1e-6)
    np.testing.assert_allclose(weighted.influences, repeated.influences, atol=1e-7)
    np.testing.assert_allclose(weighted.eigenvalues, repeated.eigenvalues, atol=1e-9)
    np.testing.assert_allclose(weighted.null, repeated.null, atol=1e-5)


@pytest.mark.parametrize("share", [1.0, 0.7])  # whole weights, and others
@pytest.mark.parametrize(
    "options", [{"exact": True}, {"head": "module"}, {"head": "module", "solver": "cg", "damping": 2.0}]
)
def test_rows_of_weight_zero_are_not_dealt(options, share, seed):
    X, y, env = rows_of("binary", (60, 70), 3, seed)
    weight = share * (np.random.default_rng(seed).uniform(size=len(y)) < 0.6)
    if "head" in options:
        torch.manual_seed(seed)
        options = {
            **options,
            "head": torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)),
        }
    kept = weight > 0
    there = influence_index(X, y, env, weight=weight, n_boot=19, **options)
    gone = influence_index(X[kept], y[kept], env[kept], weight=weight[kept], n_boot=19, **options)
    assert there.value == pytest.approx(gone.value, rel=1e-6)
    np.testing.assert_allclose(there.null, gone.null, rtol=1e-6)


def test_same_seed_same_answer_and_row_order_does_not_matter(seed):
    X, y, env = rows_of("regression", (60, 80, 70), 3, seed)
    first, again, other = (influence_index(X, y, env, n_boot=99, seed=s) for s in (seed, seed, seed + 1))
    assert first.to_dict() == again.to_dict()
    assert first.value == other.value
    assert not np.array_equal(first.null, other.null)
    order = np.random.default_rng(seed).permutation(len(y))
    moved = influence_index(X[order], y[order], env[order], n_boot=99, seed=seed)
    assert moved.value == pytest.approx(first.value, abs=1e-9)
    np.testing.assert_allclose(moved.null, first.null, atol=1e-7)


# --- singular and flat Hessians --------------------------------------------------------------------------------------
def test_dead_units_and_duplicated_columns_are_left_out_and_reported(seed):
    X, y, env = rows_of("regression", (150, 200), 3, seed)
    clean = influence_index(X, y, env, damping=0.0, n_boot=99)
    dead = influence_index(np.column_stack([X, np.zeros(len(X))]), y, env, damping=0.0, n_boot=99)
    assert clean.notes == ()
    assert dead.rank == clean.rank == 4
    assert dead.value == pytest.approx(clean.value, abs=1e-9)
    assert "1 of 5 directions of the head have no curvature" in dead.notes[0]
    assert dead.eigenvalues[-1] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(dead.influences[:, 3], 0.0, atol=1e-12)

    twice = influence_index(np.column_stack([X, X[:, 0]]), y, env, damping=0.0, n_boot=99)
    assert twice.rank == 4
    assert "1 of 5 directions" in twice.notes[0]
    # the influence on x0 is shared out evenly between its two copies
    np.testing.assert_allclose(twice.influences[:, 0], clean.influences[:, 0] / 2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(twice.influences[:, 3], clean.influences[:, 0] / 2, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(twice.influences[:, [1, 2, 4]], clean.influences[:, 1:], rtol=1e-6, atol=1e-9)


def test_a_dead_unit_among_relu_features_gives_the_same_p_value(seed):
    rng = np.random.default_rng(seed)
    hidden = np.maximum(rng.normal(size=(500, 4)) @ rng.normal(size=(4, 6)), 0.0)
    hidden[:, 2] = 0.0
    env = np.repeat([0, 1], 250)
    y = (hidden[:, 0] - hidden[:, 1] + rng.logistic(size=500) > 0).astype(int)
    with_dead = influence_index(hidden, y, env, n_boot=299, seed=seed)
    without = influence_index(np.delete(hidden, 2, axis=1), y, env, n_boot=299, seed=seed)
    assert with_dead.value == pytest.approx(without.value, abs=1e-6)
    assert with_dead.pvalue == pytest.approx(without.pvalue, abs=0.15)
    assert with_dead.rank == without.rank
    assert any("no curvature" in note for note in with_dead.notes)


def test_the_free_constant_of_softmax_is_left_out_and_reported(seed):
    X, y, env = rows_of("multiclass", (200, 300), 2, seed)
    result = influence_index(X, y, env, n_boot=99)
    assert result.rank == 2 * 3
    assert "3 of 9 directions" in result.notes[0]
    assert "softmax" in result.notes[0]
    # adding a constant to all scores changes nothing: influences on the classes add up to zero
    np.testing.assert_allclose(result.influences.reshape(2, 3, 3).sum(axis=1), 0.0, atol=1e-8)
    assert math.isfinite(result.value)


def test_damping_is_chosen_from_the_spectrum(seed):
    X, y, env = rows_of("regression", (300, 300), 4, seed)
    healthy = influence_index(X, y, env, n_boot=99)
    assert healthy.damping == 0.0
    assert not any("Damping" in note for note in healthy.notes)
    tail = np.column_stack([X, 10.0 ** -np.arange(1.5, 4.5) * np.random.default_rng(seed).normal(size=(600, 3))])
    damped = influence_index(tail, y, env, n_boot=99)
    assert damped.damping > 0
    assert damped.damping == pytest.approx(np.sqrt(damped.eigenvalues[0] * damped.eigenvalues.sum() / 600))
    assert any(f"Damping {damped.damping:.3g}" in note for note in damped.notes)
    assert damped.rank == 8  # small, but alive
    assert damped.value < influence_index(tail, y, env, damping=0.0, n_boot=99).value
    assert np.all(np.diff(damped.eigenvalues) <= 0)


def test_damping_of_the_user_is_honoured(seed):
    X, y, env = rows_of("regression", (100, 100), 2, seed)
    design = np.column_stack([X, np.ones(len(X))])
    gram = design.T @ design / len(X)
    residual = design @ np.linalg.lstsq(design, y, rcond=None)[0] - y
    for damping in (0.0, 0.3, 10):
        result = influence_index(X, y, env, damping=damping, n_boot=99)
        assert result.damping == damping
        for e in (0, 1):
            gradient = design[env == e].T @ residual[env == e] / np.sum(env == e)
            expected = -np.linalg.solve(gram + damping * np.eye(3), gradient)
            np.testing.assert_allclose(result.influences[e], expected, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(result.eigenvalues, np.linalg.eigvalsh(gram)[::-1], rtol=1e-9)


# --- what comes back -------------------------------------------------------------------------------------------------
def test_keys_names_and_shapes(seed):
    X, y, env = rows_of("multiclass", (150, 200), 2, seed)
    frame = pd.DataFrame(X, columns=["age", "dose"])
    result = influence_index(frame, np.array(["mild", "none", "severe"])[y], np.array(["Bern", "Oslo"])[env], n_boot=99)
    assert result.labels == ("Bern", "Oslo")
    assert result.parameters == tuple(
        f"{column} [{label}]" for label in ("mild", "none", "severe") for column in ("age", "dose", INTERCEPT)
    )
    assert result.influences.shape == (2, 9)
    assert result.direction.shape == (9,)
    assert np.linalg.norm(result.direction) == pytest.approx(1.0)
    assert result.null.shape == (99,)
    assert len(result.eigenvalues) == 9
    assert 0 < result.pvalue <= 1
    assert json.loads(json.dumps(result.to_dict()))["labels"] == ["Bern", "Oslo"]
    with_environments = influence_index(Environments(X, y, env), n_boot=99)
    assert with_environments.value == pytest.approx(result.value)
    binary = influence_index(frame, y > 0, env, n_boot=99)
    assert binary.parameters == ("age", "dose", INTERCEPT)


def test_the_leading_direction_names_the_column_that_differs(seed):
    rng = np.random.default_rng(seed)
    env, z = np.repeat([0, 1, 2], 500), rng.normal(size=(1500, 4))
    for guilty in range(4):
        y = z.sum(axis=1) + (env - 1) * z[:, guilty] + rng.normal(size=1500)
        result = influence_index(z, y, env, n_boot=199)
        assert list(result.loadings(1)) == [f"x{guilty}"]
        assert abs(result.direction[guilty]) > 0.9
        assert result.pvalue == pytest.approx(1 / 200)
        assert result.value > result.null.max()
        # ERM's head is pulled towards the environments' own slopes: −1, 0, +1 on the guilty column, to first order
        np.testing.assert_allclose(result.influences[:, guilty], [-1.0, 0.0, 1.0], atol=0.35)


def test_environments_that_pull_alike_have_no_index(seed):
    """The same rows in two environments: gradients are equal, and 0 at the fitted head."""
    data = null_same_law(n=100, d=2, environments=2, seed=seed)
    half = data.env == 0
    X, y = (np.concatenate([part[half], part[half]]) for part in (data.X, data.y))
    result = influence_index(X, y, data.env, n_boot=99)
    assert result.value < result.null.min() - 20
    assert result.pvalue == 1.0


# --- errors ----------------------------------------------------------------------------------------------------------
def test_errors_are_readable(seed):
    X, y, env = rows_of("regression", (60, 60), 3, seed)
    with pytest.raises(InputError, match="the head has 2 weights but the representation has 3 columns"):
        influence_index(X, y, env, head=LinearHead([1.0, 2.0], 0.0))
    with pytest.raises(InputError, match='tells 2 classes apart, but target "target" has 120 different'):
        influence_index(X, y, env, head=LinearHead(np.ones((2, 3)), np.zeros(2)))
    codes = np.arange(len(y)) % 3
    with pytest.raises(InputError, match='tells 2 classes apart, but target "target" has 3 different'):
        influence_index(X, codes, env, head=LinearHead(np.ones((2, 3)), np.zeros(2)))
    assert influence_index(X, codes, env, head=LinearHead(np.ones(3), 0.0), n_boot=99).loss == "squared"
    for damping in (-1.0, math.nan, math.inf, "none"):
        with pytest.raises(InputError, match="damping is"):
            influence_index(X, y, env, damping=damping)
    with pytest.raises(InputError, match="labels, not numbers"):
        influence_index(X, np.where(y > 0, "yes", "no"), env, task="regression")
    with pytest.raises(InputError, match='"hinge" is unknown'):
        influence_index(X, y, env, task="hinge")
    with pytest.raises(InputError, match="no target"):
        influence_index(X, None, env)


def test_damping_has_no_cliff_directions_flatter_than_noise_are_damped(seed: int) -> None:
    """A direction a hundred times flatter than the steepest, on 600 rows: what lies along it cannot be measured."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(600, 3)) * [1.0, 1.0, 0.1]
    env = np.repeat(["a", "b", "c"], 200)
    y = Z[:, 0] + rng.normal(size=600)
    found = influence_index(Z, y, env, n_boot=99)
    values = np.linalg.eigvalsh(np.cov(np.c_[np.ones(600), Z].T, bias=True) + np.eye(4)[:, :1] * np.eye(4)[:1])
    noise = np.sqrt(values.max() * values.sum() / 600)
    assert noise > 0.01
    assert found.damping == pytest.approx(noise, rel=0.15)
    assert "sampling noise" in found.damping_reason


def test_saturated_heads_have_no_influence_and_say_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    with pytest.raises(InputError, match="saturated"):
        influence_index(Z, np.arange(60) % 2, env, head=LinearHead([[0.0, 0.0]], 1e4), n_boot=19)


def test_without_shuffles_there_is_no_p_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    assert np.isnan(influence_index(Z, rng.normal(size=60), env, n_boot=0).pvalue)


@pytest.mark.parametrize("given", [{}, {"head": LinearHead([[1.0, 2.0]], 3.0)}, {"solver": "kronecker"}])
@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_a_head_that_makes_no_error_is_pulled_by_rounding_only(given: dict[str, Any], noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(300, 2)), np.repeat(["a", "b", "c"], 100)
    y = Z @ [1.0, 2.0] + 3.0
    found = influence_index(Z, y + noise * rng.normal(size=300), env, n_boot=99, **given)
    assert found.value == -np.inf
    assert np.isnan(found.pvalue)
    assert len(found.null) == 0
    assert not found.influences.any()
    assert (
        "The head makes no error on any row: nothing pulls at it, and there is no noise for a p-value." in found.notes
    )
    several = influence_index(Z, np.c_[y, -y], env, n_boot=99)
    assert np.isnan(several.pvalue)
    noisy = influence_index(Z, y + 1e-3 * rng.normal(size=300), env, n_boot=99, **given)
    assert 0 < noisy.pvalue <= 1
    assert len(noisy.null) == 99


def test_a_fitted_head_that_splits_the_classes_has_no_p_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(300, 2)), np.repeat(["a", "b", "c"], 100)
    y = (Z[:, 0] > 0).astype(int)
    found = influence_index(Z, y, env, n_boot=99)
    assert np.isnan(found.pvalue)
    assert found.notes[-1].startswith("No p-value: the head splits the classes (almost) without error")
    # the remedy: a head that was held back has a place of its own
    assert 0 < influence_index(Z, y, env, head=LinearHead([[2.0, 0.0]], 0.0), n_boot=99).pvalue <= 1


def test_a_penalty_without_weight_is_said(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    found = influence_index(Z, rng.normal(size=60), env, penalty="irm", n_boot=19)
    assert "penalty_weight is 0: the penalty has no part in the Hessian." in found.notes


def in_units(factor: float, columns: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Environments differ in the last column, which is given in some unit; perhaps with the first column once more."""
    rng = np.random.default_rng(0)
    Z, env = rng.normal(size=(900, 3)), np.repeat([0, 1, 2], 300)
    y = Z[:, 0] + 0.5 * (env - 1) * Z[:, 2] + rng.normal(size=900)
    Z[:, 2] *= factor
    return np.column_stack([Z, Z[:, : columns - 3]]), y, env


@pytest.mark.parametrize("columns", [3, 4])
@pytest.mark.parametrize(("penalty", "strength"), [(None, 0.0), ("vrex", 1.0)])
@pytest.mark.parametrize("factor", [1e-3, 1e-6, 1e-9])
def test_a_column_in_small_units_is_not_dead(factor: float, penalty: str | None, strength: float, columns: int) -> None:
    """The influence on its weight is in the inverse of its units, and V, once it is all of V, follows exactly."""
    options = {"penalty": penalty, "penalty_weight": strength, "damping": 0.0, "n_boot": 99}
    found = influence_index(*in_units(factor, columns), **options)
    expected = influence_index(*in_units(1e-2, columns), **options)
    assert found.rank == expected.rank == 4
    assert found.pvalue == expected.pvalue == 0.01
    assert found.value == pytest.approx(expected.value + 2 * math.log(1e-2 / factor), abs=1e-2)
    assert [note for note in found.notes if "no curvature" in note] == list(found.notes)
    assert len(found.notes) == columns - 3  # of the column that is there twice


def test_a_column_in_large_units_makes_no_other_dead() -> None:
    found, expected = (influence_index(*in_units(factor), damping=0.0, n_boot=99) for factor in (1e6, 1e3))
    assert (found.rank, found.notes) == (4, ())
    assert found.value == pytest.approx(expected.value, abs=1e-3)
    assert found.pvalue == expected.pvalue


@pytest.mark.parametrize("factor", [1e-2, 1e-6, 1e4])
def test_what_damping_does_to_columns_in_small_units_is_said_and_the_advice_helps(factor: float) -> None:
    Z, y, env = in_units(factor)
    (note,) = influence_index(Z, y, env, n_boot=99).notes
    assert note.startswith("Damping ")
    assert note.endswith(" Columns in small units hardly count then: standardise them, as an audit does.")
    standard = influence_index((Z - Z.mean(axis=0)) / Z.std(axis=0), y, env, n_boot=99)
    assert (standard.pvalue, standard.notes) == (0.01, ())


def test_columns_that_nearly_follow_from_others_are_flat_in_any_units() -> None:
    Z, y, env = in_units(1.0)
    Z = np.column_stack([Z, Z[:, 0] + 0.05 * np.random.default_rng(1).normal(size=900)])
    (note,) = influence_index(Z / Z.std(axis=0), y, env, n_boot=99).notes
    assert note.endswith("1 of its directions is flatter than that, and dividing by it amplifies noise.")


@pytest.mark.parametrize("elsewhere", [0.0, 1e4])
def test_rows_of_weight_zero_do_not_move_columns(elsewhere: float, seed: int) -> None:
    """Columns far from zero, as years are, are moved there: where they are, rows that count say."""
    X, y, env = rows_of("regression", (100, 150), 3, seed)
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    X[:, 0] += 2020
    X[weight == 0, 0] = elsewhere
    kept = weight > 0
    there = influence_index(X, y, env, weight=weight, n_boot=99)
    gone = influence_index(X[kept], y[kept], env[kept], n_boot=99)
    assert there.value == pytest.approx(gone.value, rel=1e-9)
    np.testing.assert_allclose(there.null, gone.null, rtol=1e-6)


def test_curvatures_of_any_units_are_found_to_many_digits() -> None:
    rng = np.random.default_rng(3)
    units, factor = 10.0 ** np.array([0, -5, -9, 3]), rng.normal(size=(4, 3))
    values, vectors = _in_any_units((units[:, None] * factor) @ (units[:, None] * factor).T)
    exact = np.sort([float(value) for value in _exact_eigenvalues(units[:, None] * factor)])
    assert values[0] == 0
    np.testing.assert_allclose(values[1:], exact, rtol=1e-6)
    np.testing.assert_allclose(vectors[:, 1:].T @ vectors[:, 1:], np.eye(3), atol=1e-12)


def _exact_eigenvalues(factor: np.ndarray) -> list[Any]:
    """Of F Fᵀ, those that are not 0, which FᵀF has as well, with fifty digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(50):
        matrix = mpmath.matrix(factor.tolist())
        return list(mpmath.eigsy(matrix.T * matrix, eigvals_only=True))
