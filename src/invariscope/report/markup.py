"""Markup that the parts of the page are made of."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from invariscope import wording
from invariscope.auditing.record import Audit
from invariscope.shortening import abridged, distinct

#: Letters of a name in a table: what three lines of its column hold.
NAME_LETTERS = 44


class Figure(Protocol):
    """Draws the chart of this name from the numbers of a part; the caption stands below it, or beside it."""

    def __call__(self, name: str, numbers: Any, caption: str, **options: Any) -> str: ...


def with_readable_names(audit: Audit) -> Audit:
    """The audit as page and terminal show it: names that nobody could read are shortened, once for all parts."""
    data = audit.data
    return abridged(audit, (*data.labels, *data.columns, *data.classes, data.target_name, data.env_name))


def escaped(text: Any) -> str:
    """Any text as markup that shows just that text, on one line."""
    return html.escape(wording.clean(text))


def section(kicker: str, finding: str, body: str) -> str:
    """A part of the page: what it is about, what it shows, and the showing."""
    return f'<section>\n<p class="kicker">{escaped(kicker)}</p>\n<h2>{escaped(finding)}</h2>\n{body}</section>\n'


def note(text: str) -> str:
    """A remark in small letters."""
    return f'<p class="note">{escaped(text)}</p>\n'


def small(text: str) -> str:
    """Something smaller under the text of a cell, if there is anything."""
    return f"<small>{escaped(text)}</small>" if text else ""


def bullets(lines: Iterable[str]) -> str:
    """A list."""
    return "<ul>\n" + "".join(f"<li>{escaped(line)}</li>\n" for line in lines) + "</ul>\n"


def table(kind: str, heads: str, rows: Iterable[str]) -> str:
    """A table of ready cells."""
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    return f'<table class="{kind}">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>'


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names of one table as its cells show them: shortened together, so that they stay apart."""
    return dict(zip(names, distinct(names, NAME_LETTERS), strict=True))


def name_head(name: str, shown: str) -> str:
    """The head of a row: a user's name, which may be long; the whole of it shows when it is pointed at."""
    return f'<th scope="row" class="name" title="{escaped(name)}"><span>{escaped(shown)}</span></th>'


def name_cell(name: str, shown: str) -> str:
    """A cell with a user's name, likewise."""
    return f'<td class="name" title="{escaped(name)}"><span>{escaped(shown)}</span></td>'
