"""Sound files of every type of model, tampered with at random: refused in a sentence, or used; none crashes or hangs.

The few that are drawn here are of many thousands; `python -m tests.models.forgeries 1000 0 svc` tries those of a model.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.forgeries import models

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PER_MODEL = 5
Outcome = tuple[str, str, str, str, str]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> list[Outcome]:
    """All in a process of their own, which has started no threads: it is forked once for every file."""
    seed = request.config.getoption("--seed", default=0)
    command = [sys.executable, "-m", "tests.models.forgeries", str(PER_MODEL), str(seed)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith('["')]  # some models talk, if told to
    return [tuple(json.loads(line)[:5]) for line in lines]


def test_sound_files_are_read(outcomes: list[Outcome]) -> None:
    sound = {name: outcome for name, what, _, _, outcome in outcomes if what == "nothing"}
    assert sound == dict.fromkeys(models(), "same")


def test_forged_files_are_refused_or_used(outcomes: list[Outcome]) -> None:
    assert len(outcomes) > 4 * len(models())
    assert [odd for odd in outcomes if odd[4] not in ("refused", "same", "other")] == []
