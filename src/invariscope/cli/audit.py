"""`invariscope audit`: a table in a file, a verdict on the terminal, a page for others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from invariscope.auditing import conditions
from invariscope.auditing.audit import audit
from invariscope.auditing.record import Audit
from invariscope.auditing.run import EVERY
from invariscope.auditing.verdict import MARGIN
from invariscope.cli.options import BAD_INPUT, ENV, FILE, OUTPUT, TARGET, TASK, named, reading_options
from invariscope.criteria.registry import CRITERIA
from invariscope.errors import InputError, printable
from invariscope.models.files import load_model
from invariscope.progress import reporting
from invariscope.ratios.catalogue import ESTIMATORS
from invariscope.reading import Dataset, ReadOptions
from invariscope.reading.read import read_with
from invariscope.rows.settings import share_above_zero

CONDITION_MET = 1
EPILOG = """\b
Examples:
  invariscope audit heart.csv --target disease --env hospital --html audit.html
  invariscope audit heart.csv --target disease --env hospital --model model.skops
  invariscope audit heart.csv --target disease --env admitted --env-bins year \\
      --missing impute-median
  invariscope audit heart.csv --target disease --env hospital --prediction risk \\
      --fail-on "regret>0.1"
"""


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
@click.option(
    "--baseline", "against", metavar="COLUMN|FILE",
    help="What DRIC is measured against: the column of a baseline's predictions (for classes also one per class: "
    "A,B,...), or a model file as for --model [default: linear ERM, fitted on these rows].",
)  # fmt: skip
@reading_options("; with --model those it was fitted on")
@click.option("--weight", metavar="COLUMN", help="How many rows each row stands for.")
@TASK
@click.option(
    "--margin", type=float, default=MARGIN, show_default=True, callback=lambda *given: _share(given[-1]),
    help="Extra loss that would not matter in practice (0.02 is 2 %).",
)  # fmt: skip
@click.option(
    "--ratio", type=click.Choice(list(ESTIMATORS)), default="logistic", show_default=True, metavar="NAME",
    help="How density ratios, which weight environments to look like each other for DRIC and the transport gap, are "
    f"estimated: {', '.join(ESTIMATORS)}.",
)  # fmt: skip
@click.option(
    "--criteria", multiple=True, type=click.Choice([*CRITERIA, EVERY]), metavar="NAME",
    help=f"Compute this criterion beside the regret; repeat it for several. {EVERY}: also those that take long and are "
    f"left out otherwise. There are {', '.join(CRITERIA)}.",
)  # fmt: skip
@click.option(
    "--html", type=OUTPUT, metavar="FILE",
    help="Write the report as one page. A file named - is standard output; the table then goes to standard error.",
)  # fmt: skip
@click.option("--json", type=OUTPUT, metavar="FILE", help="Write all numbers, likewise.")
@click.option(
    "--fail-on", multiple=True, metavar="CONDITION",
    help='Exit with code 1 if met: "regret>0.1" (largest), "regret-low>0.02" (its lower end), "p<0.01", '
    '"influence-p<0.01", "explained<0.2", "verdict=not-invariant" or a criterion\'s name, in quotes.',
)  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same answer.")
@click.option(
    "--n-boot", type=click.IntRange(min=0), default=999, show_default=True,
    help="Draws for intervals and p-values; 0 for point estimates alone.",
)  # fmt: skip
@click.option("--trust", multiple=True, metavar="TYPE", help="Accept a type of a .skops model that is not trusted.")
@click.option("--trust-pickle", is_flag=True, help="Load a pickled model, which runs the code inside it.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors and conditions met.")
def audit_command(
    data: Path,
    options: ReadOptions,
    model: Path | None,
    against: str | None,
    task: str,
    criteria: tuple[str, ...],
    html: Path | None,
    json: Path | None,
    fail_on: tuple[str, ...],
    trust: tuple[str, ...],
    trust_pickle: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Does one head serve all environments in DATA (CSV, Parquet, Feather or Arrow)?

    Without --model or --prediction, the columns are the representation (text as one column of 0 and 1 per level), and a
    linear head is fitted on them.
    """
    from invariscope.cli import output  # here: these bring rich and pandas along
    from invariscope.reading.baseline import baseline_in, is_model_file
    from invariscope.reading.model_columns import model_of_predictions

    options.refuse_two_models(model)
    baseline_file = None if against is None or not is_model_file(against) else Path(against)
    options = replace(options, baseline=() if against is None or baseline_file is not None else (against,))
    with named("--fail-on"):
        watched = conditions.parse(fail_on, settings["n_boot"])
    output.check_places(
        [("--html", html), ("--json", json)],
        [data, model, baseline_file],
    )
    with reporting(not quiet) as say:
        say("reading the table")
        safe = trust_pickle, trust
        subject = None if model is None else _loaded(model, *safe)
        rows = read_with(data, options, model=subject, model_name="" if model is None else model.name)
        if options.prediction is not None:
            subject = model_of_predictions(rows, options, task)
        if baseline_file is not None:
            settings["baseline"] = _of_file(baseline_file, data, options, *safe)
        elif against is not None:
            settings["baseline"] = baseline_in(rows)
        audited = _audited(subject, rows, options, task=task, criteria=criteria or None, progress=say, **settings)
    _deliver(audited, watched, html, json, quiet)


