"""Bytes of tables from packed files, pipes and other encodings: read once, into bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from invariscope.errors import InputError
from invariscope.reading.file_bytes import FileBytes, most_bytes
from invariscope.reading.read_table import read_table

TEXT = "site,dose\nZürich,1.5\nOslo,2.5\n"
TABLE = pd.DataFrame({"site": ["Zürich", "Oslo"], "dose": [1.5, 2.5]})


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode("utf-16"),
        TEXT.encode("utf-32"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        b"\x00\x00\xfe\xff" + TEXT.encode("utf-32-be"),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace(",", "\t").encode("utf-16"),  # as spreadsheets call Unicode text
        gzip.compress(TEXT.encode(), mtime=0),  # whatever it is called
    ],
)
def test_encodings_that_begin_with_their_mark(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    pd.testing.assert_frame_equal(read_table(path), TABLE)
    packed = tmp_path / "t.csv.gz"
    if not content.startswith(b"\x1f\x8b"):
        packed.write_bytes(gzip.compress(content))
        pd.testing.assert_frame_equal(read_table(packed), TABLE)


def test_a_mark_that_lies(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xff\xfe" + TEXT.encode())
    with pytest.raises(InputError, match=r"t\.csv begins like UTF-16 and is none \(.*\): save the file as UTF-8$"):
        read_table(path)
    path.write_text(TEXT, encoding="utf-8")
    pd.testing.assert_frame_equal(read_table(path), TABLE)


# --- packed -----------------------------------------------------------------------------------------------------------
def test_what_unpacks_to_more_than_a_quarter_of_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv.gz"
    rows = 200_000
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * rows))
    assert len(read_table(path)) == rows
    monkeypatch.setattr("invariscope.reading.file_bytes.most_bytes", lambda: 500_000)
    with pytest.raises(InputError) as refused:
        read_table(path)
    assert str(refused.value) == (
        f"{path} unpacks to more than 0.0005 GB, a quarter of the memory there is: if it is meant to be so large, "
        "write it to a file, unpacked, and read that"
    )
    unpacked = tmp_path / "t.csv"
    unpacked.write_bytes(gzip.decompress(path.read_bytes()))  # as told
    assert len(read_table(unpacked)) == rows


def test_a_bomb_is_not_unpacked_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what would be a gigabyte, no more is unpacked than may be kept."""
    taken: list[int] = []
    monkeypatch.setattr("invariscope.reading.file_bytes.most_bytes", lambda: 5_000_000)
    original = pa.BufferOutputStream

    class Watched:
        def __init__(self) -> None:
            self.stream = original()

        def write(self, piece: bytes) -> None:
            taken.append(len(piece))
            self.stream.write(piece)

    monkeypatch.setattr("invariscope.reading.file_bytes.pa.BufferOutputStream", Watched)
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"1,2\n" * 250_000)
    with pytest.raises(InputError, match=r"unpacks to more than 0\.005 GB"):
        read_table(path)
    assert sum(taken) <= 5_000_000


def test_the_limit_follows_from_the_memory_of_this_process() -> None:
    assert 1e8 < most_bytes() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 4 + 1
    told = subprocess.run(
        [sys.executable, "-c", "import resource as r; from invariscope.reading.file_bytes import most_bytes as m;"
         "r.setrlimit(r.RLIMIT_AS, (4 * 10**9, r.getrlimit(r.RLIMIT_AS)[1])); print(m())"],
        capture_output=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert int(told.stdout) <= 10**9


# --- pipes ------------------------------------------------------------------------------------------------------------
def through_pipe(path: Path, content: bytes) -> pd.DataFrame:
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(content,))
    writer.start()
    try:
        return read_table(path)
    finally:
        writer.join()


def test_a_pipe_that_nobody_writes_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("invariscope.reading.file_bytes.PATIENCE", 0.2)
    path = tmp_path / "t.csv"
    os.mkfifo(path)
    refused: list[BaseException] = []

    def attempt() -> None:
        with pytest.raises(InputError) as caught:
            read_table(path)
        refused.append(caught.value)

    reader = threading.Thread(target=attempt, daemon=True)  # daemon: one that waited would not end
    reader.start()
    reader.join(20)
    assert [str(error) for error in refused] == [
        f"{path} is a pipe that nobody writes: start its writer first, or name a file"
    ]
    path.unlink()
    pd.testing.assert_frame_equal(through_pipe(path, TEXT.encode()), TABLE)  # as told


def test_a_writer_may_take_his_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.reading.file_bytes.PATIENCE", 0.3)
    path, text = tmp_path / "t.csv", TEXT.encode()
    os.mkfifo(path)

    def slowly() -> None:
        time.sleep(0.1)
        with path.open("wb", buffering=0) as pipe:
            time.sleep(0.7)
            pipe.write(text[:9])
            time.sleep(0.5)
            pipe.write(text[9:])

    writer = threading.Thread(target=slowly)
    writer.start()
    try:
        pd.testing.assert_frame_equal(read_table(path), TABLE)
    finally:
        writer.join()


@pytest.mark.parametrize("name", ["t.csv", "t"])
def test_a_pipe_is_read_once(name: str, tmp_path: Path) -> None:
    pd.testing.assert_frame_equal(through_pipe(tmp_path / name, TEXT.encode()), TABLE)


def test_other_formats_come_through_pipes_as_well(tmp_path: Path) -> None:
    table = pa.table({"site": ["Zürich", "Oslo"], "dose": [1.5, 2.5]})
    for number, write in enumerate((parquet.write_table, feather.write_feather)):
        buffer = io.BytesIO()
        write(table, buffer)
        pd.testing.assert_frame_equal(through_pipe(tmp_path / f"pipe {number}", buffer.getvalue()), TABLE)
    pd.testing.assert_frame_equal(through_pipe(tmp_path / "packed", gzip.compress(TEXT.encode())), TABLE)
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    pd.testing.assert_frame_equal(through_pipe(tmp_path / "t.parquet", buffer.getvalue()), TABLE)


def test_an_empty_pipe_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pipe is empty: write the table to it, or name another file$"):
        through_pipe(tmp_path / "pipe", b"")


class Input:
    """Standard input with bytes in it."""

    def __init__(self, content: bytes, terminal: bool = False) -> None:
        self.buffer, self.terminal = io.BytesIO(content), terminal

    def isatty(self) -> bool:
        return self.terminal


def test_standard_input_is_called_by_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Input(TEXT.encode()))
    pd.testing.assert_frame_equal(read_table("-"), TABLE)
    monkeypatch.setattr("sys.stdin", Input(b"", terminal=True))
    with pytest.raises(
        InputError, match=r"^- is standard input, which is a terminal here: send a table into it, as in <"
    ):
        read_table("-")


def test_devices_are_no_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"t\.csv is a device: name a file$"):
        read_table(path)
    with pytest.raises(InputError, match=r"cannot be opened \(File name too long\): name another file$"):
        read_table("a" * 5000 + ".csv")


def test_a_plain_file_is_not_brought_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TEXT, encoding="utf-8")
    assert FileBytes.of(path, text=True).content is None
    assert FileBytes.of(path, text=True).size == path.stat().st_size
