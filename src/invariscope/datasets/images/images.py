"""Images with environments: flat rows of pixels for the criteria, channels × height × width for networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from invariscope.errors import InputError
from invariscope.reading.dataset import TEST, TRAIN, Dataset
from invariscope.rows.arrays import Array, Integers
from invariscope.rows.settings import whole_number

MOST_ROWS = 10**9


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Images(Dataset):
    """Images with a target and the environment each comes from.

    Attributes
    ----------
    X : (n, channels × height × width) float32 pixels between 0 and 1, channel after channel, row after row
    image_shape : (channels, height, width)
    per_row : further facts on every row, under the names each function documents (digit, file, ...)

    Everything else is as in ``Dataset``.

    >>> from invariscope.datasets import colored_digits
    >>> data = colored_digits()
    >>> data.X.shape, data.image_shape, data.images.shape, data.columns[0]
    ((1797, 128), (2, 8, 8), (1797, 2, 8, 8), 'red 0,0')
    """

    image_shape: tuple[int, int, int]
    per_row: Mapping[str, Array] = field(default_factory=dict)

    @property
    def images(self) -> NDArray[np.float32]:
        """The pixels as (n, channels, height, width), as torch wants them: the same memory as ``X``."""
        pixels: NDArray[np.float32] = self.X.reshape(len(self.X), *self.image_shape)
        return pixels

    def rows(self, chosen: Array) -> Self:
        """The rows at these positions, or those where a mask is true; everything else stays as it is."""
        per_row = {name: values[chosen] for name, values in self.per_row.items()}
        return replace(super().rows(chosen), per_row=per_row)


def pixel_names(channels: tuple[str, ...], height: int, width: int) -> tuple[str, ...]:
    """Column names in the order of the pixels: ``red 0,0`` is the upper left corner, then row, column.

    >>> pixel_names(("gray",), 2, 2)
    ('gray 0,0', 'gray 0,1', 'gray 1,0', 'gray 1,1')
    """
    return tuple(f"{name} {row},{column}" for name in channels for row in range(height) for column in range(width))


class Dealt(NamedTuple):
    """Which image each row shows and the number of its environment; ``part`` is ``None`` without test rows."""

    image: Integers
    environment: Integers
    part: NDArray[np.str_] | None


def deal(images: int, environments: int, n: int | None, n_test: int, rng: np.random.Generator) -> Dealt:
    """Deal images at random to environments, no image twice: environment after environment, test rows last in each.

    Parameters
    ----------
    n : rows to learn from per environment; ``None`` deals all images, and sizes then differ by at most one row
    n_test : rows to judge on per environment

    >>> dealt = deal(7, 2, n=2, n_test=1, rng=np.random.default_rng(0))
    >>> dealt.environment.tolist(), dealt.part.tolist(), len(set(dealt.image.tolist()))
    ([0, 0, 0, 1, 1, 1], ['train', 'train', 'test', 'train', 'train', 'test'], 6)
    """
    n = None if n is None else whole_number(n, "n", 1, MOST_ROWS)
    whole_number(n_test, "n_test", 0, MOST_ROWS)
    most = images // environments - n_test
    if most < (n or 1):
        raise InputError(
            f"{images:,} images are too few for {environments} environments of {n or 1:,} + {n_test:,} rows without "
            + (f"showing one twice: lower n to at most {most:,}" if most > 0 else "showing one twice: lower n_test")
        )
    if n is None:
        sizes = images // environments + (np.arange(environments) < images % environments)
    else:
        sizes = np.full(environments, n + n_test)
    environment = np.repeat(np.arange(environments), sizes)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(environment))  # rows to the end of the environment
    part = np.where(left <= n_test, TEST, TRAIN) if n_test else None
    return Dealt(rng.permutation(images)[: len(environment)], environment, part)
