"""Every door with every hostile input of its kind: the same numbers as a plain call, a note, or a clear refusal.

One test is one parameter of one door, and tells of every input that went wrong.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from functools import cache
from typing import Any

import pytest

from tests.hostile import kinds
from tests.hostile.case import REFUSED, REFUSED_OR_SAME, SAME, Input
from tests.hostile.doors import DOORS, Door
from tests.hostile.exceptions import expected_of, known_reason
from tests.hostile.judge import Refused, assert_same, assert_sound, outcome_of

CASES = [
    pytest.param(name, parameter, id=f"{name}-{parameter}", marks=[pytest.mark.slow] * door.slow)
    for name, door in DOORS.items()
    for parameter in door.kinds
]


def plain_value(door: Door, parameter: str) -> Any:
    return door.given.get(parameter, kinds.PLAIN.get(door.kinds[parameter]))


@cache
def plain_result(name: str, parameter: str) -> Any:
    """The call with nothing changed."""
    return DOORS[name](**{parameter: plain_value(DOORS[name], parameter)})


def judge(name: str, parameter: str, given: Input) -> str:
    """What became of a call, if that is right; an AssertionError, or the defect itself, if not."""
    door, value = DOORS[name], plain_value(DOORS[name], parameter)
    expected = expected_of(name, parameter, given)
    outcome = outcome_of(lambda: door(**{parameter: given.make(value)}))
    if isinstance(outcome, Refused):
        assert expected != SAME, f"refused: {outcome.message}"
        about = not given.says or expected != REFUSED or re.search(given.says, outcome.message)
        assert about, f"about something else: {outcome.message}"
        return "refused"
    assert expected != REFUSED, f"taken: {outcome!r:.200}"
    assert_sound(outcome)
    if expected in (SAME, REFUSED_OR_SAME):
        like = plain_result(name, parameter) if given.like is None else door(**{parameter: given.like(value)})
        assert_same(outcome, like, given.rtol)
        return "same"
    return "sound"


def wrongs(name: str, parameter: str) -> tuple[dict[str, str], Counter[str]]:
    """What went wrong with which input, and how often what was right."""
    wrong, right = {}, Counter()
    for given in kinds.FORMS[DOORS[name].kinds[parameter]]:
        reason, said = known_reason(name, parameter, given), ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", UserWarning)  # ours: they say what is odd
                right[judge(name, parameter, given)] += 1
        except Exception as error:
            said = f"{type(error).__name__}: {error}".strip()
        if reason and not said:
            wrong[given.name] = f"is right now, so take it out of KNOWN ({reason})"
        elif said and not reason:
            wrong[given.name] = said
    return wrong, right


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_hostile_input_gets_a_right_answer_or_a_clear_refusal(name: str, parameter: str) -> None:
    wrong, _ = wrongs(name, parameter)
    assert not wrong, "\n".join(f"{given}: {said[:600]}" for given, said in wrong.items())
