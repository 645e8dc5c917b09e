"""The density-ratio criterion as published: against loops from the paper, and what its number does and does not say."""

from __future__ import annotations

import math
import warnings
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from invariscope.criteria.dric.dric import dric as with_resamples
from invariscope.criteria.regret.regret import regret
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import density_ratio
from tests.reference import dric as reference

dric = partial(with_resamples, n_boot=0)  # these tests are about the number itself


def shifted(seed: int, environments: int = 3, n: int = 60, gap: float = 0.5) -> SimpleNamespace:
    """Environments whose inputs are shifted against each other, rows in random order."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(environments), n + 10 * np.arange(environments)))
    X = rng.normal(size=(len(code), 3)) + gap * code[:, None] * [1.0, -1.0, 0.0]
    env = np.array(["site " + "edcba"[k % 5] + str(k) for k in code], dtype=object)
    return SimpleNamespace(X=X, env=env, f=X @ [1.0, 0.5, -1.0] + 0.3, baseline=X[:, 0] + 1.0, code=code)


def by_loops(f: Any, baseline: Any, X: Any, env: Any) -> tuple[np.ndarray, float, float]:
    fitted = density_ratio(X, env)
    given = (fitted.at_rows.tolist(), list(env), fitted.labels)
    found = [reference.transported_means(list(map(float, values)), *given) for values in (f, baseline)]
    return np.array(found[0]), reference.total_gap(found[0]), reference.total_gap(found[1])


@pytest.mark.parametrize("environments", [2, 3, 7])
def test_equals_the_loops_of_the_paper(environments: int, seed: int) -> None:
    rows = shifted(seed, environments, n=30)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    pairs, numerator, denominator = by_loops(rows.f, rows.baseline, rows.X, rows.env)
    assert found.labels == tuple(sorted(set(rows.env)))
    np.testing.assert_allclose(found.pairs, pairs, rtol=1e-10, atol=1e-12)
    assert found.numerator == pytest.approx(numerator, rel=1e-10)
    assert found.denominator == pytest.approx(denominator, rel=1e-10)
    assert found.value == pytest.approx(numerator / denominator, rel=1e-10)
    assert found.log10 == pytest.approx(math.log10(numerator / denominator), abs=1e-9)


def test_class_probabilities_are_summed_over_classes(seed: int) -> None:
    rows = shifted(seed, n=25)
    model, baseline = (
        np.exp(s) / np.exp(s).sum(axis=1, keepdims=True) for s in (rows.X, rows.X @ [[1, 0, 1], [0, 1, 1], [1, 1, 0]])
    )
    found = dric(model, rows.X, rows.env, baseline=baseline)
    each = [by_loops(model[:, k], baseline[:, k], rows.X, rows.env) for k in range(3)]
    assert found.pairs.shape == (3, 3, 3)
    np.testing.assert_allclose(found.pairs, np.stack([pairs for pairs, _, _ in each], axis=2), rtol=1e-10)
    expected = sum(numerator for _, numerator, _ in each) / sum(denominator for _, _, denominator in each)
    assert found.value == pytest.approx(expected, rel=1e-10)


def test_whole_weights_are_rows_of_the_loops(seed: int) -> None:
    rows = shifted(seed, n=25)
    weight = np.random.default_rng(seed + 1).integers(1, 4, len(rows.f))
    again = np.repeat(np.arange(len(weight)), weight)
    fitted = density_ratio(rows.X, rows.env, weight=weight)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, weight=weight)
    given = (rows.f[again].tolist(), fitted.at_rows[again].tolist(), list(rows.env[again]), fitted.labels)
    np.testing.assert_allclose(found.pairs, reference.transported_means(*given), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.sigma2, reference.variances(*given), rtol=1e-10)


@pytest.mark.parametrize("environments", [2, 5])
def test_the_baseline_itself_scores_exactly_one(environments: int, seed: int) -> None:
    rows = shifted(seed, environments)
    erm = LinearRegression().fit(rows.X, rows.X[:, 0] + rows.code).predict(rows.X)
    assert dric(erm, rows.X, rows.env, baseline=erm).value == 1.0
    assert dric(erm, rows.X, rows.env, baseline=erm).log10 == 0.0
    order = np.argsort(rows.env, kind="stable")  # rows that are grouped already are not copied
    X, env = rows.X[order], rows.env[order]
    assert dric(X[:, 0].copy(), X, env, baseline=X[:, 0]).value == 1.0  # the same numbers, laid out otherwise


@pytest.mark.parametrize("factor", [0.1, 1e-4, -3.0])
def test_shrunk_predictions_score_by_the_square_of_the_factor(factor: float, seed: int) -> None:
    rows = shifted(seed)
    found = dric(factor * rows.baseline, rows.X, rows.env, baseline=rows.baseline)
    assert found.value == pytest.approx(factor**2, rel=1e-12)
    assert found.log10 == pytest.approx(2 * math.log10(abs(factor)), abs=1e-12)


def test_it_does_not_measure_invariance(seed: int) -> None:
    """The docstring's warning: an invariant head scores no better than one that flips with the environment."""
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 4000)
    sign = np.where(env == "a", 1.0, -1.0)
    X = rng.normal(size=(8000, 2)) + np.outer(env == "b", [0.5, 0.0])
    y = X[:, 0] + sign * X[:, 1] + 0.5 * rng.normal(size=8000)
    invariant, shrunk = X[:, 0], 1e-6 * X[:, 1]
    scores = [dric(f, X, env, baseline=X.sum(axis=1)).value for f in (invariant, shrunk)]
    assert scores[1] < 1e-9 < scores[0]  # the smaller predictions win
    regrets = [regret(f[:, None], y, env, n_boot=99).value for f in (invariant, shrunk)]
    assert regrets[1] > 0.1 > 10 * abs(regrets[0])  # the invariant ones do


