"""`audit`: every criterion whose needs are met, a verdict in plain words, and a page to show."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from invariscope.auditing.algorithm_needed import algorithm_needed
from invariscope.auditing.material import gather
from invariscope.auditing.record import Audit, AuditedData, Settings
from invariscope.auditing.run import chosen_criteria, run
from invariscope.auditing.verdict import ALPHA, MARGIN, verdict_of
from invariscope.criteria.registry import NEEDS
from invariscope.errors import InputError
from invariscope.progress import Say, reporting
from invariscope.ratios.density_ratio import DensityRatio
from invariscope.ratios.estimators import estimator_of


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
