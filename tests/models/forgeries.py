"""Forged .skops files, made by the hundred: every number, list and array of a sound file, tampered with in every way.

Run as a module, it loads and uses each of them in a process of its own, because what is believed may crash, hang or
fill the memory: ``python -m tests.models.forgeries 8 0 ridge`` tries 8 of each model's tamperings, drawn with seed 0.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SECONDS, MEMORY = 30.0, 2**30
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(60, 2)), np.arange(60) % 4])
CLASSES = np.arange(60) % 3
NUMBER = X @ [1.0, 2.0, 3.0]
TEXT = np.array(["one two", "two three three", "four"] * 20, dtype=object)
TREE = "sklearn.tree._tree.Tree"
HISTOGRAM = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "functools.partial",
             "sklearn.utils.validation.check_array")  # fmt: skip
SEARCH = (
    *(f"sklearn.neighbors._{tree}_tree.{name}Tree" for tree, name in (("kd", "KD"), ("ball", "Ball"))),
    *(f"sklearn.metrics._dist_metrics.{kind}Distance64" for kind in ("Euclidean", "Minkowski", "SEuclidean")),
)
SCORE = "sklearn.feature_selection._univariate_selection.f_classif"
KERNELS = tuple(f"sklearn.gaussian_process.kernels.{kind}" for kind in ("RBF", "ConstantKernel", "Product"))


def models() -> dict[str, tuple[Any, Any, Any, tuple[str, ...]]]:
    """Of every type that a file may hold: the model, the rows and target it is fitted on, what has to be trusted."""
    from sklearn import (
        calibration,
        cluster,
        compose,
        decomposition,
        discriminant_analysis,
        ensemble,
        feature_extraction,
        feature_selection,
        gaussian_process,
        impute,
        isotonic,
        kernel_approximation,
        kernel_ridge,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        preprocessing,
        random_projection,
        svm,
        tree,
    )
    from sklearn.pipeline import make_pipeline

    words = feature_extraction.text
    line, labels = linear_model.Ridge, linear_model.LogisticRegression
    before: dict[str, Any] = {
        "scaler": preprocessing.StandardScaler(),
        "min_max": preprocessing.MinMaxScaler(),
        "robust": preprocessing.RobustScaler(),
        "quantile": preprocessing.QuantileTransformer(n_quantiles=9),
        "power": preprocessing.PowerTransformer(),
        "one_hot": preprocessing.OneHotEncoder(handle_unknown="ignore", max_categories=3),
        "ordinal": preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        "bins": preprocessing.KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"),
        "polynomial": preprocessing.PolynomialFeatures(2),
        "simple_imputer": impute.SimpleImputer(add_indicator=True),
        "nearest_imputer": impute.KNNImputer(),
        "pca": decomposition.PCA(2),
        "svd": decomposition.TruncatedSVD(2),
        "kernel_pca": decomposition.KernelPCA(2, kernel="rbf"),
        "nystroem": kernel_approximation.Nystroem(n_components=5, random_state=0),
        "fourier": kernel_approximation.RBFSampler(n_components=5, random_state=0),
        "sketch": kernel_approximation.PolynomialCountSketch(n_components=5, random_state=0),
        "projection": random_projection.GaussianRandomProjection(2, random_state=0),
        "selected": feature_selection.SelectKBest(k=2),
        "groups": cluster.KMeans(2, n_init=1, random_state=0),
        "columns": compose.ColumnTransformer(
            [("scale", preprocessing.StandardScaler(), [0, 1]), ("hot", preprocessing.OneHotEncoder(), [2])]
        ),
    }
    described: dict[str, tuple[Any, Any, Any, tuple[str, ...]]] = {
        name: (make_pipeline(step, line()), X, NUMBER, (SCORE,) if name == "selected" else ())
        for name, step in before.items()
    }
    described["nmf"] = (make_pipeline(decomposition.NMF(2, max_iter=50), line()), np.abs(X), NUMBER, ())
    for name, step in (("counts", words.CountVectorizer()), ("tf_idf", words.TfidfVectorizer()),
                       ("hashing", words.HashingVectorizer(n_features=8))):  # fmt: skip
        described[name] = (make_pipeline(step, line()), TEXT, NUMBER, ())
    numbers: dict[str, Any] = {
        "ridge": line(),
        "svr": svm.SVR(),
        "nearest": neighbors.KNeighborsRegressor(algorithm="brute"),
        "mahalanobis": neighbors.KNeighborsRegressor(
            algorithm="brute", metric="mahalanobis", metric_params={"VI": np.eye(3)}
        ),
        "search_tree": neighbors.KNeighborsRegressor(algorithm="kd_tree", leaf_size=5),
        "kernel_ridge": kernel_ridge.KernelRidge(kernel="rbf"),
        "tree": tree.DecisionTreeRegressor(max_depth=3),
        "boosting": ensemble.GradientBoostingRegressor(n_estimators=3),
        "process": gaussian_process.GaussianProcessRegressor(
            gaussian_process.kernels.ConstantKernel() * gaussian_process.kernels.RBF()
        ),
        "target": compose.TransformedTargetRegressor(line(), transformer=preprocessing.StandardScaler()),
        "voting": ensemble.VotingRegressor([("a", line()), ("b", svm.SVR())]),
    }
    classes: dict[str, Any] = {
        "logistic": labels(),
        "perceptron": neural_network.MLPClassifier((4,), max_iter=5, random_state=0),
        "gaussian_bayes": naive_bayes.GaussianNB(),
        "lda": discriminant_analysis.LinearDiscriminantAnalysis(),
        "qda": discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
        "svc": svm.SVC(),
        "linear_svc": svm.LinearSVC(),
        "nearest_classes": neighbors.KNeighborsClassifier(algorithm="brute"),
        "radius": neighbors.RadiusNeighborsClassifier(9.0, algorithm="brute"),
        "centroids": neighbors.NearestCentroid(),
        "forest": ensemble.RandomForestClassifier(3, max_depth=3, random_state=0),
        "boosting_classes": ensemble.GradientBoostingClassifier(n_estimators=2),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=2, categorical_features=[2], min_samples_leaf=5),
        "ada": ensemble.AdaBoostClassifier(svm.SVC(), n_estimators=2),
        "calibrated": calibration.CalibratedClassifierCV(labels(), cv=2),
        "calibrated_isotonic": calibration.CalibratedClassifierCV(labels(), cv=2, method="isotonic"),
        "stacking": ensemble.StackingClassifier([("svc", svm.SVC()), ("line", labels())], cv=2),
    }
    trusted = {"search_tree": SEARCH, "tree": (TREE,), "boosting": (TREE,), "forest": (TREE,), "process": KERNELS,
               "boosting_classes": (TREE,), "histogram": (TREE, *HISTOGRAM)}  # fmt: skip
    described |= {name: (model, X, NUMBER, trusted.get(name, ())) for name, model in numbers.items()}
    described |= {name: (model, X, CLASSES, trusted.get(name, ())) for name, model in classes.items()}
    described["bayes_counts"] = (naive_bayes.MultinomialNB(), np.abs(X), CLASSES, ())
    described["isotonic"] = (isotonic.IsotonicRegression(out_of_bounds="clip"), X[:, :1], NUMBER, ())
    return described


# --- tampering --------------------------------------------------------------------------------------------------------
def written(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def headed(kind: str, shape: tuple[int, ...], data: bytes = b"") -> bytes:
    """An array whose header says what it likes."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": kind, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + data


