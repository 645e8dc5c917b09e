"""The transport gap: by exact arithmetic, against loops, against derivatives, and where it must refuse."""

from __future__ import annotations

import itertools
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import ttest_ind

import invariscope as iv
from invariscope.criteria.transport.transport_gap import FEWEST_ROWS, transport_gap
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import density_ratio
from invariscope.ratios.estimator import Units, grouped_rows
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import folds_by_content
from tests.reference import transport_gap as reference


def shifted(seed: int, sizes: tuple[int, ...] = (120, 150, 110), d: int = 2) -> SimpleNamespace:
    """Environments whose z is shifted and whose heads differ, rows in random order."""
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    Z = rng.normal(size=(len(code), d)) + 0.3 * code[:, None]
    score = Z[:, 0] + 0.5 * code * Z[:, -1] + 0.4 * code
    env = np.array([f"site {'edcba'[k]}" for k in code], dtype=object)
    return SimpleNamespace(Z=Z, y=score + rng.normal(size=len(code)), env=env, code=code, score=score, rng=rng)


def log_densities(Z: np.ndarray) -> np.ndarray:
    """Of normal laws in label order: site c (code 2), d, e (code 0)."""
    return np.column_stack([-0.5 * ((Z - 0.3 * k) ** 2).sum(axis=1) for k in (2, 1, 0)])


def by_loops(rows: SimpleNamespace, f: Any, scores: np.ndarray, what: Any) -> np.ndarray:
    labels = sorted(set(rows.env))
    env = [labels.index(label) for label in rows.env]
    given = (rows.y.tolist(), env, f, scores.tolist())
    count = range(len(labels))
    return np.array([[0.0 if a == b else what(*given, a, b) for b in count] for a in count])


# --- by hand ----------------------------------------------------------------------------------------------------------
def test_by_exact_arithmetic() -> None:
    """z is 0 or 1, half and half in A, 3 to 1 in B; the mean of y at z = 1 is 1 in A and 3 in B; y − mean is ±1."""
    z = np.repeat([0, 1, 0, 1], [20, 20, 30, 10])
    env = np.repeat(["A", "B"], 40)
    y = np.repeat([0, 1, 0, 3], [20, 20, 30, 10]) + np.tile([1.0, -1.0], 40)

    def known(Z: np.ndarray) -> np.ndarray:
        return np.log(np.where(Z == 1, [[0.5, 0.25]], [[0.5, 0.75]]))

    found = transport_gap(z[:, None], y, env, predictions=np.zeros(80), ratio=known, task="regression")
    # rows of B weigh 2/3 (z = 0) and 2 (z = 1) of 40, rows of A 3/2 and 1/2
    np.testing.assert_allclose(found.pairs, [[0.0, 1.0], [-0.5, 0.0]], atol=1e-14)

    def variance(parts: list[tuple[int, Fraction, Fraction]], mean: Fraction) -> Fraction:
        """Parts of (rows, share of each, mean of y), y = mean ± 1."""
        squares = sum((n * s * s for n, s, _ in parts), Fraction(0))
        each = [n * s * s * ((m - mean) ** 2 + 1) / (1 - 2 * s + squares) for n, s, m in parts]
        return sum(each, Fraction(0))

    third, half = Fraction(1, 60), Fraction(1, 20)
    weighted_b = variance([(30, third, Fraction(0)), (10, half, Fraction(3))], Fraction(3, 2))
    plain_a = variance([(20, Fraction(1, 40), Fraction(0)), (20, Fraction(1, 40), Fraction(1))], Fraction(1, 2))
    weighted_a = variance([(20, Fraction(3, 80), Fraction(0)), (20, Fraction(1, 80), Fraction(1))], Fraction(1, 4))
    plain_b = variance([(30, Fraction(1, 40), Fraction(0)), (10, Fraction(1, 40), Fraction(3))], Fraction(3, 4))
    expected = np.sqrt([float(weighted_b + plain_a), float(weighted_a + plain_b)])
    np.testing.assert_allclose([found.se[0, 1], found.se[1, 0]], expected, rtol=1e-13)
    within = float(Fraction(1, 2) * (Fraction(1, 4) + 1) + Fraction(1, 2) * (Fraction(27, 16) + 1))
    assert found.value == pytest.approx((1.0 - expected[0] ** 2 + 0.25 - expected[1] ** 2) / 2 / within, rel=1e-12)


