from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from invariscope.criteria.predictions.calibration_variance import _Cells, _cells_of, _floor_notes, calibration_variance
from invariscope.errors import InputError
from invariscope.rows.environments import Environments
from tests.reference import prediction_criteria as reference


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_binary_equals_the_loop(bins, seed):
    rng = np.random.default_rng(seed)
    p, env = rng.uniform(size=150), np.repeat([1, 2, 3], 50)
    y = rng.permuted(np.tile([0, 1], (3, 25)), axis=1).ravel()
    expected = reference.calibration_errors(p.tolist(), y.tolist(), env.tolist(), bins)
    result = calibration_variance(p, y, env, bins=bins)
    for label, error in expected.items():
        assert result.per_environment[label].value == pytest.approx(error, rel=1e-11)
    assert result.value == pytest.approx(reference.variance(list(expected.values())), rel=1e-9)
    assert result.worst == max(expected, key=expected.get)


def test_several_classes_use_the_top_label(seed):
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.ones(3), size=120), np.repeat(["u", "v"], 60)
    y = rng.permuted(np.tile(np.arange(3), (2, 20)), axis=1).ravel()
    hits = (p.argmax(axis=1) == y).astype(float)
    expected = reference.calibration_errors(p.max(axis=1).tolist(), hits.tolist(), env.tolist(), 15)
    result = calibration_variance(p, y, env)
    for label, error in expected.items():
        assert result.per_environment[label].value == pytest.approx(error, rel=1e-11)


def test_by_hand():
    # a: 10 rows at 0.2 with 5 hits (gap 0.3) and 10 at 1.0 with 9 (gap 0.1), so ECE 0.2; b: 2 and 10 hits, so ECE 0
    p = np.tile(np.repeat([0.2, 1.0], 10), 2)
    y = np.concatenate([np.arange(10) < k for k in (5, 9, 2, 10)]).astype(int)
    result = calibration_variance(p, y, np.repeat(["a", "b"], 20))
    assert result.per_environment["a"].value == pytest.approx(0.2, rel=1e-12)
    assert result.per_environment["b"].value == pytest.approx(0.0, abs=1e-15)
    assert result.value == pytest.approx(0.01, rel=1e-12)
    assert result.per_environment["b"].interval[0] == 0
    assert result.per_environment["b"].interval[1] > 0.05  # 20 rows prove little
    assert (result.worst, result.unit) == ("a", "share")


def test_a_bin_holds_its_left_end_and_the_last_one_both():
    p, y = [0.0, 0.49, 0.5, 1.0, 0.0, 0.49, 0.5, 1.0], [1, 0, 0, 1, 0, 1, 1, 0]
    result = calibration_variance(p, y, list("aaaabbbb"), bins=2)
    # a and b alike: bins {0, 0.49} and {0.5, 1}, each half hits: |0.245 − 0.5| / 2 + |0.75 − 0.5| / 2
    assert result.per_environment["a"].value == pytest.approx((0.255 + 0.25) / 2, rel=1e-12)
    assert result.per_environment["b"].value == pytest.approx((0.255 + 0.25) / 2, rel=1e-12)


def test_error_of_a_calibrated_model_equals_the_sum_over_outcomes(seed):
    rng = np.random.default_rng(seed)
    confidence = np.r_[rng.uniform(size=4), 0.5, 0.0, 1.0]
    rows = np.r_[rng.integers(1, 60, size=4), 4, 7, 9]  # 4 · 0.5 is a whole number: the formula's kink
    cells = _Cells(rows[None].astype(float), (rows / rows.sum())[None], confidence[None], np.zeros((1, 7)))
    assert cells.calibrated_error()[0] == pytest.approx(reference.calibrated_error(confidence, rows), rel=1e-9)


def test_empty_bins_count_for_nothing():
    p = np.repeat([0.31, 0.69], 20)
    y = np.tile([0, 1], 20)
    env = np.tile(["a", "a", "b", "b"], 10)
    cells = _cells_of(Environments(p, y, env), np.sort(p), y.astype(float), 15)
    assert cells.share.sum(axis=1) == pytest.approx([1, 1], rel=1e-14)
    assert np.count_nonzero(cells.rows) == 2
    assert np.isfinite(cells.calibrated_error()).all()


