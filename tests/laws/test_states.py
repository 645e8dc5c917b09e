"""One law over audits of all kinds: the state follows from what is shown, wherever it is shown."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import invariscope as iv
from invariscope.auditing.verdict import CANNOT_TELL, INVARIANT, NEGLIGIBLE, NOT_INVARIANT, STATES, UNINFORMATIVE
from invariscope.report.parts import environments
from invariscope.report.parts.banner import banner
from invariscope.wording import MINUS

AUDITS = 90
MARGINS = (0.02, 0.02, 0.005, 0.0734, 0.3, 0.02)
NOWHERE = "no figure is drawn here"
NO_BOUND = "cannot be bounded"
Interval = tuple[float, float]


@functools.cache
def audited(draw: int) -> iv.Audit:
    """A small audit: 2 to 12 environments of unlike sizes, noises and (more or less) heads, numbers or classes."""
    rng = np.random.default_rng(draw)
    count, d = int(rng.integers(2, 13)), int(rng.integers(1, 4))
    sizes = rng.integers(12 + 8 * d, rng.choice([120, 400, 4000]), count)
    code = np.repeat(np.arange(count), sizes)
    X = rng.normal(size=(len(code), d))
    heads = rng.normal(size=d) + rng.choice([0.0, 0.03, 0.3, 1.0]) * rng.normal(size=(count, d))
    score, noise = np.einsum("ij,ij->i", X, heads[code]), rng.uniform(0.1, 1.5, count)[code]
    y: Any = score + noise * rng.normal(size=len(code))
    if draw % 3 == 1:
        y = (score + rng.logistic(size=len(code)) > 0).astype(int)
        for e in range(count):  # both classes everywhere
            y[np.flatnonzero(code == e)[:8]] = [0, 1] * 4
    margin = MARGINS[draw % len(MARGINS)]
    return iv.audit(None, X, y, code, criteria=[], n_boot=99, seed=draw, margin=margin, env_name="site")


# --- reading what is shown --------------------------------------------------------------------------------------------
def number(text: str) -> float:
    return float(text.replace(MINUS, "-").replace(",", ""))


def interval(text: str) -> Interval:
    """What stands in brackets after a regret."""
    text = text.replace("95 %: ", "").replace(" %", "")
    if text.endswith(NO_BOUND):
        low = re.fullmatch(rf"at least (\S+), {NO_BOUND}", text)
        return number(low[1]) if low else 0.0, math.inf
    low_text, high_text = re.split(r" … |–", text)
    return number(low_text), number(high_text)


def regrets_in(text: str) -> list[Interval | None]:
    """The intervals of all regrets in a text; ``None`` where there is no regret."""
    return [
        interval(found) for found in re.findall(r"[\d.,]+ %(?: more loss than its own head would)? \((.*?)\)", text)
    ]


def in_terminal(audit: iv.Audit) -> list[Interval | None]:
    console = Console(file=io.StringIO(), width=240, color_system=None)
    console.print(audit)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = text[re.search(r"^ +site +rows.*$", text, re.M).end() :].splitlines()[1 : 1 + len(audit.data.labels)]  # type: ignore[union-attr]
    return [next(iter(regrets_in(line)), None) for line in lines]


def in_page(audit: iv.Audit) -> list[Interval | None]:
    cells = re.findall(r'<td class="number regret".*?>(.*?)</td>', environments.markup(audit, lambda *_: NOWHERE))
    return [next(iter(regrets_in(cell)), None) for cell in cells]


def in_bars(audit: iv.Audit) -> list[Interval | None]:
    labels = re.findall(r'<svg [^>]*aria-label="(.*?)"', environments.markup(audit, lambda *_: NOWHERE))
    return [next(iter(regrets_in(label)), None) for label in labels]


def in_banner(audit: iv.Audit) -> list[Interval | None]:
    return regrets_in(banner(audit).facts[0][1])


def in_verdict(audit: iv.Audit) -> list[Interval | None]:
    at_most = re.search(
        r"costs none of them more loss on these rows(?:; it may cost up to (\S+) %|; how much it may (cost cannot be "
        r"bounded))?\. ",
        audit.verdict,
    )
    if at_most:
        return [(-math.inf, math.inf if at_most[2] else number(at_most[1] or "0"))]
    more = re.sub(r"no more loss than", "0 % more loss than", audit.verdict)
    return regrets_in(more.partition("Sharing one head costs")[2].partition(". ")[0])


def in_frame(audit: iv.Audit) -> list[Interval | None]:
    ends = 100 * audit.frame()[["regret_low", "regret_high"]].to_numpy()
    return [None if math.isnan(low) else (low, high) for low, high in ends]


def in_json(audit: iv.Audit) -> list[Interval | None]:
    stored = json.loads(json.dumps(audit.to_dict()))["results"]["regret"]["per_environment"].values()
    return [None if one["value"] is None else tuple(100 * end for end in one["interval"]) for one in stored]


def in_worst_interval(audit: iv.Audit) -> list[Interval | None]:
    low, high = audit["regret"].worst_interval
    return [(100 * low, 100 * high)]


WHERE = (in_terminal, in_page, in_bars, in_banner, in_verdict, in_frame, in_json, in_worst_interval)


def state_read_from(intervals: list[Interval | None], margin: float, different: bool) -> str:
    known = [one for one in intervals if one is not None]
    if any(low > margin for low, _ in known):
        return NOT_INVARIANT
    if known == intervals and all(high < margin for _, high in known):
        return NEGLIGIBLE if different else INVARIANT
    return CANNOT_TELL


# --- the law ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("where", WHERE, ids=lambda where: where.__name__)
def test_the_state_follows_from_what_is_shown(where: Callable[[iv.Audit], list[Interval | None]]) -> None:
    states = []
    for draw in range(AUDITS):
        audit = audited(draw)
        if audit.state == UNINFORMATIVE:
            continue
        shown = where(audit)
        assert shown, audit.verdict
        margin = number(banner(audit).facts[-1][1].removesuffix(" %"))
        read = state_read_from(shown, margin, audit["regret"].pvalue < audit.settings.alpha)
        assert read == audit.state, (draw, shown, margin, audit.verdict)
        states.append(read)
    assert set(states) == set(STATES) - {UNINFORMATIVE}
    assert min(states.count(state) for state in states) >= 2


def test_every_place_shows_the_same_interval_of_the_same_regret() -> None:
    for draw in range(AUDITS):
        audit = audited(draw)
        if audit.state != UNINFORMATIVE:
            assert in_terminal(audit) == in_page(audit) == in_bars(audit)
            assert in_banner(audit)[0] in in_page(audit)
            assert set(in_verdict(audit)) <= set(in_page(audit)) or "none of them" in audit.verdict


def test_rounding_never_moves_an_end_over_the_margin() -> None:
    """Ends a hair's breadth from the margin, on either side."""
    audit = audited(0)
    regret = audit["regret"]
    for margin in (0.02, 0.07, 0.1, 0.123):
        for low, high in ((1e-6, 0.5), (-1e-6, 0.5), (-0.5, -1e-6), (-0.5, 1e-6)):
            ends = (margin + low, margin + high)
            one = {label: dataclasses.replace(e, interval=ends) for label, e in regret.per_environment.items()}
            results = {"regret": dataclasses.replace(regret, per_environment=one, worst_interval=ends)}
            settings = dataclasses.replace(audit.settings, margin=margin)
            moved = dataclasses.replace(audit, results=results, settings=settings)
            expected = state_read_from([(100 * ends[0], 100 * ends[1])], 100 * margin, False)
            for shown in (in_terminal(moved), in_page(moved), in_banner(moved)):
                assert state_read_from(shown, 100 * margin, False) == expected, (shown, ends)
