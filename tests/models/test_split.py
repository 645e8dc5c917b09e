"""Models given by hand, as functions or arrays: halves that fit, predictions that are numbers, errors in words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import skops.io
import torch
from scipy.special import expit, softmax
from sklearn.linear_model import LinearRegression

import invariscope.models.files
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead, log_odds
from invariscope.models import Split, split

NAMES = ["age", "dose", "weight"]


@dataclass(frozen=True)
class Data:
    """Rows, as an array and as a frame, and a number to predict."""

    X: Any
    number: Any
    frame: pd.DataFrame


@pytest.fixture
def data(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 3))
    return Data(X, X @ [1.0, -0.5, 2.0] + rng.normal(size=90), pd.DataFrame(X, columns=NAMES))


def test_certain_probabilities_are_clipped() -> None:
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    limit = np.log((1 - 1e-6) / 1e-6)
    np.testing.assert_allclose(log_odds(certain).ravel(), [-limit, limit], rtol=1e-12)


def test_anything_with_predict_or_predict_proba(data: Data) -> None:
    class Doubling:
        def predict(self, X: Any) -> Any:
            return 2 * X[:, 0]

    class Coin:
        def predict_proba(self, X: Any) -> Any:
            return np.full((len(X), 2), 0.5)

    halves = split(Doubling())
    np.testing.assert_array_equal(halves.predict(data.X), 2 * data.X[:, 0])
    assert halves.level == "prediction"
    assert halves.task is None
    assert split(Coin()).task == "classification"
    np.testing.assert_array_equal(split(Coin()).represent(data.X), np.zeros((90, 1)))


def test_functions_predict(data: Data) -> None:
    def risk(X: Any) -> Any:
        return X[:, 0] ** 2

    halves = split(risk)
    assert halves.level == "prediction"
    assert halves.description == "function risk: its predictions"
    np.testing.assert_array_equal(halves.represent(data.X)[:, 0], data.X[:, 0] ** 2)


def test_a_split_passes_through(data: Data) -> None:
    halves = Split(represent=lambda X: X, predict=lambda X: X[:, 0])
    assert split(halves) is halves


def test_arrays_answer_for_their_own_rows(data: Data) -> None:
    Z, predictions = data.X[:, :2].astype(np.float32), data.number
    halves = Split(represent=Z, predict=predictions, columns=["one", "two"], name="my network")
    assert halves.represent(data.X).dtype == np.float32
    np.testing.assert_array_equal(halves.represent(data.X), Z)
    np.testing.assert_array_equal(halves.predict(data.X), predictions)
    assert halves.columns(data.X) == ("one", "two")
    assert halves.description == "my network"
    assert Split(represent=data.frame, predict=predictions).columns(data.X) == tuple(NAMES)
    with pytest.raises(InputError, match="X has 89 rows but the represent array has 90"):
        halves.represent(data.X[1:])
    with pytest.raises(InputError, match="X has 89 rows but the predict array has 90"):
        halves.predict(data.X[1:])


def test_predictions_alone_are_the_representation(data: Data) -> None:
    p = expit(data.number)
    halves = Split(predict=p, task="classification", classes=["no", "yes"])
    assert halves.level == "prediction"
    np.testing.assert_allclose(halves.predict(data.X), np.column_stack([1 - p, p]), atol=1e-15)
    np.testing.assert_allclose(halves.represent(data.X)[:, 0], np.clip(data.number, -13.8, 13.8), atol=1e-6)


def test_predictions_come_from_the_head_if_need_be(data: Data) -> None:
    head = LinearHead([1.0, 2.0, 3.0], 0.5)
    line = Split(represent=data.X, head=head, task="regression")
    np.testing.assert_allclose(line.predict(data.X), data.X @ [1.0, 2.0, 3.0] + 0.5)
    classes = Split(represent=data.X, head=head, task="classification")
    np.testing.assert_allclose(classes.predict(data.X)[:, 1], expit(data.X @ [1.0, 2.0, 3.0] + 0.5), atol=1e-12)
    assert line.predicts
    assert not Split(represent=data.X).predicts
    with pytest.raises(InputError, match="this Split cannot predict: pass predict= or head="):
        Split(represent=data.X).predict(data.X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs represent=, predict= or both"),
        ({"predict": len, "task": "guessing"}, 'task "guessing" is unknown'),
        ({"represent": len, "head": ([1.0], 0.0)}, r"head is a tuple: give iv.LinearHead\(weight, bias\)"),
        ({"predict": len, "head": LinearHead([1.0], 0.0)}, "pass represent= as well"),
        ({"represent": len, "head": LinearHead([1.0], 0.0)}, "say what it predicts: task="),
        ({"represent": np.zeros((2, 2, 2))}, "represent gives 3 dimensions: give rows x columns"),
    ],
)
def test_bad_splits_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Split(**settings)


@pytest.mark.parametrize(
    ("predictions", "task", "message"),
    [
        ([[0.5, 0.6]], None, "the probabilities of 1 rows do not sum to 1"),
        ([[1.5, -0.5]], "classification", r"predictions of 1 rows lie outside 0\.\.1"),
        ([1.5], "classification", r"predictions of 1 rows lie outside 0\.\.1"),
        (
            [[1.0, 2.0]],
            "regression",
            "predictions have 2 columns: a numeric target needs one",
        ),
        ([np.nan], "regression", "predictions: 1 row has missing or infinite values; predict it too, or drop it"),
        (["yes"], None, r'predictions hold text \("yes"\): give numbers, or for classes probabilities, as predict_p'),
    ],
)
def test_bad_predictions_are_refused(predictions: Any, task: str | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Split(predict=lambda X: np.array(predictions), task=task).predict(np.zeros((1, 1)))


def test_halves_must_fit_each_other(data: Data) -> None:
    halves = Split(represent=lambda X: X[:, :2], predict=lambda X: X[:, 0], head=LinearHead([1.0], 0.0))
    with pytest.raises(InputError, match="represent gives 2 columns, but the head reads 1"):
        halves.represent(data.X)
    with pytest.raises(InputError, match="X has 90 rows but represent has 89"):
        Split(represent=lambda X: X[1:]).represent(data.X)
    with pytest.raises(InputError, match="X has 90 rows but predictions has 89"):
        Split(predict=lambda X: X[1:, 0]).predict(data.X)
    with pytest.raises(InputError, match="columns has 1 names for 2 columns"):
        Split(represent=data.X[:, :2], columns=["one"]).columns(data.X)
    with pytest.raises(InputError, match="predictions have 2 columns, but there are 3 classes"):
        Split(predict=np.full((90, 2), 0.5), classes="abc").predict(data.X)


class Estimator:
    """A model that still has to be made and fitted."""


class Network:
    """The same, of torch's making."""

    named_modules = None


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Estimator, r"Estimator is a class: pass a fitted model, Estimator\(...\).fit\(X, y\)"),
        (Network, r"Network is a class: pass a fitted model, Network\(...\)$"),
        (Estimator(), r"a Estimator cannot be split: .* pass iv.Split\(represent=..., predict=..., head=...\)"),
        (42, r"a int cannot be split: it has no predict .* pass iv.Split\("),
        ("Ridge", '^"Ridge" is text, not a model: pass the fitted model itself, or None to audit the columns of X$'),
        ({"a": 1}, r"a dict cannot be split: .* pass iv.Split\("),
        ([len, len], r"a list cannot be split: .* pass iv.Split\("),
        (np, r"a module cannot be split: .* pass iv.Split\("),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_split(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(model)


@pytest.mark.parametrize("kind", [str, Path])
def test_the_name_of_a_file_is_not_yet_a_model(kind: Any, data: Data, tmp_path: Path) -> None:
    path = tmp_path / "line.skops"
    skops.io.dump(LinearRegression().fit(data.X, data.number), path)
    with pytest.raises(InputError) as told:
        split(kind(path))
    assert str(told.value) == (
        f'"{path}" is the name of a file: read the model first, with invariscope.models.files.load_model("{path}"), '
        "or on the command line with --model"
    )
    assert split(invariscope.models.files.load_model(str(path))).task == "regression"


def test_a_model_as_one_half(data: Data) -> None:
    model = LinearRegression().fit(data.X, data.number)
    with pytest.raises(InputError, match="predict= is a LinearRegression: give a function, such as its predict, or an"):
        Split(predict=model)
    np.testing.assert_array_equal(Split(predict=model.predict).predict(data.X), model.predict(data.X))
    np.testing.assert_array_equal(split(model).predict(data.X), model.predict(data.X))


# --- predictions as values --------------------------------------------------------------------------------------------
FORMS: dict[str, Any] = {
    "array": np.asarray,
    "single precision": np.float64,
    "list": lambda p: p.tolist(),
    "tuple": lambda p: tuple(p.tolist()),
    "masked nowhere": np.ma.masked_invalid,
    "pandas": lambda p: pd.Series(p) if p.ndim == 1 else pd.DataFrame(p),
    "nullable": lambda p: pd.Series(p, dtype="Float64") if p.ndim == 1 else pd.DataFrame(p, dtype="Float64"),
    "polars": lambda p: pl.Series(p) if p.ndim == 1 else pl.DataFrame(p),
    "pyarrow": lambda p: pa.array(p) if p.ndim == 1 else pa.table({f"p{j}": p[:, j] for j in range(p.shape[1])}),
    "tensor": lambda p: torch.tensor(p, requires_grad=True),
    "sparse": lambda p: scipy.sparse.csr_array(np.atleast_2d(p.T).T),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_values_of_any_library(form: str, width: int, data: Data) -> None:
    logits = data.X[:, :width]
    p = data.number if width == 1 else softmax(logits, axis=1)
    np.testing.assert_array_equal(split(FORMS[form](p)).predict(data.X), p)
    assert split(FORMS[form](p)).description == "predictions given as values"


def test_columns_named_after_classes(data: Data) -> None:
    p = softmax(data.X, axis=1)
    table = pd.DataFrame(p, columns=["cat", "ant", "bee"])
    halves = Split(predict=table).for_labels(("ant", "bee", "cat"))
    assert halves.classes == ("ant", "bee", "cat")
    np.testing.assert_array_equal(halves.predict(data.X), p[:, [1, 2, 0]])
    assert Split(predict=table).for_labels(("ant", "cat")).classes == ("ant", "cat", "bee")  # no row is a bee
    for other in (table.set_axis(["p0", "p1", "p2"], axis=1), table.set_axis(range(3), axis=1), p):
        kept = Split(predict=other)
        assert kept.for_labels(("ant", "bee", "cat")) is kept
    with pytest.raises(InputError) as told:
        Split(predict=table).for_labels(("ant", "bee", "cow"))
    assert str(told.value) == (
        "the columns of the predictions are named cat, ant, bee, but the classes are ant, bee, cow: name every column "
        "after its class, or give them without names, in this order"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            np.ma.masked_less(np.arange(90.0), 3),
            "^predictions: 3 values are masked; fill them, or drop those rows here and",
        ),
        (np.zeros((90, 1, 2)), "predict gives 3 dimensions"),
        (np.array(["yes"] * 90), r'^predictions hold text \("yes"\): .* as pandas.get_dummies\(labels\) does'),
        (pd.DataFrame({"a": ["yes"] * 90}), r'^predictions hold text \("yes"\)'),
        (pl.Series(["yes"] * 90), r'^predictions hold text \("yes"\)'),
    ],
)
def test_values_that_are_no_predictions(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(89), "^X has 90 rows but the predict array has 89: they must be about the very same rows$"),
        (
            np.full(90, np.nan),
            "^predictions: 90 rows have missing or infinite values; predict those rows too, or drop them$",
        ),
        (pd.Series([None, *[1.0] * 89], dtype="Float64"), "^predictions: 1 row has missing or infinite values"),
        (pl.Series([None, *[1.0] * 89]), "^predictions: 1 row has missing or infinite values"),
    ],
)
def test_values_that_do_not_fit_the_rows(values: Any, message: str, data: Data) -> None:
    with pytest.raises(InputError, match=message):
        split(values).predict(data.X)


