"""From a model and a table to what an audit has to work with; what cannot be had is known before anything is fitted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.auditing.given import taken_apart
from invariscope.auditing.subject import (
    Subject,
    heads_of_model,
    of_baseline,
    of_columns,
    of_model,
    subject_of,
    too_wide,
)
from invariscope.criteria.material import KINDS, NEEDS, Have, Material, Missing, Network, Predictions, fittable_apart
from invariscope.criteria.regret.regret import refuse_too_few_rows
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, log_odds
from invariscope.models.inputs import NO_TABLE, NamedInputs, UnevenRows
from invariscope.models.outputs import checked_predictions, counted_by_environment, numbered, own_names
from invariscope.models.splits import Split, SplitsItself
from invariscope.models.trained_with import TrainedWith
from invariscope.progress import Say
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.digits import notes_on_lost_digits
from invariscope.rows.environments import Environments, checked_weights, refuse_empty
from invariscope.rows.not_tables import refuse_other_order
from invariscope.rows.resampling import notes_on_weights
from invariscope.rows.tables import matrix_of
from invariscope.rows.targets import (
    Target,
    agreed_task,
    labels_in,
    notes_on_scale,
    refuse_unfit_for_own_heads,
    target_of,
)
from invariscope.wording import in_sentences

MOST_PIXELS = 800  # times classes - 1: weights of a linear baseline; 196 pixels of ten digits took three minutes
NO_INPUTS = Missing("needs the inputs of the model: give them as X")
NOT_ASKED_FOR = Missing("no criterion that runs lists it among its needs")


def gather(
    model: Any,
    X: Any,
    y: Any,
    env: Any,
    *,
    baseline: Any = None,
    task: str = "auto",
    weight: Any = None,
    env_column: int | str | None = None,
    target_name: str | None = None,
    env_name: str | None = None,
    needs: Collection[str] = NEEDS,
    say: Say = lambda words: None,
) -> tuple[Material, Subject]:
    """Take the model apart, put rows in order once, and see what there is.

    What takes a pass or a fit of its own (inputs, baseline, the head of an audit without a model) is only made ready if
    it is among ``needs``.
    """
    refuse_other_order(X=X, predictions=model, y=y, env=env, weight=weight)
    without_inputs = X is None
    split_model, X, y, env = taken_apart(model, X, y, env, env_column, target_name)
    Z, columns, said = _represented(split_model, X, env)
    values, centre, scale = _standardised(Z, weight, _channels(X, Z))
    representation = Environments(
        values, y, env, weight, columns=_short_names(columns), target_name=target_name, env_name=env_name
    )
    counted = None if representation.weight is None else representation.original(representation.weight)
    lost = notes_on_lost_digits(Z, [f'Column "{name}"' for name in columns], counted)
    odd = (*representation.hand_over_notes(), *lost, *notes_on_weights(counted))
    asked, said = split_model, _said(split_model, X, Z, representation) if said is None else said
    given = representation
    representation, target, split_model = _targeted(given, asked, said, task)
    if asked is None or (said is None and asked.task is None and asked.classes is None):
        odd += notes_on_scale(given, target, task)
    if split_model is not None and split_model.reads_one_column(said) and target.task == "binary":
        said = checked_predictions(said, task="binary", classes=target.classes)
        values, centre, scale = _standardised(log_odds(said), weight)
        representation = representation.with_matrix(values, representation.columns)
    learned = split_model is not None and _learned(representation.columns, X)
    network: Have[Network] = _no_network(split_model)
    if split_model is None:
        compared = representation
    else:
        predictions = of_model(split_model, X, representation, target, Z, said if split_model is asked else None)
        compared = _compared(split_model, X, representation, target, predictions, learned, weight)
        if split_model.input_space is not None:
            network = _several(X) if isinstance(X, NO_TABLE) else _movable(split_model, X)
    own_heads = _own_heads(compared, target)

    # all that cannot be had is known by now; only from here on heads are fitted
    say(f"fitting linear heads on {compared.X.shape[1]:,} columns")
    if split_model is None:
        wanted = {"head", "predictions", *KINDS} & {*needs}
        head, predictions = of_columns(representation, target) if wanted else (NOT_ASKED_FOR, NOT_ASKED_FOR)
        trained_head: Have[LinearHead] = Missing("no model was given")
    else:
        trained_head, head = heads_of_model(split_model, target, centre, scale)
    inputs, why_not_inputs = (NO_INPUTS, "") if without_inputs else _inputs(X, split_model, compared, target, needs)
    material = Material(
        representation=representation,
        compared=compared,
        own_heads=own_heads,
        target=target,
        predictions=predictions,
        head=head,
        trained_head=trained_head,
        trained_with=TrainedWith() if split_model is None else split_model.trained_with,
        network=network,
        inputs=inputs,
        baseline=of_baseline(baseline, X, inputs, target, predictions, split_model is not None),
    )
    subject = subject_of(split_model, material, learned, why_not_inputs)
    return material, replace(subject, notes=(*odd, *subject.notes))


# --- the representation and the target --------------------------------------------------------------------------------
def _several(X: NamedInputs | UnevenRows) -> Missing:
    return Missing(f"{X.why_no_table}, and only one array can be moved")


def _movable(split_model: Split, X: Any) -> Network:
    """An estimator reads tables by their columns' names; a torch module reads an array."""
    return Network(split_model, np.asarray(X) if split_model.network is not None else X)


