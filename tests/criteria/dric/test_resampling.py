"""Interval and shuffles of DRIC: against rows really repeated and really dealt, and what may not move them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.criteria.dric.dric import dric
from invariscope.criteria.dric.resampling import Sampler
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import density_ratio
from invariscope.ratios.estimator import GroupedRows
from tests.reference import dric as reference


def shifted(seed: int, n: int = 60, gap: float = 0.4) -> SimpleNamespace:
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(3), n + 10 * np.arange(3)))
    X = rng.normal(size=(len(code), 2)) + gap * code[:, None] * [1.0, -1.0]
    return SimpleNamespace(X=X, env=np.array(["u", "v", "w"])[code], f=X[:, 0] + 0.5, baseline=X[:, 0] - X[:, 1])


def grouped(rows: SimpleNamespace) -> SimpleNamespace:
    order = np.argsort(rows.env, kind="stable")
    return SimpleNamespace(**{name: values[order] for name, values in vars(rows).items()})


def by_hand(rows: Any, index: np.ndarray, env: np.ndarray, fitted: Any) -> tuple[float, float]:
    """Numerator and denominator of rows written out one by one, the ratio refitted to them, by the paper's loops."""
    order = np.argsort(env, kind="stable")
    index, env = index[order], env[order]
    standard = fitted._units.apply(rows.X)[index]
    sizes = np.unique(env, return_counts=True)[1]
    again = fitted._fit.again(GroupedRows(standard, np.concatenate([[0], np.cumsum(sizes)])))
    given = (again.log_densities(standard).tolist(), env.tolist(), ["u", "v", "w"])
    means = [reference.transported_means(values[index].tolist(), *given) for values in (rows.f, rows.baseline)]
    return reference.total_gap(means[0]), reference.total_gap(means[1])


def sampler_of(rows: SimpleNamespace, fitted: Any) -> Sampler:
    sizes = np.unique(rows.env, return_counts=True)[1]
    return Sampler.of(GroupedRows(fitted._units.apply(rows.X), np.concatenate([[0], np.cumsum(sizes)])), None)


def test_bootstrap_and_shuffles_equal_rows_written_out(seed: int) -> None:
    rows = grouped(shifted(seed, n=25))
    fitted = density_ratio(rows.X, rows.env)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=19, seed=seed)
    for_draws = np.random.default_rng(seed).spawn(1)[0]
    for_bootstrap, for_deals = for_draws.spawn(2)
    sampler = sampler_of(rows, fitted)
    everyone = np.arange(len(rows.f))
    booted = []
    for _ in range(19):
        counts = sampler.bootstrap(for_bootstrap).astype(int)
        assert [counts[rows.env == label].sum() for label in "uvw"] == [25, 35, 45]
        index = np.repeat(everyone, counts)
        booted.append(by_hand(rows, index, rows.env[index], fitted))
    dealt = []
    for _ in range(19):
        index, offsets, weight = sampler.deal(for_deals)
        assert weight is None
        assert np.diff(offsets).tolist() == [25, 35, 45]
        np.testing.assert_array_equal(np.sort(index), everyone)
        dealt.append(by_hand(rows, index, np.repeat(["u", "v", "w"], np.diff(offsets)), fitted))
    numerators, denominators = np.array(booted).T
    np.testing.assert_allclose(found.interval, np.quantile(numerators / denominators, [0.025, 0.975]), rtol=1e-5)
    np.testing.assert_allclose(found.numerator_interval, np.quantile(numerators, [0.025, 0.975]), rtol=1e-5)
    numerators, denominators = np.array(dealt).T
    np.testing.assert_allclose(found.null_numerator, numerators, rtol=1e-5)
    np.testing.assert_allclose(found.null, numerators / denominators, rtol=1e-5)
    assert found.pvalue == (1 + np.sum(numerators >= found.numerator)) / 20


