"""Several named inputs as one object, and what only torch can read, told without importing it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models.inputs import NamedInputs, UnevenRows, holds_torch
from invariscope.models.outputs import row_count
from invariscope.rows.tables import matrix_of

ROWS = TensorDataset(torch.ones(4, 2), torch.arange(4))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (torch.ones(2), True),
        (ROWS, True),
        (DataLoader(ROWS), True),
        ([DataLoader(ROWS), ROWS], True),
        ({"a": np.ones(2), "b": torch.ones(2)}, True),
        ({"a": np.ones(2)}, False),
        ([1.0, 2.0], False),
        ([], False),
        (np.ones(2), False),
        (None, False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_torch_has_to_read(values: Any, expected: bool) -> None:
    assert holds_torch(values) is expected


def test_loaders_do_not_tell_their_rows_and_inputs_do() -> None:
    for loaders in (DataLoader(ROWS), {"a": DataLoader(ROWS)}, [ROWS, ROWS]):
        assert row_count(loaders) is None
    assert row_count(NamedInputs.of({"a": np.ones((5, 2)), "b": np.ones(5)})) == 5


def test_a_loader_beside_an_array_is_refused() -> None:
    with pytest.raises(InputError, match="X is a dict of loaders in which there is a ndarray: give a loader"):
        iv.audit(None, {"a": np.ones((4, 2)), "b": DataLoader(ROWS)})


def test_several_inputs_are_no_table() -> None:
    rows = NamedInputs.of({"a": np.ones((5, 2)), "b": np.arange(5)})
    assert rows.alone is rows
    assert rows.only(["b"]).alone is rows["b"]
    assert rows[1:3]["b"].tolist() == [1, 2]
    for read in (np.asarray, matrix_of):
        with pytest.raises(InputError, match=r"^the rows have several inputs \(a and b\), and one table is needed"):
            read(rows)


def test_rows_of_several_shapes_are_counted_and_cut_in_their_order() -> None:
    rows = UnevenRows((np.zeros((3, 2)), np.ones((2, 5)), np.ones((1, 2))))
    assert (len(rows), rows.shape) == (6, (6,))
    assert [part.shape for part in rows[:2].batches] == [(2, 2)]
    assert [part.shape for part in rows[:5].batches] == [(3, 2), (2, 5)]
    with pytest.raises(InputError, match=r"shape \(2,\), others of shape \(5,\), and one table is needed: give all of"):
        np.asarray(rows)
