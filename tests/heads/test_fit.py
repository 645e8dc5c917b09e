"""Heads: fitted, judged and left out fold by fold, against loops over rows, scikit-learn and statsmodels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression

from invariscope.criteria.regret.regret import regret
from invariscope.errors import InputError
from invariscope.heads import fit as heads
from invariscope.heads import linear_algebra, wide
from invariscope.heads.fit import (
    SEPARATED,
    capped,
    cross_losses,
    evaluate,
    fit_own,
    fit_shared,
    held_out_loss,
    score_covariances,
    theta_of,
)
from invariscope.heads.linear_algebra import spectrum
from invariscope.heads.losses import loss_of, softmax
from invariscope.heads.passes import without_flat
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import rows_of_folds
from invariscope.rows.targets import target_of
from tests.reference import heads as reference

SIZES = (50, 70, 90)


class Problem:
    """Three environments with their own coefficients; ``classes`` 0 is regression. One column has a large mean."""

    def __init__(self, classes: int, seed: int, weighted: bool = False, scale: float = 1.0) -> None:
        rng = np.random.default_rng(seed)
        n = sum(SIZES)
        self.env = rng.permutation(np.repeat(["p", "q", "r"], SIZES))
        spread = rng.normal(size=(n, 3))
        self.X = spread * [1.0, 2.0, 0.5] + np.array([0.0, 500.0, -1.0])
        if classes == 0:
            self.y = spread @ [1.0, -1.0, 0.5] + (self.env == "q") * spread[:, 0] + rng.normal(size=n) + 30.0
        else:
            scores = scale * 0.6 * spread @ rng.normal(size=(3, classes)) + rng.gumbel(size=(n, classes))
            self.y = np.argmax(scores, axis=1)
            for label in "pqr":  # every class in every environment
                self.y[np.flatnonzero(self.env == label)[:classes]] = np.arange(classes)
        self.weight = rng.integers(1, 4, n).astype(float) if weighted else None
        self.data = Environments(self.X, self.y, self.env, self.weight)
        self.target = target_of(self.data, "classification" if classes else "regression")
        self.loss = loss_of(self.target)
        self.size = self.loss.n_scores * self.data.blocks.width
        self.rng = rng

    def part(self, environment: int) -> tuple[Any, Any, Any]:
        """Design rows, target and weights of an environment, in stored order."""
        rows = slice(self.data.offsets[environment], self.data.offsets[environment + 1])
        design = np.column_stack([np.ones(rows.stop - rows.start), self.data.X[rows] - self.data.blocks.shift])
        return design, self.target.values[rows], None if self.data.weight is None else self.data.weight[rows]

    def head(self, theta: Any) -> Any:
        return theta.reshape(self.loss.n_scores, -1)

    def some_theta(self) -> Any:
        return 0.3 * self.rng.normal(size=(3, self.size))


every_task = pytest.mark.parametrize(
    "classes", [0, 2, 3, 5], ids=["squared", "logistic", "softmax of 3", "softmax of 5"]
)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])


# --- judging ---------------------------------------------------------------------------------------------------------
@every_task
@weighted_or_not
def test_loss_gradient_and_hessian_equal_loops(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    theta = problem.some_theta()
    found = evaluate(problem.data, problem.target, theta)
    for e in range(3):
        rows, y, weight = problem.part(e)
        arguments = (reference.name_of(problem.loss), problem.head(theta[e]), rows, y, weight)
        np.testing.assert_allclose(found.loss[e], reference.total_loss(*arguments), rtol=1e-10)
        np.testing.assert_allclose(found.gradient[e], reference.total_gradient(*arguments), rtol=1e-9, atol=1e-9)
        hessian = reference.total_hessian(reference.name_of(problem.loss), problem.head(theta[e]), rows, weight)
        np.testing.assert_allclose(found.hessian[e], hessian, rtol=1e-9, atol=1e-9)


@every_task
def test_gradient_and_hessian_are_slopes(classes: int, seed: int) -> None:
    problem = Problem(classes, seed)
    theta = problem.some_theta()
    found = evaluate(problem.data, problem.target, theta)

    def at(part: str, e: int, values: Any) -> Any:
        moved = theta.copy()
        moved[e] = values
        return getattr(evaluate(problem.data, problem.target, moved), part)[e]

    for e in range(3):
        gradient = reference.slope(lambda values, e=e: at("loss", e, values), theta[e])
        hessian = reference.slope(lambda values, e=e: at("gradient", e, values), theta[e])
        np.testing.assert_allclose(found.gradient[e], gradient, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found.hessian[e], hessian, rtol=1e-5, atol=1e-5)


@every_task
@weighted_or_not
def test_a_stack_of_heads_is_judged_outside_its_folds(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    stack = np.stack([problem.some_theta() for _ in range(4)])
    found = evaluate(problem.data, problem.target, stack)
    assert found.hessian.shape == (4, 3, problem.size, problem.size)
    for e in range(3):
        rows, y, weight = problem.part(e)
        for fold in range(4):
            kept = np.arange(len(y)) % 4 != fold
            arguments = (rows[kept], y[kept], None if weight is None else weight[kept])
            head = problem.head(stack[fold, e])
            expected = reference.total_loss(reference.name_of(problem.loss), head, *arguments)
            np.testing.assert_allclose(found.loss[fold, e], expected, rtol=1e-10)
            gradient = reference.total_gradient(reference.name_of(problem.loss), head, *arguments)
            np.testing.assert_allclose(found.gradient[fold, e], gradient, rtol=1e-9, atol=1e-8)


@every_task
@weighted_or_not
def test_held_out_loss_equals_a_loop(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    stack = np.stack([problem.some_theta() for _ in range(3)])
    found = held_out_loss(problem.data, problem.target, stack)
    for e in range(3):
        rows, y, weight = problem.part(e)
        expected = 0.0
        for i in range(len(y)):  # each row by the head that has not seen it
            loss = reference.row_loss(reference.name_of(problem.loss), problem.head(stack[i % 3, e]), rows[i], y[i])
            expected += loss * (1.0 if weight is None else weight[i])
        np.testing.assert_allclose(found[e], expected, rtol=1e-9)


@every_task
@weighted_or_not
def test_cross_losses_equal_a_loop(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    theta = problem.some_theta()
    found = cross_losses(problem.data, problem.target, theta)
    assert found.shape == (3, 3)
    for a in range(3):
        for b in range(3):
            expected = reference.total_loss(reference.name_of(problem.loss), problem.head(theta[b]), *problem.part(a))
            np.testing.assert_allclose(found[a, b], expected, rtol=1e-9)
    own = evaluate(problem.data, problem.target, theta)
    np.testing.assert_allclose(np.diag(found), own.loss, rtol=1e-10)


def test_folds_count_off_the_rows_of_an_environment() -> None:
    data = Environments(np.arange(9.0), None, list("aabbbbbbb"))
    assert folds_of(data, 0, slice(0, 2)) == [0, 1]
    assert folds_of(data, 1, slice(2, 9)) == [0, 1, 2, 0, 1, 2, 0]
    assert folds_of(data, 1, slice(5, 7)) == [0, 1]  # a block in the middle goes on counting


def test_rows_of_weight_zero_take_no_turn_in_the_folds() -> None:
    weight = np.array([0.0, 2.0, 0.0, 1.0, 0.0, 0.5, 3.0, 1.0, 1.0])
    data = Environments(np.arange(9.0), None, list("aabbbbbbb"), weight)
    there = weight > 0
    assert [fold for fold, counts in zip(folds_of(data, 0, slice(0, 2)), there[:2], strict=True) if counts] == [0]
    assert [fold for fold, counts in zip(folds_of(data, 1, slice(2, 9)), there[2:], strict=True) if counts] == [
        *(0, 1, 2, 0, 1)
    ]
    assert folds_of(data, 1, slice(6, 8)) == [2, 0]  # a block in the middle goes on counting
    assert folds_of(data.with_weight(np.ones(9)), 1, slice(2, 9)) == [0, 1, 2, 0, 1, 2, 0]


def folds_of(data: Environments, environment: int, rows: slice) -> list[int]:
    fold = np.full(rows.stop - rows.start, -1)
    for k, there in enumerate(rows_of_folds(data, environment, rows, 3)):
        assert np.all(fold[there] == -1)
        fold[there] = k
    return fold.tolist()


# --- fitting ---------------------------------------------------------------------------------------------------------
def scikit_learn_head(problem: Problem, X: Any, y: Any, weight: Any) -> tuple[Any, Any]:
    """Weight and bias by scikit-learn; softmax weights sum to zero over the classes."""
    if reference.name_of(problem.loss) == "squared":
        line = LinearRegression().fit(X, y, sample_weight=weight)
        return line.coef_[None], np.array([line.intercept_])
    centre = X.mean(axis=0)
    curve = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=500)
    curve.fit(X - centre, y, sample_weight=weight)
    return curve.coef_, curve.intercept_ - curve.coef_ @ centre


def compared(problem: Problem, theta: Any) -> tuple[Any, Any]:
    weight, bias = reference.raw_parameters(problem.data, problem.loss, theta)
    if reference.name_of(problem.loss) == "softmax":
        weight, bias = weight - weight.mean(axis=0), bias - bias.mean()
    return weight, bias


def assert_same_head(found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    weight, bias = expected
    if len(weight) > 1:
        weight, bias = weight - weight.mean(axis=0), bias - bias.mean()
    np.testing.assert_allclose(found[0], weight, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], bias, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(weight).max() * 500))


@every_task
@weighted_or_not
def test_own_heads_are_scikit_learns(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    found = fit_own(problem.data, problem.target)
    for e, label in enumerate(problem.data.labels):
        part = problem.data[label]
        expected = scikit_learn_head(problem, part.X, part.y, part.weight)
        assert_same_head(compared(problem, found.theta[e]), expected)
    allowed = 1e-5 * np.sqrt(np.diagonal(found.hessian, axis1=1, axis2=2))
    assert (np.abs(found.gradient) <= allowed).all()


@every_task
@weighted_or_not
def test_the_shared_head_is_scikit_learns_with_weights(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    environment_weight = np.array([1.0, 0.3, 2.0])
    found = fit_shared(problem.data, problem.target, environment_weight)
    np.testing.assert_array_equal(found.theta, np.tile(found.theta[0], (3, 1)))
    weight = environment_weight[problem.data.codes]
    if problem.data.weight is not None:
        weight = weight * problem.data.weight
    expected = scikit_learn_head(problem, problem.data.X, problem.target.values, weight)
    assert_same_head(compared(problem, found.theta[0]), expected)
    np.testing.assert_allclose(found.loss, evaluate(problem.data, problem.target, found.theta).loss, rtol=1e-12)


def test_softmax_heads_are_scipys(seed: int) -> None:
    problem = Problem(4, seed, weighted=True)
    found = fit_own(problem.data, problem.target)
    rows, y, weight = problem.part(0)
    best = reference.fit("softmax", 4, rows, y, weight)
    least = reference.total_loss("softmax", best, rows, y, weight)
    assert found.loss[0] <= least * (1 + 1e-9)
    assert found.loss[0] == pytest.approx(least, rel=1e-6)


@every_task
def test_weights_are_repetitions(classes: int, seed: int) -> None:
    problem = Problem(classes, seed, weighted=True)
    assert problem.weight is not None
    times = problem.weight.astype(int)
    repeated_rows = [np.repeat(part, times, axis=0) for part in (problem.X, problem.y, problem.env)]
    data = Environments(*repeated_rows)
    target = target_of(data, problem.target.task)
    shared_weights = np.array([1.0, 0.5, 2.0])
    for fit in (fit_own, lambda *given: fit_shared(*given, shared_weights)):
        weighted, repeated = fit(problem.data, problem.target), fit(data, target)
        np.testing.assert_allclose(weighted.loss, repeated.loss, rtol=1e-9)
        for e in range(3):
            first = compared(problem, weighted.theta[e])
            second = reference.raw_parameters(data, problem.loss, repeated.theta[e])
            assert_same_head(first, second)
    # on one and the same design, so that parameters mean the same
    data = Environments(*repeated_rows)
    data.blocks.shift = problem.data.blocks.shift
    target = target_of(data, problem.target.task)
    theta = problem.some_theta()
    first, second = evaluate(problem.data, problem.target, theta), evaluate(data, target, theta)
    np.testing.assert_allclose(first.gradient, second.gradient, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(first.hessian, second.hessian, rtol=1e-9, atol=1e-7)
    factor = spectrum(first.hessian).inverse_root()
    for given in (None, factor):
        for one, other in zip(
            score_covariances(problem.data, problem.target, theta, given),
            score_covariances(data, target, theta, given),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-7)


@every_task
@weighted_or_not
def test_heads_without_a_fold_are_refits_on_the_rest(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    environment_weight = np.array([1.0, 0.3, 2.0])
    data, target = problem.data, problem.target
    found = fit_shared(data, target, environment_weight, folds=4)
    assert found.theta.shape == (4, 3, problem.size)
    position = np.concatenate([np.arange(size) for size in data.sizes])
    for fold in range(4):
        kept = position % 4 != fold
        weight = environment_weight[data.codes[kept]]
        if data.weight is not None:
            weight = weight * data.weight[kept]
        expected = scikit_learn_head(problem, data.X[kept], target.values[kept], weight)
        assert_same_head(compared(problem, found.theta[fold, 0]), expected)
        np.testing.assert_array_equal(found.theta[fold, 1], found.theta[fold, 0])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_start_does_not_matter(classes: int, seed: int) -> None:
    problem = Problem(classes, seed)
    best = fit_shared(problem.data, problem.target, np.ones(3))
    # the last ones lie far out, where the loss is flat and Newton's steps overshoot a thousandfold
    for start in (best.theta[0], *(size * problem.rng.normal(size=problem.size) for size in (2.0, 5.0, 10.0))):
        again = fit_shared(problem.data, problem.target, np.ones(3), start)
        np.testing.assert_allclose(again.loss, best.loss, rtol=1e-7)
        assert_same_head(compared(problem, again.theta[0]), compared(problem, best.theta[0]))


def test_far_starts_come_back_in_few_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(3, seed)
    passes = []
    monkeypatch.setattr(heads, "evaluate", lambda *given: passes.append(1) or evaluate(*given))
    for _ in range(8):
        fit_shared(problem.data, problem.target, np.ones(3), 10.0 * problem.rng.normal(size=problem.size))
    assert len(passes) <= 8 * 24  # about 14 each; with bare halving 37


def test_parameters_travel_between_designs(seed: int) -> None:
    problem = Problem(3, seed)
    theta = problem.some_theta()[0]
    weight, bias = reference.raw_parameters(problem.data, problem.loss, theta)
    assert (weight.shape, bias.shape) == ((3, 3), (3,))
    np.testing.assert_allclose(theta_of(problem.data, weight, bias), theta, rtol=1e-9, atol=1e-9)
    rows, _, _ = problem.part(1)
    np.testing.assert_allclose(rows @ problem.head(theta).T, problem.data["q"].X @ weight.T + bias, atol=1e-9)


def test_single_precision_rows_are_summed_in_double(seed: int) -> None:
    problem = Problem(2, seed)
    X = problem.X.astype(np.float32)
    single, double = Environments(X, problem.y, problem.env), Environments(X.astype(float), problem.y, problem.env)
    found, expected = fit_own(single, target_of(single)), fit_own(double, target_of(double))
    assert found.theta.dtype == np.float64
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-12)


# --- where heads are not unique or not finite ------------------------------------------------------------------------
@every_task
def test_redundant_columns_do_not_change_what_a_head_says(classes: int, seed: int) -> None:
    problem = Problem(classes, seed)
    X = np.column_stack([problem.X, problem.X[:, 1], np.full(len(problem.X), 0.1), problem.X @ [1.0, 1.0, -2.0]])
    data = Environments(X * [1.0, 1e15, 1.0, 1e-15, 1.0, 1.0], problem.y, problem.env)
    target = target_of(data, problem.target.task)
    plain, odd = fit_own(problem.data, problem.target), fit_own(data, target)
    np.testing.assert_allclose(odd.loss, plain.loss, rtol=1e-7)
    shared, odd_shared = (fit_shared(d, t, np.ones(3)) for d, t in ((problem.data, problem.target), (data, target)))
    np.testing.assert_allclose(odd_shared.loss, shared.loss, rtol=1e-7)
    np.testing.assert_allclose(
        cross_losses(data, target, odd.theta), cross_losses(problem.data, problem.target, plain.theta), rtol=1e-5
    )


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_separable_classes_end_in_finite_heads(classes: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    y = np.arange(120) % classes
    X = np.column_stack([10.0 * y, 10.0 * (y == 1), 10.0 * (y == 2)]) + rng.uniform(-1, 1, (120, 3))
    data = Environments(X, y, np.arange(120) // 40)
    target = target_of(data, "classification")
    passes = []
    monkeypatch.setattr(heads, "evaluate", lambda *given: passes.append(1) or evaluate(*given))
    for fitted in (
        fit_own(data, target),
        fit_shared(data, target, np.ones(3)),
        fit_shared(data, target, np.ones(3), folds=3),
    ):
        for part in (fitted.theta, fitted.loss, fitted.gradient, fitted.hessian):
            assert np.isfinite(part).all()
        assert (fitted.loss / 40 < SEPARATED).all()
    assert len(passes) <= 3 * 20  # they stop as soon as the classes are split, not when the steps run out


@pytest.mark.parametrize("seed", [3, 6])
def test_some_classes_told_apart_and_others_not(seed: int) -> None:
    """Weights of the first run away for ever, and steps along them overshoot: the head must not be left there."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 8, 400)
    Z = np.eye(8)[y][:, 1:] * np.r_[np.full(4, 4.0), np.full(3, 1.5)] + rng.normal(size=(400, 7))
    env = rng.integers(0, 2, 400)
    units = 10.0 ** rng.integers(-3, 4, 7)
    data = Environments.of(Z, y, env)
    own = fit_own(data, target_of(data, "auto"))
    for e, label in enumerate(data.labels):
        here = env == label
        peer = LogisticRegression(C=1e6, max_iter=10_000).fit(Z[here], y[here])
        lost = -np.log(peer.predict_proba(Z[here])[np.arange(here.sum()), y[here]]).sum()
        assert lost * 0.9 < own.loss[e] < lost * 1.0001
    own_loss = regret(Z, y, env, n_boot=0).own_loss
    assert np.all((own.loss / data.rows < own_loss) & (own_loss < 1.5 * own.loss / data.rows))
    np.testing.assert_allclose(own_loss, regret(Z * units, y, env, n_boot=0).own_loss, 1e-4)


