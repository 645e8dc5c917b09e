"""What `invariscope train` trains: rows from all environments but some, and how well a model predicts in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from invariscope import Environments, InvariantClassifier, InvariantRegressor
from invariscope.cli.inputs import Prepared, Wanted, how_to_drop
from invariscope.errors import InputError
from invariscope.heads.losses import loss_of
from invariscope.reading.encoding import level_name
from invariscope.reading.named_table import listed, some
from invariscope.rows.arrays import Array, Booleans, Floats, Integers
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads, target_of

if TYPE_CHECKING:
    from invariscope.estimators.estimator import InvariantEstimator
    from invariscope.objectives import Objective


@dataclass(frozen=True, eq=False)
class Training:
    """The table, which of its rows are trained on, and which columns differ among these."""

    prepared: Prepared
    data: Environments
    target: Target
    left_out: tuple[int, ...]
    notes: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, prepared: Prepared, wanted: Wanted, leave_out: Sequence[str], objective: Objective) -> Training:
        """Find the environments to leave out, and refuse what cannot be trained on."""
        try:
            rows = (prepared.X, prepared.y, prepared.env)
            data = Environments(*rows, target_name=wanted.target, env_name=wanted.env)
            target = target_of(data, prepared.task)
            refuse_unfit_for_own_heads(data, target)
        except InputError as error:
            raise InputError(f"{error}{how_to_drop(error.environments, prepared.env, wanted)}") from error
        left_out = _left_out(data, leave_out)
        if len(data) - len(left_out) < objective.fewest_environments:
            raise InputError(
                f"--objective {objective.name} compares environments, but --leave-out leaves only one: "
                "leave out fewer, or pass --objective erm"
            )
        X = prepared.X[~_among(data, left_out)]
        same = (X.min() == X.max()).to_numpy()  # nothing is learnt about it, so it must not count elsewhere
        columns = tuple(X.columns[~same])
        note = f"Left out because all rows trained on have the same value: {some(list(X.columns[same]))}."
        if not columns:
            raise InputError(f"there is nothing to learn from. {note}")
        notes = [*prepared.notes, *([note] if same.any() else [])]
        if left_out and any(one.startswith("Filled in for missing") for one in notes):
            notes.append("What was filled in is the middle of all rows, those left out included.")
        return cls(prepared, data, target, left_out, tuple(notes), columns)

    @property
    def X(self) -> pd.DataFrame:
        """What the model reads: a table of float64."""
        return self.prepared.X[list(self.columns)]

    @property
    def y(self) -> Array:
        """Numbers, or the user's labels of the classes."""
        values = self.data.original(self.target.values)
        return np.array(self.target.classes)[values.astype(np.intp)] if self.target.classes else values

    def fitted(self, **settings: Any) -> InvariantEstimator:
        """The model, trained on all environments but those left out."""
        kind = InvariantClassifier if self.target.classes else InvariantRegressor
        rows = ~_among(self.data, self.left_out)
        model: InvariantEstimator = kind(**settings).fit(self.X[rows], self.y[rows], env=self.prepared.env[rows])
        return model.set_params(progress=False)  # type: ignore[no-any-return]

    def losses(self, model: Any) -> dict[str, Floats]:
        """The mean loss, and of classes the accuracy, in every environment."""
        values, codes = self.data.original(self.target.values), self.data.original(self.data.codes)
        loss, classes = loss_of(self.target), bool(self.target.classes)
        scores = model.decision_function(self.X) if classes else model.predict(self.X)
        each = loss.reported * loss.value(scores.reshape(len(values), -1), values)
        found = {"log-loss" if classes else "mean squared error": each}
        if classes:
            found["accuracy"] = (model.predict(self.X) == self.y).astype(float)
        return {name: _means(parts, codes, len(self.data)) for name, parts in found.items()}


def _left_out(data: Environments, given: Sequence[str]) -> tuple[int, ...]:
    labels = {level_name(label): code for code, label in enumerate(data.labels)}
    wanted = list(dict.fromkeys(listed(given, labels)))
    for label in wanted:
        if label not in labels:
            raise InputError(f'there is no {data.env_name} "{label}" (--leave-out): there are {some(list(labels))}')
    if len(wanted) == len(labels):
        raise InputError(f"--leave-out names every {data.env_name}: there would be nothing to train on")
    return tuple(labels[label] for label in wanted)


def _among(data: Environments, codes: Sequence[int]) -> Booleans:
    """Which rows, in the user's order, come from these environments."""
    return np.isin(data.original(data.codes), codes)


def _means(values: Floats, codes: Integers, environments: int) -> Floats:
    return np.bincount(codes, values, minlength=environments) / np.bincount(codes, minlength=environments)
