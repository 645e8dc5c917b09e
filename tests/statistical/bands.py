"""How far a rate may lie from what it should be."""

from __future__ import annotations

import math


def band(rate: float, runs: int) -> float:
    """3.5 standard errors of a rate."""
    return 3.5 * math.sqrt(rate * (1 - rate) / runs)