def test_floor_is_reported_by_environment(seed):
    rng = np.random.default_rng(seed)
    sizes = np.array([50, 5000])
    p, env = np.full(5050, 0.3), np.repeat(["small", "large"], sizes)
    y = np.concatenate([rng.permutation(np.arange(n) < 0.4 * n) for n in sizes]).astype(int)
    result = calibration_variance(p, y, env)
    floors = [reference.calibrated_error([0.3], [int(n)]) for n in sizes]
    assert result.notes[0].endswith(f"rows, about large: {floors[1]:.2g}, small: {floors[0]:.2g}.")
    wide, narrow = (np.diff(result.per_environment[label].interval)[0] for label in ("small", "large"))
    assert 5 < wide / narrow < 20  # a hundred times the rows: a tenth of the width, less when 0 cuts it off
    low, high = result.per_environment["large"].interval
    assert 0.08 < low < 0.1 < high < 0.12


def test_many_environments_get_the_range_of_the_floor(seed):
    rng = np.random.default_rng(seed)
    p, y = rng.uniform(size=800), np.tile([0, 1], 400)
    result = calibration_variance(p, y, np.repeat(np.arange(8), 100))
    assert " to " in result.notes[0].split("about")[-1]


def test_one_row_cells_are_no_problem():
    result = calibration_variance([0.05, 0.95, 0.35, 0.65], [0, 1, 1, 0], list("aabb"))
    assert result.per_environment["a"].value == pytest.approx(0.05, rel=1e-12)
    assert result.per_environment["b"].value == pytest.approx(0.65, rel=1e-12)
    assert np.isfinite([result.value, *result.interval]).all()
    for estimate in result.per_environment.values():
        assert 0 <= estimate.interval[0] <= estimate.value <= estimate.interval[1] <= 1


def test_bad_requests_are_refused():
    with pytest.raises(InputError, match="calibration needs classes"):
        calibration_variance([0.1, 0.2, 0.3, 0.4], [0.5, 1.5, 2.5, 3.7], list("aabb"))
    for bins in (0, 2.5, True, "10"):
        with pytest.raises(InputError, match=r"bins is .*whole number"):
            calibration_variance([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], list("aabb"), bins=bins)


@pytest.mark.parametrize(("observed", "due"), [([0.2, 0.2], False), ([0.1, 0.3], True), ([0.0, 0.3], False)])
def test_variance_that_numbers_of_rows_explain_is_said_to_be_theirs(observed: list[float], due: bool) -> None:
    """Floors of 0.1 and 0.3 have the variance 0.01: more than half of 0.01, less than half of 0.0225."""
    data = Environments(np.zeros((4, 1)), None, list("aabb"))
    cells = SimpleNamespace(calibrated_error=lambda: np.array([0.1, 0.3]))
    floor = "Even a perfectly calibrated model would show some ECE at these numbers of rows, about a: 0.1, b: 0.3."
    more = ("Much of the variance may be due to different numbers of rows alone.",)
    assert _floor_notes(data, cells, np.array(observed)) == (floor, *(more if due else ()))


def test_the_interval_is_about_differences_not_about_the_errors_themselves() -> None:
    """A model that is off by 0.3 everywhere: the ECE does not vary, however large it is."""
    y = np.tile([1, 1, 1, 1, 0], 800)
    result = calibration_variance(np.full(4000, 0.5), y, np.repeat(["a", "b"], 2000))
    assert [result.per_environment[label].value for label in "ab"] == pytest.approx([0.3, 0.3], abs=1e-12)
    assert result.value == pytest.approx(0.0, abs=1e-20)
    assert result.interval[0] == pytest.approx(0.0, abs=1e-20)
    assert 0.0 < result.interval[1] < 0.001  # 0.3² = 0.09 is no variance


def test_hard_labels_have_no_floor_to_speak_of():
    y, env = np.tile([0, 1, 1, 0], 30), np.repeat(["a", "b"], 60)
    hard = np.where(np.arange(120) % 7 == 0, 1 - y, y).astype(float)
    with pytest.warns(UserWarning, match="labels, not probabilities"):
        notes = calibration_variance(hard, y, env).notes
    assert not any("perfectly calibrated" in note for note in notes)
    soft = np.where(env == "a", 0.5, hard)  # a floor in one environment is worth telling
    assert any("perfectly calibrated" in note for note in calibration_variance(soft, y, env).notes)


