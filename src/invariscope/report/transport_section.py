"""The part of the page on the transport gap: two heat maps side by side, or a list of pairs, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.criteria.transport.transport_gap import FEWEST_ROWS
from invariscope.ratios.overlap import MOST, PLENTY, WEAK
from invariscope.report import findings, record
from invariscope.report.sections import Draw, escaped, note, section
from invariscope.report.transport import SIDE_BY_SIDE, GapPair, Gaps
from invariscope.report.transport import transport as plot_data

OVERLAP_LEGEND = (
    "How many rows of the environment above still count once they are weighted to look like the one at the left; "
    "the stronger the colour, the larger their share."
)
REFUSED_LEGEND = (
    f"Dashed: refused, under {wording.percent(WEAK)} of the rows effective (and not {PLENTY}), or fewer than "
    f"{FEWEST_ROWS}, or over {wording.percent(1 - MOST)} of the environment at the left beyond their reach."
)
PAIRS_LEGEND = (
    "p allows for all pairs. Mean ratio: the mean weight, 1 if the ratio is right. Heaviest row: its share of all "
    "weight. Heavy rows: those that weigh more than {cap:g}."
)


def transport(audit: Audit, figure: Draw) -> str:
    """Whose mean would move under whose relation, with the overlap beside it; a list where there are too many."""
    found = plot_data(audit)
    if found is None:
        return ""
    gaps, cover = found
    legend = {
        "Orange: up; blue: down.": not all(p.refused for p in gaps.ranked),
        "* and bold: surely not zero, even after looking at all pairs.": any(p.sure for p in gaps.ranked),
        "Faint: not sure.": any(not p.sure and not p.refused for p in gaps.ranked),
        REFUSED_LEGEND: any(p.refused for p in gaps.ranked),
    }
    caption = " ".join(text for text, applies in legend.items() if applies)
    side_by_side = len(gaps.names) <= SIDE_BY_SIDE
    if len(gaps.names) <= findings.MATRIX_LIMIT:
        body = (
            f'<div class="pair{"" if side_by_side else " stacked"}">\n'
            f"<div><h3>{escaped(gaps.heading)}</h3>\n{figure('gaps', gaps, caption)}</div>\n"
            f"<div><h3>{escaped(cover.finding)}</h3>\n"
            + figure("overlaps", cover, OVERLAP_LEGEND)
            + f"</div>\n</div>\n<details><summary>{_all(gaps)} pairs as a table, with intervals</summary>\n"
            + _pairs(gaps, gaps.ranked)
            + note(f"{PAIRS_LEGEND.format(cap=cover.cap)} {cover.calibration}")
            + "</details>\n"
        )
    else:
        shown = gaps.ranked[: findings.PAIR_LIMIT]
        body = note(f"{gaps.heading}. {cover.finding}.") + _pairs(gaps, shown)
        body += note(
            f"{len(shown)} of {len(gaps.ranked):,} pairs: sure ones (*) first, larger gaps first. "
            f"{PAIRS_LEGEND.format(cap=cover.cap)} {cover.calibration}"
        )
    known = record.words_of("transport_gap")
    remarks = [gaps.tally and f"{gaps.tally}.", known and f"{known.tells} Cannot tell: {known.cannot_tell}"]
    body += "".join(note(text) for text in remarks if text)
    return section("If one environment's relation held in another", gaps.finding, body)


def _all(gaps: Gaps) -> str:
    return "Both" if len(gaps.ranked) == 2 else f"All {len(gaps.ranked)}"


def _pairs(gaps: Gaps, pairs: Sequence[GapPair]) -> str:
    """Pairs with everything that is known of them."""
    columns: list[tuple[str, list[str]]] = [
        ("gap", [gaps.text(p.gap) + ("*" if p.sure else "") for p in pairs]),
        ("95 %", [gaps.span(p) or wording.MISSING for p in pairs]),
        ("p, all pairs", [gaps.chance(p).removeprefix("p ").removeprefix("= ") for p in pairs]),
        ("effective rows", [f"{p.effective_words}, {p.overlap}" for p in pairs]),
        ("within reach", [wording.percent(p.reached) for p in pairs]),
        ("mean ratio", [wording.number(p.mean_ratio, 2) for p in pairs]),
        ("heaviest row", [wording.percent(p.largest) for p in pairs]),
        ("heavy rows", [wording.percent(p.beyond_cap) for p in pairs]),
    ]
    if gaps.several:
        columns.insert(0, ("class", [p.moving or wording.MISSING for p in pairs]))
    heads = "".join(f'<th scope="col" class="number">{escaped(title)}</th>' for title, _ in columns)
    body = "".join(
        f'<tr><th scope="row" class="name" title="{escaped(p.moved)}"><span>{escaped(p.moved)}</span></th>'
        f'<td class="name" title="{escaped(p.borrowed)}"><span>{escaped(p.borrowed)}</span></td>'
        + "".join(f'<td class="number">{escaped(cells[k])}</td>' for _, cells in columns)
        + "</tr>\n"
        for k, p in enumerate(pairs)
    )
    return (
        '<div class="scroll"><table class="gap-list">\n<thead><tr><th scope="col">mean of</th>'
        f'<th scope="col">relation of</th>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n'
    )
