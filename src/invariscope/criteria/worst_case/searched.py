"""The worst case of heads that are not linear: what a search finds, made into the same curve."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from invariscope.criteria.worst_case.curve import Curve, Sweep, band_of, curve_of
from invariscope.criteria.worst_case.rows import Rows
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats


def searched_outputs(head: Any, Z: Array) -> int:
    """How many numbers the head gives per row."""
    return int(_torch_heads().outputs_of(head, Z))


def searched_unit(head: Any, rows: Rows, values: Array, loss: str) -> float:
    """The unit of distance; infinite where no row could be made wrong."""
    return float(_torch_heads().unit_of(head, rows.Z, values, loss, weight=rows.weight))


def searched_curve(
    head: Any, rows: Rows, values: Array, loss: str, radii: Floats, n_boot: int, seed: int, rng: np.random.Generator
) -> Curve:
    """The curve through the points a search has reached."""
    sweep: Sweep
    sweep, start, lipschitz = _torch_heads().sweep(
        head, rows.Z, values, loss, weight=rows.weight, radius=float(radii.max()), seed=seed
    )
    loss_at, lower, upper, gamma = curve_of(sweep, start, radii, rows.weight, lipschitz)
    return Curve(loss_at, lower, upper, gamma, band_of(sweep, start, radii, rows.weight, n_boot, rng))


def _torch_heads() -> Any:
    try:
        return importlib.import_module("invariscope.criteria.worst_case.torch_heads")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise InputError(
            "a head that is not a LinearHead is searched with torch, which is not installed: "
            'pip install "invariscope[torch]", or give a LinearHead'
        ) from error
