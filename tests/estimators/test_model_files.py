"""Fitted estimators on disk without pickle: they come back as they were, and nothing else comes in."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from invariscope.errors import InputError
from invariscope.estimators import InvariantClassifier, InvariantRegressor, LeaveOneEnvironmentOut
from invariscope.estimators.weight_files import FORMAT
from invariscope.models.files import load_model
from invariscope.models.torch_networks import Halves
from invariscope.objectives import REGISTRY


class Data:
    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(90, 3))
        self.frame = pd.DataFrame(self.X, columns=["age", "dose", "weight"])
        self.env = np.repeat(["a", "b", "c"], 30)
        self.number = self.X @ [1.0, 2.0, 3.0] + rng.normal(size=90)
        ranks = np.argsort(np.argsort(self.number))
        self.binary = ranks < 45
        self.three = np.array(["x", "y", "z"])[ranks // 30]


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


MODELS = [
    (InvariantRegressor("vrex", steps=5), "number"),
    (InvariantRegressor("vrex", hidden=(4, 3), activation="tanh", dropout=0.1, precision="float32", steps=5), "number"),
    (InvariantRegressor(held_out=0.2, steps=20, random_state=np.random.RandomState(0)), "number"),
    (InvariantClassifier("irm", options={"form": "split"}, steps=5), "binary"),
    (InvariantClassifier("group_dro", hidden=[4], steps=5), "three"),
]


def says(model: Any, X: Any) -> Any:
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


def attributes(model: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


def assert_same(model: Any, loaded: Any, data: Data) -> None:
    np.testing.assert_array_equal(says(loaded, data.frame), says(model, data.frame))
    np.testing.assert_array_equal(loaded.represent(data.frame), model.represent(data.frame))
    assert type(loaded) is type(model)
    ours, theirs = attributes(model), attributes(loaded)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_equal(theirs[name], value)
        assert type(theirs[name]) is type(value)
        if isinstance(value, np.ndarray):
            assert theirs[name].dtype == value.dtype


@pytest.mark.parametrize(("model", "target"), MODELS, ids=range(len(MODELS)))
def test_skops_gives_models_back(model: Any, target: str, data: Data, tmp_path: Path) -> None:
    model.fit(data.frame, getattr(data, target), env=data.env)
    skops.io.dump(model, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert_same(model, loaded, data)


def test_skops_gives_pipelines_and_searches_back(data: Data, tmp_path: Path) -> None:
    pipe = make_pipeline(StandardScaler(), InvariantClassifier("vrex", hidden=(3,), steps=5))
    search = GridSearchCV(pipe, {"invariantclassifier__penalty": [1.0, 2.0]}, cv=LeaveOneEnvironmentOut())
    search.fit(data.X, data.three, groups=data.env, invariantclassifier__env=data.env)
    for model in (search.best_estimator_, search):
        skops.io.dump(model, tmp_path / "model.skops")
        loaded = load_model(tmp_path / "model.skops")
        np.testing.assert_array_equal(loaded.predict_proba(data.X), model.predict_proba(data.X))


@pytest.mark.parametrize(("model", "target"), MODELS, ids=range(len(MODELS)))
def test_safetensors_give_models_back(model: Any, target: str, data: Data, tmp_path: Path) -> None:
    model.fit(data.frame, getattr(data, target), env=data.env)
    path = model.to_safetensors(tmp_path / "model.safetensors")
    assert path == tmp_path / "model.safetensors"
    assert [one.name for one in tmp_path.iterdir()] == ["model.safetensors"]
    for loaded in (type(model).from_safetensors(path), load_model(str(path))):
        assert_same(model, loaded, data)
        ours, theirs = model.get_params(), loaded.get_params()
        for one in (ours, theirs):
            one["hidden"] = tuple(one["hidden"])
            one["random_state"] = (
                None if isinstance(one["random_state"], np.random.RandomState) else one["random_state"]
            )
        assert ours == theirs


def test_a_loaded_model_can_be_fitted_again(data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("vrex", hidden=(4,), steps=10).fit(data.X, data.number, env=data.env)
    loaded = InvariantRegressor.from_safetensors(model.to_safetensors(tmp_path / "model.safetensors"))
    loaded.fit(data.X, -data.number, env=data.env)
    model.fit(data.X, -data.number, env=data.env)
    np.testing.assert_array_equal(loaded.predict(data.X), model.predict(data.X))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_objective_object_is_stored_by_its_hyper_parameters(name: str, data: Data, tmp_path: Path) -> None:
    objective = REGISTRY[name]()
    model = InvariantRegressor("erm", steps=1).fit(data.X, data.number, env=data.env).set_params(objective=objective)
    loaded = InvariantRegressor.from_safetensors(model.to_safetensors(tmp_path / "model.safetensors"))
    assert loaded._chosen_objective(("a", "b")) == objective


def test_neither_places_nor_code_are_stored(data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("vrex", steps=1, checkpoint=tmp_path / "training.safetensors", progress=print)
    loaded = load_model(model.fit(data.X, data.number, env=data.env).to_safetensors(tmp_path / "model.safetensors"))
    assert (loaded.checkpoint, loaded.progress) == (None, False)


# --- networks of one's own -------------------------------------------------------------------------------------------
def two_halves(inputs: int, outputs: int, activation: type[nn.Module] = nn.Tanh) -> Halves:
    return Halves(nn.Sequential(nn.Linear(inputs, 4), activation()), nn.Linear(4, outputs))


@pytest.mark.parametrize("network", [two_halves, two_halves(3, 1)], ids=["function", "module"])
def test_an_own_network_is_given_again_by_its_owner(network: Any, data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("vrex", network=network, steps=3).fit(data.X, data.number, env=data.env)
    path = model.to_safetensors(tmp_path / "model.safetensors")
    again = InvariantRegressor.from_safetensors(path, network=two_halves)
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    without = load_model(path)
    with pytest.raises(InputError, match="trained with a network of your own, which is not stored with it"):
        without.predict(data.X)
    without.set_params(network=two_halves(3, 1))
    np.testing.assert_array_equal(without.predict(data.X), model.predict(data.X))
    with pytest.raises(InputError, match="network is not the one these weights were trained in"):
        without.set_params(network=two_halves(3, 1, nn.ReLU)).predict(data.X)
    with pytest.raises(InputError, match=r"network is not the one these weights were trained in: that was .*Tanh"):
        InvariantRegressor.from_safetensors(path, network=partial(two_halves, activation=nn.ReLU))


def test_skops_names_a_function_that_makes_networks_and_asks_before_it_is_used(data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("vrex", network=two_halves, steps=3).fit(data.X, data.number, env=data.env)
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"holds types that are not trusted: .*two_halves"):
        load_model(tmp_path / "model.skops")


# --- refusals --------------------------------------------------------------------------------------------------------
def test_files_of_another_kind_are_refused(data: Data, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model = InvariantRegressor("vrex", steps=1).fit(data.X, data.number, env=data.env)
    model.to_safetensors(path)
    with pytest.raises(InputError, match=r"holds an InvariantRegressor: load it with InvariantRegressor.from_safetens"):
        InvariantClassifier.from_safetensors(path)
    save_file({"weight": np.zeros(3)}, path)
    with pytest.raises(InputError, match="was not written by to_safetensors of an invariscope estimator"):
        load_model(path)
    path.write_bytes(b"no such format")
    with pytest.raises(InputError, match=r"not a readable .safetensors file"):
        load_model(path)
    with pytest.raises(InputError, match="there is no such file"):
        InvariantRegressor.from_safetensors(tmp_path / "absent.safetensors")
    with pytest.raises(InputError, match="there is no folder"):
        model.to_safetensors(tmp_path / "absent" / "model.safetensors")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda about, arrays: about.update(kind="os.system"), "no estimator is called os.system"),
        (lambda about, arrays: about.pop("network"), "damaged, or from another version"),
        (lambda about, arrays: about["fitted"].pop("n_features_in_"), "damaged, or from another version"),
        (lambda about, arrays: about["network"].update(outputs=2), "2 outputs for 3 classes"),
        (lambda about, arrays: about["network"].update(hidden=[10**12]), "at most 100,000,000 are trained"),
        (lambda about, arrays: about["fitted"].update(n_representation_=10**9), "but the network gives 4 features"),
        (lambda about, arrays: about["network"].update(activation="exec"), 'activation "exec" is unknown'),
        (lambda about, arrays: about["network"].update(precision="float8"), "precision is 'float8'"),
        (lambda about, arrays: about["classes"].update(dtype="V8"), "labels of type V8"),
        (lambda about, arrays: about["classes"].update(values=["x", "y"]), "3 outputs for 2 classes"),
        (lambda about, arrays: about["network"].update(dropout="text"), "could not convert string to float: 'text'"),
        (lambda about, arrays: about["network"].update(dropout={}), "TypeError: float"),
        (lambda about, arrays: about["fitted"].update(n_iter_=float("inf")), "OverflowError: cannot convert float inf"),
        (lambda about, arrays: arrays.pop("centre_"), "KeyError: 'centre_'"),
        (lambda about, arrays: arrays.update(scale_=np.ones(2)), "scale_ has shape"),
        (lambda about, arrays: arrays.pop("weights/head.bias"), "weights do not fit the network"),
    ],
)
def test_forged_files_are_refused(change: Any, words: str, data: Data, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    InvariantClassifier("vrex", hidden=(4,), steps=1).fit(data.X, data.three, env=data.env).to_safetensors(path)
    with safe_open(path, framework="numpy") as file:
        about = json.loads(file.metadata()["estimator"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(about, arrays)
    save_file(arrays, path, metadata={"format": FORMAT, "estimator": json.dumps(about)})
    with pytest.raises(InputError, match=words):
        load_model(path)


def test_a_description_nested_without_end_is_refused(tmp_path: Path) -> None:
    save_file({"a": np.zeros(3)}, tmp_path / "a.safetensors", metadata={"format": FORMAT, "estimator": "[" * 100_000})
    with pytest.raises(
        InputError, match=r"damaged, or from another version \(RecursionError: .*store the fitted model"
    ):
        load_model(tmp_path / "a.safetensors")


def test_what_json_cannot_hold_is_refused_before_a_file_appears(data: Data, tmp_path: Path) -> None:
    model = InvariantRegressor("vrex", steps=1).fit(data.X, data.number, env=data.env)
    model.set_params(options={"weight": 1 + 2j})
    with pytest.raises(InputError, match=r'parameter "options" holds a complex: a .safetensors file keeps only text'):
        model.to_safetensors(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["to_safetensors", "to_onnx"])
def test_model_files_go_through_links_and_what_cannot_be_written_is_told(
    method: str, data: Data, tmp_path: Path
) -> None:
    write = getattr(InvariantRegressor(steps=5).fit(data.X, data.number, env=data.env), method)
    (tmp_path / "link").symlink_to("model")
    assert write(tmp_path / "link") == tmp_path / "link"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "model").stat().st_size > 100
    sentence = "/dev/full cannot be written: No space left on device; choose another place"
    with pytest.raises(InputError, match=rf"^{sentence}$"):
        write("/dev/full")
    with pytest.raises(InputError, match=r"the name is too long; choose a shorter one$"):
        write(tmp_path / ("m" * 300))
