"""Environments: grouped once, without a copy where none is needed, and every bad input refused in words."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.criteria.regret.regret import regret
from invariscope.errors import InputError
from invariscope.rows.environments import Environments

SITES = np.array(["b", "a", "b", "c", "a", "c", "b", "a"])


@pytest.fixture
def rows(seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(8, 3))


# --- grouping --------------------------------------------------------------------------------------------------------
def test_rows_are_grouped_by_environment_in_label_order(rows: Any) -> None:
    y, weight = rows @ [1.0, 2.0, 3.0], np.arange(1.0, 9.0)
    data = Environments(rows, y, SITES, weight)
    assert data.labels == ("a", "b", "c")
    assert list(data) == ["a", "b", "c"]
    assert len(data) == 3
    assert data.sizes.tolist() == [3, 3, 2]
    assert data.offsets.tolist() == [0, 3, 6, 8]
    assert data.codes.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert data.rows.tolist() == [2 + 5 + 8, 1 + 3 + 7, 4 + 6]
    assert data.columns == ("x0", "x1", "x2")
    for label in "abc":
        part = data[label]
        assert len(part) == np.sum(label == SITES)
        np.testing.assert_array_equal(part.X, rows[label == SITES])
        np.testing.assert_array_equal(part.y, y[label == SITES])
        np.testing.assert_array_equal(part.weight, weight[label == SITES])
    assert repr(data) == "<Environments 8 rows x 3 columns; a: 3, b: 3, c: 2>"


def test_an_environment_is_a_view(rows: Any) -> None:
    data = Environments(rows, rows[:, 0] + 0.5, SITES)
    assert np.shares_memory(data["b"].X, data.X)
    assert np.shares_memory(data["b"].y, data.y)
    assert data["b"].weight is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_grouped_already_are_not_copied(dtype: type[np.generic], rows: Any) -> None:
    rows, sites = rows.astype(dtype), np.sort(SITES)
    rows.setflags(write=False)
    data = Environments(rows, None, sites)
    assert data.order is None
    assert np.shares_memory(data.X, rows)
    assert data.X.dtype == dtype
    mixed = Environments(rows, None, SITES)
    assert not np.shares_memory(mixed.X, rows)
    assert mixed.X.dtype == dtype


def test_rows_keep_their_order_within_an_environment() -> None:
    data = Environments(np.arange(8.0), None, SITES)
    assert data.X.ravel().tolist() == [1, 4, 7, 0, 2, 6, 3, 5]
    assert data.order is not None
    assert data.order.tolist() == [1, 4, 7, 0, 2, 6, 3, 5]
    many = Environments(np.arange(1000.0), None, np.arange(1000) * 7 % 5)
    for label in range(5):
        assert (np.diff(many[label].X[:, 0]) > 0).all()


@settings(deadline=None)
@given(st.lists(st.sampled_from(["x", "y", "z"]), min_size=0, max_size=40), st.integers(0, 2**32))
def test_grouped_and_original_undo_each_other(labels: list[str], seed: int) -> None:
    labels = ["x", "z", "x", "z", "y", "y", *labels]  # two rows of each at least
    rng = np.random.default_rng(seed)
    X, extra = rng.normal(size=(len(labels), 2)), rng.normal(size=(len(labels), 3))
    data = Environments(X, X[:, 0], labels)
    np.testing.assert_array_equal(data.original(data.X), X)
    np.testing.assert_array_equal(data.original(data.y), X[:, 0])
    np.testing.assert_array_equal(data.original(data.grouped(extra, "extra")), extra)
    words = np.array([f"row {i}" for i in range(len(labels))], object)
    assert data.original(data.grouped(words, "words")).tolist() == words.tolist()
    codes = [data.labels.index(label) for label in labels]
    assert data.original(data.codes).tolist() == codes
    for label in "xyz":
        np.testing.assert_array_equal(data[label].X, X[[found == label for found in labels]])


def test_the_door_lets_environments_through(rows: Any) -> None:
    data = Environments(rows, None, SITES)
    assert Environments.of(data) is data
    assert Environments.of(rows, None, SITES).labels == ("a", "b", "c")
    with pytest.raises(InputError, match="Environments already hold y, env and weight: pass them alone"):
        Environments.of(data, env=SITES)


# --- labels of any kind ----------------------------------------------------------------------------------------------
NEW_YEAR, SUMMER = datetime.date(2020, 1, 1), datetime.date(2020, 7, 1)
LABELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "text": (["b", "b", "a", "a"], ("a", "b")),
    "whole numbers": ([10, 10, 9, 9], (9, 10)),
    "numbers": ([0.5, 0.5, -1.0, -1.0], (-1.0, 0.5)),
    "booleans": ([True, True, False, False], (False, True)),
    "nullable booleans": (pd.array([True, True, False, False], "boolean"), (False, True)),
    "nullable numbers": (pd.array([10, 10, 9, 9], "Int64"), (9, 10)),
    "strings": (pd.array(["b", "b", "a", "a"], "string"), ("a", "b")),
    "categories": (pd.Categorical(["b", "b", "a", "a"], categories=["b", "c", "a"]), ("a", "b")),
    "numbered categories": (pd.Categorical([10, 10, 9, 9]), (9, 10)),
    "date objects": ([SUMMER, SUMMER, NEW_YEAR, NEW_YEAR], (NEW_YEAR, SUMMER)),
    "numpy days": (np.array([SUMMER, SUMMER, NEW_YEAR, NEW_YEAR], "M8[D]"), ("2020-01-01", "2020-07-01")),
    "numpy months": (np.array(["2020-07", "2020-07", "2020-01", "2020-01"], "M8[M]"), ("2020-01", "2020-07")),
    "pandas days": (pd.to_datetime([SUMMER, SUMMER, NEW_YEAR, NEW_YEAR]), ("2020-01-01", "2020-07-01")),
    "hours": (
        np.array(["2020-01-01T18", "2020-01-01T18", "2020-01-01T06", "2020-01-01T06"], "M8[ns]"),
        ("2020-01-01T06:00", "2020-01-01T18:00"),
    ),
    "polars days": (pl.Series([SUMMER, SUMMER, NEW_YEAR, NEW_YEAR]), ("2020-01-01", "2020-07-01")),
    "pyarrow days": (pa.array([SUMMER, SUMMER, NEW_YEAR, NEW_YEAR]), ("2020-01-01", "2020-07-01")),
    "mixed types": ([3, 3, "a", "a"], (3, "a")),
    "bytes": (np.array([b"b", b"b", b"a", b"a"]), (b"a", b"b")),
}


@pytest.mark.parametrize(("env", "expected"), LABELS.values(), ids=LABELS.keys())
def test_labels_are_the_users_own(env: Any, expected: tuple[Any, ...]) -> None:
    data = Environments([1.0, 2.0, 3.0, 4.0], None, env)
    assert data.labels == expected
    assert [type(label) for label in data.labels] == [type(label) for label in expected]
    assert data[expected[0]].X.ravel().tolist() == ([3.0, 4.0] if data.order is not None else [1.0, 2.0])


def test_mixed_types_have_a_fixed_order() -> None:
    env = ["b", 2, None.__class__, 2, "b", None.__class__]
    assert Environments(np.arange(6.0), None, env).labels == Environments(np.arange(6.0), None, env[::-1]).labels


TABLES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas, odd index": lambda columns: pd.DataFrame(columns, index=[3, 3, 1, 0, 7, 7, 8, -1]),
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_tables_agree_with_arrays(make: Callable[[dict[str, Any]], Any], rows: Any) -> None:
    y, weight = rows @ [1.0, -1.0, 2.0], np.arange(1.0, 9.0)
    expected = Environments(rows, y, SITES, weight)
    table = make({"p": rows[:, 0], "q": rows[:, 1], "r": rows[:, 2], "y": y, "site": SITES.tolist(), "weight": weight})
    features = table[["p", "q", "r"]] if hasattr(table, "iloc") else table.select(["p", "q", "r"])
    data = Environments(features, table["y"], table["site"], table["weight"])
    assert data.columns == ("p", "q", "r")
    assert data.labels == expected.labels
    for name in ("X", "y", "weight", "offsets", "order"):
        np.testing.assert_array_equal(getattr(data, name), getattr(expected, name))
    if not isinstance(table, pa.Table):  # columns of a pyarrow table do not know their names
        assert (data.env_name, data.target_name) == ("site", "y")


def test_names_for_messages(rows: Any) -> None:
    assert Environments(rows, None, SITES).name("a") == 'environment "a"'
    assert Environments(rows, None, pd.Series(SITES, name="hospital")).name("a") == 'hospital "a"'
    data = Environments(rows, rows[:, 0], SITES, target_name="dose", env_name="camera")
    assert (data.name("a"), data.target_name) == ('camera "a"', "dose")
    with pytest.raises(InputError, match='no camera "d": there are a, b, c'):
        data["d"]


# --- targets and weights ---------------------------------------------------------------------------------------------
def test_numbers_become_double_precision(rows: Any) -> None:
    for y in (np.arange(8), np.arange(8, dtype=np.float32), pd.array(range(8), "Int64"), list(range(8))):
        data = Environments(rows, y, SITES)
        assert data.classes is None
        assert data.y is not None
        assert data.y.dtype == np.float64
        assert data.original(data.y).tolist() == list(range(8))


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (list("uvuvuvuv"), ("u", "v")),
        ([True, False] * 4, (False, True)),
        (pd.array([True, False] * 4, "boolean"), (False, True)),
        (np.array([True, False] * 4, object), (False, True)),
        (pd.Categorical(["u", "v"] * 4), ("u", "v")),
        (pd.Categorical([30, 7] * 4), (7, 30)),
        (pl.Series(["u", "v"] * 4, dtype=pl.Categorical), ("u", "v")),
        (pa.array(["u", "v"] * 4).dictionary_encode(), ("u", "v")),
    ],
)
def test_labels_become_codes(y: Any, classes: tuple[Any, ...], rows: Any) -> None:
    data = Environments(rows, y, SITES)
    assert data.classes == classes
    given_labels = y.to_pylist() if isinstance(y, pa.Array) else list(y)
    assert data.y is not None
    assert [classes[int(code)] for code in data.original(data.y)] == given_labels


def test_weights_may_be_zero_whole_or_boolean(rows: Any) -> None:
    weight = [0, 1, 2, 1, 0, 1, 1, 1]
    data = Environments(rows, None, SITES, weight)
    assert data.weight is not None
    assert data.weight.dtype == np.float64
    assert data.original(data.weight).tolist() == weight
    assert data.rows.tolist() == [2, 3, 2]
    assert Environments(rows, None, SITES, np.ones(8, bool)).rows.tolist() == [3, 3, 2]
    assert Environments(rows, None, SITES).rows.tolist() == [3, 3, 2]


# --- bad input -------------------------------------------------------------------------------------------------------
def ten(**changes: Any) -> dict[str, Any]:
    """Ten rows in two environments, with something changed."""
    given_rows = {"X": np.arange(20.0).reshape(10, 2) ** 1.5, "y": np.arange(10.0), "env": ["north", "south"] * 5}
    return {**given_rows, **changes}


def hole(value: float, *rows_and_columns: tuple[int, int]) -> Any:
    X = ten()["X"]
    for row, column in rows_and_columns:
        X[row, column] = value
    return X


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "missing values": (
        {"X": hole(np.nan, (0, 1), (2, 1), (3, 1))},
        r'^column "x1" has 3 missing values \(north: 2 of 5\)\. Drop the column, or fill in the values',
    ),
    "missing values in a named column": (
        {"X": pd.DataFrame({"age": range(10), "chol": [None, 1, None, 1, None, 1, None, 1, None, 1]})},
        r'^column "chol" has 5 missing values \(north: 5 of 5\)\. Drop the column',
    ),
    "missing nullable values": (
        {"X": pd.DataFrame({"chol": pd.array([None, *range(9)], "Int64"), "age": np.arange(10.0)})},
        r'^column "chol" has 1 missing values \(north: 1 of 5\)',
    ),
    "missing values in polars": (
        {"X": pl.DataFrame({"chol": [None, *range(9)]})},
        r'^column "chol" has 1 missing values \(north: 1 of 5\)',
    ),
    "missing values in pyarrow": (
        {"X": pa.table({"chol": [*range(9), None]})},
        r'^column "chol" has 1 missing values \(south: 1 of 5\)',
    ),
    "masked values": (
        {"X": np.ma.masked_array(ten()["X"], ten()["X"] == 0)},
        r'^column "x0" has 1 missing values \(north: 1 of 5\)',
    ),
    "several bad columns": (
        {"X": hole(np.nan, (0, 0), (1, 1))},
        r'^column "x0" has 1 missing values .*The same holds for "x1"\.',
    ),
    "infinities": ({"X": hole(np.inf, (1, 0))}, r'^column "x0" has 1 infinite values \(south: 1 of 5\)\. Drop the'),
    "both infinities": ({"X": hole(-np.inf, (1, 0)) + hole(np.inf, (3, 0))}, r'^column "x0" has 2 infinite values'),
    "infinity in single precision": ({"X": hole(np.inf, (1, 0)).astype(np.float32)}, r'^column "x0" has 1 infinite'),
    "text in X": ({"X": [["a", 1.0]] * 10}, r'^column "x0" is text, not numbers \(for example "a", in 10 of 10 rows'),
    "dates in X": (
        {"X": pd.DataFrame({"seen": pd.date_range("2020", periods=10)})},
        '^column "seen" holds dates: turn',
    ),
    "no rows": (
        {"X": np.empty((0, 2)), "y": [], "env": []},
        "^X is empty: it has 0 rows and 2 columns, give at least one of each$",
    ),
    "no columns": ({"X": np.empty((10, 0))}, "^X is empty: it has 10 rows and 0 columns, give at least one of each$"),
    "no columns in a frame": ({"X": pd.DataFrame(index=range(10))}, "^X is empty"),
    "images": ({"X": np.zeros((10, 4, 4))}, "^X has 3 dimensions: give a table"),
    "no environments": ({"env": None}, "^no environments given: pass env=, one label per row"),
    "one environment": (
        {"env": pd.Series(["north"] * 10, name="site")},
        r'^"site" has only one environment \("north"\): invariance compares at least two\. Choose another column',
    ),
    "an identifier": (
        {"env": pd.Series(range(10), name="patient")},
        r'^"patient" has 10 different values in 10 rows: that looks like a number or an identifier.* Bin it into a few',
    ),
    "an identifier that is text": (
        {"env": pd.Series([f"P{i}" for i in range(10)], name="patient")},
        r'^"patient" has 10 different values in 10 rows: that looks like an identifier, not an environment\. Choose a '
        r"column that many rows share\.$",
    ),
    "an environment of one row": (
        {"env": ["north"] * 9 + ["south"]},
        '^environment "south" has 1 row: at least 2 are needed. Drop it or merge it',
    ),
    "missing labels": (
        {"env": ["north", None, "south", None, "south"] * 2},
        '^"environment" is missing in 4 of 10 rows: drop them or give them a label',
    ),
    "NaN beside text": ({"env": ["north", float("nan")] * 5}, '^"environment" is missing in 5 of 10 rows'),
    "NaN labels": ({"env": [1.0, np.nan] * 5}, '^"environment" is missing in 5 of 10 rows'),
    "pandas.NA labels": ({"env": pd.array(["north", None] * 5, "string")}, '^"environment" is missing in 5 of 10'),
    "missing booleans": ({"env": pd.array([True, None] * 5, "boolean")}, '^"environment" is missing in 5 of 10'),
    "missing nullable numbers": ({"env": pd.array([1, None] * 5, "Int64")}, '^"environment" is missing in 5 of 10'),
    "missing categories": ({"env": pd.Categorical(["north", None] * 5)}, '^"environment" is missing in 5 of 10'),
    "missing dates": ({"env": np.array(["2020-01-01", "NaT"] * 5, "M8[D]")}, '^"environment" is missing in 5 of 10'),
    "missing dates with a zone": (
        {"env": pd.to_datetime(["2020-01-01", None] * 5, utc=True)},
        '^"environment" is missing in 5 of 10',
    ),
    "missing in polars": ({"env": pl.Series("site", ["north", None] * 5)}, '^"site" is missing in 5 of 10 rows'),
    "missing in pyarrow": (
        {"env": pa.array(["north", None] * 5).dictionary_encode()},
        '^"environment" is missing in 5 of 10 rows',
    ),
    "env of another length": ({"env": ["north", "south"]}, "^X has 10 rows but env has 2: give one value per row"),
    "env of two columns": ({"env": np.zeros((10, 2))}, r"^env must be one column: it has shape \(10, 2\)"),
    "y of another length": ({"y": np.arange(9.0)}, "^X has 10 rows but target has 9: give one value per row"),
    "y of another length, named": ({"y": pd.Series([1.0], name="dose")}, "^X has 10 rows but dose has 1"),
    "missing target": (
        {"y": pd.Series([1.0, np.nan] * 5, name="dose")},
        '^target "dose" has 5 missing or infinite values: drop those rows or fill them in',
    ),
    "infinite target": ({"y": [np.inf, *range(9)]}, '^target "target" has 1 missing or infinite values'),
    "missing whole numbers": ({"y": pd.array([None, *range(9)], "Int64")}, "^target .* has 1 missing or infinite"),
    "missing truth": ({"y": pd.array([None, *[True, False, True] * 3], "boolean")}, "^target .* has 1 missing"),
    "masked target": ({"y": np.ma.masked_less(np.arange(10.0), 2)}, "^target .* has 2 missing or infinite values"),
    "missing classes": ({"y": pd.Series([None, *"uvuvuvuvu"], name="sex")}, '^"sex" is missing in 1 of 10 rows'),
    "a single class": ({"y": ["u"] * 10}, r'^target "target" has only one value \("u"\): there is nothing to predict'),
    "numbers as text": (
        {"X": np.arange(60.0), "y": [f"{i}.5" for i in range(60)], "env": ["north", "south"] * 30},
        r'^target "target" has 60 different labels in 60 rows: if it holds numbers or dates, convert it',
    ),
    "two targets": ({"y": np.zeros((10, 2))}, r"^y must be one column: it has shape \(10, 2\)"),
    "two named targets": (
        {"y": pd.DataFrame({"a": range(10), "b": range(10)})},
        r"^y has 2 columns \(a, b\): give one",
    ),
    "negative weights": (
        {"weight": [-1, -1, *[1] * 8]},
        "^weight has 2 negative, missing or infinite values: weights count rows, give numbers of at least 0",
    ),
    "missing weights": ({"weight": [None, *[1] * 9]}, "^weight has 1 negative, missing or infinite values"),
    "infinite weights": ({"weight": [np.inf, *[1] * 9]}, "^weight has 1 negative, missing or infinite values"),
    "weights in words": ({"weight": list("abcdefghij")}, "^weight holds text or dates: give one number of at least 0"),
    "weights that are numbers in words": (
        {"weight": ["1", "2"] * 5},
        "^weight holds text or dates: give one number of",
    ),
    "masked weights": (
        {"weight": np.ma.array(np.ones(10), mask=[True] * 3 + [False] * 7)},
        "^weight has 3 negative, missing or infinite values",
    ),
    "weights that overflow": (
        {"weight": [1e300] * 4 + [1.0] * 6},
        r"^weight has 4 values beyond 1e-09 to 1e\+09 \(such as 1e\+300\): weights count rows, so mend those, or "
        "divide all by a constant that brings them near 1$",
    ),
    "weights that vanish": (
        {"weight": [1e-300] * 10},
        r"^weight has 10 values beyond 1e-09 to 1e\+09 \(such as 1e-300\)",
    ),
    "weights that sum to 1": (
        {"weight": [0.1] * 10},
        r"^weight sums to 1: weights count rows, and that is less than two\. Multiply all by a constant: by 10, they "
        r"count as many rows as there are\.$",
    ),
    "weights of another length": ({"weight": [1.0]}, "^X has 10 rows but weight has 1: give one value per row"),
    "no weight in an environment": (
        {"weight": [1, 0] * 5},
        '^all weights are zero in environment "south": drop it or mend the weights',
    ),
}


def test_remedies_for_weights_lead_to_weights() -> None:
    plain = Environments(**ten()).rows
    for weight in (np.full(10, 1e300) / 1e300, np.full(10, 0.1) * 10, np.ones(10, dtype=bool)):
        np.testing.assert_array_equal(Environments(**ten(), weight=weight).rows, plain)
    np.testing.assert_allclose(Environments(**ten(), weight=np.full(10, 1e9)).rows, 1e9 * plain)


@pytest.mark.parametrize(("changes", "message"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_refused_by_name_count_and_remedy(changes: dict[str, Any], message: str) -> None:
    Environments(**ten())
    with pytest.raises(InputError, match=message):
        Environments(**ten(**changes))


def test_too_many_environments_look_like_a_number() -> None:
    n = 2 * 1001
    with pytest.raises(InputError, match='"environment" has 1001 different values in 2002 rows'):
        Environments(np.arange(float(n)), None, np.arange(n) // 2)


def test_further_values_must_fit_the_rows(rows: Any) -> None:
    with pytest.raises(InputError, match="X has 8 rows but predictions has 7: give one value per row"):
        Environments(rows, None, SITES).grouped(np.zeros(7), "predictions")


def test_input_errors_are_value_errors() -> None:
    assert issubclass(InputError, ValueError)


def test_finite_columns_whose_sum_overflows_are_not_called_infinite() -> None:
    data = Environments(np.full(8, 1e308) - np.arange(8) * 1e300, None, SITES)
    assert np.isfinite(data.blocks.shift).all()


@pytest.mark.parametrize(
    "y", [[0.5, 1.5, 1.0, 3.0, 2.0, 2.5, 4.0] * 3, list("uvuvuvu") * 3], ids=["numbers", "classes"]
)
def test_an_environment_with_too_few_rows_for_its_own_head(y: Any, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(21, 3))
    env = pd.Series(["Basel"] * 13 + ["Chur"] * 8, name="hospital")
    with pytest.raises(
        InputError,
        match=r'"Chur" has 8 rows.* on 3 columns needs at least 9\. Add rows to it, or use',
    ):
        regret(X, y, env)
    with pytest.raises(InputError, match=r'hospital "Basel" has 6 rows'):
        regret(X, y, env, weight=np.r_[np.full(13, 6 / 13), np.full(8, 2.0)])


# --- odd but usable input gives the same numbers ---------------------------------------------------------------------
@pytest.fixture
def problem(seed: int) -> tuple[Any, Any, Any]:
    """Whole numbers from 0 to 3 as features, so that every number type can hold them."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(240, 3)).astype(np.float64)
    env = np.array(["p", "q", "r"])[rng.permutation(240) % 3]
    return X, X @ [1.0, -1.0, 0.5] + (env == "r") * X[:, 1] + rng.normal(size=240), env


