"""Options that several commands share: how a table is read, and how complaints name the option they are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import reduce, wraps
from pathlib import Path
from typing import Any

import click

from invariscope.errors import InputError, printable
from invariscope.reading.options import MISSING_CHOICES, ReadOptions

Command = Callable[..., Any]

BAD_INPUT = 2


class OutputPath(click.Path):
    """A file to write: whether that can be is for :func:`invariscope.files.place_of` to say, in its own words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take any name."""
        return Path(value)


FILE, OUTPUT = click.Path(path_type=Path), OutputPath()
TASK = click.option(
    "--task", type=click.Choice(["auto", "regression", "classification"]), default="auto", show_default=True,
    help="What kind of target it is.",
)  # fmt: skip
#: Ends the help of options that list environments.
COMMAS = "A label with a comma goes in double quotes, or in an option of its own."
TARGET = click.option("--target", required=True, metavar="COLUMN", help="What is predicted.")
ENV = click.option("--env", required=True, metavar="COLUMN", help="Where a row comes from: site, year, camera, ...")


@contextmanager
def named(option: str) -> Iterator[None]:
    """Complaints begin with the option they are about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option} {error}") from error


def complain(error: Exception) -> None:
    """Say on standard error what is wrong, in the error's own words."""
    lines = map(printable, str(error).split("\n"))
    click.echo(f"{type(error).__name__}: " + "\n".join(lines), err=True)


def reading_options(otherwise: str = "") -> Callable[[Command], Command]:
    """The options that say how a table is read, handed to the command as one ``options``.

    ``otherwise`` ends the default of --features.
    """
    features = f"Columns to use [default: all that hold numbers or categories{otherwise}]."
    choices = [
        click.option("--features", multiple=True, metavar="A,B,...", help=features),
        click.option("--drop", multiple=True, metavar="A,B,...", help="Columns not to use."),
        click.option("--categories", multiple=True, metavar="A,B,...", help="Columns of numbers that are codes."),
        click.option(
            "--missing", type=click.Choice(MISSING_CHOICES), default="refuse", show_default=True,
            help="What to do about missing values. In text, the median is the most frequent value; keep leaves them to "
            "a --model that fills them in by itself. All but refuse leave out rows without target or environment.",
        ),
        click.option(
            "--na", multiple=True, metavar="TEXT",
            help='A text that means "missing", besides "?", "NA" and the like in columns of numbers. Repeat it for '
            "several.",
        ),
        click.option(
            "--env-bins", metavar="GROUPS",
            help="Group the environments: year, quarter, month, week, day, month-of-year, weekday or hour-of-day of a "
            'date; a number of groups of about equal size; or edges between groups of numbers, as in "30,50,65".',
        ),
        click.option(
            "--drop-env", multiple=True, metavar="A,B,...", help=f"Environments not to use, by label. {COMMAS}"
        ),
    ]  # fmt: skip

    def decorate(command: Command) -> Command:
        @wraps(command)
        def packed(**given: Any) -> Any:
            given["features"] = given["features"] or None  # not given at all, where one must name some
            names = [field.name for field in fields(ReadOptions) if field.name in given]
            options = ReadOptions(**{name: given.pop(name) for name in names})
            return command(options=options, **given)

        return reduce(lambda inner, option: option(inner), reversed(choices), packed)

    return decorate
