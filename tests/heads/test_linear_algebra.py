"""Symmetric matrices that may be singular: inverses on their range, roots, ranks, and no trouble with units.

Newton's method for a stack: minima by hand, problems that do not disturb each other, and where it stops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.heads import linear_algebra
from invariscope.heads.linear_algebra import newton, solved, spectrum
from invariscope.rows.arrays import Floats


def semi_definite(seed: int, size: int, rank: int) -> Any:
    rows = np.random.default_rng(seed).normal(size=(rank, size))
    return rows.T @ rows


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6))
def test_regular_matrices_have_their_inverse_and_roots(seed: int, size: int) -> None:
    matrix = semi_definite(seed, size, size + 5)
    found = spectrum(matrix)
    assert found.rank == size
    np.testing.assert_allclose(found.inverse() @ matrix, np.eye(size), atol=1e-8)
    np.testing.assert_allclose(found.root() @ found.root().T, matrix, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        found.inverse_root() @ found.inverse_root().T, np.linalg.inv(matrix), rtol=1e-7, atol=1e-9
    )


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 6), st.data())
def test_singular_matrices_are_inverted_where_they_can_be(seed: int, size: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, size - 1))
    matrix = semi_definite(seed, size, rank)
    found = spectrum(matrix)
    assert found.rank == rank
    inverse = found.inverse()
    np.testing.assert_allclose(inverse, inverse.T)
    # an inverse on the range: solving a system that has a solution gives a solution
    right = matrix @ np.random.default_rng(seed).normal(size=size)
    np.testing.assert_allclose(matrix @ inverse @ right, right, rtol=1e-6, atol=1e-6 * np.abs(right).max())
    np.testing.assert_allclose(found.root() @ found.root().T, matrix, atol=1e-9 * np.abs(matrix).max())


def test_units_do_not_matter(seed: int) -> None:
    matrix = semi_definite(seed, 4, 9)
    matrix = np.pad(matrix, (0, 1))
    matrix[:, 4], matrix[4] = matrix[:, 0], matrix[0]  # a duplicated column
    scale = np.array([1e15, 1.0, 1e-15, 3.0, 7e8])
    plain, scaled = spectrum(matrix), spectrum(matrix * np.outer(scale, scale))
    assert plain.rank == scaled.rank == 4
    np.testing.assert_allclose(scaled.inverse() * np.outer(scale, scale), plain.inverse(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scaled.values, plain.values, rtol=1e-9, atol=1e-12)


def test_stacks_are_treated_one_by_one(seed: int) -> None:
    stack = np.stack([semi_definite(seed + k, 3, 2 + k) for k in range(3)])
    found = spectrum(stack)
    assert found.rank.tolist() == [2, 3, 3]
    for k in range(3):
        single = spectrum(stack[k])
        np.testing.assert_allclose(found.inverse()[k], single.inverse(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.root()[k], single.root(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.inverse_root()[k], single.inverse_root(), rtol=1e-10, atol=1e-12)
    assert spectrum(stack[None]).rank.shape == (1, 3)


def test_zeros_give_zeros() -> None:
    found = spectrum(np.zeros((3, 3)))
    assert found.rank == 0
    for part in (found.inverse(), found.root(), found.inverse_root()):
        np.testing.assert_array_equal(part, 0.0)
    half = np.diag([4.0, 0.0])
    np.testing.assert_allclose(spectrum(half).inverse(), np.diag([0.25, 0.0]))


def test_rounding_below_zero_counts_as_zero() -> None:
    matrix = np.ones((2, 2)) - np.diag([0.0, 1e-15])
    found = spectrum(matrix)
    assert found.rank == 1
    assert (found.values >= 0).all()
    assert spectrum(np.diag([1.0, -1e-18])).rank == 1


@pytest.mark.parametrize("gap", [1e-4, 1e-5])
def test_nearly_dependent_columns_are_told_apart(gap: float) -> None:
    """Columns that differ by a hundred-thousandth of their size still count as two."""
    matrix = np.array([[1.0, 1.0], [1.0, 1.0 + gap**2]])
    assert spectrum(matrix).rank == 2
    assert spectrum(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-14]])).rank == 1


def test_rounding_does_not_turn_eigenvectors_around(seed: int) -> None:
    """Random draws along eigenvectors must be the same after a change of units."""
    matrix = np.stack([semi_definite(seed + k, 5, 9) for k in range(20)])
    first, second = spectrum(matrix), spectrum(matrix * 1e15 / 3.0)
    np.testing.assert_allclose(first.vectors, second.vectors, atol=1e-7)
    # which of its two signs an eigenvector comes with is up to the library: ours is the one whose first places count up
    assert np.all(np.einsum("p,npr->nr", 1 / np.arange(1, 6), first.vectors) >= 0)


# --- Newton's method --------------------------------------------------------------------------------
def divided(hessian: Floats, gradient: Floats) -> Floats:
    return gradient / np.abs(hessian[:, :, 0])


def roots(theta: Floats) -> tuple[Floats, Floats, Floats]:
    """√(1 + (x − c)²) for c = 0, 5: full steps from |x − c| > 1 overshoot."""
    apart = theta - np.array([[0.0], [5.0]])
    value = np.sqrt(1.0 + apart**2)
    return value[:, 0], apart / value, (1.0 / value**3)[..., None]


def test_steps_that_overshoot_are_halved() -> None:
    found, converged = newton(roots, divided, np.array([[3.0], [4.0]]), floor=0.0)
    assert converged
    np.testing.assert_allclose(found, [[0.0], [5.0]], atol=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5])
def test_who_runs_out_of_steps_stands_no_worse_than_before(steps: int) -> None:
    start, asked = np.array([[3.0], [5.2]]), []

    def remembered(theta: Floats) -> tuple[Floats, Floats, Floats]:
        asked.append(theta.copy())
        return roots(theta)

    found, converged = newton(remembered, divided, start, floor=0.0, max_steps=steps)
    assert not converged
    assert np.all(roots(found)[0] <= roots(start)[0])
    assert found.tolist() == asked[-1].tolist(), "the last point evaluated is the one given"


def test_problems_do_not_disturb_each_other() -> None:
    alone = newton(
        lambda x: tuple(part[:1] for part in roots(np.vstack([x, x]))), divided, np.array([[3.0]]), floor=0.0
    )
    both, _ = newton(roots, divided, np.array([[3.0], [5.0]]), floor=0.0)
    assert abs(float(both[0, 0] - alone[0][0, 0])) < 1e-6
    assert both[1, 0] == 5.0


def test_a_value_below_the_floor_is_left_alone() -> None:
    found, converged = newton(roots, divided, np.array([[0.5], [5.5]]), floor=2.0)
    assert converged
    assert found.tolist() == [[0.5], [5.5]]


@pytest.mark.parametrize("steps", [1, 7])
def test_values_without_a_bound_never_end(steps: int) -> None:
    def falling(theta: Floats) -> tuple[Floats, Floats, Floats]:
        return -theta[:, 0], -np.ones_like(theta), np.ones((1, 1, 1))

    found, converged = newton(falling, divided, np.zeros((1, 1)), floor=-np.inf, max_steps=steps)
    assert not converged
    assert found.item() == steps


# --- wide problems ---------------------------------------------------------------------------------------------------
def test_wide_problems_have_the_same_solution_by_another_way(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.uniform(-60, 60, 12)
    regular, singular = semi_definite(seed, 12, 30), semi_definite(seed + 1, 12, 5)
    with_zeros = regular * np.outer(np.arange(12) != 3, np.arange(12) != 3)
    stack = np.stack([regular * np.outer(units, units), singular, with_zeros])[:, None]
    vectors = np.einsum(
        "...pq,...q->...p", stack, rng.normal(size=(3, 1, 12)) / [[units], [np.ones(12)], [np.ones(12)]]
    )
    narrow = solved(stack, vectors)
    decomposed = []

    def counted(matrix: Floats) -> Any:
        decomposed.append(matrix)
        return spectrum(matrix)

    monkeypatch.setattr(linear_algebra, "WIDE", 12)
    monkeypatch.setattr(linear_algebra, "spectrum", counted)
    wide = solved(stack, vectors)
    np.testing.assert_allclose(wide, narrow, rtol=1e-7, atol=1e-300)
    assert wide[2, 0, 3] == 0.0
    assert len(decomposed) == 1  # the singular one
    np.testing.assert_array_equal(decomposed[0], singular)


@pytest.mark.parametrize(("smallest", "left_out"), [(1e-9, False), (1e-14, True)])
def test_a_direction_that_is_rounding_error_is_left_out_however_wide(
    smallest: float, left_out: bool, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(linear_algebra, "WIDE", 2)
    turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    weak = np.ones(4) / 2
    turned[:, 0] = weak
    turned = np.linalg.qr(turned)[0]
    matrix = turned @ np.diag([smallest, 1.0, 1.5, 2.0]) @ turned.T
    found = solved(matrix, matrix @ weak)
    assert (abs(found @ weak) < 0.01) == left_out
