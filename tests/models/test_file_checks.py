"""Forged model files: what compiled code would believe is refused before anything is predicted.

Every forgery here is a real file. Several of them crash scikit-learn, so nothing is predicted in this process.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.cluster import Birch, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from sklearn.tree import DecisionTreeRegressor
from sklearn.tree._tree import Tree

import invariscope as iv
from invariscope.errors import InputError
from invariscope.models import split
from invariscope.models.files import load_model

TREE = "sklearn.tree._tree.Tree"
HISTOGRAM_TREE = "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"
SEARCH_TREE = ("sklearn.neighbors._kd_tree.KDTree", "sklearn.metrics._dist_metrics.EuclideanDistance64")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
CLASSES = np.arange(60) % 3
NUMBER = X @ [1.0, 2.0, 3.0]
SAVE_AGAIN = (
    ". The file is damaged, was tampered with or comes from another version of scikit-learn: "
    "save the fitted model again"
)


def saved(model: Any, folder: Path) -> Path:
    skops.io.dump(model, folder / "model.skops")
    return folder / "model.skops"


def edited(path: Path, *replacements: tuple[bytes, bytes]) -> Path:
    """The file with other words in its description."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for old, new in replacements:
        assert old in content["schema.json"]
        content["schema.json"] = content["schema.json"].replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    return path


def forged(model: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


# --- forgeries that scikit-learn believes -----------------------------------------------------------------------------
def svc(**settings: Any) -> SVC:
    return SVC(**settings).fit(X, CLASSES)


def precomputed() -> SVC:
    model = SVC(kernel="precomputed").fit(X @ X.T, CLASSES)
    return forged(model, support_=model.support_ + np.int32(10**9))


def sparse_svc() -> SVC:
    model = SVC().fit(sp.csr_matrix(X), CLASSES)
    few = sp.csr_matrix(model._dual_coef_[:, :1])
    few.resize(model._dual_coef_.shape)
    return forged(model, _dual_coef_=few)


def sparse_columns() -> SVC:
    """Compiled code would take the pointers to three columns for those to sixty rows."""
    model = SVC().fit(sp.csr_matrix(X), CLASSES)
    return forged(model, support_vectors_=sp.csc_matrix(model.support_vectors_))


def tree(left: int = 1, right: int = 2, feature: int = 0, width: int = 3) -> DecisionTreeRegressor:
    """A tree of three nodes: the first asks for a feature and has two children."""
    model = DecisionTreeRegressor(max_depth=1).fit(X, NUMBER)
    state = model.tree_.__getstate__()
    nodes = state["nodes"].copy()
    nodes["left_child"][0], nodes["right_child"][0], nodes["feature"][0] = left, right, feature
    made = Tree(width, np.array([1], dtype=np.intp), 1)
    made.__setstate__({**state, "nodes": nodes})
    return forged(model, tree_=made)


def forest() -> RandomForestRegressor:
    model = RandomForestRegressor(2, random_state=0).fit(X, NUMBER)
    model.estimators_[1] = DecisionTreeRegressor().fit(np.hstack([X, X]), NUMBER)
    return model


def isolation() -> IsolationForest:
    model = IsolationForest(n_estimators=2, max_features=2, random_state=0).fit(X)
    return forged(model, _max_features=3)


def boosting(**attributes: Any) -> GradientBoostingClassifier:
    return forged(GradientBoostingClassifier(n_estimators=2).fit(X, CLASSES), **attributes)


def boosting_from_too_few() -> GradientBoostingClassifier:
    model = boosting()
    model.init_.class_prior_ = np.array([0.5, 0.5])
    return model


def boosting_from_nothing() -> GradientBoostingRegressor:
    """Compiled code would add the trees of sixty rows to an array that has none."""
    model = GradientBoostingRegressor(n_estimators=2).fit(X, NUMBER)
    forged(model.init_, n_outputs_=0, constant_=np.zeros((1, 0)))
    return model


def boosting_from_classes(**attributes: Any) -> GradientBoostingClassifier:
    model = boosting()
    forged(model.init_, **attributes)
    return model


def boosting_of_two() -> GradientBoostingClassifier:
    """What it starts from would have one column instead of three."""
    model = boosting()
    model._loss.is_multiclass = False
    return model


def histogram_after(step: Any) -> HistGradientBoostingClassifier:
    model = histogram("feature_idx", 2)
    return forged(model, _preprocessor=ColumnTransformer([("step", step, [0])]).fit(X))


def histogram(place: str, value: int) -> HistGradientBoostingClassifier:
    model = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5).fit(X, CLASSES == 0)
    model._predictors[0][0].nodes[place][0] = value
    return model


