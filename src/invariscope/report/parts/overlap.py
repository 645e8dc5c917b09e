"""Whose rows overlap with whose: how many still count when they are weighted to look like another environment's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope import wording
from invariscope.ratios.overlap import ENOUGH, FEWEST, GOOD, WEAK
from invariscope.report.markup import Figure, escaped
from invariscope.results import Overlap
from invariscope.rows.arrays import Floats
from invariscope.shortening import among

#: Shares of effective rows at which the shade of the overlap changes: the verdict's first, then even steps.
OVERLAP_STEPS = (WEAK, GOOD, 0.55, 0.8)
LEGEND = (
    "Overlap of the representation: how many rows of the environment above still count once they are weighted to look "
    "like the one at the left; the stronger the colour, the larger their share."
)


def rows_left(effective: float, rows: float, verdict: str, noun: str = "") -> str:
    """How many rows still count; where their share is fine and they are too few all the same, fewer than how many.

    >>> rows_left(30.75, 123, "weak"), rows_left(11.9, 12, "weak", " rows effective"), rows_left(19.6, 20, "weak")
    ('31 of 123', '12 of 12 rows effective, fewer than 20', '19 of 20, fewer than 20')
    """
    limit = {"weak": ENOUGH, "none": FEWEST}.get(verdict, 0)
    few = GOOD * rows <= effective < limit
    shown = min(round(effective), limit - 1) if few else effective  # 19.6 are not 20
    return f"{shown:,.0f} of {rows:,.0f}{noun}" + (f", fewer than {limit}" if few else "")


@dataclass(frozen=True)
class OverlapPair:
    """Of the ``rows`` of environment ``source``, weighted to look like ``target``, ``effective`` still count."""

    target: str
    source: str
    effective: float
    rows: float
    verdict: str
    mean_ratio: float
    largest: float
    beyond_cap: float
    reached: float

    @property
    def effective_rows(self) -> str:
        """How many rows still count: "31 of 123"."""
        return rows_left(self.effective, self.rows, self.verdict)

    @property
    def words(self) -> str:
        """The verdict, what it rests on, and how much of ``target`` lies beyond reach."""
        beyond = 1.0 - self.reached
        lost = f", {wording.percent(beyond)} of {self.target} lie where {self.source} has no rows"
        left = rows_left(self.effective, self.rows, self.verdict, " rows effective")
        return f"{self.verdict} overlap, {left}{lost if beyond >= 0.01 else ''}"


@dataclass(frozen=True)
class OverlapMatrix:
    """``pairs[a][b]`` weights the rows of ``names[b]`` to look like ``names[a]``, ``None`` for a = b; ``shades[a, b]``
    is the shade of the share of effective rows, 0 for none."""

    names: tuple[str, ...]
    pairs: tuple[tuple[OverlapPair | None, ...], ...]
    shades: Floats
    finding: str
    calibration: str
    cap: float

    def description(self, pair: OverlapPair) -> str:
        """One cell in words, for whoever points at it."""
        return f"Rows of {pair.source}, weighted to look like {pair.target}: {pair.words}"


def overlap_pair(overlap: Overlap, names: tuple[str, ...], a: int, b: int) -> OverlapPair:
    """The rows of environment b, weighted to look like a."""
    return OverlapPair(
        target=names[a],
        source=names[b],
        effective=float(overlap.effective_rows[a, b]),
        rows=float(overlap.effective_rows[b, b]),  # an environment looks like itself: all of its rows count
        verdict=overlap.pair_verdicts[a][b],
        mean_ratio=float(overlap.mean_ratio[a, b]),
        largest=float(overlap.largest[a, b]),
        beyond_cap=float(overlap.beyond_cap[a, b]),
        reached=float(overlap.reached[a, b]),
    )


def overlap_matrix(overlap: Overlap, names: tuple[str, ...]) -> OverlapMatrix:
    """All pairs, and what they come to."""
    size = range(len(names))
    pairs = tuple(tuple(None if a == b else overlap_pair(overlap, names, a, b) for b in size) for a in size)
    share = np.array([[1.0 if pair is None else pair.effective / pair.rows for pair in row] for row in pairs])
    worst = int(np.argmax(overlap.calibration))
    mean, most = (wording.percent(float(x)) for x in (overlap.calibration.mean(), overlap.calibration[worst]))
    return OverlapMatrix(
        names=names,
        pairs=pairs,
        shades=np.searchsorted(OVERLAP_STEPS, share, side="right").astype(np.float64),
        finding=_finding([pair.verdict for row in pairs for pair in row if pair is not None]),
        calibration=(
            f"The estimated chance that a row belongs to an environment is off by {mean} on average, "
            f"most for {wording.quoted(among(names[worst], names))} ({most})."
        ),
        cap=overlap.cap,
    )


def _finding(verdicts: list[str]) -> str:
    none, weak = verdicts.count("none"), verdicts.count("weak")
    if none == len(verdicts):
        return "No pair overlaps"
    parts = ([f"{none} hardly"] if none else []) + ([f"{weak} only weakly"] if weak else [])
    return f"Of {len(verdicts)} pairs, {wording.listed(parts)} overlap" if parts else "All pairs overlap well"


def matrix_markup(numbers: OverlapMatrix, figure: Figure) -> str:
    """The heat map under its finding."""
    return f"<div><h3>{escaped(numbers.finding)}</h3>\n{figure('overlaps', numbers, LEGEND)}</div>\n"