def _set(values: Any, place: Any, value: Any) -> Any:
    changed = values.copy()
    changed.flat[place] = value
    return changed


ARRAYS: dict[str, Callable[[Any], bytes]] = {
    "short": lambda values: written(values[:-1]),
    "long": lambda values: written(np.concatenate([values, values, values])),
    "empty": lambda values: written(values[:0]),
    "one": lambda values: written(values[:1]),
    "narrow": lambda values: written(values[..., :1]),
    "wide": lambda values: written(np.concatenate([values, values], axis=-1)),
    "flat": lambda values: written(values.ravel()),
    "deep": lambda values: written(values[None]),
    "number": lambda values: written(values.ravel()[0]),
    "turned": lambda values: written(np.asfortranarray(values.T)),
    "fortran": lambda values: written(np.asfortranarray(values)),
    "bytes": lambda values: written(values.astype("S8")),
    "text": lambda values: written(values.astype("U8")),
    "half": lambda values: written(values.astype(np.float16)),
    "single": lambda values: written(values.astype(np.float32)),
    "small": lambda values: written(values.astype(np.int8)),
    "unsigned": lambda values: written(values.astype(np.uint64)),
    "complex": lambda values: written(values.astype(complex)),
    "swapped": lambda values: written(values.astype(values.dtype.newbyteorder(">"))),
    "unknown": lambda values: written(_set(values.astype(float), 0, np.nan)),
    "infinite": lambda values: written(_set(values.astype(float), 0, np.inf)),
    "negative": lambda values: written(_set(values, -1, -1)),
    "large": lambda values: written(_set(values, -1, 2**31 - 1 if values.dtype.kind in "iu" else 1e300)),
    "huge": lambda values: written(_set(values, 0, 2**62 if values.dtype.kind in "iu" else 1e300)),
    "nothing": lambda values: headed("<U0", (10**12,)),
    "lying": lambda values: headed("<f8", (10**10,), b"12345678"),
}
TEXTS = ("-1", "0", "1", "7", "1000000000", "1e300", "NaN", "true", "null", '"text"', "[]", "{}", "0.5")


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "__loader__" in node:
            yield node
        for child in node.values():
            yield from _nodes(child)
    elif isinstance(node, list):
        for child in node:
            yield from _nodes(child)


