"""Gray images: the idx format is read right or refused, and MNIST is what was published."""

from __future__ import annotations

import gzip
import hashlib
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from invariscope.datasets import fetch
from invariscope.datasets.fetch import DataFile
from invariscope.datasets.images import mnist
from invariscope.datasets.images.mnist import FASHION_FILES, MNIST_FILES, gray_images, read_idx
from invariscope.errors import InputError

TRAINING_DIGITS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_DIGITS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def idx_of(values: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def real_mnist(data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data_file(MNIST_FILES[0].path).parents[1]
    monkeypatch.setenv("INVARISCOPE_DATA", str(folder))


# --- the format -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", [(5,), (4, 3, 2), (2, 300, 1)])
def test_idx_is_read(tmp_path: Path, shape: tuple[int, ...], packed: bool, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    path = tmp_path / "some-ubyte.gz"  # the name says nothing about whether it is packed
    path.write_bytes(gzip.compress(idx_of(values)) if packed else idx_of(values))
    np.testing.assert_array_equal(read_idx(path, len(shape)), values)


GOOD = idx_of(np.arange(12, dtype=np.uint8).reshape(3, 2, 2))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (idx_of(np.zeros(3, np.uint8)), "does not begin like an idx file of bytes with 3 dimensions .*00 00 08 01"),
        (b"\0\0\x0d\x03" + GOOD[4:], "does not begin .*00 00 0d 03"),  # four-byte floats
        (b"PK\3\4" + GOOD[4:], "does not begin .*50 4b 03 04"),
        (b"", "does not begin"),
        (GOOD[:10], "does not begin"),
        (GOOD[:-1], "announces 3 x 2 x 2 bytes but holds 11"),
        (GOOD + b"\0", "announces 3 x 2 x 2 bytes but holds 13"),
        (gzip.compress(GOOD, mtime=0)[:-9], "is damaged"),
        (gzip.compress(GOOD, mtime=0)[:12] + b"\xff" * 20, "is damaged"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as refused:
        read_idx(path, 3)
    assert str(path) in str(refused.value)


# --- the images -----------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_published_counts(real_mnist: None) -> None:
    images = gray_images("mnist")
    assert images.pixels.shape == (70_000, 28, 28)
    assert (images.pixels.min(), images.pixels.max(), images.ink) == (0, 255, 255)
    assert np.bincount(images.digit[:60_000]).tolist() == TRAINING_DIGITS
    assert np.bincount(images.digit[60_000:]).tolist() == TEST_DIGITS
    # mean and spread of the training pixels that everybody normalises with
    levels, counts = images.levels().astype(np.float64), np.bincount(images.pixels[:60_000].ravel())
    mean = np.average(levels, weights=counts)
    assert round(mean, 4) == 0.1307
    assert round(np.sqrt(np.average((levels - mean) ** 2, weights=counts)), 4) == 0.3081


def test_digits_are_those_of_scikit_learn() -> None:
    images, original = gray_images("digits"), load_digits()
    np.testing.assert_array_equal(images.levels()[images.pixels], (original.images / 16).astype(np.float32))
    np.testing.assert_array_equal(images.digit, original.target)


def test_every_second_pixel_begins_with_the_first() -> None:
    images = gray_images("digits")
    assert np.arange(8)[images.every(2)].tolist() == [0, 2, 4, 6]
    assert np.arange(8)[images.every(3)].tolist() == [0, 3, 6]
    for wrong in (0, 9):
        with pytest.raises(InputError, match=f"downsample is {wrong}: give a whole number from 1 to 8"):
            images.every(wrong)


def test_unknown_images() -> None:
    with pytest.raises(InputError, match='images "emnist" is unknown: use "mnist", "fashion" or "digits"'):
        gray_images("emnist")


def written(folder: Path, name: str, values: NDArray[np.uint8]) -> DataFile:
    content = gzip.compress(idx_of(values))
    (folder / name).write_bytes(content)
    return DataFile(name, hashlib.sha256(content).hexdigest(), len(content))


def small_files(folder: Path, labels: int) -> tuple[DataFile, ...]:
    return (
        written(folder, "a", np.arange(24, dtype=np.uint8).reshape(6, 2, 2)),
        written(folder, "b", np.arange(labels, dtype=np.uint8)),
        written(folder, "c", np.full((2, 2, 2), 255, np.uint8)),
        written(folder, "d", np.array([7, 8], np.uint8)),
    )


def test_training_images_come_before_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.DATA_FOLDER, str(tmp_path))
    monkeypatch.setattr(mnist, "FASHION_FILES", small_files(tmp_path, 6))
    images = gray_images("fashion")
    assert images.digit.tolist() == [0, 1, 2, 3, 4, 5, 7, 8]
    assert images.pixels[5].tolist() == [[20, 21], [22, 23]]
    assert images.pixels[6].tolist() == [[255, 255], [255, 255]]
    assert images.source == str(tmp_path)


def test_images_without_labels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.DATA_FOLDER, str(tmp_path))
    monkeypatch.setattr(mnist, "MNIST_FILES", small_files(tmp_path, 5))
    with pytest.raises(InputError, match=r"/a has 6 images but .*/b 5 labels"):
        gray_images("mnist")


@pytest.mark.parametrize("files", [MNIST_FILES, FASHION_FILES])
def test_every_file_has_its_own_checksums_and_two_sources(files: tuple[DataFile, ...]) -> None:
    sums = [total for file in files for total in (file.sha256, file.content, *(s.sha256 for s in file.sources))]
    told = [total for total in sums if total]
    assert all(len(total) == 64 for total in told)
    assert len({file.sha256 for file in files}) == len({file.content for file in files}) == 4
    assert all(len(file.sources) == 2 for file in files)


def test_the_files_at_hand_unpack_to_the_stated_content(data_file: Callable[[str], Path]) -> None:
    for file in MNIST_FILES:
        packed = data_file(file.path).read_bytes()
        assert len(packed) == file.size
        assert hashlib.sha256(packed).hexdigest() == file.sha256
        assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == file.content
