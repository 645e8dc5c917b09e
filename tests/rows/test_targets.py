"""Targets: what is a class and what is a number, and classes an environment never shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariscope.errors import InputError
from invariscope.rows.environments import Environments
from invariscope.rows.targets import (
    Target,
    label_array,
    labels_in,
    refuse_unfit_for_own_heads,
    target_in,
    target_of,
    target_of_columns,
)

N = 24
ONE_VALUE = "has only one value: there is nothing to predict. Give rows in which it varies."


def data_with(y: Any, env: Any = None, weight: Any = None) -> Environments:
    env = ["north", "south"] * (N // 2) if env is None else env
    return Environments(np.arange(float(N)), y, env, weight)


def cycled(*values: Any) -> Any:
    """The values one after the other, each twice in a row so that both environments see all of them."""
    return np.array([values[i // 2 % len(values)] for i in range(N)])


@pytest.mark.parametrize(
    ("y", "task", "classes"),
    [
        (cycled("no", "yes"), "binary", ("no", "yes")),
        (cycled("a", "b", "c"), "multiclass", ("a", "b", "c")),
        (cycled(True, False), "binary", (False, True)),
        (cycled(0, 1), "binary", (0, 1)),
        (cycled(-1, 1), "binary", (-1, 1)),
        (cycled(2.5, 7.0), "binary", (2.5, 7)),
        (cycled(0, 1, 2), "multiclass", (0, 1, 2)),
        (cycled(1, 2, 3, 4), "multiclass", (1, 2, 3, 4)),
        (cycled(1.0, 2.0, 3.0), "multiclass", (1, 2, 3)),
        (pd.Categorical(cycled(10, 20, 40)), "multiclass", (10, 20, 40)),
        (pd.Series(cycled("a", "b"), name="sex"), "binary", ("a", "b")),
        (cycled(0, 1, 2, 4), "regression", ()),  # a gap: counts
        (cycled(2, 3, 4), "regression", ()),
        (cycled(0.5, 1.5, 2.5), "regression", ()),
        (np.arange(N), "regression", ()),
        (np.linspace(0, 1, N), "regression", ()),
    ],
)
def test_the_task_is_guessed_from_the_values(y: Any, task: str, classes: tuple[Any, ...]) -> None:
    data = data_with(y)
    target = target_of(data)
    assert (target.task, target.classes) == (task, classes)
    back = data.original(target.values)
    assert back.dtype == np.float64
    said = [classes[int(code)] for code in back] if classes else back.tolist()
    assert said == list(y)
    assert target.loss == {"regression": "squared", "binary": "logistic", "multiclass": "softmax"}[task]


def test_rare_values_beyond_the_first_rows_count() -> None:
    """Two values in the first thousands of rows do not make a column of numbers a class."""
    y = np.tile([0.0, 1.0], 4000)
    y[-4:] = [0.25, 0.5, 0.5, 0.25]
    data = Environments(np.arange(8000.0), y, np.tile([0, 0, 1, 1], 2000))
    assert target_of(data).task == "regression"


@pytest.mark.parametrize("name", ["classification", "multiclass"])
def test_numbers_become_classes_on_request(name: str) -> None:
    target = target_of(data_with(cycled(10, 20, 40)), name)
    assert (target.task, target.classes) == ("multiclass", (10, 20, 40))
    assert set(target.values) == {0.0, 1.0, 2.0}
    assert target_of(data_with(cycled(3, 4)), "binary").classes == (3, 4)


def test_whole_numbers_stay_numbers_on_request() -> None:
    target = target_of(data_with(cycled(0, 1, 2)), "regression")
    assert (target.task, target.classes) == ("regression", ())


def test_labels_have_no_regression() -> None:
    sentence = 'target "sex" holds labels, not numbers: give numbers, or leave out task="regression"'
    with pytest.raises(InputError, match=sentence):
        target_of(data_with(pd.Series(cycled("f", "m"), name="sex")), "regression")


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        (None, "auto", "no target given: pass y, one value per row"),
        (cycled(0, 1), "guess", 'task "guess" is unknown: use "auto", "regression" or "classification"'),
        (np.full(N, 3.0), "auto", f'target "target" {ONE_VALUE}'),
        (np.full(N, 3.0), "classification", f'target "target" {ONE_VALUE}'),
        (cycled("a", "b", "c"), "binary", 'target "target" has 3 classes: a binary task needs 2'),
        (cycled(0, 1), "log_loss", 'task "log_loss" is unknown'),
        (cycled(0, 1, 2), "binary", 'target "target" has 3 classes: a binary task needs 2'),
    ],
)
def test_impossible_targets(y: Any, task: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        target_of(data_with(y), task)


def test_too_many_classes() -> None:
    n = 2200
    data = Environments(np.arange(float(n)), np.arange(n) // 2, np.arange(n) % 2)
    with pytest.raises(InputError, match='target "target" has 1100 different numbers: too many to be classes'):
        target_of(data, "classification")


def test_fractions_that_hardly_repeat_are_no_classes() -> None:
    """Eleven of them, or more, need ten rows each; whole numbers do not."""
    for rows, too_many in ((109, True), (110, False)):
        y = np.arange(rows) % 11
        assert len(target_in(y * 1.0, task="classification").classes) == 11
        if too_many:
            with pytest.raises(InputError, match=r"11 different numbers: too many .* continuous.* InvariantRegressor"):
                target_in(y + 0.5, task="classification")
        else:
            assert len(target_in(y + 0.5, task="classification").classes) == 11
    assert len(target_in(np.arange(20) % 10 + 0.5, task="classification").classes) == 10


def test_a_number_that_is_constant_in_one_environment() -> None:
    y = np.where(np.arange(N) % 2, 5.0, np.arange(N))
    message = 'target "target" is constant in camera "south": there is nothing to predict there. Drop'
    data = Environments(np.arange(float(N)), y, ["north", "south"] * (N // 2), env_name="camera")
    target = target_of(data)
    assert target.task == "regression"
    with pytest.raises(InputError, match=message) as error:
        refuse_unfit_for_own_heads(data, target)
    assert error.value.environments == ("south",)


@pytest.mark.parametrize(
    ("y", "name"),
    [
        (np.where(np.arange(N) == 0, "rare", cycled("a", "b")), "rare"),
        (np.where(np.arange(N) == 0, 3, cycled(1, 2)), "3"),
    ],
)
def test_a_class_an_environment_never_shows(y: Any, name: str) -> None:
    message = (
        f'class "{name}" of target "target" never occurs in environment "south" \\(12 rows\\)\\. '
        "Drop that environment, merge the class with another, or add rows"
    )
    data = data_with(y)
    target = target_of(data)
    assert len(target.classes) == 3
    with pytest.raises(InputError, match=message) as error:
        refuse_unfit_for_own_heads(data, target)
    assert error.value.environments == ("south",)


@pytest.mark.parametrize(
    ("y", "options", "name"),
    [(cycled(0, 2), {"outputs": 3}, "1"), (cycled("a", "b"), {"classes": ("a", "c", "b")}, "c")],
)
def test_a_class_that_no_row_shows(y: Any, options: dict[str, Any], name: str) -> None:
    """No environment is to blame, so none could be dropped."""
    data = data_with(y)
    with pytest.raises(
        InputError, match=f'^class "{name}" of target "target" never occurs in any row, .*Give rows of'
    ) as e:
        refuse_unfit_for_own_heads(data, target_of(data, **options))
    assert e.value.environments == ()


def test_of_several_labels_all_but_one_may_be_absent() -> None:
    target = target_in(np.ones(4), ("a", "b"))
    assert (target.task, target.classes, target.values.tolist()) == ("binary", ("a", "b"), [1.0] * 4)
    with pytest.raises(InputError, match="only one value"):
        target_in(np.zeros(4), ("a",))


def test_constant_numbers_have_no_heads_of_their_own() -> None:
    data = data_with(np.full(N, 3.0))
    with pytest.raises(InputError, match=r"only one value: there is nothing to predict\. Give rows in which it varies"):
        refuse_unfit_for_own_heads(data, target_of(data, outputs=1))


def test_labels_are_as_people_write_them() -> None:
    assert [*map(str, labels_in(np.array([3.0, 0.5, 3.0]), None))] == ["0.5", "3"]
    assert labels_in(np.array([0.0]), ("a", "b")) == ("a", "b")
    assert label_array([1, "a", 2.5]).tolist() == [1, "a", 2.5]
    assert label_array([(1, 2), (3,)]).tolist() == [(1, 2), (3,)]
    assert [label_array(labels).dtype.kind for labels in ([0, 1], [0.5, 1], [False, True], ["a", "b"])] == [*"ifbU"]


@pytest.mark.parametrize(
    ("y", "columns", "task", "classes"),
    [
        (np.arange(N) % 12, 12, "multiclass", tuple(range(12))),
        (cycled(1, 2, 3), 1, "regression", ()),
        (cycled(0, 1), 1, "binary", (0, 1)),
        (cycled(0, 1), 3, "multiclass", (0, 1, 2)),
        (cycled(*"abc"), 1, "multiclass", ("a", "b", "c")),  # contradictions: what the target says by itself
        (cycled(5, 6), 3, "binary", (5, 6)),
        (np.linspace(0, 1, N), 3, "regression", ()),
    ],
)
def test_columns_of_predictions(y: Any, columns: int, task: str, classes: tuple[Any, ...]) -> None:
    target = target_of_columns(data_with(y), columns=columns)
    assert (target.task, target.classes) == (task, classes)


def test_a_class_without_weight_never_occurs() -> None:
    y = cycled("a", "b")
    weight = np.where((y == "b") & (np.arange(N) % 2 == 1), 0.0, 1.0)
    refuse_unfit_for_own_heads(data_with(y), target_of(data_with(y)))
    data = data_with(y, weight=weight)
    with pytest.raises(InputError, match='class "b" of target "target" never occurs in environment "south"'):
        refuse_unfit_for_own_heads(data, target_of(data))


@pytest.mark.parametrize(
    ("y", "outputs", "task", "classes"),
    [
        (cycled(1, 2, 3), 1, "regression", ()),  # one output cannot tell several classes apart
        (cycled("no", "yes"), 1, "binary", ("no", "yes")),
        (cycled(-1, 1), 1, "binary", (-1, 1)),
        (cycled(2.5, 7.0), 1, "binary", (2.5, 7)),
        (np.ones(N), 1, "binary", (0, 1)),
        (np.full(N, 3.0), 1, "regression", ()),
        (cycled(0, 1), 2, "binary", (0, 1)),
        (cycled(2.5, 7.0), 2, "binary", (2.5, 7)),
        (cycled(True, False), 3, "multiclass", (0, 1, 2)),
        (cycled(1, 2, 3), 3, "multiclass", (1, 2, 3)),
        (cycled(1, 2), 3, "multiclass", (0, 1, 2)),  # the class 0 is absent
        (cycled(10, 20, 40), 3, "multiclass", (10, 20, 40)),
        (cycled(2.5, 3.7, 4.1), 3, "multiclass", (2.5, 3.7, 4.1)),
        (pd.Categorical(cycled(0, 2)), 4, "multiclass", (0, 1, 2, 3)),
        (np.arange(N) % 12, 15, "multiclass", tuple(range(15))),
        (np.full(N, 2.0), 3, "multiclass", (0, 1, 2)),
    ],
)
def test_outputs_leave_no_doubt(y: Any, outputs: int, task: str, classes: tuple[Any, ...]) -> None:
    data = data_with(y)
    target = target_of(data, outputs=outputs)
    assert (target.task, target.classes) == (task, classes)
    back = data.original(target.values)
    assert ([classes[int(code)] for code in back] if classes else back.tolist()) == list(y)


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.linspace(2.5, 9, N), {"outputs": 3}, 'tells 3 classes apart, but target "target" has 24 different values'),
        (cycled(2.5, 3.7, 4.1, 5.2), {"outputs": 3}, "4 different values .2.5, 3.7, 4.1, 5.2.: give a target"),
        (np.linspace(2.5, 9, N), {"outputs": N}, "24 different values"),
        (cycled(*"abcde"), {"outputs": 3}, "5 different values .a, b, c, d, e.: give a target"),
        (cycled("a", "b"), {"outputs": 3}, "2 different values .a, b.: give a target"),
        (cycled(5, 6), {"outputs": 3}, "2 different values .5, 6.: give a target"),
        (cycled(*"abc"), {"outputs": 1}, "the model's one output tells 2 classes apart"),
        (cycled(1, 2, 3), {"outputs": 1, "task": "classification"}, "tells 2 classes apart"),
        (
            cycled(1, 2, 3),
            {"outputs": 3, "task": "regression"},
            "^task .regression. was asked for, but the model gives 3 numbers",
        ),
        (cycled("a", "b"), {"outputs": 2, "classes": ["a", "z"]}, 'label "b", which is not among classes .a, z.'),
        (cycled("a", "b"), {"outputs": 2, "classes": ["a"]}, "classes lists 1 .a.: name one for each of its outputs"),
    ],
)
def test_outputs_that_contradict_the_target(y: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        target_of(data_with(y), **options)


def test_named_classes_are_in_the_order_of_the_outputs() -> None:
    data = data_with(cycled("b", "c"))
    target = target_of(data, outputs=3, classes=["c", "b", "a"])
    assert target.classes == ("c", "b", "a")
    assert target.task == "multiclass"
    assert data.original(target.values)[:4].tolist() == [1, 1, 0, 0]
    numbers = data_with(cycled(0, 1, 2))
    assert numbers.original(target_of(numbers, classes=[2, 1, 0]).values)[:6].tolist() == [2, 2, 1, 1, 0, 0]


def test_a_task_that_is_named_wins_over_outputs() -> None:
    assert target_of(data_with(cycled(0, 1)), "regression", outputs=1).task == "regression"
    assert target_of(data_with(cycled(2.5, 3.7, 4.1)), "classification", outputs=3).classes == (2.5, 3.7, 4.1)


def test_several_numbers_per_row() -> None:
    values = np.arange(12.0).reshape(6, 2)
    target = target_in(values, outputs=2)
    assert (target.task, target.values.shape) == ("regression", (6, 2))
    with pytest.raises(InputError, match='the model has 3 outputs but target "target" has 2 columns'):
        target_in(values, outputs=3)
    with pytest.raises(InputError, match="2 columns: several numbers per row are a regression"):
        target_in(values, task="classification")


def test_targets_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Target("binary", np.zeros(2), ("a", "b")).task = "regression"  # type: ignore[misc]


def test_a_target_that_is_constant_everywhere_is_not_blamed_on_one_environment() -> None:
    data = Environments(np.arange(8.0).reshape(4, 2), np.ones(4), list("abab"), target_name="dose")
    for task in ("auto", "regression", "classification"):
        with pytest.raises(InputError) as refused:
            target_of(data, task)
        assert str(refused.value) == f'target "dose" {ONE_VALUE}'
