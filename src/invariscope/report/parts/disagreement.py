"""Who disagrees with whom: a heat map, or the most extreme pairs where there are too many for one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from invariscope import wording
from invariscope.auditing.advice import comparable
from invariscope.auditing.record import Audit
from invariscope.auditing.verdict import overlap_in, overlap_of
from invariscope.report.markup import Figure, name_cell, name_head, note, section, short_names, table
from invariscope.rows.arrays import Floats
from invariscope.shortening import among

#: A matrix with more environments than this cannot be read: the most extreme pairs are listed instead.
MATRIX_LIMIT = 12
PAIR_LIMIT = 12
APART_LEGEND = "Dashed: no overlap of {whose}, so that the head could only guess."


@dataclass(frozen=True)
class Pair:
    """``served`` would lose ``value`` (a share of its own loss) if the head of ``head`` served it."""

    served: str
    head: str
    value: float


@dataclass(frozen=True)
class Disagreement:
    """``values[a, b]``: extra loss in ``names[a]`` if the head of ``names[b]`` served it; ``extreme`` worst first.

    ``apart[a, b]``: the two have no common rows, so that a head of b only extrapolates in a; such pairs count for
    nothing.
    """

    names: tuple[str, ...]
    values: Floats
    apart: NDArray[np.bool_]
    extreme: tuple[Pair, ...]
    finding: str


def disagreement(audit: Audit) -> Disagreement | None:
    """Who disagrees with whom; ``None`` without a regret of any environment."""
    regret = audit.results.get("regret")
    if regret is None:
        return None
    names = wording.names(regret.labels)
    different = ~np.eye(len(names), dtype=bool) & np.isfinite(regret.pairs)
    if not different.any():
        return None
    pairs = comparable(regret, overlap_in(audit.results))
    flat = pairs.ravel()
    order = [int(k) for k in np.argsort(-flat, kind="stable") if math.isfinite(flat[k])]
    extreme = tuple(Pair(names[k // len(names)], names[k % len(names)], float(flat[k])) for k in order[:PAIR_LIMIT])
    return Disagreement(
        names=names,
        values=regret.pairs,
        apart=different & np.isnan(pairs),
        extreme=extreme,
        finding=_finding(audit, names, extreme, (len(order), len(flat) - len(names))),
    )


def _finding(audit: Audit, names: tuple[str, ...], extreme: tuple[Pair, ...], counts: tuple[int, int]) -> str:
    pvalue, margin = audit.results["regret"].pvalue, audit.settings.margin
    if pvalue >= audit.settings.alpha:
        return f"Differences between heads are within what chance makes ({wording.pvalue(pvalue)})"
    if not extreme:
        return "No two environments have rows in common on which their heads could be compared"
    worst, (compared, of_all) = extreme[0], counts
    few = f"Only {compared} of {of_all} pairs can be compared; " if 2 * compared < of_all else ""
    if worst.value <= margin:
        none = "there, none" if few else "No environment"
        return f"{few}{none} would lose more than {wording.exactly(margin)} with the head of another"
    served, head = (wording.quoted(among(name, names)) for name in (worst.served, worst.head))
    match = f"orst match: {served} with the head of {head}, {extra_loss(worst.value)} loss"
    return f"{few}w{match}" if few else f"W{match}"


def extra_loss(value: float) -> str:
    """A share of a head's own loss; above 1,000 % its size says nothing more.

    >>> extra_loss(0.38), extra_loss(65.08)
    ('+38 %', 'over 1,000 % more')
    """
    over = f"over {wording.percent(wording.UNBOUNDED)} more"
    return over if value > wording.UNBOUNDED else wording.percent(value, signed=True)


def markup(audit: Audit, figure: Figure) -> str:
    """The heat map with its legend beside it, or the list."""
    numbers = disagreement(audit)
    if numbers is None:
        return ""
    if len(numbers.names) <= MATRIX_LIMIT:
        caption = (
            "Read along a row: how much more loss (in %) the rows of that environment would have if another "
            "environment's head served them, not their own. The stronger the colour, the more; grey: under the margin."
        )
        body = figure(
            "matrix",
            numbers,
            f"{caption} {APART_LEGEND.format(whose=overlap_of(audit.results))}" if numbers.apart.any() else caption,
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
            f'<td class="number">{extra_loss(pair.value)}</td>'
            for pair in numbers.extreme
        ]
        total, apart = len(numbers.names) * (len(numbers.names) - 1), int(numbers.apart.sum())
        body = table("pairs", heads, rows) + "\n"
        without = f" {apart:,} without overlap of {overlap_of(audit.results)} are left out." if apart else ""
        body += note(f"The {len(numbers.extreme)} most extreme of {total:,} pairs.{without}")
    return section("Who disagrees with whom", numbers.finding, body)