def test_one_separable_environment_leaves_the_others_alone(seed: int) -> None:
    problem = Problem(2, seed)
    X = problem.X.copy()
    here = problem.env == "r"
    X[here, 0] = np.where(problem.y[here] == 1, 5.0, -5.0)
    data = Environments(X, problem.y, problem.env)
    found, expected = fit_own(data, target_of(data)), fit_own(problem.data, problem.target)
    np.testing.assert_allclose(found.loss[:2], expected.loss[:2], rtol=1e-9)
    assert found.loss[2] / 90 < SEPARATED


def test_a_class_that_one_column_gives_away(seed: int) -> None:
    """Quasi-separation: the weight of that column has no finite optimum, the loss has."""
    problem = Problem(2, seed)
    flag = (problem.y == 1) & (np.arange(len(problem.y)) % 2 == 0)
    data = Environments(np.column_stack([problem.X, flag]), problem.y, problem.env)
    target = target_of(data)
    found = fit_own(data, target)
    assert np.isfinite(found.theta).all()
    for e, label in enumerate(data.labels):
        rest = (problem.env == label) & ~flag
        curve = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=500)
        X = problem.X[rest] - problem.X.mean(axis=0)
        p = curve.fit(X, problem.y[rest]).predict_proba(X)[np.arange(rest.sum()), problem.y[rest]]
        assert found.loss[e] == pytest.approx(-np.log(p).sum(), rel=1e-4)


