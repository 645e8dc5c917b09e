"""Losses: value, slope, curvature and leverage agree with loops and with each other, also where numbers are extreme."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.heads.linear_algebra import spectrum
from invariscope.heads.losses import (
    LogisticLoss,
    Loss,
    SoftmaxLoss,
    SquaredLoss,
    log_sum_exp,
    loss_of,
    score_rows,
    softmax,
    softmax_in_place,
    weighted_gram,
)
from invariscope.rows.targets import Target
from tests.reference import heads as reference

LOSSES: list[Loss] = [SquaredLoss(), LogisticLoss(), SoftmaxLoss(3), SoftmaxLoss(5)]
NAMES = ["squared", "logistic", "softmax of 3", "softmax of 5"]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=NAMES)


class Example:
    """Rows with an intercept, a head, its scores, outcomes and weights."""

    def __init__(self, loss: Loss, seed: int, n: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.rows = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
        self.head = rng.normal(size=(loss.n_scores, 3))
        self.scores = self.rows @ self.head.T
        classes = 2 if reference.name_of(loss) == "logistic" else loss.n_scores
        self.y = (
            rng.normal(size=n) if reference.name_of(loss) == "squared" else rng.integers(0, classes, n).astype(float)
        )
        self.weight = rng.uniform(0, 3, n)


@every_loss
def test_values_and_residuals_equal_loops(loss: Loss, seed: int) -> None:
    ex = Example(loss, seed)
    triples = list(zip(ex.rows, ex.scores, ex.y, strict=True))
    expected = [reference.row_loss(reference.name_of(loss), ex.head, row, y) for row, _, y in triples]
    np.testing.assert_allclose(loss.value(ex.scores, ex.y), expected, rtol=1e-12, atol=1e-14)
    slopes = [reference.score_slopes(reference.name_of(loss), scores, y) for _, scores, y in triples]
    np.testing.assert_allclose(loss.residual(ex.scores, ex.y), slopes, rtol=1e-12, atol=1e-14)


@every_loss
def test_residuals_are_slopes_of_the_value(loss: Loss, seed: int) -> None:
    ex = Example(loss, seed)
    for i in range(len(ex.y)):
        slope = reference.slope(lambda s, i=i: loss.value(s[None], ex.y[i : i + 1])[0], ex.scores[i])
        np.testing.assert_allclose(loss.residual(ex.scores, ex.y)[i], slope, rtol=1e-6, atol=1e-8)


@every_loss
def test_curvature_is_the_slope_of_the_gradient(loss: Loss, seed: int) -> None:
    ex = Example(loss, seed)

    def gradient(theta: Any) -> Any:
        head = theta.reshape(ex.head.shape)
        return (ex.weight[:, None] * score_rows(ex.rows, loss.residual(ex.rows @ head.T, ex.y))).sum(axis=0)

    found = loss.gram(ex.rows, ex.scores, ex.weight)
    np.testing.assert_allclose(found, reference.slope(gradient, ex.head.ravel()), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        found, reference.total_hessian(reference.name_of(loss), ex.head, ex.rows, ex.weight), atol=1e-12
    )
    unweighted = loss.gram(ex.rows, ex.scores, None)
    np.testing.assert_allclose(unweighted, loss.gram(ex.rows, ex.scores, np.ones(len(ex.y))), atol=1e-12)


@every_loss
def test_leverage_and_length_equal_their_definitions(loss: Loss, seed: int) -> None:
    ex = Example(loss, seed)
    part = spectrum(loss.gram(ex.rows, ex.scores, None))
    residual = loss.residual(ex.scores, ex.y)
    leverage, length = loss.leverage(part.inverse_root(), ex.rows, ex.scores, residual)
    inverse, free = part.inverse(), max(1, loss.n_scores - 1)
    for i, row in enumerate(ex.rows):
        curvature = reference.row_hessian(reference.name_of(loss), ex.head, row)
        gradient = np.array(reference.row_gradient(reference.name_of(loss), ex.head, row, ex.y[i]))
        np.testing.assert_allclose(leverage[i], np.trace(inverse @ curvature) / free, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(length[i], gradient @ inverse @ gradient, rtol=1e-9, atol=1e-12)
    assert leverage.sum() == pytest.approx(int(part.rank) / free)  # they share out the parameters
    single, _ = loss.leverage(part.inverse_root(), ex.rows.astype(np.float32), ex.scores, residual)
    np.testing.assert_allclose(single, leverage, rtol=1e-4, atol=1e-6)
    for found, expected in zip(
        loss.leverage_by_inverse(inverse, ex.rows, ex.scores, residual), (leverage, length), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(loss.diagonal(ex.scores), np.einsum("nkk->nk", loss.curvature(ex.scores)), atol=1e-15)


@every_loss
def test_extreme_scores_give_finite_numbers(loss: Loss) -> None:
    scores = np.zeros((4, loss.n_scores))
    scores[0, 0], scores[1, 0], scores[2, -1], scores[3, -1] = 1e4, -1e4, 1e4, -1e4
    rows = np.ones((4, 2))
    for y in (np.zeros(4), np.ones(4)):
        for part in (loss.value(scores, y), loss.residual(scores, y), loss.gram(rows, scores, None)):
            assert np.isfinite(part).all()
    if reference.name_of(loss) != "squared":
        assert loss.value(np.zeros((1, loss.n_scores)), np.zeros(1))[0] == pytest.approx(np.log(max(2, loss.n_scores)))
        worst = loss.value(scores[:2], np.zeros(2)).max()
        assert worst == pytest.approx(1e4, rel=1e-3)


@settings(deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=6), st.integers(0, 2**32))
def test_two_class_softmax_is_logistic(scores: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    one = np.array(scores)[:, None]
    two = np.column_stack([np.zeros(len(scores)), scores]) + rng.normal(size=(len(scores), 1))
    y = rng.integers(0, 2, len(scores)).astype(float)
    logistic, softmax = LogisticLoss(), SoftmaxLoss(2)
    np.testing.assert_allclose(softmax.value(two, y), logistic.value(one, y), rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(softmax.residual(two, y)[:, 1:], logistic.residual(one, y), rtol=1e-9, atol=1e-13)
    rows = np.column_stack([np.ones(len(scores)), rng.normal(size=len(scores))])
    np.testing.assert_allclose(softmax.gram(rows, two, None)[2:, 2:], logistic.gram(rows, one, None), atol=1e-9)


def test_a_constant_added_to_all_scores_changes_nothing(seed: int) -> None:
    loss = SoftmaxLoss(4)
    ex = Example(loss, seed)
    for shift in (7.0, -1e5):
        np.testing.assert_allclose(loss.value(ex.scores + shift, ex.y), loss.value(ex.scores, ex.y), atol=1e-9)
        np.testing.assert_allclose(loss.residual(ex.scores + shift, ex.y), loss.residual(ex.scores, ex.y), atol=1e-9)
    # so the Hessian has one flat direction per column of the design
    assert spectrum(loss.gram(ex.rows, ex.scores, None)).rank == 3 * 3


def test_weighted_grams_and_score_rows_equal_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weight, per_score = rng.normal(size=(6, 3)), rng.uniform(size=6), rng.normal(size=(6, 2))
    np.testing.assert_allclose(weighted_gram(rows), sum(np.outer(r, r) for r in rows), atol=1e-13)
    expected = sum(w * np.outer(r, r) for r, w in zip(rows, weight, strict=True))
    np.testing.assert_allclose(weighted_gram(rows, weight), expected, atol=1e-13)
    expected = [np.concatenate([v * row for v in values]) for row, values in zip(rows, per_score, strict=True)]
    np.testing.assert_allclose(score_rows(rows, per_score), expected, atol=1e-15)
    scratch = np.full((9, 6), np.nan)
    found = score_rows(rows, per_score, scratch)
    assert np.shares_memory(found, scratch)
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_each_task_has_its_loss() -> None:
    y = np.zeros(2)
    assert isinstance(loss_of(Target("regression", y)), SquaredLoss)
    assert loss_of(Target("regression", np.zeros((2, 4)))).n_scores == 4
    assert isinstance(loss_of(Target("binary", y, ("a", "b"))), LogisticLoss)
    of_classes = loss_of(Target("multiclass", y, ("a", "b", "c")))
    assert isinstance(of_classes, SoftmaxLoss)
    assert of_classes.n_scores == 3
    # a mean of ½ (s − y)² is reported as a mean squared error
    assert [loss.reported for loss in LOSSES] == [2.0, 1.0, 1.0, 1.0]


@every_loss
def test_slopes_are_derivatives_in_a_factor_on_the_scores(loss: Loss, seed: int) -> None:
    ex = Example(loss, seed)
    slope, slope_residual = loss.slope(ex.scores, ex.y)
    np.testing.assert_allclose(slope, np.sum(ex.scores * loss.residual(ex.scores, ex.y), axis=1), atol=1e-12)
    for i in range(len(ex.y)):
        along = reference.slope(lambda s, i=i: loss.slope(s[None], ex.y[i : i + 1])[0][0], ex.scores[i])
        np.testing.assert_allclose(slope_residual[i], along, rtol=1e-6, atol=1e-7)


@every_loss
def test_every_way_to_the_curvature_is_the_same(loss: Loss, seed: int) -> None:
    """The matrix, its entries one by one, its products with directions, and the derivative of the residual."""
    ex = Example(loss, seed)
    matrix, entries = loss.curvature(ex.scores), np.zeros((len(ex.y), loss.n_scores, loss.n_scores))
    of_slope = np.zeros_like(entries)
    for (k, j), curvature, slope_curvature in loss.curvatures(ex.scores):
        entries[:, k, j] = entries[:, j, k] = curvature
        of_slope[:, k, j] = of_slope[:, j, k] = slope_curvature
    np.testing.assert_allclose(matrix, entries, atol=1e-14)
    along = np.random.default_rng(seed).normal(size=(len(ex.y), 4, loss.n_scores))
    np.testing.assert_allclose(loss.curved(ex.scores, along), along @ matrix, atol=1e-13)
    for i in range(len(ex.y)):
        for k in range(loss.n_scores):
            row = slice(i, i + 1)
            slope = reference.slope(lambda s, row=row, k=k: loss.residual(s[None], ex.y[row])[0, k], ex.scores[i])
            np.testing.assert_allclose(matrix[i, k], slope, rtol=1e-6, atol=1e-7)
            slope = reference.slope(lambda s, row=row, k=k: loss.slope(s[None], ex.y[row])[1][0, k], ex.scores[i])
            np.testing.assert_allclose(of_slope[i, k], slope, rtol=1e-6, atol=1e-6)


def test_classes_that_are_told_apart_keep_the_curvature_they_have() -> None:
    """p_k (1 − p_k), not the difference of two sums that agree in all their digits."""
    scores = np.array([[34.0, 0.0, 1.0], [0.5, 34.0, 0.0], [35.0, -0.5, 0.0]])
    rows = np.array([[1.0, 0.3], [1.0, -2.0], [1.0, 1.1]])
    small = np.exp(scores - scores.max(axis=1, keepdims=True))
    p, others = small / small.sum(axis=1, keepdims=True), np.array([2, 1, 2])
    found = SoftmaxLoss(3).gram(rows, scores, None)
    for k in range(3):
        rest = sum(p[:, j] for j in range(3) if j != k)
        np.testing.assert_allclose(found[2 * k : 2 * k + 2, 2 * k : 2 * k + 2], (rows.T * p[:, k] * rest) @ rows, 1e-12)
    weighted = SoftmaxLoss(3).gram(rows, scores, others.astype(float))
    np.testing.assert_allclose(
        weighted, SoftmaxLoss(3).gram(np.repeat(rows, others, 0), np.repeat(scores, others, 0), None)
    )


def test_several_numbers_are_as_many_squared_losses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, scores, y = rng.normal(size=(7, 2)), rng.normal(size=(7, 3)), rng.normal(size=(7, 3))
    whole, single = SquaredLoss(3), SquaredLoss()
    each = [single.value(scores[:, [k]], y[:, k]) for k in range(3)]
    np.testing.assert_allclose(whole.value(scores, y), np.sum(each, axis=0), rtol=1e-14)
    np.testing.assert_allclose(whole.gram(rows, scores, None), np.kron(np.eye(3), rows.T @ rows), atol=1e-14)


def test_softmax_of_large_scores_and_in_place(seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(6, 4)) + np.array([1e4, 1e4, 1e4, -1e4])
    found = softmax(scores)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(found[:, :3], softmax(scores[:, :3]), rtol=1e-14)
    turned = np.ascontiguousarray(scores.T)
    total, top = softmax_in_place(turned, axis=0)
    np.testing.assert_array_equal(turned.T, found)
    np.testing.assert_allclose(np.log(total) + top, log_sum_exp(scores), rtol=1e-15)
