"""An audit on the terminal: the verdict, the environments, the published criteria, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report import data, record, transport, worst_case
from invariscope.report.data import EnvironmentRow

#: Environments shown; the frame has them all.
ROW_LIMIT = 20
STATE_STYLES = {
    "NOT INVARIANT": "bold white on red",
    "INVARIANT": "bold white on green",
    "DIFFERENT BUT NEGLIGIBLE": "bold white on blue",
    "CANNOT TELL YET": "bold black on yellow",
    "UNINFORMATIVE": "bold white on bright_black",
}
STANDING_STYLES = {"over": "red", "under": "green"}
CLASSICAL = ("risk_variance", "worst_environment_risk", "calibration_variance", "irm_penalty")


def table(audit: Audit) -> RenderableType:
    """Everything a person needs at a glance, for 80 columns and more. User text is never read as markup."""
    rows = data.environments(audit)
    parts: list[RenderableType] = [_top(audit), Text(), *_verdict(audit), Text(), _environments(audit, rows), Text()]
    parts += _footnotes(audit, rows)
    return Group(*parts)


def _top(audit: Audit) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 2))
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(Text(record.outline(audit)), Text(wording.duration(audit.settings.seconds), style="dim"))
    return line


def _verdict(audit: Audit) -> list[RenderableType]:
    state = wording.clean(audit.state)
    first = Text.assemble(
        (f" {state} ", STATE_STYLES.get(state, "bold")), "  ", (wording.clean(audit.headline), "bold")
    )
    sentences = [s for s in audit.sentences if s] or [audit.verdict]
    told = [wording.clean(sentence) for sentence in (*sentences, audit.algorithm) if sentence]
    return [_indented(first), *(_indented(Text(sentence)) for sentence in told)]


def _environments(audit: Audit, rows: Sequence[EnvironmentRow]) -> RenderableType:
    shown = data.worst_first(rows)[:ROW_LIMIT]
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column(Text(wording.short(audit.data.env_name, 24)), overflow="fold")
    columns: list[list[Text]] = []

    def add(title: str, cells: list[Text], *, right: bool = True) -> None:
        grid.add_column(
            title, justify="right" if right else "left", no_wrap=right, overflow="fold", min_width=None if right else 15
        )
        columns.append(cells)

    add("rows", [Text(f"{row.rows:,.0f}") for row in shown])
    if any(math.isfinite(row.loss) for row in rows):
        add("shared", [Text(text) for text in wording.aligned([row.loss for row in shown])])
    if "regret" in audit.results:
        add("own head", [Text(text) for text in wording.aligned([row.own_head_loss for row in shown])])
        add(
            "regret",
            [
                Text(wording.change(row.regret.value, row.regret.interval), STANDING_STYLES.get(row.standing, ""))
                for row in shown
            ],
        )
    if "calibration_variance" in audit.results:
        add("ECE", [Text(text) for text in wording.aligned([row.ece.value for row in shown], 2)])
    if data.overlap_of(audit) is not None:
        add("overlap", [Text(row.overlap_words) for row in shown], right=False)
    for k, row in enumerate(shown):
        grid.add_row(_name(row.name), *(cells[k] for cells in columns))
    if len(rows) > len(shown):
        grid.add_row(Text(f"… and {len(rows) - len(shown):,} more", style="dim"))
    return _indented(grid)


def _name(name: str) -> Text:
    """A name of at most 26 cells, which a narrow terminal folds: no column may push another off the screen."""
    text = Text(name)
    text.truncate(26, overflow="ellipsis")
    return text


def _footnotes(audit: Audit, rows: tuple[EnvironmentRow, ...]) -> list[RenderableType]:
    lines = [
        *((wording.MISSING, reason) for reason in record.reasons(audit, rows)),
        ("Transport gap:", transport.in_short(audit)),
        ("Worst case:", worst_case.in_short(audit)),
        ("Published criteria:", _published(audit)),
        ("Classical criteria, of the model's own predictions:", _classical(audit)),
        *(("Note:", note) for note in record.notes(audit)),
        ("Left out:", "; ".join(f"{title} ({why.rstrip('. ')})" for title, why in record.left_out(audit))),
    ]
    return [
        _indented(Text.assemble((head, "dim"), " ", wording.clean(body) + ("" if body.endswith(".") else ".")))
        for head, body in lines
        if body
    ]


def _published(audit: Audit) -> str:
    parts = []
    if "dric" in audit.results:
        dric = audit.results["dric"]
        value, span, against = wording.number(dric.value, 2), wording.span(dric.interval, 2), record.shuffled(dric, 2)
        if span == f"{value} … {value}":  # of the baseline itself: 1, whatever the rows
            span = against = ""
        known = (f" ({span})" if span else "") + (f" against {against}" if against else "")
        parts.append(f"DRIC {value}{known} (the page says what it can tell)")
    if "influence_index" in audit.results:
        result = audit.results["influence_index"]
        against = record.shuffled(result)
        parts.append(f"V {wording.number(result.value)}" + (f" against {against}" if against else ""))
    return ", ".join(parts)


def _classical(audit: Audit) -> str:
    found = [(name, audit.results[name].value) for name in CLASSICAL if name in audit.results]
    return " · ".join(f"{record.title_of(name)} {wording.number(value, 2)}" for name, value in found)


def _indented(body: RenderableType) -> RenderableType:
    return Padding(body, (0, 0, 0, 2))
