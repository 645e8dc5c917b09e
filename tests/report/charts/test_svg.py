"""Drawings in the page's colours: users' words stay theirs, whatever they look like."""

from __future__ import annotations

import html
import re

import altair as alt

from invariscope.report.charts.svg import COLOURS, INK, svg

LABELS = ("#010101", 'x role="y"', ' aria-label="z" xmlns="q"', "<title></title>", 'fill="#040404"', "a]]>b", "&amp;")


def drawn(labels: tuple[str, ...]) -> str:
    values = [{"name": label, "place": 1} for label in labels]
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x="place:Q", y=alt.Y("name:N", sort=None, axis=alt.Axis(labelLimit=1000, labelColor=INK))
    )
    cells = base.mark_rect(color=INK, ariaRoleDescription="cell").encode(description="name:N")
    return svg(cells, label='what "it" shows <b>')


def test_words_that_look_like_colours_or_attributes_stay_as_they_are() -> None:
    text = drawn(LABELS)
    shown = [html.unescape(words) for words in re.findall(r"<text[^>]*>([^<]*)</text>", text)]
    assert [label.strip() for label in LABELS] == [label for label in shown if label in {x.strip() for x in LABELS}]
    titles = [html.unescape(words) for words in re.findall(r"<title>(.*?)</title>", text)]
    assert [title.strip() for title in titles] == [label.strip() for label in LABELS]


def test_attributes_are_the_page_s() -> None:
    text = drawn(LABELS)
    tags = "".join(re.findall(r"<[^>]*>", text))
    assert not set(re.findall(r"#[0-9a-f]{6}", tags.replace("var(--ink, #1d2329)", ""))) & set(COLOURS)
    assert tags.count("var(--ink, #1d2329)") >= 2 * len(LABELS)  # every label and every cell
    assert text.startswith('<svg role="img" aria-label="what &quot;it&quot; shows &lt;b&gt;" ')
    assert not re.search(r' (?:xmlns|role|aria-)[\w:-]*="', tags.partition(">")[2])
