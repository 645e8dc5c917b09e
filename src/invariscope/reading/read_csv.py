"""CSV files: which separator, which columns are codes rather than numbers, and which line does not fit the header."""

from __future__ import annotations

import csv as lines_of_text
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute, csv

from invariscope.errors import InputError

SEPARATORS = (",", ";", "\t")
#: Bytes at the beginning of a file in which codes such as 007 are looked for.
BEGINNING = 1 << 20


def read_csv(path: Path, *, missing: Sequence[str]) -> pa.Table:
    """A CSV file as an Arrow table: types guessed, names stripped, a first column of nameless row numbers left out.

    Parameters
    ----------
    missing : texts that are missing values in columns of numbers; in text only the empty field is

    Raises
    ------
    InputError : a line with too many or too few fields, or another encoding than UTF-8
    pyarrow.ArrowException : whatever else is wrong with it
    """
    with pa.input_stream(str(path), compression="detect") as stream:
        header = stream.read(65_536).decode("utf-8", errors="replace").lstrip("\ufeff\r\n").partition("\n")[0]
    outside_quotes = re.sub(r'"[^"]*"', "", header)
    # quoted texts may run over several lines, in whichever block of the file they come to lie
    parse = csv.ParseOptions(delimiter=max(SEPARATORS, key=outside_quotes.count), newlines_in_values=True)
    try:
        types = dict.fromkeys(_codes(path, parse, missing), pa.string())
        convert = csv.ConvertOptions(null_values=list(missing), column_types=types)
        table = csv.read_csv(str(path), parse_options=parse, convert_options=convert)
    except pa.ArrowInvalid:
        _refuse_uneven_line(path, parse.delimiter)
        raise
    stripped = [_name(field).strip() for field in table.schema]
    if len(set(stripped)) == len(stripped) and "?" not in stripped:  # as in "age, sex": nobody types the blank
        table = table.rename_columns(stripped)
    for position, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            raise InputError(f'{path}: column "{_name(field)}" is not encoded in UTF-8: save the file as UTF-8')
        if pa.types.is_string(field.type):
            column = table.column(position)
            filled = compute.if_else(compute.equal(column, ""), pa.scalar(None, field.type), column)
            table = table.set_column(position, field, filled)
    # as pandas writes it when nobody says index=False
    return table.remove_column(0) if table.num_columns > 1 and _are_row_numbers(table, 0) else table


def _codes(path: Path, parse: csv.ParseOptions, missing: Sequence[str]) -> list[str]:
    """The columns that would lose leading zeros as numbers, as far as the beginning of the file tells."""
    read = csv.ReadOptions(block_size=BEGINNING)
    numbers = csv.ConvertOptions(null_values=list(missing))
    with csv.open_csv(str(path), parse_options=parse, read_options=read, convert_options=numbers) as guessed:
        whole = [field.name for field in guessed.schema if pa.types.is_integer(field.type)]
    as_text = csv.ConvertOptions(column_types=dict.fromkeys(whole, pa.string()), include_columns=whole)
    if not whole:
        return []
    with csv.open_csv(str(path), parse_options=parse, read_options=read, convert_options=as_text) as texts:
        beginning = texts.read_next_batch()
    return [
        name
        for name, column in zip(whole, beginning.columns, strict=True)
        if compute.any(compute.match_substring_regex(column, r"^\s*0[0-9]+\s*$")).as_py()
    ]


def _refuse_uneven_line(path: Path, separator: str) -> None:
    """Name the first line that has another number of fields than the header, if that is what is wrong."""
    with (
        pa.input_stream(str(path), compression="detect") as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="") as text,
    ):
        rows = lines_of_text.reader(text, delimiter=separator)
        header: list[str] = []
        for row in rows:
            header = header or row
            if row and len(row) != len(header):
                fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                raise InputError(
                    f"{path}, line {rows.line_num}: {fields} where the header has {len(header)} columns "
                    f"({header[0]} … {header[-1]}): mend or remove that line"
                )


def _are_row_numbers(table: pa.Table, position: int) -> bool:
    """Whether a column without a name counts the rows from 0 or 1 on."""
    column = table.column(position)
    if table.column_names[position] or not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return False
    values = column.to_numpy()
    return bool(values[0] in (0, 1) and (values[1:] - values[:-1] == 1).all())


def _name(field: Any) -> str:
    try:
        return str(field.name)
    except UnicodeDecodeError:
        return "?"
