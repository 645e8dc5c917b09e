"""Charts as inline SVG; what is drawn comes ready from :mod:`.findings`. Heat maps are in :mod:`.heat_maps`.

Charts are drawn in stand-in colours, which :func:`svg` replaces by the page's CSS variables: the same drawing then
serves the light page, the dark page and the printed one, without any JavaScript. Each chart has a ``wide`` form, and
a ``narrow`` one for phones.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import altair as alt
import vl_convert

from invariscope import wording
from invariscope.report.findings import Cloud, Drivers


def _shades(code: str, name: str, shades: str) -> dict[str, tuple[str, str]]:
    return {f"#{code}{code}{k:02x}": (f"{name}-{k}", shade) for k, shade in enumerate(shades.split())}


#: Stand-in colour → CSS variable and the colour it has where the page's style is missing.
COLOURS = {
    "#010101": ("ink", "#1d2329"),
    "#020202": ("muted", "#5b6570"),
    "#030303": ("line", "#d5dae0"),
    "#040404": ("over", "#d55e00"),
    "#050505": ("calm", "#0072b2"),
    "#060606": ("cloud", "#9fb4c7"),
    **_shades("07", "heat", "#f4f6f8 #fdead2 #fbd3a3 #f6b26f #ec8a3c #d55e00 #8f3a00"),
    **_shades("08", "heat-ink", "#5b6570 #1d2329 #1d2329 #1d2329 #1d2329 #ffffff #ffffff"),
    **_shades("09", "tilt", "#0072b2 #7fb8de #dcebf6 #f4f6f8 #fdead2 #f6b26f #c65700"),
    **_shades("0a", "tilt-ink", "#ffffff #1d2329 #1d2329 #5b6570 #1d2329 #1d2329 #ffffff"),
    **_shades("0b", "cover", "#ffffff #e3f1ec #b7ddcf #74c0a5 #00785a"),
    **_shades("0c", "cover-ink", "#5b6570 #1d2329 #1d2329 #1d2329 #ffffff"),
}
INK, MUTED, LINE, OVER, CALM, CLOUD = list(COLOURS)[:6]
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
WIDE, NARROW = 900, 356
#: Readers' fonts may be wider than the one that a chart is laid out with: by this factor; and room for a letter.
WIDER, LETTER = 1.2, 7.6
CELL = re.compile(r'<path aria-label="([^"]*)" role="[^"]*" aria-roledescription="cell"([^>]*)/>')


def svg(chart: alt.TopLevelMixin, *, label: str) -> str:
    """A chart as one ``<svg>`` element without identifiers, scripts or addresses; ``label`` is read out aloud."""
    text: str = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=_version())
    for stand_in, (name, shade) in COLOURS.items():
        text = text.replace(stand_in, f"var(--{name}, {shade})")
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    # What a cell of a heat map says, a browser shows when it is pointed at.
    text = CELL.sub(r"<path\2><title>\1</title></path>", text).replace("<title></title>", "")
    # Every mark would be read out as a number without its place: one sentence for the whole chart says more.
    text = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(label)}" ', 1)


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
            axis=alt.Axis(labelLimit=limit / WIDER, minExtent=room_for(data.columns, limit)),
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
    return styled(alt.layer(cloud, rule, label).properties(height=190), narrow)


def styled(chart: Any, narrow: bool, *, fit: bool = True) -> alt.TopLevelMixin:
    """A chart in the page's letters and lines; with ``fit``, as wide as the page."""
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


def room_for(names: tuple[str, ...], limit: float) -> float:
    """Pixels for the longest of these names on an axis, at most ``limit``."""
    return min(limit, LETTER * max(map(len, names)))


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _version() -> str:
    """The Vega-Lite that this Altair speaks, as vl-convert names it ("6.4"), or the newest that vl-convert has."""
    wanted = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    known: list[str] = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else known[-1]
