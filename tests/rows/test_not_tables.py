"""What people have in place of a table: told what it is, and the way it is told leads to a table."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import invariscope as iv
from invariscope.errors import InputError
from invariscope.rows.tables import column_of_labels, matrix_of, vector_of

NUMBERS = np.arange(6.0).reshape(3, 2)
COLUMNS = {"a": NUMBERS[:, 0], "b": NUMBERS[:, 1]}
SPARSE = "a sparse matrix: give X.toarray(), if that fits into memory"
NO_TABLES: dict[str, tuple[Any, str, Any]] = {
    "sparse matrix": (
        sparse.csr_matrix(NUMBERS),
        "a sparse matrix: give X.toarray(), if that fits into memory",
        NUMBERS,
    ),
    "sparse array": (sparse.coo_array(NUMBERS), SPARSE, NUMBERS),
    "lazy frame": (
        pl.LazyFrame(COLUMNS),
        "a LazyFrame, whose rows are not computed yet: give X.collect()",
        pl.LazyFrame(COLUMNS).collect(),
    ),
    "generator": (
        (row for row in NUMBERS),
        "a generator, which can be read only once: give list(X)",
        list(NUMBERS),
    ),
    "dict of columns": (COLUMNS, "a dict: give pandas.DataFrame(X)", pd.DataFrame(COLUMNS)),
    "list of dicts": (
        [{"a": 0.0, "b": 1.0}, {"a": 2.0, "b": 3.0}, {"a": 4.0, "b": 5.0}],
        "a list of dicts: give pandas.DataFrame(X)",
        pd.DataFrame([{"a": 0.0, "b": 1.0}, {"a": 2.0, "b": 3.0}, {"a": 4.0, "b": 5.0}]),
    ),
    "set": ({1.0}, "a set, which has no order: give a list in the order of the rows", NUMBERS.tolist()),
    "nothing": (None, "None: give a table of rows x columns", NUMBERS),
    "name of a file": (
        "rows.csv",
        "a text ('rows.csv'): give the table itself; iv.read(path, target=, env=) reads one from a file",
        NUMBERS,
    ),
    "path": (
        PurePosixPath("rows.csv"),
        "a text (PurePosixPath('rows.csv')): give the table itself; iv.read(path, target=, env=) reads one from a file",
        NUMBERS,
    ),
}


@pytest.mark.parametrize(("thing", "message", "remedy"), NO_TABLES.values(), ids=NO_TABLES.keys())
def test_what_is_no_table_is_told_what_it_is_and_the_way_to_one(thing: Any, message: str, remedy: Any) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(f'X is {message}')}$"):
        matrix_of(thing)
    np.testing.assert_array_equal(matrix_of(remedy)[0], NUMBERS)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (sparse.csr_matrix([[1.0], [2.0]]), "y is a sparse matrix: give y.toarray().ravel(), if that fits into memory"),
        (
            pl.LazyFrame({"y": [1.0]}),
            "y is a LazyFrame, whose rows are not computed yet: give y.collect(), or one of its",
        ),
        ((v for v in [1.0]), "y is a generator, which can be read only once: give list(y)"),
        ({"y": [1.0]}, "y is a dict: give pandas.DataFrame(y), or one of its columns"),
        ([{"y": 1.0}], "y is a list of dicts: give pandas.DataFrame(y), or one of its columns"),
        (frozenset([1.0]), "y is a frozenset, which has no order: give a list in the order of the rows"),
        (None, "y is None: give one value per row"),
        (
            np.array([1j, 2.0]),
            "Complex data not supported: y holds complex numbers. Give their real part, y.real, or their size, abs(y).",
        ),
        ("a" * 999, f"y is a single value ('{'a' * 78}…): give one value per row, such as a column of a table"),
        ([0, False, 2], '"y" holds both 0 and False, which count as one value: write one of them otherwise, as a text'),
        (np.array([1, True], object), '"y" holds both 1 and True, which count as one value'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_column_is_told_what_it_is(thing: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        vector_of(thing, "y")


def test_switches_beside_other_numbers_are_numbers() -> None:
    assert vector_of([2, True, 3], "y")[0].tolist() == [2, 1, 3]
    assert vector_of([1, 1.0, np.int64(1)], "y")[0].tolist() == [1, 1, 1]
    assert column_of_labels(["1", 1, "True", True][:3], "env")[0].tolist() == ["1", 1, "True"]


def test_rows_that_are_named_in_another_order_are_refused() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["age", "dose"], index=[f"p{k}" for k in range(60)])
    y = table["age"] + pd.Series(rng.normal(size=60), index=table.index)
    env = pd.Series(np.resize(["a", "b"], 60), index=table.index)
    plain = iv.regret(table, y, env, n_boot=99)
    shuffled = y.sample(frac=1.0, random_state=1)
    with pytest.raises(
        iv.InputError, match=r"^y names the rows of X in another order: give y\.loc\[X\.index\], or both"
    ):
        iv.regret(table, shuffled, env)
    with pytest.raises(iv.InputError, match=r"^env names the rows of X in another order"):
        iv.audit(None, table, y, env[::-1])
    with pytest.raises(iv.InputError, match=r"^predictions names the rows of X in another order"):
        iv.audit(y.sort_values(), table, y, env)
    assert iv.regret(table, shuffled.loc[table.index], env, n_boot=99).value == plain.value
    by_place = iv.regret(table.reset_index(drop=True), shuffled.reset_index(drop=True), env.to_numpy(), n_boot=99)
    assert by_place.value != plain.value


def test_an_index_that_says_nothing_about_the_order_is_not_asked() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=60)}).sample(frac=1.0, random_state=1)  # 0 … 59, shuffled
    y, env = pd.Series(rng.normal(size=60)), np.resize(["a", "b"], 60)  # 0 … 59, as it is made
    iv.regret(table, y, env, n_boot=99)
    iv.regret(table.set_axis(np.zeros(60), axis=0), y.set_axis(np.ones(60)), env, n_boot=99)  # not one name for one row
    iv.regret(table, y.set_axis(np.arange(60) + 7), env, n_boot=99)  # other names altogether
