"""What all kernel estimators share, and the laws that each must obey."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.datasets.synthetic.overlap import overlap_dial
from invariscope.ratios.density_ratio import density_ratio
from invariscope.ratios.estimator import Estimator, GroupedRows
from invariscope.ratios.kernels import (
    CENTRES,
    SMALLEST,
    Bumps,
    Sample,
    absolute,
    best_width,
    centres_of,
    nonnegative_minimum,
    paired_folds,
    root_of,
    squared_distances,
    typical_distance,
    widest,
)
from invariscope.ratios.kliep import fit_kliep
from invariscope.ratios.least_squares import fit_kmm, fit_rulsif, fit_ulsif
from tests.reference import kernel_ratios as reference

ESTIMATORS = [fit_ulsif, fit_rulsif, fit_kliep, fit_kmm]
every_estimator = pytest.mark.parametrize("fit", ESTIMATORS)


def rows_from(*parts: np.ndarray) -> GroupedRows:
    sizes = [len(part) for part in parts]
    return GroupedRows(np.vstack(parts), np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp))


def test_features_by_hand(seed: int) -> None:
    found = Bumps(np.array([[0.0, 0.0], [3.0, 4.0]]), 5.0).features(np.array([[0.0, 0.0]]))
    np.testing.assert_allclose(found, [[1.0, np.exp(-0.5)]], rtol=1e-14)
    rng = np.random.default_rng(seed)
    X, centres = rng.normal(size=(30, 3)), rng.normal(size=(7, 3))
    np.testing.assert_allclose(Bumps(centres, 0.8).features(X), reference.features(X, centres, 0.8), rtol=1e-11)


def test_nonnegative_minimum(seed: int) -> None:
    np.testing.assert_allclose(nonnegative_minimum(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0])), [0.5, 0])
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(12, 8))
    quadratic, linear = root.T @ root, rng.normal(size=8)
    expected = reference.minimum(quadratic, linear)
    np.testing.assert_allclose(nonnegative_minimum(quadratic, linear), expected, atol=1e-8)


def test_relative_ratios_and_back() -> None:
    p, q = np.array([0.1, 1.0, 3.0]), np.array([2.0, 1.0, 0.5])
    np.testing.assert_allclose(absolute(p / (0.1 * p + 0.9 * q), 0.1), p / q, rtol=1e-12)
    assert np.isfinite(absolute(np.array([10.0, 11.0]), 0.1)).all()


@pytest.mark.parametrize("best", [-5.5, -2.25, 0.5, 3.0])
def test_best_width(best: float) -> None:
    tried = []

    def score(width: float) -> float:
        tried.append(width)
        return float((np.log2(width / 3.0) - best) ** 2)

    assert best_width(score, 3.0) == pytest.approx(3.0 * 2.0**best)
    assert len(tried) < 15


def test_rows_drawn_do_not_depend_on_order_or_on_how_repetition_is_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, count = rng.normal(size=(400, 2)), rng.integers(1, 4, 400)
    order = rng.permutation(400)
    weighted = Sample(X[order], count[order].astype(float)).thinned(100, np.random.default_rng(7))
    repeated = Sample(np.repeat(X, count, axis=0), np.ones(count.sum())).thinned(100, np.random.default_rng(7))
    np.testing.assert_array_equal(weighted.X, repeated.X)
    assert weighted.weight.sum() == 100


def test_equal_rows_share_a_fold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 2))
    sample = Sample(np.vstack([X, X]), np.ones(100))
    folds = paired_folds(sample, sample, rng)
    assert len(folds) == 3
    seen = [{tuple(row) for row in own.X} for own, _ in folds]
    assert sum(len(part) for part in seen) == 50
    one_point = Sample(np.zeros((5, 2)), np.ones(5))
    assert len(paired_folds(sample, one_point, rng)) == 1


def test_centres_are_different_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    few = Sample(rng.integers(0, 2, (500, 2)).astype(float), np.ones(500))
    assert len(centres_of(few, rng)) == 4
    many = centres_of(Sample(rng.normal(size=(5000, 2)), np.ones(5000)), rng)
    assert CENTRES * 0.9 < len(many) <= CENTRES
    assert typical_distance(np.zeros((1, 3))) == 1.0


def test_reference_is_the_widest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    narrow, wide, shifted = rng.normal(size=(500, 3)), 1.5 * rng.normal(size=(500, 3)), 9.0 + rng.normal(size=(500, 3))
    assert widest(rows_from(narrow, wide, shifted)) == 1
    assert widest(rows_from(wide, narrow)) == 0


@every_estimator
def test_three_environments_agree_with_the_truth_and_each_other(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    laws = [(0.0, 1.0), (0.3, 1.3), (-0.3, 1.6)]
    X = [mean + spread * rng.normal(size=(3000, 2)) for mean, spread in laws]
    scores = fit(rows_from(*X), rng).log_densities(np.vstack(X))
    truth = np.column_stack(
        [-0.5 * ((np.vstack(X) - mean) ** 2).sum(axis=1) / spread**2 - 2 * np.log(spread) for mean, spread in laws]
    )
    ab, bc, ac = ((scores[:, i] - scores[:, j]) for i, j in ((0, 1), (1, 2), (0, 2)))
    np.testing.assert_allclose(ab + bc, ac, atol=1e-12)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        error = np.abs(scores[:, i] - scores[:, j] - truth[:, i] + truth[:, j]).mean()
        assert error < 0.4 * np.abs(truth[:, i] - truth[:, j]).mean() + 0.02


@every_estimator
def test_same_law_gives_ratios_near_one(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4000, 3))
    scores = fit(GroupedRows(X, np.array([0, 2000, 4000])), rng).log_densities(X)
    assert np.abs(scores[:, 0] - scores[:, 1]).mean() < 0.15


@every_estimator
def test_weights_are_repetition(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, offsets = np.vstack([rng.normal(size=(300, 2)), 1.4 * rng.normal(size=(400, 2))]), np.array([0, 300, 700])
    count = rng.integers(1, 4, 700)
    repeated = GroupedRows(
        np.repeat(X, count, axis=0), np.concatenate([[0], np.cumsum(np.add.reduceat(count, [0, 300]))])
    )
    weighted = GroupedRows(X, offsets, count.astype(float))
    expected = fit(repeated, np.random.default_rng(5)).log_densities(X)
    np.testing.assert_allclose(fit(weighted, np.random.default_rng(5)).log_densities(X), expected, atol=1e-3)


@every_estimator
def test_again_keeps_choices_and_refits(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(1000, 2)), 1.5 * rng.normal(size=(1000, 2))])
    rows = GroupedRows(X, np.array([0, 1000, 2000]))
    first = fit(rows, rng)
    again = first.again(rows)  # bumps of the same width on other rows
    widths = [{e: one.bumps.width for e, one in fitted.expansions.items()} for fitted in (again, first)]
    assert widths[0] == widths[1]
    assert len(widths[0]) == 1
    assert np.abs(again.log_densities(X) - first.log_densities(X)).mean() < 0.2
    half = first.again(rows.take(np.arange(2000) % 2 == 0))
    assert half.description == first.description
    difference = np.abs(half.log_densities(X) - first.log_densities(X)).mean()
    assert 0.0 < difference < 0.5


@every_estimator
def test_columns_that_say_nothing(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(2000, 1)), 1.4 * rng.normal(size=(2000, 1))])
    offsets = np.array([0, 2000, 4000])
    truth = (-0.5 * X**2 * (1.0 - 1.0 / 1.4**2) + np.log(1.4))[:, 0]
    doubled = fit(GroupedRows(np.hstack([X, X]), offsets), rng).log_densities(np.hstack([X, X]))
    assert np.abs(doubled[:, 0] - doubled[:, 1] - truth).mean() < 0.25
    nothing = fit(GroupedRows(np.zeros((4000, 0)), offsets), rng).log_densities(np.zeros((4, 0)))
    np.testing.assert_allclose(nothing, 0.0, atol=2e-3)  # a ridge of 1/1000


@every_estimator
def test_disjoint_environments_stay_finite_and_are_told(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(200, 2)), 100.0 + 2.0 * rng.normal(size=(200, 2))])
    fitted = fit(GroupedRows(X, np.array([0, 200, 400])), rng)
    scores = fitted.log_densities(np.vstack([X, [[1e6, -1e6]]]))
    assert np.isfinite(scores).all()
    assert scores.min() >= np.log(SMALLEST)
    log_ratio = scores[:400, 0] - scores[:400, 1]
    if fit in (fit_rulsif, fit_kliep):  # the other two cannot tell: a least square and a mean that no weights reach
        assert log_ratio[:200].min() > 2.0
        assert log_ratio[200:].max() < -5.0
    assert "hardly overlap" in fitted.notes[0]


@every_estimator
def test_tiny_environments_do_not_stop_it(fit: Estimator, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 2))
    for offsets in ([0, 1, 24], [0, 2, 4, 24], [0, 23, 24]):
        scores = fit(GroupedRows(X, np.array(offsets)), rng).log_densities(X)
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", ["ulsif", "rulsif", "kliep", "kmm"])
def test_through_the_front_door(name: str, seed: int) -> None:
    data = overlap_dial(0.7, n=2000, d=2, seed=seed, law="normal")
    ratio = density_ratio(data.X, data.env, ratio=name, seed=seed)
    truth = data.truth["log_ratio"](data.X, "A", "B")
    error = np.abs(ratio.log(data.X, "A", "B") - truth)
    assert np.mean(error) < 0.3 * np.abs(truth).mean() + 0.02
    assert "none" not in ratio.overlap.verdicts


def test_many_columns_are_warned_of(seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(120, 20))
    ratio = density_ratio(X, np.repeat([0, 1], 60), ratio="ulsif")
    assert any("In 20 columns Gaussian bumps see little" in note for note in ratio.notes)


@every_estimator
def test_an_environment_of_one_different_row_is_dense_there(fit: Estimator) -> None:
    rows = rows_from(np.linspace(-1.0, 1.0, 12)[:, None], np.full((3, 1), 0.3))
    scores = fit(rows, np.random.default_rng(0)).log_densities(np.array([[-0.9], [0.3]]))
    ratio = np.exp(scores[:, 1] - scores[:, 0])
    assert ratio[1] > 1.5
    assert ratio[0] < 0.7


def test_distances_between_neighbours_far_from_the_origin(seed: int) -> None:
    """Environments a million apart, in units of the whole spread: neighbours are a millionth apart."""
    near = np.random.default_rng(seed).normal(size=(20, 2))
    expected = np.sum((near[:, None] - near[None]) ** 2, axis=2)
    found = squared_distances(1.0 + 1e-6 * near, 1.0 + 1e-6 * near) * 1e12
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert typical_distance(np.array([[0.0], [1e-200]])) == 1.0  # what cannot be squared is no distance


def test_a_root_is_had_of_what_rounding_bends_down() -> None:
    flat = np.array([[1.0, 1.0 + 1e-10], [1.0 + 1e-10, 1.0]])
    root = root_of(flat, np.eye(2))
    np.testing.assert_allclose(root @ root.T, flat, atol=2e-9)
    np.testing.assert_array_equal(root_of(np.diag([4.0, 9.0]), np.eye(2)), np.diag([2.0, 3.0]))
