"""What a model file may hold: every part is looked at before it is used, however deep it lies."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from invariscope.models.fitted_arrays import TamperedError, UncheckedError, array_of, features_of
from invariscope.models.native_checks import CHECKS, check_hashing, check_sparse

#: Parts of scikit-learn that predict with numpy alone: a shape or an index that does not fit is an exception there, not
#: a look at other memory. What is neither here nor among the checks of compiled code must be trusted by name.
IN_NUMPY = (
    "sklearn._loss",
    "sklearn.calibration",
    *(f"sklearn.cluster.{name}" for name in (
        "_affinity_propagation", "_agglomerative", "_bicluster", "_dbscan", "_hdbscan", "_mean_shift", "_optics",
        "_spectral",
    )),
    "sklearn.compose",
    "sklearn.covariance",
    "sklearn.cross_decomposition",
    "sklearn.decomposition",
    "sklearn.discriminant_analysis",
    "sklearn.dummy",
    *(f"sklearn.ensemble.{name}" for name in ("_bagging", "_stacking", "_voting", "_weight_boosting")),
    "sklearn.ensemble._hist_gradient_boosting.binning",  # checked with the model that reads it
    "sklearn.feature_extraction",
    "sklearn.feature_selection",
    "sklearn.frozen",
    "sklearn.gaussian_process",
    "sklearn.impute",
    "sklearn.isotonic",
    "sklearn.kernel_approximation",
    "sklearn.kernel_ridge",
    "sklearn.linear_model",
    "sklearn.manifold",
    "sklearn.metrics._scorer",
    "sklearn.mixture",
    "sklearn.model_selection",
    "sklearn.multiclass",
    "sklearn.multioutput",
    "sklearn.naive_bayes",
    *(f"sklearn.neighbors.{name}" for name in ("_kde", "_nca", "_nearest_centroid")),
    "sklearn.neural_network",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "sklearn.random_projection",
    "sklearn.semi_supervised",
    "sklearn.svm._classes.LinearSVC",
    "sklearn.svm._classes.LinearSVR",
    "sklearn.utils._bunch",
)  # fmt: skip
#: Fitted attributes with a number per column, and those of several rows of them.
PER_COLUMN = {
    "center_", "data_max_", "data_min_", "data_range_", "lambdas_", "max_abs_", "mean_", "min_", "scale_",
    "statistics_", "xbar_",
}  # fmt: skip
ROWS_PER_COLUMN = {"components_", "means_", "quantiles_", "theta_", "var_"}
#: What holds no parts, or parts of the interpreter.
ENDS = (type, ModuleType, FunctionType, BuiltinFunctionType, CodeType, str, bytes, int, float, complex, np.generic)


def unchecked_parts(model: Any, trusted: Sequence[str]) -> list[str]:
    """The types in a model that hand arrays to compiled code and that nobody can check, but for the trusted.

    Raises
    ------
    TamperedError : a part contradicts itself
    """
    unchecked = set()
    for part in parts_of(model):
        names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(part).__mro__]
        try:
            known = _check(part, names)
        except UncheckedError:
            known = False
        except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
            if isinstance(error, TamperedError):
                raise
            raise TamperedError(f"a {type(part).__name__} lacks what it takes ({_line(error)})") from error
        if not known and names[0].startswith("sklearn.") and names[0] not in trusted:
            unchecked.add(names[0])
    return sorted(unchecked)


def parts_of(model: Any) -> Iterator[Any]:
    """The model and all it refers to, each once."""
    seen: dict[int, Any] = {}  # holds on to every part, or its number might be given to another one
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if part is None or isinstance(part, ENDS) or id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        waiting.extend(gc.get_referents(part))
        if isinstance(part, np.ndarray) and part.dtype.hasobject:  # the collector does not look into arrays
            waiting.extend(part.ravel().tolist())


def _check(part: Any, names: list[str]) -> bool:
    """Whether the part is known to be safe; raises where it is known not to be."""
    if hasattr(part, "get_params") and hasattr(part, "__dict__"):
        _check_estimator(part)
    checks = [CHECKS[name] for name in names if name in CHECKS]
    for check in checks if _fitted(part) else ():
        check(part)
    if hasattr(part, "nnz") and hasattr(part, "format"):
        check_sparse(part)
    return bool(checks) or any(names[0] == place or names[0].startswith(f"{place}.") for place in IN_NUMPY)


def _fitted(part: Any) -> bool:
    """Whether there is anything to check: models within models are kept as they were given, too."""
    if not hasattr(part, "get_params"):
        return True
    return any(name.endswith("_") or (name[0] == "_" and not name.startswith("_sklearn")) for name in vars(part))


# --- what every estimator says of itself ------------------------------------------------------------------------------
def _check_estimator(model: Any) -> None:
    kind, attributes = type(model).__name__, vars(model)
    hidden = [name for name in attributes if hasattr(type(model), name) and name not in model.get_params(deep=False)]
    if hidden:
        raise TamperedError(f"{kind}.{hidden[0]} stands in the place of scikit-learn's own")
    if "n_features_in_" in attributes:
        features_of(model)
    if "feature_names_in_" in attributes:
        _check_names(model)
    if attributes.get("classes_") is not None:
        _check_classes(model)
    if "steps" in attributes:
        _check_steps(model)
    if "alternate_sign" in attributes:
        check_hashing(model)
    for name in sorted((PER_COLUMN | ROWS_PER_COLUMN) & attributes.keys()):
        _check_columns(model, name)
    if "rotations_" in attributes:
        _check_rotations(model)
    if "coefs_" in attributes:
        _check_layers(model)
    elif "coef_" in attributes:
        _check_coefficients(model)


def _check_names(model: Any) -> None:
    names, kind = model.feature_names_in_, type(model).__name__
    if not isinstance(names, np.ndarray) or names.ndim != 1 or not all(isinstance(name, str) for name in names):
        raise TamperedError(f"{kind}.feature_names_in_ are not names of columns")
    if len(names) != vars(model).get("n_features_in_", len(names)):
        raise TamperedError(f"{kind} has {len(names)} names for {model.n_features_in_} columns")


def _check_classes(model: Any) -> None:
    several = model.classes_ if isinstance(model.classes_, list) else [model.classes_]  # one for each of many targets
    several = several or [[]]
    for classes in several:
        labels = classes.tolist() if isinstance(classes, np.ndarray) and classes.ndim == 1 else classes
        if not isinstance(labels, list) or not labels or len(set(labels)) != len(labels):
            raise TamperedError(f"{type(model).__name__}.classes_ are not different labels")


def _check_columns(model: Any, name: str) -> None:
    """A number per column: numpy would spread a single one over all of them, and say nothing."""
    value, features = vars(model)[name], vars(model).get("n_features_in_")
    if value is None or features is None or (name in PER_COLUMN and not hasattr(model, "transform")):
        return  # elsewhere it may be one number
    shape = np.shape(value)
    if shape[-1:] != (features,) or (name in PER_COLUMN and len(shape) > 1):
        raise TamperedError(f"{type(model).__name__}.{name} has shape {shape} for {features} columns")


def _check_rotations(model: Any) -> None:
    """Axes of every class, and a spread along each."""
    for axes, spreads in zip(model.rotations_, model.scalings_, strict=True):
        if np.ndim(axes) != 2 or len(axes) != features_of(model) or np.shape(spreads) != np.shape(axes)[1:]:
            raise TamperedError(f"{type(model).__name__} has {np.shape(spreads)} spreads along axes {np.shape(axes)}")


def _check_steps(model: Any) -> None:
    steps = model.steps
    if not isinstance(steps, int) and not (
        isinstance(steps, list) and steps and all(isinstance(step, tuple) and len(step) == 2 for step in steps)
    ):
        raise TamperedError(f"{type(model).__name__}.steps are not names and models")


def _check_coefficients(model: Any) -> None:
    """One weight per column, in one row for two classes or one for each (or each pair) of several."""
    kind, attributes = type(model).__name__, vars(model)
    if hasattr(model.coef_, "nnz"):
        shape = tuple(model.coef_.shape)
    else:
        shape = np.shape(model.coef_)
        array_of(model, "coef_", (None,) * len(shape))
    if shape[-1] != attributes.get("n_features_in_", shape[-1]):
        raise TamperedError(f"{kind}.coef_ has {shape[-1]} weights for {model.n_features_in_} columns")
    intercept = np.asarray(attributes.get("intercept_", 0.0))
    if intercept.dtype.kind not in "iuf" or not np.isfinite(intercept).all():
        raise TamperedError(f"{kind}.intercept_ is not made of finite numbers")
    rows = shape[0] if len(shape) == 2 else 1
    if intercept.size != rows and (intercept.size != 1 or np.any(intercept)):  # 0 for none at all
        raise TamperedError(f"{kind}.intercept_ has {intercept.size} numbers for {rows} rows of coef_")
    if isinstance(attributes.get("classes_"), np.ndarray):
        classes = len(model.classes_)
        if rows not in ({1, 2} if classes <= 2 else {classes, classes * (classes - 1) // 2}):
            raise TamperedError(f"{kind}.coef_ has {rows} rows for {classes} classes")


def _check_layers(model: Any) -> None:
    """Layers of a perceptron: each reads what the one before gives."""
    width, kind = features_of(model), type(model).__name__
    if not isinstance(model.coefs_, list) or not len(model.coefs_) == len(model.intercepts_) == model.n_layers_ - 1:
        raise TamperedError(f"{kind} has {len(model.coefs_)} layers of weights, not {model.n_layers_ - 1}")
    for weight, bias in zip(model.coefs_, model.intercepts_, strict=True):
        for values, shape in ((weight, (width, len(bias))), (bias, (len(bias),))):
            if not isinstance(values, np.ndarray) or values.shape != shape or values.dtype.kind != "f":
                raise TamperedError(f"{kind}.coefs_ has layers that do not fit: {np.shape(values)}, not {shape}")
            if not np.isfinite(values).all():
                raise TamperedError(f"{kind}.coefs_ holds missing or infinite values")
        width = len(bias)
    if width != model.n_outputs_:
        raise TamperedError(f"{kind} has {width} outputs, not {model.n_outputs_}")


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
