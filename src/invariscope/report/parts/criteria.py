"""Published and classical criteria, each with what it can and cannot tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.auditing.algorithm_needed import index_words, without_penalty_words
from invariscope.auditing.record import Audit
from invariscope.criteria.comparators.result import (
    ComparatorResult,
    ConditionalInformationResult,
    DomainClassifierResult,
)
from invariscope.criteria.dric.remarks import without_common_ground
from invariscope.criteria.dric.result import DricResult
from invariscope.criteria.registry import CRITERIA
from invariscope.report.markup import Figure, escaped, section, small, table
from invariscope.report.parts.left_out import title_of
from invariscope.results import (
    CalibrationResult,
    EnvironmentResult,
    InfluenceResult,
    RegretResult,
    TransportGapResult,
    WorstCaseResult,
)
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import NOT_DRAWN
from invariscope.shortening import among

NO_INTERVAL = (math.nan, math.nan)


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
    return tuple(_row(name, audit.results[name], audit.settings.alpha) for name in order)


def _notes(result: Any) -> tuple[str, ...]:
    """Its notes, but for the one that all have where nothing was drawn: the table of environments says so once."""
    return tuple(note for note in result.notes if note != NOT_DRAWN)


def _row(name: str, result: Any, alpha: float) -> CriterionRow:
    words = CRITERIA.get(name)
    value, interval = wording.number(result.value), wording.span(getattr(result, "interval", NO_INTERVAL))
    if isinstance(result, RegretResult):  # a share: told in per cent
        value, interval = wording.percent(result.value, signed=True), wording.between(result.interval, to=" … ")
    elif isinstance(result, InfluenceResult):
        value, _ = index_words(result, alpha)
    return CriterionRow(
        name=name,
        title=title_of(name),
        value=value,
        interval=interval,
        detail=_detail(result, alpha),
        better=words.better if words else "",
        tells=words.tells if words else "",
        cannot_tell=words.cannot_tell if words else "",
        notes=_notes(result),
    )


def _detail(result: Any, alpha: float) -> str:
    """What stands under the value of a criterion."""
    match result:
        case TransportGapResult():
            if not math.isfinite(result.value):
                return "no pair can be compared"
            return f"all pairs together {wording.pvalue(result.pvalue, len(result.null))}" if len(result.null) else ""
        case RegretResult():
            chance = f"score test {wording.pvalue(result.pvalue, len(result.null))}" if len(result.null) else ""
            return _joined("mean over environments", chance)
        case InfluenceResult():
            bound = index_words(result, alpha, "when shuffled")[1]
            chance = wording.pvalue(result.pvalue, len(result.null)) if bound else ""
            return _joined(bound, chance, without_penalty_words(result, alpha))
        case DricResult():
            if not math.isfinite(result.value):
                return "no pair can be compared" if without_common_ground(result.overlap) else ""
            log10 = f"log10 {wording.number(result.log10, 2)}" if math.isfinite(result.log10) else ""
            return _joined(log10, size_alone(result), shuffled(result.null))
        case WorstCaseResult():
            start = wording.number(float(np.min(result.loss)), 2)
            return f"{wording.LOSS_NAMES[result.of]} at half of R, from {start} at 0"
        case EnvironmentResult():
            largest = wording.number(result.per_environment[result.worst].value)
            unit = f" {result.unit}" if result.unit else ""
            place = f"worst: {among(result.worst, result.per_environment)}, {largest}{unit}"
            if isinstance(result, CalibrationResult) and len(result.null):
                return _joined(place, wording.pvalue(result.pvalue, len(result.null)))
            return place
        case DomainClassifierResult():  # accuracy says nothing without what guessing gets; p is about the area
            guessing = f"{wording.number(result.chance)} by always naming the largest"
            return _joined(guessing, f"area under the curve {wording.number(result.auc)}", _chance(result))
        case ConditionalInformationResult():  # judged by classifiers, the shuffles are of another statistic
            return _chance(result)
        case ComparatorResult():
            return _joined(shuffled(result.null), _chance(result))
        case _:  # a criterion of the user's own
            pvalue = getattr(result, "pvalue", math.nan)
            return wording.pvalue(pvalue) if math.isfinite(pvalue) else ""


def _chance(result: ComparatorResult) -> str:
    """Its p-value, as far as the deals behind it can show; nothing without deals."""
    return wording.pvalue(result.pvalue, len(result.null)) if math.isfinite(result.pvalue) else ""


def comparators(audit: Audit) -> str:
    """Value and p-value of every comparator that was computed, in a line."""
    texts = []
    for name, result in audit.results.items():
        if isinstance(result, ComparatorResult):
            guessing = (
                f"{wording.number(result.chance)} by guessing" if isinstance(result, DomainClassifierResult) else ""
            )
            inside = ", ".join(filter(None, (guessing, _chance(result))))
            texts.append(f"{title_of(name)} {wording.number(result.value)}" + (f" ({inside})" if inside else ""))
    return " · ".join(texts)


def size_alone(result: DricResult, digits: int = 3) -> str:
    """The spread of predictions beside DRIC, and what DRIC that spread gives by itself."""
    if not math.isfinite(result.spread):
        return ""
    spread, alone = (wording.number(value, digits) for value in (result.spread, result.spread_alone))
    return f"spread {spread} of the baseline's, which alone gives {alone}"


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)


def shuffled(null: Floats, digits: int = 3) -> str:
    """The middle 95 % of the shuffles in words, or nothing without shuffles."""
    finite = null[np.isfinite(null)]
    if not len(finite):
        return ""
    low, high = np.quantile(finite, [0.025, 0.975])
    return f"{wording.span((float(low), float(high)), digits)} when shuffled"


def explanation(name: str) -> str:
    """What a criterion can and cannot tell, in its own words."""
    return f"{CRITERIA[name].tells} Cannot tell: {CRITERIA[name].cannot_tell}"


def markup(audit: Audit, figure: Figure) -> str:
    """A table with a line for each criterion."""
    rows = criteria(audit)
    if not rows:
        return ""
    value = "value (95 %)" if any(row.interval for row in rows) else "value"
    heads = (
        f'<th scope="col">criterion</th><th scope="col" class="value">{value}</th><th scope="col">what it tells</th>'
    )
    return section(
        "Published and classical criteria",
        "What each criterion says, and what it cannot",
        table("criteria", heads, list(map(_cells, rows))) + "\n",
    )


def _cells(row: CriterionRow) -> str:
    value = f"<strong>{escaped(row.value)}</strong>" + (f" ({escaped(row.interval)})" if row.interval else "")
    below = [text for text in (row.detail, f"{row.better} is better" if row.better else "") if text]
    remarks = [f"Cannot tell: {row.cannot_tell}"] if row.cannot_tell else []
    remarks += [f"Note: {note}" for note in row.notes]
    words = (escaped(row.tells) if row.tells else "") + "".join(map(small, remarks))
    return (
        f'<th scope="row">{escaped(row.title)}</th><td class="value">{value}{small(" · ".join(below))}</td>'
        f"<td>{words}</td>"
    )
