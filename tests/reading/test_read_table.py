"""Every kind of file gives the same table, and every file that cannot be read one clear sentence."""

from __future__ import annotations

import datetime
import decimal
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from invariscope.errors import InputError
from invariscope.reading.read_table import frame_of, kind_of, read_table

COLUMNS = {
    "site": ["Bern", "Oslo", "Rome, Italy", "Bern"],
    "dose": [1.5, None, -2.0, 1e-300],
    "count": [1, 2, 3, 4],
    "smoker": [True, False, True, False],
    "day": [datetime.date(2024, 1, k) for k in (1, 2, 3, 4)],
}


def write_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "t.csv": csv.write_csv,
    "t.CSV": csv.write_csv,
    "t.parquet": parquet.write_table,
    "t.pq": parquet.write_table,
    "t.feather": feather.write_feather,
    "t.arrow": write_stream,
    "t.ipc": feather.write_feather,
    "my.table.v2.parquet": parquet.write_table,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_table(name: str, tmp_path: Path) -> None:
    WRITERS[name](pa.table(COLUMNS), tmp_path / name)
    found = read_table(tmp_path / name)
    assert list(found.columns) == list(COLUMNS)
    assert found["site"].tolist() == COLUMNS["site"]
    assert found["day"].tolist() == COLUMNS["day"]
    assert found["smoker"].tolist() == COLUMNS["smoker"]
    np.testing.assert_array_equal(found["dose"].to_numpy(), [1.5, np.nan, -2.0, 1e-300])
    assert found["count"].dtype == np.int64
    assert [kind_of(found[c]) for c in found] == ["text", "numbers", "numbers", "numbers", "dates"]


