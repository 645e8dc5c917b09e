"""How often ratios guess the environment, which Tables 5 and 6 of the DRIC paper print."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

import invariscope as iv
from invariscope.ratios.accuracy import largest_share, share_guessed, shares_guessed_of_pairs
from invariscope.ratios.catalogue import ESTIMATORS
from invariscope.ratios.estimator import GroupedRows
from tests.ratios.test_density_ratio import FITTED_LONG, three


def test_by_hand() -> None:
    """Environments of 1, 1 and 2 rows: p(e | x) ∝ n_e p_e(x)."""
    rows = GroupedRows(np.zeros((4, 1)), np.array([0, 1, 2, 4]))
    scores = np.log(
        [
            [4.0, 1.0, 1.0],  # 4, 1, 2: right
            [1.0, 3.0, 2.0],  # 1, 3, 4: wrong, right against the first
            [1.0, 1.0, 1.0],  # 1, 1, 2: right
            [4.0, 1.0, 1.5],  # 4, 1, 3: wrong, right against the second
        ]
    )
    assert share_guessed(rows, scores) == 2 / 4
    expected = [[math.nan, 2 / 2, 2 / 3], [1.0, math.nan, 2 / 3], [2 / 3, 2 / 3, math.nan]]
    np.testing.assert_allclose(shares_guessed_of_pairs(rows, scores), expected)
    weighted = GroupedRows(rows.X, rows.offsets, np.array([2.0, 2.0, 1.0, 3.0]))
    # log of the rows each environment stands for: 2, 2, 4, the same shares
    assert share_guessed(weighted, scores) == pytest.approx(3 / 8)
    np.testing.assert_allclose(shares_guessed_of_pairs(weighted, scores)[0, 2], 3 / 6)
    assert share_guessed(rows, np.zeros((4, 3))) == 2 / 4
    tied = GroupedRows(np.zeros((4, 1)), np.array([0, 2, 4]))
    assert share_guessed(tied, np.zeros((4, 2))) == 0.5
    assert shares_guessed_of_pairs(tied, np.zeros((4, 2)))[0, 1] == 0.5
    assert largest_share(np.array([1.0, 1.0, 2.0]), pairwise=False) == 0.5
    assert largest_share(np.array([1.0, 1.0, 2.0]), pairwise=True) == pytest.approx((1 / 2 + 2 / 3 + 2 / 3) / 3)


def test_pairs_have_the_accuracy_of_their_classifiers(seed: int) -> None:
    X, site = three(seed)
    ratio = iv.density_ratio(X, site, ratio=LogisticRegression(), pairwise=True)
    found = []
    for a, b in ((0, 1), (0, 2), (1, 2)):
        both = (site == ratio.labels[a]) | (site == ratio.labels[b])
        found.append(LogisticRegression().fit(X[both], site[both]).score(X[both], site[both]))
        assert ratio.pair_accuracy[a, b] == ratio.pair_accuracy[b, a] == pytest.approx(found[-1], abs=1e-12)
    assert ratio.accuracy == pytest.approx(np.mean(found))
    assert np.isnan(np.diag(ratio.pair_accuracy)).all()
    assert math.isnan(ratio.accuracy_held_out)


@pytest.mark.parametrize("estimator", [name for name in ESTIMATORS if name not in FITTED_LONG])
def test_two_normal_laws_are_guessed_as_often_as_they_can_be(estimator: str, seed: int) -> None:
    """N(0, 1) and N(2, 1): Φ(1) = 0.841 of the rows."""
    rng = np.random.default_rng(seed)
    X, code = rng.normal(size=(4000, 1)), np.repeat([0, 1], 2000)
    ratio = iv.density_ratio(X + 2.0 * code[:, None], code, ratio=estimator)
    assert ratio.accuracy == pytest.approx(0.841, abs=0.025)
    assert ratio.chance == 0.5
    assert ratio.accuracy == pytest.approx(ratio.pair_accuracy[0, 1])
    assert f"environments guessed {ratio.accuracy:.3g} (chance 0.5)" in repr(ratio)


def test_held_out_rows_are_guessed_less_often(seed: int) -> None:
    """Noise in many columns: what is guessed of rows that were seen is flattery."""
    X, code = np.random.default_rng(seed).normal(size=(240, 20)), np.repeat([0, 1], 120)
    ratio = iv.density_ratio(X, code, folds=5)
    assert ratio.accuracy > 0.55
    assert ratio.accuracy_held_out < ratio.accuracy - 0.03
    assert math.isnan(iv.density_ratio(X, code).accuracy_held_out)
    assert f"(held out {ratio.accuracy_held_out:.3g}, chance 0.5)" in repr(ratio)
    classifier = iv.density_ratio(X, code, ratio=QuadraticDiscriminantAnalysis())  # which always holds rows out
    assert classifier.accuracy > classifier.accuracy_held_out + 0.1


def test_an_accuracy_that_cannot_be_had_is_not_a_number_and_says_why() -> None:
    X, code = np.arange(40.0)[:, None], np.repeat([0, 1], 20)
    scores = np.where(X == 3.0, np.nan, 0.0) + np.zeros((40, 2))
    from invariscope.ratios.accuracy import Guesses

    guesses = Guesses.of(GroupedRows(X, np.array([0, 20, 40])), scores, None, False)
    assert math.isnan(guesses.accuracy)
    assert guesses.notes == ("No accuracy: the ratio is no number at some of the rows.",)
    assert code.sum() == 20
