"""`audit`: every criterion whose needs are met, a verdict in plain words, and a page to show."""

from __future__ import annotations

import json
import math
import os
import platform
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invariscope.auditing.algorithm_needed import algorithm_needed
from invariscope.auditing.material import gather
from invariscope.auditing.run import chosen_criteria, run
from invariscope.auditing.verdict import ALPHA, MARGIN, Verdict, verdict_of
from invariscope.criteria.registry import NEEDS
from invariscope.errors import InputError
from invariscope.files import write_atomically
from invariscope.progress import Say, reporting
from invariscope.ratios.density_ratio import DensityRatio
from invariscope.ratios.estimators import estimator_of
from invariscope.results import plain

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


@dataclass(frozen=True)
class AuditedData:
    """What was audited; ``classes`` are the labels of the target, in order, where it was given as labels."""

    rows: int
    labels: tuple[Hashable, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]
    task: str
    classes: tuple[Any, ...]
    target_name: str
    env_name: str
    representation: str
    head: str
    model: str


@dataclass(frozen=True)
class Settings:
    """What is needed to repeat it."""

    seed: int
    n_boot: int
    margin: float
    alpha: float
    ratio: str
    versions: Mapping[str, str]
    seconds: float
    created: str


@dataclass(frozen=True, repr=False)
class Audit:
    """The outcome of :func:`invariscope.audit`: a verdict, all results, and ways to show them.

    ``results`` maps criteria to results, and ``audit["regret"]`` is short for ``audit.results["regret"]``;
    ``left_out`` says which criteria could not be computed, and why. ``algorithm`` answers whether an algorithm for
    unseen environments (OOD) is needed, from the influence index.
    """

    state: str
    headline: str
    sentences: tuple[str, ...]
    results: Mapping[str, Any]
    left_out: Mapping[str, str]
    data: AuditedData
    settings: Settings
    notes: tuple[str, ...] = field(default=())
    algorithm: str = ""

    @property
    def verdict(self) -> str:
        """The verdict as one paragraph."""
        return str(Verdict(self.state, self.headline, (*self.sentences, *filter(None, [self.algorithm]))))

    def __getitem__(self, name: str) -> Any:
        """The result of one criterion."""
        if name in self.results:
            return self.results[name]
        raise KeyError(
            f"{name}: {self.left_out.get(name) or 'no such criterion; there are ' + ', '.join(self.results)}"
        )

    def frame(self) -> pd.DataFrame:
        """One row per environment: rows, losses, regret with its interval, and what else is known of it."""
        from invariscope.report import data

        return data.frame(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, ready for JSON."""
        return {
            "verdict": {"state": self.state, "headline": self.headline, "sentences": list(self.sentences)}
            | {"algorithm": self.algorithm},
            "results": {name: result.to_dict() for name, result in self.results.items()},
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            "data": plain(self.data),
            "settings": plain(self.settings),
        }

    def to_json(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to a JSON file."""
        return write_atomically(path, json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n")

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report: one self-contained page that opens offline and prints."""
        from invariscope.report import html

        return html.write(self, path)

    def _repr_html_(self) -> str:
        from invariscope.report import html

        return html.fragment(self)

    def __rich__(self) -> RenderableType:
        """The report as a terminal shows it."""
        from invariscope.report import terminal

        return terminal.table(self)

    def __str__(self) -> str:
        from io import StringIO

        from rich.console import Console

        console = Console(file=StringIO(), width=100)
        with console.capture() as shown:
            console.print(self)
        return shown.get()

    def __repr__(self) -> str:
        return f"<Audit of {self.data.rows} rows in {len(self.data.labels)} environments: {self.verdict}>"


def audit(
    model: Any,
    X: Any,
    y: Any = None,
    env: Any = None,
    *,
    baseline: Any = None,
    criteria: str | Sequence[str] | None = None,
    ratio: Any = "logistic",
    n_boot: int = 999,
    seed: int = 0,
    progress: bool | Say = False,
    task: str = "auto",
    weight: Any = None,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    target_name: str | None = None,
    env_name: str | None = None,
) -> Audit:
    """Is the model's representation invariant across environments? All criteria, a verdict and a report.

    Parameters
    ----------
    model : a fitted scikit-learn model, a torch module, a :class:`~invariscope.Split`, a function that predicts, or
        ``None``, which audits the columns of ``X`` themselves, with a linear head fitted on them
    X : the model's inputs: array, pandas, polars or pyarrow table; for networks also images, tensors and loaders
    y : the target; may be left out if ``X`` is a torch loader that gives (x, y) or (x, y, env)
    env : the environment of every row (site, year, camera, ...); may be left out likewise
    baseline : a model, or an array of its predictions, that DRIC is measured against (default: linear ERM on ``X``)
    criteria : names of the criteria to compute (default: all that can be)
    ratio : estimator of density ratios, a name or a scikit-learn classifier: see :func:`~invariscope.density_ratio`
    n_boot : draws for intervals and null distributions
    progress : say on the terminal what is being done
    margin : extra loss of practical importance; differences below it are called negligible
    weight : rows each row stands for

    The representation's columns are put in units of their own spread first; only the influence index, which depends
    on units, notices.

    What it cannot tell: whether an environment outside the data behaves like those inside; whether a head richer than
    a linear one would serve all; whether the target means the same everywhere.

    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(900, 3)), np.repeat(["Bern", "Oslo", "Rome"], 300)
    >>> y = X[:, 0] + (site == "Rome") * X[:, 1] + rng.normal(size=900)
    >>> found = audit(LinearRegression().fit(X, y), X, y, site, env_name="site", n_boot=199)
    >>> found.state, found["regret"].worst
    ('NOT INVARIANT', 'Rome')
    >>> print(found.sentences[1])
    They disagree mostly about x1.
    """
    started = time.perf_counter()
    _refuse_settings(margin, alpha)
    if isinstance(ratio, DensityRatio):
        raise InputError(
            "ratio is fitted already: an audit needs the name of an estimator or a classifier, since inputs and "
            "representation have density ratios of their own"
        )
    estimator_of(ratio)  # a name that nobody knows should not cost the user the wait
    chosen = chosen_criteria(criteria)
    with reporting(progress) as say:
        say("reading the model and the data")
        material = gather(
            model,
            X,
            y,
            env,
            baseline=baseline,
            task=task,
            weight=weight,
            target_name=target_name,
            env_name=env_name,
            needs={need for criterion in chosen for need in criterion.needs},
        )
        results: dict[str, Any] = {}
        left_out: dict[str, str] = {}
        for criterion in chosen:
            missing = sorted(criterion.needs - material.has.keys())
            if missing:
                reason = material.lacks.get(missing[0])
                left_out[criterion.name] = reason or f"needs {NEEDS[missing[0]]}"
                continue
            say(f"computing {criterion.title} for {len(material.data)} environments")
            try:
                results[criterion.name] = run(criterion, material, ratio, n_boot, seed)
            except InputError as error:
                if criterion.name == "regret":  # without it there is no verdict
                    raise
                left_out[criterion.name] = str(error)
            except RuntimeError as error:  # torch's own words about a module of the user's
                if "network" not in criterion.needs:
                    raise
                left_out[criterion.name] = f"the network cannot be followed by gradients ({str(error).splitlines()[0]})"
    overlap = next((results[name].overlap for name in ("dric", "transport_gap") if name in results), None)
    verdict = verdict_of(
        results["regret"],
        margin=margin,
        alpha=alpha,
        env_name=material.data.env_name,
        target_name=material.data.target_name,
        overlap=overlap,
        learned=material.learned,
        trained_by=material.trained_with.name,
    )
    return Audit(
        state=verdict.state,
        headline=verdict.headline,
        sentences=verdict.sentences,
        results=results,
        left_out=left_out,
        data=AuditedData(
            rows=len(material.data.X),
            labels=material.data.labels,
            sizes=tuple(int(n) for n in material.data.sizes),
            columns=material.data.columns,
            task=material.task,
            classes=material.data.classes or (),
            target_name=material.data.target_name,
            env_name=material.data.env_name,
            representation=material.representation,
            head=f"linear head, {'squared loss' if material.task == 'regression' else 'log-loss'}",
            model=material.model,
        ),
        settings=Settings(
            seed=seed,
            n_boot=n_boot,
            margin=margin,
            alpha=alpha,
            ratio=ratio if isinstance(ratio, str) else type(ratio).__name__,
            versions=_versions(),
            seconds=time.perf_counter() - started,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        ),
        notes=material.notes,
        algorithm=algorithm_needed(
            results.get("influence_index"),
            verdict.state,
            alpha=alpha,
            margin=margin,
            env_name=material.data.env_name,
            trained_by=material.trained_with.name,
        ),
    )


def _refuse_settings(margin: Any, alpha: Any) -> None:
    for name, value, most in (("margin", margin, math.inf), ("alpha", alpha, 1.0)):
        if not isinstance(value, int | float) or not 0 < value < most:
            raise InputError(f"{name} is {value!r}: give a share above 0, such as 0.02 for 2 %")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("invariscope", "numpy", "scipy", "scikit-learn", "pandas"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
