"""How often do the intervals of the transport gap cover, and its test reject? Worlds in which every gap is known.

``python -m tests.statistical.transport_gap_grid`` prints markdown tables; ``--runs`` sets the replications.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm, qmc

import invariscope.rows.blocks
from invariscope.criteria.transport.transport_gap import transport_gap
from tests.statistical.coverage_grid import World

Floats = NDArray[np.float64]

POINTS = 2**15  # quasi-random rows per environment for the truth of classes: exact to about 0.0001
SHIFT = 0.5  # of the means: about a fifth of the rows still count when weighted to look like another environment
ROWS = (
    (200,) * 2,
    (500,) * 2,
    (1000,) * 2,
    (200,) * 3,
    (500,) * 3,
    (1000,) * 3,
    (100, 300, 900),
    (200,) * 5,
    (500,) * 5,
)


def true_gaps(world: World) -> Floats:
    """E_a[m_b(Z)] − E_a[Y] for all pairs: (1, μ_a)ᵀ (head_b − head_a) where m is linear, an integral for classes."""
    head, mean, root = (world.law[name] for name in ("head", "mean", "root"))
    if world.task == "regression":
        design = np.column_stack([np.ones(len(mean)), mean])
        return np.asarray(design @ head.T - np.sum(design * head, axis=1)[:, None])
    points = norm.ppf(qmc.Sobol(world.d, seed=1).random(POINTS))
    out = np.empty((len(mean), len(mean)))
    for a in range(len(mean)):
        z = mean[a] + points @ root[a].T
        shares = expit(head[:, 0] + z @ head[:, 1:].T).mean(axis=0)
        out[a] = shares - shares[a]
    return out


def variance_within(world: World) -> float:
    """Variance of Y within environments, pooled by rows, from many rows of the same law."""
    many = World(world.task, tuple(200 * n for n in world.rows), world.d, world.effect, world.noise, world.shift)
    _, y, env = many.draw(np.random.default_rng(0))
    return float(np.average([np.var(y[env == e]) for e in range(len(world.rows))], weights=world.rows))


@dataclass(frozen=True)
class Found:
    """What ``runs`` data sets gave, pairs that were refused left out."""

    covered: Floats  # (E, E): share of the 95 % intervals that held the true gap; NaN if refused too often
    pooled: float  # the same over all pairs
    standardised_bias: Floats  # (E, E): mean error in standard errors of a single estimate
    rejected: float
    value: Floats  # (runs,)
    plug_in: float  # mean of the index without its correction
    value_covered: float
    true_value: float
    compared: float


def simulate(world: World, runs: int, rng: np.random.Generator, **options: Any) -> Found:
    truth, off = true_gaps(world), ~np.eye(len(world.rows), dtype=bool)
    results = [transport_gap(*world.draw(rng), task=world.task, **options) for _ in range(runs)]
    pairs, se = (np.stack([getattr(r, name) for r in results]) for name in ("pairs", "se"))
    interval = np.stack([r.pair_intervals for r in results])
    fine = np.isfinite(pairs) & off
    held = (interval[..., 0] <= truth) & (truth <= interval[..., 1]) & fine
    often = fine.sum(axis=0) >= 0.5 * runs
    often_enough = np.where(often, fine.sum(axis=0), np.nan)
    error = np.where(fine, pairs - truth, 0.0).sum(axis=0) / np.where(
        often, np.where(fine, se, 0.0).sum(axis=0), np.nan
    )
    variance = variance_within(world)
    usable = fine.any(axis=(1, 2))
    # the true index is over the pairs that were compared
    true_values = np.array([np.mean(truth[kept] ** 2) if kept.any() else np.nan for kept in fine]) / variance
    ends = np.array([r.interval for r in results])
    plug_in = np.array([np.mean(p[kept] ** 2) for p, kept in zip(pairs, fine, strict=True) if kept.any()]) / variance
    return Found(
        covered=held.sum(axis=0) / often_enough,
        pooled=float(held.sum() / fine.sum()),
        standardised_bias=error,
        rejected=float(np.mean([r.pvalue <= 0.05 for r in results if np.isfinite(r.pvalue)])),
        value=np.array([r.value for r in results])[usable] - true_values[usable],
        plug_in=float(np.mean(plug_in)),
        value_covered=float(
            np.mean((ends[usable, 0] <= true_values[usable]) & (true_values[usable] <= ends[usable, 1]))
        ),
        true_value=float(np.mean(true_values[usable])),
        compared=float(fine.sum() / off.sum() / runs),
    )


NORMAL_SHIFT = 0.7  # between the two laws of z in ``quadratic_world``
Draw = Callable[[np.random.Generator], tuple[Floats, Floats, NDArray[np.intp]]]


def quadratic_world(curvature: float, n: int) -> tuple[Floats, Draw]:
    """Two environments with z ~ N(0, 1) and N(0.7, 1), y = z + curvature z² (+ ½ in the second) + noise; true gaps."""

    def draw(rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.intp]]:
        env = np.repeat([0, 1], n)
        z = rng.standard_normal(2 * n) + NORMAL_SHIFT * env
        return z[:, None], z + curvature * z**2 + 0.5 * env + rng.standard_normal(2 * n), env

    return np.array([[0.0, 0.5], [-0.5, 0.0]]), draw


HEADER = (
    "| task | rows | gaps | compared | all covered | each covered | bias / SE | rejected | index | bias of index "
    "| plug-in | index covered |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(world: World, found: Found) -> str:
    sizes = world.rows
    rows = f"{sizes[0]} × {len(sizes)}" if len(set(sizes)) == 1 else " / ".join(map(str, sizes))
    largest = np.abs(true_gaps(world)).max()
    each = found.covered[np.isfinite(found.covered)]
    bias = found.standardised_bias[np.isfinite(found.standardised_bias)]
    error = 2 * found.value.std() / np.sqrt(len(found.value))
    return (
        f"| {world.task} | {rows} | {'0' if largest < 1e-12 else f'up to {largest:.2f}'} | {found.compared:.0%} "
        f"| {found.pooled:.1%} | {each.min():.1%} … {each.max():.1%} | {bias.min():+.2f} … {bias.max():+.2f} "
        f"| {found.rejected:.1%} | {found.true_value:.3f} | {found.value.mean():+.4f} ± {error:.4f} "
        f"| {found.plug_in:.4f} | {found.value_covered:.1%} |"
    )


ROBUSTNESS_HEADER = (
    "| outcome model | ratio | bias | ± 2 Monte-Carlo errors | mean SE | covered |\n|---|---|---|---|---|---|"
)


def robustness(runs: int, seed: int, n: int = 500) -> Iterator[str]:
    """Bias of the gap of the first environment where the linear outcome model, or the ratio, is right or wrong."""

    def known(Z: Floats) -> Floats:
        return np.column_stack([-0.5 * Z[:, 0] ** 2, -0.5 * (Z[:, 0] - NORMAL_SHIFT) ** 2])

    def none(Z: Floats) -> Floats:
        return np.zeros((len(Z), 2))

    ratios: dict[str, Any] = {"known": known, "wrong (none)": none, "estimated": "logistic"}
    for curvature, outcome in ((0.0, "right"), (1.0, "wrong (linear)")):
        truth, draw = quadratic_world(curvature, n)
        for name, ratio in ratios.items():
            rng = np.random.default_rng(seed)
            results = [transport_gap(*draw(rng), ratio=ratio) for _ in range(runs)]
            error = np.array([r.pairs[0, 1] for r in results]) - truth[0, 1]
            covered = np.mean([r.pair_intervals[0, 1, 0] <= truth[0, 1] <= r.pair_intervals[0, 1, 1] for r in results])
            se = np.mean([r.se[0, 1] for r in results])
            spread = 2 * error.std() / np.sqrt(runs)
            yield f"| {outcome} | {name} | {error.mean():+.4f} | {spread:.4f} | {se:.4f} | {covered:.1%} |"


@click.command()
@click.option("--runs", default=300)
@click.option("--seed", default=0)
@click.option("--task", "tasks", multiple=True, default=("regression", "binary"))
def main(runs: int, seed: int, tasks: tuple[str, ...]) -> None:
    """Print the table."""
    invariscope.rows.blocks.workers = lambda: 1
    click.echo(ROBUSTNESS_HEADER)
    for text in robustness(runs, seed):
        click.echo(text)
    click.echo(HEADER)
    for task in tasks:
        for rows in ROWS:
            for effect in (0.0, 0.5):
                world = World(task, rows, 3, effect, shift=SHIFT)
                found = simulate(world, runs, np.random.default_rng([seed, len(rows), rows[0]]))
                click.echo(line(world, found))


if __name__ == "__main__":
    main()
