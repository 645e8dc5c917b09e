"""`invariscope demo`: an audit of real data, from nothing to a page, under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from invariscope.auditing.audit import audit
from invariscope.progress import reporting

if TYPE_CHECKING:
    from invariscope.datasets.demonstrations import Demonstration


@click.command("demo", short_help="Audit a model on real data, in a few seconds.")
@click.option(
    "--html", type=click.Path(path_type=Path), default=Path("audit.html"), show_default=True, metavar="FILE",
    help="Where to write the report.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Download nothing: use the digits that come with scikit-learn.")
def demo_command(html: Path, offline: bool) -> None:
    """Audit a model on real data: bike rentals by season, trained on 2011, audited on 2012."""
    from invariscope.cli import output  # here: it brings rich along

    output.check_places([("--html", html)])
    shown, remark = _demonstration(offline)  # a download shows its own progress
    for line in (*remark, *shown.lines):
        click.echo(line)
    click.echo()
    with reporting(True) as say:
        audited = audit(
            shown.model, shown.X, shown.y, shown.env,
            progress=say, target_name=shown.target_name, env_name=shown.env_name,
        )  # fmt: skip
        say("writing the report")
        output.write(audited, html, None)
    output.show(audited, html)


def _demonstration(offline: bool) -> tuple[Demonstration, tuple[str, ...]]:
    from invariscope.datasets import DataUnavailable, demonstrations

    if offline:
        return demonstrations.digits(), ()
    try:
        return demonstrations.bikes(), ()
    except DataUnavailable as error:
        reason = str(error).partition("\n")[0]
        return demonstrations.digits(), (f"{reason}", "So here are the digits that come with scikit-learn instead.")
