"""What training against the worst case achieves on rotated digits, and how worst cases in two spaces compare.

The full tables are in docs/worst_case.md, printed by examples/worst_case.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
import torch

import invariscope as iv
from examples.worst_case import SEEN, UNSEEN, Model, both_spaces, fitted
from invariscope.objectives import Objective, WorstCase, objective_of

MODELS = 2
STEPS = 250


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@lru_cache
def models(objective: Objective, seed: int) -> list[Model]:
    """Small digits that come with scikit-learn: 150 per rotation to train on, 200 to judge."""
    found = []
    for place in range(MODELS):
        data = iv.datasets.rotated_digits((*SEEN, UNSEEN), n=150, n_test=200, seed=MODELS * seed + place)
        found.append(fitted(objective, data, MODELS * seed + place, STEPS, 3e-3))
    return found


def means(objective: Objective, seed: int) -> dict[str, float]:
    """Accuracies in per cent, and the worst case at fractions of the unit, on rows that nobody has trained on."""
    found = []
    for one in models(objective, seed):
        Z, y = one.features(SEEN)
        curve = iv.worst_case(one.head, Z, y, loss="log_loss", radii=[0.25, 0.5, 1.0], relative=True, n_boot=0)
        found.append([100 * one.accuracy(SEEN), 100 * one.accuracy((UNSEEN,)), *curve.loss])
    return dict(zip(("seen", "unseen", "0.25", "0.5", "1"), np.mean(found, axis=0), strict=True))


@pytest.mark.parametrize("base", ["erm", "vrex"])
def test_training_against_the_worst_case_lowers_it_and_not_the_accuracy(base: str, seed: int) -> None:
    plain, ours = (
        means(objective_of(base), seed),
        means(WorstCase(1.0, base=base, fraction=0.5, iterations=4, bisections=8), seed),
    )
    for fraction in ("0.5", "1"):  # of each model's own unit
        assert ours[fraction] < 0.95 * plain[fraction]
    assert ours["seen"] > plain["seen"] - 3  # per cent
    assert ours["unseen"] > plain["unseen"] - 5


def test_the_representation_does_not_overstate_the_worst_case_of_inputs(seed: int) -> None:
    (inside_unit, inside), (outside_unit, outside), points = both_spaces(models(objective_of("erm"), seed)[0], 80)
    assert inside_unit > 0
    assert outside_unit > 0
    assert (outside > 0.9 * inside).all()  # each at the same fraction of its own unit
    for _, _, reached, bound, share in points:
        assert reached <= bound * (1 + 1e-6)
        assert share > 0.3
