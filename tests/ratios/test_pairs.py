"""One fit for every pair: equation 10 to the letter, and kernels in the direction in which a pair is used."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import invariscope as iv
from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.pairs import SURE
from invariscope.ratios.plain_logistic import fit_plain_logistic
from tests.ratios.test_density_ratio import KERNELS, three
from tests.reference import ratios as slow


def exact(penalty: float = 1.0) -> LogisticRegression:
    """scikit-learn's default model, solved to the last digits."""
    return LogisticRegression(C=1.0 / penalty, tol=1e-14, max_iter=10_000, solver="newton-cholesky")


def by_sklearn(classifier):
    """p̂(first | x) of a fresh classifier, for the slow loops."""

    def probability(rows: list, is_first: list) -> list:
        model = type(classifier)(**classifier.get_params()).fit(np.array(rows), np.array(is_first))
        return list(model.predict_proba(np.array(rows))[:, 1])

    return probability


def by_newton(rows: list, is_first: list) -> list:
    weight, bias = slow.plain_logistic(rows, is_first)
    return [1.0 / (1.0 + np.exp(-(np.dot(weight, x) + bias))) for x in rows]


def test_two_environments_are_equation_ten_of_scikit_learns_logistic_regression(seed: int) -> None:
    """On columns of any unit and place: the penalty is that of the columns as they are."""
    rng = np.random.default_rng(seed)
    site = rng.permutation(np.repeat(["Bern", "Oslo"], [300, 500]))
    X = (rng.normal(size=(800, 3)) + 0.5 * (site == "Oslo")[:, None]) * [1.0, 0.2, 30.0] + [0.0, 5.0, 100.0]
    ratio = iv.density_ratio(X, site, pairwise=True)
    p = exact().fit(X, site == "Bern").predict_proba(X)[:, 1]
    by_hand = np.log(500 * p / (300 * (1 - p)))  # eq. 10
    np.testing.assert_allclose(ratio.log(X, "Bern", "Oslo"), by_hand, atol=1e-10)
    np.testing.assert_array_equal(ratio.log(X, "Oslo", "Bern"), -ratio.log(X, "Bern", "Oslo"))
    np.testing.assert_allclose(ratio.at_rows[site == "Oslo", 0], by_hand[site == "Oslo"], atol=1e-10)
    np.testing.assert_allclose(ratio.at_rows[site == "Bern", 1], -by_hand[site == "Bern"], atol=1e-10)
    unpenalised = exact(1e-9).fit(X, site == "Bern").predict_proba(X)[:, 1]
    assert (
        np.abs(by_hand - np.log(500 * unpenalised / (300 * (1 - unpenalised)))).max() > 1e-4
    )  # it is no other penalty


@pytest.mark.parametrize("weighted", [False, True])
def test_plain_logistic_has_no_gradient_left(weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(90, 2)) * [1.0, 50.0], rng.integers(1, 4, 90).astype(float) if weighted else None
    fit = fit_plain_logistic(GroupedRows(X, np.array([0, 30, 90]), weight))
    y, counts = np.repeat([0.0, 1.0], [30, 60]), np.ones(90) if weight is None else weight
    rest = counts * (1 / (1 + np.exp(-(X @ fit.weight + fit.bias))) - y)
    np.testing.assert_allclose(rest @ X + fit.weight, 0.0, atol=1e-8)
    assert rest.sum() == pytest.approx(0.0, abs=1e-9)


def test_separated_environments_have_finite_ratios(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(200, 2))
    ratio = iv.density_ratio(X + 50.0 * (np.arange(200) > 99)[:, None], np.arange(200) > 99, pairwise=True)
    assert np.isfinite(ratio.at_rows).all()
    assert ratio.overlap.verdicts == ("none", "none")
    assert ratio.accuracy == 1.0


