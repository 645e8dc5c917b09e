"""Heart disease: UCI's counts per hospital and diagnosis, gaps counted and dealt with as asked."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import invariscope as iv
from invariscope.datasets import fetch
from invariscope.datasets.catalogue import compare
from invariscope.datasets.tables.heart_disease import ENTRY, FEATURES, FILES, heart_disease
from invariscope.errors import InputError

Raw = dict[str, list[list[str]]]


@pytest.fixture
def raw(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Raw:
    paths = {hospital: data_file(file.path) for hospital, file in FILES.items()}
    monkeypatch.setenv(fetch.DATA_FOLDER, str(paths["Cleveland"].parents[1]))
    return {
        hospital: [row for row in csv.reader(path.read_text().splitlines()) if row] for hospital, path in paths.items()
    }


def is_gap(row: list[str], k: int) -> bool:
    """ "?" anywhere, and 0 in blood pressure (3) and cholesterol (4)."""
    return row[k] == "?" or (k in (3, 4) and float(row[k]) == 0)


def test_published_numbers_agree(raw: Raw) -> None:
    compared = compare(ENTRY)
    assert len(compared) == 13
    assert all(number.agrees for number in compared)


def test_published_numbers_are_those_of_the_names_file(data_file: Callable[[str], Path]) -> None:
    text = data_file("heart_disease/heart-disease.names").read_text(encoding="latin-1")
    table = [line.rpartition(":")[2].split() for line in text.partition("Class Distribution")[2].splitlines()]
    counts = np.array([row for row in table if len(row) == 6 and row[-1] != "Total"], dtype=int)
    stated = {number.what: number.value for number in ENTRY.published}
    assert [stated[f"rows of 0 in {hospital}"] for hospital in FILES] == counts[:, 0].tolist()
    assert [stated[f"rows of 1 in {hospital}"] for hospital in FILES] == counts[:, 1:5].sum(axis=1).tolist()
    assert [stated[f"rows in {hospital}"] for hospital in FILES] == counts[:, 5].tolist()


def test_rows_are_the_files(raw: Raw) -> None:
    data = heart_disease()
    rows = [(hospital, row) for hospital, found in raw.items() for row in found]
    assert data.env.tolist() == [hospital for hospital, _ in rows]
    assert data.y.tolist() == [int(float(row[13]) > 0) for _, row in rows]
    assert data.columns == FEATURES
    assert data.part is None
    for k, name in enumerate(FEATURES):
        known = [not is_gap(row, k) for _, row in rows]
        stored = [float(row[k]) for _, row in rows if not is_gap(row, k)]
        assert data.X[name][known].tolist() == stored
        filled = data.X[name][[not there for there in known]]
        assert (filled == np.median(stored)).all()
    assert not data.X.isna().to_numpy().any()


def test_gaps_are_counted_by_column_and_hospital(raw: Raw) -> None:
    notes = heart_disease().notes
    assert "cholesterol: 202 of 920 values are missing (Hungary 23, Switzerland 123, VA Long Beach 56)." in notes
    for k, name in enumerate(FEATURES):
        counts = {hospital: sum(is_gap(row, k) for row in rows) for hospital, rows in raw.items()}
        listed = ", ".join(f"{hospital} {count}" for hospital, count in counts.items() if count)
        note = f"{name}: {sum(counts.values())} of 920 values are missing ({listed})."
        assert (note in notes) == bool(listed)
    assert sum(float(row[4]) == 0 for row in raw["Switzerland"]) == 123


def test_other_ways_with_gaps(raw: Raw) -> None:
    indicator = heart_disease(missing="indicator")
    assert indicator.X.shape == (920, 23)
    assert indicator.X["cholesterol missing"].sum() == 202
    assert heart_disease(missing="drop-columns").columns == ("age", "sex", "chest pain type")


def test_dropping_rows_needs_a_choice_of_features(raw: Raw) -> None:
    with pytest.raises(InputError, match="Hungary") as refused:
        heart_disease(missing="drop-rows")
    proposed = ["major vessels", "thallium", "ST slope", "cholesterol"]
    assert all(f'"{name}"' in str(refused.value).partition("drop=[")[2] for name in proposed)
    assert len(heart_disease(missing="drop-rows", drop=proposed)) > 700
    chosen = ("age", "maximum heart rate", "ST depression")
    data = heart_disease(missing="drop-rows", drop=[name for name in FEATURES if name not in chosen])
    kept = [
        (hospital, float(row[0]), float(row[7]), float(row[9]), int(float(row[13]) > 0))
        for hospital, rows in raw.items()
        for row in rows
        if not any(is_gap(row, k) for k in (0, 7, 9))
    ]
    assert data.columns == chosen
    assert [*zip(data.env, *(data.X[name] for name in chosen), data.y, strict=True)] == kept
    assert data.X.index.equals(data.y.index)
    assert len(kept) < 920


def test_gaps_are_refused_or_the_choice_is(raw: Raw) -> None:
    with pytest.raises(InputError, match="10 columns have missing values: major vessels 611"):
        heart_disease(missing="refuse")
    with pytest.raises(InputError, match="choose one of refuse, drop-rows"):
        heart_disease(missing="guess")
    with pytest.raises(InputError, match='feature "weight" is unknown: use "age", "sex"'):
        heart_disease(drop=["age", "weight"])


def test_regret_runs(raw: Raw) -> None:
    data = heart_disease()
    assert data.environments.labels == ("Cleveland", "Hungary", "Switzerland", "VA Long Beach")
    assert iv.regret(*data).value > 0
