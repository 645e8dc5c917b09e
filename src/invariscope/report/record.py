"""The particulars of an audit as rows of text: criteria, key facts, reasons, and what is needed to repeat it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.criteria.registry import CRITERIA, Criterion
from invariscope.report.data import EnvironmentRow
from invariscope.results import (
    DricResult,
    EnvironmentResult,
    Estimate,
    InfluenceResult,
    RegretResult,
    TransportGapResult,
    WorstCaseResult,
)

#: Names listed in full before "and N more".
NAME_LIMIT = 24


@dataclass(frozen=True)
class CriterionRow:
    """One criterion as text: ``interval`` and ``detail`` are empty where there is nothing to say."""

    name: str
    title: str
    value: str
    interval: str
    detail: str
    better: str
    tells: str
    cannot_tell: str
    notes: tuple[str, ...]


def criteria(audit: Audit) -> tuple[CriterionRow, ...]:
    """Every criterion that was computed, the regret first."""
    order = sorted(audit.results, key=lambda name: name != "regret")
    return tuple(_criterion(name, audit.results[name]) for name in order)


def title_of(name: str) -> str:
    """A criterion's title, or its name in words when nobody registered one."""
    return CRITERIA[name].title if name in CRITERIA else name.replace("_", " ").capitalize()


def words_of(name: str) -> Criterion | None:
    """A criterion's own words, if it is registered."""
    return CRITERIA.get(name)


def _criterion(name: str, result: Any) -> CriterionRow:
    known = words_of(name)
    value, interval, detail = wording.number(result.value), "", ""
    if not isinstance(result, TransportGapResult):  # its intervals are those of pairs
        interval = wording.span(getattr(result, "interval", (math.nan, math.nan)))
    match result:
        case TransportGapResult():
            interval = wording.span(result.interval)
            detail = f"all pairs together {wording.pvalue(result.pvalue, len(result.null))}"
        case RegretResult():
            whole = wording.change(Estimate(result.value, result.interval))
            value, _, rest = whole.partition(" (")
            interval = rest.removesuffix(")") and f"{rest.removesuffix(')')} %"
            detail = f"mean over environments; score test {wording.pvalue(result.pvalue, len(result.null))}"
        case InfluenceResult():
            detail = f"{shuffled(result)}; {wording.pvalue(result.pvalue, len(result.null))}".removeprefix("; ")
        case DricResult():
            log10 = f"log10 {wording.number(result.log10, 2)}" if math.isfinite(result.log10) else ""
            detail = "; ".join(text for text in (log10, shuffled(result)) if text)
        case WorstCaseResult():
            start = wording.number(float(np.min(result.loss)), 2)
            detail = f"{wording.LOSS_NAMES[result.of]} at half of R, from {start} at 0"
        case EnvironmentResult():
            largest = result.per_environment.get(result.worst)
            if largest is not None and math.isfinite(largest.value):
                unit = f" {result.unit}" if result.unit else ""
                detail = f"worst: {wording.short(result.worst)}, {wording.number(largest.value)}{unit}"
        case _ if math.isfinite(getattr(result, "pvalue", math.nan)):
            detail = wording.pvalue(result.pvalue)
    return CriterionRow(
        name=name,
        title=title_of(name),
        value=value,
        interval=interval,
        detail=detail,
        better=known.better if known else "",
        tells=known.tells if known else "",
        cannot_tell=known.cannot_tell if known else "",
        notes=tuple(result.notes),
    )


