"""Law School: the file's columns, the paper's sizes, and environments of a chosen agreement."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.datasets import fetch
from invariscope.datasets.catalogue import compare
from invariscope.datasets.tables.law_school import ENTRY, law_school
from invariscope.errors import InputError

Row = dict[str, str]


@pytest.fixture
def raw(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    path = data_file("law_school/lawschool.csv")
    monkeypatch.setenv(fetch.DATA_FOLDER, str(path.parents[1]))
    return list(csv.DictReader(path.read_text().splitlines()))


def as_counter(rows: list[Row], columns: tuple[str, ...]) -> Counter[tuple[float, ...]]:
    return Counter(tuple(float(row[column]) for column in columns) for row in rows)


def test_published_numbers(raw: list[Row]) -> None:
    """18 attributes are all columns of the file: with target and gender, which are no features here."""
    differing = {number.published.what: number.here for number in compare(ENTRY) if not number.agrees}
    assert differing == {"features": 16}
    assert len(raw[0]) == 18
    assert len(raw) == 1823
    assert "18 attributes" in law_school().choices[0]


@pytest.mark.parametrize("environments", ["gender", "correlation"])
def test_rows_are_those_of_the_file_each_once(raw: list[Row], environments: str, seed: int) -> None:
    data = law_school(environments=environments, seed=seed)
    gender = (data.env == "female") if environments == "gender" else data.X["gender"]
    table = data.X.assign(gender=gender, ugpa=data.y).astype(float)
    columns = tuple(raw[0])
    found = Counter(map(tuple, table[list(columns)].to_numpy().tolist()))
    stored = as_counter(raw, columns)
    assert found <= stored
    assert (found.total(), stored.total()) == (1820, 1823)
    assert (len(data.train), len(data.test)) == (1092, 728)
    assert data.columns == tuple(data.X.columns)
    assert not table.isna().to_numpy().any()


def test_gender_as_environment(raw: list[Row]) -> None:
    data = law_school()
    assert data.environments.labels == ("female", "male")
    assert set(raw[0]) - set(data.columns) == {"ugpa", "gender"}
    assert (data.target_name, data.env_name, data.y.name) == ("ugpa", "gender", "ugpa")
    counted = Counter(row["gender"] for row in raw)
    left_out = {"1": counted["1"] - (data.env == "female").sum(), "0": counted["0"] - (data.env == "male").sum()}
    assert sum(left_out.values()) == 3
    assert min(left_out.values()) >= 0


def test_engineered_environments(raw: list[Row], seed: int) -> None:
    data = law_school(environments="correlation", seed=seed)
    assert sorted(set(data.train.env)) == ["agreement 56 %", "agreement 71 %", "agreement 86 %"]
    assert sorted(set(data.test.env)) == ["agreement 26 %", "agreement 41 %"]
    table = pd.DataFrame({"env": data.env, "woman": data.X["gender"], "ugpa": data.y})
    for label, rows in table.groupby("env"):
        agreement = ((rows["woman"] == 1) == (rows["ugpa"] >= 3.2)).mean()
        assert len(rows) == 364
        assert f"agreement {100 * agreement:.0f} %" == label
        assert data.truth["agreement"][label] == agreement
        assert data.truth["correlation"][label] == pytest.approx(rows["woman"].corr(rows["ugpa"]))
    correlation = [data.truth["correlation"][label] for label in sorted(data.truth["correlation"])]
    assert correlation == sorted(correlation)
    assert correlation[0] < -0.2
    assert correlation[-1] > 0.5


def test_a_seed_gives_the_same_rows_and_another_gives_others(raw: list[Row], seed: int) -> None:
    for environments in ("gender", "correlation"):
        first, again, other = (law_school(environments, seed=s) for s in (seed, seed, seed + 1))
        pd.testing.assert_frame_equal(first.frame, again.frame)
        assert first.y.tolist() != other.y.tolist()


def test_regret_runs_and_sees_what_was_engineered(raw: list[Row]) -> None:
    assert np.isfinite(iv.regret(*law_school().train).value)
    train = law_school(environments="correlation").train
    gender = iv.regret(train.X[["gender"]], train.y, train.env)
    lsat = iv.regret(train.X[["lsat"]], train.y, train.env)
    assert gender.value > 3 * abs(lsat.value)


def test_unknown_environments_are_refused() -> None:
    with pytest.raises(InputError, match='environments "race" is unknown: use "gender" or "correlation"'):
        law_school(environments="race")
