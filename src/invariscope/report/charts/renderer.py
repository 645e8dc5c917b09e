"""Charts are drawn by a process of its own, which this one starts with its first chart and keeps.

What draws brings a JavaScript engine along. Inside this process, its threads would not survive a fork, so that a child
would wait for them for ever, and where memory is limited it would take the whole process down with it.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

from invariscope.errors import InputError
from invariscope.report.charts import vega_process

#: Seconds to wait for one chart; usual ones take a few hundredths, the first half a second.
PATIENCE = 120.0

Process = subprocess.Popen[str]


class Renderer:
    """The process that draws, started when it is first needed, and again if it has died in the meantime."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._lock = threading.Lock()

    def svg(self, chart: dict[str, Any], version: str) -> str:
        """A Vega-Lite chart as SVG."""
        if hasattr(sys, "frozen") or not sys.executable:  # no Python there that could be started
            return vega_process.drawn(chart, version)
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _started()
            try:
                return _answer(self._process, {"chart": chart, "version": version})
            except BaseException:
                self._end()  # whatever it may still answer belongs to no question
                raise

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def forget(self) -> None:
        """In a forked child: the process is the parent's, and the lock may be held by a thread that is not here."""
        if self._process is not None:
            self._process.returncode = 0  # not for this process to wait for
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()  # this process's copy: what draws must notice when the parent ends
        self._process, self._lock = None, threading.Lock()


def _started() -> Process:
    command = [sys.executable, "-I", vega_process.__file__]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
        )
    except OSError as error:
        raise InputError(
            f"charts cannot be drawn: no process could be started for it ({error.strerror}); do without the page"
        ) from error
    _tell(process, [path for path in sys.path if isinstance(path, str)])
    return process


def _answer(process: Process, question: object) -> str:
    watch = threading.Timer(PATIENCE, process.kill)
    watch.daemon = True
    watch.start()
    try:
        _tell(process, question)
        assert process.stdout is not None
        line = process.stdout.readline()
    finally:
        overdue = not watch.is_alive()
        watch.cancel()
    if line:
        svg: str = json.loads(line)
        return svg
    if overdue:
        raise InputError(f"charts cannot be drawn: one took more than {PATIENCE:g} s; do without the page")
    raise InputError(
        f"charts cannot be drawn: the process that draws them ended with {_ending(process.wait())}, as it does where "
        "memory is limited (ulimit -v): raise the limit, or do without the page"
    )


def _tell(process: Process, words: object) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(words) + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it has died: the answer will be missing


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


#: The one of this process.
RENDERER = Renderer()
atexit.register(RENDERER.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RENDERER.forget)
