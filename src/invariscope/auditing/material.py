"""What an audit has to work with: representation, predictions, inputs, baseline; and what is missing, and why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.auditing.audited_heads import as_they_are, ordered, rescaled
from invariscope.criteria.registry import NEEDS
from invariscope.criteria.regret.regret import refuse_too_few_rows
from invariscope.errors import InputError
from invariscope.heads.fit import pooled_head, pooled_scores
from invariscope.heads.linear_head import LinearHead, log_odds
from invariscope.models.adapters import split
from invariscope.models.outputs import checked_predictions, comes_from, numbered, own_names
from invariscope.models.splits import Split
from invariscope.models.trained_with import TrainedWith
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.tables import matrix_of
from invariscope.rows.targets import Target, agreed_task, refuse_unfit_for_own_heads, target_of

#: Rows per weight of a head below which a learned representation is judged by its predictions. With fewer, classes can
#: often be separated without error (no loss is left to compare), and numbers are mostly fitted to noise.
ROWS_PER_WEIGHT = {"numbers": 2, "classes": 5}
MOST_PIXELS = 800  # times classes - 1: weights of a linear baseline; 196 pixels of ten digits took three minutes


@dataclass(frozen=True)
class Material:
    """Everything a criterion may need, by the names of :data:`invariscope.criteria.registry.NEEDS`.

    ``data`` holds the representation, ``judged`` the predictions, both grouped by environment; ``has["predictions"]``
    and ``has["baseline"]`` are in the user's row order. ``lacks`` gives the reason for what is not there.
    ``full`` is the representation that ``head`` reads: more columns than ``data`` has, where those are the predictions
    because a learned representation is too wide for heads of the environments' own.
    """

    data: Environments
    full: Environments
    task: str
    head: LinearHead | None
    has: dict[str, Any]
    lacks: dict[str, str]
    judged: Environments | None
    loss: str
    model: str
    representation: str
    learned: bool  # whether its columns are made by the model, not by the user
    trained_with: TrainedWith = field(default_factory=TrainedWith)
    notes: tuple[str, ...] = field(default=())


def gather(
    model: Any,
    X: Any,
    y: Any,
    env: Any,
    *,
    baseline: Any = None,
    task: str = "auto",
    weight: Any = None,
    target_name: str | None = None,
    env_name: str | None = None,
    needs: Collection[str] = NEEDS,
) -> Material:
    """Take the model apart, put rows in order once, and see what there is.

    Inputs and baseline, which take a pass and a fit of their own, are only made ready if they are among ``needs``.
    """
    names = {"target_name": target_name, "env_name": env_name}
    if any(comes_from(values, "torch") for values in (X, y, env)):
        from invariscope.models.torch_rows import in_memory  # here: torch is an extra

        X, y, env = in_memory(X, y, env)
    parts = None if model is None else split(model, rows=X)
    notes: list[str] = []
    if parts is None:
        Z, columns = matrix_of(X)
    else:
        Z = parts.represent(X)
        columns = parts.columns(X, Z)
        if not np.isfinite(Z).all():
            _refuse_missing_inputs(X, env)
        task = agreed_task(task, parts.task)
    standard, centre, scale = _standardised(Z, weight)
    data = Environments(standard, y, env, weight, columns=_short_names(columns), **names)
    _refuse_unknown_classes(data, parts)
    target = target_of(data, task, outputs=_outputs(parts, X))
    if parts is not None:
        parts = parts.for_task(target.task)
    refuse_unfit_for_own_heads(data, target)
    learned = parts is not None and not {*(own_names(X) or numbered("x", len(data.columns)))} & {*data.columns}
    predictions = _predictions(parts, X, data, target, Z)
    full = data
    if parts is not None and learned and parts.probabilistic and predictions is not None and _too_wide(data, target):
        narrow = predictions[:, None] if predictions.ndim == 1 else log_odds(predictions)
        if narrow.shape[1] < data.X.shape[1]:
            columns = parts.by_predictions().columns(X, narrow)
            data = Environments(_standardised(narrow, weight)[0], y, env, weight, columns=columns, **names)
            notes.append(_narrowed(full, data))
    refuse_too_few_rows(data, target)
    head = None if parts is None or parts.head is None else rescaled(ordered(parts.head, parts, target), centre, scale)
    has: dict[str, Any] = {"representation": data, "target": target}
    lacks: dict[str, str] = {}
    if parts is not None and parts.network is not None:
        has["network"], has["raw inputs"] = parts, np.asarray(X)
    else:
        lacks["network"] = "needs a torch model"
    if "head" in needs:
        top = pooled_head(data, target) if parts is None else head
        if top is None and parts is not None and parts.level == "prediction" and parts.probabilistic:
            top = rescaled(ordered(as_they_are(parts, target), parts, target), centre, scale)
        if top is not None:
            has["head"] = top
        else:
            unknown = parts is not None and not parts.predicts
            lacks["head"] = f"needs a linear head; {'none was given' if unknown else 'the last step is not linear'}"

    judged = None
    if predictions is None:
        lacks["predictions"] = lacks["probabilities"] = lacks["scores"] = "the model was given without its predictions"
    else:
        judged = Environments(predictions, y, env, weight, **names)
        has["predictions"] = predictions
        if target.task == "regression":
            has["scores"] = predictions
            lacks["probabilities"] = "needs class probabilities; this is a regression"
        elif parts is not None and not parts.probabilistic:
            lacks["probabilities"] = lacks["scores"] = "needs class probabilities; this model only votes"
        else:
            has["probabilities"] = has["scores"] = predictions
    if "inputs" in needs or "baseline" in needs:
        wide = getattr(X, "ndim", 2) > 2 or (parts is not None and parts.network is not None)
        most = MOST_PIXELS // max(len(target.classes) - 1, 1) if wide else None
        has["inputs"], on_representation = _inputs(X, y, env, weight, names, data, most)
        if on_representation:
            notes.append(f"DRIC and overlap are measured on the representation: {on_representation}")
        has["baseline"] = _baseline(baseline, X, has["inputs"], target)
    if parts is None:
        notes.append("No model was given: predictions are those of a linear head fitted on all rows.")
    elif learned and full.columns == ("score",):
        notes.append(
            "The representation of this linear model is its score, which heads can only rescale and shift. How each "
            "column relates to the target is told by an audit without a model."
        )
    elif parts.level == "representation" and parts.head is None:
        notes.append(
            "The model's last step is not linear. The regret is that of a linear head on its inputs; risks are those "
            "of the model itself."
        )
    return Material(
        data=data,
        full=full,
        task=target.task,
        head=head,
        has=has,
        lacks=lacks,
        judged=judged,
        loss="auto" if parts is None or parts.probabilistic else "zero_one",
        model="linear head fitted on the columns" if parts is None else parts.description,
        learned=learned,
        representation=_words(parts, data is not full),
        trained_with=TrainedWith() if parts is None else parts.trained_with,
        notes=tuple(notes),
    )


def _words(parts: Split | None, narrowed: bool) -> str:
    if parts is None:
        return "the columns themselves"
    if narrowed:
        return f"prediction level: {parts.by_predictions().description}"
    return f"{parts.level} level: {parts.description}"


def _too_wide(data: Environments, target: Target) -> bool:
    """Whether some environment has so few rows for its columns that a head of its own would mostly fit noise."""
    few = ROWS_PER_WEIGHT["numbers" if target.task == "regression" else "classes"]
    return bool(data.rows.min() < few * data.blocks.width * max(1, len(target.classes) - 1))


def _narrowed(full: Environments, data: Environments) -> str:
    least = int(np.argmin(full.rows))
    return (
        f"The representation has {full.X.shape[1]:,} columns, too many for a head of its own in "
        f"{full.name(full.labels[least])} ({full.rows[least]:,.0f} rows): what needs such heads (regret, transport "
        f"gap) looks at the predictions ({wording.count(data.X.shape[1], 'column')}). The influence index "
        "and the worst case look at all of it."
    )


def _refuse_missing_inputs(X: Any, env: Any) -> None:
    """A representation that is not finite is best explained by the user's own column, if one has holes."""
    try:
        values, columns = matrix_of(X)
    except InputError:
        return
    Environments(values, None, env, columns=columns)


