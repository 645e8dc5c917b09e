"""Wasserstein matching: by hand, against exact transport, its gradient, and classes that are absent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives.mmd import squared_distances
from invariscope.objectives.wasserstein_matching import transport_cost, wasserstein_matching_penalty
from tests.objectives.finite_differences import assert_gradient


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matched(*features: Tensor, entropy: float = 0.1, iterations: int = 200) -> Tensor:
    return wasserstein_matching_penalty(None, None, features, conditional=False, entropy=entropy, iterations=iterations)


def exact(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """The squared distance of two samples of any sizes, as a linear program over plans."""
    cost = ((x[:, None] - y[None]) ** 2).sum(axis=2)
    n, m = cost.shape
    margins = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    found = linprog(cost.ravel(), A_eq=margins, b_eq=np.r_[np.full(n, 1 / n), np.full(m, 1 / m)], method="highs")
    return float(found.fun)


def near_grid(seed: int, rows: int) -> tuple[Tensor, Tensor]:
    """Rows two apart, and the same rows moved by less than a half in another order: one matching is clearly best."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.stack([2.0 * torch.arange(rows).double(), torch.zeros(rows).double()], dim=1)
    moves = 0.8 * torch.rand(rows, 2, generator=generator, dtype=torch.float64) - 0.4
    return x, (x + moves)[torch.randperm(rows, generator=generator)]


# --- values ----------------------------------------------------------------------------------------------------------
def test_one_point_each_by_hand() -> None:
    features = [torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[3.0, 0.0]])]
    assert float(matched(*features)) == pytest.approx((25 + 9 + 16) / 3, rel=1e-5)


@pytest.mark.parametrize("start", [1.0, 20.0])
@pytest.mark.parametrize("size", [0.1, 0.5, 3.0])
def test_two_points_and_the_same_two_by_hand(size: float, start: float) -> None:
    # points 0 and 1 on both sides: mass q changes places each way, and q / (1/2 − q) = exp(−1/ε)
    q = 0.5 / (1 + math.exp(1 / size))
    plan = [0.5 - q, q, q, 0.5 - q]
    expected = 2 * q + size * sum(mass * math.log(4 * mass) for mass in plan)
    cost, half = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double(), torch.full((1, 2), 0.5).double()
    epsilon = torch.tensor([size], dtype=torch.float64)
    found = transport_cost(cost, half, half, epsilon, 100, start)
    assert found.tolist() == pytest.approx([expected], rel=1e-9)
    slopes = torch.func.grad(lambda given: transport_cost(given, half, half, epsilon, 100, start).sum())(cost)
    assert slopes.flatten().tolist() == pytest.approx(plan, rel=1e-9)


@pytest.mark.parametrize("entropy", [0.02, 0.2, 2.0])
def test_moving_all_rows_costs_the_square_of_the_way_whatever_the_entropy(entropy: float, seed: int) -> None:
    # the cross terms of |x − x' − t|² are a function of x plus one of x', which the margins fix
    x, way = normal(seed, 6, 2), torch.tensor([3.0, -1.0]).double()
    assert float(matched(x, x + way, entropy=entropy, iterations=800)) == pytest.approx(10.0, rel=1e-6)


def test_small_entropy_gives_the_cost_of_the_best_assignment(seed: int) -> None:
    x, y = near_grid(seed, 6)
    rows, columns = linear_sum_assignment(squared_distances(x, y).numpy())
    expected = float(((x[rows] - y[columns]) ** 2).sum(dim=1).mean())
    assert float(matched(x, y, entropy=0.002, iterations=800)) == pytest.approx(expected, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (4, 7), (1, 6)])
def test_smaller_entropies_come_nearer_to_the_linear_program(n: int, m: int, seed: int) -> None:
    x, y = normal(seed, n, 2), normal(seed + 1, m, 2) + 1
    expected = exact(x.numpy(), y.numpy())
    near = float(matched(x, y, entropy=0.002, iterations=1000))
    assert near == pytest.approx(expected, rel=0.02)
    assert float(matched(x, y, entropy=1.0, iterations=200)) < expected  # less of the spread is seen


