"""A user's file as a pandas table: CSV, Parquet, Feather and Arrow, with one clear sentence when it cannot be read."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from invariscope.errors import InputError
from invariscope.files import NO_SUCH_FILE
from invariscope.rows.arrays import Booleans
from invariscope.rows.tables import ROW_NUMBERS

if TYPE_CHECKING:
    import pandas as pd

    from invariscope.reading.file_bytes import FileBytes

#: What a file may end in; CSV files may be compressed on top of that.
SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv"), "CSV"),
    **dict.fromkeys((".parquet", ".pq"), "Parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Arrow"),
}
#: Read as missing in columns of numbers. In columns of text only the empty field is: "NA" may be Namibia.
MISSING = ("", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None")


def read_table(path: str | os.PathLike[str], *, na: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table from a file, chosen by how its name ends; row numbers that pandas wrote along are left out.

    CSV files have a header, are encoded in UTF-8 (or UTF-16 or UTF-32 that begins with its mark), and are separated by
    commas, semicolons or tabs (whichever the header has most of); ``.csv.gz`` and the like are unpacked, into at most a
    quarter of the memory. ``-`` is standard input; a pipe is a CSV file unless its name or beginning says otherwise.
    Texts in ``na`` are missing in their columns of numbers, and columns that begin with codes such as 007 stay text.
    Every other file keeps the types it was written with.

    It cannot tell a number that stands for something missing (-9, 999) from a number.

    Raises
    ------
    InputError : no such file, an unknown ending, a damaged file, no rows, or two columns of one name

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "sites.csv"
    >>> _ = path.write_text("site;dose\\nBern;1.5\\nOslo;\\n")
    >>> read_table(path)
       site  dose
    0  Bern   1.5
    1  Oslo   NaN
    """
    path = Path(path)
    table = _checked(_arrow_table(path, _kind(path), na), path)
    # pandas' own notes in the file would turn a named index into no column at all
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)
    return frame


def frame_of(table: Any) -> pd.DataFrame:
    """A pandas, polars or pyarrow table as a pandas table; an index with a name is a column, row numbers are left out.

    >>> import pyarrow as pa
    >>> frame_of(pa.table({"site": ["Bern", "Oslo"]}))
       site
    0  Bern
    1  Oslo
    """
    if hasattr(table, "iloc") and hasattr(table, "columns"):
        frame = table.rename(columns=str)
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise InputError(f'the table has several columns called "{twice[0]}": rename all but one')
        if frame.empty:
            raise InputError(
                f"the table has {len(frame)} rows and {frame.shape[1]} columns: give one with rows and columns"
            )
        named = any(name is not None for name in frame.index.names)
        tidy: pd.DataFrame = frame.reset_index(drop=not named)
        return tidy
    if not hasattr(table, "__arrow_c_stream__"):
        raise InputError(f"a {type(table).__name__} is no table: give a file, or a pandas, polars or pyarrow table")
    import pyarrow as pa

    # polars' own way to Arrow has texts that pyarrow can look up; its stream has not
    arrow = pa.table(table.to_arrow() if hasattr(table, "to_arrow") else table)
    converted: pd.DataFrame = _checked(arrow, "the table").to_pandas(ignore_metadata=True)
    return converted


def kind_of(column: pd.Series) -> str:
    """What a column holds: "numbers" (also true/false, and nothing at all), "text", "dates" or "nested values".

    >>> import pandas as pd
    >>> [kind_of(pd.Series(values)) for values in ([1, 2], [True, None], ["a", None], [None, None], [[1], [2]])]
    ['numbers', 'numbers', 'text', 'numbers', 'nested values']
    """
    import pandas as pd

    values = column.cat.categories.to_series() if isinstance(column.dtype, pd.CategoricalDtype) else column
    if pd.api.types.is_numeric_dtype(values.dtype):  # booleans as well
        return "numbers"
    if pd.api.types.is_datetime64_any_dtype(values.dtype) or pd.api.types.is_timedelta64_dtype(values.dtype):
        return "dates"
    inferred = pd.api.types.infer_dtype(values, skipna=True)
    kinds = {
        **dict.fromkeys(("boolean", "empty", "integer", "floating", "mixed-integer-float"), "numbers"),
        **dict.fromkeys(("string", "bytes"), "text"),
        **dict.fromkeys(("date", "datetime", "time", "timedelta"), "dates"),
    }
    return kinds.get(inferred, "nested values")