def test_numbers_beyond_computing_are_refused_in_words(seed: int) -> None:
    problem = Problem(2, seed)
    data = Environments(problem.X * [1.0, 1e200, 1.0], problem.y, problem.env)
    with pytest.raises(
        InputError, match=r'column "x1" holds numbers of the order of 5e\+202.*multiply it by a constant'
    ):
        fit_own(data, target_of(data))


# --- noise -----------------------------------------------------------------------------------------------------------
@every_task
@weighted_or_not
def test_score_covariances_equal_loops(classes: int, weighted: bool, seed: int) -> None:
    problem = Problem(classes, seed, weighted)
    fitted = fit_own(problem.data, problem.target)
    part = spectrum(fitted.hessian)
    plain, sums = score_covariances(problem.data, problem.target, fitted.theta)
    corrected, _ = score_covariances(problem.data, problem.target, fitted.theta, part.inverse_root())
    scale = np.abs(plain).max(axis=(1, 2))
    for e in range(3):
        arguments = (reference.name_of(problem.loss), problem.head(fitted.theta[e]), *problem.part(e))
        np.testing.assert_allclose(plain[e], reference.score_covariance(*arguments), atol=1e-9 * scale[e])
        hc2 = reference.score_covariance(*arguments, inverse=part.inverse()[e])
        np.testing.assert_allclose(corrected[e], hc2, atol=1e-6 * scale[e])
        np.testing.assert_allclose(sums[e], reference.total_gradient(*arguments), atol=1e-6)
    assert (np.trace(corrected, axis1=1, axis2=2) > np.trace(plain, axis1=1, axis2=2)).all()


