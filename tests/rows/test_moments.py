"""Moments: sums over rows, which add up over blocks, files and workers and lose folds by subtraction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.errors import InputError
from invariscope.rows.blocks import BLOCK_ROWS, Blocks
from invariscope.rows.environments import Environments
from invariscope.rows.moments import Moments, moments_of
from invariscope.rows.targets import target_of


def table(seed: int, n: int = 60, weighted: bool = False) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal([0.0, 5.0], size=(n, 2))
    env = rng.permutation(np.arange(n) % 3)
    return X, X @ [1.0, -2.0] + env + rng.normal(size=n), env, rng.integers(0, 4, n) + 0.5 if weighted else None


def loops(data: Environments, folds: int, centre: float) -> tuple[Any, Any]:
    """Rows and second moments of (1, z − shift, y − centre) by environment and fold, one row after the other."""
    width = data.X.shape[1] + 2
    rows, gram = np.zeros((len(data), folds)), np.zeros((len(data), folds, width, width))
    for e, label in enumerate(data.labels):
        part = data[label]
        assert part.y is not None
        for i in range(len(part)):
            weight = 1.0 if part.weight is None else part.weight[i]
            row = np.array([1.0, *(part.X[i] - data.blocks.shift), part.y[i] - centre])
            rows[e, i % folds] += weight
            gram[e, i % folds] += weight * np.outer(row, row)
    return rows, gram


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("folds", [1, 2, 5])
def test_moments_equal_a_loop_over_rows(folds: int, weighted: bool, seed: int) -> None:
    X, y, env, weight = table(seed, weighted=weighted)
    data = Environments(X, y, env, weight)
    found = moments_of(data, target_of(data), folds)
    rows, gram = loops(data, folds, found.centre)
    np.testing.assert_allclose(found.rows, rows, rtol=1e-13)
    np.testing.assert_allclose(found.gram, gram, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found.total.gram, gram.sum(axis=1), rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(found.hessian, found.gram[..., :-1, :-1])
    np.testing.assert_array_equal(found.cross, found.gram[..., :-1, -1])
    for fold in range(folds):
        kept = [k for k in range(folds) if k != fold]
        np.testing.assert_allclose(found.without_each.rows[fold], rows[:, kept].sum(axis=1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.without_each.gram[fold], gram[:, kept].sum(axis=1), rtol=1e-10, atol=1e-10)


def test_folds_go_on_across_blocks(seed: int) -> None:
    """Row i of an environment is in fold i mod F, also where a new block begins."""
    n = 2 * BLOCK_ROWS + 7
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(n, 1)), np.r_[np.zeros(n - 10), np.ones(10)]
    data = Environments(X, X[:, 0] ** 2, env)
    found = moments_of(data, target_of(data), 5)
    for e, part in enumerate((X[: n - 10, 0], X[n - 10 :, 0])):
        for fold in range(5):
            z = part[fold::5] - data.blocks.shift[0]
            assert found.rows[e, fold] == len(z)
            np.testing.assert_allclose(found.gram[e, fold, 1, 1], z @ z, rtol=1e-12)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(10, 50), st.sampled_from([1, 3]))
def test_moments_of_parts_add_up_to_the_whole(seed: int, cut: int, folds: int) -> None:
    X, y, env, weight = table(seed, weighted=True)
    env = np.sort(env)  # every environment in both parts
    first = np.random.default_rng(seed).permutation(60) % 60 < cut
    first[[0, 1, 20, 21, 40, 41]], first[[2, 3, 22, 23, 42, 43]] = True, False
    whole = Environments(X, y, env, weight)
    parts = []
    for chosen in (first, ~first):
        part = Environments(X[chosen], y[chosen], env[chosen], weight[chosen])
        # blocks, files and workers agree on one shift beforehand
        part.blocks = Blocks(part.X, whole.blocks.shift, part.X.sum(axis=0))
        parts.append(moments_of(part, target_of(part, "regression"), folds).total)
    together = parts[0] + parts[1]
    expected = moments_of(whole, target_of(whole, "regression")).total
    assert parts[0].centre != parts[1].centre
    np.testing.assert_allclose(together.rows, expected.rows, rtol=1e-12)
    np.testing.assert_allclose(together.about(expected.centre).gram, expected.gram, rtol=1e-10, atol=1e-9)


def test_moments_about_another_centre(seed: int) -> None:
    X, y, env, _ = table(seed)
    data = Environments(X, y, env)
    found = moments_of(data, target_of(data), 2)
    for centre in (0.0, -7.5, found.centre):
        _, gram = loops(data, 2, centre)
        moved = found.about(centre)
        assert moved.centre == centre
        np.testing.assert_allclose(moved.gram, gram, rtol=1e-10, atol=1e-10)


def test_weights_count_rows(seed: int) -> None:
    X, y, env, _ = table(seed)
    weight = np.random.default_rng(seed).integers(1, 4, 60)
    weighted = Environments(X, y, env, weight)
    repeated = Environments(*(np.repeat(part, weight, axis=0) for part in (X, y, env)))
    repeated.blocks = Blocks(repeated.X, weighted.blocks.shift, repeated.X.sum(axis=0))
    first = moments_of(weighted, target_of(weighted)).total.about(0.0)
    second = moments_of(repeated, target_of(repeated)).total.about(0.0)
    np.testing.assert_allclose(first.rows, second.rows, rtol=1e-13)
    np.testing.assert_allclose(first.gram, second.gram, rtol=1e-11, atol=1e-10)


def test_small_residuals_survive_a_large_mean(seed: int) -> None:
    """Σ (y − c)² keeps its digits although Σ y² would have none left for the spread."""
    X, y, env, _ = table(seed)
    far = y + 2e9
    data = Environments(X, far, env)
    total = moments_of(data, target_of(data)).total
    spread = far - total.centre
    np.testing.assert_allclose(total.gram[:, -1, -1].sum(), spread @ spread, rtol=1e-12)
    assert abs(total.centre - far.mean()) < 1


def test_one_pass_is_shared_and_remembered(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, env, _ = table(seed)
    data = Environments(X, y, env)
    target = target_of(data)
    folded = moments_of(data, target, 5)
    monkeypatch.setattr(Blocks, "designs", None)  # no further pass from here on
    assert moments_of(data, target, 5) is folded
    whole = moments_of(data, target)
    assert whole.rows.shape == (3, 1)
    assert whole.centre == folded.centre
    np.testing.assert_array_equal(whole.total.gram, folded.total.gram)


@pytest.mark.parametrize("before", [(), (3,), (5,), (5, 3)], ids=str)
def test_what_was_computed_before_makes_no_difference(before: tuple[int, ...], seed: int) -> None:
    X, y, env, _ = table(seed)
    data, fresh = Environments(X, y, env), Environments(X, y, env)
    for folds in before:
        moments_of(data, target_of(data), folds)
    np.testing.assert_array_equal(
        moments_of(data, target_of(data)).gram, moments_of(fresh, target_of(fresh)).gram, strict=True
    )


def test_another_target_of_the_same_rows_has_its_own_moments(seed: int) -> None:
    X, y, env, _ = table(seed)
    data = Environments(X, y, env)
    target = target_of(data)
    other = replace(target, values=2.0 * target.values)
    first, second = moments_of(data, target).total, moments_of(data, other).total
    np.testing.assert_allclose(second.gram[:, -1, -1], 4.0 * first.gram[:, -1, -1], rtol=1e-12)


def test_numbers_out_of_range_are_refused_before_they_overflow(seed: int) -> None:
    X, y, env, _ = table(seed)
    for data in (Environments(X * [1.0, 1e160], y, env), Environments(X, y * 1e160, env)):
        with pytest.raises(InputError, match=r'(column "x1"|target "target") holds numbers of the order of .*multiply'):
            moments_of(data, target_of(data))


def test_moments_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Moments(np.ones((1, 1)), np.ones((1, 1, 2, 2))).rows = np.zeros((1, 1))  # type: ignore[misc]
