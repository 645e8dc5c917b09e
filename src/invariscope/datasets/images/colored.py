"""Images whose colour predicts the label, and does so differently in every environment: the shape is invariant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from invariscope.datasets.entry import Published
from invariscope.datasets.images.images import Images, deal, pixel_names
from invariscope.datasets.images.mnist import GrayImages, digits_entry, gray_images, mnist_entry
from invariscope.rows.settings import numbers, one_of, whole_number
from invariscope.wording import percent

#: For each variant: the label is 1 below this digit, and the rates at which colour disagrees with the label.
VARIANTS = {"influence": (4, (0.1, 0.15, 0.2, 0.25, 0.3)), "dric": (5, (0.1, 0.2, 0.9))}

_CHOICES = (
    "Which colour stands for label 1 is not stated in the papers: red here. Nothing depends on it.",
    "The DRIC paper states neither the label noise (0.25 here, as in Arjovsky et al.) nor which digits are label 1 "
    "(those below 5 here), nor whether its 2,333 training examples are per environment (they are here).",
    "All images, also those of a separate test file, are pooled before they are dealt to environments.",
)


def colored_mnist(
    flip: Sequence[float] | None = None,
    *,
    variant: str = "influence",
    images: str = "mnist",
    label_noise: float = 0.25,
    n: int | None = None,
    n_test: int = 0,
    downsample: int = 1,
    seed: int = 0,
) -> Images:
    """Handwritten digits, red or green: the shape predicts the label equally well everywhere, the colour does not.

    Images are dealt at random to one environment per flip rate, none is used twice, and

        label  = [digit < 4] (variant "influence") or [digit < 5] ("dric"), flipped with probability ``label_noise``
        colour = label, flipped with probability ``flip[e]``

    The image sits in the red channel if colour = 1 and in the green channel if colour = 0; the other channel is 0.
    With the same seed, other flip rates change colours but neither images nor labels, so that a sweep over rates
    compares like with like.

    Parameters
    ----------
    flip : one rate per environment; the same rate may come several times, then labels are numbered. Default:
        0.1, 0.15, 0.2, 0.25, 0.3 for "influence", and 0.1, 0.2, 0.9 for "dric"
    variant : whose experiment: "influence" (environments ``flip 0.1``, ...) or "dric" (``+90%``, ``+80%``, ``-90%``:
        how often colour and label agree, or disagree)
    images : "mnist"; or "fashion" (articles of clothing, "digit" is the class number) or "digits" in its place
    n, n_test : rows per environment to learn from and to judge on; by default all images are dealt, none to judge on.
        The DRIC paper has ``n=2333, n_test=2333``.
    downsample : 2 keeps every second row and column (14 × 14), as Arjovsky et al. do

    Returns
    -------
    Images with target ``label`` (0 or 1); ``per_row`` has ``digit``, ``image`` (position in the training file, or
    60,000 + position in the test file) and ``red`` (whether the colour is red). ``truth`` has, for someone who
    recognises every digit, the best accuracies that are possible:

    ==================== =================================================================================
    ``oracle_accuracy``  from the shape alone, the same in all environments: max(1 − q, q), q = label noise
    ``color_accuracy``   of "label = colour", by environment: 1 − p, p = flip rate
    ``bayes_accuracy``   from both, by environment: max((1−q)(1−p), q p) + max((1−q) p, q (1−p))
    ``invariant``        ``"shape"``: P(label | digit) is the same in all environments, P(label | colour) is not
    ==================== =================================================================================

    References: the influence paper, section 5.1; the DRIC paper, B.2.2; Arjovsky et al. (2019), section 5.2.

    >>> data = colored_mnist((0.1, 0.9), images="digits", n=500)  # small images, nothing to download
    >>> data.environments
    <Environments 1000 rows x 128 columns; flip 0.1: 500, flip 0.9: 500>
    >>> data.truth["oracle_accuracy"], data.truth["bayes_accuracy"]["flip 0.1"]
    (0.75, 0.9)
    """
    below, rates = VARIANTS[one_of(variant, "variant", VARIANTS)]
    named = _agreement if variant == "dric" else _flip
    return _colored(
        gray_images(images), below, rates if flip is None else flip, named, label_noise, n, n_test, downsample, seed
    )


def colored_digits(
    flip: Sequence[float] = (0.1, 0.2, 0.9),
    *,
    label_noise: float = 0.25,
    n: int | None = None,
    n_test: int = 0,
    seed: int = 0,
) -> Images:
    """Small handwritten digits, red or green: :func:`colored_mnist` with 8 × 8 pixels and nothing to download.

    1,797 images that come with scikit-learn; the label is [digit < 5]. Some border pixels are 0 in all images.

    >>> data = colored_digits()
    >>> data.X.shape, data.environments.labels
    ((1797, 128), ('flip 0.1', 'flip 0.2', 'flip 0.9'))
    """
    return _colored(gray_images("digits"), 5, flip, _flip, label_noise, n, n_test, 1, seed)


def _colored(
    gray: GrayImages,
    below: int,
    flip: Sequence[float],
    named: Callable[[float], str],
    noise: float,
    n: int | None,
    n_test: int,
    downsample: int,
    seed: int,
) -> Images:
    given = numbers(flip, "flip", "one rate between 0 and 1 per environment", 0.0, 1.0)
    (noise,) = numbers(noise, "label_noise", "a rate between 0 and 1", 0.0, 1.0, count=1)
    labels = _distinct([named(rate) for rate in given])
    named_rates = list(zip(labels, given, strict=True))
    keep = gray.every(downsample)
    pixels = gray.pixels[:, keep, keep]
    _, height, width = pixels.shape
    rng = np.random.default_rng(whole_number(seed, "seed"))
    image, environment, part = deal(len(gray.pixels), len(labels), n, n_test, rng)
    digit = gray.digit[image]
    label = (digit < below) ^ (rng.random(len(image)) < noise)
    red = label ^ (rng.random(len(image)) < np.asarray(given)[environment])

    X, level = np.zeros((len(image), 2, height, width), np.float32), gray.levels()
    for channel, rows in enumerate((np.flatnonzero(red), np.flatnonzero(~red))):
        X[rows, channel] = level[pixels[image[rows]]]
    return Images(
        X=X.reshape(len(X), -1),
        y=label.astype(np.int64),
        env=np.asarray(labels)[environment],
        columns=pixel_names(("red", "green"), height, width),
        description=f"{len(image):,} {gray.what} of {height} × {width} pixels, red or green. The label "
        f"is 1 for classes 0 to {below - 1} (wrong in {percent(noise)} of the rows), and the colour agrees with it to "
        "a degree that depends on the environment.",
        source=f"{gray.source}; coloured here with seed {seed}",
        choices=_CHOICES,
        part=part,
        truth={
            "oracle_accuracy": max(1 - noise, noise),
            "color_accuracy": {name: 1 - rate for name, rate in named_rates},
            "bayes_accuracy": {name: _bayes_accuracy(noise, rate) for name, rate in named_rates},
            "invariant": "shape",
        },
        target_name="label",
        image_shape=(2, height, width),
        per_row={"digit": digit, "image": image, "red": red},
    )


def _bayes_accuracy(noise: float, flip: float) -> float:
    """Accuracy of the best guess from shape s and colour c; label and colour are flips of s and of the label."""
    agree = max((1 - noise) * (1 - flip), noise * flip)  # c = s: the label is s, or both flips happened
    differ = max((1 - noise) * flip, noise * (1 - flip))
    return agree + differ


def _flip(flip: float) -> str:
    return f"flip {flip:g}"


def _agreement(flip: float) -> str:
    return f"+{100 * (1 - flip):g}%" if flip <= 0.5 else f"-{100 * flip:g}%"


def _distinct(names: list[str]) -> list[str]:
    """Number the environments where rates repeat: they are different samples of one law and must not be merged."""
    if max(Counter(names).values()) == 1:
        return names
    return [f"{k:0{len(str(len(names)))}d}: {name}" for k, name in enumerate(names, start=1)]


ENTRIES = (
    mnist_entry(
        colored_mnist,
        "Handwritten digits, red or green: the colour misleads where it changes",
        "coloured after Arjovsky et al. (2019), Invariant risk minimization",
        Published("environments", 5, "influence paper, section 5.1.2"),
        Published("environments", 3, "DRIC paper, B.2.2", {"variant": "dric"}),
        Published(
            "test rows",
            3 * 2333,
            "DRIC paper, B.2.2: 2,333 unseen examples from each environment",
            {"variant": "dric", "n": 2333, "n_test": 2333},
        ),
    ),
    digits_entry(colored_digits, "Coloured digits of 8 × 8 pixels, nothing to download"),
)
