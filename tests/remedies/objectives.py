"""Refusals of objectives: penalties on one tensor per environment."""

from __future__ import annotations

import torch

from invariscope.objectives.irm import irm_penalty
from tests.remedies.case import Case

ROOM = "objectives/irm.py"
CLASSES = [torch.tensor([0, 1, 0, 1, 0, 1])] * 2
LOGITS = [torch.tensor([[0.5], [-1.0], [2.0], [0.1], [-0.3], [1.2]]), torch.ones(6, 1)]

CASES = [
    Case(
        'form "cube" is unknown: use "square" or "split"',
        lambda: irm_penalty(LOGITS, CLASSES, form="cube"),
        lambda: irm_penalty(LOGITS, CLASSES, form="square"),
    ),
    Case(
        'the split form needs two rows in every environment: use form="square"',
        lambda: irm_penalty([rows[:1] for rows in LOGITS], [values[:1] for values in CLASSES], form="split"),
        lambda: irm_penalty([rows[:1] for rows in LOGITS], [values[:1] for values in CLASSES], form="square"),
    ),
]
