"""Who disagrees with whom: a heat map, or the most extreme pairs where there are too many for one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.report.markup import Figure, name_cell, name_head, note, section, short_names, table
from invariscope.rows.arrays import Floats

#: A matrix with more environments than this cannot be read: the most extreme pairs are listed instead.
MATRIX_LIMIT = 12
PAIR_LIMIT = 12


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
    """Who disagrees with whom; ``None`` without a regret of any environment."""
    regret = audit.results.get("regret")
    if regret is None:
        return None
    names = wording.names(regret.labels)
    flat = np.where(np.eye(len(names), dtype=bool), np.nan, regret.pairs).ravel()
    order = [int(k) for k in np.argsort(-flat, kind="stable") if math.isfinite(flat[k])]
    if not order:
        return None
    extreme = tuple(Pair(names[k // len(names)], names[k % len(names)], float(flat[k])) for k in order[:PAIR_LIMIT])
    worst, margin = extreme[0], audit.settings.margin
    if regret.pvalue >= audit.settings.alpha:
        finding = f"Differences between heads are within what chance makes ({wording.pvalue(regret.pvalue)})"
    elif worst.value <= margin:
        finding = f"No environment would lose more than {wording.percent(margin)} with the head of another"
    else:
        served, head = wording.short(worst.served), wording.short(worst.head)
        finding = f"Worst match: {served} with the head of {head}, {wording.percent(worst.value, signed=True)} loss"
    return Disagreement(names, regret.pairs, extreme, finding)


def markup(audit: Audit, figure: Figure) -> str:
    """The heat map with its legend beside it, or the list."""
    numbers = disagreement(audit)
    if numbers is None:
        return ""
    if len(numbers.names) <= MATRIX_LIMIT:
        body = figure(
            "matrix",
            numbers,
            "Read along a row: how much more loss (in %) the rows of that environment would have if another "
            "environment's head served them, not their own. The stronger the colour, the more; grey: under the margin.",
            margin=audit.settings.margin,
        )
    else:
        heads = (
            '<th scope="col">rows of</th><th scope="col">served by the head of</th>'
            '<th scope="col" class="number">extra loss</th>'
        )
        names = short_names(numbers.names)
        rows = [
            f"{name_head(pair.served, names[pair.served])}{name_cell(pair.head, names[pair.head])}"
            f'<td class="number">{wording.percent(pair.value, signed=True)}</td>'
            for pair in numbers.extreme
        ]
        total = len(numbers.names) * (len(numbers.names) - 1)
        body = table("pairs", heads, rows) + "\n"
        body += note(f"The {len(numbers.extreme)} most extreme of {total:,} pairs.")
    return section("Who disagrees with whom", numbers.finding, body)
