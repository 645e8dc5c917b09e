"""Missing values: counted and placed, or dealt with as chosen, with a note that says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariscope.errors import InputError
from invariscope.reading.missing_values import fill
from invariscope.reading.options import MISSING_CHOICES
from invariscope.rows.spelling import SHELL, typed_in

NAN = float("nan")


@pytest.fixture
def patients() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [50.0, 61.0, 40.0, 70.0, 55.0, 52.0],
            "chol": [200.0, NAN, 300.0, NAN, NAN, 230.0],
            "sex": ["f", "m", None, "m", "f", "m"],
            "hospital": ["Bern", "Bern", "Bern", "Oslo", "Oslo", "Rome"],
        }
    )


def test_nothing_missing_changes_nothing(patients: pd.DataFrame) -> None:
    whole = patients[["age", "hospital"]]
    for how in MISSING_CHOICES:
        filled, notes = fill(whole, how)
        assert filled is whole
        assert notes == ()


def test_refused_with_count_and_place(patients: pd.DataFrame) -> None:
    one = 'column "chol" has 3 missing values (Oslo: 2 of 2). Drop it, or pass missing="impute-median".'
    with pytest.raises(InputError) as caught:
        fill(patients[["age", "chol"]], "refuse", env=patients["hospital"])
    assert str(caught.value) == one
    several = "2 columns have missing values: chol 3, sex 1 (chol in Oslo: 2 of 2). Drop them, or pass --missing "
    with pytest.raises(InputError) as caught, typed_in(SHELL):
        fill(patients, "refuse", env=patients["hospital"])
    assert str(caught.value) == several + "impute-median."
    with pytest.raises(InputError, match=r'^column "sex" has 1 missing value\. Drop it'):
        fill(patients[["sex"]], "refuse")


def test_the_worst_place_is_that_with_the_largest_share_not_the_most_rows() -> None:
    frame = pd.DataFrame({"x": [NAN] * 3 + [1.0] * 7 + [NAN] * 2})
    with pytest.raises(InputError, match=r"\(Oslo: 2 of 2\)"):
        fill(frame, "refuse", env=pd.Series(["Bern"] * 10 + ["Oslo"] * 2))


def test_median_and_most_frequent(patients: pd.DataFrame) -> None:
    filled, notes = fill(patients, "impute-median")
    assert filled["chol"].tolist() == [200, 230, 300, 230, 230, 230]
    assert filled["sex"].tolist() == ["f", "m", "m", "m", "f", "m"]
    assert filled["age"] is not None
    assert notes == ('Filled in for missing values: chol 230 (3 rows), sex "m" (1 row).',)


def test_indicator(patients: pd.DataFrame) -> None:
    filled, notes = fill(patients, "indicator")
    assert list(filled.columns) == ["age", "chol", "chol missing", "sex", "hospital"]
    assert filled["chol missing"].tolist() == [0, 1, 0, 1, 1, 0]
    assert filled["chol"].tolist() == [200, 230, 300, 230, 230, 230]
    assert filled["sex"].tolist() == ["f", "m", "missing", "m", "f", "m"]
    assert "chol 230 (3 rows)" in notes[0]


def test_names_that_are_taken_already(patients: pd.DataFrame) -> None:
    patients["chol missing"] = 9.0
    patients["sex"] = pd.Series(["missing", "m", None, "m", "m", "m"]).astype("category")
    filled, _ = fill(patients, "indicator")
    assert filled["chol missing"].tolist() == [9.0] * 6
    assert filled["(chol missing)"].tolist() == [0, 1, 0, 1, 1, 0]
    assert filled["sex"].tolist()[:3] == ["missing", "m", "(missing)"]


def test_rows_and_columns_left_out(patients: pd.DataFrame) -> None:
    patients.loc[6] = [33.0, 210.0, "f", "Rome"]
    patients.loc[7] = [34.0, 220.0, "f", "Bern"]
    rows, notes = fill(patients, "drop-rows", env=patients["hospital"])
    assert rows.index.tolist() == [0, 5, 6, 7]
    assert notes == ("Left out 4 of 8 rows with missing values (chol 3, sex 1).", "No row is left of Oslo.")
    columns, notes = fill(patients, "drop-columns")
    assert list(columns.columns) == ["age", "hospital"]
    assert notes == ("Left out because values are missing: chol 3, sex 1.",)


def test_what_would_be_left_is_too_little(patients: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r'1 of 3 rows of Bern is left, .* with drop="chol" \(chol 3, sex 1\)'):
        fill(patients, "drop-rows", env=patients["hospital"])
    with pytest.raises(InputError, match=r'every row has a missing value \(a 2, b 1\).* with drop=\["a", "b"\]'):
        fill(pd.DataFrame({"a": [NAN, NAN, 1], "b": [1, 1, NAN]}), "drop-rows")


@pytest.mark.parametrize("how", ["impute-median", "indicator"])
def test_a_column_without_any_value_cannot_be_filled(how: str, patients: pd.DataFrame) -> None:
    with pytest.raises(InputError, match='"empty" has no value at all, so none can be filled in: pass drop="empty"'):
        fill(patients.assign(empty=None), how)
    assert "empty" not in fill(patients.assign(empty=None), "drop-columns")[0]


def test_target_and_environments_are_never_made_up(patients: pd.DataFrame) -> None:
    with pytest.raises(InputError, match=r'"sex" has 1 missing value, and it .*: pass missing="drop-rows"$'):
        fill(patients, "refuse", protected=["sex"])
    assert len(fill(patients, "drop-rows", protected=["sex"])[0]) == 2
    for how, chol in (("drop-columns", None), ("impute-median", 215), ("indicator", 215)):
        rows, notes = fill(patients, how, env=patients["hospital"], protected=["sex", "hospital"])
        assert rows["sex"].tolist() == ["f", "m", "m", "f", "m"]
        assert notes[0] == "Left out 1 of 6 rows that lack sex (1)."
        assert len(notes) == 2
        assert ("chol" in rows) == (chol is not None)
        if chol:
            assert rows["chol"].tolist() == [200, chol, chol, chol, 230]  # the row that left does not count
    with pytest.raises(InputError, match=r"every row lacks sex: there would be no row left, name another column$"):
        fill(patients.assign(sex=None), "indicator", protected=["sex"])


def test_where_most_rows_would_go_the_columns_that_miss_most_are_named() -> None:
    gaps = {"a": 60, "b": 50, "c": 20, "d": 0}
    frame = pd.DataFrame({name: np.where(np.arange(100) < count, NAN, 1.0) for name, count in gaps.items()})
    assert fill(frame, "drop-rows")[1] == (
        'Left out 60 of 100 rows with missing values (a 60, b 50, c 20). With drop=["a", "b"] it would be 20.',
    )
    env = pd.Series(np.where(np.arange(100) < 61, "Oslo", "Bern"))
    sentence = r"1 of 61 rows of Oslo is left, .* miss most with --drop a,b \(a 60, b 50"
    with pytest.raises(InputError, match=sentence), typed_in(SHELL):
        fill(frame, "drop-rows", env=env)
    few = pd.Series(np.where(np.arange(100) < 20, "Oslo", "Bern")).where(np.arange(100) != 30, "Oslo")
    sentence = r"1 of 21 rows of Oslo is left, .*: leave it out with --drop-env Oslo \(c 20"
    with pytest.raises(InputError, match=sentence), typed_in(SHELL):
        fill(frame[["c", "d"]], "drop-rows", env=few)


def test_an_unknown_choice() -> None:
    with pytest.raises(InputError, match="missing= is 'mean': choose one of refuse, drop-rows, drop-columns, impute"):
        fill(pd.DataFrame({"a": [1]}), "mean")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([True, None, False, True], dtype=object), [1, 1, 0, 1]),
        (pd.Series([True, None, False, False], dtype="boolean"), [1, 0, 0, 0]),
        (pd.Series([1, None, 4, 7], dtype="Int64"), [1, 4, 4, 7]),
        (pd.Series([1, np.nan, 4, 7], dtype="float32"), [1, 4, 4, 7]),
        (pd.Series([True, False, None, None], dtype=object), [1, 0, 0, 0]),  # not half true
    ],
)
def test_kinds_of_numbers(column: pd.Series, expected: list[float]) -> None:
    filled, _ = fill(pd.DataFrame({"x": column}), "impute-median")
    assert filled["x"].tolist() == expected
    assert filled["x"].dtype == np.float64


def test_many_columns_are_not_all_listed() -> None:
    frame = pd.DataFrame({f"x{j}": [NAN, 1.0] for j in range(40)})
    with pytest.raises(InputError, match=r"40 columns have missing values: x0 1, .*, x29 1 and 10 more\."):
        fill(frame, "refuse")
    assert fill(frame, "impute-median")[1][0].endswith("x29 1 (1 row) and 10 more columns.")


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(-9, 9)), st.sampled_from(["a", "b", None])), min_size=1))
def test_whatever_is_chosen_nothing_is_missing_afterwards(rows: list[tuple[int | None, str | None]]) -> None:
    frame = pd.DataFrame(rows, columns=["number", "text"]).astype({"number": float, "text": "str"})
    for how in set(MISSING_CHOICES) - {"refuse", "keep"}:
        try:
            filled, notes = fill(frame, how)
        except InputError:
            assert frame.isna().all().any() or frame.isna().any(axis=1).all()
            continue
        assert not filled.isna().to_numpy().any()
        assert bool(notes) == bool(frame.isna().to_numpy().any())
        for name in set(filled) & set(frame):  # what was there is still there
            known = frame.loc[filled.index, name].notna()
            assert filled.loc[known, name].tolist() == frame.loc[filled.index, name][known].tolist()


def test_gaps_are_kept_for_a_model_only() -> None:
    frame = pd.DataFrame({"a": [1.0, NAN, 3.0], "b": ["x", "y", None], "y": [1.0, 2.0, NAN]})
    kept, notes = fill(frame, "keep", protected=["y"], for_model=True)
    assert kept["a"].isna().tolist() == [False, True]
    assert notes == (
        "Left out 1 of 3 rows that lack y (1).",
        "Left to the model, which fills in what is missing: a 1.",
    )
    with pytest.raises(InputError) as refused:
        fill(frame[["a", "b"]], "keep")
    assert str(refused.value) == (
        'missing="keep" is for a model that fills gaps in by itself, and here is none (a 1, b 1): choose drop-rows or '
        "impute-median"
    )
    with pytest.raises(
        InputError, match=r'pass missing="impute-median", or missing="keep" if the model fills them in by'
    ):
        fill(frame[["a"]], "refuse", for_model=True)


def test_the_columns_that_cost_most_rows_are_found_one_after_the_other(seed: int) -> None:
    from invariscope.reading.missing_values import COSTLY, _costly

    rng = np.random.default_rng(seed)
    for _ in range(30):
        width = int(rng.integers(1, 7))
        gaps = pd.DataFrame(rng.random((40, width)) < rng.random(width), columns=list("abcdef")[:width])
        droppable = list(gaps.sum().sort_values(ascending=False, kind="stable").index)[
            : int(rng.integers(0, width + 1))
        ]
        expected = droppable
        for count in range(len(droppable)):
            if gaps.drop(columns=droppable[:count]).any(axis=1).mean() < COSTLY:
                expected = droppable[:count]
                break
        assert _costly(gaps, droppable) == expected
