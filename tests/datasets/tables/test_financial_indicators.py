"""Financial indicators: five yearly files on their 37 common columns, and both targets."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import invariscope as iv
from invariscope.datasets import fetch
from invariscope.datasets.catalogue import compare
from invariscope.datasets.entry import facts
from invariscope.datasets.tables.financial_indicators import ENTRY, FILES, financial_indicators
from invariscope.errors import InputError

ROWS = {2014: 3788, 2015: 4112, 2016: 4783, 2017: 4958, 2018: 4390}
Raw = dict[int, list[dict[str, str]]]


@cache
def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.fixture
def raw(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Raw:
    paths = {year: data_file(file.path) for year, file in FILES.items()}
    monkeypatch.setenv(fetch.DATA_FOLDER, str(paths[2014].parents[1]))
    return {year: rows_of(path) for year, path in paths.items()}


@pytest.mark.slow
def test_published_numbers_agree(raw: Raw) -> None:
    assert {number.published.what: number.agrees for number in compare(ENTRY)} == {
        "features": True,
        "environments": True,
    }


def test_rows_years_and_parts(raw: Raw) -> None:
    data = financial_indicators()
    found = facts(data)
    assert {year: found[f"rows in {year}"] for year in ROWS} == ROWS == {year: len(rows) for year, rows in raw.items()}
    assert sorted(set(data.train.env)) == ["2014", "2015", "2016"]
    assert sorted(set(data.test.env)) == ["2017", "2018"]
    assert data.environments.labels == ("2014", "2015", "2016", "2017", "2018")
    for year, rows in raw.items():
        assert found[f"rows of 1 in {year}"] == sum(row["Class"] == "1" for row in rows)


@pytest.mark.slow
def test_features_are_the_numbers_all_years_have(raw: Raw) -> None:
    data = financial_indicators()
    common = set.intersection(*(set(rows[0]) for rows in raw.values())) - {"", "Sector", "Class"}
    assert set(data.columns) == common
    assert data.X.shape == (22031, 37)
    assert np.isfinite(data.X.to_numpy()).all()
    for name in ("Revenue", "EPS", "Operating Income Growth"):
        stored = [float(row[name]) for rows in raw.values() for row in rows]
        # pandas reads some of 17 digits one unit in the last place off
        assert data.X[name].to_numpy() == pytest.approx(np.array(stored), rel=1e-14, abs=0)


def test_both_targets(raw: Raw) -> None:
    classes, variation = financial_indicators(), financial_indicators(target="price variation")
    stored = [float(row[f"{year + 1} PRICE VAR [%]"]) for year, rows in raw.items() for row in rows]
    assert variation.y.to_numpy() == pytest.approx(np.array(stored), rel=1e-14, abs=0)
    assert np.array_equal(classes.y, variation.y >= 0)
    assert (variation.y == 0).sum() == 25
    assert (classes.y.dtype.kind, variation.y.dtype.kind) == ("i", "f")
    assert (classes.target_name, variation.target_name) == ("price rises", "price variation in %")
    assert not any("PRICE VAR" in column or column == "price variation" for column in variation.columns)


def test_what_the_texts_say_of_the_rows(raw: Raw) -> None:
    data = financial_indicators()
    assert len({row[""] for rows in raw.values() for row in rows}) == 4980
    assert "4,980 tickers" in (financial_indicators.__doc__ or "")
    same = data.X.assign(year=data.env).groupby([*data.X, "year"]).size().nlargest(3).tolist()
    assert same[:2] == [405, 390]
    filled = data.X.duplicated(keep=False)
    assert filled.sum() - sum(same[:2]) == 212
    for year, share in (("2016", 0.89), ("2017", 0.11)):
        twins = data.X[data.env == year].groupby([*data.X])
        most = twins.ngroup() == twins.size().argmax()
        assert round(data.y[most[most].index].mean(), 2) == share
        assert {row["Sector"] for row, twin in zip(raw[int(year)], most, strict=True) if twin} == {"Financial Services"}
    assert round(data.X["EPS"].corr(data.X["EPS Diluted"]), 3) == 0.998
    assert round(data.X["Net Income"].corr(data.X["Consolidated Income"]), 3) == 0.995
    correlation = np.corrcoef(data.X.to_numpy(), rowvar=False)
    assert (np.triu(correlation, k=1) > 0.99).sum() == 2
    variation = financial_indicators(target="price variation").y
    assert (round(variation.max()), round(variation.min(), 1), (variation < -100).sum()) == (3757, -100.4, 1)


@pytest.mark.parametrize("target", ["class", "price variation"])
def test_regret_runs(raw: Raw, target: str) -> None:
    assert np.isfinite(iv.regret(*financial_indicators(target).test).value)


def test_unknown_target_is_refused() -> None:
    with pytest.raises(InputError, match='target "price" is unknown: use "class" or "price variation"'):
        financial_indicators(target="price")
