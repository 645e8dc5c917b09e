"""If one environment's relation held in another: whose mean would move, with the overlap beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.criteria.transport.transport_gap import FEWEST_ROWS
from invariscope.ratios.overlap import MOST, PLENTY, WEAK
from invariscope.report.markup import Figure, escaped, name_cell, name_head, note, section, short_names, table
from invariscope.report.parts.criteria import explanation
from invariscope.report.parts.disagreement import MATRIX_LIMIT, PAIR_LIMIT
from invariscope.report.parts.overlap import OverlapMatrix, OverlapPair, matrix_markup, overlap_matrix, overlap_pair
from invariscope.rows.arrays import Floats
from invariscope.shortening import distinct

#: Environments up to which the two matrices stand side by side; with more, a phone scrolls them.
SIDE_BY_SIDE = 6
#: Letters of a name in the title.
NAME_LIMIT = 20
#: Shades of a gap: three on each side of the one for none; and shares of the largest gap from which they begin.
GAP_SHADES = 7
STRONG, MIDDLE, PALE = 2 / 3, 1 / 3, 0.1
REFUSED_LEGEND = (
    f"Dashed: refused, under {wording.percent(WEAK)} of the rows effective (and not {PLENTY}), or fewer than "
    f"{FEWEST_ROWS}, or over {wording.percent(1 - MOST)} of the environment at the left beyond their reach."
)
PAIRS_LEGEND = (
    "Mean ratio: the mean weight, 1 if the ratio is right. Heaviest row: its share of all weight. Heavy rows: those "
    "that weigh more than {cap:g}."
)


@dataclass(frozen=True)
class GapPair:
    """If the relation of ``borrowed`` held in ``moved``, its mean would move by ``gap`` (NaN: refused).

    ``sure`` allows for having looked at all pairs; ``moving`` is the class that moves; ``overlap`` is that of the rows
    of ``borrowed``, weighted to look like ``moved``.
    """

    moved: str
    borrowed: str
    gap: float
    interval: tuple[float, float]
    pvalue: float
    sure: bool
    moving: str
    overlap: OverlapPair

    @property
    def refused(self) -> bool:
        """Is there no gap to give?"""
        return not math.isfinite(self.gap)


@dataclass(frozen=True)
class Unit:
    """The unit of gaps: percentage points for ``classes``, the target's own otherwise; ``None`` decimals where digits
    take powers of ten."""

    classes: bool
    decimals: int | None

    @classmethod
    def fitting(cls, classes: bool, largest: float) -> Unit:
        """With the decimals that show two digits of a gap this large."""
        shown = 100 * largest if classes else largest
        power = math.floor(math.log10(shown)) if shown > 0 else 1
        return cls(classes, max(0, 1 - power) if -4 < power < 9 else None)

    @property
    def suffix(self) -> str:
        """What stands behind a number in a sentence."""
        return " points" if self.classes else ""

    def text(self, value: float, *, signed: bool = True) -> str:
        """A gap as text."""
        if not math.isfinite(value):
            return wording.MISSING
        shown = 100 * value if self.classes else value
        if self.decimals is None:
            text = wording.number(shown, 2)
        else:
            text = f"{shown:,.{self.decimals}f}".replace("-", wording.MINUS)
        if not any(digit in text for digit in "123456789"):
            return "0"
        return f"+{text}" if signed and not text.startswith(wording.MINUS) else text


@dataclass(frozen=True)
class Gaps:
    """The matrix of gaps: ``pairs[a][b]`` moves ``names[a]`` by the relation of ``names[b]``, ``None`` for a = b.

    ``shades[a, b]`` is 0 … 6 with 3 for none and −1 for refused. ``ranked`` has sure pairs first, larger gaps first,
    refused ones last. ``several`` classes move in different pairs. ``heading`` says what is shown in which unit,
    ``finding`` what it comes to, ``tally`` how many pairs differ or cannot be compared.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[GapPair | None, ...], ...]
    shades: Floats
    ranked: tuple[GapPair, ...]
    unit: Unit
    several: bool
    draws: int
    heading: str
    finding: str
    tally: str

    def interval(self, pair: GapPair) -> str:
        """The 95 % interval of a gap, or nothing where there is none."""
        return "" if pair.refused else " … ".join(self.unit.text(end) for end in pair.interval)

    def chance(self, pair: GapPair) -> str:
        """The p-value of a gap, which allows for all pairs."""
        return wording.pvalue(pair.pvalue, self.draws)

    def description(self, pair: GapPair) -> str:
        """One cell in words, for whoever points at it."""
        head = f"{pair.moved} with the relation of {pair.borrowed}: "
        if pair.refused:
            return f"{head}not compared, {pair.overlap.words}"
        moving = f"{pair.moving} " if pair.moving else ""
        gap = f"{head}{moving}{self.unit.text(pair.gap)}{self.unit.suffix}"
        return f"{gap} (95 %: {self.interval(pair)}), {self.chance(pair)}" if self.draws else gap


