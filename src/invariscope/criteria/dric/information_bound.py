"""The lower bound that the DRIC paper states for its criterion (Theorem 3.5), and what becomes of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from invariscope.criteria.dric.result import InformationBound
from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.labels import numbers_or_labels
from invariscope.rows.tables import vector_of

ASSUMPTIONS = (
    "The target is a function of φ(x), so that nothing is left to predict.",
    "E[Y | φ(x)] is a convex function of φ(x).",
    "The environment is a number, and its unit means something.",
)
UNTRUE = (
    "The bound of Theorem 3.5 is not true in general: where the target is a function of φ(x), R_φ is the target's "
    "variance within environments, which shrinks as the environment explains more of it, while Cov²(Y, E) grows and "
    "depends on the unit of E."
)


def information_bound(data: Environments, target: Any, model: Floats, baseline: Floats) -> InformationBound:
    """The bound for predictions (n, K) in stored row order and a target in the user's.

    Environments are numbered by their labels where these are numbers, else 0, 1, 2, … in the order of the labels.
    """
    y = _target_columns(data, target, model.shape[1])
    numbers, notes = _coding(data)
    weight = np.ones(len(y)) if data.weight is None else data.weight
    share = weight / weight.sum()
    environment = np.repeat(numbers, data.sizes)
    environment = environment - share @ environment
    covariance_squared = float(np.sum((share * environment @ y) ** 2))
    own_mean = np.add.reduceat(weight[:, None] * y, data.offsets[:-1]) / data.rows[:, None]
    within = np.repeat(own_mean, data.sizes, axis=0)
    of_model, of_baseline = (total_variance(values - within, share) for values in (model, baseline))
    return InformationBound(
        value=covariance_squared / of_baseline if of_baseline > 0 else math.nan,
        covariance_squared=covariance_squared,
        model_variance=of_model,
        baseline_variance=of_baseline,
        variance_form=of_model / of_baseline if of_baseline > 0 else math.nan,
        holds=of_model >= covariance_squared,
        coding=dict(zip(data.labels, numbers.tolist(), strict=True)),
        assumptions=ASSUMPTIONS,
        notes=(UNTRUE, *notes),
    )


def total_variance(values: Floats, share: Floats) -> float:
    """Variance of every column of (n, K) over rows that count in these shares, added up."""
    return float(np.sum(share @ (values - share @ values) ** 2))


def _coding(data: Environments) -> tuple[Floats, tuple[str, ...]]:
    if all(isinstance(label, int | float) for label in data.labels):
        return np.array(data.labels, dtype=np.float64), ()
    numbers = np.arange(len(data), dtype=np.float64)
    coded = ", ".join(f"{label} = {k}" for k, label in enumerate(data.labels))
    return numbers, (f"Environments are not numbers, so they were numbered in their order ({coded}).",)


def _target_columns(data: Environments, target: Any, outputs: int) -> Floats:
    """The target as one column, or as one 0/1 column per class where the predictions are class probabilities."""
    values, name = vector_of(target, "y")
    numbers, labels = numbers_or_labels(values, name or "y")
    numbers = np.asarray(data.grouped(numbers, "y"))
    if outputs == 1 and labels is None:
        return numbers[:, None]
    classes, codes = np.unique(numbers, return_inverse=True)
    if len(classes) != max(outputs, 2):
        raise InputError(
            f"y has {len(classes)} classes but predictions have {outputs} columns: give one column per class"
        )
    member: Floats = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
    return member[:, 1:] if outputs == 1 else member