def test_predictions_that_do_not_move_score_zero(seed: int) -> None:
    rows = shifted(seed)
    found = dric(np.zeros(len(rows.f)), rows.X, rows.env, baseline=rows.baseline)
    assert (found.value, found.log10, found.numerator) == (0.0, -math.inf, 0.0)
    assert found.to_dict()["log10"] is None


def test_a_baseline_that_does_not_move_leaves_nothing_to_divide_by(seed: int) -> None:
    rows = shifted(seed)
    found = dric(rows.f, rows.X, rows.env, baseline=np.zeros(len(rows.f)))
    assert math.isnan(found.value)
    assert math.isnan(found.log10)
    assert found.numerator > 0
    assert any("nothing to divide by" in note for note in found.notes)


@pytest.mark.parametrize("copies", [2, 3, 6])
def test_identical_samples_have_ratios_of_one_and_good_overlap(copies: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(150, 3))
    env = np.repeat([f"e{k}" for k in range(copies)], 150)
    f = np.tile(X[:, 0], copies)
    found = dric(f, np.tile(X, (copies, 1)), env, baseline=f + 1)
    np.testing.assert_allclose(found.overlap.mean_ratio, 1.0, atol=1e-3)  # the solver stops at a tolerance
    np.testing.assert_allclose(found.overlap.effective, 1.0, atol=1e-3)
    assert found.overlap.verdicts == ("good",) * copies
    assert found.numerator < 1e-6
    assert not any("overlap" in note for note in found.notes)


@pytest.mark.parametrize("environments", [2, 3])
@pytest.mark.parametrize("gap", [6.0, 60.0])
def test_disjoint_environments_have_no_overlap(environments: int, gap: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(environments), 200)
    X = rng.normal(size=(len(code), 2))
    X[:, 0] += gap * code
    found = dric(X[:, 1], X, code, baseline=X[:, 0])
    assert found.overlap.verdicts == ("none",) * environments
    note = next(note for note in found.notes if "overlap" in note)
    assert all(str(k) in note for k in range(environments))
    assert "noise" in note


