"""Plot data of the transport gap: whose mean would move under whose relation, and how far their rows overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.ratios.overlap import GOOD, WEAK
from invariscope.report.data import distinct
from invariscope.results import Overlap
from invariscope.rows.arrays import Floats

#: Environments up to which the two matrices stand side by side; with more, a phone scrolls them.
SIDE_BY_SIDE = 6
#: Letters of a name in the title.
NAME_LIMIT = 24
#: Shades of a gap: three on each side of the one for none; and shares of the largest gap from which they begin.
GAP_STEPS = 7
STRONG, MIDDLE, PALE = 2 / 3, 1 / 3, 0.1
#: Shares of effective rows at which the shade of the overlap changes: the verdict's first, then even steps.
COVER_STEPS = (WEAK, GOOD, 0.55, 0.8)


@dataclass(frozen=True)
class GapPair:
    """If the relation of ``borrowed`` held in ``moved``, its mean would move by ``gap`` (NaN: refused).

    ``sure`` allows for having looked at all pairs; ``moving`` is the class that moves. The rest is about the rows of
    ``borrowed``, weighted to look like ``moved``: ``effective`` of ``rows`` still count.
    """

    moved: str
    borrowed: str
    gap: float
    interval: tuple[float, float]
    pvalue: float
    sure: bool
    moving: str
    effective: float
    rows: float
    overlap: str
    mean_ratio: float
    largest: float
    beyond_cap: float
    reached: float

    @property
    def refused(self) -> bool:
        """Is there no gap to give?"""
        return not math.isfinite(self.gap)

    @property
    def effective_words(self) -> str:
        """How many rows still count: "31 of 123"."""
        return f"{self.effective:,.0f} of {self.rows:,.0f}"


@dataclass(frozen=True)
class Gaps:
    """The matrix of gaps: ``pairs[a][b]`` moves ``names[a]`` by the relation of ``names[b]``, ``None`` for a = b.

    ``steps[a, b]`` is its shade, 0 … 6 with 3 for none and −1 for refused. ``ranked`` has sure pairs first, larger gaps
    first, refused ones last. ``heading`` says what is shown in which unit, ``finding`` what it comes to.
    """

    names: tuple[str, ...]
    pairs: tuple[tuple[GapPair | None, ...], ...]
    steps: Floats
    ranked: tuple[GapPair, ...]
    classes: bool
    decimals: int | None
    several: bool
    draws: int
    heading: str
    finding: str
    tally: str

    def text(self, value: float, *, signed: bool = True) -> str:
        """A gap in the unit of the matrix: points for classes, the target's own otherwise."""
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

    def span(self, pair: GapPair) -> str:
        """The 95 % interval of a gap, or nothing where there is none."""
        if not all(map(math.isfinite, pair.interval)):
            return ""
        return " … ".join(self.text(end) for end in pair.interval)

    def chance(self, pair: GapPair) -> str:
        """The p-value of a gap, which allows for all pairs."""
        return wording.pvalue(pair.pvalue, self.draws)

    def told(self, pair: GapPair) -> str:
        """One cell in words, for whoever points at it."""
        head = f"{pair.moved} with the relation of {pair.borrowed}: "
        if pair.refused:
            return f"{head}not compared, {_overlap_words(pair)}"
        unit = " points" if self.classes else ""
        moving = f"{pair.moving} " if pair.moving else ""
        span = f" (95 %: {self.span(pair)})" if self.span(pair) else ""
        return f"{head}{moving}{self.text(pair.gap)}{unit}{span}, {self.chance(pair)}"


@dataclass(frozen=True)
class Cover:
    """The matrix of overlaps: pairs as in :class:`Gaps`; ``steps[a, b]`` is the shade of the share of effective rows,
    0 for none."""

    names: tuple[str, ...]
    pairs: tuple[tuple[GapPair | None, ...], ...]
    steps: Floats
    finding: str
    calibration: str
    cap: float

    def told(self, pair: GapPair) -> str:
        """One cell in words, for whoever points at it."""
        return f"Rows of {pair.borrowed}, weighted to look like {pair.moved}: {_overlap_words(pair)}"


