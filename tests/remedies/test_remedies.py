"""Every refusal's remedy, followed, leads to a result; and no refusal in the source is left out."""

from __future__ import annotations

from contextlib import chdir
from importlib import import_module
from pathlib import Path

import pytest

from invariscope.errors import InputError
from tests.remedies.case import Case, places_noted, reached_by, sites

#: Modules of cases beside this file: each has CASES, and as ROOM the beginning of the files of the source it is about.
MODULES = {
    path.stem: import_module(f"tests.remedies.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("*.py"))
    if path.stem not in ("case", Path(__file__).stem)
}
CASES = [
    pytest.param(case, id=f"{name}-{k}") for name, module in MODULES.items() for k, case in enumerate(module.CASES)
]


@pytest.mark.parametrize("case", CASES)
def test_a_remedy_that_is_followed_leads_to_a_result(case: Case, tmp_path: Path) -> None:
    with chdir(tmp_path):
        with pytest.raises(InputError) as refused:
            case.refused()
        assert case.says in str(refused.value)
        if not isinstance(case.followed, str):
            assert case.followed() is not None


@pytest.mark.parametrize("name", MODULES)
def test_no_refusal_is_without_its_remedy(name: str, tmp_path: Path) -> None:
    known = [site for site in sites() if site.file.startswith(MODULES[name].ROOM)]
    left = {*known}
    for number, case in enumerate(MODULES[name].CASES):
        folder = tmp_path / str(number)
        folder.mkdir()
        with chdir(folder), places_noted() as made:
            try:
                case.refused()
            except InputError as error:
                left -= reached_by(error, made, known)
    assert not left, "refusals that no case in tests/remedies reaches:\n" + "\n".join(map(str, sorted(left)))


def test_every_refusal_of_the_source_is_in_some_room() -> None:
    rooms = [module.ROOM if isinstance(module.ROOM, tuple) else (module.ROOM,) for module in MODULES.values()]
    outside = [str(site) for site in sites() if not any(site.file.startswith(room) for room in rooms)]
    assert not outside, "refusals in no module's ROOM:\n" + "\n".join(outside)
