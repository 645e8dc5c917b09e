"""Adversaries: gradients that are reversed or alone, networks, and what scores tell about the environment."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives.adversaries import (
    checked_adversary,
    environment_knowledge,
    gradient_only,
    network,
    network_scores,
    reverse_parameters,
)
from tests.objectives.finite_differences import central_differences


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_reversed_parameters_have_the_same_value_and_the_opposite_gradient(seed: int) -> None:
    parameters, rows = {"weight": normal(seed, 3, 2), "bias": normal(seed + 1, 3)}, normal(seed + 2, 5, 2)

    def loss(given: dict[str, Tensor]) -> Tensor:
        return torch.tanh(rows @ given["weight"].T + given["bias"]).square().sum()

    torch.testing.assert_close(loss(reverse_parameters(parameters)), loss(parameters))
    straight = torch.func.grad(loss)(parameters)
    turned = torch.func.grad(lambda given: loss(reverse_parameters(given)))(parameters)
    torch.testing.assert_close(turned, {name: -value for name, value in straight.items()})
    assert float(straight["weight"].abs().max()) > 1e-3


def test_gradient_alone_has_no_value(seed: int) -> None:
    place = normal(seed, 4)
    assert float(gradient_only(place.square().sum())) == 0.0
    torch.testing.assert_close(torch.func.grad(lambda t: gradient_only(t.square().sum()))(place), 2 * place)


def test_network_is_two_layers_by_hand(seed: int) -> None:
    parameters = {
        "hidden_weight": torch.tensor([[1.0, -1.0]], dtype=torch.float64),
        "hidden_bias": torch.tensor([0.5], dtype=torch.float64),
        "output_weight": torch.tensor([[2.0], [-1.0]], dtype=torch.float64),
        "output_bias": torch.tensor([0.0, 3.0], dtype=torch.float64),
    }
    scores = network_scores(parameters, torch.tensor([[2.0, 1.0]], dtype=torch.float64))
    unit = 1.5 * (1 + math.erf(1.5 / math.sqrt(2))) / 2  # GELU: x times the probability that a normal is below x
    assert scores.tolist()[0] == pytest.approx([2 * unit, 3 - unit], rel=1e-12)


def test_network_starts_from_its_generator_alone() -> None:
    first, again, other = (network(3, 8, 2, torch.Generator().manual_seed(number)) for number in (5, 5, 6))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["hidden_weight"], other["hidden_weight"])
    assert {name: tuple(value.shape) for name, value in first.items()} == {
        "hidden_weight": (8, 3),
        "hidden_bias": (8,),
        "output_weight": (2, 8),
        "output_bias": (2,),
    }
    assert float(first["hidden_weight"].abs().max()) <= 1 / math.sqrt(3)


def test_network_reads_rows_of_either_precision() -> None:
    parameters = network(3, 8, 2, torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        assert network_scores(parameters, torch.ones(4, 3, dtype=dtype)).dtype == dtype


def test_knowledge_by_hand() -> None:
    scores = [torch.log(torch.tensor([[0.8, 0.2]])), torch.log(torch.tensor([[0.5, 0.5], [0.1, 0.9]]))]
    expected = math.log(2) + (math.log(0.8) + (math.log(0.5) + math.log(0.9)) / 2) / 2
    assert float(environment_knowledge(scores)) == pytest.approx(expected, rel=1e-5)
    weights = [torch.tensor([1.0]), torch.tensor([0.25, 0.75])]
    expected = math.log(2) + (math.log(0.8) + 0.25 * math.log(0.5) + 0.75 * math.log(0.9)) / 2
    assert float(environment_knowledge(scores, weights)) == pytest.approx(expected, rel=1e-5)


def test_knowledge_rises_where_its_gradient_points(seed: int) -> None:
    scores = normal(seed, 4, 2)

    def known(given: Tensor) -> Tensor:
        return environment_knowledge([given[:1], given[1:]])

    gradient = torch.func.grad(known)(scores)
    torch.testing.assert_close(gradient, central_differences(known, scores), rtol=1e-6, atol=1e-8)
    assert float(known(scores + 0.1 * gradient)) > float(known(scores))


def test_input_that_does_not_fit_is_named() -> None:
    with pytest.raises(InputError, match="one column for each of the 2 environments"):
        environment_knowledge([torch.zeros(3, 2), torch.zeros(3, 1)])
    with pytest.raises(InputError, match='objective "dann" trains an adversary'):
        checked_adversary("dann", {}, 2)
    with pytest.raises(InputError, match="was made for 3 environments, the batch has 2"):
        checked_adversary("dann", {"output_bias": torch.zeros(3)}, 2)
