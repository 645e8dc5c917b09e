"""Hostile tables and columns of numbers: other containers of the same numbers, and what holds no usable numbers."""

from __future__ import annotations

import array
import datetime
import fractions
from collections import UserList, deque
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse
import torch

from tests.hostile.case import REFUSED, REFUSED_OR_SAME, SAME, SOUND, Input


# --- helpers: all take a plain float array, (n, d) or (n,) -----------------------------------------------------------
def names(v: Any) -> list[str]:
    return [f"x{j}" for j in range(v.shape[1])]


def pandas(v: Any, **options: Any) -> Any:
    return pd.DataFrame(v, columns=names(v), **options) if v.ndim == 2 else pd.Series(v, **options)


def polars(v: Any) -> Any:
    return pl.DataFrame({name: v[:, j] for j, name in enumerate(names(v))}) if v.ndim == 2 else pl.Series(v)


def arrow(v: Any, missing: bool = False) -> Any:
    """In two chunks."""

    def column(values: Any) -> Any:
        items = values.tolist()
        items[3] = None if missing else items[3]
        return pa.chunked_array([items[:7], items[7:]])

    return pa.table({name: column(v[:, j]) for j, name in enumerate(names(v))}) if v.ndim == 2 else column(v)


def with_one(v: Any, value: Any) -> Any:
    """One cell in the middle is something else."""
    kind = float if isinstance(value, float) else complex if isinstance(value, complex) else object
    out = np.array(v, dtype=kind)
    out[(5, 0) if v.ndim == 2 else 5] = value
    return out


def each(v: Any, change: Any) -> Any:
    """An array of objects."""
    out = np.empty(v.shape, dtype=object)
    out.ravel()[:] = [change(value) for value in v.ravel().tolist()]
    return out


def whole(v: Any) -> Any:
    """Whole numbers from 0 on."""
    return np.round((v - v.min()) * 16).astype(np.int64)


def wide_stride(v: Any) -> Any:
    return np.repeat(v, 3, axis=0)[::3]


def read_only(v: Any) -> Any:
    out = v.copy()
    out.flags.writeable = False
    return out


def memory_map(v: Any) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        out = np.memmap(file.name, dtype=float, mode="w+", shape=v.shape)
        out[:] = v
        return out


class Subclass(np.ndarray):
    """Somebody's own kind of array, whose results are always two-dimensional or warn, like np.matrix."""


class HasArray:
    """Anything that numpy can read."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype=dtype)


class Unreadable:
    """An object that numpy asks for an array, in vain."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("the file behind this array is closed")


def _half_bytes(v: Any) -> Any:
    """Small whole numbers in the least room: differences of unsigned ones must not wrap around."""
    return whole(v).astype(np.uint8)


