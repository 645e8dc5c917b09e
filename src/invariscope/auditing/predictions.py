"""Predictions an audit judges: those of the model, of a head fitted on the columns, and of the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.material import Have, Missing, Predictions, fittable
from invariscope.errors import InputError
from invariscope.heads.fit import pooled_scores
from invariscope.heads.linear_head import LinearHead
from invariscope.models.split import Split, split
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target

NO_PREDICTIONS = Missing("the model was given without its predictions")


def of_model(
    split_model: Split, X: Any, data: Environments, target: Target, Z: Array | None = None
) -> Have[Predictions]:
    """The predictions of a model for the rows of ``data``; ``Z``, if it is known, spares a network a second pass."""
    if not split_model.predicts:
        return NO_PREDICTIONS
    values = _in_order_of_classes(split_model, np.asarray(split_model.predict(X, Z), dtype=np.float64), target)
    kind = _kind(target) if split_model.probabilistic else "votes"
    return Predictions(data.with_matrix(values), kind)


def of_fitted_head(data: Environments, target: Target) -> Predictions:
    """Predictions of the linear head fitted on all rows of ``data``, environments pooled."""
    return Predictions(data.with_matrix(data.original(_fitted(data, target))), _kind(target))


def of_baseline(baseline: Any, X: Any, inputs: Environments, target: Target) -> Have[Floats]:
    """Predictions of the baseline, in the user's row order: linear ERM on the inputs unless one is given."""
    if baseline is None:
        rows = fittable(inputs, target)
        if isinstance(rows, Missing):
            return Missing(f"needs a baseline: {rows.reason}")
        return rows.original(_fitted(rows, target))
    if callable(baseline) or hasattr(baseline, "predict") or isinstance(baseline, Split):
        split_baseline = split(baseline, rows=X).for_task(task_of_model(target))
    else:
        split_baseline = Split(predict=baseline, task=task_of_model(target))
    predictions = of_model(split_baseline, X, inputs, target)
    if isinstance(predictions, Missing):
        raise InputError("the baseline cannot predict: pass a model with predictions, or an array of them")
    return predictions.values


def agreed_task(task: str, of_model: str | None) -> str:
    """The task the user names and the one the model was made for, if they agree."""
    if task == "auto" or of_model is None:
        return of_model or task
    if (task == "regression") != (of_model == "regression"):
        raise InputError(f'task "{task}" was asked for, but the model does {of_model}')
    return task


def task_of_model(target: Target) -> str:
    """The task of a target as models name it."""
    return "regression" if target.task == "regression" else "classification"


def _kind(target: Target) -> str:
    return "numbers" if target.task == "regression" else "probabilities"


def _in_order_of_classes(split_model: Split, values: Floats, target: Target) -> Floats:
    """Numbers, or probabilities in the order of the target's classes."""
    if target.task == "binary" and values.ndim == 1:
        if not np.all((values >= 0) & (values <= 1)):
            raise InputError("predictions for two classes must be probabilities of the second class, between 0 and 1")
        values = np.column_stack([1.0 - values, values])
    if target.task == "regression" or split_model.classes is None:
        return values
    order = [split_model.classes.index(label) for label in target.classes]
    if len(order) == len(split_model.classes):
        return values[:, order]
    raise InputError(
        f"the model predicts {len(split_model.classes)} classes but the rows hold {len(order)}: audit rows with all of "
        "them"
    )


def _fitted(data: Environments, target: Target) -> Floats:
    """Numbers (n,) or probabilities (n, K) of the pooled head, in the stored row order."""
    scores = pooled_scores(data, target)
    if target.task == "regression":
        return scores[:, 0]
    return LinearHead(np.eye(scores.shape[1]), np.zeros(scores.shape[1])).probabilities(scores)
