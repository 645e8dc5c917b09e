"""Text as tables really hold it: mended where there is one way to, refused where there are two, always told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariscope.errors import InputError
from invariscope.reading.text_columns import TextRemarks, cleaned, without
from invariscope.reading.written_values import mostly_numbers
from invariscope.rows.spelling import SHELL, typed_in


def clean(values: list[str | None], *, numbers: bool = True) -> tuple[list[object], tuple[str, ...]]:
    remarks = TextRemarks()
    return cleaned(pd.Series(values, name="dose"), remarks, numbers=numbers).tolist(), remarks.notes()


@pytest.mark.parametrize(
    ("values", "expected", "remark"),
    [
        ([" 1", "2 ", "-3.5e2"], [1, 2, -350], "dose"),
        (["1,5", "2", "-,25"], [1.5, 2, -0.25], "dose (decimal comma)"),
        (["1,234", "0,5"], [1.234, 0.5], "dose (decimal comma)"),
        (["0,123", "0,456"], [0.123, 0.456], "dose (decimal comma)"),  # nobody writes thousands like that
        (["1", "?", "NA", "?"], [1, np.nan, np.nan, np.nan], 'dose (2 × "?" as missing, 1 × "NA" as missing)'),
        (["1", None, "  "], [1, np.nan, np.nan], "dose"),
        (["1,234,567", "12,345"], [1234567, 12345], "dose (commas between thousands)"),
        (["1,234.50", "7", "-0.25"], [1234.5, 7, -0.25], "dose (commas between thousands)"),
        (["1,234", "12.5"], [1234, 12.5], "dose (commas between thousands)"),
        (["1.234,50", "2.000", "0,5"], [1234.5, 2000, 0.5], "dose (decimal comma, points between thousands)"),
        (["1.234.567", "8"], [1234567, 8], "dose (points between thousands)"),
        (["1.234", "2.345"], [1.234, 2.345], "dose"),
        (["12.3%", "7 %", "?"], [12.3, 7, np.nan], 'dose (percent signs taken off, 1 × "?" as missing)'),
        (["12,3%", "7%"], [12.3, 7], "dose (percent signs taken off, decimal comma)"),
    ],
)
def test_numbers_written_as_text(values: list[str | None], expected: list[float], remark: str) -> None:
    found, notes = clean(values)
    np.testing.assert_array_equal(np.array(found, dtype=float), expected)
    assert notes == (f"Written as text and read as numbers: {remark}.",)


@pytest.mark.parametrize("values", [["1,234", "12,345"], ["1,234", "12.345"], ["1,234", "17"]])
def test_a_comma_that_can_mean_two_things_is_refused(values: list[str | None]) -> None:
    with pytest.raises(InputError, match=r'"dose" holds texts such as "1,234.*decimals or thousands.*drop="dose"$'):
        clean(values)
    with pytest.raises(InputError, match=r"pass --categories dose or --drop dose$"), typed_in(SHELL):
        clean(values)
    assert clean(values, numbers=False) == (values, ())


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["1,5", "2.5"], '"1,5" and "2.5", one with a decimal comma and one with a point: write them as numbers, or'),
        (["50%", "0.5"], '"50%" and "0.5", with and without a percent sign: write them as numbers, or'),
    ],
)
def test_numbers_written_in_two_ways_are_refused(values: list[str | None], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        clean(values)
    assert sentence in str(caught.value)
    with pytest.raises(InputError, match=r"write them as numbers$"):  # a target is neither dropped nor encoded
        cleaned(pd.Series(values, name="y"), TextRemarks(), option="target")


def test_numbers_with_a_few_texts_among_them_are_refused_with_counts() -> None:
    numbers: list[str | None] = [f"{k}.5" for k in range(1498)]
    with pytest.raises(InputError) as caught:
        clean([*numbers, "-", " -"])
    assert str(caught.value) == (
        'column "dose" holds numbers in 1,498 of 1,500 rows, and 2 × "-": pass na="-" if that means missing, or pass '
        'categories="dose" or drop="dose"'
    )
    sentence = r'2 × "-", 1 × "n d": pass --na - --na \'n d\' if that means missing'
    with pytest.raises(InputError, match=sentence), typed_in(SHELL):
        clean([*numbers, "-", "-", "n d"])
    with pytest.raises(InputError, match=r'1 × "b4" and 3 other texts: write numbers there, or pass categories="dose"'):
        clean([*numbers, *(f"b{k}" for k in range(8))])
    assert clean([*numbers, "-"], numbers=False)[1] == ()


@pytest.mark.parametrize(("strange", "refused"), [(10, True), (11, False)])
def test_from_nine_tenths_on_it_is_a_column_of_numbers(strange: int, refused: bool) -> None:
    values: list[str | None] = [str(k) for k in range(100 - strange)] + ["x"] * strange + [None] * 50
    if refused:
        with pytest.raises(InputError, match=r"numbers in 90 of 100 rows, and 10 × "):
            clean(values)
    else:
        assert clean(values)[0][:100] == values[:100]


def test_classes_that_are_mostly_numbers_are_classes_all_the_same() -> None:
    classes = pd.Series(["1", "2"] * 20 + ["3+"], name="y")
    assert cleaned(classes, TextRemarks(), option="target").tolist() == classes.tolist()
    amounts = pd.Series([*map(str, range(40)), "-"], name="y")
    with pytest.raises(InputError, match=r'1 × "-": pass na="-" if that means missing$'):
        cleaned(amounts, TextRemarks(), option="target")


def test_leading_zeros_keep_a_column_text_and_are_told() -> None:
    assert clean(["007", "11"]) == (["007", "11"], ("Kept as text because of leading zeros: dose.",))


def test_texts_that_mean_missing() -> None:
    remarks = TextRemarks()
    table = pd.DataFrame({"a": ["-", "x", " n.d. ", None], "b": [1, -9, 3, -9], "c": [True, False, True, True]})
    gaps = pd.DataFrame({name: without(table[name], ["-", "n.d.", "-9", "1", "0,5"], remarks).isna() for name in table})
    assert gaps["a"].tolist() == [True, False, True, True]
    assert gaps["b"].tolist() == [True, True, False, True]
    assert not gaps["c"].any()  # true is not "1"
    assert remarks.notes() == ('Read as missing: a (1 × "-", 1 × "n.d."), b (2 × "-9", 1 × "1").',)
    assert without(table["a"], [], remarks).tolist()[:3] == ["-", "x", " n.d. "]


@pytest.mark.parametrize(
    "values", [["a", "b"], ["1", "b"], ["1.2.3", "4"], ["007", "b"], ["1-2", "3"], ["inf", "1"], ["1,5", "x"]]
)
def test_texts_stay_as_they_are(values: list[str | None]) -> None:
    assert clean(values) == (values, ())


def test_blanks_are_taken_off_and_signs_of_missing_values_are_told() -> None:
    found, notes = clean([" a", "a", "b ", "?", " ", None])
    assert found[:4] == ["a", "a", "b", "?"]
    assert pd.isna(pd.Series(found[4:])).all()
    assert notes == (
        "Blanks around the texts are taken off: dose.",
        'Taken as a level of its own, not as missing: dose (1 × "?").',
    )


@pytest.mark.parametrize(("texts", "expected"), [(["1", "x", "y"], False), (["1", "2,5", "3"], True), ([], False)])
def test_a_column_is_one_of_numbers_where_nearly_all_texts_are(texts: list[str], expected: bool) -> None:
    assert mostly_numbers(pd.Series(texts, dtype=object)) is expected
