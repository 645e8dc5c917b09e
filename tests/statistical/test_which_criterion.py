"""Which criterion sees which difference? Three worlds, and how often every criterion that has a test rejects in each.

The table of docs/which_criterion.md comes from here: ``--calibration -s`` prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from tests.statistical.bands import band

ROWS = 120
ENV = np.repeat(["a", "b"], ROWS)
DRAWS = 99


@dataclass(frozen=True)
class World:
    """Two environments of one model: z, y, and the predictions of one linear head for both."""

    z: np.ndarray
    y: np.ndarray
    predictions: np.ndarray


def world(kind: str, rng: np.random.Generator) -> World:
    """Nothing differs; only how common z is; or only E[Y | z], by the slope of the second column."""
    z = rng.normal(size=(2 * ROWS, 2))
    second = ENV == "b"
    if kind == "covariate":
        z[second] += 0.7
    y = z[:, 0] + 0.9 * z[:, 1] * ((second - 0.5) if kind == "conditional" else 0.0) + rng.normal(size=2 * ROWS)
    design = np.column_stack([np.ones(2 * ROWS), z])
    return World(z, y, design @ np.linalg.lstsq(design, y, rcond=None)[0])


WORLDS = ("nothing", "covariate", "conditional")
TESTS: dict[str, Callable[[World, int], float]] = {
    "regret": lambda w, seed: iv.regret(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "influence_index": lambda w, seed: iv.influence_index(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "transport_gap": lambda w, seed: iv.transport_gap(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "dric": lambda w, seed: (
        iv.dric(w.predictions, w.z, ENV, baseline=w.z[:, 0], ratio="gaussian", n_boot=39, seed=seed).pvalue
    ),
    "risk_variance": lambda w, seed: float(iv.risk_variance(w.predictions, w.y, ENV).interval[0] <= 0),
    "mmd": lambda w, seed: iv.mmd(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "mmd, on z": lambda w, seed: iv.mmd(w.z, w.y, ENV, on="z", n_boot=DRAWS, seed=seed).pvalue,
    "hsic": lambda w, seed: iv.hsic(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "kmaxic": lambda w, seed: iv.kmaxic(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "subgroup_invariance": lambda w, seed: iv.subgroup_invariance(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "cramer_wold": lambda w, seed: iv.cramer_wold(w.z, w.y, ENV, projections=10, n_boot=DRAWS, seed=seed).pvalue,
    "domain_classifier": lambda w, seed: iv.domain_classifier(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue,
    "conditional_mutual_information": lambda w, seed: (
        iv.conditional_mutual_information(w.predictions, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue
    ),
    "conditional_mutual_information, given z": lambda w, seed: (
        iv.conditional_mutual_information(w.z, w.y, ENV, n_boot=DRAWS, seed=seed).pvalue
    ),
}
#: Which worlds make which criterion reject: the last columns of the table. What is neither is in between.
SEES_COVARIATE = {
    *("mmd", "mmd, on z", "hsic", "kmaxic", "subgroup_invariance", "cramer_wold", "domain_classifier"),
}
SEES_CONDITIONAL = {"regret", "influence_index", "conditional_mutual_information, given z"}
#: Cheap enough for the ordinary suite.
QUICK = ("regret", "mmd", "mmd, on z", "hsic", "kmaxic", "cramer_wold")


def rates(names: Any, runs: int, seed: int) -> dict[str, dict[str, float]]:
    """Share of data sets in which each criterion rejects, by world."""
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for kind in WORLDS:
        rng = np.random.default_rng([seed, WORLDS.index(kind)])
        worlds = [world(kind, rng) for _ in range(runs)]
        for name in names:
            found[name][kind] = float(np.mean([TESTS[name](each, run) <= 0.05 for run, each in enumerate(worlds)]))
    return found


def assert_as_in_the_table(found: dict[str, dict[str, float]], runs: int) -> None:
    for name, rate in found.items():
        assert rate["nothing"] <= 0.05 + band(0.05, runs), name
        if name in SEES_COVARIATE:
            assert rate["covariate"] >= 0.8, name
        if name in SEES_CONDITIONAL:
            assert rate["conditional"] >= 0.8, name
            assert rate["covariate"] <= 0.05 + band(0.05, runs), name
    if "mmd, on z" in found:
        assert found["mmd, on z"]["conditional"] <= 0.05 + band(0.05, runs)


def test_the_table_is_true(seed: int) -> None:
    assert_as_in_the_table(rates(QUICK, 12, seed), 12)


@pytest.mark.calibration
def test_the_whole_table_is_true(seed: int) -> None:
    runs = 100
    found = rates(TESTS, runs, seed)
    for name, rate in found.items():
        print(f"| `{name}` | {' | '.join(f'{rate[kind]:.2f}' for kind in WORLDS)} |")
    assert_as_in_the_table(found, runs)
