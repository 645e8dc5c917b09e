"""The subject of an audit: a model's predictions and head as criteria want them, and its words in the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.auditing.against_a_constant import notes_on_losses
from invariscope.auditing.record import AuditedData
from invariscope.criteria.material import Baseline, Have, Material, Missing, Predictions, fittable, fittable_apart
from invariscope.errors import InputError
from invariscope.heads.fit import pooled_head
from invariscope.heads.linear_head import LinearHead, probabilities_of
from invariscope.models.adapters import is_array, split
from invariscope.models.outputs import HARD_LABELS, are_hard, checked_predictions, counted_by_environment
from invariscope.models.splits import Split
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.spelling import spelling, spelt
from invariscope.rows.targets import Target, target_of

NO_PREDICTIONS = Missing("the model was given without its predictions")
#: Distance of two models' predictions, in spreads, up to which they are one model, fitted by two solvers.
SAME_MODEL = 1e-3
#: Rows per weight of a head below which a learned representation is judged by its predictions. With fewer, classes can
#: often be separated without error (no loss is left to compare), and numbers are mostly fitted to noise.
ROWS_PER_WEIGHT = {"numbers": 2, "classes": 5}


@dataclass(frozen=True)
class Subject:
    """What is audited; ``learned`` columns are made by the model, not by the user.

    ``level`` is what heads look at: the "representation", the "prediction" of a model that has no other, or again the
    predictions, because the representation is "too wide".
    """

    data: AuditedData
    learned: bool
    level: str
    notes: tuple[str, ...]


def subject_of(split_model: Split | None, material: Material, learned: bool, why_not_inputs: str) -> Subject:
    """The words for what was gathered; ``why_not_inputs`` says why density ratios do not look at the inputs."""
    rows, narrowed = material.representation, material.compared is not material.representation
    notes = []
    if narrowed and not isinstance(material.own_heads, Missing):
        notes.append(_narrowed(rows, material.compared, material.target))
    if why_not_inputs:
        notes.append(f"DRIC is measured on the representation: {why_not_inputs}")
    data = AuditedData(
        rows=len(rows.X),
        labels=rows.labels,
        sizes=tuple(rows.sizes.tolist()),
        columns=material.compared.columns,
        task=material.task,
        classes=rows.classes or (),
        target_name=rows.target_name,
        env_name=rows.env_name,
        representation=_level(split_model, narrowed),
        head=f"linear head, {'squared loss' if material.task == 'regression' else 'log-loss'}",
        model="linear head fitted on the columns" if split_model is None else split_model.description,
    )
    notes += [*_notes_on_head(split_model, material, learned), *_notes_on_predictions(split_model, material)]
    of_predictions = split_model is not None and split_model.level == "prediction"
    level = "too wide" if narrowed else "prediction" if of_predictions else "representation"
    return Subject(data, learned, level, tuple(notes))


def too_wide(data: Environments, target: Target) -> bool:
    """Whether heads of the environments' own on these columns would mostly fit noise, or take too long."""
    return _short_of_rows(data, target) or isinstance(fittable_apart(data, target), Missing)


def _short_of_rows(data: Environments, target: Target) -> bool:
    few = ROWS_PER_WEIGHT["numbers" if target.task == "regression" else "classes"]
    return bool(data.rows.min() < few * data.blocks.width * max(1, len(target.classes) - 1))


def _level(split_model: Split | None, narrowed: bool) -> str:
    if split_model is None:
        return "the columns themselves"
    if narrowed:
        return f"prediction level: {split_model.by_predictions().description}"
    return f"{split_model.level} level: {split_model.description}"


def _narrowed(full: Environments, compared: Environments, target: Target) -> str:
    heads = "heads of the environments' own"
    if _short_of_rows(full, target):
        least = int(np.argmin(full.rows))
        heads = f"a head of its own in {full.name(full.labels[least])} ({full.rows[least]:,.0f} rows)"
    left = wording.count(compared.X.shape[1], "column")
    return (
        f"The representation has {full.X.shape[1]:,} columns, too many for {heads}: what needs such heads (regret, "
        f"transport gap) looks at the predictions ({left}). The influence index and the worst case look at all of it."
    )


