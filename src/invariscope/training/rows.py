"""Rows to train on, one tensor per environment, and which of them make up a batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import target_columns
from invariscope.objectives.objective import Tensors
from invariscope.rows.arrays import Array, Integers
from invariscope.rows.environments import refuse_empty
from invariscope.rows.labels import numbers_or_labels, refuse_too_many_labels, unique_labels
from invariscope.rows.settings import real_number
from invariscope.rows.tables import array_of, column_of_labels, matrix_of, vector_of
from invariscope.rows.targets import target_in

HELD_OUT = 2**31  # keeps the choice of held-out rows apart from the order of batches


@dataclass(frozen=True)
class Rows:
    """Inputs and targets of every environment.

    ``inputs`` (n_e, ...) and ``targets``: floats, (n_e,) for numbers and two classes, (n_e, K) one-hot for several.
    With ``stacked``, both have a leading axis of replicates: another draw of the data for each model.
    """

    inputs: Tensors
    targets: Tensors
    task: str
    labels: tuple[Hashable, ...]
    outputs: int = 1
    stacked: bool = False
    classes: tuple[Any, ...] = ()

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        env: Any = None,
        *,
        task: str = "auto",
        outputs: int | None = None,
        dtype: Any = torch.float64,
    ) -> Rows:
        """Group rows by environment. Without ``env`` there is one.

        ``y`` are numbers or labels; which of them follows the rule of :func:`~invariscope.rows.targets.target_of`.
        ``outputs``, those of the network to be trained, is only needed where ``y`` lacks some of its classes; two
        classes take one output, or two if this or task="multiclass" says so.
        Networks are trained in the precision of the rows: torch.float32 is faster for large ones.

        >>> rows = Rows.of(np.eye(4), ["no", "yes", "yes", "no"], ["a", "b", "a", "b"])
        >>> rows.labels, rows.classes, [tensor.tolist() for tensor in rows.targets]
        (('a', 'b'), ('no', 'yes'), [[0.0, 1.0], [1.0, 0.0]])
        """
        values, (column, _) = array_of(X, "X", table=True), vector_of(y, "y")
        if values.dtype.kind not in "iufb" or values.ndim == 0:
            values = matrix_of(X)[0]  # which names the column that holds something else
        if 0 in values.shape[1:]:
            refuse_empty(values)
        # a copy, first as numpy's own floats: torch reads no other order of bytes, no steps back and nothing longer
        inputs = torch.tensor(np.ascontiguousarray(values, dtype=np.float64), dtype=dtype)
        if len(inputs) != len(column):
            raise InputError(f"X has {len(inputs)} rows, but y has {len(column)}: give one target per row")
        _refuse_unusable(inputs, column)
        # a number to predict takes one output, and may be constant
        known = 1 if task == "regression" else outputs
        numbers, names = numbers_or_labels(column, "y")
        refuse_too_many_labels(names or (), len(column), "y")
        target = target_in(numbers, names, task, outputs=known, name="y")
        labels, codes = _grouped(env, len(column))
        several = target.task == "multiclass" or (target.task == "binary" and (outputs == 2 or task == "multiclass"))
        task, count = ("multiclass", len(target.classes)) if several else (target.task, 1)
        columns = target_columns(torch.tensor(target.values), task, count, dtype)
        targets = columns if several else columns[:, 0]
        where = [torch.as_tensor(np.flatnonzero(codes == code)) for code in range(len(labels))]
        of_inputs, of_targets = (tuple(values[rows] for rows in where) for values in (inputs, targets))
        return cls(of_inputs, of_targets, task, labels, count, classes=target.classes)

    @classmethod
    def stack(cls, draws: Sequence[Rows]) -> Rows:
        """Several draws of the same shape as one: the first model trains on the first draw, and so on."""
        first = draws[0]
        for other in draws[1:]:
            if other._form != first._form:
                raise InputError(
                    "draws of the data differ in their task, columns or rows per environment: draw the same of each"
                )
        return replace(
            first,
            inputs=tuple(torch.stack(parts) for parts in zip(*(draw.inputs for draw in draws), strict=True)),
            targets=tuple(torch.stack(parts) for parts in zip(*(draw.targets for draw in draws), strict=True)),
            stacked=True,
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{label}: {size}" for label, size in zip(self.labels, self.sizes, strict=True))
        return f"<Rows for {self.task}; {sizes}{f'; {len(self.targets[0])} draws' if self.stacked else ''}>"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of every environment."""
        return tuple(targets.shape[1 if self.stacked else 0] for targets in self.targets)

    @property
    def _form(self) -> tuple[Any, ...]:
        """What draws of the data share."""
        return self.task, self.classes, [tuple(values.shape) for values in self.inputs]

    def draw(self, replicate: int) -> Rows:
        """The data of one replicate."""
        if not self.stacked:
            return self
        inputs = tuple(values[replicate] for values in self.inputs)
        return replace(self, inputs=inputs, targets=tuple(values[replicate] for values in self.targets), stacked=False)

    def halved(self, share: float, seed: int) -> tuple[Rows, Rows | None]:
        """Rows to train on and, of every environment, a share held out to stop by; no row is in both."""
        if real_number(share, "the held-out share", below=1.0) == 0:
            return self, None
        trained_on, held_out = [], []
        for place, (size, label) in enumerate(zip(self.sizes, self.labels, strict=True)):
            count = max(1, round(share * size))
            if count >= size:
                raise InputError(
                    f'environment "{label}" has {size} row(s), too few to hold a share of {share:g} out: '
                    "give more rows, or hold none out"
                )
            order = np.random.default_rng([seed, place, HELD_OUT]).permutation(size)
            held_out.append(torch.as_tensor(np.sort(order[:count])))
            trained_on.append(torch.as_tensor(np.sort(order[count:])))
        return self.take(trained_on), self.take(held_out)

    def take(self, where: Tensors) -> Rows:
        """The rows of an index for every environment."""
        inputs, targets = taken(self.inputs, where, self.stacked), taken(self.targets, where, self.stacked)
        return replace(self, inputs=inputs, targets=targets)

    def arrays(self) -> tuple[list[Array], list[Array]]:
        """Inputs, flattened to (n_e, d), and targets (numbers or class codes) as numpy arrays; not of stacked rows."""
        inputs = [values.flatten(1).double().numpy() for values in self.inputs]
        targets = [values.argmax(1) if self.task == "multiclass" else values for values in self.targets]
        return inputs, [values.double().numpy() for values in targets]


