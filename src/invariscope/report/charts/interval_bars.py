"""Interval bars in the cells of a table, on one axis: SVG in percentages, which stretches with its column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from invariscope import wording
from invariscope.report.markup import escaped
from invariscope.results import Estimate


@dataclass(frozen=True)
class Axis:
    """The common axis of the interval bars; positions are percentages of its width."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def position(self, share: float) -> float:
        """Where ``share`` is drawn: 4 to 96, values beyond the axis at its ends."""
        inside = min(max(share, self.low), self.high)
        return 4 + 92 * (inside - self.low) / (self.high - self.low)


def axis_of(estimates: Sequence[Estimate], margin: float) -> Axis:
    """An axis with 0, the margin and every estimate; a very wide interval is cut so as not to squeeze the rest.

    So is an estimate that cannot be bounded.
    """
    values = [
        estimate.value if wording.bounded(estimate.interval) else min(estimate.value, wording.UNBOUNDED)
        for estimate in estimates
        if math.isfinite(estimate.value)
    ]
    lows = [estimate.interval[0] for estimate in estimates if math.isfinite(estimate.interval[0])]
    highs = [estimate.interval[1] for estimate in estimates if math.isfinite(estimate.interval[1])]
    top = max([2 * margin, *values])
    high = max(top, min(max(highs, default=top), 2.5 * top))
    bottom = min([0.0, *values])
    low = min(bottom, max(min(lows, default=0.0), -0.5 * high))
    return Axis(low, high, ticks(low, high))


def ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Round numbers between ``low`` and ``high``, zero among them when it lies there.

    >>> ticks(-0.03, 0.6)
    (0.0, 0.2, 0.4, 0.6)
    """
    for power in range(-6, 13):
        for step in (1, 2, 5):
            width = step * 10.0**power
            first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
            if last - first < most:
                return tuple(round(k * width, 12) + 0.0 for k in range(first, last + 1))
    return (0.0,)


def bar(estimate: Estimate, standing: str, axis: Axis, margin: float) -> str:
    """One interval bar, with the lines of zero and of the margin."""
    marks = "".join(
        f'<line class="{kind}" x1="{axis.position(share):.2f}%" x2="{axis.position(share):.2f}%" y1="0" y2="30"/>'
        for kind, share in (("zero", 0.0), ("margin", margin))
    )
    low, high = estimate.interval
    if math.isfinite(low) and math.isfinite(high):
        left, right = axis.position(low), axis.position(high)
        marks += f'<line class="range {standing}" x1="{left:.2f}%" x2="{right:.2f}%" y1="15" y2="15"/>'
        if low < axis.low:
            marks += f'<svg x="{left:.2f}%" y="15" class="{standing}"><path d="M1,-5 L-6,0 L1,5 Z"/></svg>'
        if high > axis.high:
            marks += f'<svg x="{right:.2f}%" y="15" class="{standing}"><path d="M-1,-5 L6,0 L-1,5 Z"/></svg>'
    if math.isfinite(estimate.value):
        marks += f'<circle class="{standing}" cx="{axis.position(estimate.value):.2f}%" cy="15" r="4.5"/>'
    label = escaped(wording.change(estimate.value, estimate.interval, margin))
    return f'<svg width="100%" height="30" role="img" aria-label="{label}">{marks}</svg>'


def ticks_above(axis: Axis, margin: float) -> str:
    """Tick labels above the bars, and the margin above those."""
    texts = "".join(
        f'<text x="{axis.position(tick):.2f}%" y="29" text-anchor="middle">'
        f"{wording.percent(tick) if tick == axis.ticks[-1] else wording.points(tick)}</text>"
        for tick in axis.ticks
    )
    place = axis.position(margin)
    anchor = "start" if place < 30 else "end" if place > 70 else "middle"
    return (
        f'<svg width="100%" height="34" aria-hidden="true">{texts}'
        f'<text x="{place:.2f}%" y="12" text-anchor="{anchor}">margin {wording.exactly(margin)}</text></svg>'
    )