#: Other containers of the same numbers.
CONTAINERS = [
    Input("nested lists", lambda v: v.tolist(), SAME),
    Input("tuples", lambda v: tuple(map(tuple, v.tolist())) if v.ndim == 2 else tuple(v.tolist()), SAME),
    Input("list of numpy rows", list, SAME),
    Input("pandas", pandas, SAME),
    Input("pandas with an index of texts", lambda v: pandas(v, index=[f"row {i}" for i in range(len(v))]), SAME),
    Input("pandas with a duplicated index", lambda v: pandas(v, index=np.zeros(len(v), int)), SAME),
    Input(
        "pandas with a MultiIndex", lambda v: pandas(v, index=pd.MultiIndex.from_product([[0], range(len(v))])), SAME
    ),
    Input("pandas with a NaN in its index", lambda v: pandas(v, index=[np.nan, *range(1, len(v))]), SAME),
    Input("pandas nullable", lambda v: pandas(v).astype("Float64"), SAME),
    Input("pandas in Arrow", lambda v: pandas(v).astype("double[pyarrow]"), SAME),
    Input("pandas sparse", lambda v: pandas(v).astype(pd.SparseDtype(float, 0.0)), SAME),
    Input("pandas objects", lambda v: pandas(v).astype(object), SAME),
    Input("polars", polars, SAME),
    Input("pyarrow in chunks", arrow, SAME),
    Input("read only", read_only, SAME),
    Input("column-major", np.asfortranarray, SAME),
    Input("with gaps in memory", wide_stride, SAME),
    Input("negative strides", lambda v: np.ascontiguousarray(v[::-1])[::-1], SAME),
    Input("byte-swapped", lambda v: v.astype(">f8"), SAME),
    Input("memory-mapped", memory_map, SAME),
    Input("subclass of arrays", lambda v: v.view(Subclass), SAME),
    Input("object with __array__", HasArray, REFUSED_OR_SAME),
    Input("float32", lambda v: v.astype(np.float32), SAME),
    Input("float16", lambda v: v.astype(np.float16), SAME),
    Input("long double", lambda v: v.astype(np.longdouble), SAME),
    Input("uint8", _half_bytes, SAME, like=lambda v: whole(v).astype(float)),
    Input("int8", lambda v: (whole(v) // 2).astype(np.int8), SAME, like=lambda v: (whole(v) // 2).astype(float)),
    Input("uint64", lambda v: whole(v).astype(np.uint64), SAME, like=lambda v: whole(v).astype(float)),
    Input("byte-swapped int16", lambda v: whole(v).astype(">i2"), SAME, like=lambda v: whole(v).astype(float)),
    Input(
        "pandas Int8",
        lambda v: pandas(whole(v) // 2).astype("Int8"),
        SAME,
        like=lambda v: (whole(v) // 2).astype(float),
    ),
    Input("objects", lambda v: v.astype(object), SAME),
    Input("decimals", lambda v: each(v, Decimal), SAME),
    Input("masked, nothing hidden", lambda v: np.ma.MaskedArray(v, mask=np.zeros(v.shape, bool)), SAME),
    Input("tensor", torch.tensor, SAME),
    Input("tensor with gradients", lambda v: torch.tensor(v, requires_grad=True) * 1, SAME),
    Input("tensor in bfloat16", lambda v: torch.tensor(v, dtype=torch.bfloat16), SAME),
    Input("tensor in float16", lambda v: torch.tensor(v, dtype=torch.float16), SAME),
    Input("sparse tensor", lambda v: torch.tensor(v).to_sparse(), SAME),
    Input("negated tensor", lambda v: torch.complex(torch.zeros(v.shape).double(), torch.tensor(-v)).conj().imag, SAME),
    Input("parameter", lambda v: torch.nn.Parameter(torch.tensor(v)), SAME),
    Input("list of tensors", lambda v: list(torch.tensor(v)), SAME),
    Input("list of bfloat16 tensors", lambda v: list(torch.tensor(v, dtype=torch.bfloat16)), SAME),
    Input("own list", lambda v: UserList(v.tolist()), REFUSED_OR_SAME),
    Input("deque", lambda v: deque(v.tolist()), REFUSED_OR_SAME),
    Input("memoryview", lambda v: memoryview(np.ascontiguousarray(v)), REFUSED_OR_SAME),
    Input("negative zeros", lambda v: np.where(v == 0, -0.0, v), SAME),
]
#: Numbers that are no numbers to compute with, or none at all.
BROKEN = [
    Input("one NaN", lambda v: with_one(v, np.nan), says="missing|NaN"),
    Input("one infinity", lambda v: with_one(v, np.inf), says="infin"),
    Input("one minus infinity", lambda v: with_one(v, -np.inf), says="infin"),
    Input("all NaN", lambda v: np.full(v.shape, np.nan), says="missing|NaN"),
    Input("float16 overflown", lambda v: with_one(v, np.inf).astype(np.float16), says="infin"),
    Input("one None", lambda v: with_one(v, None), says="missing|NaN|None"),
    Input("one pandas.NA", lambda v: with_one(v, pd.NA), says="missing|NaN|NA"),
    Input("one NaT", lambda v: with_one(v, pd.NaT), says="missing|NaT|date"),
    Input("pandas nullable with NA", lambda v: pandas(with_one(v, np.nan)).astype("Float64"), says="missing|NaN"),
    Input(
        "pandas in Arrow with nulls",
        lambda v: pandas(with_one(v, np.nan)).astype("double[pyarrow]"),
        says="missing|NaN",
    ),
    Input("polars null", lambda v: polars(with_one(v, np.nan)).fill_nan(None), says="missing|NaN"),
    Input("polars NaN", lambda v: polars(with_one(v, np.nan)), says="missing|NaN"),
    Input("pyarrow null", lambda v: arrow(v, missing=True), says="missing|NaN"),
    Input("decimal NaN", lambda v: with_one(each(v, Decimal), Decimal("NaN")), says="missing|NaN"),
    Input("signalling decimal NaN", lambda v: with_one(each(v, Decimal), Decimal("sNaN")), says="missing|NaN|number"),
    Input("masked", lambda v: np.ma.masked_values(v, v.ravel()[0]), says="mask|missing"),
    Input("1e200", lambda v: v * 1e200, says="far from|e\\+20|infin|order of|loss|gradient|0..1"),
    Input("1e300", lambda v: v * 1e300, says="far from|e\\+30|infin|order of|loss|gradient|0..1"),
    Input("complex", lambda v: v + 0j, says="omplex"),
    Input("one complex object", lambda v: with_one(v.astype(object), 1j), says="omplex"),
    Input("complex tensor", lambda v: torch.tensor(v + 1j).conj(), says="omplex"),
    Input("texts", lambda v: each(v, str).astype(str), says="text|label|classes"),
    Input("text objects", lambda v: each(v, str), says="text|label|classes"),
    Input("texts of escapes", lambda v: each(v, lambda value: f"\x1b[31m{value}\x07"), says="text|label|classes"),
    Input("texts of lone surrogates", lambda v: each(v, lambda value: f"\ud800{value}"), says="text|label|classes"),
    Input("texts of a million letters", lambda v: with_one(v, "x" * 1_000_000), says="text|label|kinds|classes"),
    Input("bytes", lambda v: each(v, lambda value: str(value).encode()), says="text|bytes|label|classes"),
    Input("byte strings", lambda v: each(v, str).astype("S"), says="text|bytes|label|classes"),
    Input(
        "dates",
        lambda v: np.full(v.shape, np.datetime64("2024-05-31")) + whole(v).astype("m8[D]"),
        says="date|duration|label|classes",
    ),
    Input("durations", lambda v: whole(v).astype("m8[s]"), says="duration|date|label|classes"),
    Input(
        "python dates",
        lambda v: each(whole(v), lambda d: datetime.date(2020, 1, 1) + datetime.timedelta(d)),
        says="date|label|classes",
    ),
    Input("fractions", lambda v: each(v, fractions.Fraction), REFUSED_OR_SAME),
    Input("lists in cells", lambda v: each(v, lambda value: [value]), says="list|text|label|number"),
    Input("dicts in cells", lambda v: each(v, lambda value: {"value": value}), says="dict|text|label|number"),
    Input(
        "records",
        lambda v: np.zeros(len(v), dtype=[("a", float), ("b", float)]),
        says="record|field|tuple|structured|dtype",
    ),
    Input("tensor without data", lambda v: torch.empty(v.shape, device="meta"), says="meta|device"),
    Input("object that cannot be read", lambda v: Unreadable(), says="closed|Unreadable"),
    Input("a number of 400 digits", lambda v: with_one(v, 10**400), says="infin|large|digits|far from"),
    Input(
        "pandas dates with a zone",
        lambda v: (
            pandas(whole(v)).apply(pd.to_datetime, utc=True)
            if v.ndim == 2
            else pd.to_datetime(pandas(whole(v)), utc=True)
        ),
        says="date|label|classes|Timestamp",
    ),
]
#: What people have in place of a table or a column.
NO_TABLES = [
    Input("csr matrix", lambda v: scipy.sparse.csr_matrix(v), says="sparse"),
    Input("coo array", lambda v: scipy.sparse.coo_array(v), says="sparse"),
    Input("lazy", lambda v: (polars(v) if v.ndim == 2 else polars(v).to_frame()).lazy(), says="Lazy"),
    Input("lazy expression", lambda v: pl.col("x0"), says="Expr|single value|shape"),
    Input("generator", lambda v: (row for row in v), says="generator"),
    Input("map", lambda v: map(float, v.ravel()), says="map"),
    Input("dict", lambda v: {"x0": v.tolist()}, says="dict"),
    Input("list of dicts", lambda v: [{"x0": value} for value in v.ravel().tolist()], says="dict"),
    Input("set", lambda v: set(v.ravel().tolist()), says="set"),
    Input("a path", lambda v: Path("table.csv"), says="text|[pP]ath|single value"),
    Input("a text", lambda v: "table.csv", says="text|[pP]ath|single value"),
    Input("a function", lambda v: lambda: v, says="function|single value|shape"),
    Input("a type", lambda v: type(v), says="type|class|single value"),
    Input("ellipsis", lambda v: ..., says="[Ee]llipsis|single value|shape"),
    Input("a number", lambda v: 3.0, says="single|one value|3.0|\\(\\)|split|scalar|array"),
    Input("0-d array", lambda v: np.array(3.0), says="single|one value|3.0|\\(\\)|split|scalar|array"),
    Input("0-d tensor", lambda v: torch.tensor(3.0), says="shape|single|one value|3.0|\\(\\)|split|scalar|array"),
    Input("3-d array", lambda v: np.zeros((len(v), 2, 2)), says="dim|shape|axes|columns|outputs"),
    Input("empty list", lambda v: [], says="samples|empty|0 rows|has 0|split|0 columns|1 columns|2D"),
    Input("no rows", lambda v: v[:0], says="samples|empty|0 rows|has 0|0 sample"),
    Input("one row too few", lambda v: v[:-1], says="89"),
    Input("one row too many", lambda v: np.concatenate([v, v[:1]]), says="91"),
    Input("one row", lambda v: v[:1], says="samples|1 row|rows|has 1|1 sample"),
    Input("ragged", lambda v: [[1.0]] * (len(v) - 1) + [[1.0, 2.0]], says="length|shape|inhomogeneous"),
]
#: Tables alone.
OF_TABLES = [
    Input("transposed", lambda v: v.T, says="2|rows"),
    Input("no columns", lambda v: v[:, :0], says="column|feature|shape"),
    Input("pandas without columns", lambda v: pandas(v)[[]], says="column|empty|feature"),
    Input("1e-200", lambda v: v * 1e-200, says="far from|order of"),
    Input("1e-300", lambda v: v * 1e-300, says="far from|order of"),
    Input("subnormal", lambda v: v * 5e-324, says="far from|order of"),
    Input("digits lost to 1e17", lambda v: v + 1e17, SOUND),  # equal as they arrive: nobody can tell that they differed
    Input("digits lost to 2**62, whole", lambda v: whole(v) + 2**62, says="digits"),
    Input("digits lost to 2**63, unsigned", lambda v: whole(v).astype(np.uint64) + np.uint64(2**63), says="digits"),
    Input("digits lost, pandas Int64", lambda v: pandas(whole(v) + 2**62).astype("Int64"), says="digits"),
    Input("digits lost, objects", lambda v: each(whole(v), lambda k: int(k) + 2**70), says="digits"),
    Input("digits lost, Decimal", lambda v: each(whole(v), lambda k: Decimal(int(k)) + 10**20), says="digits"),
    Input("digits lost, polars", lambda v: polars(whole(v) + 2**62), says="digits"),
    Input("1e15 beside", lambda v: v + 1e15, SOUND),
    Input("all equal", np.ones_like, SOUND),
    Input("one column equal", lambda v: np.column_stack([v[:, 0], np.ones(len(v))]), SOUND),
    Input("the same column twice", lambda v: v[:, [0, 0]], SOUND),
    Input("zero strides", lambda v: np.broadcast_to(np.float64(1.0), v.shape), SOUND),
    Input("one column", lambda v: v[:, :1], SOUND),
    Input("one column, flat", lambda v: v[:, 0], SOUND),
    Input("booleans", lambda v: v > 0, SAME, like=lambda v: (v > 0).astype(float)),
    Input("boolean objects", lambda v: (v > 0).astype(object), REFUSED_OR_SAME, like=lambda v: (v > 0).astype(float)),
    Input(
        "pandas booleans with NA",
        lambda v: pandas(v > 0).astype("boolean").mask(pandas(v) == v[0, 0]),
        says="missing|NaN|NA",
    ),
    Input("polars booleans", lambda v: polars(v > 0), SAME, like=lambda v: (v > 0).astype(float)),
    Input("pandas of mixed kinds", lambda v: pandas(v).astype({"x0": "Float64", "x1": "float32"}), SAME),
    Input("np.matrix", lambda v: _as_matrix(v), SAME),
    Input("names that are numbers", lambda v: pd.DataFrame(v), SAME),
    Input(
        "names in levels",
        lambda v: pd.DataFrame(v, columns=pd.MultiIndex.from_product([["x"], [0, 1]])),
        REFUSED_OR_SAME,
    ),
    Input("duplicated names", lambda v: pd.DataFrame(v, columns=["x", "x"]), REFUSED_OR_SAME),
    Input("a name that is NaN", lambda v: pd.DataFrame(v, columns=["x0", np.nan]), REFUSED_OR_SAME),
    Input("names of escapes and markup", lambda v: pd.DataFrame(v, columns=["\x1b[31m", "<script>"]), SAME),
    Input("a name of a million letters", lambda v: pd.DataFrame(v, columns=["x" * 1_000_000, "y"]), SAME),
    Input(
        "a name with a lone surrogate",
        lambda v: pd.DataFrame(v, columns=pd.Index(["\ud800", "y"], dtype=object)),
        REFUSED_OR_SAME,
    ),
    Input("categories of numbers", lambda v: pandas(v).astype("category"), REFUSED_OR_SAME),
    Input("categories of texts", lambda v: pandas(each(v, str)).astype("category"), says="text|categor"),
    Input("list of columns in a tuple", lambda v: (v[:, 0].tolist(), v[:, 1].tolist()), says="2|rows"),
    Input("numbers beside a text", lambda v: [[*row, "a"] for row in v.tolist()], says="text"),
    Input("a GroupBy", lambda v: pandas(v).groupby("x0"), says="GroupBy|grouped|table"),
]
#: Columns alone.
OF_COLUMNS = [
    Input("(n, 1)", lambda v: v[:, None], SAME),
    Input("pandas table of one column", lambda v: pd.DataFrame({"v": v}), SAME),
    Input("polars table of one column", lambda v: pl.DataFrame({"v": v}), SAME),
    Input("array.array", lambda v: array.array("d", v), SAME),
    Input("pandas Index", lambda v: pd.Index(v), SAME),
    Input("pandas array", lambda v: pd.array(v), SAME),
    Input("pyarrow array", lambda v: pa.array(v), SAME),
    Input("pyarrow scalar", lambda v: pa.scalar(1.0), says="single|one value|Scalar|shape"),
    Input("two columns", lambda v: np.column_stack([v, v]), says="column|shape|outputs"),
    Input("a row", lambda v: v[None, :], says="column|shape|rows"),
]
FORMS = {
    "numbers": [*CONTAINERS, *BROKEN, *NO_TABLES, *OF_COLUMNS],
    "matrix": [*CONTAINERS, *BROKEN, *NO_TABLES, *OF_TABLES],
    "rows of a function": [
        *(given for given in CONTAINERS if "pandas" not in given.name),
        *(
            given
            for given in NO_TABLES
            if given.name in ("lazy", "generator", "map", "set", "a path", "a text", "a type", "a number", "0-d array")
        ),
    ],
}


def _as_matrix(v: Any) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        return np.matrix(v)


assert Input("", lambda v: v).expected == REFUSED
