"""What commands write: a table on the terminal, and files whose places are checked before anything is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from invariscope.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from invariscope import Audit

#: Width of the table where there is no terminal to ask.
PIPE_WIDTH = 100


def check_places(outputs: Sequence[tuple[str, Path | None]], inputs: Sequence[Path | None] = ()) -> None:
    """Refuse files that could not be written in the end, or that would overwrite what is read."""
    taken = {path.resolve(): "is read" for path in inputs if path is not None}
    for option, path in outputs:
        if path is None:
            continue
        folder = path.parent
        if path.is_dir():
            raise InputError(f"{option} {path} is a folder: name a file in it")
        if not folder.is_dir():
            raise InputError(f"{option} {path}: there is no folder {folder}; make it first")
        if not os.access(folder, os.W_OK):
            raise InputError(f"{option} {path}: you may not write into the folder {folder}")
        if path.resolve() in taken:
            raise InputError(f"{option} {path} {taken[path.resolve()]}, too: choose another name")
        taken[path.resolve()] = f"is {option}"


def write(audit: Audit, html: Path | None, json: Path | None) -> None:
    """Write the page and the numbers, where asked for."""
    try:
        if html is not None:
            audit.to_html(html)
        if json is not None:
            audit.to_json(json)
    except OSError as error:  # a full disk, say
        raise InputError(f"{error.filename or html or json} cannot be written: {error.strerror}") from error


def console() -> Console:
    """Where commands print: as wide as the terminal, or of a fixed width in pipes."""
    from rich.console import Console

    terminal = Console(file=sys.stdout)
    if terminal.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return terminal
    return Console(file=sys.stdout, width=PIPE_WIDTH)


def show(audit: Audit, html: Path | None, json: Path | None = None) -> None:
    """Print the table, and where the files are."""
    console().print(audit)
    if html is not None or json is not None:
        print()
    for what, path in (("Page", html), ("Numbers", json)):
        if path is not None:
            print(f"{what}: {path}")