def _standardised(Z: Array, weight: Any) -> tuple[Floats, Floats, Floats]:
    """Columns in units of their own spread: the influence index depends on units, and mixed ones hide columns."""
    values = np.asarray(Z, dtype=np.float64)
    share = None if weight is None else np.asarray(weight, dtype=np.float64)
    if share is not None and (share.shape != (len(values),) or not share.sum() > 0):
        share = None  # refused, with its reason, when rows are grouped
    with np.errstate(invalid="ignore", over="ignore"):
        centre = np.average(values, axis=0, weights=share)
        standard = values - np.where(np.isfinite(centre), centre, 0.0)
        scale = np.sqrt(np.average(standard**2, axis=0, weights=share))
    centre = np.where(np.isfinite(centre), centre, 0.0)
    scale = np.where(np.isfinite(scale) & (scale > 1e-12 * np.abs(centre)), scale, 1.0)
    return standard / scale, centre, scale


def _outputs(parts: Split | None, X: Any) -> int | None:
    """1 where a network gives one number per row and does not say whether that is a prediction or log-odds."""
    unclear = parts is not None and parts.network is not None and parts.task is None
    return 1 if unclear and parts is not None and parts.predict(X[:2]).ndim == 1 else None


def _predictions(
    parts: Split | None, X: Any, data: Environments, target: Target, Z: Array | None = None
) -> Floats | None:
    """Predictions in the user's row order: numbers, or probabilities in the order of the target's classes."""
    if parts is None:
        return data.original(_erm_predictions(data, target))
    if not parts.predicts:
        return None
    values = parts.predict(X, Z)
    unnamed = parts.classes is None and (values.ndim == 2 or target.task == "multiclass")
    if target.task == "regression" or unnamed:  # what a criterion cannot use it refuses by itself
        return values
    return checked_predictions(values, task=target.task, classes=target.classes, columns=parts.classes)


