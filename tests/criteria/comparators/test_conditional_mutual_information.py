"""Conditional mutual information: tables by hand, loops, every deal of a tiny table, and laws with a known value."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import ncx2, norm
from sklearn.metrics import mutual_info_score

import invariscope as iv
from invariscope.criteria.comparators.conditional_mutual_information import BELOW_ZERO
from invariscope.criteria.comparators.counted_information import (
    by_chance,
    by_dealing,
    counting_bias,
    deviance,
    interval_of,
    tables_of,
)
from invariscope.criteria.comparators.fold_scores import Judged
from invariscope.criteria.comparators.judged_information import _cleared, _randomised, gained
from invariscope.ratios.estimator import GroupedRows
from tests.reference import projections_and_information as loops


def labels(seed: int, n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predictions, targets and environments that depend on each other, as labels."""
    rng = np.random.default_rng(seed)
    said, env = rng.integers(0, 3, n), rng.integers(0, 3, n)
    return said, (rng.uniform(size=n) < 0.2 + 0.2 * said + 0.15 * (env == 1)).astype(int), env


def information_of_a_shift(shift: float) -> float:
    """I(E; Y) of two environments of one size where Y is normal, ``shift`` apart: h(mixture) − h(normal)."""

    def density(t: float) -> float:
        return float(norm.pdf(t) + norm.pdf(t, shift)) / 2

    entropy = -quad(lambda t: density(t) * math.log(density(t)), -9, 9 + shift)[0]
    return float(entropy - 0.5 * math.log(2 * math.pi * math.e))


# --- counted ------------------------------------------------------------------------------------------------------
def test_two_by_two_by_two_by_hand() -> None:
    """In Bern what is said is true; in Oslo the truth is a coin: H(¾) − ½ log 2 in either stratum."""
    said, env = np.tile([0, 0, 1, 1], 20), np.repeat(["Bern", "Oslo"], 40)
    truth = np.where(env == "Bern", said, np.tile([0, 1], 40))
    found = iv.conditional_mutual_information(said, truth, env, n_boot=99)
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert found.value == pytest.approx(entropy - 0.5 * math.log(2))
    assert (found.strata, found.estimator, found.pvalue) == (2, "counted", 0.01)
    # cells (e, y, ŷ): 6 are not empty; (e, ŷ): 4; (y, ŷ): 4; ŷ: 2, so that there is no bias
    assert found.corrected == pytest.approx(found.value - (6 - 4 - 4 + 2) / 160)
    assert found.pairs[0, 1] == pytest.approx(found.value)
    assert found.per_environment["Bern"].value == pytest.approx(found.value)


