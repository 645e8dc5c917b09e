"""The verdict: state, headline, a few sentences, and the numbers that it rests on."""

from __future__ import annotations

import html
import math
from collections.abc import Hashable
from dataclasses import dataclass

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.auditing.verdict import most_affected
from invariscope.report.markup import Figure, escaped, note
from invariscope.report.parts.left_out import why_without
from invariscope.results import Estimate, RegretResult
from invariscope.shortening import among

SYMBOLS = {
    "NOT INVARIANT": "✕",
    "INVARIANT": "✓",
    "DIFFERENT BUT NEGLIGIBLE": "≈",
    "CANNOT TELL YET": "?",
    "UNINFORMATIVE": "∅",
}


@dataclass(frozen=True)
class Banner:
    """The verdict in words; ``facts`` are the numbers it rests on, ``lacking`` says why there are none."""

    state: str
    headline: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    lacking: str


def banner(audit: Audit) -> Banner:
    """What a person reads first."""
    return Banner(
        state=wording.clean(audit.state),
        headline=wording.clean(audit.headline),
        sentences=tuple(wording.clean(text) for text in (*audit.sentences, audit.algorithm) if text),
        facts=_facts(audit),
        lacking=why_without(audit, "regret"),
    )


def outline(audit: Audit) -> str:
    """The data in one line: rows, environments, features, head."""
    data = audit.data
    parts = [
        wording.count(data.rows, "row"),
        wording.count(len(data.labels), "environment"),
        wording.count(len(data.columns), "feature"),
        wording.clean(data.head),
    ]
    return " · ".join(parts)


def _facts(audit: Audit) -> tuple[tuple[str, str], ...]:
    regret = audit.results.get("regret")
    if regret is None:
        return ()
    margin = audit.settings.margin
    gain = (
        "of the variance explained by the shared head"
        if audit.data.task == "regression"
        else "of the log-loss of guessing removed by the shared head"
    )
    chance = wording.pvalue(regret.pvalue, len(regret.null))
    facts = [("chance of a difference this large if one head served all", chance)] if len(regret.null) else []
    facts += [
        (gain, wording.percent(regret.explained)),
        ("margin: the extra loss that would not matter", wording.exactly(margin)),
    ]
    affected = most_affected(regret, margin)
    return (_largest(*affected[0], regret, margin), *facts) if affected else tuple(facts)


def _largest(label: Hashable, first: Estimate, regret: RegretResult, margin: float) -> tuple[str, str]:
    """The largest regret that the state rests on, with the interval that the table gives it."""
    surely = "is surely" if first.interval[0] > margin else "may be"
    which = "largest regret" if label == regret.worst else f"largest regret that {surely} over the margin"
    picked = "; the interval allows for having picked it" if math.isfinite(first.interval[0]) else ""
    return f"{which}, in {among(label, regret.labels)}{picked}", wording.change(first.value, first.interval, margin)


def markup(audit: Audit, figure: Figure) -> str:
    """The banner at the top of the page."""
    verdict = banner(audit)
    sentences = "".join(f"<p>{escaped(sentence)}</p>\n" for sentence in verdict.sentences)
    facts = "".join(f"<div><dt>{escaped(what)}</dt><dd>{escaped(value)}</dd></div>\n" for what, value in verdict.facts)
    return (
        f'<div class="banner {html.escape(verdict.state.lower().replace(" ", "-"))}">\n'
        f'<div class="state">{SYMBOLS.get(verdict.state, "")} {html.escape(verdict.state)}</div>\n'
        f"<h1>{escaped(verdict.headline)}</h1>\n{sentences}"
        + (f'<dl class="facts">\n{facts}</dl>\n' if facts else "")
        + (note(verdict.lacking) if verdict.lacking else "")
        + "</div>\n"
    )