def test_a_constant_representation_compares_means(seed: int) -> None:
    rows = shifted(seed)
    found = transport_gap(np.ones((len(rows.y), 1)), rows.y, rows.env)
    means = np.array([rows.y[rows.env == label].mean() for label in found.labels])
    np.testing.assert_allclose(found.pairs, means[None] - means[:, None], atol=1e-10)
    errors = [rows.y[rows.env == label].var(ddof=1) / np.sum(rows.env == label) for label in found.labels]
    assert found.se[0, 1] == pytest.approx(np.sqrt(errors[0] + errors[1]), rel=0.03)  # residuals are held-out ones


def test_pair_intervals_are_welchs_where_all_ratios_are_one(seed: int) -> None:
    """Predictions of 0 and a ratio of 1 leave two plain means: Welch's interval, in environments of unequal noise."""
    rng = np.random.default_rng(seed)
    sizes, spread = (22, 45, 90), (3.0, 1.0, 0.2)
    parts = [rng.normal(k, s, size=n) for k, (n, s) in enumerate(zip(sizes, spread, strict=True))]
    y, env = np.concatenate(parts), np.repeat(["a", "b", "c"], sizes)
    found = transport_gap(
        rng.normal(size=(len(y), 1)), y, env, predictions=np.zeros(len(y)), ratio=lambda Z: np.zeros((len(Z), 3))
    )
    for a, b in itertools.permutations(range(3), 2):
        expected = ttest_ind(parts[b], parts[a], equal_var=False)
        assert found.pairs[a, b] == pytest.approx(parts[b].mean() - parts[a].mean(), rel=1e-12)
        interval = expected.confidence_interval(0.95)
        assert found.pair_intervals[a, b] == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_a_binary_representation_is_direct_standardisation(seed: int) -> None:
    """Σ_z p_a(z) (ȳ_b(z) − ȳ_a(z)): the outcome model is saturated, so the ratio does not matter."""
    rng = np.random.default_rng(seed)
    env = np.repeat([2001, 2002], [150, 250])
    z = (rng.uniform(size=400) < np.where(env == 2001, 0.3, 0.6)).astype(float)
    y = z * np.where(env == 2001, 1.0, 2.0) + rng.normal(size=400)
    found = transport_gap(z[:, None], y, env)
    for a, b in ((0, 1), (1, 0)):
        here, there = env == found.labels[a], env == found.labels[b]
        expected = sum(
            np.mean(z[here] == v) * (y[there & (z == v)].mean() - y[here & (z == v)].mean()) for v in (0.0, 1.0)
        )
        # up to what heads and ratios of single folds differ from those of all rows
        assert found.pairs[a, b] == pytest.approx(expected, abs=0.4 * found.se[a, b])


# --- against loops and derivatives ------------------------------------------------------------------------------------
def test_equals_the_loops_for_given_predictions(seed: int) -> None:
    rows = shifted(seed)
    predictions = 0.7 * rows.score
    found = transport_gap(rows.Z, rows.y, rows.env, predictions=predictions, ratio=log_densities)

    def f(i: int, b: int) -> float:
        return float(predictions[i])

    scores = log_densities(rows.Z)
    np.testing.assert_allclose(found.pairs, by_loops(rows, f, scores, reference.gap), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.se, by_loops(rows, f, scores, reference.standard_error), rtol=1e-9)
    assert found.outcome == "predictions as given"


def test_equals_the_loops_with_cross_fitted_heads(seed: int) -> None:
    rows = shifted(seed)
    found = transport_gap(rows.Z, rows.y, rows.env, folds=4)
    data = Environments(rows.Z, rows.y, rows.env)
    standard = grouped_rows(data, Units.of(data))
    fold = data.original(folds_by_content(standard.X, standard.offsets, 4))
    labels = sorted(set(rows.env))
    codes = [labels.index(label) for label in rows.env]
    f = reference.cross_fitted(rows.Z.tolist(), rows.y.tolist(), codes, fold.tolist(), 4)
    scores = density_ratio(rows.Z, rows.env, folds=4).at_rows
    np.testing.assert_allclose(found.pairs, by_loops(rows, f, scores, reference.gap), rtol=1e-8, atol=1e-9)
    assert found.outcome == "a linear head per environment"


