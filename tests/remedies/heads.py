"""Refusals of heads: linear ones, and the tensors that losses are computed from."""

from __future__ import annotations

import numpy as np
import torch

import invariscope as iv
from invariscope.torch import vrex_penalty
from tests.remedies.case import Case

ROOM = "heads"
LOGITS = [torch.tensor([[0.5], [-1.0], [2.0]]), torch.tensor([[0.1], [0.2], [-0.3]])]
NUMBERS = [torch.tensor([0.5, 1.5, -2.0]), torch.tensor([1.0, 0.3, 2.0])]
FLAGS = [torch.tensor([0.0, 1.0, 1.0])] * 2
CODES = [torch.tensor([0, 1, 2])] * 2
Z = np.ones((4, 2))

CASES = [
    Case(
        "give weight and bias in the units of Z and y",
        lambda: iv.worst_case(iv.LinearHead([1e300, 0.0], 0.0), np.eye(2), [1.5, 0.2], n_boot=0),
        lambda: iv.worst_case(iv.LinearHead([1.0, 0.0], 0.0), np.eye(2), [1.5, 0.2], n_boot=0),
    ),
    Case(
        "give weight and bias in the units of Z and y",
        lambda: iv.influence_index(np.eye(4), [1.5, 0.2, 1, 2], [0, 0, 1, 1], head=iv.LinearHead([1e300] * 4, 0.0)),
        lambda: iv.influence_index(np.eye(4), [1.5, 0.2, 1, 2], [0, 0, 1, 1], head=iv.LinearHead([1.0] * 4, 0.0)),
    ),
    Case(
        "weight must be outputs x features",
        lambda: iv.LinearHead(np.ones((2, 2, 2)), np.zeros(2)),
        lambda: iv.LinearHead(np.ones((2, 2)), np.zeros(2)),
    ),
    Case(
        "bias must hold one number per output",
        lambda: iv.LinearHead(np.ones((2, 2)), np.zeros(3)),
        lambda: iv.LinearHead(np.ones((2, 2)), np.zeros(2)),
    ),
    Case(
        "give the representation it was made for",
        lambda: iv.LinearHead([1.0, 2.0, 3.0], 0.0).scores(Z),
        lambda: iv.LinearHead([1.0, 2.0], 0.0).scores(Z),
    ),
    Case("must be an array of numbers", lambda: iv.LinearHead("heavy", 0.0), lambda: iv.LinearHead([1.0], 0.0)),
    Case("a head needs finite numbers", lambda: iv.LinearHead([np.nan], 0.0), lambda: iv.LinearHead([0.0], 0.0)),
    Case(
        "must be a list of torch tensors",
        lambda: vrex_penalty(torch.ones(3, 1), NUMBERS),
        lambda: vrex_penalty(LOGITS, NUMBERS),
    ),
    Case("give one of each", lambda: vrex_penalty(LOGITS, NUMBERS[:1]), lambda: vrex_penalty(LOGITS, NUMBERS)),
    Case(
        "in one environment: give one of each",
        lambda: vrex_penalty([rows[:2] for rows in LOGITS], NUMBERS),
        lambda: vrex_penalty(LOGITS, NUMBERS),
    ),
    Case(
        "leave it out of the batch",
        lambda: vrex_penalty([*LOGITS, LOGITS[0][:0]], [*NUMBERS, NUMBERS[0][:0]]),
        lambda: vrex_penalty(LOGITS, NUMBERS),
    ),
    Case(
        'say task="binary" or "regression"',
        lambda: vrex_penalty(LOGITS, FLAGS),
        lambda: vrex_penalty(LOGITS, FLAGS, task="binary"),
    ),
    Case(
        'code two as 0 and 1, or say task="regression"',
        lambda: vrex_penalty(LOGITS, CODES),
        lambda: vrex_penalty(LOGITS, CODES, task="regression"),
    ),
]
