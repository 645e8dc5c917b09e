"""Registering a criterion: what is wrong with it is said when it is registered, or when an audit first runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.registry import CRITERIA, criterion
from invariscope.results import Result

WORDS: dict[str, Any] = {"title": "Rows", "better": "higher", "tells": "How many there are.", "cannot_tell": "More."}


@pytest.fixture(autouse=True)
def same_criteria_afterwards() -> Iterator[None]:
    before = dict(CRITERIA)
    yield
    CRITERIA.clear()
    CRITERIA.update(before)


def test_needs_may_be_listed_in_any_way() -> None:
    @criterion(needs=["target", "compared"], call=lambda material, options: Result(value=1.0), **WORDS)
    def rows_there_are() -> None: ...

    assert CRITERIA["rows_there_are"].needs == {"target", "compared"}


@pytest.mark.parametrize(("change", "message"), [({"needs": ["targets"]}, "targets"), ({"better": "more"}, "'more'")])
def test_what_nobody_has_cannot_be_needed(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        criterion(**{"needs": ["target"], "call": lambda *given: None, **WORDS, **change})


def test_a_name_that_is_taken_is_refused_and_the_same_function_may_be_written_again() -> None:
    def regret() -> None: ...

    with pytest.raises(ValueError, match=r'a criterion "regret" in invariscope\.criteria\.regret\.regret'):
        criterion(needs=["target"], call=lambda *given: None, **WORDS)(regret)
    for _ in range(2):  # as in a notebook, whose cells are run again

        @criterion(needs=["target"], call=lambda *given: None, **WORDS)
        def written_twice() -> None: ...

    assert CRITERIA["written_twice"].function is written_twice


def test_an_audit_says_which_criterion_gave_no_result(seed: int) -> None:
    @criterion(needs=["target"], call=lambda material, options: 0.5, **WORDS)
    def half() -> None: ...

    X = np.random.default_rng(seed).normal(size=(90, 2))
    with pytest.raises(TypeError, match='criterion "half" gave a float: it must give a Result'):
        iv.audit(None, X, X[:, 0], np.repeat(["a", "b", "c"], 30), n_boot=99, criteria="half")
