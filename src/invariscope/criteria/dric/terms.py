"""What stands in the sums of DRIC: predictions, as published; losses; or conditional means of the environments' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.dric.own_means import OwnMeans
from invariscope.criteria.dric.resampling import Side
from invariscope.criteria.predictions.risks import loss_name, row_losses
from invariscope.errors import InputError
from invariscope.heads.linear_head import log_odds
from invariscope.models.outputs import (
    checked_predictions,
    counted_by_environment,
    prediction_columns,
    second_of_two,
)
from invariscope.ratios.estimator import Units
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import refuse_out_of_range
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, target_of_columns

#: What may stand in the sums, and what messages call it.
TERMS = {"predictions": "predictions", "own_means": "conditional means", "losses": "losses"}


def both_outputs(data: Environments, predictions: Any, baseline: Any) -> tuple[Floats, Floats]:
    """Predictions of the model and of the baseline, (n, K) in the stored order, of two classes those of the second."""
    with counted_by_environment(data):
        given = [
            data.grouped(prediction_columns(values, len(data.X), what), what)
            for values, what in ((predictions, "predictions"), (baseline, "baseline"))
        ]
    model, reference = map(second_of_two, given)
    if model.shape != reference.shape:
        raise InputError(
            f"predictions have {given[0].shape[1]} outputs but the baseline has {given[1].shape[1]}: give the same"
        )
    refuse_out_of_range(float(max(np.abs(model).max(), np.abs(reference).max())), "predictions or baseline")
    return model, reference


def target_for(terms: str, data: Environments, y: Any, outputs: int, task: str) -> tuple[Environments, Target]:
    """The same rows with their target, which losses and conditional means are about."""
    if y is None:
        raise InputError(f'terms="{terms}" needs a target: pass y, one value per row')
    labels = np.fromiter(data.labels, dtype=object, count=len(data))
    weight = None if data.weight is None else data.original(data.weight)
    env = data.original(labels[data.codes])
    rows = Environments(np.zeros((len(env), 1)), y, env, weight, env_name=data.env_name)
    return rows, target_of_columns(rows, task, columns=outputs)


def losses_of(outputs: tuple[Floats, Floats], rows: Environments, target: Target) -> tuple[Floats, Floats]:
    """ℓ(f(x), y) of every row, (n, 1), for each of the ``outputs``: squared, or the log-loss of classes."""

    def losses(columns: Floats) -> Floats:
        classes = target.classes or None
        values = checked_predictions(columns, task=target.task, classes=classes, target_name=rows.target_name)
        values = values[:, 1] if target.task == "binary" else values
        return row_losses(values, target, loss_name("auto", target))[:, None]

    return losses(outputs[0]), losses(outputs[1])


def with_own_means(sides: Sequence[Side], rows: Environments, target: Target, predictions: Floats) -> list[Side]:
    """The same ratios, with E[Y | φ(x), e] and E[Y | x, e] in place of the predictions.

    φ(x) are the columns of the first ratio where that is one of its own, on a representation; else the model is known
    by its ``predictions`` alone, and φ(x) is these: numbers, or log-odds of classes. x are the columns of the last.
    """
    phi = sides[0].rows.X if len(sides) > 1 else _as_columns(rows, target, predictions)
    found = [OwnMeans.of(rows, columns, target) for columns in (phi, sides[-1].rows.X)]
    groups = ((found[0],), (found[1],)) if len(sides) > 1 else (tuple(found),)
    return [
        replace(side, outputs=tuple(each.values for each in means), own_means=means)
        for side, means in zip(sides, groups, strict=True)
    ]


def _as_columns(rows: Environments, target: Target, predictions: Floats) -> Floats:
    """Predictions as what a linear head is fitted on, in units of their spread."""
    columns = predictions
    if target.task != "regression":
        columns = log_odds(checked_predictions(predictions, task=target.task, classes=target.classes))
    of_user = rows.with_matrix(rows.original(columns))
    return Units.of(of_user).apply(of_user.X)
