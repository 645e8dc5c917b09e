"""Comparators by projections, classifiers and information: how often they reject, and how near estimates come."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import invariscope as iv
from invariscope.criteria.comparators.fold_scores import judged, rows_to_judge
from invariscope.criteria.comparators.rank_sums import Gains, accuracy_and_areas, dealt
from invariscope.criteria.comparators.samples import sample_of
from invariscope.rows.resampling import pvalue
from tests.statistical.bands import band

SIZES = (40, 60, 50)
ENV = np.repeat(["a", "b", "c"], SIZES)
DRAWS = 99


def rejections(runs: int, test: Callable[[np.random.Generator, int], float], seed: int) -> float:
    """Share of data sets with a p-value of at most 5 %."""
    rng = np.random.default_rng(seed)
    return float(np.mean([test(rng, run) <= 0.05 for run in range(runs)]))


def one_law(rng: np.random.Generator, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """z, and y that depends on it; the same in every environment but for a shift of z in one."""
    z = rng.normal(size=(len(ENV), 2)) + shift * (ENV == "c")[:, None]
    return z, z[:, 0] + rng.normal(size=len(ENV))


def cramer_wold(shift: float = 0.0) -> Callable[..., float]:
    return lambda rng, run: iv.cramer_wold(*one_law(rng, shift), ENV, projections=10, n_boot=DRAWS, seed=run).pvalue


def domain_classifier(shift: float = 0.0, part: str = "pvalue") -> Callable[..., float]:
    return lambda rng, run: getattr(iv.domain_classifier(*one_law(rng, shift), ENV, n_boot=DRAWS, seed=run), part)


def confounded(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The environment depends on the prediction, and the target on its square; on the environment by ``shift``."""
    said = rng.normal(size=n)
    env = (rng.uniform(size=n) < 1 / (1 + np.exp(-said))).astype(int)
    return said, said + said**2 + shift * env + rng.normal(size=n), env


def judged_information(n: int, shift: float = 0.0) -> Callable[..., float]:
    return lambda rng, run: iv.conditional_mutual_information(*confounded(rng, n, shift), n_boot=DRAWS, seed=run).pvalue


def counted_information(shift: float = 0.0, n: int = 150) -> Callable[..., float]:
    def test(rng: np.random.Generator, run: int) -> float:
        said, y, env = labels(rng, n, shift)
        return iv.conditional_mutual_information(said, y, env, n_boot=DRAWS, seed=run).pvalue

    return test


