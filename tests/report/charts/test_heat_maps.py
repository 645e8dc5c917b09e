from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import pytest

import invariscope as iv
from invariscope.report.charts import heat_maps
from invariscope.report.charts.svg import svg
from invariscope.report.parts.disagreement import Disagreement, disagreement
from invariscope.report.parts.overlap import overlap_matrix
from invariscope.report.parts.transport import transport


def texts_in(node: ElementTree.Element, x: float = 0.0, y: float = 0.0) -> Iterator[tuple[float, float, str]]:
    """Every text of a drawing with its place."""
    moved = re.match(r"translate\(([-\d.]+),([-\d.]+)\)", node.get("transform", ""))
    if moved:
        x, y = x + float(moved[1]), y + float(moved[2])
    if node.tag == "text":
        yield x, y, " ".join("".join(node.itertext()).split())
    for child in node:
        yield from texts_in(child, x, y)


def as_drawn(data: Disagreement, narrow: bool) -> dict[tuple[str, str], str]:
    """What stands in the row of one name and in the column of another."""
    drawing = ElementTree.fromstring(svg(heat_maps.matrix(data, margin=0.02, narrow=narrow), label="drawn"))
    texts = list(texts_in(drawing))
    labels = [text for text in texts if text[2] in data.names]
    above = min(y for _, y, _ in labels)
    columns = [(x, name) for x, y, name in labels if y - above < 5]
    rows = [(y, name) for x, y, name in labels if y - above >= 5]
    assert sorted(name for _, name in columns) == sorted(name for _, name in rows) == sorted(data.names)
    cells = [text for text in texts if text[2] not in data.names and not re.search("rows of|served", text[2])]
    assert len(cells) == len(data.names) ** 2
    return {
        (min(rows, key=lambda row: abs(row[0] - y))[1], min(columns, key=lambda column: abs(column[0] - x))[1]): text
        for x, y, text in cells
    }


@pytest.mark.parametrize("narrow", [False, True])
def test_the_rows_of_a_matrix_are_served_and_its_columns_serve(audit: iv.Audit, narrow: bool) -> None:
    """As drawn, not as computed: the head of the small environment is bad everywhere, that of the large one nowhere."""
    rng = np.random.default_rng(0)
    env = np.repeat(["big", "mid", "tiny"], [600, 200, 60])
    slopes, noises = ({"big": 1.0, "mid": 1.2, "tiny": 3.0}, {"big": 2.0, "mid": 1.0, "tiny": 0.3})
    X = rng.normal(size=(860, 1))
    y = [slopes[e] * x + noises[e] * n for e, x, n in zip(env, X[:, 0], rng.normal(size=860), strict=True)]
    found = iv.audit(None, X, y, env, criteria=[], n_boot=99)
    pairs = found["regret"].pairs
    assert np.abs(pairs - pairs.T).max() > 10  # unequal environments: a transposed map would be another one
    data = disagreement(found)
    assert data is not None
    drawn = as_drawn(data, narrow)
    assert drawn == {
        (served, head): "own" if served == head else heat_maps.cell(pairs[a, b])
        for a, served in enumerate(data.names)
        for b, head in enumerate(data.names)
    }
    assert drawn["tiny", "big"] == ">999"
    assert drawn["big", "tiny"] not in (">999", "own")
    layers = heat_maps.matrix(data, margin=0.02, narrow=narrow).to_dict()["layer"]
    assert {layer["encoding"]["y"]["title"] for layer in layers} == {"rows of …"}
    assert {layer["encoding"]["x"]["title"] for layer in layers} == {"… served by the head of"}


@pytest.mark.parametrize("narrow", [False, True])
def test_pairs_without_common_rows_show_no_number(narrow: bool) -> None:
    values = np.array([[0.0, 65.08, 0.1], [0.2, 0.0, 0.3], [0.4, 0.5, 0.0]])
    apart = np.zeros((3, 3), bool)
    apart[0, 1] = True
    drawn = as_drawn(Disagreement(("a", "b", "c"), values, apart, (), "found"), narrow)
    assert drawn["a", "b"].replace(" ", "") in ("nocommonrows", "–")
    assert drawn["b", "a"] == "+20"
    assert ">999" not in drawn.values()


def test_shades_begin_at_the_margin() -> None:
    for margin in (0.001, 0.02, 0.05, 0.3, 7.0, 100.0):
        steps = heat_maps.heat_steps(margin)
        assert steps[0] == margin
        assert len(steps) == heat_maps.HEAT_STEPS - 1
        assert np.all(np.diff(steps) > 0)


def test_cells_say_less_where_there_is_less_room(audit: iv.Audit) -> None:
    pair = overlap_matrix(audit["transport_gap"].overlap, ("a", "b", "c", "d")).pairs[0][2]
    assert pair is not None
    lines = heat_maps._overlap_lines(pair)
    assert lines[heat_maps._fitting([lines], 80)] == ("31 of 123", "weak")
    assert lines[heat_maps._fitting([lines], 46)] == ("31", "of 123", "weak")
    large = heat_maps._overlap_lines(dataclasses.replace(pair, effective=1_234_567.0, rows=7_654_321.0))
    assert lines[heat_maps._fitting([lines, large], 80)] == ("31", "of 123", "weak")  # all cells of a map alike
    assert large[heat_maps._fitting([lines, large], 46)] == ("1,234,567", "weak")


def test_rows_of_gaps_and_overlaps_are_the_environment_that_moves_and_is_looked_like(audit: iv.Audit) -> None:
    """Down the side stands who moves, or is looked like; across the top whose relation, or whose rows, do that."""
    result = audit["transport_gap"]
    names, size = list(result.labels), len(result.labels)
    data = transport(audit)
    assert data is not None
    for chart, says in (
        (heat_maps.gaps(data), lambda a, b: f"{names[a]} with the relation of {names[b]}: "),
        (
            heat_maps.overlaps(overlap_matrix(result.overlap, tuple(names))),
            lambda a, b: f"Rows of {names[b]}, weighted to look like {names[a]}: ",
        ),
    ):
        drawn = chart.to_dict()
        assert {layer["encoding"]["y"]["field"] for layer in drawn["layer"]} == {"row"}
        assert {layer["encoding"]["x"]["field"] for layer in drawn["layer"]} == {"column"}
        (cells,) = drawn["datasets"].values()
        assert len(cells) == size**2
        down, across = (list(dict.fromkeys(cell[side] for cell in cells)) for side in ("row", "column"))
        assert len(down) == len(across) == size  # in the order of the environments, perhaps shortened
        placed = {(down.index(cell["row"]), across.index(cell["column"])): cell["description"] for cell in cells}
        for a, b in itertools.permutations(range(size), 2):
            assert placed[a, b].startswith(says(a, b))
