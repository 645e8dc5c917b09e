"""What the catalogue knows of a data set: how it is loaded, what files it needs, and what has been published on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from invariscope.datasets.fetch import DataFile
from invariscope.reading.dataset import TEST, TRAIN, Dataset


@dataclass(frozen=True)
class Published:
    """A number that was published on a data set: which, its value, where, and with which options it applies.

    ``what`` is a key of :func:`facts`; shares are given with as many decimals as were published.
    """

    what: str
    value: float
    where: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue.

    Attributes
    ----------
    load : its function in ``invariscope.datasets``, whose name is its own
    kind : "table", "images" or "synthetic"
    title : one line on what it is
    files : what must be fetched first; none where the data are bundled or made up
    licence, reference : terms of use, and the paper or page to cite
    published : numbers to check the loaded data against
    """

    load: Callable[..., Dataset]
    kind: str
    title: str
    files: tuple[DataFile, ...] = ()
    licence: str = ""
    reference: str = ""
    published: tuple[Published, ...] = ()

    @property
    def name(self) -> str:
        """What the data set is called."""
        return self.load.__name__


def facts(data: Dataset) -> dict[str, float]:
    """Counts and class shares of a data set, under the names that :class:`Published` uses.

    >>> data = Dataset(X=np.eye(4), y=np.array([0, 1, 1, 1]), env=np.array(list("aabb")), columns=tuple("wxyz"),
    ...                description="four rows")
    >>> facts(data)["rows in a"], facts(data)["share of 1"], facts(data)["rows of 1 in a"]
    (2, 0.75, 1)
    """
    env, y = np.asarray(data.env), np.asarray(data.y)
    numbers: dict[str, float] = {"rows": len(data), "features": len(data.columns)}
    if data.part is not None:
        numbers["training rows"] = int(np.sum(data.part == TRAIN))
        numbers["test rows"] = int(np.sum(data.part == TEST))
    labels, codes = np.unique(env, return_inverse=True)
    numbers["environments"] = len(labels)
    numbers |= {f"rows in {label}": int(count) for label, count in zip(labels, np.bincount(codes), strict=True)}
    classes = np.unique(y) if y.ndim == 1 and y.dtype.kind != "f" else np.empty(0)
    if len(classes) <= 20:
        for value in classes:
            here = y == value
            numbers[f"share of {value}"] = float(np.mean(here))
            counts = np.bincount(codes, weights=here)
            numbers |= {f"rows of {value} in {label}": int(count) for label, count in zip(labels, counts, strict=True)}
    return numbers
