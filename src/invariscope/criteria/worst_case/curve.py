"""From a sweep over multipliers to the whole worst-case curve, its bounds and its bootstrap band.

    WC(ρ) = sup over laws within W₂ ≤ ρ of the mean loss = inf over γ ≥ 0 of γρ² + mean φ_i(γ)
    φ_i(γ) = sup over z of loss(z, y_i) − γ‖z − z_i‖²

By the envelope theorem the maximisers at one γ give one point of the curve: ρ² = mean squared distance moved, WC(ρ) =
mean loss there, slope 2ργ. Moving part of the rows one way and part the other is allowed as well, so whatever lies
below the concave hull (in ρ²) of achieved points is reached; every γ with a ceiling on φ bounds the curve from above.
Which multipliers to solve for: a bracket first, then wherever the curve's bounds are furthest apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from invariscope.rows.arrays import Floats, Integers

TAILS = (0.025, 0.975)  # of the draws: the ends of the bootstrap band
NUMBERS_AT_ONCE = 4_000_000  # random weights held in memory at a time
TOLERANCE = 1e-2  # relative gap between the bounds that the spacing may leave; the point between is off by 1e-4 or so
FINE = 1e-5  # the same where rows are few and another multiplier costs nothing
CHEAP = 5_000  # rows × classes that count as few
NATURAL = 1e-3  # losses below this many nats are judged as if they were as large
RATIO = 2.0  # between multipliers of the bracket
MOST_IN_BRACKET = 400
MOST_ROUNDS = 40


@dataclass(frozen=True)
class Curve:
    """A worst-case curve at given radii: the value, its certified bounds, its multiplier, and its bootstrap band."""

    loss: Floats
    lower: Floats
    upper: Floats
    gamma: Floats
    band: Floats


@dataclass(frozen=True)
class Sweep:
    """Worst points of every row at every multiplier.

    ``gamma`` (G,) descends; ``loss`` (G, n) holds the loss of every row at the point found for it, ``moved`` (G, n) the
    squared distance ‖z* − z_i‖² to it, ``ceiling`` (G, n) a certified upper bound of φ_i(γ), or ``None``.
    """

    gamma: Floats
    loss: Floats
    moved: Floats
    ceiling: Floats | None = None


def curve_of(
    sweep: Sweep, start: Floats, radii: Floats, weight: Floats | None = None, lipschitz: float | None = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """(loss, lower, upper, gamma) at every radius, from one sweep.

    ``start`` (n,) are the losses of the rows where they are. ``lower`` is the concave hull of achieved points,
    ``upper`` the lowest line γρ² + mean ceiling, or mean start + ``lipschitz`` · ρ where that is lower (infinite where
    neither is given); ``loss`` interpolates achieved points with their slopes (cubic, in ρ) and stays between the two.
    ``gamma`` is half its slope over ρ. Beyond the furthest point of the sweep ``loss`` is flat.

    >>> moves = np.array([[0.25], [1.0]])  # loss |z|, one row at 0: z* = 1/(2γ)
    >>> sweep = Sweep(np.array([1.0, 0.5]), np.sqrt(moves), moves, np.array([[0.25], [0.5]]))
    >>> loss, lower, upper, gamma = curve_of(sweep, np.zeros(1), np.array([0.0, 0.5, 0.75, 1.0]))
    >>> loss.tolist(), gamma.tolist()
    ([0.0, 0.5, 0.75, 1.0], [inf, 1.0, 0.6666666666666666, 0.5])
    """
    share = shares(weight, len(start))
    first = float(start @ share)
    squared = radii**2
    node_squared, node_loss, node_gamma = hull(first, sweep.moved @ share, sweep.loss @ share, sweep.gamma)
    lower = np.interp(squared, node_squared, node_loss)  # chords of the hull are reached by splitting the rows' mass

    upper = np.full(len(radii), np.inf)
    if sweep.ceiling is not None and len(sweep.gamma):
        # WC(ρ) = min over γ of γρ² + mean φ_i(γ) ≤ the lowest of the lines with ceilings for φ_i
        upper = np.min(np.outer(squared, sweep.gamma) + sweep.ceiling @ share, axis=1)
    if lipschitz is not None:
        upper = np.minimum(upper, first + lipschitz * radii)
    upper = np.maximum(np.where(squared > 0, upper, first), lower)

    point, gamma = _interpolated(radii, np.sqrt(node_squared), node_loss, node_gamma)
    # if the points found are the worst there are, φ_i(γ) = loss_i − γ‖z* − z_i‖² and no line γρ² + mean φ_i(γ) is
    # crossed: closer than what is certified
    reached = _lowest_lines(
        np.append(first, (sweep.loss - sweep.gamma[:, None] * sweep.moved) @ share), sweep.gamma, radii
    )
    return np.clip(point, lower, np.clip(reached, lower, upper)), lower, upper, gamma


def band_of(
    sweep: Sweep, start: Floats, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator
) -> Floats:
    """Pointwise 95 % bootstrap band of the curve, (2, n_radii): rows are weighted anew, nothing is solved again.

    ``nan`` where n_boot is 0; see :func:`band_around`.

    >>> still = Sweep(np.array([1.0]), np.array([[3.0, 5.0]]), np.zeros((1, 2)))
    >>> low, high = band_of(still, np.array([3.0, 5.0]), np.array([0.0, 1.0]), None, 999, np.random.default_rng(0))
    >>> bool(np.all((3 < low) & (low < 4) & (4 < high) & (high < 5)))
    True
    """
    curve = curve_of(sweep, start, radii, weight)[0]

    def pieces(rows: slice) -> Floats:
        return np.vstack([start[rows], sweep.loss[:, rows] - sweep.gamma[:, None] * sweep.moved[:, rows]])

    return band_around(curve, pieces, len(start), sweep.gamma, radii, weight, n_boot, rng)


def band_around(
    curve: Floats,
    pieces: Callable[[slice], Floats],
    n: int,
    gamma: Floats,
    radii: Floats,
    weight: Floats | None,
    n_boot: int,
    rng: np.random.Generator,
) -> Floats:
    """The band of a curve whose rows have ``pieces``: (1 + G, rows), the loss at radius 0 and φ_i(γ) for G multipliers.

    Each draw weighs the rows by a Dirichlet law (the Bayesian bootstrap: weight 2 is the row given twice), which turns
    every Φ(γ) = mean φ_i(γ) into another and the curve into the lowest of the lines γρ² + Φ(γ). The band is the curve
    plus the quantiles of what that changes, so that the spacing of multipliers cancels.
    """
    if n_boot == 0:
        return np.full((2, len(radii)), np.nan)
    means, draws = reweighted(pieces, n, weight, n_boot, rng)
    change = _lowest_lines(draws, gamma, radii) - _lowest_lines(means, gamma, radii)
    return curve + np.quantile(change, TAILS, axis=0)


def reweighted(
    pieces: Callable[[slice], Floats], n: int, weight: Floats | None, n_boot: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Means (P,) of the pieces (P, rows) of all rows, and their draws (n_boot, P) under the Bayesian bootstrap."""
    share = shares(weight, n)
    step = max(1, NUMBERS_AT_ONCE // n_boot)
    means, sums, totals = np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1))
    for first in range(0, n, step):
        rows = slice(first, min(first + step, n))
        part, shape = pieces(rows), (n_boot, rows.stop - first)
        # g_i ~ Gamma(weight_i): g / Σ g has the Dirichlet law
        drawn = rng.standard_exponential(shape) if weight is None else rng.standard_gamma(weight[rows], shape)
        means = means + part @ share[rows]
        sums = sums + drawn @ part.T
        totals = totals + drawn.sum(axis=1, keepdims=True)
    return means, sums / totals


