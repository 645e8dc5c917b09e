"""Rows and networks that tests of training share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from invariscope.models.torch_networks import Halves, mlp
from invariscope.objectives import REGISTRY
from invariscope.training import Rows


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def every_objective() -> list[Any]:
    """The names of all objectives; those that solve a problem of their own at every step are for slow tests."""
    solving = {"regret", "transport_gap", "wasserstein_matching", "worst_case"}
    return [pytest.param(name, marks=[pytest.mark.slow] * (name in solving)) for name in sorted(REGISTRY)]


def made_rows(seed: int, task: str = "regression", sizes: tuple[int, ...] = (30, 40), columns: int = 3) -> Rows:
    """Two environments in which the second column predicts the target differently."""
    rng = np.random.default_rng(seed)
    inputs, targets, labels = [], [], []
    for place, size in enumerate(sizes):
        X = rng.normal(size=(size, columns))
        score = X[:, 0] + (1 - 2 * place) * X[:, 1] + 0.3 * rng.normal(size=size)
        y = score if task == "regression" else (score > 0).astype(int)
        if task == "multiclass":
            y = np.digitize(score, [-0.5, 0.5])
        inputs.append(X)
        targets.append(y)
        labels.append(np.full(size, f"site {place}"))
    return Rows.of(np.concatenate(inputs), np.concatenate(targets), np.concatenate(labels), task=task)


def built(seed: int, inputs: int = 3, outputs: int = 1, hidden: tuple[int, ...] = (6,), dropout: float = 0.0) -> Halves:
    """A network as ``train_replicates`` would start it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return mlp(inputs, outputs, hidden, activation="tanh", dropout=dropout)


def assert_same(first: Halves, second: Halves) -> None:
    """The same parameters, bit for bit."""
    for (name, one), (_, other) in zip(first.state_dict().items(), second.state_dict().items(), strict=True):
        assert torch.equal(one, other), name
