"""A user's file as a pandas table: CSV, Parquet, Feather and Arrow, with one clear sentence when it cannot be read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

#: What a file may end in; CSV files may be compressed on top of that.
SUFFIXES = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".feather": "Arrow",
    ".arrow": "Arrow",
    ".ipc": "Arrow",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
SEPARATORS = (",", ";", "\t")
#: Read as missing in columns of numbers. In columns of text only the empty field is: "NA" may be Namibia.
MISSING = ("", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None")
# where pandas puts row numbers that have no name
_ROW_NUMBERS = re.compile(r"__index_level_\d+__")


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a table from a file, chosen by how its name ends; row numbers that pandas wrote along are left out.

    CSV files have a header, are encoded in UTF-8, and are separated by commas, semicolons or tabs (whichever the
    header has most of); ``.csv.gz`` and the like are unpacked. Every other file keeps the types it was written with.

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
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1] if suffixes else "")
    packed = path.suffix.lower() in COMPRESSED
    if kind is None or (packed and kind != "CSV"):
        raise InputError(f'{path}: a table ends in {", ".join(SUFFIXES)} (or .csv.gz), not "{path.suffix}"')
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file in it")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    table = _checked(_arrow_table(path, kind), path)
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
            raise InputError(f"the table has {len(frame)} rows and {frame.shape[1]} columns: there is nothing to read")
        named = any(name is not None for name in frame.index.names)
        tidy: pd.DataFrame = frame.reset_index(drop=not named)
        return tidy
    if not hasattr(table, "__arrow_c_stream__"):
        raise InputError(f"a {type(table).__name__} is no table: give a file, or a pandas, polars or pyarrow table")
    import pyarrow as pa

    # polars' own way to Arrow has texts that pyarrow can look up; its stream has not
    arrow = pa.table(table.to_arrow() if hasattr(table, "to_arrow") else table)
    found: pd.DataFrame = _checked(arrow, "the table").to_pandas(ignore_metadata=True)
    return found


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
    found = pd.api.types.infer_dtype(values, skipna=True)
    kinds = {
        **dict.fromkeys(("boolean", "empty", "integer", "floating", "mixed-integer-float"), "numbers"),
        **dict.fromkeys(("string", "bytes"), "text"),
        **dict.fromkeys(("date", "datetime", "time", "timedelta"), "dates"),
    }
    return kinds.get(found, "nested values")


def _arrow_table(path: Path, kind: str) -> Any:
    import pyarrow as pa

    readers = {"CSV": _read_csv, "Parquet": _read_parquet, "Arrow": _read_arrow}
    try:
        return readers[kind](path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if path.stat().st_size == 0 or "Empty CSV file" in str(error):
            raise InputError(f"{path} is empty") from error
        raise InputError(f"{path} cannot be read as {kind}: {' '.join(str(error).split())}") from error


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(65_536).decode("utf-8", errors="replace").lstrip("\ufeff\r\n").partition("\n")[0]
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    table = csv.read_csv(
        str(path),
        # quoted texts may run over several lines, in whichever block of the file they come to lie
        parse_options=csv.ParseOptions(delimiter=max(SEPARATORS, key=outside_quotes.count), newlines_in_values=True),
        convert_options=csv.ConvertOptions(null_values=list(MISSING)),
    )
    stripped = [_name(field).strip() for field in table.schema]
    if len(set(stripped)) == len(stripped) and "?" not in stripped:  # as in "age, sex": nobody types the blank
        table = table.rename_columns(stripped)
    for position, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            raise InputError(f'{path}: column "{_name(field)}" is not encoded in UTF-8: save the file as UTF-8')
        if pa.types.is_string(field.type):
            table = table.set_column(position, field, _blank_is_missing(table.column(position)))
    # as pandas writes it when nobody says index=False
    return table.remove_column(0) if table.num_columns > 1 and not table.column_names[0].strip() else table


def _read_parquet(path: Path) -> Any:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()  # this one file: `read_table` would look at the folders it lies in


def _read_arrow(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import feather, ipc

    try:
        return feather.read_table(path)
    except pa.ArrowInvalid:
        with pa.OSFile(str(path)) as file:  # the streaming form has no footer
            return ipc.open_stream(file).read_all()


def _name(field: Any) -> str:
    try:
        return str(field.name)
    except UnicodeDecodeError:
        return "?"


def _blank_is_missing(column: Any) -> Any:
    import pyarrow as pa
    from pyarrow import compute

    return compute.if_else(compute.equal(column, ""), pa.scalar(None, column.type), column)


def _checked(table: Any, path: Path | str) -> Any:
    import pyarrow as pa

    names = table.column_names
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise InputError(f'{path} has {names.count(twice[0])} columns called "{twice[0]}": rename all but one')
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows: there is nothing below the names of its {len(names)} columns")
    for position, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):  # numbers to everyone but numpy
            table = table.set_column(position, field.name, table.column(position).cast(pa.float64()))
    return table.select([name for name in table.column_names if not _ROW_NUMBERS.fullmatch(name)])
