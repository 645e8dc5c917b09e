"""Features that drive it: the columns whose weights carry the extra loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.advice import driving_columns
from invariscope.auditing.record import Audit
from invariscope.criteria.influence.influence_index import INTERCEPT
from invariscope.criteria.regret.regret import LEVEL
from invariscope.report.markup import Figure, escaped, note, section
from invariscope.results import RegretResult
from invariscope.rows.arrays import Floats
from invariscope.shortening import distinct

#: Features shown in a chart; the rest is summed up in a sentence.
DRIVER_LIMIT = 12
#: Environments over the margin whose own leading columns are named.
APART_LIMIT = 8
#: Parts of a head that are no column of the user's, in the middle of a sentence.
SPOKEN = {LEVEL: "the overall level", INTERCEPT: "the intercept"}


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
    """Features behind the disagreement; ``None`` where there is no difference to attribute.

    The share of column j is Σ_e max(part_ej, 0) over the same sum for all columns, as in the verdict's sentence.
    """
    regret = audit.results.get("regret")
    if regret is None:
        return None
    # without draws there is no p-value, and the parts are shown as the point estimates they are
    different = regret.per_environment[regret.worst].value > 0 and not regret.pvalue >= audit.settings.alpha
    parts = np.maximum(regret.drivers, 0.0)
    total = np.nansum(parts, axis=0)
    if not different or not total.sum() > 0:
        return None
    shares = total / total.sum()
    columns = wording.names(regret.columns)
    order = np.argsort(-shares, kind="stable")
    return Drivers(
        columns=tuple(columns[j] for j in order[:DRIVER_LIMIT]),
        shares=tuple(float(s) for s in shares[order[:DRIVER_LIMIT]]),
        others=max(0, len(order) - DRIVER_LIMIT),
        rest=float(shares[order[DRIVER_LIMIT:]].sum()),
        finding=_finding(columns, shares, [regret.columns.index(name) for name in driving_columns(regret, 3)]),
        apart=_apart(regret, parts, columns, audit.settings.margin),
    )


def _finding(columns: tuple[str, ...], shares: Floats, leaders: list[int]) -> str:
    if not leaders:
        largest = int(np.argmax(shares))
        share = wording.percent(float(shares[largest]))
        return f"No column stands out: the largest, {spoken(columns)[largest]}, carries {share}"
    names = wording.listed([spoken(columns)[j] for j in leaders])
    names = names.replace("the", "The", 1) if names.startswith(SPOKEN[LEVEL]) else names
    carry = "carries" if len(leaders) == 1 else "carry"
    return f"{names} {carry} {wording.percent(float(shares[leaders].sum()))} of the extra loss"


def _apart(regret: RegretResult, parts: Floats, columns: tuple[str, ...], margin: float) -> tuple[tuple[str, str], ...]:
    """Environments whose regret is surely over the margin, the largest first, and the columns that lead there."""
    names = wording.names(regret.labels)
    estimates = [regret.per_environment[label] for label in regret.labels]
    order = np.argsort([-estimate.value for estimate in estimates], kind="stable")
    over = [int(k) for k in order if estimates[k].interval[0] > margin]
    said = spoken(columns)
    texts = [
        (names[k], " · ".join(f"{said[j]} {wording.percent(parts[k, j] / parts[k].sum())}" for j in top))
        for k in over
        if (top := leading(parts[k]))
    ]
    return tuple(texts[:APART_LIMIT])


def spoken(names: Sequence[str]) -> tuple[str, ...]:
    """Parts of a head in the middle of a sentence, in words that stay apart."""
    short = distinct(names, 30)
    return tuple(SPOKEN.get(name, words) for name, words in zip(names, short, strict=True))


def leading(shares: Floats) -> list[int]:
    """At most three columns, without those that add little to the first."""
    order = [int(j) for j in np.argsort(-shares, kind="stable")[:3]]
    return [j for j in order if shares[j] > 0 and shares[j] >= 0.25 * shares[order[0]]]


def markup(audit: Audit, figure: Figure) -> str:
    """A bar for each of the first columns, or why there is nothing to attribute."""
    if "regret" not in audit.results:
        return ""
    kicker = "Features that drive it"
    numbers = drivers(audit)
    if numbers is None:
        remark = note("Too little extra loss to say which features carry it.")
        return section(kicker, "No difference to attribute", remark)
    caption = "Share of the extra loss, all environments together, that each column's weight carries."
    if LEVEL in numbers.columns:
        caption += f" {LEVEL}: what is left with all columns at their means."
    if numbers.others:
        verb = "carries" if numbers.others == 1 else "carry together"
        caption += f" {wording.count(numbers.others, 'further column')} {verb} {wording.percent(numbers.rest)}."
    body = figure("bars", numbers, caption)
    if numbers.apart:
        body += note("Mostly, by environment over the margin:") + '<ul class="note">\n'
        body += "".join(f"<li>{escaped(name)}: {escaped(top)}</li>\n" for name, top in numbers.apart) + "</ul>\n"
    return section(kicker, numbers.finding, body)
