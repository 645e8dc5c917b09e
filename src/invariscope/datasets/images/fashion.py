"""Fashion-MNIST: articles of clothing in the format of MNIST, turned by the angle of their environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.images.images import Images
from invariscope.datasets.images.mnist import FASHION_FILES
from invariscope.datasets.images.rotated import ANGLES, rotated_mnist

#: What the class numbers 0 to 9 stand for.
CLASSES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)


def fashion_mnist(
    angles: Sequence[float] = ANGLES,
    *,
    n: int | None = None,
    n_test: int = 0,
    downsample: int = 1,
    seed: int = 0,
) -> Images:
    """Articles of clothing turned counter-clockwise by the angle of their environment; the target is the kind.

    The same as :func:`rotated_mnist` on the 70,000 images of Fashion-MNIST, in balanced classes 0 to 9: T-shirt/top,
    trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot. For coloured clothing say
    ``colored_mnist(images="fashion")``.

    Reference: Xiao, Rasul, Vollgraf (2017), Fashion-MNIST: a novel image dataset for benchmarking machine learning
    algorithms.

    >>> CLASSES[9]
    'ankle boot'
    """
    turned = rotated_mnist(angles, images="fashion", n=n, n_test=n_test, downsample=downsample, seed=seed)
    classes = ", ".join(f"{code} {name}" for code, name in enumerate(CLASSES))
    return replace(turned, target_name="article", description=f"{turned.description} Classes: {classes}.")


ENTRY = Entry(
    kind="images",
    title="Articles of clothing, turned by an angle that depends on the environment",
    load=fashion_mnist,
    files=FASHION_FILES,
    licence="MIT",
    reference="Xiao, Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747",
    published=(
        Published("rows", 70_000, "Xiao et al. (2017): 60,000 + 10,000 images"),
        *(Published(f"share of {code}", 0.1, "Xiao et al. (2017): 7,000 images of each class") for code in range(10)),
    ),
)
