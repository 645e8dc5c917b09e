from __future__ import annotations

import dataclasses
import itertools

import numpy as np

import invariscope as iv
from invariscope.report.charts import heat_maps
from invariscope.report.parts.overlap import overlap_matrix
from invariscope.report.parts.transport import transport


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
