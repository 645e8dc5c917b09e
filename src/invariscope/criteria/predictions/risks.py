"""From predictions to losses of rows and risks of environments; what counts as a prediction is checked here, once."""

from __future__ import annotations

from collections.abc import Callable
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
from invariscope.results import Estimate, Label
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, target_of

CLIP = 1e-12  # smallest probability whose logarithm is taken: log-loss of a row is at most 27.6 nats
RANGE_SLACK = 1e-6  # rounding of single precision around 0 and 1
LARGEST = 1e150  # what can still be squared
SUM_SLACK = 1e-4  # row sums of probabilities kept in single precision or written with a few decimals

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
class Risks:
    """R_e, the mean loss of predictions in every environment, with what a result says about it."""

    data: Environments
    means: EnvironmentMeans
    unit: str
    notes: tuple[str, ...]

    @property
    def per_environment(self) -> dict[Label, Estimate]:
        low, high = self.means.ends()
        return estimates(self.data.labels, self.means.value, np.maximum(low, 0.0), high)


def risks_of(predictions: Any, y: Any, env: Any, weight: Any, task: str, loss: str) -> Risks:
    """Predictions, from whatever a user has, to risks."""
    data = Environments.of(predictions, y, env, weight)
    target = target_of(data, task)
    values, name = checked_predictions(data, target), loss_name(loss, target)
    means = environment_means(data, row_losses(values, target, name), share=name == "zero_one")
    notes = (log_loss_notes(values, target) if name == "log_loss" else ()) + few_rows_notes(data)
    return Risks(data, means, UNITS[name], notes)


def checked_predictions(data: Environments, target: Target) -> Floats:
    """Predictions in float64: (n,) values, (n,) probabilities of the second class, or (n, K) probabilities.

    Columns of class probabilities follow the sorted classes. Two columns for two classes become the second one.
    """
    columns = data.X.shape[1]
    if target.task == "regression":
        if columns != 1:
            raise InputError(f"predictions have {columns} columns: a numeric target needs one prediction per row")
        return np.asarray(data.X[:, 0], dtype=np.float64)
    expected = len(target.classes)
    if columns != expected and not (expected == 2 and columns == 1):
        names = ", ".join(map(str, target.classes))
        raise InputError(
            f'predictions have {columns} columns, but target "{data.target_name}" has {expected} classes: '
            f"give one probability per class, in the order {names}"
        )
    probabilities = np.asarray(data.X, dtype=np.float64)
    _refuse_outside_unit_interval(probabilities)
    if columns > 1:
        _refuse_bad_sums(probabilities)
    if expected == 2:
        probabilities = probabilities[:, -1]
    return np.clip(probabilities, 0.0, 1.0)


def loss_name(loss: str, target: Target) -> str:
    """Resolve "auto" (squared error for numbers, log-loss for classes) and refuse losses that do not fit."""
    allowed = LOSSES_OF_TASK[target.task]
    name = allowed[0] if loss == "auto" else loss if loss in UNITS else None
    if name is None:
        raise InputError(f'loss "{loss}" is unknown: use "auto", "squared", "absolute", "log_loss" or "zero_one"')
    if name not in allowed:
        kind = "numbers" if target.task == "regression" else "classes"
        options = " or ".join(f'"{option}"' for option in allowed)
        raise InputError(f'loss "{loss}" does not fit a target of {kind}: use {options}')
    return name


def row_losses(predictions: Floats, target: Target, name: str) -> Floats:
    """The loss of every row, (n,)."""
    return refuse_overflow(_LOSSES[name](predictions, target.values), "loss")


def refuse_overflow(values: Floats, what: str) -> Floats:
    """The values, or an error when their squares would no longer be numbers."""
    fine = np.abs(values) < LARGEST
    if not fine.all():
        count = int(np.count_nonzero(~fine))
        raise InputError(f"the {what} of {count} rows is above {LARGEST:g}: give target and predictions in other units")
    return values


def log_loss_notes(predictions: Floats, target: Target) -> tuple[str, ...]:
    """A remark when rows were predicted impossible and still occurred: their loss is capped, not infinite."""
    count = int(np.count_nonzero(probability_of_truth(predictions, target.values) < CLIP))
    if not count:
        return ()
    return (
        f"{count} rows belong to a class that was given probability 0: their log-loss is infinite and was capped at "
        f"{-np.log(CLIP):.1f} nats. Pass probabilities, not hard labels.",
    )


def probability_of_truth(probabilities: Floats, codes: Floats) -> Floats:
    """Probability given to the class that occurred, (n,)."""
    if probabilities.ndim == 1:
        return np.where(codes == 1, probabilities, 1.0 - probabilities)
    return np.asarray(np.take_along_axis(probabilities, codes.astype(np.intp)[:, None], axis=1)[:, 0])


def _squared(predictions: Floats, y: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray((predictions - y) ** 2)


def _absolute(predictions: Floats, y: Floats) -> Floats:
    with np.errstate(over="ignore"):
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


def _refuse_outside_unit_interval(probabilities: Floats) -> None:
    low, high = float(probabilities.min()), float(probabilities.max())
    if low < -RANGE_SLACK or high > 1.0 + RANGE_SLACK:
        outside = (probabilities < -RANGE_SLACK) | (probabilities > 1.0 + RANGE_SLACK)
        count = int(np.count_nonzero(outside.any(axis=1)))
        raise InputError(
            f"predictions of {count} rows lie outside 0..1 (they range from {low:.4g} to {high:.4g}): classes need "
            'probabilities. Apply the sigmoid or softmax first, or pass task="regression".'
        )


def _refuse_bad_sums(probabilities: Floats) -> None:
    sums = probabilities.sum(axis=1)
    bad = np.abs(sums - 1.0) > SUM_SLACK
    if bad.any():
        raise InputError(
            f"the probabilities of {int(bad.sum())} rows do not sum to 1 (sums range from {sums.min():.4g} to "
            f"{sums.max():.4g}): give one column per class, every row summing to 1"
        )
