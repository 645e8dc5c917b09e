"""Ceilings hold for every p, are tight where they should be, and two-class points are the highest there are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import entr, logsumexp, xlogy

from invariscope.criteria.worst_case.ceilings import _highest, from_gradient, from_pairs, from_slabs
from invariscope.criteria.worst_case.log_loss import two_class_points


def landscape(classes: int, scale: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """û (K, n), κ (K, K), and a cloud of p (m, K) that holds corners, edges and the inside."""
    rng = np.random.default_rng([seed, classes])
    w = rng.normal(size=(classes, 4)) * scale
    cost = ((w[:, None] - w) ** 2).sum(axis=2)
    inside = [rng.dirichlet(np.full(classes, a), 3000) for a in (0.05, 0.2, 1.0)]
    pairs = [x * np.eye(classes)[j] + (1 - x) * np.eye(classes)[k]
             for j in range(classes) for k in range(j) for x in np.linspace(0, 1, 41)]  # fmt: skip
    return rng.normal(size=(classes, 25)) * 2, cost, np.vstack([*inside, pairs])


def heights(peaks: np.ndarray, cost: np.ndarray, cloud: np.ndarray) -> np.ndarray:
    """F(p) = p·û + H(p) − pᵀκp: (m, n)."""
    own = entr(cloud).sum(axis=1) - np.einsum("mj,jk,mk->m", cloud, cost, cloud)
    return cloud @ peaks + own[:, None]


@pytest.mark.parametrize("scale", [0.05, 0.3, 0.6, 1.0, 3.0])
@pytest.mark.parametrize("classes", [3, 10])
def test_nothing_is_above_a_ceiling(classes: int, scale: float, seed: int) -> None:
    peaks, cost, cloud = landscape(classes, scale, seed)
    reached = heights(peaks, cost, cloud).max(axis=0)
    pairs = from_pairs(peaks, cost)
    assert np.all(reached <= pairs + 1e-12)
    for lead in range(classes):  # whichever class leads
        assert np.all(reached <= from_slabs(peaks, cost, np.full(peaks.shape[1], lead)) + 1e-12)


@pytest.mark.slow
def test_slabs_are_exact_for_two_classes_up_to_their_width(seed: int) -> None:
    rng = np.random.default_rng(seed)
    peaks = rng.normal(size=(2, 40)) * 2
    for kappa in (0.3, 1.0, 2.5, 6.0):
        cost = kappa * (1 - np.eye(2))
        x = np.linspace(0, 1, 200001)[:, None]
        best = np.array(
            [np.max(x * a + (1 - x) * b + entr(x) + entr(1 - x) - 2 * kappa * x * (1 - x)) for a, b in peaks.T]
        )
        ceiling = from_slabs(peaks, cost, peaks.argmax(axis=0))
        assert np.all(ceiling >= best - 1e-12)
        assert np.max(ceiling - best) < 0.02


def test_far_classes_make_the_quick_ceiling_exact() -> None:
    peaks = np.array([[3.0], [2.0], [1.0]])
    cost = 40.0 * (1 - np.eye(3))
    assert from_pairs(peaks, cost)[0] == pytest.approx(3.0, abs=1e-12)
    assert from_pairs(peaks, 0 * cost)[0] == pytest.approx(logsumexp(peaks))


def test_the_gradient_bounds_a_concave_landscape_from_any_point(seed: int) -> None:
    """And is off by a square only: ten times nearer to the top, a hundred times nearer to the truth."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(5, 3))
    product = w @ w.T
    product /= np.linalg.eigvalsh(product)[-1]
    curvature = 0.6  # λ_max(M)/(4γ), with M/(4γ) = 0.6 · product
    above = rng.normal(size=(5, 30))

    def value(p: np.ndarray) -> np.ndarray:
        return (p * above).sum(axis=0) + entr(p).sum(axis=0) + curvature * np.einsum("kn,kj,jn->n", p, product, p)

    p = rng.dirichlet(np.ones(5), 30).T
    gaps = []
    for step in range(400):
        logits = above + 2 * curvature * product @ p
        if step in (0, 10, 399):
            ceiling = from_gradient(logits, p, np.log(p), value(p), curvature)
            gaps.append((p, ceiling))
        p = np.exp(logits - logsumexp(logits, axis=0))
    top = value(p)
    for _, ceiling in gaps:
        assert np.all(ceiling >= top - 1e-12)
    np.testing.assert_allclose(gaps[-1][1], top, atol=1e-11)
    near, ceiling = gaps[1]
    apart = (xlogy(near, near) - xlogy(near, p)).sum(axis=0)
    assert np.all(ceiling - top <= 10 * apart / (1 - curvature) + 1e-12)


@pytest.mark.parametrize("length", [1.0, 30.0])
@pytest.mark.parametrize("gamma", [0.01, 0.3, 5.0, 100.0])
def test_two_class_points_are_the_highest_of_a_fine_line(length: float, gamma: float, seed: int) -> None:
    above = np.concatenate([np.random.default_rng(seed).normal(size=50) * 5, [0.0, -1e3, 1e3, -1e5]])
    loss, moved, ceiling = two_class_points(above, length, gamma)
    t = above[:, None] + np.linspace(0, length / (2 * gamma), 20001)
    best = np.max(np.logaddexp(0, t) - gamma * (t - above[:, None]) ** 2 / length, axis=1)
    reached = loss - gamma * moved
    assert np.all(best <= reached + 1e-12 * (1 + np.abs(best)))
    assert np.all(ceiling >= reached)
    np.testing.assert_allclose(reached, best, rtol=1e-6, atol=length / gamma * 1e-7)


def test_a_bound_that_rises_is_lifted_above_its_chord() -> None:
    """One slab, û = 0 and B(x) = 4x: the highest point of h(x) + 4x(1 − x) is log 2 + 1, in the middle."""
    edges, bound = np.array([0.0, 1.0]), np.array([[0.0], [4.0]])
    with np.errstate(divide="ignore"):
        assert _highest(edges, bound, np.zeros(1))[0] == pytest.approx(np.log(2) + 1, abs=1e-15)
        # where B falls, (1 − x) · chord is convex and below its own chord: from 4 at x = 0 down to 0, log(1 + e⁴)
        assert _highest(edges, bound[::-1], np.zeros(1))[0] == pytest.approx(np.log1p(np.exp(4.0)), abs=1e-14)
