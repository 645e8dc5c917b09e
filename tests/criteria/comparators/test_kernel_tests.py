"""MMD, HSIC, KMaxIC and T_sub against pencil and paper, slow loops, every deal there is, and peers."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.criteria.comparators import kernel_sums, kernel_test
from invariscope.criteria.comparators.deals import Deals
from invariscope.criteria.comparators.kernel_test import by_chance, holm
from invariscope.criteria.comparators.samples import sample_of
from invariscope.rows import blocks
from tests.reference import kernel_tests as slow

RAW: dict[str, Any] = {"scale": "none", "n_boot": 0}
TESTS = {"mmd": iv.mmd, "hsic": iv.hsic, "kmaxic": iv.kmaxic, "subgroup_invariance": iv.subgroup_invariance}
every_test = pytest.mark.parametrize("name", TESTS)


def three(seed: int, sizes: tuple[int, ...] = (14, 9, 11)) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(len(sizes)), sizes)
    return rng.normal(size=(len(env), 2)) + 0.5 * (env == 1)[:, None], env


# --- by hand --------------------------------------------------------------------------------------------------------
def test_two_rows_against_two_by_hand() -> None:
    z, env = [0.0, 1.0, 2.0, 3.0], list("aabb")
    near, apart = math.exp(-0.5), [math.exp(-(d**2) / 2) for d in (2, 3, 1, 2)]
    across = 2 * sum(apart) / 4
    assert iv.mmd(z, env=env, bandwidth=1.0, **RAW).value == pytest.approx(2 * near - across)
    biased = 2 * (2 + 2 * near) / 4 - across
    assert iv.mmd(z, env=env, bandwidth=1.0, unbiased=False, **RAW).value == pytest.approx(biased)
    assert iv.kmaxic(z, env=env, bandwidth=1.0, **RAW).value == pytest.approx(biased)
    pieces = [2 - 2 * math.exp(-(d**2) / 2) for d in (2, 3, 1, 2)]  # of one row each
    found = iv.subgroup_invariance(z, env=env, bandwidth=1.0, parts=2, **RAW).value
    assert found == pytest.approx(np.mean(np.sqrt(pieces)))


def test_two_normal_laws_have_the_distance_of_the_closed_form(seed: int) -> None:
    """E k = √(σ²/(σ² + s² + t²)) exp(−δ²/(2(σ² + s² + t²))) for normal laws of spreads s and t, δ apart."""
    rng, n, width, shift, spread = np.random.default_rng(seed), 4000, 1.3, 0.7, 1.5
    z = np.concatenate([rng.normal(size=n), shift + spread * rng.normal(size=n)])

    def mean(s: float, t: float, delta: float) -> float:
        total = width**2 + s**2 + t**2
        return width / math.sqrt(total) * math.exp(-(delta**2) / (2 * total))

    expected = mean(1, 1, 0) + mean(spread, spread, 0) - 2 * mean(1, spread, shift)
    found = iv.mmd(z, env=np.repeat(["a", "b"], n), bandwidth=width, **RAW)
    assert found.estimator == "exact"
    assert found.value == pytest.approx(expected, abs=5 * 2 * math.sqrt(expected / n))


def test_rows_and_environments_that_say_the_same_have_a_correlation_of_one() -> None:
    z, env = np.repeat([0.0, 5.0], 10), np.repeat(["a", "b"], 10)
    for unbiased in (True, False):
        assert iv.hsic(z, env=env, bandwidth=1.0, unbiased=unbiased, n_boot=0).value == pytest.approx(1.0)


# --- against loops ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("unbiased", [True, False])
def test_mmd_is_that_of_loops(unbiased: bool, seed: int) -> None:
    Z, env = three(seed)
    k = slow.gaussian(slow.median_distance(Z))
    pairs = slow.pairs_of(Z, env, lambda A, B: slow.mmd2(A, B, k, unbiased))
    found = iv.mmd(Z, env=env, bandwidth="median", unbiased=unbiased, **RAW)
    np.testing.assert_allclose(found.pairs, pairs, rtol=1e-12, atol=1e-14)
    upper = pairs[np.triu_indices(3, 1)]
    assert found.value == pytest.approx(upper.max(), rel=1e-12)
    mean = iv.mmd(Z, env=env, bandwidth="median", unbiased=unbiased, over="mean", **RAW)
    assert mean.value == pytest.approx(upper.mean(), rel=1e-12)
    rest = [slow.mmd2(Z[env == e], Z[env != e], k, unbiased) for e in range(3)]
    assert [each.value for each in found.per_environment.values()] == pytest.approx(rest, rel=1e-10)


def test_the_largest_over_widths_in_units_of_the_kernels_spread(seed: int) -> None:
    Z, env = three(seed)
    widths = slow.median_distance(Z) * np.array([0.25, 0.5, 1, 2, 4])
    kernels = [slow.gaussian(width) for width in widths]
    each = [slow.pairs_of(Z, env, lambda A, B, k=k: slow.mmd2(A, B, k)) / slow.spread(slow.gram(Z, k)) for k in kernels]
    found = iv.mmd(Z, env=env, **RAW)
    np.testing.assert_allclose(found.pairs, np.max(each, axis=0), rtol=1e-9, atol=1e-12)
    assert iv.mmd(Z, env=env, bandwidth=list(widths), **RAW).value == pytest.approx(found.value, rel=1e-12)


@pytest.mark.parametrize(("rows", "counts"), [(4, 0.75), (6, 1.0)])
def test_the_spread_of_a_kernel_of_few_rows_is_a_part_of_the_biased_one(rows: int, counts: float) -> None:
    """Of 3 rows there is no unbiased one; and a kernel that reaches no other row leaves nothing of it."""
    Z, env, width = np.arange(rows)[:, None] * 1.0, np.arange(rows) % 2, 0.05
    least = math.sqrt(0.1) * slow.spread(slow.gram(Z, slow.gaussian(width)), False)
    plain, in_units = (
        iv.mmd(Z, env=env, weight=np.full(rows, counts), bandwidth=widths, unbiased=False, **RAW).value
        for widths in (width, [width, width])
    )
    assert plain == pytest.approx(4 / rows)
    assert in_units == pytest.approx(plain / least, rel=1e-9)


def test_of_two_environments_of_one_size_mmd_and_hsic_are_one_test(seed: int) -> None:
    """Both are unbiased and linear in the sums within, and widths count in the same units."""
    Z, env = three(seed, (30, 30))
    Z[env == 1] += 0.3
    one, other = (each(Z, env=env, scale="none", n_boot=99) for each in (iv.mmd, iv.hsic))
    assert one.pvalue == other.pvalue
    np.testing.assert_allclose(one.null / one.value, other.null / other.value, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unbiased", [True, False])
def test_hsic_is_that_of_loops(unbiased: bool, seed: int) -> None:
    Z, env = three(seed)
    years = np.array([2019, 2021, 2028])[env]
    K = slow.gram(Z, slow.gaussian(slow.median_distance(Z)))
    L = slow.gram(env, lambda a, b: float(a == b))
    found = iv.hsic(Z, env=env, bandwidth="median", unbiased=unbiased, **RAW)
    assert found.value == pytest.approx(slow.hsic(K, L, unbiased), rel=1e-11)
    for e in range(3):
        one = slow.gram(env == e, lambda a, b: float(a == b))
        assert found.per_environment[e].value == pytest.approx(slow.hsic(K, one, unbiased), rel=1e-10)
    near = slow.gram(years[:, None], slow.gaussian(slow.median_distance(years[:, None])))
    numeric = iv.hsic(Z, env=years, env_kernel="gaussian", bandwidth="median", unbiased=unbiased, **RAW)
    assert numeric.value == pytest.approx(slow.hsic(K, near, unbiased), rel=1e-11)
    widths = slow.median_distance(Z) * np.array([0.25, 0.5, 1, 2, 4])
    several = max(slow.hsic(slow.gram(Z, slow.gaussian(width)), L, unbiased) for width in widths)
    assert iv.hsic(Z, env=env, unbiased=unbiased, **RAW).value == pytest.approx(several, rel=1e-11)


def test_kmaxic_is_the_largest_distance_from_the_reference(seed: int) -> None:
    Z, env = three(seed)
    k = slow.gaussian(slow.median_distance(Z))
    pairs = slow.pairs_of(Z, env, lambda A, B: slow.mmd2(A, B, k, unbiased=False))
    assert iv.kmaxic(Z, env=env, **RAW).value == pytest.approx(pairs.max(), rel=1e-11)
    for e in range(3):
        assert iv.kmaxic(Z, env=env, reference=e, **RAW).value == pytest.approx(pairs[e].max(), rel=1e-11)
    with pytest.raises(iv.InputError, match='no environment "9"; there are 0, 1, 2'):
        iv.kmaxic(Z, env=env, reference=9)


def test_subgroups_of_one_part_are_environments(seed: int) -> None:
    Z, env = three(seed)
    k = slow.gaussian(slow.median_distance(Z))
    pairs = slow.pairs_of(Z, env, lambda A, B: math.sqrt(slow.mmd2(A, B, k, unbiased=False)))
    found = iv.subgroup_invariance(Z, env=env, parts=1, **RAW)
    np.testing.assert_allclose(found.pairs, pairs, rtol=1e-10)
    assert found.value == pytest.approx(pairs[np.triu_indices(3, 1)].mean())
    assert found.per_environment[1].value == pytest.approx(pairs[1, [0, 2]].mean())


def test_subgroups_of_one_row_each_are_all_pairs_of_rows(seed: int) -> None:
    Z, env = three(seed, (5, 5))
    k = slow.gaussian(slow.median_distance(Z))
    each = [math.sqrt(2 - 2 * k(a, b)) for a, b in itertools.product(Z[:5], Z[5:])]
    assert iv.subgroup_invariance(Z, env=env, parts=5, **RAW).value == pytest.approx(np.mean(each), rel=1e-10)
    with pytest.raises(iv.InputError, match='environment "0" has 5 rows for 6 parts: give parts=5'):
        iv.subgroup_invariance(Z, env=env, parts=6)


def test_pieces_are_cut_at_random_and_are_of_equal_size(seed: int) -> None:
    Z, env = three(seed, (7, 9))
    deals = Deals.of(sample_of(Z, None, env))
    cuts = [deals.split(3, np.random.default_rng(k)) for k in range(40)]
    for cut in cuts:
        assert sorted(np.bincount(cut.observed).tolist()) == [2, 2, 3, 3, 3, 3]
        assert np.array_equal(np.bincount(cut.codes), np.bincount(cut.observed))
        assert np.array_equal(cut.observed // 3, deals.observed)
    assert len({tuple(cut.observed.tolist()) for cut in cuts}) == 40
    values = [iv.subgroup_invariance(Z, env=env, parts=3, seed=k, n_boot=0).value for k in range(3)]
    assert len(set(values)) == 3


def test_z_and_y_count_alike_however_many_columns_they_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, y, env = rng.normal(size=(30, 4)), rng.normal(size=30), np.repeat([0, 1], 15)
    scaled = [(column - column.mean(axis=0)) / column.std(axis=0) for column in (Z, y[:, None])]
    both = np.hstack([scaled[0], 2 * scaled[1]])
    expected = iv.mmd(both, env=env, bandwidth="median", **RAW).value
    assert iv.mmd(Z, y, env, bandwidth="median", n_boot=0).value == pytest.approx(expected, rel=1e-11)
    plain = iv.mmd(np.column_stack([Z, y]), env=env, bandwidth="median", **RAW).value
    assert iv.mmd(Z, y, env, bandwidth="median", **RAW).value == pytest.approx(plain, rel=1e-11)


# --- chance -----------------------------------------------------------------------------------------------------------
@every_test
def test_the_null_is_that_of_all_deals(name: str, seed: int) -> None:
    """On nine rows every deal can be made: the draws are among them, each as likely as any other."""
    Z, env = three(seed, (4, 5))
    options: dict[str, Any] = {"bandwidth": 1.5, "scale": "none"}
    if name == "subgroup_invariance":
        options["parts"] = 1
    every = np.array([TESTS[name](Z, env=codes, n_boot=0, **options).value for codes in slow.all_deals((4, 5))])
    found = TESTS[name](Z, env=env, n_boot=4000, **options)
    assert np.abs(found.null[:, None] - every).min(axis=1).max() < 1e-9
    share = np.mean(every >= found.value - 1e-12)
    assert found.pvalue == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 4000) + 1e-3)
    counts = np.bincount(np.abs(found.null[:, None] - every).argmin(axis=1), minlength=len(every))
    alike = np.array(
        [counts[np.abs(every - value) < 1e-9].sum() / np.sum(np.abs(every - value) < 1e-9) for value in every]
    )
    assert np.abs(alike - 4000 / 126).max() < 5 * math.sqrt(4000 / 126)


def test_pairs_are_compared_by_dealing_their_own_rows(seed: int) -> None:
    """However far off a third environment is, the p-value of two others is the one they have alone, times three."""
    rng = np.random.default_rng(seed)
    Z, env = rng.normal(size=(90, 2)), np.repeat(list("abc"), 30)
    alone = iv.mmd(Z[:60], env=env[:60], bandwidth=1.0, n_boot=999, scale="none").pvalue
    Z[60:] += 50
    found = iv.mmd(Z, env=env, bandwidth=1.0, scale="none")
    assert found.pair_pvalues[0, 2] == found.pair_pvalues[1, 2] == pytest.approx(0.003)
    assert found.pair_pvalues[0, 1] == pytest.approx(alone, abs=0.08)
    assert np.array_equal(found.pair_pvalues, found.pair_pvalues.T)


def test_two_environments_are_one_pair(seed: int) -> None:
    Z, env = three(seed, (30, 40))
    found = iv.mmd(Z, env=env)
    assert found.pair_pvalues[0, 1] == found.pvalue
    assert iv.mmd(Z, env=env, over="mean").pvalue == found.pvalue


def test_holm_by_hand_and_how_small_p_values_can_be(seed: int) -> None:
    assert holm(np.array([0.02, 0.5, 0.01])) == pytest.approx([0.04, 0.5, 0.03])
    rng = np.random.default_rng(seed)
    found = iv.mmd(rng.normal(size=(70, 1)), env=np.repeat(np.arange(7), 10), n_boot=99)
    assert any("With 21 pairs, 99 draws cannot make the p-value of a pair smaller than 0.21" in n for n in found.notes)


def test_rounding_is_no_difference() -> None:
    assert by_chance(np.array([1.0, 1.0 + 1e-9, 1.0 - 1e-9, 0.0, 2.0])) == pytest.approx(4 / 5)


@every_test
def test_rows_that_are_all_alike_differ_in_nothing(name: str) -> None:
    found = TESTS[name](np.ones((20, 2)), env=list("ab" * 10), n_boot=99)
    assert (found.value, found.pvalue) == (pytest.approx(0.0, abs=1e-9), 1.0)


# --- how it is computed ---------------------------------------------------------------------------------------------
@every_test
def test_panels_and_pieces_of_deals_change_nothing(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Z, env = three(seed, (60, 50, 40))
    whole = TESTS[name](Z, env=env, n_boot=99)
    monkeypatch.setattr(kernel_sums, "PANEL_ROWS", 32)
    monkeypatch.setattr(kernel_sums, "MASSES", 150 * 14 * 64)  # multiples of 64 deals draw alike
    cut = TESTS[name](Z, env=env, n_boot=99)
    assert cut.value == pytest.approx(whole.value, rel=1e-12)
    if name != "subgroup_invariance":
        np.testing.assert_allclose(cut.null[:60], whole.null[:60], rtol=1e-9, atol=1e-12)


@every_test
def test_the_number_of_threads_changes_no_bit(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Z, env = three(seed, (300, 200, 150))
    many = TESTS[name](Z, env=env, n_boot=99)
    monkeypatch.setattr(blocks, "workers", lambda: 1)
    one = TESTS[name](Z, env=env, n_boot=99)
    assert one.value == many.value
    assert np.array_equal(one.null, many.null)


@every_test
def test_single_precision_is_close_enough(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Z, env = three(seed, (120, 90, 80))
    double = TESTS[name](Z, env=env, n_boot=199)
    monkeypatch.setattr(kernel_sums, "DOUBLE", 0)
    single = TESTS[name](Z, env=env, n_boot=199)
    assert single.value == double.value
    assert np.abs(single.null - double.null).max() < kernel_test.TIES * double.null.std()
    assert single.pvalue == double.pvalue


@every_test
def test_random_features_take_over_and_say_so(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Z, env = three(seed, (300, 200, 250))
    exact = TESTS[name](Z, env=env, bandwidth="median", n_boot=199)
    monkeypatch.setattr(kernel_test, "EXACT", 1)
    features = TESTS[name](Z, env=env, bandwidth="median", n_boot=199)
    assert (exact.estimator, features.estimator) == ("exact", "random features")
    assert any("random features" in note for note in features.notes)
    assert features.value == pytest.approx(exact.value, rel=0.15)
    assert features.null.std() == pytest.approx(exact.null.std(), rel=0.35)
    assert abs(features.pvalue - exact.pvalue) < 0.1
    several = TESTS[name](Z, env=env, bandwidth="collection", n_boot=99)
    assert 0 < several.pvalue <= 1
    weighted = TESTS[name](Z, env=env, weight=np.full(len(Z), 1.5), bandwidth="median", n_boot=99)
    assert weighted.value == pytest.approx(exact.value, rel=0.2)


def test_broken_weights_count_rows_in_part(seed: int) -> None:
    Z, env = three(seed, (80, 90))
    half = iv.mmd(Z, env=env, weight=np.full(len(Z), 1.5), unbiased=False, bandwidth=1.0)
    assert half.value == pytest.approx(iv.mmd(Z, env=env, unbiased=False, bandwidth=1.0).value, rel=1e-9)
    assert 0 < half.pvalue <= 1
    with pytest.raises(iv.InputError, match=r'environment "0" counts as 0\.800 rows'):
        iv.mmd(Z, env=env, weight=np.where(env == 0, 0.01, 1.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bandwidth": "wide"}, 'bandwidth "wide" is unknown: use "collection", "median"'),
        ({"bandwidth": [1.0] * 33}, "bandwidth has 33 widths: give at most 32"),
        ({"bandwidth": 0}, "bandwidth is 0: give"),
        ({"over": "sum"}, 'over "sum" is unknown: use "max" or "mean"'),
        ({"scale": "rank"}, 'scale "rank" is unknown: use "spread" or "none"'),
        ({"on": "zy"}, 'on="zy" compares the target'),
        ({"unbiased": 1}, "unbiased is 1: give True or False"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str, seed: int) -> None:
    Z, env = three(seed)
    with pytest.raises(iv.InputError, match=message):
        iv.mmd(Z, env=env, **options)


def test_environments_that_are_no_numbers_lie_nowhere(seed: int) -> None:
    Z, _ = three(seed)
    with pytest.raises(iv.InputError, match='environment "a" is no number: use "delta"'):
        iv.hsic(Z, env=list("ab" * 17), env_kernel="gaussian")


def test_most_rows_alike_and_the_width_is_that_of_the_others() -> None:
    z = np.r_[np.zeros(30), 1.0, 3.0]
    found = iv.kmaxic(z, env=list("ab" * 16), scale="none", n_boot=0)
    assert any("Most rows equal one another" in note for note in found.notes)
    assert "The kernel's width is 2.00." in found.notes  # 1, 2 and 3, thirty times 1 and 3


# --- peers ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("sizes", [(40, 30), (20, 25, 30)])
def test_hsic_is_that_of_hyppo(sizes: tuple[int, ...], seed: int) -> None:
    independence = pytest.importorskip("hyppo.independence", reason="hyppo is not installed")
    Z, env = three(seed, sizes)
    columns = (env[:, None] == np.arange(len(sizes))).astype(float)[:, len(sizes) == 2 :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unbiased = independence.Hsic(bias=False).statistic(Z, columns)
        biased = independence.Hsic(bias=True).statistic(Z, columns)
    ours = [iv.hsic(Z, env=env, bandwidth="median", unbiased=each, **RAW).value for each in (True, False)]
    assert ours == pytest.approx([unbiased, biased**2], rel=0, abs=1e-10)


def test_mmd_is_that_of_hyppo(seed: int) -> None:
    """hyppo's number is its HSIC times 2 n² m² / (n + m)⁴, and HSIC itself that times the biased MMD²."""
    ksample = pytest.importorskip("hyppo.ksample", reason="hyppo is not installed")
    independence = pytest.importorskip("hyppo.independence")
    Z, env = three(seed, (40, 30))
    n, m = 40, 30
    factor = 2 * n**2 * m**2 / (n + m) ** 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = ksample.MMD().statistic(Z[:40], Z[40:])
        biased = independence.Hsic(bias=True).statistic(Z, env[:, None].astype(float)) ** 2
    assert theirs == pytest.approx(iv.hsic(Z, env=env, bandwidth="median", **RAW).value * factor, abs=1e-10)
    k = slow.gaussian(slow.median_distance(Z))
    own = slow.spread(slow.gram(Z, k), False) * slow.spread(slow.gram(env, lambda a, b: float(a == b)), False)
    ours = iv.mmd(Z, env=env, bandwidth="median", unbiased=False, **RAW).value
    assert biased == pytest.approx(ours * factor / own, abs=1e-10)


def test_mmd_is_that_of_alibi_detect(seed: int) -> None:
    distance = pytest.importorskip("alibi_detect.utils.pytorch.distance", reason="alibi-detect is not installed")
    kernels = pytest.importorskip("alibi_detect.utils.pytorch.kernels")
    torch = pytest.importorskip("torch")
    Z, env = three(seed, (40, 30))
    kernel = kernels.GaussianRBF(sigma=torch.tensor([1.3], dtype=torch.float64))
    theirs = distance.mmd2_from_kernel_matrix(kernel(*[torch.as_tensor(Z)] * 2).detach(), 30)
    assert iv.mmd(Z, env=env, bandwidth=1.3, **RAW).value == pytest.approx(float(theirs), abs=1e-10)
