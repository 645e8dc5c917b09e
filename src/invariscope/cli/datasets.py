"""`invariscope datasets`: which data sets there are, what is known of them, and getting their files."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

import click
import numpy as np

from invariscope.datasets.catalogue import compare, entries, entry
from invariscope.datasets.entry import Entry
from invariscope.datasets.fetch import DataFile, locate_all, state_of
from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset

#: Titles of columns, none where they need none, and the cells of every row.
Columns = tuple[Sequence[str], Sequence[Sequence[str]]]
KINDS = {"table": "Tables", "images": "Images", "synthetic": "Made up, with a known truth"}
#: Environments listed by `describe`.
ROW_LIMIT = 20


@click.group("datasets", short_help="List, describe and fetch data sets.")
def datasets_command() -> None:
    """Data sets with environments, real or with a known truth: see what there is, and get the files."""


@datasets_command.command("list")
def list_command() -> None:
    """List all data sets, and whether their files are on this machine."""
    from rich.text import Text  # here: --help need not wait for rich

    from invariscope.cli import output

    known = [(entry.kind, (entry.name, entry.title, _state(entry))) for entry in entries().values()]
    shown = output.console()
    for kind, title in KINDS.items():
        shown.print(Text(title, "bold"))
        shown.print(output.grid((), [line for its_kind, line in known if its_kind == kind]))
        shown.print()
    shown.print(Text("More on one of them: invariscope datasets describe NAME"))


@datasets_command.command("fetch")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Fetch every data set that can be fetched.")
def fetch_command(names: tuple[str, ...], everything: bool) -> None:
    """Download the files of data sets into the cache, checked by their sha256."""
    if everything == bool(names):
        raise InputError("name one data set or more, or say --all (`invariscope datasets list` shows the names)")
    chosen = [entry(name) for name in names] or list(entries().values())
    for one in chosen:
        if not one.files and not everything:
            click.echo(f"{one.name}: needs no file")
        for located in locate_all([file for file in one.files if file.sources or not everything]):
            click.echo(f"{one.name}: {located.path}")


@datasets_command.command("describe")
@click.argument("name")
def describe_command(name: str) -> None:
    """Say what NAME is, what was published on it and what is loaded here, and which choices were made."""
    from rich.padding import Padding
    from rich.text import Text

    from invariscope.cli import output

    chosen = entry(name)
    sections = list(_sections(chosen))  # whatever is wrong with the files is said before anything is printed
    shown = output.console()
    shown.print(Text.assemble((chosen.name, "bold"), f": {chosen.title}"))
    shown.print(Text(f"In Python: iv.datasets.{chosen.name}{_options(chosen)}", "dim"))
    for heading, lines in sections:
        shown.print(Text(f"\n{heading}", "bold"))
        for line in lines:
            body = Text(line) if isinstance(line, str) else output.grid(*line)
            shown.print(Padding(body, (0, 0, 0, 2), expand=False))


def _sections(chosen: Entry) -> Iterable[tuple[str, list[str | Columns]]]:
    """Headings, and what stands under each."""
    if _missing(chosen):
        yield "Rows", [f"Not on this machine. To get them: invariscope datasets fetch {chosen.name}"]
    else:
        data = chosen.load()
        yield "Rows", [data.description, "", _environments(data)]
        if chosen.published:
            yield "Published, and here", [_comparison(chosen, data)]
        for heading, texts in (("Choices made where the paper is silent", data.choices), ("Notes", data.notes)):
            if texts:
                yield heading, [((), [("-", text) for text in texts])]
        if data.truth:
            yield "Known truth", [", ".join(data.truth)]
    if chosen.files:
        yield "Files", [_files(chosen)]
    if chosen.reference:
        yield "Reference", [chosen.reference, *([f"Licence: {chosen.licence}"] if chosen.licence else [])]


def _environments(data: Dataset) -> Columns:
    labels, codes = np.unique(np.asarray(data.env), return_inverse=True)
    parts = {"rows": np.ones(len(data), bool)}
    if data.part is not None:
        parts |= {name: data.part == name for name in ("train", "test")}
    counts = [np.bincount(codes[chosen], minlength=len(labels)) for chosen in parts.values()]
    rows = [(str(label), *(f"{count[k]:,}" for count in counts)) for k, label in enumerate(labels[:ROW_LIMIT])]
    if len(labels) > ROW_LIMIT:
        rows.append((f"... and {len(labels) - ROW_LIMIT} more", *("" for _ in counts)))
    return (data.env_name, *parts), rows


def _comparison(chosen: Entry, data: Dataset) -> Columns:
    rows = []
    for compared in compare(chosen, data):
        number = compared.published
        options = ", ".join(f"{name}={value!r}" for name, value in number.options.items())
        what = f"{number.what} ({options})" if options else number.what
        published, here = (f"{n:,}" if isinstance(n, int) else f"{n:.4f}" for n in (number.value, compared.here))
        rows.append((what, published, here, "" if compared.agrees else "differs", number.where))
    return ("", "published", "here", "", "where"), rows


def _files(chosen: Entry) -> Columns:
    rows = [
        (file.path, _size(file.size), state_of(file), " or ".join(source.label for source in file.sources))
        for file in chosen.files
    ]
    return (), rows


def _state(chosen: Entry) -> str:
    """In a few words, whether the data are at hand."""
    missing = _missing(chosen)
    if missing:
        size = _size(sum(file.size for file in missing))
        return f"to fetch, {size}" if all(file.sources for file in missing) else "to bring along"
    return state_of(chosen.files[0]) if chosen.files else "needs no file"


def _missing(chosen: Entry) -> list[DataFile]:
    return [file for file in chosen.files if state_of(file) == "to fetch"]


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{max(size / 1e3, 1):.0f} kB"


def _options(chosen: Entry) -> str:
    """The options of a data set with their defaults, long ones left out."""
    defaults = {p.name: repr(p.default) for p in inspect.signature(chosen.load).parameters.values()}
    shown = ", ".join(f"{name}={value if len(value) < 40 else '...'}" for name, value in defaults.items())
    return f"({shown})"
