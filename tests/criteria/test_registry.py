"""Registering a criterion: what is wrong with it is said when it is registered, or when an audit first runs it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
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


def test_a_criterion_on_request_is_left_out_until_it_is_asked_for(seed: int) -> None:
    called = []

    @criterion(needs=["target"], call=lambda *given: called.append(1) or Result(value=1.0), on_request=True, **WORDS)
    def rows_there_are() -> None: ...

    X = np.random.default_rng(seed).normal(size=(90, 2))
    rows = (None, X, X[:, 0] + X[:, 1] ** 2, np.repeat(["a", "b", "c"], 30))
    found = iv.audit(*rows, n_boot=99)
    assert called == []
    assert found.left_out["rows_there_are"] == (
        'it takes long: ask for it with criteria="all", or by name with criteria="rows_there_are"'
    )
    assert "rows_there_are" not in iv.audit(*rows, n_boot=99, criteria="risk_variance").left_out  # nor told unasked
    by_name, every = (iv.audit(*rows, n_boot=99, criteria=names) for names in ("rows_there_are", "all"))
    assert set(by_name.results) == {"regret", "rows_there_are"}
    unmentioned = {name for name, entry in CRITERIA.items() if not entry.mentioned}
    assert unmentioned >= {"mmd", "hsic", "kmaxic", "subgroup_invariance"}
    assert set(every.results) == {*found.results, "rows_there_are", *unmentioned}
    assert not unmentioned & {*found.results, *found.left_out}
    assert set(every.left_out) == set(found.left_out) - {"rows_there_are"}


def test_a_criterion_that_lacks_something_is_not_said_to_be_had_for_the_asking(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(90, 2))
    found = iv.audit(None, X, X[:, 0] + X[:, 1] ** 2, np.repeat(["a", "b", "c"], 30), n_boot=99)
    assert found.left_out["worst_case_in_inputs"] == "needs a torch model"


def test_a_criterion_makes_no_more_draws_than_it_says_are_enough(seed: int) -> None:
    made: dict[str, list[int]] = {"few": [], "all": []}

    @criterion(
        needs=["target"], call=lambda _, o: made["few"].append(o.n_boot) or Result(value=1.0), draws=120, **WORDS
    )
    def few_draws() -> None: ...

    @criterion(needs=["target"], call=lambda _, o: made["all"].append(o.n_boot) or Result(value=1.0), **WORDS)
    def all_draws() -> None: ...

    X = np.random.default_rng(seed).normal(size=(90, 2))
    for n_boot in (99, 120, 121, 999):
        iv.audit(None, X, X[:, 0], np.repeat(["a", "b", "c"], 30), n_boot=n_boot, criteria=["few_draws", "all_draws"])
    assert made == {"few": [99, 120, 120, 120], "all": [99, 120, 121, 999]}


@pytest.mark.parametrize("name", ["worst_case", "worst_case_in_inputs"])
def test_an_audit_draws_as_often_as_the_worst_case_does_by_itself(name: str) -> None:
    entry = CRITERIA[name]
    assert entry.draws == signature(entry.function).parameters["n_boot"].default == 199


def test_an_audit_says_which_criterion_gave_no_result(seed: int) -> None:
    @criterion(needs=["target"], call=lambda material, options: 0.5, **WORDS)
    def half() -> None: ...

    X = np.random.default_rng(seed).normal(size=(90, 2))
    with pytest.raises(TypeError, match='criterion "half" gave a float: it must give a Result'):
        iv.audit(None, X, X[:, 0], np.repeat(["a", "b", "c"], 30), n_boot=99, criteria="half")
