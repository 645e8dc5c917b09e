"""Wide CSV files: the same table as narrow ones, without a guess at every column of every block."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import csv

from invariscope.errors import InputError
from invariscope.reading import read_csv as module
from invariscope.reading import stand_ins, tidy_table
from invariscope.reading.read import read
from invariscope.reading.read_table import read_table


def wide(rows: int, columns: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = pd.DataFrame(rng.normal(size=(rows, columns)).round(3), columns=[f"g{j}" for j in range(columns)])
    values.insert(0, "site", np.arange(rows) % 3)
    values.insert(1, "y", rng.normal(size=rows).round(3))
    return values


@pytest.fixture
def mixed(seed: int) -> pd.DataFrame:
    """Numbers of all kinds, and some columns that only look like decimals at first."""
    frame = wide(400, module.WIDE + 5, seed)
    frame["whole"], frame["code"] = np.arange(400), [f"{k:04d}" for k in range(400)]
    frame["late"] = [*frame["g0"].astype(str)[:399], "n.d."]
    frame["gaps"] = frame["g1"].where(frame.index % 7 != 0)
    frame["text"], frame["when"] = "a", "2024-05-31"
    return frame


def test_wide_files_give_the_table_of_narrow_ones(
    mixed: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    for frame in (mixed, mixed.drop(columns="late")):
        frame.to_csv(path, index=False, na_rep="?")
        found = read_table(path)
        with monkeypatch.context() as patched:
            patched.setattr(module, "WIDE", 10**6)
            pd.testing.assert_frame_equal(found, read_table(path))
        assert found["whole"].dtype == np.int64
        assert found["code"].tolist() == frame["code"].tolist()
        np.testing.assert_array_equal(found["g3"], frame["g3"])
        assert found["gaps"].isna().sum() == 58


def test_arrow_is_told_the_decimals_of_a_wide_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    original = csv.read_csv

    def watched(stream: Any, *, read_options: Any, convert_options: Any, **more: Any) -> Any:
        asked.append((len(convert_options.column_types), read_options.block_size))
        return original(stream, read_options=read_options, convert_options=convert_options, **more)

    monkeypatch.setattr("invariscope.reading.read_csv.csv.read_csv", watched)
    for columns in (module.WIDE - 2, module.WIDE - 1, 1000):
        wide(20, columns).to_csv(tmp_path / "t.csv", index=False)
        read_table(tmp_path / "t.csv")
    # with site, which is whole, and y
    assert asked == [(0, 1 << 20), (module.WIDE, 1 << 20), (1001, 1001 * 4096)]


def test_no_column_of_a_wide_table_is_looked_at_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wide(60, 300).assign(ward=list("xxyyzz") * 10, copy=lambda frame: frame["y"], same=lambda f: f["site"] * 2)
    frame = frame[["ward", *frame.columns.drop("ward")]]
    expected = read(frame[["ward", "site", "y", "g0", "g299", "copy", "same"]], target="y", env="site")
    looked_at: list[str] = []
    original = tidy_table.kind_of
    monkeypatch.setattr(tidy_table, "kind_of", lambda column: looked_at.append(column.name) or original(column))
    asked: list[str] = []
    for name in ("_tells", "_is_target"):
        function = getattr(stand_ins, name)
        monkeypatch.setattr(
            stand_ins,
            name,
            lambda column, *more, function=function: asked.append(column.name) or function(column, *more),
        )
    found = read(frame, target="y", env="site")
    assert sorted(asked) == ["copy", "same", "ward", "ward"]
    assert set(looked_at) <= {"ward", "site", "y"}
    assert found.columns == ("ward=x", "ward=y", "ward=z", *(f"g{j}" for j in range(300)), "copy", "same")
    pd.testing.assert_frame_equal(found.X[list(expected.columns)], expected.X)
    assert found.notes == expected.notes
    assert [note.partition(":")[0] for note in found.notes] == [
        "same tells the environment (site)",
        "The target y under another name",
    ]


@pytest.mark.parametrize("missing", ["impute-median", "indicator", "drop-rows", "drop-columns"])
def test_wide_tables_are_filled_in_as_narrow_ones(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = wide(60, 250).assign(last=np.arange(60.0))
    frame.loc[::9, "g7"] = np.nan
    found = read(frame, target="y", env="site", missing=missing, categories="g3")
    monkeypatch.setattr(tidy_table, "WIDE", 10**6)
    expected = read(frame, target="y", env="site", missing=missing, categories="g3")
    pd.testing.assert_frame_equal(found.X, expected.X)
    assert (found.notes, found.columns) == (expected.notes, expected.columns)


def test_a_name_that_comes_twice_among_many(tmp_path: Path) -> None:
    frame = wide(5, 3000).rename(columns={"g2000": "g7"})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match=r't\.csv has 2 columns called "g7": rename all but one$'):
        read_table(tmp_path / "t.csv")


@pytest.mark.slow  # writes 50 MB
def test_sixteen_thousand_columns_take_seconds(tmp_path: Path) -> None:
    wide(500, 16_000).to_csv(tmp_path / "t.csv", index=False)
    start = time.process_time()
    assert read(tmp_path / "t.csv", target="y", env="site").X.shape == (500, 16_000)
    assert time.process_time() - start < 6  # of computing; about 1 by itself


def test_a_line_longer_than_any_block_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 1 << 10)
    monkeypatch.setattr(module, "LARGEST_BLOCK", 1 << 12)
    asked, options = [], csv.ReadOptions

    def remembered(block_size: int) -> csv.ReadOptions:
        asked.append(block_size)
        return options(block_size=block_size)

    monkeypatch.setattr(csv, "ReadOptions", remembered)
    path = tmp_path / "long.csv"
    path.write_bytes(b"a,y,env\n" + b"0" * (1 << 15) + b",1,b\n")
    with pytest.raises(InputError, match=r"long\.csv has a line of more than 4,096 bytes: write one line per row$"):
        read(path, target="y", env="env")
    assert asked == [1 << 10, 1 << 12]
    path.write_text("a,y,env\n" + "1,2,b\n3,4,c\n" * 2000)
    assert read(path, target="y", env="env").X.shape == (4000, 1)
