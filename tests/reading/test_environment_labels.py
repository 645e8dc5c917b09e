"""Environments by their labels: what is refused without bins, and what is left out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariscope.errors import InputError
from invariscope.reading.environment_labels import refuse_unbinned, without_environments
from invariscope.rows.spelling import PYTHON, SHELL, typed_in

DAYS = ["2024-12-30", "2023-03-05", "2024-02-29", "2023-03-06"]


def test_numbers_and_dates_that_need_bins() -> None:
    with pytest.raises(InputError, match=r'"age" \(env=\) has 4 different values in 4 rows, 4 of .*with env_bins=4\.$'):
        refuse_unbinned(pd.Series([1.5, 2.5, 3.5, 4.5], name="age"))
    with pytest.raises(InputError, match=r"\(--env\) .* with --env-bins month\.$"), typed_in(SHELL):
        refuse_unbinned(pd.Series(pd.to_datetime(DAYS), name="day"))
    with pytest.raises(InputError, match="1,500 different values in 4,500 rows: environments"):
        refuse_unbinned(pd.Series(np.repeat(np.arange(1500), 3), name="site"))
    sentence = r"with --env-bins 4, or leave out what is rare with --drop-env 7,8\.$"
    with pytest.raises(InputError, match=sentence), typed_in(SHELL):
        refuse_unbinned(pd.Series([1.0] * 6 + [7, 8], name="age"))
    for days in (DAYS, [f"{day}.05.2024" for day in range(10, 14)], ["05/06/2024", "06/05/2024", "05/05/2024"]):
        with pytest.raises(InputError, match=r'Group it, for example with env_bins="month"\.$'):
            refuse_unbinned(pd.Series(days, name="day"))
    with pytest.raises(InputError, match=r"for example with env_bins=4\.$"):
        refuse_unbinned(pd.Series(["1,5", "2,5", "3,5"], name="dose"))
    with pytest.raises(InputError, match=r'^site "c" has 1 row, .* with drop_env="c", or give it another label$'):
        refuse_unbinned(pd.Series(list("aaabbbbc"), name="site"))
    refuse_unbinned(pd.Series([1, 1, 2, 2], name="site"))
    refuse_unbinned(pd.Series(["a", "b", "c"], name="site"))
    refuse_unbinned(pd.Series([True, True, False, False], name="treated"))


# --- left out by label ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("env", "drop", "keep", "note"),
    [
        (["a", "b", "c", "b"], "b", [1, 0, 1, 0], "Left out as asked: site b (2 rows)."),
        (["a", "b", "c", None], ["c", "a"], [0, 1, 0, 1], "Left out as asked: site c (1 row), a (1 row)."),
        ([1.0, 2.0, np.nan], 2, [1, 0, 1], "Left out as asked: site 2 (1 row)."),
        ([1, 2, 3], np.array([1, 3]), [0, 1, 0], "Left out as asked: site 1 (1 row), 3 (1 row)."),
        ([1, 2, 3], "3", [1, 1, 0], "Left out as asked: site 3 (1 row)."),
        (["a", "b,c"], "b,c", [1, 0], "Left out as asked: site b,c (1 row)."),
    ],
)
def test_environments_left_out(env: list[object], drop: str, keep: list[int], note: str) -> None:
    kept, notes = without_environments(pd.Series(env, name="site"), drop)
    assert kept.tolist() == list(map(bool, keep))
    assert notes == (note,)


def test_environments_left_out_in_a_shell() -> None:
    env = pd.Series(["a", "b", "c, d", "e"], name="site")
    with typed_in(SHELL):
        assert without_environments(env, ("a, b",))[0].tolist() == [False, False, True, True]
        assert without_environments(env, ("c, d", "a"))[0].tolist() == [False, True, False, True]
        assert without_environments(env, ())[1] == ()
        with pytest.raises(InputError) as told:
            without_environments(env, ("c, d,a",))
        assert without_environments(env, ('"c, d",a',))[0].tolist() == [False, True, False, True]
    assert str(told.value) == (
        'there is no site "c" (--drop-env): there are "a", "b", "c, d", "e"; a label with a comma goes in double '
        "quotes, or in an option of its own: --drop-env 'c, d'"
    )
    sentence = r'^there is no site "f" .*: there are "a", "b".*, "e"$'
    for labels, drop, how in ((env[[0, 1, 3]], ("a,f",), SHELL), (env, ("f",), PYTHON)):  # commas separate nothing
        with pytest.raises(InputError, match=sentence), typed_in(how):
            without_environments(labels, drop)
    with pytest.raises(InputError, match=r"drop_env= names every site: there would be no row left, name fewer$"):
        without_environments(env, env.tolist())
