"""Every objective there is trains through both estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from invariscope.estimators import InvariantClassifier, InvariantRegressor
from invariscope.objectives import REGISTRY


@pytest.mark.parametrize("target", ["number", pytest.param("binary", marks=pytest.mark.slow), "three"])
@pytest.mark.parametrize("hidden", [(), (4,)], ids=["linear", "network"])
@pytest.mark.parametrize("objective", sorted(REGISTRY))
def test_an_objective_trains_linear_models_and_networks(
    objective: str, hidden: tuple[int, ...], target: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    number = X[:, 0] + 0.5 * rng.normal(size=90)
    places = np.argsort(np.argsort(number))
    y = {"number": number, "binary": places < 45, "three": places // 30}[target]
    kind: Any = InvariantRegressor if target == "number" else InvariantClassifier
    model = kind(objective, hidden=hidden, steps=4, random_state=seed).fit(X, y, env=env)
    with pytest.warns(ConvergenceWarning, match="Training hardly moved: in 1 step the loss went from"):
        start = kind(objective, hidden=hidden, steps=1, learning_rate=1e-12, random_state=seed).fit(X, y, env=env)
    said = model.predict(X) if target == "number" else model.predict_proba(X)
    assert np.isfinite(said).all()
    assert np.isfinite(model.history_["loss"]).all()
    assert model.objective_ == objective
    assert any(not np.allclose(model.weights_[name], start.weights_[name]) for name in model.weights_)