def test_bias_of_counting_by_hand() -> None:
    """Twice the same table [[3, 1], [1, 3]]: 8 cells (e, y, ŷ) less 4 (e, ŷ) less 4 (y, ŷ) plus 2 ŷ, over 2 · 16."""
    said, env, truth = np.repeat([0, 1], 8), np.tile([0, 0, 0, 0, 1, 1, 1, 1], 2), np.tile([0, 0, 0, 1, 0, 1, 1, 1], 2)
    found = iv.conditional_mutual_information(said, truth, env, method="counted", n_boot=0)
    assert found.value == pytest.approx(math.log(2) + 0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found.corrected == pytest.approx(found.value - (8 - 4 - 4 + 2) / 32)


def test_copies_of_the_environment_hold_all_of_it() -> None:
    env = np.repeat([0, 1, 2], 40)
    found = iv.conditional_mutual_information(np.zeros(120), env, env, task="classification", n_boot=0)
    assert found.value == pytest.approx(math.log(3))
    given = iv.conditional_mutual_information(env, env, env, method="counted", n_boot=99)
    assert (given.value, given.pvalue, given.interval) == (0.0, 1.0, (0.0, 0.0))


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_equal_loops_and_scikit_learn_stratum_by_stratum(weighted: bool, seed: int) -> None:
    said, y, env = labels(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.5, len(y)) if weighted else np.ones(len(y))
    found = iv.conditional_mutual_information(said, y, env, weight=weight if weighted else None, n_boot=99)
    assert found.value == pytest.approx(loops.conditional_information(said, y, env, weight))
    two = env != 2
    assert found.pairs[0, 1] == pytest.approx(loops.conditional_information(said[two], y[two], env[two], weight[two]))
    assert found.per_environment[1].value == pytest.approx(loops.conditional_information(said, y, env == 1, weight))
    if not weighted:
        by_stratum = [np.mean(said == s) * mutual_info_score(env[said == s], y[said == s]) for s in range(3)]
        assert found.value == pytest.approx(sum(by_stratum))


def test_tables_by_chance_are_all_deals_within_strata(seed: int) -> None:
    """Two strata of four rows: environments dealt in every way, one by one."""
    codes, y, strata = np.array([0, 0, 1, 1, 0, 1, 1, 1]), np.array([0, 1, 0, 1, 0, 0, 1, 1]), np.repeat([0, 1], 4)
    drawn = by_chance(tables_of(codes, y, strata, None), 8000, np.random.default_rng(seed))
    every = []
    for one in itertools.permutations(codes[:4]):
        for other in itertools.permutations(codes[4:]):
            every.append(16 * loops.conditional_information(strata, y, [*one, *other], np.ones(8)))
    values, counts = np.unique(np.round(every, 8), return_counts=True)
    for value, count in zip(values, counts, strict=True):
        share = count / len(every)
        found = np.mean(np.abs(drawn.total - value) < 1e-7)
        assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / 8000)
    assert np.allclose(drawn.pairs[:, 0, 1], drawn.total)


def test_weights_count_rows_and_the_order_of_rows_does_not_matter(seed: int) -> None:
    said, y, env = labels(seed)
    rng = np.random.default_rng(seed)
    weight, order = rng.integers(0, 3, len(y)), rng.permutation(len(y))
    again = np.repeat(np.arange(len(y)), weight)
    one = iv.conditional_mutual_information(said, y, env, weight=weight, n_boot=99)
    two = iv.conditional_mutual_information(said[again], y[again], env[again], n_boot=99)
    assert (one.value, one.pvalue, one.corrected) == pytest.approx((two.value, two.pvalue, two.corrected))
    assert one.interval == pytest.approx(two.interval)
    moved = iv.conditional_mutual_information(said[order], y[order], env[order], n_boot=99)
    plain = iv.conditional_mutual_information(said, y, env, n_boot=99)
    assert moved.value == pytest.approx(plain.value, rel=1e-12)
    assert moved.null == pytest.approx(plain.null, abs=1e-12)


@pytest.mark.parametrize("count", [0.1, 0.5, 1e9])
def test_weights_that_are_no_counts_leave_the_test_its_level(count: float, seed: int) -> None:
    """Rounded, tables of 0.1 per row would be empty, and any information more than by chance; 10⁹ would not fit."""
    said, _, env = labels(seed)
    truth = np.random.default_rng(seed + 1).integers(0, 2, len(said))
    for y in (truth, labels(seed)[1]):
        plain = iv.conditional_mutual_information(said, y, env, method="counted")
        weighted = iv.conditional_mutual_information(said, y, env, method="counted", weight=np.full(len(env), count))
        assert weighted.value == pytest.approx(plain.value, abs=1e-9)
        assert weighted.pvalue == pytest.approx(plain.pvalue, abs=0.08)
        assert weighted.pair_pvalues == pytest.approx(plain.pair_pvalues, abs=0.2)
        assert weighted.null.mean() == pytest.approx(plain.null.mean(), rel=0.1)