def _no_network(split_model: Split | None) -> Missing:
    """Why inputs cannot be moved along gradients, of a model whose network is out of reach or that has none."""
    if split_model is not None and isinstance(getattr(split_model.model, "_final_estimator", None), SplitsItself):
        return Missing("needs the estimator by itself: through the steps before it no gradients lead")
    if split_model is not None and split_model.hides_network:
        return Missing("needs the network itself, which is audited by its predictions here")
    return Missing("needs a torch model")


def _represented(split_model: Split | None, X: Any, env: Any) -> tuple[Array, tuple[str, ...], Floats | None]:
    """The representation of the rows, the names of its columns, and the predictions if it is made of them."""
    if split_model is None:
        return *matrix_of(X), None
    with counted_by_environment(env):
        Z, said = split_model.read(X)
    if not np.isfinite(Z).all():
        _refuse_missing_inputs(X, env)
    return Z, split_model.columns(X, Z), said


def _refuse_missing_inputs(X: Any, env: Any) -> None:
    """A representation that is not finite is best explained by the user's own column, if one has holes."""
    try:
        values, columns = matrix_of(X)
    except InputError:
        return
    Environments(values, None, env, columns=columns)


def _channels(X: Any, Z: Array) -> int | None:
    """Channels of the images (n, channels, ...) that a model hands on pixel by pixel; ``None`` for all else."""
    shape = np.shape(X) if isinstance(X, np.ndarray) and X.ndim > 2 else ()
    if not shape or Z.shape != (shape[0], int(np.prod(shape[1:]))) or not np.array_equal(Z, X.reshape(Z.shape)):
        return None
    return shape[1] if len(shape) > 3 else 1