def shares(weight: Floats | None, n: int) -> Floats:
    """What every row counts in a mean: weights that sum to 1."""
    return np.full(n, 1.0 / n) if weight is None else weight / weight.sum()


def _lowest_lines(pieces: Floats, gamma: Floats, radii: Floats) -> Floats:
    """min over γ of γρ² + Φ(γ) for each of (..., 1 + G) mean pieces; the first of them is the mean at radius 0."""
    if not len(gamma):
        return np.repeat(pieces[..., :1], len(radii), axis=-1)
    lines = np.multiply.outer(radii**2, gamma) + pieces[..., None, 1:]
    return np.where(radii > 0, lines.min(axis=-1), pieces[..., :1])


def hull(first: float, squared: Floats, loss: Floats, gamma: Floats) -> tuple[Floats, Floats, Floats]:
    """The rising part of the concave hull of (0, first) and the points (squared, loss): its corners and their γ."""
    order = np.lexsort((-loss, squared))
    corners: list[tuple[float, float, float]] = [(0.0, first, np.inf)]
    for t, value, multiplier in zip(squared[order], loss[order], gamma[order], strict=True):
        if value <= corners[-1][1] or t <= 0:  # nothing gained by going further
            continue
        while len(corners) > 1 and _below(corners[-2], corners[-1], t, value):
            corners.pop()
        corners.append((float(t), float(value), float(multiplier)))
    array = np.array(corners)
    return array[:, 0], array[:, 1], array[:, 2]


