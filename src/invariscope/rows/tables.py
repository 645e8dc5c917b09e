"""From whatever table a user has (numpy, pandas, polars, pyarrow) to numpy, with names kept and bad columns named."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Booleans
from invariscope.rows.digits import WHOLE_IN_FLOATS, refuse_merged
from invariscope.rows.not_tables import in_words, refuse_equal_kinds, refuse_no_table

NUMBER = (int, float, np.number, Decimal)
#: Where pandas puts row numbers that have no name when a frame becomes an Arrow table: nobody's column.
ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def matrix_of(X: Any) -> tuple[Array, tuple[str, ...]]:
    """A (n, d) float matrix and its column names; integers and booleans become floats, float32 stays float32."""
    if _is_arrow_table(X):
        return _matrix_of_arrow(X)
    if hasattr(X, "__arrow_c_array__") or hasattr(X, "__arrow_c_stream__"):  # one column of a table
        column, name = column_of_labels(X, "X")
        return _as_rows(_numeric(column, name or "x0")[:, None], [name or "x0"]), (name or "x0",)
    array = array_of(X, "X", table=True)
    if array.ndim == 0:
        raise InputError(f"X is a single value ({in_words(X)}): give a table of rows x columns")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"X has {array.ndim} dimensions: give a table of rows x columns (flatten images first)")
    names = tuple(f"x{j}" for j in range(array.shape[1]))
    if array.dtype.kind not in "iufb" and array.size:
        return np.column_stack([_numeric(array[:, j], names[j]) for j in range(array.shape[1])]), names
    return _as_rows(array, names), names


def vector_of(values: Any, what: str) -> tuple[Array, str | None]:
    """A 1-D array, numeric where it can be, and the column's own name if it has one; categories stay labels."""
    array, name, categories = _column(values, what)
    if categories:
        return array.astype(object), name
    numbers = array.dtype.kind == "O" and all(isinstance(v, NUMBER) or v is None for v in array)
    if numbers and not all(isinstance(v, bool | np.bool_) for v in array):
        refuse_equal_kinds(array, name or what)
        array = _floats(array, f'"{name or what}"')
    return array, name


def column_of_labels(values: Any, what: str) -> tuple[Array, str | None]:
    """A 1-D array of labels of any kind, and the column's own name if it has one."""
    array, name, _ = _column(values, what)
    return array, name


