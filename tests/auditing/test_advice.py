"""Who is the odd one out, and who suffers from it: exact cases, in which being served and serving are not the same."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import invariscope as iv
from invariscope.auditing.advice import comparable, culprit, odd_one_out
from invariscope.results import Estimate, Overlap, RegretResult

CITIES = ("Bern", "Oslo", "Rome", "Ulm")
MARGIN = 0.02
#: Extra loss in the city of the row under the head of the city of the column.
ROME_PULLS = np.array([[0, 0.01, 0.5, 0.02], [0.03, 0, 0.8, 0.01], [0.6, 0.2, 0, 0.6], [0.01, 0.3, 0.5, 0]])
#: Bern pays most under any other head, but its own head suits the others; with Rome's neither is so.
BERN_PAYS = np.array([[0, 0.5, 0.5, 0.5], [0.01, 0, 0.4, 0.01], [0.4, 0.4, 0, 0.4], [0.01, 0.01, 0.4, 0]])


def apart(pairs: Any) -> Any:
    """Without an environment's own head."""
    return np.where(np.eye(len(pairs), dtype=bool), np.nan, pairs)


@functools.cache
def computed() -> RegretResult:
    rng = np.random.default_rng(0)
    return iv.regret(rng.normal(size=(80, 1)), rng.normal(size=80), np.repeat(CITIES, 20), n_boot=0)


def with_pairs(pairs: Any, oslo: float = 0.3) -> RegretResult:
    """A result with these pairs, in which sharing a head costs Oslo so much."""
    labels = CITIES[: len(pairs)]
    each = {label: Estimate(oslo if label == "Oslo" else 0.1, (0.05, 0.5)) for label in labels}
    return dataclasses.replace(computed(), labels=labels, pairs=np.array(pairs, float), per_environment=each)


def overlap_of(labels: tuple[str, ...], verdicts: Any) -> Overlap:
    size = len(labels)
    square = {name: np.ones((size, size)) for name in ("effective", "effective_rows", "mean_ratio", "largest")}
    return Overlap(
        labels=labels,
        **square,
        beyond_cap=np.zeros((size, size)),
        reached=np.ones((size, size)),
        cap=20.0,
        calibration=np.zeros(size),
        pair_verdicts=verdicts,
        pooled=np.ones(size),
        verdicts=("good",) * size,
    )


def test_the_odd_one_out_neither_serves_nor_is_served() -> None:
    """Whoever only pays, or only costs others, is a bystander: the two are added up."""
    assert odd_one_out(apart(ROME_PULLS)) == 2
    assert odd_one_out(apart(BERN_PAYS)) == 2
    assert odd_one_out(apart(BERN_PAYS.T)) == 2  # Bern's head costs most, and Bern itself is served by any


def test_one_extreme_pair_makes_nobody_odd() -> None:
    pairs = np.full((4, 4), 0.01)
    pairs[2], pairs[:, 2], pairs[1, 3] = 1.0, 1.0, 50.0
    assert odd_one_out(apart(pairs)) == 2


def test_of_two_or_of_what_cannot_be_compared_none_is_odd() -> None:
    assert odd_one_out(apart([[0, 0.5], [0.1, 0]])) == -1
    assert odd_one_out(np.full((3, 3), np.nan)) == -1
    assert culprit(with_pairs([[0, 0.5], [0.1, 0]], oslo=0.05), "Bern", MARGIN, None) is None


def test_a_row_without_a_number_is_no_reason_to_blame_anybody_else() -> None:
    pairs = apart(ROME_PULLS)
    pairs[3] = np.nan
    assert odd_one_out(pairs) == 2


@pytest.mark.parametrize(
    ("row", "cost", "blamed"),
    [
        ([0.03, 0, 0.8, 0.01], 0.3, "Rome"),
        ([0.16, 0, 0.8, 0.01], 0.3, "Rome"),  # a fifth of what Rome's head costs
        ([0.17, 0, 0.8, 0.01], 0.3, None),  # Bern's head is not for Oslo either
        ([0.03, 0, 0.8, 0.01], 0.8, None),  # Rome's head costs no more than sharing does
        ([0.03, 0, 0.8, 0.01], 0.79, "Rome"),
        ([0.02, 0, 0.03, 0.01], 0.01, "Rome"),  # within the margin all is fine
        ([0.005, 0, 0.02, 0.01], 0.01, None),  # and so is Rome's head
    ],
)
def test_the_odd_one_is_blamed_where_its_head_alone_is_not_for_who_suffers(
    row: list[float], cost: float, blamed: str | None
) -> None:
    pairs = ROME_PULLS.copy()
    pairs[1] = row
    regret = with_pairs(pairs, cost)
    assert odd_one_out(comparable(regret, None)) == 2
    assert culprit(regret, "Oslo", MARGIN, None) == blamed
    assert culprit(regret, "Rome", MARGIN, None) is None  # nobody suffers from itself


def test_heads_that_only_guess_are_left_out_whatever_the_order_of_the_labels() -> None:
    """Rows of Ulm are unlike those of Bern: what the one's head loses in the other is not looked at."""
    regret = with_pairs(ROME_PULLS)
    order = ("Ulm", "Rome", "Oslo", "Bern")
    verdicts = tuple(tuple("none" if {a, b} == {"Ulm", "Bern"} else "good" for b in order) for a in order)
    expected = apart(ROME_PULLS)
    expected[0, 3] = expected[3, 0] = np.nan
    np.testing.assert_array_equal(comparable(regret, overlap_of(order, verdicts)), expected)
    one_way = tuple(tuple("none" if (a, b) == ("Oslo", "Ulm") else "good" for b in order) for a in order)
    expected = apart(ROME_PULLS)
    expected[1, 3] = np.nan
    np.testing.assert_array_equal(comparable(regret, overlap_of(order, one_way)), expected)
    np.testing.assert_array_equal(comparable(regret, None), apart(ROME_PULLS))


def test_of_a_ladder_of_even_steps_no_end_is_to_blame() -> None:
    """Costs go with the square of the distance: the head of the middle costs the ends a quarter of the other end's."""
    slopes = np.array([1.0, 9.0, 17.0])
    pairs = (slopes[:, None] - slopes) ** 2
    for noise in (0.96, 1.0, 1.04):
        pairs[0, 1] = noise * 64.0
        assert culprit(with_pairs(pairs[::-1, ::-1], oslo=0.3), "Bern", MARGIN, None) is None
        assert culprit(with_pairs(pairs, oslo=0.3), "Bern", MARGIN, None) is None