def test_rows_dealt_with_their_weights_are_every_deal_within_strata(seed: int) -> None:
    """Four rows in each of two strata: the mean over all deals, in a loop."""
    rng = np.random.default_rng(seed)
    strata, codes = np.repeat([0, 1], 4), np.tile([0, 0, 1, 1], 2)
    y, weight = np.tile([0, 1], 4), rng.uniform(0.2, 3.0, 8)
    each = [
        deviance(tables_of(np.r_[a, b], y, strata, weight)).sum()
        for a in itertools.permutations(codes[:4])
        for b in itertools.permutations(codes[4:])
    ]
    drawn = by_dealing(codes, y, strata, weight, 4000, np.random.default_rng(seed))
    assert drawn.total.mean() == pytest.approx(np.mean(each), abs=4 * np.std(each) / math.sqrt(4000))
    assert np.unique(drawn.total.round(9)).tolist() == np.unique(np.round(each, 9)).tolist()
    assert drawn.pairs[:, 0, 1] == pytest.approx(drawn.total)
    again = rng.permutation(8)
    other = by_dealing(codes[again], y[again], strata[again], weight[again], 4000, np.random.default_rng(seed))
    assert (other.total == drawn.total).all()


def test_the_interval_is_wide_near_nothing_and_normal_far_from_it() -> None:
    rng = np.random.default_rng(0)
    independent = rng.multinomial(400, [0.25] * 4).reshape(1, 2, 2).astype(float)
    low, high = interval_of(independent, float(deviance(independent).sum()))
    assert low == 0.0
    assert high > deviance(independent).sum() / 800
    one = np.array([[[4000.0, 1000.0], [1000.0, 4000.0]]])
    value = float(deviance(one).sum()) / 20_000
    low, high = interval_of(one, 20_000 * value)
    # log-odds ±: a row adds log 1.6 with chance 0.8, log 0.4 with 0.2
    error = math.log(4) * 0.4 / math.sqrt(10_000)
    assert low <= value - 1.95 * error
    assert value + 1.95 * error <= high < value + 2.5 * error


@pytest.mark.parametrize(
    ("table", "by_chi_square"),
    [([[12, 18], [20, 10], [9, 21]], 1), ([[60, 140], [120, 80], [65, 135]], 1), ([[1, 9], [150, 2], [150, 2]], 0)],
)
def test_the_interval_is_the_wider_of_a_chi_square_and_a_normal_law(table: list[list[int]], by_chi_square: int) -> None:
    """A second stratum of one environment alone says nothing: two degrees of freedom, from the first."""
    tables = np.array([table, [[5, 9], [0, 0], [0, 0]]], dtype=float)
    n, first = tables.sum(), tables[0]
    gains = {
        (e, y): math.log(first[e, y] * first.sum() / (first[e].sum() * first[:, y].sum()))
        for e, y in itertools.product(range(3), range(2))
    }
    mean, square = (sum(first[cell] / n * gain**power for cell, gain in gains.items()) for power in (1, 2))
    reach, bias = 1.959964 * math.sqrt((square - mean**2) / n), 8 - 4 - 4 + 2  # cells, (e, ŷ), (y, ŷ), ŷ
    normal = [mean - bias / (2 * n) + sign * reach for sign in (-1, 1)]
    skewed = [
        brentq(lambda shift, share=share: ncx2.cdf(2 * n * mean, 2, shift) - share, 1e-9, 1000.0) / (2 * n)
        for share in (0.975, 0.025)
    ]
    ends = (normal, skewed)[by_chi_square]
    assert ends[1] == max(normal[1], skewed[1])  # a table for each of both
    expected = max(0.0, min(normal[0], skewed[0])), ends[1]
    assert interval_of(tables, 2 * n * mean) == pytest.approx(expected, rel=1e-6)


def test_counting_bias_of_a_full_table() -> None:
    assert counting_bias(np.ones((3, 2, 4))) == 3 * (2 - 1) * (4 - 1)


