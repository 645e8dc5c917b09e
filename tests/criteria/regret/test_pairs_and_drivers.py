"""Who disagrees with whom and about which columns, against slow references in environments of unequal size."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.regret.regret import regret
from tests.criteria.regret.test_inference import world
from tests.reference import regret as reference


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_pairs_equal_the_reference(task: str, seed: int) -> None:
    """The head of a small environment is noisy, that of a large one is not: in both places of every pair."""
    X, y, env = world(task, seed)
    result = regret(X, y, env, n_boot=99)
    expected = reference.pairs(X, y, env, 0 if task == "regression" else 2)
    np.testing.assert_allclose(result.pairs, expected, rtol=1e-5, atol=1e-6)


def test_drivers_equal_the_reference(seed: int) -> None:
    X, y, env = world("regression", seed)
    X += np.array([3.0, -1.0])
    result = regret(X, y, env, n_boot=99)
    expected = reference.drivers(X, y, env)
    np.testing.assert_allclose(result.drivers, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        expected.sum(axis=1), [estimate.value for estimate in result.per_environment.values()], rtol=1e-6
    )
