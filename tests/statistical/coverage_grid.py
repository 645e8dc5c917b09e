"""How biased is the regret, how often do its intervals cover and its test reject? Worlds with known answers.

``python -m tests.statistical.coverage_grid`` prints markdown tables; ``--runs`` sets the replications, ``--out`` a file
for the page of documentation. The tests beside this file use the same worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

import invariscope.rows.blocks
from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.regret.regret import regret
from invariscope.datasets.synthetic.linear_sem import linear_sem
from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
from invariscope.datasets.synthetic.synthetic import Synthetic
from invariscope.files import write_atomically

Floats = NDArray[np.float64]

LAW_SEED = 20240  # the laws are fixed: only the rows drawn from them change with the seed
POINTS = 2**17  # quasi-random rows per environment for the truth of class heads: exact to about 0.0005
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
            return np.asarray(rng.standard_t(6, len(z)) / np.sqrt(6 / 4))
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
        normal = norm.ppf(qmc.Sobol(self.d, rng=LAW_SEED).random(POINTS))
        designs, chances, own = [], [], []
        for e in range(len(self.rows)):
            z = self.law["mean"][e] + normal @ self.law["root"][e].T
            design = np.column_stack([np.ones(POINTS), z])
            score = design @ self.law["head"][e]
            designs.append(design)
            chances.append(expit(score))
            own.append(np.mean(np.logaddexp(0.0, score) - chances[-1] * score))

        def risks(head: Floats) -> tuple[Floats, Floats]:
            values, slopes = [], []
            for design, chance in zip(designs, chances, strict=True):
                score = design @ head
                values.append(np.mean(np.logaddexp(0.0, score) - chance * score))
                slopes.append((expit(score) - chance) @ design / POINTS)
            return np.array(values), np.array(slopes)

        def objective(head: Floats) -> tuple[float, Floats]:
            values, slopes = risks(head)
            return float(np.sum(values / own)), np.einsum("ep,e->p", slopes, 1.0 / np.array(own))

        found = minimize(objective, self.law["head"].mean(axis=0), jac=True, method="BFGS", options={"gtol": 1e-7})
        return np.asarray(risks(found.x)[0] / np.array(own) - 1.0)


def _unit(values: Floats) -> Floats:
    return np.asarray(values / np.linalg.norm(values, axis=-1, keepdims=True))


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


# --- the table -------------------------------------------------------------------------------------------------------
DESIGNS = (
    ((200, 200, 200), 3),
    ((200, 200, 200), 8),
    ((200, 200, 200), 23),
    ((1000, 1000, 1000), 8),
    ((100, 300, 900), 5),
    ((300, 300, 300, 300, 300), 3),
)
EFFECTS = {"regression": (0.0, 0.3, 0.6), "binary": (0.0, 0.8, 2.0)}


def worlds() -> Iterator[World]:
    """Every row of the table."""
    for task, effects in EFFECTS.items():
        for rows, d in DESIGNS:
            yield from (World(task, rows, d, effect) for effect in effects)
    for noise in NOISES[1:]:
        for rows, d in (DESIGNS[1], DESIGNS[4]):
            yield from (World("regression", rows, d, effect, noise) for effect in EFFECTS["regression"][:2])


def interval_row(world: World, runs: int, rng: np.random.Generator) -> str:
    """One line of the table of intervals."""
    found, truth = simulate(world, runs, rng, n_boot=999), world.truth
    each, bias = found.covered(truth), found.value.mean(axis=0) - truth
    rows = f"{world.rows[0]} × {len(world.rows)}" if len(set(world.rows)) == 1 else " / ".join(map(str, world.rows))
    cells = (
        world.task if world.noise == "normal" else f"{world.task}, {world.noise}",
        rows,
        f"{world.d + 1}",
        f"{truth.min():.3f} … {truth.max():.3f}" if world.effect else "0",
        f"{found.mean.mean() - truth.mean():+.4f} ± {2 * found.mean.std() / np.sqrt(runs):.4f}",
        f"{bias[np.argmax(np.abs(bias))]:+.4f}",
        f"{found.mean_covered(truth):.1%}",
        f"{each.min():.1%} … {each.max():.1%}",
        f"{found.worst_above(truth):.1%}",
        f"{np.mean(found.pvalue <= 0.05):.1%}",
    )
    return "| " + " | ".join(cells) + " |"


TEST_WORLDS: dict[str, Callable[[int], Synthetic]] = {
    "the same law everywhere, 300 × 3": lambda seed: null_same_law(n=300, seed=seed),
    "the same law everywhere, 100 / 300 / 900": lambda seed: null_same_law(n=(100, 300, 900), seed=seed),
    "other P(Z) and other noise, 300 × 3": lambda seed: null_shifted(n=300, seed=seed),
    "other P(Z) and other noise, 100 / 300 / 900": lambda seed: null_shifted(n=(100, 300, 900), seed=seed),
    "two classes, the same law, 300 × 3": lambda seed: null_same_law(n=300, task="binary", seed=seed),
    "two classes, other P(Z), 300 × 3": lambda seed: null_shifted(n=300, task="binary", seed=seed),
    "three classes, other P(Z), 300 × 3": lambda seed: null_shifted(n=300, task="multiclass", seed=seed),
}


def rejection_row(name: str, draw: Callable[[int], Synthetic], runs: int, rng: np.random.Generator) -> str:
    """How often both tests reject at 5 %, where one head serves all environments."""
    score, shuffle = [], []
    for _ in range(runs):
        data, seed = draw(int(rng.integers(2**32))), int(rng.integers(2**32))
        score.append(regret(data.X, data.y, data.env, folds=2, n_boot=299, seed=seed).pvalue)
        shuffle.append(influence_index(data.X, data.y, data.env, n_boot=299, seed=seed).pvalue)
    return f"| {name} | {np.mean(np.array(score) <= 0.05):.1%} | {np.mean(np.array(shuffle) <= 0.05):.1%} |"


def power_row(setting: str, n: int | tuple[int, ...], runs: int, rng: np.random.Generator) -> str:
    """How often the score test finds that ERM's prediction is not invariant, and that the causes are not invariant."""
    erm, causes = [], []
    for _ in range(runs):
        data, seed = linear_sem(setting, n=n, seed=int(rng.integers(2**32))), int(rng.integers(2**32))
        design = np.column_stack([np.ones(len(data.X)), data.X])
        prediction = design @ np.linalg.lstsq(design, data.y, rcond=None)[0]
        erm.append(regret(prediction, data.y, data.env, folds=2, n_boot=299, seed=seed).pvalue)
        causes.append(regret(data.X[:, data.invariant], data.y, data.env, folds=2, n_boot=299, seed=seed).pvalue)
    rows = f"{n} × 3" if isinstance(n, int) else " / ".join(map(str, n))
    return f"| {setting} | {rows} | {np.mean(np.array(erm) <= 0.05):.1%} | {np.mean(np.array(causes) <= 0.05):.1%} |"


