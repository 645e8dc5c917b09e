"""The environments, worst first: rows, losses, regret with its interval, calibration, overlap."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.auditing.verdict import overlap_in, overlap_of
from invariscope.report.charts.interval_bars import Axis, axis_of, bar, ticks_above
from invariscope.report.markup import Figure, escaped, name_head, note, section, short_names, small, table
from invariscope.report.parts.left_out import why_without
from invariscope.report.parts.overlap import rows_left
from invariscope.results import Estimate
from invariscope.shortening import among

if TYPE_CHECKING:
    import pandas as pd

NOTHING = Estimate(math.nan)
#: Of the largest loss: what is smaller is left over from rounding, as of a head that makes no error.
ROUNDING = 1e-13
#: Environments shown in a page's table; the frame has them all.
TABLE_LIMIT = 60


@dataclass(frozen=True)
class EnvironmentRow:
    """One environment: its rows, the mean loss there of the model itself, of one head fitted for all environments and
    of a head fitted there, and what else is known.

    ``standing`` is "over", "under" or "open" (where the interval of the regret lies against the ``margin``), or
    "unknown" without one; ``effective`` is the share of its rows that overlap with the others.
    """

    label: Hashable
    name: str
    rows: int
    model_loss: float
    shared_head_loss: float
    own_head_loss: float
    regret: Estimate
    ece: Estimate
    overlap: str
    effective: float
    margin: float

    @property
    def standing(self) -> str:
        """Where the interval lies against the margin."""
        return standing(self.regret, self.margin)

    @property
    def regret_words(self) -> str:
        """The regret with its interval: "+38 % (21 … 60)"."""
        return wording.change(self.regret.value, self.regret.interval, self.margin)

    @property
    def effective_rows(self) -> str:
        """How many rows still count: "31 of 123"; empty where that is not known."""
        return rows_left(self.effective * self.rows, self.rows, self.overlap) if self.overlap else ""

    @property
    def overlap_words(self) -> str:
        """Either "good", or how little is left: "weak: 31 of 123 rows effective"."""
        if self.overlap in ("", "good"):
            return self.overlap or wording.MISSING
        left = rows_left(self.effective * self.rows, self.rows, self.overlap, " rows effective")
        return f"{self.overlap}: {left}"


@dataclass(frozen=True)
class EnvironmentTable:
    """All environments, the largest regret first; which columns there are numbers for, and why others are missing.

    ``whose`` are the losses there are, by the names of the frame; ``overlap_of`` says what overlaps, "" without any.
    """

    rows: tuple[EnvironmentRow, ...]
    whose: tuple[str, ...]
    has_regret: bool
    has_calibration: bool
    overlap_of: str
    finding: str
    reasons: tuple[str, ...]

    @property
    def has_intervals(self) -> bool:
        """Whether any regret has an interval: none has where nothing was drawn."""
        return any(row.standing != "unknown" for row in self.rows)

    def losses(self, count: int) -> dict[str, list[str]]:
        """Columns of losses of the first environments, by titles that say whose they are; comparable by eye."""
        shown = self.rows[:count]
        numbers = [getattr(row, name) for name in self.whose for row in shown]
        least = ROUNDING * max((loss for loss in numbers if math.isfinite(loss)), default=0.0)
        values = wording.aligned([0.0 if loss < least else loss for loss in numbers])
        return {name.replace("_", " "): values[k * len(shown) :][: len(shown)] for k, name in enumerate(self.whose)}


def environment_rows(audit: Audit) -> tuple[EnvironmentRow, ...]:
    """One row per environment, in the order of the user's labels."""
    regret, overlap, risks = audit.results.get("regret"), overlap_in(audit.results), _risks(audit)
    calibration = _per_environment(audit, "calibration_variance")
    regrets = _per_environment(audit, "regret")
    shared = {} if regret is None else dict(zip(regret.labels, regret.shared_loss.tolist(), strict=True))
    own = {} if regret is None else dict(zip(regret.labels, regret.own_loss.tolist(), strict=True))
    verdicts = {} if overlap is None else dict(zip(overlap.labels, overlap.verdicts, strict=True))
    effective = {} if overlap is None else dict(zip(overlap.labels, overlap.pooled.tolist(), strict=True))
    return tuple(
        EnvironmentRow(
            label=label,
            name=name,
            rows=size,
            model_loss=risks.get(label, NOTHING).value,
            shared_head_loss=shared.get(label, math.nan),
            own_head_loss=own.get(label, math.nan),
            regret=regrets.get(label, NOTHING),
            ece=calibration.get(label, NOTHING),
            overlap=verdicts.get(label, ""),
            effective=effective.get(label, math.nan),
            margin=audit.settings.margin,
        )
        for label, name, size in zip(audit.data.labels, wording.names(audit.data.labels), audit.data.sizes, strict=True)
    )


