"""An audit on the terminal: the verdict, the environments, the published criteria, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from invariscope import wording
from invariscope.auditing.algorithm_needed import index_words, without_penalty_words
from invariscope.auditing.record import Audit
from invariscope.criteria.dric.result import DricResult
from invariscope.report.markup import with_readable_names
from invariscope.report.parts import transport, worst_case
from invariscope.report.parts.banner import banner, outline
from invariscope.report.parts.criteria import comparators, shuffled, size_alone
from invariscope.report.parts.environments import EnvironmentRow, EnvironmentTable, environments
from invariscope.report.parts.left_out import left_out, title_of
from invariscope.shortening import distinct

#: Environments shown; the frame has them all.
ROW_LIMIT = 20
#: Cells from which on columns stand two blanks apart.
ROOMY = 98
#: Letters of a cell from which on it may take two lines: a regret of thousands of per cent, with its interval.
LONG_CELL = 22
#: Letters of an environment's name.
NAME_LETTERS = 26
STATE_STYLES = {
    "NOT INVARIANT": "bold white on red",
    "INVARIANT": "bold white on green",
    "DIFFERENT BUT NEGLIGIBLE": "bold white on blue",
    "CANNOT TELL YET": "bold black on yellow",
    "UNINFORMATIVE": "bold white on bright_black",
}
STANDING_STYLES = {"over": "red", "under": "green"}
CLASSICAL = (
    "risk_variance",
    "worst_environment_risk",
    "calibration_variance",
    "multi_environment_calibration",
    "irm_penalty",
)


def table(audit: Audit) -> RenderableType:
    """Everything a person needs at a glance, for 80 columns and more. User text is never read as markup."""
    audit = with_readable_names(audit)
    numbers = environments(audit)
    parts: list[RenderableType] = [_top(audit), Text(), *_verdict(audit), Text()]
    parts += [_indented(Environments(audit.data.env_name, numbers)), Text(), *_footnotes(audit, numbers.reasons)]
    return Group(*parts)


def _top(audit: Audit) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 2))
    line.add_column(ratio=1)
    line.add_column(justify="right", no_wrap=True)
    line.add_row(Text(outline(audit)), Text(wording.duration(audit.settings.seconds), style="dim"))
    return line


def _verdict(audit: Audit) -> list[RenderableType]:
    verdict = banner(audit)
    first = Text.assemble(
        (f" {verdict.state} ", STATE_STYLES.get(verdict.state, "bold")), "  ", (verdict.headline, "bold")
    )
    return [_indented(first), *(_indented(Text(sentence)) for sentence in verdict.sentences)]


@dataclass(frozen=True)
class Environments:
    """The table of environments, closer together where there is less room."""

    env_name: str
    numbers: EnvironmentTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _grid(self.env_name, self.numbers, 2 if options.max_width >= ROOMY else 1)


def _grid(env_name: str, numbers: EnvironmentTable, blanks: int) -> Table:
    shown = numbers.rows[:ROW_LIMIT]
    columns = _columns(numbers, shown)
    grid = Table(box=None, pad_edge=False, padding=(0, blanks, 0, 0), header_style="dim")
    # words stand one above the other, the last one below, so that no column is wider than its numbers
    lines = max(len(title.split()) for title in columns)
    grid.add_column(Text("\n" * (lines - 1) + wording.short(env_name, 24)), overflow="fold")
    for title, cells in columns.items():
        words = title.split()
        head = "\n" * (lines - len(words)) + "\n".join(words)
        if title == "overlap":
            grid.add_column(head, overflow="fold", min_width=15)
        elif any(wording.NO_BOUND in cell.plain for cell in cells):  # what takes words may take lines
            grid.add_column(head, justify="right", overflow="fold", min_width=15)
        else:
            if blanks == 1 and any(len(cell.plain) > LONG_CELL for cell in cells):  # the interval below its regret
                columns[title] = [Text(cell.plain.replace(" (", "\n(", 1), cell.style) for cell in cells]
            grid.add_column(head, justify="right", no_wrap=True, overflow="fold")
    # a narrow terminal folds them: no column may push another off the screen
    names = distinct([row.name for row in shown], NAME_LETTERS)
    for name, *texts in zip(names, *columns.values(), strict=True):
        grid.add_row(Text(name), *texts)
    if len(numbers.rows) > len(shown):
        grid.add_row(Text(f"… and {len(numbers.rows) - len(shown):,} more", style="dim"))
    return grid


def _columns(numbers: EnvironmentTable, shown: Sequence[EnvironmentRow]) -> dict[str, list[Text]]:
    columns = {"rows": [Text(f"{row.rows:,}") for row in shown]}
    columns |= {title: [Text(text) for text in losses] for title, losses in numbers.losses(len(shown)).items()}
    if numbers.has_regret:
        columns["regret"] = [Text(row.regret_words, STANDING_STYLES.get(row.standing, "")) for row in shown]
    if numbers.has_calibration:
        columns["ECE"] = [Text(text) for text in wording.aligned([row.ece.value for row in shown], 2)]
    if numbers.overlap_of:
        columns["overlap"] = [Text(row.overlap_words) for row in shown]
    return columns


def _footnotes(audit: Audit, reasons: tuple[str, ...]) -> list[RenderableType]:
    lists = left_out(audit)
    lines = [
        *((wording.MISSING, reason) for reason in reasons),
        ("Transport gap:", transport.in_short(audit)),
        ("Worst case:", worst_case.in_short(audit)),
        ("Published criteria:", _published(audit)),
        ("Classical criteria, of the model's own predictions:", _classical(audit)),
        ("Comparators:", comparators(audit)),
        *(("Note:", note) for note in lists.remarks),
        ("Left out:", "; ".join(f"{title} ({why.rstrip('. ')})" for title, why in lists.reasons)),
    ]
    return [
        _indented(Text.assemble((head, "dim"), " ", wording.clean(body) + ("" if body.endswith(".") else ".")))
        for head, body in lines
        if body
    ]


def _published(audit: Audit) -> str:
    parts = []
    if "dric" in audit.results:
        parts.append(_dric(audit.results["dric"]))
    if "influence_index" in audit.results:
        influence = audit.results["influence_index"]
        index = index_words(influence, audit.settings.alpha, "when shuffled")
        plain = without_penalty_words(influence, audit.settings.alpha)
        parts.append(f"V {', '.join(filter(None, index))}" + (f" ({plain})" if plain else ""))
    return ", ".join(parts)


def _dric(dric: DricResult) -> str:
    if not math.isfinite(dric.value):
        return "no DRIC (the page says why)"
    value, span, against = wording.number(dric.value, 2), wording.span(dric.interval, 2), shuffled(dric.null, 2)
    if span == f"{value} … {value}":  # of the baseline itself: 1, whatever the rows
        span = against = ""
    known = (f" ({span})" if span else "") + (f" against {against}" if against else "")
    size = "".join(f"; {text}" for text in (size_alone(dric, 2),) if text)
    return f"DRIC {value}{known}{size} (the page says what it can tell)"


def _classical(audit: Audit) -> str:
    values = [(name, audit.results[name].value) for name in CLASSICAL if name in audit.results]
    return " · ".join(f"{title_of(name)} {wording.number(value, 2)}" for name, value in values)


def _indented(body: RenderableType) -> RenderableType:
    return Padding(body, (0, 0, 0, 2))