ODD_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "Fortran order": np.asfortranarray,
    "not contiguous": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "single precision": lambda X: X.astype(np.float32),
    "integers": lambda X: X.astype(np.int16),
    "unsigned": lambda X: X.astype(np.uint8),
    "big-endian": lambda X: X.astype(">f8"),
    "lists": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "frame": pd.DataFrame,
    "nullable frame": lambda X: pd.DataFrame(X).astype("Int64"),
    "categories": lambda X: pd.DataFrame(X).astype("category"),
    "polars": pl.DataFrame,
}


@pytest.mark.parametrize("change", ODD_ARRAYS.values(), ids=ODD_ARRAYS.keys())
def test_storage_does_not_change_the_answer(change: Callable[[Any], Any], problem: tuple[Any, Any, Any]) -> None:
    X, y, env = problem
    expected, found = regret(X, y, env, n_boot=99), regret(change(X), y, env, n_boot=99)
    assert found.value == expected.value
    assert found.interval == expected.interval
    assert found.pvalue == expected.pvalue


def test_read_only_and_boolean_input_work(problem: tuple[Any, Any, Any]) -> None:
    X, y, env = problem
    expected = regret(X > 1, y, env, n_boot=99)
    assert regret((X > 1).astype(float), y, env, n_boot=99).value == expected.value
    for array in (X, y, env):
        array.setflags(write=False)
    before = X.copy()
    assert np.isfinite(regret(X, y, env, n_boot=99).value)
    assert np.isfinite(regret(X[np.argsort(env)], y, np.sort(env), n_boot=99).value)
    np.testing.assert_array_equal(X, before)


