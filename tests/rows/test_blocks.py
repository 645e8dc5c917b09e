"""Passes over the rows: nothing is left out or counted twice, and the number of threads changes no bit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.heads.fit import fit_own, fit_shared, held_out_loss, score_covariances
from invariscope.rows import blocks
from invariscope.rows.blocks import (
    BLOCK_ROWS,
    TASK_ROWS,
    Blocks,
    blocks_in,
    out_of_range,
    run_over_rows,
    sum_by_environment,
)
from invariscope.rows.environments import Environments
from invariscope.rows.moments import moments_of
from invariscope.rows.targets import target_of


# --- cutting ---------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.integers(0, 5 * BLOCK_ROWS), st.integers(0, 5 * BLOCK_ROWS))
def test_blocks_cover_a_run_of_rows_once_and_in_order(start: int, length: int) -> None:
    parts = blocks_in(slice(start, start + length))
    assert sum(part.stop - part.start for part in parts) == length
    assert all(0 < part.stop - part.start <= BLOCK_ROWS for part in parts)
    assert all(a.stop == b.start for a, b in pairwise(parts))
    if parts:
        assert (parts[0].start, parts[-1].stop) == (start, start + length)


def test_run_over_rows_covers_all_rows_in_order() -> None:
    n = 2 * TASK_ROWS + 17
    assert run_over_rows(lambda rows: (rows.start, rows.stop), n) == [
        (0, TASK_ROWS),
        (TASK_ROWS, 2 * TASK_ROWS),
        (2 * TASK_ROWS, n),
    ]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_sums_come_back_by_environment(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "workers", lambda: count)
    offsets = np.array([0, 10, 11, 40])
    values = np.arange(40.0)
    found = sum_by_environment(
        lambda environment, rows: {
            "sum": values[rows].sum(),
            "rows": np.array([rows.stop - rows.start, environment * (rows.stop - rows.start)], float),
        },
        offsets,
        rows_per_task=4,
    )
    np.testing.assert_array_equal(found["sum"], [values[:10].sum(), 10.0, values[11:].sum()])
    np.testing.assert_array_equal(found["rows"], [[10, 0], [1, 1], [29, 58]])


def test_errors_inside_threads_reach_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "workers", lambda: 3)

    def fail(environment: int, rows: slice) -> dict[str, Any]:
        if rows.start >= 8:
            raise ZeroDivisionError("row 8")
        return {"n": np.zeros(())}

    with pytest.raises(ZeroDivisionError, match="row 8"):
        sum_by_environment(fail, np.array([0, 20]), rows_per_task=4)


def test_few_results_wait_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted = []

    class CountingPool(ThreadPoolExecutor):
        def submit(self, task: Any, item: Any) -> Any:  # type: ignore[override]
            submitted.append(item)
            return super().submit(task, item)

    monkeypatch.setattr(blocks, "workers", lambda: 2)
    monkeypatch.setattr(blocks, "ThreadPoolExecutor", CountingPool)
    results = blocks._in_threads(lambda item: item, list(range(100)))
    for expected in range(100):
        assert next(results) == expected
        assert len(submitted) <= expected + 1 + 4  # two per thread


# --- rows ------------------------------------------------------------------------------------------------------------
@settings(deadline=None)
@given(st.integers(0, 50), st.sampled_from([np.float64, np.float32, np.int64, object]), st.integers(0, 2**32))
def test_take_gathers_like_an_index(n: int, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    for values in (rng.integers(0, 9, n).astype(dtype), rng.integers(0, 9, (n, 3)).astype(dtype)):
        found = Blocks.take(values, order)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values[order])


def test_take_gathers_long_and_foreign_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = TASK_ROWS + 100
    order = rng.permutation(n)
    values = np.asfortranarray(rng.normal(size=(n, 2)))
    values.setflags(write=False)
    np.testing.assert_array_equal(Blocks.take(values, order), values[order])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_designs_are_an_intercept_and_shifted_rows(dtype: type[np.generic], seed: int) -> None:
    n = 2 * BLOCK_ROWS + 5
    matrix = np.random.default_rng(seed).normal(size=(n, 3)).astype(dtype)
    matrix[:, 2] += 1000
    rows = Blocks.of(matrix)
    assert rows.width == 4
    assert abs(rows.shift[2] - 1000) < 1
    seen = []
    for block, design in rows.designs(slice(3, n)):
        assert design.dtype == np.float64
        np.testing.assert_array_equal(design[:, 0], 1.0)
        np.testing.assert_array_equal(design[:, 1:], matrix[block].astype(np.float64) - rows.shift)
        seen += range(block.start, block.stop)
    assert seen == list(range(3, n))
    _, wider = next(rows.designs(slice(0, 5), extra=2))
    assert wider.shape == (5, 6)


@pytest.mark.parametrize("mean", [1e4, 2e9, -1e15])
def test_columns_far_from_zero_are_centred(mean: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=(500, 1))
    matrix = np.hstack([mean + noise, noise])
    rows = Blocks.of(matrix)
    assert abs(rows.shift[0] - matrix[:, 0].mean()) <= 1e-15 * abs(mean) + 1e-12
    _, design = next(rows.designs(slice(0, 500)))
    assert np.abs(design[:, 1]).max() < 10
    assert np.abs(design[:, 1].mean()) < 1


def test_columns_that_are_not_finite_are_found() -> None:
    matrix = np.ones((4, 5))
    matrix[1, 1], matrix[2, 3], matrix[3, 3], matrix[:, 4] = np.nan, np.inf, -np.inf, 1e308  # the last is finite
    assert Blocks.of(matrix).columns_not_finite().tolist() == [1, 3]


def test_columns_out_of_range_are_found() -> None:
    sign = np.array([1.0, -1.0, 1.0, -1.0])
    matrix = np.column_stack([sign, 1e29 * sign, 1e31 * sign, 1e-29 * sign, 1e-31 * sign, 0 * sign, 1e31 + sign])
    found = Blocks.of(matrix).columns_out_of_range
    assert found == {2: 1e31, 4: 1e-31, 6: 1e31}
    assert not out_of_range(0.0)
    assert out_of_range(np.inf)


# --- threads ---------------------------------------------------------------------------------------------------------
def everything(X: Any, y: Any, env: Any, weight: Any) -> list[Any]:
    data = Environments(X, y, env, weight)
    target = target_of(data)
    own = fit_own(data, target)
    shared = fit_shared(data, target, 1.0 / data.rows, folds=3)
    moments = moments_of(data, target, 4)
    outer = score_covariances(data, target, own.theta)
    arrays = [data.X, data.blocks.shift, moments.rows, moments.gram, *outer, held_out_loss(data, target, shared.theta)]
    for heads in (own, shared):
        arrays += [heads.theta, heads.loss, heads.gradient, heads.hessian]
    return arrays


@pytest.mark.parametrize(
    ("classes", "weighted"), [(0, False), (0, True), (2, True), pytest.param(3, False, marks=pytest.mark.slow)]
)
def test_the_number_of_threads_changes_no_bit(
    classes: int, weighted: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    n = 4 * TASK_ROWS // 3  # the first environment is more than one task
    X = rng.normal([0.0, 100.0], size=(n, 2))
    y = X[:, 0] + rng.normal(size=n)
    if classes:
        y = np.searchsorted(np.linspace(-1, 1, classes + 1)[1:-1], y)
    env = rng.choice(3, n, p=[0.9, 0.06, 0.04])
    weight = rng.integers(0, 3, n) if weighted else None
    answers = []
    for count in (1, 2, 5):
        monkeypatch.setattr(blocks, "workers", lambda count=count: count)
        answers.append(everything(X, y, env, weight))
    for other in answers[1:]:
        for first, second in zip(answers[0], other, strict=True):
            assert np.array_equal(first, second)


def test_threads_are_kept_between_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "workers", lambda: 2)
    names = [set(blocks.run_over_rows(lambda rows: threading.current_thread().name, 40, 10)) for _ in range(5)]
    assert len(set.union(*names)) <= 2
