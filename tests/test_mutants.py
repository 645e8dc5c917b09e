"""The lists of mutants are up to date, so that `make mutants` tries all of them; and its runner can be trusted."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.mutant import ROOMS, SOURCE, Mutant, mutants_of
from tests.mutants.run import BROKEN, KILLED, SURVIVED, Copy, main

ALL = [mutant for room in ROOMS for mutant in mutants_of(room)]

HARMLESS = Mutant(
    name="harmless",
    file="wording.py",
    old='MINUS = "−"',
    new='MINUS = "\\u2212"',
    seen="nothing",
    tests=("test_wording.py::test_signs_of_changes",),
)


@pytest.mark.parametrize("room", ROOMS)
def test_every_mutant_can_still_be_made_and_has_its_tests(room: str) -> None:
    mutants = mutants_of(room)
    assert {mutant.name: reason for mutant in mutants if (reason := mutant.stale())} == {}
    assert all(mutant.seen for mutant in mutants)
    assert len(mutants) >= 5


def test_names_are_different_and_no_room_is_left_out() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in ALL).items() if count > 1] == []
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms | {"wording", "files"} == {room.split("/")[0] for room in ROOMS}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"file": "nowhere.py"}, "there is no nowhere.py"),
        ({"old": "not there"}, "its old text occurs 0 times in wording.py"),
        ({"file": "errors.py", "old": "E", "new": "F"}, "its old text occurs "),
        ({"new": "MINUS ="}, "its new text does not compile: "),
        ({"new": 'MINUS = "−"  # nothing'}, "it changes no code"),
        ({"tests": ("test_wording.py::test_nothing",)}, "there is no test test_wording.py::test_nothing"),
        ({"tests": ("test_nothing.py",)}, "there is no test test_nothing.py"),
    ],
)
def test_a_mutant_that_is_stale_says_why(change: dict[str, object], reason: str) -> None:
    said = dataclasses.replace(HARMLESS, **({"new": 'MINUS = "-"'} | change)).stale()
    assert said is not None
    assert said.startswith(reason)


@pytest.mark.slow
def test_the_runner_tells_killed_from_survived_and_from_broken(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    path, before = copy.package / "wording.py", (SOURCE / "wording.py").read_bytes()
    assert copy.try_out(HARMLESS, 60.0).verdict == SURVIVED
    wrong = copy.try_out(dataclasses.replace(HARMLESS, new='MINUS = "-"'), 60.0)
    assert (wrong.verdict, wrong.because) == (KILLED, "test_wording.py::test_signs_of_changes")
    broken = copy.try_out(dataclasses.replace(HARMLESS, new="MINUS = minus"), 60.0)
    assert broken.verdict == BROKEN  # nothing can be imported: that says nothing about the tests
    assert path.read_bytes() == before
    assert (SOURCE / "wording.py").read_bytes() == before


def test_names_that_nobody_knows_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["--only", "nobody"], "no mutant is called nobody"),
        (["--room", "cellar"], "there is no room cellar"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
        assert said in capsys.readouterr().err
