"""Small networks that several tests look into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

N, D, HIDDEN = 23, 3, 5  # rows, columns, features of the last hidden layer


def body() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D, 7), nn.Tanh(), nn.Linear(7, HIDDEN), nn.Tanh())


class Branches(nn.Module):
    """Names of its own, and a forward that is no chain."""

    def __init__(self, outputs: int = 3, link: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(D, HIDDEN), nn.Linear(D, HIDDEN)
        self.dropout, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(HIDDEN)
        self.fc = nn.Linear(HIDDEN, outputs)
        self.link = link

    def features(self, x: Tensor) -> Tensor:
        return self.dropout(self.norm(torch.relu(self.first(x)) * torch.tanh(self.second(x))))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.fc(self.features(x))
        return scores if self.link is None else self.link(scores)


def three(*behind: nn.Module) -> nn.Sequential:
    return nn.Sequential(*body(), nn.Linear(HIDDEN, 3), *behind)


class Backwards(Branches):
    """The last layer is defined before another one."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.extra(x))


class Algorithm(nn.Module):
    """As in DomainBed: no forward, but a method that predicts."""

    def __init__(self, classifier: nn.Module | None = None) -> None:
        super().__init__()
        self.featurizer, self.classifier = body(), classifier or nn.Linear(HIDDEN, 3)
        self.network = nn.Sequential(self.featurizer, self.classifier)

    def predict(self, x: Tensor) -> Any:
        return self.network(x)


class Wrapper(nn.Module):
    """Holds a network and does not say how to use it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(body(), nn.Linear(HIDDEN, 3))


class Scaled(nn.Module):
    """Two halves, and something done to the rows before."""

    def __init__(self) -> None:
        super().__init__()
        self.represent, self.head = body(), nn.Linear(HIDDEN, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.represent(2 * x - 1))
