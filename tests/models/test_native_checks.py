"""Where an array ends: the last place is inside, the next one is not. Whole files are in test_file_checks.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.models.fitted_arrays import TamperedError, array_of, features_of, refuse_outside


@pytest.mark.parametrize("values", [[2], [4], [2, 3, 4], [], np.array(3)])
def test_the_first_and_the_last_place_are_inside(values: Any) -> None:
    refuse_outside(values, 2, 5, "an index")


@pytest.mark.parametrize(("values", "ends"), [([1], (1, 1)), ([5], (5, 5)), ([3, 5, 4], (3, 5)), ([4, 1], (1, 4))])
def test_one_place_further_is_refused(values: list[int], ends: tuple[int, int]) -> None:
    with pytest.raises(TamperedError) as refused:
        refuse_outside(values, 2, 5, "an index")
    assert str(refused.value) == f"an index runs from {ends[0]} to {ends[1]}, outside 2 to 4"


@pytest.mark.parametrize(
    ("value", "shape", "message"),
    [
        (np.ones((2, 3)), (3, 2), r"SimpleNamespace\.x has shape \(2, 3\), not \(3, 2\)"),
        (np.ones((2, 3)), (2,), r"SimpleNamespace\.x has shape \(2, 3\), not \(2\)"),
        (np.ones(3), (None, 3), r"SimpleNamespace\.x has shape \(3,\), not \(any, 3\)"),
        (np.array([1.0, np.inf]), (2,), r"SimpleNamespace\.x holds 1 missing or infinite values"),
        (np.array(["a"]), (1,), r"SimpleNamespace\.x holds <U1, not numbers"),
        ([1.0], (1,), r"SimpleNamespace\.x is a list, not an array"),
        (None, (1,), r"SimpleNamespace\.x is missing"),
    ],
)
def test_arrays_are_what_they_should_be(value: Any, shape: tuple[int | None, ...], message: str) -> None:
    with pytest.raises(TamperedError, match=f"^{message}$"):
        array_of(SimpleNamespace(x=value), "x", shape)


def test_arrays_that_are_right_are_given_back() -> None:
    values = np.array([[1.0, np.nan, 2.0]])
    assert array_of(SimpleNamespace(x=values), "x", (None, 3), finite=False) is values


@pytest.mark.parametrize("count", [0, -1, True, 2.0, None])
def test_what_is_no_number_of_columns(count: Any) -> None:
    with pytest.raises(TamperedError, match=rf"n_features_in_ is {count!r}, not a number of columns$"):
        features_of(SimpleNamespace(n_features_in_=count))
    assert features_of(SimpleNamespace(n_features_in_=np.int64(1))) == 1
