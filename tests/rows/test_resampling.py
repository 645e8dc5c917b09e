"""p-values that are never 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import invariscope as iv
from invariscope.rows.resampling import folds_by_content, notes_on_weights, pvalue, ranks_by_content, whole


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(-1e6, 1e6))
def test_pvalues_count_draws_at_least_as_large(null: list[float], observed: float) -> None:
    found = pvalue(observed, np.array(null))
    surely = sum(draw >= observed for draw in null)
    at_most = sum(draw >= observed - 1e-5 for draw in null)
    assert (1 + surely) / (1 + len(null)) <= found <= (1 + at_most) / (1 + len(null))
    assert 1 / (1 + len(null)) <= found <= 1


def test_where_nothing_was_drawn_or_observed_there_is_none() -> None:
    assert np.isnan([pvalue(1.0, np.empty(0)), pvalue(np.nan, np.array([1.0, 2.0]))]).all()


def test_small_units_are_no_ties() -> None:
    assert pvalue(1e-14, np.array([1e-15, 2e-15, 0.0])) == 0.25


def test_ties_up_to_rounding_count() -> None:
    null = np.array([0.1 + 0.2, 0.0, 0.0])
    assert pvalue(0.3, null) == pvalue(0.30000000000000004, null) == 0.5
    large = np.array([1e9 * (0.1 + 0.2)])
    assert pvalue(1e9 * 0.3, large) == pvalue(np.nextafter(large[0], np.inf), large) == 1.0
    assert pvalue(large[0] * (1 + 1e-9), large) == 0.5


def test_minus_infinity_is_an_ordinary_draw() -> None:
    assert pvalue(0.0, np.array([-np.inf, 1.0, -1.0])) == 0.5
    assert pvalue(5.0, np.zeros(99)) == pytest.approx(0.01)


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_by_content_do_not_know_the_order_of_rows(folds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, offsets = rng.normal(size=(120, 3)), np.array([0, 50, 120])
    fold = folds_by_content(X, offsets, folds)
    for start, stop in ((0, 50), (50, 120)):
        counts = np.bincount(fold[start:stop], minlength=folds)
        assert counts.max() - counts.min() <= 1
    order = np.concatenate([rng.permutation(50), 50 + rng.permutation(70)])
    np.testing.assert_array_equal(folds_by_content(X[order], offsets, folds), fold[order])
    np.testing.assert_array_equal(
        folds_by_content(X[np.r_[50:120, 0:50]], np.array([0, 70, 120]), folds)[70:], fold[:50]
    )


def test_equal_rows_are_spread_over_folds_and_folds_do_not_follow_the_values(seed: int) -> None:
    """A fold that held out whole values would ask for what was never seen; one dealt in turn would not ask at all."""
    values = np.random.default_rng(seed).integers(0, 3, 600).astype(float)[:, None]
    fold = folds_by_content(values, np.array([0, 600]), 5)
    for value in range(3):
        counts = np.bincount(fold[values[:, 0] == value], minlength=5)
        assert counts.min() > 0.4 * counts.mean()
    steps = folds_by_content(np.arange(600.0)[:, None], np.array([0, 600]), 5)
    assert len(np.unique(np.diff(steps) % 5)) == 5


def test_whole_weights_are_counts() -> None:
    assert whole(np.array([1.0, 0.0, 3.0])).tolist() == [1, 0, 3]
    assert whole(np.array([1.0, 0.5])) is None
    assert whole(np.array([1.0, 1e9])) is None  # too many rows to write out


def test_ranks_are_shared_by_equal_rows() -> None:
    X = np.concatenate([np.zeros((3, 2)), np.arange(20.0).reshape(10, 2)])
    ranks = ranks_by_content(X, np.array([0, 3, 13]))
    assert ranks[:3].tolist() == [0, 0, 0]
    assert sorted(ranks[3:]) == list(range(10))


@pytest.mark.parametrize(
    ("weight", "off"),
    [
        (np.linspace(50.5, 150.5, 300), "narrow"),
        (np.linspace(0.1, 2.9, 300), "narrow"),
        (np.full(300, 0.5), "wide"),
        (np.full(300, 1500), "narrow"),
    ],
)
def test_weights_that_are_no_counts_are_told_and_the_advice_helps(weight: Any, off: str) -> None:
    """Scaled as advised they count as what they are worth, and nothing more is advised."""
    rng = np.random.default_rng(0)
    X, env = rng.normal(size=(300, 2)), np.resize(["a", "b", "c"], 300)
    y = X[:, 0] + rng.normal(size=300)

    def told(given: Any) -> list[str]:
        audit = iv.audit(None, X, y, env, weight=given, n_boot=0, criteria=["risk_variance"])
        return [note for note in audit.notes if note.startswith("Weights count as repeated rows: 300 rows count as ")]

    [note] = told(weight)
    assert f"If they are survey or importance weights, intervals are too {off}: multiply all by " in note
    factor = float(note.split("multiply all by ")[1].split(",")[0])
    assert (factor * weight).sum() == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=0.01)
    assert not any("multiply" in note for note in told(factor * weight))


def test_counts_of_rows_are_told_without_advice() -> None:
    assert notes_on_weights(None) == notes_on_weights(np.ones(40)) == ()
    for weight, rows in (
        (np.resize([1.0, 2.0, 3.0, 0.0], 40), "60.0"),
        (np.full(40, 9.0), "360"),
        (np.full(40, 1.04), "41.6"),
    ):
        assert notes_on_weights(weight) == (f"Weights count as repeated rows: 40 rows count as {rows}.",)