@pytest.mark.parametrize(
    "text",
    [
        "site,dose\nBern,1\nOslo,2\n",
        "site;dose\nBern;1\nOslo;2\n",
        "site\tdose\r\nBern\t1\r\nOslo\t2\r\n",
        "\ufeffsite,dose\nBern,1\nOslo,2\n",
        "\n\nsite,dose\nBern,1\n\nOslo,2",
        ",site,dose\n0,Bern,1\n1,Oslo,2\n",  # as pandas writes row numbers
        '"site";"dose"\n"Bern";1\n"Oslo";2\n',
        "site, dose\nBern, 1\nOslo, 2\n",  # nobody types the blank before a name
    ],
)
def test_csv_dialects(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8", newline="")
    pd.testing.assert_frame_equal(read_table(path), pd.DataFrame({"site": ["Bern", "Oslo"], "dose": [1, 2]}))


def test_the_separator_is_not_looked_for_inside_quotes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('"a, b, and c";d\n1;2\n')
    assert list(read_table(path).columns) == ["a, b, and c", "d"]


def test_compressed_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a;b\n1;2\n"))
    assert read_table(str(path)).to_dict("list") == {"a": [1], "b": [2]}


def test_missing_numbers_and_texts_that_only_look_missing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("chol,country\n?,NA\n233,\nNaN,DE\n")
    found = read_table(path)
    np.testing.assert_array_equal(found["chol"].to_numpy(), [np.nan, 233, np.nan])
    assert found["country"].isna().tolist() == [False, True, False]
    assert found["country"][0] == "NA"


def test_texts_that_mean_missing_as_well(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("chol,site\n-,-\n233,a\n")
    assert read_table(path, na=["-"])["chol"].isna().tolist() == [True, False]
    assert read_table(path)["chol"].tolist() == ["-", "233"]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_leading_zeros_are_kept(name: str, tmp_path: Path) -> None:
    text = b"zip,n,0,half,code\n01000,0,10,00.5,?\n23000,7,20,1.5,007\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    found = read_table(tmp_path / name)
    assert found["zip"].tolist() == ["01000", "23000"]
    assert found["code"].tolist() == ["?", "007"]
    assert found["n"].tolist() == [0, 7]
    assert found["0"].tolist() == [10, 20]
    assert found["half"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("first", "there"), [("01", False), ("12", False), ("13", True), ("23", True), ("10", True), ("ab", True)]
)
def test_a_first_column_without_a_name_goes_if_it_counts_the_rows(first: str, there: bool, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f",site\n{first[0]},Bern\n{first[1]},Oslo\n")
    assert list(read_table(path).columns) == (["", "site"] if there else ["site"])


def test_a_decimal_far_down_makes_the_whole_column_decimal(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,\n" * 400_000 + "1.5,late\n")  # beyond the block from which types are guessed
    found = read_table(path)
    assert found["a"].dtype == np.float64
    assert found["a"].iloc[-1] == 1.5
    assert found["b"].iloc[-1] == "late"


def test_texts_of_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"two\nlines",1\n')
    assert read_table(path)["a"].tolist() == ["two\nlines"]


def test_a_named_index_stays_a_column_and_row_numbers_go(tmp_path: Path) -> None:
    frame = pd.DataFrame({"site": ["a", "b"], "x": [1.0, 2.0]})
    frame.set_index("site").to_parquet(tmp_path / "named.parquet")
    frame.set_axis([7, 9]).to_parquet(tmp_path / "numbered.parquet")
    assert sorted(read_table(tmp_path / "named.parquet").columns) == ["site", "x"]
    assert list(read_table(tmp_path / "numbered.parquet").columns) == ["site", "x"]


def test_kinds_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    columns = {
        "category of texts": pa.array(["a", "b"]).dictionary_encode(),
        "category of numbers": pa.array([1, 2]).dictionary_encode(),
        "decimal": pa.array([decimal.Decimal("1.25"), None]),
        "moment": pa.array([datetime.datetime(2024, 1, 1), None]),
        "span": pa.array([datetime.timedelta(hours=1), None]),
        "nothing": pa.nulls(2),
        "list": pa.array([[1], [2, 3]]),
        "struct": pa.array([{"a": 1}, {"a": 2}]),
        "truth": pa.array([True, None]),
    }
    parquet.write_table(pa.table(columns), path)
    found = read_table(path)
    assert {name: kind_of(found[name]) for name in found} == {
        "category of texts": "text",
        "category of numbers": "numbers",
        "decimal": "numbers",
        "moment": "dates",
        "span": "dates",
        "nothing": "numbers",
        "list": "nested values",
        "struct": "nested values",
        "truth": "numbers",
    }
    assert found["decimal"][0] == 1.25


# --- tables in memory -------------------------------------------------------------------------------------------------
def test_tables_in_memory() -> None:
    expected = pd.DataFrame({"site": ["Bern", None], "dose": [1.5, 2.5]})
    tables = [
        pa.table({"site": ["Bern", None], "dose": [1.5, 2.5]}),
        pl.DataFrame({"site": ["Bern", None], "dose": [1.5, 2.5]}),
        pl.DataFrame({"site": ["Bern", None], "dose": [1.5, 2.5]}, schema_overrides={"site": pl.Categorical}),
        expected,
        expected.set_axis([7, 9]),
        expected.set_index("site"),
    ]
    for table in tables:
        found = frame_of(table)
        assert found.index.tolist() == [0, 1]
        pd.testing.assert_frame_equal(found.astype({"site": "str"}), expected)
    assert list(frame_of(pd.DataFrame([[1, 2]])).columns) == ["0", "1"]


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), 'the table has several columns called "a": rename all but one'),
        (pd.DataFrame({"a": []}), "the table has 0 rows and 1 columns"),
        (pa.table({"a": pa.array([], pa.float64())}), "the table has no rows"),
        ([[1, 2]], "a list is no table: give a file, or a pandas, polars or pyarrow table"),
        (pl.LazyFrame({"a": [1]}), "a LazyFrame is no table"),
    ],
)
def test_tables_in_memory_that_cannot_be_used(table: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        frame_of(table)


# --- what cannot be read -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", b"", r"t\.csv is empty: write the table to it, or name another file$"),
        ("t.csv", b"\n\n", r"t\.csv is empty: write the table to it, or name another file$"),
        ("t.parquet", b"", r"t\.parquet is empty: write the table to it, or name another file$"),
        ("t.csv", b"a,b\n", r"t\.csv has no rows: write some below the names of its 2 columns$"),
        (
            "t.csv",
            b"a,b\n1,2,3\n",
            r"t\.csv, line 2: 3 fields where the header has 2 columns \(a … b\): mend or remove",
        ),
        ("t.csv", b'a;b\n\n"x\ny";1\n1\n', r"t\.csv, line 5: 1 field where the header has 2 columns"),
        ("t.csv", "a,b\nZürich,1\n".encode("latin-1"), r't\.csv: column "a" is not encoded in UTF-8: save the file'),
        (
            "t.csv",
            "Größe,b\n2,1\n".encode("latin-1"),
            r"t\.csv: the names of its columns are not encoded in UTF-8: save",
        ),
        (
            "t.csv",
            "b,Größe\n2,1\n".encode("latin-1"),
            r"t\.csv: the names of its columns are not encoded in UTF-8: save",
        ),
        ("t.csv", b"a,b,a,a\n1,2,3,4\n", r't\.csv has 3 columns called "a": rename all but one$'),
        ("t.parquet", b"a,b\n1,2\n", r"t\.parquet cannot be read as Parquet: "),
        ("t.feather", b"a,b\n1,2\n", r"t\.feather cannot be read as Arrow: "),
        ("t.arrow", b"ARROW1\0\0cut off", r"t\.arrow cannot be read as Arrow: "),
        ("t.csv.gz", b"a,b\n1,2\n", r"t\.csv\.gz cannot be read as CSV: "),
        ("t.xlsx", b"PK", r't\.xlsx: a table ends in \.csv, .*, not "\.xlsx"$'),
        ("t.parquet.gz", b"PK", r't\.parquet\.gz: a table ends in .*, not "\.gz"$'),
        ("csv", b"a,b\n1,2\n", r'csv: a table ends in .*, not ""$'),
    ],
)
def test_one_sentence_for_what_cannot_be_read(name: str, content: bytes, sentence: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=sentence) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_absent_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.csv: there is no such file; look at its name and folder$"):
        read_table(tmp_path / "absent.csv")
    for name in ("folder.parquet", "folder"):
        (tmp_path / name).mkdir()
        with pytest.raises(InputError, match=rf"{name} is a folder: name a file in it$"):
            read_table(tmp_path / name)


def test_a_table_without_rows(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": pa.array([], pa.float64())}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="has no rows"):
        read_table(tmp_path / "t.parquet")
