"""Fitted estimators in safetensors files: arrays, and a JSON header with everything else. Nothing in them is code."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from invariscope.errors import InputError
from invariscope.estimators.networks import Fitted, fitted_network
from invariscope.files import group, read_tensors, write_atomically

Kind = TypeVar("Kind", bound=type)

FORMAT = "invariscope estimator 1"
#: Parameters that are about the machine or cannot be written down; a file must not choose where a refit writes.
NOT_STORED = ("network", "checkpoint", "progress")
NUMBERS = ("n_features_in_", "n_representation_", "n_iter_", "kept_step_")
TARGET = ("target_centre_", "target_scale_")
ARRAYS = ("centre_", "scale_")
LABELS = "biufU"  # kinds of numpy arrays whose values JSON gives back
#: The estimators a file may hold, by their names.
KINDS: dict[str, Any] = {}
PLAN = {"outputs", "precision", "hidden", "activation", "dropout", "layers"}


def readable(kind: Kind) -> Kind:
    """Register a class of estimators, so that files of it are read."""
    KINDS[kind.__name__] = kind
    return kind


def store(estimator: Fitted, path: Path) -> Path:
    """Write a fitted estimator, whole or not at all."""
    numpy_files = _safetensors()
    names = getattr(estimator, "feature_names_in_", None)
    fitted = {name: getattr(estimator, name) for name in (*NUMBERS, *TARGET) if hasattr(estimator, name)}
    about = {
        "kind": type(estimator).__name__,
        "parameters": _parameters(estimator),
        "fitted": fitted,
        "network": estimator.network_,
        "objective": estimator.objective_,
        "environments": list(estimator.environments_),
        "names": None if names is None else list(names),
        "classes": _classes(estimator),
        "notes": list(estimator.notes_),
    }
    arrays = {f"weights/{name}": np.ascontiguousarray(values) for name, values in estimator.weights_.items()}
    arrays |= {f"history/{name}": np.ascontiguousarray(values) for name, values in estimator.history_.items()}
    arrays |= {name: np.ascontiguousarray(getattr(estimator, name)) for name in ARRAYS}
    header = {"format": FORMAT, "estimator": json.dumps(about)}
    return write_atomically(path, numpy_files.save(arrays, metadata=header))


def load(path: Path, expected: type[Fitted] | None = None, network: Any = None) -> Any:
    """Read an estimator of the expected class, or of either; everything in the file is checked before it is used."""
    _safetensors()
    if not path.is_file():
        folder = " (it is a folder)" if path.is_dir() else ""
        raise InputError(f"{path}: there is no such file{folder}: name the one that to_safetensors wrote")
    header, arrays = read_tensors(path, "numpy", ".safetensors file")
    if header.get("format") != FORMAT:
        raise InputError(
            f"{path} was not written by to_safetensors of an invariscope estimator, and weights alone do not say which "
            "model they belong to: store the fitted model with that"
        )
    try:
        about = json.loads(header["estimator"])
        if about["kind"] not in KINDS:
            raise ValueError(f"no estimator is called {about['kind']}")
        kind = KINDS[about["kind"]]
        if expected is not None and not issubclass(kind, expected):
            raise InputError(f"{path} holds an {kind.__name__}: load it with {kind.__name__}.from_safetensors")
        model = _filled(kind, about, arrays)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: damaged, or from another version ({why}): store the fitted model again") from error
    model.network = network
    if network is not None or "layers" not in model.network_:
        fitted_network(model)  # weights that do not fit are refused here, not at the first prediction
    return model


def _filled(kind: Any, about: dict[str, Any], arrays: dict[str, Any]) -> Any:
    names = set(inspect.signature(kind).parameters) - set(NOT_STORED)
    model = kind(**{name: _as_given(about["parameters"][name]) for name in names})
    for name in NUMBERS:
        setattr(model, name, int(about["fitted"][name]))
    if kind._task == "regression":
        for name in TARGET:
            setattr(model, name, float(about["fitted"][name]))
    else:
        model.classes_ = np.array(about["classes"]["values"], dtype=_label_type(about["classes"]["dtype"]))
    model.network_ = _plan(about["network"], len(about["classes"]["values"]) if about["classes"] else 2)
    model.objective_, model.environments_ = str(about["objective"]), tuple(about["environments"])
    model.notes_ = tuple(map(str, about.get("notes", ())))  # older files have none
    if about["names"] is not None:
        model.feature_names_in_ = np.array([str(name) for name in about["names"]], dtype=object)
    model.weights_, model.history_ = group(arrays, "weights"), group(arrays, "history")
    for name in ARRAYS:
        if arrays[name].shape != (model.n_features_in_,):
            raise ValueError(f"{name} has shape {arrays[name].shape} for {model.n_features_in_} columns")
        setattr(model, name, arrays[name])
    return model


def _plan(stored: dict[str, Any], classes: int) -> dict[str, Any]:
    """What it takes to build the network again; a number counts as two classes: both need one output."""
    plan = {name: value for name, value in stored.items() if name in PLAN}
    if int(plan["outputs"]) != (1 if classes == 2 else classes):
        raise ValueError(f"{plan['outputs']} outputs for {classes} classes")
    if "layers" not in plan:
        plan["hidden"] = tuple(int(width) for width in plan["hidden"])
        plan["dropout"] = float(plan["dropout"])
    return plan


def _parameters(estimator: Fitted) -> dict[str, Any]:
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name not in NOT_STORED}
    objective = parameters["objective"]
    if not isinstance(objective, str):  # an object: its name and all its hyper-parameters say the same
        objective = objective() if isinstance(objective, type) else objective
        parameters["objective"] = objective.name
        parameters["options"] = {**vars(objective), **(parameters["options"] or {})}
    if isinstance(parameters["random_state"], np.random.RandomState):
        parameters["random_state"] = None
    return {name: _plain(value, f'parameter "{name}"') for name, value in parameters.items()}


def _plain(value: Any, what: str) -> Any:
    """A value that JSON can hold and give back."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(part, what) for key, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part, what) for part in value]
    kind = type(value).__name__
    raise InputError(
        f"{what} holds a {kind}: a .safetensors file keeps only text, numbers and lists; give one of these"
    )


def _classes(estimator: Fitted) -> dict[str, Any] | None:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return None
    plain = classes.dtype.kind in LABELS
    return {
        "values": _plain(classes.tolist() if plain else list(classes), "classes_"),
        "dtype": classes.dtype.str if plain else "|O",
    }


def _label_type(text: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(str(text))
    if dtype.kind not in f"{LABELS}O":
        raise ValueError(f"labels of type {text}")
    return dtype


def _as_given(value: Any) -> Any:
    """Lists are tuples again: JSON knows no others, and hyper-parameters have no others."""
    if isinstance(value, dict):
        return {key: _as_given(part) for key, part in value.items()}
    return tuple(map(_as_given, value)) if isinstance(value, list) else value


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError as error:
        raise InputError(".safetensors files need safetensors: pip install 'invariscope[torch]'") from error
    return safetensors.numpy
