from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from invariscope.errors import InputError
from invariscope.training import Rows
from invariscope.training.rows import places
from tests.training.conftest import made_rows


def test_tensors_of_any_precision_are_rows() -> None:
    X = torch.tensor([[0.5], [1.0], [-2.0], [4.0]], dtype=torch.bfloat16, requires_grad=True)
    y, env = X.detach()[:, 0].clone().requires_grad_(), torch.tensor([3, 4, 3, 4], dtype=torch.bfloat16)
    rows = Rows.of(X, y, env, task="regression")
    assert [part.tolist() for part in rows.inputs] == [[[0.5], [-2.0]], [[1.0], [4.0]]]
    assert [part.tolist() for part in rows.targets] == [[0.5, -2.0], [1.0, 4.0]]
    assert rows.labels == (3.0, 4.0)


def test_rows_are_grouped_by_label_in_their_order() -> None:
    rows = Rows.of([[1.0], [2.0], [3.0], [4.0]], [10.0, 20.0, 30.0, 40.0], ["b", "a", "b", "a"])
    assert rows.labels == ("a", "b")
    assert [part[:, 0].tolist() for part in rows.inputs] == [[2.0, 4.0], [1.0, 3.0]]
    assert [part.tolist() for part in rows.targets] == [[20.0, 40.0], [10.0, 30.0]]


def test_several_classes_become_columns() -> None:
    rows = Rows.of(np.zeros((3, 1)), [2, 0, 1], task="multiclass")
    assert rows.outputs == 3
    assert rows.targets[0].tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert rows.arrays()[1][0].tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("y", "options", "task", "classes", "codes"),
    [
        ([-1, 1, 1], {}, "binary", (-1, 1), [0, 1, 1]),
        ([1, 3, 2], {}, "multiclass", (1, 2, 3), [0, 2, 1]),
        (["b", "a", "c"], {}, "multiclass", ("a", "b", "c"), [1, 0, 2]),
        ([True, False, True], {}, "binary", (False, True), [1, 0, 1]),
        ([0, 2, 2], {"outputs": 3}, "multiclass", (0, 1, 2), [0, 2, 2]),  # the class 1 is absent
        ([0, 1, 1], {"outputs": 2}, "multiclass", (0, 1), [0, 1, 1]),  # a column for either class
        ([0, 1, 1], {"task": "multiclass"}, "multiclass", (0, 1), [0, 1, 1]),
        ([0, 1, 1], {"task": "regression"}, "regression", (), [0, 1, 1]),
        ([0, 1, 2], {"outputs": 1}, "regression", (), [0, 1, 2]),
        ([0.5, 1.5, 4.0], {}, "regression", (), [0.5, 1.5, 4.0]),
    ],
)
def test_targets_follow_the_one_rule(
    y: list[Any], options: dict[str, Any], task: str, classes: tuple[Any, ...], codes: list[float]
) -> None:
    rows = Rows.of(np.zeros((3, 1)), y, **options)
    assert (rows.task, rows.classes, rows.arrays()[1][0].tolist()) == (task, classes, codes)
    assert rows.outputs == (len(classes) if task == "multiclass" else 1)


def test_the_users_arrays_are_not_shared() -> None:
    X = np.ones((4, 1))
    rows = Rows.of(X, np.ones(4), task="regression")
    X[:] = 5
    assert float(rows.inputs[0].max()) == 1


@pytest.mark.parametrize("size", [7, 8, 20])
def test_every_row_comes_once_before_any_comes_again(size: int, seed: int) -> None:
    per_epoch = size // 3
    for epoch in range(3):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        drawn = torch.cat([places(size, 3, 0, seed, step) for step in steps]).tolist()
        assert len(set(drawn)) == len(drawn) == per_epoch * 3


def test_orders_differ_between_epochs_environments_and_seeds(seed: int) -> None:
    first = places(50, 50, 0, seed, 0).tolist()
    assert first != places(50, 50, 0, seed, 1).tolist()
    assert first != places(50, 50, 1, seed, 0).tolist()
    assert first != places(50, 50, 0, seed + 1, 0).tolist()


def test_held_out_rows_are_a_share_of_every_environment_and_no_row_is_in_both(seed: int) -> None:
    rows = made_rows(seed, sizes=(30, 40))
    kept, out = rows.halved(0.2, seed)
    assert out is not None
    assert kept.sizes == (24, 32)
    assert out.sizes == (6, 8)
    for whole, one, other in zip(rows.inputs, kept.inputs, out.inputs, strict=True):
        together = torch.cat([one, other])
        assert torch.equal(together[together[:, 0].argsort()], whole[whole[:, 0].argsort()])


def test_nothing_held_out() -> None:
    rows = made_rows(0)
    assert rows.halved(0.0, 0) == (rows, None)


def test_stacked_draws_are_found_again(seed: int) -> None:
    draws = [made_rows(seed + k) for k in range(3)]
    stacked = Rows.stack(draws)
    assert stacked.sizes == draws[0].sizes
    for place, draw in enumerate(draws):
        again = stacked.draw(place)
        assert all(torch.equal(a, b) for a, b in zip(again.inputs, draw.inputs, strict=True))


def test_refuses_draws_of_other_sizes_tasks_or_columns() -> None:
    one = made_rows(0)
    for other in (made_rows(0, sizes=(30, 41)), made_rows(0, "binary"), made_rows(0, columns=4)):
        with pytest.raises(InputError, match="differ in their task, columns or rows per environment: draw the same"):
            Rows.stack([one, other])


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_refuses_a_share_that_is_none(share: float) -> None:
    with pytest.raises(InputError, match="held-out share"):
        made_rows(0).halved(share, 0)


def test_refuses_to_hold_out_all_of_a_small_environment() -> None:
    with pytest.raises(InputError, match='environment "site 0" has 1 row'):
        made_rows(0, sizes=(1, 30)).halved(0.5, 0)


def test_refuses_lengths_that_differ() -> None:
    with pytest.raises(InputError, match="X has 3 rows, but y has 2: give one target per row"):
        Rows.of(np.zeros((3, 1)), [1.0, 2.0])
    with pytest.raises(InputError, match="env has 2 labels for 3 rows"):
        Rows.of(np.zeros((3, 1)), [1.0, 2.0, 3.0], ["a", "b"])
