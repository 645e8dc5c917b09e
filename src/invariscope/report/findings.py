"""Plot data of the charts: who disagrees with whom, in which features, and how influence compares with chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.auditing.verdict import driving_columns
from invariscope.criteria.influence.influence_index import INTERCEPT
from invariscope.criteria.regret.regret import LEVEL
from invariscope.rows.arrays import Floats

#: Features shown in a chart; the rest is summed up in a sentence.
DRIVER_LIMIT = 12
#: A matrix with more environments than this cannot be read: the most extreme pairs are listed instead.
MATRIX_LIMIT = 12
PAIR_LIMIT = 12
#: Parts of a head that are no column of the user's, in the middle of a sentence.
SPOKEN = {LEVEL: "the overall level", INTERCEPT: "the intercept"}


@dataclass(frozen=True)
class Pair:
    """``served`` would lose ``value`` (a share of its own loss) if the head of ``head`` served it."""

    served: str
    head: str
    value: float


@dataclass(frozen=True)
class Disagreement:
    """``values[a, b]``: extra loss in ``names[a]`` if the head of ``names[b]`` served it; ``extreme`` worst first."""

    names: tuple[str, ...]
    values: Floats
    extreme: tuple[Pair, ...]
    finding: str


def disagreement(audit: Audit) -> Disagreement | None:
    """Who disagrees with whom; ``None`` without a regret."""
    regret = audit.results.get("regret")
    if regret is None or not np.isfinite(_off_diagonal(regret.pairs)).any():
        return None
    names = wording.names(regret.labels)
    values = np.asarray(regret.pairs, np.float64)
    flat = _off_diagonal(values).ravel()
    order = [int(k) for k in np.argsort(-flat, kind="stable") if math.isfinite(flat[k])]
    extreme = tuple(Pair(names[k // len(names)], names[k % len(names)], float(flat[k])) for k in order[:PAIR_LIMIT])
    worst, margin = extreme[0], audit.settings.margin
    if regret.pvalue >= audit.settings.alpha:
        finding = f"Differences between heads are within what chance makes ({wording.pvalue(regret.pvalue)})"
    elif worst.value <= margin:
        finding = f"No environment would lose more than {wording.percent(margin)} with the head of another"
    else:
        served, head = wording.short(worst.served), wording.short(worst.head)
        finding = f"Worst match: {served} with the head of {head}, {wording.percent(worst.value, signed=True)} loss"
    return Disagreement(names, values, extreme, finding)


def _off_diagonal(values: Floats) -> Floats:
    return np.where(np.eye(len(values), dtype=bool), np.nan, values)


@dataclass(frozen=True)
class Drivers:
    """Columns that carry the extra loss of all environments together, largest share first; ``rest`` is what the
    ``others`` columns that are not listed carry; ``apart`` names the leading columns of each environment over the
    margin."""

    columns: tuple[str, ...]
    shares: tuple[float, ...]
    others: int
    rest: float
    finding: str
    apart: tuple[tuple[str, str], ...]


def drivers(audit: Audit) -> Drivers | None:
    """Features behind the disagreement; ``None`` where there is no difference to attribute, or one column only.

    The share of column j is Σ_e max(part_ej, 0) over the same sum for all columns, as in the verdict's sentence.
    """
    regret = audit.results.get("regret")
    if regret is None or len(regret.columns) < 2:
        return None
    worst = regret.per_environment[regret.worst].value
    different = worst > 0 and regret.pvalue < audit.settings.alpha
    parts = np.maximum(np.asarray(regret.drivers, np.float64), 0.0)
    total = np.nansum(parts, axis=0)
    if not different or not total.sum() > 0:
        return None
    shares = total / total.sum()
    columns, names = wording.names(regret.columns), wording.names(regret.labels)
    order = np.argsort(-shares, kind="stable")
    leading = [regret.columns.index(name) for name in driving_columns(regret, 3)]
    apart = [
        (names[k], " · ".join(f"{_spoken(columns[j])} {wording.percent(parts[k, j] / parts[k].sum())}" for j in top))
        for k in _over_the_margin(audit)
        if np.isfinite(parts[k]).all() and (top := _leading(parts[k]))
    ]
    return Drivers(
        columns=tuple(columns[j] for j in order[:DRIVER_LIMIT]),
        shares=tuple(float(s) for s in shares[order[:DRIVER_LIMIT]]),
        others=max(0, len(order) - DRIVER_LIMIT),
        rest=float(shares[order[DRIVER_LIMIT:]].sum()),
        finding=_drivers_finding(columns, shares, leading),
        apart=tuple(apart[:8]),
    )


def _drivers_finding(columns: tuple[str, ...], shares: Floats, leading: list[int]) -> str:
    if not leading:
        largest = int(np.argmax(shares))
        share = wording.percent(float(shares[largest]))
        return f"No column stands out: the largest, {_spoken(columns[largest])}, carries {share}"
    told = wording.listed([_spoken(columns[j]) for j in leading])
    told = told.replace("the", "The", 1) if told.startswith(SPOKEN[LEVEL]) else told
    carry = "carries" if len(leading) == 1 else "carry"
    return f"{told} {carry} {wording.percent(float(shares[leading].sum()))} of the extra loss"


def _spoken(name: str) -> str:
    return SPOKEN.get(name, wording.short(name, 30))


def _leading(shares: Floats) -> list[int]:
    """At most three columns, without those that add little to the first."""
    order = [int(j) for j in np.argsort(-shares, kind="stable")[:3]]
    return [j for j in order if shares[j] > 0 and shares[j] >= 0.25 * shares[order[0]]]


def _over_the_margin(audit: Audit) -> list[int]:
    regret = audit.results["regret"]
    low = np.array([regret.per_environment[label].interval[0] for label in regret.labels])
    value = np.array([regret.per_environment[label].value for label in regret.labels])
    return [int(k) for k in np.argsort(-value, kind="stable") if low[k] > audit.settings.margin]


@dataclass(frozen=True)
class Cloud:
    """The influence index against its value for shuffled domains: histogram ``counts`` between ``edges``;
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
    """Influence index against its shuffle cloud; ``None`` without finite numbers."""
    result = audit.results.get("influence_index")
    if result is None or not math.isfinite(result.value):
        return None
    shuffled = np.asarray(result.null, np.float64)
    shuffled = shuffled[np.isfinite(shuffled)]
    if len(shuffled) < 2:
        return None
    bins = int(np.clip(math.sqrt(len(shuffled)), 8, 30))
    counts, edges = np.histogram(shuffled, bins=bins)
    low, high = (float(q) for q in np.quantile(shuffled, [0.025, 0.975]))
    chance = f"({wording.pvalue(result.pvalue, len(result.null))})"
    finding = (
        f"The environments pull the head apart more than chance does {chance}"
        if result.pvalue < audit.settings.alpha
        else f"The environments pull the head apart no more than chance does {chance}"
    )
    return Cloud(
        value=float(result.value),
        edges=edges.astype(np.float64),
        counts=counts.astype(np.float64),
        low=low,
        high=high,
        draws=len(shuffled),
        finding=finding,
        pull=_pull(audit),
    )


def _pull(audit: Audit) -> str:
    """Which environment stands furthest out along the leading direction, and which parameters make it up."""
    result = audit.results["influence_index"]
    influences = np.asarray(result.influences, np.float64)
    direction = np.asarray(result.direction, np.float64)
    if influences.ndim != 2 or influences.shape[1] != len(direction) or not np.isfinite(influences).all():
        return ""
    along = (influences - influences.mean(0)) @ direction
    if not np.isfinite(along).all() or not np.abs(along).max() > 0:
        return ""
    furthest = wording.names(result.labels)[int(np.argmax(np.abs(along)))]
    parameters = wording.names(result.parameters)
    loadings = [_spoken(parameters[j]) for j in _leading(np.abs(direction))]
    return f"{furthest} stands furthest out; the pull is mostly on {wording.listed(loadings)}."