def environments(audit: Audit) -> EnvironmentTable:
    """The table of environments, as page and terminal show it."""
    # environments without a regret last, in their own order
    rows = sorted(environment_rows(audit), key=lambda r: -r.regret.value if math.isfinite(r.regret.value) else math.inf)
    has_regret = "regret" in audit.results
    whose = ("model_loss",) * bool(_risks(audit)) + ("shared_head_loss", "own_head_loss") * has_regret
    return EnvironmentTable(
        rows=tuple(rows),
        whose=whose,
        has_regret=has_regret,
        has_calibration="calibration_variance" in audit.results,
        overlap_of=overlap_of(audit.results),
        finding=_finding(audit, rows),
        reasons=_reasons(audit, rows),
    )


def frame(audit: Audit) -> pd.DataFrame:
    """One row per environment, as :meth:`~invariscope.Audit.frame` says."""
    import pandas as pd

    rows = environment_rows(audit)
    columns: dict[str, list[object]] = {
        "environment": [r.label for r in rows],
        "rows": [r.rows for r in rows],
        "model_loss": [r.model_loss for r in rows],
        "shared_head_loss": [r.shared_head_loss for r in rows],
        "own_head_loss": [r.own_head_loss for r in rows],
        "regret": [r.regret.value for r in rows],
        "regret_low": [r.regret.interval[0] for r in rows],
        "regret_high": [r.regret.interval[1] for r in rows],
    }
    if "calibration_variance" in audit.results:
        columns["ece"] = [r.ece.value for r in rows]
    if overlap_in(audit.results) is not None:
        columns["overlap"] = [r.overlap for r in rows]
    return pd.DataFrame(columns)


def standing(estimate: Estimate, margin: float) -> str:
    """Where an interval lies against the margin.

    >>> standing(Estimate(0.38, (0.21, 0.6)), 0.02), standing(Estimate(0.01, (0.0, 0.03)), 0.02)
    ('over', 'open')
    """
    low, high = estimate.interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return "unknown"
    return "over" if low > margin else "under" if high < margin else "open"


def _per_environment(audit: Audit, name: str) -> Mapping[Hashable, Estimate]:
    estimates: Mapping[Hashable, Estimate] = audit.results[name].per_environment if name in audit.results else {}
    return estimates


def _risks(audit: Audit) -> Mapping[Hashable, Estimate]:
    return _per_environment(audit, "worst_environment_risk") or _per_environment(audit, "risk_variance")


def _finding(audit: Audit, rows: Sequence[EnvironmentRow]) -> str:
    """What the table shows, in one sentence; intervals allow for having looked at all environments."""
    margin = audit.settings.margin
    known = [row for row in rows if math.isfinite(row.regret.value)]
    if "regret" not in audit.results or not known:
        return "How each environment fares"
    limit, names = wording.exactly(margin), [row.name for row in rows]
    if all(row.standing == "unknown" for row in known):
        cost = f"{wording.percent(max(known[0].regret.value, 0.0))} more loss"
        return f"Sharing one head seems to cost {wording.quoted(among(known[0].name, names))} most, {cost}"
    over = [row for row in known if row.standing == "over"]
    undecided = [row for row in known if row.standing != "under"]
    if len(over) > 1:
        return f"{len(over)} of {len(rows)} environments lose more than {limit} by sharing one head"
    if over:
        span = wording.between(over[0].regret.interval, margin, to=" … ")
        cost = f"{wording.percent(over[0].regret.value)} more loss ({span})"
        return f"Sharing one head costs {wording.quoted(among(over[0].name, names))} {cost}"
    if undecided:
        could = "could lose" if len(undecided) > 1 else f"({among(undecided[0].name, names)}) could lose"
        return f"{len(undecided)} of {len(rows)} environments {could} more than {limit} by sharing one head: still open"
    return f"No environment loses more than {limit} by sharing one head"