@pytest.mark.slow  # 299 refits, one by one
def test_the_interval_is_that_of_another_literal_bootstrap(seed: int) -> None:
    """Rows drawn by plain indices from another stream: the same law, so the ends agree within Monte-Carlo error."""
    rows = grouped(shifted(seed))
    fitted = density_ratio(rows.X, rows.env)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=299, seed=seed)
    rng = np.random.default_rng(seed + 10**6)
    draws = []
    for _ in range(299):
        parts = [rng.choice(np.flatnonzero(rows.env == label), np.sum(rows.env == label)) for label in "uvw"]
        index = np.concatenate(parts)
        again = fitted._fit.again(GroupedRows(fitted._units.apply(rows.X[index]), np.array([0, 60, 130, 210])))
        ratio = dric(
            *(rows.f[index], rows.X[index], rows.env[index]),
            baseline=rows.baseline[index],
            ratio=lambda x, again=again: again.log_densities(fitted._units.apply(x)),
            n_boot=0,
        )
        draws.append(ratio.value)
    # an end is judged by the share of the other draws below it: 2.5 % or 97.5 %, within 5 standard errors
    below = [np.mean(np.array(draws) < end) for end in found.interval]
    band = 5 * math.sqrt(2 * 0.025 * 0.975 / 299)
    assert below[0] < 0.025 + band
    assert below[1] > 0.975 - band
    assert found.interval[0] < found.interval[1]


@pytest.mark.parametrize("factor", [1.0, 0.1, 1e-5])
def test_shrinking_shrinks_interval_and_shuffles_and_leaves_the_pvalue(factor: float, seed: int) -> None:
    rows = shifted(seed)
    found = dric(factor * rows.baseline, rows.X, rows.env, baseline=rows.baseline, n_boot=39)
    np.testing.assert_allclose(found.interval, factor**2, rtol=1e-9)
    np.testing.assert_allclose(found.null, factor**2, rtol=1e-9)
    assert found.pvalue == dric(rows.baseline, rows.X, rows.env, baseline=rows.baseline, n_boot=39).pvalue


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(other.interval, one.interval, rtol=1e-5)
    np.testing.assert_allclose(other.null, one.null, rtol=1e-5)
    np.testing.assert_allclose(other.null_numerator, one.null_numerator, rtol=1e-5)
    assert other.pvalue == one.pvalue


@pytest.mark.slow
def test_draws_do_not_know_row_order_names_or_units(seed: int) -> None:
    rows = shifted(seed)
    one = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=19)
    order = np.random.default_rng(seed).permutation(len(rows.f))
    same(one, dric(rows.f[order], rows.X[order], rows.env[order], baseline=rows.baseline[order], n_boot=19))
    renamed = np.array([{"u": 9, "v": 1, "w": 5}[label] for label in rows.env])
    same(one, dric(rows.f, rows.X, renamed, baseline=rows.baseline, n_boot=19))
    same(one, dric(rows.f, rows.X * [1000.0, 0.25] + [3.0, 1.0], rows.env, baseline=rows.baseline, n_boot=19))
    other = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=19, seed=1)
    assert other.value == one.value
    assert not np.array_equal(other.null, one.null)


def test_whole_weights_draw_like_repeated_rows(seed: int) -> None:
    rows = shifted(seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(rows.f))
    again = np.repeat(np.arange(len(weight)), weight)
    one = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, weight=weight, n_boot=19)
    other = dric(rows.f[again], rows.X[again], rows.env[again], baseline=rows.baseline[again], n_boot=19)
    same(one, other)


