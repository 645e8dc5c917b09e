"""Random batches, adversaries and memories for laws over all objectives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from invariscope.models.torch_heads import FeatureHead, feature_head
from invariscope.objectives import REGISTRY, Batch, Objective

TASKS = ("regression", "binary", "multiclass")
OUTPUTS = {"regression": 1, "binary": 1, "multiclass": 3}
SIZES = (6, 9, 7)  # all different; every class occurs in each
WIDTH = 3

# Hyper-parameters with which the laws below hold, where they do not by default:
# two halves of the rows depend on their order; a correction for noise carries no gradient, and is below 0 on its own
LAWFUL: dict[str, dict[str, Any]] = {
    "irm": {"form": "square"},
    "ib_irm": {"form": "square"},
    "transport_gap": {"debias": False},
}


def targets_of(task: str, rows: int, generator: torch.Generator) -> Tensor:
    if task == "regression":
        return torch.randn(rows, generator=generator, dtype=torch.float64)
    codes = torch.arange(rows) % (2 if task == "binary" else 3)
    codes = codes[torch.randperm(rows, generator=generator)]
    return codes.double() if task == "binary" else torch.nn.functional.one_hot(codes, 3).double()


def head_of(task: str) -> FeatureHead:
    """The same linear head for every batch of a task."""
    generator = torch.Generator().manual_seed(7)
    head = torch.nn.Linear(WIDTH, OUTPUTS[task], dtype=torch.float64)
    shapes = {name: value.shape for name, value in head.named_parameters()}
    fixed = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    return feature_head(head, torch.zeros(1, WIDTH, dtype=torch.float64), fixed)


def batch_of(name: str, task: str, seed: int, sizes: tuple[int, ...] = SIZES) -> Batch:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return Batch(
        logits=tuple(normal(rows, OUTPUTS[task]) for rows in sizes),
        targets=tuple(targets_of(task, rows, generator) for rows in sizes),
        features=tuple(normal(rows, WIDTH) + 0.5 * place for place, rows in enumerate(sizes)),
        task=task,
        log_densities=tuple(normal(rows, len(sizes)) for rows in sizes) if REGISTRY[name]().ratio_on else None,
        head=head_of(task),
    )


def adversary_of(name: str, task: str, seed: int, environments: int = len(SIZES)) -> dict[str, Tensor]:
    """Parameters as they are at the start, moved a little so that none of them is 0."""
    generator = torch.Generator().manual_seed(seed + 1)
    start = REGISTRY[name]().adversary(WIDTH, environments, OUTPUTS[task], generator)
    return {
        key: value.double() + 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for key, value in start.items()
    }


def lawful(name: str) -> Objective:
    return REGISTRY[name](**LAWFUL.get(name, {}))


def memory_of(objective: Objective, batch: Batch) -> dict[str, Tensor]:
    start = {key: value.double() for key, value in objective.memory(len(batch.logits)).items()}
    return objective.remember(batch, start)


def parts(objective: Objective, batch: Batch, seed: int) -> dict[str, Tensor]:
    adversary = adversary_of(objective.name, batch.task, seed, len(batch.logits))
    return {
        "risk": objective.risk(batch, memory_of(objective, batch)),
        "penalty": objective.penalty(batch, adversary),
    }
