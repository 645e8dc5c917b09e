"""Paired losses: by hand, against slow loops, and how often their intervals hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invariscope.rows.environments import Environments
from invariscope.rows.targets import target_of
from invariscope.selection.paired_losses import (
    RowLosses,
    difference_of_shares,
    losses_of,
    losses_of_constant,
)
from tests.statistical.bands import band


def of_rows(y: list[float], env: str, weight: list[float] | None = None) -> Environments:
    return Environments(np.zeros((len(y), 1)), y, list(env), weight)


def test_by_hand() -> None:
    """Two of four wrong in a, none of two in b; the other model one of four, one of two."""
    rows = of_rows([0, 0, 1, 1, 0, 1], "aaaabb")
    one = RowLosses(rows, np.array([1.0, 1, 0, 0, 0, 0]), "zero_one")
    other = RowLosses(rows, np.array([1.0, 0, 0, 0, 1, 0]), "zero_one")
    assert one.mean().value == 1 - (0.5 + 0) / 2
    found = one.beyond(other)
    assert found.value == (0.25 - 0.5) / 2
    # Agresti and Min: (b − c) / (n + 2), and ((b + c + 1) − (b − c)² / (n + 2)) / (n + 2)²
    centre = (1 / 6 - 1 / 4) / 2
    variance = ((1 + 1) - 1 / 6) / 36 + ((1 + 1) - 1 / 4) / 16
    half = 1.959963984540054 * math.sqrt(variance) / 2
    assert found.interval == pytest.approx((centre - half, centre + half), rel=1e-12)


def test_extra_loss_is_a_share_of_the_references() -> None:
    rows = of_rows([0, 0, 0, 0], "aabb")
    one, other = (RowLosses(rows, np.array(values), "squared") for values in ([2.0, 4, 1, 5], [1.0, 3, 2, 2]))
    found = one.beyond(other)
    assert found.value == pytest.approx(3 / 2 - 1)
    residual = np.array([2.0 - 1.5, 4 - 4.5, 1 - 3, 5 - 3]) / 2
    errors = [np.var(residual[part], ddof=1) / 2 for part in (slice(0, 2), slice(2, 4))]
    quantile = 12.706204736432095  # of Student's t with one degree of freedom
    assert found.interval == pytest.approx(
        tuple(0.5 + side * quantile * math.sqrt(sum(errors)) / 2 for side in (-1, 1))
    )
    assert math.isnan(one.beyond(RowLosses(rows, np.zeros(4), "squared")).value)
    assert one.beyond(one).interval == (0.0, 0.0)


@pytest.mark.parametrize("loss", ["zero_one", "log_loss"])
def test_the_constant_of_classes_by_search(loss: str) -> None:
    rng = np.random.default_rng(0)
    env = rng.choice(list("abc"), 60, p=[0.6, 0.3, 0.1])
    y = rng.choice(["x", "y", "z"], 60, p=[0.2, 0.5, 0.3])
    weight = rng.integers(1, 4, 60)
    rows = Environments(np.zeros((60, 1)), y, env, weight)
    found = losses_of_constant(rows, target_of(rows), loss).mean().value
    shares = np.mean([[np.average(y[env == e] == k, weights=weight[env == e]) for k in "xyz"] for e in "abc"], axis=0)
    assert found == pytest.approx(shares.max() if loss == "zero_one" else -shares @ np.log(shares), rel=1e-12)


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_no_other_constant_is_better(loss: str) -> None:
    rng = np.random.default_rng(1)
    y, env = rng.exponential(size=91), rng.choice(list("ab"), 91, p=[0.8, 0.2])
    rows = Environments(np.zeros((91, 1)), y, env)
    best = losses_of_constant(rows, target_of(rows), loss).mean().value
    for constant in y:
        other = losses_of(rows.grouped(np.full(91, constant), "c")[:, None], rows, target_of(rows), loss)
        assert best <= other.mean().value + 1e-12


def test_groups_that_are_no_environments() -> None:
    rng = np.random.default_rng(2)
    env, group, y = rng.choice(list("ab"), 50), rng.integers(0, 3, 50), rng.normal(size=50)
    rows = Environments(np.zeros((50, 1)), y, env)
    losses = RowLosses(rows, rows.grouped(y**2, "loss"), "squared")
    found = losses.in_groups(("p", "q", "r"), group)
    for code, label in enumerate("pqr"):
        assert found[label].value == pytest.approx(np.mean(y[group == code] ** 2))
    same = losses.in_groups(rows.labels, np.searchsorted(["a", "b"], env))
    for label, one in losses.per_environment().items():
        assert same[label].value == pytest.approx(one.value)
        assert same[label].interval == pytest.approx(one.interval)


def test_intervals_hold_the_true_difference() -> None:
    """Of accuracies of two models that mostly agree; and of a share of extra loss. 40 rows in each of three places."""
    rng = np.random.default_rng(3)
    rows, times = of_rows([0.0] * 120, "a" * 40 + "b" * 40 + "c" * 40), 1500
    rates = np.repeat([0.05, 0.1, 0.2], 40)
    inside = np.zeros((2, times), bool)
    for k in range(times):
        u = rng.random(120)
        differ = np.where(u < rates, 1.0, np.where(u < rates + 0.03, -1.0, 0.0))
        low, high = difference_of_shares(rows, differ).interval
        inside[0, k] = low <= np.mean([0.05, 0.1, 0.2]) - 0.03 <= high
        first = rng.exponential(size=120) * np.repeat([1.0, 2.0, 3.0], 40)
        second = RowLosses(rows, 1.3 * first + rng.normal(size=120), "squared")
        low, high = second.beyond(RowLosses(rows, first, "squared")).interval
        inside[1, k] = low <= 0.3 <= high
    assert np.abs(inside.mean(axis=1) - 0.95).max() < band(0.95, times)


def test_one_row_has_no_interval() -> None:
    rows = of_rows([0.0, 1.0, 2.0, 3.0], "aabb")
    found = RowLosses(rows, np.array([1.0, 2, 3, 4]), "squared").in_groups(("p", "q"), np.array([0, 1, 1, 1]))
    assert found["p"].value == 1.0
    assert all(map(math.isnan, found["p"].interval))
    assert found["q"].interval[0] < 3.0 < found["q"].interval[1]
