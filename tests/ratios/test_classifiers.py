"""Ratios by classifiers: over-confidence is taken back, unseen environments survive, the network of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

import invariscope as iv
from invariscope.ratios.classifiers import FOLDS, SMALLEST, _calibrated


class Exaggerates(ClassifierMixin, BaseEstimator):
    """Knows the true log odds x − ½ of N(1, 1) against N(0, 1), but multiplies them and prefers the first."""

    def __init__(self, factor: float = 3.0, preference: float = 1.0) -> None:
        self.factor, self.preference = factor, preference

    def fit(self, X: np.ndarray, y: np.ndarray) -> Exaggerates:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        x = X[:, 0] * CALIBRATION_SPREAD + 0.5
        second = 1 / (1 + np.exp(-self.factor * (x - 0.5) + self.preference))
        return np.column_stack([1 - second, second])


CALIBRATION_SPREAD = np.sqrt(1.25)  # of the two environments together: what columns are divided by


def shifted(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n, 1)), 1 + rng.normal(size=(n, 1))]), np.repeat([0, 1], n)


def test_overconfidence_and_preference_are_taken_back(seed: int) -> None:
    X, code = shifted(5000, seed)
    ratio = iv.density_ratio(X, code, ratio=Exaggerates())
    assert ratio._fit.temperature == pytest.approx(1 / 3, rel=0.1)
    grid = np.linspace(-1, 2, 20)[:, None]
    np.testing.assert_allclose(ratio.log(grid, 1, 0), grid[:, 0] - 0.5, atol=0.2)
    assert np.all(ratio.overlap.calibration < 0.03)


def test_calibration_is_the_minimum_of_the_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, 300)
    logs = np.log(rng.dirichlet(np.ones(3), 300)) + 0.8 * np.eye(3)[codes]
    weight = rng.uniform(0.5, 2.0, 300)

    def loss(temperature: float, bias: np.ndarray) -> float:
        scores = temperature * logs + bias
        return float(weight @ (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(300), codes]))

    temperature, bias = _calibrated(logs, codes, weight)
    least = loss(temperature, bias)
    for step in (-0.01, 0.01):
        assert loss(temperature + step, bias) > least
        for e in range(3):
            assert loss(temperature, bias + step * np.eye(3)[e]) > least


def test_a_classifier_that_remembers_rows_is_judged_on_others(seed: int) -> None:
    """A full tree is always right about rows it saw; alike environments must still have ratio one."""
    X, code = np.random.default_rng(seed).normal(size=(900, 2)), np.repeat([0, 1], 450)
    ratio = iv.density_ratio(X, code, ratio=DecisionTreeClassifier(random_state=0))
    assert np.abs(ratio.at_rows[:, 0] - ratio.at_rows[:, 1]).mean() < 0.3
    assert abs(np.mean(ratio.at_rows[code == 0, 0] - ratio.at_rows[code == 0, 1])) < 0.15


def test_an_environment_missing_from_a_fold_is_not_fatal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, code = rng.normal(size=(102, 2)), np.repeat([0, 1, 2], [50, 50, 2])
    ratio = iv.density_ratio(X, code, ratio=DecisionTreeClassifier(max_depth=2, random_state=0))
    assert np.isfinite(ratio.at_rows).all()
    assert SMALLEST > 0


def test_weights_are_passed_on(seed: int) -> None:
    X, code = shifted(300, seed)
    counts = np.where((code == 1) & (X[:, 0] > 1), 5.0, 1.0)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    plain, weighted = (
        iv.density_ratio(X, code, ratio=tree),
        iv.density_ratio(X, code, ratio=tree, weight=counts),
    )
    # the rows above 1 are counted five times: below 1, the second environment has a third of its share left
    assert weighted.log([[0.5]], 1, 0)[0] < plain.log([[0.5]], 1, 0)[0] - 0.5
    assert len(plain._fit.models) == FOLDS


@pytest.mark.slow  # seven fits of the network, whose quick tests are those of scikit-learn's
def test_the_network_of_the_paper_in_torch(seed: int) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from invariscope.ratios.torch_network import TorchNetwork

    X, code = shifted(1500, seed)
    network = TorchNetwork(seed=1).fit(X, code)
    shapes = [tuple(parameter.shape) for parameter in network.network_.parameters()]
    assert shapes == [(256, 1), (256,), (256, 256), (256,), (2, 256), (2,)]
    assert [type(layer).__name__ for layer in network.network_][1:3] == ["ReLU", "Dropout"]
    again = TorchNetwork(seed=1).fit(X, code)
    np.testing.assert_array_equal(network.predict_proba(X), again.predict_proba(X))
    grid = np.linspace(-1, 2, 20)[:, None]
    ratio = iv.density_ratio(X, code, ratio="mlp")
    assert "TorchNetwork" in ratio.description
    assert np.abs(ratio.log(grid, 1, 0) - (grid[:, 0] - 0.5)).mean() < 0.2


def test_the_network_waits_five_epochs_and_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from invariscope.ratios import torch_network

    held_out = iter([0.9, 0.5, 0.7, 0.4, 0.4, 0.6, 0.5, 0.8, 0.45, 0.1])  # the fourth is the lowest for five epochs
    after_epochs = []
    loss_of = torch_network._loss

    def scripted(network, rows, labels, counts):  # type: ignore[no-untyped-def]
        if torch.is_grad_enabled():
            return loss_of(network, rows, labels, counts)
        assert not network.training
        after_epochs.append(network[-1].weight.clone())
        return torch.tensor(next(held_out))

    monkeypatch.setattr(torch_network, "_loss", scripted)
    code = np.repeat([0, 1], 10)
    fitted = torch_network.TorchNetwork(seed=1).fit(np.c_[code + 0.5 * np.arange(20) % 1], code)
    assert len(after_epochs) == 9
    kept = [bool(torch.equal(fitted.network_[-1].weight, weight)) for weight in after_epochs]
    assert kept == [False, False, False, True, False, False, False, False, False]