def test_weights_that_are_not_whole_are_drawn_in_proportion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.0, 3.0, 40)
    weight[:3] = 0.0
    sampler = Sampler.of(GroupedRows(rng.normal(size=(40, 2)), np.array([0, 25, 40])), weight)
    drawn = np.mean([sampler.bootstrap(rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(
        drawn,
        weight * np.repeat([round(part.sum()) / part.sum() for part in (weight[:25], weight[25:])], [25, 15]),
        atol=5 * math.sqrt(3.0 / 4000),
    )
    index, offsets, dealt = sampler.deal(rng)
    assert sorted(index) == list(range(3, 40))
    assert offsets.tolist() == [0, 22, 37]
    np.testing.assert_array_equal(dealt, weight[index])


def test_every_row_is_dealt_everywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sampler = Sampler.of(GroupedRows(rng.normal(size=(12, 1)), np.array([0, 4, 12])), None)
    firsts = np.zeros(12)
    for _ in range(6000):
        index, _, _ = sampler.deal(rng)
        firsts[index[:4]] += 1
    np.testing.assert_allclose(firsts / 6000, 1 / 3, atol=5 * math.sqrt(2 / 9 / 6000))


def test_with_a_representation_both_ratios_are_refitted(seed: int) -> None:
    rows = shifted(seed)
    given: dict[str, Any] = {"baseline": rows.baseline, "n_boot": 19}
    one = dric(rows.f, rows.X, rows.env, **given)
    other = dric(rows.f, rows.X, rows.env, representation=rows.X, **given)  # z = x: the same, fitted twice
    same(one, other)
    on_z = dric(rows.f, rows.X, rows.env, representation=rows.X[:, :1], **given)
    assert not np.allclose(on_z.null_numerator, one.null_numerator)


def test_a_ratio_from_elsewhere_is_not_refitted(seed: int) -> None:
    rows = shifted(seed)
    fitted = density_ratio(rows.X, rows.env)
    for ratio in (fitted, fitted.log_densities):
        found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, ratio=ratio, n_boot=39)
        assert found.interval[0] < found.interval[1]
        assert len(found.null) == 0
        assert math.isnan(found.pvalue)
        assert any("not refitted" in note for note in found.notes)


@pytest.mark.slow
def test_auto_draws_many_on_small_data_fewer_on_larger_none_on_large(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = shifted(seed)
    cells = 3 * rows.X.size
    given = (rows.f, rows.X, rows.env)
    assert len(dric(*given, baseline=rows.baseline).null) == 99
    monkeypatch.setattr("invariscope.criteria.dric.dric.CELLS", cells / 2.0)
    found = dric(*given, baseline=rows.baseline)
    assert len(found.null) == 49
    assert any("rest on 49 refits" in note for note in found.notes)
    monkeypatch.setattr("invariscope.criteria.dric.dric.CELLS", cells / 10.0)
    found = dric(*given, baseline=rows.baseline)
    assert len(found.null) == 0
    assert math.isnan(found.pvalue)
    assert all(math.isnan(end) for end in (*found.interval, *found.numerator_interval))
    assert any("many rows to refit: iv.dric(n_boot=99)" in note for note in found.notes)
    assert len(dric(*given, baseline=rows.baseline, n_boot=19).null) == 19


def test_a_baseline_that_does_not_move_leaves_no_interval_but_a_pvalue(seed: int) -> None:
    rows = shifted(seed)
    found = dric(rows.f, rows.X, rows.env, baseline=np.zeros(len(rows.f)), n_boot=19)
    assert all(math.isnan(end) for end in found.interval)
    assert np.isnan(found.null).all()
    assert 0 < found.pvalue <= 1
    assert math.isnan(dric(0 * rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=19).pvalue)


def test_progress_is_said(seed: int) -> None:
    rows, said = shifted(seed), []
    dric(rows.f, rows.X, rows.env, baseline=rows.baseline, n_boot=19, progress=said.append)
    assert said == [f"resampling DRIC: {k} of 38" for k in (0, 10, 20, 30)]


def test_seeds_must_be_whole_numbers(seed: int) -> None:
    rows = shifted(seed)
    with pytest.raises(InputError, match="seed is -1"):
        dric(rows.f, rows.X, rows.env, baseline=rows.baseline, seed=-1)


@pytest.mark.parametrize(("draw", "outside"), [(8, True), (25, True), (7, False)])
def test_a_value_outside_the_middle_of_its_refits_is_said_to_be(draw: int, outside: bool) -> None:
    """Rows that are drawn anew have noisier means of ratios, which moves a small Q̂ more than its baseline."""
    rng = np.random.default_rng(draw)
    env, X = np.repeat(["a", "b", "c"], 100), rng.normal(size=(300, 2)) + np.repeat([0.0, 0.5, 1.0], 100)[:, None]
    found = dric(1 / (1 + np.exp(-X[:, 0])), X, env, baseline=np.full(300, 0.5), n_boot=39)
    assert (not found.interval[0] <= found.value <= found.interval[1]) == outside
    assert any("outside the middle of its refits" in note for note in found.notes) == outside
