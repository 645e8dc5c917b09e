"""Hostile labels of environments and classes: other containers of the same labels, odd ones, and what is none."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import torch

from tests.hostile.case import REFUSED_OR_SAME, SAME, SOUND, Input


def named(v: Any, *labels: Any) -> Any:
    """The same groups under other labels, of any kind, in the same order."""
    order = sorted(set(v.tolist()))
    out = np.empty(len(v), dtype=object)
    out[:] = [labels[order.index(value)] for value in v.tolist()]
    return out


def coded(v: Any) -> Any:
    return np.searchsorted(np.unique(v.astype(str)), v.astype(str))


def with_one(v: Any, value: Any) -> Any:
    out = v.copy()
    out[4] = value
    return out


def as_texts(*labels: Any) -> Any:
    """The plain form whose numbers are wanted: labels that are texts, in this order."""
    return lambda v: named(v, *map(str, labels))


def dates(v: Any, unit: str = "D") -> Any:
    return (np.datetime64("2024-01-31") + coded(v).astype("m8[D]")).astype(f"M8[{unit}]")


ANSI, LONE, LONG = "\x1b[31mred\x07", "\ud800", "y" * 1_000_000
HTML = '<script>alert("1")</script> role="y" #010101'

SAME_LABELS = [
    Input("list", lambda v: v.tolist(), SAME),
    Input("tuple", lambda v: tuple(v.tolist()), SAME),
    Input("numpy texts", lambda v: v.astype(str), SAME),
    Input("numpy variable texts", lambda v: v.astype(np.dtypes.StringDType()), SAME),
    Input("byte-swapped texts", lambda v: v.astype(str).astype(">U5"), SAME),
    Input("pandas", lambda v: pd.Series(v), SAME),
    Input("pandas with a duplicated index", lambda v: pd.Series(v, index=np.zeros(len(v), int)), SAME),
    Input("pandas strings", lambda v: pd.Series(v, dtype="string"), SAME),
    Input("pandas strings in Arrow", lambda v: pd.Series(v, dtype="string[pyarrow]"), SAME),
    Input("pandas categories", lambda v: pd.Series(v).astype("category"), SAME),
    Input("unused categories", lambda v: pd.Categorical(v, categories=["zz", *sorted(set(v)), "unused"]), SAME),
    Input("polars", lambda v: pl.Series(v.tolist()), SAME),
    Input("polars categories", lambda v: pl.Series(v.tolist()).cast(pl.Categorical), SAME),
    Input("polars enum", lambda v: pl.Series(v.tolist()).cast(pl.Enum(["zz", *sorted(set(v))])), SAME),
    Input("pyarrow dictionary", lambda v: pa.array(v.tolist()).dictionary_encode(), SAME),
    Input("pyarrow in chunks", lambda v: pa.chunked_array([v[:7].tolist(), v[7:].tolist()]), SAME),
    Input("pyarrow large strings", lambda v: pa.array(v.tolist(), pa.large_string()), SAME),
    Input("(n, 1)", lambda v: v[:, None], SAME),
    Input("read only", lambda v: np.frombuffer(v.astype("U5").tobytes(), "U5"), SAME),
    Input("negative strides", lambda v: v[::-1].copy()[::-1], SAME),
    Input("masked, nothing hidden", lambda v: np.ma.MaskedArray(v.astype(str)), SAME),
]
#: Labels that are no texts, or odd ones: the groups count, not what they are called.
OTHER_LABELS = [
    Input("uint8", lambda v: coded(v).astype(np.uint8), SAME, like=as_texts("x", "y", "z")),
    Input("byte-swapped", lambda v: coded(v).astype(">i4"), SAME, like=as_texts("x", "y", "z")),
    Input("tensor", lambda v: torch.tensor(coded(v)), SAME, like=as_texts("x", "y", "z")),
    Input("whole bfloat16", lambda v: torch.tensor(coded(v)).bfloat16(), SAME, like=as_texts("x", "y", "z")),
    Input("escapes", lambda v: named(v, ANSI, "s", "t"), SAME, like=as_texts(ANSI, "s", "t")),
    Input("a million letters", lambda v: named(v, "x", LONG, LONG + "z"), SOUND),
    Input(
        "lone surrogates",
        lambda v: named(v, "x", LONE, LONE + "z"),
        REFUSED_OR_SAME,
        like=as_texts("x", LONE, LONE + "z"),
    ),
    Input("markup", lambda v: named(v, HTML, "x", "y"), SAME, like=as_texts(HTML, "x", "y")),
    Input("empty text", lambda v: named(v, "", "x", "y"), REFUSED_OR_SAME, like=as_texts("", "x", "y")),
    Input("texts with blanks", lambda v: named(v, " a", "a", "a "), SAME, like=as_texts(" a", "a", "a ")),
    Input(
        "right to left",
        lambda v: named(v, "x", "\u202egnp", "\u202egnq"),
        REFUSED_OR_SAME,
        like=as_texts("x", "\u202egnp", "\u202egnq"),
    ),
    Input(
        "lines",
        lambda v: named(v, "a\nb", "a\r\nc", "a\x00d"),
        REFUSED_OR_SAME,
        like=as_texts("a\nb", "a\r\nc", "a\x00d"),
    ),
    Input("tuples", lambda v: named(v, ("a", 1), ("a", 2), ("b", 1)), SOUND),
    Input("bytes", lambda v: named(v, b"a", b"b", b"c"), SOUND),
    Input("dates", dates, SOUND),
    Input("dates to the nanosecond", lambda v: dates(v, "ns"), SOUND),
    Input("python dates", lambda v: named(v, *(datetime.date(2024, 1, d) for d in (1, 2, 3))), SOUND),
    Input("dates with a zone", lambda v: pd.Series(dates(v, "ns")).dt.tz_localize("Europe/Zurich"), SOUND),
    Input("durations", lambda v: coded(v).astype("m8[s]"), SOUND),
    Input("periods", lambda v: pd.Series(dates(v, "ns")).dt.to_period("D"), SOUND),
    Input("intervals", lambda v: pd.cut(pd.Series(coded(v)), [-1, 0, 1, 2]), SOUND),
    Input("decimals", lambda v: named(v, Decimal("0.1"), Decimal("0.2"), Decimal("0.3")), SOUND),
    Input("identifiers", lambda v: named(v, *(uuid.UUID(int=k) for k in (1, 2, 3))), SOUND),
    Input("mixed kinds", lambda v: named(v, 1, "one", 2.5), SOUND),
    Input("1 and '1'", lambda v: named(v, 1, "1", "2"), SOUND),
    Input("huge and near", lambda v: coded(v).astype(np.int64) + 2**53, SAME, like=as_texts("x", "y", "z")),
    Input(
        "huge and unsigned", lambda v: coded(v).astype(np.uint64) + np.uint64(2**63), SAME, like=as_texts("x", "y", "z")
    ),
    Input("huge, objects", lambda v: named(v, 2**70, 2**70 + 1, 2**70 + 2), SAME, like=as_texts("x", "y", "z")),
    Input(
        "huge, pandas Int64", lambda v: pd.Series(coded(v) + 2**53).astype("Int64"), SAME, like=as_texts("x", "y", "z")
    ),
    Input("huge, pyarrow with a null", lambda v: pa.array([None, *(coded(v)[1:] + 2**53).tolist()]), says="missing"),
]
NO_LABELS = [
    Input("one None", lambda v: with_one(v, None), says="missing"),
    Input("one NaN", lambda v: with_one(v, np.nan), says="missing"),
    Input("one pandas.NA", lambda v: with_one(v, pd.NA), says="missing"),
    Input("one NaT", lambda v: with_one(v, pd.NaT), says="missing"),
    Input("a date that is NaT", lambda v: with_one(dates(v, "ns"), np.datetime64("NaT")), says="missing"),
    Input(
        "a duration that is NaT", lambda v: with_one(coded(v).astype("m8[s]"), np.timedelta64("NaT")), says="missing"
    ),
    Input(
        "a decimal that is NaN", lambda v: with_one(named(v, *map(Decimal, (1, 2, 3))), Decimal("NaN")), says="missing"
    ),
    Input(
        "a decimal that is sNaN",
        lambda v: with_one(named(v, *map(Decimal, (1, 2, 3))), Decimal("sNaN")),
        says="missing|label",
    ),
    Input("a number that is NaN", lambda v: with_one(coded(v).astype(float), np.nan), says="missing"),
    Input("pandas string NA", lambda v: pd.Series(with_one(v, None), dtype="string"), says="missing"),
    Input("category that is missing", lambda v: pd.Series(with_one(v, None)).astype("category"), says="missing"),
    Input("polars null", lambda v: pl.Series(with_one(v, None).tolist()), says="missing"),
    Input(
        "pyarrow dictionary null", lambda v: pa.array(with_one(v, None).tolist()).dictionary_encode(), says="missing"
    ),
    Input("masked", lambda v: np.ma.MaskedArray(v.astype(str), mask=np.arange(len(v)) == 4), says="missing|mask"),
    Input("1 and True", lambda v: with_one(named(v, 1, 2, 3), True), says="both 1 and True"),
    Input("numpy 1 and True", lambda v: with_one(named(v, np.int64(1), 2, 3), np.True_), says="both 1 and True"),
    Input("lists", lambda v: named(v, ["a"], ["b"], ["c"]), says="list"),
    Input("dicts in a list", lambda v: [{"a": value} for value in v], says="dict"),
    Input("sets", lambda v: named(v, {"a"}, {"b"}, {"c"}), says="set"),
    Input("arrays", lambda v: named(v, np.zeros(2), np.ones(2), np.ones(2)), says="array"),
    Input("tuples of lists", lambda v: named(v, ([],), ([1],), ([2],)), says="tuple"),
    Input("complex", lambda v: coded(v) + 0j, says="omplex"),
    Input("one group", lambda v: np.full(len(v), "a"), says="only one|one class only"),
    Input("a group for each row", lambda v: np.arange(len(v)).astype(str), says="different"),
    Input("a text", lambda v: "abc", says="single value|text"),
    Input("bytes as a whole", lambda v: b"abc", says="single value|bytes"),
    Input("a number", lambda v: 3, says="single value"),
    Input("dict", lambda v: dict(enumerate(v)), says="dict"),
    Input("set", lambda v: set(v), says="set"),
    Input("generator", lambda v: (value for value in v), says="generator"),
    Input("two columns", lambda v: np.column_stack([v, v]), says="column"),
    Input("pandas table of two columns", lambda v: pd.DataFrame({"a": v, "b": v}), says="column"),
    Input("polars lazy", lambda v: pl.LazyFrame({"env": v.tolist()}), says="Lazy"),
    Input("empty", lambda v: [], says="has 0|samples"),
    Input("one too few", lambda v: v[:-1], says="89"),
    Input("one too many", lambda v: np.append(v, "a"), says="91"),
    Input("tensor without data", lambda v: torch.empty(len(v), device="meta"), says="meta"),
    Input(
        "records", lambda v: np.zeros(len(v), dtype=[("a", int), ("b", int)]), says="record|field|structured|only one"
    ),
]
OF_ENVIRONMENTS = [
    Input("one row apart", lambda v: with_one(v, "zz"), says="1 row"),
    Input("numbers that vary", lambda v: np.linspace(0.0, 1.0, len(v)), says="different"),
    Input("infinite numbers", lambda v: np.where(v == "a", np.inf, coded(v)), SOUND),
    Input("0.0 and -0.0", lambda v: np.where(v == "a", -0.0, np.where(v == "b", 0.0, 1.0)), SOUND),
    Input("booleans", lambda v: v == "a", SAME, like=lambda v: named(v, "z", "x", "x")),
]
FORMS = {
    "environments": [*SAME_LABELS, *OTHER_LABELS, *NO_LABELS, *OF_ENVIRONMENTS],
    "classes": [*SAME_LABELS, *OTHER_LABELS, *NO_LABELS],
}
