"""What columns are divided by: each by its own spread, all by one, or, for images, a number per channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import invariscope as iv
from invariscope.errors import InputError


def images(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(80, 2, 4, 4)) * np.array([1.0, 50.0])[:, None, None]
    X[:, :, 0] = 0.0
    return X, (X[:, 0, 2, 2] > 0.5).astype(int)


def convolutions(inputs: int, outputs: int) -> nn.Sequential:
    layers = nn.Sequential(nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten())
    return nn.Sequential(layers, nn.Linear(12, outputs))


def test_a_network_with_convolutions_has_a_number_per_channel(seed: int) -> None:
    X, y = images(seed)
    model = iv.InvariantClassifier("erm", network=convolutions, steps=3).fit(X.reshape(80, -1), y)
    for channel in (0, 1):
        part = slice(16 * channel, 16 * channel + 16)
        np.testing.assert_allclose(model.scale_[part], X[:, channel].std(), rtol=1e-12)
        np.testing.assert_allclose(model.centre_[part], X[:, channel].mean(), rtol=1e-12)
    space = model.split().input_space
    assert space is not None
    assert "pixels of a channel share one" in space.units


def test_together_is_one_number_for_all(seed: int, tmp_path: Path) -> None:
    X, y = images(seed)
    flat = X.reshape(80, -1)
    model = iv.InvariantClassifier("erm", hidden=(4,), standardise="together", steps=3).fit(flat, y)
    np.testing.assert_allclose(model.scale_, flat.std(), rtol=1e-12)
    np.testing.assert_allclose(model.centre_, flat.mean(), rtol=1e-12)
    again = iv.InvariantClassifier.from_safetensors(model.to_safetensors(tmp_path / "model.safetensors"))
    assert again.standardise == "together"
    np.testing.assert_array_equal(again.predict_proba(flat), model.predict_proba(flat))
    with pytest.warns(ConvergenceWarning, match="No column varies"):
        black = iv.InvariantClassifier("erm", hidden=(4,), standardise="together", steps=1).fit(0 * flat + 0.1, y)
    assert set(black.scale_.tolist()) == {1.0}


def test_a_table_has_a_number_per_column(seed: int) -> None:
    X, y = images(seed)
    flat = X.reshape(80, -1)
    for settings in ({"hidden": (4,)}, {"network": lambda d, k: nn.Sequential(nn.Linear(d, 4), nn.Linear(4, k))}):
        model = iv.InvariantClassifier("erm", steps=2, **settings).fit(flat, y)  # type: ignore[arg-type]
        np.testing.assert_allclose(model.scale_, np.where(flat.std(axis=0) > 0, flat.std(axis=0), 1.0), rtol=1e-12)
    raw = iv.InvariantClassifier("erm", hidden=(4,), standardise=False, steps=2).fit(flat, y)
    assert set(raw.scale_.tolist()) == {1.0}
    space = raw.split().input_space
    assert space is not None
    assert space.units == "the columns' own units"


@pytest.mark.parametrize("given", ["apart", "", 2, None])
def test_other_words_are_refused(given: Any, seed: int) -> None:
    X, y = images(seed)
    with pytest.raises(InputError, match="standardise is"):
        iv.InvariantClassifier("erm", hidden=(4,), standardise=given, steps=1).fit(X.reshape(80, -1), y)
