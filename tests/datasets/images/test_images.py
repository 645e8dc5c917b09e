"""Images: flat rows and channels × height × width share memory, rows keep their facts, no image is dealt twice."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.datasets.images.images import Images, deal, pixel_names
from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN


def four_images() -> Images:
    X = np.arange(4 * 12, dtype=np.float32).reshape(4, 12) / 48
    return Images(
        X=X,
        y=np.array([0, 1, 0, 1]),
        env=np.array(list("abab")),
        columns=pixel_names(("red", "green"), 2, 3),
        description="four images",
        part=np.array([TRAIN, TEST, TEST, TRAIN]),
        image_shape=(2, 2, 3),
        per_row={"file": np.array(["w", "x", "y", "z"])},
    )


def test_images_are_a_view_in_the_order_of_the_names() -> None:
    data = four_images()
    assert data.images.shape == (4, 2, 2, 3)
    assert np.shares_memory(data.images, data.X)
    j = data.columns.index("green 1,2")
    np.testing.assert_array_equal(data.images[:, 1, 1, 2], data.X[:, j])
    assert data.columns[:4] == ("red 0,0", "red 0,1", "red 0,2", "red 1,0")


def test_what_is_known_of_every_row_follows_the_rows() -> None:
    data = four_images()
    assert data.rows(np.array([2, 0])).per_row["file"].tolist() == ["y", "w"]
    assert data.rows(data.y == 1).per_row["file"].tolist() == ["x", "z"]
    test = data.test
    assert isinstance(test, Images)
    assert test.part is None
    assert test.per_row["file"].tolist() == ["x", "y"]
    np.testing.assert_array_equal(test.images, data.images[1:3])


@pytest.mark.parametrize(("images", "environments", "n_test"), [(100, 3, 0), (101, 3, 5), (7, 7, 0), (70_000, 6, 100)])
def test_all_images_are_dealt_evenly_and_once(images: int, environments: int, n_test: int, seed: int) -> None:
    dealt = deal(images, environments, None, n_test, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(dealt.image), np.arange(images))
    sizes = np.bincount(dealt.environment)
    assert len(sizes) == environments
    assert np.ptp(sizes) <= 1
    assert np.all(np.diff(dealt.environment) >= 0)
    if n_test == 0:
        assert dealt.part is None
    else:
        assert dealt.part is not None
        np.testing.assert_array_equal(np.bincount(dealt.environment[dealt.part == TEST]), n_test)


def test_sizes_asked_for(seed: int) -> None:
    dealt = deal(100, 3, 20, 13, np.random.default_rng(seed))
    assert dealt.part is not None
    assert len(np.unique(dealt.image)) == len(dealt.image) == 99
    for code in range(3):
        assert dealt.part[dealt.environment == code].tolist() == [TRAIN] * 20 + [TEST] * 13
    assert not np.array_equal(dealt.image, deal(100, 3, 20, 13, np.random.default_rng(seed + 1)).image)


@pytest.mark.parametrize(
    ("n", "n_test", "words"),
    [
        (34, 0, r"100 images are too few for 3 environments of 34 \+ 0 rows .* lower n to at most 33$"),
        (33, 1, "lower n to at most 32$"),
        (None, 33, "lower n_test$"),
        (5, 40, "lower n_test$"),
        (0, 0, "n is 0: give a whole number from 1"),
        (5, -1, "n_test is -1: give a whole number from 0"),
    ],
)
def test_impossible_sizes_are_refused(n: int | None, n_test: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        deal(100, 3, n, n_test, np.random.default_rng(0))


def test_the_largest_sizes_possible_are_dealt() -> None:
    assert len(deal(100, 3, 33, 0, np.random.default_rng(0)).image) == 99
    assert len(deal(100, 3, None, 32, np.random.default_rng(0)).image) == 100
