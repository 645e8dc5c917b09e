"""Parts of model files whose arrays scikit-learn hands to compiled code, checked before anything is predicted.

Compiled code believes what it is given: a forged index or shape makes it read, or write, outside its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from invariscope.models.fitted_arrays import TamperedError, UncheckedError, array_of, features_of, refuse_outside
from invariscope.models.tree_checks import (
    check_boosting,
    check_forest,
    check_histogram_boosting,
    check_tree,
    check_tree_model,
)
from invariscope.rows.arrays import Array

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
STATE_WORDS = {"pos": 624, "buffer_pos": 4}  # of random numbers not yet used; beyond lies other memory


# --- support vector machines ------------------------------------------------------------------------------------------
def check_libsvm(model: Any) -> None:
    """Arrays of libsvm: one row per support vector, one column per feature, one number per pair of classes."""
    if callable(model.kernel):
        raise UncheckedError("its kernel is a function")
    kind, classifies = type(model).__name__, model._impl in ("c_svc", "nu_svc")
    if model.kernel not in KERNELS:
        raise TamperedError(f'{kind}.kernel is "{model.kernel}", which is none')
    classes = len(model.classes_) if classifies else 2
    pairs = classes * (classes - 1) // 2 if classifies else 1
    support = array_of(model, "support_", (None,), "i")
    counts = array_of(model, "_n_support", (classes,), "i")
    count = len(support)
    if counts.min() < 0 or (counts.sum() if classifies else counts[0]) != count:
        raise TamperedError(f"{kind}._n_support counts {counts.tolist()} support vectors, and there are {count}")
    _check_vectors(model, support)
    for name in ("_dual_coef_", "dual_coef_"):
        if model._sparse and count:  # compiled code reads the stored values only, as if none were left out
            stored = vars(model).get(name)
            if getattr(stored, "shape", None) != (classes - 1, count) or stored.nnz != (classes - 1) * count:
                raise TamperedError(f"{kind}.{name} does not hold {classes - 1} x {count} numbers")
        elif not model._sparse:
            array_of(model, name, (classes - 1, count), "f")
    for name in ("_intercept_", "intercept_"):
        array_of(model, name, (pairs,), "f")
    for name in ("_probA", "_probB"):
        array_of(model, name, (pairs if vars(model).get("_probA", np.empty(0)).size else 0,), "f")
    if classifies:
        array_of(model, "class_weight_", (classes,), "f")


def _check_vectors(model: Any, support: Array) -> None:
    kind, features = type(model).__name__, features_of(model)
    if model.kernel == "precomputed":
        if model._sparse or model.shape_fit_[0] != features:
            raise TamperedError(f"{kind}.shape_fit_ is {model.shape_fit_}, but n_features_in_ {features}")
        array_of(model, "support_vectors_", (0, 0), "f")
        refuse_outside(support, 0, features, f"{kind}.support_")
    elif model._sparse:
        vectors = vars(model).get("support_vectors_")
        if getattr(vectors, "format", None) != "csr":  # compiled code takes its pointers for those of rows
            raise TamperedError(f"{kind}.support_vectors_ is not a sparse matrix of rows")
        shape = vectors.shape
        if shape != (len(support), features):
            raise TamperedError(f"{kind}.support_vectors_ has shape {shape}, not ({len(support)}, {features})")
    else:
        array_of(model, "support_vectors_", (len(support), features), "f")


# --- neighbours and groups --------------------------------------------------------------------------------------------
def check_neighbours(model: Any) -> None:
    """As many rows as were fitted, of as many columns; classes that exist."""
    kind, rows = type(model).__name__, vars(model).get("_fit_X")
    count = vars(model).get("n_samples_fit_")
    if getattr(rows, "shape", None) != (count, features_of(model)):
        raise TamperedError(
            f"{kind} has rows of shape {getattr(rows, 'shape', None)}, not ({count}, {features_of(model)})"
        )
    if type(rows) is np.ndarray:
        array_of(model, "_fit_X", rows.shape, "biuf", finite=False)
    for name in ("metric_params", "effective_metric_params_"):
        _check_metric(kind, vars(model).get(name) or {}, features_of(model))
    target, classes = vars(model).get("_y"), vars(model).get("classes_")
    if target is None:
        return
    if len(target) != count:
        raise TamperedError(f"{kind} has {len(target)} targets for {count} rows")
    if classes is not None:
        columns = [target] if np.ndim(target) == 1 else np.transpose(target)
        labels = classes if isinstance(classes, list) else [classes]
        for codes, known in zip(columns, labels, strict=True):
            refuse_outside(codes, 0, len(known), f"{kind}._y")


def _check_metric(kind: str, settings: dict[str, Any], features: int) -> None:
    """Weights and matrices of distances: a number for every column."""
    for name, shape in (("V", (features,)), ("w", (features,)), ("VI", (features, features))):
        if name in settings and settings[name] is not None and np.shape(settings[name]) != shape:
            raise TamperedError(f"the {name} of a {kind} has shape {np.shape(settings[name])}, not {shape}")


def check_distance(metric: Any, features: int) -> None:
    """The same, as a search tree keeps them; what has none keeps one number."""
    kind, (_, vector, matrix) = type(metric).__name__, metric.__getstate__()[:3]
    if "SEuclidean" in kind or ("Minkowski" in kind and len(vector) > 1):
        _check_metric(kind, {"V": vector}, features)
    if "Mahalanobis" in kind:
        _check_metric(kind, {"VI": matrix}, features)
    if "Haversine" in kind and features != 2:
        raise TamperedError(f"a {kind} is one of latitudes and longitudes, not of {features} columns")


def check_search_tree(tree: Any) -> None:
    """Of KDTree and BallTree: a whole binary tree, whose nodes hold rows that exist."""
    rows, order, nodes, bounds, _, levels, count = tree.__getstate__()[:7]
    kind, shape = type(tree).__name__, np.asarray(rows).shape
    bounds, nodes = np.asarray(bounds), np.asarray(nodes)
    if np.shape(order) != shape[:1] or len(nodes) != count or (count + 1).bit_length() != levels + 1:
        raise TamperedError(f"a {kind} of {shape[0]} rows has {len(nodes)} nodes in {levels} levels")
    if bounds.shape != (2 if kind.startswith("KD") else 1, count, shape[1]) or count & (count + 1):
        raise TamperedError(f"a {kind} has bounds of shape {bounds.shape}")
    refuse_outside(order, 0, shape[0], f"the rows of a {kind}")
    for end in ("idx_start", "idx_end"):
        refuse_outside(nodes[end], 0, shape[0] + 1, f"the rows of a {kind}")
    if not np.all(nodes["is_leaf"][count // 2 :]):
        raise TamperedError(f"the last nodes of a {kind} have children")
    metric, weight = tree.__getstate__()[-2:]
    if not hasattr(metric, "rdist_to_dist"):
        raise TamperedError(f"a {kind} has a {type(metric).__name__} for its distances")
    check_distance(metric, shape[1])
    if weight is not None and np.shape(weight) != shape[:1]:
        raise TamperedError(f"a {kind} has weights of shape {np.shape(weight)} for {shape[0]} rows")


def check_centres(model: Any) -> None:
    """Centres of groups, a column per feature."""
    centres = array_of(model, "cluster_centers_", (None, features_of(model)), "f")
    if not len(centres) or not isinstance(model._n_threads, int) or model._n_threads < 1:
        raise TamperedError(f"{type(model).__name__} has {len(centres)} centres and {model._n_threads!r} threads")


# --- what makes sparse matrices ---------------------------------------------------------------------------------------
def check_one_hot(encoder: Any) -> None:
    """Columns of 0 and 1 are written by number: every category must have one that exists."""
    kind, categories = type(encoder).__name__, encoder.categories_
    if len(categories) != features_of(encoder) or any(np.ndim(levels) != 1 for levels in categories):
        raise TamperedError(f"{kind}.categories_ has {len(categories)} columns, not {features_of(encoder)}")
    dropped = encoder._drop_idx_after_grouping
    dropped = [None] * len(categories) if dropped is None else list(dropped)
    grouping = encoder._default_to_infrequent_mappings if encoder._infrequent_enabled else [None] * len(categories)
    rare = encoder._infrequent_indices if encoder._infrequent_enabled else [None] * len(categories)
    widths = []
    for levels, drop, groups, few in zip(categories, dropped, grouping, rare, strict=True):
        if levels.dtype.kind in "biuf" and np.any(np.diff(levels[~_missing(levels)].astype(np.float64)) <= 0):
            raise TamperedError(f"{kind}.categories_ are not sorted")  # found by bisection, which may end beyond them
        width = len(levels)
        if groups is not None:
            width = len(levels) - len(few) + 1
            if len(groups) != len(levels):
                raise TamperedError(f"{kind} has groups for {len(groups)} of {len(levels)} categories")
            refuse_outside(few, 0, len(levels), f"the rare categories of a {kind}")
            refuse_outside(groups, 0, width, f"the groups of a {kind}")
        if drop is not None:
            refuse_outside(drop, 0, width, f"the category that a {kind} drops")
        widths.append(width - (drop is not None))
    if list(encoder._n_features_outs) != widths:
        raise TamperedError(f"{kind}._n_features_outs is {list(encoder._n_features_outs)}, not {widths}")


def _missing(levels: Array) -> Array:
    return np.isnan(levels) if levels.dtype.kind == "f" else np.zeros(len(levels), dtype=bool)


def check_vocabulary(model: Any) -> None:
    """Words are written into columns by number: 0, 1, ..., each once."""
    words = vars(model).get("vocabulary_", {})
    if sorted(words.values()) != list(range(len(words))):
        raise TamperedError(f"{type(model).__name__}.vocabulary_ does not number its words from 0 to {len(words) - 1}")


def check_sparse(matrix: Any) -> None:
    """A sparse matrix: every index lies inside."""
    try:
        if matrix.format == "coo":
            for places, length in zip(matrix.coords, matrix.shape, strict=True):
                refuse_outside(places, 0, length, "a place in a sparse matrix")
                if len(places) != len(matrix.data):
                    raise TamperedError(f"a sparse matrix has {len(places)} places for {len(matrix.data)} numbers")
        elif matrix.format == "dia":
            if matrix.data.ndim != 2 or matrix.offsets.shape != (len(matrix.data),):
                raise TamperedError(f"a sparse matrix has {len(matrix.offsets)} diagonals, not {len(matrix.data)}")
        else:
            matrix.check_format(full_check=True)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise TamperedError(f"a sparse matrix is inconsistent ({' '.join(str(error).split())})") from error


def check_hashing(model: Any) -> None:
    """Words are sorted into so many columns; compiled code divides by their number."""
    width = model.n_features
    if not isinstance(width, int | np.integer) or isinstance(width, bool) or not 1 <= width < 2**31:
        raise TamperedError(f"{type(model).__name__}.n_features is {width!r}, not a number of columns")


def check_random(generator: Any) -> None:
    """Random numbers are taken from a buffer at a place that the file names."""
    state = generator.get_state(legacy=False) if hasattr(generator, "get_state") else generator.bit_generator.state
    for words in (state, state.get("state", {})):
        for name, most in STATE_WORDS.items():
            if isinstance(words, dict) and name in words:
                refuse_outside(words[name], 0, most + 1, f"the place in the numbers of a {type(generator).__name__}")


#: By the name of a class; what is derived from it is checked, too.
CHECKS: dict[str, Callable[[Any], None]] = {
    "numpy.random._generator.Generator": check_random,
    "numpy.random.mtrand.RandomState": check_random,
    "sklearn.cluster._kmeans._BaseKMeans": check_centres,
    "sklearn.ensemble._forest.BaseForest": check_forest,
    "sklearn.ensemble._gb.BaseGradientBoosting": check_boosting,
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting": check_histogram_boosting,
    "sklearn.ensemble._iforest.IsolationForest": check_forest,
    "sklearn.feature_extraction._dict_vectorizer.DictVectorizer": check_vocabulary,
    "sklearn.feature_extraction.text.CountVectorizer": check_vocabulary,
    "sklearn.neighbors._ball_tree.BallTree": check_search_tree,
    "sklearn.neighbors._base.NeighborsBase": check_neighbours,
    "sklearn.neighbors._kd_tree.KDTree": check_search_tree,
    "sklearn.preprocessing._encoders.OneHotEncoder": check_one_hot,
    "sklearn.svm._base.BaseLibSVM": check_libsvm,
    "sklearn.tree._classes.BaseDecisionTree": check_tree_model,
    "sklearn.tree._tree.Tree": check_tree,
}
