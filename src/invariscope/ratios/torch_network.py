"""The network of the DRIC paper's Table 8 in PyTorch, with the methods of a scikit-learn classifier."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

HIDDEN, DROPOUT = 256, 0.5
HELD_OUT, PATIENCE, MAX_EPOCHS, BATCH = 0.1, 5, 100, 256


class TorchNetwork(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear(256), ReLU, Dropout(½), Linear(256), ReLU, Dropout(½), Linear: trained by Adam, stopped early."""

    def __init__(self, seed: int = 0, one_output: bool = False) -> None:
        self.seed = seed
        self.one_output = one_output  # of two classes: log p / (1 − p), as in the table, instead of a score for each

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TorchNetwork:
        """Train until a tenth of the rows, held out, has not gained for a few epochs; keep the best."""
        import torch

        rng = np.random.default_rng(self.seed)
        self.classes_, codes = np.unique(y, return_inverse=True)
        rows = torch.as_tensor(np.asarray(X), dtype=torch.float32)
        labels = torch.as_tensor(codes)
        counts = torch.as_tensor(np.ones(len(codes)) if sample_weight is None else sample_weight, dtype=torch.float32)
        order = rng.permutation(len(codes))
        out, seen = np.split(order, [max(1, int(HELD_OUT * len(order)))])
        with torch.random.fork_rng(), _one_thread():
            torch.manual_seed(self.seed)
            network = _network(rows.shape[1], 1 if self._is_single() else len(self.classes_))
            optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
            best, waited, best_state = np.inf, 0, copy.deepcopy(network.state_dict())
            for _ in range(MAX_EPOCHS):
                network.train()
                for batch in np.array_split(rng.permutation(seen), max(1, len(seen) // BATCH)):
                    optimiser.zero_grad()
                    _loss(network, rows[batch], labels[batch], counts[batch]).backward()
                    optimiser.step()
                network.eval()
                with torch.no_grad():
                    loss = float(_loss(network, rows[out], labels[out], counts[out]))
                waited = 0 if loss < best else waited + 1
                if loss < best:
                    best, best_state = loss, copy.deepcopy(network.state_dict())
                if waited >= PATIENCE:
                    break
        network.load_state_dict(best_state)
        self.network_ = network.eval()
        return self

    def predict_proba(self, X: Any) -> Any:
        """p(class | x), (n, K)."""
        import torch

        with torch.no_grad():
            scores = self.network_(torch.as_tensor(np.asarray(X), dtype=torch.float32)).double()
            return torch.softmax(_both(scores), dim=1).numpy()

    def _is_single(self) -> bool:
        return self.one_output and len(self.classes_) == 2


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches are small: threads would mostly wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _network(inputs: int, outputs: int) -> Any:
    import torch

    layers = [torch.nn.Linear(inputs, HIDDEN), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)]
    layers += [torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(HIDDEN, outputs))


def _both(scores: Any) -> Any:
    """Scores of both classes, where the network gives one of the second against the first."""
    import torch

    return scores if scores.shape[1] > 1 else torch.cat([torch.zeros_like(scores), scores], dim=1)


def _loss(network: Any, rows: Any, labels: Any, counts: Any) -> Any:
    import torch

    each = torch.nn.functional.cross_entropy(_both(network(rows)), labels, reduction="none")
    return (counts * each).sum() / counts.sum()
