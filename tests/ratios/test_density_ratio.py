"""Density ratios whatever the estimator: the algebra of ratios, alike and disjoint environments, folds, SVD, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import invariscope as iv
from invariscope.ratios.catalogue import ESTIMATORS
from invariscope.ratios.density_ratio import ratio_for
from invariscope.ratios.estimator import Units
from invariscope.rows.environments import Environments

KERNELS = ["ulsif", "rulsif", "kliep", "kmm"]
FITTED_LONG = ("mlp", "forest", "boosting")
FAST = [name for name in ESTIMATORS if name not in FITTED_LONG]
# trees and networks take up to seconds a fit: of the quick tests they are in one, test_the_very_same_rows
every_estimator = pytest.mark.parametrize(
    "estimator", [pytest.param(name, marks=[pytest.mark.slow] * (name in FITTED_LONG)) for name in ESTIMATORS]
)


def three(seed: int, n: int = 150, gap: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat([0, 1, 2], [n, n + 30, n + 60]))
    return rng.normal(size=(len(code), 2)) * (1 + 0.2 * code[:, None]) + gap * code[:, None], np.array(
        ["Bern", "Oslo", "Rome"]
    )[code]


@every_estimator
def test_ratios_compose_exactly(estimator: str, seed: int) -> None:
    X, site = three(seed, gap=0.3 if estimator in KERNELS else 0.6)  # bumps fit pairs apart where means are off
    ratio = iv.density_ratio(X, site, ratio=estimator)
    assert ratio.labels == ("Bern", "Oslo", "Rome")
    assert ratio.description
    new = np.random.default_rng(seed + 1).normal(size=(50, 2))
    for a, b, c in itertools.product(ratio.labels, repeat=3):
        np.testing.assert_allclose(ratio.log(new, a, b) + ratio.log(new, b, c), ratio.log(new, a, c), atol=1e-10)
    np.testing.assert_array_equal(ratio.log(new, "Oslo", "Oslo"), 0.0)
    assert np.isfinite(ratio.log_densities(new)).all()
    assert ratio.at_rows.shape == (len(X), 3)


@every_estimator
def test_a_shift_of_the_mean_is_seen_the_right_way_round(estimator: str, seed: int) -> None:
    """N(0, 1) and N(1, 1): log ratio x − ½, at rows between the means."""
    rng = np.random.default_rng(seed)
    X, code = np.concatenate([rng.normal(size=(1000, 1)), 1 + rng.normal(size=(1000, 1))]), np.repeat([0, 1], 1000)
    grid = np.linspace(-1, 2, 31)[:, None]
    wrong = iv.density_ratio(X, code, ratio=estimator).log(grid, 1, 0) - (grid[:, 0] - 0.5)
    assert np.abs(wrong).mean() < 0.4  # against 0.77 of no ratio at all, and more of one the wrong way round


@every_estimator
def test_environments_that_are_alike_have_ratio_one(estimator: str, seed: int) -> None:
    X, code = np.random.default_rng(seed).normal(size=(1600, 3)), np.repeat([0, 1], 800)
    ratio = iv.density_ratio(X, code, ratio=estimator)
    assert np.abs(ratio.log(X, 0, 1)).mean() < 0.2
    assert ratio.overlap.verdicts == ("good", "good")
    assert np.all(ratio.overlap.effective > 0.8)
    np.testing.assert_allclose(ratio.overlap.mean_ratio, 1.0, atol=0.1)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_very_same_rows_have_ratio_one(estimator: str, seed: int) -> None:
    half = np.random.default_rng(seed).normal(size=(400, 2))
    X, code = np.concatenate([half, half]), np.repeat([0, 1], 400)
    assert np.abs(iv.density_ratio(X, code, ratio=estimator).log(X, 0, 1)).mean() < 0.12


@every_estimator
def test_disjoint_environments_are_reported_and_stay_finite(estimator: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 150)
    X = rng.normal(size=(450, 2)) + np.array([0.0, 0.1, 1000.0])[code][:, None]
    ratio = iv.density_ratio(X, code, ratio=estimator)
    assert np.isfinite(ratio.at_rows).all()
    assert np.isfinite(ratio.overlap.effective).all()
    assert ratio.overlap.pair_verdicts[0][2] == ratio.overlap.pair_verdicts[2][0] == "none"
    if estimator not in KERNELS:  # these compare 0 and 1 through a reference, which may be the one far off
        assert ratio.overlap.pair_verdicts[0][1] == ratio.overlap.pair_verdicts[1][0] == "good"
    assert any("Hardly any overlap" in note and "2" in note for note in ratio.notes)


@every_estimator
def test_the_same_seed_gives_the_same_ratio(estimator: str, seed: int) -> None:
    X, site = three(seed, n=60)
    one, other = (iv.density_ratio(X, site, ratio=estimator, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.at_rows, other.at_rows)
    np.testing.assert_array_equal(one.log(X, "Bern", "Rome"), other.log(X, "Bern", "Rome"))


@pytest.mark.parametrize("estimator", FAST)
def test_folds_judge_rows_by_fits_that_did_not_see_them(estimator: str, seed: int) -> None:
    """Pure noise in many columns: a fit flatters the rows it saw, and not the others."""
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1], 80)
    seen, unseen = np.empty(5), np.empty(5)

    def advantage(ratio: iv.DensityRatio) -> float:
        difference = ratio.at_rows[:, 1] - ratio.at_rows[:, 0]
        return float(difference[code == 1].mean() - difference[code == 0].mean())

    for k in range(5):
        X = rng.normal(size=(160, 15))
        fitted, held_out = (iv.density_ratio(X, code, ratio=estimator, folds=folds) for folds in (0, 5))
        seen[k], unseen[k] = advantage(fitted), advantage(held_out)
    assert seen.mean() > 0.02
    assert unseen.mean() < 0.7 * seen.mean() + 0.05
    np.testing.assert_array_equal(fitted.log(X, 0, 1), held_out.log(X, 0, 1))  # for new rows, all rows are used


def test_folds_may_be_a_whole_number_of_any_kind(seed: int) -> None:
    X, site = three(seed, n=60)
    one, other = (iv.density_ratio(X, site, folds=folds) for folds in (4, np.int64(4)))
    np.testing.assert_array_equal(one.at_rows, other.at_rows)


def test_order_repetition_and_units_of_rows_do_not_matter_even_with_folds(seed: int) -> None:
    X, site = three(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    one = iv.density_ratio(X, site, folds=5)
    other = iv.density_ratio(X[order] * [3.0, 0.1] + [5.0, 1.0], site[order], folds=5)
    np.testing.assert_allclose(other.at_rows, one.at_rows[order], atol=1e-6)
    counts = np.random.default_rng(seed).integers(0, 3, len(X))
    weighted = iv.density_ratio(X, site, weight=counts, folds=5)
    repeated = iv.density_ratio(np.repeat(X, counts, axis=0), np.repeat(site, counts), folds=5)
    copies = np.repeat(np.arange(len(X)), counts)  # copies fall into several folds; a weighted row has their mean
    for e in range(3):
        mean = np.bincount(copies, repeated.at_rows[:, e], minlength=len(X))[counts > 0] / counts[counts > 0]
        np.testing.assert_allclose(weighted.at_rows[counts > 0, e], mean, atol=1e-6)


def test_singular_directions_first(seed: int) -> None:
    """``svd=k`` is the ratio of the first k principal scores."""
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 4)) @ rng.normal(size=(4, 30)) * 3 + rng.normal(size=(600, 30)) * 0.1
    X[code == 1] += 0.5 * X[:1]
    reduced = iv.density_ratio(X, code, svd=4, ratio="gaussian")  # which does not mind the sign of a direction
    centred = X - X.mean(axis=0)
    scores = centred @ np.linalg.svd(centred, full_matrices=False)[2][:4].T
    by_hand = iv.density_ratio(scores, code, ratio="gaussian")
    np.testing.assert_allclose(reduced.log(X, 0, 1), by_hand.log(scores, 0, 1), atol=1e-6)
    assert iv.density_ratio(X, code, svd=100).log(X, 0, 1) == pytest.approx(iv.density_ratio(X, code).log(X, 0, 1))
    with pytest.raises(iv.InputError, match="svd is 0"):
        iv.density_ratio(X, code, svd=0)


def test_any_classifier_will_do(seed: int) -> None:
    X, site = three(seed, n=800)
    found = iv.density_ratio(X, site, ratio=QuadraticDiscriminantAnalysis())
    expected = iv.density_ratio(X, site, ratio="gaussian")
    assert np.abs(found.log(X, "Oslo", "Bern") - expected.log(X, "Oslo", "Bern")).mean() < 0.15
    assert "QuadraticDiscriminantAnalysis" in found.description


def test_a_known_ratio_and_one_fitted_elsewhere(seed: int) -> None:
    X, site = three(seed)
    data = iv.Environments(X, None, site)
    rng = np.random.default_rng(0)
    known = ratio_for(data, lambda x: np.column_stack([x[:, 0], 0 * x[:, 0], x[:, 1]]), rng=rng)
    np.testing.assert_array_equal(known.at_rows, np.column_stack([X[:, 0], 0 * X[:, 0], X[:, 1]]))
    fitted = iv.density_ratio(X, site)
    held = X[:200] + 0.1, site[:200]
    applied = ratio_for(iv.Environments(held[0], None, held[1]), fitted, rng=rng)
    np.testing.assert_allclose(applied.at_rows, fitted.log_densities(held[0]), atol=1e-12)
    with pytest.raises(iv.InputError, match=r"fitted for Bern, Oslo, Rome.*from Bern, Oslo"):
        ratio_for(iv.Environments(X[site != "Rome"], None, site[site != "Rome"]), fitted, rng=rng)
    with pytest.raises(iv.InputError, match=r"shape \(540,\)"):
        ratio_for(data, lambda x: x[:, 0], rng=rng)


def test_mistakes_are_named(seed: int) -> None:
    X, site = three(seed, n=40)
    ratio = iv.density_ratio(X, site)
    with pytest.raises(iv.InputError, match='no environment "Paris": there are Bern, Oslo, Rome'):
        ratio.log(X, "Bern", "Paris")
    with pytest.raises(iv.InputError, match='estimator "forrest" is unknown: there are logistic, '):
        iv.density_ratio(X, site, ratio="forrest")
    with pytest.raises(iv.InputError, match="LinearSVC is no classifier with probabilities"):
        iv.density_ratio(X, site, ratio=LinearSVC())
    with pytest.raises(iv.InputError, match="rows to judge have 3 columns, but the ratio was fitted on 2"):
        ratio.log(np.ones((4, 3)), "Bern", "Oslo")
    with pytest.raises(iv.InputError, match="QuadraticDiscriminantAnalysis cannot be fitted with weights"):
        iv.density_ratio(X, site, ratio=QuadraticDiscriminantAnalysis(), weight=np.ones(len(X)) * 2)
    for folds in (-1, 1, "5"):
        with pytest.raises(
            iv.InputError, match=f"folds is {folds!r}: give 0 for none, or a whole number from 2 to 10,000"
        ):
            iv.density_ratio(X, site, folds=folds)
    with pytest.raises(iv.InputError, match=r"LogisticRegression is a class, .*LogisticRegression\(\)"):
        iv.density_ratio(X, site, ratio=LogisticRegression)
    holes = X[:5].copy()
    holes[2, 1] = np.nan
    with pytest.raises(iv.InputError, match='column "x1" of the rows to judge has missing or infinite values'):
        ratio.log(holes, "Bern", "Oslo")
    with pytest.raises(iv.InputError, match="svd is for ratios that are fitted here"):
        iv.dric(X[:, 0], X, site, baseline=X[:, 1], ratio=ratio, svd=1)


def test_frames_keep_their_order(seed: int) -> None:
    X, site = three(seed)
    frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X))[::-1])
    one, other = iv.density_ratio(frame, pd.Series(site)), iv.density_ratio(X, site)
    np.testing.assert_array_equal(one.log(frame, "Bern", "Oslo"), other.log(X, "Bern", "Oslo"))
    np.testing.assert_array_equal(one.at_rows, other.at_rows)
    np.testing.assert_array_equal(one.log(frame[["b", "a"]], "Bern", "Oslo"), one.log(frame, "Bern", "Oslo"))
    assert repr(one).startswith("<DensityRatio by logistic regression on a ")
    classifier = LogisticRegression()
    assert iv.density_ratio(frame, site, ratio=classifier).at_rows.shape == (len(X), 3)
    assert not hasattr(classifier, "coef_")  # the user's own object is left alone


def test_lost_digits_are_noted() -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(60, 1)), np.repeat(["a", "b"], 30)
    notes = iv.density_ratio(X + 1e15, site).notes
    assert sum(note.startswith('Column "x0" holds numbers near 1e+15 within') for note in notes) == 1
    assert not any("holds numbers near" in note for note in iv.density_ratio(X, site).notes)


@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_centred_and_in_units_of_their_spread(weighted: bool) -> None:
    X = np.array([[1e9, 3.0, 7.0], [1e9 + 2.0, 5.0, 7.0], [1e9 + 4.0, 1.0, 7.0], [1e9 + 6.0, 9.0, 7.0]])
    weight = np.array([1.0, 2.0, 3.0, 1.0]) if weighted else np.ones(4)
    data = Environments(X, None, list("aabb"), weight if weighted else None)
    units = Units.of(data)
    mean = (weight @ X[:, :2]) / weight.sum()
    spread = np.sqrt(weight @ (X[:, :2] - mean) ** 2 / weight.sum())
    assert units.columns.tolist() == [0, 1]  # a constant column says nothing
    np.testing.assert_allclose(units.centre, mean, rtol=1e-15)
    np.testing.assert_allclose(units.scale, spread, rtol=1e-12)
    np.testing.assert_allclose(units.apply(X), (X[:, :2] - mean) / spread, rtol=1e-6, atol=1e-6)


def _hostile(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng, e = np.random.default_rng(0), np.repeat([0, 1], 30)
    X = rng.normal(size=(60, 2))
    if kind.startswith("apart"):
        return X + float(kind.split()[1]) * e[:, None], e
    return {
        "one column apart": (X[:, :1] + 1e6 * e[:, None], e),
        "a constant column": (np.column_stack([X[:, 0], np.full(60, 3.0)]), e),
        "constant": (np.ones((60, 2)), e),
        "repeated rows": (np.repeat(X[:6], 10, axis=0), rng.permutation(e)),
        "two points": (np.ones((60, 2)) * e[:, None], e),
        "one row": (X[:31], np.r_[np.zeros(30), 1]),
        "four rows": (X[:4], np.array([0, 0, 1, 1])),
        "two rows": (X[:2], np.array([0, 1])),
    }[kind]


@pytest.mark.parametrize("folds", [0, 2])
@pytest.mark.parametrize("ratio", ESTIMATORS)
@pytest.mark.parametrize(
    "kind",
    [
        *("apart 1e3", "apart 1e6", "apart 1e12", "one column apart", "a constant column", "constant"),
        *("repeated rows", "two points", "one row", "four rows", "two rows"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_rows_that_share_nothing_or_everything(kind: str, ratio: str, folds: int) -> None:
    """A ratio, or one sentence: no raw error, and no number that is none. What lies apart has no overlap."""
    X, env = _hostile(kind)
    if kind in ("one row", "two rows") or (kind == "four rows" and ratio in ("boosting", "forest")[: 1 + folds]):
        with pytest.raises(iv.InputError, match=r"[Dd]rop it or merge it|Bin it into|or merge them with others"):
            iv.density_ratio(X, env, ratio=ratio, folds=folds)
        return
    found = iv.density_ratio(X, env, ratio=ratio, folds=folds)
    overlap = found.overlap
    for part in (found.at_rows, overlap.effective, overlap.pooled, overlap.mean_ratio, overlap.largest):
        assert np.isfinite(part).all()
    if "apart" in kind:
        assert set(overlap.verdicts) == {"none"}
