"""Density ratios by logistic regression: closed forms, the choice of the basis, and awkward columns."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from invariscope.ratios.basis import bases_for
from invariscope.ratios.density_ratio import density_ratio
from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.logistic import (
    FOLDS,
    RIDGE,
    ROWS_TO_CHOOSE,
    LogisticFit,
    _at_most,
    _Trial,
    _with_best_basis,
    fit_logistic,
)
from invariscope.rows.resampling import folds_by_content


def gaussians(means: np.ndarray, covariance: np.ndarray, sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(means)), sizes)
    return rng.multivariate_normal(np.zeros(len(covariance)), covariance, len(code)) + means[code], code


MEANS = np.array([[0.0, 0.0, 0.0], [0.6, -0.4, 0.2], [-0.3, 0.5, 0.4]])
COVARIANCE = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.3], [0.0, -0.3, 0.5]])


def true_log_ratio(X: np.ndarray, a: int, b: int) -> np.ndarray:
    """log N(x; μ_a, Σ) − log N(x; μ_b, Σ) = (μ_a − μ_b)ᵀ Σ⁻¹ (x − (μ_a + μ_b) / 2)."""
    direction = np.linalg.solve(COVARIANCE, MEANS[a] - MEANS[b])
    return (X - (MEANS[a] + MEANS[b]) / 2) @ direction


def basis_of(ratio: object) -> str:
    fit = ratio._fit
    assert isinstance(fit, LogisticFit)
    return fit.basis.name


def test_a_basis_is_judged_on_the_rows_it_has_not_seen(seed: int) -> None:
    X, _ = gaussians(MEANS, COVARIANCE, [60, 90, 50], seed)
    rows = GroupedRows(X, np.array([0, 60, 150, 200]))
    fold = folds_by_content(X, rows.offsets, FOLDS)
    basis = bases_for(rows)[0]
    trial = _Trial(basis, rows, fold, RIDGE)
    for k in (0, 1):
        trial.judge(k)
    losses = []
    for k in (0, 1):
        seen = fold != k
        fitted = LogisticRegression(C=1 / RIDGE, tol=1e-10, max_iter=10_000).fit(
            basis.expand(X[seen]), rows.codes[seen]
        )
        chances = fitted.predict_log_proba(basis.expand(X[~seen]))
        losses.append(-chances[np.arange(len(chances)), rows.codes[~seen]])
    # fits of trials stop early, a tenth of a nat from the best fit to all rows
    np.testing.assert_allclose(trial.losses, np.concatenate(losses), atol=0.1)
    assert trial.loss == pytest.approx(np.concatenate(losses).mean(), abs=0.005)


@pytest.mark.parametrize("sizes", [[50_000, 50_000], [70_000, 30_000], [40_000, 50_000, 60_000]])
def test_shifted_gaussians_have_the_log_ratio_of_the_closed_form(sizes: list[int], seed: int) -> None:
    X, code = gaussians(MEANS[: len(sizes)], COVARIANCE, sizes, seed)
    fitted = density_ratio(X, code)
    grid = X[:: len(X) // 500]
    for a, b in itertools.permutations(range(len(sizes)), 2):
        wrong = fitted.log(grid, a, b) - true_log_ratio(grid, a, b)
        assert np.sqrt(np.mean(wrong**2)) < 0.05
    np.testing.assert_allclose(fitted.overlap.mean_ratio, 1.0, atol=0.03)  # of a density ratio under its denominator


def table_4(d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P = N(0, I), Q = N(0.2, 1.5 I), 10,000 rows each, and log p / q at all of them (Table 4 of the DRIC paper)."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(10_000, d)), 0.2 + np.sqrt(1.5) * rng.normal(size=(10_000, d))])
    truth = 0.5 * np.sum((X - 0.2) ** 2 / 1.5 - X**2 + np.log(1.5), axis=1)
    return X, np.repeat(["P", "Q"], 10_000), truth


@pytest.mark.parametrize(("d", "published"), [(1, 0.2029), (5, 0.5302), (10, 0.8002)])
def test_raw_columns_give_the_published_error_and_the_default_a_fraction_of_it(
    d: int, published: float, seed: int
) -> None:
    X, env, truth = table_4(d, seed)
    raw = LogisticRegression().fit(X, env).decision_function(X)
    assert np.abs(-raw - truth).mean() == pytest.approx(published, rel=0.05)
    ratio = density_ratio(X, env)
    assert basis_of(ratio) == "squares"
    # sampling noise is all that is left: over eight draws 0.003 … 0.018, 0.022 … 0.048 and 0.054 … 0.073
    assert np.abs(ratio.log(X, "P", "Q") - truth).mean() < {1: 0.05, 5: 0.09, 10: 0.12}[d]


def two(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([X, Y]), np.repeat(["one", "two"], [len(X), len(Y)])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("linear", lambda x, rng: x + 0.4),
        ("linear", lambda x, rng: x),
        ("squares", lambda x, rng: 1.4 * x),
        ("second-order", lambda x, rng: x @ np.linalg.cholesky([[1.0, 0.5], [0.5, 1.0]]).T),
        ("spline", lambda x, rng: x[rng.uniform(size=len(x)) < np.where(np.abs(x[:, 0] - 0.8) < 0.6, 0.1, 1.0)]),
    ],
    ids=["shifted", "alike", "wider", "correlated", "dented"],
)
def test_the_basis_is_mostly_the_one_the_environments_need(
    name: str, change: Callable[[np.ndarray, np.random.Generator], np.ndarray], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    found = [
        basis_of(density_ratio(*two(rng.normal(size=(3000, 2)), change(rng.normal(size=(3000, 2)), rng))))
        for _ in range(5)
    ]
    assert found.count(name) >= 3, found


def test_what_the_richer_basis_buys(seed: int) -> None:
    """Correlated Gaussians of the same margins: log ratio −½ log(1 − r²) − (r² (x² + y²) − 2 r x y) / 2 (1 − r²)."""
    rng = np.random.default_rng(seed)
    r = 0.5
    X, env = two(rng.normal(size=(8000, 2)) @ np.linalg.cholesky([[1.0, r], [r, 1.0]]).T, rng.normal(size=(8000, 2)))
    x, y = X.T
    truth = -0.5 * np.log(1 - r**2) - (r**2 * (x**2 + y**2) - 2 * r * x * y) / (2 * (1 - r**2))
    assert np.abs(density_ratio(X, env).log(X, "one", "two") - truth).mean() < 0.06
    assert np.abs(truth).mean() > 0.3


def test_sizes_are_corrected_for(seed: int) -> None:
    """The same law in a small and a large environment: the ratio is 1, not the ratio of the sizes."""
    rng = np.random.default_rng(seed)
    X, code = rng.normal(size=(22_000, 2)), np.repeat([0, 1], [2000, 20_000])
    fitted = density_ratio(X, code)
    assert np.abs(fitted.log(X[:100], 0, 1)).max() < 0.5
    assert abs(fitted.log(np.zeros((1, 2)), 0, 1)[0]) < 0.1


def test_again_keeps_the_choices_and_sees_the_other_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = GroupedRows(
        np.concatenate([rng.normal(size=(500, 2)), 1.5 * rng.normal(size=(500, 2))]), np.array([0, 500, 1000])
    )
    fit = fit_logistic(rows, rng)
    moved = GroupedRows(rows.X + np.repeat([0.0, 1.0], 500)[:, None], rows.offsets)
    again = fit.again(moved)
    assert (again.basis.name, again.ridge) == (fit.basis.name, fit.ridge)
    x = np.array([[2.0, 2.0]])
    assert np.diff(again.log_densities(x))[0, 0] > np.diff(fit.log_densities(x))[0, 0] + 0.5
    np.testing.assert_allclose(fit.again(rows).log_densities(rows.X), fit.log_densities(rows.X), atol=5e-3)


def test_the_choice_is_made_on_a_bounded_number_of_rows_of_all_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.array([30_000, 15_000, 40])
    rows = GroupedRows(rng.normal(size=(sizes.sum(), 2)), np.concatenate([[0], np.cumsum(sizes)]))
    few = np.diff(_at_most(rows, ROWS_TO_CHOOSE).offsets)
    assert few[2] == 40
    assert np.all(few[:2] >= ROWS_TO_CHOOSE // 3)
    assert few.sum() < 2 * ROWS_TO_CHOOSE


@pytest.mark.parametrize("environments", [2, 3, 5])
def test_constant_and_duplicated_columns_do_no_harm(environments: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(environments), 100)
    x = rng.normal(size=(len(code), 1)) + 0.5 * code[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = density_ratio(x, code)
        padded = np.hstack([x, np.full_like(x, 7.0)])
        constant = density_ratio(padded, code)
        nothing = density_ratio(np.full((len(code), 2), 0.1), code)
        twice = density_ratio(np.hstack([x, x]), code)
    np.testing.assert_allclose(constant.log(padded, 1, 0), plain.log(x, 1, 0), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(nothing.log(np.full((3, 2), 0.1), 0, 1), 0.0, atol=1e-6)
    # folds fall another way in two columns, so that another basis may be taken
    assert np.corrcoef(twice.log(np.hstack([x, x]), 1, 0), plain.log(x, 1, 0))[0, 1] > 0.9


@pytest.mark.parametrize(("factor", "shift"), [(1e9, 0.0), (1e-9, 0.0), (1.0, 1e6), (1e12, 1e15)])
def test_units_do_not_matter(factor: float, shift: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 200)
    X = rng.normal(size=(600, 2)) + 0.5 * code[:, None]
    moved = X * factor + shift
    expected = density_ratio(X, code).log(X, 0, 2)
    found = density_ratio(moved, code).log(moved, 0, 2)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_many_environments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(60), 50)
    X = rng.normal(size=(3000, 2)) + 0.03 * code[:, None]
    fitted = density_ratio(X, code)
    slopes = fitted.log_densities(np.ones((1, 2)))[0] - fitted.log_densities(-np.ones((1, 2)))[0]
    assert np.corrcoef(slopes, np.arange(60))[0, 1] > 0.9


def test_squares_are_taken_as_soon_as_they_are_better_and_other_bases_only_by_more_than_chance(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spread 1.1 times as wide: squares win by less than chance, and are taken; splines and others must do better."""
    worse_than = _Trial.worse_than
    monkeypatch.setattr(_Trial, "worse_than", lambda *given: given[-1] < 2 and worse_than(*given))  # all see all folds
    rng = np.random.default_rng(seed)
    close = {"linear": 0, "squares": 0, "others": 0}
    for _ in range(40):
        X, _ = two(rng.normal(size=(250, 2)), 1.1 * rng.normal(size=(250, 2)))
        rows = GroupedRows(X, np.array([0, 250, 500]))
        fold = folds_by_content(rows.X, rows.offsets, FOLDS)
        trials = {basis.name: _Trial(basis, rows, fold, RIDGE) for basis in bases_for(rows)}
        for trial, k in itertools.product(trials.values(), range(FOLDS)):
            trial.judge(k)
        best = min(trials.values(), key=lambda trial: trial.loss)
        plain = trials["linear"], trials["squares"]
        if any(trial.worse_than(best, 1.0) for trial in plain) or abs(plain[0].loss - plain[1].loss) < 1e-3:
            continue  # not a matter of chance, or one of how far a fit went
        better = min(plain, key=lambda trial: trial.loss).basis.name
        assert _with_best_basis(rows, fold).basis.name == better
        close[better] += 1
        close["others"] += best.basis.name not in ("linear", "squares")
    assert min(close.values()) >= 2, close
