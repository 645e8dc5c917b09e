"""Which adapter cuts which model in two: torch modules, scikit-learn's estimators, whatever predicts, functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import PurePath
from typing import Any

from invariscope.errors import InputError
from invariscope.models.sklearn_models import split_estimator, split_predictor
from invariscope.models.splits import BY_HAND, Split
from invariscope.models.trained_with import TrainedNetwork
from invariscope.rows.not_tables import refuse_no_table
from invariscope.rows.tables import comes_from

FILES = (".skops", ".safetensors", ".pkl", ".pickle", ".joblib", ".onnx", ".pt", ".pth")


def split(
    model: Any,
    *,
    layer: str | None = None,
    task: str | None = None,
    classes: Sequence[Any] | None = None,
    batch_size: int | None = None,
    device: Any = None,
    inputs: str | Sequence[str] | None = None,
    output: str | int | None = None,
    rows: Any = None,
) -> Split:
    """Cut a fitted model into the representation it computes and the head that predicts from it.

    ================================  ====================================  =======================================
    model                             representation                        head
    ================================  ====================================  =======================================
    linear model                      the features                          its coefficients
    Pipeline                          all steps but the last                the last step's, if that is linear
    MLPClassifier, MLPRegressor       last hidden layer                     last layer
    InvariantClassifier, -Regressor   last hidden layer, or the score       last layer
    GridSearchCV and the like         that of the best model                that of the best model
    torch module                      what its last linear layer reads      that layer
    - with two halves, or a pair      what its head or classifier reads     head or classifier, if linear
    - with ``layer="..."``            what that layer reads                 that layer, if linear and the last
    other with predict(_proba)        its predictions (see :class:`Split`)  none
    function X -> predictions         its predictions                       none
    method of a torch module          its answers, tensors in (``forward``  none (``forward``: that layer)
                                      is the module itself)
    array or table of predictions     the predictions                       none
    ================================  ====================================  =======================================

    A head is given only where its scores (regression), their sigmoid or softmax (``predict_proba``) or its decision
    scores are the model's own: Poisson regression, say, keeps the features but has no linear head.
    It cannot look inside forests, kernels or a model of a transformed target: those are judged by what they predict.

    Parameters, all but the first for torch modules
    ----------
    model : fitted; a torch module may be an ``nn.Sequential``, have attributes ``featurizer`` and ``classifier`` or
        ``represent`` and ``head`` (DomainBed's algorithms, networks of :mod:`invariscope.training`), be a pair
        (representation, head), or be anything else whose last step is an ``nn.Linear``, with or without a softmax,
        log-softmax or sigmoid behind it
    layer : name of the step whose inputs are the representation, as in ``model.named_modules()``
    task : what one output is: the prediction ("regression") or the log-odds of the second class ("classification");
        left out, the target of the audit decides. K outputs are K classes.
    classes : labels of the outputs in their order (default: 0, 1, ..., K - 1)
    batch_size : rows at a time (default: 256)
    device : where to compute (default: where the module is); a module elsewhere is copied there
    inputs : of rows with several named inputs (batches that are dicts) the one, or those, that the module reads. Left
        out, those are handed over by keyword that its ``forward`` has parameters for; if it has none of them, the only
        one as it is, or all of them as one dict.
    output : of a module that gives a dict, a tuple or an object with attributes, the name or place of its predictions.
        Left out, those called logits, predictions or prediction; else the only tensor with a number, or one per class,
        for every row; else, if ``rows`` are given, the only such one that an ``nn.Linear`` made, but for a link.
    rows : some inputs; two of them are tried at once, to find the last linear layer where it was not defined last

    ``represent`` and ``predict`` then take arrays and tensors of any shape, tables, data sets and loaders. A loader is
    read in the order of its data set, whether it shuffles or not (a stream as it comes). The module is used without
    gradients and as in ``model.eval()``, and is left in the state it was in. Its head is copied: after further
    training, split again.

    >>> from sklearn.linear_model import LinearRegression
    >>> halves = split(LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]))
    >>> halves.description, halves.head.weight.round(6).tolist(), halves.head.bias.round(6).tolist()
    ('LinearRegression: the features themselves', [[2.0]], [1.0])
    """
    kind = type(model).__name__
    given = {"layer": layer, "task": task, "classes": classes, "batch_size": batch_size, "device": device}
    settings = {
        name: value for name, value in {**given, "inputs": inputs, "output": output}.items() if value is not None
    }
    if isinstance(model, type):
        trained = "" if hasattr(model, "named_modules") else ".fit(X, y)"
        raise InputError(f"{model.__name__} is a class: pass a fitted model, {model.__name__}(...){trained}")
    if is_network(model):
        from invariscope.models.torch_models import split_module  # here: torch is an extra

        return split_module(model, rows=rows, again=partial(_with_rows, model, settings), **settings)
    if is_network(getattr(model, "__self__", None)):
        from invariscope.models.torch_models import split_method

        return split_method(model, rows=rows, **settings)
    if settings:
        raise InputError(f"{next(iter(settings))}= is for torch modules, and a {kind} is none: leave it out")
    if isinstance(model, Split):
        return model.for_rows(rows)
    if comes_from(model, "sklearn") and hasattr(model, "get_params"):
        return split_estimator(model)
    if hasattr(model, "predict_proba") or hasattr(model, "predict"):
        return split_predictor(model)
    if is_array(model):
        return Split(predict=model, name="predictions given as values")
    if callable(model):
        _refuse_other_arguments(model)
        return Split(predict=model, name=f"function {getattr(model, '__name__', kind)}: its predictions")
    if isinstance(model, str | PurePath):
        raise InputError(_words_for_text(str(model)))
    if not isinstance(model, Mapping):  # predictions that have to be computed or put in order first
        refuse_no_table(model, "model", table=True)
    raise InputError(f"a {kind} cannot be split: it has no predict or predict_proba and is no function; {BY_HAND}")


def is_array(model: Any) -> bool:
    """Predictions as values: arrays, lists of numbers, columns and tables of any library, tensors."""
    if isinstance(model, list | tuple):
        return bool(model) and not any(callable(part) or hasattr(part, "predict") for part in model[:2])
    shape = getattr(model, "shape", None)
    many = isinstance(shape, tuple) and len(shape) > 0 and (hasattr(model, "__array__") or hasattr(model, "toarray"))
    return many or hasattr(model, "__arrow_c_stream__") or hasattr(model, "__arrow_c_array__")


def _refuse_other_arguments(function: Callable[..., Any]) -> None:
    """What a function does when it is called is its own affair; that it can be called with rows alone is not."""
    try:
        signature(function).bind(None)
    except TypeError as error:
        raise InputError(
            f"the function cannot be called with X alone ({error}): give one that takes the rows and gives predictions"
        ) from error
    except ValueError:  # compiled functions do not tell
        return


def _words_for_text(text: str) -> str:
    if PurePath(text).suffix.lower() in FILES:
        return (
            f'"{text}" is the name of a file: read the model first, with '
            f'invariscope.models.files.load_model("{text}"), or on the command line with --model'
        )
    return f'"{text}" is text, not a model: pass the fitted model itself, or None to audit the columns of X'


def _with_rows(model: Any, settings: dict[str, Any], rows: Any) -> Split:
    return split(model, rows=rows, **settings)


def is_network(model: Any) -> bool:
    """A torch module, a pair of them, or what training gave; recognised by name, since torch may not be there."""
    if isinstance(model, tuple):
        return len(model) == 2 and all(comes_from(half, "torch") for half in model)
    if comes_from(model, "torch"):
        return hasattr(model, "named_modules")
    return isinstance(model, TrainedNetwork) and comes_from(model.network, "torch")
