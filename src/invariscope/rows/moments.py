"""Additive statistics per (environment, fold): one pass over the rows, merged by addition, folds out by subtraction."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import Sums, sum_by_environment
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import rows_of_folds
from invariscope.rows.targets import Target

FOLDS = 5  # that a pass counts rows into where nobody says how many

#: moments by number of folds, beside the target they belong to: several criteria share one pass over the same rows
_CACHE: WeakKeyDictionary[Environments, dict[int, tuple[Floats, Moments]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Moments:
    """Second moments of (1, z, y − centre) in every environment and fold.

    ``rows`` is (E, F); ``gram`` is (E, F, p + 1, p + 1) with p = d + 1 and the target in the last place. The columns
    are centred by one shift for all rows, so moments of blocks, files or workers that share the shift add up. So is
    the target: a sum of squares about 0 has no digits left for residuals that are small beside the target's mean.

    >>> import numpy as np
    >>> part = Moments(np.ones((1, 2)), np.ones((1, 2, 3, 3)))
    >>> (part + part).total.rows.tolist(), part.without_each.rows.tolist()
    ([4.0], [[1.0], [1.0]])
    """

    rows: Floats
    gram: Floats
    centre: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.rows + other.rows, self.gram + other.about(self.centre).gram, self.centre)

    def about(self, centre: float) -> Moments:
        """The same moments with the target centred elsewhere: y − c' = (y − c) + (c − c') · 1."""
        step, gram = self.centre - centre, self.gram.copy()
        gram[..., -1, -1] += 2 * step * gram[..., 0, -1] + step**2 * gram[..., 0, 0]
        gram[..., :-1, -1] += step * gram[..., :-1, 0]
        gram[..., -1, :-1] = gram[..., :-1, -1]
        return Moments(self.rows, gram, centre)

    @property
    def total(self) -> Moments:
        """All folds together: (E,) and (E, p + 1, p + 1)."""
        return Moments(self.rows.sum(axis=1), self.gram.sum(axis=1), self.centre)

    @property
    def without_each(self) -> Moments:
        """All folds but one, the training rows of cross-fitting, by subtraction: (F, E) and (F, E, p + 1, p + 1)."""
        rows, gram = (part.sum(axis=1) - np.moveaxis(part, 1, 0) for part in (self.rows, self.gram))
        return Moments(rows, gram, self.centre)

    @property
    def hessian(self) -> Floats:
        """Σ z zᵀ over the design columns."""
        return self.gram[..., :-1, :-1]

    @property
    def cross(self) -> Floats:
        """Σ z (y − centre)."""
        return self.gram[..., :-1, -1]


def moments_of(data: Environments, target: Target, folds: int = 1) -> Moments:
    """Moments of all environments in one pass, folds as of :func:`~invariscope.rows.resampling.rows_of_folds`.

    Those without folds are the sum of those with ``FOLDS``, so that one pass serves both, whichever is asked for first.
    """
    data.refuse_out_of_range()
    cached = _CACHE.setdefault(data, {})
    if folds not in cached or cached[folds][0] is not target.values:
        if folds == 1:
            whole = moments_of(data, target, FOLDS).total
            moments = Moments(whole.rows[:, None], whole.gram[:, None], whole.centre)
        else:
            moments = _moments_of(data, target, folds)
        cached[folds] = target.values, moments
    return cached[folds][1]


def _moments_of(data: Environments, target: Target, folds: int) -> Moments:
    centre = float(np.average(target.values, weights=data.weight))
    size = data.blocks.width

    def collect(environment: int, rows: slice) -> Sums:
        count, gram = np.zeros(folds), np.zeros((folds, size + 1, size + 1))
        for block, view in data.blocks.designs(rows, extra=1):
            np.subtract(target.values[block], centre, out=view[:, -1])
            if data.weight is not None:
                view = np.einsum("ij,i->ij", view, np.sqrt(data.weight[block]))
            for fold, there in enumerate(rows_of_folds(data, environment, block, folds)):
                part = view[there]
                gram[fold] += part.T @ part
                count[fold] += part[:, 0] @ part[:, 0]
        return {"rows": count, "gram": gram}

    sums = sum_by_environment(collect, data.offsets)
    return Moments(sums["rows"], sums["gram"], centre)