def test_overlap_gets_worse_as_environments_move_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1], 1000)
    noise = rng.normal(size=(2000, 2))
    ranks = []
    for gap in (0.0, 1.0, 2.0, 4.0, 8.0):
        X = noise + gap * code[:, None] * [1.0, 0.0]
        found = dric(X[:, 1], X, code, baseline=X[:, 0])
        ranks.append([("none", "weak", "good").index(verdict) for verdict in found.overlap.verdicts])
    assert np.all(np.diff(ranks, axis=0) <= 0)
    assert ranks[0] == [2, 2]
    assert ranks[-1] == [0, 0]


def test_an_outlier_far_on_the_other_side_does_not_overflow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    side = np.repeat([-1.0, 1.0], 20_000)
    X = side[:, None] + 0.01 * rng.normal(size=(40_000, 3))
    X[0] = 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dric(X[:, 0], X, side, baseline=X[:, 1])
    assert np.isfinite(found.overlap.effective).all()
    assert np.isfinite(found.value) or found.notes


def test_a_fitted_ratio_can_be_given(seed: int) -> None:
    rows = shifted(seed)
    fitted = density_ratio(rows.X, rows.env)
    one = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    other = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, ratio=fitted)
    assert other.value == one.value
    np.testing.assert_array_equal(other.pairs, one.pairs)


def test_the_true_ratio_gives_zero_for_every_predictor(seed: int) -> None:
    """Population value of every term is 0: what is left is of the order of 1/√n."""
    rng = np.random.default_rng(seed)
    n, mean = 100_000, np.array([[0.0, 0.0], [0.6, -0.4]])
    code = np.repeat([0, 1], n)
    X = rng.normal(size=(2 * n, 2)) + mean[code]

    def truth(x: np.ndarray) -> np.ndarray:
        return x @ mean.T - 0.5 * np.sum(mean**2, axis=1)

    for f in (X[:, 0], np.sin(X[:, 1]) + X[:, 0] ** 2):
        found = dric(f, X, code, baseline=f, ratio=truth)
        spread = np.std(f) * math.sqrt(math.exp(0.52) / n)  # E ρ² = exp(‖μ₁ − μ₂‖²)
        assert np.abs(found.pairs - np.diag(found.pairs)[:, None]).max() < 12 * spread
        assert found.ratio == "known ratio"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ratio": "wood"}, 'density ratio estimator "wood" is unknown: there are logistic'),
        ({"ratio": lambda x: np.zeros((len(x), 2)), "representation": np.zeros((210, 1))}, "give ratios .* as a pair"),
        ({"representation": np.zeros((7, 1))}, "X has 210 rows but the representation has 7"),
        ({"n_boot": 5}, "n_boot is 5: give"),
        ({"n_boot": "many"}, "n_boot is 'many': give"),
        (
            {"y": np.full(210, np.nan)},
            '^target "y" has 210 missing or infinite values: drop those rows or fill them in$',
        ),
        ({"y": np.repeat(["a", "b", "c"], 70)}, "y has 3 classes but predictions have 1 columns"),
        ({"baseline": np.zeros((210, 2))}, "predictions have 1 outputs but the baseline has 2"),
        ({"baseline": np.zeros(7)}, "X has 210 rows but baseline has 7"),
        (
            {"predictions": np.full(210, np.nan)},
            r"predictions: 210 rows have missing or infinite values \(.+ of \d+\); predict",
        ),
        ({"predictions": np.zeros((210, 2, 2))}, "give one column, or one per class"),
        ({"env": np.zeros(210)}, "only one environment"),
    ],
)
def test_bad_input_is_refused_with_the_reason(change: dict[str, Any], message: str, seed: int) -> None:
    rows = shifted(seed)
    given = {"predictions": rows.f, "env": rows.env, "baseline": rows.baseline, **change}
    with pytest.raises(InputError, match=message):
        dric(given.pop("predictions"), rows.X, **given)
