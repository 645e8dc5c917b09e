"""Domain-adversarial training: by hand, against a divergence, and in loops of one's own."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from invariscope.errors import InputError
from invariscope.objectives import DANN, Batch
from invariscope.objectives.adversaries import reverse_parameters
from invariscope.objectives.dann import dann_penalty


def batch_of(features: tuple[Tensor, ...]) -> Batch:
    ones = tuple(rows[:, :1] for rows in features)
    return Batch(ones, tuple(rows[:, 0] for rows in features), features, "regression")


def test_linear_discriminator_by_hand() -> None:
    features = [torch.tensor([[1.0], [0.0]], dtype=torch.float64), torch.tensor([[-2.0]], dtype=torch.float64)]
    # scores (z, 0): the first environment has probability 1 / (1 + exp(−z))
    found = dann_penalty(None, None, features, discriminator=lambda z: torch.cat([z, torch.zeros_like(z)], dim=1))
    first = (-math.log(1 + math.exp(-1)) - math.log(2)) / 2
    second = -math.log(1 + math.exp(-2))
    assert float(found) == pytest.approx(math.log(2) + (first + second) / 2, rel=1e-12)


def test_best_discriminator_knows_the_jensen_shannon_divergence(seed: int) -> None:
    # features in {0, 1, 2}, in known numbers; the best scores are log frequencies, environments counting the same
    counts = np.random.default_rng(seed).integers(1, 6, size=(3, 3))
    shares = counts / counts.sum(axis=1, keepdims=True)
    mixture = shares.mean(axis=0)
    divergence = np.mean([np.sum(share * np.log(share / mixture)) for share in shares])
    features = [torch.from_numpy(np.repeat(np.arange(3.0), count)[:, None]) for count in counts]
    table = torch.from_numpy(np.log(shares).T)
    found = dann_penalty(None, None, features, discriminator=lambda z: table[z[:, 0].long()])
    assert float(found) == pytest.approx(divergence, rel=1e-10)
    worse = dann_penalty(None, None, features, discriminator=lambda z: table[z[:, 0].long()] * 0.5 + 0.1 * z)
    assert float(worse) < float(found)


def test_environments_count_the_same_whatever_their_rows(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    first, second = (torch.randn(4, 2, generator=generator) for _ in range(2))
    head = torch.randn(2, 2, generator=generator)
    once, repeated = (
        dann_penalty(None, None, [first, rows], discriminator=lambda z: z @ head)
        for rows in (second, second.repeat(5, 1))
    )
    torch.testing.assert_close(once, repeated)


def test_a_module_in_ones_own_loop_goes_up_while_the_features_go_down(seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    features = [torch.randn(6, 2).requires_grad_(), (torch.randn(6, 2) + 1).requires_grad_()]
    plain = dann_penalty(None, None, features, discriminator=module)
    expected = torch.autograd.grad(plain, [*features, *module.parameters()])
    reversed_ = reverse_parameters(dict(module.named_parameters()))
    value = dann_penalty(None, None, features, discriminator=partial(functional_call, module, reversed_))
    value.backward()
    torch.testing.assert_close(value, plain)
    for rows, gradient in zip(features, expected[:2], strict=True):
        torch.testing.assert_close(rows.grad, gradient)
    for parameter, gradient in zip(module.parameters(), expected[2:], strict=True):
        torch.testing.assert_close(parameter.grad, -gradient)


def test_minimising_teaches_the_discriminator_and_then_mixes_the_features(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    objective = DANN(hidden=16)
    features = tuple(torch.randn(30, 2, generator=generator) + shift for shift in (-2.0, 2.0))
    adversary = objective.adversary(2, 2, 1, generator)

    def value(rows: tuple[Tensor, ...], given: dict[str, Tensor]) -> Tensor:
        return objective.penalty(batch_of(rows), given)

    for _ in range(300):
        gradient = torch.func.grad(value, argnums=1)(features, adversary)
        adversary = {name: parameter - 0.5 * gradient[name] for name, parameter in adversary.items()}
    known = float(value(features, adversary))
    assert known > 0.5  # of log 2 = 0.69
    downhill = torch.func.grad(value)(features, adversary)
    moved = tuple(rows - 0.5 * step for rows, step in zip(features, downhill, strict=True))
    assert float(value(moved, adversary)) < known


def test_a_missing_adversary_is_named() -> None:
    with pytest.raises(InputError, match='objective "dann" trains an adversary'):
        DANN()(batch_of((torch.zeros(2, 1), torch.zeros(2, 1))))
