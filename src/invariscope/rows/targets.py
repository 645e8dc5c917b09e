"""Classes or numbers? One rule for every criterion, objective, estimator and command; and the codes heads work with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.blocks import refuse_out_of_range
from invariscope.rows.environments import Environments
from invariscope.rows.settings import several
from invariscope.rows.spelling import spelt

TASKS = ("auto", "regression", "classification", "binary", "multiclass")
LOSS_OF_TASK = {"regression": "squared", "binary": "logistic", "multiclass": "softmax"}
MOST_CODES = 10  # whole numbers 0..K-1 or 1..K of more classes are amounts, unless somebody says otherwise
FEWEST_STEPS = 4  # of whole numbers in a row that may well be a scale
MOST_CLASSES = 100  # different numbers beyond which nobody means classes


@dataclass(frozen=True)
class Target:
    """The target as numbers: values for regression, codes 0..K-1 (row order of the environments) for classes.

    ``task`` is "regression", "binary" or "multiclass"; ``values`` is (n,), or (n, q) for q numbers per row;
    ``classes`` are the user's labels in the order of the codes, none for numbers.
    """

    task: str
    values: Floats
    classes: tuple[Any, ...] = ()

    @property
    def loss(self) -> str:
        return LOSS_OF_TASK[self.task]


def target_of(
    data: Environments, task: str = "auto", *, outputs: int | None = None, classes: Sequence[Any] | None = None
) -> Target:
    """What kind of target the rows have. This is the rule, wherever a ``task`` is asked for:

    1. A task that is named wins: "regression" is numbers, "classification" classes ("binary" and "multiclass" are
       classes, too; binary ones must be two).
    2. Labels, texts, categories and booleans are classes.
    3. ``outputs``, how many numbers the model or head gives per row, leaves no doubt where it is known. With K ≥ 2 the
       target is one of K classes: whole numbers 0..K-1 are their codes, also where a class is absent; K other values
       (fractions, too, if they repeat) are sorted; ``classes`` names them in the order of the outputs. With one output
       two different values, or zeros and ones only, are two classes, and anything else is numbers: one output cannot
       tell several classes apart.
    4. Otherwise two different values are classes, and so are whole numbers 0..K-1 or 1..K with 3 ≤ K ≤ 10; everything
       else is numbers.

    What heads of the environments' own need beside that is asked by :func:`refuse_unfit_for_own_heads`.

    >>> data = Environments(np.zeros(6), [1, 2, 3, 1, 2, 3], list("aaabbb"))
    >>> target_of(data).classes, target_of(data, outputs=1).task, target_of(data, outputs=5).classes
    ((1, 2, 3), 'regression', (0, 1, 2, 3, 4))
    """
    if data.y is None:
        raise InputError("no target given: pass y, one value per row")
    return target_in(data.y, data.classes, task, outputs=outputs, classes=classes, name=data.target_name)


def target_of_columns(data: Environments, task: str = "auto", *, columns: int) -> Target:
    """The rule where predictions of so many columns are given: outputs of a model that nobody sees.

    Columns that contradict the target tell nothing of it: the door for predictions refuses them in its own words.
    """
    try:
        return target_of(data, task, outputs=columns)
    except InputError:
        return target_of(data, task)


def target_in(
    values: Array,
    labels: tuple[Any, ...] | None = None,
    task: str = "auto",
    *,
    outputs: int | None = None,
    classes: Sequence[Any] | None = None,
    name: str = "target",
) -> Target:
    """The rule of :func:`target_of` for values that are not grouped: numbers, or codes into ``labels``.

    ``values`` may also be (n, q), q numbers per row.
    """
    refuse_unknown_task(task)
    alone = outputs is None and classes is None and len(labels or ()) < 2  # else other classes are known, but absent
    if values.ndim == 1 and alone and values.min() == values.max():
        raise _one_value(name)
    if values.ndim > 1 or (labels is None and _are_numbers(values, task, outputs, classes, name)):
        return _numbers(values, task, outputs, name)
    if task == "regression":
        leave_out = f"leave out {spelt('task', 'regression')}"
        raise InputError(f'target "{name}" holds labels, not numbers: give numbers, or {leave_out}')
    codes, order = _coded(values, labels, outputs, classes, name)
    if task == "binary" and len(order) != 2:
        raise InputError(
            f'target "{name}" has {len(order)} classes: a binary task needs 2. Leave task out, or say "classification".'
        )
    return Target("binary" if len(order) == 2 else "multiclass", codes, order)


def notes_on_scale(data: Environments, target: Target, task: str = "auto") -> tuple[str, ...]:
    """Said of whole numbers that may be a scale and are classes by the last rule alone: no task or label says so.

    >>> data = Environments(np.zeros(8), [1, 2, 3, 4, 1, 2, 3, 4], list("aaaabbbb"), target_name="pain")
    >>> print(*notes_on_scale(data, target_of(data)))
    Target "pain" holds the whole numbers 1 to 4, which are read as 4 classes: to read them as amounts, pass
    task="regression".
    """
    count = len(target.classes)
    if task != "auto" or data.classes is not None or count < FEWEST_STEPS:
        return ()
    return (
        f'Target "{data.target_name}" holds the whole numbers {target.classes[0]} to {target.classes[-1]}, which are '
        f"read as {count} classes: to read them as amounts, pass {spelt('task', 'regression')}.",
    )


def labels_in(values: Floats, labels: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """The different values of a target as people write them: its labels, or its numbers, whole ones without a point."""
    return _sorted_numbers(values)[1] if labels is None else labels


def label_array(labels: Sequence[Any]) -> Array:
    """Labels as an array that holds them as they are: numpy would turn 1 and "a" into two texts."""
    for kind in (Real, str):
        if all(isinstance(label, kind) for label in labels):
            return np.array(labels)
    return np.fromiter(labels, dtype=object, count=len(labels))


def class_labels(given: Any) -> tuple[Any, ...]:
    """Labels of classes in the order they are given; of a text its letters.

    >>> class_labels("ab"), class_labels(np.array([1, 2]))
    (('a', 'b'), (1, 2))
    """
    labels = several(list(given) if isinstance(given, str) else given, "classes", "0, 1")
    return tuple(label.item() if isinstance(label, np.generic) else label for label in labels)


def refuse_unknown_task(task: Any) -> None:
    """There is one vocabulary for tasks."""
    if not isinstance(task, str) or task not in TASKS:
        raise InputError(f'task "{task}" is unknown: use "auto", "regression" or "classification"')


def kind_of_task(task: str | None) -> str | None:
    """ "regression" or "classification", as models say it; None where nothing is said."""
    refuse_unknown_task("auto" if task is None else task)
    return None if task in (None, "auto") else "regression" if task == "regression" else "classification"


def agreed_task(task: str, of_model: str | None) -> str:
    """The task the user names and the one the model was made for, if they agree."""
    refuse_unknown_task(task)
    if task == "auto" or of_model is None:
        return of_model or task
    if (task == "regression") != (of_model == "regression"):
        raise InputError(
            f'task "{task}" was asked for, but the model does {of_model}: leave task out, or give a model that does '
            f"{'regression' if task == 'regression' else 'classification'}"
        )
    return task


def refuse_unfit_for_own_heads(data: Environments, target: Target) -> None:
    """What a head of every environment's own needs: targets that vary there, and every class in every environment.

    A head cannot be judged on a class it never saw. Risks of given predictions need nothing of the kind.
    """
    if target.task == "regression":
        _refuse_constant_numbers(data, target.values)
        return
    k, weight = len(target.classes), data.weight
    counts = np.bincount(data.codes * k + target.values.astype(np.intp), weight, minlength=len(data) * k)
    counts = counts.reshape(len(data), k)
    anywhere = counts.any(axis=0)
    if not anywhere.all():  # a model knows it, and no environment is to blame
        raise InputError(
            f'class "{target.classes[int(np.argmin(anywhere))]}" of target "{data.target_name}" never occurs in any '
            "row, and heads of the environments' own need every class in every environment. Give rows of all classes, "
            "or a model of those that occur."
        )
    absent = np.argwhere(counts == 0)
    if len(absent):
        e, c = absent[0]
        raise InputError(
            f'class "{target.classes[c]}" of target "{data.target_name}" never occurs in {data.name(data.labels[e])} '
            f"({data.sizes[e]} rows). Drop that environment, merge the class with another, or add rows.",
            environments=[data.labels[e]],
        )


def _refuse_constant_numbers(data: Environments, values: Floats) -> None:
    low, high = np.minimum.reduceat(values, data.offsets[:-1]), np.maximum.reduceat(values, data.offsets[:-1])
    if low.min() == high.max():
        raise _one_value(data.target_name)
    if np.any(low == high):
        label = data.labels[int(np.argmax(low == high))]
        raise InputError(
            f'target "{data.target_name}" is constant in {data.name(label)}: there is nothing to predict there. '
            "Drop that environment, or merge it with another.",
            environments=[label],
        )


def _one_value(name: str) -> InputError:
    return InputError(f'target "{name}" has only one value: there is nothing to predict. Give rows in which it varies.')


def _are_numbers(values: Floats, task: str, outputs: int | None, classes: Sequence[Any] | None, name: str) -> bool:
    """Rules 1, 3 and 4 for a target without labels."""
    if task != "auto" or classes is not None:
        return task == "regression"
    distinct = _distinct(values)
    whole = bool(np.all(distinct == np.round(distinct)))
    if outputs == 1:
        return len(distinct) != 2 and not set(distinct.tolist()) <= {0.0, 1.0}
    if outputs is not None:
        repeated = (
            len(np.unique(values)) == outputs <= len(values) // 2
        )  # as many fractions as outputs, again and again
        if not whole and len(distinct) != 2 and not repeated:
            raise _contradiction(name, distinct.tolist(), outputs)
        return False
    counted = whole and len(distinct) <= MOST_CODES and distinct[0] in (0, 1) and np.ptp(distinct) == len(distinct) - 1
    return len(distinct) != 2 and not counted


def _distinct(values: Floats) -> Floats:
    """The different values, sorted; where there are many, those of the first rows."""
    distinct = np.unique(values[:2000])
    return distinct if len(distinct) > MOST_CODES else np.unique(values)


def _numbers(values: Array, task: str, outputs: int | None, name: str) -> Target:
    columns = values.shape[1] if values.ndim > 1 else 1
    if task not in ("auto", "regression"):
        raise InputError(
            f'target "{name}" has {columns} columns: several numbers per row are a regression. Leave task out, or give '
            "one column of classes."
        )
    if outputs not in (None, columns) and task == "regression" and values.ndim == 1:
        raise InputError(
            f'task "regression" was asked for, but the model gives {outputs} numbers per row, which tell classes '
            "apart: leave task out, or give a model of one number per row"
        )
    if outputs not in (None, columns):
        raise InputError(
            f'the model has {outputs} outputs but target "{name}" has {columns} column{"s" * (columns > 1)}: '
            "give as many of one as of the other"
        )
    refuse_out_of_range(float(np.abs(values).max()), f'target "{name}"')
    return Target("regression", values.astype(np.float64, copy=False))


def _coded(
    values: Floats, labels: tuple[Any, ...] | None, outputs: int | None, classes: Sequence[Any] | None, name: str
) -> tuple[Floats, tuple[Any, ...]]:
    """Codes of classes and their labels, in the order of the outputs where those are known."""
    count = None if outputs is None else max(2, outputs)
    codes, labels = _sorted_numbers(values) if labels is None else (values, labels)
    if codes is not values and count is None and classes is None and len(labels) > _most_classes(labels, len(values)):
        raise InputError(
            f'target "{name}" has {len(labels)} different numbers: too many to be classes. A classifier takes '
            f"the target it was fitted on; continuous numbers take {spelt('task', 'regression')}, with a model of "
            "numbers if one is given, or an InvariantRegressor."
        )
    if classes is not None:
        order = class_labels(classes)
    else:  # numbers that count from 0 are codes, even if some class is absent; others are sorted
        order = tuple(range(count)) if count is not None and len(labels) < count and _count(labels, count) else labels
    if outputs is not None and len(order) != count:
        raise _contradiction(name, order, outputs, given=classes is not None)
    unknown = [label for label in labels if label not in order]
    if unknown:
        known = ", ".join(map(str, order))
        raise InputError(
            f'target "{name}" has the label "{unknown[0]}", which is not among classes ({known}): name it there, or '
            "leave out its rows"
        )
    places = np.array([order.index(label) for label in labels], dtype=np.float64)
    return (codes if order == labels else places[codes.astype(np.intp)]), order


def _most_classes(labels: Sequence[float], rows: int) -> int:
    """How many different numbers may be called classes; fractions that hardly repeat are measurements."""
    whole = all(isinstance(label, int) for label in labels)
    return MOST_CLASSES if whole else min(MOST_CLASSES, max(MOST_CODES, rows // 10))


def _sorted_numbers(values: Floats) -> tuple[Floats, tuple[float, ...]]:
    distinct = np.unique(values)
    labels = tuple(int(v) if v == round(v) else float(v) for v in distinct.tolist())
    return np.searchsorted(distinct, values).astype(np.float64), labels


def _count(labels: Sequence[Any], count: int) -> bool:
    """Whether labels are whole numbers 0..count-1 (False and True are 0 and 1)."""
    return all(isinstance(label, Real) and label in range(count) for label in labels)


def _contradiction(name: str, values: Sequence[Any], outputs: int, given: bool = False) -> InputError:
    """Target and outputs cannot both be right."""
    some = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values[:5])
    what = f"classes lists {len(values)}" if given else f'target "{name}" has {len(values)} different values'
    model, count = "the model's one output tells" if outputs == 1 else "the model tells", max(2, outputs)
    remedy = (
        f"give a target of its classes: numbers 0 to {count - 1} where some are absent, or labels that classes= names "
        "in the order of its outputs"
    )
    if outputs == 1:
        remedy = f"give a model with one output per class, or predictions in {len(values)} columns of probabilities"
    if given:
        remedy = "name one for each of its outputs, in their order"
    elif isinstance(values[0], Real):
        one = "" if outputs == 1 else "a model of one output and "
        remedy += f"; if these are numbers, it takes {one}{spelt('task', 'regression')}"
    return InputError(f"{model} {count} classes apart, but {what} ({some}{', ...' * (len(values) > 5)}): {remedy}")
