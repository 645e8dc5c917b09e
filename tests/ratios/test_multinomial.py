"""Multinomial logistic regression: against loops, scikit-learn's solver, its own optimality, and awkward rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from invariscope.ratios.multinomial import Multinomial, fit_multinomial
from tests.reference import ratios as reference


def rows_of(environments: int, seed: int, width: int = 3, n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = n + 17 * np.arange(environments)
    codes = np.repeat(np.arange(environments), sizes)
    B = rng.normal(size=(len(codes), width)) @ rng.normal(size=(width, width)) + 0.5 * codes[:, None]
    B = (B - B.mean(axis=0)) / B.std(axis=0)
    return B, np.concatenate([[0], np.cumsum(sizes)]), codes


def loss_of(
    B: np.ndarray, codes: np.ndarray, model: Multinomial, ridge: float, counts: np.ndarray | None = None
) -> float:
    counts = np.ones(len(B)) if counts is None else counts
    found = reference.multinomial_loss(
        B.tolist(), codes.tolist(), counts.tolist(), model.weight.tolist(), model.bias.tolist(), ridge
    )
    return float(found)


@pytest.mark.parametrize("environments", [2, 3, 6])
@pytest.mark.parametrize("ridge", [0.3, 10.0])
def test_no_step_lowers_the_loss_of_the_loops(environments: int, ridge: float, seed: int) -> None:
    B, offsets, codes = rows_of(environments, seed, n=40)
    model = fit_multinomial(B, offsets, None, ridge)
    least = loss_of(B, codes, model, ridge)
    rng = np.random.default_rng(seed + 1)
    for size in (1e-1, 1e-2):
        for _ in range(10):
            other = Multinomial(
                model.weight + size * rng.normal(size=model.weight.shape),
                model.bias + size * rng.normal(size=model.bias.shape),
            )
            assert loss_of(B, codes, other, ridge) > least - 1e-5


@pytest.mark.parametrize("environments", [2, 3, 6])
def test_agrees_with_the_solver_of_scikit_learn(environments: int, seed: int) -> None:
    B, offsets, codes = rows_of(environments, seed)
    model = fit_multinomial(B, offsets, None, 2.0, tolerance=1e-12)
    peer = LogisticRegression(C=0.5, solver="lbfgs", tol=1e-10, max_iter=5000).fit(B, codes)
    if environments == 2:  # one penalised difference there, two halves of it here: half the ridge
        peer = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-12).fit(B, codes)
    np.testing.assert_allclose(np.exp(model.log_probabilities(B)), peer.predict_proba(B), atol=2e-5)


def test_default_tolerance_is_far_below_the_sampling_error(seed: int) -> None:
    B, offsets, codes = rows_of(4, seed, width=6, n=400)
    exact = fit_multinomial(B, offsets, None, 1.0, tolerance=1e-14)
    usual = fit_multinomial(B, offsets, None, 1.0)
    assert loss_of(B, codes, usual, 1.0) - loss_of(B, codes, exact, 1.0) < 1e-4  # half a nat is one standard error
    np.testing.assert_allclose(usual.weight, exact.weight, atol=2e-3)


@pytest.mark.parametrize("environments", [2, 5])
def test_weights_are_repeated_rows(environments: int, seed: int) -> None:
    B, offsets, codes = rows_of(environments, seed)
    counts = np.random.default_rng(seed).integers(1, 4, len(B))
    again = np.repeat(np.arange(len(B)), counts)
    sizes = np.bincount(codes[again])
    one = fit_multinomial(B, offsets, counts.astype(float), 1.0, tolerance=1e-13)
    other = fit_multinomial(B[again], np.concatenate([[0], np.cumsum(sizes)]), None, 1.0, tolerance=1e-13)
    np.testing.assert_allclose(one.weight, other.weight, atol=1e-6)
    np.testing.assert_allclose(np.diff(one.bias), np.diff(other.bias), atol=1e-6)


def test_a_start_changes_the_way_not_the_end(seed: int) -> None:
    B, offsets, _ = rows_of(3, seed)
    rng = np.random.default_rng(seed)
    start = Multinomial(rng.normal(size=(3, 3)), rng.normal(size=3))
    one = fit_multinomial(B, offsets, None, 1.0, tolerance=1e-13)
    other = fit_multinomial(B, offsets, None, 1.0, start, tolerance=1e-13)
    np.testing.assert_allclose(one.log_probabilities(B), other.log_probabilities(B), atol=1e-5)


def test_separated_environments_stay_finite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    B = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(100, 2)) + 1e4])
    B = (B - B.mean(axis=0)) / B.std(axis=0)
    model = fit_multinomial(B, np.array([0, 100, 200]), None, 1.0)
    assert np.isfinite(model.weight).all()
    # with both slopes the same, w: loss 200 exp(−4w) against ridge 2w²: about 1.06 at the optimum
    assert 0.5 < np.abs(model.weight).max() < 2.0


def test_many_blocks_add_up_to_the_same(seed: int) -> None:
    """More rows than one task holds, in threads."""
    B, offsets, _ = rows_of(3, seed, n=7000)
    assert len(B) > 2 * 8192
    model = fit_multinomial(B, offsets, None, 1.0, tolerance=1e-10)
    scores = np.exp(model.log_probabilities(B))
    for e in range(3):
        rows = slice(offsets[e], offsets[e + 1])
        gradient = scores[:, e] @ B - B[rows].sum(axis=0) + model.weight[e]
        np.testing.assert_allclose(gradient, 0.0, atol=1e-2)
        assert scores[:, e].sum() == pytest.approx(rows.stop - rows.start, abs=1e-2)
