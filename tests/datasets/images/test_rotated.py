"""Turned images: right direction, right interpolation, each image once, environments in the order of the angles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage
from sklearn.datasets import load_digits

from invariscope.datasets.images import rotated
from invariscope.datasets.images.mnist import MNIST_FILES, GrayImages, gray_images
from invariscope.datasets.images.rotated import rotated_digits, rotated_mnist, rotation
from invariscope.errors import InputError


@pytest.mark.parametrize("side", [5, 8, 28])
@pytest.mark.parametrize("angle", [0, 15, 30, 45, 60, 75, 90, 123.4, 180, 270, -20, 359, 720])
def test_agrees_with_scipy(side: int, angle: float, seed: int) -> None:
    image = np.random.default_rng(seed).random((side, side))
    expected = ndimage.rotate(image, angle, order=1, reshape=False)
    found = (rotation(side, side, angle) @ image.ravel()).reshape(side, side)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("side", [5, 8])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4, -1])
def test_quarter_turns_are_exact(side: int, quarters: int, seed: int) -> None:
    image = np.random.default_rng(seed).random((side, side))
    found = (rotation(side, side, 90 * quarters) @ image.ravel()).reshape(side, side)
    np.testing.assert_array_equal(found, np.rot90(image, quarters))


def test_a_plane_stays_a_plane(seed: int) -> None:
    """Bilinear interpolation is exact for a linear image: turned by 30°, its slope is turned by 30°."""
    along, across = np.random.default_rng(seed).normal(size=2)
    down, right = np.mgrid[-5:6, -5:6]
    up = -down
    turned = (rotation(11, 11, 30) @ (along * right + across * up).ravel()).reshape(11, 11)
    cos, sin = np.sqrt(3) / 2, 0.5
    expected = (along * cos - across * sin) * right + (along * sin + across * cos) * up
    inner = slice(2, 9)  # corners come from outside
    np.testing.assert_allclose(turned[inner, inner], expected[inner, inner], atol=1e-5)


def test_weights_are_means() -> None:
    matrix = rotation(28, 28, 33).toarray()
    sums = matrix.sum(axis=1)
    assert matrix.min() >= 0
    assert np.all((np.abs(sums - 1) < 1e-6) | (sums == 0))
    assert np.count_nonzero(matrix, axis=1).max() == 4


def test_shapes_and_names(seed: int) -> None:
    data = rotated_digits(seed=seed)
    assert data.X.shape == (1797, 64)
    assert data.X.dtype == np.float32
    assert data.image_shape == (1, 8, 8)
    assert (data.target_name, data.env_name) == ("digit", "angle")
    assert data.environments.labels == (0, 15, 30, 45, 60, 75)
    assert data.environments.order is None  # rows are grouped already: no copy
    assert data.environments.sizes.tolist() == [300, 300, 300, 299, 299, 299]
    assert data.X.min() >= 0
    assert data.X.max() <= 1
    np.testing.assert_array_equal(np.sort(data.per_row["image"]), np.arange(1797))


def test_each_environment_is_turned_by_its_angle(seed: int) -> None:
    data = rotated_digits((90, 0, 20), n=50, seed=seed)
    original = load_digits()
    images = original.images[data.per_row["image"]] / 16
    np.testing.assert_array_equal(data.y, original.target[data.per_row["image"]])
    assert data.environments.labels == (0, 20, 90)
    for angle in (0, 20, 90):
        here = data.env == angle
        expected = ndimage.rotate(images[here], angle, axes=(2, 1), order=1, reshape=False)
        np.testing.assert_allclose(data.images[here, 0], expected, atol=1e-5)


def test_angles_that_are_not_whole_stay_what_they_are() -> None:
    assert rotated_digits((-7.5, 7.5), n=5).environments.labels == (-7.5, 7.5)


def test_pixels_are_left_out_after_turning(seed: int) -> None:
    full = rotated_mnist((0, 40), images="digits", seed=seed)
    small = rotated_mnist((0, 40), images="digits", downsample=2, seed=seed)
    assert small.image_shape == (1, 4, 4)
    assert small.columns[-1] == "gray 3,3"
    np.testing.assert_array_equal(small.images, full.images[:, :, ::2, ::2])


def test_same_seed_same_rows_and_tests_apart(seed: int) -> None:
    one, same = rotated_digits(n=100, n_test=50, seed=seed), rotated_digits(n=100, n_test=50, seed=seed)
    np.testing.assert_array_equal(one.X, same.X)
    assert not np.array_equal(one.y, rotated_digits(n=100, n_test=50, seed=seed + 1).y)
    assert (len(one.train), len(one.test)) == (600, 300)
    assert not set(one.train.per_row["image"]) & set(one.test.per_row["image"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"angles": (0, 15, 15)}, "all different"),
        ({"angles": ()}, "one number of degrees per environment"),
        ({"angles": (0, float("inf"))}, "one number of degrees"),
        ({"n": 300}, "at most 299"),
    ],
)
def test_impossible_requests_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rotated_digits(**arguments)


@pytest.mark.slow
def test_all_of_mnist(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file(MNIST_FILES[0].path).parents[1]))
    data = rotated_mnist(downsample=2)
    assert data.environments.sizes.tolist() == [11_667] * 4 + [11_666] * 2
    assert np.bincount(data.y).tolist() == [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert data.X.min() == 0
    assert data.X.max() == 1


def test_clothing_is_turned_likewise(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    asked = []

    def instead(name: str) -> GrayImages:
        asked.append(name)
        return gray_images("digits")

    monkeypatch.setattr(rotated, "gray_images", instead)
    data = rotated.fashion_mnist((0, 90), n=20, n_test=10, downsample=2, seed=seed)
    assert asked == ["fashion"]
    assert (data.target_name, data.X.shape, len(data.test)) == ("article", (60, 16), 20)
    assert "9 ankle boot" in data.description
