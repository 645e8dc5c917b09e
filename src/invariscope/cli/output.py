"""What commands write: a table on the terminal, and files whose places are checked before anything is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from invariscope.auditing.record import Audit
from invariscope.errors import InputError
from invariscope.files import write_atomically

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
    try:
        match out.suffix.lower():
            case ".safetensors":
                model.to_safetensors(out)
            case ".onnx":
                model.to_onnx(out)
            case _:
                import skops.io

                write_atomically(out, skops.io.dumps(model))
    except OSError as error:
        raise InputError(f"--out {out} cannot be written: {error.strerror}") from error


def console() -> Console:
    """Where commands print: as wide as the terminal, or of a fixed width in pipes."""
    terminal = Console(file=sys.stdout)
    if terminal.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return terminal
    return Console(file=sys.stdout, width=PIPE_WIDTH)


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
        columns.add_row(*(Text(cell) for cell in row))
    return columns


def show(audit: Audit, html: Path | None, json: Path | None = None) -> None:
    """Print the table, and where the files are."""
    console().print(audit)
    if html is not None or json is not None:
        print()
    for what, path in (("Page", html), ("Numbers", json)):
        if path is not None:
            print(f"{what}: {path}")