def plain_numbers(frame: pd.DataFrame) -> Booleans:
    """Which columns are numbers as numpy has them: nothing is to be read into these, and all are dealt with at once."""
    return np.array([isinstance(kind, np.dtype) and kind.kind in "iuf" for kind in frame.dtypes], dtype=bool)


def _kind(path: Path) -> str:
    """How a file is read: by what its name ends in, or what a pipe without such a name begins with."""
    from invariscope.reading.file_bytes import PACKED, is_pipe

    if is_pipe(path) and not path.suffix:
        return ""
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder: name a file in it")
        packed = path.suffix.lower() in PACKED
        kind = SUFFIXES.get((path.with_suffix("") if packed else path).suffix.lower())
        if kind is None or (packed and kind != "CSV"):
            raise InputError(f'{path}: a table ends in {", ".join(SUFFIXES)} (or .csv.gz), not "{path.suffix}"')
        if not path.is_file() and not is_pipe(path):
            device = path.exists()
            raise InputError(f"{path} is a device: name a file" if device else f"{path}: {NO_SUCH_FILE}")
    except OSError as error:  # a name that is too long, a folder nobody may look into
        raise InputError(f"{path} cannot be opened ({error.strerror}): name another file") from error
    return kind


def _arrow_table(path: Path, kind: str, na: Sequence[str]) -> Any:
    import pyarrow as pa

    from invariscope.reading.file_bytes import FileBytes
    from invariscope.reading.read_csv import read_csv

    try:
        source = FileBytes.of(path, text=kind in ("CSV", ""))
        kind = kind or _kind_of_content(source.beginning(6))
        if kind == "CSV":
            return read_csv(source, missing=[*MISSING, *na])
        if kind == "Parquet":
            from pyarrow import parquet

            # this one file: `read_table` would look at the folders it lies in
            return parquet.ParquetFile(path if source.content is None else source.open()).read()
        return _read_arrow(source)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if "Empty CSV file" in str(error) or (path.is_file() and path.stat().st_size == 0):
            raise InputError(f"{path} is empty: write the table to it, or name another file") from error
        raise InputError(f"{path} cannot be read as {kind or 'CSV'}: {_cause(error)}") from error


def _cause(error: Exception) -> str:
    """What the system or Arrow says, and what to do about it."""
    said = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
    if isinstance(error, MemoryError):
        return f"{said}. Name fewer columns in a Parquet file of it, or take a part of its rows"
    if isinstance(error, PermissionError):
        return f"{said}. Ask for the right to read it, or name a copy of your own"
    if isinstance(error, OSError) and error.errno in (errno.ENXIO, errno.EIO, errno.ESTALE):
        return f"{said}. Copy it to a place that can be read, and name that"
    return f"{said}. Write the table to it anew"


def _kind_of_content(first: bytes) -> str:
    return "Parquet" if first.startswith(b"PAR1") else "Arrow" if first == b"ARROW1" else "CSV"


def _read_arrow(source: FileBytes) -> Any:
    import pyarrow as pa
    from pyarrow import feather, ipc

    try:
        return feather.read_table(source.path if source.content is None else source.open())
    except pa.ArrowInvalid:
        with source.open() as file:  # the streaming form has no footer
            return ipc.open_stream(file).read_all()


def _checked(table: Any, path: Path | str) -> Any:
    import pyarrow as pa

    names = table.column_names
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise InputError(f'{path} has {count} columns called "{name}": rename all but one')
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows: write some below the names of its {len(names)} columns")
    for position, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):  # numbers to everyone but numpy
            table = table.set_column(position, field.name, table.column(position).cast(pa.float64()))
    return table.select([name for name in table.column_names if not ROW_NUMBERS.fullmatch(name)])
