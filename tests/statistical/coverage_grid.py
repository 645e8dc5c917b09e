"""How biased is the regret, how often do its intervals cover, how often does its test reject? Worlds with a known answer.

``python -m tests.statistical.coverage_grid`` prints a markdown table; ``--runs`` sets the replications, ``--out`` a file
to write the page of documentation to. The tests beside this file use the same worlds.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm, qmc

import invariscope
import invariscope.blocks
from invariscope.criteria.regret import regret

Floats = NDArray[np.float64]

LAW_SEED = 20240  # the laws are fixed: only the rows drawn from them change with the seed
POINTS = 2**20  # quasi-random rows per environment for the truth of class heads
NOISES = ("normal", "heavy tails", "uneven")


@dataclass(frozen=True)
class World:
    """Environments that differ in P(Z), in noise and, by ``effect``, in the head: their population regret is known.

        Z ~ N(μ_e, Σ_e)     head_e = head + effect · direction_e
        regression: Y = (1, Z) head_e + noise_e · N(0, 1)     binary: P(Y = 1 | Z) = logistic((1, Z) head_e)

    ``noise``: "normal"; "heavy tails" (Student's t with 6 degrees of freedom, unit variance); or "uneven", where the
    noise of a row grows with |z1| so that J_e is not proportional to H_e.
    """

    task: str
    rows: tuple[int, ...]
    d: int
    effect: float = 0.0
    noise: str = "normal"
    shift: float = 1.0
    law: dict[str, Floats] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        environments, d = len(self.rows), self.d
        rng = np.random.default_rng([LAW_SEED, environments, d])
        axes = np.linalg.qr(rng.standard_normal((environments, d, d)))[0]
        head = np.concatenate([0.5 * rng.standard_normal(1), _unit(rng.standard_normal(d))])
        law = {
            "mean": self.shift / np.sqrt(d) * rng.standard_normal((environments, d)),
            "root": axes * np.exp(rng.uniform(-0.5, 0.5, (environments, 1, d))),
            "head": head + self.effect * _unit(rng.standard_normal((environments, d + 1))),
            "scale": np.geomspace(0.5, 2.0, environments) if self.task == "regression" else np.ones(environments),
        }
        object.__setattr__(self, "law", law)

    def draw(self, rng: np.random.Generator) -> tuple[Floats, NDArray[Any], NDArray[np.intp]]:
        """Z, y and the environment of every row."""
        features, targets = [], []
        for e, count in enumerate(self.rows):
            z = self.law["mean"][e] + rng.standard_normal((count, self.d)) @ self.law["root"][e].T
            score = self.law["head"][e, 0] + z @ self.law["head"][e, 1:]
            if self.task == "regression":
                targets.append(score + self.law["scale"][e] * self._noise(z, rng))
            else:
                targets.append((score + rng.logistic(size=count) > 0).astype(np.int64))
            features.append(z)
        return np.vstack(features), np.concatenate(targets), np.repeat(np.arange(len(self.rows)), self.rows)

    def _noise(self, z: Floats, rng: np.random.Generator) -> Floats:
        if self.noise == "heavy tails":
            return rng.standard_t(6, len(z)) / np.sqrt(6 / 4)
        noise = rng.standard_normal(len(z))
        return noise * np.sqrt((0.5 + z[:, 0] ** 2) / 1.5) if self.noise == "uneven" else noise

    @cached_property
    def truth(self) -> Floats:
        """Population regret of every environment: a formula for squared loss, quasi-random integration for log-loss."""
        if self.effect == 0:
            return np.zeros(len(self.rows))
        return self._squared_truth() if self.task == "regression" else self._logistic_truth()

    def _squared_truth(self) -> Floats:
        mean, root = self.law["mean"], self.law["root"]
        moments = np.zeros((len(self.rows), self.d + 1, self.d + 1))
        moments[:, 0, 0] = 1.0
        moments[:, 0, 1:] = moments[:, 1:, 0] = mean
        moments[:, 1:, 1:] = root @ np.swapaxes(root, 1, 2) + mean[:, :, None] * mean[:, None, :]
        risk = self.law["scale"] ** 2
        if self.noise == "uneven":
            risk = risk * (0.5 + moments[:, 1, 1]) / 1.5
        curvature = moments / risk[:, None, None]
        shared = np.linalg.solve(curvature.sum(axis=0), np.einsum("epq,eq->p", curvature, self.law["head"]))
        difference = shared - self.law["head"]
        return np.asarray(np.einsum("ep,epq,eq->e", difference, curvature, difference))

    def _logistic_truth(self) -> Floats:
        """The shared head is fitted to probabilities, not to drawn classes: only the law of Z is integrated."""
        points = int(POINTS // (4 * self.d))
        points = 2 ** int(np.log2(points))
        normal = norm.ppf(qmc.Sobol(self.d, rng=LAW_SEED).random(points))
        designs, chances, own = [], [], []
        for e in range(len(self.rows)):
            z = self.law["mean"][e] + normal @ self.law["root"][e].T
            design = np.column_stack([np.ones(points), z])
            score = design @ self.law["head"][e]
            designs.append(design)
            chances.append(expit(score))
            own.append(np.mean(np.logaddexp(0.0, score) - chances[-1] * score))

        def risks(head: Floats) -> tuple[Floats, Floats]:
            values, slopes = [], []
            for design, chance in zip(designs, chances, strict=True):
                score = design @ head
                values.append(np.mean(np.logaddexp(0.0, score) - chance * score))
                slopes.append((expit(score) - chance) @ design / points)
            return np.array(values), np.array(slopes)

        def objective(head: Floats) -> tuple[float, Floats]:
            values, slopes = risks(head)
            return float(np.sum(values / own)), np.einsum("ep,e->p", slopes, 1.0 / np.array(own))

        found = minimize(objective, self.law["head"].mean(axis=0), jac=True, method="BFGS", options={"gtol": 1e-7})
        return risks(found.x)[0] / own - 1.0


def _unit(values: Floats) -> Floats:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


@dataclass(frozen=True)
class Outcomes:
    """What R replications gave: (R, E) values, (R, E, 2) intervals, and their mean over environments."""

    value: Floats
    interval: Floats
    mean: Floats
    mean_interval: Floats
    worst_interval: Floats
    pvalue: Floats

    def covered(self, truth: Floats) -> Floats:
        """Share of runs whose interval holds the truth, by environment: (E,)."""
        return np.asarray(np.mean((self.interval[..., 0] <= truth) & (truth <= self.interval[..., 1]), axis=0))

    def mean_covered(self, truth: Floats) -> float:
        """Share of runs in which the interval of the mean regret holds the mean truth."""
        return float(np.mean((self.mean_interval[:, 0] <= truth.mean()) & (truth.mean() <= self.mean_interval[:, 1])))

    def worst_above(self, truth: Floats) -> float:
        """Share of runs in which the lower end for the largest regret lies above the largest true regret."""
        return float(np.mean(self.worst_interval[:, 0] > truth.max()))


def simulate(world: World, runs: int, rng: np.random.Generator, n_boot: int = 299) -> Outcomes:
    """Draw and audit ``runs`` data sets."""
    results = [regret(*world.draw(rng), folds=2, n_boot=n_boot, seed=int(rng.integers(2**32))) for _ in range(runs)]
    estimates = [list(result.per_environment.values()) for result in results]
    return Outcomes(
        value=np.array([[estimate.value for estimate in row] for row in estimates]),
        interval=np.array([[estimate.interval for estimate in row] for row in estimates]),
        mean=np.array([result.value for result in results]),
        mean_interval=np.array([result.interval for result in results]),
        worst_interval=np.array([result.worst_interval for result in results]),
        pvalue=np.array([result.pvalue for result in results]),
    )
