"""Plot data of the worst-case curves: how bad the loss can get, and how far the observed environments are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.results import WorstCaseResult
from invariscope.rows.arrays import Floats

#: Environments with a line of their own under the curve; the rest is summed up in a sentence.
TICK_LIMIT = 12
TITLES = {
    "zero_one": "share of rows wrong (%)",
    "log_loss": "cross-entropy",
    "hinge": "hinge loss",
    "squared": "mean squared error",
}
#: What one unit of distance is, by loss.
UNITS = {
    "squared": "the distance at which the error (root mean square) can double",
    "classes": "the distance at which every row can be made wrong",
}


@dataclass(frozen=True)
class Curve:
    """One loss: ``value`` at ``places`` (distance in units of R), with its 95 % band; ``factor`` makes per cent."""

    of: str
    title: str
    places: Floats
    value: Floats
    low: Floats
    high: Floats

    @property
    def factor(self) -> float:
        """100 for a share, which is drawn in per cent; 1 for all others."""
        return 100.0 if self.of == "zero_one" else 1.0

    def at(self, place: float) -> float:
        """The loss at a distance."""
        return float(np.interp(place, self.places, self.value))

    def words(self, place: float) -> str:
        """The loss at a distance as text."""
        value = self.at(place)
        return wording.percent(value) if self.of == "zero_one" else wording.number(value)


@dataclass(frozen=True)
class Tick:
    """An environment, and how far it is from all others together (in units of R)."""

    name: str
    place: float


@dataclass(frozen=True)
class WorstCase:
    """Curves of one model, the headline's first, and its environments' own distances, furthest first."""

    curves: tuple[Curve, ...]
    ticks: tuple[Tick, ...]
    others: int
    unit: str
    finding: str
    told: str


def worst_case(audit: Audit) -> WorstCase | None:
    """The curves and ticks; ``None`` without a curve in finite units."""
    result = audit.results.get("worst_case")
    if result is None or not (math.isfinite(result.unit) and result.unit > 0):
        return None
    curves = tuple(curve_of(found) for found in (result, *result.others.values()))
    apart = np.asarray(result.apart, np.float64) / result.unit
    found = [
        Tick(name, float(place))
        for name, place in zip(wording.names(result.labels), apart, strict=False)  # distances may not have been had
        if math.isfinite(place)
    ]
    ticks = sorted(found, key=lambda tick: -tick.place)
    unit = UNITS["squared" if result.of == "squared" else "classes"]
    finding, told = _sentences(curves, ticks)
    return WorstCase(curves, tuple(ticks[:TICK_LIMIT]), max(0, len(ticks) - TICK_LIMIT), unit, finding, told)


@dataclass(frozen=True)
class Reached:
    """What moving inputs does to the representation: distance there (in units of its R), loss, and the worst case."""

    places: Floats
    reached: Floats
    ceiling: Floats
    title: str
    finding: str


def reached(audit: Audit) -> Reached | None:
    """The loss reached from the inputs under the worst case at the same distance in the representation."""
    result = audit.results.get("worst_case_in_inputs")
    if result is None or len(result.moved) < 2 or not np.isfinite([result.moved, result.representation]).all():
        return None
    order = np.argsort(result.moved, kind="stable")
    places, loss, ceiling = result.moved[order], result.reached[order], result.representation[order]
    start = float(np.min(result.loss))
    gained = float(np.sum(loss - start) / max(float(np.sum(ceiling - start)), 1e-12))
    return Reached(
        np.r_[0.0, places],
        np.r_[start, loss],
        np.r_[start, ceiling],
        TITLES[result.of],
        f"Moving the inputs reaches at least {wording.percent(max(gained, 0.0))} of what the representation's "
        "worst case adds to the loss",
    )


def curve_of(result: WorstCaseResult) -> Curve:
    """One loss of a result, by growing distance."""
    order = np.argsort(result.radii, kind="stable")
    band = np.asarray(result.band, np.float64)[:, order]
    value = np.asarray(result.loss, np.float64)[order]
    most = 1.0 if result.of == "zero_one" else np.inf
    low, high = (np.clip(np.where(np.isfinite(edge), edge, value), 0.0, most) for edge in band)
    return Curve(result.of, TITLES[result.of], result.relative[order], value, low, high)


def _sentences(curves: tuple[Curve, ...], ticks: list[Tick]) -> tuple[str, str]:
    """The finding, and one more sentence with the other losses."""
    first = curves[0]
    now = first.words(0.0)
    if ticks and ticks[0].place > 0:
        tick = ticks[0]
        where = f"A shift as large as {wording.short(tick.name, 30)}'s"
        place = tick.place
    else:
        where, place = "A shift of a quarter of R", 0.25
    then = first.words(place)
    if first.of == "zero_one":
        finding = f"{where} could at worst make {then} of the rows wrong ({now} now)"
    else:
        finding = f"{where} could at worst raise the {wording.LOSS_NAMES[first.of]} from {now} to {then}"
    others = [
        f"the {wording.LOSS_NAMES[curve.of]} from {curve.words(0.0)} to {curve.words(place)}" for curve in curves[1:]
    ]
    told = f"The same shift could raise {wording.listed(others)}." if others else ""
    return finding, told


def in_short(audit: Audit) -> str:
    """One sentence for the terminal, or nothing."""
    found = worst_case(audit)
    return "" if found is None else f"{found.finding}."
