"""Rows in blocks: every pass over the data runs through here, in threads, and is summed in a fixed order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats, Integers

Sums = dict[str, Floats]
Part = TypeVar("Part")

BLOCK_ROWS = 4096  # at 50 columns a block of doubles (1.6 MB) stays in a core's own cache
LARGEST = 1e30  # of a column: leverages are computed in single precision, which ends at 3e38 (and 1e-38)
CLOSE_TO_ZERO = 30.0  # spreads: ZᵀZ then loses at most three of its sixteen digits
TASK_ROWS = 16 * BLOCK_ROWS  # rows a thread takes at a time; also the unit of summation, so it must not depend on cores


def workers() -> int:
    """Threads to use: the cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Blocks:
    """A grouped (n, d) matrix with a shift for its columns.

    Shifting columns whose mean dwarfs their spread (years, 10^15-scaled units) keeps ZᵀZ accurate.
    """

    def __init__(self, matrix: Array, shift: Floats, total: Floats) -> None:
        self.matrix, self.shift, self._total = matrix, shift, total

    @classmethod
    def of(cls, matrix: Array, weight: Floats | None = None) -> Blocks:
        ones = np.ones(BLOCK_ROWS)

        def column_sums(rows: slice) -> Floats:
            total = np.zeros((2, matrix.shape[1]))
            for block in blocks_in(rows):
                part = matrix[block]
                total[0] += ones[: len(part)] @ part
                if weight is not None:
                    total[1] += weight[block] @ part
            return total

        with np.errstate(invalid="ignore", over="ignore"):
            total, weighted = np.sum(run_over_rows(column_sums, len(matrix)), axis=0)
            shift = total / len(matrix) if weight is None else weighted / weight.sum()
            some = some_rows(len(matrix), 2000, weight)
            spread = _spread(matrix[some], None if weight is None else weight[some])
            # columns whose mean is not far off, on the scale of their spread, are left as they are: that spares a pass
            needed = np.isfinite(shift) & ~(np.abs(shift) <= CLOSE_TO_ZERO * spread)
        return cls(matrix, np.where(needed, shift, 0.0), total)

    def columns_not_finite(self) -> Integers:
        """Columns that hold a missing or infinite value. A sum is finite unless one is there (or nearly overflows)."""
        suspicious = np.flatnonzero(~np.isfinite(self._total))
        return np.array([j for j in suspicious if not np.isfinite(self.matrix[:, j]).all()], dtype=np.intp)

    @cached_property
    def columns_out_of_range(self) -> dict[int, float]:
        """Columns of finite numbers too large or too small to compute with, and their largest magnitude."""
        size = np.abs(self._total)
        # unless it cancels exactly, a sum is at least rounding error of its largest term: only odd sums are looked into
        suspicious = np.flatnonzero(~((size > 1e10 / LARGEST) & (size < 1e-16 * LARGEST)))
        largest = {int(j): float(np.abs(self.matrix[:, j]).max()) for j in suspicious}
        return {j: value for j, value in largest.items() if out_of_range(value)}

    @property
    def width(self) -> int:
        """Columns of the design: the intercept and one per column of the matrix."""
        return int(self.matrix.shape[1]) + 1

    def designs(self, rows: slice, extra: int = 0) -> Iterator[tuple[slice, Floats]]:
        """Block after block of design rows (1, z − shift) in float64, then ``extra`` columns for the caller to fill.

        The array is reused: copy what must stay.
        """
        buffer = np.empty((min(BLOCK_ROWS, rows.stop - rows.start), self.width + extra))
        buffer[:, 0] = 1.0
        shifted = bool(self.shift.any())
        for block in blocks_in(rows):
            view = buffer[: block.stop - block.start]
            if shifted:
                np.subtract(self.matrix[block], self.shift, out=view[:, 1 : self.width])
            else:
                np.copyto(view[:, 1 : self.width], self.matrix[block])
            yield block, view

    @staticmethod
    def take(values: Array, order: Integers) -> Array:
        """``values[order]``, gathered by all threads."""
        out = np.empty(values.shape, values.dtype)

        def gather(rows: slice) -> None:
            # mode="clip" writes straight into `out`; the indices are a permutation, so nothing is ever clipped
            np.take(values, order[rows], axis=0, out=out[rows], mode="clip")

        run_over_rows(gather, len(values))
        return out


