"""The head an audit looks at: a model's own, in the order of the target's classes and for standardised columns."""

from __future__ import annotations

import numpy as np

from invariscope.criteria.material import Have, Missing
from invariscope.heads.linear_head import LinearHead
from invariscope.models.splits import Split
from invariscope.rows.arrays import Floats
from invariscope.rows.targets import Target


def heads_of_model(
    split_model: Split, target: Target, centre: Floats, scale: Floats
) -> tuple[Have[LinearHead], Have[LinearHead]]:
    """The last step of the model, and the linear map from its representation to its predictions."""
    trained = split_model.head
    if trained is not None:
        head = rescaled(ordered(trained, split_model, target), centre, scale)
        return head, head
    not_linear = Missing("the last step is not linear")
    if split_model.level == "prediction" and split_model.probabilistic:
        return not_linear, rescaled(ordered(as_they_are(split_model, target), split_model, target), centre, scale)
    why = not_linear.reason if split_model.predicts else "none was given"
    return Missing(why), Missing(f"needs a linear head; {why}")


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