@pytest.mark.slow  # refitted once for each row
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_standard_errors_are_the_derivatives_in_the_weights_of_rows(task: str, seed: int) -> None:
    """With a ratio so wrong that fitting the outcome models is most of the noise."""
    rows = shifted(seed, (110, 120), d=1)
    rows.Z += 1.5 * rows.code[:, None]
    rows.score = rows.Z[:, 0] - 1.0
    rows.y = rows.score + rows.rng.normal(size=len(rows.y))
    if task == "binary":
        rows.y = (rows.rng.uniform(size=len(rows.y)) < expit(rows.score)).astype(int)
    if task == "multiclass":
        scores = np.column_stack([rows.score, -rows.score, 0 * rows.score])
        rows.y = np.argmax(scores + rows.rng.gumbel(size=scores.shape), axis=1)

    def wrong(Z: np.ndarray) -> np.ndarray:
        return np.zeros((len(Z), 2))

    def gaps(weight: np.ndarray) -> np.ndarray:
        found = transport_gap(rows.Z, rows.y, rows.env, ratio=wrong, weight=weight, n_boot=99, task=task)
        gap = found.pairs[..., None] if found.by_class is None else found.by_class
        assert not np.isnan(gap).any()
        return gap

    whole, step = np.ones(len(rows.y)), 0.01
    found = transport_gap(rows.Z, rows.y, rows.env, ratio=wrong, n_boot=99, task=task)
    before = gaps(whole)
    variance = np.zeros(before.shape)
    for i in range(len(whole)):
        variance += ((gaps(whole + step * (np.arange(len(whole)) == i)) - before) / step) ** 2
    if found.by_class is not None:
        chosen = [[0 if c is None else c for c in row] for row in found.moving_class]
        variance = np.take_along_axis(variance, np.array(chosen)[:, :, None], axis=2)
    off = ~np.eye(2, dtype=bool)
    # derivatives know nothing of the n − 1 of a variance, nor of terms that vanish with more rows
    np.testing.assert_allclose(found.se[off], np.sqrt(variance[..., 0][off]), rtol=0.25)


# --- units, names, weights --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("factor", [4.0, -0.25, 1000.0])
def test_y_in_other_units(factor: float, seed: int) -> None:
    rows = shifted(seed)
    one = transport_gap(rows.Z, rows.y, rows.env)
    other = transport_gap(rows.Z, factor * rows.y + 7.0, rows.env)
    np.testing.assert_allclose(other.pairs, factor * one.pairs, rtol=1e-7, atol=1e-9 * abs(factor))
    np.testing.assert_allclose(other.se, abs(factor) * one.se, rtol=1e-7)
    np.testing.assert_allclose(other.pair_intervals, np.sort(factor * one.pair_intervals, axis=2), rtol=1e-6, atol=1e-9)
    for name in ("value", "pvalue", "pair_pvalues", "statistic"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-6, err_msg=name)


def test_weights_are_repetitions_for_given_predictions_too(seed: int) -> None:
    rows = shifted(seed)
    weight = rows.rng.integers(0, 4, len(rows.y))
    index = np.repeat(np.arange(len(weight)), weight)
    predictions = 0.5 * rows.score
    one = transport_gap(rows.Z, rows.y, rows.env, predictions=predictions, weight=weight, ratio=log_densities)
    other = transport_gap(
        rows.Z[index], rows.y[index], rows.env[index], predictions=predictions[index], ratio=log_densities
    )
    for name in ("pairs", "se", "interval", "value", "pair_pvalues"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12, err_msg=name)


def test_swapping_the_classes_turns_the_gaps_round(seed: int) -> None:
    rows = shifted(seed)
    y = (rows.rng.uniform(size=len(rows.y)) < expit(rows.score)).astype(int)
    one = transport_gap(rows.Z, y, rows.env)
    other = transport_gap(rows.Z, np.where(y == 1, "away", "home"), rows.env)  # "home" is now the second class
    np.testing.assert_allclose(other.pairs, -one.pairs, atol=1e-8)
    np.testing.assert_allclose(other.se, one.se, atol=1e-8)
    assert other.value == pytest.approx(one.value, rel=1e-6)
    assert one.moving_class is None
    assert one.by_class is None