# --- judged by classifiers ----------------------------------------------------------------------------------------
def test_classes_that_repeat_are_counted_and_all_else_is_judged(seed: int) -> None:
    said, y, env = labels(seed, 120)
    cases = (
        ((said, y), {}, "counted"),
        ((said, y), {"method": "classifier"}, "logistic regression, 5 folds"),
        ((said + np.linspace(0, 0.1, 120), y), {}, "logistic regression, 5 folds"),
        ((said, y + np.linspace(0, 0.1, 120)), {}, "logistic regression, 5 folds"),
        ((said, y), {"task": "regression"}, "logistic regression, 5 folds"),
    )
    for (predictions, target), options, estimator in cases:
        found = iv.conditional_mutual_information(predictions, target, env, n_boot=0, **options)
        assert found.estimator == estimator


@pytest.mark.parametrize("shift", [1.0, 2.0])
def test_a_normal_law_with_a_shift_is_judged_as_it_is(shift: float, seed: int) -> None:
    """Y = ŷ + shift · E + noise; the true value is one integral. What classifiers have not learned is missing."""
    rng = np.random.default_rng(seed)
    n = 3000
    said, env = rng.normal(size=n), rng.integers(0, 2, n)
    found = iv.conditional_mutual_information(said, said + shift * env + rng.normal(size=n), env, n_boot=99)
    truth = information_of_a_shift(shift)
    assert found.value == pytest.approx(truth, abs=4 * (found.interval[1] - found.interval[0]) / 3.92 + 0.005)
    assert found.value == pytest.approx(truth, rel=0.2)
    assert found.pvalue == 0.01


def test_probabilities_of_two_classes_are_one_column_however_they_are_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    said, env = rng.random(240), np.repeat(["Bern", "Oslo"], 120)
    y = rng.random(240) < said
    one, two = (iv.conditional_mutual_information(p, y, env, n_boot=99) for p in (said, np.c_[1 - said, said]))
    assert (one.value, one.pvalue, one.interval) == (two.value, two.pvalue, two.interval)


def test_a_value_below_zero_says_why_its_interval_is_cut_off() -> None:
    notes = set()
    for seed in range(6):  # nothing to find: the value falls to either side of 0
        rng = np.random.default_rng(seed)
        found = iv.conditional_mutual_information(
            rng.normal(size=120), rng.normal(size=120), np.arange(120) % 2, n_boot=0
        )
        assert (BELOW_ZERO in found.notes) == (found.value < 0)
        notes.add(BELOW_ZERO in found.notes)
    assert True in notes


def test_judged_and_counted_agree_on_labels(seed: int) -> None:
    said, y, env = labels(seed, 4000)
    counted = iv.conditional_mutual_information(said, y, env, n_boot=99)
    asked = iv.conditional_mutual_information(said, y, env, method="classifier", n_boot=99)
    assert asked.value == pytest.approx(counted.corrected, abs=0.006)
    assert asked.pairs == pytest.approx(counted.pairs, abs=0.012)
    for label in (0, 1, 2):
        assert asked.per_environment[label].value == pytest.approx(counted.per_environment[label].value, abs=0.006)


def test_gains_are_means_of_logarithms(seed: int) -> None:
    """Row by row, from probabilities with the target and without."""
    rng = np.random.default_rng(seed)
    more, less = (rng.dirichlet([1.0, 1.0, 1.0], 12) for _ in range(2))
    rows = GroupedRows(np.zeros((12, 1)), np.array([0, 5, 9, 12]), rng.uniform(0.5, 2.0, 12))
    found = gained(*(Judged(rows, np.zeros(12), np.log(p), np.log(p), "") for p in (more, less)))
    w, code = rows.weight, rows.codes
    mean = sum(w[i] * math.log(more[i, code[i]] / less[i, code[i]]) for i in range(12)) / w.sum()
    assert found.mean == pytest.approx(mean)
    two = [i for i in range(12) if code[i] != 1]
    alone = sum(
        w[i] * math.log(more[i, code[i]] / (more[i, 0] + more[i, 2]) / (less[i, code[i]] / (less[i, 0] + less[i, 2])))
        for i in two
    )
    assert found.pairs[0, 2] == found.pairs[2, 0] == pytest.approx(alone / sum(w[i] for i in two))
    is_two = [(more[i, 2], less[i, 2]) if code[i] == 2 else (1 - more[i, 2], 1 - less[i, 2]) for i in range(12)]
    assert found.others[2] == pytest.approx(sum(w[i] * math.log(p / q) for i, (p, q) in enumerate(is_two)) / w.sum())


