"""Predictions an audit judges: those of the model, of a head fitted on the columns, and of the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.material import Have, Missing, Predictions, fittable
from invariscope.errors import InputError
from invariscope.heads.fit import pooled_head
from invariscope.heads.linear_head import LinearHead
from invariscope.models.adapters import split
from invariscope.models.outputs import checked_predictions
from invariscope.models.splits import Split
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
    values = split_model.predict(X, Z)
    unnamed = split_model.classes is None and (values.ndim == 2 or target.task == "multiclass")
    if target.task != "regression" and not unnamed:  # what a criterion cannot use it refuses by itself
        values = checked_predictions(values, task=target.task, classes=target.classes, columns=split_model.classes)
    kind = _kind(target) if split_model.probabilistic else "votes"
    return Predictions(data.with_matrix(values), kind)


def of_scores(scores: Floats, data: Environments, target: Target) -> Predictions:
    """The predictions that scores (n, n_scores) of a linear head, in the stored row order, stand for."""
    return Predictions(data.with_matrix(data.original(_linked(scores, target))), _kind(target))


def of_baseline(baseline: Any, X: Any, inputs: Environments, target: Target) -> Have[Floats]:
    """Predictions of the baseline, in the user's row order: linear ERM on the inputs unless one is given."""
    if baseline is None:
        rows = fittable(inputs, target)
        if isinstance(rows, Missing):
            return Missing(f"needs a baseline: {rows.reason}")
        return rows.original(_linked(pooled_head(rows, target)[1], target))
    if callable(baseline) or hasattr(baseline, "predict") or isinstance(baseline, Split):
        split_baseline = split(baseline, rows=X).for_task(target.task)
    else:
        split_baseline = Split(predict=baseline, task=target.task)
    predictions = of_model(split_baseline, X, inputs, target)
    if isinstance(predictions, Missing):
        raise InputError("the baseline cannot predict: pass a model with predictions, or an array of them")
    return predictions.values


def _kind(target: Target) -> str:
    return "numbers" if target.task == "regression" else "probabilities"


def _linked(scores: Floats, target: Target) -> Floats:
    """Scores as numbers (n,) or probabilities (n, K)."""
    if target.task == "regression":
        return scores[:, 0]
    return LinearHead(np.eye(scores.shape[1]), np.zeros(scores.shape[1])).probabilities(scores)
