"""GroupDRO: by hand, and as DomainBed defines it, step after step."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from invariscope.errors import InputError
from invariscope.objectives import Batch, GroupDRO
from invariscope.objectives.group_dro import group_dro_risk
from tests.objectives.finite_differences import assert_gradient


def test_one_step_by_hand() -> None:
    logits, targets = [torch.tensor([[1.0]]), torch.tensor([[2.0]])], [torch.zeros(1), torch.zeros(1)]  # risks 1, 4
    loss, shares = group_dro_risk(logits, targets, rate=0.5, shares=torch.tensor([0.75, 0.25]))
    first, second = 0.75 * math.exp(0.5), 0.25 * math.exp(2.0)
    assert shares.tolist() == pytest.approx([first / (first + second), second / (first + second)], rel=1e-6)
    assert float(loss) == pytest.approx((first * 1 + second * 4) / (first + second), rel=1e-6)


def test_steps_multiply_shares_by_the_exponential_of_the_risk(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, kept = np.full(3, 1 / 3), None
    objective, memory = GroupDRO(rate=0.3), {"shares": torch.full((3,), 1 / 3, dtype=torch.float64)}
    for _ in range(4):
        logits, targets = [rng.normal(size=(n, 1)) for n in (4, 6, 5)], [rng.normal(size=n) for n in (4, 6, 5)]
        losses = np.array([np.mean((f[:, 0] - y) ** 2) for f, y in zip(logits, targets, strict=True)])
        for place in range(3):
            shares[place] *= np.exp(0.3 * losses[place])
        shares = shares / shares.sum()
        tensors = tuple(map(torch.from_numpy, logits)), tuple(map(torch.from_numpy, targets))
        loss, kept = group_dro_risk(*tensors, shares=kept, rate=0.3)
        total, memory = objective(Batch(*tensors, tensors[0], "regression"), memory=memory)
        assert float(loss) == pytest.approx(float(losses @ shares), rel=1e-9)
        assert float(total) == pytest.approx(float(losses @ shares), rel=1e-9)
        np.testing.assert_allclose(kept.numpy(), shares, rtol=1e-9)
        np.testing.assert_allclose(memory["shares"].numpy(), shares, rtol=1e-9)


def test_shares_pass_no_gradient(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = [torch.randn(4, 1, generator=generator, dtype=torch.float64) for _ in range(2)]
    targets = [torch.zeros(4, dtype=torch.float64)] * 2
    _, shares = group_dro_risk(logits, targets, rate=1.0)

    def with_fixed_shares(*given: torch.Tensor) -> torch.Tensor:
        return shares[0] * (given[0] ** 2).mean() + shares[1] * (given[1] ** 2).mean()

    assert_gradient(with_fixed_shares, *logits)
    for which in range(2):
        found = torch.func.grad(lambda *given: group_dro_risk(given, targets, rate=1.0)[0], argnums=which)(*logits)
        expected = torch.func.grad(with_fixed_shares, argnums=which)(*logits)
        torch.testing.assert_close(found, expected)


def test_whole_numbers_are_classes_as_they_are_in_other_penalties() -> None:
    logits, codes = [torch.tensor([[2.0]]), torch.tensor([[0.0]])], [torch.tensor([1]), torch.tensor([0])]
    first, second = math.log1p(math.exp(-2)), math.log(2)  # cross entropies, not squares of 1 and 0
    loss, shares = group_dro_risk(logits, codes, rate=1.0)
    odds = math.exp(second - first)
    assert shares.tolist() == pytest.approx([1 / (1 + odds), odds / (1 + odds)], rel=1e-6)
    assert float(loss) == pytest.approx((first + odds * second) / (1 + odds), rel=1e-6)


def test_huge_risks_leave_finite_shares() -> None:
    logits = [torch.tensor([[300.0]]), torch.tensor([[1.0]])]
    _, shares = group_dro_risk(logits, [torch.zeros(1)] * 2, rate=1.0)
    assert shares.tolist() == [1.0, 0.0]


def test_shares_of_another_number_of_environments_are_named() -> None:
    with pytest.raises(InputError, match="3 shares for 2 environments"):
        group_dro_risk([torch.zeros(1, 1)] * 2, [torch.zeros(1)] * 2, shares=torch.full((3,), 1 / 3))
