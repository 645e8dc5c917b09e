"""Columns of labels that know their distinct ones already, or can say them fast: no row is looked at in Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.rows.arrays import Array, Integers

#: Rows from which on it pays to bring pandas along for texts.
MANY_ROWS = 5_000


@dataclass(frozen=True, eq=False)
class Coded:
    """Labels as the distinct ones, in any order and some perhaps in no row, and the code of every row.

    A code of -1 is a label that is missing.
    """

    distinct: Array
    codes: Integers

    def __len__(self) -> int:
        return len(self.codes)


def coded(values: Any) -> tuple[Coded, str | None] | None:
    """A column of texts or categories with its own name; ``None`` for any other, which is read row by row.

    >>> import pyarrow as pa
    >>> labels, _ = coded(pa.array(["b", "a", "b"]))
    >>> labels.distinct.tolist(), labels.codes.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    labels = _of_pandas(values) if hasattr(values, "iloc") else _of_arrow(values)
    if isinstance(values, list) and len(values) >= MANY_ROWS and isinstance(values[0], str):
        values = np.asarray(values, dtype=object)
    if labels is None and type(values) is np.ndarray and values.ndim == 1:  # no subclass: a mask would be lost
        labels = of_texts(values)
    name = getattr(values, "name", None)
    return None if labels is None else (labels, name if isinstance(name, str) else None)


def of_texts(values: Array) -> Coded | None:
    """Many texts, by their hashes; ``None`` where there are few, or they are not all texts."""
    if len(values) < MANY_ROWS or values.dtype.kind not in "OU":
        return None
    import pandas as pd  # here: keeps `import invariscope` light

    objects = values.astype(object, copy=False)
    if values.dtype.kind == "O" and pd.api.types.infer_dtype(objects, skipna=False) != "string":
        return None
    codes, distinct = pd.factorize(objects)
    return Coded(_objects(distinct), codes)


def _of_pandas(values: Any) -> Coded | None:
    if hasattr(values, "columns"):
        return None
    if hasattr(values, "cat") and hasattr(values.dtype, "categories"):
        return Coded(_objects(values.cat.categories), values.cat.codes.to_numpy())
    if isinstance(values.dtype, np.dtype):
        return of_texts(values.to_numpy())
    if getattr(values.dtype, "type", None) is str:  # pandas' own texts, of Arrow or Python
        codes, distinct = values.factorize()
        return Coded(_objects(distinct), codes)
    return None


def _of_arrow(values: Any) -> Coded | None:
    """Texts and dictionaries of Arrow and polars."""
    in_arrow = hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    if not in_arrow or hasattr(values, "columns"):
        return None
    import pyarrow as pa

    # polars' own way to Arrow has texts that pyarrow can look up; its stream has not
    column = pa.chunked_array(values.to_arrow() if hasattr(values, "to_arrow") else values)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.dictionary_encode()
    if not pa.types.is_dictionary(column.type):
        return None
    start, distinct, codes = 0, [], []
    for chunk in column.chunks:  # each may have a dictionary of its own
        own = chunk.indices.fill_null(-1 if pa.types.is_signed_integer(chunk.indices.type) else len(chunk.dictionary))
        places = own.to_numpy(zero_copy_only=False).astype(np.intp)
        places = np.where((places < 0) | (places >= len(chunk.dictionary)), -1, places + start)
        start += len(chunk.dictionary)
        distinct += chunk.dictionary.to_pylist()
        codes.append(places)
    return Coded(_objects(distinct), np.concatenate([np.empty(0, np.intp), *codes]))


def _objects(labels: Any) -> Array:
    """Labels as Python has them, one by one: tuples among them stay tuples."""
    listed = labels.tolist() if hasattr(labels, "tolist") else labels
    return np.fromiter(listed, dtype=object, count=len(listed))
