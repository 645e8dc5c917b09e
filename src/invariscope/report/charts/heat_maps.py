"""Heat maps with the number in every cell: who disagrees with whom, whose mean would move, whose rows overlap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TypeVar

import altair as alt
import numpy as np

from invariscope import wording
from invariscope.report.charts.svg import GUARD, LETTER, MUTED, NARROW, WIDE, fitted, room_for, styled
from invariscope.report.parts.disagreement import Disagreement
from invariscope.report.parts.overlap import OVERLAP_STEPS, OverlapMatrix, OverlapPair
from invariscope.report.parts.transport import GAP_SHADES, SIDE_BY_SIDE, GapPair, Gaps
from invariscope.rows.arrays import Floats
from invariscope.shortening import cells as cells_of

HEAT_STEPS = 7
#: One heat map leaves room for its explanation beside it; of two, each has half of the page.
MATRIX, HALF = 640, 436
#: Smallest width and usual height of a cell with several lines, and the height of a line.
LEAST, HEIGHT, LINE_HEIGHT = 46.0, 48.0, 13.0
#: Pixels for the name above a column.
COLUMN_NAMES = 92.0
#: Titles of the rows of two heat maps that share a frame.
MOVED, ALIKE = "mean of …", "to look like …"
#: Stand-in colours of shades and of the text on them, by the second digit (see :data:`.svg.COLOURS`).
HEAT, TILT, COVER = ("07", "08", HEAT_STEPS), ("09", "0a", GAP_SHADES), ("0b", "0c", len(OVERLAP_STEPS) + 1)
#: Shades of cells without a colour: outlined by dashes, or nothing at all.
DASHED, BLANK = -1, -2

Lines = tuple[str, ...]
#: What a cell may say of two environments whose heads cannot be compared, longest first.
NO_COMMON_ROWS: list[Lines] = [("no common", "rows"), (wording.MISSING,)]
Pair = TypeVar("Pair", GapPair, OverlapPair)


@dataclass(frozen=True)
class Cell:
    """One cell: its shade, its lines of text, and what it says when pointed at."""

    row: str
    column: str
    step: int
    lines: Lines
    description: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Frame:
    """The outline of a heat map: pixels for the names of rows and at most for one, width and height of a cell."""

    label: float
    limit: float
    side: float
    height: float


def matrix(data: Disagreement, *, margin: float, narrow: bool = False) -> alt.TopLevelMixin:
    """Who disagrees with whom; dashed where they have no common rows."""
    steps = heat_steps(margin)
    limit = 96.0 if narrow else 190.0
    label = room_for(data.names, limit)
    side = _side(data.names, NARROW if narrow else MATRIX, label, narrow)
    frame = Frame(label, limit, side, min(side, 38.0))
    none = NO_COMMON_ROWS[_fitting([NO_COMMON_ROWS], side)]

    def cell_of(a: int, b: int, value: float) -> Cell:
        row, column = data.names[a], data.names[b]
        if data.apart[a, b]:
            return Cell(row, column, DASHED, none, f"{row} and {column} have no common rows")
        step = int(np.searchsorted(steps, value, side="right")) if np.isfinite(value) and a != b else 0
        return Cell(row, column, step, ("own" if a == b else cell(value),))

    cells = [cell_of(a, b, value) for a, row in enumerate(data.values) for b, value in enumerate(row.tolist())]
    return _drawn(cells, frame, ("rows of …", "… served by the head of"), HEAT, narrow)


def gaps(data: Gaps, *, narrow: bool = False) -> alt.TopLevelMixin:
    """Whose mean would move under whose relation; sure gaps bold and with an asterisk, refused ones dashed."""
    frame = _pair_frame(data.names, narrow)
    choice = _fitting((_gap_lines(data, pair) for pair in data.ranked), frame.side)

    def cell_of(pair: GapPair, shade: int) -> Cell:
        lines, step = _gap_lines(data, pair)[choice], DASHED if pair.refused else shade
        return Cell(pair.moved, pair.borrowed, step, lines, data.description(pair), pair.sure)

    cells = _pair_cells(data.names, data.pairs, data.shades, cell_of, "as it is")
    return _drawn(cells, frame, (MOVED, "… with the relation of"), TILT, narrow)


def overlaps(data: OverlapMatrix, *, narrow: bool = False) -> alt.TopLevelMixin:
    """How many rows of one environment still count when they are weighted to look like another."""
    frame = _pair_frame(data.names, narrow)
    choice = _fitting((_overlap_lines(pair) for row in data.pairs for pair in row if pair is not None), frame.side)

    def cell_of(pair: OverlapPair, shade: int) -> Cell:
        lines, step = _overlap_lines(pair)[choice], DASHED if pair.verdict == "none" else shade
        return Cell(pair.target, pair.source, step, lines, data.description(pair))

    cells = _pair_cells(data.names, data.pairs, data.shades, cell_of, "looks like itself")
    return _drawn(cells, frame, (ALIKE, "… rows of"), COVER, narrow)


def _pair_cells(
    names: tuple[str, ...],
    pairs: tuple[tuple[Pair | None, ...], ...],
    shades: Floats,
    cell_of: Callable[[Pair, int], Cell],
    own: str,
) -> list[Cell]:
    """A cell for every pair of environments, and an empty one, described as ``own``, for each with itself."""
    return [
        Cell(names[a], names[b], BLANK, ("own",), f"{names[a]} {own}")
        if pair is None
        else cell_of(pair, int(shades[a, b]))
        for a, row in enumerate(pairs)
        for b, pair in enumerate(row)
    ]


def heat_steps(margin: float) -> list[float]:
    """Where shades change, as shares: the margin first, then round numbers, always one less than there are shades.

    >>> heat_steps(0.02)
    [0.02, 0.05, 0.1, 0.25, 0.5, 1.0]
    """
    round_numbers = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0]
    above = [step for step in round_numbers if step > margin] or [margin * k for k in (2, 4, 8, 16, 32)]
    steps = [margin, *above][: HEAT_STEPS - 1]
    return steps + [steps[-1] * 2**k for k in range(1, HEAT_STEPS - len(steps))]


def cell(value: float) -> str:
    """A percentage short enough for a cell.

    >>> cell(0.384), cell(-0.02), cell(0.004), cell(31.0)
    ('+38', '−2', '0', '>999')
    """
    if not np.isfinite(value):
        return wording.MISSING
    whole = round(100 * value)
    return ">999" if whole > 999 else f"{whole:+d}".replace("-", wording.MINUS) if whole else "0"


def _gap_lines(data: Gaps, pair: GapPair) -> list[Lines]:
    """What a cell may say, longest first."""
    if pair.refused:
        why = ("no", "overlap") if pair.overlap.verdict == "none" else ("too few", "rows")
        return [(" ".join(why),), why, (wording.MISSING,)]
    gap = data.unit.text(pair.gap) + ("*" if pair.sure else "")
    if not data.several or not pair.moving:
        return [(gap,)] * 3
    return [(gap, pair.moving), (gap, wording.short(pair.moving, 8)), (gap, wording.short(pair.moving, 5))]


def _overlap_lines(pair: OverlapPair) -> list[Lines]:
    effective, rows = f"{pair.effective:,.0f}", f"of {pair.rows:,.0f}"
    if pair.verdict == "none":  # perhaps not for want of rows, but because the other environment reaches further
        return [("none",)] * 3
    return [(f"{effective} {rows}", pair.verdict), (effective, rows, pair.verdict), (effective, pair.verdict)]


def _fitting(choices: Iterable[list[Lines]], side: float) -> int:
    """The same choice for all cells: the first that is readable in a cell this wide, or the last."""
    smallest = [min(_font(lines, side) for lines in column) for column in zip(*choices, strict=True)]
    return next((k for k, size in enumerate(smallest) if size >= 10.0), len(smallest) - 1)


def _font(lines: Lines, side: float) -> float:
    """The size of letters that fits the longest line into a cell, at most 13 pixels."""
    return min(13.0, side / 2.7, (side - 4.0) / (0.6 * max(map(len, lines))))


def _side(names: tuple[str, ...], room: float, label: float, narrow: bool) -> float:
    return min((room - label - 34) / len(names), 64 if narrow else 88)


def _pair_frame(names: tuple[str, ...], narrow: bool) -> Frame:
    """Heat maps that stand side by side, or one below the other: the same frame, so that their rows are level."""
    half = len(names) <= SIDE_BY_SIDE
    limit = 100.0 if narrow or half else 190.0
    label = room_for((*names, ALIKE), limit)
    side = _side(names, NARROW if narrow else HALF if half else WIDE, label, narrow)
    return Frame(label, limit, max(LEAST, side), HEIGHT)


def _drawn(
    cells: list[Cell], frame: Frame, titles: tuple[str, str], palette: tuple[str, str, int], narrow: bool
) -> alt.TopLevelMixin:
    fill, ink, shades = palette
    names = tuple(dict.fromkeys(cell.row for cell in cells))
    rows, columns = (dict(zip(names, fitted(names, room), strict=True)) for room in (frame.limit, COLUMN_NAMES))
    upright = LETTER * max(map(cells_of, columns.values())) <= frame.side - 8  # clear of the title of the rows
    values = [
        asdict(cell)
        | {
            "row": rows[cell.row],
            "column": columns[cell.column],
            "text": "\n".join(cell.lines),
            "weight": "bold" if cell.strong else "normal",
            "dy": -LINE_HEIGHT * (len(cell.lines) - 1) / 2,
        }
        for cell in cells
    ]
    across = alt.Axis(
        orient="top",
        labelAngle=0 if upright else -50,
        labelAlign="center" if upright else "left",
        labelLimit=GUARD * COLUMN_NAMES,
        titlePadding=8 if upright else 26,
    )
    down = alt.Axis(
        labelLimit=GUARD * frame.limit,
        minExtent=frame.label,
        titleAngle=0,
        titleAlign="right",
        titleX=-6,
        titleY=-10,
    )
    gaps_between = alt.Scale(padding=0.04)
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("column:N", sort=None, scale=gaps_between, title=titles[1], axis=across),
        y=alt.Y("row:N", sort=None, scale=gaps_between, title=titles[0], axis=down),
    )
    steps = [BLANK, DASHED, *range(shades)]

    def coloured(first: str, code: str) -> alt.Fill:
        colours = [first, first, *(f"#{code}{code}{k:02x}" for k in range(shades))]
        return alt.Fill("step:O", legend=None, scale=alt.Scale(domain=steps, range=colours))

    squares = base.mark_rect(cornerRadius=2, ariaRoleDescription="cell").encode(
        fill=coloured("transparent", fill), description="description:N"
    )
    dashes = base.mark_rect(cornerRadius=2, stroke=MUTED, strokeDash=[3, 3], filled=False, aria=False)
    texts = base.mark_text(
        fontSize=max(8.5, min(_font(cell.lines, frame.side) for cell in cells)),
        fontWeight=alt.ExprRef("datum.weight"),
        dy=alt.ExprRef("datum.dy"),
        lineBreak="\n",
        lineHeight=LINE_HEIGHT,
        aria=False,
    ).encode(text="text:N", fill=coloured(MUTED, ink))
    layers = alt.layer(squares, dashes.transform_filter(f"datum.step === {DASHED}"), texts)
    chart = layers.resolve_scale(fill="independent")
    return styled(chart.properties(width=frame.side * len(names), height=frame.height * len(names)), narrow, fit=False)
