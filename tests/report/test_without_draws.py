"""An audit that draws nothing (``n_boot=0``) shows point estimates: no sentence rests on an interval."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable

import pytest

import invariscope as iv
from invariscope.report.parts import banner, criteria, environments, provenance, transport, worst_case
from invariscope.rows.settings import NOT_DRAWN
from tests.report.audits import rows_of

#: What speaks of an interval, a p-value or a band; and one that is missing.
OF_DRAWS = (
    "95 %",
    "interval",
    "p –",
    "p-value",
    "band",
    "still open",
    "chance of a difference",
    "surely",
    "– points",
    "–:",
)


@functools.cache
def audit(n_boot: int) -> iv.Audit:
    rows = rows_of(("a", "b", "c"), (80, 80, 80), ("height", "weight"), "binary", 0.2)
    return iv.audit(None, rows.X, rows.y, rows.env, n_boot=n_boot, target_name="disease")


def words_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def in_parts(of: iv.Audit) -> str:
    """All parts of the page that tell results, and what a reader hears who points at a cell."""
    said = [
        words_of(part.markup(of, lambda _name, _numbers, caption: caption))
        for part in (banner, environments, transport, worst_case, criteria, provenance)
    ]
    gaps = transport.transport(of)
    assert gaps is not None
    return "\n".join([*said, *(gaps.description(pair) for pair in gaps.ranked)])


def on_terminal(of: iv.Audit) -> str:
    return " ".join(str(of).split())


@pytest.mark.parametrize("shown", [in_parts, on_terminal])
def test_no_sentence_rests_on_draws_that_were_not_made(shown: Callable[[iv.Audit], str]) -> None:
    said = shown(audit(0))
    assert said.count(NOT_DRAWN) == 1
    said = said.replace(NOT_DRAWN, "")
    assert [words for words in OF_DRAWS if words in said] == []
    assert {"95 %", "interval"} & {words for words in OF_DRAWS if words in shown(audit(99))}


def test_point_estimates_are_told_as_such() -> None:
    gaps, table = transport.transport(audit(0)), environments.environments(audit(0))
    assert gaps is not None
    assert re.fullmatch(
        r'If the relation of "." held in ".", mean disease would be about [\d.]+ points (higher|lower)', gaps.finding
    )
    assert re.fullmatch(r'Sharing one head seems to cost "b" most, \d+ % more loss', table.finding)
    assert dict(banner.banner(audit(0)).facts)["largest regret, in b"] == table.rows[0].regret_words


def test_with_draws_all_of_it_is_there() -> None:
    said = in_parts(audit(99))
    for words in (
        "regret (95 %)",
        "value (95 %)",
        "band: 95 %",
        "the interval allows for having picked it",
        "chance of a difference this large",
        "p allows for all pairs",
        "as a table, with intervals",
        "all pairs together p",
        "score test p",
        "intervals are 95 %",
    ):
        assert words in said
