"""Cramér–Wold: by hand, against loops, scipy and closed forms, and every deal of a tiny table."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import energy_distance, norm

import invariscope as iv
from invariscope.criteria.comparators import projections
from invariscope.criteria.comparators.projections import directions
from tests.reference import projections_and_information as loops

ENV = np.repeat(["a", "b", "c"], [12, 9, 7])


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.round(rng.normal(size=(28, 2)) + (ENV == "c")[:, None], 1)  # with ties
    return z, np.round(z[:, 0] + rng.normal(size=28), 1)


def test_four_rows_by_hand() -> None:
    found = iv.cramer_wold([0.0, 1.0, 2.0, 3.0], env=list("aabb"), n_boot=0)
    # |F_a − F_b| is ½, 1, ½ over three steps of 1; the spread of 0, 1, 2, 3 is √1.25
    assert found.pairs == pytest.approx(np.array([[0, 1.5], [1.5, 0]]) / math.sqrt(1.25))
    assert found.value == pytest.approx(0.25 * 1.5 / math.sqrt(1.25))
    assert found.per_environment["a"].value == pytest.approx(found.pairs[0, 1])
    assert (found.compared, found.estimator) == ("z", "exact")


@pytest.mark.parametrize("over", ["mean", "max"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loops(over: str, weighted: bool, seed: int) -> None:
    z, y = rows(seed)
    weight = np.random.default_rng(seed).uniform(0.5, 2.5, 28) if weighted else np.ones(28)
    found = iv.cramer_wold(z, y, ENV, projections=4, over=over, weight=weight if weighted else None, n_boot=0)
    value, pairs = loops.cramer_wold(np.column_stack([z, y]), ENV, weight, directions(3, 4), over)
    assert found.value == pytest.approx(value)
    for (a, b), distance in pairs.items():
        assert found.pairs["abc".index(a), "abc".index(b)] == pytest.approx(distance)
    alone = ENV != "c"
    others = loops.cramer_wold(np.column_stack([z, y]), np.where(alone, "x", "z"), weight, directions(3, 4), over)[1]
    assert found.per_environment["c"].value == pytest.approx(others["x", "z"])
    assert found.compared == "(z, y)"


def test_along_one_column_it_is_half_the_squared_energy_distance_of_scipy(seed: int) -> None:
    z = rows(seed)[0][:21, 0]
    found = iv.cramer_wold(z, env=ENV[:21], n_boot=0)
    apart = energy_distance(z[:12], z[12:]) ** 2 / 2 / z.std()
    assert found.pairs[0, 1] == pytest.approx(apart)
    assert found.value == pytest.approx(12 * 9 / 21**2 * apart)


@pytest.mark.parametrize("knots", [512, 5000])
def test_normal_laws_a_shift_apart_have_a_closed_form(knots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """E|X − Y| − ½ E|X − X'| − ½ E|Y − Y'|, each the mean of a folded normal; at 512 quantiles to 1 %."""
    monkeypatch.setattr(projections, "KNOTS", knots)
    shift, n = 0.8, 1500
    z = norm.ppf((np.arange(n) + 0.5) / n)
    found = iv.cramer_wold(np.r_[z, z + shift], env=np.repeat(["a", "b"], n), n_boot=0)

    def folded(mean: float) -> float:
        return 2 / math.sqrt(math.pi) * math.exp(-(mean**2) / 4) + mean * (1 - 2 * norm.cdf(-mean / math.sqrt(2)))

    assert found.pairs[0, 1] == pytest.approx((folded(shift) - folded(0)) / math.sqrt(1 + shift**2 / 4), rel=0.01)
    assert found.estimator == ("exact" if knots == 5000 else "at 512 quantiles")


def test_the_null_is_that_of_all_deals(seed: int) -> None:
    z = np.random.default_rng(seed).normal(size=(7, 2))
    found = iv.cramer_wold(z, env=list("aaabbbb"), projections=3, n_boot=4999)
    every = []
    for first in itertools.combinations(range(7), 3):
        env = ["a" if i in first else "b" for i in range(7)]
        every.append(iv.cramer_wold(z, env=env, projections=3, n_boot=0).value)
    near = np.abs(found.null[:, None] - np.array(every)).argmin(axis=1)
    assert np.allclose(found.null, np.array(every)[near], rtol=1e-6)
    counts = np.bincount(near, minlength=35)
    assert np.all(np.abs(counts - 4999 / 35) < 5 * math.sqrt(4999 / 35))
    exact = np.mean(np.array(every) >= found.value * (1 - 1e-9))
    assert abs(found.pvalue - exact) < 5 * math.sqrt(exact * (1 - exact) / 4999) + 1e-3


def test_the_largest_direction_sees_what_the_mean_dilutes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(120, 6))
    z[60:, 0] += 1.5
    env = np.repeat(["a", "b"], 60)
    mean, largest = (iv.cramer_wold(z, env=env, over=over, n_boot=0).value for over in ("mean", "max"))
    assert largest > 2 * mean
    assert iv.cramer_wold(z, env=env, n_boot=99).pvalue == 0.01


def test_pairs_that_differ_are_named_and_others_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b", "c"], 60)
    z = rng.normal(size=(180, 2)) + 2.0 * (env == "c")[:, None]
    found = iv.cramer_wold(z, env=env, n_boot=199)
    assert found.pair_pvalues[0, 2] == found.pair_pvalues[1, 2] == pytest.approx(3 / 200)
    assert found.pair_pvalues[0, 1] > 3 / 200
    assert np.diag(found.pair_pvalues).tolist() == [1.0] * 3


def test_columns_that_do_not_vary_are_no_difference() -> None:
    found = iv.cramer_wold(np.ones((8, 2)), env=list("aaaabbbb"), n_boot=99)
    assert (found.value, found.pvalue) == (0.0, 1.0)


def test_what_cannot_be_done_is_told() -> None:
    with pytest.raises(iv.InputError, match='over "least" is unknown: use "mean" or "max"'):
        iv.cramer_wold([0.0, 1.0, 2.0, 3.0], env=list("aabb"), over="least")
    with pytest.raises(iv.InputError, match="projections is 0: give a whole number from 1"):
        iv.cramer_wold([0.0, 1.0, 2.0, 3.0], env=list("aabb"), projections=0)


def test_too_few_deals_for_many_pairs_are_noted() -> None:
    rng = np.random.default_rng(0)
    z, env = rng.normal(size=(90, 1)), np.repeat(list("abcdef"), 15)
    few = "With 15 pairs, 99 draws cannot make the p-value of a pair smaller than 0.15: n_boot=300 would."
    assert few in iv.cramer_wold(z, env=env, n_boot=99).notes
    assert not any("pairs" in note for note in iv.cramer_wold(z, env=env, n_boot=300).notes)
    for y in (rng.integers(0, 2, 90), rng.normal(size=90)):  # counted, and judged
        told = np.zeros(90) if y.dtype.kind == "i" else z
        assert few in iv.conditional_mutual_information(told, y, env, n_boot=99).notes
        assert few not in iv.conditional_mutual_information(told, y, env, n_boot=0).notes
