"""A model's own head as an audit needs it: in the order of the target's classes, for standardised columns."""

from __future__ import annotations

import numpy as np

from invariscope.heads.linear_head import LinearHead
from invariscope.models.splits import Split
from invariscope.rows.arrays import Floats
from invariscope.rows.targets import Target


def ordered(head: LinearHead, parts: Split, target: Target) -> LinearHead:
    """The model's head with its outputs in the order of the target's classes."""
    if parts.classes is None or tuple(parts.classes) == tuple(target.classes) or not target.classes:
        return head
    if head.n_outputs == 1:  # the log-odds of the other class
        return LinearHead(-head.weight, -head.bias)
    if len(parts.classes) != head.n_outputs or any(label not in parts.classes for label in target.classes):
        return head
    order = [parts.classes.index(label) for label in target.classes]
    return LinearHead(head.weight[order], head.bias[order])


def as_they_are(parts: Split, target: Target) -> LinearHead:
    """The head of a representation that holds the predictions: numbers, or log-odds, the last class being 0."""
    count = len(parts.classes or target.classes)
    if target.task == "regression" or count <= 2:
        return LinearHead([[1.0]], 0.0)
    return LinearHead(np.vstack([np.eye(count - 1), np.zeros(count - 1)]), np.zeros(count))


def rescaled(head: LinearHead, centre: Floats, scale: Floats) -> LinearHead:
    """The head for columns from which ``centre`` was taken and which were divided by ``scale``."""
    return LinearHead(head.weight * scale, head.bias + head.weight @ centre)
