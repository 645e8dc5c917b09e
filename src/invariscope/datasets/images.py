"""Images with environments, as flat tables of pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from invariscope.datasets.tabular import Table
from invariscope.errors import InputError

_SIDE = 8


def colored_digits(seed: int = 0, flip: Sequence[float] = (0.1, 0.2, 0.9), label_noise: float = 0.25) -> Table:
    """Small handwritten digits whose colour predicts the label, and does so differently in every environment.

    1,797 images of 8 × 8 pixels that come with scikit-learn, dealt at random into one environment per flip rate:

        label  = [digit ≥ 5], flipped with probability ``label_noise``
        colour = label, flipped with probability ``flip[e]``

    The image sits in the red channel if colour = 1 and in the green channel if colour = 0; the other channel is 0.
    A predictor that sees only the shape can be right in 1 − ``label_noise`` of the rows in every environment;
    one that sees only the colour is right in 1 − ``flip[e]`` of them, so the colour is the better feature at 0.1
    and a misleading one at 0.9.

    Returns
    -------
    Table with 128 pixel columns in [0, 1] (``red 0,0`` ... ``red 7,7``, ``green 0,0`` ...: row, column), target
    ``label`` (0 or 1) and environments ``"flip 0.1"`` and so on. The index ``image`` is the image's position in
    ``sklearn.datasets.load_digits()``. Some border pixels are 0 in all images.

    Reference: coloured MNIST of Arjovsky et al. (2019), section 5.2.

    >>> table = colored_digits()
    >>> table.X.shape, sorted(set(table.environment))
    ((1797, 128), ['flip 0.1', 'flip 0.2', 'flip 0.9'])
    """
    from sklearn.datasets import load_digits  # takes a while to import, and only this function needs it

    rates = np.asarray(flip, dtype=np.float64)
    if rates.ndim != 1 or len(rates) == 0 or len(np.unique(rates)) < len(rates):
        raise InputError(f"flip needs one rate per environment, all different: got {flip}")
    if not (np.all((rates >= 0) & (rates <= 1)) and 0 <= label_noise <= 1):
        raise InputError(f"flip and label_noise are probabilities between 0 and 1: got {flip} and {label_noise}")
    pixels, digit = load_digits(return_X_y=True)
    n = len(pixels)

    rng = np.random.default_rng(seed)
    image = rng.permutation(n)
    environment = np.sort(np.arange(n) % len(rates))  # sizes differ by at most one row
    label = (digit[image] >= 5) ^ (rng.random(n) < label_noise)
    colour = label ^ (rng.random(n) < rates[environment])

    shape = pixels[image] / 16.0
    channels = np.hstack([shape * colour[:, None], shape * ~colour[:, None]])
    names = [f"{name} {row},{column}" for name in ("red", "green") for row in range(_SIDE) for column in range(_SIDE)]
    frame = pd.DataFrame(channels, columns=names, index=pd.Index(image, name="image"))
    frame["label"] = label.astype(np.int64)
    frame["environment"] = np.array([f"flip {rate:g}" for rate in rates])[environment]
    return Table(
        frame=frame,
        target="label",
        env="environment",
        description="Handwritten digits of 8 x 8 pixels, red or green; the label says whether the digit is 5 or more "
        f"(wrong in {label_noise:.0%} of the rows), and the colour agrees with it to a degree that depends on the "
        "environment.",
        source="scikit-learn's bundled digits, coloured here",
        features=tuple(names),
    )
