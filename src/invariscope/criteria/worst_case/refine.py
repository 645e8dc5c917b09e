"""Which multipliers to solve for: a bracket first, then wherever the curve's bounds are furthest apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invariscope.criteria.worst_case.curve import Sweep, hull, shares
from invariscope.rows.arrays import Floats, Integers

TOLERANCE = 1e-2  # relative gap between the bounds that the spacing may leave; the point between is off by 1e-4 or so
FINE = 1e-5  # the same where rows are few and another multiplier costs nothing
CHEAP = 5_000  # rows × classes that count as few
NATURAL = 1e-3  # losses below this many nats are judged as if they were as large
RATIO = 2.0  # between multipliers of the bracket
MOST_IN_BRACKET = 400
MOST_ROUNDS = 40


def refined(
    solver: Callable[[Floats], Sweep],
    start: Floats,
    radii: Floats,
    weight: Floats | None,
    *,
    slope: float,
    concave_from: float,
    work: float,
) -> Sweep:
    """A sweep fine enough for the radii asked for.

    ``solver`` finds the worst points for descending multipliers; ``slope`` is the root mean squared gradient where the
    rows are, so γ = slope/(2ρ) is about right for a small radius; ``concave_from`` is the γ above which φ is concave.
    The bracket halves γ from there until the rows have moved as far as the largest radius. Then the slopes of the hull
    are added as multipliers, until their spacing costs less than ``TOLERANCE`` at every radius. What certificates leave
    open is not made smaller by more multipliers, so it does not count here.
    """
    wanted = radii[radii > 0]
    tolerance = FINE if work <= CHEAP else TOLERANCE
    highest = max(slope / (2.0 * float(wanted.min())), concave_from)
    sweep = _bracket(solver, weight, float(wanted.max()), highest)
    for _ in range(MOST_ROUNDS):
        added = _missing(sweep, start, wanted, weight, tolerance)
        if not len(added):
            break
        sweep = _merged(sweep, solver(added))
    return sweep


def _bracket(solver: Callable[[Floats], Sweep], weight: Floats | None, furthest: float, highest: float) -> Sweep:
    sweep = solver(np.array([highest]))
    for _ in range(MOST_IN_BRACKET // 8):
        if np.average(sweep.moved[-1], weights=weight) >= furthest**2:  # mean ‖z* − z‖² = ρ² of this multiplier
            break
        sweep = _merged(sweep, solver(sweep.gamma[-1] / RATIO ** np.arange(1.0, 5.0)))
    return _without_tail(sweep, furthest, weight)


def _without_tail(sweep: Sweep, furthest: float, weight: Floats | None) -> Sweep:
    """Drop multipliers below the first that reaches the furthest radius: nobody asked for them."""
    reached = np.average(sweep.moved, axis=1, weights=weight) >= furthest**2
    last = int(np.argmax(reached)) + 1 if reached.any() else len(reached)
    return _at(sweep, np.arange(last))


def _missing(sweep: Sweep, start: Floats, radii: Floats, weight: Floats | None, tolerance: float) -> Floats:
    """Multipliers to add, in descending order: the slopes of those sides of the hull whose radii are not settled.

    At the slope of a side either a point above it is found, or there is none, and the side is the curve itself.
    """
    share = shares(weight, len(start))
    moved, loss = sweep.moved @ share, sweep.loss @ share
    squared, value, _ = hull(float(start @ share), moved, loss, sweep.gamma)
    if len(squared) == 1:
        return np.empty(0)
    lower = np.interp(radii**2, squared, value)
    # min over γ of γρ² + mean (loss_i − γ‖z* − z_i‖²): no law goes above it if the points found are the worst
    upper = np.min(np.outer(radii**2, sweep.gamma) + (loss - sweep.gamma * moved), axis=1)
    unsettled = upper - lower > tolerance * np.maximum(lower, NATURAL)
    sides = np.unique(np.clip(np.searchsorted(squared, radii[unsettled] ** 2), 1, len(squared) - 1))
    slopes = (value[sides] - value[sides - 1]) / (squared[sides] - squared[sides - 1])  # ΔWC / Δρ² = γ of the side
    new = np.min(np.abs(np.subtract.outer(slopes, sweep.gamma)), axis=1, initial=np.inf) > 1e-9 * slopes
    return np.unique(slopes[new])[::-1]


def _merged(one: Sweep, other: Sweep) -> Sweep:
    gamma = np.concatenate([one.gamma, other.gamma])
    parts = [np.concatenate([getattr(one, name), getattr(other, name)]) for name in ("loss", "moved", "ceiling")]
    return _at(Sweep(gamma, *parts), np.argsort(-gamma, kind="stable"))


def _at(sweep: Sweep, index: Integers) -> Sweep:
    ceiling = None if sweep.ceiling is None else sweep.ceiling[index]
    return Sweep(sweep.gamma[index], sweep.loss[index], sweep.moved[index], ceiling)
