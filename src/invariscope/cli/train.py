"""`invariscope train`: a table in a file, a model in another that is trained to hold in all environments."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from invariscope import wording
from invariscope.cli.options import COMMAS, ENV, FILE, OUTPUT, TARGET, TASK, reading_options
from invariscope.errors import InputError, printable
from invariscope.progress import reporting
from invariscope.reading import ReadOptions
from invariscope.reading.read import read_with
from invariscope.rows.arrays import Floats
from invariscope.rows.spelling import spelt
from invariscope.shortening import distinct

if TYPE_CHECKING:
    from rich.console import RenderableType

    from invariscope.estimators.estimator import InvariantEstimator
    from invariscope.estimators.table_training import Training
    from invariscope.objectives import Objective

# as in `invariscope.objectives.REGISTRY`, which would bring torch along
OBJECTIVES = (
    "cdann", "coral", "dann", "dric", "erm", "g2dm", "group_dro", "ib_erm", "ib_irm", "invrat", "irm", "lisa", "mixup",
    "mmd", "regret", "transport_gap", "vrex", "wasserstein_matching", "worst_case",
)  # fmt: skip
STEPS = click.IntRange(min=1)
LONGEST = 20  # digits of a number of units; Python refuses to read thousands of them
SEED = click.IntRange(min=0, max=2**32 - 1)  # what scikit-learn's random states go to
EPILOG = """\b
Examples:
  invariscope train heart.csv --target disease --env hospital --out model.skops
  invariscope train heart.csv --target disease --env hospital --leave-out Zürich \\
      --objective irm --penalty 100 --hidden 32 --held-out 0.2 --out model.safetensors
"""


@click.command("train", epilog=EPILOG, short_help="Train a model that holds in all environments.")
@click.argument("data", type=FILE)
@TARGET
@ENV
@click.option("--out", required=True, type=OUTPUT, metavar="FILE", help="The model: .skops, .safetensors or .onnx.")
@click.option(
    "--objective", default="vrex", show_default=True, metavar="NAME",
    help=f"What is minimised: {', '.join(OBJECTIVES)}.",
)  # fmt: skip
@click.option(
    "--penalty", type=click.FloatRange(min=0.0),
    help="How much the objective's penalty counts beside the loss [default: the objective's own].",
)  # fmt: skip
@click.option(
    "--leave-out", multiple=True, metavar="A,B,...", help=f"Environments to train without, by label. {COMMAS}"
)
@click.option("--hidden", metavar="UNITS", help="Hidden layers, as in 64,64 [default: none, a linear model].")
@click.option("--steps", type=STEPS, default=1000, show_default=True, help="Updates of the model.")
@click.option("--batch-size", type=STEPS, help="Rows of every environment per step [default: all].")
@click.option(
    "--learning-rate", type=click.FloatRange(min=0.0, min_open=True), default=0.01, show_default=True,
    help="Size of the steps.",
)  # fmt: skip
@click.option(
    "--wait", type=click.IntRange(min=0), default=0, show_default=True, help="Steps before the penalty grows."
)
@click.option("--ramp", type=click.IntRange(min=0), default=0, show_default=True, help="Steps over which it grows.")
@click.option(
    "--held-out", type=click.FloatRange(min=0.0, max=1.0, max_open=True), default=0.0, show_default=True,
    help="Share of every environment's rows that is not trained on but decides when to stop.",
)  # fmt: skip
@reading_options()
@TASK
@click.option("--seed", type=SEED, default=0, show_default=True, help="Same seed, same model.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def train_command(
    data: Path,
    options: ReadOptions,
    out: Path,
    objective: str,
    penalty: float | None,
    leave_out: tuple[str, ...],
    hidden: str | None,
    task: str,
    seed: int,
    quiet: bool,
    **settings: Any,
) -> None:
    """Train a linear model or a network on DATA (CSV, Parquet, Feather or Arrow) that holds in all environments."""
    from invariscope.cli import output
    from invariscope.estimators.networks import need_torch
    from invariscope.estimators.table_training import Training
    from invariscope.reading.environment_labels import with_remedy

    start = time.perf_counter()
    output.check_model_place(out, [data])
    layers = _layers(hidden)
    with reporting(not quiet) as say:
        say("reading the table")
        need_torch()
        chosen = _objective(objective, penalty)
        rows = read_with(data, options)
        with with_remedy(rows.env, options):
            training = Training.of(rows, chosen, leave_out=leave_out, task=task)
    model = training.fitted(
        objective=objective, penalty=penalty, hidden=layers, random_state=seed, progress=not quiet, **settings
    )
    output.write_model(model, out)
    if not quiet:
        shown = output.console(out)
        shown.print(_shown(training, model, chosen, time.perf_counter() - start))
        # not through the console, which would break a long line where a shell must not
        next_step = printable(_next_step(data, out, options, task))
        click.echo(f"\nModel: {printable(out)}\n{next_step}", file=shown.file)


def _layers(text: str | None) -> tuple[int, ...]:
    """What --hidden means.

    >>> _layers("64, 32"), _layers(None)
    ((64, 32), ())
    """
    parts = [] if text is None else [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and part.strip("0") and len(part) < LONGEST for part in parts):
        raise InputError(f'--hidden is "{wording.short(text)}": give the units of every layer, as in 64 or 64,64')
    return tuple(int(part) for part in parts)


def _objective(name: str, penalty: float | None) -> Objective:
    from invariscope.objectives import objective_of

    objective = objective_of(name, penalty)
    if penalty is not None and not objective.penalises:
        raise InputError(f"--objective {name} has no penalty: leave out --penalty")
    return objective


def _shown(training: Training, model: InvariantEstimator, objective: Objective, seconds: float) -> RenderableType:
    """What was trained on what, how well it predicts where, and what was done to the table."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    data, layers = training.data, model.network_["hidden"]
    top = Table.grid(expand=True, padding=(0, 2))
    top.add_column(ratio=1)
    top.add_column(justify="right", no_wrap=True)
    outline = [
        wording.count(sum(data.sizes[training.trained_on]), "row"),
        wording.count(len(training.trained_on), "environment"),
        wording.count(len(training.columns), "column"),
        f"network of {', '.join(map(str, layers))}" if layers else "linear model",
        objective.name + (f", penalty {objective.weight:g}" if objective.penalises else ""),
    ]
    top.add_row(Text(f"Trained on {' · '.join(outline)}"), Text(wording.duration(seconds), style="dim"))
    remarks = [*training.notes, *model.notes_]
    if "held_out" in model.history_:
        remarks.append(
            f"Stopped after step {model.n_iter_:,} of at most {model.steps:,}; rows held out did best at step "
            f"{model.kept_step_:,}, which was kept."
        )
    remarks.append("Where it was trained, the loss is of rows that training has seen; expect more on new ones.")
    notes = [Text.assemble(("Note:", "dim"), " ", wording.clean(remark)) for remark in remarks]
    parts = (_table(training, training.losses(model)), Text(), *notes)
    return Group(top, Text(), *(Padding(part, (0, 0, 0, 2)) for part in parts))


