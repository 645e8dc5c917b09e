"""One self-contained page for an audit: opens offline, needs no JavaScript, prints, light and dark."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.files import write_atomically
from invariscope.report import charts, curves, heat_maps, record, sections, style, transport_section, worst_case_section

DRAWINGS: dict[str, Callable[..., Any]] = {
    "matrix": heat_maps.matrix,
    "gaps": heat_maps.gaps,
    "overlaps": heat_maps.overlaps,
    "bars": charts.bars,
    "histogram": charts.histogram,
    "main_curve": curves.main_curve,
    "side_by_side": curves.side_by_side,
    "from_inputs": curves.from_inputs,
}


def render(audit: Audit) -> str:
    """The whole page as text; it loads nothing from anywhere."""
    title = f"{audit.state}: {audit.data.target_name} by {audit.data.env_name} (invariance audit)"
    parts = [
        sections.banner(audit),
        sections.environments(audit),
        sections.disagreement(audit, figure),
        transport_section.transport(audit, figure),
        sections.drivers(audit, figure),
        sections.influence(audit, figure),
        worst_case_section.worst_case(audit, figure),
        sections.criteria(audit),
        sections.left_out(audit),
        sections.provenance(audit),
        sections.glossary(),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{sections.escaped(title)}</title>\n<style>{style.PAGE}</style>\n</head>\n<body>\n"
        f'<main class="invariscope"><div class="sheet">\n{_top(audit)}{"".join(parts)}</div></main>\n</body>\n</html>\n'
    )


def fragment(audit: Audit) -> str:
    """The verdict and the table of environments, for a notebook cell."""
    return (
        f'<div class="invariscope"><style>{style.FRAGMENT}</style><div class="sheet">\n'
        f"{_top(audit)}{sections.banner(audit)}{sections.environments(audit)}</div></div>\n"
    )


def write(audit: Audit, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``; an older page stays whole until the new one is complete."""
    return write_atomically(path, render(audit))


def figure(name: str, found: Any, caption: str, **options: Any) -> str:
    """A chart in its wide and its narrow form; the style shows the one that fits."""
    draw = DRAWINGS[name]
    wide, narrow = (charts.svg(draw(found, narrow=narrow, **options), label=found.finding) for narrow in (False, True))
    kind = "beside" if name == "matrix" else name
    return (
        f'<figure class="{kind}">\n<div class="wide">{wide}</div>\n<div class="narrow">{narrow}</div>\n'
        f"<figcaption>{sections.escaped(caption)}</figcaption>\n</figure>\n"
    )


def _top(audit: Audit) -> str:
    made = wording.moment(audit.settings.created)
    return (
        f'<div class="top"><span>Invariance audit · {sections.escaped(record.outline(audit))}</span>'
        f"<span>{sections.escaped(made)}</span></div>\n"
    )
