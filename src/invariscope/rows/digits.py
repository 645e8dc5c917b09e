"""Numbers far from zero beside their spread: how many of the digits that tell rows apart are left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Booleans, Floats
from invariscope.rows.blocks import some_rows

LOOKED_AT = 200  # rows: where many digits are left, that shows in a few
OFFSET = 1e5  # smaller numbers that hardly differ are saturated units or probabilities of nearly 1, and mean it
NONE_LEFT = 4.0  # steps of the floats there, within which all rows lie: they cannot be told apart
WHOLE_IN_FLOATS = 2.0**53  # below which every whole number is a float of its own
FEW_DIFFERENT = 100  # numbers that may well be labels: not one of them may get lost
FEW_LEFT = 1000.0  # three digits: rounding moves single rows, though hardly any mean


def refuse_merged(given: Iterable[Any], floats: Array, what: str) -> None:
    """Refuse whole numbers or decimals that are different as they were given, and one number as floats.

    Of many different ones some may: what is left tells the rows apart.

    >>> refuse_merged([2**60, 2**61], np.array([2.0**60, 2.0**61]), "site")
    >>> refuse_merged([2**60, 2**60 + 1], np.array([2.0**60, 2.0**60]), "site")
    Traceback (most recent call last):
    invariscope.errors.InputError: site holds numbers near 1.15e+18 that differ, and are one as floats, which have 16 digits: subtract a constant, or write them as texts if they are labels
    """  # noqa: E501 (a sentence)
    finite = np.isfinite(floats)
    largest = np.abs(floats).max(initial=0.0, where=finite)
    if largest < WHOLE_IN_FLOATS:
        return
    different = {value for value, usable in zip(given, finite, strict=True) if usable}
    left = len(np.unique(floats[finite]))
    if left < len(different) <= FEW_DIFFERENT or left == 1 < len(different):
        raise InputError(
            f"{what} holds numbers near {largest:.3g} that differ, and are one as floats, which have 16 digits: "
            "subtract a constant, or write them as texts if they are labels"
        )


def notes_on_lost_digits(matrix: Array, names: Sequence[str], weight: Floats | None = None) -> tuple[str, ...]:
    """A sentence for every column that lost digits to a large constant; one that lost all of them is refused.

    Some rows tell which columns may have, all rows which did; those of ``weight`` 0 are not looked at.

    >>> notes_on_lost_digits(np.arange(6.0)[:, None] + 2020, ["year"])
    ()
    >>> print(*notes_on_lost_digits(np.arange(6.0)[:, None] + 1e15, ["time"]))
    time holds numbers near 1e+15 within 5 of each other, where floats are 0.12 apart: only 2 of their digits tell rows apart. Subtract a constant where they come from.
    """  # noqa: E501 (a sentence)
    if matrix.dtype.kind != "f" or not len(matrix):
        return ()
    suspicious = np.flatnonzero(_few_left(*_extent(matrix[some_rows(len(matrix), LOOKED_AT, weight)])))
    if not suspicious.size:
        return ()
    columns = matrix[:, suspicious]
    largest, extent, step = _extent(columns if weight is None else columns[weight > 0])
    notes = []
    for j in np.flatnonzero(_few_left(largest, extent, step) & (extent > 0)).tolist():
        name = names[suspicious[j]]
        where = f"{name} holds numbers near {largest[j]:.3g} within {extent[j]:.2g} of each other, where floats are"
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


def _extent(rows: Array) -> tuple[Array, Floats, Floats]:
    """Of every column: its largest magnitude, how far its numbers are apart, and the step of the floats there."""
    with np.errstate(invalid="ignore", over="ignore"):
        largest = np.abs(rows).max(axis=0)
        return largest, np.ptp(rows, axis=0).astype(np.float64), np.spacing(largest).astype(np.float64)


def _few_left(largest: Array, extent: Floats, step: Floats) -> Booleans:
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((extent < FEW_LEFT * step) & (largest > OFFSET))
