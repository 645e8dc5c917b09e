"""Settings of a wrong type are refused in one sentence at every door, never ignored and never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from torch import nn

import invariscope as iv
from invariscope.errors import InputError

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y, ENV = X[:, 0] + RNG.normal(size=N), np.repeat(["a", "b"], N // 2)
HEAD = iv.LinearHead([[1.0, 0.0]], 0.0)
NET = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


def first(rows: Any) -> Any:
    return rows[:, 0]


SWITCHES: dict[str, Callable[[Any], Any]] = {
    "relative": lambda value: iv.worst_case(HEAD, X, Y, ENV, n_boot=0, radii=[0.1], relative=value),
    "exact": lambda value: iv.influence_index(X, Y, ENV, n_boot=0, exact=value),
    "intercept": lambda value: iv.influence_index(X, Y, ENV, n_boot=0, intercept=value),
    "probabilistic": lambda value: iv.Split(predict=first, probabilistic=value),
    "standardise": lambda value: iv.InvariantRegressor(steps=2, standardise=value).fit(X, Y, env=ENV),
}


@pytest.mark.parametrize("value", ["a", 5, [], -1, None], ids=repr)
@pytest.mark.parametrize("name", SWITCHES)
def test_what_is_neither_yes_nor_no(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} is .*: give True or False$"):
        SWITCHES[name](value)


@pytest.mark.parametrize("name", SWITCHES)
def test_yes_and_no_of_numpy_are_those_of_python(name: str) -> None:
    SWITCHES[name](np.True_)


PROGRESS: list[Callable[[Any], Any]] = [
    lambda value: iv.audit(None, X, Y, ENV, criteria="regret", n_boot=0, progress=value),
    lambda value: iv.dric(Y, X, ENV, baseline=np.zeros(N), n_boot=0, progress=value),
    lambda value: iv.InvariantRegressor(steps=2, progress=value).fit(X, Y, env=ENV),
]


@pytest.mark.parametrize("value", ["a", 5, [], None], ids=repr)
@pytest.mark.parametrize("call", PROGRESS)
def test_what_can_tell_no_progress(call: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(InputError, match=r"^progress is .*: give True, False, or a function that takes a text$"):
        call(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: iv.Environments(X, Y, ENV, columns=5), r"^columns is 5: give a list, such as \[\"age\"\]$"),
        (lambda: iv.Environments(X, Y, ENV, columns=["u"]), "^columns has 1 names for 2 columns: give one name per"),
        (lambda: iv.Environments(X, Y, ENV, columns=[]), "^columns has 0 names for 2 columns: give one name per"),
        (lambda: iv.Split(predict=first, columns=5), "^columns is 5: give a list"),
        (lambda: iv.Split(predict=first, classes=5), "^classes is 5: give a list"),
        (lambda: iv.Split(predict=first, task=[]), r'^task "\[\]" is unknown'),
        (lambda: iv.risk_variance(Y, Y, ENV, loss=[]), r'^loss "\[\]" is unknown'),
        (lambda: iv.split(NET, inputs=[]), r"^inputs is \[\]: give the name of an input"),
        (lambda: iv.split(NET, inputs="a", rows=X), "^inputs='a' names one of several inputs, and X is one ndarray"),
        (lambda: iv.audit(iv.split(NET, inputs="a"), X, Y, ENV), "^inputs='a' names one of several inputs, and X is"),
    ],
)
def test_what_was_ignored_or_ended_in_a_traceback(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
