"""Nonlinear structural equations: moments by quadrature, E[Y | x1] by hand, columns, sizes, and what is refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from invariscope.datasets.entry import facts
from invariscope.datasets.synthetic.linear_sem import LAWS, SETTINGS
from invariscope.datasets.synthetic.nonlinear_sem import ENTRY, nonlinear_sem
from invariscope.errors import InputError
from tests.reference import structural


def noise_of(setting: str, e: float) -> tuple[float, float]:
    return (e, 1.0) if setting[1] == "O" else (1.0, e)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("square", [False, True])
def test_moments_are_those_of_the_equations(setting, law, square, seed):
    data = nonlinear_sem(setting, n=10, law=law, seed=seed, square=square)
    kept = [0, 1, 2, 3] if square else [0, 2, 3]
    weights = data.truth["hidden_weights"], data.truth["target_to_effect"]
    for e in (0.1, 1.0, 10.0):
        mean, covariance = structural.nonlinear_moments(e, *noise_of(setting, e), *weights)
        np.testing.assert_allclose(data.truth["mean"][e], mean[kept], rtol=1e-10, atol=1e-12)
        scale = np.abs(covariance).max()
        np.testing.assert_allclose(data.truth["covariance"][e], covariance[np.ix_(kept, kept)], atol=1e-11 * scale)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("square", [False, True])
def test_truths_follow_from_the_moments(setting, law, square, seed):
    rows = (10, 20, 30)
    data = nonlinear_sem(setting, n=rows, law=law, seed=seed, square=square)
    means, covariances = list(data.truth["mean"].values()), list(data.truth["covariance"].values())
    shares = np.array(rows) / 60
    middle = shares @ means
    pooled = sum(w * (c + np.outer(m - middle, m - middle)) for w, c, m in zip(shares, covariances, means, strict=True))
    erm = data.truth["erm"]
    np.testing.assert_allclose(pooled[:-1, :-1] @ erm, pooled[:-1, -1], rtol=1e-7, atol=1e-9 * pooled.max())
    assert data.truth["erm_intercept"] == pytest.approx(middle[-1] - erm @ middle[:-1], rel=1e-6, abs=1e-7)
    signed = np.array([*-erm, 1.0])
    risks = [
        signed @ c @ signed + (signed @ m - data.truth["erm_intercept"]) ** 2
        for c, m in zip(covariances, means, strict=True)
    ]
    np.testing.assert_allclose(list(data.truth["erm_risk"].values()), risks, rtol=1e-6)
    expected = structural.regret_of_prediction(erm, covariances, means)
    np.testing.assert_allclose(list(data.truth["erm_regret"].values()), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("setting", SETTINGS)
def test_one_head_on_the_cause_and_its_square_is_best_everywhere(setting, seed):
    data = nonlinear_sem(setting, n=10, seed=seed, square=True)
    to_cause, to_target, _ = data.truth["hidden_weights"]
    np.testing.assert_allclose(data.truth["head"], [to_target * to_cause / (to_cause**2 + 1), 1.0], rtol=1e-14)
    law = data.truth["population"].selected(data.invariant)
    for e, head, risk in zip((0.1, 1.0, 10.0), law.own_heads()[:, :, 0], law.risks(law.own_heads()), strict=True):
        np.testing.assert_allclose(head, [*data.truth["head"], 0.0], atol=1e-8)
        # what x1 leaves open: the part of H it does not tell, and the noise
        left = to_target**2 * e**2 / (to_cause**2 + 1) + 3 * noise_of(setting, e)[0] ** 2
        assert risk == pytest.approx(left, rel=1e-6)
        assert data.truth["invariant_risk"][e] == pytest.approx(left, rel=1e-6)
    np.testing.assert_allclose(law.regrets(), 0.0, atol=1e-8)


def test_without_the_square_linear_heads_on_the_cause_differ_in_level(seed):
    data = nonlinear_sem("FEU", n=10, seed=seed)
    law = data.truth["population"].selected(data.invariant)
    np.testing.assert_allclose(law.own_heads()[:, 1, 0], [0.01, 1.0, 100.0], rtol=1e-9)
    assert law.regrets().max() > 0.1


def test_columns_sizes_and_the_same_rows(seed):
    plain, squared = (nonlinear_sem("PEU", seed=seed, square=square) for square in (False, True))
    assert (plain.columns, plain.invariant) == (("x1", "x2"), (0,))
    assert (squared.columns, squared.invariant) == (("x1", "x1²", "x2"), (0, 1))
    np.testing.assert_array_equal(squared.X[:, [0, 2]], plain.X)
    np.testing.assert_array_equal(squared.X[:, 1], plain.X[:, 0] ** 2)
    for e in (0.1, 1.0, 10.0):
        assert np.sum(plain.train.env == e) == 1000
        assert np.sum(plain.test.env == e) == 500
    assert nonlinear_sem(n_test=0).part is None
    assert any("3σ²" in choice for choice in plain.choices)


@pytest.mark.parametrize("setting", ["FOU", "FEU"])
def test_as_printed_the_effect_is_noise_and_with_the_square_least_squares_is_invariant(setting):
    data = nonlinear_sem(setting, n=10, law="printed", square=True)
    np.testing.assert_allclose(data.truth["erm"], [0.0, 1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(list(data.truth["erm_regret"].values()), 0.0, atol=1e-9)
    for e, covariance in data.truth["covariance"].items():
        np.testing.assert_allclose(covariance[2], [0.0, 0.0, 3.0 * noise_of(setting, e)[1] ** 2, 0.0], atol=1e-12)
    assert any("as section 4.1 prints it" in choice for choice in data.choices)


def test_printed_effects_are_standard_normal_and_the_rest_are_the_same_rows(seed):
    printed = [nonlinear_sem("POU", n=2, n_test=0, law="printed", seed=seed + k) for k in range(200)]
    values = np.array([data.truth["target_to_effect"] for data in printed])
    assert abs(values.mean()) < 4.5 / np.sqrt(200)
    assert abs(values.var() - 1.0) < 4.5 * np.sqrt(2.0 / 200)
    effects = nonlinear_sem("POU", n=2, n_test=0, seed=seed)
    assert effects.truth["target_to_effect"] == 1.0
    np.testing.assert_array_equal(printed[0].X[:, 0], effects.X[:, 0])
    np.testing.assert_array_equal(printed[0].y, effects.y)
    np.testing.assert_allclose(printed[0].X[:, 1] - effects.X[:, 1], (values[0] - 1.0) * effects.y, rtol=1e-9)


def test_the_law_with_effects_has_the_rows_it_always_had():
    """Integers of the rows: rounding of a product may differ between machines, these digits do not."""
    digest = hashlib.sha256()
    for setting in SETTINGS:
        data = nonlinear_sem(setting, n=50, n_test=0, seed=3)
        digest.update(np.round(1e4 * np.column_stack([data.X, data.y])).astype(np.int64).tobytes())
    assert digest.hexdigest()[:16] == "5286ddcdd9bc3710"


def test_hidden_weights(seed):
    assert not np.any(nonlinear_sem("FOU", n=5, seed=seed, hidden_scale=3.0).truth["hidden_weights"])
    one, two = (nonlinear_sem("POU", n=5, seed=seed, hidden_scale=s).truth["hidden_weights"] for s in (1.0, 2.0))
    np.testing.assert_allclose(two, 2 * one)


def test_entry_agrees_with_what_is_published():
    assert ENTRY.kind == "synthetic"
    for number in ENTRY.published:
        assert facts(ENTRY.load(**number.options))[number.what] == number.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"law": "code"}, '"effects" or "printed"'),
        ({"setting": "F"}, '"POU", "PEU", "FOU" or "FEU"'),
        ({"environments": (-1.0, 1.0)}, "different positive"),
        ({"n": (1, 2)}, "each of 3 environments"),
        ({"n_test": -2}, "n_test must be"),
        ({"setting": "PEU", "hidden_scale": np.inf}, "hidden_scale is inf"),
    ],
)
def test_impossible_requests_are_refused_in_words(options, words):
    with pytest.raises(InputError, match=words):
        nonlinear_sem(**options)
