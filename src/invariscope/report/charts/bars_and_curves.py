"""Bars of the features that carry the extra loss, the influence index against its shuffles, and worst-case curves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np

from invariscope import wording
from invariscope.report.charts.svg import CALM, CLOUD, GUARD, INK, MUTED, NARROW, OVER, WIDE, fitted, room_for, styled
from invariscope.report.parts.drivers import Drivers
from invariscope.report.parts.influence import Cloud
from invariscope.report.parts.worst_case import Curve, Reached, WorstCase

#: Height of the main curve, of a small one, and of the line of one environment.
MAIN, SMALL, STEP = 210, 150, 20
#: Pixels for the numbers and the title of a vertical axis.
AXIS = 52.0


def bars(data: Drivers, *, narrow: bool = False) -> alt.TopLevelMixin:
    """Features that carry the extra loss, largest first."""
    limit = 120.0 if narrow else 260.0
    names = fitted(data.columns, limit)
    values = [
        {"column": name, "share": 100 * share, "text": wording.percent(share)}
        for name, share in zip(names, data.shares, strict=True)
    ]
    # Room on the right for the number at the end of the longest bar.
    scale = alt.Scale(domain=[0, 100 * max(data.shares) * (1.22 if narrow else 1.1)], nice=False)
    named = alt.Axis(labelLimit=GUARD * limit, minExtent=room_for(names, limit))
    across = alt.Axis(tickCount=4 if narrow else 8)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("column:N", sort=None, title=None, axis=named),
        # not stacked: that would look names up among those of JavaScript, and draw nothing for "constructor"
        x=alt.X("share:Q", scale=scale, stack=None, title="share of the extra loss (%)", axis=across),
    )
    # Square corners: Vega draws round ones by clipping with identifiers, and those of two drawings would clash.
    shares = base.mark_bar(color=CALM, size=15)
    numbers = base.mark_text(align="left", dx=5, color=INK, fontSize=12).encode(text="text:N")
    return styled(alt.layer(shares, numbers).properties(height=26 * len(values)), narrow)


def histogram(data: Cloud, *, narrow: bool = False) -> alt.TopLevelMixin:
    """The influence index of the audited environments against that of shuffled ones."""
    values = [
        {"low": low, "high": high, "count": count}
        for (low, high), count in zip(pairwise(data.edges.tolist()), data.counts.tolist(), strict=True)
    ]
    left, right = min(data.value, float(data.edges[0])), max(data.value, float(data.edges[-1]))
    pad = 0.06 * ((right - left) or 1.0)
    scale = alt.Scale(domain=[left - pad, right + pad], nice=False, zero=False)
    top = float(data.counts.max())
    height = alt.Scale(domain=[0, 1.25 * top], nice=False)
    title = f"influence index V (logarithmic{'' if narrow else '; further right = further apart'})"
    shuffles = alt.Axis(title=f"shuffles (of {data.draws:,})", tickCount=4, grid=True)
    cloud = alt.Chart(alt.InlineData(values=values)).mark_rect(color=CLOUD)
    cloud = cloud.encode(
        x=alt.X("low:Q", scale=scale, title=title, axis=alt.Axis(tickCount=5 if narrow else 9)),
        x2="high:Q",
        y=alt.Y("count:Q", scale=height, axis=shuffles),
        y2=alt.datum(0),
    )
    where = (data.value - left + pad) / (right - left + 2 * pad)
    seen = {"x": data.value, "y": 1.25 * top, "text": f"these environments: {wording.number(data.value)}"}
    marked = alt.Chart(alt.InlineData(values=[seen]))
    rule = marked.mark_rule(color=OVER, strokeWidth=2.5).encode(x=alt.X("x:Q", scale=scale))
    label = marked.mark_text(
        align="right" if where > 0.5 else "left",
        dx=-7 if where > 0.5 else 7,
        baseline="top",
        color=INK,
        fontSize=12,
        fontWeight="bold",
    ).encode(x=alt.X("x:Q", scale=scale), y=alt.Y("y:Q", scale=height), text="text:N")
    return styled(alt.layer(cloud, rule, label).properties(height=190), narrow)


def main_curve(data: WorstCase, *, narrow: bool = False) -> alt.TopLevelMixin:
    """The headline's loss with its band; under it, one line for every environment with its distance as a dot."""
    limit = 110.0 if narrow else 200.0
    names = fitted([tick.name for tick in data.ticks], limit)
    left = max(AXIS, room_for(names, limit)) if names else AXIS
    width = (NARROW if narrow else WIDE) - left - 14
    curve = data.curves[0]
    scale = _scale(data)
    above = _lines(curve, scale, data, left).properties(width=width, height=MAIN)
    if not names:
        return styled(above, narrow, fit=False)
    values = [{"name": name, "place": tick.place} for name, tick in zip(names, data.ticks, strict=True)]
    named = alt.Axis(labelLimit=GUARD * limit, minExtent=left, maxExtent=left)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("place:Q", scale=scale, axis=None),
        y=alt.Y("name:N", sort=None, title=None, axis=named),
    )
    stems = base.mark_rule(color=CLOUD, strokeWidth=1.5).encode(x2=alt.datum(0))
    dots = base.mark_circle(color=OVER, size=64, opacity=1)
    strip = alt.layer(stems, dots).properties(width=width, height=STEP * len(values))
    return styled(alt.vconcat(above, strip, spacing=8), narrow, fit=False)