def test_squared_loss_with_leverages_is_hc2(seed: int) -> None:
    problem = Problem(0, seed)
    fitted = fit_own(problem.data, problem.target)
    part = spectrum(fitted.hessian)
    outer, _ = score_covariances(problem.data, problem.target, fitted.theta, part.inverse_root())
    for e in range(3):
        rows, y, _ = problem.part(e)
        expected = sm.OLS(y, rows).fit().cov_HC2
        found = part.inverse()[e] @ outer[e] @ part.inverse()[e]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())


def test_leverages_are_capped() -> None:
    np.testing.assert_array_equal(capped(np.array([0.2, 0.99, 0.999, 1.0])), [0.2, 0.99, 0.99, 0.99])
    # a row that alone determines a coefficient: its residual is 0 and stays finite
    X = np.r_[np.zeros(19), 1.0, np.zeros(20)]
    y = np.random.default_rng(0).normal(size=40)
    data = Environments(X, y, np.arange(40) // 20)
    target = target_of(data)
    fitted = fit_own(data, target)
    outer, _ = score_covariances(data, target, fitted.theta, spectrum(fitted.hessian).inverse_root())
    assert np.isfinite(outer).all()


def test_the_pooled_head_gives_the_pooled_scores_in_the_users_own_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 3)) * [1.0, 10.0, 0.1] + [2000.0, 5.0, 0.0]  # the first is moved to zero inside
    env = np.repeat(["a", "b"], 200)
    for y in (X @ [1.0, 0.2, 3.0] + rng.normal(size=400), (rng.random(400) < 0.4).astype(float)):
        data = Environments(X, y, env)
        target = target_of(data)
        head, scores = heads.pooled_head(data, target)
        np.testing.assert_allclose(head.scores(data.X), scores, rtol=1e-8, atol=1e-8)