def tamperings(archive: dict[str, bytes]) -> list[tuple[str, int, str]]:
    """What can be done to a file: at which of its nodes, and how."""
    ways = []
    for place, node in enumerate(_nodes(json.loads(archive["schema.json"]))):
        if node.get("file", "").endswith(".npy"):
            ways += [("array", place, way) for way in ARRAYS]
        elif node["__loader__"] == "JsonNode":
            ways += [("text", place, text) for text in TEXTS]
        elif isinstance(node.get("content"), list):
            ways += [("list", place, way) for way in ("short", "twice", "empty", "turned")]
    return ways


def tampered(archive: dict[str, bytes], what: str, place: int, way: str) -> bytes | None:
    """The file with one thing changed, or nothing where it cannot be."""
    schema, content = json.loads(archive["schema.json"]), dict(archive)
    node = list(_nodes(schema))[place]
    if "__id__" in node:
        node["__id__"] = 2**60  # or it would be taken for another one of the same number
    if what == "array":
        values = np.load(io.BytesIO(content[node["file"]]), allow_pickle=False)
        try:
            with warnings.catch_warnings(action="ignore"):
                content["forged.npy"] = ARRAYS[way](values)
        except (IndexError, OverflowError, TypeError, ValueError):
            return None
        node["file"] = "forged.npy"
    elif what == "text":
        node["content"] = way
    else:
        items = node["content"]
        node["content"] = {"short": items[:-1], "twice": items + items, "empty": [], "turned": items[::-1]}[way]
    content["schema.json"] = json.dumps(schema).encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as zipped:
        for name, part in content.items():
            zipped.writestr(name, part)
    return packed.getvalue()


def where(archive: dict[str, bytes], place: int) -> str:
    """The way to a node, for whoever reads the outcome."""

    def search(node: Any, path: str, count: list[int]) -> str | None:
        if isinstance(node, dict):
            if "__loader__" in node:
                count[0] += 1
                if count[0] == place:
                    return path
            pairs = list(node.items())
        elif isinstance(node, list):
            pairs = list(enumerate(node))
        else:
            return None
        for name, child in pairs:
            told = search(child, path if name == "content" else f"{path}.{name}", count)
            if told is not None:
                return told
        return None

    return search(json.loads(archive["schema.json"]), "", [-1]) or "?"


# --- use --------------------------------------------------------------------------------------------------------------
def used(path: Path, rows: Any, trusted: tuple[str, ...], sound: Any) -> str:
    """What becomes of a file: "refused", "same", "other" predictions, or an exception that nobody turned into words."""
    from invariscope.errors import InputError
    from invariscope.models import split
    from invariscope.models.files import load_model

    try:
        halves = split(load_model(path, trusted=trusted))
        predictions = np.asarray(halves.predict(rows))
        halves.represent(rows)
    except InputError as error:
        return "refused" if "\n" not in str(error) else f"raw: several lines: {error}"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    if predictions.shape[0] != len(rows):
        return f"raw: {len(predictions)} predictions"
    same = predictions.shape == sound.shape and np.allclose(predictions, sound, rtol=1e-5, atol=1e-6)
    return "same" if same else "other"


def in_a_process(task: Callable[[], str]) -> str:
    """What a task says, or how its process ended; limits are put on time and on memory."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        outcome = "raw: nothing was said"
        with contextlib.suppress(BaseException):
            outcome = task()
        os.write(writer, outcome.encode(errors="replace")[:1000])
        os._exit(0)
    os.close(writer)
    ready = select.select([reader], [], [], SECONDS)[0]
    said = os.read(reader, 4096).decode() if ready else ""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    return said or ("hangs" if not ready else f"crash: status {status}")


def sweep(name: str, most: int, seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Forge a model's file in ``most`` ways: what, where, how and what became of it."""
    import skops.io

    from invariscope.models import split

    model, rows, target, trusted = models()[name]
    with warnings.catch_warnings(action="ignore"):
        model.fit(rows, target)
    packed = skops.io.dumps(model)
    with zipfile.ZipFile(io.BytesIO(packed)) as zipped:
        archive = {part: zipped.read(part) for part in zipped.namelist()}
    sound = np.asarray(split(model).predict(rows))
    ways = tamperings(archive)
    order = np.random.default_rng([seed, *name.encode()]).permutation(len(ways))[:most]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.skops"
        path.write_bytes(packed)
        yield "nothing", "", "", in_a_process(lambda: used(path, rows, trusted, sound))
        for what, place, way in (ways[i] for i in order):
            forged = tampered(archive, what, place, way)
            if forged is not None:
                path.write_bytes(forged)
                outcome = in_a_process(lambda: used(path, rows, trusted, sound))
                yield what, where(archive, place), way, outcome


def main() -> None:
    most, seed, *names = sys.argv[1:]
    warnings.simplefilter("ignore")
    for name in names or models():
        start = time.monotonic()
        for what, place, way, outcome in sweep(name, int(most), int(seed)):
            print(json.dumps([name, what, place, way, outcome, round(time.monotonic() - start, 2)]), flush=True)
            start = time.monotonic()


if __name__ == "__main__":
    main()
