"""What was not computed, and why; and remarks on the audit as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from invariscope.auditing.record import Audit
from invariscope.criteria.registry import CRITERIA
from invariscope.report.markup import Figure, bullets, section
from invariscope.wording import in_sentences, listed


@dataclass(frozen=True)
class LeftOut:
    """Criteria that were not computed, with the reason they share; ``remarks`` are those no criterion makes itself."""

    reasons: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]


def left_out(audit: Audit) -> LeftOut:
    """What is not there, and what is worth knowing."""
    of_criteria = {note for result in audit.results.values() for note in result.notes}
    titles: dict[str, list[str]] = {}
    for name, reason in audit.left_out.items():
        titles.setdefault(reason, []).append(title_of(name))
    return LeftOut(
        reasons=tuple((listed(names), reason) for reason, names in titles.items()),
        remarks=tuple(dict.fromkeys(note for note in audit.notes if note not in of_criteria)),
    )


def title_of(name: str) -> str:
    """A criterion's title; its name in words where whoever registered it is not around (an audit read from a file)."""
    return CRITERIA[name].title if name in CRITERIA else name.replace("_", " ").capitalize()


def why_without(audit: Audit, name: str) -> str:
    """Why a criterion that others rest on is not there; empty where it is, or where the verdict's sentences say it."""
    why = in_sentences(audit.left_out.get(name, ""))
    said = bool(why) and len(why[0]) > 1 and why[0][1:] in audit.verdict  # perhaps with another first letter
    if name in audit.results or said:
        return ""
    return f"{title_of(name)} was left out: {audit.left_out.get(name) or 'it was not asked for.'}"


def markup(audit: Audit, figure: Figure) -> str:
    """Two lists, each only if it has anything on it."""
    lists = left_out(audit)
    body = ""
    if lists.reasons:
        lines = [f"{title}: {reason}" for title, reason in lists.reasons]
        body += section("Left out", "What was not computed, and why", bullets(lines))
    if lists.remarks:
        body += section("Notes", "Worth knowing", bullets(lists.remarks))
    return body