def _erm_predictions(data: Environments, target: Target) -> Floats:
    """Predictions of the linear head fitted on all rows, environments pooled, in the stored row order."""
    scores = pooled_scores(data, target)
    if target.task == "regression":
        return scores[:, 0]
    return LinearHead(np.eye(scores.shape[1]), np.zeros(scores.shape[1])).probabilities(scores)


def _inputs(
    X: Any, y: Any, env: Any, weight: Any, names: dict[str, str | None], data: Environments, most: int | None
) -> tuple[Environments, str]:
    """Numeric inputs for density ratios, images as rows of pixels; the representation, and why, if there are none."""
    if isinstance(X, np.ndarray) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    if most is not None and getattr(X, "shape", (0, 0))[1] > most:
        return data, f"inputs of {X.shape[1]:,} numbers a row are too many (at most {most:,} for this target)."
    try:
        return Environments(X, y, env, weight, **names), ""
    except InputError as error:
        return data, f"the inputs are not all usable numbers ({str(error).partition('. ')[0]})."


def _baseline(baseline: Any, X: Any, inputs: Environments, target: Target) -> Floats:
    """Predictions of the baseline, in the user's row order: linear ERM on the inputs unless one is given."""
    if baseline is None:
        return inputs.original(_erm_predictions(inputs, target))
    if callable(baseline) or hasattr(baseline, "predict") or isinstance(baseline, Split):
        parts = split(baseline, rows=X).for_task(target.task)
    else:
        parts = Split(predict=baseline, task=target.task)
    found = _predictions(parts, X, inputs, target)
    if found is None:
        raise InputError("the baseline cannot predict: pass a model with predictions, or an array of them")
    return found


def _refuse_unknown_classes(data: Environments, parts: Split | None) -> None:
    if parts is None or parts.classes is None or data.y is None:
        return
    found = data.classes if data.classes is not None else tuple(np.unique(data.y).tolist())
    absent = [label for label in found if label not in parts.classes]
    if len(absent) > 20:
        return  # numbers, not classes: refused as such
    if absent:
        raise InputError(
            f'target "{data.target_name}" has class "{absent[0]}", which the model does not know: it was fitted on '
            f"{', '.join(map(str, parts.classes))}"
            + ("; to name a network's outputs: iv.split(model, classes=[...])" if parts.network is not None else "")
        )


def _short_names(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Names without the step that made them ("onehotencoder__city_Bern" → "city_Bern"), if they stay apart."""
    short = tuple(name.rpartition("__")[2] or name for name in columns)
    return short if len(set(short)) == len(columns) else columns