ODD_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "a constant column": lambda X: np.column_stack([X, np.full(len(X), 0.1)]),
    "a column of zeros": lambda X: np.column_stack([np.zeros(len(X)), X]),
    "a duplicated column": lambda X: np.column_stack([X, X[:, 1]]),
    "a rescaled duplicate": lambda X: np.column_stack([X, -1e6 * X[:, 1]]),
    "a sum of columns": lambda X: np.column_stack([X, X.sum(axis=1)]),
    "scaled by 1e15": lambda X: X * [1e15, 1.0, 1.0],
    "scaled by 1e-15": lambda X: X * [1.0, 1e-15, 1.0],
    "mean far from the spread": lambda X: np.add(X, [0.0, 2e9, 0.0]),
    "another unit": lambda X: X * [1.8, 1.0, 1.0] + [32.0, 0.0, -273.15],
}


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("change", ODD_COLUMNS.values(), ids=ODD_COLUMNS.keys())
def test_redundant_rescaled_or_shifted_columns_change_nothing(
    change: Callable[[Any], Any], task: str, problem: tuple[Any, Any, Any]
) -> None:
    X, y, env = problem
    if task == "classification":
        y = np.where(y > np.median(y), "high", "low")
    expected, found = regret(X, y, env, n_boot=99), regret(change(X), y, env, n_boot=99)
    assert found.value == pytest.approx(expected.value, rel=1e-6, abs=1e-8)
    np.testing.assert_allclose(found.shared_loss, expected.shared_loss, rtol=1e-6)
    np.testing.assert_allclose(found.own_loss, expected.own_loss, rtol=1e-6)
    assert found.explained == pytest.approx(expected.explained, rel=1e-6)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-4)


