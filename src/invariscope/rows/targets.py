"""What kind of target is it? Regression, two classes or several; and the codes the heads work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments

LOSS_OF_TASK = {"regression": "squared", "binary": "logistic", "multiclass": "softmax"}
TASK_OF_LOSS = {loss: task for task, loss in LOSS_OF_TASK.items()}


@dataclass(frozen=True)
class Target:
    """The target as numbers: values for regression, codes 0..K-1 (row order of the environments) for classes."""

    task: str
    values: Floats
    classes: tuple[Any, ...] = ()

    @property
    def loss(self) -> str:
        return LOSS_OF_TASK[self.task]


def target_of(data: Environments, task: str = "auto") -> Target:
    """Resolve ``task`` ("auto", "regression", "classification", "binary", "multiclass" or a loss's name).

    With "auto", labels, booleans and columns with two distinct values are classes, and so are whole numbers
    0..K-1 or 1..K with K of at most 10; everything else is regression.
    """
    if data.y is None:
        raise InputError("no target given: pass y, one value per row")
    task = TASK_OF_LOSS.get(task, task)
    if task not in ("auto", "classification", *LOSS_OF_TASK):
        raise InputError(f'task "{task}" is unknown: use "auto", "regression" or "classification"')
    values = data.y
    if data.classes is not None:
        if task == "regression":
            raise InputError(f'target "{data.target_name}" holds labels, not numbers: regression needs numbers')
        return _checked_classes(data, Target(_by_count(len(data.classes)), values, data.classes), task)
    if task == "regression":
        return _checked_numbers(data, values)
    distinct = np.unique(values[:2000]) if task == "auto" else np.unique(values)
    if task == "auto":
        if len(distinct) <= 10:
            distinct = np.unique(values)
        whole = bool(np.all(distinct == np.round(distinct)))
        consecutive = whole and len(distinct) <= 10 and distinct[0] in (0, 1) and np.ptp(distinct) == len(distinct) - 1
        if len(distinct) != 2 and not (consecutive and len(distinct) > 2):
            return _checked_numbers(data, values)
    if len(distinct) > 100:
        raise InputError(
            f'target "{data.target_name}" has {len(distinct)} different numbers: too many to be classes. If the model '
            'is a classifier, this is not its target; if it is a regression, say task="regression".'
        )
    if len(distinct) < 2:
        raise _one_value(data)
    classes = tuple(int(v) if v == round(v) else float(v) for v in distinct.tolist())
    codes = np.searchsorted(distinct, values).astype(np.float64)
    return _checked_classes(data, Target(_by_count(len(classes)), codes, classes), task)


def _one_value(data: Environments) -> InputError:
    return InputError(f'target "{data.target_name}" has only one value: there is nothing to predict')


def _by_count(k: int) -> str:
    return "binary" if k == 2 else "multiclass"


def _checked_numbers(data: Environments, values: Floats) -> Target:
    low, high = np.minimum.reduceat(values, data.offsets[:-1]), np.maximum.reduceat(values, data.offsets[:-1])
    if low.min() == high.max():
        raise _one_value(data)
    if np.any(low == high):
        label = data.labels[int(np.argmax(low == high))]
        raise InputError(
            f'target "{data.target_name}" is constant in {data.name(label)}: there is nothing to predict there. '
            "Drop that environment, or merge it with another.",
            environments=[label],
        )
    return Target("regression", values)


def _checked_classes(data: Environments, target: Target, task: str) -> Target:
    """Every class in every environment: a head cannot be judged on a class it never saw there."""
    if task == "binary" and len(target.classes) != 2:
        raise InputError(f'target "{data.target_name}" has {len(target.classes)} classes: a binary task needs 2')
    k, weight = len(target.classes), data.weight
    counts = np.bincount(data.codes * k + target.values.astype(np.intp), weight, minlength=len(data) * k)
    absent = np.argwhere(counts.reshape(len(data), k) == 0)
    if len(absent):
        e, c = absent[0]
        raise InputError(
            f'class "{target.classes[c]}" of target "{data.target_name}" never occurs in {data.name(data.labels[e])} '
            f"({data.sizes[e]} rows). Drop that environment, merge the class with another, or add rows.",
            environments=[data.labels[e]],
        )
    return target