def _below(one: tuple[float, float, float], other: tuple[float, float, float], t: float, value: float) -> bool:
    """Whether ``other`` lies below the chord from ``one`` to (t, value)."""
    return (other[1] - one[1]) * (t - one[0]) <= (value - one[1]) * (other[0] - one[0])


def _interpolated(radii: Floats, node: Floats, value: Floats, gamma: Floats) -> tuple[Floats, Floats]:
    """Cubic Hermite interpolation in ρ through the corners, and the multiplier (slope over 2ρ)."""
    if len(node) == 1:
        return np.full(len(radii), value[0]), np.zeros(len(radii))
    slope = np.concatenate([[0.0], 2.0 * node[1:] * gamma[1:]])  # d WC / dρ = 2ργ (envelope theorem)
    # the slope at 0 is not known: a parabola takes the one that its other end asks for
    slope[0] = max(0.0, 2.0 * (value[1] - value[0]) / node[1] - slope[1])
    j = np.clip(np.searchsorted(node, radii, side="right") - 1, 0, len(node) - 2)
    width, rise = node[j + 1] - node[j], value[j + 1] - value[j]
    x = np.minimum((radii - node[j]) / width, 1.0)
    left, right = slope[j] * width, slope[j + 1] * width  # slopes l, r and rise d per piece:
    # v + l x + (3d − 2l − r) x² + (l + r − 2d) x³, and its derivative over the width of the piece
    point = value[j] + x * (left + x * ((3.0 * rise - 2.0 * left - right) + x * (left + right - 2.0 * rise)))
    rate = (left + x * (2.0 * (3.0 * rise - 2.0 * left - right) + 3.0 * x * (left + right - 2.0 * rise))) / width
    with np.errstate(divide="ignore", invalid="ignore"):
        # γ = (d WC / dρ) / (2ρ)
        multiplier = np.where(radii > 0, rate / (2.0 * radii), np.where(slope[0] > 0, np.inf, gamma[1]))
    multiplier = np.clip(multiplier, gamma[j + 1], gamma[j])
    return point, np.where(radii > node[-1], 0.0, multiplier)


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
    # multipliers below the first that reaches the furthest radius are dropped: nobody asked for them
    reached = np.average(sweep.moved, axis=1, weights=weight) >= furthest**2
    return _at(sweep, np.arange(int(np.argmax(reached)) + 1 if reached.any() else len(reached)))


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
