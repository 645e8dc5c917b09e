"""Heads of networks as functions of features: they answer as they predict, and linear ones have weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.models.torch_heads import feature_head


def test_a_head_answers_as_it_predicts_and_is_left_as_it_was() -> None:
    head = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.9), nn.Linear(3, 1)).train()
    head[1].eval()
    rows = torch.arange(8.0).reshape(4, 2)
    answers = feature_head(head, rows)
    expected = head[2](head[0](rows))
    torch.testing.assert_close(answers(rows), expected)
    assert [part.training for part in head] == [True, False, True]
    head[1].train()
    torch.testing.assert_close(answers(rows), expected)  # not a tenth of the units
    assert head[1].training


def test_linear_heads_have_weights_and_follow_the_parameters_they_are_given() -> None:
    layer, rows = nn.Linear(2, 2), torch.tensor([[1.0, 2.0]])
    given = {"weight": torch.tensor([[1.0, 0.0], [3.0, 4.0]]), "bias": torch.tensor([0.5, 0.0])}
    head = feature_head(layer, rows, given)
    assert head.weight is given["weight"]
    assert head(rows).tolist() == [[1.5, 11.0]]
    bare = feature_head(nn.Linear(2, 1, bias=False), rows)
    assert bare.bias is not None
    assert bare.bias.tolist() == [0.0]
    assert feature_head(nn.ReLU(), rows).weight is None
    with pytest.raises(InputError, match=r"^the head is a int: give a torch module or a function of features$"):
        feature_head(3, rows)
