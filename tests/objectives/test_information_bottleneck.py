"""Information bottleneck: the variance of features, and the two objectives that use it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives import IBERM, IBIRM, IRM, Batch
from invariscope.objectives.information_bottleneck import bottleneck_penalty
from tests.objectives.finite_differences import assert_gradient

SIZES = (4, 7, 5)


def batch_of(seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return Batch(
        tuple(normal(size, 1) for size in SIZES),
        tuple(normal(size) for size in SIZES),
        tuple(normal(size, 3) for size in SIZES),
        "regression",
    )


def test_pencil_case() -> None:
    first = torch.tensor([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])  # variances 4 and 0
    second = torch.tensor([[0.0, 0.0], [0.0, 2.0]])  # variances 0 and 2
    assert float(bottleneck_penalty(None, None, [first, second])) == pytest.approx((4 / 2 + 2 / 2) / 2)


def test_equals_numpy_environment_by_environment(seed: int) -> None:
    features = batch_of(seed).features
    each = [np.mean([np.var(rows[:, j].numpy(), ddof=1) for j in range(3)]) for rows in features]
    assert float(bottleneck_penalty(None, None, features)) == pytest.approx(np.mean(each), rel=1e-12)
    column = [rows[:, 0] for rows in features]
    alone = np.mean([np.var(rows.numpy(), ddof=1) for rows in column])
    assert float(bottleneck_penalty(None, None, column)) == pytest.approx(alone, rel=1e-12)


def test_gradient_is_that_of_the_value(seed: int) -> None:
    assert_gradient(lambda *features: bottleneck_penalty(None, None, features), *batch_of(seed).features)


def test_many_at_once_are_those_one_by_one(seed: int) -> None:
    batches = [batch_of(10 * seed + place) for place in range(3)]
    stacked = tuple(torch.stack(values) for values in zip(*(batch.features for batch in batches), strict=True))
    found = torch.func.vmap(lambda *features: bottleneck_penalty(None, None, features))(*stacked)
    for value, batch in zip(found, batches, strict=True):
        torch.testing.assert_close(value, bottleneck_penalty(None, None, batch.features))


def test_objectives_weigh_the_two_penalties_apart(seed: int) -> None:
    batch = batch_of(seed)
    bottleneck, irm = bottleneck_penalty(None, None, batch.features), IRM().penalty(batch, {})
    total, _ = IBERM(weight=3.0)(batch)
    torch.testing.assert_close(total, batch.risks.mean() + 3.0 * bottleneck)
    total, _ = IBIRM(weight=5.0, bottleneck=2.0)(batch)
    torch.testing.assert_close(total, batch.risks.mean() + 2.0 * bottleneck + 5.0 * irm)
    square, _ = IBIRM(weight=5.0, bottleneck=2.0, form="square")(batch)
    expected = IRM(form="square").penalty(batch, {})
    torch.testing.assert_close(square, batch.risks.mean() + 2.0 * bottleneck + 5.0 * expected)


def test_refuses_a_single_row() -> None:
    with pytest.raises(InputError, match="fewer than two rows"):
        bottleneck_penalty(None, None, [torch.zeros(2, 1), torch.zeros(1, 1)])
