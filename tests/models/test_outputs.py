"""The door for predictions: what comes in any order and shape leaves as numbers or as probabilities, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from invariscope.errors import InputError
from invariscope.models.outputs import are_hard, checked_predictions, order_of_columns, prediction_columns


def test_columns_of_a_model_follow_the_classes_of_the_target() -> None:
    values = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    found = checked_predictions(values, task="multiclass", classes=("a", "b", "c"), columns=("c", "a", "b"))
    np.testing.assert_array_equal(found, values[:, [1, 2, 0]])


@pytest.mark.parametrize(
    ("task", "expected"), [(None, [0.25]), ("regression", [0.25]), ("classification", [[0.75, 0.25]])]
)
def test_one_column_is_a_number_or_the_second_class(task: str | None, expected: Any) -> None:
    np.testing.assert_array_equal(checked_predictions([[0.25]], task=task), expected)


def test_rounding_around_zero_and_one_is_cut_off_and_no_more() -> None:
    rounded = checked_predictions([[-1e-7, 1.0 + 1e-7]], task="binary")
    np.testing.assert_array_equal(rounded, [[0.0, 1.0]])
    with pytest.raises(InputError, match=r"1 rows lie outside 0\.\.1 \(they range from -1e-05 to 1\)"):
        checked_predictions([[-1e-5, 1.0], [0.5, 0.5]], task="binary")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_probabilities_of_16_bits_are_summed_as_they_were_rounded(dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    exact = torch.softmax(torch.randn(200, 3, dtype=torch.float64), dim=1)
    short = exact.to(dtype).requires_grad_()
    assert float((short.detach().double().sum(1) - 1).abs().max()) > 1e-4  # in single precision they would be refused
    table = pd.DataFrame(short.detach().float().numpy())  # which holds them in 32 bits
    for values in (short, short.detach().float().numpy().astype(np.float16), table):
        found = checked_predictions(values, task="multiclass")
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)
        np.testing.assert_allclose(found, exact, rtol=6e-3)
    with pytest.raises(InputError, match=r"1 rows do not sum to 1 \(sums range from 1 to 1.008\)"):
        checked_predictions(torch.tensor([[0.5, 0.5078125], [0.5, 0.5]], dtype=torch.bfloat16))


@pytest.mark.parametrize(
    ("values", "settings", "message"),
    [
        ([0.1, 0.2], {"rows": 3}, "X has 3 rows but predictions has 2"),
        ([[0.5, 0.5]], {"classes": ("a", "b", "c"), "target_name": "dose"}, 'target "dose" has 3 classes: .* a, b, c'),
        ([0.5], {"task": "classification", "classes": ("a", "b", "c")}, "have 1 columns, but there are 3 classes"),
        (
            [[0.5, 0.5]],
            {"classes": ("a",), "columns": ("a", "b")},
            r"predicts 2 classes \(a, b\), and 1 are asked for \(a\): give a model that was fitted on these$",
        ),
        ([[0.5, 0.4]], {}, r"1 rows do not sum to 1 \(sums range from 0.9 to 0.9\)"),
    ],
)
def test_what_does_not_fit_is_refused_with_counts(values: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked_predictions(values, **settings)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 2, 2)), r"baseline: give one column, or one per class, not shape \(2, 2, 2\)"),
        ([1.0, np.inf, np.nan], "baseline: 2 rows have missing or infinite values; predict those rows too"),
        (["yes", "no"], r'^baseline hold text \("yes"\): give numbers, or for classes probabilities, as predict_proba'),
        (np.ma.masked_equal([1.0, 2.0, 3.0], 2.0), "^baseline: 1 values are masked; fill them, or drop those rows"),
        (3.0, r"baseline: give one column, or one per class, not shape \(\)"),
        (type("Model", (), {"predict": len})(), "baseline: a model was given; give the numbers it predicts"),
    ],
)
def test_what_is_no_column_of_numbers_is_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        prediction_columns(values, what="baseline")


@pytest.mark.parametrize("kind", [np.array, list, pd.Series, pd.DataFrame], ids=lambda kind: kind.__name__)
def test_numbers_written_as_text_are_told_from_labels(kind: Any) -> None:
    """Their remedy is a conversion; one label among them, wherever it stands, and there is none."""
    with pytest.raises(InputError) as told:
        prediction_columns(kind(["0.5", "1e-3"]))
    assert str(told.value) == (
        'predictions are numbers written as text ("0.5"): give numpy.asarray(predictions).astype(float) in their place'
    )
    with pytest.raises(InputError, match=r'^predictions hold text \("0.5"\): give numbers, or for classes'):
        prediction_columns(kind(["0.5", "high"]))
    with pytest.raises(InputError, match=r'^predictions hold text \("high"\): give numbers, or for classes'):
        prediction_columns(kind([0.5, "high"]) if kind is not np.array else np.array([0.5, "high"], dtype=object))


def test_labels_are_not_sent_through_a_sigmoid() -> None:
    """Numbers that are the classes themselves are labels; any others are scores, for which a sigmoid helps."""
    with pytest.raises(InputError) as told:
        checked_predictions([1, 2, 2], task="binary", classes=(1, 2))
    assert str(told.value) == (
        "predictions are labels (1, 2), not probabilities: give what predict_proba gives; of labels alone, give one "
        "column of 0 and 1 per class, as pandas.get_dummies(labels) does (they count as certain)"
    )
    dummies = pd.get_dummies(pd.Series([1, 2, 2]))
    np.testing.assert_array_equal(checked_predictions(dummies, task="binary", classes=(1, 2)), [[1, 0], [0, 1], [0, 1]])
    with pytest.raises(InputError, match="Apply the sigmoid or softmax first"):
        checked_predictions([-1.0, 3.0], task="binary", classes=(1, 2))


@pytest.mark.parametrize(
    ("values", "classes", "advice"),
    [
        (
            [0.0, 100.0],
            (0, 1),
            'Divide by 100 if they are per cent, else apply the sigmoid or softmax, or pass task="regression".',
        ),
        ([0.5, 2.0], ("no", "yes"), "Divide by 100 if they are per cent, else apply the sigmoid or softmax."),
        ([0.5, 2.0], (False, True), "Divide by 100 if they are per cent, else apply the sigmoid or softmax."),
        ([0.5, 101.0], ("no", "yes"), "Apply the sigmoid or softmax first."),
        ([-0.5, 2.0], ("no", "yes"), "Apply the sigmoid or softmax first."),
        ([-0.5, 2.0], None, 'Apply the sigmoid or softmax first, or pass task="regression".'),
        ([[40.0, 60.0]], ("no", "yes"), "Divide by 100 if they are per cent, else apply the softmax."),
        ([[-1.0, 3.0]], ("no", "yes"), "Apply the softmax first."),
        ([[-1.0, 3.0]], (0, 1), "Apply the softmax first; for a target of numbers give one column."),
    ],
)
def test_advice_on_values_outside_fits_values_and_target(values: Any, classes: Any, advice: str) -> None:
    """Per cent are divided, not sent through a sigmoid; numbers are not proposed where the target holds labels."""
    with pytest.raises(InputError) as told:
        checked_predictions(values, task="binary", classes=classes)
    assert str(told.value).endswith(f": classes need probabilities. {advice}")


@pytest.mark.parametrize(("values", "hard"), [([0.0, 1.0], True), ([[1, 0], [0, 1]], True), ([0.0, 1e-9], False)])
def test_labels_in_disguise(values: Any, hard: bool) -> None:
    assert are_hard(np.array(values)) is hard


@pytest.mark.parametrize(
    ("names", "labels", "order"),
    [
        (["b", "a"], ["a", "b"], [1, 0]),
        (["2", "1", "0"], [0, 1, 2], [2, 1, 0]),
        (["0", "1"], ["no", "yes"], None),
        (["p1", "p2"], ["no", "yes"], None),
        (["prediction"], ["no", "yes"], None),
        (None, ["no", "yes"], None),
        (["a", "b"], [], None),
    ],
)
def test_the_order_of_columns(names: Any, labels: Any, order: Any) -> None:
    assert order_of_columns(names, labels) == order


@pytest.mark.parametrize("names", [["b", "c"], ["p1", "p0"], ["p2", "p3"], ["p0", "q1"], ["a", "a"]])
def test_names_that_are_nobodys(names: list[str]) -> None:
    with pytest.raises(InputError, match=r"the columns of the predictions are named .* but the classes are a, b: name"):
        order_of_columns(names, ["a", "b"])
