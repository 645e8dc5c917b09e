"""Two environments that drift apart: shared mass, density ratio and effective sample size, by integration."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import norm, uniform

from invariscope.datasets.synthetic.overlap import ENTRY, LogRatio, overlap_dial
from invariscope.errors import InputError


def densities(data, law, z):
    """p_A and p_B of the first column, written down from the definition."""
    shift = data.truth["shift"]
    if law == "uniform":
        return uniform(0, 1).pdf(z), uniform(shift, 1).pdf(z)
    return norm(-shift / 2, 1).pdf(z), norm(shift / 2, 1).pdf(z)


@pytest.mark.parametrize(("law", "overlap"), [("uniform", 0.0), ("uniform", 0.3), ("uniform", 1.0), ("normal", 0.02),
                                              ("normal", 0.6), ("normal", 1.0)])  # fmt: skip
def test_truths_by_integration(law, overlap):
    data = overlap_dial(overlap, n=10, law=law)
    step = 1e-4
    z = np.arange(-12, 12, step) + step / 2
    a, b = densities(data, law, z)
    assert np.sum(np.minimum(a, b)) * step == pytest.approx(overlap, abs=2e-4)
    for rows, others in ((b, a), (a, b)):  # ratio others/rows on rows: the same numbers in both directions
        ratio = np.divide(others, rows, out=np.zeros_like(rows), where=rows > 0)
        mean, square = np.sum(ratio * rows) * step, np.sum(ratio**2 * rows) * step
        assert data.truth["mean_ratio"] == pytest.approx(mean, abs=2e-4)
        assert data.truth["effective_share"] == pytest.approx(mean**2 / square if square > 0 else 0.0, abs=3e-4)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(a) - np.log(b)
    inside = (a > 1e-300) & (b > 1e-300) if law == "normal" else a + b > 0
    found = data.truth["log_ratio"](z[:, None], "A", "B")
    np.testing.assert_allclose(found[inside], expected[inside], atol=1e-9)
    np.testing.assert_allclose(data.truth["log_ratio"](z[:, None], "B", "A")[inside], -expected[inside], atol=1e-9)


def test_normal_shift_by_hand():
    """Means one spread to each side of the middle share 2 Φ(−1) = 0.3173 of their mass."""
    truth = overlap_dial(2 * norm.cdf(-1.0), n=5, law="normal").truth
    assert truth["shift"] == pytest.approx(2.0, abs=1e-9)
    assert truth["effective_share"] == pytest.approx(np.exp(-4.0), rel=1e-8)
    assert overlap_dial(1.0, n=5, law="normal").truth["shift"] == 0


def test_ratio_at_the_ends_of_the_supports():
    ratio = LogRatio("uniform", 0.75)
    z = np.array([[-0.1], [0.0], [0.74], [0.8], [1.0], [1.01], [1.75], [1.8]])
    expected = [np.nan, np.inf, np.inf, 0.0, 0.0, -np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(ratio(z, "A", "B"), expected)
    np.testing.assert_array_equal(ratio(z[1:5], "A", "A"), 0.0)
    with pytest.raises(InputError, match='"A" or "B"'):
        ratio(z, "A", "C")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ratio))(z, "A", "B"), expected)


def test_no_row_lies_where_its_own_density_is_zero(seed):
    for overlap in (0.0, 0.4, 1.0):
        data = overlap_dial(overlap, n=500, seed=seed)
        for own, other in (("A", "B"), ("B", "A")):
            ratio = data.truth["log_ratio"](data.X[data.env == own], own, other)
            assert np.all(ratio >= 0)  # 0 or +inf; never −inf or NaN
            share = np.mean(ratio == 0)
            assert (share == overlap) if overlap in (0, 1) else abs(share - overlap) < 5.5 * np.sqrt(0.24 / 500)


@pytest.mark.parametrize("law", ["uniform", "normal"])
@pytest.mark.parametrize(("task", "classes"), [("binary", 2), ("multiclass", 3)])
def test_every_class_is_common_in_both(law, task, classes, seed):
    data = overlap_dial(0.1, n=2_000, d=4, law=law, task=task, seed=seed)
    for label in ("A", "B"):
        shares = np.bincount(data.y[data.env == label], minlength=classes) / 2_000
        assert len(shares) == classes
        assert shares.min() > 0.005


def test_shapes_and_labels():
    data = ENTRY.load(0.5, n=(10, 20), d=3)
    assert data.X.shape == (30, 3)
    assert data.env.tolist() == ["A"] * 10 + ["B"] * 20
    assert data.invariant == (0, 1, 2)
    assert data.truth["regret"] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"overlap": -0.1}, "from 0 .* to 1"),
        ({"overlap": 1.1}, "from 0 .* to 1"),
        ({"overlap": np.nan}, "from 0 .* to 1"),
        ({"overlap": 0.0, "law": "normal"}, 'use law="uniform", or a number above 0'),
        ({"law": "cauchy"}, '"uniform" or "normal"'),
        ({"d": 0}, "give a whole number from 1"),
        ({"task": "ranking"}, '"regression", "binary", "classification" or "multiclass"'),
        ({"n": (1, 2, 3)}, "each of 2 environments"),
    ],
)
def test_impossible_requests_are_refused_in_words(options, words):
    with pytest.raises(InputError, match=words):
        overlap_dial(**options)
