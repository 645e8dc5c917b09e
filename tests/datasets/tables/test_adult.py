"""Adult: UCI's counts and shares, the paper's width and sizes, samples that are disjoint and come back."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.datasets import fetch
from invariscope.datasets.catalogue import compare
from invariscope.datasets.tables import adult as adult_module
from invariscope.datasets.tables.adult import ENTRY, adult
from invariscope.errors import InputError

Rows = list[list[str]]


@cache
def rows_of(path: Path) -> Rows:
    lines = csv.reader(path.read_text().splitlines(), skipinitialspace=True)
    return [row for row in lines if len(row) == 15]


@pytest.fixture
def raw(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Rows, Rows]:
    """Both files, read without pandas; the loader finds them as well."""
    paths = [data_file("adult/adult.data"), data_file("adult/adult.test")]
    monkeypatch.setenv(fetch.DATA_FOLDER, str(paths[0].parents[1]))
    return rows_of(paths[0]), rows_of(paths[1])


def test_published_numbers_agree(raw: tuple[Rows, Rows]) -> None:
    compared = compare(ENTRY)
    assert len(compared) == 7
    assert all(number.agrees for number in compared)


def test_all_rows_are_the_files(raw: tuple[Rows, Rows]) -> None:
    data = adult(rows="all")
    assert (len(raw[0]), len(raw[1])) == (32561, 16281)
    assert round(float(data.train.y.mean()), 4) == 0.2408
    assert round(float(data.test.y.mean()), 4) == 0.2362
    rows = raw[0] + raw[1]
    assert data.y.tolist() == [int(row[14].rstrip(".") == ">50K") for row in rows]
    assert data.env.tolist() == [row[9] for row in rows]
    assert data.X["age"].tolist() == [float(row[0]) for row in rows]
    assert data.X["native-country=?"].tolist() == [float(row[13] == "?") for row in rows]
    for k, name in ((1, "workclass"), (3, "education"), (6, "occupation"), (8, "race"), (13, "native-country")):
        levels = Counter(row[k] for row in rows)
        assert {level: int(data.X[f"{name}={level}"].sum()) for level in levels} == levels


def test_106_attributes_are_6_numbers_and_100_levels(raw: tuple[Rows, Rows]) -> None:
    data = adult()
    levels = [column.split("=")[0] for column in data.columns if "=" in column]
    assert Counter(levels) == {
        "workclass": 9, "education": 16, "marital-status": 7, "occupation": 15,
        "relationship": 6, "race": 5, "native-country": 42,
    }  # fmt: skip
    numbers = [column for column in data.columns if "=" not in column]
    assert numbers == ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
    assert set(np.unique(data.X.drop(columns=numbers))) == {0.0, 1.0}
    assert (data.X.filter(like="occupation=").sum(axis=1) == 1).all()
    assert not any("sex" in column for column in data.columns)
    assert any("106" in choice for choice in data.choices)


@pytest.mark.parametrize("environments", ["sex", "native-country", "workclass", "correlation"])
def test_width_does_not_depend_on_the_rows_drawn(raw: tuple[Rows, Rows], environments: str, seed: int) -> None:
    width = {"sex": 106, "native-country": 66, "workclass": 99, "correlation": 108}[environments]
    drawn = [adult(environments=environments, seed=s) for s in (seed, seed + 1)]
    assert drawn[0].columns == drawn[1].columns == tuple(drawn[0].X.columns)
    assert drawn[0].X.shape == (10000, width)
    assert not drawn[0].X.isna().to_numpy().any()


@pytest.mark.parametrize("environments", ["sex", "correlation"])
def test_samples_keep_the_split_and_repeat_no_row(raw: tuple[Rows, Rows], environments: str, seed: int) -> None:
    """Rows are told apart by what is in them; the files' own duplicates are counted, not forbidden."""
    data = adult(environments=environments, seed=seed)
    for part, rows, count in ((data.train, raw[0], 6000), (data.test, raw[1], 4000)):
        assert len(part) == count
        numbers = part.X[["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]]
        education, job = (part.X.filter(like=f"{c}=").to_numpy().argmax(axis=1) for c in ("education", "occupation"))
        jobs = sorted({row[6] for row in raw[0]})
        schools = sorted({row[3] for row in raw[0]})
        found = Counter(
            (*map(float, line), schools[e], jobs[j], int(high))
            for line, e, j, high in zip(numbers.to_numpy(), education, job, part.y, strict=True)
        )
        stored = Counter(
            (*(float(row[k]) for k in (0, 2, 4, 10, 11, 12)), row[3], row[6], int(row[14].startswith(">")))
            for row in rows
        )
        assert found <= stored


def test_a_seed_gives_the_same_rows_and_another_gives_others(raw: tuple[Rows, Rows], seed: int) -> None:
    first, again, other = adult(seed=seed), adult(seed=seed), adult(seed=seed + 1)
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert first.X["fnlwgt"].tolist() != other.X["fnlwgt"].tolist()


def test_the_sample_is_not_selective(raw: tuple[Rows, Rows], seed: int) -> None:
    """Shares of 6,000 drawn rows stay within 5 standard errors of those of the file."""
    data = adult(seed=seed).train
    assert float(data.y.mean()) == pytest.approx(0.2408, abs=5 * np.sqrt(0.24 * 0.76 / 6000))
    assert float((data.env == "Male").mean()) == pytest.approx(21790 / 32561, abs=5 * np.sqrt(0.67 * 0.33 / 6000))


def test_groups_as_environments(raw: tuple[Rows, Rows]) -> None:
    country, work = adult(rows="all", environments="native-country"), adult(rows="all", environments="workclass")
    assert country.environments.labels == ("Mexico", "United-States", "other or unknown")
    assert country.env.value_counts()["Mexico"] == 951
    assert len(work.environments.labels) == 7
    counted = Counter(row[1] for row in raw[0] + raw[1])
    assert (
        work.env.value_counts()["other or unknown"] == counted["?"] + counted["Without-pay"] + counted["Never-worked"]
    )
    assert (country.env_name, work.env_name) == ("native-country", "workclass")
    assert "sex=Male" in country.columns
    assert not any("workclass" in column for column in work.columns)


def test_engineered_environments_have_the_agreement_they_are_called_by(raw: tuple[Rows, Rows], seed: int) -> None:
    data = adult(environments="correlation", seed=seed)
    assert sorted(set(data.train.env)) == ["agreement 50 %", "agreement 70 %", "agreement 90 %"]
    assert sorted(set(data.test.env)) == ["agreement 10 %", "agreement 30 %"]
    table = pd.DataFrame({"env": data.env, "man": data.X["sex=Male"], "high": data.y})
    for label, rows in table.groupby("env"):
        assert len(rows) == 2000
        assert (rows["man"] == rows["high"]).sum() == 20 * int(str(label).split()[1])
        assert data.truth["agreement"][label] == (rows["man"] == rows["high"]).mean()
        assert data.truth["correlation"][label] == pytest.approx(rows["man"].corr(rows["high"]))
    correlation = [data.truth["correlation"][f"agreement {share} %"] for share in (10, 30, 50, 70, 90)]
    assert correlation == sorted(correlation)
    assert correlation[0] < -0.4
    assert correlation[-1] > 0.75


@pytest.mark.slow
def test_regret_sees_what_was_engineered(raw: tuple[Rows, Rows]) -> None:
    """Sex and income alone: a shared head suits real groups of Adult far better than the engineered ones."""
    data = adult(environments="correlation")
    alone = iv.regret(data.train.X[["sex=Male"]], data.train.y, data.train.env)
    without = iv.regret(data.train.X[["hours-per-week"]], data.train.y, data.train.env)
    assert alone.value > 3 * without.value > 0
    assert iv.regret(*adult().train).value < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": "some"}, 'rows "some" is unknown: use "paper" or "all"'),
        ({"environments": "race"}, 'environments "race" is unknown'),
        ({"environments": "correlation", "rows": "all"}, "draws its own 10,000 rows"),
    ],
)
def test_unknown_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        adult(**options)


def test_how_rows_were_drawn_is_said_where_they_were() -> None:
    drawn, whole = (" ".join(adult_module._choices(rows, "sex", 106)) for rows in ("paper", "all"))
    assert "here at random without replacement" in drawn
    assert "at random" not in whole
