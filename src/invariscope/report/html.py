"""One self-contained page for an audit: opens offline, needs no JavaScript, prints, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report.charts.bars_and_curves import bars, from_inputs, histogram, main_curve, side_by_side
from invariscope.report.charts.heat_maps import gaps, matrix, overlaps
from invariscope.report.charts.svg import svg
from invariscope.report.markup import escaped, with_readable_names
from invariscope.report.parts import (
    banner,
    criteria,
    disagreement,
    drivers,
    environments,
    glossary,
    influence,
    left_out,
    provenance,
    transport,
    worst_case,
)

#: The parts of the page, top to bottom.
PARTS = (
    *(banner, environments, disagreement, transport, drivers, influence, worst_case),
    *(criteria, left_out, provenance, glossary),
)
DRAWN = (matrix, gaps, overlaps, bars, histogram, main_curve, side_by_side, from_inputs)
DRAWINGS: dict[str, Callable[..., Any]] = {draw.__name__: draw for draw in DRAWN}
#: Where the rules for the page around the report begin in the style sheet; a notebook does without them.
PAGE_ONLY = "/* --- the page only"


@cache
def style_sheet() -> str:
    """The style of the page, from ``page.css``."""
    return resources.files("invariscope.report").joinpath("page.css").read_text(encoding="utf-8")


def render(audit: Audit) -> str:
    """The whole page as text; it loads nothing from anywhere."""
    audit = with_readable_names(audit)
    title = f"{audit.state}: {audit.data.target_name} by {audit.data.env_name} (invariance audit)"
    body = _top(audit) + "".join(part.markup(audit, figure) for part in PARTS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escaped(title)}</title>\n<style>\n{style_sheet()}</style>\n</head>\n<body>\n"
        f'<main class="invariscope"><div class="sheet">\n{body}</div></main>\n</body>\n</html>\n'
    )


def fragment(audit: Audit) -> str:
    """The verdict and the table of environments, for a notebook cell."""
    audit = with_readable_names(audit)
    body = _top(audit) + banner.markup(audit, figure) + environments.markup(audit, figure)
    style, _, _ = style_sheet().partition(PAGE_ONLY)
    return f'<div class="invariscope"><style>\n{style}</style><div class="sheet">\n{body}</div></div>\n'


def figure(name: str, numbers: Any, caption: str, **options: Any) -> str:
    """A chart in its wide and its narrow form; the style shows the one that fits."""
    draw = DRAWINGS[name]
    wide, narrow = (svg(draw(numbers, narrow=narrow, **options), label=numbers.finding) for narrow in (False, True))
    kind = "beside" if name == "matrix" else name
    return (
        f'<figure class="{kind}">\n<div class="wide">{wide}</div>\n<div class="narrow">{narrow}</div>\n'
        f"<figcaption>{escaped(caption)}</figcaption>\n</figure>\n"
    )


def _top(audit: Audit) -> str:
    made = wording.moment(audit.settings.created)
    return (
        f'<div class="top"><span>Invariance audit · {escaped(banner.outline(audit))}</span>'
        f"<span>{escaped(made)}</span></div>\n"
    )
