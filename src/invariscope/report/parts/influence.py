"""Influence of each environment on the head: the index against its cloud of shuffles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.algorithm_needed import index_words, without_penalty_words
from invariscope.auditing.record import Audit
from invariscope.auditing.verdict import most_affected
from invariscope.report.markup import Figure, section
from invariscope.report.parts.drivers import leading, spoken
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats


@dataclass(frozen=True)
class Cloud:
    """The influence index against its value for shuffled environments: histogram ``counts`` between ``edges``;
    ``bound`` says how far it goes without a difference, ``pull`` who pulls where, ``plain`` what the index is without
    the penalty that the model was trained with."""

    value: float
    edges: Floats
    counts: Floats
    bound: str
    draws: int
    finding: str
    pull: str
    plain: str = ""


def cloud(audit: Audit) -> Cloud | None:
    """The index and its shuffles; ``None`` without finite numbers."""
    result = audit.results.get("influence_index")
    shuffled = np.empty(0) if result is None else result.null[np.isfinite(result.null)]
    if result is None or not math.isfinite(result.value) or len(shuffled) < 2:
        return None
    bins = int(np.clip(math.sqrt(len(shuffled)), 8, 30))
    counts, edges = np.histogram(shuffled, bins=bins)
    more = "more" if result.pvalue < audit.settings.alpha else "no more"
    chance = wording.pvalue(result.pvalue, len(result.null))
    return Cloud(
        value=float(result.value),
        edges=edges.astype(np.float64),
        counts=counts.astype(np.float64),
        bound=index_words(result, audit.settings.alpha, "by chance")[1],
        draws=len(shuffled),
        finding=f"The environments pull the head apart {more} than chance does ({chance})",
        pull=_pull(result, audit),
        plain=_plain(result, audit.settings.alpha),
    )


def _plain(result: InfluenceResult, alpha: float) -> str:
    """Both indices of a model that was trained with a penalty: along its weight they may say opposite things."""
    told = without_penalty_words(result, alpha)
    if not told:
        return ""
    value, _ = index_words(result, alpha)
    return (
        f"The index is {value} with the penalty in the head's curvature, {told}: the first says how far environments "
        "could still move a head that the penalty holds, the second how far apart they pull. Their p-value is the same."
    )


def _pull(result: InfluenceResult, audit: Audit) -> str:
    """Which parameters make up the leading direction, and which environment stands furthest out along it.

    Of two environments, neither does; and what chance makes as large has no direction.
    """
    if result.pvalue >= audit.settings.alpha:
        return ""
    parameters = spoken(wording.names(result.parameters))
    loadings = wording.listed([parameters[j] for j in leading(np.abs(result.direction))])
    if len(result.labels) < 3:
        return f"The pull is mostly on {loadings}."
    along = (result.influences - result.influences.mean(axis=0)) @ result.direction
    furthest = result.labels[int(np.argmax(np.abs(along)))]
    pull = f"{wording.quoted(furthest)} stands furthest out; the pull is mostly on {loadings}."
    regret = audit.results.get("regret")
    affected = [] if regret is None else most_affected(regret, audit.settings.margin)
    if not affected or affected[0][0] == furthest:
        return pull
    worst = wording.quoted(affected[0][0])
    return f"{pull} Whoever pulls the head furthest need not pay for it: the largest regret is that of {worst}."


def markup(audit: Audit, figure: Figure) -> str:
    """A histogram of the shuffles, with the index marked."""
    numbers = cloud(audit)
    if numbers is None:
        return ""
    caption = (
        f"Bars: the index for rows dealt at random into environments of the same sizes, {numbers.draws:,} "
        f"times: {numbers.bound}. Line: the environments as they are. "
        f"{numbers.pull} {numbers.plain}"
    ).strip()
    return section("Influence of each environment on the head", numbers.finding, figure("histogram", numbers, caption))