@pytest.mark.slow
def test_default_settings_have_settled_not_far_below_the_linear_program(seed: int) -> None:
    x, y = normal(seed, 30, 3), 1.5 * normal(seed + 1, 40, 3) + 1

    def value(left: Tensor, iterations: int) -> Tensor:
        return wasserstein_matching_penalty(None, None, [left, y], conditional=False, iterations=iterations)

    early, late = (torch.func.grad_and_value(value)(x, iterations) for iterations in (50, 800))
    assert float(early[1]) == pytest.approx(float(late[1]), rel=0.005)
    assert float((early[0] - late[0]).norm()) < 0.1 * float(late[0].norm())
    truth = exact(x.numpy(), y.numpy())
    assert 0.75 * truth < float(late[1]) < truth


def test_never_below_zero_and_zero_for_equal_samples(seed: int) -> None:
    x, y = normal(seed, 8, 2), normal(seed + 1, 8, 2)
    assert float(matched(x, y, iterations=500)) > 0
    assert float(matched(x, x[torch.randperm(8, generator=torch.Generator().manual_seed(seed))])) == pytest.approx(
        0, abs=1e-10
    )


def test_rows_that_are_all_one_point_cost_nothing_and_have_a_finite_gradient() -> None:
    ones = torch.ones(3, 2)
    value, gradient = torch.func.grad_and_value(lambda x: matched(x, torch.ones(4, 2)))(ones)[::-1]
    assert float(value) == 0.0
    assert torch.equal(gradient, torch.zeros(3, 2))


# --- gradients -------------------------------------------------------------------------------------------------------
def test_gradient_is_exact_for_a_fixed_entropy_once_the_iterations_have_settled(seed: int) -> None:
    x, y = normal(seed, 4, 2), normal(seed + 1, 5, 2) + 1
    first, second = torch.full((1, 4), 1 / 4).double(), torch.full((1, 5), 1 / 5).double()
    epsilon = torch.tensor([2.0]).double()

    def divergence(left: Tensor, right: Tensor) -> Tensor:
        across = transport_cost(squared_distances(left, right), first, second, epsilon, 300, 5.0)
        within = transport_cost(squared_distances(left), first, first, epsilon, 300)
        return (across - (within + transport_cost(squared_distances(right), second, second, epsilon, 300)) / 2).sum()

    assert_gradient(divergence, x, y)


def test_gradient_comes_to_that_of_the_exact_distance(seed: int) -> None:
    x, y = near_grid(seed, 5)

    # of the mean of |x_i − y_m(i)|², in which the best matching m stays the same while rows move a little
    _, columns = linear_sum_assignment(squared_distances(x, y).numpy())
    expected = 2 * (x - y[columns]) / len(x)
    found = torch.func.grad(lambda left: matched(left, y, entropy=0.002, iterations=800))(x)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert float(expected.abs().max()) > 1e-3


@pytest.mark.slow
def test_gradient_downhill_brings_environments_together(seed: int) -> None:
    x, y = normal(seed, 10, 2), normal(seed + 1, 12, 2) + 2
    before = float(matched(x, y))
    for _ in range(50):
        x = x - 2.0 * torch.func.grad(lambda left: matched(left, y, iterations=50))(x)
    assert float(matched(x, y)) < 0.05 * before


# --- classes ---------------------------------------------------------------------------------------------------------
def test_within_classes_it_is_the_mean_of_the_classes_on_their_own(seed: int) -> None:
    codes = [torch.tensor([0, 1, 1, 0, 2, 2]), torch.tensor([2, 0, 1, 0, 2, 1, 1])]
    features = [normal(seed, 6, 2), normal(seed + 1, 7, 2)]
    logits = [torch.zeros(6, 3).double(), torch.zeros(7, 3).double()]
    expected = [
        matched(*(rows[values == each] for rows, values in zip(features, codes, strict=True)), iterations=50)
        for each in range(3)
    ]
    found = wasserstein_matching_penalty(logits, codes, features)
    torch.testing.assert_close(found, torch.stack(expected).mean())


