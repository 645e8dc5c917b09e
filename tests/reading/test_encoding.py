"""Categories as columns of 0 and 1: nothing lost, nothing added, names that say what they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariscope.errors import InputError
from invariscope.reading.encoding import level_name, one_hot, sorted_levels

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), min_size=1, max_size=40)


def decoded(encoded: pd.DataFrame, name: str) -> list[str]:
    """Back from indicators to levels."""
    return [str(column)[len(name) + 1 :] for column in encoded.columns[encoded.to_numpy().argmax(axis=1)]]


@given(TEXTS)
def test_it_can_be_undone(values: list[str]) -> None:
    encoded = one_hot(pd.Series(values, name="site", dtype=object))
    assert decoded(encoded, "site") == values
    assert (encoded.sum(axis=1) == 1).all()
    assert set(np.unique(encoded)) <= {0.0, 1.0}
    assert list(encoded.columns) == [f"site={level}" for level in sorted(set(values))]
    assert set(encoded.dtypes) == {np.dtype(np.float64)}


@given(st.lists(st.integers(-5, 15), min_size=1, max_size=40))
def test_codes_are_sorted_as_numbers(values: list[int]) -> None:
    encoded = one_hot(pd.Series(values, name="code"))
    assert list(encoded.columns) == [f"code={level}" for level in sorted(set(values))]
    assert decoded(encoded, "code") == [str(value) for value in values]


@pytest.mark.parametrize("dtype", [object, "str", "category", "string"])
def test_every_type_of_text_gives_the_same(dtype: str | type) -> None:
    column = pd.Series(["b", "a", "b"], index=[7, 3, 9], name="site").astype(dtype)
    expected = pd.DataFrame({"site=a": [0.0, 1.0, 0.0], "site=b": [1.0, 0.0, 1.0]}, index=[7, 3, 9])
    pd.testing.assert_frame_equal(one_hot(column), expected, check_column_type=False)


def test_given_levels_keep_their_order_and_may_be_empty() -> None:
    encoded = one_hot(pd.Series(["low", "high"], name="dose"), ["low", "medium", "high"])
    assert list(encoded.columns) == ["dose=low", "dose=medium", "dose=high"]
    assert encoded.to_numpy().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_unused_categories_have_no_column() -> None:
    assert list(one_hot(pd.Series(pd.Categorical(["a"], categories=["a", "b"]), name="x")).columns) == ["x=a"]


def test_what_cannot_be_encoded() -> None:
    with pytest.raises(InputError, match='column "x" has 2 missing values: fill them in first'):
        one_hot(pd.Series(["a", None, None], name="x"))
    with pytest.raises(InputError, match=r'column "x" holds "c", which is not among the 2 levels given: add it$'):
        one_hot(pd.Series(["a", "c"], name="x"), ["a", "b"])


def test_names_of_levels() -> None:
    assert [level_name(level) for level in (3.0, -2.0, 0.1, 7, "7", False)] == ["3", "-2", "0.1", "7", "7", "False"]
    assert sorted_levels(pd.Series(["b", 2, "a"], dtype=object)) == [2, "a", "b"]
