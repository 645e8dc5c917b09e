"""An estimator whose ratios have a mean far off 1 is refused; environments that do not overlap are reported."""

from __future__ import annotations

import numpy as np
import pytest

import invariscope as iv
from invariscope.ratios.density_ratio import ratio_for
from invariscope.ratios.overlap import BY_CHANCE, MEAN_TOLERANCE, failed, mean_off, overlap_of
from tests.ratios.test_density_ratio import KERNELS


def spreads(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal laws of spreads 1, 1.3 and 1.6 in ten columns."""
    rng, spread = np.random.default_rng(seed), np.array([1.0, 1.3, 1.6])
    return np.repeat(spread, n)[:, None] * rng.standard_normal((3 * n, 10)), np.repeat(spread, n)


def heavy(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Alike, and of tails that no normal law has."""
    return np.random.default_rng(seed).standard_t(1.5, size=(600, 2)), np.repeat(["Bern", "Oslo", "Rome"], 200)


@pytest.mark.parametrize("estimator", KERNELS)
@pytest.mark.parametrize("n", [200, 500])
def test_means_are_within_tolerance_where_a_joint_reference_fails(estimator: str, n: int, seed: int) -> None:
    X, env = spreads(seed, n)
    ratio = iv.density_ratio(X, env, ratio=estimator)
    means = ratio.overlap.mean_ratio
    assert np.all((means <= MEAN_TOLERANCE) & (means >= 1.0 / MEAN_TOLERANCE))
    asked = iv.density_ratio(X, env, ratio=estimator, pairwise=True)
    assert np.all(np.abs(asked.overlap.mean_ratio - 1.0) < 0.5)
    if estimator in ("ulsif", "kmm"):  # RuLSIF's ratio to a mixture has mean 1, KLIEP's before some are cut off
        np.testing.assert_allclose(asked.overlap.mean_ratio, 1.0, atol=1e-6)
    if ratio.pairwise:
        assert ratio.notes[0].startswith("Every pair was fitted directly: through one reference the ratio of ")


def test_a_joint_reference_does_fail_there() -> None:
    """Else nothing above is tested: at 500 rows the mean of KMM is 67 through one reference."""
    X, env = spreads(0, 500)
    ratio = iv.density_ratio(X, env, ratio="kmm")
    assert ratio.pairwise
    assert "the ratio of 1.6 to 1.3 has the mean 67.1 over the rows of 1.3, where a ratio has 1" in ratio.notes[0]


def test_a_failed_estimator_is_refused_with_pair_mean_tolerance_and_remedy() -> None:
    X, site = heavy(0)
    with pytest.raises(iv.InputError) as refusal:
        iv.density_ratio(X, site, ratio="gaussian")
    fitted = ratio_for(iv.Environments(X, None, site), "gaussian", rng=np.random.default_rng(0), refuse_failed=False)
    a, b = np.unravel_index(np.argmax(fitted.overlap.mean_ratio), (3, 3))
    assert fitted.failed[a, b]
    first, second = fitted.labels[a], fitted.labels[b]
    assert f'"gaussian" fails on these rows: the ratio of {first} to {second} has the mean ' in str(refusal.value)
    assert "off by more than the tolerance of a factor 2. Use ratio=" in str(refusal.value)
    assert any(note.startswith("The estimator has failed: the ratio of ") for note in fitted.notes)
    assert not any("overlap" in note for note in fitted.notes)  # these rows overlap: nothing is said of them
    with pytest.raises(iv.InputError, match='"gaussian" fails on these rows'):
        iv.dric(X[:, 0], X, site, baseline=X[:, 1], ratio="gaussian", n_boot=0)
    assert iv.density_ratio(X, site).overlap.verdicts == ("good", "good", "good")


def test_the_transport_gap_leaves_out_pairs_on_which_the_estimator_failed() -> None:
    X, site = heavy(0)
    y = np.tanh(X[:, 0]) + np.random.default_rng(1).normal(size=600)
    result = iv.transport_gap(X, y, site, ratio="gaussian", n_boot=0)
    note = next(note for note in result.notes if note.startswith("No gap where the estimator of the density ratio"))
    options = {"rng": np.random.default_rng(0), "refuse_failed": False}
    wrong = ratio_for(iv.Environments(X, None, site), "gaussian", **options).failed
    assert wrong.any()
    assert np.isnan(result.pairs[wrong]).all()
    assert "under the relation of" in note
    assert "Another ratio= or fewer columns may settle it" in note
    assert np.isfinite(iv.transport_gap(X, y, site, n_boot=0).pairs).all()


@pytest.mark.parametrize("gap", [3.0, 20.0, 1000.0])
@pytest.mark.parametrize("options", [{}, {"folds": 5}, {"pairwise": True}], ids=["joint", "folds", "pairs"])
def test_absent_overlap_is_reported_and_not_refused(gap: float, options: dict, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 150)
    X = rng.normal(size=(450, 3)) + np.array([0.0, 0.1, gap])[code][:, None]
    ratio = iv.density_ratio(X, code, **options)
    assert ratio.overlap.pair_verdicts[0][2] == ratio.overlap.pair_verdicts[2][0] == "none"
    assert any("Hardly any overlap" in note for note in ratio.notes)
    assert not ratio.failed.any()


@pytest.mark.parametrize(
    ("ratios", "wrong"),
    [
        (np.full(200, 2.5), True),  # every row likelier elsewhere than where it comes from
        (np.full(200, 1.9), False),
        (np.full(200, 0.4), True),  # overlaps, all rows alike
        (np.full(200, 0.6), False),
        (np.full(200, 1e-6), False),  # no overlap
        (np.r_[np.ones(199), 400.0], False),  # one row, by chance
        (np.r_[np.ones(199), 200 * BY_CHANCE], True),  # no chance
        (np.r_[np.ones(190), np.full(10, 60.0)], True),
    ],
)
def test_what_counts_as_failure(ratios: np.ndarray, wrong: bool) -> None:
    """The ratio of a to b at the rows of b; that of b to a is 1 throughout."""
    scores = np.zeros((400, 2))
    scores[200:, 0] = np.log(ratios)
    data = iv.Environments(np.arange(400.0)[:, None], None, np.repeat(["a", "b"], 200))
    overlap = overlap_of(data, scores, backward=np.zeros((400, 2)))
    assert failed(overlap).tolist() == [[False, wrong], [False, False]]
    off = mean_off(overlap)
    assert bool(off) == bool(ratios.mean() > 2 or ratios.mean() < 0.5)
    if off:
        assert off.startswith("the ratio of a to b has the mean ")


def test_a_ratio_from_elsewhere_is_not_refused(seed: int) -> None:
    """Rows it was not fitted on may be others: what its mean says is told of the rows."""
    X, code = np.random.default_rng(seed).normal(size=(400, 1)), np.repeat([0, 1], 200)
    known = {"ratio": lambda x: np.column_stack([3 + 0 * x, 0 * x]), "overlap": "ignored"}
    result = iv.dric(X[:, 0], X, code, baseline=X[:, 0] + 1, **known)
    assert np.isfinite(result.value)
    assert any("the mean of the ratio is 20" in note for note in result.notes)


def test_rows_of_a_lie_in_reach_by_the_ratio_that_is_used_there() -> None:
    """Fitted apart, the ratio to b has mean 1 at the rows of b even where bumps of a only graze them: they are all
    alike there, as if all were in reach. The ratio fitted the other way knows better."""
    data = iv.Environments(np.arange(40.0)[:, None], None, np.repeat(["a", "b"], 20))
    flat = np.zeros((40, 2))
    assert overlap_of(data, flat).pair_verdicts[0][1] == "good"
    apart = np.where(np.repeat([0, 1], 20)[:, None] == [[0, 1]], 0.0, -20.0)
    assert overlap_of(data, flat, backward=apart).pair_verdicts[0][1] == "none"


@pytest.mark.parametrize("estimator", KERNELS)
def test_kernels_fitted_apart_see_that_environments_lie_apart(estimator: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    code = np.repeat([0, 1, 2], 100)
    X = rng.normal(size=(300, 2)) + np.array([0.0, 0.1, 1000.0])[code][:, None]
    overlap = iv.density_ratio(X, code, ratio=estimator, pairwise=True).overlap
    for pair in ((0, 2), (1, 2), (2, 0), (2, 1)):
        assert overlap.pair_verdicts[pair[0]][pair[1]] == "none"
    assert overlap.pair_verdicts[0][1] == overlap.pair_verdicts[1][0] == "good"


def test_the_published_number_is_to_be_had_where_a_ratio_has_failed() -> None:
    """With ``overlap="ignored"``, which nobody writes by mistake."""
    X, site = heavy(0)
    given = {"baseline": X[:, 1], "ratio": "gaussian", "n_boot": 0}
    with pytest.raises(iv.InputError, match='"gaussian" fails on these rows'):
        iv.dric(X[:, 0], X, site, **given)
    found = iv.dric(X[:, 0], X, site, **given, overlap="ignored")
    assert np.isfinite(found.value)
    assert any("The estimator has failed" in note for note in found.notes)
