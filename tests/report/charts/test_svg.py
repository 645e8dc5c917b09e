"""Drawings in the page's colours: users' words stay theirs, whatever they look like."""

from __future__ import annotations

import dataclasses
import functools
import html
import re
from typing import Any

import altair as alt
import numpy as np
import pytest

import invariscope as iv
from invariscope import wording
from invariscope.report.charts.bars_and_curves import bars, main_curve
from invariscope.report.charts.heat_maps import matrix
from invariscope.report.charts.svg import COLOURS, INK, svg
from invariscope.report.parts.disagreement import disagreement
from invariscope.report.parts.drivers import drivers
from invariscope.report.parts.worst_case import Tick, worst_case
from tests.report.audits import hospitals

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


#: Names as users have them, twelve of each kind: as many as an axis ever has.
NAMES: dict[str, list[str]] = {
    "bins": [f"(0.{k}23456, 0.{k + 1}23456]" for k in range(12)],
    "bins of one column": [f"age at admission (years) in ({k}.0, {k + 1}.0]" for k in range(12)],
    "common beginnings": [f"the university hospital of a long name, number {k}" for k in range(12)],
    "capitals": [f"UNIVERSITY HOSPITAL OF MÜNSTER, WARD {k}" for k in range(12)],
    "wide letters": [f"東京都立病院東京都立病院第{k}病棟" for k in range(12)],
    "hostile": ["<script>alert(1)</script>", "</text><b>", "&amp;", "&", "__proto__", "constructor", "null", '"', "]]>",
                "{{datum}}", "x" * 10_000, "x" * 9_999],
    "unprintable": ["a\x00b", "a\x1b[31mb", "a\rb", "a\nb", "", "\u202eleft", "\ud800", "שלום", "🚲", " ", "a b", "n"],
}  # fmt: skip


def words_in(text: str) -> list[str]:
    """All words of a drawing."""
    return [html.unescape(words) for words in re.findall(r"<text[^>]*>([^<]+)</text>", text)]


def chart(name: str, audit: iv.Audit, names: tuple[str, ...], narrow: bool) -> tuple[Any, int]:
    """A chart with these names, and how many names are on it."""
    if name == "bars":
        found = drivers(audit)
        assert found is not None
        shares = tuple(0.2 - 0.01 * k for k in range(len(names)))
        return bars(dataclasses.replace(found, columns=names, shares=shares), narrow=narrow), len(names)
    if name == "main_curve":
        curve = worst_case(audit)
        assert curve is not None
        ticks = tuple(Tick(name, 0.3 - 0.02 * k) for k, name in enumerate(names))
        return main_curve(dataclasses.replace(curve, ticks=ticks), narrow=narrow), len(names)
    pairs = disagreement(audit)
    assert pairs is not None
    together = dataclasses.replace(pairs, names=names[:4], apart=np.zeros_like(pairs.apart))
    return matrix(together, margin=0.02, narrow=narrow), 4


@functools.cache
def besides(drawing: str, narrow: bool) -> list[str]:
    """What stands on a chart besides names."""
    simple = tuple("ABCDEFGHIJKL")
    shown = words_in(svg(chart(drawing, hospitals(), simple, narrow)[0], label=""))
    return [words for words in shown if words not in simple]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("drawing", ["bars", "main_curve", "matrix"])
@pytest.mark.parametrize("kind", NAMES)
def test_axes_keep_names_apart(kind: str, drawing: str, narrow: bool, audit: iv.Audit) -> None:
    names = wording.names(NAMES[kind])
    made, count = chart(drawing, audit, names, narrow)
    shown = words_in(svg(made, label=""))
    for words in besides(drawing, narrow):
        shown.remove(words)
    axes = 2 if drawing == "matrix" else 1
    assert len(shown) == axes * count
    if drawing == "matrix":
        assert len(set(shown[:count])) == len(set(shown[count:])) == count
    else:
        assert len(set(shown)) == count