def test_many_classes(seed: int) -> None:
    rows = shifted(seed, (300, 400, 350))
    scores = np.column_stack([rows.score, 0.3 * rows.Z[:, 1], -0.5 * rows.score])
    y = np.array(["oak", "ash", "elm"], dtype=object)[np.argmax(scores + rows.rng.gumbel(size=scores.shape), axis=1)]
    found = transport_gap(rows.Z, y, rows.env)
    assert found.by_class.shape == (3, 3, 3)
    np.testing.assert_allclose(found.by_class.sum(axis=2), 0.0, atol=1e-9)
    for a in range(3):
        for b in range(3):
            moving = found.moving_class[a][b]
            if a == b:
                assert moving is None
            else:
                assert found.pairs[a, b] == found.by_class[a, b, ("ash", "elm", "oak").index(moving)]
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    given = transport_gap(rows.Z, y, rows.env, predictions=probabilities[:, [1, 2, 0]])
    indicators = np.column_stack([y == name for name in ("ash", "elm", "oak")]).astype(float)
    single = transport_gap(rows.Z, indicators[:, 0], rows.env, predictions=probabilities[:, 1], task="binary")
    np.testing.assert_allclose(given.by_class[:, :, 0], single.pairs, atol=1e-9)


def test_the_parts_fit_together(seed: int) -> None:
    rows = shifted(seed)
    found = transport_gap(rows.Z, rows.y, rows.env, n_boot=499)
    off = ~np.eye(3, dtype=bool)
    assert found.null.shape == (499,)
    assert found.pair_pvalues[off].min() == found.pvalue
    assert np.all(np.diag(found.pair_pvalues) == 1.0)
    for values in (found.pairs, found.se, found.pair_intervals[..., 0], found.pair_intervals[..., 1]):
        assert np.all(np.diag(values) == 0.0)
    t = np.abs(found.pairs[off]) / found.se[off]
    # Wallace's transform of t is below t, and close to it with a hundred degrees of freedom
    assert 0.85 * t.max() < found.statistic <= t.max()
    reach = (found.pair_intervals[..., 1] - found.pair_intervals[..., 0])[off] / 2 / found.se[off]
    assert np.all((reach > 1.96) & (reach < 2.13))
    assert found.interval[0] < found.value < found.interval[1]
    assert found.labels == ("site c", "site d", "site e")


def test_another_order_of_rows_given_with_predictions(seed: int) -> None:
    rows = shifted(seed)
    order = np.argsort(rows.env, kind="stable")
    predictions = 0.7 * rows.score
    one = transport_gap(rows.Z, rows.y, rows.env, predictions=predictions)
    other = transport_gap(rows.Z[order], rows.y[order], rows.env[order], predictions=predictions[order])
    np.testing.assert_allclose(one.pairs, other.pairs, rtol=1e-8, atol=1e-10)
    whole = transport_gap(Environments(rows.Z, rows.y, rows.env), predictions=predictions)
    np.testing.assert_array_equal(one.pairs, whole.pairs)


def test_an_exact_relation_has_no_gap_and_no_noise(seed: int) -> None:
    rows = shifted(seed)
    found = transport_gap(rows.Z, 3.0 + rows.Z @ [1.0, -2.0], rows.env)
    np.testing.assert_allclose(found.pairs, 0.0, atol=1e-9)
    assert found.value == 0.0
    moved = transport_gap(rows.Z, rows.Z @ [1.0, -2.0] + rows.code, rows.env)
    np.testing.assert_allclose(moved.pairs[0], [0.0, -1.0, -2.0], atol=1e-8)
    assert moved.value > 0.1
    for result in (found, moved):  # what differs is seen, but no noise says how surely
        assert np.isnan([result.pvalue, *result.interval]).all()
        assert np.isnan(result.pair_intervals).all()
        assert result.notes[0].startswith("No interval and no p-value: the outcome models make no error")


