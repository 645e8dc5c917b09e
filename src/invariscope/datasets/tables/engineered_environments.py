"""Environments drawn from one table so that a feature goes with the target to a chosen degree in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from invariscope.rows.arrays import Booleans, Integers

#: Environments to train on and to test on. The DRIC paper gives 6,000 and 4,000 rows for Adult, 1,092 and 728 for Law
#: School; both fit five environments of equal size, three of them to train on.
TRAINING, TESTING = 3, 2


def draw(
    agrees: Booleans, shares: Sequence[float], rows: int, generator: np.random.Generator
) -> tuple[Integers, NDArray[np.str_]]:
    """Disjoint environments of ``rows`` rows each, in which the given share of rows agrees.

    An environment of share a gets round(a · rows) of the rows where ``agrees`` is true and the rest from the others,
    both at random without replacement. The shares of the feature and of the target therefore differ between
    environments too, not only how strongly they go together.

    Parameters
    ----------
    agrees : (n,) whether feature and target say the same in a row
    shares : for every environment, the share of its rows that agree; there must be enough rows of both kinds

    Returns
    -------
    positions : (len(shares) · rows,) which of the n rows, environment after environment
    labels : their environments: "agreement 90 %"

    >>> positions, labels = draw(np.arange(12) < 6, (0.75, 0.5), 4, np.random.default_rng(0))
    >>> (positions < 6).reshape(2, 4).sum(axis=1).tolist(), labels[::4].tolist()
    ([3, 2], ['agreement 75 %', 'agreement 50 %'])
    """
    agreeing = np.array([round(share * rows) for share in shares])
    pools = [
        np.split(generator.permutation(np.flatnonzero(pool)), np.cumsum(counts))[:-1]
        for pool, counts in ((agrees, agreeing), (~agrees, rows - agreeing))
    ]
    positions = np.concatenate([part for pair in zip(*pools, strict=True) for part in pair])
    labels = [f"agreement {100 * count / rows:.0f} %" for count in agreeing]
    return positions, np.repeat(labels, rows)


def strengths(agrees: Booleans, feature: ArrayLike, target: ArrayLike, env: ArrayLike) -> Mapping[str, Any]:
    """How strongly feature and target go together in every environment, as measured on its rows.

    >>> strengths(np.array([True, True, False]), [0, 1, 1], [0, 1, 0], ["a", "a", "a"])["agreement"]["a"]
    0.6666666666666666
    """
    feature, target, env = np.asarray(feature), np.asarray(target), np.asarray(env)
    masks = {str(label): env == label for label in np.unique(env)}
    return {
        "agreement": {label: float(agrees[mask].mean()) for label, mask in masks.items()},
        "correlation": {label: float(np.corrcoef(feature[mask], target[mask])[0, 1]) for label, mask in masks.items()},
    }