@pytest.mark.parametrize(("scale", "shift"), [(1e15, 0.0), (-3.0, 7.0), (1.0, 1e6), (1.0, 2e9)])
def test_units_and_origin_of_the_target_change_nothing(
    scale: float, shift: float, problem: tuple[Any, Any, Any]
) -> None:
    X, y, env = problem
    moved = scale * y + shift
    y = (moved - shift) / scale  # what rounding left of it
    expected, found = regret(X, y, env, n_boot=99), regret(X, moved, env, n_boot=99)
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    assert found.explained == pytest.approx(expected.explained, rel=1e-6)
    np.testing.assert_allclose(found.own_loss, expected.own_loss * scale**2, rtol=1e-6)
    if scale > 0:  # mirrored gradients meet other random draws
        np.testing.assert_allclose(found.interval, expected.interval, rtol=5e-3)


@pytest.mark.parametrize("scale", [1e35, 1e200, 1e-35, 1e-200])
def test_numbers_beyond_computing_are_refused(scale: float, problem: tuple[Any, Any, Any]) -> None:
    X, y, env = problem
    with pytest.raises(InputError, match=r'column "x1" holds numbers of the order of .*: multiply it by a constant'):
        regret((X - X.mean(axis=0)) * [1.0, scale, 1.0], y, env)
    with pytest.raises(
        InputError, match=r'target "target" holds numbers of the order of .*: multiply it by a constant'
    ):
        regret(X, y * scale, env)