# --- refusals ---------------------------------------------------------------------------------------------------------
def test_pairs_without_overlap_are_refused_by_name(seed: int) -> None:
    rows = shifted(seed)
    rows.Z[rows.env == "site c"] += 40.0
    found = transport_gap(rows.Z, rows.y, rows.env)
    expected = np.array([[False, True, True], [True, False, False], [True, False, False]])
    for values in (found.pairs, found.se, found.pair_intervals[..., 0], found.pair_pvalues):
        np.testing.assert_array_equal(np.isnan(values), expected)
    assert np.isfinite(found.value)
    assert 0 < found.pvalue <= 1
    (note,) = (text for text in found.notes if text.startswith("No gap"))
    assert "site c under the relation of site d" in note
    assert "site d under the relation of site e" not in note
    assert found.pair_pvalues[1, 2] >= found.pvalue


def test_nothing_left_is_said(seed: int) -> None:
    rows = shifted(seed)
    found = transport_gap(rows.Z + 40.0 * rows.code[:, None], rows.y, rows.env)
    assert np.isnan([found.value, found.pvalue, found.statistic, *found.interval]).all()
    assert any("No pair of environments can be compared" in note for note in found.notes)
    assert found.to_dict()["value"] is None


def test_few_effective_rows_are_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["large", "small"], [500, FEWEST_ROWS - 2])
    Z = rng.normal(size=(len(env), 1))
    found = transport_gap(Z, Z[:, 0] + rng.normal(size=len(env)), env)
    assert np.isnan(found.pairs[0, 1])  # the rows of "small" stand for those of "large"
    assert np.isfinite(found.pairs[1, 0])


def test_many_refusals_are_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(5), 100)
    Z = rng.normal(size=(500, 1)) + 30.0 * env[:, None]
    found = transport_gap(Z, rng.normal(size=500), env)
    assert any("and 15 more of 20 pairs" in note for note in found.notes)


# --- small environments ----------------------------------------------------------------------------------------------
def test_a_small_environment_borrows_the_model_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["north", "south", "tiny"], [400, 400, 60])
    Z = rng.normal(size=(860, 14))
    found = transport_gap(Z, Z[:, 0] + rng.normal(size=860), env)
    assert found.outcome == "a linear head per environment or shared"
    (note,) = (text for text in found.notes if text.startswith("Too few rows"))
    assert "tiny" in note
    assert "north" not in note
    compared = np.isfinite(found.pairs)  # of 60 rows in 14 columns, few may be left to stand in for others
    assert compared[:2, :2].all()
    assert np.all(np.abs(found.pairs[compared]) <= 6 * found.se[compared])
    assert np.all(found.se[compared] < 1.0)


def test_more_columns_than_rows_leave_the_ratio_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 60)
    Z = rng.normal(size=(120, 40))
    found = transport_gap(Z, rng.normal(size=120), env, ratio=lambda Z: np.zeros((len(Z), 2)))
    assert found.outcome == "mean outcome"
    assert any("rest on the density ratio alone" in note for note in found.notes)
    assert np.abs(found.pairs[0, 1]) < 6 * found.se[0, 1]


# --- input ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"n_boot": 10}, "n_boot is 10"),
        ({"seed": -1}, "seed"),
        ({"ratio": "tarot"}, "tarot"),
        ({"predictions": np.zeros(7)}, "rows"),
        ({"predictions": np.zeros((380, 2))}, "predictions have 2 columns"),
        ({"predictions": np.full(380, np.nan)}, "missing"),
        ({"task": "poetry"}, "poetry"),
    ],
)
def test_input_that_cannot_be_used(options: dict[str, Any], message: str, seed: int) -> None:
    rows = shifted(seed)
    with pytest.raises(InputError, match=message):
        transport_gap(rows.Z, rows.y, rows.env, **options)


def test_classes_need_probabilities(seed: int) -> None:
    rows = shifted(seed)
    with pytest.raises(InputError, match=r"outside 0\.\.1"):
        transport_gap(rows.Z, (rows.y > 0).astype(int), rows.env, predictions=rows.score)


# --- what users get wrong ---------------------------------------------------------------------------------------------
def test_columns_of_given_predictions_tell_classes_from_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    Z, env, y = rng.normal(size=(600, 1)), np.repeat(["a", "b"], 300), np.arange(600) % 15
    found = transport_gap(Z, y, env, predictions=np.full((600, 15), 1 / 15), n_boot=99)
    assert (found.task, found.by_class.shape) == ("multiclass", (2, 2, 15))
    assert transport_gap(Z, y % 3 + 1, env, predictions=np.full(600, 2.0), n_boot=99).task == "regression"