def _column(values: Any, what: str) -> tuple[Array, str | None, bool]:
    """The array, the name, and whether the column's type says that its values are categories."""
    name = getattr(values, "name", None)
    if _is_arrow_table(values):
        values, name = _only_column(values, what)
    categories = _is_categorical(values)
    if categories:
        array = np.asarray(values, dtype=object)
    elif hasattr(values, "__arrow_c_array__") or _is_arrow_stream(values):
        column = _arrow().chunked_array(values)
        array, categories = _arrow_column(column), _arrow().types.is_dictionary(column.type)
    else:
        array = array_of(values, what, table=False)
        if isinstance(values, list | tuple) and bool in set(map(type, values)):
            refuse_equal_kinds(values, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 0:
        raise InputError(
            f"{what} is a single value ({in_words(values)}): give one value per row, such as a column of a table"
        )
    if array.dtype.names:
        raise InputError(f"{what} holds records ({', '.join(array.dtype.names)}): give one of their fields")
    if array.dtype.kind == "c":
        # scikit-learn's own words come first: its checks of estimators look for them
        raise InputError(
            f"Complex data not supported: {what} holds complex numbers. Give their real part, {what}.real, or their "
            f"size, abs({what})."
        )
    if array.ndim != 1:
        raise InputError(f"{what} must be one column: it has shape {array.shape}, so choose one of them")
    if array.dtype.kind in "UST":
        array = array.astype(object)
    elif array.dtype.kind == "O":
        array = _without_na(array)
    return array, name if isinstance(name, str) else None, categories


def _is_arrow_table(X: Any) -> bool:
    return hasattr(X, "__arrow_c_stream__") and (hasattr(X, "columns") or hasattr(X, "column_names"))


def _is_arrow_stream(values: Any) -> bool:
    return hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc")  # pandas knows its own columns better


def _is_categorical(values: Any) -> bool:
    """Of pandas and polars; a pandas column may hold Arrow's dictionaries, which are categories too."""
    dtype = getattr(values, "dtype", None)
    in_arrow = hasattr(getattr(dtype, "pyarrow_dtype", None), "index_type")
    return hasattr(values, "categories") or hasattr(dtype, "categories") or in_arrow


def _only_column(table: Any, what: str) -> tuple[Any, Any]:
    names = list(table.columns if hasattr(table, "iloc") else _arrow().table(table).column_names)
    if len(names) != 1:
        raise InputError(f"{what} has {len(names)} columns ({', '.join(map(str, names[:5]))}): give one of them")
    return table.iloc[:, 0] if hasattr(table, "iloc") else table[names[0]], names[0]


def plain(values: Any) -> Any:
    """A torch tensor, or a list of them, as arrays, whatever its precision and whether gradients flow to it.

    Anything else stays what it is; torch itself is not imported.
    """
    if isinstance(values, list | tuple) and values and _is_tensor(values[0]):
        return [plain(value) for value in values]
    if not _is_tensor(values):
        return values
    if values.is_meta:
        raise InputError("a tensor on the device meta holds no numbers: give one that was computed elsewhere")
    if values.is_nested:
        raise InputError("a nested tensor has rows of different lengths: give torch.nested.to_padded_tensor(X, 0.0)")
    values = values.detach().cpu()
    values = (values.dequantize() if values.is_quantized else values.to_dense()).resolve_conj().resolve_neg()
    if values.is_floating_point() and values.element_size() < 4:  # numpy has no bfloat16, and sums in halves are coarse
        values = values.float()
    return values.numpy()


def comes_from(thing: Any, package: str) -> bool:
    """Whether its class, or one that class is made from, is a package's; the package itself is not imported."""
    return any(ancestor.__module__.partition(".")[0] == package for ancestor in type(thing).__mro__)


def _is_tensor(values: Any) -> bool:
    return hasattr(values, "detach") and comes_from(values, "torch")


def array_of(values: Any, what: str, *, table: bool) -> Array:
    """``np.asarray`` that neither turns numbers beside text into text nor forgets which values were masked."""
    values = plain(values)
    refuse_no_table(values, what, table=table)
    written = isinstance(values, list | tuple) and bool(values) and isinstance(values[0], str)
    try:
        array = np.asarray(values, dtype=object if written else None)
        if array.dtype.kind in "US" and isinstance(values, list | tuple):
            array = np.asarray(values, dtype=object)
    except InputError:  # an object that says itself why it is no table
        raise
    except Exception as error:  # whatever code there is behind an object that numpy can read
        if isinstance(values, list | tuple):
            raise InputError(
                f"{what} cannot be read as a table: its rows differ in length. Give all as many values."
            ) from error
        raise InputError(
            f"{what} is a {type(values).__name__} that cannot be read ({error}): give an array of its values"
        ) from error
    return _blanked(array, np.ma.getmaskarray(values)) if isinstance(values, np.ma.MaskedArray) else array


def _without_na(array: Array) -> Array:
    """pandas.NA becomes None: it cannot even be compared with itself."""
    if not any(kind.__name__ == "NAType" for kind in set(map(type, array))):
        return array
    unknown = np.fromiter((type(value).__name__ == "NAType" for value in array), np.bool_, len(array))
    return _blanked(array, unknown)


def _blanked(array: Array, where: Booleans) -> Array:
    if not where.any():
        return array
    out = array.astype(object)
    out[where] = None
    return out


def _arrow() -> Any:
    import pyarrow as pa  # only when a table arrives: keeps `import invariscope` light

    return pa


def _arrow_column(column: Any) -> Array:
    pa = _arrow()
    if pa.types.is_dictionary(column.type):
        try:
            column = column.cast(column.type.value_type)
        except pa.ArrowNotImplementedError:  # polars' categories are string views, which pyarrow cannot look up yet
            column = pa.chunked_array([column.to_pylist()])
    if pa.types.is_integer(column.type) and column.null_count:
        column = column.cast(pa.float64(), safe=False)  # beyond 2^53 digits are lost, as everywhere in floats
    array: Array = column.to_numpy()
    return array.astype(object) if array.dtype.kind in "UST" else array


def _matrix_of_arrow(X: Any) -> tuple[Array, tuple[str, ...]]:
    if hasattr(X, "iloc"):  # pandas: indices and duplicate names would travel through Arrow
        names = tuple(map(str, X.columns))
        if X.shape[1] and all(isinstance(t, np.dtype) and t.kind in "iuf" for t in X.dtypes):
            return _as_rows(X.to_numpy(), names), names
        columns = [_numeric(column_of_labels(X.iloc[:, j], name)[0], name) for j, name in enumerate(names)]
    else:
        table = _arrow().table(X)
        table = table.select([j for j, name in enumerate(table.column_names) if not ROW_NUMBERS.fullmatch(name)])
        names = tuple(table.column_names)
        columns = [_numeric(_arrow_column(table.column(j)), name) for j, name in enumerate(names)]
    if not columns:
        return np.empty((0, 0)), ()
    single = all(c.dtype == np.float32 for c in columns)
    out = np.empty((len(columns[0]), len(columns)), np.float32 if single else np.float64)
    for j, column in enumerate(columns):
        out[:, j] = column
        if column.dtype.kind in "iu":
            refuse_merged(column, out[:, j], f'column "{names[j]}"')
    return out, names


def _as_rows(array: Array, names: Sequence[str]) -> Array:
    """Row-major floats; float64 and float32 rows that already are so are passed through, not copied."""
    dtype = array.dtype if array.dtype in (np.float64, np.float32) else np.float64
    rows = np.ascontiguousarray(array, dtype=dtype)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8:
        for j in np.flatnonzero(np.abs(rows).max(axis=0, initial=0.0) >= WHOLE_IN_FLOATS).tolist():
            refuse_merged(array[:, j], rows[:, j], f'column "{names[j]}"')
    return rows


def _floats(numbers: Iterable[Any], what: str) -> Array:
    """Python's numbers as floats: those that are missing are NaN, those beyond all floats infinite."""
    given = [*numbers]
    try:
        floats = np.array([np.nan if v is None else v for v in given], dtype=np.float64)
    except (OverflowError, ValueError):  # of more than 308 digits; a decimal NaN of the kind that must not be touched
        floats = np.array([_float(value) for value in given])
    refuse_merged(given, floats, what)
    return floats


def _float(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:
        return math.nan


def _numeric(column: Array, name: str) -> Array:
    if column.dtype.kind in "iufb":
        return column
    if column.dtype.names:
        raise InputError(
            f"X is an array of records ({', '.join(column.dtype.names)}): give pandas.DataFrame(X), or its fields as "
            "columns"
        )
    values = [] if column.dtype.kind in "mM" else column.tolist()
    text = [v for v in values if v is not None and not isinstance(v, NUMBER)]
    if column.dtype.kind == "c" or (text and isinstance(text[0], complex)):
        raise InputError(
            f'Complex data not supported: column "{name}" holds complex numbers. Give real and imaginary parts as '
            "columns of their own, or the size."
        )
    if column.dtype.kind == "m":
        raise InputError(f'column "{name}" holds durations: turn it into numbers (days, say) or drop it')
    if column.dtype.kind == "M" or (text and isinstance(text[0], date)):
        raise InputError(f'column "{name}" holds dates: turn it into numbers (year, day of year, ...) or drop it')
    if text:
        raise InputError(
            f'column "{name}" is text, not numbers (for example "{text[0]}", in {len(text)} of {len(values)} rows). '
            "Encode it as numbers (one-hot for categories) or drop it."
        )
    return _floats(values, f'column "{name}"')
