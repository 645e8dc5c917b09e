"""Training on a table that was read: rows from all environments but some, and how well a model predicts in each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

from invariscope.errors import InputError
from invariscope.estimators.classifier import InvariantClassifier
from invariscope.estimators.regressor import InvariantRegressor
from invariscope.heads.losses import loss_of
from invariscope.reading.dataset import Dataset
from invariscope.reading.encoding import level_name
from invariscope.reading.environment_labels import named_environments
from invariscope.reading.named_table import some
from invariscope.rows.arrays import Array, Booleans, Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.spelling import spelt
from invariscope.rows.targets import Target, label_array, notes_on_scale, refuse_unfit_for_own_heads, target_of

if TYPE_CHECKING:
    from invariscope.estimators.estimator import InvariantEstimator
    from invariscope.objectives import Objective


@dataclass(frozen=True, eq=False)
class Training:
    """The rows, which of them are trained on, and which columns differ among these.

    ``trained_on`` and ``left_out`` are codes of environments in ``data``.
    """

    rows: Dataset
    data: Environments
    target: Target
    left_out: tuple[int, ...]
    notes: tuple[str, ...]
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        rows: Dataset,
        objective: Objective,
        *,
        leave_out: Sequence[str] = (),
        task: str = "auto",
    ) -> Training:
        """Find the environments to leave out, by label, and refuse what cannot be trained on."""
        data = rows.environments
        target = target_of(data, task)
        refuse_unfit_for_own_heads(data, target)
        left_out = _left_out(data, leave_out)
        if len(data) - len(left_out) < objective.fewest_environments:
            raise InputError(
                f"{spelt('objective', objective.name)} compares environments, but {spelt('leave_out')} leaves only "
                f"one: leave out fewer, or pass {spelt('objective', 'erm')}"
            )
        X = rows.X[~_among(data, left_out)]
        same = (X.min() == X.max()).to_numpy()  # nothing is learnt about it, so it must not count elsewhere
        columns = tuple(X.columns[~same])
        note = f"Left out because all rows trained on have the same value: {some(list(X.columns[same]))}."
        if not columns:
            raise InputError(f"there is nothing to learn from. {note} Give columns that differ between these rows.")
        notes = [*rows.notes, *notes_on_scale(data, target, task), *([note] if same.any() else [])]
        if left_out and any(one.startswith("Filled in for missing") for one in notes):
            notes.append("What was filled in is the middle of all rows, those left out included.")
        return cls(rows, data, target, left_out, tuple(notes), columns)

    @property
    def trained_on(self) -> list[int]:
        """Environments that are not left out."""
        return [code for code in range(len(self.data)) if code not in self.left_out]

    @property
    def X(self) -> pd.DataFrame:
        """What the model reads: a table of float64."""
        table: pd.DataFrame = self.rows.X
        return table[list(self.columns)]

    @property
    def y(self) -> Array:
        """Numbers, or the user's labels of the classes."""
        values = self.data.original(self.target.values)
        return label_array(self.target.classes)[values.astype(np.intp)] if self.target.classes else values

    def fitted(self, **settings: Any) -> InvariantEstimator:
        """The model, trained on all environments but those left out; ``notes_`` of it are not warned about as well."""
        kind = InvariantClassifier if self.target.classes else InvariantRegressor
        seen = _among(self.data, self.trained_on)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model: InvariantEstimator = kind(**settings).fit(self.X[seen], self.y[seen], env=self.rows.env[seen])
        return model.set_params(progress=False)  # type: ignore[no-any-return]

    def losses(self, model: Any) -> dict[str, Floats]:
        """The mean loss, and of classes the accuracy, in every environment."""
        values, codes = self.data.original(self.target.values), self.data.original(self.data.codes)
        loss, classes = loss_of(self.target), bool(self.target.classes)
        scores = model.decision_function(self.X) if classes else model.predict(self.X)
        each = loss.reported * loss.value(scores.reshape(len(values), -1), values)
        losses = {"log-loss" if classes else "mean squared error": each}
        if classes:
            losses["accuracy"] = (model.predict(self.X) == self.y).astype(float)
        return {name: _means(parts, codes, len(self.data)) for name, parts in losses.items()}


def _left_out(data: Environments, given: Sequence[str]) -> tuple[int, ...]:
    codes = {level_name(label): code for code, label in enumerate(data.labels)}
    wanted = named_environments(given, codes, data.env_name, "leave_out")
    if len(wanted) == len(codes):
        raise InputError(
            f"{spelt('leave_out')} names every {data.env_name}: there would be nothing to train on; leave out fewer"
        )
    return tuple(codes[label] for label in wanted)


def _among(data: Environments, codes: Sequence[int]) -> Booleans:
    """Which rows, in the user's order, come from these environments."""
    return np.isin(data.original(data.codes), codes)


def _means(values: Floats, codes: Integers, environments: int) -> Floats:
    return np.bincount(codes, values, minlength=environments) / np.bincount(codes, minlength=environments)
