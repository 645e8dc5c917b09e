"""Q̂ of two models on the same rows: the paired interval by hand, and what cannot be paired."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.criteria.dric.dric import dric
from invariscope.errors import InputError


def rows_of(seed: int) -> SimpleNamespace:
    rng = np.random.default_rng(seed)
    env = np.repeat(["u", "v", "w"], 60)
    X = rng.normal(size=(180, 2)) + 0.4 * np.repeat([0.0, 1.0, 2.0], 60)[:, None] * [1.0, -1.0]
    y = X[:, 0] + rng.normal(size=180)
    return SimpleNamespace(X=X, env=env, f=X[:, 0] ** 2, g=X.sum(axis=1), b=X[:, 0] - X[:, 1], y=y)


def found(rows: Any, f: Any, **changed: Any) -> Any:
    given = {"baseline": rows.b, "n_boot": 39, **changed}
    return dric(f, given.pop("X", rows.X), given.pop("env", rows.env), **given)


def test_the_interval_is_that_of_the_draws_they_share(seed: int) -> None:
    rows = rows_of(seed)
    one, other = found(rows, rows.f), found(rows, rows.g)
    difference = one.difference(other)
    np.testing.assert_array_equal(one.draws[:, 1], other.draws[:, 1])
    first, second = (result.draws[:, 0] / result.draws[:, 1] for result in (one, other))
    assert difference.value == one.value - other.value
    assert difference.log10 == pytest.approx(math.log10(one.numerator / other.numerator), rel=1e-12)
    np.testing.assert_allclose(difference.interval, np.quantile(first - second, [0.025, 0.975]), rtol=1e-12)
    logs = np.log10(one.draws[:, 0] / other.draws[:, 0])
    np.testing.assert_allclose(difference.log10_interval, np.quantile(logs, [0.025, 0.975]), rtol=1e-9)
    back = other.difference(one)
    np.testing.assert_allclose(back.log10_interval, [-end for end in difference.log10_interval[::-1]], rtol=1e-12)


def test_notes_on_one_of_two_models_say_which(seed: int) -> None:
    rows = rows_of(seed)
    one, other = found(rows, rows.f, y=rows.y), found(rows, 3.0 * rows.f, y=rows.y)
    notes = one.difference(other).notes
    shared = [note for note in one.notes if note in other.notes]
    assert shared
    assert all(note in notes for note in shared)
    spread = [note for note in notes if "The spread of the model's" in note]
    assert [note.split(":")[0] for note in spread] == ["The first", "The second"]


def test_what_moves_both_alike_drops_out(seed: int) -> None:
    rows = rows_of(seed)
    half = found(rows, rows.f).difference(found(rows, 0.5 * rows.f))
    np.testing.assert_allclose((half.log10, *half.log10_interval), 2 * math.log10(2.0), rtol=1e-9)
    assert found(rows, rows.f).interval[1] - found(rows, rows.f).interval[0] > 0.01
    same = found(rows, rows.f).difference(found(rows, rows.f))
    assert (same.value, same.log10, *same.interval, *same.log10_interval) == (0.0,) * 6


def test_models_with_representations_of_their_own_are_paired(seed: int) -> None:
    rows = rows_of(seed)
    one, other = (found(rows, f, representation=Z) for f, Z in ((rows.f, rows.X[:, :1]), (rows.g, rows.X**2)))
    difference = one.difference(other)
    assert difference.log10_interval[0] < difference.log10_interval[1]
    own = [found(rows, f, y=rows.y, terms="own_means", n_boot=19) for f in (rows.f, rows.g)]
    assert math.isfinite(own[0].difference(own[1]).interval[0])


def test_a_model_that_does_not_move_is_infinitely_far_below(seed: int) -> None:
    rows = rows_of(seed)
    nothing = found(rows, np.zeros(180))
    difference = nothing.difference(found(rows, rows.f))
    assert difference.log10 == -math.inf
    assert math.isnan(difference.log10_interval[0])
    assert math.isfinite(difference.interval[0])
    assert math.isnan(nothing.difference(found(rows, np.zeros(180))).log10)


def _other_rows(rows: Any) -> dict[str, Any]:
    return {"X": rows.X + np.where(np.arange(180) == 3, 1e-3, 0.0)[:, None]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_rows, "were not computed on the same rows: give both the same X"),
        (lambda rows: {"pairwise": True}, "the same X, env, weight, baseline, ratio, pairwise, svd and seed"),
        (lambda rows: {"seed": 1}, "were not computed on the same rows"),
        (lambda rows: {"baseline": rows.b + 1e-3}, "were not computed on the same rows"),
        (lambda rows: {"ratio": "gaussian"}, "were not computed on the same rows"),
        (lambda rows: {"weight": np.resize([1.0, 2.0], 180)}, "were not computed on the same rows"),
        (lambda rows: {"env": np.char.upper(rows.env)}, "were not computed on the same rows"),
        (lambda rows: {"n_boot": 19}, "n_boot is 39 for one result and 19 for the other"),
        (lambda rows: {"terms": "losses", "y": rows.y}, "terms is 'predictions' for one result and 'losses' for the"),
        (lambda rows: {"self_normalised": True}, "self_normalised is False for one result and True for the other"),
    ],
)
def test_results_of_other_rows_ratios_or_draws_are_refused(change: Any, message: str, seed: int) -> None:
    rows = rows_of(seed)
    with pytest.raises(InputError, match=message):
        found(rows, rows.f).difference(found(rows, rows.g, **change(rows)))


def test_without_draws_or_results_there_is_no_difference(seed: int) -> None:
    rows = rows_of(seed)
    with pytest.raises(InputError, match="compute both with n_boot=99"):
        found(rows, rows.f, n_boot=0).difference(found(rows, rows.g, n_boot=0))
    with pytest.raises(InputError, match="a float was given: give another result"):
        found(rows, rows.f, n_boot=0).difference(0.5)
