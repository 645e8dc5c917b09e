"""A pytest plugin for one run on a mutated copy: is the copy what is tested, and how did a test fail?

`INVARISCOPE_MUTATED` is the folder of the copy, `INVARISCOPE_WITNESS` the file that is written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

NOT_THE_COPY = 17  # exit code
FIRST: dict[str, str | int] = {}  # the first failure
COUNTS = {"passed": 0, "skipped": 0}


def pytest_sessionstart(session: pytest.Session) -> None:
    import invariscope

    mutated = Path(os.environ["INVARISCOPE_MUTATED"]).resolve()
    if mutated not in Path(str(invariscope.__file__)).resolve().parents:
        pytest.exit(f"{invariscope.__file__} is tested, not {mutated}", returncode=NOT_THE_COPY)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.failed and not FIRST and call.excinfo is not None:
        FIRST.update(test=item.nodeid, when=call.when, error=call.excinfo.type.__name__)
    if report.outcome == "skipped" or (report.outcome == "passed" and report.when == "call"):
        COUNTS[report.outcome] += 1
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    Path(os.environ["INVARISCOPE_WITNESS"]).write_text(json.dumps(FIRST | COUNTS), encoding="utf-8")
