"""Three steps through any set of models: seen accuracy, the influence index against its shuffles, and unseen rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.auditing.given import taken_apart
from invariscope.auditing.material import gather
from invariscope.auditing.run import chosen_criteria, run
from invariscope.auditing.verdict import ALPHA
from invariscope.criteria.material import AuditOptions, Material, Missing, Predictions
from invariscope.criteria.predictions.risks import loss_name
from invariscope.errors import InputError
from invariscope.models.adapters import is_array
from invariscope.models.inputs import holds_torch
from invariscope.models.trained_with import TrainedWith, trained_with_of
from invariscope.progress import Say, reporting
from invariscope.results import Estimate, InfluenceResult, Label
from invariscope.rows.arrays import Integers
from invariscope.rows.labels import unique_labels
from invariscope.rows.settings import number_of_draws, real_number, share_above_zero, shown, whole_number
from invariscope.rows.tables import column_of_labels
from invariscope.selection.paired_losses import ACCURACY, RowLosses, losses_of, losses_of_constant
from invariscope.selection.steps import FAILED, OPEN, PASSED, ModelSteps, ThreeSteps
from invariscope.selection.steps_words import sentences
from invariscope.wording import listed

TOLERANCE = 0.05
REFITTED = "V is that of a linear head refitted on its representation: {why}."
LIKE = 'iv.three_steps({"ERM": model, "IRM": other_model}, X, y, env)'


@dataclass(frozen=True)
class Asked:
    """How it is to be judged."""

    loss: str
    tolerance: float
    alpha: float
    options: AuditOptions


def three_steps(
    models: Mapping[str, Any],
    X: Any,
    y: Any = None,
    env: Any = None,
    *,
    reference: str = "ERM",
    tolerance: float = TOLERANCE,
    trained_with: Mapping[str, Any] | None = None,
    unseen: Any = None,
    task: str = "auto",
    loss: str = "auto",
    weight: Any = None,
    alpha: float = ALPHA,
    n_boot: int = 999,
    seed: int = 0,
    progress: bool | Say = False,
    target_name: str | None = None,
    env_name: str | None = None,
) -> ThreeSteps:
    """Is an OOD algorithm needed, and which of these models is one to take? The influence paper's three steps.

        step 1   does the model reach the reference's accuracy on the environments seen?    behind ≤ tolerance
        step 2   is its index V at its shuffles, or above?                                  p(V) ≥ alpha
        step 3   on unseen rows, where somebody has them: accuracy in the worst environment (oracle)

    A model that falls behind is eliminated at step 1, since an unseen environment is hardly easier; one whose V is
    above its shuffles at step 2, since it relies on what varies between environments. Whether an OOD algorithm is
    needed at all is step 2 of the reference, a model trained by ERM: if its V is at its shuffles, collect environments.

    Step 1 is paired, row by row, and rests on the 95 % interval: a model is eliminated if the whole interval is above
    ``tolerance``, passes if the whole is below, and is open else. What is no better than the best constant does not
    pass, however close to the reference: a collapsed model has a small V. Environments count equally.

    Parameters
    ----------
    models : a dict of models by name, each of any kind that :func:`~invariscope.audit` takes
    X, y, env : rows of the environments seen, as for :func:`~invariscope.audit`; best held out of training
    reference : the name of the model trained by ERM
    tolerance : how far a model may be behind: points of accuracy (0.05 is five), or extra loss as a share
    trained_with : what models were trained with, by name: an objective such as ``iv.objectives.IRM(weight=100)``,
        whose penalty then enters the Hessian, or its name if it has none ("group_dro"). Estimators of this package and
        networks that :func:`~invariscope.training.train` returned know it themselves; others are taken for ERM's.
    unseen : rows of environments that were not seen, (X, y, env), for step 3; env may be None for one environment
    task : "auto", "regression" or "classification"
    loss : "auto" is accuracy for classes and squared loss for numbers; or "log_loss", "zero_one", "squared", "absolute"
    weight : rows each row stands for
    alpha : the level of step 2
    n_boot : how many shuffles; 0 for V alone, which leaves step 2 open
    seed : every model has the same shuffles
    progress : say on the terminal what is being done
    target_name, env_name : what to call them

    A model whose last step is not linear is judged in step 2 on a linear head refitted on its representation, and
    its ``notes`` say so.

    What it cannot tell: whether V at its shuffles means that a model is invariant, or that rows are too few, or
    environments too much alike, to show what it relies on. p-values are one by one: of twenty invariant models one is
    eliminated at step 2. Nothing here looks at how much loss disagreement costs (see :func:`~invariscope.regret`).

    Reference: "Out-of-distribution generalization analysis via influence function", sections 4.2 and 5.2.

    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["Bern", "Oslo"], 500)
    >>> cause = rng.normal(size=1000)
    >>> y = cause + rng.normal(size=1000)
    >>> effect = y + np.where(site == "Oslo", 2.0, 0.2) * rng.normal(size=1000)
    >>> X = np.column_stack([cause, effect])
    >>> all_columns = LinearRegression().fit(X, y)
    >>> causal = make_pipeline(FunctionTransformer(lambda X: X[:, :1]), LinearRegression()).fit(X, y)
    >>> steps = three_steps({"ERM": all_columns, "causal": causal}, X, y, site, tolerance=1.5, n_boot=199)
    >>> steps.needed, steps.ready, steps["ERM"].eliminated_at
    (True, ('causal',), 2)
    """
    named = _models(models, reference)
    told = _told(trained_with, named)
    asked = Asked(
        loss,
        real_number(tolerance, "tolerance"),
        share_above_zero("alpha", alpha, ALPHA),
        AuditOptions(n_boot=number_of_draws(n_boot), seed=whole_number(seed, "seed")),
    )
    rows = _rows(X, y, env, target_name)
    target_rows = None if unseen is None else _unseen_rows(unseen, named, target_name)
    names = {"target_name": target_name, "env_name": env_name}
    with reporting(progress) as say:
        first = _judged(reference, named[reference], rows, told, asked, None, say, task=task, weight=weight, **names)
        models_found, material = {reference: first[0]}, first[1]
        losses = first[2]
        for name, model in named.items():
            if name != reference:
                models_found[name] = _judged(
                    name, model, rows, told, asked, losses, say, task=task, weight=weight, **names
                )[0]
        if target_rows is not None:
            for name, model in named.items():
                say(f"{name}: predicting unseen rows")
                there = _on_unseen(name, model, target_rows, material, losses.name, names)
                models_found[name] = replace(models_found[name], unseen=there)
    found = models_found[reference]
    outcome = ThreeSteps(
        models={name: models_found[name] for name in named},
        reference=reference,
        needed=_needed(found, asked.alpha),
        measure="accuracy" if losses.name == ACCURACY else losses.name,
        tolerance=asked.tolerance,
        alpha=asked.alpha,
        labels=losses.rows.labels,
        env_name=losses.rows.env_name,
        seed=asked.options.seed,
        n_boot=asked.options.n_boot,
        notes=tuple(dict.fromkeys(losses.rows.hand_over_notes())),
    )
    return replace(outcome, sentences=sentences(outcome))


# --- one model --------------------------------------------------------------------------------------------------------
def _judged(
    name: str,
    model: Any,
    rows: tuple[Any, Any, Any],
    told: Mapping[str, TrainedWith],
    asked: Asked,
    reference: RowLosses | None,
    say: Say,
    **given: Any,
) -> tuple[ModelSteps, Material, RowLosses]:
    """Steps 1 and 2 of one model; the reference is its own, and comes first."""
    say(f"{name}: reading the model")
    needs = {"representation", "target", "predictions"}
    try:
        material, subject = gather(model, *rows, needs=needs, say=lambda words: None, **given)
    except InputError as error:
        raise InputError(f'model "{name}": {error}', environments=error.environments) from error
    material = replace(material, trained_with=told.get(name, material.trained_with))
    losses = _losses(name, material, asked.loss)
    say(f"{name}: influence index")
    results, left_out = run(chosen_criteria("influence_index")[1:], material, asked.options, lambda words: None)
    influence: InfluenceResult | None = results.get("influence_index")
    notes = [*subject.notes]
    if influence is None:
        notes.append(f"No influence index: {left_out['influence_index'].reason}")
    elif isinstance(material.trained_head, Missing):
        notes.append(REFITTED.format(why=material.trained_head.reason))
    behind = Estimate(0.0, (0.0, 0.0)) if reference is None else losses.beyond(reference)
    constant = losses_of_constant(material.representation, material.target, losses.name)
    above = _negated(losses.beyond(constant))
    return (
        ModelSteps(
            name=name,
            trained_with=material.trained_with.name,
            per_environment=losses.per_environment(),
            mean=losses.mean(),
            behind=behind,
            above_constant=above,
            influence=influence,
            own_head=not isinstance(material.trained_head, Missing),
            reaches=_reaches(behind, above, asked.tolerance),
            unmoved=_unmoved(influence, asked.alpha),
            unseen={},
            notes=tuple(notes) if influence is None else (*notes, *influence.notes),
        ),
        material,
        losses,
    )


def _losses(name: str, material: Material, loss: str) -> RowLosses:
    if isinstance(material.predictions, Missing):
        raise InputError(
            f'model "{name}" has no predictions, and step 1 compares accuracies: give iv.Split(..., predict=...)'
        )
    chosen = ACCURACY if loss == "auto" and material.task != "regression" else loss_name(loss, material.target)
    if chosen == "log_loss" and material.predictions.kind == "votes":
        raise InputError(f'model "{name}" only votes, and has no log-loss: use loss="zero_one"')
    return losses_of(material.predictions.rows.X, material.predictions.rows, material.target, chosen)


def _reaches(behind: Estimate, above_constant: Estimate, tolerance: float) -> str:
    """Step 1; NaN is open."""
    if behind.interval[0] > tolerance or above_constant.interval[1] <= 0:
        return FAILED
    return PASSED if behind.interval[1] <= tolerance and above_constant.interval[0] > 0 else OPEN


def _unmoved(influence: InfluenceResult | None, alpha: float) -> str:
    """Step 2: V at its shuffles, or above?"""
    if influence is None or math.isnan(influence.pvalue):
        return OPEN
    return FAILED if influence.pvalue < alpha else PASSED


def _needed(reference: ModelSteps, alpha: float) -> bool | None:
    """Section 4.2: ERM fails to avoid varying features where its V is above its shuffles."""
    if reference.trained_with != "erm" or reference.reaches != PASSED or reference.unmoved == OPEN:
        return None
    return reference.unmoved == FAILED


def _negated(estimate: Estimate) -> Estimate:
    return Estimate(-estimate.value, (-estimate.interval[1], -estimate.interval[0]))


# --- step 3 -----------------------------------------------------------------------------------------------------------
def _on_unseen(
    name: str, model: Any, rows: tuple[Any, Any, Any], seen: Material, loss: str, names: Mapping[str, Any]
) -> dict[Label, Estimate]:
    """Accuracy or loss in environments that were not seen, of which there may be one alone."""
    X, y, env = rows
    task = "regression" if seen.task == "regression" else "classification"
    count = len(y)
    try:
        labels, codes = _labels(env, count, names["env_name"])
        halves = np.arange(count) % 2  # predictions do not depend on environments, but rows have two at least
        material, _ = gather(model, X, y, halves, needs={"predictions"}, task=task, **names)
        assert isinstance(material.predictions, Predictions)
        there, target = material.predictions.rows, material.target
        losses = losses_of(there.X, there, target, loss)
    except InputError as error:
        raise InputError(f'unseen rows, model "{name}": {error}', environments=error.environments) from error
    return losses.in_groups(labels, codes)


def _labels(env: Any, count: int, name: str | None) -> tuple[tuple[Label, ...], Integers]:
    """The environments of unseen rows and who is where; without any, all rows are of one."""
    if env is None:
        return ("unseen",), np.zeros(count, np.intp)
    values, own_name = column_of_labels(env, "env")
    if len(values) != count:
        raise InputError(f"env has {len(values)} labels for {count} rows: give one per row")
    return unique_labels(values, name or own_name or "env")


def _unseen_rows(unseen: Any, models: Mapping[str, Any], target_name: str | None) -> tuple[Any, Any, Any]:
    if not isinstance(unseen, tuple) or len(unseen) != 3:
        raise InputError(f"unseen is {shown(unseen)}: give unseen=(X, y, env), the rows of environments not seen")
    given = [name for name, model in models.items() if model is None or is_array(model)]
    if given:
        raise InputError(
            f'model "{given[0]}" cannot predict unseen rows, being an array of predictions or none: give the model '
            "itself, or leave unseen out"
        )
    return _rows(*unseen, target_name)


# --- what was given ---------------------------------------------------------------------------------------------------
def _rows(X: Any, y: Any, env: Any, target_name: str | None) -> tuple[Any, Any, Any]:
    """Loaders are read once: reading may take long, and augmented rows would be other rows for every model."""
    return taken_apart(None, X, y, env, target_name=target_name)[1:] if holds_torch(X) else (X, y, env)


def _models(models: Any, reference: str) -> dict[str, Any]:
    if not isinstance(models, Mapping) or not models:
        raise InputError(f"models is {shown(models)}: give a dict of models by name, {LIKE}")
    odd = [name for name in models if not isinstance(name, str) or not name.strip()]
    if odd:
        raise InputError(f'models has a name {shown(odd[0])}: name every model by a text, such as "IRM"')
    if reference not in models:
        raise InputError(
            f"reference {shown(reference)} is none of the models ({listed(list(models))}): name the one that was "
            "trained by ERM, reference=..."
        )
    return dict(models)


def _told(given: Any, models: Mapping[str, Any]) -> dict[str, TrainedWith]:
    """What the user says models were trained with."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InputError(
            f'trained_with is {shown(given)}: give a dict, such as {{"IRM": iv.objectives.IRM(weight=100)}}'
        )
    unknown = [name for name in given if name not in models]
    if unknown:
        raise InputError(f"trained_with names {shown(unknown[0])}: there are {listed(list(models))}")
    return {name: trained_with_of(objective, f'trained_with["{name}"]') for name, objective in given.items()}