def _table(training: Training, losses: Mapping[str, Floats]) -> RenderableType:
    """Rows and mean losses, environment by environment, those left out at the end."""
    from rich.table import Table
    from rich.text import Text

    data = training.data
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column(Text(wording.short(data.env_name, 24)), overflow="fold")
    for title in ("rows", *losses):
        grid.add_column(title, justify="right", no_wrap=True)
    grid.add_column("", no_wrap=True)
    names = distinct(wording.names(data.labels), 26)
    cells = [[wording.percent(share) for share in values] if name == "accuracy" else wording.aligned(list(values))
             for name, values in losses.items()]  # fmt: skip
    for code in (*training.trained_on, *training.left_out):
        remark = "not trained on" if code in training.left_out else ""
        numbers = [Text(column[code]) for column in cells]
        grid.add_row(Text(names[code]), Text(f"{data.sizes[code]:,}"), *numbers, Text(remark))
    return grid


def _next_step(data: Path, out: Path, options: ReadOptions, task: str) -> str:
    """The command that audits the model on the same table, read in the same way."""
    if out.suffix.lower() == ".onnx":
        return "Next: run it with onnxruntime; for `invariscope audit --model`, train with --out model.skops"
    words = [spelt("target", options.target), spelt("env", options.env)]
    for name in ("features", "drop", "categories", "na", "drop_env"):
        words += [spelt(name, value) for value in getattr(options, name) or ()]
    for name, value, usual in (
        ("missing", options.missing, "refuse"),
        ("env_bins", options.env_bins, None),
        ("task", task, "auto"),
    ):
        if value != usual:
            words.append(spelt(name, value))
    return " ".join(["Next: invariscope audit", shlex.quote(str(data)), *words, spelt("model", str(out))])