def histogram_bits(place: int = 10**6) -> HistGradientBoostingClassifier:
    """A column of numbers that is said to be one of categories, which are bits at some place."""
    model = histogram("is_categorical", 1)
    nodes = model._predictors[0][0]
    nodes.nodes["bitset_idx"][0] = place
    nodes.raw_left_cat_bitsets = np.zeros((1, 8), dtype=np.uint32)
    return model


def histogram_of_categories(last: float = 1e9) -> HistGradientBoostingClassifier:
    """Without a single tree: no type in it needs to be trusted."""
    codes = np.column_stack([CLASSES, X[:, 0]])
    model = HistGradientBoostingClassifier(max_iter=1, categorical_features=[0]).fit(codes, X[:, 0] > 0)
    model._bin_mapper.bin_thresholds_[0] = np.array([0.0, last])
    return forged(model, _predictors=[], _preprocessor=None)


def neighbours(kind: type = KNeighborsClassifier, **attributes: Any) -> Any:
    return forged(kind(algorithm="brute").fit(X, CLASSES), **attributes)


def search_tree() -> KNeighborsRegressor:
    model = KNeighborsRegressor(algorithm="kd_tree", leaf_size=5).fit(X, NUMBER)
    state = list(model._tree.__getstate__())
    state[1] = np.asarray(state[1]) + 10**12
    model._tree.__setstate__(tuple(state))
    return model


def one_hot(**settings: Any) -> Any:
    attributes = {name: settings.pop(name) for name in [*settings] if name.startswith("_") or name.endswith("_")}
    encoder = OneHotEncoder(sparse_output=False, **settings).fit(CLASSES[:, None])
    return make_pipeline(forged(encoder, **attributes), LinearRegression().fit(np.eye(3), [1.0, 2.0, 3.0]))


def dummy() -> DummyClassifier:
    random = np.random.RandomState(0)
    state = random.get_state(legacy=False)
    state["state"]["pos"] = -(10**9)
    random.set_state(state)
    return DummyClassifier(strategy="stratified", random_state=random).fit(X, CLASSES)