# --- the same rows with other numbers -----------------------------------------------------------------------------
def mixed(seed: int) -> tuple[np.ndarray, Environments]:
    rng = np.random.default_rng(seed)
    env = rng.permutation(np.repeat(["a", "b", "c"], 20))
    weight = rng.integers(1, 4, 60)
    return env, Environments(rng.normal(size=(60, 2)), rng.normal(size=60), env, weight, env_name="site")


def test_another_matrix_on_the_same_rows_is_as_if_grouped_anew(seed: int) -> None:
    env, data = mixed(seed)
    X = np.random.default_rng(seed + 1).normal(size=(60, 3)) + 2000
    assert data.y is not None
    assert data.weight is not None
    anew = Environments(X, data.original(data.y), env, data.original(data.weight), env_name="site")
    other = data.with_matrix(X, columns=["u", "v", "w"])
    for name in ("X", "y", "weight", "offsets"):
        np.testing.assert_array_equal(getattr(other, name), getattr(anew, name))
    np.testing.assert_array_equal(other.blocks.shift, anew.blocks.shift)
    assert (other.columns, other.labels, other.env_name) == (("u", "v", "w"), data.labels, "site")
    assert other.y is data.y  # shared, not grouped again
    assert data.X.shape == (60, 2)
    assert data.columns == ("x0", "x1")


