"""Digits lost to a large constant are said, or refused; numbers that are small or exact are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.errors import InputError
from invariscope.rows.digits import notes_on_lost_digits

ENV = np.repeat(["a", "b", "c"], 60)


def rows(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(180, 2))
    return X, X[:, 0] + rng.normal(size=180)


def test_a_column_that_lost_digits_is_named_in_every_result(seed: int) -> None:
    X, y = rows(seed)
    far = X + np.array([0.0, 1e15])
    said = 'Column "x1" holds numbers near 1e+15 within '
    for result in (
        iv.regret(far, y, ENV, n_boot=0),
        iv.influence_index(far, y, ENV, n_boot=0),
        iv.transport_gap(far, y, ENV, n_boot=0),
        iv.dric(y, far, ENV, baseline=y + 1, n_boot=0),
    ):
        (note,) = (note for note in result.notes if note.startswith(said))
        assert note.endswith("apart: only 2 of their digits tell rows apart. Subtract a constant where they come from.")
    for result in (iv.risk_variance(far[:, 1], y, ENV), iv.irm_penalty(far[:, 1], y, ENV)):
        assert any(note.startswith('Column "x0" holds numbers near 1e+15 within ') for note in result.notes)
    audit = iv.audit(None, far, y, ENV, n_boot=0, criteria="regret")
    assert audit.notes[0].startswith(said)
    assert not any("digits" in note for note in audit["regret"].notes)


def test_a_target_that_lost_digits_is_named(seed: int) -> None:
    X, y = rows(seed)
    said = 'Target "target" holds numbers near 1e+15 within '
    result = iv.regret(X, y + 1e15, ENV, n_boot=0)
    assert any(note.startswith(said) for note in result.notes)
    assert result.value == pytest.approx(iv.regret(X, y, ENV, n_boot=0).value, abs=0.02)
    audit = iv.audit(None, X, y + 1e15, ENV, n_boot=0, criteria="risk_variance")
    assert audit.notes[0].startswith(said)
    assert not any("Target" in note for one in audit.results.values() for note in one.notes)


@pytest.mark.parametrize("offset", [3e16, -3e16])
def test_where_no_digit_is_left_the_column_is_refused_and_the_remedy_works(offset: float, seed: int) -> None:
    X, y = rows(seed)
    with pytest.raises(InputError, match=r'^Column "x0" holds numbers near .*e\+16 within .* apart are lost\.'):
        iv.regret(X + offset, y, ENV)
    with pytest.raises(InputError, match=r'^Column "x0" holds numbers near .*e\+16 within .* apart are lost\.'):
        iv.audit(None, X + offset, y, ENV)
    with pytest.raises(InputError, match=r'^Target "target" holds numbers near .*e\+16'):
        iv.regret(X, y + offset, ENV)
    assert np.isfinite(iv.regret(X, y, ENV, n_boot=0).value)
    assert np.isfinite(iv.regret(X[:, 1:], y, ENV, n_boot=0).value)


def test_single_precision_ends_earlier(seed: int) -> None:
    X, _ = rows(seed)
    assert notes_on_lost_digits((X + 1e6).astype(np.float32), "ab")[0].startswith("a holds numbers near 1e+06 within ")
    assert notes_on_lost_digits(X + 1e6, "ab") == ()


@pytest.mark.parametrize(
    "column",
    [
        np.full(50, 1e17),
        1.0 - 1e-16 * np.arange(50),
        np.linspace(1.7e18, 1.7e18 + 8.64e13, 50),
        2020.0 + np.arange(50) % 5,
        np.arange(50) % 2 * 1e15,
    ],
    ids=["constant", "saturated", "a day in nanoseconds", "years", "zero or much"],
)
def test_numbers_that_mean_it_are_left_alone(column: Any) -> None:
    assert notes_on_lost_digits(column[:, None], ["column"]) == ()


def test_four_steps_of_the_floats_tell_nothing_and_five_one_digit() -> None:
    near = 2.0**52  # where floats are 1 apart
    with pytest.raises(
        InputError, match=r"^time holds numbers near 4\.5e\+15 within 4 of each other, .* 1 apart: the dig"
    ):
        notes_on_lost_digits(near + np.arange(5.0)[:, None], ["time"])
    assert notes_on_lost_digits(near + np.arange(6.0)[:, None], ["time"]) == (
        "time holds numbers near 4.5e+15 within 5 of each other, where floats are 1 apart: only 1 of their digits "
        "tells rows apart. Subtract a constant where they come from.",
    )


def test_rows_that_are_sorted_are_looked_at_from_the_first_to_the_last() -> None:
    """Neighbours are within a few steps of the floats there, and the whole is not."""
    column = 1e15 + 0.25 * np.arange(20_000.0)[:, None]
    assert notes_on_lost_digits(column, ["time"]) == ()
    assert len(notes_on_lost_digits(column[:200], ["time"])) == 1


def test_one_row_among_many_that_lies_elsewhere_is_seen() -> None:
    """Only some rows tell which columns to look at, but all of them what is refused."""
    column = 1e16 + 2.0 * (np.arange(20_000.0)[:, None] % 3)
    with pytest.raises(InputError, match=r"^time holds numbers near 1e"):
        notes_on_lost_digits(column, ["time"])
    column[12_345] = 0.0
    assert notes_on_lost_digits(np.hstack([column[::-1] * 0, column]), ["nothing", "time"]) == ()
    column[12_345] = 1e16 + 60
    assert len(notes_on_lost_digits(column, ["time"])) == 1


def test_numbers_that_differ_outside_the_rows_looked_at_are_seen() -> None:
    column = np.full((20_000, 1), 1e16)
    column[12_345] += 2
    with pytest.raises(InputError, match=r"^time holds numbers near 1e"):
        notes_on_lost_digits(column, ["time"])


def test_rows_of_weight_zero_lose_and_save_no_digits() -> None:
    column = 1e16 + 2.0 * (np.arange(300.0)[:, None] % 3)
    column[7] = 0.0
    assert notes_on_lost_digits(column, ["time"]) == ()
    with pytest.raises(InputError, match=r"^time holds numbers near 1e"):
        notes_on_lost_digits(column, ["time"], (np.arange(300) != 7).astype(float))
    env, weight = np.repeat([0, 1], 150), (np.arange(300) != 7).astype(float)
    for X, y in ((column, np.arange(300.0)), (np.arange(300.0)[:, None], column[:, 0])):
        iv.Environments(X, y, env)
        with pytest.raises(InputError, match="holds numbers near 1e"):
            iv.Environments(X, y, env, weight)
