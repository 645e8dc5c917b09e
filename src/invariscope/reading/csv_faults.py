"""What can be wrong with the text of a CSV file, each with the line it is in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from invariscope.errors import InputError
from invariscope.reading.file_bytes import FileBytes

#: Share of NUL bytes from which on a text is one of two or four bytes a letter.
WIDE_LETTERS = 0.2
LONGEST_FIELD = 2**31 - 1


def fields_of(text: Any, separator: str) -> Iterator[list[str]]:
    """Line after line of fields; empty lines are left out. Fields may be as long as they like."""
    for _, _, row in _rows(text, separator):
        yield row


def _rows(text: Any, separator: str) -> Iterator[tuple[int, int, list[str]]]:
    """The first and the last line of every row, and its fields."""
    rows, first = csv.reader(text, delimiter=separator), 1
    while True:
        limit = csv.field_size_limit(LONGEST_FIELD)  # which is everybody's, and given back at once
        try:
            row = next(rows, None)
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        if row:
            yield first, rows.line_num, row
        first = rows.line_num + 1


def refuse_binary(source: FileBytes, beginning: bytes) -> None:
    """Bytes that no text has."""
    first = beginning.find(b"\0")
    if first < 0:
        return
    remedy = "it is no text, or a damaged one: remove them, or write it anew"
    if beginning.count(b"\0") > WIDE_LETTERS * len(beginning):
        remedy = "it looks like UTF-16 or UTF-32 without the mark they begin with: save the file as UTF-8"
    line = beginning[:first].count(b"\n") + 1
    raise InputError(f"{source.path} holds NUL bytes, the first of them in line {line}: {remedy}")


def refuse_uneven_line(source: FileBytes, separator: str) -> None:
    """Name the first line that has another number of fields than the header, if that is what is wrong."""
    header: list[str] = []
    with _text(source) as text:
        for first, last, row in _rows(text, separator):
            header = header or row
            if len(row) == len(header):
                continue
            fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
            columns = f"the header has {len(header)} columns ({header[0]} … {header[-1]})"
            if last > first:
                raise InputError(
                    f"{source.path}, line {first}: a quote opens there and runs to line {last}, which makes {fields} "
                    f'where {columns}: close it, or write "" for a quote that belongs to the text'
                )
            raise InputError(f"{source.path}, line {last}: {fields} where {columns}: mend or remove that line")


def refuse_open_quote(table: pa.Table, source: FileBytes, separator: str) -> None:
    """A quote in the last column that is never closed takes in all lines below it, and nothing else tells."""
    column = table.column(table.num_columns - 1) if table.num_columns and table.num_rows else None
    if column is None or not pa.types.is_string(column.type):
        return
    value = column[len(column) - 1].as_py()
    if value is None or "\n" not in value:
        return
    with source.open() as stream:
        stream.seek(max(0, source.size - 100))
        ended = bytes(stream.read()).rstrip(b"\r\n").endswith(b'"')
    if ended:
        return
    with _text(source) as text:
        *_, (first, last, _) = _rows(text, separator)
    raise InputError(
        f"{source.path}, line {first}: a quote opens there and is never closed, up to line {last}: close it, or write "
        '"" for a quote that belongs to the text'
    )


def _text(source: FileBytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(source.open(), encoding="utf-8-sig", errors="replace", newline="")