def test_a_class_that_an_environment_lacks_counts_only_where_it_is(seed: int) -> None:
    # class 1 is absent from the first environment: only the pair of the others has it
    codes = [torch.tensor([0, 0, 0]), torch.tensor([1, 0, 1, 0]), torch.tensor([1, 1, 0])]
    features = [normal(seed + rows, len(values), 2) + rows for rows, values in enumerate(codes)]
    logits = [torch.zeros(len(values), 1).double() for values in codes]
    zero = [rows[values == 0] for rows, values in zip(features, codes, strict=True)]
    one = [rows[values == 1] for rows, values in zip(features[1:], codes[1:], strict=True)]
    # three pairs of class 0 and one of class 1
    expected = (3 * matched(*zero, iterations=50) + matched(*one, iterations=50)) / 4

    def value(*rows: Tensor) -> Tensor:
        return wasserstein_matching_penalty(logits, codes, rows, task="binary")

    torch.testing.assert_close(value(*features), expected)
    for which in range(3):
        assert torch.isfinite(torch.func.grad(value, argnums=which)(*features)).all()


def test_classes_in_common_nowhere_cost_nothing() -> None:
    logits, codes = [torch.zeros(2, 1)] * 2, [torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)]
    found = torch.func.grad_and_value(lambda z: wasserstein_matching_penalty(logits, codes, [z, z + 5]))
    gradient, value = found(torch.tensor([[0.0], [1.0]]))
    assert float(value) == 0.0
    assert torch.equal(gradient, torch.zeros(2, 1))


def test_replicates_with_different_absent_classes_run_at_once(seed: int) -> None:
    first = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]).double()
    second = torch.tensor([[1.0, 0.0, 1.0, 0.0]] * 2 + [[0.0] * 4]).double()
    x, y = normal(seed, 3, 3, 2), normal(seed + 1, 3, 4, 2)
    logits = [torch.zeros(3, 1).double(), torch.zeros(4, 1).double()]

    def value(z: Tensor, other: Tensor, codes: Tensor, others: Tensor) -> Tensor:
        return wasserstein_matching_penalty(logits, [codes, others], [z, other], task="binary")

    found = torch.func.vmap(value)(x, y, first, second)
    expected = torch.stack([value(*each) for each in zip(x, y, first, second, strict=True)])
    torch.testing.assert_close(found, expected)
    assert float(found[2]) == 0.0
    assert float(found[0]) > 1e-3


def test_regression_matches_all_rows(seed: int) -> None:
    x, y, values = normal(seed, 4, 2), normal(seed + 1, 4, 2), normal(seed + 2, 4)
    logits = [torch.zeros(4, 1).double()] * 2
    found = wasserstein_matching_penalty(logits, [values, values], [x, y], task="regression")
    torch.testing.assert_close(found, matched(x, y, iterations=50))


def test_input_that_does_not_fit_is_named() -> None:
    features = [torch.zeros(2, 1), torch.zeros(2, 1)]
    with pytest.raises(InputError, match="conditional matching needs logits and targets"):
        wasserstein_matching_penalty(None, None, features)
    with pytest.raises(InputError, match="entropy 0 with 50 iterations"):
        wasserstein_matching_penalty(None, None, features, conditional=False, entropy=0)
    with pytest.raises(InputError, match=r"entropy 0\.1 with 0 iterations"):
        wasserstein_matching_penalty(None, None, features, conditional=False, iterations=0)
    assert float(wasserstein_matching_penalty(None, None, features, conditional=False, iterations=1)) == 0.0
    with pytest.raises(InputError, match="1 environment"):
        wasserstein_matching_penalty(None, None, features[:1], conditional=False)