def _notes_on_head(split_model: Split | None, material: Material, learned: bool) -> tuple[str, ...]:
    if split_model is None:
        if isinstance(fittable(material.representation, material.target), Missing):
            return ()
        return ("No model was given: predictions are those of a linear head fitted on all rows.",)
    if learned and split_model.level == "representation" and material.representation.columns == ("score",):
        return (
            "The representation of this linear model is its score, which heads can only rescale and shift. How each "
            "column relates to the target is told by an audit without a model.",
        )
    if split_model.level == "representation" and split_model.head is None:
        return (
            "The model's last step is not linear. The regret is that of a linear head on its inputs; risks are those "
            "of the model itself.",
        )
    return ()


def _notes_on_predictions(split_model: Split | None, material: Material) -> list[str]:
    """Predictions that are labels, where probabilities or numbers are looked for; or no better than a constant."""
    predictions, baseline = material.predictions, material.baseline
    notes = [] if split_model is None else notes_on_losses(predictions, material.target)
    if isinstance(predictions, Predictions) and predictions.kind == "probabilities" and are_hard(predictions.values):
        notes.append(HARD_LABELS)
    if not isinstance(baseline, Missing) and material.task != "regression" and are_hard(baseline.values):
        notes.append(HARD_LABELS.replace("All predictions", "All predictions of the baseline"))
    rows = material.representation
    if split_model is not None and split_model.task is None and isinstance(predictions, Predictions):
        classes = () if material.task != "regression" or rows.y is None else target_of(rows).classes
        if classes and np.isin(predictions.values, np.asarray(classes)).all():
            notes.append(
                f"The predictions are values of the target ({', '.join(map(str, classes))}) and are read as numbers. "
                "If they are labels of classes, pass one column of probabilities per class."
            )
    return notes


# --- its predictions --------------------------------------------------------------------------------------------------
def of_model(
    split_model: Split,
    X: Any,
    data: Environments,
    target: Target,
    Z: Array | None = None,
    said: Floats | None = None,
    *,
    whose: str = "predictions",
) -> Have[Predictions]:
    """The predictions of a model for the rows of ``data``; ``said``, or ``Z`` for networks, spare a second pass."""
    if not split_model.predicts:
        return NO_PREDICTIONS
    with counted_by_environment(data, whose):
        values = split_model.predict(X, Z) if said is None else said
    unnamed = split_model.classes is None and (values.ndim == 2 or target.task == "multiclass")
    if target.task != "regression" and not unnamed:  # what a criterion cannot use it refuses by itself
        values = checked_predictions(values, task=target.task, classes=target.classes, columns=split_model.classes)
    kind = _kind(target) if split_model.probabilistic else "votes"
    return Predictions(data.with_matrix(values), kind)


def of_columns(data: Environments, target: Target) -> tuple[Have[LinearHead], Have[Predictions]]:
    """Without a model: the linear head of all rows, environments pooled, and its predictions."""
    rows = fittable(data, target)
    if isinstance(rows, Missing):
        return rows, rows
    head, scores = pooled_head(rows, target)
    return head, Predictions(rows.with_matrix(rows.original(_linked(scores, target))), _kind(target))


def of_baseline(
    given: Any, X: Any, inputs: Have[Environments], target: Target, predictions: Have[Predictions], has_model: bool
) -> Have[Baseline]:
    """The baseline: linear ERM, fitted here on the inputs, unless one is given.

    None is fitted where there are no predictions to compare it with, or where those are its own.
    """
    if isinstance(inputs, Missing):
        return inputs
    if given is not None:
        return Baseline(_given_baseline(given, X, inputs, target), fitted_here=False)
    if isinstance(predictions, Missing):
        return predictions
    if not has_model:
        return _own_baseline()
    rows = fittable(inputs, target)
    if isinstance(rows, Missing):
        given = f"{spelt('baseline')}{' ' if spelling().shell else ''}..."
        return Missing(f"needs a baseline: give one ({given}), since {rows.reason}")
    values: Floats = rows.original(_linked(pooled_head(rows, target)[1], target))
    audited = predictions.values
    if values.shape == audited.shape and _same(values, audited, rows):
        return _own_baseline()
    return Baseline(values, fitted_here=True)


