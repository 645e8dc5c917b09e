"""How wide a Gaussian kernel is: as wide as rows typically lie apart, or several widths at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import numbers

#: Times the median distance: from details of a quarter of it to the coarse shape.
COLLECTION = (0.25, 0.5, 1.0, 2.0, 4.0)
MOST = 32  # widths at once: each has a Gram matrix of its own
LOOKED_AT = 2_000  # rows whose distances are looked at; of more, so many are taken evenly along their ranking
NARROWEST = 1e-30  # squares of narrower ones, and of ones wider than 1 / 1e-30, are no numbers
WORDS = ("collection", "median")


@dataclass(frozen=True)
class Bandwidths:
    """Widths σ of k(a, b) = exp(−‖a − b‖² / (2σ²)), and what is to be said of how they were chosen."""

    values: Floats
    notes: tuple[str, ...] = ()


def bandwidths_of(given: Any, ranked: Floats) -> Bandwidths:
    """The widths that were asked for; ``ranked`` are the rows, repetitions written out, in an order of their content.

    >>> bandwidths_of("median", np.array([[0.0], [1.0], [3.0]])).values.tolist()
    [2.0]
    >>> bandwidths_of([0.5, 1.0], np.zeros((2, 1))).values.tolist()
    [0.5, 1.0]
    """
    if isinstance(given, str):
        if given not in WORDS:
            raise InputError(
                f'bandwidth "{given}" is unknown: use "collection", "median", a number above 0, or a list of numbers'
            )
        median, notes = _median_distance(ranked)
        times = COLLECTION if given == "collection" else (1.0,)
        return Bandwidths(median * np.array(times), notes)
    wanted = '"collection", "median", or numbers above 0 (at most 32), widths in the units of the columns'
    values = numbers(given, "bandwidth", wanted, least=NARROWEST, most=1 / NARROWEST)
    if len(values) > MOST:
        raise InputError(f"bandwidth has {len(values)} widths: give at most {MOST}")
    return Bandwidths(np.array(values))


def _median_distance(ranked: Floats) -> tuple[float, tuple[str, ...]]:
    """The median distance of two rows; where most are equal, of two that are not."""
    from scipy.spatial.distance import pdist

    step = -(-len(ranked) // LOOKED_AT)
    distances = pdist(ranked[::step])
    median = float(np.median(distances)) if len(distances) else 0.0
    if median > 0:
        return median, ()
    apart = distances[distances > 0]
    if not len(apart):
        return 1.0, ()
    return float(np.median(apart)), (
        "Most rows equal one another, so the width of the kernel is the median distance of those that differ.",
    )