@pytest.mark.parametrize(
    ("ratio", "probability"),
    [("logistic", by_newton), (GaussianNB(), by_sklearn(GaussianNB())), (exact(), by_sklearn(exact()))],
    ids=["logistic", "naive Bayes", "scikit-learn"],
)
def test_ratios_and_the_criterion_equal_the_loops(ratio: object, probability, seed: int) -> None:
    X, site = three(seed, n=30)
    f, baseline = np.tanh(X[:, 0]), X @ [1.0, 0.5]
    labels = ["Bern", "Oslo", "Rome"]
    found = iv.density_ratio(X, site, ratio=ratio, pairwise=True)
    expected = slow.pairwise_log_ratios(X.tolist(), site.tolist(), labels, probability)
    for (a, first), (b, second) in itertools.permutations(enumerate(labels), 2):
        np.testing.assert_allclose(found.at_rows[site == second, a], expected[first, second], atol=1e-8)
        np.testing.assert_allclose(found.log(X[site == second], first, second), expected[first, second], atol=1e-8)
        np.testing.assert_array_equal(found.log_ratios(X, second)[:, a], found.log(X, first, second))
        np.testing.assert_allclose(found.overlap.mean_ratio[a, b], np.exp(expected[first, second]).mean(), rtol=1e-8)
    result = iv.dric(f, X, site, baseline=baseline, ratio=ratio, pairwise=True, n_boot=0)
    loops = slow.pairwise_dric(f.tolist(), baseline.tolist(), X.tolist(), site.tolist(), labels, probability)
    assert result.value == pytest.approx(loops, rel=1e-7)
    assert result.value != pytest.approx(iv.dric(f, X, site, baseline=baseline, ratio=ratio, n_boot=0).value, rel=1e-3)


def test_one_fit_is_what_it_was_whatever_is_asked_of_pairs(seed: int) -> None:
    """The default path: differences of the same log densities, to the last digit."""
    X, site = three(seed)
    ratio = iv.density_ratio(X, site)
    scores = ratio.log_densities(X)
    np.testing.assert_array_equal(ratio.at_rows, scores)
    np.testing.assert_array_equal(ratio.log(X, "Bern", "Rome"), scores[:, 0] - scores[:, 2])
    np.testing.assert_array_equal(ratio.log_ratios(X, "Oslo"), scores - scores[:, [1]])
    assert not ratio.pairwise