def test_predictions_that_are_no_numbers_are_named(seed: int) -> None:
    rows = shifted(seed)
    holes = np.where(np.arange(len(rows.y)) < 7, np.nan, 0.0)
    with pytest.raises(InputError, match=r"predictions: 7 rows have missing or infinite values \(.+ of \d+\); predict"):
        transport_gap(rows.Z, rows.y, rows.env, predictions=holes)
    with pytest.raises(InputError, match="predictions hold text"):
        transport_gap(rows.Z, rows.y, rows.env, predictions=np.full(len(rows.y), "yes"))


def test_columns_that_keep_environments_apart_are_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["north", "south"], 200)
    X = pd.DataFrame({"age": rng.normal(size=400), "site code": (env == "south") * 1.0, "dose": rng.normal(size=400)})
    found = transport_gap(X, rng.normal(size=400), env)
    assert any("They lie apart most in site code: leaving" in note for note in found.notes)
    assert np.isnan(found.pairs[0, 1])


def test_an_environment_too_small_to_hold_rows_out_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["large", "tiny"], [300, 25])
    found = transport_gap(rng.normal(size=(325, 1)), rng.normal(size=325), env)
    assert any('Environment "tiny" has 25 rows, too few to hold some out' in note for note in found.notes)
    several = transport_gap(rng.normal(size=(325, 1)), rng.normal(size=325), np.repeat(list("abc"), [270, 30, 25]))
    assert any(note.startswith("2 environments have rows (down to 25) too few to hold") for note in several.notes)


def test_a_standard_error_that_no_probability_has_is_not_shown() -> None:
    """Heads that nearly split their classes have next to no curvature, and its inverse knows no bounds."""
    rng = np.random.default_rng(0)
    z, env = rng.normal(size=(600, 2)), np.repeat(["a", "b", "c"], 200)
    z[env == "c"] += 1.0
    y = (z[:, 0] + 0.02 * rng.normal(size=600) > 0).astype(int)
    found = transport_gap(z, y, env, n_boot=99)
    unknown = np.isnan(found.pairs)
    assert [(found.labels[a], found.labels[b]) for a, b in np.argwhere(unknown)] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
        ("c", "b"),
    ]
    assert np.isnan(found.se[unknown]).all()
    assert np.isnan(found.pair_intervals[unknown]).all()
    assert np.isnan(found.pair_pvalues[unknown]).all()
    assert found.se[~unknown].max() <= 0.5
    assert abs(found.value) < 0.1
    assert found.notes == (
        "No gap where its rows leave open what an outcome model would say of others, for a column that hardly varies "
        "there, or that nearly splits the classes: a under the relation of b, a under the relation of c, b under the "
        "relation of c, c under the relation of b. Fewer columns may settle it.",
    )
    fewer = transport_gap(z[:, 1], y, env, n_boot=99)
    assert np.isfinite(fewer.se).all()
    assert fewer.se.max() < 0.1


def test_too_many_pairs_of_environments_are_left_out_of_an_audit_and_grouping_brings_them_back(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(600, 2)), np.arange(600) % 6
    y = X[:, 0] + rng.normal(size=600)
    monkeypatch.setattr("invariscope.criteria.transport.transport_gap.MOST_WORK", 3 * 6**3)
    found = iv.audit(None, X, y, env, n_boot=99, criteria="transport_gap")
    assert found.left_out["transport_gap"] == (
        "30 pairs of 6 environments take minutes to compare. Group the environments into fewer; up to about 500, "
        "iv.transport_gap itself takes its time."
    )
    assert iv.audit(None, X, y, env // 2, n_boot=99, criteria="transport_gap")["transport_gap"].pairs.shape == (3, 3)
    assert iv.transport_gap(X, y, env, n_boot=99).pairs.shape == (6, 6)


def test_more_environments_than_memory_allows_are_refused_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(4000, 1)), np.arange(4000) % 800
    with pytest.raises(InputError, match=r"^comparing 800 environments with each other takes 16 GB of memory: group"):
        iv.transport_gap(X, X[:, 0] + rng.normal(size=4000), env)
