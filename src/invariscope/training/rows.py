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
from invariscope.heads.torch_losses import TASKS, target_columns
from invariscope.objectives.objective import Tensors
from invariscope.rows.arrays import Array, Integers

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

    @classmethod
    def of(cls, X: Any, y: Any, env: Any = None, *, task: str = "regression", dtype: Any = torch.float64) -> Rows:
        """Group rows by environment; ``y`` are numbers, or class codes 0..K−1. Without ``env`` there is one.

        Networks are trained in the precision of the rows: torch.float32 is faster for large ones.

        >>> rows = Rows.of(np.eye(4), [0, 1, 1, 0], ["a", "b", "a", "b"], task="binary")
        >>> rows.labels, [tensor.tolist() for tensor in rows.targets]
        (('a', 'b'), [[0.0, 1.0], [1.0, 0.0]])
        """
        if task not in TASKS:
            raise InputError(f'task "{task}" is unknown: use {", ".join(TASKS)}')
        if np.asarray(y).dtype.kind not in "biuf":
            raise InputError("y holds text or objects: give numbers, or class codes 0, 1, ..., K - 1")
        inputs, values = torch.tensor(np.asarray(X), dtype=dtype), torch.tensor(np.asarray(y))  # copies
        if len(inputs) != len(values):
            raise InputError(f"X has {len(inputs)} rows, but y has {len(values)}")
        _refuse_unusable(inputs, values, task)
        labels, codes = _grouped(env, len(values))
        outputs = int(values.max()) + 1 if task == "multiclass" else 1
        columns = target_columns(values, task, outputs, dtype)
        targets = columns if task == "multiclass" else columns[:, 0]
        where = [torch.as_tensor(np.flatnonzero(codes == code)) for code in range(len(labels))]
        return cls(tuple(inputs[rows] for rows in where), tuple(targets[rows] for rows in where), task, labels, outputs)

    @classmethod
    def stack(cls, draws: Sequence[Rows]) -> Rows:
        """Several draws of the same shape as one: the first model trains on the first draw, and so on."""
        first = draws[0]
        for other in draws[1:]:
            if (other.sizes, other.task, other.outputs) != (first.sizes, first.task, first.outputs):
                raise InputError("draws of the data must have the same task and rows per environment to be stacked")
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

    def draw(self, replicate: int) -> Rows:
        """The data of one replicate."""
        if not self.stacked:
            return self
        inputs = tuple(values[replicate] for values in self.inputs)
        return replace(self, inputs=inputs, targets=tuple(values[replicate] for values in self.targets), stacked=False)

    def halved(self, share: float, seed: int) -> tuple[Rows, Rows | None]:
        """Rows to train on and, of every environment, a share held out to stop by; no row is in both."""
        if not 0 <= share < 1:
            raise InputError(f"the held-out share is {share!r}: give a number of at least 0 and below 1")
        if share == 0:
            return self, None
        trained_on, held_out = [], []
        for place, (size, label) in enumerate(zip(self.sizes, self.labels, strict=True)):
            count = max(1, round(share * size))
            if count >= size:
                raise InputError(f'environment "{label}" has {size} row(s): too few to hold some out')
            order = np.random.default_rng([seed, place, HELD_OUT]).permutation(size)
            held_out.append(torch.as_tensor(np.sort(order[:count])))
            trained_on.append(torch.as_tensor(np.sort(order[count:])))
        return self.take(trained_on), self.take(held_out)

    def take(self, where: Sequence[Tensor]) -> Rows:
        """The rows of an index for every environment."""
        inputs, targets = taken(self.inputs, where, self.stacked), taken(self.targets, where, self.stacked)
        return replace(self, inputs=inputs, targets=targets)

    def arrays(self) -> tuple[list[Array], list[Array]]:
        """Inputs, flattened to (n_e, d), and targets (numbers or class codes) as numpy arrays; not of stacked rows."""
        inputs = [values.flatten(1).double().numpy() for values in self.inputs]
        targets = [values.argmax(1) if self.task == "multiclass" else values for values in self.targets]
        return inputs, [values.double().numpy() for values in targets]


def taken(values: Tensors, where: Sequence[Tensor], stacked: bool) -> Tensors:
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
    labels, codes = np.unique(np.asarray(env), return_inverse=True)
    if len(codes) != rows:
        raise InputError(f"env has {len(codes)} labels for {rows} rows: give one per row")
    return tuple(labels.tolist()), codes


def _refuse_unusable(inputs: Tensor, values: Tensor, task: str) -> None:
    if not len(values):
        raise InputError("there are no rows to train on")
    for name, numbers in (("X", inputs), ("y", values)):
        if numbers.is_floating_point() and not torch.isfinite(numbers).all():
            raise InputError(f"{name} has missing or infinite values: fill them in or drop those rows")
    if task == "regression":
        return
    if (values < 0).any() or (values != values.round()).any() or (task == "binary" and (values > 1).any()):
        raise InputError(f"y must be class codes {'0 and 1' if task == 'binary' else '0, 1, ..., K - 1'} here")


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