def _spread(rows: Array, weight: Floats | None) -> Floats:
    if weight is None:
        return np.asarray(rows.std(axis=0, dtype=np.float64))
    centred = rows - np.average(rows, axis=0, weights=weight)
    return np.asarray(np.sqrt(np.average(centred**2, axis=0, weights=weight)))


def some_rows(count: int, most: int, weight: Floats | None) -> slice | Integers:
    """Places of about ``most`` of so many rows, evenly spread over those that have any weight."""
    if weight is None:
        return slice(None, None, max(1, count // most))
    there = np.flatnonzero(weight)
    return there[:: max(1, len(there) // most)]


def out_of_range(magnitude: float) -> bool:
    """Whether numbers of this magnitude overflow somewhere on the way, or vanish although they are not zero."""
    return magnitude > LARGEST or 0 < magnitude < 1 / LARGEST


def refuse_out_of_range(largest: float, what: str) -> None:
    """Numbers of 1e200, say, become infinite or vanish on the way, and end as a NaN or a 0 that looks like a result."""
    if out_of_range(largest):
        raise InputError(
            f"{what} holds numbers of the order of {largest:.0e}, too far from 1 to compute with: "
            "multiply it by a constant first"
        )


def blocks_in(rows: slice) -> list[slice]:
    """Cut a run of rows into blocks that fit a core's cache."""
    return _runs(rows.start, rows.stop, BLOCK_ROWS)


def run_over_rows(task: Callable[[slice], Part], n: int, rows_per_task: int = TASK_ROWS) -> list[Part]:
    """Run ``task`` on consecutive runs of rows, on all cores; results in row order whatever the number of threads."""
    return list(_in_threads(task, _runs(0, n, rows_per_task)))


def sum_by_environment(task: Callable[[int, slice], Sums], offsets: Integers, rows_per_task: int = TASK_ROWS) -> Sums:
    """Add up additive statistics: ``task(environment, rows)`` gives arrays, the sums come back stacked (E, ...).

    Runs are cut by size only and added in row order, so the answer does not depend on the number of threads.
    """
    items = [
        (e, run) for e in range(len(offsets) - 1) for run in _runs(int(offsets[e]), int(offsets[e + 1]), rows_per_task)
    ]
    totals: list[Sums] = []
    for (e, _), part in zip(items, _in_threads(lambda item: task(*item), items), strict=True):
        if e == len(totals):
            totals.append(part)
        else:
            for name, value in part.items():
                totals[e][name] += value
    return {name: np.stack([total[name] for total in totals]) for name in totals[0]}


def _runs(start: int, stop: int, length: int) -> list[slice]:
    return [slice(i, min(i + length, stop)) for i in range(start, stop, length)]


def _in_threads(task: Callable[[Any], Part], items: list[Any]) -> Iterator[Part]:
    """``map(task, items)`` on all cores; BLAS stays single-threaded inside, since the tasks are the threads."""
    if len(items) <= 1 or workers() == 1:
        yield from map(task, items)
        return
    pool = _pool(os.getpid(), workers())
    with one_blas_thread():
        waiting: deque[Future[Part]] = deque()
        for item in items:  # never more than a few results in memory at once
            waiting.append(pool.submit(task, item))
            if len(waiting) > 2 * workers():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@lru_cache(maxsize=1)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Our threads, kept between passes; a forked process, to which they do not belong, starts its own."""
    return ThreadPoolExecutor(threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread: our own threads share the rows, and on the small matrices that follow more only get in the
    way (on a busy machine they make an eigen-decomposition of 50 x 50 take a thousand times as long)."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
