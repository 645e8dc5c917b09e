"""From a fitted model to its two halves: the representation it computes and the head that predicts from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, log_odds
from invariscope.models.outputs import (
    Names,
    checked_predictions,
    dense_matrix,
    numbered,
    order_of_columns,
    refuse_labels,
    refuse_other_rows,
    row_count,
)
from invariscope.models.trained_with import TrainedWith
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import column_names, switch
from invariscope.rows.targets import class_labels, kind_of_task

BY_HAND = "pass iv.Split(represent=..., predict=..., head=...) with your own functions or arrays"


@dataclass(frozen=True)
class InputSpace:
    """Where the inputs of a network can be moved: distances are those of the rows that ``rows`` gives.

    Attributes
    ----------
    network : torch module, such rows → logits (n, K) or numbers in the units of the target
    rows : X → rows as the network reads them
    represent : such rows → the representation (n, d)
    units : what a distance of 1 along a column is, in a few words; empty where rows are moved as they are given
    """

    network: Any
    rows: Callable[[Any], Any]
    represent: Callable[[Any], Array]
    units: str = ""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Split:
    """A model in two halves: ``represent`` turns rows into features, ``head`` (if linear) turns those into scores.

    Parameters
    ----------
    represent : function X -> (n, d), or an (n, d) array of values already computed for the rows to be audited
        Left out, the predictions are the representation (``level`` is "prediction"): the number itself for
        regression; for classes the log-odds of the second class, or log pₖ/p_K with the last class as reference,
        from probabilities clipped to 1e-6 .. 1 - 1e-6.
    predict : function X -> (n,) numbers or (n, K) class probabilities, or such an array
        Columns of a table that are named after the classes may be in any order. One column is the probability of the
        second class with ``task="classification"`` or in an audit of a target with two.
        Left out, predictions come from ``represent`` and ``head``.
    head : LinearHead, optional
    columns : names of the representation's columns, or a function (X, Z) -> names
    name : a few words for the report
    task : "regression", "classification", or "auto" and None (then the shape of the predictions decides)
    classes : labels of the probability columns, in their order

    Attributes
    ----------
    level : "representation", or "prediction" if there is nothing below the predictions to look at
    description : a few words for the report
    probabilistic : False if the model only votes (``predict`` then gives 0 and 1, which are not probabilities)
    top, network : of a torch module its last step as it is (it reads the representation before that is flattened to
        (n, d); ``None`` if more comes behind it), and the whole as a module that gives logits (n, K), to differentiate
        through; both ``None`` for every other model
    input_space : of torch modules and of invariscope's estimators where, and in which units, their inputs can be moved
        along gradients; ``None`` for every other model
    trained_with : the objective it was trained with, where that is known
    model : the estimator that was cut in two; ``None`` for torch modules, functions and halves given by hand

    It cannot tell whether ``represent`` and ``predict`` given by hand belong to the same model.

    >>> model = Split(represent=lambda X: X[:, :1], predict=lambda X: 3 * X[:, 0], head=LinearHead([[3.0]], 0.0))
    >>> import numpy as np
    >>> X = np.array([[1.0, 7.0], [2.0, 8.0]])
    >>> model.represent(X).tolist(), model.predict(X).tolist(), model.columns(X)
    ([[1.0], [2.0]], [3.0, 6.0], ('z0',))
    """

    head: LinearHead | None
    task: str | None
    classes: tuple[Any, ...] | None
    level: str
    description: str
    probabilistic: bool
    top: Any  # nn.Module | None; torch is an extra
    network: Any
    trained_with: TrainedWith
    model: Any
    _represent: Callable[[Any], Any] | None
    _predict: Callable[[Any], Any] | None
    _columns: Callable[[Any, Array], Sequence[str]] | Names | None
    _named: Names | None  # the columns of predictions given as a table
    _of_task: Callable[[str], Split] | None
    _of_rows: Callable[[Any], Split] | None
    followed: Callable[[], InputSpace] | None

    def __init__(
        self,
        represent: Any = None,
        predict: Any = None,
        head: LinearHead | None = None,
        *,
        columns: Sequence[str] | Callable[[Any, Array], Sequence[str]] | None = None,
        name: str | None = None,
        task: str | None = None,
        classes: Sequence[Any] | None = None,
        level: str | None = None,
        probabilistic: bool = True,
        top: Any = None,
        network: Any = None,
        trained_with: TrainedWith | None = None,
        model: Any = None,
        of_task: Callable[[str], Split] | None = None,
        of_rows: Callable[[Any], Split] | None = None,
        input_space: Callable[[], InputSpace] | None = None,
    ) -> None:
        if represent is None and predict is None:
            raise InputError("a Split needs represent=, predict= or both: functions of X, or arrays")
        task = kind_of_task(task)
        if head is not None:
            _refuse_unfit_head(head, represent, predict, task)
        represent, names = _as_function(represent, "represent")
        predict, named = _as_function(predict, "predict")
        columns = names if columns is None else columns
        level = level or ("prediction" if represent is None else "representation")
        self.__dict__.update(  # a frozen class sets its own attributes this way
            head=head,
            task=task,
            classes=None if classes is None else class_labels(classes),
            level=level,
            description=name or f"{level} given by hand",
            probabilistic=switch(probabilistic, "probabilistic"),
            top=top,
            network=network,
            trained_with=trained_with or TrainedWith(),
            model=model,
            _of_task=of_task,
            _of_rows=of_rows,
            followed=input_space,
            _represent=represent,
            _predict=predict,
            _named=named,
            _columns=columns if columns is None or callable(columns) else column_names(columns),
        )

    @property
    def input_space(self) -> InputSpace | None:
        """Where its inputs can be moved, if they can."""
        if self.followed is not None:
            return self.followed()
        return None if self.network is None else InputSpace(self.network, lambda X: X, self.represent)

    @property
    def predicts(self) -> bool:
        """Whether ``predict`` can be called."""
        return self._predict is not None or self.head is not None

    def represent(self, X: Any) -> Array:
        """The representation of the rows of X, shape (n, d): dense floats, float32 stays float32."""
        return self.read(X)[0]

    def read(self, X: Any) -> tuple[Array, Floats | None]:
        """The representation and, where it is made of the predictions, these as well: a model is not asked twice."""
        if self._represent is None:
            predictions = self.predict(X)
            return predictions[:, None] if predictions.ndim == 1 else log_odds(predictions), predictions
        matrix, _ = dense_matrix(_answer(self._represent, X), "represent")
        refuse_other_rows(row_count(X), matrix, "represent")
        if self.head is not None and matrix.shape[1] != self.head.n_features:
            raise InputError(
                f"represent gives {matrix.shape[1]} columns, but the head reads {self.head.n_features}: "
                "give both halves of one model"
            )
        return matrix, None

    def for_task(self, task: str) -> Split:
        """The same model, with its outputs read as those of a task, where it cannot tell by itself which it does.

        One output of a network may be a number or the log-odds of the second class: the target knows.
        """
        return self if self.task is not None or self._of_task is None else self._of_task(task)

    def for_rows(self, rows: Any) -> Split:
        """The same model, cut where these rows show that its last step is, if it was cut without having seen any.

        A network may use its layers in another order than it defines them, and give several outputs.
        """
        return self if rows is None or self._of_rows is None else self._of_rows(rows)

    @property
    def names_columns(self) -> bool:
        """Whether its predictions are several columns of a table, which may be named after classes."""
        return self.classes is None and self._named is not None and len(self._named) > 1

    def for_labels(self, labels: Sequence[Any]) -> Split:
        """The same model, its predictions in the order of these labels, where they are columns named after them."""
        names, given = self._named, self._predict
        order = order_of_columns(names, labels) if self.names_columns else None
        if order is None or names is None or given is None:
            return self
        others = [j for j in range(len(names)) if j not in order]  # classes without rows
        classes = (*labels, *(names[j] for j in others))
        other = object.__new__(Split)
        other.__dict__.update(self.__dict__, _predict=lambda X: given(X)[:, [*order, *others]], classes=classes)
        return other

    def reads_one_column(self, predictions: Floats | None) -> bool:
        """Whether nobody has said what one column of predictions is: numbers, or probabilities."""
        undecided = self.task is None and self._of_task is None and self._represent is None
        return undecided and predictions is not None and predictions.ndim == 1

    @property
    def hides_network(self) -> bool:
        """Whether it is a torch network that is judged by its predictions alone: only networks await their task."""
        return self.network is None and self._of_task is not None

    def by_predictions(self) -> Split:
        """The same model, judged by its predictions alone: one column, or K - 1 for K classes.

        Where a representation is too wide for the rows there are, this still says whether the predictions mean the
        same everywhere. It cannot tell whether another head on the representation would.
        """
        return Split(
            predict=self.predict,
            name=f"{self.description.partition(':')[0]}: its predictions",
            task=self.task,
            classes=self.classes,
            probabilistic=self.probabilistic,
            trained_with=self.trained_with,
            model=self.model,
            of_task=None if self._of_task is None else self._by_predictions_of,
            of_rows=None if self._of_rows is None else self._by_predictions_of_rows,
        )

    def _by_predictions_of(self, task: str) -> Split:
        return self.for_task(task).by_predictions()

    def _by_predictions_of_rows(self, rows: Any) -> Split:
        return self.for_rows(rows).by_predictions()

    def predict(self, X: Any, Z: Array | None = None) -> Floats:
        """Predictions for the rows of X: (n,) numbers, or (n, K) class probabilities ((n, 2) for two classes).

        Pass their representation as Z to spare a network with a linear head a second pass over the rows.
        """
        spared = Z is not None and self.network is not None and self.head is not None and self.task is not None
        if self._predict is not None and not spared:
            values = _answer(self._predict, X)
        elif self.head is None:
            raise InputError("this Split cannot predict: pass predict= or head= as well")
        else:
            Z = self.represent(X) if Z is None else Z
            values = self.head.scores(Z) if self.task == "regression" else self.head.probabilities(Z)
        return checked_predictions(values, rows=row_count(X), task=self.task, classes=self.classes)

    def columns(self, X: Any, Z: Array | None = None) -> Names:
        """One name per column of the representation of X; pass it as Z to spare computing it again."""
        Z = self.represent(X) if Z is None else Z
        if callable(self._columns):
            names = tuple(map(str, self._columns(X, Z)))
        elif self._columns is not None:
            names = self._columns
        elif self._represent is None:
            names = self._prediction_names(Z.shape[1])
        else:
            names = numbered("z", Z.shape[1])
        return column_names(names, Z.shape[1])

    def _prediction_names(self, width: int) -> Names:
        if self.classes is not None and width == 1:
            return (f'log-odds of "{self.classes[1]}"',)
        if self.classes is not None:
            return tuple(f'log-odds of "{label}" against "{self.classes[-1]}"' for label in self.classes[:-1])
        return ("prediction",) if width == 1 else numbered("log-odds ", width)

    def __repr__(self) -> str:
        return f"<Split {self.description}; {self.head or 'no linear head'}>"


def _refuse_unfit_head(head: Any, represent: Any, predict: Any, task: str | None) -> None:
    if not isinstance(head, LinearHead):
        raise InputError(f"head is a {type(head).__name__}: give iv.LinearHead(weight, bias) or leave it out")
    if represent is None:
        raise InputError("a head reads a representation: pass represent= as well")
    if predict is None and task is None:
        raise InputError('to predict from the head say what it predicts: task="regression" or "classification"')


def _as_function(half: Any, what: str) -> tuple[Callable[[Any], Any] | None, Names | None]:
    """A half as a function of X, and the names of its columns where it is a table of values computed before."""
    if half is None or callable(half):
        return half, None
    if hasattr(half, "predict"):
        raise InputError(
            f"{what}= is a {type(half).__name__}: give a function, such as its {what}, or an array; iv.split(model) "
            "cuts a model in two by itself"
        )
    if what == "predict":
        refuse_labels(half)
    values, names = dense_matrix(half, what)
    return partial(_given, values, what), names


def _given(values: Array, what: str, X: Any) -> Array:
    """Values computed beforehand: they answer only for as many rows as they have."""
    refuse_other_rows(row_count(X), values, f"the {what} array")
    return values


def _answer(half: Callable[[Any], Any], X: Any) -> Any:
    """What a half says of the rows of X; one that writes into them, as ``X[:, 0] -= mean`` does, gets a copy to spoil.

    A model fitted on a table and given an array, or the other way round, works all the same: no need to warn.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names", category=UserWarning)
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        if hasattr(X, "iloc"):
            return half(X.copy(deep=False))
        if not isinstance(X, np.ndarray):
            return half(X)
        rows = X.view()
        rows.flags.writeable = False
        try:
            return half(rows)
        except ValueError as error:
            if "read-only" not in str(error):
                raise
        return half(X.copy())


@runtime_checkable
class SplitsItself(Protocol):
    """A model that knows its own halves, as invariscope's estimators do: adapters ask it instead of looking inside."""

    def represent(self, X: Any) -> Array: ...
    def split(self) -> Split: ...
