"""From a sweep to the curve: hull, ceiling, interpolation and band, on losses whose worst case is known by hand."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.criteria.worst_case.curve import Sweep, _missing, band_of, curve_of


def line(gamma: np.ndarray, slopes: np.ndarray) -> tuple[Sweep, np.ndarray]:
    """Losses a_i + c_i z from z = 0: z* = c/(2γ), φ = a + c²/(4γ), WC = mean a + ρ √mean c²."""
    move = slopes / (2 * gamma[:, None])
    start = np.linspace(1.0, 2.0, len(slopes))
    return Sweep(gamma, start + slopes * move, move**2, start + slopes**2 / (4 * gamma[:, None])), start


GAMMA = np.geomspace(20, 0.05, 25)
SLOPES = np.array([0.5, 1.0, 3.0])


def test_a_linear_loss_gives_a_straight_line() -> None:
    sweep, start = line(GAMMA, SLOPES)
    rate = np.sqrt(np.mean(SLOPES**2))
    radii = np.linspace(0, rate / (2 * GAMMA[-1]), 77)
    loss, lower, upper, gamma = curve_of(sweep, start, radii)
    np.testing.assert_allclose(loss, 1.5 + rate * radii, rtol=1e-12)
    assert np.all(lower <= loss)
    assert np.all(loss <= upper)
    assert gamma[0] == np.inf
    np.testing.assert_allclose(gamma[1:], rate / (2 * radii[1:]), rtol=1e-10)


def test_bounds_close_in_as_multipliers_get_closer() -> None:
    gaps = []
    for count in (12, 24, 48):
        sweep, start = line(np.geomspace(20, 0.05, count), SLOPES)
        _, lower, upper, _ = curve_of(sweep, start, np.linspace(0.2, 5, 40))
        gaps.append(np.max(upper - lower))
    assert gaps[0] > 3 * gaps[1] > 9 * gaps[2] > 0  # with the square of the spacing: 4 and 16


def test_weights_are_repetitions() -> None:
    sweep, start = line(GAMMA, SLOPES)
    starts = np.repeat(start, [2, 0, 3])
    repeated = Sweep(GAMMA, *(np.repeat(v, [2, 0, 3], axis=1) for v in (sweep.loss, sweep.moved, sweep.ceiling)))
    radii = np.linspace(0, 4, 9)
    weighted = curve_of(sweep, start, radii, np.array([2.0, 0.0, 3.0]))
    for one, other in zip(weighted, curve_of(repeated, starts, radii), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_without_ceilings_only_a_lipschitz_constant_bounds_from_above() -> None:
    sweep, start = line(GAMMA, SLOPES)
    bare = Sweep(sweep.gamma, sweep.loss, sweep.moved)
    radii = np.array([0.0, 1.0, 2.0])
    assert curve_of(bare, start, radii)[2].tolist() == [1.5, np.inf, np.inf]
    np.testing.assert_allclose(curve_of(bare, start, radii, lipschitz=3.0)[2], 1.5 + 3 * radii)


def test_points_below_the_hull_are_passed_over() -> None:
    """A search that got stuck at one multiplier costs nothing where its neighbours did not."""
    sweep, start = line(GAMMA, SLOPES)
    stuck = sweep.loss.copy()
    stuck[10] = start - 5.0
    radii = np.linspace(0, 4, 33)
    _, lower, _, _ = curve_of(Sweep(GAMMA, stuck, sweep.moved), start, radii)
    kept = np.delete(np.arange(len(GAMMA)), 10)
    _, expected, _, _ = curve_of(Sweep(GAMMA[kept], sweep.loss[kept], sweep.moved[kept]), start, radii)
    np.testing.assert_array_equal(lower, expected)
    assert np.all(np.diff(lower) >= 0)


def test_mass_may_be_split_between_two_places() -> None:
    """One row that gains 1 by moving 2, nothing before: half the mass moves for half the squared distance."""
    jump = Sweep(np.array([0.25 + 1e-9, 0.25 - 1e-9]), np.array([[0.0], [1.0]]), np.array([[0.0], [4.0]]))
    loss, lower, _, gamma = curve_of(jump, np.zeros(1), np.sqrt([0.0, 1.0, 2.0, 4.0, 9.0]))
    np.testing.assert_allclose(lower, [0, 0.25, 0.5, 1, 1])
    np.testing.assert_allclose(loss, [0, 0.25, 0.5, 1, 1], atol=1e-7)
    np.testing.assert_allclose(gamma[1:4], 0.25, rtol=1e-6)
    assert gamma[4] == 0


def test_a_sweep_that_never_moves_is_flat() -> None:
    still = Sweep(np.array([1.0]), np.array([[3.0, 5.0]]), np.zeros((1, 2)), np.array([[3.0, 5.0]]))
    for values in curve_of(still, np.array([3.0, 5.0]), np.array([0.0, 2.0]))[:2]:
        assert values.tolist() == [4.0, 4.0]


def test_the_band_of_a_line_is_that_of_its_parts(seed: int) -> None:
    """For WC = mean a + ρ√mean c², draws of the two means are the band: the delta method says how wide."""
    rng = np.random.default_rng(seed)
    slopes = rng.uniform(0.5, 2, 400)
    sweep, start = line(np.geomspace(50, 0.1, 60), slopes)
    radii = np.array([0.0, 0.5, 2.0])
    low, high = band_of(sweep, start, radii, None, 1999, rng)
    root = np.sqrt(np.mean(slopes**2))
    for j, radius in enumerate(radii):
        spread = np.std(start + radius * slopes**2 / (2 * root)) / np.sqrt(400)
        assert high[j] - low[j] == pytest.approx(2 * 1.96 * spread, rel=0.12)  # 1,999 draws: about 3 % each end
        assert (high[j] + low[j]) / 2 == pytest.approx(1.5 + radius * root, abs=0.5 * spread)


def test_no_draws_no_band() -> None:
    sweep, start = line(GAMMA, SLOPES)
    assert np.isnan(band_of(sweep, start, np.array([0.0, 1.0]), None, 0, np.random.default_rng(0))).all()


def test_rows_of_weight_zero_do_not_move_the_band() -> None:
    sweep, start = line(GAMMA, np.array([0.5, 1.0, 1e6]))
    low, high = band_of(sweep, start, np.array([1.0]), np.array([1.0, 1.0, 0.0]), 199, np.random.default_rng(0))
    assert 1.0 < low[0] < high[0] < 3.0


def test_a_radius_beyond_the_last_point_asks_for_the_slope_of_the_last_side() -> None:
    # one row, loss 0 now and 2 at distance 1: the hull is the side from (0, 0) to (1, 2) of slope 2
    sweep = Sweep(np.array([1.0]), np.array([[2.0]]), np.array([[1.0]]), None)
    beyond, on_it = np.array([2.0]), np.array([0.5])  # 2 is reached, 1 · 2² + 2 − 1 is not ruled out
    for radii in (beyond, on_it, np.r_[on_it, beyond]):
        assert _missing(sweep, np.zeros(1), radii, None, 0.001).tolist() == [2.0]
    settled = Sweep(np.array([2.0]), np.array([[2.0]]), np.array([[1.0]]), None)
    assert _missing(settled, np.zeros(1), on_it, None, 0.001).tolist() == []
