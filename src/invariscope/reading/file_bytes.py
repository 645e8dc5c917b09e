"""The bytes of a table: of a file as it lies there, or unpacked, re-coded or read from a pipe into bounded memory."""

from __future__ import annotations

import codecs
import io
import os
import select
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from invariscope.errors import InputError
from invariscope.rows.memory import most_bytes

#: A name for standard input.
STANDARD_INPUT = "-"
#: Bytes at the beginning of a file that tell what it is.
BEGINNING = 1 << 20
#: How a packed file's name ends, and what it then begins with; texts never begin so.
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
#: Marks at the beginning of texts that are no UTF-8; those of four bytes first, because two begin like the others.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
#: Seconds to wait for the writer of a pipe, who may be starting.
PATIENCE = 3.0


@dataclass(frozen=True)
class FileBytes:
    """What a file holds; in memory unless it can be read again and again as it is."""

    path: Path
    content: pa.Buffer | None = None

    @classmethod
    def of(cls, path: Path, *, text: bool) -> FileBytes:
        """Read what comes but once, unpack what is packed and, of ``text``, bring UTF-16 and UTF-32 into UTF-8."""
        given = cls(path, _bounded(_from_pipe(path), path, "holds")) if is_pipe(path) else cls(path)
        if not text:
            return given
        packing = PACKED.get(path.suffix.lower()) or _marked(given, MAGIC)
        if packing:
            with given.open() as packed, pa.CompressedInputStream(packed, packing) as stream:
                given = cls(path, _bounded(_pieces(stream), path, "unpacks to"))
        coding = _marked(given, MARKS)
        return given if coding is None else cls(path, pa.py_buffer(_recoded(given, coding)))

    def open(self) -> Any:
        """The bytes from the first one on, for Arrow."""
        return pa.OSFile(str(self.path)) if self.content is None else pa.BufferReader(self.content)

    def beginning(self, size: int = BEGINNING) -> bytes:
        """The first bytes."""
        with self.open() as stream:
            return bytes(stream.read(size))

    @property
    def size(self) -> int:
        """How many there are."""
        return self.path.stat().st_size if self.content is None else int(self.content.size)


def is_pipe(path: Path) -> bool:
    """Whether a path is standard input or another pipe, whose bytes come but once."""
    if str(path) == STANDARD_INPUT:
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _from_pipe(path: Path) -> Iterator[bytes]:
    if str(path) == STANDARD_INPUT:
        if sys.stdin.isatty():
            raise InputError("- is standard input, which is a terminal here: send a table into it, as in < table.csv")
        yield from _pieces(sys.stdin.buffer)
        return
    # opened in the ordinary way, a pipe that nobody writes would be waited for without end
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as stream:
        yield _first_piece(stream, path)
        os.set_blocking(descriptor, True)
        yield from _pieces(stream)


def _first_piece(stream: io.FileIO, path: Path) -> bytes:
    """What the writer of a pipe has written so far; refused if there is none, nor comes one soon."""
    watch = select.poll()
    watch.register(stream, select.POLLIN)
    has_come = watch.poll(1000 * PATIENCE)  # something written, or a writer who has left already
    piece = stream.read(BEGINNING)  # None: there is a writer, who takes his time
    if piece == b"" and not has_come:
        raise InputError(f"{path} is a pipe that nobody writes: start its writer first, or name a file")
    return piece or b""


def _marked(given: FileBytes, marks: Mapping[bytes, str]) -> str | None:
    first = given.beginning(4)
    return next((name for mark, name in marks.items() if first.startswith(mark)), None)


def _pieces(stream: Any) -> Iterator[bytes]:
    return iter(lambda: stream.read(BEGINNING), b"")


def _bounded(pieces: Iterator[bytes], path: Path, verb: str) -> pa.Buffer:
    """All of it, unless it is more than fits."""
    most, kept, size = most_bytes(), pa.BufferOutputStream(), 0
    for piece in pieces:
        size += len(piece)
        if size > most:
            raise InputError(
                f"{path} {verb} more than {most / 1e9:.3g} GB, a quarter of the memory there is: if it is meant to "
                "be so large, write it to a file, unpacked, and read that"
            )
        kept.write(piece)
    return kept.getvalue()


def _recoded(given: FileBytes, coding: str) -> bytes:
    with given.open() as stream:
        try:
            return bytes(stream.read()).decode(coding).encode()
        except UnicodeError as error:
            raise InputError(
                f"{given.path} begins like {coding.upper()} and is none ({error}): save the file as UTF-8"
            ) from error
