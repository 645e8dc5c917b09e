"""Coloured images: the stated flip rates, the untouched shapes, each image once, and truths that hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from invariscope.datasets.images.colored import VARIANTS, colored_digits, colored_mnist
from invariscope.datasets.images.images import Images
from invariscope.datasets.images.mnist import MNIST_FILES, gray_images
from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN

FLIP = (0.1, 0.2, 0.9)
BAND = 5.5  # standard errors


def share_in_band(hits: NDArray[np.bool_], rate: float) -> bool:
    return bool(abs(hits.mean() - rate) <= BAND * np.sqrt(rate * (1 - rate) / len(hits)))


def coded(data: Images) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the digit is below 5, the label, and the colour as the pixels show it."""
    red = data.images[:, 0].sum(axis=(1, 2)) > 0
    return data.per_row["digit"] < 5, data.y.astype(bool), red


@pytest.fixture
def real_mnist(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file(MNIST_FILES[0].path).parents[1]))


# --- digits: nothing to download ------------------------------------------------------------------------------------
def test_shapes_and_names(seed: int) -> None:
    data = colored_digits(seed=seed)
    assert data.X.shape == (1797, 128)
    assert data.X.dtype == np.float32
    assert (data.target_name, data.env_name, data.part) == ("label", "environment", None)
    assert data.environments.labels == ("flip 0.1", "flip 0.2", "flip 0.9")
    assert data.environments.sizes.tolist() == [599, 599, 599]
    assert data.environments.order is None  # rows are grouped already: no copy
    assert sorted(np.unique(data.y)) == [0, 1]
    assert (data.columns[0], data.columns[127]) == ("red 0,0", "green 7,7")


def test_shape_is_kept_and_sits_in_exactly_one_channel(seed: int) -> None:
    data = colored_digits(seed=seed)
    original = load_digits()
    np.testing.assert_array_equal(data.images.sum(axis=1), original.images[data.per_row["image"]] / 16)
    np.testing.assert_array_equal(data.per_row["digit"], original.target[data.per_row["image"]])
    ink = data.images.sum(axis=(2, 3))
    assert np.all((ink[:, 0] == 0) ^ (ink[:, 1] == 0))
    np.testing.assert_array_equal(data.per_row["red"], ink[:, 0] > 0)


def test_every_image_is_used_once(seed: int) -> None:
    np.testing.assert_array_equal(np.sort(colored_digits(seed=seed).per_row["image"]), np.arange(1797))


def test_label_and_colour_are_flipped_at_the_stated_rates(seed: int) -> None:
    data = colored_digits(seed=seed)
    low, label, red = coded(data)
    assert share_in_band(low != label, 0.25)
    for rate in FLIP:
        here = data.env == f"flip {rate}"
        assert share_in_band(red[here] != label[here], rate)
        assert share_in_band(low[here] != label[here], 0.25)


def test_without_noise_label_and_colour_are_the_digit(seed: int) -> None:
    data = colored_digits((0.0, 1.0), label_noise=0.0, seed=seed)
    low, label, red = coded(data)
    np.testing.assert_array_equal(label, low)
    np.testing.assert_array_equal(red == label, data.env == "flip 0")


def test_same_seed_same_rows(seed: int) -> None:
    one, same, other = colored_digits(seed=seed), colored_digits(seed=seed), colored_digits(seed=seed + 1)
    np.testing.assert_array_equal(one.X, same.X)
    np.testing.assert_array_equal(one.y, same.y)
    assert not np.array_equal(one.per_row["image"], other.per_row["image"])
    assert not np.array_equal(one.y, other.y)


def test_other_rates_change_colours_only(seed: int) -> None:
    one, other = colored_digits((0.1, 0.3), seed=seed), colored_digits((0.2, 0.3), seed=seed)
    np.testing.assert_array_equal(one.per_row["image"], other.per_row["image"])
    np.testing.assert_array_equal(one.y, other.y)
    changed = one.per_row["red"] != other.per_row["red"]
    assert share_in_band(changed[one.env == "flip 0.1"], 0.1)
    assert not changed[one.env == "flip 0.3"].any()


@pytest.mark.parametrize("rates", [(0.2, 0.4), (0.9, 0.1), (1e-05, 0.5)])
def test_images_and_labels_do_not_depend_on_the_names_of_rates(rates: tuple[float, float]) -> None:
    one = colored_mnist((0.1, 0.9), variant="dric", images="digits")
    other = colored_mnist(rates, variant="dric", images="digits")
    np.testing.assert_array_equal(one.per_row["image"], other.per_row["image"])
    np.testing.assert_array_equal(one.y, other.y)


def test_repeated_rates_are_different_environments(seed: int) -> None:
    data = colored_digits((0.2,) * 5, n=100, seed=seed)
    assert data.environments.labels == tuple(f"{k}: flip 0.2" for k in range(1, 6))
    assert data.environments.sizes.tolist() == [100] * 5
    assert data.truth["color_accuracy"]["3: flip 0.2"] == 0.8
    assert colored_digits((0.2,) * 12, n=20).environments.labels[:3] == ("01: flip 0.2", "02: flip 0.2", "03: flip 0.2")


def test_test_rows_show_other_images(seed: int) -> None:
    data = colored_digits(n=200, n_test=150, seed=seed)
    assert data.part is not None
    for label in data.environments.labels:
        here = data.part[data.env == label]
        assert ((here == TRAIN).sum(), (here == TEST).sum()) == (200, 150)
    assert not set(data.train.per_row["image"]) & set(data.test.per_row["image"])
    _, label, red = coded(data.test)
    assert share_in_band((red != label)[data.test.env == "flip 0.9"], 0.9)