# --- wide heads ------------------------------------------------------------------------------------------------------
def test_wide_heads_say_what_narrow_ones_do(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Nothing is left of the free constant of several scores: steps are solved without a decomposition."""
    rng = np.random.default_rng(seed)
    Z, env = np.column_stack([rng.normal(size=(600, 3)), np.zeros(600)]), np.repeat([0, 1], 300)
    y = np.argmax(Z[:, :3] + rng.gumbel(size=(600, 3)), axis=1)
    data = Environments(Z, y, env)
    target = target_of(data)
    narrow, narrow_own = heads.pooled_head(data, target)[1], fit_own(data, target)
    heads._POOLED.clear()
    for module in (wide, linear_algebra):
        monkeypatch.setattr(module, "WIDE", 4)
        monkeypatch.setattr(module, "spectrum", lambda *_: pytest.fail("decomposed"))
    head, scores = heads.pooled_head(data, target)
    np.testing.assert_allclose(softmax(scores), softmax(narrow), rtol=1e-7)
    np.testing.assert_allclose(head.weight.sum(axis=0), 0.0, atol=1e-10)
    own = fit_own(data, target)
    np.testing.assert_allclose(own.loss, narrow_own.loss, rtol=1e-10)
    assert own.converged


def test_a_column_that_is_flat_for_one_class_alone_is_decomposed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    hessian = np.eye(6)[None].copy()
    hessian[0, 0, 0] = 0.0
    monkeypatch.setattr(wide, "WIDE", 4)
    np.testing.assert_array_equal(wide.without_free_constant(hessian, 3), hessian)
    np.testing.assert_array_equal(wide.without_free_constant(np.eye(6)[None], 1), np.eye(6)[None])
    pinned = wide.without_free_constant(np.diag([1.0, 2, 3, 4, 5, 6])[None], 3)[0]
    np.testing.assert_array_equal(pinned[:, 0], [4, 0, 3, 0, 3, 0])  # mean of 1, 3, 5 for the first of two columns
    np.testing.assert_array_equal(pinned[:, 5], [0, 4, 0, 4, 0, 10])


def test_the_pooled_head_is_fitted_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(400, 2))
    data = Environments(Z, Z[:, 0] + rng.logistic(size=400) > 0, np.repeat([0, 1], 200))
    target, passes = target_of(data), []
    monkeypatch.setattr(heads, "evaluate", lambda *given: passes.append(1) or evaluate(*given))
    first = heads.fit_pooled(data, target)
    steps = len(passes)
    second = heads.fit_pooled(data, target)
    assert steps > 3
    assert len(passes) == steps + 1
    np.testing.assert_array_equal(first.theta, second.theta)
    np.testing.assert_array_equal(first.hessian, second.hessian)
    other = replace(target, values=1 - target.values)
    np.testing.assert_allclose(heads.fit_pooled(data, other).theta, -first.theta, atol=1e-9)
    assert len(passes) > steps + 3  # another target is another fit
    three = replace(target, task="multiclass", values=np.arange(400.0) % 3, classes=(0, 1, 2))
    assert heads.fit_pooled(data, three).theta.shape == (2, 9)


def test_a_column_without_curvature_shares_none_with_others() -> None:
    """Rows of the second column are all of class 1, and the head is sure of it: p(1 − p) = e⁻²⁵ is rounding error."""
    X = np.c_[[1.0, -1.0, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]
    data = Environments(np.r_[X, -X], [0, 1, 0, 1, 1, 1] * 2, np.repeat(["a", "b"], 6))
    theta = np.tile(theta_of(data, np.array([[0.0, 25.0]]), np.array([0.0])), (2, 1))
    found = evaluate(data, target_of(data, "classification"), theta).hessian[0]
    assert found[2].tolist() == found[:, 2].tolist() == [0.0, 0.0, 0.0]  # not even 1e-11 with the intercept
    shifted = np.c_[np.ones(3), X[:3, 0] - data.blocks.shift[0]]
    np.testing.assert_allclose(found[:2, :2], shifted.T @ shifted / 4, rtol=1e-9)


def test_scores_beside_a_flat_one_share_no_curvature():
    """Rows of two of three classes: added to the scores of both, a constant only moves the class that nobody is of."""
    p, z = np.array([0.3, 0.7 - 1e-9, 1e-9]), np.array([1.0, 2.0])
    hessian = np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z) + np.diag([0.0, 1.0]))[None]
    live = np.array([[True, True, True, True, False, True]])  # the third class has no intercept to speak of
    kept = without_flat(hessian, live, 3)[0]
    together = np.array([1.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    assert 0 < hessian[0] @ together @ together < 1e-8
    np.testing.assert_allclose(kept @ together, 0.0, atol=1e-15)
    np.testing.assert_array_equal(kept, kept.T)
    assert not kept[4].any()
    np.testing.assert_allclose(kept[:4, :4], hessian[0, :4, :4], atol=1e-8)  # nothing else is lost
    np.testing.assert_array_equal(without_flat(hessian, np.ones((1, 6), dtype=bool), 3), hessian)
    values = np.linalg.eigvalsh(kept)
    assert (values > 1e-6).sum() == 2  # one intercept and one slope between two classes; the third's slope is as flat
