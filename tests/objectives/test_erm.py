"""Empirical risk minimisation: what counts the same."""

from __future__ import annotations

import pytest
import torch

from invariscope.errors import InputError
from invariscope.objectives import ERM, Batch

BATCH = Batch(
    logits=(torch.tensor([[1.0]]), torch.tensor([[2.0], [3.0], [4.0]])),
    targets=(torch.zeros(1), torch.zeros(3)),
    features=(torch.zeros(1, 1), torch.zeros(3, 1)),
    task="regression",
)  # losses 1 | 4, 9, 16


def test_environments_count_the_same_or_rows_do() -> None:
    assert float(ERM().risk(BATCH, {})) == pytest.approx((1 + 29 / 3) / 2)
    assert float(ERM(per="row").risk(BATCH, {})) == pytest.approx((1 + 4 + 9 + 16) / 4)


def test_rows_count_the_same_in_many_replicates_at_once() -> None:
    many = tuple(torch.stack([scores, 2 * scores]) for scores in BATCH.logits)

    def risk(*logits: torch.Tensor) -> torch.Tensor:
        return ERM(per="row").risk(Batch(logits, BATCH.targets, BATCH.features, "regression"), {})

    assert torch.func.vmap(risk)(*many).tolist() == pytest.approx([7.5, 30.0])


def test_there_is_no_penalty() -> None:
    assert float(ERM().penalty(BATCH, {})) == 0.0
    assert float(ERM()(BATCH, weight=100.0)[0]) == float(ERM().risk(BATCH, {}))


def test_a_word_for_per_that_is_unknown_is_named() -> None:
    with pytest.raises(InputError, match='per "rows" is unknown'):
        ERM(per="rows").risk(BATCH, {})
