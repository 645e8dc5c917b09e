"""`invariscope demo`: an audit of real data, from nothing to a page, under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from invariscope.auditing.audit import audit
from invariscope.cli.options import OUTPUT
from invariscope.progress import reporting

if TYPE_CHECKING:
    from invariscope.datasets.demonstrations import Demonstration


@click.command("demo", short_help="Audit a model on real data, in a few seconds.")
@click.option(
    "--html", type=OUTPUT, default=Path("audit.html"), show_default=True, metavar="FILE",
    help="Where to write the report; - is standard output.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Download nothing: use the digits that come with scikit-learn.")
def demo_command(html: Path, offline: bool) -> None:
    """Audit a model on real data: bike rentals by season, trained on 2011, audited on 2012."""
    from invariscope.cli import output  # here: it brings rich along

    output.check_places([("--html", html)])
    demonstration, remark = _demonstration(offline)  # a download shows its own progress
    shown = output.console(html)
    for line in (*remark, *demonstration.lines, ""):
        click.echo(line, file=shown.file)
    with reporting(True) as say:
        audited = audit(
            demonstration.model, demonstration.X, demonstration.y, demonstration.env,
            progress=say, target_name=demonstration.target_name, env_name=demonstration.env_name,
        )  # fmt: skip
    shown.print(audited)
    click.echo(file=shown.file)
    output.write_page(audited, html, quiet=False)
    output.tell("Page", html, shown)


def _demonstration(offline: bool) -> tuple[Demonstration, tuple[str, ...]]:
    from invariscope.datasets import DataUnavailable, demonstrations

    if offline:
        return demonstrations.digits(), ()
    try:
        return demonstrations.bikes(), ()
    except DataUnavailable as error:
        reason = str(error).partition("\n")[0]
        return demonstrations.digits(), (f"{reason}", "So here are the digits that come with scikit-learn instead.")