def test_another_matrix_is_checked_like_the_first(seed: int) -> None:
    _, data = mixed(seed)
    holes = np.ones((60, 1))
    holes[7] = np.nan
    with pytest.raises(InputError, match="1 missing values"):
        data.with_matrix(holes)
    with pytest.raises(InputError, match="60 rows but the other matrix has 59"):
        data.with_matrix(np.ones((59, 1)))


def test_other_weights_share_the_columns(seed: int) -> None:
    _, data = mixed(seed)
    first = np.r_[np.ones(20), np.zeros(10), np.ones(30)]
    other = data.with_weight(first)
    assert other.blocks is data.blocks
    assert other.rows.tolist() == [20, 10, 20]
    with pytest.raises(InputError, match=r'all weights are zero in site "b"'):
        data.with_weight(np.r_[np.ones(20), np.zeros(20), np.ones(20)])


def test_classes_may_be_more_than_the_rows_hold(seed: int) -> None:
    data = Environments(np.arange(6.0), list("vuvuuv"), list("babbab"), np.array([1, 2, 1, 1, 2, 1]))
    other = data.with_classes(data.y + 1, ("t", "u", "v"))
    assert (other.classes, other.y.tolist(), other.labels) == (("t", "u", "v"), [1, 1, 2, 2, 1, 2], ("a", "b"))
    assert other.blocks is data.blocks
    assert data.classes == ("u", "v")
    again = other.written_out(np.array([2, 2, 1, 1, 1, 1]))
    assert (again.classes, again.y.tolist()) == (("t", "u", "v"), [1, 1, 1, 1, 2, 2, 1, 2])


def test_what_was_computed_from_rows_is_not_taken_for_others(seed: int) -> None:
    _, data = mixed(seed)
    before = data.column_squares
    assert data.with_matrix(2 * data.original(data.X)).column_squares[:, 1:] == pytest.approx(4 * before[:, 1:])
    assert data.weight is not None
    assert data.with_weight(3 * data.weight).column_squares == pytest.approx(3 * before)


def test_the_environment_without_weight_is_named_not_one_of_little_weight() -> None:
    with pytest.raises(InputError, match='all weights are zero in environment "b"'):
        Environments(np.zeros((6, 1)), None, list("aabbcc"), weight=[0.5, 0.5, 0.0, 0.0, 1.0, 1.0])