FORGERIES: dict[str, tuple[Callable[[], Any], tuple[str, ...], str]] = {
    "fewer columns": (
        lambda: forged(svc(), support_vectors_=np.ones((60, 2))), (),
        r"SVC.support_vectors_ has shape (60, 2), not (60, 3)",
    ),
    "more columns": (
        lambda: forged(SVR(C=9.0).fit(X, CLASSES), n_features_in_=3000), (), r"SVR.support_vectors_ has shape (",
    ),
    "more classes": (
        lambda: forged(svc(), _n_support=np.array([20, 20, 20, *[0] * 3000], dtype=np.int32)), (),
        "SVC._n_support has shape (3003,), not (3)",
    ),
    "too many vectors": (
        lambda: forged(svc(), _n_support=np.array([20, 20, 2000], dtype=np.int32)), (),
        "SVC._n_support counts [20, 20, 2000] support vectors, and there are 60",
    ),
    "fewer coefficients": (
        lambda: forged(svc(), _dual_coef_=np.ones((1, 60))), (), "SVC._dual_coef_ has shape (1, 60), not (2, 60)",
    ),
    "fewer intercepts": (
        lambda: forged(NuSVC(nu=0.2).fit(X, CLASSES), _intercept_=np.ones(1)), (),
        "NuSVC._intercept_ has shape (1,), not (3)",
    ),
    "fewer probabilities": (
        lambda: forged(svc(), _probA=np.ones(1), _probB=np.ones(1)), (), "SVC._probA has shape (1,), not (3)",
    ),
    "rows that are not there": (precomputed, (), "SVC.support_ runs from 1000000000 to 100000"),
    "one class": (
        lambda: forged(OneClassSVM().fit(X), support_=np.arange(5, dtype=np.int32)), (),
        "support vectors, and there are 5",
    ),
    "left out": (
        sparse_svc, ("scipy.sparse._csr.csr_matrix",), "SVC._dual_coef_ does not hold 2 x 60 numbers",
    ),
    "another kind": (lambda: forged(svc(), _impl="epsilon_svr"), (), "SVC._impl stands in the place of scikit-learn's"),
    "in a pipeline": (
        lambda: make_pipeline(StandardScaler().fit(X), forged(svc(), support_vectors_=np.ones((60, 1)))), (),
        "SVC.support_vectors_ has shape (60, 1)",
    ),
    "in a stack": (
        lambda: forged(
            StackingClassifier([("a", SVC())], cv=2).fit(X, CLASSES),
            estimators_=[forged(svc(), support_vectors_=np.ones((60, 1)))],
        ), (),
        "SVC.support_vectors_ has shape (60, 1)",
    ),
    "in an array": (
        lambda: forged(LinearRegression().fit(X, NUMBER), extra=np.array([forged(svc(), support_=None), 1], object)),
        (), "SVC.support_ is missing",
    ),
    "children": (lambda: tree(left=10**6), (TREE,), "the children in a Tree runs from 1000000 to 1000000, outside 0"),
    "circle": (lambda: tree(left=0), (TREE,), "the nodes of a Tree lead in a circle"),
    "feature": (lambda: tree(feature=10**9), (TREE,), "the features of a Tree runs from 1000000000"),
    "wide tree": (lambda: tree(width=900, feature=800), (TREE,), "DecisionTreeRegressor has 3 columns, and a tree of"),
    "forest": (forest, (TREE,), "RandomForestRegressor has 3 columns, and a tree of it reads 6"),
    "isolation": (isolation, (TREE,), "IsolationForest has 3 columns, and a tree of it reads 2"),
    "boosting": (
        lambda: boosting(n_trees_per_iteration_=1), (TREE,), "GradientBoostingClassifier.estimators_ has not 1 trees",
    ),
    "boosting from": (boosting_from_too_few, (TREE,), "DummyClassifier.class_prior_ has shape (2,), not (3)"),
    "histogram child": (lambda: histogram("left", 10**6), (HISTOGRAM_TREE,), "children in a TreePredictor runs from"),
    "histogram column": (lambda: histogram("feature_idx", 10**9), (HISTOGRAM_TREE,), "features of a TreePredictor"),
    "histogram bits": (histogram_bits, (HISTOGRAM_TREE,), "the categories of a TreePredictor runs from 1000000"),
    "histogram numbers": (
        lambda: histogram_bits(place=0), (HISTOGRAM_TREE,), "a TreePredictor has categories of a column of numbers",
    ),
    "histogram categories": (
        histogram_of_categories, (), "the categories of a HistGradientBoostingClassifier runs from 0.0 to 1000000000.0",
    ),
    "histogram of unknown categories": (
        lambda: histogram_of_categories(np.nan), (), "the categories of a HistGradientBoostingClassifier runs from nan",
    ),
    "histogram of fewer columns": (
        lambda: histogram_after(FunctionTransformer()), (HISTOGRAM_TREE,),
        "HistGradientBoostingClassifier reads 3 columns, and is given 1",
    ),
    "histogram after another": (
        lambda: histogram_after(StandardScaler()), (HISTOGRAM_TREE,),
        "HistGradientBoostingClassifier is preceded by StandardScaler",
    ),
    "boosting from nothing": (
        boosting_from_nothing, (TREE,),
        "GradientBoostingRegressor starts from a DummyRegressor of other columns than its 1",
    ),
    "boosting from others": (
        lambda: boosting_from_classes(strategy="most_frequent", n_classes_=1), (TREE,),
        "GradientBoostingClassifier starts from a DummyClassifier that is not the classes' shares",
    ),
    "boosting of two": (
        boosting_of_two, (TREE,),
        "GradientBoostingClassifier starts from a DummyClassifier of other columns than its 3",
    ),
    "columns for rows": (
        sparse_columns, ("scipy.sparse._csc.csc_matrix", "scipy.sparse._csr.csr_matrix"),
        "SVC.support_vectors_ is not a sparse matrix of rows",
    ),
    "distances": (
        lambda: neighbours(
            KNeighborsRegressor, metric="mahalanobis", effective_metric_="mahalanobis",
            effective_metric_params_={"VI": np.eye(1)},
        ), (),
        "the VI of a KNeighborsRegressor has shape (1, 1), not (3, 3)",
    ),
    "no columns for words": (
        lambda: make_pipeline(HashingVectorizer(n_features=0), line()), (),
        "HashingVectorizer.n_features is 0, not a number of columns",
    ),
    "neighbours' classes": (
        lambda: neighbours(_y=np.full(60, 10**12)), (), "KNeighborsClassifier._y runs from 1000000000000 to",
    ),
    "neighbours' rows": (
        lambda: neighbours(KNeighborsRegressor, _fit_X=np.ones((60, 1))), (),
        "KNeighborsRegressor has rows of shape (60, 1), not (60, 3)",
    ),
    "neighbours' targets": (
        lambda: neighbours(_y=np.zeros(3, dtype=np.intp)), (), "KNeighborsClassifier has 3 targets for 60 rows",
    ),
    "search tree": (search_tree, SEARCH_TREE, "the rows of a KDTree runs from 1000000000000"),
    "centres": (
        lambda: make_pipeline(
            forged(KMeans(2, n_init=1, random_state=0).fit(X), cluster_centers_=np.ones((2, 1))),
            LinearRegression().fit(X[:, :2], NUMBER),
        ), (),
        "KMeans.cluster_centers_ has shape (2, 1), not (any, 3)",
    ),
    "one-hot width": (lambda: one_hot(_n_features_outs=[1]), (), "OneHotEncoder._n_features_outs is [1], not [3]"),
    "one-hot drop": (
        lambda: one_hot(drop="first", _drop_idx_after_grouping=np.array([-5], dtype=object)), (),
        "the category that a OneHotEncoder drops runs from -5 to -5, outside 0 to 2",
    ),
    "one-hot order": (
        lambda: one_hot(categories_=[np.array([5, 1, 7])]), (), "OneHotEncoder.categories_ are not sorted",
    ),
    "one-hot groups": (
        lambda: one_hot(max_categories=2, _default_to_infrequent_mappings=[np.array([0, 1, 10**9])]), (),
        "the groups of a OneHotEncoder runs from 0 to 1000000000, outside 0 to 1",
    ),
    "words": (
        lambda: make_pipeline(forged(CountVectorizer().fit(["a text"]), vocabulary_={"text": 10**9}), Ridge()), (),
        "CountVectorizer.vocabulary_ does not number its words from 0 to 0",
    ),
    "random numbers": (dummy, (), "the place in the numbers of a RandomState runs from -1000000000"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_what_compiled_code_would_believe_is_refused(name: str, tmp_path: Path) -> None:
    make, trusted, sentence = FORGERIES[name]
    path = saved(make(), tmp_path)
    with pytest.raises(InputError) as told:
        load_model(path, trusted=trusted)
    assert str(told.value).startswith(f"{path}: ")
    assert sentence in str(told.value)
    assert str(told.value).endswith(SAVE_AGAIN)


def test_sparse_coefficients_in_disguise(tmp_path: Path) -> None:
    """A class that is trusted by name gives out any sparse matrix."""
    weights = sp.csr_matrix(np.ones((1, 3)))
    weights.indices = weights.indices + np.int32(10**8)
    path = saved(forged(Ridge().fit(X, NUMBER), coef_=weights), tmp_path)
    edited(path, (b'"scipy.sparse._csr"', b'"scipy.sparse._matrix"'), (b'"csr_matrix"', b'"spmatrix"'))
    with pytest.raises(InputError, match="a sparse matrix is inconsistent"):
        load_model(path)


def test_a_tree_without_nodes(tmp_path: Path) -> None:
    """Compiled code begins with the first node, whatever the count is."""
    path = saved(tree(), tmp_path)
    with zipfile.ZipFile(path) as archive:
        schema = archive.read("schema.json")
    before, node, after = re.split(rb'("node_count": \{.*?\})', schema, maxsplit=1, flags=re.DOTALL)
    other = re.sub(rb'"__id__": \d+', b'"__id__": 1', node.replace(b'"content": "3"', b'"content": "0"'))
    wrong = before + other + after
    edited(path, (schema, wrong))
    with pytest.raises(InputError, match=r"Tree\.node_count is 0, and there are 3 nodes"):
        load_model(path, trusted=[TREE])


def test_a_tree_of_one_number(tmp_path: Path) -> None:
    """Compiled code asks for the length of what has none while the file is read: in a process of its own."""
    path = saved(tree(), tmp_path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for name in content:
        if name.endswith(".npy") and (values := np.load(io.BytesIO(content[name]))).dtype.names:
            number = io.BytesIO()
            np.save(number, values[0])
            content[name] = number.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    program = f"from invariscope.models.files import load_model; load_model({str(path)!r}, trusted=[{TREE!r}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # no signal
    assert "npy is a number, where a tree takes arrays. The file is damaged" in done.stderr


NO_METRIC = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "null", "__id__": 1}
STATES: dict[str, tuple[Callable[[list[Any]], Any], str]] = {
    "a tree of nothing": (lambda state: state.clear(), "a KDTree is not made of 13 parts"),
    "a tree without its last part": (lambda state: state.pop(), "a KDTree is not made of 13 parts"),
    "a distance of nothing": (
        lambda state: state[11]["content"]["content"].clear(), "a EuclideanDistance64 is not made of 3 parts",
    ),
    "a distance that another stands for": (
        lambda state: state[0].update(state[11]["content"], content=[]), "a EuclideanDistance64 is not made of 3 parts",
    ),
    "a distance of a function": (
        lambda state: state[11].update(__class__="PyFuncDistance64"), "a PyFuncDistance64 is not made of 5 parts",
    ),
    "no distance": (lambda state: state.__setitem__(11, NO_METRIC), "a KDTree has a NoneType for its distances"),
    "a distance on the globe": (
        lambda state: state[11].update(__class__="HaversineDistance64"),
        "a HaversineDistance64 is one of latitudes and longitudes, not of 3 columns",
    ),
}  # fmt: skip


def test_a_search_tree_of_other_parts(tmp_path: Path) -> None:
    """Compiled code takes the parts of a tuple without asking whether they are there: in a process of its own."""
    model = KNeighborsRegressor(algorithm="kd_tree", leaf_size=5).fit(X, NUMBER)
    paths = {}
    for number, (name, (forge, _)) in enumerate(STATES.items()):
        (tmp_path / str(number)).mkdir()
        paths[name] = saved(model, tmp_path / str(number))
        with zipfile.ZipFile(paths[name]) as archive:
            schema = archive.read("schema.json")
        description = json.loads(schema)
        forge(description["content"]["content"]["_tree"]["content"]["content"])
        edited(paths[name], (schema, json.dumps(description).encode()))
    kinds = [f"sklearn.metrics._dist_metrics.{kind}Distance64" for kind in ("PyFunc", "Haversine")]
    program = f"""
import numpy
from invariscope.errors import InputError
from invariscope.models.files import load_model
for name, path in { ({name: str(path) for name, path in paths.items()}) }.items():
    try:
        load_model(path, trusted={[*SEARCH_TREE, *kinds]}).predict(numpy.ones((9, 3)))
    except InputError as error:
        print(error, flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    sentences = [f"{paths[name]}: {sentence}{SAVE_AGAIN}" for name, (_, sentence) in STATES.items()]
    assert done.stdout.splitlines() == sentences
    assert done.returncode == 0  # no signal


# --- what nobody can check --------------------------------------------------------------------------------------------
def test_a_kernel_of_ones_own_must_be_trusted(tmp_path: Path) -> None:
    """Its rows cannot be counted without calling it; the sentence names the option, and that works."""
    path = saved(forged(svc(kernel="linear"), kernel=np.matmul), tmp_path)
    with pytest.raises(InputError) as told:
        load_model(path)
    assert str(told.value) == (
        f"{path} holds types that are not trusted: sklearn.svm._classes.SVC. If you made the file yourself, pass "
        "trusted=['sklearn.svm._classes.SVC']"
    )
    assert load_model(path, trusted=["sklearn.svm._classes.SVC"]).kernel is np.matmul


def test_types_nobody_has_looked_at_must_be_trusted(tmp_path: Path) -> None:
    path = saved(Ridge().fit(X, NUMBER), tmp_path)
    edited(path, (b'"sklearn.linear_model._ridge"', b'"sklearn.cluster._birch"'), (b'"Ridge"', b'"Birch"'))
    with pytest.raises(
        InputError, match=r"not trusted: sklearn\.cluster\._birch\.Birch\. .* trusted=\[.sklearn\.cluster"
    ):
        load_model(path)
    with warnings.catch_warnings(action="ignore"):
        assert isinstance(load_model(path, trusted=["sklearn.cluster._birch.Birch"]), Birch)


# --- models as they are -----------------------------------------------------------------------------------------------
SOUND: list[tuple[Any, tuple[str, ...]]] = [
    (SVC(), ()),
    (SVC(kernel="linear", class_weight="balanced"), ()),
    (NuSVC(nu=0.2), ()),
    (KNeighborsClassifier(algorithm="brute"), ()),
    (KNeighborsClassifier(), SEARCH_TREE),
    (RandomForestClassifier(3), (TREE,)),
    (GradientBoostingClassifier(n_estimators=2), (TREE,)),
    (GradientBoostingClassifier(n_estimators=2, init="zero"), (TREE,)),
    (
        HistGradientBoostingClassifier(max_iter=2, categorical_features=[2]),
        (HISTOGRAM_TREE, "functools.partial", "sklearn.utils.validation.check_array"),
    ),
    (make_pipeline(OneHotEncoder(max_categories=2, handle_unknown="ignore"), LogisticRegression()), ()),
    (make_pipeline(OneHotEncoder(drop="first"), LogisticRegression()), ()),
    (make_pipeline(OneHotEncoder(drop="if_binary", handle_unknown="ignore"), LogisticRegression()), ()),
    (StackingClassifier([("svc", SVC()), ("line", LogisticRegression())], cv=2), ()),
]


@pytest.mark.parametrize(("model", "trusted"), SOUND, ids=lambda value: str(value)[:60])
def test_sound_models_come_back(model: Any, trusted: tuple[str, ...], tmp_path: Path) -> None:
    rows = np.column_stack([X[:, :2].round(), CLASSES])
    model.fit(rows, CLASSES)
    loaded = load_model(saved(model, tmp_path), trusted=trusted)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_a_support_vector_machine_of_sparse_rows_comes_back(tmp_path: Path) -> None:
    rows = sp.csr_matrix(X)
    model = SVC().fit(rows, CLASSES)
    loaded = load_model(saved(model, tmp_path), trusted=["scipy.sparse._csr.csr_matrix"])
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


# --- attributes that do not fit ---------------------------------------------------------------------------------------
def line(**attributes: Any) -> LinearRegression:
    return forged(LinearRegression().fit(X, NUMBER), **attributes)


def labels(**attributes: Any) -> LogisticRegression:
    return forged(LogisticRegression().fit(X, CLASSES), **attributes)


def perceptron(**attributes: Any) -> MLPClassifier:
    with warnings.catch_warnings(action="ignore"):
        return forged(MLPClassifier((4,), max_iter=2).fit(X, CLASSES), **attributes)


NAN = np.array([1.0, np.nan, 2.0])
TAMPERED: dict[str, tuple[Any, str]] = {
    "missing weights": (line(coef_=None), "LinearRegression.coef_ is missing"),
    "text for weights": (line(coef_=np.array(["a", "b", "c"])), "LinearRegression.coef_ holds <U1, not numbers"),
    "a list for weights": (line(coef_=[1.0, 2.0, 3.0]), "LinearRegression.coef_ is a list, not an array"),
    "unknown weights": (line(coef_=NAN), "LinearRegression.coef_ holds 1 missing or infinite values"),
    "too few weights": (line(coef_=np.ones(2)), "LinearRegression.coef_ has 2 weights for 3 columns"),
    "no such width": (line(n_features_in_=7), "LinearRegression.coef_ has 3 weights for 7 columns"),
    "no width": (line(n_features_in_="three"), "LinearRegression.n_features_in_ is 'three', not a number of columns"),
    "an unknown intercept": (line(intercept_=np.nan), "LinearRegression.intercept_ is not made of finite numbers"),
    "names for others": (
        line(feature_names_in_=np.array(["a", "b"], dtype=object)), "LinearRegression has 2 names for 3 columns",
    ),
    "numbers for names": (
        line(feature_names_in_=np.arange(3)), "LinearRegression.feature_names_in_ are not names of columns",
    ),
    "too few classes": (labels(classes_=np.arange(2)), "LogisticRegression.coef_ has 3 rows for 2 classes"),
    "classes twice": (labels(classes_=np.zeros(3)), "LogisticRegression.classes_ are not different labels"),
    "too few intercepts": (labels(intercept_=np.ones(2)), "LogisticRegression.intercept_ has 2 numbers for 3 rows of"),
    "another function": (line(predict=np.exp), "LinearRegression.predict stands in the place of scikit-learn's own"),
    "layers": (perceptron(n_layers_=9), "MLPClassifier has 2 layers of weights, not 8"),
    "widths": (
        perceptron(coefs_=[np.ones((2, 4)), np.ones((4, 3))]), "layers that do not fit: (2, 4), not (3, 4)",
    ),
    "unknown layers": (
        perceptron(coefs_=[np.full((3, 4), np.nan), np.ones((4, 3))]), "coefs_ holds missing or infinite values",
    ),
    "outputs": (perceptron(n_outputs_=2), "MLPClassifier has 3 outputs, not 2"),
    "steps": (forged(make_pipeline(line()), steps=["a"]), "Pipeline.steps are not names and models"),
    "lost": (forged(svc(), _sparse="no", _dual_coef_=None), "SVC.support_vectors_ is not a sparse matrix of rows"),
    "one mean for all": (
        make_pipeline(forged(StandardScaler().fit(X), mean_=np.ones(1)), line()),
        "StandardScaler.mean_ has shape (1,) for 3 columns",
    ),
    "a mean that is a number": (
        make_pipeline(forged(StandardScaler().fit(X), mean_=2.0), line()),
        "StandardScaler.mean_ has shape () for 3 columns",
    ),
    "a mean for every row": (
        make_pipeline(forged(StandardScaler().fit(X), mean_=X.copy()), line()),
        "StandardScaler.mean_ has shape (60, 3) for 3 columns",
    ),
    "fewer means of classes": (
        forged(GaussianNB().fit(X, CLASSES), theta_=np.ones((3, 1))),
        "GaussianNB.theta_ has shape (3, 1) for 3 columns",
    ),
    "fewer spreads": (
        forged(QuadraticDiscriminantAnalysis().fit(X, CLASSES), scalings_=[np.ones(1)] * 3),
        "QuadraticDiscriminantAnalysis has (1,) spreads along axes (3, 3)",
    ),
    "one intercept for all": (
        labels(intercept_=np.ones(1)), "LogisticRegression.intercept_ has 1 numbers for 3 rows of coef_",
    ),
    "fewer quantiles": (
        make_pipeline(forged(QuantileTransformer(n_quantiles=9).fit(X), quantiles_=np.ones((9, 1))), line()),
        "QuantileTransformer.quantiles_ has shape (9, 1) for 3 columns",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_attributes_that_contradict_each_other(name: str, tmp_path: Path) -> None:
    model, sentence = TAMPERED[name]
    path = saved(model, tmp_path)
    with pytest.raises(InputError) as told:
        load_model(path)
    assert sentence in str(told.value)
    assert str(told.value).endswith(SAVE_AGAIN)


def test_saving_again_helps(tmp_path: Path) -> None:
    assert load_model(saved(line(), tmp_path)).predict(X[:1]).round(6) == NUMBER[:1].round(6)


DAMAGED: list[Callable[[], Any]] = [
    lambda: make_pipeline(forged(StandardScaler().fit(X), scale_=None, mean_="x"), line()),
    lambda: make_pipeline(forged(StandardScaler().fit(X), mean_=np.array(["a", "b", "c"])), line()),
    lambda: make_pipeline(forged(StandardScaler().fit(X), scale_=np.ones(2)), line()),
    lambda: forged(DummyClassifier().fit(X, CLASSES), class_prior_=None),
    lambda: forged(DummyClassifier().fit(X, CLASSES), class_prior_=np.ones(2)),
    lambda: make_pipeline(forged(KMeans(2, n_init=1).fit(X), cluster_centers_=np.ones((5, 3))), line()),
    lambda: labels(classes_=np.array(["a", "b", "c"])),
    lambda: forged(make_pipeline(line()), steps=[("line", 5)]),
    lambda: forged(make_pipeline(line()), steps=[("line", None)]),
    lambda: forged(GaussianNB().fit(X, CLASSES), classes_=np.arange(1)),
    lambda: make_pipeline(forged(QuantileTransformer(n_quantiles=9).fit(X), output_distribution="odd"), labels()),
    lambda: forged(iv.InvariantClassifier("erm", steps=1).fit(X, CLASSES), network_={}),
    lambda: forged(iv.InvariantClassifier("erm", steps=1).fit(X, CLASSES), options=5),
    lambda: forged(iv.InvariantClassifier("erm", steps=1).fit(X, CLASSES), n_representation_=10**9),
    lambda: perceptron(out_activation_="nothing"),
    lambda: forged(StackingClassifier([("a", SVC())], cv=2).fit(X, CLASSES), estimators_=[5]),
    lambda: forged(StackingClassifier([("a", SVC())], cv=2).fit(X, CLASSES), final_estimator_=None),
]


@pytest.mark.parametrize("make", DAMAGED)
def test_what_shows_at_first_use_is_one_sentence(make: Callable[[], Any], tmp_path: Path) -> None:
    path = saved(make(), tmp_path)
    with pytest.raises(InputError) as told, warnings.catch_warnings(action="ignore"):
        iv.audit(load_model(path), X, CLASSES, np.repeat(["a", "b"], 30), criteria=["risk_variance"])
    assert "\n" not in str(told.value)


def test_names_of_columns_that_are_not_there_are_not_made_up(tmp_path: Path) -> None:
    """A number of columns that only the file knows must not fill the memory."""
    groups = KMeans(2, n_init=1, random_state=0).fit(X)
    model = make_pipeline(groups, LinearRegression().fit(groups.transform(X), NUMBER))
    told = [split(model).columns(X)]
    told.append(
        split(
            load_model(
                saved(
                    forged(model, steps=[("kmeans", forged(groups, _n_features_out=10**12)), model.steps[1]]), tmp_path
                )
            )
        ).columns(X)
    )
    assert told == [("kmeans0", "kmeans1")] * 2


def test_on_the_command_line(tmp_path: Path) -> None:
    """In a process of its own: this one reads memory that is not its own where it is believed."""
    path = saved(precomputed(), tmp_path)
    columns = {f"k{j}": column for j, column in enumerate((X @ X.T).T)}
    pd.DataFrame({**columns, "y": CLASSES, "env": np.repeat(["a", "b"], 30)}).to_csv(tmp_path / "t.csv", index=False)
    command = [sys.executable, "-m", "invariscope", "audit", str(tmp_path / "t.csv"), "--target", "y", "--env", "env"]
    done = subprocess.run([*command, "--model", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "SVC.support_ runs from 1000000000" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
