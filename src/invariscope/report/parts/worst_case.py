"""How bad it can get in an environment nobody has seen: worst-case curves, and how far the known ones are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report.markup import Figure, escaped, note, section
from invariscope.report.parts.criteria import explanation
from invariscope.results import WorstCaseResult
from invariscope.rows.arrays import Floats
from invariscope.shortening import among

#: Environments with a line of their own under the curve; the rest is summed up in a sentence.
TICK_LIMIT = 12
#: Letters of the name of the one that a sentence speaks of.
TICK_LETTERS = 30
TITLES = {
    "zero_one": "share of rows wrong (%)",
    "log_loss": "cross-entropy",
    "hinge": "hinge loss",
    "squared": "mean squared error",
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

    @property
    def has_band(self) -> bool:
        """Whether there is a band to see: without draws there is none."""
        return bool((self.high > self.low).any())

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
    other_losses: str


@dataclass(frozen=True)
class Reached:
    """What moving inputs does to the representation: distance there (in units of its R), loss, and the worst case."""

    places: Floats
    reached: Floats
    ceiling: Floats
    title: str
    finding: str


def curve_of(result: WorstCaseResult) -> Curve:
    """One loss of a result, by growing distance."""
    order = np.argsort(result.radii, kind="stable")
    band, value = result.band[:, order], result.loss[order]
    most = 1.0 if result.of == "zero_one" else np.inf
    low, high = (np.clip(np.where(np.isfinite(edge), edge, value), 0.0, most) for edge in band)
    return Curve(result.of, TITLES[result.of], result.relative[order], value, low, high)


def worst_case(audit: Audit) -> WorstCase | None:
    """The curves and ticks; ``None`` without a curve in finite units."""
    result = audit.results.get("worst_case")
    if result is None or not (math.isfinite(result.unit) and result.unit > 0):
        return None
    curves = tuple(map(curve_of, (result, *result.others.values())))
    every = map(Tick, wording.names(result.labels), (result.apart / result.unit).tolist())
    ticks = sorted((tick for tick in every if math.isfinite(tick.place)), key=lambda tick: -tick.place)
    at_one = "the error (root mean square) can double" if result.of == "squared" else "every row can be made wrong"
    return WorstCase(
        curves=curves,
        ticks=tuple(ticks[:TICK_LIMIT]),
        others=max(0, len(ticks) - TICK_LIMIT),
        unit=f"the distance at which {at_one}",
        finding=_finding(curves[0], ticks),
        other_losses=_other_losses(curves[1:], ticks),
    )


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


def _shift(ticks: list[Tick]) -> tuple[str, float]:
    """The shift that sentences speak of: as large as that of the environment furthest out, or else a quarter of R."""
    if ticks and ticks[0].place > 0:
        name = among(ticks[0].name, [tick.name for tick in ticks], TICK_LETTERS)
        return f"A shift as large as {name}'s", ticks[0].place
    return "A shift of a quarter of R", 0.25


def _finding(curve: Curve, ticks: list[Tick]) -> str:
    shift, place = _shift(ticks)
    now, then = curve.words(0.0), curve.words(place)
    if curve.of == "zero_one":
        return f"{shift} could at worst make {then} of the rows wrong ({now} now)"
    return f"{shift} could at worst raise the {wording.LOSS_NAMES[curve.of]} from {now} to {then}"


def _other_losses(curves: tuple[Curve, ...], ticks: list[Tick]) -> str:
    """What the same shift does to the other losses; empty if there are none."""
    _, place = _shift(ticks)
    raised = [f"the {wording.LOSS_NAMES[c.of]} from {c.words(0.0)} to {c.words(place)}" for c in curves]
    return f"The same shift could raise {wording.listed(raised)}." if raised else ""


def in_short(audit: Audit) -> str:
    """One sentence for the terminal, or nothing."""
    numbers = worst_case(audit)
    if numbers is None:
        return ""
    known = bool(numbers.ticks) and numbers.ticks[0].place > 0
    return f"{numbers.finding}." if known else f"{numbers.finding} (R is {numbers.unit})."


def markup(audit: Audit, figure: Figure) -> str:
    """The curve with its band and the environments' distances; the other losses; what moving inputs reaches."""
    numbers = worst_case(audit)
    if numbers is None:
        return ""
    band = "; band: 95 %, from rows drawn again. " if numbers.curves[0].has_band else ". "
    caption = (
        "Line: the largest mean loss that any shift of the representation of this size could cause, labels unchanged"
        f"{band}R, one unit, is {numbers.unit}. "
    )
    if numbers.ticks:
        caption += (
            f"Dots and dashed lines: how far each {audit.data.env_name} is from all others together, label by label, "
            "in the directions that the head looks at, without the distance that chance alone makes."
        )
    if numbers.others:
        caption += f" {wording.count(numbers.others, 'further environment')} closer than these not shown."
    body = figure("main_curve", numbers, caption)
    if len(numbers.curves) > 1:
        dashed = f" Dashed: the furthest {audit.data.env_name}." if numbers.ticks else ""
        body += figure("side_by_side", numbers, numbers.other_losses + dashed)
    inputs = reached(audit)
    if inputs is not None:
        body += f"<h3>{escaped(inputs.finding)}</h3>\n" + figure(
            "from_inputs",
            inputs,
            "Orange: the loss after the inputs of some rows were moved by gradient ascent, over the distance their "
            "representation moved. Blue: the worst case in the representation at the same distance, which nothing can "
            "exceed. The nearer the two, the less the representation's worst case exaggerates.",
        )
    return section(
        "How bad it can get in an environment nobody has seen", numbers.finding, body + note(explanation("worst_case"))
    )
