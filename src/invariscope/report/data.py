"""An audit as plain table and plot data: what the page, the charts and the terminal draw, and nothing drawn yet.

Every sentence that a heading states about numbers is made here, beside the numbers, where it can be tested.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pandas as pd

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.results import Estimate, Overlap

NOTHING = Estimate(math.nan)


# --- the environments -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class EnvironmentRow:
    """One environment: ``standing`` is "over", "under" or "open" (where its interval lies against the margin), or
    "unknown" without an interval; ``effective`` is the share of its rows that overlap with the others."""

    label: Hashable
    name: str
    rows: float
    loss: float
    own_head_loss: float
    regret: Estimate
    ece: Estimate
    overlap: str
    effective: float
    standing: str

    @property
    def overlap_words(self) -> str:
        """Either "good", or how little is left: "weak: 31 of 123 rows effective"."""
        if not self.overlap:
            return wording.MISSING
        left = self.effective_rows
        return self.overlap if self.overlap == "good" or not left else f"{self.overlap}: {left} rows effective"

    @property
    def effective_rows(self) -> str:
        """How many rows still count: "31 of 123"; empty where that is not known."""
        return f"{self.effective * self.rows:,.0f} of {self.rows:,.0f}" if math.isfinite(self.effective) else ""


def environments(audit: Audit) -> tuple[EnvironmentRow, ...]:
    """One row per environment, in the order of the user's labels."""
    regret, calibration = audit.results.get("regret"), audit.results.get("calibration_variance")
    cover, risks = overlap_of(audit), _risks(audit)
    place = {} if regret is None else {label: k for k, label in enumerate(regret.labels)}
    covered = {} if cover is None else {label: k for k, label in enumerate(cover.labels)}
    rows = []
    labels = tuple(audit.data.labels)
    for label, name, size in zip(labels, wording.names(labels), audit.data.sizes, strict=True):
        k, o = place.get(label), covered.get(label)
        estimate = NOTHING if regret is None else regret.per_environment.get(label, NOTHING)
        rows.append(
            EnvironmentRow(
                label=label,
                name=name,
                rows=float(size),
                loss=risks.get(label, NOTHING).value if regret is None or k is None else float(regret.shared_loss[k]),
                own_head_loss=math.nan if regret is None or k is None else float(regret.own_loss[k]),
                regret=estimate,
                ece=NOTHING if calibration is None else calibration.per_environment.get(label, NOTHING),
                overlap="" if cover is None or o is None else cover.verdicts[o],
                effective=math.nan if cover is None or o is None else float(cover.pooled[o]),
                standing=standing(estimate, audit.settings.margin),
            )
        )
    return tuple(rows)


def standing(estimate: Estimate, margin: float) -> str:
    """Where an interval lies against the margin.

    >>> standing(Estimate(0.38, (0.21, 0.6)), 0.02), standing(Estimate(0.01, (0.0, 0.03)), 0.02)
    ('over', 'open')
    """
    low, high = estimate.interval
    if not (math.isfinite(low) and math.isfinite(high)):
        return "unknown"
    return "over" if low > margin else "under" if high < margin else "open"


def worst_first(rows: Sequence[EnvironmentRow]) -> list[EnvironmentRow]:
    """Largest regret first; environments without one last, in their own order."""
    return sorted(rows, key=lambda row: -row.regret.value if math.isfinite(row.regret.value) else math.inf)


def frame(audit: Audit) -> pd.DataFrame:
    """One row per environment, with the user's own labels; columns exist where the audit has their numbers."""
    rows = environments(audit)
    columns: dict[str, list[Any]] = {"environment": [r.label for r in rows], "rows": [int(r.rows) for r in rows]}
    if "regret" in audit.results or _risks(audit):
        columns["loss"] = [r.loss for r in rows]
    if "regret" in audit.results:
        columns["own_head_loss"] = [r.own_head_loss for r in rows]
        columns["regret"] = [r.regret.value for r in rows]
        columns["regret_low"] = [r.regret.interval[0] for r in rows]
        columns["regret_high"] = [r.regret.interval[1] for r in rows]
    if "calibration_variance" in audit.results:
        columns["ece"] = [r.ece.value for r in rows]
    if overlap_of(audit) is not None:
        columns["overlap"] = [r.overlap for r in rows]
    return pd.DataFrame(columns)


