"""Text as tables really hold it: mended where there is one way to, refused where there are two, always told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariscope.errors import InputError
from invariscope.reading.spelling import SHELL
from invariscope.reading.text_columns import TextRemarks, cleaned


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
    ],
)
def test_numbers_written_as_text(values: list[str | None], expected: list[float], remark: str) -> None:
    found, notes = clean(values)
    np.testing.assert_array_equal(np.array(found, dtype=float), expected)
    assert notes == (f"Written as text and read as numbers: {remark}.",)


@pytest.mark.parametrize("values", [["1,234", "12,345"], ["1,234,567", "12,345"], ["1,234", "17"]])
def test_a_comma_that_can_mean_two_things_is_refused(values: list[str | None]) -> None:
    with pytest.raises(InputError, match=r'"dose" holds texts such as "1,234.*decimals or thousands.*drop="dose"$'):
        clean(values)
    with pytest.raises(InputError, match=r"pass --categories dose or --drop dose$"):
        cleaned(pd.Series(values, name="dose"), TextRemarks(), spell=SHELL)
    assert clean(values, numbers=False) == (values, ())


@pytest.mark.parametrize(
    "values", [["a", "b"], ["007", "11"], ["1", "b"], ["1.2.3", "4"], ["1-2", "3"], ["inf", "1"], ["1,5", "x"]]
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