def transport(audit: Audit) -> Gaps | None:
    """Whose mean would move under whose relation; ``None`` without a transport gap."""
    result = audit.results.get("transport_gap")
    if result is None:
        return None
    names = wording.names(result.labels)
    size = range(len(names))
    pairs = tuple(tuple(None if a == b else _pair(audit, names, a, b) for b in size) for a in size)
    flat = [pair for row in pairs for pair in row if pair is not None]
    ranked = tuple(sorted(flat, key=lambda pair: (pair.refused, not pair.sure, -abs(np.nan_to_num(pair.gap)))))
    compared = [pair for pair in ranked if not pair.refused]
    several = len({pair.moving for pair in compared}) > 1
    # the largest gap or half of the widest interval
    longest = max((max(abs(pair.gap), np.ptp(pair.interval) / 2) for pair in compared), default=0.0)
    unit = Unit.fitting(result.task != "regression", longest)
    target = wording.short(audit.data.target_name)
    subject = f"the class of {target} that moves most" if several else _subject(ranked[0], target)
    return Gaps(
        names=names,
        pairs=pairs,
        shades=_shades(pairs),
        ranked=ranked,
        unit=unit,
        several=several,
        draws=len(result.null),
        heading=f"How far {subject} would move, in {'percentage points' if unit.classes else f'units of {target}'}",
        finding=_finding(names, ranked, unit, several, target),
        tally=_tally(ranked),
    )


def in_short(audit: Audit) -> str:
    """The transport gap in one sentence, for the terminal; empty without one."""
    gaps = transport(audit)
    if gaps is None:
        return ""
    return gaps.finding[0].lower() + gaps.finding[1:] + (f"; {gaps.tally}" if gaps.tally else "")


def _pair(audit: Audit, names: tuple[str, ...], a: int, b: int) -> GapPair:
    result, classes = audit.results["transport_gap"], audit.data.classes
    low, high = (float(end) for end in result.pair_intervals[a, b])
    pvalue = float(result.pair_pvalues[a, b])
    # of two classes it is the probability of the second that moves
    second = classes[1] if result.task == "binary" and classes else None
    moving = second if result.moving_class is None else result.moving_class[a][b]
    return GapPair(
        moved=names[a],
        borrowed=names[b],
        gap=float(result.pairs[a, b]),
        interval=(low, high),
        pvalue=pvalue,
        sure=pvalue < audit.settings.alpha,
        moving="" if moving is None else wording.clean(moving),
        overlap=overlap_pair(result.overlap, names, a, b),
    )


def _shades(pairs: tuple[tuple[GapPair | None, ...], ...]) -> Floats:
    largest = max(
        (abs(pair.gap) for row in pairs for pair in row if pair is not None and not pair.refused), default=0.0
    )
    return np.array([[_shade(pair, largest) for pair in row] for row in pairs], np.float64)


