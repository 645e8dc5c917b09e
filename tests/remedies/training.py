"""Refusals of training: rows, settings, checkpoints, trainings that diverged, many models at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

import invariscope as iv
from invariscope.models.torch_networks import linear, mlp
from invariscope.training import Rows, Schedule, Settings, train, train_replicates
from tests.remedies.case import Case

ROOM = "training"
X = np.random.default_rng(0).normal(size=(24, 2))
Y = X[:, 0] + 0.1 * X[:, 1]
ENV = np.repeat(["a", "b"], 12)
ROWS = Rows.of(X, Y, ENV)
TRAINED_ON, HELD_OUT = ROWS.halved(0.5, 0)
FLAGS = Rows.of(X, Y > 0, ENV)
TWO = Settings(steps=2)


def fit(objective: Any = "vrex", env: Any = ENV, rows: int = 24, **settings: Any) -> Any:
    """A regressor of the first rows, or of as many as there are labels."""
    rows = min(rows, len(env))
    model = iv.InvariantRegressor(objective, **{"steps": 2, **settings})
    return model.fit(X[:rows], Y[:rows], env=env[:rows])


def few_of(rows: int) -> Any:
    """Labels of twelve rows of one environment, and of so many of another."""
    return ["a"] * 12 + ["b"] * rows


def trained(rows: Rows = TRAINED_ON, objective: Any = "vrex", outputs: int = 1, **options: Any) -> Any:
    return train(linear(2, outputs), rows, objective, **{"settings": TWO, **options})


def stored_every(steps: int) -> Any:
    return trained(checkpoint="stored", checkpoint_every=steps)


def stopped_by(held_out: Rows | None) -> Any:
    return trained(held_out=held_out)


def grouped(X: Any = X, y: Any = Y, env: Any = ENV) -> Any:
    return Rows.of(X, y, env)


def many(rows: Any = ROWS, objective: Any = "vrex", build: Any = lambda: linear(2, 1), **options: Any) -> Any:
    return train_replicates(build, rows, objective, **{"seeds": (0, 1), "settings": TWO, **options})


def with_layer(*layers: nn.Module) -> Any:
    return many(build=lambda: nn.Sequential(nn.Linear(2, 4), *layers, nn.Linear(4, 1)))


def gone_on(file: str, steps: int = 2, seed: int = 0) -> Any:
    """A training of four steps that is stored, and one that finds a file of this name."""
    fit(steps=4, checkpoint="stored")
    return fit(steps=steps, random_state=seed, checkpoint=file)


def deleted_first() -> Any:
    fit(steps=4, checkpoint="stored")
    Path("stored").unlink()
    return fit(random_state=1, checkpoint="stored")


def beside_a_model(checkpoint: str) -> Any:
    fit().to_safetensors("model")
    return fit(checkpoint=checkpoint)


CASES = [
    # --- rows ---
    Case("give one target per row", lambda: grouped(y=Y[:20]), lambda: grouped(y=Y)),
    Case("give one per row", lambda: grouped(env=ENV[:20]), lambda: grouped(env=ENV)),
    Case("give at least two", lambda: grouped(X[:0], Y[:0], None), lambda: grouped(X[:2], Y[:2], None)),
    Case(
        "X has missing or infinite values: fill them in",
        lambda: grouped(np.where(X > 1, np.nan, X)),
        lambda: grouped(np.where(X > 1, 1.0, X)),
    ),
    Case(
        "y has missing or infinite values: fill them in or drop those rows",
        lambda: grouped(y=np.where(Y > 1, np.inf, Y)),
        lambda: grouped(X[Y <= 1], Y[Y <= 1], ENV[Y <= 1]),
    ),
    Case(
        'environment "b" has 1 row(s), too few to hold a share of 0.2 out: give more rows',
        lambda: fit(env=few_of(1), held_out=0.2),
        lambda: fit(env=few_of(10), held_out=0.2),
    ),
    Case(
        'environment "b" has 2 row(s), too few to hold a share of 0.9 out: give more rows, or hold none out',
        lambda: fit(env=few_of(2), held_out=0.9),
        lambda: fit(env=few_of(2), held_out=0.0),
    ),
    Case(
        'environment "b" has a single held-out row: give more rows',
        lambda: fit(env=few_of(6), held_out=0.2),
        lambda: fit(env=few_of(10), held_out=0.2),
    ),
    Case(
        "or hold out a larger share",
        lambda: fit(env=few_of(6), held_out=0.2),
        lambda: fit(env=few_of(6), held_out=0.4),
    ),
    Case("larger share or none", lambda: fit(env=few_of(3), held_out=0.2), lambda: fit(env=few_of(3))),
    Case('environment "b" has 1 row: give at least 2', lambda: fit(env=few_of(1)), lambda: fit(env=few_of(2))),
    Case("or drop it", lambda: fit(env=[*ENV[:23], "c"]), lambda: fit(env=ENV[:23])),
    Case("take both from rows.halved", lambda: stopped_by(FLAGS), lambda: stopped_by(HELD_OUT)),
    Case(
        "not from new: take both from rows.halved",
        lambda: stopped_by(grouped(env=["new"] * 24)),
        lambda: stopped_by(HELD_OUT),
    ),
    Case(
        "give env with at least two labels",
        lambda: fit(env=["a"] * 24),
        lambda: fit(env=ENV),
    ),
    Case('or use objective="erm"', lambda: fit(env=["a"] * 24), lambda: fit("erm", env=["a"] * 24)),
    # --- settings ---
    Case("give Rows.of(X, y, env)", lambda: trained(X), lambda: trained(Rows.of(X, Y, ENV))),
    Case("give Settings(steps=...)", lambda: trained(settings=2), lambda: trained(settings=Settings(steps=2))),
    Case(
        "give Schedule(wait=..., ramp=...)",
        lambda: Settings(schedule=2),  # type: ignore[arg-type]
        lambda: Settings(schedule=Schedule(wait=2, ramp=2)),
    ),
    Case('use "adam" or "sgd"', lambda: Settings(optimiser="lion"), lambda: Settings(optimiser="sgd")),
    Case("train longer", lambda: fit(held_out=0.5, ramp=4), lambda: fit(held_out=0.5, ramp=4, steps=4)),
    Case("or shorten the schedule", lambda: fit(held_out=0.5, ramp=4), lambda: fit(held_out=0.5, ramp=2)),
    Case("checkpoint_every is 0: give", lambda: stored_every(0), lambda: stored_every(1)),
    Case("momentum is -1: give a number of at least 0", lambda: Settings(momentum=-1), lambda: Settings(momentum=0)),
    Case(
        "the penalty's weight is -1.0: give a number of at least 0",
        lambda: fit(penalty=-1.0),
        lambda: fit(penalty=0.0),
    ),
    Case("give a whole number of at least 0", lambda: trained(seed=-1), lambda: trained(seed=0)),
    Case(
        "but the target needs 1: give its last layer as many",
        lambda: trained(outputs=2),
        lambda: trained(outputs=1),
    ),
    # --- checkpoints ---
    Case("give the name of a file", lambda: fit(checkpoint=3), lambda: fit(checkpoint="stored")),
    Case("choose another file", lambda: beside_a_model("model"), lambda: beside_a_model("stored")),
    Case("delete it", lambda: gone_on("stored", seed=1), deleted_first),
    Case("or choose another file", lambda: gone_on("stored", seed=1), lambda: gone_on("other", seed=1)),
    Case("ask for at least as many", lambda: gone_on("stored", steps=2), lambda: gone_on("stored", steps=4)),
    Case("or choose another file", lambda: gone_on("stored", steps=2), lambda: gone_on("other", steps=2)),
    # --- trainings that diverged ---
    Case(
        "training diverged at step 10: lower the learning rate (1e+200 now), to 0.01 say",
        lambda: fit(steps=10, learning_rate=1e200),
        lambda: fit(steps=10, learning_rate=0.01),
    ),
    Case(
        "for the best constant: lower the learning rate (1e+30 now), to 0.01 say",
        lambda: fit(learning_rate=1e30),
        lambda: fit(learning_rate=0.01),
    ),
    Case(
        "rows held out was never a number: lower the learning rate (1e+200 now), to 0.01 say",
        lambda: fit(steps=1, learning_rate=1e200, held_out=0.5),
        lambda: fit(steps=1, learning_rate=0.01, held_out=0.5),
    ),
    # --- many models at once ---
    Case("give rows that all models share", lambda: many([ROWS, ROWS], "dric"), lambda: many(ROWS, "dric")),
    Case("seeds is 2: give a list, such as range(20)", lambda: many(seeds=2), lambda: many(seeds=range(2))),
    Case("weights is 10: give a list", lambda: many(weights=10), lambda: many(weights=(1, 10, 100))),
    Case("weights is (): give a list", lambda: many(weights=()), lambda: many(weights=(1, 10, 100))),
    Case("give a number of at least 0", lambda: many(weights=(-1, 1)), lambda: many(weights=(0, 1))),
    Case("lambda: mlp(10, 1, (16,))", lambda: many(build=mlp(2, 1)), lambda: many(build=lambda: mlp(2, 1))),
    Case("use GroupNorm", lambda: with_layer(nn.BatchNorm1d(4)), lambda: with_layer(nn.GroupNorm(2, 4))),
    Case("or LayerNorm instead", lambda: with_layer(nn.BatchNorm1d(4)), lambda: with_layer(nn.LayerNorm(4))),
    Case(
        "use models.torch_networks.mlp(dropout=...)",
        lambda: with_layer(nn.Dropout(0.5)),
        lambda: many(build=lambda: mlp(2, 1, (4,), dropout=0.5)),
    ),
    Case("give one per seed", lambda: many([ROWS]), lambda: many([ROWS, ROWS])),
    Case("draw the same of each", lambda: many([ROWS, FLAGS]), lambda: many([ROWS, grouped(X, -Y)])),
]
