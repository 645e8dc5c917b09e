"""Is the model any better than a constant? One that is worse nearly everywhere was perhaps handed over wrongly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from invariscope.criteria.material import Have, Missing, Predictions
from invariscope.criteria.predictions.risks import loss_name, row_losses
from invariscope.errors import InputError
from invariscope.heads.fit import loss_of_constant
from invariscope.heads.losses import loss_of
from invariscope.models.outputs import are_hard
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target
from invariscope.wording import apart, listed, number, plural, quoted, short

#: Of a constant's loss: what a model must lose above it to be called worse (a constant is fitted to the very rows), and
#: below it for another reading of its predictions to be the better one.
CLEARLY = 0.05
MOST_NAMED = 3  # environments; of more, their number is told


def notes_on_losses(predictions: Have[Predictions], target: Target) -> list[str]:
    """A question where a model loses more than a constant in every environment, or in most: what may be mixed up?

    The constant of an environment is the best one there: its mean, or the shares of its classes. Votes and labels have
    no loss to compare, and are noted as such.
    """
    if isinstance(predictions, Missing) or predictions.kind == "votes":
        return []
    rows, values = predictions.rows, predictions.rows.X
    if predictions.kind == "probabilities" and are_hard(values):
        return []
    try:
        losses = row_losses(_as_judged(values, target), target, loss_name("auto", target))
    except InputError:  # whoever needs the losses says so
        return []
    loss, constant = _means(rows, losses), _constant(rows, target)
    worse = (constant > 0) & (loss > (1 + CLEARLY) * constant)
    if 2 * np.count_nonzero(worse) <= len(rows):
        return []
    one, other = apart(_pooled(loss, rows, worse), _pooled(constant, rows, worse))
    return [
        f"The model's loss is larger than that of a constant in {_named(rows, worse)} ({one} against {other}): "
        f"{_question(values, rows, target, np.repeat(worse, rows.sizes))}"
    ]


def _question(values: Floats, rows: Environments, target: Target, there: Booleans) -> str:
    """What to check: whatever would bring the predictions below the loss of a constant, if anything would."""
    if target.task == "regression":
        y, weight = target.values[there], None if rows.weight is None else rows.weight[there]
        together = _correlation(values[there, 0], y, weight)
        if together**2 > CLEARLY:
            what = "units" if together > 0 else "sign and the units"
            ends = [f"{number(float(one.min()))} to {number(float(one.max()))}" for one in (values[there, 0], y)]
            return (
                f'do the predictions have the {what} of "{rows.target_name}"? They range from {ends[0]}, it ranges '
                f"from {ends[1]}."
            )
    elif _better_in_another_order(values, rows, target, there):
        classes = short(", ".join(map(str, target.classes)))
        single = f' A single column is the probability of "{target.classes[1]}".' if len(target.classes) == 2 else ""
        return f"are the columns of the predictions in the order of the sorted classes ({classes})?{single}"
    return "are the predictions those of these rows, in their order, and of this target?"


def _better_in_another_order(values: Floats, rows: Environments, target: Target, there: Booleans) -> bool:
    """Whether probabilities under other classes would lose clearly less than a constant there."""
    from scipy.optimize import linear_sum_assignment  # here: keeps `import invariscope` light

    codes = target.values[there].astype(np.intp)
    weight = np.ones(len(codes)) if rows.weight is None else rows.weight[there]
    counts = np.bincount(codes, weight, minlength=len(target.classes))
    lost = -np.log(np.maximum(values[there], 1e-12))
    by_class = np.stack([np.bincount(codes, weight * column, minlength=len(counts)) for column in lost.T])
    columns, classes = linear_sum_assignment(by_class)
    shares = counts[counts > 0] / counts.sum()
    constant = -float(shares @ np.log(shares))
    return bool(by_class[columns, classes].sum() / counts.sum() < (1 - CLEARLY) * constant)


def _correlation(values: Floats, y: Floats, weight: Floats | None) -> float:
    """Their correlation; 0 where one of them does not vary."""
    a, b = (one - np.average(one, weights=weight) for one in (values, y))
    size = np.sqrt(np.average(a**2, weights=weight) * np.average(b**2, weights=weight))
    return float(np.average(a * b, weights=weight) / size) if size > 0 else 0.0


def _as_judged(values: Floats, target: Target) -> Floats:
    """Predictions as losses want them: (n,) numbers, (n,) probabilities of the second of two classes, or (n, K)."""
    return values if target.task == "multiclass" else values[:, -1]


def _constant(rows: Environments, target: Target) -> Floats:
    """The loss (E,) of every environment's best constant."""
    sums = [loss_of_constant(rows, target, slice(a, b)) for a, b in pairwise(rows.offsets)]
    return np.asarray(loss_of(target).reported * np.array(sums) / rows.rows)


def _means(rows: Environments, values: Floats) -> Floats:
    """Of one value per row, the mean of every environment."""
    counted = values if rows.weight is None else rows.weight * values
    return np.asarray(np.add.reduceat(counted, rows.offsets[:-1]) / rows.rows)


def _pooled(values: Floats, rows: Environments, there: Booleans) -> float:
    return float(np.average(values[there], weights=rows.rows[there]))


def _named(rows: Environments, there: Booleans) -> str:
    if there.all():
        return f"every {rows.env_name}" if len(rows) > 2 else f"both {plural(rows.env_name)}"
    labels = [quoted(label) for label, is_there in zip(rows.labels, there, strict=True) if is_there]
    return listed(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} of {len(rows)} {plural(rows.env_name)}"
