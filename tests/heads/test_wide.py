"""Wide class heads: products in the place of Hessians, factors in the place of decompositions, the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from invariscope.heads import fit, linear_algebra, wide
from invariscope.heads.fit import evaluate, fit_own, fit_shared
from invariscope.heads.linear_algebra import spectrum
from invariscope.heads.passes import products, slopes
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, target_of

SIZES = (240, 300, 270)


def problem(classes: int, seed: int, weighted: bool = False) -> tuple[Environments, Target]:
    rng = np.random.default_rng(seed)
    env = np.repeat(["p", "q", "r"], SIZES)
    Z = rng.normal(size=(len(env), 4)) * [1.0, 3.0, 0.2, 1.0]
    scores = Z @ rng.normal(size=(4, classes)) * 0.5 + rng.gumbel(size=(len(env), classes))
    weight = rng.integers(1, 4, len(env)).astype(float) if weighted else None
    data = Environments(Z, np.argmax(scores, axis=1), env, weight)
    return data, target_of(data)


every_size = pytest.mark.parametrize("classes", [2, 4])


@every_size
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("folds", [1, 3])
def test_products_are_those_of_the_whole_hessian(classes: int, weighted: bool, folds: int, seed: int) -> None:
    data, target = problem(classes, seed, weighted)
    rng, size = np.random.default_rng(seed), (1 if classes == 2 else classes) * 5
    shape = (len(data), size) if folds == 1 else (folds, len(data), size)
    theta, along = 0.3 * rng.normal(size=shape), rng.normal(size=shape)
    whole = evaluate(data, target, theta)
    expected = np.einsum("...pq,...q->...p", whole.hessian, along)
    np.testing.assert_allclose(products(data, target, theta, along), expected, rtol=1e-10, atol=1e-10)
    value, gradient, flat = slopes(data, target, theta)
    np.testing.assert_allclose(value, whole.loss, rtol=1e-12)
    np.testing.assert_allclose(gradient, whole.gradient, rtol=1e-9, atol=1e-9)
    assert not flat


def test_a_column_of_one_class_is_flat(seed: int) -> None:
    data, target = problem(2, seed)
    head = np.zeros((3, 5))
    assert not slopes(data, target, head)[2]
    head[1, 0] = 40.0  # in one environment all odds are e⁴⁰ to one
    assert slopes(data, target, head)[2]


def by_both_ways(monkeypatch: pytest.MonkeyPatch, call: Any) -> tuple[Any, Any]:
    plain = call()
    for module in (fit, wide):
        monkeypatch.setattr(module, "VERY_WIDE", 1)
    for module in (wide, linear_algebra):
        monkeypatch.setattr(module, "WIDE", 4)
    return plain, call()


@every_size
@pytest.mark.parametrize("weighted", [False, True])
def test_heads_by_products_are_heads_by_hessians(
    classes: int, weighted: bool, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    data, target = problem(classes, seed, weighted)
    weights = np.array([1.0, 0.5, 2.0]) / 100

    def all_heads() -> Any:
        shared = fit_shared(data, target, weights)
        hessian = np.einsum("e,epq->pq", weights, shared.hessian)
        near = spectrum(hessian).inverse()
        start = shared.theta[0]
        apart = fit_shared(data, target, weights, start, folds=3, tolerance=1e-6, near=near)
        return fit_own(data, target), shared, apart

    for plain, found in zip(*by_both_ways(monkeypatch, all_heads), strict=True):
        assert found.converged
        one, other = (  # a constant that all scores have in common is free
            wide.without_common_part(heads.theta.reshape(-1, heads.theta.shape[-1]), 1 if classes == 2 else classes)
            for heads in (plain, found)
        )
        np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(found.loss, plain.loss, rtol=1e-11)
        if found.hessian.size:  # with a fold left out nobody asks for it
            np.testing.assert_allclose(found.hessian, plain.hessian, rtol=1e-8, atol=1e-9)


def test_most_steps_make_no_hessian(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    data, target = problem(4, seed)
    weights, made = np.ones(3) / 100, []
    monkeypatch.setattr(fit, "evaluate", lambda *given: made.append(1) or evaluate(*given))
    monkeypatch.setattr(fit, "VERY_WIDE", 1)
    shared = fit_shared(data, target, weights)
    assert len(made) <= 3  # where it ends, and on the way at most twice
    made.clear()
    near = spectrum(np.einsum("e,epq->pq", weights, shared.hessian)).inverse()
    fit_shared(data, target, weights, shared.theta[0], folds=5, tolerance=1e-6, near=near)
    assert not made


def test_classes_that_can_be_split_end_where_they_did(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(300, 3)), np.repeat([0, 1], 150)
    data = Environments(Z, np.argmax(Z, axis=1), env)
    target = target_of(data)
    plain, found = by_both_ways(monkeypatch, lambda: fit_own(data, target))
    np.testing.assert_allclose(found.loss, plain.loss, rtol=1e-3)  # on the way to nowhere rounding adds up
    assert (found.loss / data.rows < fit.SEPARATED).all()


@every_size
def test_inverses_by_factors_are_those_by_decompositions(
    classes: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """But for a constant that is common to all scores, and seen by no Hessian."""
    data, target = problem(classes, seed)
    scores = 1 if classes == 2 else classes
    hessian = fit_own(data, target).hessian
    plain, found = by_both_ways(monkeypatch, lambda: wide.inverted(hessian, scores))
    assert plain.factor is not None
    assert found.factor is None
    np.testing.assert_array_equal(found.rank, plain.rank)
    np.testing.assert_array_equal(found.live, plain.live)
    around = [hessian @ each.inverse @ hessian for each in (plain, found)]
    np.testing.assert_allclose(around[1], around[0], rtol=1e-9, atol=1e-9)
    other = evaluate(data, target, np.zeros((3, hessian.shape[1]))).hessian
    for expected, value in zip(plain.whitened(other), found.whitened(other), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-9)
    assert wide.rank_of(hessian[0], scores) == plain.rank[0]


def test_what_is_singular_beyond_a_constant_is_decomposed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    data, target = problem(4, seed)
    doubled = Environments(np.column_stack([data.X, data.X[:, 0]]), np.asarray(target.values), data.codes)
    target = target_of(doubled)
    monkeypatch.setattr(wide, "WIDE", 4)
    hessian = evaluate(doubled, target, np.zeros((3, 24))).hessian
    part = wide.inverted(hessian, 4)
    assert part.factor is not None
    assert part.rank.tolist() == [15, 15, 15]
    assert wide.rank_of(hessian[0], 4) == 15
    monkeypatch.setattr(fit, "VERY_WIDE", 1)
    found, expected = fit_own(doubled, target), fit_own(data, target_of(data))
    np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-10)


def test_the_part_that_scores_have_in_common_is_left_out() -> None:
    vectors = np.array([[1.0, 2.0, 3.0, 4.0]])
    np.testing.assert_array_equal(wide.without_common_part(vectors, 2), [[-1.0, -1.0, 1.0, 1.0]])
    assert wide.without_common_part(vectors, 1) is vectors
