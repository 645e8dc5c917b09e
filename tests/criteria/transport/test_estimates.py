"""The noise that gaps have in common, exactly: with unit vectors in place of random draws."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.transport.estimates import Gaps
from invariscope.criteria.transport.transport_gap import _draw, transport_gap

ENVIRONMENTS, CLASSES = 3, 2
SIZE = 2 * ENVIRONMENTS * CLASSES  # means of the rows of one environment


def gaps_of(seed: int) -> Gaps:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(ENVIRONMENTS, SIZE, SIZE))
    covariance = factor @ np.swapaxes(factor, 1, 2)
    shape = (ENVIRONMENTS, ENVIRONMENTS, CLASSES)
    return Gaps(rng.normal(size=shape), rng.uniform(1, 2, shape), np.full(shape, 9.0), covariance)


class UnitDraws:
    """In place of a generator: draw k is 1 in the k-th of all variables, so that covariances are drawsᵀ draws."""

    def __init__(self) -> None:
        self.place = 0

    def standard_normal(self, shape: tuple[int, int]) -> np.ndarray:
        self.place += shape[1]
        return np.eye(shape[0])[:, self.place - shape[1] : self.place]


def test_draws_have_the_covariance_of_the_means_they_are_made_of(seed: int) -> None:
    """δ(a, b) is a mean of rows of b, weighted to look like a, plus one of rows of a: environments are independent."""
    gaps = gaps_of(seed)
    drawn = gaps.draw(ENVIRONMENTS * SIZE, UnitDraws())  # type: ignore[arg-type]
    found = np.einsum("iabc,ixyz->abcxyz", drawn, drawn)
    of = gaps.covariance.reshape(ENVIRONMENTS, 2, ENVIRONMENTS, CLASSES, 2, ENVIRONMENTS, CLASSES)
    for a, b, c, x, y, z in np.ndindex(found.shape):
        expected = of[b, 0, a, c, 0, x, z] * (b == y) + of[a, 1, b, c, 1, y, z] * (a == x)
        expected += of[b, 0, a, c, 1, y, z] * (b == x) + of[a, 1, b, c, 0, x, z] * (a == y)
        assert found[a, b, c, x, y, z] == pytest.approx(expected, abs=1e-9)


def test_the_null_is_that_of_the_largest_gap_of_all_pairs_and_classes(seed: int, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    gaps, noise = gaps_of(seed), rng.uniform(1, 2, (ENVIRONMENTS, ENVIRONMENTS, CLASSES))
    drawn = rng.normal(size=(5, ENVIRONMENTS, ENVIRONMENTS, CLASSES))
    monkeypatch.setattr(Gaps, "draw", lambda self, count, rng: drawn)
    compared = ~np.eye(ENVIRONMENTS, dtype=bool)
    compared[2, 0] = False
    pairs = [(a, b) for a, b in np.argwhere(compared)]
    largest, draws = _draw(gaps, noise, compared, 5, rng)
    for i in range(5):
        cells = [(a, b, c) for a, b in pairs for c in range(CLASSES)]
        assert largest[i] == pytest.approx(max(abs(drawn[i, *cell]) / noise[cell] for cell in cells))
        assert draws.linear[i] == pytest.approx(2 * sum(drawn[i, *cell] * gaps.gap[cell] for cell in cells) / 5)
        assert draws.quadratic[i] == pytest.approx(sum(drawn[i, *cell] ** 2 for cell in cells) / 5)


def test_pvalues_of_pairs_are_shares_of_that_null(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env, z = np.repeat(["a", "b", "c"], [80, 120, 160]), rng.normal(size=(360, 1))
    y = z[:, 0] + 0.2 * (env == "c") + rng.normal(size=360)
    found = transport_gap(z, y, env, n_boot=199, seed=seed)
    assert found.pair_pvalues[~np.eye(3, dtype=bool)].min() == found.pvalue
    assert found.pvalue == (1 + np.sum(found.null >= found.statistic)) / 200
    assert np.diag(found.pair_pvalues).tolist() == [1.0, 1.0, 1.0]
