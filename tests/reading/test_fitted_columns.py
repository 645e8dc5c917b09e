"""Tables for a model that was fitted on what `iv.read` made: the same numbers again, and nothing it needs made up."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import invariscope as iv
from invariscope.errors import InputError

ROLES: dict[str, Any] = {"target": "days", "env": "site"}
ROWS = 60


@pytest.fixture
def table(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, ROWS),
            "chol": rng.normal(200, 20, ROWS),
            "flag": [True, False] * (ROWS // 2),
            "city": ["Bern", "Oslo", "Rome"] * (ROWS // 3),
            "site": np.repeat(["a", "b"], ROWS // 2),
            "days": rng.normal(size=ROWS),
        }
    )


def fitted(table: pd.DataFrame, **options: Any) -> tuple[Ridge, iv.Dataset]:
    data = iv.read(table, **ROLES, **options)
    return Ridge().fit(data.X, data.y), data


# --- the same table again ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "columns",
    [
        {},
        {"age": pd.array(range(ROWS), dtype="Int64"), "flag": pd.array([True, False] * (ROWS // 2), dtype="boolean")},
        {"city": pd.Categorical(["Bern", "Oslo"] * (ROWS // 2), categories=["Rome", "Oslo", "Bern"])},
        {"grade": pd.Categorical([1, 2, 3] * (ROWS // 3))},
        {"when": pd.date_range("2024-01-01", periods=ROWS), "day": ["2024-05-31", "2024-06-01"] * (ROWS // 2)},
        {"dose": ["1,5", "2,25", "12"] * (ROWS // 3)},
        {"country": ["CH"] * ROWS},
        {"ward": [" p", "q "] * (ROWS // 2)},
        {"grade": ["1", "2", "A"] * (ROWS // 3), "zip": ["007", "011"] * (ROWS // 2)},
        {"city=Bern": np.arange(ROWS)},
        {"city=Bern": np.arange(ROWS), "(city=Bern)": np.arange(ROWS) % 7},
        {"city=Bern": ["x", "y"] * (ROWS // 2)},
        {"(z)": np.arange(ROWS) % 5, "chol missing": np.arange(ROWS) % 3},
    ],
    ids=lambda columns: ", ".join(columns) or "as it is",
)
def test_predictions_are_those_of_the_fit(columns: dict[str, Any], table: pd.DataFrame) -> None:
    table = table.assign(**columns)
    model, data = fitted(table)
    reordered = table[table.columns[::-1]].assign(extra=["p", "q"] * (ROWS // 2))
    for again in (table, reordered):
        read = iv.read(again, **ROLES, model=model)
        assert read.columns == data.columns
        assert not any("which the model knows" in note or "never seen" in note for note in read.notes)
        np.testing.assert_array_equal(read.X, data.X)
    few = iv.read(table.head(3), **ROLES, model=model)
    np.testing.assert_array_equal(few.X, data.X.head(3))


@pytest.mark.parametrize("columns", [{}, {"chol missing": np.arange(ROWS)}, {"city": ["missing", "Oslo"] * 30}])
def test_gaps_are_told_as_they_were_for_the_fit(columns: dict[str, Any], table: pd.DataFrame) -> None:
    few = table.index < 9
    holes = table.assign(**columns)
    holes = holes.assign(chol=holes["chol"].mask(few), city=holes["city"].mask(few))
    model, data = fitted(holes, missing="indicator")
    read = iv.read(holes[holes.columns[::-1]], **ROLES, missing="indicator", model=model)
    np.testing.assert_array_equal(read.X, data.X)


@pytest.mark.parametrize("how", ["refuse", "indicator", "drop-rows"])
def test_a_table_without_gaps_for_a_model_that_knows_them(how: str, table: pd.DataFrame) -> None:
    model, data = fitted(table.assign(chol=table["chol"].mask(table.index < 9)), missing="indicator")
    read = iv.read(table, **ROLES, missing=how, model=model)
    assert read.columns == data.columns
    assert read.X["chol missing"].tolist() == [0.0] * ROWS
    assert read.notes == ("No row has chol missing, which the model knows: columns of 0.",)


def test_gaps_that_would_not_be_told(table: pd.DataFrame) -> None:
    holes = table.assign(chol=table["chol"].mask(table.index < 9))
    model, _ = fitted(holes, missing="indicator")
    sentence = 'the model reads "chol missing", which missing="impute-median" does not tell: pass missing="indicator"'
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        iv.read(holes, **ROLES, missing="impute-median", model=model)


def test_what_the_model_knows_levels_of_is_categories(table: pd.DataFrame) -> None:
    table = table.assign(grade=[1, 2, 3] * (ROWS // 3), name=[f"n{row % 50}" for row in range(ROWS)])
    model, data = fitted(table, categories=["grade", "name"])
    np.testing.assert_array_equal(iv.read(table, **ROLES, categories=["grade", "age"], model=model).X, data.X)
    for grades in (table["grade"], table["grade"].astype(float), table["grade"].astype(str)):
        np.testing.assert_array_equal(iv.read(table.assign(grade=grades), **ROLES, model=model).X, data.X)


@pytest.mark.parametrize(("env", "bins"), [("city", None), ("flag", None), ("age", 3)])
def test_the_environment_may_be_a_column_of_the_fit(env: str, bins: int | None, table: pd.DataFrame) -> None:
    model, data = fitted(table)
    read = iv.read(table, target="days", env=env, env_bins=bins, model=model)
    np.testing.assert_array_equal(read.X, data.X)
    assert read.env_name == env
    assert not any("tells the environment" in note for note in read.notes)


# --- other tables -----------------------------------------------------------------------------------------------------
AGES = ["old", "young"] * (ROWS // 2)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"age": AGES}, 'column "age" holds text, but the model was fitted on numbers: write it as it was for the fit'),
        ({"flag": ["yes", "no"] * (ROWS // 2)}, 'column "flag" holds text, but the model was fitted on numbers'),
        (
            {"age": pd.Categorical([1, 2] * (ROWS // 2))},
            'column "age" holds categories, but the model was fitted on num',
        ),
        (
            {"age": pd.date_range("2024-01-01", periods=ROWS)},
            'column "age" holds dates, but the model was fitted on num',
        ),
        ({"age": [f"p{row}" for row in range(ROWS)]}, 'column "age" holds text, but the model was fitted on numbers'),
        (
            {"city": [0, 1, 2] * (ROWS // 3)},
            'column "city" holds numbers, but the model was fitted on city=Bern, city=Oslo, city=Rome: write it as',
        ),
        ({"city": 0}, 'column "city" holds numbers, but the model was fitted on city=Bern'),
        (
            {"city": ["bern", "oslo"] * (ROWS // 2)},
            'column "city" holds bern, oslo, but the model was fitted on city=Bern',
        ),
        (
            {"city": pd.date_range("2024-01-01", periods=ROWS)},
            'column "city" holds dates, but the model was fitted on city',
        ),
        (
            {"city": [f"p{row}" for row in range(ROWS)]},
            'column "city" holds text, but the model was fitted on city=Bern',
        ),
    ],
)
def test_a_column_that_holds_something_else_than_for_the_fit(
    columns: dict[str, Any], sentence: str, table: pd.DataFrame
) -> None:
    model, _ = fitted(table)
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}"):
        iv.read(table.assign(**columns), **ROLES, model=model)


def test_numbers_that_our_own_model_was_fitted_on(table: pd.DataFrame) -> None:
    data = iv.read(table, **ROLES, features=["age", "flag"])
    model = iv.InvariantRegressor(steps=2).fit(data.X, data.y, env=data.env)
    for name in ("age", "flag"):
        with pytest.raises(InputError, match=f'column "{name}" holds text, but the model was fitted on numbers'):
            iv.read(table.assign(**{name: AGES}), **ROLES, model=model)


def test_a_column_that_would_be_left_out_for_its_gaps(table: pd.DataFrame) -> None:
    model, _ = fitted(table)
    for name in ("chol", "city"):
        holes = table.assign(**{name: table[name].mask(table.index < 9)})
        with pytest.raises(InputError, match=f'column "{name}" holds missing values, but the model was fitted on'):
            iv.read(holes, **ROLES, missing="drop-columns", model=model)


@pytest.mark.parametrize(
    ("columns", "changes", "lacking"),
    [
        ({}, {"drop": ["chol"]}, "chol"),
        ({}, {"drop": ["chol", "flag"]}, "chol, flag"),
        ({}, {"rename": {"city": "town"}}, "city=Bern, city=Oslo, city=Rome"),
        ({"city=Bern": np.arange(ROWS)}, {"drop": ["city=Bern"]}, "city=Bern"),
        ({"chol missing": np.arange(ROWS)}, {"drop": ["chol"]}, "chol"),
        ({"city missing": np.arange(ROWS)}, {"drop": ["city missing"]}, "city missing"),
        ({"age=old": np.arange(ROWS)}, {"drop": ["age=old"]}, "age=old"),
        ({"city=": np.arange(ROWS)}, {"drop": ["city="]}, "city="),
    ],
)
def test_only_what_is_lacking_is_named(
    columns: dict[str, Any], changes: dict[str, Any], lacking: str, table: pd.DataFrame
) -> None:
    table = table.assign(**columns)
    model, _ = fitted(table)
    new = table.drop(columns=changes.get("drop", [])).rename(columns=changes.get("rename", {}))
    with pytest.raises(
        InputError,
        match=f"^the model was fitted on columns that the table lacks: {re.escape(lacking)}. "
        "Give a table with all of them$",
    ):
        iv.read(new, **ROLES, model=model)


def test_one_unknown_level_may_be_the_one_that_the_others_tell(table: pd.DataFrame) -> None:
    data = iv.read(table, **ROLES)
    model = Ridge().fit(data.X.drop(columns="city=Bern"), data.y)
    read = iv.read(table.assign(city="Bern"), **ROLES, model=model)
    assert read.notes == (
        "No row has city=Oslo, city=Rome, which the model knows: columns of 0.",
        "The model has never seen city=Bern: those rows have none of the levels it knows.",
    )


def test_one_name_for_levels_of_two_columns(table: pd.DataFrame) -> None:
    table = table.assign(**{"a": ["b=c", "d"] * (ROWS // 2), "a=b": ["c", "c", "e"] * (ROWS // 3)})
    model, _ = fitted(table)
    for rows in (
        table,
        table[table.columns[::-1]],
        table[table["a"] == "d"],
    ):  # in other orders they are bracketed otherwise
        with pytest.raises(
            InputError, match=r"columns that the table lacks: a=b=c, \(a=b=c\). Give a table with all of them$"
        ):
            iv.read(rows, **ROLES, model=model)


def test_the_target_in_another_guise(table: pd.DataFrame) -> None:
    model, _ = fitted(table)
    with pytest.raises(InputError, match='the model reads column "city", which is the target: fit it without'):
        iv.read(table, target="city", env="site", model=model)