def labels(rng: np.random.Generator, n: int, shift: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three predictions, of which environments have different shares; y depends on them, and by ``shift`` on env."""
    env = rng.integers(0, 3, n)
    said = np.minimum(2, rng.integers(0, 3, n) + (env == 2))
    return said, (rng.uniform(size=n) < 0.25 + 0.2 * said + shift * (env == 1)).astype(int), env


def true_information(shift: float) -> float:
    """I(E; Y | ŷ) of :func:`labels`, from the chances themselves."""
    chance = np.zeros((3, 3, 2))
    for e in range(3):
        for s in range(3):
            share = 1 / 9 if e < 2 else (0.0, 1 / 9, 2 / 9)[s]
            hit = 0.25 + 0.2 * s + shift * (e == 1)
            chance[s, e] = share * (1 - hit), share * hit
    of_s, of_e, of_y = (chance.sum(axis=axis, keepdims=True) for axis in ((1, 2), 2, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return max(0.0, float(np.nansum(chance * np.log(chance * of_s / (of_e * of_y)))))


# --- small siblings -------------------------------------------------------------------------------------------------
def test_hardly_anything_is_found_where_nothing_differs(seed: int) -> None:
    assert rejections(120, cramer_wold(), seed) <= 0.05 + band(0.05, 120)
    assert rejections(400, counted_information(), seed) <= 0.05 + band(0.05, 400)
    assert rejections(15, domain_classifier(), seed) <= 0.05 + band(0.05, 15)
    assert rejections(12, judged_information(150), seed) <= 0.05 + band(0.05, 12)


def test_what_differs_is_found(seed: int) -> None:
    assert rejections(10, cramer_wold(1.0), seed) == 1.0
    assert rejections(20, counted_information(0.3, 400), seed) >= 0.9
    assert rejections(5, domain_classifier(1.2), seed) >= 0.8
    assert rejections(4, judged_information(200, 1.5), seed) == 1.0


def test_counts_are_corrected_and_the_interval_holds_the_truth(seed: int) -> None:
    """Mean of the plug-in less its bias against the truth; the interval in at least 95 of 100 cases, but for chance."""
    rng, runs = np.random.default_rng(seed), 400
    for shift in (0.0, 0.1, 0.3):
        truth, values, inside = true_information(shift), [], 0
        for _ in range(runs):
            found = iv.conditional_mutual_information(*labels(rng, 300, shift), n_boot=99)
            values.append(found.value)
            inside += found.interval[0] <= truth <= found.interval[1]
        error = 4 * np.std(values) / math.sqrt(runs)
        # cells (e, y, ŷ) less (e, ŷ) less (y, ŷ) plus ŷ, in each of three strata; one environment never has ŷ = 0
        assert abs(np.mean(values) - (18 - 2 - 8 - 6 + 3) / 600 - truth) < error + 0.001
        assert np.mean(values) - truth > 0.005
        assert inside / runs >= 0.95 - band(0.95, runs)


# --- calibration ----------------------------------------------------------------------------------------------------
@pytest.mark.calibration
@pytest.mark.parametrize(
    ("test", "runs"),
    [
        (cramer_wold(), 2000),
        (counted_information(), 2000),
        (domain_classifier(), 400),
        (judged_information(150), 400),
        (judged_information(400), 400),
    ],
    ids=["cramer_wold", "counted", "domain_classifier", "judged, 150 rows", "judged, 400 rows"],
)
def test_size(test: Callable[..., float], runs: int, seed: int) -> None:
    """0.03–0.07 of data sets in which nothing differs; and what chance adds to that where they are fewer."""
    rate, chance = rejections(runs, test, seed), 0.0 if runs >= 2000 else 0.01
    print(f"rejected: {rate:.3f} of {runs}")
    assert 0.03 - chance <= rate <= 0.07 + chance


@pytest.mark.calibration
def test_accuracy_takes_few_values_and_is_cautious(seed: int) -> None:
    rate = rejections(400, domain_classifier(part="accuracy_pvalue"), seed)
    print(f"rejected: {rate:.3f}")
    assert rate <= 0.05 + band(0.05, 400)


@pytest.mark.calibration
def test_fixed_predictions_of_crossed_folds_would_reject_too_often(seed: int) -> None:
    """Why p-values are those of folds judged ahead: dealing environments over crosswise predictions is no test."""

    def test(rng: np.random.Generator, run: int) -> float:
        z, y = one_law(rng)
        rows = rows_to_judge(sample_of(z, y, ENV))
        said = judged("logistic", rows, rng)
        groups = [
            Gains.of(said.crossed[part], rows.codes[part], said.weight[part])
            for part in (said.fold == k for k in range(5))
        ]
        areas = accuracy_and_areas(groups, [group.codes[None] for group in groups])[1]
        return pvalue(float(areas.mean()), dealt(groups, DRAWS, rng)[1].mean(axis=1))

    rate = rejections(400, test, seed)
    print(f"rejected: {rate:.3f}")
    assert rate > 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.calibration
@pytest.mark.parametrize("shift", [0.6, 1.5])
@pytest.mark.parametrize("n", [300, 2000])
def test_what_classifiers_miss_of_a_shift_whose_information_is_known(shift: float, n: int, seed: int) -> None:
    """The estimate is too small by what was not learned, a few thousandths of a nat, and less with more rows."""

    def density(t: float) -> float:
        return float(norm.pdf(t) + norm.pdf(t, shift)) / 2

    truth = -quad(lambda t: density(t) * math.log(density(t)), -9, 11)[0] - 0.5 * math.log(2 * math.pi * math.e)
    rng, values, inside = np.random.default_rng(seed), [], 0
    for run in range(60):
        said, env = rng.normal(size=n), rng.integers(0, 2, n)
        y = said + shift * env + rng.normal(size=n)
        found: Any = iv.conditional_mutual_information(said, y, env, n_boot=99, seed=run)
        values.append(found.value)
        inside += found.interval[0] <= truth <= found.interval[1]
    print(f"true {truth:.4f}, mean {np.mean(values):.4f}, covered {inside / 60:.2f}")
    missed = truth - np.mean(values)
    error = 3.5 * np.std(values) / math.sqrt(60)
    assert -error <= missed <= 6.0 / n + error
