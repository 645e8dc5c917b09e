"""`read`: what becomes of every kind of column, the same from every kind of file, and nothing done unsaid."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

import invariscope as iv
from invariscope import InputError
from invariscope.reading.dataset import Dataset

ROWS = 12
COLUMNS: dict[str, list[Any]] = {
    "ill": ["yes", "no"] * 6,
    "age": [40, 71, 64, 30, 55, 58, 61, 47, 39, 66, 52, 49],
    "dose": [0.5 * k for k in range(ROWS)],
    "smoker": [True, False, False, False] * 3,
    "sex": ["f", "m", "m", "f"] * 3,
    "ward": [10, 2, 2, 10, 7, 7] * 2,
    "day": [datetime.date(2023 + k % 2, 1 + k, 5) for k in range(ROWS)],
    "name": [f"patient {k}" for k in range(ROWS)],
    "hospital": ["Bern", "Oslo", "Rome"] * 4,
}


@pytest.fixture
def patients() -> pd.DataFrame:
    return pa.table(COLUMNS).to_pandas()


def read(table: Any, **options: Any) -> Dataset:
    return iv.read(table, **{"target": "ill", "env": "hospital", **options})


def write_stream(table: pa.Table, path: Path) -> None:
    with ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


# --- what becomes of columns ------------------------------------------------------------------------------------------
def test_every_kind_of_column(patients: pd.DataFrame) -> None:
    data = read(patients)
    assert data.columns == ("age", "dose", "smoker", "sex=f", "sex=m", "ward")
    assert tuple(data.X.columns) == data.columns
    assert set(data.X.dtypes) == {np.dtype(np.float64)}
    assert data.X["age"].tolist() == COLUMNS["age"]
    assert data.X["smoker"].tolist() == [1, 0, 0, 0] * 3
    assert data.X["sex=m"].tolist() == [0, 1, 1, 0] * 3
    assert data.y.tolist() == COLUMNS["ill"]
    assert data.env.tolist() == COLUMNS["hospital"]
    assert (data.target_name, data.env_name) == ("ill", "hospital")
    assert data.notes == (
        "Left out because they are dates: day.",
        "Left out because they have too many different texts for categories: name (12).",
    )
    assert data.description == "12 rows of the table: ill by hospital"
    assert data.source == "a pandas table"


def test_codes_become_categories_in_the_order_of_the_codes(patients: pd.DataFrame) -> None:
    data = read(patients, features=["ward", "age"], categories="ward")
    assert data.columns == ("ward=2", "ward=7", "ward=10", "age")
    assert data.X["ward=10"].tolist() == [1, 0, 0, 1, 0, 0] * 2
    some = read(patients.assign(ward=patients["ward"].where(patients["age"] < 70)), categories=["ward"],
                missing="indicator", features=["ward"])  # fmt: skip
    assert some.columns == ("ward=2", "ward=7", "ward=10", "ward=missing")
    assert some.X["ward=missing"].sum() == 1
    of_pandas = read(patients.astype({"ward": "category"}), features="ward")  # whoever made it a category meant it
    assert of_pandas.columns == ("ward=2", "ward=7", "ward=10")
    truths = read(patients, features="smoker", categories="smoker")
    assert truths.columns == ("smoker=False", "smoker=True")


def test_features_may_be_named_in_any_sequence(patients: pd.DataFrame) -> None:
    assert read(patients, features=patients.columns[1:3]).columns == ("age", "dose")
    assert read(patients, features=np.array(["dose"]), drop=pd.Index(["age"])).columns == ("dose",)


def test_names_of_levels_that_are_taken_already(patients: pd.DataFrame) -> None:
    data = read(patients.assign(**{"sex=f": 9.0}), features=["sex", "sex=f"])
    assert data.columns == ("(sex=f)", "sex=m", "sex=f")
    assert data.X["sex=f"].tolist() == [9.0] * ROWS
    assert data.X["(sex=f)"].tolist() == [1, 0, 0, 1] * 3


def test_names_of_levels_that_collide(patients: pd.DataFrame) -> None:
    data = read(patients.assign(**{"a": ["b=c", "d"] * 6, "a=b": ["c", "e", "e"] * 4}), features=["a", "a=b"])
    assert data.columns == ("a=b=c", "a=d", "(a=b=c)", "a=b=e")
    assert data.X["a=b=c"].tolist() == [1, 0] * 6
    assert data.X["(a=b=c)"].tolist() == [1, 0, 0] * 4


def test_constant_columns_are_no_errors(patients: pd.DataFrame) -> None:
    data = read(patients.assign(one=1, same="x"), features=["one", "same", "age"])
    assert data.columns == ("one", "same=x", "age")


def test_text_that_is_not_quite_text(patients: pd.DataFrame) -> None:
    untidy = patients.assign(
        sex=" " + patients["sex"], dose=patients["dose"].astype(str).str.replace(".", ","), ill=patients["ill"] + " "
    )
    data = read(untidy, drop=["day", "name"])
    tidy = read(patients, drop=["day", "name"])
    pd.testing.assert_frame_equal(data.X, tidy.X)
    assert data.y.tolist() == tidy.y.tolist()
    assert tidy.notes == ()
    assert data.notes == (
        "Blanks around the texts are taken off: sex, ill.",
        "Written as text and read as numbers: dose (decimal comma).",
    )


@pytest.mark.parametrize(("levels", "used"), [(100, True), (101, False)])
def test_texts_with_very_many_levels_are_left_out(levels: int, used: bool, patients: pd.DataFrame) -> None:
    long = pd.concat([patients] * 50, ignore_index=True).assign(text=[f"t{k % levels}" for k in range(50 * ROWS)])
    assert ("text=t0" in read(long).columns) == used
    if not used:
        assert any("text (101)" in note for note in read(long).notes)
        with pytest.raises(InputError, match=r'"text" \(features=\) has 101 different .* pass categories="text" to'):
            read(long, features=["text"])
        assert len(read(long, features=["text"], categories=["text"]).columns) == levels


# --- environments -----------------------------------------------------------------------------------------------------
def test_environments_in_groups(patients: pd.DataFrame) -> None:
    by_year = read(patients, env="day", env_bins="year", drop="name")
    assert by_year.environments.labels == ("2023", "2024")
    by_age = read(patients, env="age", env_bins=3)
    assert by_age.environments.labels == ("age 30–47", "age 49–58", "age 61–71")
    assert "age" not in by_age.columns
    by_edges = read(patients, env="age", env_bins=(50, 65))
    assert by_edges.environments.labels == ("age under 50", "age 50–64", "age 65 and over")
    with pytest.raises(InputError, match=r'"day" \(env=\) has 12 different values .* with env_bins="month"\.$'):
        read(patients, env="day")
    with pytest.raises(InputError, match=r'"dose" \(env=\) has 12 .* with env_bins=4\.$'):
        read(patients, env="dose")


def test_order_of_groups_survives_choosing_rows_and_auditing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300), "n": rng.permutation(300)})
    data = read(table, target="y", env="n", env_bins=[9, 100])
    assert data.rows(np.arange(200)).environments.labels == ("n under 9", "n 9–99", "n 100 and over")
    audit = iv.audit(None, *data.rows(np.flatnonzero(table["n"] > 8)), n_boot=99, criteria="regret")
    assert audit.data.labels == ("n 9–99", "n 100 and over")


def test_sites_with_numbers_stay_whole_when_some_are_missing(patients: pd.DataFrame) -> None:
    patients["hospital"] = [1, 2, 3, None, 1, 2, 3, 1, 2, 3, 1, 2]
    data = read(patients, missing="drop-rows")
    assert data.environments.labels == (1, 2, 3)
    assert data.notes[-1] == "Left out 1 of 12 rows with missing values (hospital 1)."
    assert len(data.X) == len(data.y) == len(data.env) == 11
    assert data.X.index.tolist() == data.y.index.tolist() == list(range(11))


def test_environments_left_out(patients: pd.DataFrame) -> None:
    data = read(patients, drop_env="Oslo", drop=["day", "name"])
    assert data.environments.labels == ("Bern", "Rome")
    assert data.notes == ("Left out as asked: hospital Oslo (4 rows).",)
    assert data.X["age"].tolist() == [age for age, where in zip(COLUMNS["age"], COLUMNS["hospital"], strict=True)
                                      if where != "Oslo"]  # fmt: skip
    grouped = read(patients, env="age", env_bins=3, drop_env=["age 49–58"])
    assert grouped.environments.labels == ("age 30–47", "age 61–71")
    with pytest.raises(InputError, match=r'no hospital "Olso" \(drop_env=\): there are "Bern", "Oslo", "Rome"'):
        read(patients, drop_env=["Olso"])
    # what is left out may be what was too rare
    patients.loc[3, "hospital"] = "Lyon"
    with pytest.raises(InputError, match=r'hospital "Lyon" has 1 row, .* drop_env="Lyon"'):
        read(patients)
    assert read(patients, drop_env="Lyon").environments.labels == ("Bern", "Oslo", "Rome")


def test_environments_from_dates_and_numbers_written_as_text(patients: pd.DataFrame) -> None:
    dotted = patients.assign(day=[f"{k + 13}.0{1 + k % 2}.202{k % 3}" for k in range(ROWS)])
    with pytest.raises(InputError, match=r'with env_bins="month"\.$'):
        read(dotted, env="day")
    data = read(dotted, env="day", env_bins="year", features="age")
    assert data.environments.labels == ("2020", "2021", "2022")
    assert data.notes == ('Dates in "day" are read as day.month.year: "13.01.2020" is 2020-01-13.',)
    doses = patients.assign(dose=[f"{k},5" for k in range(ROWS)])
    with pytest.raises(InputError, match=r"with env_bins=4\.$"):
        read(doses, env="dose")
    assert len(read(doses, env="dose", env_bins=2).environments) == 2


@pytest.mark.parametrize("dates", [["2024-05-31", "2024-06-01"] * 6, [f"{d}/05/2024" for d in range(10, 22)]])
def test_dates_as_text_are_dates(dates: list[str], patients: pd.DataFrame) -> None:
    dated = patients.assign(visit=dates)
    assert read(dated).notes[0] == "Left out because they are dates: day, visit."
    with pytest.raises(InputError, match=r'"visit" \(features=\) holds dates: turn it into numbers'):
        read(dated, features="visit")
    assert read(dated, features="visit", categories="visit").columns[0].startswith("visit=")


# --- missing values ---------------------------------------------------------------------------------------------------
def test_missing_values(patients: pd.DataFrame) -> None:
    holes = patients.assign(dose=patients["dose"].where(patients["hospital"] != "Oslo"))
    sentence = 'column "dose" has 4 missing values (Oslo: 4 of 4). Drop it, or pass missing="impute-median".'
    with pytest.raises(InputError) as caught:
        read(holes)
    assert str(caught.value) == sentence
    assert "dose" not in read(holes, drop="dose").columns
    assert "dose" not in read(holes, missing="drop-columns").columns
    known = holes["dose"].dropna()
    assert read(holes, missing="impute-median").X["dose"][1] == np.median(known)
    assert read(holes, missing="indicator").X["dose missing"].tolist() == [0, 1, 0] * 4
    assert read(holes, missing="drop-rows").environments.labels == ("Bern", "Rome")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_texts_that_mean_missing(name: str, patients: pd.DataFrame, tmp_path: Path) -> None:
    doses = [str(dose) for dose in COLUMNS["dose"]]
    signs = patients.assign(dose=["-", *doses[1:]], sex=["-", *COLUMNS["sex"][1:]]).drop(columns=["day", "name"])
    (signs.to_csv if name.endswith("csv") else signs.to_parquet)(tmp_path / name, index=False)
    with pytest.raises(InputError, match=r'"dose" holds numbers in 11 of 12 rows, and 1 × "-": pass na="-" if that'):
        read(tmp_path / name)
    assert "dose=-" in read(tmp_path / name, categories="dose").columns
    for na in ("-", ["-", "never"]):
        data = read(tmp_path / name, na=na, missing="impute-median")
        assert data.X["dose"].tolist() == [3.0, *COLUMNS["dose"][1:]]
        assert [column for column in data.columns if column.startswith("sex")] == ["sex=f", "sex=m"]
        assert any(note.startswith("Read as missing: ") and 'sex (1 × "-")' in note for note in data.notes)


def test_text_that_is_missing(patients: pd.DataFrame) -> None:
    holes = patients.assign(sex=patients["sex"].where(patients["age"] != 71))
    assert read(holes, missing="impute-median").X["sex=f"].sum() == 7
    indicated = read(holes, missing="indicator")
    assert indicated.X["sex=missing"].tolist() == [0, 1, *[0] * 10]
    assert "sex missing" not in indicated.columns


@pytest.mark.parametrize("role", ["ill", "hospital"])
def test_target_and_environments_must_be_known(role: str, patients: pd.DataFrame) -> None:
    patients.loc[3, role] = None
    with pytest.raises(InputError, match=f'column "{role}" has 1 missing value, .*: pass missing="drop-rows"'):
        read(patients)
    assert len(read(patients, missing="drop-rows")) == 11
    for how in ("impute-median", "indicator", "drop-columns"):
        data = read(patients, missing=how)
        assert len(data) == 11
        assert data.notes[-1] == f"Left out 1 of 12 rows that lack {role} (1)."


def test_levels_that_left_with_their_rows_have_no_column(patients: pd.DataFrame) -> None:
    patients.loc[0, ["sex", "dose"]] = ["x", np.nan]
    patients.loc[0, "ward"] = 99
    data = read(patients, missing="drop-rows", categories="ward")
    assert "sex=x" not in data.columns
    assert [name for name in data.columns if name.startswith("ward")] == ["ward=2", "ward=7", "ward=10"]


# --- files ------------------------------------------------------------------------------------------------------------
WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "t.csv": csv.write_csv,
    "t.parquet": parquet.write_table,
    "t.feather": feather.write_feather,
    "t.arrow": write_stream,
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("options", [{}, {"missing": "indicator", "env": "day", "env_bins": "quarter"}])
def test_every_file_gives_the_same(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    columns = {**COLUMNS, "dose": [None, *COLUMNS["dose"][1:]]} if options else COLUMNS
    WRITERS[name](pa.table(columns), tmp_path / name)
    found, expected = read(tmp_path / name, **options), read(pa.table(columns), **options)
    pd.testing.assert_frame_equal(found.X, expected.X)
    pd.testing.assert_series_equal(found.y, expected.y)
    pd.testing.assert_series_equal(found.env, expected.env)
    assert found.notes == expected.notes
    assert (found.description, found.source) == (
        expected.description.replace("the table", name),
        str(tmp_path / name),
    )
    in_dictionaries = pa.table({name: pa.array(values).dictionary_encode() if isinstance(values[0], str) else values
                                for name, values in columns.items()})  # fmt: skip
    pd.testing.assert_frame_equal(read(in_dictionaries, **options).X, expected.X)
    pd.testing.assert_frame_equal(read(pl.DataFrame(columns), **options).X, expected.X)


def test_a_file_may_be_named_by_text(tmp_path: Path, patients: pd.DataFrame) -> None:
    patients.to_csv(tmp_path / "h.csv", index=False)
    assert len(read(str(tmp_path / "h.csv"))) == ROWS


def test_codes_and_nameless_columns_in_files(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{9 - k},0{k % 2}00,{k % 3},{k % 4 // 2}" for k in range(8)]
    path.write_text("\n".join([",zip,site,y", *rows]))
    data = iv.read(path, target="y", env="site")
    assert data.columns == ("zip=0000", "zip=0100")
    assert data.notes == (
        "Left out because it has no name: the first column.",
        "Kept as text because of leading zeros: zip.",
    )


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"target": None}, "target= is None: give the name of a column, as text"),
        ({"env": 3}, "env= is 3: give the name of a column, as text"),
        ({"features": [3]}, "features= is 3: give the name of a column, as text"),
        ({"target": "\ud800"}, 'column "\\ud800" (target=) is not in the table: it has '),
        ({"target": "il"}, 'column "il" (target=) is not in the table: did you mean "ill"?'),
        ({"env": "Hospitals"}, 'column "Hospitals" (env=) is not in the table: did you mean "hospital"?'),
        ({"features": ["agee"]}, 'column "agee" (features=) is not in the table: did you mean "age"?'),
        ({"drop": "xyz"}, 'column "xyz" (drop=) is not in the table: it has ill, age, dose, smoker'),
        ({"env": "ill"}, 'column "ill" is both target= and env=: name two columns'),
        ({"features": ["age", "ill"]}, 'column "ill" is target=: take it out of features='),
        ({"features": ["hospital"]}, 'column "hospital" is env=: take it out of features='),
        ({"drop": ["hospital"]}, 'column "hospital" is env=: take it out of drop='),
        ({"features": ["age"], "drop": ["age"]}, 'column "age" is in features= and in drop=: take it out of one'),
        ({"features": ["day"]}, 'column "day" (features=) holds dates: turn it into numbers'),
        ({"features": ["list"]}, 'column "list" (features=) holds nested values: unpack it into columns'),
        ({"features": ["name"]}, 'column "name" (features=) has 12 different texts in 12 rows, like an identifier'),
        ({"target": "list"}, 'column "list" (target=) holds nested values'),
        ({"env": "list"}, 'column "list" (env=) holds nested values'),
        ({"categories": ["ill"]}, 'column "ill" (categories=) is not among the features: leave it out there'),
        ({"features": ["age"], "categories": "sex"}, 'column "sex" (categories=) is not among the features'),
        ({"missing": "guess"}, "missing= is 'guess': choose one of refuse, drop-rows"),
        ({"env_bins": "epoch", "env": "day"}, 'env_bins= is "epoch": give one of year'),
        (
            {"drop": ["age", "dose", "smoker", "sex", "ward"]},
            'the table has no feature besides "ill" and "hospital". Left out because they are dates: day.',
        ),
    ],
)
def test_what_is_refused(options: dict[str, Any], sentence: str, patients: pd.DataFrame) -> None:
    with pytest.raises(InputError) as caught:
        read(patients.assign(list=[[1]] * ROWS), **options)
    assert str(caught.value).startswith(sentence)


def test_numbers_are_no_category_without_end() -> None:
    table = pd.DataFrame({"y": np.arange(3000) % 2, "site": np.arange(3000) % 3, "x": np.arange(3000)})
    with pytest.raises(InputError, match=r'"x" \(categories=\) has 3,000 different values: that is no category'):
        read(table, target="y", env="site", categories="x")


def test_the_table_of_the_user_is_not_touched(patients: pd.DataFrame) -> None:
    before = patients.copy(deep=True)
    read(patients, missing="indicator", categories="ward", env="age", env_bins=2)
    pd.testing.assert_frame_equal(patients, before)


# --- to the end -------------------------------------------------------------------------------------------------------
def test_from_a_file_to_a_verdict(data_file: Callable[[str], Path], tmp_path: Path) -> None:
    names = (
        "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, race, sex, "
        "capital-gain, capital-loss, hours-per-week, native-country, income\n"
    )
    lines = data_file("adult/adult.data").read_text().splitlines(keepends=True)[:4000]
    (tmp_path / "adult.csv").write_text(names + "".join(lines))
    data = iv.read(tmp_path / "adult.csv", target="income", env="sex", features=["age", "education-num", "race"])
    assert data.columns[:4] == ("age", "education-num", "race=Amer-Indian-Eskimo", "race=Asian-Pac-Islander")
    assert data.environments.labels == ("Female", "Male")
    assert data.environments.classes == ("<=50K", ">50K")
    audit = iv.audit(None, *data, n_boot=99, criteria="regret")
    assert audit.data.columns == data.columns
    everything = iv.read(tmp_path / "adult.csv", target="income", env="sex")
    assert any("workclass (" in note and '× "?"' in note for note in everything.notes)


def test_row_numbers_that_came_with_an_arrow_table_are_no_feature(patients: pd.DataFrame) -> None:
    shuffled = patients.sample(frac=1, random_state=0)
    table = pa.table(shuffled)
    assert "__index_level_0__" in table.column_names
    assert read(table, target="ill", env="hospital").columns == read(shuffled, target="ill", env="hospital").columns


def test_a_text_among_dates_of_another_form_than_iso_is_named_and_counted_alone() -> None:
    days = [*pd.date_range("2024-01-01", periods=39, freq="10D").strftime("%d.%m.%Y"), "soon"]
    table = pd.DataFrame({"ill": [0.0, 1.0] * 20, "age": range(40), "day": days})
    message = (
        'column "day" holds "soon", which is no date of the form 2024-05-31 (in 1 of 40 rows): write all dates that '
        'way, or leave these rows out with na="soon" and missing="drop-rows"'
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        iv.read(table, target="ill", env="day", env_bins="year")
    data = iv.read(table, target="ill", env="day", env_bins="year", na="soon", missing="drop-rows")
    assert len(data) == 39


# --- predictions --------------------------------------------------------------------------------------------------
def with_risk(patients: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    return patients.assign(risk=np.linspace(0.1, 0.9, ROWS), **columns)


def test_gaps_in_columns_that_nothing_needs_stay_where_predictions_are_given(patients: pd.DataFrame) -> None:
    gaps = {name: patients[name].where(patients.index != 3) for name in ("dose", "sex", "smoker")}
    table = with_risk(patients, **gaps)
    with pytest.raises(InputError, match="3 columns have missing values"):
        read(table)
    data = read(table, prediction="risk")
    assert data.others["prediction"].tolist() == table["risk"].tolist()
    assert data.columns == ("age", "dose", "smoker", "sex=f", "sex=m", "ward")
    assert data.X.isna().sum().tolist() == [0, 1, 1, 1, 1, 0]
    assert data.X.loc[3].isna().tolist() == [False, True, True, True, True, False]
    assert data.X.loc[2, ["sex=f", "sex=m"]].tolist() == [0, 1]
    said = "Predictions are given, so missing values stay (dose 1, smoker 1, sex 1)"
    assert any(note.startswith(said) and 'missing="impute-median"' in note for note in data.notes)
    assert read(table, prediction="risk", missing="keep").X.equals(data.X)


def test_the_columns_are_filled_in_beside_predictions_where_asked(patients: pd.DataFrame) -> None:
    table = with_risk(patients, dose=patients["dose"].where(patients.index != 3))
    assert read(table, prediction="risk", missing="impute-median").X.loc[3, "dose"] == 3.0
    assert "dose" not in read(table, prediction="risk", missing="drop-columns").columns


def test_beside_predictions_rows_go_for_gaps_in_what_is_needed_alone(patients: pd.DataFrame) -> None:
    table = with_risk(patients, dose=patients["dose"].where(patients.index != 3))
    table.loc[[5, 6], "risk"] = np.nan
    data = read(table, prediction="risk", missing="drop-rows")
    assert data.others["prediction"].tolist() == table["risk"].drop([5, 6]).tolist()
    assert np.isnan(data.X.loc[3, "dose"])
    assert f"Left out 2 of {ROWS} rows with missing values (risk 2)." in data.notes
    assert any(note.startswith("Predictions are given, so missing values stay (dose 1)") for note in data.notes)
    whole = read(table.drop(index=[5, 6]), prediction="risk", missing="drop-rows")
    assert whole.notes == read(table.drop(index=[5, 6]), prediction="risk").notes


def test_gaps_in_what_is_needed_are_refused_beside_predictions_too(patients: pd.DataFrame) -> None:
    for column in ("ill", "hospital", "risk"):
        table = with_risk(patients)
        table[column] = table[column].where(table.index != 3)
        with pytest.raises(InputError, match=f'column "{column}" has 1 missing value'):
            read(table, prediction="risk")


def test_a_column_that_could_be_read_in_two_ways_is_left_out_beside_predictions(patients: pd.DataFrame) -> None:
    table = with_risk(patients, cost=["1,234"] * ROWS)
    with pytest.raises(InputError, match="cost"):
        read(table)
    with pytest.raises(InputError, match="cost"):
        read(table, prediction="risk", features=["cost"])
    data = read(table, prediction="risk")
    assert "cost" not in data.columns
    assert any(note.startswith('Left out, since predictions are given: column "cost"') for note in data.notes)


def test_predictions_of_rows_with_gaps_are_audited_in_python_too() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "z": rng.normal(size=200), "site": ["A", "B"] * 100})
    table["y"] = table["x"] + rng.normal(size=200)
    table.loc[7, "z"] = np.nan
    data = iv.read(table.assign(p=table["x"]), target="y", env="site", prediction="p")
    audit = iv.audit(data.others["prediction"], *data, n_boot=99)
    whole = iv.audit(table["x"].to_numpy(), table[["x"]], table["y"], table["site"], n_boot=99)
    assert audit["regret"].value == whole["regret"].value
    assert any('(column "z" has 1 missing values' in note for note in audit.notes)


# --- what is given and cannot be meant ------------------------------------------------------------------------------
@pytest.mark.parametrize("model", [5, -1.0, [], object(), {}, dict])
def test_what_is_no_model_is_refused(patients: pd.DataFrame, model: Any) -> None:
    with pytest.raises(InputError, match="which reads no columns: give the fitted model itself, or name a column"):
        read(patients, model=model)


def test_a_list_of_no_features_is_refused(patients: pd.DataFrame) -> None:
    with pytest.raises(InputError, match="features= names no column: name some, or leave it out to use all"):
        read(patients, features=[])


def test_notes_count_the_rows_that_are_used() -> None:
    """What only rows of an environment that is left out have, is not said of the others; nor does it refuse them."""
    table = pd.DataFrame(
        {
            "site": np.repeat(["Bern", "Oslo", "Rome"], 40),
            "dose": [f"{0.5 + k / 100}" for k in range(120)],
            "age": np.arange(120.0),
            "sex": np.resize(["f", "m"], 120),
            "y": np.arange(120.0) % 7,
        }
    )
    table.loc[[3, 100, 101], "dose"] = "?"
    table.loc[[4, 5, 102], "age"] = -9.0
    table.loc[110:, "sex"] = " m "
    options = {"target": "y", "env": "site", "na": ["-9"], "missing": "impute-median"}
    said = 'Written as text and read as numbers: dose ({} × "?" as missing).'
    missing = 'Read as missing: age ({} × "-9").'
    notes = iv.read(table, **options).notes
    assert {said.format(3), missing.format(3), "Blanks around the texts are taken off: sex."} <= {*notes}
    notes = iv.read(table, drop_env="Rome", **options).notes
    assert notes[:3] == (missing.format(2), said.format(1), "Left out as asked: site Rome (40 rows).")
    assert not any("Blanks" in note for note in notes)
    strange = table.assign(dose=table.dose.where(table.index != 99, "high"))
    with pytest.raises(InputError, match=r'column "dose" holds numbers in .* and 1 × "high"'):
        iv.read(strange, **options)
    assert len(iv.read(strange, drop_env="Rome", **options).X) == 80


def test_groups_are_made_of_all_rows_and_named_to_be_left_out() -> None:
    table = pd.DataFrame({"age": np.arange(90.0), "x": np.arange(90.0) % 11, "y": np.arange(90.0) % 7})
    whole = iv.read(table, target="y", env="age", env_bins=3)
    part = iv.read(table, target="y", env="age", env_bins=3, drop_env="age 60–89")
    assert whole.env.unique().tolist() == ["age 0–29", "age 30–59", "age 60–89"]
    assert part.env.tolist() == whole.env.tolist()[:60]
    assert part.X.x.tolist() == table.x.tolist()[:60]


def test_categories_of_very_many_values_are_told_and_the_advice_helps() -> None:
    rng = np.random.default_rng(0)
    code = rng.permutation(np.arange(1500) % 895) + 1000
    table = pd.DataFrame({"site": np.resize(["A", "B", "C"], 1500), "y": rng.normal(size=1500), "code": code})
    said = "Encoded as categories as asked, one column for every value: code (895). If that is too many, leave out "
    few = {"target": "y", "env": "site"}
    for given in (table, table.assign(code=table.code.astype(str))):
        [note] = iv.read(given.assign(x=1.0 * (code % 7)), categories=["code"], **few).notes
        assert note == f'{said}categories="code", or pass drop="code" in its place.'
        whole = iv.read(given.assign(x=1.0 * (code % 7)), **few)
        assert whole.X.shape[1] == 2
        assert not any(note.startswith("Encoded") for note in whole.notes)
        assert iv.read(given.assign(x=1.0 * (code % 7)), drop=["code"], **few).columns == ("x",)
    hundred = iv.read(table.assign(code=code % 100), categories=["code"], **few)
    assert hundred.notes == ()