def environments_finding(audit: Audit) -> str:
    """What the table of environments shows, in one sentence.

    An environment whose own interval is over the margin counts as such only if the interval of the largest regret is
    over it too: that one allows for having looked at all of them.
    """
    margin, regret = audit.settings.margin, audit.results.get("regret")
    rows = worst_first(environments(audit))
    known = [row for row in rows if math.isfinite(row.regret.value)]
    over = [row for row in known if row.standing == "over"]
    undecided = [row for row in known if row.standing != "under"]
    limit = wording.percent(margin)
    if not known or regret is None:
        return "How each environment fares"
    if over and regret.worst_interval[0] > margin:
        if len(over) > 1:
            return f"{len(over)} of {len(rows)} environments lose more than {limit} by sharing one head"
        low, high = map(wording.points, over[0].regret.interval)
        cost = f"{wording.percent(over[0].regret.value)} more loss ({low} … {high} %)"
        return f"Sharing one head costs {wording.short(over[0].name)} {cost}"
    if undecided:
        could = "could lose" if len(undecided) > 1 else f"({wording.short(undecided[0].name)}) could lose"
        return f"{len(undecided)} of {len(rows)} environments {could} more than {limit} by sharing one head: still open"
    return f"No environment loses more than {limit} by sharing one head"


@dataclass(frozen=True)
class Axis:
    """The common axis of the interval bars; positions are percentages of its width."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def position(self, share: float) -> float:
        """Where ``share`` is drawn: 4 to 96, values beyond the axis at its ends."""
        inside = min(max(share, self.low), self.high)
        return 4 + 92 * (inside - self.low) / (self.high - self.low)


def regret_axis(rows: Sequence[EnvironmentRow], margin: float) -> Axis:
    """An axis with 0, the margin and every estimate; a very wide interval is cut so as not to squeeze the rest."""
    values = [row.regret.value for row in rows if math.isfinite(row.regret.value)]
    lows = [row.regret.interval[0] for row in rows if math.isfinite(row.regret.interval[0])]
    highs = [row.regret.interval[1] for row in rows if math.isfinite(row.regret.interval[1])]
    top = max([2 * margin, *values])
    high = max(top, min(max(highs, default=top), 2.5 * top))
    bottom = min([0.0, *values])
    low = min(bottom, max(min(lows, default=0.0), -0.5 * high))
    return Axis(low, high, ticks(low, high))


def ticks(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Round numbers between ``low`` and ``high``, zero among them when it lies there.

    >>> ticks(-0.03, 0.6)
    (0.0, 0.2, 0.4, 0.6)
    """
    for power in range(-6, 13):
        for step in (1, 2, 5):
            width = step * 10.0**power
            first, last = math.ceil(low / width - 1e-9), math.floor(high / width + 1e-9)
            if last - first < most:
                return tuple(round(k * width, 12) + 0.0 for k in range(first, last + 1))
    return (0.0,)


def overlap_of(audit: Audit) -> Overlap | None:
    """Overlap of the inputs, as DRIC needs it, or else of the representation; ``None`` without density ratios."""
    for name in ("dric", "transport_gap"):
        if name in audit.results:
            found: Overlap = audit.results[name].overlap
            return found
    return None


def distinct(names: Sequence[str], limit: int) -> tuple[str, ...]:
    """Names of at most ``limit`` letters that can still be told apart: where beginnings agree, the ends are shown.

    >>> distinct(["station 1, north", "station 2, north", "harbour"], 8)
    ('…1, nor…', '…2, nor…', 'harbour')
    """
    short = [wording.short(name, limit) for name in names]
    for shared in {text for text in short if short.count(text) > 1}:
        group = [k for k, text in enumerate(short) if text == shared]
        common = takewhile(lambda letters: len(set(letters)) == 1, zip(*(names[k] for k in group), strict=False))
        start = "".join(letters[0] for letters in common).rfind(" ") + 1
        for k in group if start else ():
            short[k] = wording.short(f"…{names[k][start:]}", limit)
    return tuple(short)


def _risks(audit: Audit) -> Mapping[Hashable, Estimate]:
    for name in ("worst_environment_risk", "risk_variance"):
        if name in audit.results:
            found: Mapping[Hashable, Estimate] = audit.results[name].per_environment
            return found
    return {}
