"""Parts of model files whose arrays scikit-learn hands to compiled code, checked before anything is predicted.

Compiled code believes what it is given: a forged index or shape makes it read, or write, outside its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from invariscope.rows.arrays import Array

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
LEAF = -1
CATEGORIES = 256  # of a feature in gradient boosting by histograms: bits of eight 32-bit numbers
STATE_WORDS = {"pos": 624, "buffer_pos": 4}  # of random numbers not yet used; beyond lies other memory


class TamperedError(ValueError):
    """What a file says of a part contradicts itself."""


class UncheckedError(ValueError):
    """A part that nobody can check: it must be trusted by name."""


def array_of(owner: Any, name: str, shape: tuple[int | None, ...], kinds: str = "iuf", *, finite: bool = True) -> Array:
    """A fitted attribute that is an array of numbers of this shape (None: any length)."""
    value = vars(owner).get(name)
    what = f"{type(owner).__name__}.{name}"
    if type(value) is not np.ndarray:
        raise TamperedError(f"{what} is {'missing' if value is None else f'a {type(value).__name__}, not an array'}")
    if value.dtype.kind not in kinds:
        raise TamperedError(f"{what} holds {value.dtype}, not {'whole numbers' if 'f' not in kinds else 'numbers'}")
    if len(value.shape) != len(shape) or any(
        size is not None and size != given for size, given in zip(shape, value.shape, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise TamperedError(f"{what} has shape {value.shape}, not ({wanted})")
    if finite and value.dtype.kind == "f" and not np.isfinite(value).all():
        raise TamperedError(f"{what} holds {int(np.sum(~np.isfinite(value)))} missing or infinite values")
    return value


def refuse_outside(values: Any, low: int, high: int, what: str) -> None:
    """Indices must lie in low .. high - 1."""
    values = np.asarray(values)
    if values.size and (values.min() < low or values.max() >= high):
        raise TamperedError(f"{what} runs from {values.min()} to {values.max()}, outside {low} to {high - 1}")


def features_of(owner: Any) -> int:
    """How many columns the part was fitted on."""
    count = vars(owner).get("n_features_in_")
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1:
        raise TamperedError(f"{type(owner).__name__}.n_features_in_ is {count!r}, not a number of columns")
    return int(count)


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
        shape = getattr(vars(model).get("support_vectors_"), "shape", None)
        if shape != (len(support), features):
            raise TamperedError(f"{kind}.support_vectors_ has shape {shape}, not ({len(support)}, {features})")
    else:
        array_of(model, "support_vectors_", (len(support), features), "f")


# --- trees ------------------------------------------------------------------------------------------------------------
def check_tree(tree: Any) -> None:
    """Nodes of a tree: children come after their parents and exist, and so do the features they ask for."""
    if not 1 <= tree.node_count <= tree.capacity:  # first: the arrays below are as long as it says
        raise TamperedError(f"Tree.node_count is {tree.node_count}, and there are {tree.capacity} nodes")
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = left != LEAF
    _check_children(np.where(inner, left, 0), np.where(inner, right, 0), inner, "Tree")
    refuse_outside(feature[inner], 0, tree.n_features, "the features of a Tree")


def _check_children(left: Array, right: Array, inner: Array, kind: str) -> None:
    """A child that comes after its parent can lead nowhere but to a leaf."""
    place = np.flatnonzero(inner)
    for side in (left, right):
        children = side[inner].astype(np.int64)
        refuse_outside(children, 0, len(inner), f"the children in a {kind}")
        if np.any(children <= place):
            raise TamperedError(f"the nodes of a {kind} lead in a circle")


def check_tree_model(model: Any) -> None:
    """A tree reads as many columns as its model says."""
    _refuse_other_width(model, getattr(model.tree_, "n_features", None), features_of(model))


def check_forest(model: Any) -> None:
    """The trees of a forest are given rows that only the forest has counted the columns of."""
    # an isolation forest may give its trees some columns only
    width = vars(model).get("_max_features", features_of(model))
    for columns in vars(model).get("estimators_features_", ()):
        _refuse_other_width(model, len(columns), width)
    for tree in model.estimators_:
        _refuse_other_width(model, features_of(tree), width)


def check_boosting(model: Any) -> None:
    """One tree per class and step; what they start from has a column for each."""
    trees, width, kind = model.estimators_, features_of(model), type(model).__name__
    if type(trees) is not np.ndarray or trees.ndim != 2 or trees.shape[1] != model.n_trees_per_iteration_:
        raise TamperedError(f"{kind}.estimators_ has not {model.n_trees_per_iteration_} trees a step")
    for tree in trees.ravel():
        _refuse_other_width(model, features_of(tree), width)
    if model.n_trees_per_iteration_ == 1 or model.init_ == "zero":
        return
    if type(model.init_).__name__ != "DummyClassifier":
        raise UncheckedError("it starts from a model of its own")
    array_of(model.init_, "class_prior_", (model.n_trees_per_iteration_,), "f")


def _refuse_other_width(model: Any, read: int | None, width: int) -> None:
    if read != width:
        raise TamperedError(f"{type(model).__name__} has {width} columns, and a tree of it reads {read}")


def check_histogram_boosting(model: Any) -> None:
    """Nodes as of any tree; categories are bits that must exist."""
    bins, features, kind = model._bin_mapper, features_of(model), type(model).__name__
    categorical = array_of(bins, "is_categorical_", (features,), "biu").astype(bool)
    if len(bins.bin_thresholds_) != features:
        raise TamperedError(f"{kind} has bins of {len(bins.bin_thresholds_)} columns, not of {features}")
    for feature in np.flatnonzero(categorical):
        refuse_outside(bins.bin_thresholds_[feature], 0, CATEGORIES, f"the categories of a {kind}")
    for step in model._predictors:
        for tree in step:
            _check_histogram_tree(tree, features, categorical)


def _check_histogram_tree(tree: Any, features: int, categorical: Array) -> None:
    nodes, bits = tree.nodes, array_of(tree, "raw_left_cat_bitsets", (None, 8), "u")
    if type(nodes) is not np.ndarray or nodes.ndim != 1 or not len(nodes):
        raise TamperedError("a TreePredictor has no nodes")
    inner = nodes["is_leaf"] == 0
    _check_children(nodes["left"], nodes["right"], inner, "TreePredictor")
    asked = nodes[inner]
    refuse_outside(asked["feature_idx"], 0, features, "the features of a TreePredictor")
    of_categories = asked[asked["is_categorical"] != 0]
    refuse_outside(of_categories["bitset_idx"], 0, len(bits), "the categories of a TreePredictor")
    if not categorical[of_categories["feature_idx"]].all():
        raise TamperedError("a TreePredictor has categories of a column of numbers")


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
        compressed = matrix.tocsr() if matrix.format in ("coo", "dia") else matrix
        compressed.check_format(full_check=True)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise TamperedError(f"a sparse matrix is inconsistent ({' '.join(str(error).split())})") from error


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
