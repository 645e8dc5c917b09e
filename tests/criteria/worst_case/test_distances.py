"""How far the environments are apart: exact cases, sampling noise taken away, blind directions left out."""

from __future__ import annotations

import itertools

import numpy as np
import ot
import pytest

from invariscope.criteria.worst_case import distances as room
from invariscope.criteria.worst_case.distances import bins_of, distances


def shifted(
    seed: int, rows: int, width: int, shift: np.ndarray, environments: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(environments * rows, width))
    env = np.repeat(np.arange(environments), rows)
    Z[env == environments - 1] += shift
    return Z, env


def test_a_shift_is_as_long_as_it_is_in_the_directions_the_head_looks_at(seed: int) -> None:
    weights = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    Z, env = shifted(seed, 1200, 3, np.array([3.0, 4.0, 100.0]))  # the head never looks at the third column
    found = distances(Z, np.zeros(2400, np.intp), env, weights, np.random.default_rng(seed))
    assert found.pairs[0, 1] == found.pairs[1, 0] == pytest.approx(5.0, abs=0.25)
    assert found.apart.tolist() == [found.pairs[0, 1]] * 2
    assert np.diag(found.pairs).tolist() == [0, 0]


def test_environments_of_one_law_are_not_apart_however_many_directions_there_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(10, 40))
    Z, env = shifted(seed, 600, 40, np.zeros(40))
    groups = np.tile(np.arange(2), 600)
    squares = []
    for draw in range(6):
        found = distances(Z, groups, env, weights, np.random.default_rng([seed, draw])).pairs[0, 1]
        squares.append(found**2)
    # nine directions: halves of 150 rows are over 2 apart by chance alone
    assert np.mean(squares) < 0.35


def test_a_difference_of_label_shares_is_no_distance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.concatenate([rng.random(2000) < 0.2, rng.random(2000) < 0.8]).astype(np.intp)
    Z = rng.normal(size=(4000, 1)) + 10.0 * groups[:, None]  # the classes are far apart, the environments are not
    env = np.repeat(np.arange(2), 2000)
    found = distances(Z, groups, env, np.ones((1, 1)), np.random.default_rng(seed))
    assert found.pairs[0, 1] < 0.5
    without_labels = distances(Z, np.zeros(4000, np.intp), env, np.ones((1, 1)), np.random.default_rng(seed))
    assert without_labels.pairs[0, 1] > 5


@pytest.mark.parametrize("width", [1, 2])
def test_transport_is_optimal_over_all_ways_to_match_rows(width: int) -> None:
    rng = np.random.default_rng(3)
    seen = rng.normal(size=(10, width))
    a, b = np.arange(5), np.arange(5, 10)
    best = min(np.mean(np.sum((seen[a] - seen[list(p)]) ** 2, axis=1)) for p in itertools.permutations(b))
    assert room._squared(seen, np.ones(10), a, b) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("width", [1, 2])
def test_weight_two_is_the_row_given_twice_in_the_transport(width: int) -> None:
    rng = np.random.default_rng(4)
    seen = rng.normal(size=(7, width))
    twice = seen[[0, 0, 1, 2, 3, 4, 5, 6]]
    weight = np.array([2.0, 1, 1, 1, 1, 1, 1])
    once = room._squared(seen, weight, np.arange(3), np.arange(3, 7))
    assert once == pytest.approx(room._squared(twice, np.ones(8), np.arange(4), np.arange(4, 8)), rel=1e-12)


@pytest.mark.parametrize("sizes", [(5, 5), (40, 60)])
def test_on_a_line_rows_of_any_weight_are_moved_as_a_general_solver_would(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    seen, weight = np.round(rng.normal(size=(sum(sizes), 1)), 1), rng.gamma(1.0, size=sum(sizes))  # with ties
    a, b = np.arange(sizes[0]), np.arange(sizes[0], sum(sizes))
    costs = (seen[a] - seen[b].T) ** 2
    expected = ot.emd2(weight[a] / weight[a].sum(), weight[b] / weight[b].sum(), costs)
    assert room._squared(seen, weight, a, b) == pytest.approx(expected, rel=1e-10)


def test_rows_that_count_differently_are_split_among_others() -> None:
    rng = np.random.default_rng(7)
    seen, weight = rng.normal(size=(24, 2)), rng.gamma(1.0, size=24)
    a, b = np.arange(12), np.arange(12, 24)
    expected = ot.emd2(weight[a] / weight[a].sum(), weight[b] / weight[b].sum(), ot.dist(seen[a], seen[b]))
    assert room._squared(seen, weight, a, b) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("width", [2, 9])
def test_rows_that_count_alike_are_matched_as_a_general_solver_would(width: int) -> None:
    rng = np.random.default_rng(6)
    seen, even = rng.normal(size=(240, width)), np.full(120, 1 / 120)
    a, b = np.arange(120), np.arange(120, 240)
    expected = ot.emd2(even, even, ot.dist(seen[a], seen[b]))
    assert room._squared(seen, np.full(240, 3.0), a, b) == pytest.approx(expected, rel=1e-12)


def test_many_environments_are_only_compared_with_the_rest(seed: int) -> None:
    Z, env = shifted(seed, 60, 1, np.array([6.0]), environments=14)
    found = distances(Z, np.zeros(len(Z), np.intp), env, np.ones((1, 1)), np.random.default_rng(seed))
    assert np.isnan(found.pairs).all()
    assert found.apart.shape == (14,)
    assert np.argmax(found.apart) == 13
    assert found.apart[13] == pytest.approx(6.0, abs=1.0)


def test_a_class_that_is_too_rare_to_be_halved_has_no_distance() -> None:
    Z, env = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    found = distances(Z, np.zeros(6, np.intp), env, np.ones((1, 1)), np.random.default_rng(0))
    assert np.isnan(found.pairs[0, 1])


def test_numbers_fall_into_five_groups_and_ties_stay_together() -> None:
    y = np.array([0.0] * 50 + list(range(1, 51)))
    groups = bins_of(y)
    assert len(set(groups[:50].tolist())) == 1
    assert len(np.unique(groups)) <= 5
    assert np.all(np.diff(groups[50:]) >= 0)


def test_rows_of_weight_zero_are_not_there() -> None:
    rng = np.random.default_rng(5)
    Z, groups, env = rng.normal(size=(80, 2)), np.arange(80) % 2, (np.arange(80) // 2) % 2
    weight = (np.arange(80) < 60).astype(float)
    kept = weight > 0
    found = distances(Z, groups, env, np.eye(2), np.random.default_rng(0), weight)
    without = distances(Z[kept], groups[kept], env[kept], np.eye(2), np.random.default_rng(0))
    np.testing.assert_array_equal(found.pairs, without.pairs)
    few = distances(Z, groups, env, np.eye(2), np.random.default_rng(0), (np.arange(80) < 8).astype(float))
    assert np.isnan(few.pairs[0, 1])


def test_in_one_dimension_all_rows_count(seed: int) -> None:
    Z, env = shifted(seed, 4000, 1, np.array([0.5]))
    found = distances(Z, np.zeros(8000, np.intp), env, np.ones((1, 1)), np.random.default_rng(seed))
    assert found.pairs[0, 1] == pytest.approx(0.5, abs=0.12)  # five standard errors of a difference of means
