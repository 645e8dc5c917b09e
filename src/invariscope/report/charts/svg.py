"""Charts as inline SVG: colours, letters and lines of all of them.

Charts are drawn in stand-in colours, which :func:`svg` replaces by the page's CSS variables: the same drawing then
serves the light page, the dark page and the printed one, without any JavaScript. Each chart has a ``wide`` form, and
a ``narrow`` one for phones.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import altair as alt

from invariscope.report.charts.renderer import RENDERER
from invariscope.shortening import cells, distinct


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
#: Room for a letter: readers' fonts may be wider than the one that a chart is laid out with. Names are shortened by it
#: before they are drawn; only one of capitals, which are wider still, may be cut at this many times its room.
LETTER, GUARD = 7.6, 1.3
TAG, ATTRIBUTE = re.compile(r"<([\w:]+)([^<>]*?)(/?)>"), re.compile(r' ([\w:-]+)="([^"]*)"')


def svg(chart: alt.TopLevelMixin, *, label: str) -> str:
    """A chart as one ``<svg>`` element without identifiers, scripts or addresses; ``label`` is read out aloud."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    text = TAG.sub(_tag, RENDERER.svg(chart.to_dict(), version))
    return text.replace("<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1)


def _tag(tag: re.Match[str]) -> str:
    """One tag with the page's colours. Only attributes are looked at: users' words stand between the tags."""
    name, attributes, end = tag[1], dict(ATTRIBUTE.findall(tag[2])), tag[3]
    # Every mark would be read out as a number without its place: one sentence for the whole chart says more.
    kept = {key: value for key, value in attributes.items() if not re.match(r"xmlns|aria-|role$", key)}
    shown = "".join(f' {key}="{_colour(value)}"' for key, value in kept.items())
    if attributes.get("aria-roledescription") == "cell" and attributes.get("aria-label"):
        # What a cell of a heat map says, a browser shows when it is pointed at.
        return f"<{name}{shown}><title>{attributes['aria-label']}</title></{name}>"
    return f"<{name}{shown}{end}>"


def _colour(value: str) -> str:
    return "var(--{}, {})".format(*COLOURS[value]) if value in COLOURS else value


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


def fitted(names: Sequence[str], pixels: float) -> tuple[str, ...]:
    """Names for an axis, shortened to this room so that they stay apart."""
    return distinct(names, int(pixels / LETTER))


def room_for(names: Sequence[str], limit: float) -> float:
    """Pixels for the longest of these names on an axis, at most ``limit``."""
    return min(limit, LETTER * max(map(cells, names)))
