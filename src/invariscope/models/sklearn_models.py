"""Splitting scikit-learn's estimators, and whatever else predicts in its manner.

Models are recognised by what they have; scikit-learn itself is imported only where it is asked something.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.models.outputs import Names, as_array, dense_matrix, numbered, own_names
from invariscope.models.splits import BY_HAND, Split, SplitsItself
from invariscope.rows.arrays import Array, Floats

NOT_FITTED = "model is not fitted: call fit first"
MOST_NAMES = 1_000_000  # of columns; a model that says it has more is not believed
#: What lies below a model's predictions: a function to the representation, its columns, the head, and words.
BelowPredictions = tuple[Callable[[Any], Any], Callable[[Any, Array], Names], LinearHead | None, str]


def split_estimator(model: Any) -> Split:
    """Cut a fitted scikit-learn estimator before its last linear step; :func:`invariscope.split` says where.

    >>> from sklearn.dummy import DummyRegressor
    >>> split_estimator(DummyRegressor().fit([[0.0], [1.0]], [1.0, 3.0]))
    <Split DummyRegressor: its predictions; no linear head>
    """
    task, classes = _task_and_classes(model, _task_of_estimator(model))
    *before, final = _steps(model)
    chain, kind = tuple(before), type(final).__name__
    where = " → ".join(type(step).__name__ for step in chain)
    owner = f"{type(model).__name__}'s best model, " if hasattr(model, "best_estimator_") else ""
    if isinstance(final, SplitsItself):
        return _split_by_itself(model, chain, final, owner + (f"Pipeline: {where} → " if chain else ""))
    if hasattr(final, "coefs_") and hasattr(final, "out_activation_"):
        represent, columns, head, words = _below_network(chain, final, where)
    elif chain or hasattr(final, "coef_"):
        head = _head_if_it_is_one(final, task) if hasattr(final, "coef_") else None
        represent, columns, head, words = _below_model(chain, final, where, head)
    else:
        reason = " (its head predicts a transformed target)" if kind == "TransformedTargetRegressor" else ""
        return _prediction_level(model, task, classes, f"{owner}{kind}: its predictions{reason}")
    predict, probabilistic = _predictor(model, task, classes)
    return Split(
        represent,
        predict,
        head,
        columns=columns,
        name=owner + words + ("" if head is not None else f"; {kind} is no linear head"),
        task=task,
        classes=classes,
        probabilistic=probabilistic,
        model=model,
    )


def _below_model(chain: tuple[Any, ...], final: Any, where: str, head: LinearHead | None) -> BelowPredictions:
    features = f"{type(final).__name__}: the features themselves"
    words = f"Pipeline: all steps but the last ({where})" if chain else features
    return partial(_features, chain, final), partial(_feature_names, chain, final), head, words


def _below_network(chain: tuple[Any, ...], final: Any, where: str) -> BelowPredictions:
    """The last hidden layer of a scikit-learn MLP, if it has one."""
    _refuse_many_targets(final, 1 if final.out_activation_ == "softmax" else final.n_outputs_)
    linear = final.out_activation_ != "exp"
    head = LinearHead(final.coefs_[-1].T, final.intercepts_[-1]) if linear else None
    if len(final.coefs_) == 1:
        return _below_model(chain, final, where, head)
    kind = type(final).__name__
    words = f"Pipeline: {where} → {kind}'s last hidden layer" if chain else f"{kind}: last hidden layer"
    return partial(_hidden_layer, chain, final), _hidden_names, head, words


def _split_by_itself(model: Any, chain: tuple[Any, ...], final: SplitsItself, place: str) -> Split:
    """The halves an estimator gives by itself, with the transformers before it."""
    halves = _applied(final, "split")
    return Split(
        partial(_represented, chain, final),
        _predictor(model, halves.task, halves.classes)[0],
        halves.head,
        columns=halves.columns,
        name=place + halves.description,
        task=halves.task,
        classes=halves.classes,
        trained_with=halves.trained_with,
        model=model,
        input_space=None if chain else halves.followed,
    )


def split_predictor(model: Any) -> Split:
    """Anything with ``predict`` or ``predict_proba``, from whatever package: judged by its predictions.

    >>> class Coin:
    ...     def predict_proba(self, X): ...
    >>> split_predictor(Coin()).description
    'Coin: its predictions'
    """
    return _prediction_level(model, *_task_and_classes(model, None), f"{type(model).__name__}: its predictions")


def _task_of_estimator(model: Any) -> str | None:
    """Refuse what is not fitted or predicts nothing; otherwise say what it predicts, if scikit-learn knows."""
    from sklearn.base import is_classifier, is_regressor
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    kind = type(model).__name__
    # others may keep their state under names sklearn does not know
    if isinstance(model, SplitsItself) or type(model).__module__.startswith("sklearn."):
        try:
            check_is_fitted(model)
        except NotFittedError as error:
            raise InputError(f"{NOT_FITTED} ({kind})") from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # from a file, or taken apart by hand
            raise InputError(f"{kind} is not whole ({_line(error)}): fit it again, or save it again") from error
    task = "classification" if is_classifier(model) else "regression" if is_regressor(model) else None
    if task is None and hasattr(model, "fit_predict"):
        raise InputError(f"{kind} groups rows, it does not predict a target: {BY_HAND}")
    if not hasattr(model, "predict"):
        if getattr(model, "refit", True) is False:
            raise InputError(f"{kind} kept no model: fit it with refit=True")
        raise InputError(f"{kind} does not predict: end it with a classifier or regressor, or {BY_HAND}")
    return task


def _steps(model: Any) -> list[Any]:
    """The transformers that act one after the other, then the model at their end; searches give their best model."""
    if hasattr(model, "best_estimator_"):
        return _steps(model.best_estimator_)
    if type(model).__name__ == "FrozenEstimator":
        return _steps(model.estimator)
    if not isinstance(getattr(model, "steps", None), list | tuple):  # elsewhere it is a number: steps of training
        return [model]
    *before, (_, last) = model.steps
    # "passthrough" has no transform; neither have resamplers, which act during fit only
    return [step for _, step in before if hasattr(step, "transform")] + _steps(last)


def _head_if_it_is_one(model: Any, task: str | None) -> LinearHead | None:
    """The coefficients as a head, provided that it says on made-up rows what the model says.

    Link functions other than identity, sigmoid and softmax, one-versus-one voting, hidden centring: all fail here.
    """
    weight, bias = np.atleast_2d(as_array(model.coef_)), np.ravel(as_array(getattr(model, "intercept_", 0.0)))
    _refuse_many_targets(model, 1 if task == "classification" else len(weight))
    if len(bias) not in (1, len(weight)):
        return None
    head = LinearHead(weight, np.broadcast_to(bias, len(weight)))
    rng = np.random.default_rng(0)
    anywhere = rng.standard_normal((16, head.n_features)) * np.geomspace(1e-4, 1e2, 16)[:, None]
    # where scores are moderate: far out, all links give the same zeros and ones
    near = (2 * rng.standard_normal((16, head.n_outputs)) - head.bias) @ np.linalg.pinv(head.weight).T
    rows = np.vstack([anywhere, near])
    scores = head.scores(rows)
    allowed = 1e-7 * (np.abs(rows) @ np.abs(head.weight.T) + np.abs(head.bias))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the rows have no column names, and may overflow a link function
        try:
            if task != "classification":
                said, ours = model.predict(rows), scores
            elif hasattr(model, "predict_proba"):
                said, ours, allowed = model.predict_proba(rows), head.probabilities(rows), 1e-7 + 1e-6 * allowed.max()
            else:
                said, ours = model.decision_function(rows), scores
        except (AttributeError, TypeError, ValueError):
            return None
    said = np.asarray(said).reshape(len(rows), -1)
    return head if said.shape == ours.shape and np.all(np.abs(said - ours) <= allowed) else None


def _features(chain: tuple[Any, ...], final: Any, X: Any) -> Any:
    """What reaches the final model: X through all transformers, as it comes (frame, sparse matrix or array)."""
    if not chain:
        return _checked_input(final, X)
    for step in chain:
        X = _applied(step, "transform", X)
    return X


def _represented(chain: tuple[Any, ...], final: Any, X: Any) -> Array:
    values: Array = _applied(final, "represent", _features(chain, final, X))
    return values


def _hidden_layer(chain: tuple[Any, ...], network: Any, X: Any) -> Array:
    """Activations of the last hidden layer of a scikit-learn MLP: h ← a(h W + b), one matrix product a layer."""
    from scipy.special import expit

    layer = _features(chain, network, X)
    layer = layer if hasattr(layer, "toarray") else dense_matrix(layer, "represent")[0]
    for weight, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        layer = layer @ weight
        layer += bias
        if network.activation == "relu":
            np.maximum(layer, 0, out=layer)
        elif network.activation == "tanh":
            np.tanh(layer, out=layer)
        elif network.activation == "logistic":
            expit(layer, out=layer)
    return as_array(layer)


def _predictor(model: Any, task: str | None, classes: tuple[Any, ...] | None) -> tuple[Callable[[Any], Any], bool]:
    """How to get predictions out of a model, and whether they are probabilities or numbers rather than votes."""
    if task == "classification" and hasattr(model, "predict_proba"):
        return partial(_applied, model, "predict_proba"), True
    if task != "classification":
        return partial(_applied, model, "predict"), True
    if classes is None:
        raise InputError(f"{type(model).__name__} has neither predict_proba nor classes_: {BY_HAND}")
    return partial(_votes, model, classes), False


def _votes(model: Any, classes: tuple[Any, ...], X: Any) -> Floats:
    labels = np.asarray(_applied(model, "predict", X), dtype=object)
    votes: Floats = (labels[:, None] == np.array(classes, dtype=object)).astype(np.float64)
    return votes


def _prediction_level(model: Any, task: str | None, classes: tuple[Any, ...] | None, description: str) -> Split:
    predict, probabilistic = _predictor(model, task, classes)
    represent, columns = None, None
    if not probabilistic and hasattr(model, "decision_function"):  # says more than a vote
        represent, columns = partial(_applied, model, "decision_function"), partial(_score_names, classes or ())
        description = description.replace("its predictions", "its decision scores")
    return Split(
        represent,
        predict,
        columns=columns,
        name=description,
        task=task,
        classes=classes,
        level="prediction",
        probabilistic=probabilistic,
        model=model,
    )


def _task_and_classes(model: Any, task: str | None) -> tuple[str | None, tuple[Any, ...] | None]:
    labels = getattr(model, "classes_", None)
    if task is None and (labels is not None or hasattr(model, "predict_proba")):
        task = "classification"
    if task == "regression":
        _refuse_many_targets(model, getattr(model, "n_outputs_", 1))
    if task != "classification" or labels is None:
        return task, None
    if isinstance(labels, list) and len(labels) and np.ndim(labels[0]) == 1:
        _refuse_many_targets(model, len(labels))
        raise InputError(
            f"{type(model).__name__} predicts a list with one target in it: give the model of that target, "
            "model.estimators_[0]"
        )
    known = tuple(np.asarray(labels).tolist())
    if len(known) < 2:
        raise InputError(
            f"{type(model).__name__} was fitted on one class ({', '.join(map(str, known))}): fit it on rows of several"
        )
    return task, known


def _refuse_many_targets(model: Any, count: int) -> None:
    if count > 1:
        raise InputError(f"{type(model).__name__} predicts {count} targets: audit one target at a time")


def _checked_input(model: Any, X: Any) -> Any:
    """X as it is, if it has the columns the model was fitted on (scikit-learn would check only when it predicts)."""
    expected, names = getattr(model, "feature_names_in_", None), own_names(X)
    if expected is not None and names is not None and names != tuple(expected):
        odd = [name for name in names if name not in expected] or [name for name in expected if name not in names]
        which = f"differs in {', '.join(map(str, odd))}" if odd else "has them in another order"
        fitted = f"{type(model).__name__} was fitted on the columns {', '.join(expected)}"
        raise InputError(f"{fitted}; X {which}: give these, in this order")
    width = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else None
    wanted = getattr(model, "n_features_in_", width)
    if width is not None and width != wanted:
        raise InputError(f"{type(model).__name__} was fitted on {wanted} columns, X has {width}: give the same columns")
    return X


def _feature_names(chain: tuple[Any, ...], final: Any, X: Any, Z: Array) -> Names:
    """Names of what reaches the final model; a step that cannot name its outputs has them numbered."""
    fitted_names = getattr((*chain, final)[0], "feature_names_in_", None)
    names = own_names(X) if fitted_names is None else tuple(map(str, fitted_names))
    for step, after in pairwise((*chain, final)):
        width = getattr(after, "n_features_in_", 0)
        width = int(width) if 0 < width <= MOST_NAMES else Z.shape[1]
        try:
            if getattr(step, "_n_features_out", width) != width:
                raise ValueError("it names other columns than the next step reads")
            names = tuple(map(str, step.get_feature_names_out(names)))
        except (AttributeError, LookupError, NotImplementedError, TypeError, ValueError):
            names = numbered(type(step).__name__.lower(), width)
    if names is None or len(names) != Z.shape[1]:
        return numbered(type(chain[-1]).__name__.lower() if chain else "x", Z.shape[1])
    return names


def _hidden_names(X: Any, Z: Array) -> Names:
    return tuple(f"hidden {j + 1}" for j in range(Z.shape[1]))


def _score_names(classes: tuple[Any, ...], X: Any, Z: Array) -> Names:
    labels = classes[1:] if len(classes) == 2 else classes
    return tuple(f'score of "{c}"' for c in labels) if len(labels) == Z.shape[1] else numbered("score ", Z.shape[1])


def _applied(model: Any, method: str, *X: Any) -> Any:
    """Call a model with X unchanged; its complaints, about X or what it was fitted to, become one sentence."""
    kind = type(model).__name__
    try:
        return getattr(model, method)(*X)
    except InputError:
        raise
    except Exception as error:  # a model that is not whole can fail anywhere
        if type(error).__name__ == "NotFittedError":
            raise InputError(f"{NOT_FITTED} ({kind})") from error
        if X and isinstance(error, TypeError | ValueError):
            said = " ".join(str(error).split()).rstrip(".")
            raise InputError(f"{kind}.{method} cannot use X: {said}. Give rows like those it was fitted on") from error
        raise InputError(f"{kind}.{method} fails ({_line(error)}): fit the model again, on rows like these") from error


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
