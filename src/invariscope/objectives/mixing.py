"""What augmentations share: random numbers of one step, and rows mixed with partners anywhere in the batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import target_columns
from invariscope.objectives.objective import Named, Tensors
from invariscope.rows.arrays import Floats, Integers


def numpy_generator(generator: torch.Generator | None) -> np.random.Generator:
    """A numpy generator seeded by one draw of torch's, since Beta laws of torch cannot be given a generator."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def as_drawn(partners: Integers, shares: Floats, like: Tensor) -> Named:
    """The random numbers of a step as tensors: for every row of the batch its partner, and the share it keeps itself.

    Rows are counted through all environments, one after the other: (N,) each.
    """
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return {
        "partners": torch.as_tensor(partners, dtype=torch.int64, device=like.device),
        "shares": torch.as_tensor(shares, dtype=dtype, device=like.device),
    }


def mixed_rows(inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """share · row + (1 − share) · partner, for inputs and targets alike; shapes stay as they are."""
    sizes = [len(rows) for rows in inputs]
    return _mixed(torch.cat(tuple(inputs)), drawn, sizes), _mixed(torch.cat(tuple(targets)), drawn, sizes)


def _mixed(pooled: Tensor, drawn: Named, sizes: list[int]) -> tuple[Tensor, ...]:
    shares = drawn["shares"].to(pooled.dtype).reshape(-1, *(1,) * (pooled.ndim - 1))
    partners = pooled[drawn["partners"]]
    return torch.split(partners + shares * (pooled - partners), sizes)


def target_floats(inputs: Tensors, targets: Tensors, classes: int | None) -> Tensors:
    """Targets that can be mixed: floats stay, codes of two classes become 0.0 and 1.0, of more become indicators."""
    if not inputs or len(inputs) != len(targets):
        raise InputError(f"{len(inputs)} environments of inputs, but {len(targets)} of targets: give one of each")
    for rows, values in zip(inputs, targets, strict=True):
        if len(rows) != len(values):
            raise InputError(f"{len(rows)} rows of inputs, but {len(values)} of targets in one environment")
        if len(rows) == 0:
            raise InputError("an environment has no rows: leave it out of the batch")
    if targets[0].is_floating_point():
        return tuple(targets)
    dtype = inputs[0].dtype if inputs[0].is_floating_point() else torch.get_default_dtype()
    if classes is not None and classes > 2:
        return tuple(target_columns(values, "multiclass", classes, dtype) for values in targets)
    highest = max(int(values.max()) for values in targets)
    if highest > 1:
        raise InputError(f"targets hold class codes up to {highest}: say how many there are with classes=")
    return tuple(values.to(dtype) for values in targets)


def environment_of_rows(targets: Tensors) -> Integers:
    """The environment number of every row of the batch, (N,)."""
    return np.repeat(np.arange(len(targets)), [len(values) for values in targets])