def test_a_classifier_sees_the_columns_as_they_are(seed: int) -> None:
    X, site = three(seed, n=40)
    X = np.column_stack([1e3 * X[:, 0], X[:, 1] + 7.0, np.ones(len(X))])  # a constant column stays
    seen = []

    class Spy(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            seen.append((np.array(X), np.array(y)))
            return super().fit(X + 1e-9 * np.arange(len(X))[:, None], y, sample_weight)

    iv.density_ratio(X, site, ratio=Spy(), pairwise=True)
    assert len(seen) == 3
    np.testing.assert_array_equal(seen[1][0], np.vstack([X[site == "Bern"], X[site == "Rome"]]))


def test_a_tree_that_knows_its_rows_by_heart_has_finite_ratios_and_says_so(seed: int) -> None:
    X, site = three(seed, n=60)
    ratio = iv.density_ratio(X, site, ratio=DecisionTreeClassifier(), pairwise=True)
    assert np.isfinite(ratio.at_rows).all()
    assert np.abs(ratio.at_rows).max() <= -np.log(SURE) + 1.0
    assert any("certain of the environment (p̂ is 0 or 1) for up to 100 % of the rows" in note for note in ratio.notes)
    assert ratio.accuracy == 1.0
    held_out = iv.density_ratio(X, site, ratio=DecisionTreeClassifier(max_depth=2), pairwise=True, folds=5)
    assert held_out.accuracy_held_out < held_out.accuracy < 1.0


def test_pairs_need_not_agree_and_have_no_log_densities(seed: int) -> None:
    X, site = three(seed)
    ratio = iv.density_ratio(X, site, pairwise=True)
    assert ratio.pairwise
    around = ratio.log(X, "Bern", "Oslo") + ratio.log(X, "Oslo", "Rome") - ratio.log(X, "Bern", "Rome")
    assert np.abs(around).max() > 1e-3
    np.testing.assert_array_equal(ratio.log(X, "Oslo", "Oslo"), 0.0)
    with pytest.raises(iv.InputError, match=r"has no log densities .* call log\(X, e, e2\) for a pair"):
        ratio.log_densities(X)
    with pytest.raises(iv.InputError, match="pairwise is for ratios that are fitted here"):
        iv.dric(X[:, 0], X, site, baseline=X[:, 1], ratio=ratio, pairwise=True)
    given = iv.dric(X[:, 0], X, site, baseline=X[:, 1], ratio=ratio, n_boot=19)
    assert given.value == iv.dric(X[:, 0], X, site, baseline=X[:, 1], pairwise=True, n_boot=0).value


def test_bootstrap_and_shuffles_refit_the_pairs(seed: int) -> None:
    X, site = three(seed, n=60)
    result = iv.dric(X[:, 0], X, site, baseline=X[:, 1], pairwise=True, n_boot=19, seed=seed)
    assert len(result.null) == 19
    assert result.interval[0] < result.interval[1]
    assert len(np.unique(result.null_numerator)) == 19


@pytest.mark.parametrize("ratio", ["logistic", GaussianNB()], ids=["logistic", "naive Bayes"])
def test_again_fits_the_pairs_of_other_rows(ratio: object, seed: int) -> None:
    X, site = three(seed, n=60)
    order = np.argsort(site, kind="stable")
    offsets = np.array([0, 60, 150, 270])
    kept = np.random.default_rng(seed).random(270) < 0.5
    some = GroupedRows(X[order], offsets).take(kept)
    again = iv.density_ratio(X, site, ratio=ratio, pairwise=True)._fit.again(some)
    fresh = iv.density_ratio(some.X, np.array(["Bern", "Oslo", "Rome"])[some.codes], ratio=ratio, pairwise=True)
    for a, b in itertools.permutations(range(3), 2):
        np.testing.assert_allclose(again.log_ratio(X, a, b), fresh._fit.log_ratio(X, a, b), atol=1e-9)


@pytest.mark.parametrize("estimator", ["logistic", "gaussian", pytest.param("mlp", marks=pytest.mark.slow), *KERNELS])
def test_known_normal_laws(estimator: str, seed: int) -> None:
    """Means 0, 0.4, 0.8, spread 1, one column: log ρ_{a,b} = (m_a − m_b) x − (m_a² − m_b²) / 2."""
    rng = np.random.default_rng(seed)
    means, code = np.array([0.0, 0.4, 0.8]), np.repeat([0, 1, 2], 800)
    x = means[code] + rng.normal(size=2400)
    ratio = iv.density_ratio(x[:, None], code, ratio=estimator, pairwise=True)
    grid = np.linspace(-1.0, 1.8, 29)
    for a, b in itertools.permutations(range(3), 2):
        truth = (means[a] - means[b]) * grid - (means[a] ** 2 - means[b] ** 2) / 2
        assert np.abs(ratio.log(grid[:, None], a, b) - truth).mean() < 0.2
    assert np.abs(ratio.overlap.mean_ratio - 1.0).max() < 0.25


@pytest.mark.parametrize("estimator", ["logistic", *KERNELS])
def test_weights_count_rows(estimator: str, seed: int) -> None:
    X, site = three(seed, n=40)
    weight = np.random.default_rng(seed).integers(0, 3, len(X))
    weighted = iv.density_ratio(X, site, weight=weight, ratio=estimator, pairwise=True)
    repeated = iv.density_ratio(np.repeat(X, weight, axis=0), np.repeat(site, weight), ratio=estimator, pairwise=True)
    np.testing.assert_allclose(weighted.log(X, "Bern", "Rome"), repeated.log(X, "Bern", "Rome"), atol=1e-5)
    np.testing.assert_allclose(weighted.overlap.mean_ratio, repeated.overlap.mean_ratio, rtol=1e-5)
    assert weighted.accuracy == pytest.approx(repeated.accuracy)
    assert weighted.at_rows.shape == (len(X), 3)