def test_gains_are_cleared_of_what_the_fit_explains(seed: int) -> None:
    """What is left varies by chance as little as it can, and what is linear in the fit's columns is gone."""
    rng = np.random.default_rng(seed)
    chance, weight = rng.dirichlet([2.0, 2.0, 2.0], 50), rng.uniform(0.5, 2.0, 50)
    design = np.column_stack([np.ones(50), rng.normal(size=50)])
    explained = np.einsum("np,pe->ne", design, rng.normal(size=(2, 3)))
    noise = rng.normal(size=(50, 3))

    def spread(gains: np.ndarray) -> float:
        mean = (chance * gains).sum(axis=1)
        return float(weight @ ((chance * gains**2).sum(axis=1) - mean**2))

    assert spread(_cleared(explained, chance, design, weight)) < 1e-12
    left = _cleared(noise + explained, chance, design, weight)
    assert spread(left) == pytest.approx(spread(_cleared(noise, chance, design, weight)))
    for _ in range(5):
        nudge = np.einsum("np,pe->ne", design, 0.1 * rng.normal(size=(2, 3)))
        assert spread(left + nudge) > spread(left)


def test_a_row_of_weight_four_gains_and_varies_as_four_rows_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    more, less, chance = (rng.dirichlet([1.0, 1.0, 1.0], 12) for _ in range(3))
    offsets, four = np.array([0, 5, 9, 12]), np.full(12, 4.0)
    once = GroupedRows(np.zeros((12, 1)), offsets, four)
    written = GroupedRows(np.zeros((48, 1)), 4 * offsets)
    said = [Judged(once, np.zeros(12), np.log(p), np.log(p), "") for p in (more, less)]
    repeated = [np.log(np.repeat(p, 4, axis=0)) for p in (more, less)]
    copies = [Judged(written, np.zeros(48), logs, logs, "") for logs in repeated]
    assert gained(*said).error == pytest.approx(gained(*copies).error)
    gains, design = np.log(more / less), np.ones((12, 1))
    one, null = _randomised(gains, chance, design, once.codes, four, np.ones(12, dtype=bool), 4000, rng)
    each = (np.repeat(values, 4, axis=0) for values in (gains, chance, design))
    two, of_copies = _randomised(*each, written.codes, np.ones(48), np.ones(48, dtype=bool), 4000, rng)
    assert one == pytest.approx(two)
    assert null.std() == pytest.approx(of_copies.std(), rel=0.08)  # 5 standard errors of a ratio of two


def test_pairs_that_differ_are_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    said, env = rng.normal(size=450), np.repeat(["a", "b", "c"], 150)
    found = iv.conditional_mutual_information(said, said + 1.5 * (env == "b") + rng.normal(size=450), env, n_boot=199)
    assert found.pair_pvalues[0, 1] == found.pair_pvalues[1, 2] == pytest.approx(3 / 200)
    assert found.pair_pvalues[0, 2] > 0.02
    assert found.pairs[0, 1] > 0.1 > abs(found.pairs[0, 2])


def test_what_cannot_be_done_is_told(seed: int) -> None:
    said, y, env = labels(seed)
    with pytest.raises(iv.InputError, match='only classes can be counted, and target "target" holds numbers'):
        iv.conditional_mutual_information(said, y + np.linspace(0, 0.1, 240), env, method="counted")
    with pytest.raises(iv.InputError, match='method "kernel" is unknown: use "auto", "counted" or "classifier"'):
        iv.conditional_mutual_information(said, y, env, method="kernel")
    with pytest.raises(iv.InputError, match="predictions hold text"):
        iv.conditional_mutual_information(np.array(["no", "yes", "perhaps"])[said], y, env)
