"""`iv.read(model=)`: a fitted model gets its own columns, in its own order, encoded as they were for its fit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import invariscope as iv
from invariscope.errors import InputError
from invariscope.reading.model_columns import model_of_predictions
from invariscope.reading.options import ReadOptions
from invariscope.reading.read import read_with

ROLES: dict[str, Any] = {"target": "days", "env": "site"}


@pytest.fixture
def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "dose", "days"])
    return frame.assign(sex=[*"fm"] * 30, site=np.repeat(["Bern", "Oslo"], 30))


def test_columns_come_in_the_order_of_the_fit(table: pd.DataFrame) -> None:
    model = LinearRegression().fit(table[["dose", "age"]], table["days"])
    data = iv.read(table, **ROLES, model=model)
    assert data.columns == ("dose", "age")
    np.testing.assert_array_equal(data.X, table[["dose", "age"]])


def test_what_was_read_for_the_fit_is_encoded_in_the_same_way(table: pd.DataFrame) -> None:
    fitted = iv.read(table, **ROLES)
    model = LinearRegression().fit(fitted.X[fitted.X.columns[::-1]], fitted.y)
    new = table[table["sex"] == "f"].assign(sex=["f"] * 29 + ["d"], remark=np.nan)  # gaps in others do not matter
    data = iv.read(new, **ROLES, model=model)
    assert data.columns == fitted.columns[::-1]
    assert data.X["sex=m"].tolist() == [0.0] * 30
    assert data.notes == (
        "No row has sex=m, which the model knows: columns of 0.",
        "The model has never seen sex=d: those rows have none of the levels it knows.",
    )


def test_levels_of_texts_that_the_model_does_not_read_are_not_worth_a_note(table: pd.DataFrame) -> None:
    fitted = iv.read(table, **ROLES, features="sex")
    model = LinearRegression().fit(fitted.X, fitted.y)
    data = iv.read(table.assign(town=[*"xyz"] * 20), **ROLES, features=["sex", "town"], model=model)
    assert (data.columns, data.notes) == (("sex=f", "sex=m"), ())


def test_a_model_that_encodes_for_itself_gets_text(table: pd.DataFrame) -> None:
    model = make_pipeline(OneHotEncoder(), LinearRegression()).fit(table[["sex", "site"]], table["days"])
    data = iv.read(table, **ROLES, model=model)
    assert data.X["sex"].tolist() == table["sex"].tolist()
    assert data.X["site"].tolist() == data.env.tolist()
    assert len(model.predict(data.X)) == len(table)


def test_a_split_is_read_for_as_its_model_is(table: pd.DataFrame) -> None:
    data = iv.read(table, **ROLES)
    backwards = data.X[data.X.columns[::-1]]
    ours = iv.InvariantRegressor(steps=2).fit(data.X, data.y, env=data.env)
    for model in (LinearRegression().fit(backwards, data.y), DummyRegressor().fit(backwards, data.y), ours):
        for halves in (iv.split(model), iv.split(model).by_predictions()):
            read = iv.read(table, **ROLES, model=halves)
            pd.testing.assert_frame_equal(read.X, data.X[list(model.feature_names_in_)])
    raw = make_pipeline(OneHotEncoder(), LinearRegression()).fit(table[["sex", "site"]], table["days"])
    assert iv.read(table, **ROLES, model=iv.split(raw)).columns == ("sex", "site")


def test_numbers_written_as_text_for_a_model_that_was_fitted_on_them(table: pd.DataFrame) -> None:
    table = table.drop(columns="sex").assign(share=["1,5 %", "7 %", "?"] * 20, dose=[*"123"] * 20)
    data = iv.read(table, **ROLES, missing="impute-median")
    for model, features in (
        (LinearRegression().fit(data.X, data.y), None),
        (GridSearchCV(LinearRegression(), {"fit_intercept": [True]}, cv=2).fit(data.X, data.y), None),
        (LinearRegression().fit(data.X.to_numpy(), data.y), list(data.columns)),
    ):
        read = iv.read(table, **ROLES, missing="impute-median", features=features, model=model)
        np.testing.assert_array_equal(read.X, data.X)
        assert read.notes == data.notes


def test_numbers_written_as_text_for_a_model_that_encodes_them(table: pd.DataFrame) -> None:
    table = table.assign(share=["1,5 %", "7 %", "?"] * 20)
    model = make_pipeline(OneHotEncoder(), LinearRegression()).fit(table[["share", "sex"]], table["days"])
    data = iv.read(table, **ROLES, model=model)
    pd.testing.assert_frame_equal(data.X, table[["share", "sex"]])
    assert data.notes == ()


def test_it_goes_straight_into_an_audit(table: pd.DataFrame) -> None:
    model = LinearRegression().fit(table[["age"]], table["days"])
    found = iv.audit(model, *iv.read(table, **ROLES, model=model), criteria=["regret"], n_boot=99)
    assert found.data.columns == ("age",)


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (["age", "height"], {}, "the model was fitted on columns that the table lacks: height"),
        (["age", "days"], {}, 'the model reads column "days", which is the target: fit it without'),
        (["age"], {"features": "dose"}, "the model was fitted on age: leave out features=, or name exactly these"),
        (["age"], {"drop": "age"}, 'the model reads column "age": take it out of drop='),
        (["age"], {"categories": "age"}, "categories= is for columns that are audited themselves: a model encodes its"),
        (
            ["age"],
            {"missing": "indicator"},
            'missing="indicator" adds columns to those the model was fitted on: choose',
        ),
    ],
)
def test_tables_and_options_that_do_not_fit_the_model(
    columns: list[str], options: dict[str, Any], sentence: str, table: pd.DataFrame
) -> None:
    model = LinearRegression().fit(table.assign(height=1.0 * table.index)[columns], table["days"])
    with pytest.raises(InputError, match=re.escape(sentence)):
        iv.read(table, **ROLES, **options, model=model)


def test_columns_without_names_are_counted(table: pd.DataFrame) -> None:
    model = LinearRegression().fit(table[["dose", "age"]].to_numpy(), table["days"])
    assert iv.read(table, **ROLES, features=["dose", "age"], model=model).columns == ("dose", "age")
    with pytest.raises(InputError, match=r"fitted on 2 columns without names, 3 are given .* name them with features="):
        iv.read(table, **ROLES, model=model)


@pytest.mark.parametrize("path", ["model.skops", Path("model.skops")])
def test_a_path_is_no_model(path: str | Path, table: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r"model is the path model\.skops: give the fitted model itself"):
        iv.read(table, **ROLES, model=path)


def test_a_model_that_fills_gaps_in_gets_them(table: pd.DataFrame) -> None:
    holes = table.assign(dose=table["dose"].where(table.index % 5 != 0), days=table["days"].where(table.index != 7))
    known = holes.dropna(subset="days")
    model = make_pipeline(SimpleImputer(), LinearRegression()).fit(known[["age", "dose"]], known["days"])
    with pytest.raises(InputError) as refused:
        iv.read(known, **ROLES, model=model)
    assert str(refused.value) == (
        'column "dose" has 12 missing values (Bern: 6 of 29). Drop it, or pass missing="impute-median", or '
        'missing="keep" if the model fills them in by itself.'
    )
    data = iv.read(holes, **ROLES, model=model, missing="keep")
    assert data.notes == (
        "Left out 1 of 60 rows that lack days (1).",
        "Left to the model, which fills in what is missing: dose 12.",
    )
    np.testing.assert_array_equal(model.predict(data.X), model.predict(known[["age", "dose"]]))
    audited = iv.audit(model, *data, n_boot=99)
    expected = iv.audit(model, known[["age", "dose"]], known["days"], known["site"], n_boot=99)
    assert audited["regret"].value == expected["regret"].value


def test_gaps_are_not_kept_where_nothing_fills_them_in(table: pd.DataFrame) -> None:
    holes = table.assign(dose=table["dose"].where(table.index % 5 != 0))
    plain = LinearRegression().fit(table[["age", "dose"]], table["days"])
    with pytest.raises(InputError) as refused:
        iv.read(holes, **ROLES, model=plain, missing="keep")
    assert str(refused.value) == (
        'the model cannot predict rows with missing values, which missing="keep" leaves to it: choose drop-rows or '
        "impute-median"
    )
    assert iv.read(holes, **ROLES, model=plain, missing="impute-median").X["dose"].notna().all()
    with pytest.raises(
        InputError, match=r"is for a model that fills gaps in by itself, and here is none \(dose 12\): choose"
    ):
        iv.read(holes, **ROLES, missing="keep")
    trained = iv.InvariantRegressor("erm", steps=5).fit(table[["age", "dose"]], table["days"])
    with pytest.raises(InputError, match="is for a model that fills gaps in by itself, and here is none"):
        iv.read(holes, **ROLES, missing="keep", model=trained)


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.9), (0.1, 1.01), (-1.0, 2.0)])
def test_a_column_of_probabilities_runs_from_0_to_1(low: float, high: float, table: pd.DataFrame) -> None:
    def predicted(first: float, last: float) -> Any:
        rows = table.assign(ill=["no", "yes"] * 30, risk=[first, 0.5, last] * 20)
        options = ReadOptions(target="ill", env="site", prediction="risk")
        return model_of_predictions(read_with(rows, options), options)

    split = predicted(0.0, 1.0)  # both ends belong to it
    assert (split.task, split.classes) == ("classification", ("no", "yes"))
    said = f'column "risk" (prediction=) runs from {low:g} to {high:g}: for target "ill" with the classes no, yes give '
    with pytest.raises(InputError, match=re.escape(said + 'the probability of "yes", from 0 to 1')):
        predicted(low, high)
