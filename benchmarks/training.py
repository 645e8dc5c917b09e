"""Many small models at once against a loop over them: 20 seeds × 10 penalty weights, V-REx.

    python benchmarks/training.py

Three ways, in the same run: all at once, our own training loop model by model, and a bare PyTorch loop written as
people write them (module, Adam, backward), without schedule, history or batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn

import invariscope as iv
from invariscope.models.torch_networks import Halves, linear, mlp
from invariscope.objectives import VREx
from invariscope.training import Rows, Settings, train, train_replicates

SEEDS, WEIGHTS, STEPS, RATE = range(20), np.geomspace(0.1, 1000, 10), 200, 0.01


def rows() -> Rows:
    """400 rows in each of two environments, 10 columns."""
    data = iv.datasets.linear_sem("FEU", n=400, environments=(0.2, 2.0))
    X, y = (values / values.std(axis=0) for values in (np.asarray(data.X), np.asarray(data.y)))
    return Rows.of(X, y, data.env)


def started(build: Callable[[], Halves], seed: int) -> Halves:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build().double()


def at_once(build: Callable[[], Halves], data: Rows) -> torch.Tensor:
    many = train_replicates(build, data, "vrex", seeds=SEEDS, weights=WEIGHTS, settings=Settings(STEPS, None, RATE))
    return many.parameters["represent.weight" if "represent.weight" in many.parameters else "head.weight"]


def one_by_one(build: Callable[[], Halves], data: Rows) -> torch.Tensor:
    found = []
    for seed in SEEDS:
        for weight in WEIGHTS:
            network = started(build, seed)
            network = train(network, data, VREx(float(weight)), settings=Settings(STEPS, None, RATE), seed=seed).network
            found.append(_last(network))
    return torch.stack(found)


def bare_loop(build: Callable[[], Halves], data: Rows) -> torch.Tensor:
    found = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # faster here: the work of a step is small
    for seed in SEEDS:
        for weight in WEIGHTS:
            network = started(build, seed)
            optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
            for _ in range(STEPS):
                risks = torch.stack(
                    [
                        nn.functional.mse_loss(network(x)[0][:, 0], y)
                        for x, y in zip(data.inputs, data.targets, strict=True)
                    ]
                )
                loss = (risks.mean() + weight * risks.var(correction=0)) / max(1.0, weight)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            found.append(_last(network))
    torch.set_num_threads(threads)
    return torch.stack(found)


def _last(network: Halves) -> torch.Tensor:
    layer = network.head if isinstance(network.head, nn.Linear) else network.represent
    return layer.weight.detach()


def replicates() -> list[tuple[str, float, float, float]]:
    """For every way: seconds, how many times those of all at once, and the largest difference of a parameter."""
    data, lines = rows(), []
    for name, build in {"linear": partial(linear, 10, 1), "10-16-1 network": partial(mlp, 10, 1, (16,))}.items():
        at_once(build, data)  # the first call of vmap compiles nothing, but loads a lot
        base, reference = 0.0, torch.empty(0)
        for way, task in (("all at once", at_once), ("one by one", one_by_one), ("bare PyTorch loop", bare_loop)):
            start = time.perf_counter()
            found = task(build, data)
            seconds = time.perf_counter() - start
            if way == "all at once":
                base, reference = seconds, found
            lines.append((f"{name}: {way}", seconds, seconds / base, float((found - reference).abs().max())))
    return lines


def many_models() -> list[str]:
    """The table, as markdown."""
    return [
        f"200 models (20 seeds × 10 weights), V-REx, {STEPS} steps on 2 × 400 rows of 10 columns, float64",
        "",
        "| way | seconds | ratio | largest difference |",
        "|---|---:|---:|---:|",
        *(f"| {way} | {seconds:.2f} | {ratio:.1f} | {off:.0e} |" for way, seconds, ratio, off in replicates()),
        "",
    ]


if __name__ == "__main__":
    print("\n".join(many_models()))
