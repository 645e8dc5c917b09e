"""Refusals of files of tables: what they are called, how they are written, and how they are damaged."""

from __future__ import annotations

import gzip
import io
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pandas as pd
import pyarrow as pa

import invariscope as iv
from tests.remedies.case import Case

ROOM = tuple(f"reading/{name}" for name in ("csv_faults", "file_bytes", "read_csv", "read_table"))

HEADER = "y,site,note\n"
LINES = "".join(f"{k}.5,{'AB'[k % 2]},n{k % 3}\n" for k in range(12))
CSV = HEADER + LINES
FRAME = pd.read_csv(io.StringIO(CSV))


def read(table: Any) -> Any:
    return iv.read(table, target="y", env="site")


def written(content: str | bytes = CSV, name: str = "t.csv", read_as: str = "") -> Any:
    """A file that holds this, read under its own name or another."""
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read(read_as or name)


def as_parquet() -> Any:
    FRAME.to_parquet("t.parquet")
    return read("t.parquet")


def in_folder(name: str) -> Any:
    Path("folder").mkdir(exist_ok=True)
    written(name="folder/t.csv")
    return read(name)


def device() -> Any:
    Path("t.csv").symlink_to("/dev/null")
    try:
        return read("t.csv")
    finally:
        Path("t.csv").unlink()


def from_terminal(terminal: bool) -> Any:
    """Standard input that is a terminal, or that a table was sent into."""
    with patch("sys.stdin", SimpleNamespace(isatty=lambda: terminal, buffer=io.BytesIO(CSV.encode()))):
        return read("-")


def pipe() -> Any:
    """A pipe that nobody writes."""
    os.mkfifo("p.csv")
    with patch("invariscope.reading.file_bytes.PATIENCE", 0.1):
        return read("p.csv")


def failing(error: Exception) -> Any:
    """As if the system refused to read a file."""
    with patch("invariscope.reading.file_bytes.FileBytes.open", side_effect=error):
        return written()


def in_part() -> Any:
    return written(HEADER + LINES[: len(LINES) // 2].rpartition("\n")[0])


def copied() -> Any:
    written()
    shutil.copy("t.csv", "copy.csv")
    return read("copy.csv")


def large(content: bytes, name: str) -> Any:
    with patch("invariscope.reading.file_bytes.most_bytes", lambda: 100):
        return written(content, name)


def with_blocks_of(most: int, text: str) -> Any:
    """As if lines were read in pieces of at most so many bytes."""
    with patch("invariscope.reading.read_csv.LARGEST_BLOCK", most), patch("invariscope.reading.read_csv.BLOCK", most):
        return written(text)


CASES = [
    # --- names ---
    Case("name a file in it", lambda: in_folder("folder"), lambda: in_folder("folder/t.csv")),
    Case("a table ends in .csv", lambda: written(name="t.txt"), lambda: written(name="t.csv")),
    Case("look at its name and folder", lambda: read("t.csv"), written),
    Case("Ask for the right to read it", lambda: failing(PermissionError(13, "Permission denied")), written),
    Case("or take a part of its rows", lambda: failing(pa.lib.ArrowMemoryError("malloc failed")), in_part),
    Case("Copy it to a place that can be read", lambda: failing(OSError(5, "Input/output error")), copied),
    Case("is a device: name a file", lambda: device(), written),
    Case("name another file", lambda: read("t" * 300 + ".csv"), written),
    Case("or name a file", pipe, written),
    Case("as in < table.csv", lambda: from_terminal(True), lambda: from_terminal(False)),
    # --- what is no table ---
    Case("rename all but one", lambda: read(pd.concat([FRAME, FRAME["note"]], axis=1)), lambda: read(FRAME)),
    Case("give one with rows and columns", lambda: read(FRAME[:0]), lambda: read(FRAME)),
    Case("give a file, or a pandas", lambda: read([1, 2]), lambda: read(FRAME)),
    Case("write the table to it", lambda: written(""), lambda: written(CSV)),
    Case("Write the table to it anew", lambda: written(CSV, "t.parquet"), as_parquet),
    Case("rename all but one", lambda: written(CSV.replace("note", "y")), written),
    Case("write some below the names of its 3 columns", lambda: written(HEADER), lambda: written(HEADER + LINES)),
    # --- bytes and letters ---
    Case(
        "write it to a file, unpacked, and read that",
        lambda: large(gzip.compress(CSV.encode()), "t.csv.gz"),
        lambda: large(CSV.encode(), "t.csv"),
    ),
    Case(
        "save the file as UTF-8",
        lambda: written(CSV.encode("utf-16") + b"x"),
        lambda: written(CSV.encode("utf-8")),
    ),
    Case("save the file as UTF-8", lambda: written(CSV.encode("utf-16-le")), lambda: written(CSV.encode("utf-8"))),
    Case("remove them", lambda: written(CSV.replace("n1", "n\0", 1)), lambda: written(CSV.replace("n1", "n", 1))),
    Case(
        "names of its columns are not encoded in UTF-8: save the file as UTF-8",
        lambda: written(CSV.replace("note", "größe").encode("latin-1")),
        lambda: written(CSV.replace("note", "größe").encode("utf-8")),
    ),
    Case(
        'column "note" is not encoded in UTF-8: save the file as UTF-8',
        lambda: written(CSV.replace("n1", "ö").encode("latin-1")),
        lambda: written(CSV.replace("n1", "ö").encode("utf-8")),
    ),
    # --- lines and quotes ---
    Case("mend or remove that line", lambda: written(CSV + "1.5,A\n"), lambda: written(CSV + "1.5,A,n1\n")),
    Case("mend or remove that line", lambda: written(CSV + "1.5,A,n,n\n"), written),
    Case(
        "runs to line 14, which makes 2 fields",
        lambda: written(f'{HEADER}1.5,"A,n1\n{LINES}'),
        lambda: written(f'{HEADER}1.5,"A",n1\n{LINES}'),
    ),
    Case(
        'or write "" for a quote',
        lambda: written(f'{HEADER}1.5,"A,n1\n{LINES}'),
        lambda: written(f'{HEADER}1.5,A,"""n1"\n2.5,B,n1\n{LINES}'),
    ),
    Case(
        "is never closed, up to line 15: close it",
        lambda: written(f'{CSV}1.5,A,"n1\n2.5,B,n1\n'),
        lambda: written(f'{CSV}1.5,A,"n1"\n2.5,B,n1\n'),
    ),
    Case(
        "write one line per row",
        lambda: with_blocks_of(64, CSV.replace("\n", " ")),
        lambda: with_blocks_of(64, CSV),
    ),
]
