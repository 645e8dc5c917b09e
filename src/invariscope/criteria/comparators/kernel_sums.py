"""Sums of kernels between environments, as they are and as dealt at random: all that kernel tests are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope.criteria.comparators.deals import Deals
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import run_over_rows

PANEL_ROWS = 256  # of the Gram matrix at a time; the unit of summation, so it must not depend on cores
DOUBLE = 1_000  # rows up to which deals are summed in double precision, too
MASSES = 16_000_000  # numbers in single precision (64 MB) that say who is where in the deals made at a time
DEALS_AT_ONCE = 64  # in double precision
FREQUENCIES = 512  # random features, half cosines and half sines of so many, shared out among bandwidths
FEATURES_AT_ONCE = 64
BLOCK = 4_096  # rows whose features are added in single precision
CODES = 200_000_000  # bytes of environment codes held at a time


@dataclass(frozen=True)
class Spreads:
    """What says how much kernels vary over all ``rows`` together; (G,), one for each of G bandwidths.

    ``squares`` Σ_ij k_ij², ``row_squares`` Σ_i (Σ_j k_ij)², ``total`` Σ_ij k_ij.
    """

    squares: Floats
    row_squares: Floats
    total: Floats
    rows: float


@dataclass(frozen=True)
class KernelSums:
    """Environments as they are in [0], dealt at random in all others.

    ``between`` (1 + draws, G, E, E) holds Σ_{i in a, j in b} k(x_i, x_j), ``totals`` (1 + draws, E) how many rows.
    A row that counts w times is w rows, with kernels of 1 between them.
    """

    between: Floats
    totals: Floats


def gram_sums(
    columns: Floats, widths: Floats, deals: Deals, draws: int, rng: np.random.Generator
) -> tuple[KernelSums, Spreads]:
    """From the Gram matrix, panel by panel of its upper half, all deals in one product.

    Memory: 16 million masses at a time (of one deal at least), 64 MB in single precision, and up to six times that on
    the way where rows have weights; for each thread three panels of 256 × n numbers. What is observed is summed in
    double precision; deals, of more than 1,000 rows, in single precision within a panel and in double across panels,
    always in the same order.
    """
    present, here = np.unique(deals.codes), np.unique(deals.order)
    columns = columns[here]
    observed = deals.masses(deals.observed[None])[0][present][:, here]
    rest = np.argmax(observed.sum(axis=1))  # the largest environment is what all others leave
    kept = np.delete(np.arange(len(present)), rest)
    levels = _levels(columns, widths)
    at_once = max(1, MASSES // max(1, len(kept) * len(here)))
    parts: list[KernelSums] = []
    for start in range(0, max(draws, 1), at_once):
        codes = deals.draw(rng, min(at_once, draws - start))
        panels = _panels(columns, widths, observed, _masses(deals, codes, present[kept], here), levels, start == 0)
        if start == 0:
            products, spreads = panels.products, _spreads(panels, observed)
            parts.append(KernelSums((products @ observed.T)[None], observed.sum(axis=1)[None]))
        # Σ_j k_ij over all rows, and 1, summed over the rows of kept environments
        rows = np.vstack([products.sum(axis=1), np.ones(len(here))])
        to_all = _to_all(panels.masses, rows).reshape(len(codes), len(kept), len(rows)).transpose(0, 2, 1)
        whole = rows @ observed.sum(axis=0)
        parts.append(_completed(panels.between, levels, to_all, whole, kept, int(rest)))
    between, totals = ([getattr(part, name) for part in parts] for name in ("between", "totals"))
    return KernelSums(np.concatenate(between), np.concatenate(totals)), spreads


def _masses(deals: Deals, codes: Integers, groups: Integers, here: Integers) -> Floats:
    """(draws · groups, n): what stored rows count in some of the groups."""
    precision = np.float64 if len(here) <= DOUBLE else np.float32
    if deals.weight is None and len(here) == len(deals.order):
        stored = np.empty((len(codes), len(here)), dtype=codes.dtype)
        stored[:, np.searchsorted(here, deals.order)] = codes
        masses = (stored[:, None] == groups[:, None]).astype(precision)
    else:
        masses = deals.masses(codes)[:, groups][..., here].astype(precision)
    return np.asarray(masses.reshape(-1, len(here)))


@dataclass(frozen=True)
class _Panels:
    masses: Floats  # (draws · k, n)
    between: Floats  # (draws, G, k, k)
    products: Floats  # (G, E, n): Σ_j m_ej k_ij
    squares: Floats  # (G,)


def _levels(columns: Floats, widths: Floats) -> Floats:
    """About the mean of every kernel: without it, sums in single precision lose fewer digits."""
    some = columns[:: max(1, len(columns) // PANEL_ROWS)]
    lengths = np.einsum("ij,ij->i", some, some)
    squared = np.maximum(lengths + lengths[:, None] - 2 * some @ some.T, 0.0)
    return np.array([np.exp(-0.5 / width**2 * squared).mean() for width in widths])


def _panels(columns: Floats, widths: Floats, observed: Floats, masses: Floats, levels: Floats, first: bool) -> _Panels:
    """One pass over the upper half of the Gram matrix, its rows shared out among threads."""
    lengths = np.einsum("ij,ij->i", columns, columns)
    weight = observed.sum(axis=0)
    groups, n = len(widths), len(columns)
    kept = len(observed) - 1
    draws = len(masses) // max(kept, 1)

    def panel(rows: slice) -> tuple[Floats, Floats, Floats]:
        rest, here = slice(rows.start, n), rows.stop - rows.start
        squared = columns[rows] @ columns[rest].T
        squared *= -2.0
        squared += lengths[rows, None]
        squared += lengths[rest]
        np.maximum(squared, 0.0, out=squared)
        squared.reshape(-1)[:: n - rows.start + 1][:here] = 0.0
        between = np.empty((draws, groups, kept, kept))
        products, squares = np.zeros((groups if first else 0, len(observed), n)), np.zeros(groups)
        kernel = np.empty_like(squared)
        for g, width in enumerate(widths):
            np.multiply(squared, -0.5 / width**2, out=kernel)
            np.exp(kernel, out=kernel)
            if first:
                twice = weight[rows] @ np.square(kernel)
                squares[g] = 2 * twice @ weight[rest] - twice[:here] @ weight[rows]
            kernel[:, :here] *= 0.5  # the block on the diagonal is met from both sides
            if first:
                products[g][:, rest] = observed[:, rows] @ kernel
                products[g][:, rows] += observed[:, rest] @ kernel.T
            if draws:
                kernel -= levels[g]
                kernel[:, :here] += 0.5 * levels[g]
                half = masses[:, rest] @ kernel.astype(masses.dtype, copy=False).T
                shape = (draws, kept, here)
                one = np.matmul(masses[:, rows].reshape(shape), half.reshape(shape).transpose(0, 2, 1))
                between[:, g] = one + one.transpose(0, 2, 1)
        return between, products, squares

    pieces = run_over_rows(panel, n, PANEL_ROWS)
    between, products, squares = (sum(each[1:], each[0].copy()) for each in zip(*pieces, strict=True))
    return _Panels(masses, between, products, squares)


def _spreads(found: _Panels, observed: Floats) -> Spreads:
    weight = observed.sum(axis=0)
    rows = found.products.sum(axis=1)
    return Spreads(found.squares, rows**2 @ weight, rows @ weight, float(weight.sum()))


def _to_all(masses: Floats, rows: Floats) -> Floats:
    """masses · rowsᵀ in double precision, some deals at a time."""

    def some(lines: slice) -> Floats:
        return np.asarray(masses[lines].astype(np.float64, copy=False) @ rows.T)

    return np.concatenate([np.empty((0, len(rows))), *run_over_rows(some, len(masses), DEALS_AT_ONCE)])


def _completed(between: Floats, levels: Floats, to_all: Floats, whole: Floats, kept: Integers, rest: int) -> KernelSums:
    """Sums between all environments from those, less a level, between ``kept`` ones, theirs to all, and all to all.

    The last of ``to_all`` (draws, G + 1, k) and ``whole`` (G + 1,) count rows.
    """
    rows = to_all[:, -1]
    between = between + levels[:, None, None] * (rows[:, None, :, None] * rows[:, None, None, :])
    cross = to_all[:, :-1] - between.sum(axis=-1)
    count = len(kept) + 1
    out, totals = np.empty((*between.shape[:2], count, count)), np.empty((len(rows), count))
    out[..., kept[:, None], kept] = between
    out[..., kept, rest] = out[..., rest, kept] = cross
    out[..., rest, rest] = whole[:-1] - to_all[:, :-1].sum(axis=-1) - cross.sum(axis=-1)
    totals[:, kept], totals[:, rest] = rows, whole[-1] - rows.sum(axis=1)
    return KernelSums(out, totals)


def feature_sums(columns: Floats, widths: Floats, deals: Deals, draws: int, rng: np.random.Generator) -> KernelSums:
    """The same from random Fourier features: k(a, b) ≈ mean over ω of cos(ω·(a − b)), ω ~ N(0, 1/σ²).

    Sums of kernels are then products of sums of features, and time grows with rows, not with their square. Deals are
    compared by the same features, so that a test by them has its level whatever their number.
    """
    present = np.unique(deals.codes)
    each = max(FEATURES_AT_ONCE, FREQUENCIES // len(widths))
    directions = rng.normal(size=(columns.shape[1], each))
    ranked = columns[deals.order]
    weight = np.ones(len(ranked)) if deals.weight is None else deals.weight
    kept = present[:-1]
    at_once = max(1, CODES // len(ranked))
    pieces = []
    for start in range(0, draws + 1, at_once):
        size = min(at_once, draws + 1 - start)
        codes = deals.draw(rng, size - (start == 0))
        if start == 0:
            codes = np.concatenate([deals.observed[None], codes])
        pieces.append(_feature_sums(ranked, widths, directions, codes, kept, weight))
    return KernelSums(*(np.concatenate(both) for both in zip(*pieces, strict=True)))


def _feature_sums(
    ranked: Floats, widths: Floats, directions: Floats, codes: Integers, kept: Integers, weight: Floats
) -> tuple[Floats, Floats]:
    draws, count, each = len(codes), len(kept) + 1, directions.shape[1]
    small, broken = weight.astype(np.float32), bool((weight != 1).any())
    blocks = [slice(start, start + BLOCK) for start in range(0, len(ranked), BLOCK)]

    def who_is_where(block: slice) -> Floats:
        masses = (codes[:, None, block] == kept[:, None]).astype(np.float32)
        if broken:
            masses *= small[block]
        return np.asarray(masses.reshape(draws * len(kept), -1))

    def some(features: slice) -> Floats:
        out = np.empty((draws, len(widths), count, count))
        for g, width in enumerate(widths):
            sums = np.zeros((draws * len(kept), 2 * (features.stop - features.start)))
            whole = np.zeros(sums.shape[1])
            for block in blocks:
                angles = (ranked[block] @ (directions[:, features] / width)).astype(np.float32)
                values = np.hstack([np.cos(angles), np.sin(angles)])
                sums += who_is_where(block) @ values
                whole += small[block] @ values
            by_group = sums.reshape(draws, len(kept), -1)
            by_group = np.concatenate([by_group, (whole - by_group.sum(axis=1))[:, None]], axis=1)
            out[:, g] = np.matmul(by_group, by_group.transpose(0, 2, 1))
        return out

    pieces = run_over_rows(some, each, FEATURES_AT_ONCE)
    between: Floats = np.sum(pieces, axis=0) / each
    totals = np.zeros((draws, count))
    for block in blocks:
        totals[:, :-1] += who_is_where(block).sum(axis=1, dtype=np.float64).reshape(draws, -1)
    totals[:, -1] = weight.sum() - totals[:, :-1].sum(axis=1)
    return between, totals
