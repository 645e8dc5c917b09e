"""Invariant rationalisation: by hand, own heads that learn, and the gain they end at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives import Batch, InvRat
from invariscope.objectives.invrat import invrat_penalty


def world(seed: int, rows: int = 60) -> Batch:
    """Slopes that differ between environments, and a shared head that predicts nothing at all."""
    generator = torch.Generator().manual_seed(seed)
    features = tuple(torch.randn(rows, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    noise = [0.3 * torch.randn(rows, generator=generator, dtype=torch.float64) for _ in range(2)]
    targets = (features[0][:, 0] + noise[0], -features[1][:, 0] + noise[1] + 1)
    return Batch(tuple(torch.zeros(rows, 1).double() for _ in range(2)), targets, features, "regression")


def test_only_gains_count() -> None:
    logits, own = [torch.tensor([[3.0]]), torch.tensor([[1.0]])], [torch.tensor([[1.0]]), torch.tensor([[2.0]])]
    targets = [torch.zeros(1), torch.zeros(1)]  # 9 against 1, 1 against 4
    assert float(invrat_penalty(logits, targets, own_logits=own)) == 4.0
    assert float(invrat_penalty(own, targets, own_logits=own)) == 0.0


def test_own_heads_that_have_learned_show_the_gain_of_least_squares(seed: int) -> None:
    batch, objective = world(seed), InvRat()
    start = objective.adversary(2, 2, 1, torch.Generator().manual_seed(seed))
    adversary = {name: value.double() for name, value in start.items()}
    for _ in range(400):
        gradient = torch.func.grad(lambda given: objective.penalty(batch, given))(adversary)
        adversary = {name: value - 0.3 * gradient[name] for name, value in adversary.items()}
    gains = []
    for rows, values in zip(batch.features, batch.targets, strict=True):
        design = np.column_stack([np.ones(len(rows)), rows.numpy()])
        _, left, *_ = np.linalg.lstsq(design, values.numpy(), rcond=None)
        gains.append(np.mean(values.numpy() ** 2) - left[0] / len(rows))
    assert float(objective.penalty(batch, adversary)) == pytest.approx(np.mean(gains), rel=1e-6)


def test_heads_learn_where_nothing_is_gained_yet(seed: int) -> None:
    batch, objective = world(seed), InvRat()
    poor = {"weight": torch.full((2, 1, 2), 9.0).double(), "bias": torch.full((2, 1), 9.0).double()}
    assert float(objective.penalty(batch, poor)) == 0.0
    gradient = torch.func.grad(lambda given: objective.penalty(batch, given))(poor)
    for name in poor:
        assert float(gradient[name].abs().min()) > 0.1

    def value(*rows: Tensor) -> Tensor:
        return objective.penalty(Batch(batch.logits, batch.targets, rows, "regression"), poor)

    assert torch.equal(torch.func.grad(value)(*batch.features), torch.zeros_like(batch.features[0]))


def test_features_move_to_where_own_heads_gain_less(seed: int) -> None:
    batch, objective = world(seed), InvRat()
    heads = {
        "weight": torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]]]).double(),
        "bias": torch.tensor([[0.0], [1.0]]).double(),
    }

    def value(rows: tuple[Tensor, ...]) -> Tensor:
        return objective.penalty(Batch(batch.logits, batch.targets, rows, "regression"), heads)

    step = torch.func.grad(value)(batch.features)
    moved = tuple(rows - 0.5 * slope for rows, slope in zip(batch.features, step, strict=True))
    assert float(value(moved)) < float(value(batch.features))


def test_heads_start_at_zero_with_one_for_every_environment_and_output() -> None:
    start = InvRat().adversary(5, 3, 4, torch.Generator().manual_seed(0))
    assert {name: tuple(value.shape) for name, value in start.items()} == {"weight": (3, 4, 5), "bias": (3, 4)}
    assert not any(value.any() for value in start.values())


def test_own_logits_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match="own_logits do not have the shapes"):
        invrat_penalty([torch.zeros(2, 1)] * 2, [torch.zeros(2)] * 2, own_logits=[torch.zeros(2, 1)])
    with pytest.raises(InputError, match="own_logits do not have the shapes"):
        invrat_penalty([torch.zeros(2, 1)] * 2, [torch.zeros(2)] * 2, own_logits=[torch.zeros(3, 1)] * 2)
    with pytest.raises(InputError, match="was made for 3 environments"):
        InvRat().penalty(world(0), InvRat().adversary(2, 3, 1, torch.Generator()))