def _deliver(
    audited: Audit, watched: Sequence[conditions.Condition], html: Path | None, json: Path | None, quiet: bool
) -> None:
    """Table, numbers, conditions, page: drawing comes last, and what goes wrong with it does not cost the rest."""
    from invariscope.cli import output

    shown = None if quiet else output.console(html, json)
    if shown is not None:
        shown.print(audited)
        click.echo("\n" * any((html, json)), nl=False, file=shown.file)
    failures: list[InputError] = []
    is_met = False
    with output.going_on(failures):
        output.write("--json", audited.to_json, json)
        output.tell("Numbers", json, shown)
    with output.going_on(failures):
        is_met = _judged(watched, audited)
    with output.going_on(failures):
        output.write_page(audited, html, quiet)
        output.tell("Page", html, shown)
    if is_met or failures:
        click.get_current_context().exit(CONDITION_MET if is_met else BAD_INPUT)


def _judged(watched: Sequence[conditions.Condition], audited: Audit) -> bool:
    """Is a condition met? Each one that is, is told."""
    with named("--fail-on"):
        reasons = {condition: conditions.met(condition, audited) for condition in watched}
    for condition, reason in reasons.items():
        if reason is not None:
            click.echo(printable(f"--fail-on {condition}: {reason}"), err=True)
    return any(reasons.values())


def _share(margin: float) -> float:
    """A margin, judged while options are read: nobody waits for a table to hear that 2 is not 2 %."""
    try:
        return share_above_zero("it", margin, MARGIN)
    except InputError as error:
        raise click.BadParameter(str(error)) from error


def _loaded(path: Path, trust_pickle: bool, trust: tuple[str, ...]) -> Any:
    import invariscope.estimators  # noqa: F401  (it adds its own format to those that can be read)

    return load_model(path, trust_pickle=trust_pickle, trusted=trust)


def _of_file(baseline: Path, data: Path, options: ReadOptions, trust_pickle: bool, trust: tuple[str, ...]) -> Any:
    from invariscope.reading.baseline import baseline_of_model

    with named("--baseline"):
        model = _loaded(baseline, trust_pickle, trust)
    return baseline_of_model(model, data, options, baseline.name)


def _audited(model: Any, rows: Dataset, options: ReadOptions, **settings: Any) -> Audit:
    from invariscope.reading.environment_labels import remedy_for, with_remedy

    with warnings.catch_warnings(), with_remedy(rows.env, options):
        # a model fitted on a bare array is given the table all the same: the report wants the names
        warnings.filterwarnings("ignore", "X has feature names, but .* was fitted without feature names", UserWarning)
        audited = audit(
            model,
            *rows,
            weight=rows.others.get("weight"),
            target_name=rows.target_name,
            env_name=rows.env_name,
            **settings,
        )
    sentences = (*audited.sentences, *filter(None, [remedy_for(audited.could_drop, rows.env, options)]))
    return replace(audited, notes=(*rows.notes, *audited.notes), sentences=sentences)