def _shade(pair: GapPair | None, largest: float) -> int:
    """The shade of a gap. Gaps that are not sure stay pale: noise should not shout."""
    none = GAP_SHADES // 2
    if pair is None or not largest:
        return none
    if pair.refused:
        return -1
    size = abs(pair.gap) / largest
    away = 0 if size < PALE else 1 if size < MIDDLE or not pair.sure else 2 if size < STRONG else 3
    return none + (away if pair.gap > 0 else -away)


# --- sentences --------------------------------------------------------------------------------------------------
def _subject(pair: GapPair, target: str) -> str:
    """What moves: the mean of numbers and of 0/1 codes, otherwise the share of a class."""
    named = pair.moving not in ("", "1", "1.0", "True")
    return f'the share of "{wording.short(pair.moving, NAME_LIMIT)}" in {target}' if named else f"mean {target}"


def _tally(ranked: tuple[GapPair, ...]) -> str:
    sure, refused = sum(pair.sure for pair in ranked), sum(pair.refused for pair in ranked)
    counts = [f"{sure} of {len(ranked)} pairs differ surely"] if sure > 1 else []
    if refused and (sure or 2 * refused <= len(ranked)):  # otherwise the title says so
        counts.append(f"{refused} {'' if counts else f'of {len(ranked)} pairs '}cannot be compared")
    return ", ".join(counts)


def _finding(names: tuple[str, ...], ranked: tuple[GapPair, ...], unit: Unit, several: bool, target: str) -> str:
    first = ranked[0]
    short = dict(zip(names, map(wording.quoted, distinct(names, NAME_LIMIT)), strict=True))
    if first.refused and len(names) == 2:
        one, other = short.values()
        return f"{one} and {other} hardly overlap: neither's relation can be tried on the other"
    if first.refused:
        return "The environments hardly overlap: no one's relation can be tried on another"
    if first.sure or not math.isfinite(first.interval[0]):
        return _largest(first, short, unit, target)
    subject = f"share of any class of {target}" if several else _subject(first, target).removeprefix("the ")
    return _at_most(ranked, unit.classes, subject)


def _at_most(ranked: tuple[GapPair, ...], classes: bool, subject: str) -> str:
    """Where no gap is sure: how far any may be, by its interval."""
    compared = [pair for pair in ranked if not pair.refused]
    largest = max(abs(end) for pair in compared for end in pair.interval)
    unit = Unit.fitting(classes, largest)
    most = f"{unit.text(largest, signed=False)}{unit.suffix} (95 %)"
    if 2 * len(compared) < len(ranked):
        pairs = f"Only {len(compared)} of {len(ranked)} pairs can be compared"
        return f"{pairs}; there, {subject} would move by no more than {most}"
    where = ", where they overlap" if len(compared) < len(ranked) else ""
    return f"No environment's relation would move another's {subject} by more than {most}{where}"


def _largest(pair: GapPair, short: dict[str, str], unit: Unit, target: str) -> str:
    """The largest of the sure gaps, or of all where nothing was drawn and none has an interval."""
    sign = 1 if pair.gap > 0 else -1
    ends = sorted(sign * end for end in pair.interval)
    low, high = (unit.text(end, signed=False) for end in ends)
    interval = f"{low}–{high}" if ends[0] >= 0 else f"{low} … {high}"
    gap = f"{unit.text(abs(pair.gap), signed=False)}{unit.suffix} {'higher' if pair.gap > 0 else 'lower'}"
    gap = f"{gap} (95 %: {interval})" if math.isfinite(ends[0]) else f"about {gap}"
    borrowed = short[pair.borrowed]
    relation = f"the relation of {borrowed}" if borrowed.endswith(('"', "…")) else f"{borrowed}'s relation"
    subject = _subject(pair, target)
    return f"If {relation} held in {short[pair.moved]}, {subject} would be {gap}"


