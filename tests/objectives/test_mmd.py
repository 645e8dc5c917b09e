"""Maximum mean discrepancy: by hand, and as DomainBed defines it, in loops."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from invariscope.errors import InputError
from invariscope.objectives.mmd import GAMMAS, mmd_penalty, squared_distances


def in_loops(features: list[NDArray[np.float64]]) -> float:
    def mean_kernel(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> float:
        total = 0.0
        for x in xs:
            for y in ys:
                for gamma in (0.001, 0.01, 0.1, 1, 10, 100, 1000):
                    total += math.exp(-gamma * sum((a - b) ** 2 for a, b in zip(x, y, strict=True)))
        return total / len(xs) / len(ys)

    penalty, pairs = 0.0, 0
    for x, y in combinations(features, 2):
        penalty += mean_kernel(x, x) + mean_kernel(y, y) - 2 * mean_kernel(x, y)
        pairs += 1
    return penalty / pairs


def test_equals_loops_over_pairs_rows_and_kernels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(n, 3)) + shift for n, shift in ((4, 0), (7, 0.5), (5, -1))]
    found = mmd_penalty(None, None, [torch.from_numpy(rows) for rows in features])
    assert float(found) == pytest.approx(in_loops(features), rel=1e-9)


def test_two_rows_against_one_by_hand() -> None:
    features = [torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0]])]
    # k(x, x') = (1 + 1 + 2 exp(−4)) / 4;  k(y, y) = 1;  k(x, y) = exp(−1)
    expected = (2 + 2 * math.exp(-4)) / 4 + 1 - 2 * math.exp(-1)
    assert float(mmd_penalty(None, None, features, gammas=(1.0,))) == pytest.approx(expected, rel=1e-6)
    # a large γ is a narrow kernel: rows apart are then nothing to each other
    narrow = mmd_penalty(None, None, features, gammas=(3.0,))
    assert float(narrow) == pytest.approx((2 + 2 * math.exp(-12)) / 4 + 1 - 2 * math.exp(-3), rel=1e-6)


def test_far_apart_it_is_twice_the_number_of_kernels() -> None:
    features = [torch.zeros(3, 1), torch.full((2, 1), 1e4)]
    assert float(mmd_penalty(None, None, features)) == pytest.approx(2 * len(GAMMAS), rel=1e-6)


def test_grows_with_the_shift_and_not_with_where_the_features_are(seed: int) -> None:
    rows = torch.randn(30, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    values = [float(mmd_penalty(None, None, [rows, rows + shift])) for shift in (0.0, 0.5, 1.0, 2.0)]
    assert values[0] == pytest.approx(0, abs=1e-9)
    assert values == sorted(values)
    moved = mmd_penalty(None, None, [rows + 100, rows + 101])
    assert float(moved) == pytest.approx(values[2], rel=1e-6)


def test_rows_compared_with_themselves_are_at_distance_zero_in_single_precision(seed: int) -> None:
    rows = torch.randn(20, 50, generator=torch.Generator().manual_seed(seed)) + 1000
    squares = squared_distances(rows)
    assert torch.equal(torch.diagonal(squares), torch.zeros(20))
    exact = ((rows[:, None].double() - rows[None].double()) ** 2).sum(dim=2)
    torch.testing.assert_close(squares.double(), exact, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([torch.zeros(2, 1)], "1 environment"),
        ([torch.zeros(2, 1), torch.zeros(2)], "environment 1 have 1 axes"),
        ([torch.zeros(2, 1), torch.zeros(2, 3)], "environment 1 have 3 columns"),
        ([torch.zeros(2, 1), torch.zeros(0, 1)], "environment 1 has 0 row"),
    ],
)
def test_features_that_do_not_fit_are_named(features: list[torch.Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mmd_penalty(None, None, features)
