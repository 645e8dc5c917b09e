"""Environments drawn to a chosen agreement: exact counts, no row twice, and nothing but chance in which rows."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.datasets.tables.engineered_environments import draw, strengths


def test_counts_are_exact_and_no_row_is_drawn_twice(seed: int) -> None:
    generator = np.random.default_rng(seed)
    agrees = generator.permutation(np.repeat([True, False], [600, 400]))
    positions, labels = draw(agrees, (0.9, 0.75, 0.334), 300, generator)
    assert len(np.unique(positions)) == 900
    assert agrees[positions].reshape(3, 300).sum(axis=1).tolist() == [270, 225, 100]
    assert labels.reshape(3, 300)[:, [0, -1]].tolist() == [[f"agreement {share} %"] * 2 for share in (90, 75, 33)]


def test_every_row_of_a_kind_is_as_likely(seed: int) -> None:
    """3 of 6 agreeing rows are drawn into the first environment: each with probability 1/2, each pair 1/5."""
    generator = np.random.default_rng(seed)
    agrees = np.arange(10) < 6
    hits = np.zeros((4000, 10))
    for repetition in hits:
        repetition[draw(agrees, (0.75,), 4, generator)[0]] = 1
    expected = np.where(agrees, 0.5, 0.25)
    assert hits.mean(axis=0) == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(4000))
    assert (hits[:, 0] * hits[:, 1]).mean() == pytest.approx(0.2, abs=5 * 0.4 / np.sqrt(4000))


def test_strengths_are_measured_per_environment() -> None:
    feature, target = np.array([0, 1, 0, 1, 0, 1]), np.array([0, 1, 1, 0, 0, 0.5])
    env = np.array(["a", "a", "b", "b", "c", "c"])
    found = strengths(feature == (target > 0), feature, target, env)
    assert found["agreement"] == {"a": 1.0, "b": 0.0, "c": 1.0}
    assert found["correlation"] == pytest.approx({"a": 1.0, "b": -1.0, "c": 1.0})
