"""Conditional domain-adversarial training: classes count the same, and a shift of classes alone is no penalty."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from invariscope.objectives.cdann import balanced_weights, cdann_penalty


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def scores_like(classes: int, *targets: Tensor) -> list[Tensor]:
    return [torch.zeros(len(values), classes, dtype=torch.float64) for values in targets]


def test_weights_by_hand() -> None:
    three = functional.one_hot(torch.tensor([0, 0, 2, 0]), 3).double()  # class 1 is absent
    assert balanced_weights(three, "multiclass").tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 2, 1 / 6])
    mixed = torch.tensor([[0.0], [0.5]], dtype=torch.float64)  # 1.5 rows of one class, 0.5 of the other
    assert balanced_weights(mixed, "binary").tolist() == pytest.approx([1 / 3, (0.5 / 1.5 + 1) / 2])
    assert balanced_weights(torch.tensor([[3.0], [4.0]]), "regression").tolist() == [0.5, 0.5]
    assert balanced_weights(torch.ones(4, 1), "binary").tolist() == [0.25] * 4


def test_by_hand() -> None:
    targets = [torch.tensor([0, 0, 1]), torch.tensor([1, 0])]
    features = [torch.tensor([[1.0], [3.0], [2.0]]).double(), torch.tensor([[0.0], [-1.0]]).double()]
    found = cdann_penalty(
        scores_like(1, *targets),
        targets,
        features,
        discriminator=lambda zy: torch.stack([zy[:, 0] * (1 + zy[:, 1]), torch.zeros(len(zy)).double()], dim=1),
    )
    first = [-math.log(1 + math.exp(-score)) for score in (1, 3, 4)]  # score z (1 + y) for environment 0
    second = [-math.log(1 + math.exp(score)) for score in (0, -1)]
    expected = math.log(2) + (first[0] / 4 + first[1] / 4 + first[2] / 2 + second[0] / 2 + second[1] / 2) / 2
    assert float(found) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_alone_tell_nothing_however_their_shares_differ(classes: int, seed: int) -> None:
    sizes = ((1, 6, 2), (5, 1, 3), (2, 2, 7))
    targets = [torch.repeat_interleave(torch.arange(classes), torch.tensor(size[:classes])) for size in sizes]
    outputs = 1 if classes == 2 else 3
    features = [torch.zeros(len(values), 1, dtype=torch.float64) for values in targets]
    table = normal(seed, classes, 3)

    def by_class(columns: Tensor) -> Tensor:
        codes = columns[:, 1].long() if outputs == 1 else columns[:, 1:].argmax(dim=1)
        return table[codes]

    found = float(cdann_penalty(scores_like(outputs, *targets), targets, features, discriminator=by_class))
    # log 3 − cross-entropy of balanced classes: minus the mean divergence of the table from a guess
    expected = math.log(3) + float(torch.log_softmax(table, dim=1).mean())
    assert found == pytest.approx(expected, rel=1e-10)
    assert found < 0


def test_pooled_weights_are_the_same_where_environments_have_the_same_classes(seed: int) -> None:
    targets = [torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0, 2, 1])]
    features, head = [normal(seed, 4, 2), normal(seed + 1, 4, 2)], normal(seed + 2, 5, 2)
    found = cdann_penalty(scores_like(3, *targets), targets, features, discriminator=lambda zy: zy @ head)
    pooled, labels = torch.cat(targets), torch.tensor([0] * 4 + [1] * 4)
    counts = torch.bincount(pooled)
    weights = 1 / (counts[pooled] * 3)
    rows = torch.cat([torch.cat(features), functional.one_hot(pooled, 3)], dim=1)
    losses = functional.cross_entropy(rows @ head, labels, reduction="none")
    torch.testing.assert_close(found, math.log(2) - (weights * losses).sum())


def test_numbers_are_one_more_column(seed: int) -> None:
    targets, features = [normal(seed, 4), normal(seed + 1, 3)], [normal(seed + 2, 4, 2), normal(seed + 3, 3, 2)]
    head = normal(seed + 4, 3, 2)
    found = cdann_penalty(scores_like(1, *targets), targets, features, discriminator=lambda zy: zy @ head)
    parts = []
    for place, (rows, values) in enumerate(zip(features, targets, strict=True)):
        scores = rows @ head[:2] + values[:, None] * head[2]
        parts.append(functional.cross_entropy(scores, torch.full((len(rows),), place)))
    torch.testing.assert_close(found, math.log(2) - torch.stack(parts).mean())


def test_class_codes_and_indicators_are_the_same(seed: int) -> None:
    codes = [torch.tensor([0, 1, 2, 1]), torch.tensor([2, 2, 0])]
    features, head = [normal(seed, 4, 2), normal(seed + 1, 3, 2)], normal(seed + 2, 5, 2)
    indicators = [functional.one_hot(values, 3).double() for values in codes]
    first, second = (
        cdann_penalty(scores_like(3, *codes), given, features, discriminator=lambda zy: zy @ head)
        for given in (codes, indicators)
    )
    torch.testing.assert_close(first, second)
