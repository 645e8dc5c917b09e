"""What is being done, said on the terminal while it takes long; silence in pipes and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Say = Callable[[str], None]


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