def _reasons(audit: Audit, rows: Sequence[EnvironmentRow]) -> tuple[str, ...]:
    """Why numbers of the table are missing; empty when none is."""
    incomplete = {
        "regret": any(not math.isfinite(v) for r in rows for v in (r.regret.value, *r.regret.interval)),
        "calibration_variance": any(not math.isfinite(r.ece.value) for r in rows),
    }
    notes = [
        note
        for name, missing in incomplete.items()
        if missing and name in audit.results
        for note in audit.results[name].notes
    ]
    return tuple(dict.fromkeys(filter(None, [why_without(audit, "regret"), *notes])))


# --- markup -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Column:
    """One column of the table: what stands in its head, its cells, all as markup, and its kind in the style sheet."""

    title: str
    kind: str
    cells: Sequence[str]
    head: str = ""


def markup(audit: Audit, figure: Figure) -> str:
    """The table, with interval bars on a common axis."""
    environment_table = environments(audit)
    shown = environment_table.rows[:TABLE_LIMIT]
    margin = audit.settings.margin
    known = any(math.isfinite(row.regret.value) for row in shown)
    axis = axis_of([row.regret for row in shown], margin) if known else None
    columns = _columns(environment_table, shown, axis, margin)
    heads = f'<th scope="col" class="name">{escaped(audit.data.env_name)}</th>' + "".join(
        f'<th scope="col" class="{column.kind}">{column.head or escaped(column.title)}</th>' for column in columns
    )
    names = short_names([row.name for row in shown])
    rows = [
        name_head(row.name, names[row.name])
        + "".join(f'<td class="{c.kind}" data-label="{escaped(c.title)}">{c.cells[k]}</td>' for c in columns)
        for k, row in enumerate(shown)
    ]
    return section(
        f"The environments: {audit.data.target_name} by {audit.data.env_name}",
        environment_table.finding,
        f'<div class="scroll">{table("environments", heads, rows)}</div>\n'
        + _captions(environment_table, axis, margin),
    )


def _columns(
    environment_table: EnvironmentTable, shown: Sequence[EnvironmentRow], axis: Axis | None, margin: float
) -> list[Column]:
    columns = [Column("rows", "number other", [f"{row.rows:,}" for row in shown])]
    for title, losses in environment_table.losses(len(shown)).items():
        columns.append(Column(title, "number other", losses))
    if environment_table.has_regret:
        title = "regret (95 %)" if environment_table.has_intervals else "regret"
        columns.append(Column(title, "number regret", [_regret_cell(row) for row in shown]))
    if axis is not None:
        bars = [bar(row.regret, row.standing, axis, margin) for row in shown]
        columns.append(Column("", "bar", bars, ticks_above(axis, margin)))
    if environment_table.has_calibration:
        values = wording.aligned([row.ece.value for row in shown])
        spans = [small(wording.span(row.ece.interval, 2)) for row in shown]
        cells = [escaped(value) + span for value, span in zip(values, spans, strict=True)]
        columns.append(Column("ECE", "number other", cells))
    if environment_table.overlap_of:
        columns.append(Column("overlap", "other", [escaped(row.overlap) + small(row.effective_rows) for row in shown]))
    return columns


def _regret_cell(row: EnvironmentRow) -> str:
    """Numbers stand on one line; words may take more."""
    words = escaped(row.regret_words)
    return words if wording.bounded(row.regret.interval) else f'<span class="unbounded">{words}</span>'


def _captions(environment_table: EnvironmentTable, axis: Axis | None, margin: float) -> str:
    parts = []
    if axis is not None:
        on_axis = (
            f"on one axis from {wording.percent(axis.low)} to {wording.percent(axis.high)}; dashed line: the margin of "
            f"{wording.exactly(margin)}"
        )
        parts.append(
            "Worst first. Bars: regret with its 95 % interval, whose lower end allows for having looked at all "
            f"environments, {on_axis}; an arrow: the interval goes on. "
            "Filled dot: the interval lies wholly over or under the margin; hollow dot: it contains it."
            if environment_table.has_intervals
            else f"Worst first. Dots: regret, {on_axis}."
        )
    if environment_table.overlap_of:
        parts.append(
            f"Overlap: of {environment_table.overlap_of}, with all other environments together; the numbers are "
            "effective rows, of all rows."
        )
    hidden = len(environment_table.rows) - TABLE_LIMIT
    if hidden > 0:
        parts.append(f"{hidden:,} more environments are not shown: see the frame or the JSON file.")
    reasons = "".join(note(f"{wording.MISSING} {reason}") for reason in environment_table.reasons)
    return (note(" ".join(parts)) if parts else "") + reasons
