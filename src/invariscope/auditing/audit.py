"""`audit`: every criterion whose needs are met, a verdict in plain words, and a page to show."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from invariscope.auditing.advice import outnumbered
from invariscope.auditing.algorithm_needed import algorithm_needed
from invariscope.auditing.material import gather
from invariscope.auditing.record import Audit, Settings
from invariscope.auditing.run import chosen_criteria, not_asked_for, run
from invariscope.auditing.verdict import (
    ALPHA,
    CANNOT_TELL,
    MARGIN,
    overlap_in,
    verdict_of,
    verdict_without_draws,
    verdict_without_regret,
)
from invariscope.criteria.material import AuditOptions
from invariscope.errors import InputError
from invariscope.progress import Say, reporting
from invariscope.ratios.catalogue import estimator_of
from invariscope.ratios.density_ratio import DensityRatio
from invariscope.rows.settings import number_of_draws, share_above_zero, whole_number


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
    env_column: int | str | None = None,
    target_name: str | None = None,
    env_name: str | None = None,
) -> Audit:
    """Is the model's representation invariant across environments? All criteria, a verdict and a report.

    Parameters
    ----------
    model : a fitted scikit-learn model, a torch module or a method of one, a :class:`~invariscope.Split`, a function
        that predicts, or ``None``, which audits the columns of ``X`` themselves, with a linear head fitted on them. Or
        its predictions for these rows, from any library: (n,) numbers, (n,) probabilities of the second of two
        classes, or (n, K) probabilities in the order of the sorted classes (or in columns named after them)
    X : the model's inputs: array, pandas, polars or pyarrow table; for networks also images, tensors, loaders,
        a list or dict with a loader for every environment, and a dict with an array for every input; None if the model
        is predictions: all that rests on them is audited
    y : the target; may be left out if ``X`` is a torch loader that gives (x, y), (x, y, env) or a dict with an entry
        label, labels, target, targets or y (``target_name`` names another)
    env : the environment of every row (site, year, camera, ...); may be left out likewise (entries env, environment or
        domain), or if every environment has a loader of its own
    env_column : of a loader that gives (x, y, metadata), the column of the metadata, a number or a name, that is the
        environment; of one that gives dicts, the entry; of one that gives more, which of the parts behind (x, y)
    baseline : a model, or an array of its predictions, that DRIC is measured against (default: linear ERM on ``X``;
        where that is what is audited, as without a model, DRIC is left out)
    criteria : names of the criteria to compute, or "all" (default: all but those that take long and are left out until
        asked for, as the worst case in input space is)
    ratio : estimator of density ratios, a name or a scikit-learn classifier: see :func:`~invariscope.density_ratio`
    n_boot : draws for intervals and null distributions, but no more than a criterion says are enough (199 for the bands
        of worst cases; DRIC refits density ratios at most 99 times); 0 for point estimates alone, fast enough for a
        log of every epoch: a verdict rests on an interval, so the state is then "CANNOT TELL YET"
    progress : say on the terminal what is being done
    margin : extra loss of practical importance, as a share (0.02 is 2 %); differences below it are called negligible
    alpha : the level that p-values are compared with, in the state and in sentences. Intervals, on which verdicts rest,
        are 95 % whatever it is
    weight : rows each row stands for

    The representation's columns are put in units of their own spread first; only the influence index, which depends
    on units, notices.

    What these rows do not allow (a head of its own for an environment of ten rows, or where a class that the model
    knows never occurs) leaves out the criteria that need it, with the reason in ``left_out``; without a regret the
    state is "CANNOT TELL YET".

    What it cannot tell: whether an environment outside the data behaves like those inside; whether a head richer than
    a linear one would serve all; whether the target means the same everywhere.

    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(900, 3)), np.repeat(["Bern", "Oslo", "Rome"], 300)
    >>> y = X[:, 0] + (site == "Rome") * X[:, 1] + rng.normal(size=900)
    >>> result = audit(LinearRegression().fit(X, y), X, y, site, env_name="site", n_boot=199)
    >>> result.state, result["regret"].worst
    ('NOT INVARIANT', 'Rome')
    >>> print(result.sentences[1])
    They disagree mostly about x1.
    """
    started = time.perf_counter()
    margin = share_above_zero("margin", margin, MARGIN)
    alpha = share_above_zero("alpha", alpha, ALPHA)
    n_boot, seed = number_of_draws(n_boot), whole_number(seed, "seed")
    _refuse_ratio(ratio)
    chosen = chosen_criteria(criteria)
    with reporting(progress) as say:
        say("reading the model and the data")
        material, subject = gather(
            model,
            X,
            y,
            env,
            baseline=baseline,
            task=task,
            weight=weight,
            env_column=env_column,
            target_name=target_name,
            env_name=env_name,
            needs={need for criterion in chosen for need in criterion.needs},
            say=say,
        )
        options = AuditOptions(n_boot=n_boot, seed=seed, ratio=ratio)
        results, left_out = run(chosen, material, options, say, not_asked_for(criteria))
    data, trained_by = subject.data, material.trained_with.name
    if "regret" in left_out:
        verdict = verdict_without_regret(left_out["regret"].reason, len(data.labels), data.env_name)
    elif n_boot == 0:
        verdict = verdict_without_draws(results["regret"], data.env_name)
    else:
        verdict = verdict_of(
            results["regret"],
            margin=margin,
            alpha=alpha,
            env_name=data.env_name,
            target_name=data.target_name,
            overlap=overlap_in(results),
            learned=subject.learned,
            trained_by=trained_by,
            weights=material.compared.blocks.width * max(1, len(material.target.classes) - 1),
            level=subject.level,
        )
    small = outnumbered(data.labels, material.representation.rows)
    unsettled = small if verdict.state == CANNOT_TELL and n_boot else ()
    return Audit(
        state=verdict.state,
        headline=verdict.headline,
        sentences=verdict.sentences,
        results=results,
        left_out={name: missing.reason for name, missing in left_out.items()},
        data=data,
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
        notes=subject.notes,
        algorithm=algorithm_needed(
            results.get("influence_index"),
            verdict.state,
            alpha=alpha,
            margin=margin,
            env_name=data.env_name,
            trained_by=trained_by,
            small=small,
        ),
        could_drop=left_out["regret"].environments if "regret" in left_out else unsettled,
    )


def _refuse_ratio(ratio: Any) -> None:
    """What is wrong with it should not cost the user the wait."""
    if isinstance(ratio, DensityRatio):
        raise InputError(
            "ratio is fitted already: an audit needs the name of an estimator or a classifier, since inputs and "
            "representation have density ratios of their own"
        )
    estimator_of(ratio)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("invariscope", "numpy", "scipy", "scikit-learn", "pandas"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