HEADER = """# Statistical properties of the regret, its score test and the influence index

Simulations with a known answer, {runs} data sets per line. To repeat them:
`python -m tests.statistical.coverage_grid --runs {runs} --seed {seed} --out docs/statistical_properties.md`.

**How to read the first table.** Every environment has its own P(Z) and, in regression, its own noise level (a factor of
4 between the extremes). "Regret" is the range of the true regrets over the environments, 0 where one head serves all.
"Bias" is that of the mean regret (± two standard errors); "largest bias" that of the environment where it is largest.
"Mean covered" and "each covered" say how often the 95 % interval held the truth: that of the mean, and (smallest …
largest) those of single environments, whose lower ends allow for having looked at all of them: 96.7 % is wanted of
three, 97 % of five. With {runs} data sets a rate of 95 % has a standard error of {error:.1%}, so single entries from
{low:.0%} to {high:.0%} cannot be told from 95 %. "Overstated" is how often the lower end of the interval for the
largest regret lay above it: at most 2.5 % is wanted. "Rejected" is the share of score tests with p ≤ 0.05: the size
where the regret is 0 (5 % wanted), the power elsewhere. "Heavy tails" is Student's t with 6 degrees of freedom;
"uneven" noise grows with the first column. Parameters include the intercept; intervals use 999 draws.
"""
REMARKS = "## What stands out"
COLUMNS = ("task", "rows", "parameters", "regret", "bias", "largest bias", "mean covered", "each covered", "overstated")


@click.command()
@click.option("--runs", default=400, show_default=True, help="data sets per line")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="also write the page to this file")
def main(runs: int, seed: int, out: Path | None) -> None:
    """Print tables of bias, coverage, size and power."""
    invariscope.rows.blocks.workers = lambda: 1  # small data sets: threads would only cost time
    rng = np.random.default_rng(seed)
    error = np.sqrt(0.95 * 0.05 / runs)
    ends = {"low": 0.95 - 2.5 * error, "high": 0.95 + 2.5 * error}
    lines = [HEADER.format(runs=runs, seed=seed, error=error, **ends)]

    def say(line: str) -> None:
        lines.append(line)
        click.echo(line)

    say(f"| {' | '.join(COLUMNS)} | rejected |")
    say("|---" * (len(COLUMNS) + 1) + "|")
    for world in worlds():
        say(interval_row(world, runs, rng))
    say("\n**Rejections at 5 % where one head serves all environments**, 5 columns.\n")
    say("| environments | score test | influence index against its shuffles |")
    say("|---|---|---|")
    for name, draw in TEST_WORLDS.items():
        say(rejection_row(name, draw, runs, rng))
    say(f"\n**Structural equations**: how often the score test rejects at 5 %, {runs // 2} data sets per line.\n")
    say("| setting | rows | ERM's prediction (power) | the causes (size) |")
    say("|---|---|---|---|")
    for setting in ("POU", "PEU", "FOU", "FEU"):
        for n in (300, (100, 300, 900)):
            say(power_row(setting, n, runs // 2, rng))
    if out is not None:
        # what was written by hand below the tables stays
        by_hand = out.read_text().partition(REMARKS)[2] if out.exists() else "\n"
        write_atomically(out, "\n".join([*lines, "", REMARKS]) + by_hand)


if __name__ == "__main__":
    main()
