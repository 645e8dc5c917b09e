"""Table 18 of the DRIC paper: six ways to train, and what tests of invariance say of their representations.

python examples/invariance_tests.py                 five seeds, a few minutes
python examples/invariance_tests.py --seeds 2 --steps 100 --scale none

A cause, its square with heavy-tailed noise as the target, and an effect (`iv.datasets.nonlinear_sem`), environments
e = 0.1, 1 and 10, 600 training and 400 test rows each; a network with one hidden layer of 256, 100 steps. Every number
is computed on test rows, from the hidden layer z and the target y. Beside the paper's six there is a second network
trained by ERM from another start, which is no more and no less invariant than the first, and a z that is constant:
there only y is compared.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import invariscope as iv
from invariscope.models.torch_networks import mlp
from invariscope.training import Rows, Settings
from invariscope.training.replicates import train_replicates

Array = np.ndarray
ANOTHER, TARGET = "ERM, other start", "a constant z"
#: Objectives and their options. The paper gives none for this table: penalties are those of Table 7, the rest defaults.
METHODS: dict[str, tuple[str, dict[str, float]]] = {
    "ERM": ("erm", {}),
    "IRM": ("irm", {"weight": 0.1}),
    "VREx": ("vrex", {"weight": 0.1}),
    "MMD": ("mmd", {"weight": 1.0}),
    "GroupDRO": ("group_dro", {}),
    "Mixup": ("mixup", {}),
    ANOTHER: ("erm", {}),
}
COLUMNS = ("DRIC", "DCA", "KMaxIC", "T_sub", "CW", "p")
PUBLISHED = {
    "ERM": (0.0335, 1.0000, 0.0197, 0.3587, 0.0003, 0.00),
    "IRM": (0.0197, 0.3300, 0.0084, 0.1542, 0.0000, 0.16),
    "VREx": (0.0022, 0.3100, 0.0048, 0.1141, 0.0000, 0.26),
    "MMD": (0.0052, 0.3283, 0.0071, 0.1248, 0.0000, 0.50),
    "GroupDRO": (0.0061, 0.3275, 0.0081, 0.1333, 0.0000, 0.20),
    "Mixup": (0.0037, 0.3167, 0.0068, 0.1272, 0.0000, 0.42),
}


def drawn(seed: int, setting: str) -> Any:
    """The paper's rows."""
    return iv.datasets.nonlinear_sem(setting, 600, (0.1, 1.0, 10.0), seed, n_test=400)


def trained(data: Sequence[Any], name: str, steps: int, hidden: int, units: Sequence[float]) -> Any:
    """One network per seed, all as one program; targets in ``units``, one per seed."""
    objective, options = METHODS[name]
    rows = [
        Rows.of(one.train.X, np.asarray(one.train.y) / unit, one.train.env, task="regression", dtype=torch.float32)
        for one, unit in zip(data, units, strict=True)
    ]
    start = 1000 if name == ANOTHER else 0
    return train_replicates(
        lambda: mlp(rows[0].inputs[0].shape[1], 1, (hidden,)),
        rows,
        iv.objectives.objective_of(objective, options=options),
        seeds=[start + seed for seed in range(len(data))],
        settings=Settings(steps=steps, learning_rate=1e-3),
    )


def measured(
    Z: Array, said: Array, rows: Any, baseline: Array, judge: Any, scale: str, within: bool, n_boot: int
) -> dict[str, float]:
    """The table's columns for one network; ``baseline`` are ERM's predictions, ``judge`` was trained on its (z, y)."""
    X, y, env = (np.asarray(part) for part in (rows.X, rows.y, rows.env))
    regret, told = iv.regret(Z @ directions(Z), y, env, n_boot=0).value, explained(said, y, env)
    Z, y, env = compared(Z, rows, within)
    density = iv.dric(said, X, env, baseline=baseline, overlap="ignored", n_boot=0)
    wold = iv.cramer_wold(Z, y, env, n_boot=n_boot)
    applied = np.nan if judge is None else iv.domain_classifier(Z, y, env, trained_on=judge, n_boot=0).value
    return {
        "DRIC": density.numerator,
        "DCA": applied,
        "KMaxIC": iv.kmaxic(Z, y, env, scale=scale, n_boot=0).value,
        "T_sub": iv.subgroup_invariance(Z, y, env, scale=scale, n_boot=0).value,
        "CW": wold.value,
        "p": wold.pvalue,
        "DRIC / ERM's": density.value,
        "DCA, own": iv.domain_classifier(Z @ directions(Z), y, env, n_boot=0).value,
        "explained": told,
        "regret": regret,
    }


