"""Coloured digits: the stated flip rates, the untouched shapes, one environment per image."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from invariscope.datasets import Table, colored_digits
from invariscope.errors import InputError

FLIP = (0.1, 0.2, 0.9)
BAND = 5.5  # standard errors


def colour_of(table: Table) -> NDArray[np.bool_]:
    pixels = table.X.to_numpy()
    return pixels[:, :64].sum(axis=1) > 0


def share_in_band(hits: NDArray[np.bool_], rate: float) -> bool:
    return abs(hits.mean() - rate) <= BAND * np.sqrt(rate * (1 - rate) / len(hits))


def test_shapes_and_names(seed: int) -> None:
    table = colored_digits(seed)
    assert table.X.shape == (1797, 128)
    assert (table.target, table.env) == ("label", "environment")
    assert table.environment.value_counts().to_dict() == {"flip 0.1": 599, "flip 0.2": 599, "flip 0.9": 599}
    assert sorted(table.y.unique()) == [0, 1]
    assert set(table.frame.columns) - set(table.features) == {"label", "environment"}
    assert table.features[0] == "red 0,0"
    assert table.features[127] == "green 7,7"


def test_shape_is_kept_and_sits_in_exactly_one_channel(seed: int) -> None:
    table = colored_digits(seed)
    images = load_digits().data[table.frame.index] / 16
    pixels = table.X.to_numpy()
    np.testing.assert_array_equal(pixels[:, :64] + pixels[:, 64:], images)
    assert np.all((pixels[:, :64].sum(axis=1) == 0) ^ (pixels[:, 64:].sum(axis=1) == 0))


def test_every_image_is_used_once(seed: int) -> None:
    assert sorted(colored_digits(seed).frame.index) == list(range(1797))


def test_label_and_colour_are_flipped_at_the_stated_rates(seed: int) -> None:
    table = colored_digits(seed)
    label = table.y.to_numpy().astype(bool)
    digit = load_digits().target[table.frame.index]
    assert share_in_band((digit >= 5) != label, 0.25)
    for rate in FLIP:
        here = (table.environment == f"flip {rate}").to_numpy()
        assert share_in_band(colour_of(table)[here] != label[here], rate)
        assert share_in_band((digit >= 5)[here] != label[here], 0.25)


def test_without_noise_label_and_colour_are_the_digit(seed: int) -> None:
    table = colored_digits(seed, flip=(0.0, 1.0), label_noise=0.0)
    label = table.y.to_numpy().astype(bool)
    np.testing.assert_array_equal(label, load_digits().target[table.frame.index] >= 5)
    np.testing.assert_array_equal(colour_of(table) == label, table.environment == "flip 0")


def test_same_seed_same_table(seed: int) -> None:
    pd.testing.assert_frame_equal(colored_digits(seed).frame, colored_digits(seed).frame, check_exact=True)
    assert not colored_digits(seed).frame.index.equals(colored_digits(seed + 1).frame.index)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"flip": (0.1, 0.1)}, "all different"),
        ({"flip": ()}, "one rate per environment"),
        ({"flip": (0.1, 1.2)}, "between 0 and 1"),
        ({"label_noise": -0.1}, "between 0 and 1"),
        ({"flip": (0.1, float("nan"))}, "between 0 and 1"),
    ],
)
def test_impossible_rates_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        colored_digits(0, **arguments)
