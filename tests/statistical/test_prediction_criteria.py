"""Coverage and bias of the criteria on predictions, over simulations, each with its Monte-Carlo band.

A rate over R independent runs is held to four of its standard errors: a right implementation fails one test in about
15,000, whatever the seed.
"""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.predictions.calibration_variance import _Cells, _error_interval, calibration_variance
from invariscope.criteria.predictions.environment_means import quadratic_interval
from invariscope.criteria.predictions.irm_penalty import irm_penalty
from invariscope.criteria.predictions.multi_environment_calibration import multi_environment_calibration
from invariscope.criteria.predictions.risk_variance import risk_variance
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk


def band(rate, runs):
    """Four standard errors of a rate."""
    return 4 * np.sqrt(rate * (1 - rate) / runs)


def coverage(results, truth):
    """Share of intervals that contain the truth."""
    ends = np.array([result.interval for result in results])
    return np.mean((ends[:, 0] <= truth * (1 + 1e-12)) & (truth <= ends[:, 1]))


def normal_errors(rng, scales, sizes):
    """Rows whose squared error has mean scale² in each environment."""
    return rng.normal(size=sum(sizes)) * np.repeat(scales, sizes), np.repeat(np.arange(len(sizes)), sizes)


# --- risk variance ----------------------------------------------------------------------------------------------------
RISKS = {
    "all equal": ([1.0, 1.0, 1.0, 1.0], [200] * 4),
    "all equal, very unequal rows": ([1.0, 1.0, 1.0], [100, 400, 2000]),
    "two environments, close": ([1.0, 1.1], [300, 300]),
    "one stands out": ([1.0, 1.0, 1.0, 1.6], [200, 200, 300, 400]),
    "ten, all different": (np.linspace(1, 2, 10), [200] * 10),
}


@pytest.mark.parametrize("name", RISKS)
def test_risk_variance_interval_covers(name, seed):
    scales, sizes = RISKS[name]
    truth = np.var(np.square(scales))
    rng, runs = np.random.default_rng(seed), 300
    results = [
        risk_variance(np.zeros(len(y)), y, env) for y, env in (normal_errors(rng, scales, sizes) for _ in range(runs))
    ]
    # squared normal errors are skewed (chi-square, one degree of freedom): Student's intervals reach 94 % at 200 rows
    assert coverage(results, truth) >= 0.93 - band(0.93, runs)
    assert all(result.interval[0] >= 0 for result in results)
    if truth > 0.3:  # far from the border the interval must not buy its coverage by width
        assert coverage(results, truth) <= 0.95 + band(0.95, runs)


def test_plug_in_risk_variance_is_biased_as_stated(seed):
    rng, runs, rows = np.random.default_rng(seed), 600, 50
    scales = np.array([1.0, 1.2, 1.5])
    values = [
        risk_variance(np.zeros(3 * rows), y, env).value
        for y, env in (normal_errors(rng, scales, [rows] * 3) for _ in range(runs))
    ]
    noise = np.mean(2 * scales**4 / rows) * (1 - 1 / 3)  # the variance of a squared normal is 2 scale⁴
    expected = np.var(scales**2) + noise
    assert abs(np.mean(values) - expected) < 4 * np.std(values) / np.sqrt(runs)


def test_debiased_value_in_the_notes_is_unbiased(seed):
    rng, runs, rows = np.random.default_rng(seed), 600, 50
    scales = np.array([1.0, 1.5, 2.0])
    left = []
    for y, env in (normal_errors(rng, scales, [rows] * 3) for _ in range(runs)):
        result = risk_variance(np.zeros(3 * rows), y, env)
        left.append(result.value - float(result.notes[0].split("adds about ")[1].split(" ")[0]))
    assert abs(np.mean(left) - np.var(scales**2)) < 4 * np.std(left) / np.sqrt(runs)


def test_share_of_errors_is_covered_where_errors_are_rare(seed):
    rng, runs = np.random.default_rng(seed), 300
    y = np.tile([0, 1], 150)
    results = []
    for _ in range(runs):
        wrong = rng.uniform(size=300) < np.repeat([0.01, 0.01, 0.05], 100)
        results.append(risk_variance(np.where(wrong, 1 - y, y), y, np.repeat([0, 1, 2], 100), loss="zero_one"))
    assert coverage(results, np.var([0.01, 0.01, 0.05])) >= 0.93 - band(0.93, runs)


