"""Tables of all makes give the same numbers and names; what is not a number is named, with a remedy."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from invariscope.errors import InputError
from invariscope.rows.tables import column_of_labels, matrix_of, plain, vector_of

COLUMNS: dict[str, list[Any]] = {
    "age": [31, 47, 5, 20],
    "dose": [0.5, 1.25, -3.0, 1e15],
    "smoker": [True, False, True, True],
}
VALUES = np.array([[31, 0.5, 1], [47, 1.25, 0], [5, -3.0, 1], [20, 1e15, 1]])


def arrow_in_two_chunks() -> pa.Table:
    table = pa.table(COLUMNS)
    return pa.concat_tables([table.slice(0, 1), table.slice(1)])


TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas, odd index": lambda: pd.DataFrame(COLUMNS, index=[7, 7, -1, 0]),
    "pandas, nullable": lambda: pd.DataFrame(COLUMNS).convert_dtypes(),
    "pandas, nullable by name": lambda: pd.DataFrame(COLUMNS).astype(
        {"age": "Int64", "dose": "Float64", "smoker": "boolean"}
    ),
    "pandas, arrow-backed": lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categories": lambda: pd.DataFrame(COLUMNS).astype("category"),
    "pandas, objects": lambda: pd.DataFrame(COLUMNS).astype(object),
    "pandas, sparse": lambda: pd.DataFrame(COLUMNS).astype({"dose": pd.SparseDtype("float64")}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars, in chunks": lambda: pl.concat([pl.DataFrame(COLUMNS)[:2], pl.DataFrame(COLUMNS)[2:]], rechunk=False),
    "pyarrow": lambda: pa.table(COLUMNS),
    "pyarrow, in chunks": arrow_in_two_chunks,
    "pyarrow, dictionaries": lambda: pa.table({name: pa.array(v).dictionary_encode() for name, v in COLUMNS.items()}),
    "pyarrow, record batch": lambda: pa.record_batch(COLUMNS),
    "pyarrow, decimals": lambda: pa.table({**COLUMNS, "age": [Decimal(v) for v in COLUMNS["age"]]}),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES.keys())
def test_all_tables_give_the_same_matrix_and_names(make: Callable[[], Any]) -> None:
    matrix, names = matrix_of(make())
    np.testing.assert_array_equal(matrix, VALUES)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    assert names == ("age", "dose", "smoker")


ARRAYS: dict[str, Callable[[], Any]] = {
    "rows": lambda: VALUES,
    "lists": VALUES.tolist,
    "Fortran order": lambda: np.asfortranarray(VALUES),
    "every other row": lambda: np.repeat(VALUES, 2, axis=0)[::2],
    "backwards twice": lambda: VALUES[::-1].copy()[::-1],
    "every other column": lambda: np.repeat(VALUES, 2, axis=1)[:, ::2],
    "big-endian": lambda: VALUES.astype(">f8"),
    "objects": lambda: VALUES.astype(object),
    "long doubles": lambda: VALUES.astype(np.longdouble),
    "masked nowhere": lambda: np.ma.masked_array(VALUES, np.zeros_like(VALUES, dtype=bool)),
    "decimals": lambda: [[Decimal(v) for v in row] for row in VALUES.tolist()],
    "tensor with gradient": lambda: torch.tensor(VALUES, requires_grad=True),
    "rows of tensors": lambda: [torch.tensor(row, requires_grad=True) for row in VALUES],
    "sparse tensor": lambda: torch.tensor(VALUES).to_sparse(),
}


@pytest.mark.parametrize("make", ARRAYS.values(), ids=ARRAYS.keys())
def test_all_arrays_give_the_same_matrix(make: Callable[[], Any]) -> None:
    matrix, names = matrix_of(make())
    np.testing.assert_array_equal(matrix, VALUES)
    assert matrix.dtype == np.dtype(np.float64)
    assert matrix.dtype.isnative
    assert matrix.flags.c_contiguous
    assert names == ("x0", "x1", "x2")


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.bool_, np.float16, np.float32])
def test_other_number_types_keep_their_values(dtype: type[np.generic]) -> None:
    given_values = np.array([[0, 1], [1, 1], [1, 0]], dtype)
    matrix, _ = matrix_of(given_values)
    assert matrix.dtype == (np.float32 if dtype is np.float32 else np.float64)
    np.testing.assert_array_equal(matrix, [[0, 1], [1, 1], [1, 0]])


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_short_tensors_keep_their_values(dtype: torch.dtype, gradient: bool) -> None:
    """numpy has no bfloat16, and refuses tensors that gradients flow to."""
    rows = torch.tensor([[0.5, 1.0], [1.25, -3.0]], dtype=dtype, requires_grad=gradient)
    matrix, _ = matrix_of(rows)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[0.5, 1.0], [1.25, -3.0]])
    for column in (rows[:, 0], list(rows[:, 0])):
        np.testing.assert_array_equal(vector_of(column, "y")[0], [0.5, 1.25])
        np.testing.assert_array_equal(column_of_labels(column, "env")[0], [0.5, 1.25])
    assert rows.requires_grad is gradient


@pytest.mark.filterwarnings("ignore:torch.quantize_per", "ignore:Sparse CSR")
def test_tensors_that_numpy_cannot_see_into_keep_their_values() -> None:
    values = np.array([[0.5, -1.0], [2.0, 0.25]])
    negated = torch.complex(torch.zeros(2, 2).double(), torch.tensor(-values)).conj().imag
    quantised = torch.quantize_per_tensor(torch.tensor(values).float(), 0.25, 0, torch.qint32)
    for tensor in (negated, quantised, torch.tensor(values).to_sparse_csr()):
        np.testing.assert_array_equal(plain(tensor), values)


def test_columns_of_arrow_that_share_a_name_are_all_read() -> None:
    matrix, names = matrix_of(pa.Table.from_arrays([pa.array([1.0, 2.0]), pa.array([3.0, 4.0])], names=["a", "a"]))
    assert matrix.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert names == ("a", "a")


def test_what_is_no_tensor_stays_what_it_is() -> None:
    for values in (VALUES, [1, 2], (), "text", None, pd.DataFrame(COLUMNS)):
        assert plain(values) is values


def test_read_only_rows_pass_through_without_a_copy() -> None:
    for dtype in (np.float64, np.float32):
        rows = VALUES.astype(dtype)
        rows.setflags(write=False)
        assert matrix_of(rows)[0] is rows


def test_single_precision_tables_stay_so() -> None:
    frame = pd.DataFrame({"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32)})
    for table in (
        frame,
        pl.DataFrame({"a": frame["a"].to_numpy(), "b": frame["b"].to_numpy()}),
        pa.Table.from_pandas(frame),
    ):
        assert matrix_of(table)[0].dtype == np.float32
    mixed = pl.DataFrame({"a": np.ones(3, np.float32), "b": np.zeros(3)})
    assert matrix_of(mixed)[0].dtype == np.float64


def test_names_may_repeat_or_be_anything() -> None:
    repeated = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "a"])
    assert matrix_of(repeated)[1] == ("a", "a")
    np.testing.assert_array_equal(matrix_of(repeated)[0], [[1, 2], [3, 4]])
    mixed = pd.DataFrame({0: [1, 2], 1: pd.Categorical([5, 6])}).set_axis(["a", "a"], axis=1)
    np.testing.assert_array_equal(matrix_of(mixed)[0], [[1, 5], [2, 6]])
    assert matrix_of(pd.DataFrame({0: [1.0], ("a", 1): [2.0]}))[1] == ("0", "('a', 1)")


SINGLE: list[tuple[Any, str]] = [
    (pd.Series([1, 2, 3], name="dose"), "dose"),
    (pd.Series([1, 2, 3], dtype="Int64", name="dose"), "dose"),
    (pl.Series("dose", [1, 2, 3]), "dose"),
    (pa.chunked_array([[1], [2, 3]]), "x0"),
    (pa.array([1, 2, 3]).dictionary_encode(), "x0"),
    ([1, 2, 3], "x0"),
    (np.array([1.0, 2.0, 3.0]), "x0"),
]


@pytest.mark.parametrize(("column", "name"), SINGLE, ids=lambda value: type(value).__name__)
def test_a_single_column_is_a_matrix_too(column: Any, name: str) -> None:
    matrix, names = matrix_of(column)
    np.testing.assert_array_equal(matrix, [[1.0], [2.0], [3.0]])
    assert names == (name,)


MISSING: dict[str, Any] = {
    "pandas": pd.DataFrame({"a": [1.0, None, 3.0]}),
    "pandas Int64": pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [1.0, 2.0, 3.0]}),
    "pandas boolean": pd.DataFrame({"a": pd.array([True, None, True], "boolean"), "b": [1.0, 2.0, 3.0]}),
    "pandas categories": pd.DataFrame({"a": pd.Categorical([1, None, 3])}),
    "pandas objects": pd.DataFrame({"a": [1, pd.NA, 3]}, dtype=object),
    "pandas arrow": pd.DataFrame({"a": [1, None, 3]}, dtype="int64[pyarrow]"),
    "polars": pl.DataFrame({"a": [1, None, 3]}),
    "polars booleans": pl.DataFrame({"a": [True, None, True]}),
    "pyarrow": pa.table({"a": [1, None, 3]}),
    "pyarrow, beyond 2^53": pa.table({"a": [2**60 + 1, None, 3]}),
    "pyarrow dictionary": pa.table({"a": pa.array([1, None, 3]).dictionary_encode()}),
    "pyarrow in chunks": pa.table({"a": pa.chunked_array([[1, None], [3]])}),
    "masked": np.ma.masked_array([[1.0], [2.0], [3.0]], [[False], [True], [False]]),
    "lists": [[1.0], [None], [3.0]],
}


@pytest.mark.parametrize("table", MISSING.values(), ids=MISSING.keys())
def test_missing_values_stay_missing(table: Any) -> None:
    matrix, _ = matrix_of(table)
    np.testing.assert_array_equal(np.isnan(matrix[:, 0]), [False, True, False])


DAY = datetime.date(2020, 2, 29)
NOT_NUMBERS: dict[str, tuple[Any, str]] = {
    "text": (
        pd.DataFrame({"site": ["Bern", "Genf", None], "dose": [1.0, 2.0, 3.0]}),
        r'column "site" is text, not numbers \(for example "Bern", in 2 of 3 rows\)\. Encode it as numbers .*drop it',
    ),
    "text of a nullable type": (
        pd.DataFrame({"site": pd.array(["Bern", None], "string")}),
        '"site" is text.* in 1 of 2 rows',
    ),
    "pandas categories": (pd.DataFrame({"site": pd.Categorical(["Bern", "Genf"])}), '"site" is text.* in 2 of 2 rows'),
    "polars text": (pl.DataFrame({"site": ["Bern", "Genf"]}), '"site" is text'),
    "polars categories": (
        pl.DataFrame({"site": pl.Series(["Bern", None], dtype=pl.Categorical)}),
        '"site" is text.* in 1 of 2',
    ),
    "pyarrow text": (pa.table({"dose": [1.0], "site": ["Bern"]}), '"site" is text'),
    "numpy text": (np.array([["1", "2"]]), 'column "x0" is text.*"1"'),
    "a text among numbers": ([[1.0, 2.0], [3.0, "high"]], r'column "x1" is text.*"high", in 1 of 2 rows'),
    "complex numbers": (
        np.array([[1j]]),
        '^Complex data not supported: column "x0" holds complex numbers. Give real and imaginary parts as columns of '
        r"their own, or the size\.$",
    ),
    "complex numbers among others": ([[1.0], [2.0 + 1j]], 'column "x0" holds complex numbers'),
    "numpy dates": (np.array([["2020-02-29"]], "M8[D]"), 'column "x0" holds dates: turn it into numbers .* or drop it'),
    "pandas dates": (pd.DataFrame({"seen": pd.to_datetime([DAY])}), 'column "seen" holds dates'),
    "pandas dates with a zone": (pd.DataFrame({"seen": pd.to_datetime([DAY], utc=True)}), 'column "seen" holds dates'),
    "date objects": (pd.DataFrame({"seen": [None, DAY]}), 'column "seen" holds dates'),
    "polars dates": (pl.DataFrame({"seen": [DAY]}), 'column "seen" holds dates'),
    "pyarrow dates": (pa.table({"seen": [DAY]}), 'column "seen" holds dates'),
    "pandas durations": (
        pd.DataFrame({"stay": pd.to_timedelta([1, 2], "D")}),
        'column "stay" holds durations: turn it into',
    ),
    "numpy durations": (np.array([[1]], "m8[ns]"), 'column "x0" holds durations'),
    "rows of several lengths": (
        [[1.0, 2.0], [3.0]],
        "X cannot be read as a table: its rows differ in length. Give all as many values.",
    ),
    "images": (np.zeros((2, 3, 3)), r"X has 3 dimensions: give a table of rows x columns \(flatten images first\)"),
    "a number": (3.0, r"^X is a single value \(3\.0\): give a table of rows x columns$"),
}


@pytest.mark.parametrize(("table", "message"), NOT_NUMBERS.values(), ids=NOT_NUMBERS.keys())
def test_what_is_not_a_number_is_named_with_a_remedy(table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        matrix_of(table)


def test_empty_tables_have_no_columns_or_no_rows() -> None:
    for empty in (np.empty((3, 0)), np.empty((3, 0), object), np.empty((3, 0), "U1")):
        assert matrix_of(empty)[0].shape == (3, 0)
    assert matrix_of(np.empty((0, 2), object))[0].shape == (0, 2)
    assert matrix_of(pd.DataFrame())[1] == matrix_of(pa.table({}))[1] == matrix_of(pl.DataFrame())[1] == ()
    assert matrix_of(pd.DataFrame({"a": []}))[0].shape == (0, 1)


# --- labels ----------------------------------------------------------------------------------------------------------
LABELS: dict[str, Any] = {
    "list": ["b", "a", "b"],
    "tuple": ("b", "a", "b"),
    "array": np.array(["b", "a", "b"]),
    "objects": np.array(["b", "a", "b"], object),
    "variable-width strings": np.array(["b", "a", "b"], np.dtypes.StringDType()),
    "column of a matrix": np.array([["b"], ["a"], ["b"]]),
    "pandas": pd.Series(["b", "a", "b"], index=[9, 9, 9]),
    "pandas string": pd.Series(["b", "a", "b"], dtype="string"),
    "pandas category": pd.Series(["b", "a", "b"], dtype="category"),
    "pandas Categorical": pd.Categorical(["b", "a", "b"], categories=["c", "b", "a"]),
    "pandas Index": pd.Index(["b", "a", "b"]),
    "pandas frame": pd.DataFrame({"site": ["b", "a", "b"]}),
    "polars": pl.Series(["b", "a", "b"]),
    "polars category": pl.Series(["b", "a", "b"], dtype=pl.Categorical),
    "polars enum": pl.Series(["b", "a", "b"], dtype=pl.Enum(["a", "b"])),
    "polars frame": pl.DataFrame({"site": ["b", "a", "b"]}),
    "pyarrow": pa.array(["b", "a", "b"]),
    "pyarrow large strings": pa.array(["b", "a", "b"], pa.large_string()),
    "pyarrow views": pa.array(["b", "a", "b"], pa.string_view()),
    "pyarrow chunks": pa.chunked_array([["b"], ["a", "b"]]),
    "pyarrow dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
    "pyarrow table": pa.table({"site": ["b", "a", "b"]}),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_all_makes_are_plain_strings(labels: Any) -> None:
    array, _ = column_of_labels(labels, "env")
    assert array.tolist() == ["b", "a", "b"]
    assert {type(label) for label in array} == {str}


def test_labels_know_their_name() -> None:
    for named in (
        pd.Series(["a"], name="site"),
        pl.Series("site", ["a"]),
        pd.DataFrame({"site": ["a"]}),
        pl.DataFrame({"site": ["a"]}),
        pa.table({"site": ["a"]}),
    ):
        assert column_of_labels(named, "env")[1] == "site"
    assert column_of_labels(["a"], "env")[1] is None
    assert column_of_labels(pd.Series(["a"], name=3), "env")[1] is None


def test_numbers_beside_text_stay_numbers_and_gaps_stay_gaps() -> None:
    assert column_of_labels([1, "a", 2.5], "env")[0].tolist() == [1, "a", 2.5]
    gap = column_of_labels(["a", float("nan")], "env")[0]
    assert gap[0] == "a"
    assert np.isnan(gap[1])
    for unknown in (pd.array(["a", None], "string"), np.array(["a", pd.NA], object), pl.Series(["a", None])):
        assert column_of_labels(unknown, "env")[0].tolist() == ["a", None]
    assert column_of_labels(pd.array([True, None], "boolean"), "env")[0].tolist() == [True, None]
    assert column_of_labels(np.ma.masked_array([1, 2], [False, True]), "env")[0].tolist() == [1, None]
    views = pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a"], pa.string_view()))
    assert column_of_labels(views, "env")[0].tolist() == ["a", None]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 2)), r"env must be one column: it has shape \(3, 2\)"),
        ("abc", r"env is a single value \('abc'\): give one value per row"),
        (pd.DataFrame({"a": [1], "b": [2]}), r"env has 2 columns \(a, b\): give one of them"),
        (pl.DataFrame({"a": [1], "b": [2]}), r"env has 2 columns \(a, b\): give one of them"),
        (pa.table({"a": [1], "b": [2]}), r"env has 2 columns \(a, b\): give one of them"),
        ([[1], [1, 2]], "env cannot be read as a table: its rows differ in length. Give all as many values."),
    ],
)
def test_one_column_is_asked_for(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        column_of_labels(values, "env")


# --- a target: numbers where it can be -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 4], object),
        pd.Series([1, 2, 4], dtype="Int64"),
        pl.Series([1, 2, 4]),
        pa.chunked_array([[1, 2], [4]]),
        [Decimal(1), Decimal(2), Decimal(4)],
        pd.DataFrame({"y": [1.0, 2.0, 4.0]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_numbers_are_recognised(values: Any) -> None:
    array, _ = vector_of(values, "y")
    assert array.dtype.kind in "if"
    np.testing.assert_array_equal(array, [1, 2, 4])


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical([3, 7]),
        pd.DataFrame({"y": pd.Categorical([3, 7])}),
        pa.array([3, 7]).dictionary_encode(),
        pa.chunked_array([pa.array([3, 7]).dictionary_encode()]),
        pa.table({"y": pa.array([3, 7]).dictionary_encode()}),
        pd.Series([3, 7], dtype=pd.ArrowDtype(pa.dictionary(pa.int8(), pa.int64()))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_categories_stay_labels(values: Any) -> None:
    categories, _ = vector_of(values, "y")
    assert categories.dtype == object
    assert [(type(label), label) for label in categories] == [(int, 3), (int, 7)]


def test_booleans_stay_labels() -> None:
    assert vector_of(np.array([True, False], object), "y")[0].tolist() == [True, False]
    assert vector_of(pd.Series([True, False], dtype="boolean"), "y")[0].dtype == np.bool_
    array, _ = vector_of([1, None, 3], "y")
    np.testing.assert_array_equal(array, [1.0, np.nan, 3.0])


@settings(deadline=None, max_examples=50)
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int32, np.bool_]),
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    )
)
def test_numpy_pandas_polars_and_pyarrow_agree(values: Any) -> None:
    names = [f"c{j}" for j in range(values.shape[1])]
    frame = pd.DataFrame(values, columns=names)
    expected, _ = matrix_of(values)
    for table in (frame, pl.DataFrame(values, schema=names), pa.Table.from_pandas(frame, preserve_index=False)):
        found, found_names = matrix_of(table)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert found_names == tuple(names)


def test_row_numbers_that_pandas_gave_an_arrow_table_are_no_column() -> None:
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0]}, index=[5, 3, 9])
    table = pa.table(frame)
    assert table.column_names == ["age", "__index_level_0__"]
    matrix, names = matrix_of(table)
    assert (matrix.tolist(), names) == ([[1.0], [2.0], [3.0]], ("age",))
