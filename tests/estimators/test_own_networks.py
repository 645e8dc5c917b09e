"""Networks of the user's own, and their precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from invariscope.estimators import InvariantRegressor
from invariscope.models.torch_networks import Halves


class Data:
    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(200, 3))
        self.env = np.repeat(["north", "south"], [120, 80])
        self.y = self.X @ [1.0, -2.0, 0.5] + rng.normal(size=200)


@pytest.fixture
def data(seed: int) -> Data:
    return Data(seed)


def two_halves(inputs: int, outputs: int, width: int = 6) -> Halves:
    return Halves(nn.Sequential(nn.Linear(inputs, width), nn.Tanh()), nn.Linear(width, outputs))


def test_own_networks_are_modules_pairs_or_functions(data: Data) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = two_halves(3, 1)
    start = {name: value.clone() for name, value in module.state_dict().items()}
    settings: dict[str, Any] = {"objective": "vrex", "steps": 20}
    sequence = nn.Sequential(*module.represent.children(), module.head)
    given = [module, (module.represent, module.head), sequence]
    models = [InvariantRegressor(network=one, **settings).fit(data.X, data.y, env=data.env) for one in given]
    for model in models:
        np.testing.assert_array_equal(model.predict(data.X), models[0].predict(data.X))
    assert all(torch.equal(value, start[name]) for name, value in module.state_dict().items())  # left as it was
    made = InvariantRegressor(network=partial(two_halves, width=4), **settings).fit(data.X, data.y, env=data.env)
    assert made.represent(data.X).shape == (200, 4)
    other = InvariantRegressor(network=partial(two_halves, width=4), random_state=1, **settings)
    assert not np.allclose(other.fit(data.X, data.y, env=data.env).predict(data.X), made.predict(data.X))


def test_batch_normalisation_predicts_row_by_row(data: Data) -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 1))
    model = InvariantRegressor("vrex", network=network, steps=20).fit(data.X, data.y, env=data.env)
    assert {"represent.1.running_mean", "represent.1.num_batches_tracked"} <= set(model.weights_)
    assert model.weights_["represent.1.num_batches_tracked"] == 20
    np.testing.assert_allclose(model.predict(data.X[:1]), model.predict(data.X)[:1], atol=1e-12)


def test_single_precision_is_close_to_double(data: Data) -> None:
    models = [
        InvariantRegressor("vrex", hidden=(4,), steps=20, precision=precision).fit(data.X, data.y, env=data.env)
        for precision in ("float64", "float32")
    ]
    assert {value.dtype for value in models[1].weights_.values()} == {np.dtype(np.float32)}
    assert models[1].represent(data.X).dtype == np.float32
    np.testing.assert_allclose(models[1].predict(data.X), models[0].predict(data.X), atol=1e-4)
