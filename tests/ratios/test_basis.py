"""Bases for log density ratios: by hand, straight tails, candidates, and expansions read in slices."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.ratios import basis as module
from invariscope.ratios.basis import KNOTS, Basis, Expansion, _quantiles, bases_for
from invariscope.ratios.estimator import GroupedRows


def some_rows(seed: int, n: int = 400, d: int = 3, weight: bool = False) -> GroupedRows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return GroupedRows(X, np.array([0, n // 2, n]), rng.uniform(0.5, 3.0, n) if weight else None)


def test_second_order_by_hand() -> None:
    X = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0], [0.0, -2.0, 1.0]])
    basis = Basis("second-order", squares=np.array([0, 2]), products=True)
    expected = [[1, 2, 3, 1, 9, 2, 3, 6], [-1, 0.5, 4, 1, 16, -0.5, -4, 2], [0, -2, 1, 0, 1, 0, 0, -2]]
    np.testing.assert_array_equal(basis._raw(X), expected)
    assert basis.width(3) == 8


@pytest.mark.parametrize("weight", [False, True])
def test_columns_are_centred_and_in_units_of_their_spread(weight: bool, seed: int) -> None:
    rows = some_rows(seed, weight=weight)
    for basis in bases_for(rows):
        expanded = basis.expand(rows.X)
        np.testing.assert_allclose(np.average(expanded, axis=0, weights=rows.weight), 0.0, atol=1e-10)
        np.testing.assert_allclose(np.average(expanded**2, axis=0, weights=rows.weight), 1.0, rtol=1e-9)


def test_splines_are_straight_beyond_the_outer_knots_and_curved_between(seed: int) -> None:
    rows = some_rows(seed, d=1)
    spline = next(basis for basis in bases_for(rows) if basis.name == "spline")
    assert spline.width(1) == KNOTS - 1
    low, high = spline.knots[0, 0], spline.knots[-1, 0]
    for grid, straight in (
        (np.linspace(low - 3, low, 20), True),
        (np.linspace(high, high + 3, 20), True),
        (np.linspace(low, high, 20), False),
    ):
        bend = np.abs(np.diff(spline.expand(grid[:, None]), n=2, axis=0)).max(axis=0)[1:]
        assert np.all(bend < 1e-9) == straight
    inside = np.linspace(low, high, 4000)[:, None]  # twice continuously differentiable: second differences do not jump
    second = np.diff(spline.expand(inside), n=2, axis=0)
    assert np.abs(np.diff(second, axis=0)).max() < 0.01 * np.abs(second).max()


def test_candidates_suit_the_columns(seed: int) -> None:
    assert [basis.name for basis in bases_for(some_rows(seed))] == ["linear", "squares", "spline", "second-order"]
    assert [basis.name for basis in bases_for(some_rows(seed, d=1))] == ["linear", "squares", "spline"]
    wide = some_rows(seed, d=60)
    assert [basis.name for basis in bases_for(wide)] == ["linear", "squares", "spline"]  # 1,770 products are too many
    rng = np.random.default_rng(seed)
    binary = GroupedRows(rng.integers(0, 2, (200, 2)).astype(float), np.array([0, 100, 200]))
    found = bases_for(binary)
    assert [basis.name for basis in found] == ["linear", "second-order"]
    assert found[1].width(2) == 3  # 0/1 columns have no squares of their own, but a product


def test_an_expansion_is_the_same_kept_or_made_again(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(seed)
    basis = bases_for(rows)[-1]
    kept = Expansion(basis, rows.X)
    monkeypatch.setattr(module, "MOST_NUMBERS", 10)
    made = Expansion(basis, rows.X)
    assert made._kept is None
    assert kept._kept is not None
    assert kept.shape == made.shape == (400, 9)
    for part in (slice(0, 7), slice(100, 400), slice(0, None, 13)):
        np.testing.assert_array_equal(kept[part], made[part])


def test_knots_are_quantiles_and_whole_weights_are_repeated_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(200, 2)), rng.integers(1, 4, 200)
    shares = np.array([0.05, 0.5, 0.95])
    repeated = np.repeat(X, weight, axis=0)
    found = _quantiles(X, weight.astype(float), shares)
    np.testing.assert_array_equal(found, _quantiles(repeated, None, shares))
    np.testing.assert_array_equal(found, np.quantile(repeated, shares, axis=0, method="inverted_cdf"))
