"""What calibration is about: the probability that is stated for a row, and whether what it is stated of occurred."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.predictions.risks import grouped_predictions, predictions_for
from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, target_of_columns


def probabilities_of(predictions: Any, y: Any, env: Any, task: str, weight: Any) -> tuple[Environments, Target, Floats]:
    """Rows by environment, classes, and probabilities: (n,) of the second of two classes, or (n, K)."""
    data = grouped_predictions(predictions, y, env, weight)
    target = target_of_columns(data, task, columns=data.X.shape[1])
    if target.task == "regression":
        raise InputError(
            "calibration needs classes and their probabilities, but this target holds numbers: give classes"
        )
    return data, target, predictions_for(data, target)


def confidence_and_hits(probabilities: Floats, target: Target) -> tuple[Floats, Floats]:
    """The probability that is checked and whether its event occurred, both (n,).

    For two classes that of the second class, for more that of the most probable class.
    """
    if probabilities.ndim == 1:
        return probabilities, target.values
    top = np.argmax(probabilities, axis=1)
    return probabilities.max(axis=1), (top == target.values).astype(np.float64)
