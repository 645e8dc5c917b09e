"""Figures 2 and 3 of the influence paper on real digits: V and how far domains differ, V and OOD accuracy.

python examples/influence_and_ood_accuracy.py                       both figures, about ten minutes
python examples/influence_and_ood_accuracy.py --figure 3 --chart figure3.svg

Colored MNIST at 14 × 14 pixels, two channels, as in the code of Arjovsky et al. (2019): the label is digit < 4, wrong
in 25 % of rows, the colour disagrees with it at rate p. `invariscope datasets fetch colored_mnist` brings the images.
Every model is a network of two hidden layers; those of one figure, setting and seed are trained as one program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import invariscope as iv
from invariscope.models.torch_networks import mlp
from invariscope.training import Rows, Schedule, Settings
from invariscope.training.replicates import Replicates, train_replicates

Array = np.ndarray
ORACLE = 0.75  # accuracy of the shape alone, in every domain
WEIGHTS = (0.0, 50.0, 100.0, 500.0, 1000.0)
SETTINGS = {"two domains": (0.0, 0.1), "five domains": (0.1, 0.15, 0.2, 0.25, 0.3)}
PAPER = {
    ("two domains", "vrex"): -0.9745,
    ("five domains", "vrex"): -0.9761,
    ("two domains", "irm"): -0.8417,
    ("five domains", "irm"): -0.9476,
}


@dataclass(frozen=True)
class Size:
    """How much is trained: rows of all domains together, hidden units, models per weight, steps before and after."""

    rows: int = 10_000
    hidden: int = 128
    models: int = 4
    before: int = 190
    after: int = 300
    batch: int = 1_000


@dataclass(frozen=True)
class Digits:
    """Rows to train on and rows held out of the same domains; and of the worst ones, p = 0 and p = 1."""

    seen: tuple[Array, Array, Array]
    held_out: tuple[Array, Array, Array]
    worst: tuple[Array, Array, Array]


def digits(rates: Sequence[float], rows: int, seed: int, images: str = "mnist") -> Digits:
    """``rows`` to train on in all, half as many held out of the same domains, and as many of p = 0 and of p = 1.

    Accuracy is linear in p for any model, so its worst is at one of the two ends.
    """
    each, small = rows // len(rates), images == "digits"
    made = (
        iv.datasets.colored_digits([*rates, 0.0, 1.0], n=each, n_test=each // 2, seed=seed)
        if small
        else iv.datasets.colored_mnist([*rates, 0.0, 1.0], n=each, n_test=each // 2, downsample=2, seed=seed)
    )
    labels = list(dict.fromkeys(np.asarray(made.env).tolist()))
    ends = labels[len(rates) :]

    def part(data: Any, wanted: Sequence[str]) -> tuple[Array, Array, Array]:
        there = np.isin(np.asarray(data.env), wanted)
        return np.asarray(data.X)[there], np.asarray(data.y)[there], np.asarray(data.env)[there]

    worst = [np.concatenate(pair) for pair in zip(part(made, ends), part(made.test, ends), strict=True)]
    return Digits(part(made, labels[: len(rates)]), part(made.test, labels[: len(rates)]), tuple(worst))


def trained(data: Digits, objective: str, weights: Sequence[float], size: Size, seed: int) -> Replicates:
    """All models of one experiment: λ = 1 first, then the penalty; each stops where its held-out rows say."""
    rows, held_out = (Rows.of(*part, task="binary", dtype=torch.float32) for part in (data.seen, data.held_out))
    settings = Settings(
        steps=size.before + size.after,
        batch_size=size.batch // len(rows.labels),
        learning_rate=1e-3,
        weight_decay=1e-3,
        schedule=Schedule(wait=size.before, before=1.0),
        check_every=10,
        patience=100,
    )
    seeds = range(100 * seed, 100 * seed + size.models)
    inputs = data.seen[0].shape[1]
    return train_replicates(
        lambda: mlp(inputs, 1, (size.hidden, size.hidden)),
        rows,
        objective,
        seeds=seeds,
        weights=weights,
        settings=settings,
        held_out=held_out,
    )


@dataclass(frozen=True)
class Model:
    """One trained model: what it was trained with, its accuracies, and V on the rows it was trained on."""

    weight: float
    seen: float
    ood: float
    values: dict[str, float]
    shuffled: float


def judged(many: Replicates, data: Digits, objective: str, n_boot: int) -> list[Model]:
    X, y, env = data.seen
    _, features = many(X)
    seen = accuracies(many, data.held_out)
    worst = accuracies(many, data.worst)
    found = []
    for k, weight in enumerate(many.weights):
        head = many.network(k).head
        Z = features[k].double().numpy()
        linear = iv.LinearHead(head.weight.detach().double().numpy(), head.bias.detach().double().numpy())
        plain = iv.influence_index(Z, y, env, head=linear, n_boot=n_boot)
        values = {"risks": plain.value}
        if weight > 0:
            values["with penalty"] = iv.influence_index(
                Z, y, env, head=linear, penalty=objective, penalty_weight=float(weight), n_boot=0
            ).value
        else:
            values["with penalty"] = plain.value
        scale = Z.std(axis=0)
        scale[scale == 0] = 1.0
        standard = iv.LinearHead(linear.weight * scale, linear.bias + linear.weight @ Z.mean(axis=0))
        values["units of spread"] = iv.influence_index(
            (Z - Z.mean(axis=0)) / scale, y, env, head=standard, n_boot=0
        ).value
        shuffled = float(plain.null.mean()) if len(plain.null) else np.nan
        found.append(Model(float(weight), float(seen[k].mean()), float(worst[k].min()), values, shuffled))
    return found


def accuracies(many: Replicates, rows: tuple[Array, Array, Array]) -> Array:
    """Accuracy of every model in every domain, (models, domains)."""
    X, y, env = rows
    logits, _ = many(X)
    right = (logits[..., 0].numpy() > 0) == (y == 1)
    return np.stack([right[:, env == label].mean(axis=1) for label in np.unique(env)], axis=1)
