"""Numbers far from zero beside their spread: how many of the digits that tell rows apart are left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array

LOOKED_AT = 200  # rows: what digits are left shows in a few
OFFSET = 1e5  # smaller numbers that hardly differ are saturated units or probabilities of nearly 1, and mean it
NONE_LEFT = 4.0  # steps of the floats there, within which all rows lie: they cannot be told apart
FEW_LEFT = 1000.0  # three digits: rounding moves single rows, though hardly any mean


def notes_on_lost_digits(matrix: Array, names: Sequence[str]) -> tuple[str, ...]:
    """A sentence for every column that lost digits to a large constant; one that lost all of them is refused.

    >>> notes_on_lost_digits(np.arange(6.0)[:, None] + 2020, ["year"])
    ()
    >>> print(*notes_on_lost_digits(np.arange(6.0)[:, None] + 1e15, ["time"]))
    time holds numbers near 1e+15 within 5 of each other, where floats are 0.12 apart: only 2 of their digits tell rows apart. Subtract a constant where they come from.
    """  # noqa: E501 (a sentence)
    if matrix.dtype.kind != "f" or not len(matrix):
        return ()
    some = matrix[:: max(1, len(matrix) // LOOKED_AT)]
    with np.errstate(invalid="ignore", over="ignore"):
        largest, extent = np.abs(some).max(axis=0), np.ptp(some, axis=0).astype(np.float64)
        step = np.spacing(largest).astype(np.float64)
        few = np.flatnonzero((extent < FEW_LEFT * step) & (extent > 0) & (largest > OFFSET)).tolist()
    notes = []
    for j in few:
        where = f"{names[j]} holds numbers near {largest[j]:.3g} within {extent[j]:.2g} of each other, where floats are"
        if extent[j] <= NONE_LEFT * step[j]:
            raise InputError(
                f"{where} {step[j]:.2g} apart: the digits that tell rows apart are lost. Subtract a constant where "
                "they come from, before they are stored, or leave them out."
            )
        left = max(1, int(np.log10(extent[j] / step[j])) + 1)
        notes.append(
            f"{where} {step[j]:.2g} apart: only {left} of their digits tell{'s' * (left == 1)} rows apart. Subtract a "
            "constant where they come from."
        )
    return tuple(notes)
