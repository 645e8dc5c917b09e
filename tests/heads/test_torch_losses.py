"""Losses of rows and risks of environments: by hand, against loops, and input that does not fit."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import (
    checked_task,
    column_losses,
    curvature,
    predicted,
    probabilities,
    risks,
    row_losses,
    slopes,
    target_columns,
    task_of,
)
from tests.objectives.finite_differences import assert_gradient

TASKS = ("regression", "binary", "multiclass")


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_squared_error_by_hand() -> None:
    assert row_losses(torch.tensor([[1.0], [4.0]]), torch.tensor([3.0, 4.0]), "regression").tolist() == [4.0, 0.0]


def test_logistic_loss_by_hand() -> None:
    scores = torch.tensor([[math.log(3.0)]] * 3, dtype=torch.float64)  # a probability of 3/4
    losses = row_losses(scores, torch.tensor([1.0, 0.0, 0.5]), "binary")
    expected = [-math.log(0.75), -math.log(0.25), -0.5 * math.log(0.75) - 0.5 * math.log(0.25)]
    assert losses.tolist() == pytest.approx(expected, rel=1e-12)


def test_cross_entropy_by_hand() -> None:
    scores = torch.log(torch.tensor([[0.2, 0.3, 0.5]] * 2, dtype=torch.float64))
    codes = row_losses(scores, torch.tensor([1, 2]), "multiclass")
    assert codes.tolist() == pytest.approx([-math.log(0.3), -math.log(0.5)], rel=1e-12)
    mixed = row_losses(scores, torch.tensor([[0.0, 0.75, 0.25]] * 2, dtype=torch.float64), "multiclass")
    assert mixed.tolist() == pytest.approx([-0.75 * math.log(0.3) - 0.25 * math.log(0.5)] * 2, rel=1e-12)


def test_extreme_scores_have_finite_losses() -> None:
    far = torch.tensor([[1000.0], [-1000.0]])
    assert row_losses(far, torch.tensor([0.0, 1.0]), "binary").tolist() == [1000.0, 1000.0]
    several = row_losses(torch.tensor([[1000.0, 0.0, 0.0]]), torch.tensor([[0.0, 1.0, 0.0]]), "multiclass")
    assert several.tolist() == [1000.0]


@pytest.mark.parametrize("task", TASKS)
def test_risks_are_means_of_environments_of_any_size(task: str, seed: int) -> None:
    outputs = 3 if task == "multiclass" else 1
    logits = [normal(seed + rows, rows, outputs) for rows in (2, 5)]
    targets = [torch.arange(rows) % (3 if task == "multiclass" else 2) for rows in (2, 5)]
    found = risks(logits, targets, task)
    for environment in range(2):
        total = 0.0
        for row, target in zip(logits[environment].tolist(), targets[environment].tolist(), strict=True):
            if task == "regression":
                total += (row[0] - target) ** 2
            elif task == "binary":
                total += math.log1p(math.exp(-row[0] if target else row[0]))
            else:
                total += math.log(sum(map(math.exp, row))) - row[target]
        assert float(found[environment]) == pytest.approx(total / len(targets[environment]), rel=1e-10)


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_one_output_may_come_without_a_column(task: str, seed: int) -> None:
    scores, values = normal(seed, 4), torch.tensor([0.0, 1.0, 1.0, 0.0])
    assert torch.equal(row_losses(scores, values, task), row_losses(scores[:, None], values, task))
    assert probabilities(scores, task).shape == (4, 1)


@pytest.mark.parametrize("task", TASKS)
def test_losses_have_the_gradient_prediction_minus_target(task: str, seed: int) -> None:
    outputs = 3 if task == "multiclass" else 1
    scores = normal(seed, 4, outputs)
    values = torch.tensor([0, 1, 1, 0])
    assert_gradient(lambda given: row_losses(given, values, task).sum(), scores)
    gradient = torch.func.grad(lambda given: row_losses(given, values, task).sum())(scores)
    errors = probabilities(scores, task) - target_columns(values, task, outputs, torch.float64)
    torch.testing.assert_close(gradient, errors * (2 if task == "regression" else 1))


def test_task_is_found_from_the_shapes() -> None:
    assert task_of([torch.zeros(2, 3)], [torch.tensor([0, 2])]) == "multiclass"
    assert task_of([torch.zeros(2)], [torch.tensor([0, 1])]) == "binary"
    assert task_of([torch.zeros(2, 1)], [torch.tensor([0.0, 1.0])]) == "regression"
    assert checked_task("binary", [torch.zeros(2, 1)], [torch.tensor([0.0, 1.0])]) == "binary"
    assert checked_task("classification", [torch.zeros(2, 1)], [torch.tensor([0.0, 1.0])]) == "binary"
    assert checked_task("classification", [torch.zeros(2)], [torch.tensor([0, 1])]) == "binary"
    assert checked_task("classification", [torch.zeros(2, 2)], [torch.tensor([0, 1])]) == "multiclass"
    assert checked_task("auto", [torch.zeros(2, 3)], [torch.tensor([0, 2])]) == "multiclass"
    assert checked_task("auto", [torch.zeros(2)], [torch.tensor([0.5, 7.0])]) == "regression"  # two rows, not classes


def test_targets_become_columns() -> None:
    assert target_columns(torch.tensor([2, 0]), "multiclass", 3).tolist() == [[0, 0, 1], [1, 0, 0]]
    shares = torch.tensor([[0.5, 0.5, 0.0]])
    assert torch.equal(target_columns(shares, "multiclass", 3), shares)
    assert target_columns(torch.tensor([1, 0]), "binary", 1).tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("task", "logits", "targets", "message"),
    [
        ("guess", [torch.zeros(2, 1)], [torch.zeros(2)], 'task "guess" is unknown'),
        ("auto", [torch.zeros(2, 1)], [torch.tensor([1, 2])], "one output cannot tell several classes apart"),
        ("auto", [torch.zeros(2, 1)], [torch.tensor([0.0, 1.0])], "may be meant either way"),
        ("auto", [], [], "0 environments of logits"),
        ("auto", [torch.zeros(2, 1)], [torch.zeros(2)] * 2, "1 environments of logits, but 2 of targets"),
        ("auto", [torch.zeros(2, 1)], [torch.zeros(3)], "2 rows of logits, but 3 of targets"),
    ],
)
def test_input_that_does_not_fit_is_named(task: str, logits: list[Tensor], targets: list[Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_task(task, logits, targets)


@pytest.mark.parametrize(("task", "outputs"), [("regression", 1), ("binary", 1), ("multiclass", 4)])
def test_losses_of_columns_are_those_of_rows_with_their_derivatives(task: str, outputs: int) -> None:
    scores = normal(0, 6, outputs)
    targets = normal(1, 6) if task == "regression" else torch.arange(6) % max(outputs, 2)
    columns = target_columns(targets, task, outputs, torch.float64)
    stacked = torch.stack([scores, 2 * scores])  # however many axes lead
    losses = column_losses(stacked, columns, task)
    torch.testing.assert_close(losses[0], row_losses(scores, targets, task), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(losses[1], row_losses(2 * scores, targets, task), rtol=1e-12, atol=1e-14)
    factor = torch.ones(6, dtype=torch.float64, requires_grad=True)
    column_losses(factor[:, None] * scores, columns, task).sum().backward()
    assert factor.grad is not None
    halved = 2.0 if task == "regression" else 1.0
    torch.testing.assert_close(halved * slopes(scores, columns, task), factor.grad, rtol=1e-12, atol=1e-14)
    if task != "regression":
        matrix = torch.func.vmap(torch.func.jacrev(lambda row: predicted(row, task)))(scores)
        free = 0.0 if task == "binary" else 1 / outputs
        torch.testing.assert_close(curvature(predicted(scores, task), task) - free, matrix, rtol=1e-12, atol=1e-14)


def test_slopes_refuse_columns_that_do_not_match() -> None:
    with pytest.raises(RuntimeError):
        slopes(torch.zeros(3, 2), torch.zeros(3, 1), "regression")
