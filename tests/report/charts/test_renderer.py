"""The process that draws: survives forks, limits and interruptions, or costs the page and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import invariscope as iv
from invariscope.report.charts import renderer
from invariscope.report.charts.renderer import Renderer
from tests.report.audits import audited

VERSION = "6.1"
LIMITED = """
import resource, sys
import numpy as np
import invariscope as iv
rng = np.random.default_rng(0)
audit = iv.audit(None, rng.normal(size=(60, 2)), rng.normal(size=60), np.repeat(["a", "b"], 30), criteria=("regret",),
                 n_boot=99)
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
try:
    audit.to_html(sys.argv[1])
except iv.InputError as error:
    print(error)
"""


def chart(text: str) -> dict[str, Any]:
    encoding = {"text": {"field": "text"}}
    return {"data": {"values": [{"text": text}]}, "mark": "text", "encoding": encoding}


@pytest.fixture
def drawing() -> Iterator[Renderer]:
    made = Renderer()
    yield made
    made.close()


def process_of(drawing: Renderer) -> subprocess.Popen[str]:
    assert drawing._process is not None
    return drawing._process


def test_one_process_draws_everything(drawing: Renderer) -> None:
    assert ">one</text>" in drawing.svg(chart("one"), VERSION)
    first = process_of(drawing).pid
    assert ">two Zürich 東京</text>" in drawing.svg(chart("two Zürich 東京"), VERSION)
    assert process_of(drawing).pid == first


def test_a_process_that_died_between_two_charts_is_started_again(drawing: Renderer) -> None:
    drawing.svg(chart("one"), VERSION)
    process_of(drawing).kill()
    process_of(drawing).wait()
    assert ">two</text>" in drawing.svg(chart("two"), VERSION)


def test_an_interruption_does_not_hand_its_chart_to_the_next(
    drawing: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing.svg(chart("warm"), VERSION)
    tell = renderer._tell

    def interrupted(*given: Any) -> None:
        tell(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(renderer, "_tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        drawing.svg(chart("stale"), VERSION)
    monkeypatch.setattr(renderer, "_tell", tell)
    assert ">fresh</text>" in drawing.svg(chart("fresh"), VERSION)


def test_a_forked_child_of_a_process_that_has_drawn_draws_too(tmp_path: Path) -> None:
    audit = audited(criteria=("regret",))
    audit.to_html(tmp_path / "parent.html")
    child = os.fork()
    if child == 0:
        try:
            audit.to_html(tmp_path / "child.html")
        finally:
            os._exit(0)
    until = time.monotonic() + 60
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.02)
    assert (tmp_path / "child.html").read_text() == (tmp_path / "parent.html").read_text()
    audit.to_html(tmp_path / "again.html")  # and the parent's process is still its own
    assert (tmp_path / "again.html").read_text() == (tmp_path / "parent.html").read_text()


def started_as(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Something else in place of what draws."""
    path = tmp_path / "other.py"
    path.write_text(code)
    monkeypatch.setattr(renderer.vega_process, "__file__", str(path))


def test_a_process_that_dies_is_told(drawing: Renderer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as other:
        started_as("import os; os.abort()", other, tmp_path)
        with pytest.raises(iv.InputError) as refusal:
            drawing.svg(chart("one"), VERSION)
    assert str(refusal.value) == (
        "charts cannot be drawn: the process that draws them ended with SIGABRT, as it does where memory is limited "
        "(ulimit -v): raise the limit, or do without the page"
    )
    assert ">one</text>" in drawing.svg(chart("one"), VERSION)


def test_a_process_that_takes_too_long_is_ended(
    drawing: Renderer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started_as("import time; time.sleep(60)", monkeypatch, tmp_path)
    monkeypatch.setattr(renderer, "PATIENCE", 0.1)
    with pytest.raises(iv.InputError, match=r"^charts cannot be drawn: one took more than 0\.1 s"):
        drawing.svg(chart("one"), VERSION)


def test_where_there_is_no_python_to_start_it_draws_here(drawing: Renderer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer.vega_process, "drawn", lambda chart, version: f"{chart} by {version}")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert drawing.svg({}, VERSION) == "{} by 6.1"


@pytest.mark.slow  # a process of its own
def test_a_limit_on_memory_costs_the_page_only(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stdout.startswith("charts cannot be drawn: the process that draws them ended with SIG")
    assert (path.read_text(), os.listdir(tmp_path)) == ("old", ["page.html"])