def side_by_side(data: WorstCase, *, narrow: bool = False) -> alt.TopLevelMixin:
    """All losses beside each other (on a phone below each other), with the furthest environment marked in each."""
    count = len(data.curves)
    across = 1 if narrow else count
    width = ((NARROW if narrow else WIDE) - 12 * (across - 1)) / across - AXIS - 8
    scale = _scale(data)
    panels = [
        _lines(curve, scale, data, AXIS, furthest_only=True).properties(width=width, height=SMALL)
        for curve in data.curves
    ]
    joined = alt.vconcat(*panels, spacing=14) if narrow else alt.hconcat(*panels, spacing=12)
    return styled(joined.resolve_scale(x="independent", y="independent"), narrow, fit=False)


def from_inputs(data: Reached, *, narrow: bool = False) -> alt.TopLevelMixin:
    """The worst case in the representation, and what inputs moved by gradient ascent reach of it."""
    values = [
        {"place": float(place), "value": float(value), "of": name}
        for name, line in (("in the representation", data.ceiling), ("reached from inputs", data.reached))
        for place, value in zip(data.places, line, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("place:Q", title="distance that the representation moves (in units of R)", axis=alt.Axis(tickCount=7)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5, grid=True)),
        color=alt.Color("of:N", scale=alt.Scale(range=[CALM, OVER]), legend=None),
    )
    ends = base.transform_filter(f"datum.place == {float(data.places[-1])!r}")
    names = ends.mark_text(align="right", dy=-9, dx=-4, fontSize=12, fontWeight="bold").encode(text="of:N")
    drawn = alt.layer(base.mark_line(strokeWidth=2.2), base.mark_circle(size=36, opacity=1), names)
    return styled(
        drawn.properties(height=SMALL + 30, title=alt.TitleParams(data.title, anchor="start", fontSize=12, color=INK)),
        narrow,
    )


def _scale(data: WorstCase) -> alt.Scale:
    last = float(data.curves[0].places[-1])
    return alt.Scale(domain=[0, max([last, *(tick.place for tick in data.ticks)])], nice=False)


def _lines(curve: Curve, scale: alt.Scale, data: WorstCase, left: float, furthest_only: bool = False) -> Any:
    scaled = (curve.factor * line for line in (curve.value, curve.low, curve.high))
    values = [
        {"place": place, "value": value, "low": low, "high": high}
        for place, value, low, high in np.column_stack([curve.places, *scaled]).tolist()
    ]
    across = "distance of the shift (1 = R)" if furthest_only else "distance of the shift (in units of R, see below)"
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("place:Q", scale=scale, title=across, axis=alt.Axis(tickCount=4 if furthest_only else 7))
    )
    axis = alt.Axis(tickCount=5, grid=True, minExtent=left, maxExtent=left, titleAnchor="start")
    height = alt.Scale(zero=True, nice=True, domainMax=100) if curve.of == "zero_one" else alt.Scale(zero=True)
    band = base.mark_area(color=CLOUD, opacity=0.45).encode(
        y=alt.Y("low:Q", scale=height, title=None, axis=axis), y2="high:Q"
    )
    line = base.mark_line(color=CALM, strokeWidth=2.2).encode(y=alt.Y("value:Q", scale=height))
    ticks = data.ticks[:1] if furthest_only else data.ticks
    dashes = alt.Chart(alt.InlineData(values=[{"place": tick.place} for tick in ticks]))
    rules = dashes.mark_rule(color=OVER, strokeDash=[3, 3], strokeWidth=1, opacity=0.7)
    marks = [rules.encode(x=alt.X("place:Q", scale=scale))] if ticks else []
    title = alt.TitleParams(curve.title, anchor="start", fontSize=12, color=INK, subtitleColor=MUTED)
    return alt.layer(*marks, band, line, title=title)