def transport(audit: Audit) -> tuple[Gaps, Cover] | None:
    """Both matrices; ``None`` without a transport gap."""
    result = audit.results.get("transport_gap")
    if result is None:
        return None
    names = wording.names(result.labels)
    pairs = tuple(
        tuple(None if a == b else _pair(audit, names, a, b) for b in range(len(names))) for a in range(len(names))
    )
    flat = [pair for row in pairs for pair in row if pair is not None]
    return _gaps(audit, names, pairs, flat), _cover(names, pairs, flat, result.overlap)


def in_short(audit: Audit) -> str:
    """The transport gap in one sentence, for the terminal; empty without one."""
    found = transport(audit)
    if found is None:
        return ""
    gaps, _ = found
    return gaps.finding[0].lower() + gaps.finding[1:] + (f"; {gaps.tally}" if gaps.tally else "")


def _pair(audit: Audit, names: tuple[str, ...], a: int, b: int) -> GapPair:
    result = audit.results["transport_gap"]
    overlap, classes = result.overlap, audit.data.classes
    low, high = (float(end) for end in result.pair_intervals[a, b])
    pvalue = float(result.pair_pvalues[a, b])
    # of two classes it is the probability of the second that moves
    second = classes[1] if result.task == "binary" and len(classes) == 2 else None
    moving = second if result.moving_class is None else result.moving_class[a][b]
    return GapPair(
        moved=names[a],
        borrowed=names[b],
        gap=float(result.pairs[a, b]),
        interval=(low, high),
        pvalue=pvalue,
        sure=pvalue < audit.settings.alpha and math.isfinite(result.pairs[a, b]),
        moving="" if moving is None else wording.clean(moving),
        effective=float(overlap.effective_rows[a, b]),
        rows=float(overlap.effective_rows[b, b]),  # an environment looks like itself: all of its rows count
        overlap=overlap.pair_verdicts[a][b],
        mean_ratio=float(overlap.mean_ratio[a, b]),
        largest=float(overlap.largest[a, b]),
        beyond_cap=float(overlap.beyond_cap[a, b]),
        reached=float(overlap.reached[a, b]),
    )


def _gaps(
    audit: Audit, names: tuple[str, ...], pairs: tuple[tuple[GapPair | None, ...], ...], flat: list[GapPair]
) -> Gaps:
    result = audit.results["transport_gap"]
    classes = result.task != "regression"
    several = len({pair.moving for pair in flat if not pair.refused}) > 1
    ranked = tuple(sorted(flat, key=lambda pair: (pair.refused, not pair.sure, -abs(np.nan_to_num(pair.gap)))))
    largest = max((abs(pair.gap) for pair in flat if not pair.refused), default=0.0)
    widest = max((np.ptp(pair.interval) / 2 for pair in flat if all(map(math.isfinite, pair.interval))), default=0.0)
    steps = np.array([[_step(pair, largest) for pair in row] for row in pairs], np.float64)
    target = wording.short(audit.data.target_name)
    what = f"the class of {target} that moves most" if several else _subject(ranked, target)
    unit = "percentage points" if classes else f"units of {target}"
    bare = Gaps(
        names=names,
        pairs=pairs,
        steps=steps,
        ranked=ranked,
        classes=classes,
        decimals=_decimals((100 if classes else 1) * max(largest, widest)),
        several=several,
        draws=len(result.null),
        heading=f"How far {what} would move, in {unit}",
        finding="",
        tally="",
    )
    sure = [pair for pair in ranked if pair.sure]
    refused = [pair for pair in ranked if pair.refused]
    tally = [f"{len(sure)} of {len(ranked)} pairs differ surely"] if len(sure) > 1 else []
    if refused and (sure or 2 * len(refused) <= len(ranked)):  # otherwise the title says so
        tally.append(f"{len(refused)} {'' if tally else f'of {len(ranked)} pairs '}cannot be compared")
    finding = _finding(bare, sure, refused, target)
    return replace(bare, finding=finding, tally=", ".join(tally))


def _subject(ranked: tuple[GapPair, ...], target: str) -> str:
    """What moves: the mean of numbers and of 0/1 codes, otherwise the share of a class."""
    moving = ranked[0].moving
    named = moving not in ("", "1", "1.0", "True")
    return f'the share of "{wording.short(moving, NAME_LIMIT)}" in {target}' if named else f"mean {target}"


