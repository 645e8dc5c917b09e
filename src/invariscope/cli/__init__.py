"""The command `invariscope`: one file per command, which only reads options, calls the library and prints.

Exit codes: 0 done, 1 a condition of --fail-on was met, 2 an input cannot be used or an output not be written (one
sentence on stderr says why).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import click

from invariscope.cli.audit import audit_command
from invariscope.cli.datasets import datasets_command
from invariscope.cli.demo import demo_command
from invariscope.cli.options import BAD_INPUT, complain
from invariscope.cli.train import train_command
from invariscope.datasets.downloads import DataUnavailable
from invariscope.errors import InputError
from invariscope.results import VERSION
from invariscope.rows.spelling import SHELL, typed_in


class Commands(click.Group):
    """Commands that answer bad input with one sentence; any other exception is a defect and is shown in full."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with typed_in(SHELL):
                return super().invoke(ctx)
        except (InputError, DataUnavailable) as error:
            complain(error)
            ctx.exit(BAD_INPUT)
        except OSError as error:
            if error.filename is not None or isinstance(error, BrokenPipeError):
                raise
            complain(InputError(f"standard output cannot be written: {error.strerror or error}; send it elsewhere"))
            _close_standard_output()
            ctx.exit(BAD_INPUT)


def _close_standard_output() -> None:
    """What could not be written is not tried again when Python ends."""
    with suppress(OSError, ValueError):  # not a file, or closed
        sys.stdout.close()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="invariscope")
def main() -> None:
    """Is a model's representation invariant across environments (sites, years, cameras)?"""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows "?" rather than a traceback
            stream.reconfigure(errors="replace")


for command in (audit_command, datasets_command, demo_command, train_command):
    main.add_command(command)
