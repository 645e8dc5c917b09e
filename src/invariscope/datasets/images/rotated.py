"""Images turned by an angle that depends on the environment: the classes stay, the pixels move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.images.images import Images, deal, pixel_names
from invariscope.datasets.images.mnist import FASHION_FILES, digits_entry, gray_images, mnist_entry
from invariscope.errors import InputError
from invariscope.rows.settings import numbers, shown, whole_number

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ANGLES = (0, 15, 30, 45, 60, 75)
#: What the class numbers 0 to 9 of Fashion-MNIST stand for.
FASHION_CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)


def rotated_mnist(
    angles: Sequence[float] = ANGLES,
    *,
    images: str = "mnist",
    n: int | None = None,
    n_test: int = 0,
    downsample: int = 1,
    seed: int = 0,
) -> Images:
    """Handwritten digits turned counter-clockwise by the angle of their environment; the target is the digit.

    Images are dealt at random to one environment per angle, none is used twice. A pixel of the turned image is the
    bilinear mean of the four pixels around the place it comes from, and 0 where that is outside of the image.

    Parameters
    ----------
    angles : degrees, all different; they are also the environments' labels
    images : "mnist"; "digits" in its place needs no download
    n, n_test : rows per environment to learn from and to judge on; by default all images are dealt, none to judge on
    downsample : 2 keeps every second row and column of the turned image (14 × 14)

    Returns
    -------
    Images with target ``digit`` (0 to 9) and environments 0, 15, ... ; ``per_row["image"]`` is the position in the
    training file, or 60,000 + position in the test file.

    Reference: Ghifary et al. (2015), Domain generalization for object recognition with multi-task autoencoders.

    >>> rotated_mnist((0, 90), images="digits", n=500).environments  # small images, nothing to download
    <Environments 1000 rows x 64 columns; 0: 500, 90: 500>
    """
    given = numbers(angles, "angles", (wanted := "one number of degrees per environment, all different"))
    degrees = np.unique(given)  # in order: criteria need not sort the rows then
    if len(degrees) < len(given):
        raise InputError(f"angles is {shown(angles)}: give {wanted}")
    if np.all(degrees == np.round(degrees)):
        degrees = degrees.astype(np.int64)
    gray = gray_images(images)
    _, height, width = gray.pixels.shape
    keep = gray.every(downsample)
    pixels = np.arange(height * width).reshape(height, width)[keep, keep]
    rng = np.random.default_rng(whole_number(seed, "seed"))
    image, environment, part = deal(len(gray.pixels), len(degrees), n, n_test, rng)

    flat, level = gray.pixels.reshape(len(gray.pixels), -1), gray.levels()
    X = np.empty((len(image), pixels.size), np.float32)
    for code, angle in enumerate(degrees):
        here = np.flatnonzero(environment == code)
        turn = rotation(height, width, float(angle))[pixels.ravel()]
        X[here[0] : here[-1] + 1] = (turn @ level[flat[image[here]].T]).T
    np.minimum(X, 1, out=X)  # weights add up to 1 but for rounding
    return Images(
        X=X,
        y=gray.digit[image],
        env=degrees[environment],
        columns=pixel_names(("gray",), *pixels.shape),
        description=f"{len(image):,} {gray.what} of {pixels.shape[0]} × {pixels.shape[1]} pixels in ten classes, "
        "turned counter-clockwise by the angle of their environment, in degrees.",
        source=f"{gray.source}; turned here, dealt with seed {seed}",
        choices=("Every image is in one environment only, as in DomainBed; all images are pooled before.",),
        part=part,
        target_name="digit",
        env_name="angle",
        image_shape=(1, *pixels.shape),
        per_row={"image": image},
    )


def rotated_digits(angles: Sequence[float] = ANGLES, *, n: int | None = None, n_test: int = 0, seed: int = 0) -> Images:
    """Small handwritten digits turned by the angle of their environment: :func:`rotated_mnist` without a download.

    1,797 images of 8 × 8 pixels that come with scikit-learn.

    >>> data = rotated_digits()
    >>> data.X.shape, data.environments.labels
    ((1797, 64), (0, 15, 30, 45, 60, 75))
    """
    return rotated_mnist(angles, images="digits", n=n, n_test=n_test, seed=seed)


def fashion_mnist(
    angles: Sequence[float] = ANGLES, *, n: int | None = None, n_test: int = 0, downsample: int = 1, seed: int = 0
) -> Images:
    """Articles of clothing turned counter-clockwise by the angle of their environment; the target is the kind.

    The same as :func:`rotated_mnist` on the 70,000 images of Fashion-MNIST, in balanced classes 0 to 9: T-shirt/top,
    trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot. For coloured clothing say
    ``colored_mnist(images="fashion")``.

    Reference: Xiao, Rasul, Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms.

    >>> FASHION_CLASSES[9]
    'ankle boot'
    """
    turned = rotated_mnist(angles, images="fashion", n=n, n_test=n_test, downsample=downsample, seed=seed)
    classes = ", ".join(f"{code} {name}" for code, name in enumerate(FASHION_CLASSES))
    return replace(turned, target_name="article", description=f"{turned.description} Classes: {classes}.")


def rotation(height: int, width: int, angle: float) -> csr_array[np.float32, tuple[int, int]]:
    """Matrix that turns a flat image counter-clockwise about its centre: (pixels, pixels), four weights a row at most.

    The pixel at (down, right) of the centre comes from (down cos + right sin, right cos − down sin).

    >>> image = np.arange(9.0).reshape(3, 3)
    >>> bool(np.all(rotation(3, 3, 90) @ image.ravel() == np.rot90(image).ravel()))
    True
    """
    from scipy.sparse import csr_array
    from scipy.special import cosdg, sindg  # of degrees: exact at 90, where cos of radians is 6e-17

    down, right = np.indices((height, width)).reshape(2, -1) - np.array([[(height - 1) / 2], [(width - 1) / 2]])
    row = down * cosdg(angle) + right * sindg(angle) + (height - 1) / 2
    column = right * cosdg(angle) - down * sindg(angle) + (width - 1) / 2
    inside = np.flatnonzero((row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1))
    row, column = row[inside], column[inside]
    # the last row and column have no neighbour behind them: take the one before, with weight 0 for it
    top = np.minimum(np.floor(row), height - 2).astype(np.intp)
    left = np.minimum(np.floor(column), width - 2).astype(np.intp)
    below, beside = row - top, column - left
    weight = np.stack([(1 - below) * (1 - beside), (1 - below) * beside, below * (1 - beside), below * beside])
    source = top * width + left + np.array([[0], [1], [width], [width + 1]])
    size = height * width
    return csr_array((weight.astype(np.float32).ravel(), (np.tile(inside, 4), source.ravel())), shape=(size, size))


ENTRIES = (
    mnist_entry(
        rotated_mnist,
        "Handwritten digits, turned by an angle that depends on the environment",
        "turned after Ghifary et al. (2015)",
        Published("environments", 6, "Ghifary et al. (2015): 0 to 75 degrees in steps of 15"),
    ),
    digits_entry(rotated_digits, "Turned digits of 8 × 8 pixels, nothing to download"),
    Entry(
        kind="images",
        title="Articles of clothing, turned by an angle that depends on the environment",
        load=fashion_mnist,
        files=FASHION_FILES,
        licence="MIT",
        reference="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747",
        published=(
            Published("rows", 70_000, "Xiao et al. (2017): 60,000 + 10,000 images"),
            *(
                Published(f"share of {code}", 0.1, "Xiao et al. (2017): 7,000 images of each class")
                for code in range(10)
            ),
        ),
    ),
)