def taken(values: Tensors, where: Tensors, stacked: bool) -> Tensors:
    """Rows by their places, (b,) or one such row of places per replicate (R, b)."""
    chosen = []
    for tensor, places in zip(values, where, strict=True):
        if places.ndim == 2 and stacked:
            chosen.append(tensor[torch.arange(len(places))[:, None], places])  # [r, k] = tensor[r, places[r, k]]
        else:
            chosen.append(tensor[:, places] if stacked else tensor[places])
    return tuple(chosen)


def _grouped(env: Any, rows: int) -> tuple[tuple[Hashable, ...], Integers]:
    if env is None:
        return ("all rows",), np.zeros(rows, np.intp)
    values, name = column_of_labels(env, "env")
    if len(values) != rows:
        raise InputError(f"env has {len(values)} labels for {rows} rows: give one per row")
    return unique_labels(values, name or "env")


def _refuse_unusable(inputs: Tensor, column: Array) -> None:
    if not len(column):
        raise InputError("there are no rows to train on: give at least two")
    for name, finite in (
        ("X", torch.isfinite(inputs).all()),
        ("y", column.dtype.kind != "f" or np.isfinite(column).all()),
    ):
        if not finite:
            raise InputError(f"{name} has missing or infinite values: fill them in or drop those rows")


def places(size: int, batch: int, environment: int, seed: int, step: int) -> Tensor:
    """Which rows of an environment are in the batch of a step.

    Every epoch deals all rows out anew; those that do not fill a batch at its end are left to later epochs.

    A function of its arguments alone: a resumed training needs no state of a random generator.
    """
    batch = min(batch, size)
    epoch, place = divmod(step, size // batch)
    return _order(size, environment, seed, epoch)[place * batch : (place + 1) * batch]


@lru_cache(maxsize=128)
def _order(size: int, environment: int, seed: int, epoch: int) -> Tensor:
    return torch.as_tensor(np.random.default_rng([seed, environment, epoch]).permutation(size))
