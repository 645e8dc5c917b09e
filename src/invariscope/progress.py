"""What is being done, said on the terminal while it takes long; silence in pipes and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from invariscope.errors import InputError, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

Say = Callable[[str], None]
#: Words on what is done, how much of it there is by now, and how much there will be (0: nobody knows).
Show = Callable[[str, int, int], None]


@contextmanager
def reporting(progress: bool | Say) -> Iterator[Say]:
    """A function that takes a few words on what comes next: shown live on a terminal, handed on, or dropped."""
    console = _terminal(progress)
    if console is None:
        yield progress if callable(progress) else lambda words: None
        return
    from rich.text import Text

    with console.status("starting") as status:
        yield lambda words: status.update(Text(printable(words)))


def receiving(progress: bool | Say) -> AbstractContextManager[Show]:
    """A function that takes what comes in and its bytes so far: a bar on a terminal, the words handed on, or dropped.

    >>> said = []
    >>> with receiving(said.append) as show:
    ...     show("downloading a.zip", 0, 100)
    ...     show("downloading a.zip", 100, 100)
    ...     show("downloading the package b 1.0", 0, 0)
    >>> said
    ['downloading a.zip', 'downloading the package b 1.0']
    """
    return _bar(progress, _megabytes)


def counting(progress: bool | Say) -> AbstractContextManager[Show]:
    """The same for steps in place of bytes."""
    return _bar(progress, lambda done, total: f"{done:,} of {total:,}")


def _megabytes(arrived: int, total: int) -> str:
    if total:
        return f"{arrived / 1e6:.1f} of {total / 1e6:.1f} MB"
    return f"{arrived / 1e6:.1f} MB" if arrived else ""


def _terminal(progress: bool | Say) -> Console | None:
    """The terminal to draw on, if that is wanted and there is one."""
    if not (callable(progress) or isinstance(progress, bool)):
        raise InputError(f"progress is {progress!r}: give True, False, or a function that takes a text")
    if callable(progress) or not progress:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    return console if console.is_terminal else None


@contextmanager
def _bar(progress: bool | Say, size: Callable[[int, int], str]) -> Iterator[Show]:
    console = _terminal(progress)
    if console is None:
        with reporting(progress) as say:
            last = ""

            def hand_on(words: str, arrived: int, total: int) -> None:
                nonlocal last
                if words != last:
                    say(words)
                last = words

            yield hand_on
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    said, so_far = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[size]}")
    with Progress(said, BarColumn(), so_far, TimeRemainingColumn(), console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(words: str, arrived: int, total: int) -> None:
            words = printable(words)
            if words not in tasks:
                for earlier in tasks.values():
                    bars.update(earlier, visible=False)
                tasks[words] = bars.add_task(words, total=None, size="")
            bars.update(tasks[words], completed=arrived, total=total or None, size=size(arrived, total))

        yield draw
