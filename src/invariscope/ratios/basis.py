"""Bases for log density ratios: the columns, their squares, their products, or smooth curves of each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from invariscope.ratios.estimator import GroupedRows
from invariscope.rows.arrays import Floats, Integers

KNOTS = 5  # of a natural spline: so many basis columns less one for every column
MOST_COLUMNS = 400  # of a basis: beyond, products would cost more than they tell
MOST_NUMBERS = 2**25  # kept in memory for a basis: 256 MB
DISTINCT = 6  # values a column needs before a curve through it means anything


@dataclass(frozen=True)
class Basis:
    """Functions of a row: the columns themselves, then squares, products and spline terms, each in units of its spread.

    ``squares`` are the columns squared, ``products`` whether all pairs are multiplied, ``curved`` the columns that get
    natural cubic splines with ``knots`` (KNOTS, len(curved)); these have straight tails, so that rows far out do not
    get absurd ratios.
    """

    name: str
    squares: Integers = field(default_factory=lambda: np.empty(0, np.intp))
    products: bool = False
    curved: Integers = field(default_factory=lambda: np.empty(0, np.intp))
    knots: Floats = field(default_factory=lambda: np.empty((KNOTS, 0)))
    centre: Floats = field(default_factory=lambda: np.zeros(0))
    scale: Floats = field(default_factory=lambda: np.ones(0))

    def width(self, d: int) -> int:
        """Columns of the basis of ``d`` columns."""
        products = d * (d - 1) // 2 if self.products else 0
        return d + len(self.squares) + products + (KNOTS - 2) * len(self.curved)

    def expand(self, X: Floats) -> Floats:
        """The basis at rows (n, d): (n, width)."""
        raw = self._raw(X)
        raw -= self.centre
        raw /= self.scale
        return raw

    def in_units_of(self, rows: GroupedRows) -> Basis:
        """The same functions, centred and scaled over ``rows``."""
        raw = self._raw(rows.X)
        centre = np.average(raw, axis=0, weights=rows.weight)
        raw -= centre
        np.square(raw, out=raw)
        scale = np.sqrt(np.average(raw, axis=0, weights=rows.weight))
        scale[scale <= 1e-9] = 1.0
        return Basis(self.name, self.squares, self.products, self.curved, self.knots, centre, scale)

    def _raw(self, X: Floats) -> Floats:
        n, d = X.shape
        out = np.empty((n, self.width(d)))
        out[:, :d] = X
        end = d + len(self.squares)
        every = len(self.squares) == d  # slices are read several times faster than picked columns
        np.square(X if every else X[:, self.squares], out=out[:, d:end])
        for j in range(d - 1 if self.products else 0):
            np.multiply(X[:, j : j + 1], X[:, j + 1 :], out=out[:, end : end + d - 1 - j])
            end += d - 1 - j
        if self.curved.size:
            out[:, end:] = _natural_splines(X[:, self.curved], self.knots)
        return out


class Expansion:
    """The basis at many rows, read in slices: kept if small, made again for every slice if not."""

    def __init__(self, basis: Basis, X: Floats) -> None:
        self.shape = (len(X), len(basis.centre))
        self._basis, self._X = basis, X
        self._kept = basis.expand(X) if len(X) * len(basis.centre) <= MOST_NUMBERS else None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Floats:
        return self._basis.expand(self._X[rows]) if self._kept is None else self._kept[rows]


def bases_for(rows: GroupedRows) -> list[Basis]:
    """Candidates from simple to rich; those that the columns cannot tell apart, or that would be too wide, left out."""
    d = rows.X.shape[1]
    curved = np.flatnonzero([len(np.unique(column)) >= DISTINCT for column in rows.X.T])
    bases = [Basis("linear")]
    if curved.size:
        bases.append(Basis("squares", squares=curved))
        knots = _quantiles(rows.X[:, curved], rows.weight, np.linspace(0.05, 0.95, KNOTS))
        apart = np.diff(knots, axis=0).min(axis=0) > 1e-6
        if apart.any():
            bases.append(Basis("spline", curved=curved[apart], knots=knots[:, apart]))
    if d > 1:
        bases.append(Basis("second-order", squares=curved, products=True))
    return [basis.in_units_of(rows) for basis in bases if basis is bases[0] or basis.width(d) <= MOST_COLUMNS]


def _quantiles(X: Floats, weight: Floats | None, shares: Floats) -> Floats:
    """The values below which these shares of the rows lie, column by column; a row of weight 2 counts twice."""
    order = np.argsort(X, axis=0, kind="stable")
    counted = np.cumsum(np.ones(X.shape) if weight is None else weight[order], axis=0)
    place = [np.searchsorted(column, shares * column[-1] * (1 - 1e-12)) for column in counted.T]
    return np.take_along_axis(X, np.take_along_axis(order, np.stack(place, axis=1), axis=0), axis=0)


def _natural_splines(X: Floats, knots: Floats) -> Floats:
    """Natural cubic splines without the straight part: (n, (KNOTS − 2) · columns).

    d_k(x) = ((x − t_k)₊³ − (x − t_K)₊³) / (t_K − t_k) and terms d_k − d_{K−1}, which are straight beyond the last knot.
    """
    cubes = np.maximum(X[None] - knots[:, None], 0.0)
    cubes = cubes * cubes * cubes
    slopes = (cubes[:-1] - cubes[-1]) / (knots[-1] - knots[:-1])[:, None]
    return np.concatenate(list(slopes[:-1] - slopes[-1]), axis=1)
