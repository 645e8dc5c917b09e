"""Bars, the cloud of shuffles and worst-case curves: which number is drawn where, and under which name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from invariscope.report.charts.bars_and_curves import bars, from_inputs, histogram, main_curve, side_by_side
from invariscope.report.charts.svg import svg
from invariscope.report.parts.drivers import Drivers
from invariscope.report.parts.influence import Cloud
from invariscope.report.parts.worst_case import Curve, Reached, Tick, WorstCase

DRIVERS = Drivers(("age", "dose"), (0.5, 0.25), others=0, rest=0.25, finding="", apart=())
PLACES = np.array([0.0, 0.5, 1.0])


def marks(part: Any) -> Iterator[dict[str, Any]]:
    """Every single mark of a chart, with what it inherits of data and encoding."""
    for key in ("layer", "vconcat", "hconcat"):
        for inner in part.get(key, ()):
            encoding = part.get("encoding", {}) | inner.get("encoding", {})
            yield from marks({"data": part.get("data")} | inner | {"encoding": encoding})
    if "mark" in part:
        yield part


def by_kind(chart: Any) -> dict[str, list[dict[str, Any]]]:
    """The marks of a chart by their kinds, in the order in which they are drawn."""
    whole, found = chart.to_dict(), {}
    for part in marks(whole):
        part["rows"] = whole["datasets"][part["data"]["name"]]
        found.setdefault(part["mark"]["type"], []).append(part)
    return found


def cloud_of(value: float) -> Cloud:
    edges, counts = np.array([1.0, 2.0, 3.0]), np.array([4.0, 12.0])
    return Cloud(value, edges, counts, bound="", draws=1600, finding="", pull="")


def curve(of: str, value: list[float]) -> Curve:
    line = np.array(value)
    return Curve(of, f"title of {of}", PLACES, line, line - 0.125, line + 0.25)


def worst(*ticks: Tick) -> WorstCase:
    curves = (curve("zero_one", [0.25, 0.5, 0.75]), curve("log_loss", [0.5, 1.0, 2.0]))
    return WorstCase(curves, ticks, others=0, unit="", finding="", other_losses="")


@pytest.mark.parametrize(("narrow", "room"), [(False, 55.0), (True, 61.0)])
def test_bars_are_shares_in_per_cent_with_room_for_their_numbers(narrow: bool, room: float) -> None:
    drawn = by_kind(bars(DRIVERS, narrow=narrow))
    assert drawn["bar"][0]["rows"] == [
        {"column": "age", "share": 50.0, "text": "50 %"},
        {"column": "dose", "share": 25.0, "text": "25 %"},
    ]
    x = drawn["bar"][0]["encoding"]["x"]
    assert (x["field"], x["scale"]["domain"]) == ("share", [0, pytest.approx(room)])
    assert drawn["bar"][0]["encoding"]["y"]["sort"] is None  # largest first, as given
    assert drawn["text"][0]["encoding"]["text"]["field"] == "text"


@pytest.mark.parametrize(
    ("value", "domain", "side"),
    [
        (7.0, (0.64, 7.36), "right"),
        (-3.0, (-3.36, 3.36), "left"),
        (1.5, (0.88, 3.12), "left"),
        (2.5, (0.88, 3.12), "right"),
    ],
)
def test_the_index_stands_among_its_shuffles_with_its_words_where_there_is_room(
    value: float, domain: tuple[float, float], side: str
) -> None:
    drawn = by_kind(histogram(cloud_of(value)))
    (cells,), (rule,), (label,) = drawn["rect"], drawn["rule"], drawn["text"]
    assert cells["rows"] == [{"low": 1.0, "high": 2.0, "count": 4.0}, {"low": 2.0, "high": 3.0, "count": 12.0}]
    assert (cells["encoding"]["x"]["field"], cells["encoding"]["x2"]["field"]) == ("low", "high")
    assert cells["encoding"]["y"]["scale"]["domain"] == [0, 15.0]
    assert cells["encoding"]["y"]["axis"]["title"] == "shuffles (of 1,600)"
    for part in (cells, rule, label):
        assert part["encoding"]["x"]["scale"]["domain"] == pytest.approx(domain)
    assert rule["rows"][0]["x"] == label["rows"][0]["x"] == value
    assert label["rows"][0]["text"].startswith("these environments: ")
    assert (label["mark"]["align"], label["mark"]["dx"]) == ((side, -7) if side == "right" else (side, 7))


def test_shuffles_that_are_all_the_same_still_have_an_axis() -> None:
    data = Cloud(2.0, np.array([2.0, 2.0]), np.array([9.0]), bound="", draws=9, finding="", pull="")
    (cells,) = by_kind(histogram(data))["rect"]
    assert cells["encoding"]["x"]["scale"]["domain"] == pytest.approx([1.94, 2.06])


def test_a_curve_has_its_band_and_every_environment_its_dot() -> None:
    drawn = by_kind(main_curve(worst(Tick("Oslo", 1.25), Tick("Rome", 0.5))))
    (band,), (line,), (dots,) = drawn["area"], drawn["line"], drawn["circle"]
    assert (
        line["rows"]
        == band["rows"]
        == [
            {"place": 0.0, "value": 25.0, "low": 12.5, "high": 50.0},
            {"place": 0.5, "value": 50.0, "low": 37.5, "high": 75.0},
            {"place": 1.0, "value": 75.0, "low": 62.5, "high": 100.0},
        ]
    )
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    assert line["encoding"]["y"]["field"] == "value"
    assert dots["rows"] == [{"name": "Oslo", "place": 1.25}, {"name": "Rome", "place": 0.5}]
    dashes, stems = drawn["rule"]
    assert dashes["rows"] == [{"place": 1.25}, {"place": 0.5}]
    assert stems["rows"] == dots["rows"]
    for part in (band, line, dots, dashes, stems):  # one axis for all: it holds the furthest environment too
        assert part["encoding"]["x"]["scale"]["domain"] == [0, 1.25]


def test_without_environments_the_axis_ends_where_the_curve_does() -> None:
    drawn = by_kind(main_curve(worst()))
    assert sorted(drawn) == ["area", "line"]
    assert drawn["line"][0]["encoding"]["x"]["scale"]["domain"] == [0, 1.0]


@pytest.mark.parametrize("narrow", [False, True])
def test_losses_side_by_side_mark_the_furthest_environment_alone(narrow: bool) -> None:
    chart = side_by_side(worst(Tick("Oslo", 1.25), Tick("Rome", 0.5)), narrow=narrow)
    panels = chart.to_dict()["vconcat" if narrow else "hconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["title of zero_one", "title of log_loss"]
    drawn = by_kind(chart)
    assert [rule["rows"] for rule in drawn["rule"]] == [[{"place": 1.25}]] * 2
    # wrong rows in per cent, up to 100; the other loss as it is
    assert [[row["value"] for row in line["rows"]] for line in drawn["line"]] == [[25.0, 50.0, 75.0], [0.5, 1.0, 2.0]]
    assert [line["encoding"]["y"]["scale"].get("domainMax") for line in drawn["line"]] == [100, None]


def test_what_is_reached_from_inputs_is_not_taken_for_the_ceiling() -> None:
    data = Reached(PLACES, reached=np.array([1.0, 2.0, 3.0]), ceiling=np.array([1.0, 4.0, 9.0]), title="t", finding="")
    drawing = svg(from_inputs(data), label="")
    form = r'<text[^>]*translate\([-\d.]+,([-\d.]+)\)[^>]*fill="var\(--(\w+),[^>]*>([^<]*)</text>'
    words = {name: (float(height), colour) for height, colour, name in re.findall(form, drawing)}
    above, below = words["in the representation"], words["reached from inputs"]
    assert (above[1], below[1]) == ("calm", "over")
    assert above[0] < below[0]  # heights are counted from the top
