"""I(E; Y | ŷ) where all three are labels: counted, with the law of the counts by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.special

from invariscope.rows.arrays import Floats, Integers

NUMBERS = 2**22  # rows times deals, or cells times deals, that lie in memory at a time
LARGE = 1000.0  # 2 N I from which a normal law takes over from the non-central χ²
QUANTILE = float(scipy.special.ndtri(0.975))


@dataclass(frozen=True)
class Information:
    """2 N I for all environments (draws,), for pairs (draws, E, E), and for one against all others (draws, E)."""

    total: Floats
    pairs: Floats
    others: Floats

    def __add__(self, other: Information) -> Information:
        return Information(self.total + other.total, self.pairs + other.pairs, self.others + other.others)


def tables_of(codes: Integers, classes: Integers, strata: Integers, weight: Floats | None) -> Floats:
    """How many rows have every environment and class in every stratum that has rows: (S, E, K)."""
    shape = tuple(int(values.max()) + 1 for values in (strata, codes, classes))
    place = np.ravel_multi_index((strata, codes, classes), shape)
    counts = np.bincount(place, weights=weight, minlength=int(np.prod(shape))).astype(np.float64).reshape(shape)
    return np.asarray(counts[counts.any(axis=(1, 2))])


def deviance(tables: Floats) -> Floats:
    """2 Σ_{e,y} n_ey log( n_ey n / (n_e n_y) ) of tables (..., E, K): 2 n I(E; Y) in each of them."""
    parts = scipy.special.xlogy(tables, tables).sum(axis=(-2, -1))
    for axis in (-1, -2):
        margin = tables.sum(axis=axis)
        parts = parts - scipy.special.xlogy(margin, margin).sum(axis=-1)
    total = tables.sum(axis=(-2, -1))
    return np.asarray(np.maximum(2.0 * (parts + scipy.special.xlogy(total, total)), 0.0))


def information(tables: Floats) -> Information:
    """The same of tables (draws, E, K), of every two lines alone, and of every line and the sum of all others."""
    count = tables.shape[1]
    pairs = np.zeros((len(tables), count, count))
    for a in range(count):
        for b in range(a):
            pairs[:, a, b] = pairs[:, b, a] = deviance(tables[:, [a, b]])
    rest = tables.sum(axis=1, keepdims=True) - tables
    others = deviance(np.stack([tables, rest], axis=2))
    return Information(deviance(tables), pairs, others)


def observed(tables: Floats) -> Information:
    """Of tables (S, E, K), added up over strata: I(E; Y | ŷ) = Σ_s (n_s / n) I(E; Y | ŷ = s)."""
    each = information(tables)
    return Information(*(part.sum(axis=0, keepdims=True) for part in _parts(each)))


def by_chance(tables: Floats, draws: int, rng: np.random.Generator) -> Information:
    """The same when environments are dealt at random among the rows of every stratum, each of which counts once.

    Then a table has its margins, and is drawn as it is without dealing any row.
    """
    from scipy.stats import random_table

    count, classes = tables.shape[1:]
    sums = Information(np.zeros(draws), np.zeros((draws, count, count)), np.zeros((draws, count)))
    for table in tables.astype(np.int64):
        rows, columns = table.sum(axis=1), table.sum(axis=0)
        if np.count_nonzero(rows) > 1 and np.count_nonzero(columns) > 1:  # else nothing can be dealt
            drawn = random_table(rows, columns).rvs(draws, random_state=rng)
            sums = sums + information(np.asarray(drawn, dtype=np.float64).reshape(draws, count, classes))
    return sums


def by_dealing(
    codes: Integers, classes: Integers, strata: Integers, weight: Floats, draws: int, rng: np.random.Generator
) -> Information:
    """The same where weights are no counts of rows, and tables no counts: rows themselves, with weights, are dealt."""
    there = np.flatnonzero(weight > 0)
    # stratum after stratum, whatever the order of the rows
    order = there[np.lexsort((weight[there], classes[there], codes[there], strata[there]))]
    codes, classes, strata, weight = codes[order], classes[order], strata[order], weight[order]
    shape = tuple(int(values.max()) + 1 for values in (strata, codes, classes))
    cells = int(np.prod(shape))
    block = max(1, NUMBERS // max(len(codes), cells))
    count = shape[1]
    parts = [Information(np.empty(0), np.empty((0, count, count)), np.empty((0, count)))]
    for first in range(0, draws, block):
        size = min(block, draws - first)
        dealt = codes[np.argsort(strata + rng.random((size, len(codes))), axis=1)]
        place = np.arange(size)[:, None] * cells + np.ravel_multi_index((strata, dealt, classes), shape)
        tables = np.bincount(place.ravel(), np.broadcast_to(weight, place.shape).ravel(), size * cells)
        each = information(np.asarray(tables, dtype=np.float64).reshape(-1, *shape[1:]))
        of_draws = (part.reshape(size, shape[0], *part.shape[1:]).sum(axis=1) for part in _parts(each))
        parts.append(Information(*of_draws))
    return Information(*(np.concatenate(part) for part in zip(*map(_parts, parts), strict=True)))


def _parts(found: Information) -> tuple[Floats, Floats, Floats]:
    return found.total, found.pairs, found.others


def counting_bias(tables: Floats) -> float:
    """What 2 N I is too large by, on average, for independent ones: Miller and Madow's correction of every entropy.

    Ĥ gains (m − 1) / 2N from m cells that are not empty, I = H(E, ŷ) + H(Y, ŷ) − H(E, Y, ŷ) − H(ŷ).
    """
    cells, rows, columns = (np.count_nonzero(part) for part in (tables, tables.sum(axis=2), tables.sum(axis=1)))
    return float(cells - rows - columns + np.count_nonzero(tables.sum(axis=(1, 2))))


def interval_of(tables: Floats, total: float) -> tuple[float, float]:
    """A 95 % interval for I, where 2 N Î = ``total``: the wider of two, each right where the other is not.

    Near 0, 2 N Î follows a non-central χ² about 2 N I. Far from it, Î is a mean of log p(e, y | ŷ) / p(e | ŷ) p(y | ŷ),
    and normal.
    """
    n = tables.sum()
    e, y = tables.sum(axis=2, keepdims=True), tables.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(tables > 0, np.log(tables * tables.sum(axis=(1, 2), keepdims=True) / (e * y)), 0.0)
    mean = (tables * density).sum() / n
    error = np.sqrt(max(0.0, (tables * density**2).sum() / n - mean**2) / n)
    centre = (total - counting_bias(tables)) / (2 * n)
    freedom = float(np.sum((np.count_nonzero(e, axis=(1, 2)) - 1) * (np.count_nonzero(y, axis=(1, 2)) - 1)))
    if freedom <= 0:
        return 0.0, 0.0
    low, high = _non_centrality(total, freedom)
    low, high = min(low / (2 * n), centre - QUANTILE * error), max(high / (2 * n), centre + QUANTILE * error)
    return max(0.0, float(low)), max(0.0, float(high))


def _non_centrality(total: float, freedom: float) -> tuple[float, float]:
    """Non-centralities for which a χ² of so many degrees of freedom is at least, or at most, ``total`` in 2.5 %."""
    if total > LARGE or freedom > LARGE:
        ends = []
        for sign in (-1.0, 1.0):  # (total − freedom − λ)² = z² (2 freedom + 4 λ)
            middle = total - freedom + 2 * QUANTILE**2
            root = QUANTILE * np.sqrt(max(0.0, 4 * QUANTILE**2 + 4 * (total - freedom) + 2 * freedom))
            ends.append(max(0.0, middle + sign * root))
        return ends[0], ends[1]
    return tuple(_root(total, freedom, share) for share in (0.975, 0.025))  # type: ignore[return-value]


def _root(total: float, freedom: float, share: float) -> float:
    """The non-centrality for which ``share`` of a χ² lies below ``total``; 0 if no other does."""
    from scipy.optimize import brentq

    if scipy.special.chndtr(total, freedom, 0.0) <= share:
        return 0.0
    high = 10.0 + total
    while scipy.special.chndtr(total, freedom, high) > share:
        high *= 2.0
    return float(brentq(lambda shift: scipy.special.chndtr(total, freedom, shift) - share, 0.0, high))
