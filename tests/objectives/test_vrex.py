"""Risk extrapolation: by hand, and as DomainBed defines it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from invariscope.objectives import Batch, VREx
from invariscope.objectives.vrex import vrex_penalty


def test_three_risks_by_hand() -> None:
    logits = [torch.tensor([[1.0]]), torch.tensor([[2.0]]), torch.tensor([[0.0]])]  # risks 1, 4, 0
    mean = 5 / 3
    expected = ((1 - mean) ** 2 + (4 - mean) ** 2 + mean**2) / 3
    assert float(vrex_penalty(logits, [torch.zeros(1)] * 3)) == pytest.approx(expected, rel=1e-6)


def test_equals_the_mean_squared_deviation_of_cross_entropies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, targets = [rng.normal(size=(n, 4)) for n in (5, 8, 6)], [rng.integers(0, 4, n) for n in (5, 8, 6)]
    losses = []
    for scores, codes in zip(logits, targets, strict=True):
        rows = [np.log(np.exp(row).sum()) - row[code] for row, code in zip(scores, codes, strict=True)]
        losses.append(np.mean(rows))
    expected = np.mean([(loss - np.mean(losses)) ** 2 for loss in losses])
    found = vrex_penalty(
        [torch.from_numpy(scores) for scores in logits], [torch.from_numpy(codes) for codes in targets]
    )
    assert float(found) == pytest.approx(expected, rel=1e-10)


def test_one_environment_has_nothing_to_vary() -> None:
    assert float(vrex_penalty([torch.tensor([[3.0]])], [torch.zeros(1)])) == 0.0


def test_the_weight_multiplies_the_penalty() -> None:
    logits = (torch.tensor([[1.0]]), torch.tensor([[3.0]]))  # risks 1 and 9: mean 5, variance 16
    batch = Batch(logits, (torch.zeros(1),) * 2, logits, "regression")
    assert float(VREx(weight=2.0)(batch)[0]) == 5.0 + 2 * 16.0