def test_variants(seed: int) -> None:
    data = colored_mnist(images="digits", label_noise=0, seed=seed)
    np.testing.assert_array_equal(data.y == 1, data.per_row["digit"] < 4)
    assert data.environments.labels == tuple(f"flip {rate}" for rate in (0.1, 0.15, 0.2, 0.25, 0.3))
    data = colored_mnist(variant="dric", images="digits", label_noise=0, seed=seed)
    np.testing.assert_array_equal(data.y == 1, data.per_row["digit"] < 5)
    assert data.environments.labels == ("+80%", "+90%", "-90%")
    low, _, red = coded(data)
    for name, agreement in (("+90%", 0.9), ("+80%", 0.8), ("-90%", 0.1)):
        assert share_in_band((red == low)[data.env == name], agreement)
        assert data.truth["color_accuracy"][name] == pytest.approx(agreement)
    assert data.truth["oracle_accuracy"] == 1


def test_one_rate_is_one_environment() -> None:
    assert set(colored_digits(0.3, n=10).env) == {"flip 0.3"}  # type: ignore[arg-type]


# --- the truth ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("noise", [0.0, 0.1, 0.25, 0.4, 0.5, 0.7])
@pytest.mark.parametrize("flip", [0.0, 0.1, 0.25, 0.5, 0.9])
def test_accuracies_by_enumeration(noise: float, flip: float) -> None:
    """All combinations of shape, label flip and colour flip with their probabilities; the best guess in every cell."""
    share_low = 0.39  # of no consequence
    seen: dict[tuple[str, Any], list[float]] = {}
    follows_colour = 0.0
    for shape, wrong, off in itertools.product((0, 1), repeat=3):
        p = (share_low if shape else 1 - share_low) * (noise if wrong else 1 - noise) * (flip if off else 1 - flip)
        label = shape ^ wrong
        colour = label ^ off
        for cell in (("shape", shape), ("both", (shape, colour))):
            seen.setdefault(cell, [0.0, 0.0])[label] += p
        follows_colour += p * (colour == label)
    best = {what: sum(max(p) for cell, p in seen.items() if cell[0] == what) for what in ("shape", "both")}
    name = f"flip {flip:g}"
    truth = colored_digits((flip, 0.33), label_noise=noise, n=2).truth
    assert truth["oracle_accuracy"] == pytest.approx(best["shape"], abs=1e-12)
    assert truth["bayes_accuracy"][name] == pytest.approx(best["both"], abs=1e-12)
    assert truth["color_accuracy"][name] == pytest.approx(follows_colour, abs=1e-12)


@pytest.mark.statistical
def test_accuracies_on_mnist(real_mnist: None, seed: int) -> None:
    data = colored_mnist(variant="dric", downsample=14, seed=seed)
    low, label, red = data.per_row["digit"] < 5, data.y == 1, data.per_row["red"]
    for name in data.environments.labels:
        here = data.env == name
        assert share_in_band((low == label)[here], data.truth["oracle_accuracy"])
        assert share_in_band((red == label)[here], data.truth["color_accuracy"][name])
        best = 0.0  # of what is seen, the more frequent label
        for shape, colour in itertools.product((False, True), repeat=2):
            cell = label[here & (low == shape) & (red == colour)]
            best += max(cell.sum(), (~cell).sum())
        expected = data.truth["bayes_accuracy"][name]
        assert abs(best / here.sum() - expected) <= BAND * np.sqrt(expected * (1 - expected) / here.sum())


# --- MNIST ----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_all_of_mnist(real_mnist: None, seed: int) -> None:
    data = colored_mnist(downsample=2, seed=seed)
    assert data.image_shape == (2, 14, 14)
    assert data.environments.sizes.tolist() == [14_000] * 5
    np.testing.assert_array_equal(np.sort(data.per_row["image"]), np.arange(70_000))
    low = data.per_row["digit"] < 4
    for rate in VARIANTS["influence"][1]:
        here = data.env == f"flip {rate:g}"
        assert share_in_band((low != (data.y == 1))[here], 0.25)
        assert share_in_band((data.per_row["red"] != (data.y == 1))[here], rate)
    some = np.arange(0, 70_000, 701)
    original = gray_images("mnist").pixels[data.per_row["image"][some], ::2, ::2] / 255
    np.testing.assert_allclose(data.images[some].sum(axis=1), original, rtol=0, atol=1e-7)


def test_sizes_of_the_second_paper(real_mnist: None) -> None:
    data = colored_mnist(variant="dric", n=2333, n_test=2333)
    assert data.X.shape == (3 * 4666, 2 * 28 * 28)
    assert (len(data.train), len(data.test)) == (6999, 6999)
    assert data.X.min() == 0
    assert data.X.max() == 1


def test_more_rows_than_images_are_refused(real_mnist: None) -> None:
    with pytest.raises(InputError, match=r"70,000 images are too few for 5 environments of 14,001 .* at most 14,000"):
        colored_mnist(n=14_001)


# --- refusals -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"flip": ()}, "one rate between 0 and 1 per environment"),
        ({"flip": (0.1, 1.2)}, "between 0 and 1"),
        ({"flip": 3}, "between 0 and 1"),
        ({"label_noise": -0.1}, "between 0 and 1"),
        ({"flip": (0.1, float("nan"))}, "between 0 and 1"),
        ({"n": 600}, "at most 599"),
    ],
)
def test_impossible_requests_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        colored_digits(**arguments)


def test_unknown_variant() -> None:
    with pytest.raises(InputError, match='variant "irm" is unknown: use "influence" or "dric"'):
        colored_mnist(variant="irm")
