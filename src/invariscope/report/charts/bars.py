"""Bars: the features that carry the extra loss, and the influence index against its shuffles."""

from __future__ import annotations

from itertools import pairwise

import altair as alt

from invariscope import wording
from invariscope.report.charts.svg import CALM, CLOUD, INK, OVER, WIDER, room_for, styled
from invariscope.report.parts.drivers import Drivers
from invariscope.report.parts.influence import Cloud


def bars(data: Drivers, *, narrow: bool = False) -> alt.TopLevelMixin:
    """Features that carry the extra loss, largest first."""
    values = [
        {"column": column, "share": 100 * share, "text": wording.percent(share)}
        for column, share in zip(data.columns, data.shares, strict=True)
    ]
    # Room on the right for the number at the end of the longest bar.
    scale = alt.Scale(domain=[0, 100 * max(data.shares) * (1.22 if narrow else 1.1)], nice=False)
    limit = 120.0 if narrow else 260.0
    named = alt.Axis(labelLimit=limit / WIDER, minExtent=room_for(data.columns, limit))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y("column:N", sort=None, title=None, axis=named),
        x=alt.X(
            "share:Q", scale=scale, axis=alt.Axis(title="share of the extra loss (%)", tickCount=4 if narrow else 8)
        ),
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