def shuffled(result: InfluenceResult | DricResult, digits: int = 3) -> str:
    """The middle 95 % of the shuffles in words, or nothing without shuffles."""
    finite = np.asarray(result.null, np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return ""
    low, high = np.quantile(finite, [0.025, 0.975])
    return f"{wording.span((float(low), float(high)), digits)} when shuffled"


def outline(audit: Audit) -> str:
    """The data in one line: rows, environments, features, head."""
    data = audit.data
    parts = [
        wording.count(float(np.sum(data.rows)), "row"),
        wording.count(len(data.labels), "environment"),
        wording.count(len(data.columns), "feature"),
        data.head,
    ]
    return " · ".join(wording.clean(part) for part in parts if part)


def facts(audit: Audit) -> tuple[tuple[str, str], ...]:
    """The few numbers that a verdict rests on: (what, how much)."""
    regret = audit.results.get("regret")
    if regret is None:
        return ()
    worst = Estimate(regret.per_environment[regret.worst].value, regret.worst_interval)
    gain = (
        "of the variance explained by the shared head"
        if audit.data.task == "regression"
        else "of the log-loss of guessing removed by the shared head"
    )
    return (
        (
            f"largest regret, in {wording.short(regret.worst)}; the interval allows for having picked it",
            wording.change(worst),
        ),
        ("chance of a difference this large if one head served all", wording.pvalue(regret.pvalue, len(regret.null))),
        (gain, wording.percent(regret.explained)),
        ("margin: the extra loss that would not matter", wording.percent(audit.settings.margin)),
    )


def reasons(audit: Audit, rows: tuple[EnvironmentRow, ...]) -> tuple[str, ...]:
    """Why numbers of the table of environments are missing; empty when none is."""
    sources = {
        "regret": any(not math.isfinite(v) for r in rows for v in (r.regret.value, *r.regret.interval)),
        "calibration_variance": any(not math.isfinite(r.ece.value) for r in rows),
        "dric": any(not r.overlap for r in rows),
    }
    found = [
        note
        for name, missing in sources.items()
        if missing and name in audit.results
        for note in audit.results[name].notes
    ]
    return tuple(dict.fromkeys(found))


def notes(audit: Audit) -> tuple[str, ...]:
    """Remarks on the audit as a whole; those of a criterion stand beside it."""
    elsewhere = {note for result in audit.results.values() for note in result.notes}
    return tuple(dict.fromkeys(note for note in audit.notes if note not in elsewhere))


def left_out(audit: Audit) -> tuple[tuple[str, str], ...]:
    """What was not computed, and why."""
    return tuple((title_of(name), reason) for name, reason in audit.left_out.items())


def provenance(audit: Audit) -> tuple[tuple[str, str], ...]:
    """Data, settings, seeds and versions: (what, value)."""
    data, settings = audit.data, audit.settings
    sizes = np.asarray(data.sizes)
    found = [
        ("target", data.target_name),
        ("task", data.task),
        ("environments by", data.env_name),
        ("rows", f"{float(np.sum(data.rows)):,.0f}"),
        ("environments", f"{len(sizes)}, of {sizes.min():,} to {sizes.max():,} rows" if len(sizes) else "0"),
        ("model", data.model),
        ("representation", data.representation),
        ("head", data.head),
        ("features", f"{len(data.columns):,}: {_some(data.columns)}" if len(data.columns) else ""),
        ("density ratios by", _ratio(audit)),
        ("seed", f"{settings.seed}"),
        ("bootstrap and null draws", f"{settings.n_boot:,}"),
        ("margin", wording.percent(settings.margin)),
        ("significance level", f"{settings.alpha:g}"),
        ("versions", " · ".join(f"{name} {version}" for name, version in settings.versions.items())),
        ("time taken", wording.duration(settings.seconds)),
        ("made", wording.moment(settings.created)),
    ]
    return tuple((what, wording.clean(value)) for what, value in found if value)


def _ratio(audit: Audit) -> str:
    """The estimator of density ratios that was asked for, and what it made of it; empty if none was needed."""
    made = [getattr(result, "ratio", "") for result in audit.results.values() if hasattr(result, "overlap")]
    if not made:
        return ""
    said = wording.listed(list(dict.fromkeys(text for text in made if text)))
    return f"{audit.settings.ratio} ({said})" if said else audit.settings.ratio


def _some(names: Any) -> str:
    listed = ", ".join(wording.short(name) for name in names[:NAME_LIMIT])
    return listed if len(names) <= NAME_LIMIT else f"{listed} and {len(names) - NAME_LIMIT:,} more"
