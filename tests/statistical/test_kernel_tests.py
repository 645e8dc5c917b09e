"""Kernel tests as tests: how often they reject where nothing differs, and where something does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from tests.statistical.bands import band

ROWS, DEALS = 60, 99
Sample = tuple[np.ndarray, Any, np.ndarray]
TESTS: dict[str, Callable[..., Any]] = {
    "mmd": iv.mmd,
    "mmd, mean": lambda *rows, **options: iv.mmd(*rows, over="mean", **options),
    "mmd, median": lambda *rows, **options: iv.mmd(*rows, bandwidth="median", **options),
    "hsic": iv.hsic,
    "kmaxic": iv.kmaxic,
    "subgroup_invariance": lambda *rows, **options: iv.subgroup_invariance(*rows, parts=3, **options),
}
every_test = pytest.mark.parametrize("name", TESTS)


def alike(rng: np.random.Generator) -> Sample:
    """One law, skewed and with heavy tails, of z and y; unequal environments."""
    env = np.repeat([0, 1, 2], [ROWS, ROWS // 2, 2 * ROWS])
    Z = rng.standard_t(3, size=(len(env), 3))
    return Z, Z[:, 0] + rng.exponential(size=len(env)), env


def two(rng: np.random.Generator, columns: int = 3, rows: int = 2 * ROWS) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(2 * rows, columns)), np.repeat([0, 1], rows)


def moved(rng: np.random.Generator, by: float = 0.4) -> Sample:
    Z, env = two(rng)
    return Z + by * env[:, None], None, env


def wider(rng: np.random.Generator, by: float = 0.45) -> Sample:
    Z, env = two(rng)
    return Z * (1 + by * env[:, None]), None, env


def other_relation(rng: np.random.Generator, by: float = 1.5) -> Sample:
    """The laws of z and of y are the same in both environments; their correlation is not."""
    Z, env = two(rng)
    correlation = 0.8 - by * env
    return Z, correlation * Z[:, 0] + np.sqrt(1 - correlation**2) * rng.normal(size=len(env)), env


def other_classes(rng: np.random.Generator, by: float = 1.5) -> Sample:
    Z, env = two(rng)
    return Z, np.where(2 * Z[:, 0] * (1 - by * env) + rng.logistic(size=len(env)) > 0, "yes", "no"), env


def rejections(name: str, law: Callable[..., Sample], runs: int, seed: int, **options: Any) -> float:
    rng = np.random.default_rng(seed)
    found = [TESTS[name](*law(rng), n_boot=DEALS, seed=run, **options).pvalue for run in range(runs)]
    return float(np.mean(np.array(found) <= 0.05))


@every_test
def test_one_law_is_rejected_as_often_as_promised(name: str, seed: int) -> None:
    assert abs(rejections(name, alike, 60, seed) - 0.05) <= band(0.05, 60)


@pytest.mark.calibration
@every_test
def test_one_law_is_rejected_in_five_of_a_hundred(name: str, seed: int) -> None:
    assert 0.03 <= rejections(name, alike, 1000, seed) <= 0.07


@pytest.mark.parametrize("law", [moved, wider, other_relation, other_classes], ids=lambda law: law.__name__)
@every_test
def test_what_differs_is_found(name: str, law: Callable[..., Sample], seed: int) -> None:
    assert rejections(name, law, 12, seed) >= 0.5


def test_what_differs_in_y_alone_is_found_with_y_only(seed: int) -> None:
    assert rejections("mmd", other_relation, 20, seed, on="z") <= 0.05 + band(0.05, 20)


def test_details_that_one_width_misses_are_found_by_several(seed: int) -> None:
    """A law with ripples of a tenth of its spread."""

    def rippled(rng: np.random.Generator) -> Sample:
        Z, env = two(rng, 1, 150)
        return np.where(env[:, None] == 1, Z + 0.35 * np.sign(np.sin(6 * Z)), Z), None, env

    assert rejections("mmd", rippled, 12, seed) >= 0.8
    assert rejections("mmd, median", rippled, 12, seed) <= 0.4


def test_a_pair_that_is_alike_stays_so_beside_one_that_is_not(seed: int) -> None:
    """Rows of a third, far larger environment hardly vary: dealt with them, two alike ones would look apart."""

    def third(rng: np.random.Generator) -> Sample:
        env = np.repeat([0, 1, 2], [20, 20, 200])
        return rng.normal(size=(240, 2)) * np.where(env == 2, 0.01, 1.0)[:, None], None, env

    rng, wrong, runs = np.random.default_rng(seed), 0, 40
    for run in range(runs):
        wrong += iv.mmd(*third(rng), bandwidth="median", n_boot=DEALS, seed=run).pair_pvalues[0, 1] <= 0.05
    assert wrong / runs <= 0.05 + band(0.05, runs)


def test_random_features_keep_the_level(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.criteria.comparators.kernel_test.EXACT", 1)
    assert abs(rejections("mmd", alike, 40, seed) - 0.05) <= band(0.05, 40)
    assert rejections("mmd", moved, 8, seed) >= 0.5


#: Smaller differences than above.
SMALL: dict[str, Callable[..., Sample]] = {
    "moved": partial(moved, by=0.2),
    "wider": partial(wider, by=0.2),
    "other_relation": partial(other_relation, by=0.6),
    "other_classes": partial(other_classes, by=0.8),
}
#: How often each rejects, in the order of ``TESTS``, in docs/comparators.md.
POWER: dict[str, tuple[float, ...]] = {
    "moved": (0.525, 0.525, 0.525, 0.525, 0.525, 0.405),
    "wider": (0.495, 0.495, 0.395, 0.495, 0.395, 0.285),
    "other_relation": (0.46, 0.46, 0.12, 0.46, 0.12, 0.14),
    "other_classes": (0.29, 0.29, 0.08, 0.29, 0.08, 0.055),
}
POWER_RUNS = 200  # data sets behind these


@pytest.mark.calibration
@pytest.mark.parametrize("law", SMALL)
@every_test
def test_power_is_what_the_page_says(name: str, law: str, seed: int) -> None:
    stated = POWER[law][list(TESTS).index(name)]
    assert abs(rejections(name, SMALL[law], 400, seed) - stated) <= band(0.5, 400) + band(0.5, POWER_RUNS)
