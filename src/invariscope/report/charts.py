"""Charts as inline SVG. The only place that knows Altair; what is drawn comes ready from :mod:`.findings`.

Charts are drawn in stand-in colours, which :func:`svg` replaces by the page's CSS variables: the same drawing then
serves the light page, the dark page and the printed one, without any JavaScript. Each chart has a ``wide`` form, and
a ``narrow`` one for phones.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import vl_convert

from invariscope import wording
from invariscope.report.findings import Cloud, Disagreement, Drivers

#: Stand-in colour → CSS variable and the colour it has where the page's style is missing.
COLOURS = {
    "#010101": ("ink", "#1d2329"),
    "#020202": ("muted", "#5b6570"),
    "#030303": ("line", "#d5dae0"),
    "#040404": ("over", "#d55e00"),
    "#050505": ("calm", "#0072b2"),
    "#060606": ("cloud", "#9fb4c7"),
    **{
        f"#0707{k:02x}": (f"heat-{k}", shade)
        for k, shade in enumerate(("#f4f6f8", "#fdead2", "#fbd3a3", "#f6b26f", "#ec8a3c", "#d55e00", "#8f3a00"))
    },
    **{
        f"#0808{k:02x}": (f"heat-ink-{k}", shade)
        for k, shade in enumerate(("#5b6570", "#1d2329", "#1d2329", "#1d2329", "#1d2329", "#ffffff", "#ffffff"))
    },
}
INK, MUTED, LINE, OVER, CALM, CLOUD = list(COLOURS)[:6]
HEAT_STEPS = 7
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
WIDE, NARROW = 900, 356
#: Readers' fonts may be wider than the one that a chart is laid out with: by this factor; and room for a letter.
WIDER, LETTER = 1.2, 7.6
#: The heat map leaves room for its explanation beside it.
MATRIX = 640


def svg(chart: alt.TopLevelMixin, *, label: str) -> str:
    """A chart as one ``<svg>`` element without identifiers, scripts or addresses; ``label`` is read out aloud."""
    text: str = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=_version())
    for stand_in, (name, shade) in COLOURS.items():
        text = text.replace(stand_in, f"var(--{name}, {shade})")
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    # Every mark would be read out as a number without its place: one sentence for the whole chart says more.
    text = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(label)}" ', 1)


def matrix(data: Disagreement, *, margin: float, narrow: bool = False) -> alt.TopLevelMixin:
    """Who disagrees with whom: a heat map with the number in every cell."""
    size = len(data.names)
    steps = heat_steps(margin)
    cells = [
        {
            "served": data.names[a],
            "head": data.names[b],
            "step": int(np.searchsorted(steps, value, side="right")) if np.isfinite(value) and a != b else 0,
            "text": "own" if a == b else cell(value),
        }
        for a, row in enumerate(data.values)
        for b, value in enumerate(row.tolist())
    ]
    room, limit = (NARROW, 96.0) if narrow else (MATRIX, 190.0)
    label = _room(data.names, limit)
    side = min((room - label - 34) / size, 64 if narrow else 88)
    upright = _fits(data.names, side)
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=alt.X(
            "head:N",
            sort=None,
            scale=alt.Scale(padding=0.04),
            title="… served by the head of",
            axis=alt.Axis(
                orient="top",
                labelAngle=0 if upright else -50,
                labelAlign="center" if upright else "left",
                labelLimit=80,
                titlePadding=8 if upright else 26,
            ),
        ),
        y=alt.Y(
            "served:N",
            sort=None,
            scale=alt.Scale(padding=0.04),
            title="rows of …",
            axis=alt.Axis(
                labelLimit=limit / WIDER, minExtent=label, titleAngle=0, titleAlign="right", titleX=-6, titleY=-10
            ),
        ),
    )
    colour = alt.Color(
        "step:O",
        legend=None,
        scale=alt.Scale(domain=list(range(HEAT_STEPS)), range=[f"#0707{k:02x}" for k in range(HEAT_STEPS)]),
    )
    ink = alt.Color(
        "step:O",
        legend=None,
        scale=alt.Scale(domain=list(range(HEAT_STEPS)), range=[f"#0808{k:02x}" for k in range(HEAT_STEPS)]),
    )
    squares = base.mark_rect(cornerRadius=2).encode(fill=colour)
    numbers = base.mark_text(fontSize=min(13, max(8.5, side / 2.7))).encode(text="text:N", fill=ink)
    chart = alt.layer(squares, numbers).resolve_scale(fill="independent")
    return _styled(chart.properties(width=side * size, height=min(side, 38) * size), narrow, fit=False)


def heat_steps(margin: float) -> list[float]:
    """Where shades change, as shares: the margin first, then round numbers, always one less than there are shades.

    >>> heat_steps(0.02)
    [0.02, 0.05, 0.1, 0.25, 0.5, 1.0]
    """
    round_numbers = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0]
    above = [step for step in round_numbers if step > margin] or [margin * k for k in (2, 4, 8, 16, 32)]
    steps = [margin, *above][: HEAT_STEPS - 1]
    return steps + [steps[-1] * 2**k for k in range(1, HEAT_STEPS - len(steps))]


def cell(value: float) -> str:
    """A percentage short enough for a cell.

    >>> cell(0.384), cell(-0.02), cell(0.004), cell(31.0)
    ('+38', '−2', '0', '>999')
    """
    if not np.isfinite(value):
        return wording.MISSING
    whole = round(100 * value)
    return ">999" if whole > 999 else f"{whole:+d}".replace("-", wording.MINUS) if whole else "0"


def bars(data: Drivers, *, narrow: bool = False) -> alt.TopLevelMixin:
    """Features that carry the extra loss, largest first."""
    values = [
        {"column": column, "share": 100 * share, "text": wording.percent(share)}
        for column, share in zip(data.columns, data.shares, strict=True)
    ]
    # Room on the right for the number at the end of the longest bar.
    scale = alt.Scale(domain=[0, 100 * max(data.shares) * (1.22 if narrow else 1.1)], nice=False)
    limit = 120.0 if narrow else 260.0
    base = alt.Chart(alt.InlineData(values=values)).encode(
        y=alt.Y(
            "column:N",
            sort=None,
            title=None,
            axis=alt.Axis(labelLimit=limit / WIDER, minExtent=_room(data.columns, limit)),
        ),
        x=alt.X(
            "share:Q",
            scale=scale,
            axis=alt.Axis(
                title="share of the extra loss (%)",
                tickCount=4 if narrow else 8,
            ),
        ),
    )
    # Square corners: Vega draws round ones by clipping with identifiers, and those of two drawings would clash.
    shares = base.mark_bar(color=CALM, size=15)
    numbers = base.mark_text(align="left", dx=5, color=INK, fontSize=12).encode(text="text:N")
    return _styled(alt.layer(shares, numbers).properties(height=26 * len(values)), narrow)


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
    cloud = (
        alt.Chart(alt.InlineData(values=values))
        .mark_rect(color=CLOUD)
        .encode(
            x=alt.X(
                "low:Q",
                scale=scale,
                title="influence index V (logarithmic; further right = further apart)"
                if not narrow
                else "influence index V (logarithmic)",
                axis=alt.Axis(tickCount=5 if narrow else 9),
            ),
            x2="high:Q",
            y2=alt.datum(0),
            y=alt.Y(
                "count:Q", scale=height, title=f"shuffles (of {data.draws:,})", axis=alt.Axis(tickCount=4, grid=True)
            ),
        )
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
    return _styled(alt.layer(cloud, rule, label).properties(height=190), narrow)


def _styled(chart: Any, narrow: bool, *, fit: bool = True) -> alt.TopLevelMixin:
    if fit:
        chart = chart.properties(
            width=NARROW if narrow else WIDE, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
        )
    styled: alt.TopLevelMixin = (
        chart.properties(background="transparent", padding={"left": 2, "right": 8, "top": 4, "bottom": 4})
        .configure(font=FONT)
        .configure_view(strokeWidth=0)
        .configure_axis(
            labelColor=INK,
            titleColor=MUTED,
            domainColor=LINE,
            tickColor=LINE,
            gridColor=LINE,
            grid=False,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            titlePadding=8,
            labelPadding=5,
        )
        .configure_axisBand(ticks=False, domain=False)
    )
    return styled


def _room(names: tuple[str, ...], limit: float) -> float:
    """Pixels for the longest of these names on an axis, at most ``limit``."""
    return min(limit, LETTER * max(map(len, names)))


def _fits(names: tuple[str, ...], side: float) -> bool:
    """Do the names stand upright above columns this wide?"""
    return max(map(len, names)) * LETTER <= side


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _version() -> str:
    """The Vega-Lite that this Altair speaks, as vl-convert names it ("6.4"), or the newest that vl-convert has."""
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known: list[str] = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else known[-1]
