"""Symmetric matrices that may be singular: inverses on their range, roots, ranks, and no trouble with units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.heads.linear_algebra import spectrum


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
