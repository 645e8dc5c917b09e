"""CSV files that are wrong somewhere: a sentence about that place, and what it tells to do helps."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from invariscope.errors import InputError
from invariscope.reading.read_table import read_table

ROWS = "".join(f"{'ab'[k % 2]},{k}.5,w{k % 3}\n" for k in range(20))
TEXT = f"site,dose,ward\n{ROWS}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.csv"


@pytest.mark.parametrize("coding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_letters_without_a_mark(coding: str, path: Path) -> None:
    path.write_bytes(TEXT.encode(coding))
    with pytest.raises(InputError) as refused:
        read_table(path)
    assert str(refused.value) == (
        f"{path} holds NUL bytes, the first of them in line 1: it looks like UTF-16 or UTF-32 without the mark they "
        "begin with: save the file as UTF-8"
    )
    path.write_bytes(path.read_bytes().decode(coding).encode())
    assert len(read_table(path)) == 20


def test_nul_bytes_are_counted_to_their_line(path: Path) -> None:
    path.write_bytes(TEXT.replace("w2", "w\0", 1).encode())
    with pytest.raises(
        InputError, match=r"t\.csv holds NUL bytes, the first of them in line 4: it is no text, or a damaged"
    ):
        read_table(path)
    path.write_bytes(path.read_bytes().replace(b"\0", b""))
    assert len(read_table(path)) == 20


def test_a_quote_that_is_not_closed_says_where_it_opens(path: Path) -> None:
    path.write_text(TEXT.replace("b,1.5", '"b,1.5'))
    with pytest.raises(InputError) as refused:
        read_table(path)
    assert str(refused.value) == (
        f"{path}, line 3: a quote opens there and runs to line 21, which makes 1 field where the header has 3 columns "
        '(site … ward): close it, or write "" for a quote that belongs to the text'
    )
    path.write_text(TEXT.replace("b,1.5", '"b",1.5'))
    assert len(read_table(path)) == 20


@pytest.mark.parametrize("ending", ["\n", "", "\r\n"])
def test_a_quote_in_the_last_column_does_not_take_in_the_rest(ending: str, path: Path) -> None:
    opened = TEXT.replace("w2", '"w2', 1).rstrip("\n") + ending
    path.write_text(opened, newline="")
    with pytest.raises(
        InputError, match=r"t\.csv, line 4: a quote opens there and is never closed, up to line 21: close it"
    ):
        read_table(path)
    path.write_text(opened.replace('"w2', '"w2"'), newline="")
    assert len(read_table(path)) == 20


def test_texts_of_several_lines_may_end_a_file(path: Path) -> None:
    path.write_text(TEXT + 'a,1.5,"two\nlines"\n')
    assert read_table(path)["ward"].iloc[-1] == "two\nlines"
    path.write_text(TEXT + 'a,1.5,"two\nlines"')
    assert read_table(path)["ward"].iloc[-1] == "two\nlines"


@pytest.mark.parametrize("size", [10**6, 3 * 10**6])
def test_cells_and_names_may_be_very_long(size: int, path: Path) -> None:
    limit = csv.field_size_limit(131_072)  # of all readers of this process
    path.write_text(TEXT.replace("w1", "w" * size, 1))
    assert read_table(path)["ward"].str.len().max() == size
    path.write_text(TEXT.replace("dose", "d" * size, 1))
    assert [len(name) for name in read_table(path).columns] == [4, size, 4]
    path.write_text(TEXT.replace("w1", "w" * size, 1) + "a,1\n")
    with pytest.raises(
        InputError, match=r"t\.csv, line 22: 2 fields where the header has 3 columns \(site … ward\): mend"
    ):
        read_table(path)
    assert csv.field_size_limit(limit) == 131_072


def test_a_column_may_be_called_by_a_question_mark(path: Path) -> None:
    path.write_text("?,b\n1,2\n")
    assert read_table(path).columns.tolist() == ["?", "b"]


def test_lone_surrogates_are_no_utf_8(path: Path) -> None:
    path.write_bytes(TEXT.replace("w1", "w\ud800").encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r't\.csv: column "ward" is not encoded in UTF-8: save the file as UTF-8$'):
        read_table(path)
    path.write_bytes(path.read_bytes().decode("utf-8", "replace").encode())
    assert len(read_table(path)) == 20
