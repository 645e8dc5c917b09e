"""Fitted attributes of a part of a model file: arrays of the shape they must have, indices that lie inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.rows.arrays import Array


class TamperedError(ValueError):
    """What a file says of a part contradicts itself."""


class UncheckedError(ValueError):
    """A part that nobody can check: it must be trusted by name."""


def array_of(owner: Any, name: str, shape: tuple[int | None, ...], kinds: str = "iuf", *, finite: bool = True) -> Array:
    """A fitted attribute that is an array of numbers of this shape (None: any length)."""
    value = vars(owner).get(name)
    what = f"{type(owner).__name__}.{name}"
    if type(value) is not np.ndarray:
        raise TamperedError(f"{what} is {'missing' if value is None else f'a {type(value).__name__}, not an array'}")
    if value.dtype.kind not in kinds:
        raise TamperedError(f"{what} holds {value.dtype}, not {'whole numbers' if 'f' not in kinds else 'numbers'}")
    if len(value.shape) != len(shape) or any(
        size is not None and size != given for size, given in zip(shape, value.shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise TamperedError(f"{what} has shape {value.shape}, not ({wanted})")
    if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise TamperedError(f"{what} holds {int(np.sum(~np.isfinite(value)))} missing or infinite values")
    return value


def refuse_outside(values: Any, low: int, high: int, what: str) -> None:
    """Indices must lie in low .. high - 1."""
    values = np.asarray(values)
    if values.size and not (values.min() >= low and values.max() < high):  # what is no number is outside, too
        raise TamperedError(f"{what} runs from {values.min()} to {values.max()}, outside {low} to {high - 1}")


def features_of(owner: Any) -> int:
    """How many columns the part was fitted on."""
    count = vars(owner).get("n_features_in_")
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise TamperedError(f"{type(owner).__name__}.n_features_in_ is {count!r}, not a number of columns")
    return int(count)
