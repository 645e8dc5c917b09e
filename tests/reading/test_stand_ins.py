"""Features that are the environment or the target under another name are told, and told rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.reading.dataset import Dataset

ROWS = 12


@pytest.fixture
def patients() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ill": ["yes", "no"] * 6,
            "age": [40, 71, 64, 30, 55, 58, 61, 47, 39, 66, 52, 49],
            "dose": [0.5 * k for k in range(ROWS)],
            "smoker": [True, False, False, False] * 3,
            "day": pd.to_datetime([f"{2023 + k % 2}-{1 + k:02d}-05" for k in range(ROWS)]),
            "hospital": ["Bern", "Oslo", "Rome"] * 4,
        }
    )


def read(table: Any, **options: Any) -> Dataset:
    return iv.read(table, **{"target": "ill", "env": "hospital", **options})


def test_a_feature_that_tells_the_environment(patients: pd.DataFrame) -> None:
    numbered = patients["hospital"].map({"Bern": 1.0, "Oslo": 1.0, "Rome": 2.0})
    ward = patients["hospital"] + np.where(np.arange(ROWS) < 6, " north", " south")
    telling = patients.assign(number=numbered, place=ward, same="x", one=1)
    data = read(telling, drop="day")
    assert data.notes == (
        "number, place tell the environment (hospital): a head that knows it can fit each environment by itself, which "
        'hides how they differ. Leave out with drop=["number", "place"].',
    )
    assert {"number", "place=Bern north"} <= set(data.columns)  # told, not left out
    assert read(telling, drop=["day", "number", "place"]).notes == ()
    assert read(telling.assign(place=ward.where(ward.index != 0, "Oslo north")), features="place").notes == ()
    # environments as they are compared, not as they stand in the table
    year = patients.assign(year=[2023.0, 2024.0] * 6)
    assert read(year, env="day", env_bins="year", features="year", target="dose").notes[0].startswith("year tells")
    assert read(year, features="year", target="dose").notes == ()
    indicated = patients.assign(dose=patients["dose"].where(patients["hospital"] != "Oslo"))
    assert len(read(indicated, missing="indicator", features="dose").notes) == 1  # "dose missing" is no column to drop


def test_what_a_feature_that_tells_the_environment_hides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    site = np.repeat(["A", "B", "C"], 200)
    x = rng.normal(size=600)
    table = pd.DataFrame({"x": x, "y": x + np.repeat([0, 3, 6], 200) + rng.normal(size=600), "site": site,
                          "name": np.repeat(["Aachen", "Bonn", "Celle"], 200)})  # fmt: skip
    told, blind = (read(table, target="y", env="site", drop=drop) for drop in ((), "name"))
    assert (len(told.notes), len(blind.notes)) == (1, 0)
    regrets = [iv.regret(*data).value for data in (told, blind)]
    assert regrets[0] < 0.1 < 1 < regrets[1]


def test_a_feature_that_is_the_target(patients: pd.DataFrame) -> None:
    coded = patients.assign(code=patients["ill"].map({"yes": 7, "no": 3}), word=patients["ill"].str.upper())
    assert read(coded, drop="day").notes == (
        'The target ill under another name: code, word. Leave out with drop=["code", "word"].',
    )
    assert read(coded, target="code", features="word").notes[0].startswith("The target code under another name: word.")
    amounts = patients.assign(again=patients["dose"], other=patients["dose"] ** 2)
    assert read(amounts, target="dose", features=["again", "other"]).notes == (
        'The target dose under another name: again. Leave out with drop="again".',
    )
    coded.loc[0, "word"] = "NO"
    assert read(coded, features="word").notes == ()


def test_the_target_is_looked_for_beyond_the_first_rows() -> None:
    y = np.arange(3000) % 2
    late = pd.DataFrame({"y": y, "site": np.arange(3000) % 3, "x": np.where(np.arange(3000) < 2999, 5 - y, 9)})
    assert read(late, target="y", env="site").notes == ()
    assert len(read(late[:2999], target="y", env="site").notes) == 1
