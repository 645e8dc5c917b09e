"""From predictions to one loss per row, and to one risk per environment."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.criteria.predictions.environment_means import (
    EnvironmentMeans,
    environment_means,
    estimates,
    few_rows_notes,
)
from invariscope.errors import InputError
from invariscope.models.outputs import (
    HARD_LABELS,
    are_hard,
    checked_predictions,
    counted_by_environment,
    order_of_columns,
    refuse_labels,
    refuse_not_finite,
)
from invariscope.results import Estimate, Label
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.tables import matrix_of
from invariscope.rows.targets import Target, target_of_columns

CLIP = 1e-12  # smallest probability whose logarithm is taken: log-loss of a row is at most 27.6 nats
LARGEST = 1e150  # what can still be squared

LOSSES_OF_TASK = {
    "regression": ("squared", "absolute"),
    "binary": ("log_loss", "zero_one"),
    "multiclass": ("log_loss", "zero_one"),
}
UNITS = {
    "squared": "squared target units",
    "absolute": "target units",
    "log_loss": "log-loss (nats)",
    "zero_one": "share",
}


@dataclass(frozen=True)
class EnvironmentRisks:
    """R_e = mean loss in environment e: ``means`` with their noise, the same as estimates with 95 % intervals."""

    data: Environments
    means: EnvironmentMeans
    per_environment: Mapping[Label, Estimate]
    unit: str
    notes: tuple[str, ...]

    @property
    def worst(self) -> int:
        """The place of the environment with the highest risk."""
        return int(np.argmax(self.means.value))


def environment_risks(predictions: Any, y: Any, env: Any, task: str, loss: str, weight: Any) -> EnvironmentRisks:
    """The risk of every environment under the loss asked for; every loss is 0 or more, and so are the intervals."""
    data = grouped_predictions(predictions, y, env, weight)
    target = target_of_columns(data, task, columns=data.X.shape[1])
    values, name = predictions_for(data, target), loss_name(loss, target)
    means = environment_means(data, row_losses(values, target, name), share=name == "zero_one")
    low, high = means.ends()
    per_environment = estimates(data.labels, means.value, np.maximum(low, 0.0), high)
    clipped = log_loss_notes(values, target, predictions) if name == "log_loss" else ()
    return EnvironmentRisks(data, means, per_environment, UNITS[name], (*data.notes, *clipped, *few_rows_notes(data)))


def grouped_predictions(predictions: Any, y: Any, env: Any, weight: Any) -> Environments:
    """Rows with predictions as their columns; labels and masked values are refused as such, not as a column of X."""
    if not isinstance(predictions, Environments):
        refuse_labels(predictions)
        with counted_by_environment(env):
            refuse_not_finite(matrix_of(predictions)[0])
    return Environments.of(predictions, y, env, weight)


def predictions_for(data: Environments, target: Target) -> Floats:
    """Predictions stored as the rows' only columns: (n,) values, (n,) probabilities of the second class, or (n, K).

    Columns of class probabilities follow the sorted classes, or are named after them.
    """
    order = order_of_columns(data.columns, target.classes)
    columns = data.X if order is None or len(order) != data.X.shape[1] else data.X[:, order]
    values = checked_predictions(
        columns, task=target.task, classes=target.classes or None, target_name=data.target_name
    )
    return values[:, 1] if target.task == "binary" else values


def loss_name(loss: str, target: Target) -> str:
    """Resolve "auto" (squared error for numbers, log-loss for classes) and refuse losses that do not fit."""
    allowed = LOSSES_OF_TASK[target.task]
    known = isinstance(loss, str) and loss in ("auto", *UNITS)
    name = None if not known else allowed[0] if loss == "auto" else loss
    if name is None:
        raise InputError(f'loss "{loss}" is unknown: use "auto", "squared", "absolute", "log_loss" or "zero_one"')
    if name not in allowed:
        kind = "numbers" if target.task == "regression" else "classes"
        options = " or ".join(f'"{option}"' for option in allowed)
        raise InputError(f'loss "{loss}" does not fit a target of {kind}: use {options}')
    return name


def row_losses(predictions: Floats, target: Target, name: str) -> Floats:
    """The loss of every row, (n,)."""
    with np.errstate(over="ignore"):
        return refuse_overflow(_LOSSES[name](predictions, target.values), "loss")


def refuse_overflow(values: Floats, what: str) -> Floats:
    """The values, or an error when their squares would no longer be numbers."""
    fine = np.abs(values) < LARGEST
    if not fine.all():
        count = int(np.count_nonzero(~fine))
        raise InputError(f"the {what} of {count} rows is above {LARGEST:g}: give target and predictions in other units")
    return values


def hard_label_notes(probabilities: Floats, given: Any) -> tuple[str, ...]:
    """A remark when probabilities are labels; aloud, too, where predictions were given to a criterion directly."""
    if not are_hard(probabilities):
        return ()
    if not isinstance(given, Environments):
        warnings.warn(HARD_LABELS, stacklevel=_depth_of_the_caller())
    return (HARD_LABELS,)


def _depth_of_the_caller() -> int:
    """How many calls above a warning in this module the user's own line is."""
    depth, frame = 1, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("invariscope."):
        depth, frame = depth + 1, frame.f_back
    return depth - 1


def log_loss_notes(predictions: Floats, target: Target, given: Any) -> tuple[str, ...]:
    """Remarks when probabilities are labels, or rows were predicted impossible and still occurred.

    The loss of such rows is capped, not infinite. ``given`` is what the user passed as predictions.
    """
    hard = hard_label_notes(predictions, given)
    count = int(np.count_nonzero(probability_of_truth(predictions, target.values) < CLIP))
    if not count:
        return hard
    return (
        *hard,
        f"{count} rows belong to a class that was given probability 0: their log-loss is infinite and was capped at "
        f"{-np.log(CLIP):.1f} nats. Pass probabilities, not hard labels.",
    )


def probability_of_truth(probabilities: Floats, codes: Floats) -> Floats:
    """Probability given to the class that occurred, (n,)."""
    if probabilities.ndim == 1:
        return np.where(codes == 1, probabilities, 1.0 - probabilities)
    return np.asarray(np.take_along_axis(probabilities, codes.astype(np.intp)[:, None], axis=1)[:, 0])


def _squared(predictions: Floats, y: Floats) -> Floats:
    return np.asarray((predictions - y) ** 2)


def _absolute(predictions: Floats, y: Floats) -> Floats:
    return np.abs(predictions - y)


def _log(probabilities: Floats, codes: Floats) -> Floats:
    return np.asarray(-np.log(np.maximum(probability_of_truth(probabilities, codes), CLIP)))


def _zero_one(probabilities: Floats, codes: Floats) -> Floats:
    # a tie goes to the first class, as it does for argmax over the columns
    predicted = probabilities > 0.5 if probabilities.ndim == 1 else np.argmax(probabilities, axis=1)
    return np.asarray(predicted != codes, dtype=np.float64)


_LOSSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared": _squared,
    "absolute": _absolute,
    "log_loss": _log,
    "zero_one": _zero_one,
}