def _finding(gaps: Gaps, sure: list[GapPair], refused: list[GapPair], target: str) -> str:
    unit = " points" if gaps.classes else ""
    named = dict(zip(gaps.names, map(wording.quoted, distinct(gaps.names, NAME_LIMIT)), strict=True))
    if len(refused) == len(gaps.ranked):
        if len(gaps.names) == 2:
            one, other = named.values()
            return f"{one} and {other} hardly overlap: neither's relation can be tried on the other"
        return "The environments hardly overlap: no one's relation can be tried on another"
    if not sure:
        ends = [abs(end) for pair in gaps.ranked if not pair.refused for end in (*pair.interval, pair.gap)]
        largest = max(end for end in ends if math.isfinite(end))
        decimals = _decimals((100 if gaps.classes else 1) * largest)
        most = replace(gaps, decimals=decimals).text(largest, signed=False)
        what = f"share of any class of {target}" if gaps.several else _subject(gaps.ranked, target).removeprefix("the ")
        compared = len(gaps.ranked) - len(refused)
        if compared < len(refused):
            pairs = f"Only {compared} of {len(gaps.ranked)} pairs can be compared"
            return f"{pairs}; there, {what} would move by no more than {most}{unit} (95 %)"
        where = ", where they overlap" if refused else ""
        return f"No environment's relation would move another's {what} by more than {most}{unit} (95 %){where}"
    first = sure[0]
    what = _subject((first,), target)
    sign = 1 if first.gap > 0 else -1
    ends = sorted(sign * end for end in first.interval)
    span = ""
    if all(map(math.isfinite, ends)):
        low, high = (gaps.text(end, signed=False) for end in ends)
        span = f" (95 %: {low}–{high})" if ends[0] >= 0 else f" (95 %: {low} … {high})"
    how = f"{gaps.text(abs(first.gap), signed=False)}{unit} {'higher' if first.gap > 0 else 'lower'}{span}"
    borrowed = named[first.borrowed]
    relation = f"the relation of {borrowed}" if borrowed.endswith(('"', "…")) else f"{borrowed}'s relation"
    return f"If {relation} held in {named[first.moved]}, {what} would be {how}"


def _cover(
    names: tuple[str, ...], pairs: tuple[tuple[GapPair | None, ...], ...], flat: list[GapPair], overlap: Overlap
) -> Cover:
    share = np.array([[1.0 if pair is None else pair.effective / pair.rows for pair in row] for row in pairs])
    none, weak = (sum(pair.overlap == word for pair in flat) for word in ("none", "weak"))
    parts = ([f"{none} hardly"] if none else []) + ([f"{weak} only weakly"] if weak else [])
    finding = f"Of {len(flat)} pairs, {wording.listed(parts)} overlap" if parts else "All pairs overlap well"
    if none == len(flat):
        finding = "No pair overlaps"
    calibration = ""
    if np.isfinite(overlap.calibration).all() and len(overlap.calibration):
        worst = int(np.argmax(overlap.calibration))
        mean, most = (wording.percent(float(x)) for x in (overlap.calibration.mean(), overlap.calibration[worst]))
        calibration = (
            f"The estimated chance that a row belongs to an environment is off by {mean} on average, "
            f"most for {wording.quoted(wording.short(names[worst]))} ({most})."
        )
    steps = np.searchsorted(COVER_STEPS, share, side="right").astype(np.float64)
    return Cover(names, pairs, steps, finding, calibration, overlap.cap)


def _step(pair: GapPair | None, largest: float) -> int:
    """The shade of a gap. Gaps that are not sure stay pale: noise should not shout."""
    none = GAP_STEPS // 2
    if pair is None or not largest:
        return none
    if pair.refused:
        return -1
    size = abs(pair.gap) / largest
    away = 0 if size < PALE else 1 if size < MIDDLE or not pair.sure else 2 if size < STRONG else 3
    return none + (away if pair.gap > 0 else -away)


def _decimals(largest: float) -> int | None:
    """Decimals that show two digits of a gap this large; ``None`` where that takes powers of ten."""
    if not largest > 0:
        return 0
    power = math.floor(math.log10(largest))
    return max(0, 1 - power) if -4 < power < 9 else None


def _overlap_words(pair: GapPair) -> str:
    beyond = 1.0 - pair.reached
    lost = (
        f", {wording.percent(beyond)} of {pair.moved} lie where {pair.borrowed} has no rows" if beyond >= 0.01 else ""
    )
    return f"{pair.overlap} overlap, {pair.effective_words} rows effective{lost}"
