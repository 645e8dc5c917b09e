"""What is being done, said on the terminal while it takes long; silence in pipes and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID

Say = Callable[[str], None]
#: Words on what comes in, the bytes that have arrived, and how many there will be (0: nobody knows).
Show = Callable[[str, int, int], None]


@contextmanager
def reporting(progress: bool | Say) -> Iterator[Say]:
    """A function that takes a few words on what comes next: shown live on a terminal, handed on, or dropped."""
    if callable(progress):
        yield progress
        return
    if not progress:
        yield lambda words: None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words: None
        return
    with console.status("starting") as status:
        yield lambda words: status.update(Text(words))


@contextmanager
def receiving(progress: bool | Say) -> Iterator[Show]:
    """A function that takes what comes in and how far it is: a bar on a terminal, the words handed on, or dropped.

    >>> said = []
    >>> with receiving(said.append) as show:
    ...     show("downloading a.zip", 0, 100)
    ...     show("downloading a.zip", 100, 100)
    ...     show("downloading the package b 1.0", 0, 0)
    >>> said
    ['downloading a.zip', 'downloading the package b 1.0']
    """
    if callable(progress) or not progress:
        with reporting(progress) as say:
            last = ""

            def hand_on(words: str, arrived: int, total: int) -> None:
                nonlocal last
                if words != last:
                    say(words)
                last = words

            yield hand_on
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda words, arrived, total: None
        return
    said, size = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[size]}")
    with Progress(said, BarColumn(), size, TimeRemainingColumn(), console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(words: str, arrived: int, total: int) -> None:
            if words not in tasks:
                for earlier in tasks.values():
                    bars.update(earlier, visible=False)
                tasks[words] = bars.add_task(words, total=None, size="")
            so_far = f"{arrived / 1e6:.1f} MB" if arrived else ""
            if total:
                so_far = f"{arrived / 1e6:.1f} of {total / 1e6:.1f} MB"
            bars.update(tasks[words], completed=arrived, total=total or None, size=so_far)

        yield draw