def _standardised(Z: Array, weight: Any, channels: int | None = None) -> tuple[Floats, Floats, Floats]:
    """Columns in units of their own spread, what was taken off them, and what they were divided by.

    The influence index depends on units, and mixed ones hide columns. Pixels have one unit: those of one of the
    ``channels`` are divided by one number, or a pixel that is nearly always black would count like all others.
    """
    values = np.asarray(Z, dtype=np.float64)
    refuse_empty(values)
    share = None if weight is None else checked_weights(weight, len(values))
    with np.errstate(invalid="ignore", over="ignore"):
        centre = np.average(values, axis=0, weights=share)
        standard = values - np.where(np.isfinite(centre), centre, 0.0)
        scale = np.sqrt(np.average(standard**2, axis=0, weights=share))
    centre = np.where(np.isfinite(centre), centre, 0.0)
    if channels is not None:
        scale = np.repeat(np.sqrt(np.mean(scale.reshape(channels, -1) ** 2, axis=1)), len(scale) // channels)
    scale = np.where(np.isfinite(scale) & (scale > 1e-12 * np.abs(centre)), scale, 1.0)
    return standard / scale, centre, scale


def _short_names(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Names without the step that made them ("onehotencoder__city_Bern" → "city_Bern"), if they stay apart."""
    short = tuple(name.rpartition("__")[2] or name for name in columns)
    return short if len(set(short)) == len(columns) else columns


def _said(split_model: Split | None, X: Any, Z: Array, rows: Environments) -> Floats | None:
    """The predictions; of two rows only, where a network leaves open how its output is to be read."""
    if split_model is None or not split_model.predicts:
        return None
    unclear = split_model.network is not None and split_model.task is None
    with counted_by_environment(rows):
        return split_model.predict(X[:2]) if unclear else split_model.predict(X, Z)


def _targeted(
    data: Environments, split_model: Split | None, said: Floats | None, task: str
) -> tuple[Environments, Target, Split | None]:
    """The target as model and user agree on it; the rows with its classes, and the model with its outputs so read."""
    if split_model is None:
        return data, target_of(data, task), None
    outputs = None if said is None or split_model.classes is not None else said[:1].size
    classes = _classes_beyond_the_rows(data, split_model)
    target = target_of(data, agreed_task(task, split_model.task), outputs=outputs, classes=classes)
    if target.classes and not np.bincount(target.values.astype(np.intp), minlength=len(target.classes)).all():
        data = data.with_classes(target.values, target.classes)
    return data, target, split_model.for_task(target.task)


def _classes_beyond_the_rows(data: Environments, split_model: Split) -> tuple[Any, ...] | None:
    """The model's classes where the rows lack some of them; a label that the model does not know is refused."""
    if split_model.classes is None or data.y is None:
        return None
    labels = labels_in(data.y, data.classes)
    unknown = [label for label in labels if label not in split_model.classes]
    if len(unknown) > 20:
        return None  # numbers, not classes: refused as such
    if unknown:
        named = "" if split_model.network is None else ", or name its outputs: iv.split(model, classes=[...])"
        raise InputError(
            f'target "{data.target_name}" has class "{unknown[0]}", which the model does not know: it was fitted on '
            f"{', '.join(map(str, split_model.classes))}. Leave out its rows, or write it like one of these{named}."
        )
    return split_model.classes if len(labels) < len(split_model.classes) else None


def _learned(columns: tuple[str, ...], X: Any) -> bool:
    """Whether the columns are made by the model: none of them is the user's."""
    return not {*(own_names(X) or numbered("x", len(columns)))} & {*columns}


# --- what can be had, before anything is fitted -----------------------------------------------------------------------
def _compared(
    split_model: Split,
    X: Any,
    representation: Environments,
    target: Target,
    predictions: Have[Predictions],
    learned: bool,
    weight: Any,
) -> Environments:
    """The columns on which environments are compared: of a learned representation that is too wide, its predictions."""
    if isinstance(predictions, Missing) or not (learned and split_model.probabilistic):
        return representation
    if not too_wide(representation, target):
        return representation
    values = predictions.values
    narrow = values[:, None] if values.ndim == 1 else log_odds(values)
    if narrow.shape[1] >= representation.X.shape[1]:
        return representation
    columns = split_model.by_predictions().columns(X, narrow)
    return representation.with_matrix(_standardised(narrow, weight)[0], columns)


def _own_heads(compared: Environments, target: Target) -> Have[Environments]:
    """The rows, where every environment can have a head of its own: risks need none."""
    try:
        refuse_unfit_for_own_heads(compared, target)
        refuse_too_few_rows(compared, target)
    except InputError as error:
        return Missing(str(error), error.environments)
    return fittable_apart(compared, target)


def _inputs(
    X: Any, split_model: Split | None, compared: Environments, target: Target, needs: Collection[str]
) -> tuple[Have[Environments], str]:
    """Numeric inputs for density ratios, images as rows of pixels; the representation, and why, if there are none."""
    if not {"inputs", "baseline"} & {*needs}:
        return NOT_ASKED_FOR, ""
    if isinstance(X, NO_TABLE):
        return compared, f"{X.why_no_table}."
    of_network = split_model is not None and split_model.network is not None
    most = MOST_PIXELS // max(len(target.classes) - 1, 1) if getattr(X, "ndim", 2) > 2 or of_network else None
    if isinstance(X, np.ndarray) and X.ndim > 2:
        X = X.reshape(len(X), -1)
    if most is not None and getattr(X, "shape", (0, 0))[1] > most:
        return compared, f"inputs of {X.shape[1]:,} numbers a row are too many (at most {most:,} for this target)."
    try:
        return compared.with_matrix(X), ""
    except InputError as error:
        return compared, f"the inputs are not all usable numbers ({in_sentences(str(error))[0]})."