def test_one_noisy_environment_does_not_hide_its_noise(seed):
    rng, runs = np.random.default_rng(seed), 400
    spread, truth = np.r_[np.full(9, 0.1), 3.0], np.r_[np.linspace(-1, 1, 9), 4.0]
    ends = np.array(
        [quadratic_interval(truth + spread * rng.normal(size=10), spread, centred=True) for _ in range(runs)]
    )
    # when its mean happens to look average, the observed pattern alone says that nothing noisy matters: 25 % misses
    assert np.mean(ends[:, 1] < np.var(truth)) <= 0.025 + band(0.025, runs)
    assert np.mean(ends[:, 0] > np.var(truth)) <= 0.025 + band(0.025, runs)


# --- worst environment ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scales", [[1.0] * 6, [1.0, 1.0, 2.0], [1.0, 1.05]], ids=["ties", "clear", "close"])
def test_worst_environment_interval_covers(scales, seed):
    rng, runs = np.random.default_rng(seed), 500
    results, plain = [], []
    for _ in range(runs):
        y, env = normal_errors(rng, scales, [300] * len(scales))
        result = worst_environment_risk(np.zeros(len(y)), y, env)
        results.append(result)
        plain.append(result.per_environment[result.worst].interval)
    truth = max(scales) ** 2
    assert coverage(results, truth) >= 0.94 - band(0.94, runs)
    low = np.mean([result.interval[0] > truth for result in results])
    assert low <= 0.025 + band(0.025, runs)
    if len(scales) == 6:  # the interval of the winner alone ignores that it won: its lower end is too high too often
        assert np.mean([low > truth for low, _ in plain]) > low + 0.01


# --- IRMv1 penalty ----------------------------------------------------------------------------------------------------
def irm_rows(rng, slopes, rows):
    """y = slope · f + noise, f ~ N(0, 1): the mean gradient is 2 (1 − slope)."""
    f = rng.normal(size=len(slopes) * rows)
    return f, np.repeat(slopes, rows) * f + rng.normal(size=len(f)), np.repeat(np.arange(len(slopes)), rows)


@pytest.mark.parametrize("slopes", [[1.0, 1.0, 1.0], [1.0, 0.9, 0.5]], ids=["none", "some"])
def test_irm_penalty_bias_and_coverage(slopes, seed):
    rng, runs, rows = np.random.default_rng(seed), 300, 200
    truth = np.mean([(2 * (1 - b)) ** 2 for b in slopes])
    square, split = [], []
    for _ in range(runs):
        data = irm_rows(rng, slopes, rows)
        square.append(irm_penalty(*data))
        split.append(irm_penalty(*data, form="split"))
    unbiased, biased = (np.array([result.value for result in results]) for results in (split, square))
    assert abs(unbiased.mean() - truth) < 4 * unbiased.std() / np.sqrt(runs)
    # Var(g) = 4 (2 (1 − slope)² + 1): noise adds its mean over rows to the square
    noise = np.mean([4 * (2 * (1 - b) ** 2 + 1) for b in slopes]) / rows
    assert abs(biased.mean() - truth - noise) < 4 * biased.std() / np.sqrt(runs)
    assert coverage(square, truth) >= 0.94 - band(0.94, runs)
    assert coverage(split, truth) >= 0.94 - band(0.94, runs)
    for k, slope in enumerate(slopes):
        hits = coverage([result.per_environment[k] for result in square], (2 * (1 - slope)) ** 2)
        assert abs(hits - 0.945) <= 0.015 + band(0.945, runs)


# --- calibration ------------------------------------------------------------------------------------------------------
SHAPES = {
    "calibrated": lambda p: p,
    "overconfident": lambda p: 0.5 + 0.6 * (p - 0.5),
    "wrong at the top": lambda p: np.where(p > 0.8, p - 0.3, p),
    "a little low": lambda p: np.minimum(p + 0.05, 1.0),
}


def true_error(shape, bins=15):
    """ECE over infinitely many rows with uniform probabilities."""
    p = (np.arange(bins * 2000) + 0.5) / (bins * 2000)
    return np.mean(np.abs(np.mean((p - SHAPES[shape](p)).reshape(bins, 2000), axis=1)))


@pytest.mark.parametrize(
    ("shapes", "sizes"),
    [
        (["calibrated"] * 3, [100, 300, 1500]),
        (["overconfident"] * 2, [300, 1500]),
        (["calibrated", "overconfident", "wrong at the top"], [500, 500, 500]),
    ],
    ids=["calibrated", "same error", "different"],
)
def test_calibration_intervals_cover(shapes, sizes, seed):
    rng, runs = np.random.default_rng(seed), 80
    truth, env = np.array([true_error(shape) for shape in shapes]), np.repeat(np.arange(len(sizes)), sizes)
    results = []
    for _ in range(runs):
        p = rng.uniform(size=len(env))
        chance = np.choose(env, [SHAPES[shape](p) for shape in shapes])
        results.append(calibration_variance(p, (rng.uniform(size=len(p)) < chance).astype(int), env))
    assert coverage(results, np.var(truth)) >= 0.95 - band(0.95, runs)
    for k in range(len(sizes)):
        # measured on a wide grid of shapes and sizes: 91 to 100 %
        assert coverage([result.per_environment[k] for result in results], truth[k]) >= 0.92 - band(0.92, runs)
    if shapes[0] == "overconfident":
        lows = [result.per_environment[1].interval[0] for result in results]
        assert np.mean(np.array(lows) > 0) > 0.95  # with 1,500 rows a real error is seen


