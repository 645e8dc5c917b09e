"""CSV files: which separator, which columns are codes or decimals, and one sentence about the line that is wrong."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import compute, csv

from invariscope.errors import InputError
from invariscope.reading.csv_faults import fields_of, refuse_binary, refuse_open_quote, refuse_uneven_line
from invariscope.reading.file_bytes import BEGINNING, FileBytes

SEPARATORS = (",", ";", "\t")
#: Bytes that Arrow reads at a time; every column of every block has its price, so that of wide tables it reads more.
BLOCK, BYTES_PER_COLUMN, LARGEST_BLOCK = 1 << 20, 1 << 12, 1 << 26
#: Columns from which on it is told in advance which hold decimals: to guess the type of one takes it 0.1 ms.
WIDE = 200
ROWS_TOLD_BY = 5
WHOLE = re.compile(r"-?[0-9]+")
CODE = re.compile(r"0[0-9]+")
DECIMAL = re.compile(r"-?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_csv(source: FileBytes, *, missing: Sequence[str]) -> pa.Table:
    """A CSV file as an Arrow table: types guessed, names stripped, a first column of nameless row numbers left out.

    Parameters
    ----------
    missing : texts that are missing values in columns of numbers; in text only the empty field is

    Raises
    ------
    InputError : a line with too many or too few fields, a quote that is not closed, or another encoding than UTF-8
    pyarrow.ArrowException : whatever else is wrong with it
    """
    beginning = source.beginning()
    refuse_binary(source, beginning)
    text = beginning.decode("utf-8", errors="replace").lstrip("\ufeff\r\n")
    outside_quotes = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
    separator = max(SEPARATORS, key=outside_quotes.count)
    whole_lines = text if len(beginning) < BEGINNING else text[: text.rfind("\n") + 1]
    table = _read(source, separator, *_types(whole_lines, separator, missing), missing)
    stripped = [name.strip() for name in table.column_names]
    if len(set(stripped)) == len(stripped):  # as in "age, sex": nobody types the blank
        table = table.rename_columns(stripped)
    for position, field in enumerate(table.schema):
        if pa.types.is_binary(field.type):
            raise InputError(f'{source.path}: column "{field.name}" is not encoded in UTF-8: save the file as UTF-8')
        if pa.types.is_string(field.type):
            column = table.column(position)
            filled = compute.if_else(compute.equal(column, ""), pa.scalar(None, field.type), column)
            table = table.set_column(position, field, filled)
    # as pandas writes it when nobody says index=False
    return table.remove_column(0) if table.num_columns > 1 and _are_row_numbers(table, 0) else table


def _read(
    source: FileBytes, separator: str, codes: Sequence[str], decimals: Sequence[str], missing: Sequence[str]
) -> pa.Table:
    """The table; codes stay text, and decimals are believed as long as all rows agree."""
    # quoted texts may run over several lines, in whichever block of the file they come to lie
    parse = csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    types = dict.fromkeys(decimals, pa.float64()) | dict.fromkeys(codes, pa.string())
    block = max(BLOCK, min(BYTES_PER_COLUMN * len(decimals), 64 * BLOCK))
    while True:
        convert = csv.ConvertOptions(null_values=list(missing), column_types=types)
        try:
            with source.open() as stream:
                table = csv.read_csv(
                    stream, read_options=csv.ReadOptions(block_size=block), parse_options=parse, convert_options=convert
                )
        except pa.ArrowInvalid as error:
            if "conversion error" in str(error) and decimals:  # text further down: every type is guessed after all
                types = dict.fromkeys(codes, pa.string())
                decimals = ()
            elif _is_cut(error) and block < min(source.size, LARGEST_BLOCK):  # a line that is longer than a block
                block = min(16 * block, LARGEST_BLOCK)
            elif _is_cut(error) and source.size > LARGEST_BLOCK:  # what is wrong with it would take minutes to find
                raise InputError(
                    f"{source.path} has a line of more than {LARGEST_BLOCK:,} bytes: write one line per row"
                ) from error
            else:
                refuse_uneven_line(source, separator)
                raise
        else:
            _refuse_names(table, source)
            refuse_open_quote(table, source, separator)
            return table


def _is_cut(error: pa.ArrowInvalid) -> bool:
    return "straddl" in str(error) or "Empty CSV" in str(error)


def _types(text: str, separator: str, missing: Sequence[str]) -> tuple[list[str], list[str]]:
    """Columns that would lose leading zeros as numbers, and of wide tables those of decimals, by how they begin."""
    lines = fields_of(io.StringIO(text, newline=""), separator)
    names: list[str] = next(lines, [])
    rows: list[list[str]] = []
    codes, decimals = [], []
    # one look at the whole decides whether any field needs a look of its own
    if re.search(rf'(?:^|[\s"{separator}])0[0-9]+\s*(?:["{separator}\r\n]|$)', text):
        rows = list(lines)
        codes = [name for name, column in _columns(names, rows, missing) if _are_codes(column)]
    if len(names) > WIDE:
        rows = (rows or list(itertools.islice(lines, ROWS_TOLD_BY)))[:ROWS_TOLD_BY]
        decimals = [name for name, column in _columns(names, rows, missing) if _are_decimals(column)]
    return codes, decimals


def _columns(names: Sequence[str], rows: list[list[str]], missing: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Every column's name, and its fields that hold something."""
    nothing = set(missing)
    for name, column in zip(names, itertools.zip_longest(*rows, fillvalue=""), strict=False):
        yield name, [field for field in map(str.strip, column) if field not in nothing]


def _are_codes(fields: Sequence[str]) -> bool:
    return all(map(WHOLE.fullmatch, fields)) and any(map(CODE.fullmatch, fields))


def _are_decimals(fields: Sequence[str]) -> bool:
    return (
        bool(fields)
        and all(DECIMAL.fullmatch(field) or WHOLE.fullmatch(field) for field in fields)
        and any(map(DECIMAL.fullmatch, fields))
    )


def _are_row_numbers(table: pa.Table, position: int) -> bool:
    """Whether a column without a name counts the rows from 0 or 1 on."""
    column = table.column(position)
    if table.column_names[position] or not pa.types.is_integer(column.type) or column.null_count or not len(column):
        return False
    values = column.to_numpy()
    return bool(values[0] in (0, 1) and (values[1:] - values[:-1] == 1).all())


def _refuse_names(table: pa.Table, source: FileBytes) -> None:
    """Names that are no text; before anything asks for one."""
    try:
        _ = table.column_names
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source.path}: the names of its columns are not encoded in UTF-8: save the file as UTF-8"
        ) from error