def compared(Z: Array, rows: Any, within: bool) -> tuple[Array, Array, Array]:
    """What is compared: (z, y) and the environments; ``within`` takes each one's own mean and spread out of them."""
    y, env = np.asarray(rows.y), np.asarray(rows.env)
    columns = np.column_stack([Z, y])
    if within:
        for label in np.unique(env):
            some = columns[env == label]
            spread = some.std(axis=0)
            columns[env == label] = (some - some.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return columns[:, :-1], columns[:, -1], env


def explained(said: Array, y: Array, env: Array) -> float:
    """Median over environments of 1 − risk / variance: a constant explains nothing."""
    return float(np.median([1 - np.mean((said - y)[env == e] ** 2) / np.var(y[env == e]) for e in np.unique(env)]))


def directions(Z: Array, count: int = 5) -> Array:
    """The leading directions of a representation, few enough for heads of the environments' own."""
    return np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2][:count].T


def experiment(
    seeds: int, steps: int, setting: str, hidden: int, scale: str, within: bool, n_boot: int, standardised: bool
) -> dict[str, list[dict[str, float]]]:
    """All columns for every method and seed."""
    data = [drawn(seed, setting) for seed in range(seeds)]
    units = [float(np.std(one.train.y)) if standardised else 1.0 for one in data]
    found: dict[str, list[dict[str, float]]] = {}
    baselines: list[Array] = []
    judges: list[Any] = []
    for name in METHODS:
        many = trained(data, name, steps, hidden, units)
        outputs = [
            many.network(k)(torch.as_tensor(np.asarray(one.test.X), dtype=torch.float32)) for k, one in enumerate(data)
        ]
        halves = [
            (Z.detach().double().numpy(), scores[:, 0].detach().double().numpy() * unit)
            for (scores, Z), unit in zip(outputs, units, strict=True)
        ]
        if not judges:
            baselines = [said for _, said in halves]
            judges = [
                iv.EnvironmentClassifier("mlp").fit(*compared(Z, one.test, within))
                for (Z, _), one in zip(halves, data, strict=True)
            ]
        found[name] = [
            measured(*half, one.test, known, judge, scale, within, n_boot)
            for half, one, known, judge in zip(halves, data, baselines, judges, strict=True)
        ]
    found[TARGET] = [
        measured(
            np.zeros((len(one.test.y), 1)), np.zeros(len(one.test.y)), one.test, known, None, scale, within, n_boot
        )
        for one, known in zip(data, baselines, strict=True)
    ]
    return found


def show(found: dict[str, list[dict[str, float]]], title: str) -> None:
    """Mean ± spread over seeds, the published number beside it; and the orders."""
    names = list(next(iter(found.values()))[0])
    print(f"\n**{title}**\n")
    line("method", *names)
    line(*["---"] * (len(names) + 1))
    for method, runs in found.items():
        cells = []
        for k, name in enumerate(names):
            values = [run[name] for run in runs]
            printed = f" ({PUBLISHED[method][k]:.4g})" if method in PUBLISHED and k < len(COLUMNS) else ""
            cells.append(f"{np.mean(values):.3g} ± {np.std(values):.2g}{printed}")
        line(method, *cells)
    print("\nRank correlation of our means with the published column, over the six methods:\n")
    for k, name in enumerate(COLUMNS):
        ours = [np.mean([run[name] for run in found[method]]) for method in PUBLISHED]
        theirs = [PUBLISHED[method][k] for method in PUBLISHED]
        first = sum(np.argmax([run[name] for run in runs]) == 0 for runs in by_seed(found))
        rank = spearmanr(ours, theirs).statistic if len(set(ours)) > 1 else np.nan
        print(f"* {name}: {rank:.2f}; ERM has the largest value in {first} of {len(found['ERM'])} seeds")


def by_seed(found: dict[str, list[dict[str, float]]]) -> list[list[dict[str, float]]]:
    return [list(runs) for runs in zip(*(found[method] for method in PUBLISHED), strict=True)]


def line(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--setting", default="FEU", help="of the structural equations: POU, PEU, FOU or FEU")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--scale", choices=("spread", "none"), default="spread", help="units of columns in kernels")
    parser.add_argument(
        "--within", action="store_true", help="compare (z, y) in units of their spread in each environment"
    )
    parser.add_argument("--n-boot", type=int, default=199)
    parser.add_argument("--standardised", action="store_true", help="train on the target in units of its spread")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found = experiment(
        given.seeds,
        given.steps,
        given.setting,
        given.hidden,
        given.scale,
        given.within,
        given.n_boot,
        given.standardised,
    )
    units = "in units of its spread" if given.standardised else "as it is"
    show(
        found,
        f"Table 18, setting {given.setting}, {given.steps} steps, target {units}, kernels' columns "
        f'"{"within" if given.within else given.scale}", {given.seeds} seeds: ours, mean ± spread (published)',
    )
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
