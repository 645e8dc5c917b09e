"""What commands write: a table on the terminal, and files whose places are checked before anything is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from invariscope.auditing.record import Audit
from invariscope.cli.options import complain, named
from invariscope.errors import InputError, printable
from invariscope.files import STANDARD_OUTPUT, Place, place_of, write_atomically
from invariscope.progress import reporting

if TYPE_CHECKING:
    from invariscope.estimators.estimator import InvariantEstimator

#: Width of the table where there is no terminal to ask.
PIPE_WIDTH = 100
#: Endings of model files, the package that writes each, and what to install to have it.
MODEL_FILES = {
    ".skops": ("skops", "skops"),
    ".safetensors": ("safetensors", "invariscope[torch]"),
    ".onnx": ("onnx", "invariscope[onnx]"),
}


def check_places(outputs: Sequence[tuple[str, Path | None]], inputs: Sequence[Path | None] = ()) -> None:
    """Refuse files that could not be written in the end, or that would overwrite what is read."""
    read = {Path(os.path.realpath(path)) for path in inputs if path is not None}
    places: dict[str, Place] = {}
    for option, path in outputs:
        if path is None:
            continue
        with named(option):
            place = place_of(path)
        earlier = [f"is {other}" for other, taken in places.items() if place.same_as(taken)]
        for taken in ["is read"] * (place.file in read) + earlier:
            raise InputError(f"{option} {path} {taken}, too: choose another name")
        places[option] = place


def is_standard_output(path: Path | None) -> bool:
    """Is this output to go where tables are printed otherwise?"""
    return path is not None and place_of(path).descriptor == STANDARD_OUTPUT


def write(option: str, writer: Callable[[Path], Path], path: Path | None) -> None:
    """Write a file, if one was asked for."""
    if path is not None:
        with named(option):
            writer(path)


def write_page(audit: Audit, path: Path | None, quiet: bool) -> None:
    """Draw and write the page, if one was asked for."""
    with reporting(not quiet and path is not None) as say:
        say("drawing the page")
        write("--html", audit.to_html, path)


def tell(what: str, path: Path | None, shown: Console | None) -> None:
    """Say where a file is, unless it went where everybody sees it."""
    if path is not None and shown is not None and not is_standard_output(path):
        # not through the console, which would break a long line where a shell must not
        click.echo(f"{what}: {printable(path)}", file=shown.file)


@contextmanager
def going_on(failures: list[InputError]) -> Iterator[None]:
    """What cannot be done is told at once, and what comes after is done all the same."""
    try:
        yield
    except InputError as error:
        complain(error)
        failures.append(error)


def check_model_place(out: Path, inputs: Sequence[Path | None]) -> None:
    """Refuse a model file before training that could not be written after it."""
    package, extra = MODEL_FILES.get(out.suffix.lower(), ("", ""))
    if not package:
        raise InputError(f'--out {out}: a model file ends in {", ".join(MODEL_FILES)}, not "{out.suffix}"')
    check_places([("--out", out)], inputs)
    if find_spec(package) is None:
        raise InputError(f"--out {out} needs {package}: pip install '{extra}'")


def write_model(model: InvariantEstimator, out: Path) -> None:
    """Write a trained model, whole or not at all, in the format its name says."""
    with named("--out"):
        match out.suffix.lower():
            case ".safetensors":
                model.to_safetensors(out)
            case ".onnx":
                model.to_onnx(out)
            case _:
                import skops.io

                write_atomically(out, skops.io.dumps(model))


def console(*outputs: Path | None) -> Console:
    """Where commands print: as wide as the terminal, or of a fixed width in pipes.

    That is standard output, unless one of the outputs goes there: then it is standard error.
    """
    stream = sys.stderr if any(map(is_standard_output, outputs)) else sys.stdout
    terminal = Console(file=stream)
    if terminal.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return terminal
    return Console(file=stream, width=PIPE_WIDTH)


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Columns side by side, under titles where there are any; numbers to the right."""
    columns = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(titles))
    for k in range(max(map(len, rows), default=len(titles))):
        number = all(row[k].replace(",", "").replace(".", "").isdigit() for row in rows) and bool(rows)
        columns.add_column(
            titles[k] if k < len(titles) else "",
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=k == 0,  # a name is not broken; what is said of it is
        )
    for row in rows:
        columns.add_row(*(Text(printable(cell)) for cell in row))
    return columns