@pytest.mark.parametrize("setting", ["layer", "task", "classes", "batch_size", "device", "inputs", "output"])
def test_settings_for_networks_are_refused_for_other_models(setting: str) -> None:
    with pytest.raises(InputError, match=f"{setting}= is for torch modules, and a function is none"):
        split(lambda X: X, **{setting: "x"})  # type: ignore[arg-type]


def test_other_models_have_no_network_and_know_their_task(data: Data) -> None:
    halves = Split(represent=lambda X: X, predict=lambda X: X[:, 0])
    assert halves.top is None
    assert halves.network is None
    assert halves.for_task("regression") is halves


def test_a_representation_at_hand_spares_computing_it_again(data: Data) -> None:
    def never(X: Any) -> Any:
        raise AssertionError("computed again")

    halves = Split(represent=never, head=LinearHead([1.0, 2.0, 3.0], 0.5), task="regression")
    np.testing.assert_allclose(halves.predict(data.X, data.X), data.X @ [1.0, 2.0, 3.0] + 0.5)


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        (np.zeros((1, 1, 1)), 0.0, r"weight must be outputs x features \(K x d\): it has shape \(1, 1, 1\)"),
        (np.zeros((1, 0)), 0.0, "weight must be outputs x features"),
        (np.zeros((3, 2)), 0.0, "weight has 3 rows, bias has shape"),
        (np.zeros((3, 2)), [0.0, 0.0], "weight has 3 rows, bias has shape"),
        ([[1.0, np.inf]], 0.0, "weight has 1 missing or infinite values"),
        ([[1.0]], np.nan, "bias has 1 missing or infinite values"),
        ([["a"]], 0.0, "weight must be an array of numbers"),
    ],
)
def test_bad_heads_are_refused(weight: Any, bias: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LinearHead(weight, bias)


def test_head_scores_and_probabilities(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, weight, bias = rng.normal(size=(7, 2)), rng.normal(size=(3, 2)), rng.normal(size=3)
    head = LinearHead(weight, bias)
    assert (head.n_outputs, head.n_features) == (3, 2)
    np.testing.assert_allclose(head.scores(Z), Z @ weight.T + bias, rtol=1e-12)
    np.testing.assert_allclose(head.probabilities(Z), softmax(Z @ weight.T + bias, axis=1), rtol=1e-12)
    with pytest.raises(InputError, match="the head reads 2 columns, but the representation has shape"):
        head.scores(Z[:, :1])
    weight[:] = 0.0  # the head keeps its own copy
    assert np.abs(head.weight).min() > 0
    with pytest.raises(ValueError, match="read-only"):
        head.weight[0, 0] = 1.0
    short = torch.tensor([[0.5, -2.0]], dtype=torch.bfloat16, requires_grad=True)
    np.testing.assert_array_equal(LinearHead(short, short[:, 0]).scores(short), [[4.75]])
    sure = LinearHead([1.0], 0.0).probabilities([[800.0], [-800.0]])
    np.testing.assert_array_equal(sure, [[0.0, 1.0], [1.0, 0.0]])


def test_import_is_light() -> None:
    code = "import sys, invariscope.models.splits, invariscope.models.files; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert not {"torch", "sklearn", "skops", "joblib", "pandas"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ((value for value in [1.0]), "model is a generator, which can be read only once: give list(model)"),
        ({1.0, 2.0}, "model is a set, which has no order: give a list in the order of the rows"),
        (pl.LazyFrame({"p": [1.0]}), "model is a LazyFrame, whose rows are not computed yet: give model.collect()"),
    ],
    ids=["generator", "set", "lazy"],
)
def test_predictions_that_are_no_array_yet_are_told_how_to_become_one(model: object, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
        split(model)


def test_predictions_alone_still_say_what_the_model_was_trained_with() -> None:
    whole = Split(represent=lambda X: X, predict=lambda X: X[:, 0], task="regression", trained_with="irm")
    assert whole.by_predictions().trained_with == "irm"


# --- models that write into what they read --------------------------------------------------------------------------
def centred_in_place(X: Any) -> Any:
    X[:, 0] -= 1.0
    return X[:, 0]


class WritesIntoFrames:
    """A model that adds a column of its own to the table it is given, and changes another."""

    def predict(self, X: Any) -> Any:
        X["age"] = X["age"] - 1.0
        X["own"] = 1.0
        return X["age"].to_numpy()


class WritesIntoRows:
    def predict(self, X: Any) -> Any:
        return centred_in_place(X)


@pytest.mark.parametrize("model", [centred_in_place, WritesIntoRows()], ids=["function", "model"])
def test_a_model_that_writes_into_rows_spoils_none_of_the_users(model: Any, data: Data) -> None:
    given = data.X.copy()
    halves = split(model)
    np.testing.assert_array_equal(halves.predict(given), data.X[:, 0] - 1.0)
    np.testing.assert_array_equal(halves.predict(given), data.X[:, 0] - 1.0)
    np.testing.assert_array_equal(given, data.X)
    assert given.flags.writeable
    represented = Split(represent=lambda X: np.column_stack([centred_in_place(X), X[:, 0]])).represent(given)
    np.testing.assert_array_equal(represented, (data.X[:, 0] - 1.0)[:, None].repeat(2, axis=1))
    np.testing.assert_array_equal(given, data.X)


@pytest.mark.skipif(pd.__version__ < "3", reason="older tables share the columns of their copies")
def test_a_model_that_writes_into_a_table_spoils_none_of_the_users(data: Data) -> None:
    given = data.frame.copy()
    np.testing.assert_array_equal(split(WritesIntoFrames()).predict(given), data.frame["age"] - 1.0)
    pd.testing.assert_frame_equal(given, data.frame)


def test_a_function_that_makes_tensors_of_rows_does_not_warn(data: Data) -> None:
    halves = split(lambda X: torch.from_numpy(X)[:, 0])
    np.testing.assert_array_equal(halves.predict(data.X.astype(float)), data.X[:, 0])


def test_a_model_that_fails_otherwise_is_asked_once(data: Data) -> None:
    asked = []

    def fails(X: Any) -> Any:
        asked.append(X)
        raise ValueError("no such unit")

    with pytest.raises(ValueError, match="no such unit"):
        split(fails).predict(data.X)
    assert len(asked) == 1
