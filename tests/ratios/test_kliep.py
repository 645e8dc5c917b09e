"""KLIEP: solved by hand, by expectation maximisation, and against the truth."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.ratios import kernels
from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.kernels import Bumps, Sample
from invariscope.ratios.kliep import choose_kliep, fit_kliep, most_likely, solve_kliep
from tests.reference import kernel_ratios as reference


def test_proportions_by_hand() -> None:
    """Three rows that only the first column explains and one that only the second does: 3/4 and 1/4."""
    k = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    start = np.array([0.5, 0.5])
    np.testing.assert_allclose(
        most_likely(Sample(k, np.ones(4)), lambda k: k, start, 1e-8, 100), [0.75, 0.25], atol=1e-6
    )
    weighted = Sample(k[[0, 3]], np.array([3.0, 1.0]))
    np.testing.assert_allclose(most_likely(weighted, lambda k: k, start, 1e-8, 100), [0.75, 0.25], atol=1e-6)


def test_two_points_by_hand() -> None:
    """One environment at 0, the reference at 0 and far away: p/q is 1 / ½ = 2 at 0 and nothing elsewhere."""
    own, other = np.zeros((1, 1)), np.array([[0.0], [1000.0]])
    samples = (Sample(own, np.ones(1)), Sample(other, np.ones(2)))
    np.testing.assert_allclose(solve_kliep(*samples, Bumps(own, 1.0), 0.0), [2.0], rtol=1e-9)


@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_against_expectation_maximisation(width: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    own, other, centres = rng.normal(size=(150, 2)), 1.5 * rng.normal(size=(120, 2)), rng.normal(size=(8, 2))
    k, there = reference.features(own, centres, width), reference.features(other, centres, width)
    slow = reference.likelihood_weights(k, there)
    fast = solve_kliep(Sample(own, np.ones(150)), Sample(other, np.ones(120)), Bumps(centres, width), 0.0)
    assert (fast >= 0).all()
    assert there.mean(axis=0) @ fast == pytest.approx(1.0, rel=1e-9)
    found, expected = (np.log(k @ a).mean() for a in (fast, slow))
    assert found >= expected - 1e-8  # the maximum is what both look for
    assert found == pytest.approx(expected, abs=1e-4)
    np.testing.assert_allclose(k @ fast, k @ slow, rtol=0.05)


@pytest.mark.parametrize(("d", "band"), [(1, 0.09), (5, 0.25)])
def test_normal_laws(d: int, band: float, seed: int) -> None:
    """P = N(0, I), Q = N(0.2, 1.5 I), 3,000 rows each."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(3000, d)), 0.2 + np.sqrt(1.5) * rng.normal(size=(3000, d))])
    scores = fit_kliep(GroupedRows(X, np.array([0, 3000, 6000])), rng).log_densities(X)
    truth = -0.5 * (X**2).sum(axis=1) + ((X - 0.2) ** 2).sum(axis=1) / 3.0 + 0.5 * d * np.log(1.5)
    assert np.abs(scores[:, 0] - scores[:, 1] - truth).mean() < band


def test_a_width_is_judged_by_held_out_rows_of_both_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """One bump of width 1 at 0; the reference has a row there in one fold, in the other one at 1, worth e^−½ of it.

    Fitted on the second fold the ratio is e^½ everywhere in the first, of both: log r − log mean r = 0. Fitted on the
    first it is 1 at 0 and e^−½ at 1: log 1 − log e^−½ = ½.
    """
    at, one = np.zeros((1, 1)), np.ones(1)
    folds = [(Sample(at, one), Sample(at, one)), (Sample(at, one), Sample(at + 1.0, one))]
    monkeypatch.setattr(kernels, "best_width", lambda score, typical: score(1.0))
    monkeypatch.setattr(kernels, "typical_distance", lambda centres: 1.0)
    assert choose_kliep(folds, at) == (pytest.approx(-0.5, abs=1e-12), 0.0)