@pytest.mark.parametrize("rows", [20, 270])
@pytest.mark.parametrize("shape", SHAPES)
def test_either_end_of_a_calibration_interval_rarely_misses(shape, rows, seed):
    rng, runs, bins = np.random.default_rng(seed), 1500, 15
    confidence = (np.arange(bins) + 0.5) / bins
    chance = SHAPES[shape](confidence)
    hits = rng.binomial(rows, chance, size=(runs, bins)) / rows  # every run is an environment of its own
    full = np.ones((runs, bins))
    cells = _Cells(rows * full, full / bins, confidence * full, hits)
    low, _, high = _error_interval(cells, cells.calibration_error())
    truth = np.mean(np.abs(confidence - chance))
    # nominal is 2.5 % an end; the pattern of gaps has to be guessed, which costs up to 2 % more
    assert np.mean(low > truth + 1e-12) <= 0.045 + band(0.045, runs)
    assert np.mean(high < truth) <= 0.045 + band(0.045, runs)


def test_floor_is_what_calibrated_models_show(seed):
    rng, runs, bins = np.random.default_rng(seed), 4000, 15
    confidence, rows = (np.arange(bins) + 0.5) / bins, np.arange(1, bins + 1)
    full = np.ones((runs, bins))
    hits = rng.binomial(rows, confidence, size=(runs, bins)) / rows
    cells = _Cells(rows * full, rows * full / rows.sum(), confidence * full, hits)
    errors = cells.calibration_error()
    assert abs(errors.mean() - cells.calibrated_error()[0]) < 4 * errors.std() / np.sqrt(runs)


# --- calibration in all environments --------------------------------------------------------------------------------
def true_kernel_error(shape, width=0.4):
    """MMCE of probabilities that are uniform on 0..1, by the midpoint rule."""
    grid = (np.arange(2000) + 0.5) / 2000
    gap = SHAPES[shape](grid) - grid
    return np.sqrt(gap @ np.exp(-np.abs(grid[:, None] - grid) / width) @ gap) / 2000


@pytest.mark.parametrize("sizes", [[30, 30], [50, 200, 1000]], ids=str)
def test_calibration_in_all_environments_is_rejected_at_its_level(sizes, seed):
    rng, runs, env = np.random.default_rng(seed), 300, np.repeat(np.arange(len(sizes)), sizes)
    pvalues = []
    for run in range(runs):
        p = rng.beta(0.7, 1.5, size=len(env))
        hits = (rng.uniform(size=len(env)) < p).astype(int)
        hits[:2], hits[-2:] = [0, 1], [0, 1]  # two classes, whatever is drawn
        pvalues.append(multi_environment_calibration(p, hits, env, n_boot=99, seed=run).pvalue)
    for level in (0.05, 0.2):
        assert abs(np.mean(np.array(pvalues) <= level) - level) < band(level, runs) + 0.01  # four rows of a given class


@pytest.mark.parametrize("shapes", [["overconfident"] * 2, ["calibrated", "wrong at the top"]], ids="-".join)
def test_errors_of_calibration_are_found_and_their_intervals_cover(shapes, seed):
    rng, runs, env = np.random.default_rng(seed), 100, np.repeat([0, 1], 800)
    truth = np.array([true_kernel_error(shape) for shape in shapes])
    results = []
    for run in range(runs):
        p = rng.uniform(size=len(env))
        chance = np.choose(env, [SHAPES[shape](p) for shape in shapes])
        hits = (rng.uniform(size=len(p)) < chance).astype(int)
        results.append(multi_environment_calibration(p, hits, env, n_boot=99, seed=run))
    assert np.mean([result.pvalue <= 0.05 for result in results]) > 0.9
    assert coverage(results, truth.mean()) >= 0.95 - band(0.95, runs)
    for k in (0, 1):
        assert coverage([result.per_environment[k] for result in results], truth[k]) >= 0.95 - band(0.95, runs)
    # cautious, but not empty: the interval is no wider than a mean's on so many rows
    assert np.median([np.diff(result.per_environment[1].interval)[0] for result in results]) < 4 / np.sqrt(800)
