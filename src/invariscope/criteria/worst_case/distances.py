"""How far apart the observed environments are, in the units of a worst-case curve: its yardstick."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.resampling import whole

#: Rows of one half of one class in one environment: beyond, transport takes long (in one dimension it is a sort).
MOST_ROWS = 150
#: Fewer rows of a class cannot be halved and compared.
FEWEST_ROWS = 4
#: Environments up to which all pairs are compared.
MOST_ENVIRONMENTS = 12
#: Rows are halved anew so many times (in one dimension, in several): one way of halving them should count little.
HALVINGS = (8, 2)
#: Groups of a target that is a number, in place of classes.
BINS = 5


@dataclass(frozen=True)
class Distances:
    """``apart[e]``: environment e from all others together; ``pairs[a, b]``: a from b (nan if there are too many)."""

    apart: Floats
    pairs: Floats


def distances(
    Z: Floats,
    groups: Integers,
    env: Integers,
    weights_of_head: Floats,
    rng: np.random.Generator,
    weight: Floats | None = None,
) -> Distances:
    """Wasserstein distances between environments: class by class, where the head looks, without the sampling noise.

        W² = Σ_k π_k [ W²(a₁, b₁) − ½ W²(a₁, a₂) − ½ W²(b₁, b₂) ],    a₁, a₂ and b₁, b₂ halves of a and b in class k

    Labels stay fixed in a worst case, so rows are compared with rows of their own class (``groups``). Directions that
    the head does not look at cost nothing and are left out: rows are projected on the row space of the differences of
    ``weights_of_head`` (K, d). Samples of one law are some distance apart as well, the further the more directions
    there are; the distance between halves of one environment, of the same size, takes that away. Where nothing is left,
    the distance is 0.

    Parameters
    ----------
    Z : (n, d) representation; ``groups`` and ``env`` : (n,) codes 0, 1, ...; ``weight`` : rows each row stands for

    What it cannot tell: how far an environment outside the data will be. In several dimensions at most 150 rows of a
    class are in either half, so that environments of one law may come out some tenths of a spread apart.
    """
    count = int(env.max()) + 1
    weight = np.ones(len(Z)) if weight is None else weight
    counts = whole(weight)  # copies of a row may fall into both halves, as they would if they had been given
    index = np.flatnonzero(weight > 0) if counts is None else np.repeat(np.arange(len(Z)), counts)
    Z, groups, env = Z[index], groups[index], env[index]
    weight = weight[index] if counts is None else np.ones(len(index))
    seen = np.ascontiguousarray(Z @ _basis(weights_of_head))
    pairs = np.zeros((count, count))
    if count > MOST_ENVIRONMENTS:
        pairs[:] = np.nan
    else:
        for a in range(count):
            for b in range(a):
                pairs[a, b] = pairs[b, a] = _distance(seen, groups, weight, env == a, env == b, rng)
    if count == 2:
        return Distances(np.repeat(pairs[0, 1], 2), pairs)
    apart = [_distance(seen, groups, weight, env == a, env != a, rng) for a in range(count)]
    return Distances(np.array(apart), pairs)


def bins_of(y: Floats, weight: Floats | None = None) -> Integers:
    """A number as one of five groups of about equal weight, so that rows can be compared with rows alike.

    A value goes where the middle of its rows lies among all of them; equal values stay together.

    >>> bins_of(np.arange(10.0)).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """
    values, place = np.unique(y, return_inverse=True)
    mass = np.bincount(place, weight, len(values))
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    return np.asarray(np.minimum(BINS * middle, BINS - 1).astype(np.intp)[place])


def _basis(weights: Floats) -> Floats:
    """Orthonormal directions (d, r) in which scores differ; adding the same to all scores changes nothing."""
    differences = weights - weights.mean(axis=0) if len(weights) > 1 else weights
    _, size, directions = np.linalg.svd(differences, full_matrices=False)
    return np.asarray(directions[size > 1e-10 * max(float(size[0]), 1e-300)].T)


def _distance(
    seen: Floats, groups: Integers, weight: Floats, in_a: Booleans, in_b: Booleans, rng: np.random.Generator
) -> float:
    squares, shares = [], []
    for group in np.unique(groups):
        a, b = np.flatnonzero(in_a & (groups == group)), np.flatnonzero(in_b & (groups == group))
        if min(len(a), len(b)) < FEWEST_ROWS:
            continue
        squares.append(np.mean([_debiased(seen, weight, a, b, rng) for _ in range(HALVINGS[seen.shape[1] > 1])]))
        shares.append(float(weight[a].sum() + weight[b].sum()))
    if not shares:
        return float("nan")
    return float(np.sqrt(max(np.average(squares, weights=shares), 0.0)))


def _debiased(seen: Floats, weight: Floats, a: Integers, b: Integers, rng: np.random.Generator) -> float:
    """Squared distance between random halves of a and b, less that between halves of the same."""
    size = min(len(a) // 2, len(b) // 2, MOST_ROWS if seen.shape[1] > 1 else len(a))
    (a1, a2), (b1, b2) = (rng.permutation(rows)[: 2 * size].reshape(2, size) for rows in (a, b))
    between = _squared(seen, weight, a1, b1) + _squared(seen, weight, a2, b2)
    return (between - _squared(seen, weight, a1, a2) - _squared(seen, weight, b1, b2)) / 2


def _squared(seen: Floats, weight: Floats, a: Integers, b: Integers) -> float:
    """W² between two sets of rows, exactly."""
    alike = len(a) == len(b) and np.ptp(weight[a]) == np.ptp(weight[b]) == 0
    if alike and seen.shape[1] == 1:
        return float(np.mean((np.sort(seen[a, 0]) - np.sort(seen[b, 0])) ** 2))  # rows meet in order of size
    share_a, share_b = weight[a] / weight[a].sum(), weight[b] / weight[b].sum()
    if seen.shape[1] == 1:
        return _squared_on_a_line(seen[a, 0], seen[b, 0], share_a, share_b)
    from scipy.optimize import linear_sum_assignment  # here: these take as long to import as everything else together
    from scipy.spatial.distance import cdist

    costs = cdist(seen[a], seen[b], "sqeuclidean")
    if alike:  # rows that count alike are matched one to one
        return float(costs[linear_sum_assignment(costs)].mean())
    import ot  # here: it takes seconds and brings torch along

    return float(ot.emd2(share_a, share_b, costs))


def _squared_on_a_line(a: Floats, b: Floats, share_a: Floats, share_b: Floats) -> float:
    """W² = ∫ (F_a⁻¹(t) − F_b⁻¹(t))² dt over t from 0 to 1, both quantile functions being steps."""
    order_a, order_b = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    steps_a, steps_b = np.cumsum(share_a[order_a])[:-1], np.cumsum(share_b[order_b])[:-1]
    ends = np.sort(np.concatenate([steps_a, steps_b, [1.0]]))
    widths = np.diff(ends, prepend=0.0)
    middle = ends - widths / 2  # of every piece on which both are constant
    gaps = a[order_a][np.searchsorted(steps_a, middle)] - b[order_b][np.searchsorted(steps_b, middle)]
    return float(widths @ gaps**2)