@pytest.mark.parametrize("bins", [1, 4, 7, 15])
def test_bins_of_equal_mass_equal_the_loop(bins, seed):
    rng = np.random.default_rng(seed)
    p, env = np.round(rng.beta(0.5, 0.5, size=151), 2), np.repeat([1, 2, 3], [50, 80, 21])
    y = rng.integers(0, 2, size=151)
    y[[0, 1, 50, 51, 130, 131]] = [0, 1] * 3
    expected = reference.adaptive_calibration_errors(p.tolist(), y.tolist(), env.tolist(), bins)
    result = calibration_variance(p, y, env, bins=bins, binning="mass")
    for label, error in expected.items():
        assert result.per_environment[label].value == pytest.approx(error, rel=1e-11)
    assert result.value == pytest.approx(reference.variance(list(expected.values())), rel=1e-9)
    mixed = rng.permutation(151)
    assert calibration_variance(p[mixed], y[mixed], env[mixed], bins=bins, binning="mass").value == pytest.approx(
        result.value, rel=1e-9
    )


def test_bins_of_equal_mass_hold_as_many_rows_each(seed):
    rng = np.random.default_rng(seed)
    p, env = rng.uniform(size=300) ** 4, np.repeat(["a", "b"], [100, 200])  # most are small: unequal widths
    data = Environments(p, rng.integers(0, 2, size=300), env)
    cells = _cells_of(data, data.X[:, 0], data.y, 10, equal_mass=True)
    np.testing.assert_array_equal(cells.rows, [[10.0] * 10, [20.0] * 10])
    assert (np.diff(cells.confidence, axis=1) > 0).all()
    heavy = _cells_of(Environments(p, data.y, env, np.full(300, 2.5)), data.X[:, 0], data.y, 10, equal_mass=True)
    np.testing.assert_allclose(heavy.rows, [[25.0] * 10, [50.0] * 10])


def test_percent_are_hundred_times_a_share_and_their_squares_ten_thousand_times(seed):
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.full(7, 0.3), size=1500), np.repeat(["cartoon", "photo", "sketch"], 500)
    y = rng.integers(0, 7, size=1500)
    share, percent = (calibration_variance(p, y, env, unit=unit) for unit in ("share", "percent"))
    assert percent.value == pytest.approx(1e4 * share.value, rel=1e-12)
    assert percent.interval == pytest.approx(tuple(1e4 * end for end in share.interval), rel=1e-12)
    for label, one in share.per_environment.items():
        assert percent.per_environment[label].value == pytest.approx(100 * one.value, rel=1e-12)
        assert percent.per_environment[label].interval == pytest.approx(
            tuple(100 * end for end in one.interval), rel=1e-12
        )
    assert (share.unit, percent.unit) == ("share", "percent")
    floors = [float(part.rsplit(": ")[-1]) for note in (share, percent) for part in note.notes[0][:-1].split(", ")[-3:]]
    assert floors[3:] == pytest.approx([100 * floor for floor in floors[:3]], rel=0.06)
    with pytest.raises(InputError, match="share"):
        calibration_variance(p, y, env, unit="points")
    with pytest.raises(InputError, match="width"):
        calibration_variance(p, y, env, binning="quantile")


def test_shares_cannot_have_the_published_variances_and_percentage_points_can():
    """Table 15 of the DRIC paper: 17.91 to 21.87. Two environments at the ends of 0..1 have the variance 0.25."""
    p, y, env = np.repeat([0.999, 0.001], [20, 20]), np.zeros(40, dtype=int), np.repeat(["a", "b"], 20)
    y[0] = 1
    assert 0.2 < calibration_variance(p, y, env).value <= 0.25
    # ECEs of 5, 10 and 15.4 percentage points
    p = np.full(3000, 0.5)
    hits = np.concatenate([np.arange(1000) < 1000 * (0.5 + gap) for gap in (0.05, 0.10, 0.154)]).astype(int)
    result = calibration_variance(p, hits, np.repeat(["a", "b", "c"], 1000), unit="percent")
    assert result.value == pytest.approx(np.var([5.0, 10.0, 15.4]), rel=1e-9)
    assert 17.9 < result.value < 21.9
