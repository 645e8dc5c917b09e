"""Influence of each environment on the head: the index against its cloud of shuffles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report.markup import Figure, section
from invariscope.report.parts.drivers import leading, spoken
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats


@dataclass(frozen=True)
class Cloud:
    """The influence index against its value for shuffled environments: histogram ``counts`` between ``edges``;
    ``low`` and ``high`` hold the middle 95 % of the shuffles. ``pull`` says who pulls where."""

    value: float
    edges: Floats
    counts: Floats
    low: float
    high: float
    draws: int
    finding: str
    pull: str


def cloud(audit: Audit) -> Cloud | None:
    """The index and its shuffles; ``None`` without finite numbers."""
    result = audit.results.get("influence_index")
    shuffled = np.empty(0) if result is None else result.null[np.isfinite(result.null)]
    if result is None or not math.isfinite(result.value) or len(shuffled) < 2:
        return None
    bins = int(np.clip(math.sqrt(len(shuffled)), 8, 30))
    counts, edges = np.histogram(shuffled, bins=bins)
    low, high = (float(q) for q in np.quantile(shuffled, [0.025, 0.975]))
    more = "more" if result.pvalue < audit.settings.alpha else "no more"
    chance = wording.pvalue(result.pvalue, len(result.null))
    return Cloud(
        value=float(result.value),
        edges=edges.astype(np.float64),
        counts=counts.astype(np.float64),
        low=low,
        high=high,
        draws=len(shuffled),
        finding=f"The environments pull the head apart {more} than chance does ({chance})",
        pull=_pull(result),
    )


def _pull(result: InfluenceResult) -> str:
    """Which environment stands furthest out along the leading direction, and which parameters make it up."""
    along = (result.influences - result.influences.mean(axis=0)) @ result.direction
    furthest = wording.names(result.labels)[int(np.argmax(np.abs(along)))]
    parameters = spoken(wording.names(result.parameters))
    loadings = [parameters[j] for j in leading(np.abs(result.direction))]
    return f"{furthest} stands furthest out; the pull is mostly on {wording.listed(loadings)}."


def markup(audit: Audit, figure: Figure) -> str:
    """A histogram of the shuffles, with the index marked."""
    numbers = cloud(audit)
    if numbers is None:
        return ""
    caption = (
        f"Bars: the index for rows dealt at random into environments of the same sizes, {numbers.draws:,} times "
        f"(middle 95 %: {wording.span((numbers.low, numbers.high))}). Line: the environments as they are. "
        f"{numbers.pull}"
    )
    return section("Influence of each environment on the head", numbers.finding, figure("histogram", numbers, caption))
