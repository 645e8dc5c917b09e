"""What iv.worst_case accepts: labels of any kind, tables and environments; and what it says to the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariscope import Environments, InputError, LinearHead, worst_case
from invariscope.results import WorstCaseResult

TWO = LinearHead([[-1.0], [1.0]], [0.0, 0.0])


def curve(head: LinearHead, Z: Any, y: Any, loss: str, radii: Any, **options: Any) -> WorstCaseResult:
    return worst_case(head, Z, y, loss=loss, radii=radii, n_boot=0, **options)


def test_labels_are_looked_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    head, Z = LinearHead(rng.normal(size=(3, 4)), rng.normal(size=3)), rng.normal(size=(60, 4))
    y = np.arange(60) % 3
    names = np.array(["ant", "bee", "cat"])
    expected = curve(head, Z, y, "hinge", [1.0]).loss
    assert curve(head, Z, names[y], "hinge", [1.0]).loss == expected
    swapped = LinearHead(head.weight[::-1], head.bias[::-1])
    assert curve(swapped, Z, names[y], "hinge", [1.0], classes=["cat", "bee", "ant"]).loss == pytest.approx(expected)
    assert curve(swapped, Z, y, "hinge", [1.0], classes=[2, 1, 0]).loss == pytest.approx(expected)
    assert curve(head, Z, y + 4, "hinge", [1.0]).loss == expected
    env = np.repeat(["x", "y"], 30)
    grouped = Environments(Z, names[y], env)
    found = curve(head, grouped, None, "hinge", [1.0])
    assert found.loss == pytest.approx(expected)
    assert found.labels == ("x", "y")
    np.testing.assert_array_equal(curve(head, Z, names[y], "hinge", [1.0], env=env).loss, found.loss)


def test_auto_takes_numbers_for_numbers_and_labels_for_classes() -> None:
    single, Z = LinearHead([1.0], 0.0), [[0.5], [1.0], [2.0]]
    assert worst_case(single, Z, [0.3, 0.4, 7.0], n_boot=0).of == "squared"
    assert worst_case(single, Z, [0, 1, 1], n_boot=0).of == "log_loss"
    assert worst_case(single, Z, [True, True, True], n_boot=0).of == "log_loss"
    assert worst_case(single, Z, ["a", "b", "b"], n_boot=0).of == "log_loss"
    assert worst_case(LinearHead(np.ones((2, 1)), [0, 0]), Z, np.ones((3, 2)), n_boot=0).of == "squared"
    assert worst_case(LinearHead(np.ones((4, 1)), np.zeros(4)), Z, [0, 3, 3], n_boot=0).of == "log_loss"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"loss": "absolute"}, "absolute"),
        ({"loss": ("squared", "hinge")}, "one kind at a time"),
        ({"radii": [-1.0]}, "at least 0"),
        ({"radii": ["far"]}, "numbers"),
        ({"radii": []}, "one or more"),
        ({"n_boot": 5}, "n_boot is 5: give 0 .* from 99 to 1,000,000$"),
        ({"y": None}, "no target"),
        ({"y": [0, 1]}, "3 rows but y has 2"),
        ({"y": [0, 5, 7, 9]}, "rows"),
        ({"y": ["a", "b", "c"]}, "classes"),
        ({"y": ["a", "b", "b"], "classes": ["a", "z"]}, '"b"'),
        ({"y": [0.0, np.nan, 1.0]}, "missing"),
        ({"y": ["a", "b", "b"], "loss": "squared"}, "holds labels, not numbers: give numbers"),
        ({"weight": [1, -1, 1]}, "negative"),
        ({"weight": [0, 0, 0]}, "0 everywhere"),
        ({"Z": [[1.0], [np.nan], [2.0]]}, "x0"),
        ({"Z": [[1.0, 2.0]] * 3}, "2 columns"),
        ({"Z": np.empty((0, 1))}, "empty"),
        ({"head": "linear"}, "LinearHead"),
        ({"seed": -1}, "seed"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_bad_input_is_named(change: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"head": TWO, "Z": [[1.0], [2.0], [3.0]], "y": [0, 1, 1], "n_boot": 0, **change}
    with pytest.raises(InputError, match=said):
        worst_case(given.pop("head"), given.pop("Z"), given.pop("y"), **given)


def test_a_target_is_called_by_its_own_name() -> None:
    head, Z = LinearHead([1.0], 0.0), np.arange(4.0)[:, None]
    with pytest.raises(InputError, match=r'^target "days" has 1 missing or infinite values'):
        curve(head, Z, pd.Series([1.0, np.nan, 2.0, 3.5], name="days"), "squared", [1.0])
    with pytest.raises(InputError, match=r'^target "y" has 1 missing or infinite values'):
        curve(head, Z, [1.0, np.nan, 2.0, 3.5], "squared", [1.0])
    far = 1e12 + np.array([0.0, 0.001, 0.002, 0.003])
    assert curve(head, Z, pd.Series(far, name="days"), "squared", [1.0]).notes[-1].startswith('Target "days" holds ')
    assert curve(head, Z, far, "squared", [1.0]).notes[-1].startswith('Target "y" holds numbers near 1e+12')


@pytest.mark.parametrize("env", [None, list("aabb")])
def test_one_number_that_is_too_large_is_refused_among_small_ones(env: Any) -> None:
    Z = np.array([[0.0], [1.0], [1e200], [2.0]])
    with pytest.raises(InputError, match=r"1e\+200"):
        curve(LinearHead([1.0], 0.0), Z, [1.0, 2.5, 3.0, 4.5], "squared", [1.0], env=env)
