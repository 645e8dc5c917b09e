"""Trees, forests and boosting in model files: nodes lead to others that exist, and ask for columns that do."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.models.fitted_arrays import TamperedError, UncheckedError, array_of, features_of, refuse_outside
from invariscope.rows.arrays import Array

LEAF = -1
CATEGORIES = 256  # of a feature in gradient boosting by histograms: bits of eight 32-bit numbers


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
    if isinstance(model.init_, str) and model.init_ == "zero":
        return
    _check_start(model, model.init_, int(model.n_trees_per_iteration_))


def _check_start(model: Any, start: Any, columns: int) -> None:
    """Compiled code adds every row's trees to what it starts from, without asking how large that is."""
    kind = type(start).__name__
    if kind not in ("DummyClassifier", "DummyRegressor"):
        raise UncheckedError("it starts from a model of its own")
    if start.n_outputs_ != 1 or bool(model._loss.is_multiclass) != (columns > 1):
        raise TamperedError(f"{type(model).__name__} starts from a {kind} of other columns than its {columns}")
    if kind == "DummyRegressor":
        array_of(start, "constant_", (1, 1), "f")
    elif start.strategy != "prior":
        raise TamperedError(f"{type(model).__name__} starts from a {kind} that is not the classes' shares")
    else:
        array_of(start, "class_prior_", (max(columns, 2),), "f")


def _refuse_other_width(model: Any, read: int | None, width: int) -> None:
    if read != width:
        raise TamperedError(f"{type(model).__name__} has {width} columns, and a tree of it reads {read}")


def check_histogram_boosting(model: Any) -> None:
    """Nodes as of any tree; categories are bits that must exist."""
    bins, features, kind = model._bin_mapper, features_of(model), type(model).__name__
    categorical = array_of(bins, "is_categorical_", (features,), "biu").astype(bool)
    if len(bins.bin_thresholds_) != features:
        raise TamperedError(f"{kind} has bins of {len(bins.bin_thresholds_)} columns, not of {features}")
    _check_preprocessor(model, vars(model).get("_preprocessor"), features)
    for feature in np.flatnonzero(categorical):
        refuse_outside(bins.bin_thresholds_[feature], 0, CATEGORIES, f"the categories of a {kind}")
    for step in model._predictors:
        for tree in step:
            _check_histogram_tree(tree, features, categorical)


def _check_preprocessor(model: Any, preprocessor: Any, features: int) -> None:
    """Trees read as many columns as were fitted, and only what comes before them knows how many there are."""
    if preprocessor is None:
        return
    steps = {type(step).__name__ for _, step, _ in preprocessor.transformers_ if not isinstance(step, str)}
    if not steps <= {"OrdinalEncoder", "FunctionTransformer"}:
        raise TamperedError(f"{type(model).__name__} is preceded by {', '.join(sorted(steps))}")
    width = np.shape(preprocessor.transform(np.zeros((2, features))))[1]  # both steps keep what they are given
    if width != features:
        raise TamperedError(f"{type(model).__name__} reads {features} columns, and is given {width}")


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
