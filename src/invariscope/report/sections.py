"""The parts of the page, top to bottom: each takes an audit and gives markup, or nothing if it has nothing to say."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Any

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.criteria.regret.regret import LEVEL
from invariscope.report import data, findings, record
from invariscope.report.data import Axis, EnvironmentRow
from invariscope.report.glossary import GLOSSARY

#: Environments shown in a page's table; the frame has them all.
TABLE_LIMIT = 60
SYMBOLS = {
    "NOT INVARIANT": "✕",
    "INVARIANT": "✓",
    "DIFFERENT BUT NEGLIGIBLE": "≈",
    "CANNOT TELL YET": "?",
    "UNINFORMATIVE": "∅",
}


def escaped(text: Any) -> str:
    """Any text as markup that shows just that text, on one line."""
    return html.escape(wording.clean(text))


def section(kicker: str, finding: str, body: str) -> str:
    """A part of the page: what it is about, what it shows, and the showing."""
    return f'<section>\n<p class="kicker">{escaped(kicker)}</p>\n<h2>{escaped(finding)}</h2>\n{body}</section>\n'


def banner(audit: Audit) -> str:
    """The verdict: state, headline, at most three sentences, and the numbers that it rests on."""
    sentences = [s for s in audit.sentences if s] or [audit.verdict]
    told = "".join(f"<p>{escaped(sentence)}</p>\n" for sentence in (*sentences, audit.algorithm) if sentence)
    facts = "".join(
        f"<div><dt>{escaped(what)}</dt><dd>{escaped(value)}</dd></div>\n" for what, value in record.facts(audit)
    )
    state = wording.clean(audit.state)
    return (
        f'<div class="banner {html.escape(state.lower().replace(" ", "-"))}">\n'
        f'<div class="state">{SYMBOLS.get(state, "")} {html.escape(state)}</div>\n'
        f"<h1>{escaped(audit.headline)}</h1>\n{told}"
        + (f'<dl class="facts">\n{facts}</dl>\n' if facts else "")
        + "</div>\n"
    )


def environments(audit: Audit) -> str:
    """The table of environments, worst first, with interval bars on a common axis."""
    rows = data.environments(audit)
    margin = audit.settings.margin
    shown = data.worst_first(rows)[:TABLE_LIMIT]
    axis = data.regret_axis(shown, margin)
    has_regret = any(math.isfinite(row.regret.value) for row in rows)
    columns: list[tuple[str, str, Sequence[str]]] = [("rows", "number other", [f"{row.rows:,.0f}" for row in shown])]
    if any(math.isfinite(row.loss) for row in rows):
        columns.append(("shared head", "number other", wording.aligned([row.loss for row in shown])))
    if "regret" in audit.results:
        columns.append(("own head", "number other", wording.aligned([row.own_head_loss for row in shown])))
        columns.append(
            ("regret (95 %)", "number regret", [wording.change(row.regret.value, row.regret.interval) for row in shown])
        )
    if has_regret:
        columns.append(("", "bar", [_bar(row, axis, margin) for row in shown]))
    if "calibration_variance" in audit.results:
        columns.append(("ECE", "number other", _with_intervals([row.ece for row in shown])))
    if data.overlap_of(audit) is not None:
        columns.append(
            ("overlap", "other", [_stacked(row.overlap or wording.MISSING, row.effective_rows) for row in shown])
        )
    heads = "".join(
        f'<th scope="col" class="{kind}">{_axis(axis, margin) if kind == "bar" else escaped(title)}</th>'
        for title, kind, _ in columns
    )
    body = "".join(
        f'<tr><th scope="row" class="name" title="{escaped(row.name)}"><span>{escaped(row.name)}</span></th>'
        + "".join(f'<td class="{kind}" data-label="{escaped(title)}">{cells[k]}</td>' for title, kind, cells in columns)
        + "</tr>\n"
        for k, row in enumerate(shown)
    )
    caption = _caption(audit, rows, axis if has_regret else None)
    return section(
        f"The environments: {audit.data.target_name} by {audit.data.env_name}",
        data.environments_finding(audit),
        '<div class="scroll"><table class="environments">\n<thead><tr>'
        f'<th scope="col" class="name">{escaped(audit.data.env_name)}</th>'
        f"{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n{caption}",
    )


def _with_intervals(estimates: Sequence[Any]) -> list[str]:
    values = wording.aligned([estimate.value for estimate in estimates])
    spans = [wording.span(estimate.interval, 2) for estimate in estimates]
    return [_stacked(value, span) for value, span in zip(values, spans, strict=True)]


def _stacked(text: str, below: str) -> str:
    """A cell with something smaller under it, if there is anything."""
    return escaped(text) + (f"<small>{escaped(below)}</small>" if below else "")


def _caption(audit: Audit, rows: Sequence[EnvironmentRow], axis: Axis | None) -> str:
    parts = []
    if axis is not None:
        parts.append(
            "Worst first. Bars: regret with its 95 % interval, on one axis from "
            f"{wording.percent(axis.low)} to {wording.percent(axis.high)}; dashed line: the margin of "
            f"{wording.percent(audit.settings.margin)}; an arrow: the interval goes on. "
            "Filled dot: the interval lies wholly over or under the margin; hollow dot: it contains it."
        )
    if data.overlap_of(audit) is not None:
        parts.append("Numbers at the overlap: effective rows, of all rows.")
    if len(rows) > TABLE_LIMIT:
        parts.append(f"{len(rows) - TABLE_LIMIT:,} more environments are not shown: see the frame or the JSON file.")
    found = f'<p class="note">{escaped(" ".join(parts))}</p>\n' if parts else ""
    why = "".join(f'<p class="note">{wording.MISSING} {escaped(r)}</p>\n' for r in record.reasons(audit, tuple(rows)))
    return found + why


def _bar(row: EnvironmentRow, axis: Axis, margin: float) -> str:
    """One interval bar; places are percentages, so that it stretches with its column."""
    marks = (
        f'<line class="zero" x1="{axis.position(0):.2f}%" x2="{axis.position(0):.2f}%" y1="0" y2="30"/>'
        f'<line class="margin" x1="{axis.position(margin):.2f}%" x2="{axis.position(margin):.2f}%" y1="0" y2="30"/>'
    )
    low, high = row.regret.interval
    if math.isfinite(low) and math.isfinite(high):
        left, right = axis.position(low), axis.position(high)
        marks += f'<line class="range {row.standing}" x1="{left:.2f}%" x2="{right:.2f}%" y1="15" y2="15"/>'
        if low < axis.low:
            marks += f'<svg x="{left:.2f}%" y="15" class="{row.standing}"><path d="M1,-5 L-6,0 L1,5 Z"/></svg>'
        if high > axis.high:
            marks += f'<svg x="{right:.2f}%" y="15" class="{row.standing}"><path d="M-1,-5 L6,0 L-1,5 Z"/></svg>'
    if math.isfinite(row.regret.value):
        marks += f'<circle class="{row.standing}" cx="{axis.position(row.regret.value):.2f}%" cy="15" r="4.5"/>'
    label = escaped(wording.change(row.regret.value, row.regret.interval))
    return f'<svg width="100%" height="30" role="img" aria-label="{label}">{marks}</svg>'


def _axis(axis: Axis, margin: float) -> str:
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
        f'<text x="{place:.2f}%" y="12" text-anchor="{anchor}">margin {wording.percent(margin)}</text></svg>'
    )


Draw = Callable[..., str]


def disagreement(audit: Audit, figure: Draw) -> str:
    """Who disagrees with whom: a heat map, or the most extreme pairs where there are too many for one."""
    found = findings.disagreement(audit)
    if found is None:
        return ""
    if len(found.names) <= findings.MATRIX_LIMIT:
        body = figure(
            "matrix",
            found,
            "Read along a row: how much more loss (in %) the rows of that environment would have if another "
            "environment's head served them, not their own. The stronger the colour, the more; grey: under the margin.",
            margin=audit.settings.margin,
        )
    else:
        rows = "".join(
            f'<tr><th scope="row" class="name"><span title="{escaped(pair.served)}">{escaped(pair.served)}</span></th>'
            f'<td class="name"><span title="{escaped(pair.head)}">{escaped(pair.head)}</span></td>'
            f'<td class="number">{wording.percent(pair.value, signed=True)}</td></tr>\n'
            for pair in found.extreme
        )
        total = len(found.names) * (len(found.names) - 1)
        body = (
            '<table class="pairs">\n<thead><tr><th scope="col">rows of</th><th scope="col">served by the head of</th>'
            f'<th scope="col" class="number">extra loss</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n'
            f'<p class="note">The {len(found.extreme)} most extreme of {total:,} pairs.</p>\n'
        )
    return section("Who disagrees with whom", found.finding, body)


def drivers(audit: Audit, figure: Draw) -> str:
    """Features that drive it, or why there is nothing to attribute."""
    regret = audit.results.get("regret")
    if regret is None:
        return ""
    found = findings.drivers(audit)
    kicker = "Features that drive it"
    if found is None:
        if len(regret.columns) == 1:
            name = wording.short(regret.columns[0])
            return section(kicker, f"One column, {name}, carries all of it", note("There are no others to compare."))
        return section(
            kicker, "No difference to attribute", note("Too little extra loss to say which features carry it.")
        )
    caption = "Share of the extra loss, all environments together, that each column's weight carries."
    if LEVEL in found.columns:
        caption += f" {LEVEL}: what is left with all columns at their means."
    if found.others:
        verb = "carries" if found.others == 1 else "carry together"
        caption += f" {wording.count(found.others, 'further column')} {verb} {wording.percent(found.rest)}."
    body = figure("bars", found, caption)
    if found.apart:
        body += '<p class="note">Mostly, by environment over the margin:</p>\n<ul class="note">\n'
        body += "".join(f"<li>{escaped(name)}: {escaped(top)}</li>\n" for name, top in found.apart) + "</ul>\n"
    return section(kicker, found.finding, body)


def influence(audit: Audit, figure: Draw) -> str:
    """The influence index against its shuffle cloud."""
    found = findings.cloud(audit)
    if found is None:
        return ""
    caption = (
        f"Bars: the index for rows dealt at random into environments of the same sizes, {found.draws:,} times "
        f"(middle 95 %: {wording.span((found.low, found.high))}). Line: the environments as they are. {found.pull}"
    )
    return section("Influence of each environment on the head", found.finding, figure("histogram", found, caption))


def criteria(audit: Audit) -> str:
    """Published and classical criteria, each with what it can and cannot tell."""
    rows = ""
    for row in record.criteria(audit):
        value = f"<strong>{escaped(row.value)}</strong>" + (f" ({escaped(row.interval)})" if row.interval else "")
        small = [text for text in (row.detail, f"{row.better} is better" if row.better else "") if text]
        value += f"<small>{escaped(' · '.join(small))}</small>" if small else ""
        told = escaped(row.tells) if row.tells else ""
        told += f"<small>Cannot tell: {escaped(row.cannot_tell)}</small>" if row.cannot_tell else ""
        told += "".join(f"<small>Note: {escaped(note)}</small>" for note in row.notes)
        rows += f'<tr><th scope="row">{escaped(row.title)}</th><td class="value">{value}</td><td>{told}</td></tr>\n'
    if not rows:
        return ""
    return section(
        "Published and classical criteria",
        "What each criterion says, and what it cannot",
        '<table class="criteria">\n<thead><tr><th scope="col">criterion</th>'
        '<th scope="col" class="value">value (95 %)</th>'
        f'<th scope="col">what it tells</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n',
    )


def left_out(audit: Audit) -> str:
    """What was not computed and why, and remarks on the audit as a whole."""
    found = "".join(f"<li>{escaped(title)}: {escaped(why)}</li>\n" for title, why in record.left_out(audit))
    remarks = "".join(f"<li>{escaped(note)}</li>\n" for note in record.notes(audit))
    out = section("Left out", "What was not computed, and why", f"<ul>\n{found}</ul>\n") if found else ""
    return out + (section("Notes", "Worth knowing", f"<ul>\n{remarks}</ul>\n") if remarks else "")


def provenance(audit: Audit) -> str:
    """Data, settings, seeds and versions."""
    pairs = "".join(f"<dt>{escaped(k)}</dt><dd>{escaped(v)}</dd>\n" for k, v in record.provenance(audit))
    return section("Data, settings, versions", "To repeat this audit", f'<dl class="particulars">\n{pairs}</dl>\n')


def glossary() -> str:
    """The words, in plain ones."""
    pairs = "".join(f"<div><dt>{escaped(k)}</dt><dd>{escaped(v)}</dd></div>\n" for k, v in GLOSSARY.items())
    return section("Glossary", "The words on this page", f'<dl class="words">\n{pairs}</dl>\n')


def note(text: str) -> str:
    """A remark in small letters."""
    return f'<p class="note">{escaped(text)}</p>\n'
