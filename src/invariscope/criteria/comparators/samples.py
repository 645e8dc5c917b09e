"""The columns in which environments are compared: the representation, or the representation and the target together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.settings import one_of
from invariscope.rows.targets import Target, target_of

ON = ("auto", "z", "zy")
SCALES = ("spread", "none")


@dataclass(frozen=True)
class Sample:
    """Rows to compare, environment after environment, and in how many columns.

    ``z`` (n, d) are the representation's columns, ``y`` (n, k) those of the target: one of numbers, one for every
    class, or none (k = 0). ``weight`` counts rows (``None``: every row once).
    """

    data: Environments
    z: Floats
    y: Floats
    weight: Floats | None

    @property
    def compared(self) -> str:
        return "(z, y)" if self.y.shape[1] else "z"

    @property
    def columns(self) -> Floats:
        """(n, d + k): the columns of z, then those of y."""
        return np.hstack([self.z, self.y]) if self.y.shape[1] else self.z


def sample_of(
    Z: Any,
    y: Any = None,
    env: Any = None,
    weight: Any = None,
    *,
    on: str = "auto",
    task: str = "auto",
    scale: str = "spread",
) -> Sample:
    """Rows as every comparator takes them: ``on="z"`` compares the law of z, ``"zy"`` that of z and y together.

    "auto" takes the target in where there is one. Columns are in units of their spread over all rows, so that the
    user's units do not matter; constant ones are 0. With ``scale="none"`` they keep the user's units.
    """
    one_of(scale, "scale", SCALES)
    if on not in ON:
        raise InputError(f'on is "{on}": use "z" for the representation alone, "zy" for it and the target, or "auto"')
    data = Environments.of(Z, y, env, weight)
    data.refuse_out_of_range()
    if on == "zy" and data.y is None:
        raise InputError('on="zy" compares the target as well, and there is none: pass y, or on="z"')
    columns = np.empty((len(data.X), 0)) if on == "z" or data.y is None else target_columns(target_of(data, task))
    z, y = (_in_spreads(values, data.weight, scale == "spread") for values in (data.X, columns))
    return Sample(data, z, y, data.weight)


def target_columns(target: Target) -> Floats:
    """(n, k): the numbers of a target, or for every class a column of 0 and 1."""
    columns = target.values.reshape(len(target.values), -1)
    if target.task == "regression":
        return columns
    return np.asarray(columns == np.arange(len(target.classes)), dtype=np.float64)


def _in_spreads(columns: Any, weight: Floats | None, scaled: bool) -> Floats:
    """Centred columns, if ``scaled`` in units of their spread."""
    values = np.asarray(columns, dtype=np.float64)
    if not values.shape[1]:
        return values
    values = values - np.average(values, axis=0, weights=weight)
    if not scaled:
        return np.asarray(values)
    spread = np.sqrt(np.average(values**2, axis=0, weights=weight))
    return np.asarray(values / np.where(spread > 0, spread, 1.0))
