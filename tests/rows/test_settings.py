"""Draws, folds, seeds and shares: what is no such number is refused in one sentence, at every door alike."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariscope as iv
from invariscope.errors import InputError
from invariscope.rows.resampling import generator
from invariscope.rows.settings import (
    MOST_DRAWS,
    NOT_DRAWN,
    number_of_draws,
    real_number,
    share_above_zero,
    whole_number,
)

ROWS = 180
ENV = np.repeat(["a", "b", "c"], ROWS // 3)
NO_NUMBERS = [-5, 2.5, "99", True, False, math.nan, None, 99.0, np.array([99]), [99]]


def some_rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2))
    return X, X[:, 0] + rng.normal(size=ROWS)


X, Y = some_rows()
HEAD = iv.LinearHead([[1.0, 0.0]], 0.0)
DOORS: dict[str, Callable[..., Any]] = {
    "regret": lambda **given: iv.regret(X, Y, ENV, **given),
    "influence_index": lambda **given: iv.influence_index(X, Y, ENV, **given),
    "transport_gap": lambda **given: iv.transport_gap(X, Y, ENV, **given),
    "worst_case": lambda **given: iv.worst_case(HEAD, X, Y, ENV, **given),
    "dric": lambda **given: iv.dric(X[:, 0], X, ENV, baseline=X[:, 1], **given),
    "audit": lambda **given: iv.audit(None, X, Y, ENV, **given),
}
FEWEST = {"influence_index": 1, "dric": 19}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("n_boot", NO_NUMBERS, ids=repr)
def test_what_is_no_number_of_draws_is_refused_at_every_door(door: str, n_boot: Any) -> None:
    otherwise = '"auto", ' if door == "dric" else ""
    expected = (
        f"n_boot is {n_boot!r}: give {otherwise}0 for point estimates without intervals, or a whole number of draws "
        f"from {FEWEST.get(door, 99)} to 1,000,000"
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}$"):
        DOORS[door](n_boot=n_boot)


@pytest.mark.parametrize("door", DOORS)
def test_too_many_draws_are_refused_with_the_most_that_make_sense(door: str) -> None:
    expected = (
        "n_boot is 1000000000000, and more than 1,000,000 cost time and memory but change no digit that is shown: give "
    )
    with pytest.raises(InputError, match=f"^{re.escape(expected)}"):
        DOORS[door](n_boot=10**12)


@pytest.mark.parametrize("door", ["regret", "transport_gap", "worst_case", "audit"])
def test_an_interval_needs_99_draws(door: str) -> None:
    with pytest.raises(InputError, match=r"^n_boot is 98: give 0 for point estimates"):
        DOORS[door](n_boot=98)


@pytest.mark.parametrize("door", DOORS)
def test_the_remedies_work(door: str) -> None:
    for n_boot in (np.int64(99), 0):
        result = DOORS[door](n_boot=n_boot)
        results = result.results.values() if door == "audit" else [result]
        drawn = [one for one in results if hasattr(one, "pvalue")]
        assert all(math.isnan(one.pvalue) == (n_boot == 0) for one in drawn)
        assert all((len(one.null) == 0) == (n_boot == 0) for one in drawn)
        assert all((NOT_DRAWN in one.notes) == (n_boot == 0) for one in drawn)


def test_the_borders() -> None:
    assert [number_of_draws(n) for n in (0, 99, MOST_DRAWS)] == [0, 99, MOST_DRAWS]
    assert number_of_draws(19, fewest=19) == 19
    for n in (1, 98, MOST_DRAWS + 1):
        with pytest.raises(InputError):
            number_of_draws(n)


@pytest.mark.parametrize(
    "seed",
    [-1, 2.5, "0", True, None, math.nan, np.random.default_rng(0)],
    ids=lambda seed: repr(seed).partition(" at ")[0],
)
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    for door, call in DOORS.items():
        with pytest.raises(InputError, match=f"^seed is {re.escape(repr(seed))}: give a whole number of at least 0$"):
            call(seed=seed, **({} if door == "dric" else {"n_boot": 99}))


def test_seeds_of_any_size_and_of_numpy_are_seeds() -> None:
    assert generator(2**70).random() != generator(0).random()
    assert generator(np.int64(3)).random() == generator(3).random()


@pytest.mark.parametrize("folds", [1, 0, 2.0, "5", True, None, 10**9], ids=repr)
def test_what_is_no_number_of_folds_is_refused(folds: Any) -> None:
    for door in ("regret", "transport_gap"):
        sentence = f"^folds is {re.escape(repr(folds))}: give a whole number from 2 to 10,000$"
        with pytest.raises(InputError, match=sentence):
            DOORS[door](folds=folds)
    assert DOORS["regret"](folds=np.int64(2), n_boot=0).explained < 1


@pytest.mark.parametrize("value", [0, -1, "0.05", math.nan, True, None, math.inf, [0.05]], ids=repr)
def test_shares_that_are_none_are_refused_with_their_range(value: Any) -> None:
    for name, wanted in (
        ("alpha", "give a number above 0 and below 1, such as 0.05 for 5 %"),
        ("margin", "give a number above 0 and below 1, such as 0.02 for 2 %"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(f'{name} is {value!r}: {wanted}')}$"):
            DOORS["audit"](n_boot=99, **{name: value})


@pytest.mark.parametrize("share", [1, 1.0, 2])
@pytest.mark.parametrize(("name", "example"), [("alpha", "0.05 for 5 %"), ("margin", "0.02 for 2 %")])
def test_shares_of_all_or_more_are_refused(name: str, example: str, share: float) -> None:
    """Whoever gives 2 means 2 %."""
    with pytest.raises(InputError, match=f"^{name} is {share}: give a number above 0 and below 1, such as {example}$"):
        DOORS["audit"](n_boot=99, **{name: share})


def test_shares_of_numpy_are_shares() -> None:
    audit = DOORS["audit"](n_boot=99, alpha=np.float32(0.5), margin=np.float64(0.999))
    assert (audit.settings.alpha, audit.settings.margin) == (0.5, 0.999)
    assert type(audit.settings.alpha) is float
    assert share_above_zero("alpha", 0.999, 0.05) == 0.999
    assert whole_number(2, "folds", 2) == 2


def test_numbers_at_their_bounds() -> None:
    assert real_number(0, "weight_decay") == 0.0
    assert real_number(np.float32(0.5), "dropout", below=1.0) == 0.5
    assert real_number(1e-300, "learning_rate", above=True) == 1e-300
    for given, settings, wanted in (
        (0, {"above": True}, "above 0"),
        (1.0, {"below": 1.0}, "of at least 0 and below 1"),
        (-1e-300, {}, "of at least 0"),
        (math.inf, {}, "of at least 0"),
        (2, {"least": 2.0, "above": True}, "above 2"),
    ):
        with pytest.raises(InputError, match=f"^rate is {re.escape(repr(given))}: give a number {wanted}$"):
            real_number(given, "rate", **settings)


@pytest.mark.parametrize("given", [5, None, 2.5, b"ab"], ids=repr)
def test_what_is_no_list_is_refused_at_every_door_that_takes_several(given: Any) -> None:
    table = pd.DataFrame({"y": Y, "a": X[:, 0], "b": X[:, 1], "site": ENV})
    hits = (Y > 0).astype(int)
    doors: dict[tuple[str, str], Callable[[Any], Any]] = {
        ("loss", '"log_loss"'): lambda value: iv.worst_case(HEAD, X, hits, ENV, loss=value, n_boot=0),
        ("classes", "0, 1"): lambda value: iv.worst_case(HEAD, X, hits, ENV, classes=value, n_boot=0),
        ("criteria", '"dric"'): lambda value: iv.audit(None, X, Y, ENV, criteria=value, n_boot=0),
        ("features", '"age"'): lambda value: iv.read(table, target="y", env="site", features=value),
        ("drop", '"age"'): lambda value: iv.read(table, target="y", env="site", drop=value),
        ("na", '"-"'): lambda value: iv.read(table, target="y", env="site", na=value),
    }
    for (name, example), door in doors.items():
        if given is None and name != "loss":  # None is what they are if nobody names them
            continue
        sentence = f"{name} is {given!r}: give a list, such as [{example}]"
        with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
            door(given)
    assert iv.worst_case(HEAD, X, hits, ENV, loss=["log_loss"], classes=[0, 1], n_boot=0).of == "log_loss"
    assert iv.read(table, target="y", env="site", drop=["a"]).columns == ("b",)


@pytest.mark.parametrize("damping", [None, [], "0.1", True, math.nan, math.inf, -1, 1e30], ids=repr)
def test_what_is_no_damping_is_refused(damping: Any) -> None:
    sentence = f'damping is {damping!r}: give a number of at least 0 and below 1e+30, or "auto"'
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        DOORS["influence_index"](damping=damping, n_boot=0)
    assert DOORS["influence_index"](damping=0.1, n_boot=0).damping == 0.1


@pytest.mark.parametrize("bins", [0, 2.5, True, "5", None, 10**12], ids=repr)
def test_what_is_no_number_of_bins_is_refused(bins: Any) -> None:
    share, hits = 1 / (1 + np.exp(-X[:, 0])), (Y > 0).astype(int)
    with pytest.raises(InputError, match=f"^bins is {re.escape(repr(bins))}: give a whole number from 1 to 10,000$"):
        iv.calibration_variance(share, hits, ENV, bins=bins)
    assert iv.calibration_variance(share, hits, ENV, bins=10_000).value >= 0


@pytest.mark.parametrize("svd", [0, 1.5, True, "2", [1]], ids=repr)
def test_what_is_no_number_of_directions_is_refused(svd: Any) -> None:
    sentence = f"svd is {svd!r}: give the number of directions to keep, at least 1"
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        iv.density_ratio(X, ENV, svd=svd)
    assert iv.density_ratio(X, ENV, svd=1).labels == ("a", "b", "c")