# --- markup -----------------------------------------------------------------------------------------------------
def markup(audit: Audit, figure: Figure) -> str:
    """Two heat maps with all pairs in a table behind them, or a list where there are too many."""
    gaps = transport(audit)
    if gaps is None:
        return ""
    overlap = overlap_matrix(audit.results["transport_gap"].overlap, gaps.names)
    chance, intervals = ("p allows for all pairs. ", ", with intervals") if gaps.draws else ("", "")
    legend = f"{chance}{PAIRS_LEGEND.format(cap=overlap.cap)} {overlap.calibration}"
    if len(gaps.names) <= MATRIX_LIMIT:
        body = _matrices(gaps, overlap, figure)
        every = "Both" if len(gaps.ranked) == 2 else f"All {len(gaps.ranked)}"
        body += f"<details><summary>{every} pairs as a table{intervals}</summary>\n"
        body += _list(gaps, gaps.ranked) + note(legend) + "</details>\n"
    else:
        shown = gaps.ranked[:PAIR_LIMIT]
        count = f"{len(shown)} of {len(gaps.ranked):,} pairs: sure ones (*) first, larger gaps first."
        body = note(f"{gaps.heading}. {overlap.finding}.") + _list(gaps, shown) + note(f"{count} {legend}")
    body += (note(f"{gaps.tally}.") if gaps.tally else "") + note(explanation("transport_gap"))
    return section("If one environment's relation held in another", gaps.finding, body)


def _matrices(gaps: Gaps, overlap: OverlapMatrix, figure: Figure) -> str:
    legend = {
        "Orange: up; blue: down.": any(not p.refused for p in gaps.ranked),
        "* and bold: surely not zero, even after looking at all pairs.": any(p.sure for p in gaps.ranked),
        "Faint: not sure.": any(not p.sure and not p.refused for p in gaps.ranked),
        REFUSED_LEGEND: any(p.refused for p in gaps.ranked),
    }
    caption = " ".join(text for text, applies in legend.items() if applies)
    kind = "pair" if len(gaps.names) <= SIDE_BY_SIDE else "pair stacked"
    return (
        f'<div class="{kind}">\n<div><h3>{escaped(gaps.heading)}</h3>\n{figure("gaps", gaps, caption)}</div>\n'
        f"{matrix_markup(overlap, figure)}</div>\n"
    )


def _list(gaps: Gaps, pairs: Sequence[GapPair]) -> str:
    """Pairs with everything that is known of them."""
    heads = "".join(f'<th scope="col">{title}</th>' for title in ("mean of", "relation of"))
    heads += "".join(f'<th scope="col" class="number">{title}</th>' for title in _cells(gaps, pairs[0]))
    names = short_names(gaps.names)
    rows = [
        f"{name_head(pair.moved, names[pair.moved])}{name_cell(pair.borrowed, names[pair.borrowed])}"
        + "".join(f'<td class="number">{escaped(cell)}</td>' for cell in _cells(gaps, pair).values())
        for pair in pairs
    ]
    return f'<div class="scroll">{table("gap-list", heads, rows)}</div>\n'


def _cells(gaps: Gaps, pair: GapPair) -> dict[str, str]:
    overlap = pair.overlap
    cells = {"class": pair.moving or wording.MISSING} if gaps.several else {}
    cells["gap"] = gaps.unit.text(pair.gap) + ("*" if pair.sure else "")
    if gaps.draws:
        cells["95 %"] = gaps.interval(pair) or wording.MISSING
        cells["p, all pairs"] = gaps.chance(pair).removeprefix("p ").removeprefix("= ")
    return cells | {
        "effective rows": f"{overlap.effective_rows}, {overlap.verdict}",
        "within reach": wording.percent(overlap.reached),
        "mean ratio": wording.number(overlap.mean_ratio, 2),
        "heaviest row": wording.percent(overlap.largest),
        "heavy rows": wording.percent(overlap.beyond_cap),
    }
