"""From sums of kernels to MMD² and HSIC, for environments as they are and as dealt, all at once.

A row that counts w times is w rows: the kernel of a row with itself, 1, is left out of unbiased means w times.
"""

from __future__ import annotations

import numpy as np

from invariscope.criteria.comparators.kernel_sums import KernelSums, Spreads
from invariscope.rows.arrays import Floats

LEAST = 1e-9  # of a count of pairs, where broken weights leave less than one row
LEAST_PART = 0.1  # of the biased mean square of a kernel: what its spread is taken for at least
FEWEST_SPREAD = 3  # rows from which on n (n − 3) can be divided by
NOTHING = 1e-12  # variance of a kernel below which all rows are alike


def pairwise_mmd2(sums: KernelSums, unbiased: bool) -> Floats:
    """MMD² of every two environments, (draws, G, E, E).

    MMD² = mean k(a, a') + mean k(b, b') − 2 mean k(a, b)             (Gretton et al. 2012, eq. 3; biased: eq. 5)
    """
    totals = sums.totals[:, None]
    own = np.einsum("dgee->dge", sums.between)
    within = _within(own, totals, unbiased)
    across = sums.between / (totals[..., None] * totals[..., None, :])
    found = within[..., None] + within[..., None, :] - 2 * across
    np.einsum("dgee->dge", found)[:] = 0.0
    return found


def mmd2_from_the_rest(sums: KernelSums, unbiased: bool) -> Floats:
    """MMD² of every environment and all others together, (draws, G, E)."""
    totals = sums.totals[:, None]
    own, to_all = np.einsum("dgee->dge", sums.between), sums.between.sum(axis=-1)
    everything, rows = to_all.sum(axis=-1, keepdims=True), totals.sum(axis=-1, keepdims=True)
    rest, others = everything - 2 * to_all + own, rows - totals
    within = _within(own, totals, unbiased) + _within(rest, others, unbiased)
    return np.asarray(within - 2 * (to_all - own) / (totals * others))


def _within(own: Floats, totals: Floats, unbiased: bool) -> Floats:
    if not unbiased:
        return own / totals**2
    return (own - totals) / np.maximum(totals * (totals - 1), LEAST)


def spread_of_kernels(spreads: Spreads) -> Floats:
    """Root mean square of the centred kernel of two different rows, (G,): what MMD² by chance is in proportion to.

    √HSIC(K, K), unbiased: kernels of a row with itself, all 1, would make narrow widths look noisier than they are. No
    less than a part of the biased one, since few rows may leave nothing, or less, of kernels that hardly reach another.
    """
    parts = spreads.squares, spreads.row_squares, spreads.total, spreads.total
    biased = _hsic(*parts, spreads.rows, unbiased=False)
    unbiased = _hsic(*parts, spreads.rows, unbiased=True) if spreads.rows > FEWEST_SPREAD else np.zeros_like(biased)
    return np.sqrt(np.maximum(np.maximum(unbiased, LEAST_PART * biased), 0.0))


def in_spreads(values: Floats, spreads: Spreads) -> Floats:
    """Statistics (draws, G, ...) of several bandwidths in units that can be compared; 0 where rows are all alike."""
    unit = spread_of_kernels(spreads)
    unit = np.where(unit > NOTHING, unit, np.inf)
    return values / unit.reshape(-1, *[1] * (values.ndim - 2))


def hsic(sums: KernelSums, spreads: Spreads, alike: Floats, unbiased: bool) -> Floats:
    """Normalised HSIC of rows and environments, (draws, G); ``alike`` (E, E) is the kernel of environments.

    HSIC(K, L) / √(HSIC(K, K) HSIC(L, L)), a correlation of kernels: 1 where one is the other, 0 by chance. Unbiased:
    tr(K̃L̃) + 1ᵀK̃1 1ᵀL̃1 / ((n − 1)(n − 2)) − 2 / (n − 2) 1ᵀK̃L̃1, diagonals 0  (Song et al. 2012, eq. 5); biased:
    tr(KHLH)                                                                             (Gretton et al. 2007, eq. 4).
    """
    totals, n = sums.totals, float(spreads.rows)
    to_all = sums.between.sum(axis=-1)  # (draws, G, E)
    rows_of_l = totals @ alike  # Σ_f ℓ_ef m_f
    all_of_l = np.einsum("de,de->d", totals, rows_of_l)
    squares_of_l = np.einsum("de,ef,df->d", totals, alike**2, totals)
    row_squares_of_l = np.einsum("de,de->d", totals, rows_of_l**2)
    product = np.einsum("dgef,ef->dg", sums.between, alike)
    rowwise = np.einsum("dge,de->dg", to_all, rows_of_l)
    everything = to_all.sum(axis=-1)
    # where rows are many, kernels of some of them alone say how much these vary
    own = _hsic(spreads.squares, spreads.row_squares, spreads.total, spreads.total, n, unbiased)
    n = float(totals[0].sum())
    across = _hsic(product, rowwise, everything, all_of_l[:, None], n, unbiased)
    of_l = _hsic(squares_of_l, row_squares_of_l, all_of_l, all_of_l, n, unbiased)
    scale = np.sqrt(np.maximum(own * of_l[:, None], 0.0))
    return np.where(scale > NOTHING, across / np.where(scale > NOTHING, scale, 1.0), 0.0)


def _hsic(product: Floats, rowwise: Floats, one: Floats, other: Floats, n: float, unbiased: bool) -> Floats:
    """HSIC of two kernels from Σ_ij k_ij l_ij, Σ_i (Σ_j k_ij)(Σ_j l_ij) and their sums, diagonals of 1 included."""
    if not unbiased:
        return np.asarray(product - 2 / n * rowwise + one * other / n**2) / n**2
    product, rowwise = product - n, rowwise - one - other + n
    one, other = one - n, other - n
    centred = product + one * other / ((n - 1) * (n - 2)) - 2 / (n - 2) * rowwise
    return np.asarray(centred / (n * (n - 3)))
