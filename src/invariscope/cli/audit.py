"""`invariscope audit`: a table in a file, a verdict on the terminal, a page for others."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from invariscope.ratios.estimators import ESTIMATORS

if TYPE_CHECKING:
    from invariscope import Audit
    from invariscope.cli.inputs import Prepared, Wanted
    from invariscope.progress import Say

Command = Callable[..., Any]

CONDITION_MET = 1
# as in `invariscope.reading.missing_values`, which would bring pandas along
MISSING = ["refuse", "drop-rows", "drop-columns", "impute-median", "indicator"]
FILE = click.Path(path_type=Path)
EPILOG = """\b
Examples:
  invariscope audit heart.csv --target disease --env hospital --html audit.html
  invariscope audit heart.csv --target disease --env hospital --model model.skops
  invariscope audit heart.csv --target disease --env admitted --env-bins year \\
      --missing impute-median
  invariscope audit heart.csv --target disease --env hospital --prediction risk \\
      --fail-on "regret>0.1"
"""


# shared with `invariscope train`
TARGET = click.option("--target", required=True, metavar="COLUMN", help="What is predicted.")
ENV = click.option("--env", required=True, metavar="COLUMN", help="Where a row comes from: site, year, camera, ...")
TASK = click.option(
    "--task", type=click.Choice(["auto", "regression", "classification"]), default="auto", show_default=True,
    help="What kind of target it is.",
)  # fmt: skip


def reading_options(otherwise: str = "") -> Callable[[Command], Command]:
    """The options of all commands that say how a table is read; ``otherwise`` ends the default of --features."""
    features = f"Columns to use [default: all that hold numbers or categories{otherwise}]."
    options = [
        click.option("--features", multiple=True, metavar="A,B,...", help=features),
        click.option("--drop", multiple=True, metavar="A,B,...", help="Columns not to use."),
        click.option("--categories", multiple=True, metavar="A,B,...", help="Columns of numbers that are codes."),
        click.option(
            "--missing", type=click.Choice(MISSING), default="refuse", show_default=True,
            help="What to do about missing values. In text, the median is the most frequent value. All but refuse "
            "leave out rows without target or environment.",
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
        click.option("--drop-env", multiple=True, metavar="A,B,...", help="Environments not to use, by label."),
    ]  # fmt: skip
    return lambda command: reduce(lambda inner, option: option(inner), reversed(options), command)


@click.command("audit", epilog=EPILOG, short_help="Audit a table, a model or predictions.")
@click.argument("data", type=FILE)
@TARGET
@ENV
@click.option("--model", type=FILE, metavar="FILE", help="Audit this fitted model: .skops or .safetensors.")
@click.option(
    "--prediction",
    metavar="COLUMN",
    help="Audit these predictions: numbers, or for two classes the probability of the second.",
)
@reading_options("; with --model those it was fitted on")
@click.option("--weight", metavar="COLUMN", help="How many rows each row stands for.")
@TASK
@click.option(
    "--margin", type=click.FloatRange(min=0.0, min_open=True), default=0.02, show_default=True,
    help="Extra loss that would not matter in practice (0.02 is 2 %).",
)  # fmt: skip
@click.option(
    "--ratio", type=click.Choice(list(ESTIMATORS)), default="logistic", show_default=True, metavar="NAME",
    help="How density ratios, which weight environments to look like each other for DRIC and the transport gap, are "
    f"estimated: {', '.join(ESTIMATORS)}.",
)  # fmt: skip
@click.option("--html", type=FILE, metavar="FILE", help="Write the report as one page.")
@click.option("--json", type=FILE, metavar="FILE", help="Write all numbers.")
@click.option(
    "--fail-on", multiple=True, metavar="CONDITION",
    help='Exit with code 1 if met: "regret>0.1" (largest), "regret-low>0.02" (its lower end), "p<0.01", '
    '"influence-p<0.01", "explained<0.2", "verdict=not-invariant" or a criterion\'s name, in quotes.',
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same answer.")
@click.option(
    "--n-boot", type=click.IntRange(min=99), default=999, show_default=True,
    help="Draws for intervals and p-values.",
)  # fmt: skip
@click.option("--trust", multiple=True, metavar="TYPE", help="Accept a type of a .skops --model that is not trusted.")
@click.option("--trust-pickle", is_flag=True, help="Load a pickled --model, which runs the code inside it.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors and conditions met.")
def audit_command(
    data: Path,
    target: str,
    env: str,
    model: Path | None,
    prediction: str | None,
    features: tuple[str, ...],
    drop: tuple[str, ...],
    categories: tuple[str, ...],
    missing: str,
    na: tuple[str, ...],
    env_bins: str | None,
    drop_env: tuple[str, ...],
    weight: str | None,
    task: str,
    margin: float,
    ratio: str,
    html: Path | None,
    json: Path | None,
    fail_on: tuple[str, ...],
    seed: int,
    n_boot: int,
    trust: tuple[str, ...],
    trust_pickle: bool,
    quiet: bool,
) -> None:
    """Does one head serve all environments in DATA (CSV, Parquet, Feather or Arrow)?

    Without --model or --prediction, the columns are the representation (text as one column of 0 and 1 per level), and a
    linear head is fitted on them.
    """
    from invariscope.cli import fail_on as conditions
    from invariscope.cli import inputs, output
    from invariscope.errors import InputError
    from invariscope.progress import reporting
    from invariscope.reading.named_table import NamedTable
    from invariscope.reading.spelling import SHELL

    if model is not None and prediction is not None:
        raise InputError("--model and --prediction are two ways to give one model: leave one out")
    watched = conditions.parse(fail_on, n_boot)
    output.check_places([("--html", html), ("--json", json)], [data, model])
    wanted = inputs.Wanted(
        target=target,
        env=env,
        weight=weight,
        prediction=prediction,
        model=model,
        features=features,
        drop=drop,
        categories=categories,
        missing=missing,
        na=na,
        env_bins=env_bins,
        drop_env=drop_env,
        task=task,
        trust_pickle=trust_pickle,
        trust=trust,
    )
    with reporting(not quiet) as say:
        say("reading the table")
        prepared = inputs.prepare(NamedTable.of_file(data, na=na, spell=SHELL), wanted)
        found = _audited(prepared, wanted, margin, ratio, n_boot, seed, say)
        if html is not None or json is not None:
            say("writing the report")
        output.write(found, html, json)
    if not quiet:
        output.show(found, html, json)
    reasons = {condition: reason for condition in watched if (reason := conditions.met(condition, found)) is not None}
    for condition, reason in reasons.items():
        click.echo(f"--fail-on {condition}: {reason}", err=True)
    if reasons:
        click.get_current_context().exit(CONDITION_MET)


def _audited(prepared: Prepared, wanted: Wanted, margin: float, ratio: str, n_boot: int, seed: int, say: Say) -> Audit:
    import warnings
    from dataclasses import replace

    from invariscope import audit
    from invariscope.cli.inputs import how_to_drop
    from invariscope.errors import InputError

    with warnings.catch_warnings():
        # a model fitted on a bare array is given the table all the same: the report wants the names
        warnings.filterwarnings("ignore", "X has feature names, but .* was fitted without feature names", UserWarning)
        try:
            found = audit(
                prepared.model,
                prepared.X,
                prepared.y,
                prepared.env,
                ratio=ratio,
                n_boot=n_boot,
                seed=seed,
                progress=say,
                task=prepared.task,
                weight=prepared.weight,
                margin=margin,
                target_name=wanted.target,
                env_name=wanted.env,
            )
        except InputError as error:
            raise InputError(f"{error}{how_to_drop(error.environments, prepared.env, wanted)}") from error
    return replace(found, notes=(*prepared.notes, *found.notes))