def _own_baseline() -> Missing:
    of_shell, gap = (f" with {spelt('model')}", " ") if spelling().shell else ("", "")
    return Missing(
        "DRIC's baseline, a linear head fitted on the same columns, is the very model that is audited: DRIC would be 1 "
        f"by construction. Audit another model{of_shell}, or give another baseline ({spelt('baseline')}{gap}...)."
    )


def _same(values: Floats, audited: Floats, rows: Environments) -> bool:
    """Whether two models predict the same for the rows that count."""
    there = slice(None) if rows.weight is None else rows.original(rows.weight) > 0
    with np.errstate(over="ignore"):  # what is too far from 1 to be squared is not the same
        return bool(np.mean((values[there] - audited[there]) ** 2) <= SAME_MODEL**2 * np.var(values[there]))


def _given_baseline(given: Any, X: Any, inputs: Environments, target: Target) -> Floats:
    if is_array(given):
        split_baseline = Split(predict=given, task=target.task).for_labels(target.classes)
    else:
        split_baseline = split(given, rows=X).for_task(target.task)
    predictions = of_model(split_baseline, X, inputs, target, whose="predictions of the baseline")
    if isinstance(predictions, Missing):
        raise InputError("the baseline cannot predict: pass a model with predictions, or an array of them")
    return predictions.values


def _kind(target: Target) -> str:
    return "numbers" if target.task == "regression" else "probabilities"


def _linked(scores: Floats, target: Target) -> Floats:
    """Scores (n, n_scores) of a linear head as numbers (n,) or probabilities (n, K)."""
    return scores[:, 0] if target.task == "regression" else probabilities_of(scores)


# --- its head ---------------------------------------------------------------------------------------------------------
def heads_of_model(
    split_model: Split, target: Target, centre: Floats, scale: Floats
) -> tuple[Have[LinearHead], Have[LinearHead]]:
    """The last step of the model, and the linear map from its representation to its predictions."""
    trained, why = split_model.head, "the last step is not linear" if split_model.predicts else "none was given"
    if trained is None and not (split_model.level == "prediction" and split_model.probabilistic):
        return Missing(why), Missing(f"needs a linear head; {why}")
    head = rescaled(ordered(trained or as_they_are(split_model, target), split_model, target), centre, scale)
    return Missing(why) if trained is None else head, head


def ordered(head: LinearHead, parts: Split, target: Target) -> LinearHead:
    """The model's head with its outputs in the order of the target's classes."""
    if parts.classes is None or tuple(parts.classes) == tuple(target.classes) or not target.classes:
        return head
    if head.n_outputs == 1:  # the log-odds of the other class
        return LinearHead(-head.weight, -head.bias)
    if len(parts.classes) != head.n_outputs or any(label not in parts.classes for label in target.classes):
        return head
    order = [parts.classes.index(label) for label in target.classes]
    return LinearHead(head.weight[order], head.bias[order])


def as_they_are(parts: Split, target: Target) -> LinearHead:
    """The head of a representation that holds the predictions: numbers, or log-odds, the last class being 0."""
    count = len(parts.classes or target.classes)
    if target.task == "regression" or count <= 2:
        return LinearHead([[1.0]], 0.0)
    return LinearHead(np.vstack([np.eye(count - 1), np.zeros(count - 1)]), np.zeros(count))


def rescaled(head: LinearHead, centre: Floats, scale: Floats) -> LinearHead:
    """The head for columns from which ``centre`` was taken and which were divided by ``scale``."""
    return LinearHead(head.weight * scale, head.bias + head.weight @ centre)
