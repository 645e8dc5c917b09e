"""Refusals of what every room uses: names of files, what results are asked, and the process that draws charts."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import invariscope as iv
from invariscope import files
from invariscope.report.charts import renderer
from invariscope.report.charts.renderer import Renderer
from tests.remedies import cli
from tests.remedies.case import Case

ROOM = ("files.py", "results.py", "progress.py", "wording.py", "shortening.py", "errors.py", "report/")
ENV = np.repeat(["a", "b"], 40)
Z = np.random.default_rng(0).normal(size=(80, 3))
Y = Z[:, 0] + np.random.default_rng(1).normal(size=80)


@cache
def audited() -> Any:
    return iv.audit(None, Z, Y, ENV, n_boot=0, criteria="regret")


@cache
def compared() -> Any:
    return iv.dric(Y / 2, Z, ENV, baseline=Y / 3, n_boot=0)


@cache
def index() -> Any:
    return iv.influence_index(Z, Y, ENV, n_boot=0)


# --- files ------------------------------------------------------------------------------------------------------------
def written(path: str, make: Callable[[], Any] = lambda: None) -> Any:
    """The numbers of an audit in a file, after something was made in the folder."""
    if not os.path.lexists(path):
        make()
    return audited().to_json(path)


def a_socket() -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")


@contextmanager
def failing(function: str, number: int) -> Iterator[None]:
    """The system answers with an error."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with patch.object(os, function, fail):
        yield


def refused_by_the_system(number: int, function: str = "replace") -> Any:
    with failing(function, number):
        return written("n.json")


def in_a_locked_folder() -> Any:
    with patch.object(os, "access", lambda *_, **__: False):  # root may write anywhere
        return written("n.json")


def piped(read: bool) -> Any:
    """Into a pipe that has a reader, or none."""
    if not Path("pipe").exists():
        os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK) if read else None
    try:
        return written("pipe")
    finally:
        if reader is not None:
            os.close(reader)


def full_pipe() -> Any:
    """Into a pipe whose reader has stopped to read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        os.write(writing, bytes(1 << 20))
        with patch.object(files, "PATIENCE", 0.01):
            return written(f"/dev/fd/{writing}")
    finally:
        os.close(reading)
        os.close(writing)


def loaded(whole: bool) -> Any:
    """A model from a file that was cut off, or made anew."""
    iv.InvariantRegressor(steps=1).fit(Z, Y, env=ENV).to_safetensors("m.safetensors")
    if not whole:
        Path("m.safetensors").write_bytes(Path("m.safetensors").read_bytes()[:50])
    return iv.InvariantRegressor.from_safetensors("m.safetensors")


# --- charts -----------------------------------------------------------------------------------------------------------
def drawn_by(program: str, patience: float = 60.0) -> Any:
    """A page by a process that runs another program."""
    Path("program.py").write_text(program)
    with patch.object(renderer.vega_process, "__file__", "program.py"), patch.object(renderer, "PATIENCE", patience):
        return drawn()


def drawn() -> Any:
    """The command that draws a page, by a process of its own."""
    drawing = Renderer()
    try:
        with patch("invariscope.report.charts.svg.RENDERER", drawing):
            return cli.audit("--html", "page.html")
    finally:
        drawing.close()


def not_started() -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with patch.object(renderer.subprocess, "Popen", fail):
        return drawn()


CASES = [
    Case(
        "give True, False, or a function that takes a text",
        lambda: iv.audit(None, Z, Y, ENV, n_boot=0, progress="yes"),
        lambda: iv.audit(None, Z, Y, ENV, n_boot=0, progress=[].append),
    ),
    # --- files ---
    Case("name a file in it", lambda: written("d", lambda: os.mkdir("d")), lambda: written("d/n.json")),
    Case("name a file, or -", lambda: written("s", a_socket), lambda: written("-")),
    Case("make it first", lambda: written("d/n.json"), lambda: written("d/n.json", lambda: os.mkdir("d"))),
    Case("choose another place", in_a_locked_folder, lambda: written("n.json")),
    Case("start its reader first", lambda: piped(read=False), lambda: piped(read=True)),
    Case("or name a file", lambda: piped(read=False), lambda: written("n.json")),
    Case("name a file instead", full_pipe, lambda: written("n.json")),
    Case("no file can have this name; choose another", lambda: written("n\0"), lambda: written("n.json")),
    Case("choose a shorter one", lambda: written("n" * 300), lambda: written("n" * 200)),
    Case(
        "leads back to itself: name a file",
        lambda: written("l", lambda: os.symlink("l", "l")),
        lambda: written("n.json"),
    ),
    Case("is a file, not a folder", lambda: written("f/n.json", Path("f").touch), lambda: written("n.json")),
    Case("you may not write there; choose", lambda: refused_by_the_system(errno.EACCES), lambda: written("n.json")),
    Case("can only be read; choose", lambda: refused_by_the_system(errno.EROFS), lambda: written("n.json")),
    Case("choose another place", lambda: written("/dev/full"), lambda: written("n.json")),
    Case("give the path of a file", lambda: audited().to_json(5), lambda: audited().to_json("audit.json")),
    Case("make it anew", lambda: loaded(whole=False), lambda: loaded(whole=True)),
    # --- results ---
    Case("there are a, b", lambda: index().influence_of("c"), lambda: index().influence_of("a")),
    # --- charts ---
    Case("do without the page", not_started, cli.audit),
    Case("do without the page", lambda: drawn_by("import time; time.sleep(60)", 0.1), cli.audit),
    Case("raise the limit, or", lambda: drawn_by("import os; os.abort()"), drawn),
    Case("or do without the page", lambda: drawn_by("import os; os.abort()"), cli.audit),
]
