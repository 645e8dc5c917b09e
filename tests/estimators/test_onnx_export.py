"""Exported models, run by onnxruntime, predict and represent what the estimators do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.estimators import InvariantClassifier, InvariantRegressor
from invariscope.models.torch_networks import Halves, convnet


class Data:
    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(90, 3)) * [1.0, 30.0, 0.1] + [2020.0, 0.0, 5.0]
        self.env = np.repeat(["a", "b", "c"], 30)
        self.number = 100 * (self.X[:, 0] - 2020) + 10 * rng.normal(size=90) + 500
        ranks = np.argsort(np.argsort(self.number))
        self.binary = np.where(ranks < 45, "no", "yes")
        self.three = np.array(["x", "y", "z"])[ranks // 30]


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


def run(path: Path, X: Any) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == ["X"]
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


@pytest.mark.parametrize("rows", [1, 90])
@pytest.mark.parametrize("target", ["number", "binary", "three"])
@pytest.mark.parametrize("hidden", [(), (6, 4)], ids=["linear", "network"])
def test_exported_models_say_the_same(
    hidden: tuple[int, ...], target: str, rows: int, data: Data, tmp_path: Path
) -> None:
    kind = InvariantRegressor if target == "number" else InvariantClassifier
    model: Any = kind("vrex", hidden=hidden, dropout=0.1, steps=20).fit(data.X, getattr(data, target), env=data.env)
    path = model.to_onnx(tmp_path / "model.onnx")
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]
    X = data.X[:rows]
    found = run(path, X)
    said = {"prediction": model.predict} if target == "number" else {"probabilities": model.predict_proba}
    expected = {name: method(X) for name, method in said.items()} | {"representation": model.represent(X)}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], values, rtol=1e-10, atol=1e-10)


def test_models_in_single_precision_take_single_precision(data: Data, tmp_path: Path) -> None:
    X = data.X.astype(np.float32)  # years: standardised in single precision, four of its seven digits would be lost
    model = InvariantRegressor("vrex", hidden=(6,), precision="float32", steps=20).fit(X, data.number, env=data.env)
    found = run(model.to_onnx(tmp_path / "model.onnx"), X)
    assert found["prediction"].dtype == np.float32
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-5)
    np.testing.assert_allclose(found["representation"], model.represent(X), atol=1e-5)
    double = InvariantRegressor("vrex", hidden=(6,), steps=20).fit(X, data.number, env=data.env)
    found = run(double.to_onnx(tmp_path / "model.onnx", precision="float32"), X)
    np.testing.assert_allclose(found["prediction"], double.predict(X), rtol=1e-5)


def images(inputs: int, outputs: int) -> Halves:
    assert inputs == 36
    return convnet((1, 6, 6), outputs)


def test_convolutional_networks_are_exported_in_single_precision(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    X, y, env = rng.random((24, 36)), np.tile([0, 1, 2], 8), np.repeat([0, 1], 12)
    model = InvariantClassifier("vrex", network=images, steps=3).fit(X, y, env=env)
    found = run(model.to_onnx(tmp_path / "model.onnx"), X.astype(np.float32))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(found["representation"], model.represent(X), atol=1e-5)
    assert found["representation"].shape == (24, 128)
    with pytest.raises(InputError, match='onnxruntime cannot run this network; try precision="float32"'):
        model.to_onnx(tmp_path / "double.onnx", precision="float64")
    assert not (tmp_path / "double.onnx").exists()


def test_names_and_classes_are_in_the_file(data: Data, tmp_path: Path) -> None:
    frame = pd.DataFrame(data.X, columns=["year", "dose", "weight"])
    model = InvariantClassifier("irm", steps=5).fit(frame, data.three, env=data.env)
    stored = onnx.load(model.to_onnx(tmp_path / "model.onnx"))
    about = {one.key: one.value for one in stored.metadata_props}
    assert (about["estimator"], about["objective"]) == ("InvariantClassifier", "irm")
    assert json.loads(about["classes"]) == ["x", "y", "z"]
    assert json.loads(about["feature_names_in"]) == ["year", "dose", "weight"]


class Fixed(nn.Module):
    """Tracing writes the number of rows it saw into the graph."""

    def forward(self, values: Tensor) -> Tensor:
        return values + torch.zeros(len(values), 1, dtype=values.dtype)


def fixed(inputs: int, outputs: int) -> Any:
    return nn.Sequential(nn.Linear(inputs, 2), Fixed(), nn.Linear(2, outputs))


def test_a_network_that_tracing_gets_wrong_leaves_no_file(data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("erm", network=fixed, steps=2).fit(data.X, data.number)
    with pytest.raises(InputError, match=r"the exported network .*: store it with to_safetensors instead$"):
        model.to_onnx(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_is_told(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = InvariantRegressor("vrex", steps=1).fit(data.X, data.number, env=data.env)
    with pytest.raises(InputError, match="precision is 'half'"):
        model.to_onnx(tmp_path / "model.onnx", precision="half")
    with pytest.raises(InputError, match="there is no folder"):
        model.to_onnx(tmp_path / "absent" / "model.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # not needed, only the check is left out
    assert model.to_onnx(tmp_path / "model.onnx").exists()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"exporting needs onnx: pip install 'invariscope\[onnx\]'"):
        model.to_onnx(tmp_path / "model.onnx")
