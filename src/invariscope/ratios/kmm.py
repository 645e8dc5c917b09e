"""Density ratios by kernel mean matching: weights on the reference under which its kernel means are another's."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.kernels import Bumps, KernelFit
from invariscope.ratios.least_squares import KernelMoments, fit_quadratic
from invariscope.rows.arrays import Floats

JITTER = 1e-6  # on the diagonal of the kernel matrix of the centres, which is singular to rounding for wide bumps


def _mean_matching(moments: KernelMoments, bumps: Bumps) -> tuple[Floats, Floats]:
    """Aᵀ A and Aᵀ b with A = L⁻¹ H, b = L⁻¹ h, K = L Lᵀ: then |A a − b|² is the squared distance of the means."""
    kernel = bumps.features(bumps.centres)
    kernel[np.diag_indices_from(kernel)] += JITTER
    root = scipy.linalg.cholesky(kernel, lower=True)
    both = scipy.linalg.solve_triangular(root, np.column_stack([moments.gram, moments.own]), lower=True)
    return both[:, :-1].T @ both[:, :-1], both[:, :-1].T @ both[:, -1]


def fit_kmm(rows: GroupedRows, rng: np.random.Generator) -> KernelFit:
    """Density ratios by kernel mean matching (KMM): weights that give the reference the kernel means of e.

        min_{a ≥ 0}  | mean_reference[r(x) k(x, ·)] − mean_e[k(x, ·)] |²  + λ/2 |a|²,   norm of the kernel's space,
        r(x) = Σ_l a_l k(x, c_l),        k(x, x') = exp(−|x − x'|² / 2σ²)

    Two things differ from the original, which looks for one weight per row of the reference by a quadratic program of
    that size. The weights here are values of a function r(x) of the same shape as in uLSIF, so that a new row has one
    too and the cost is linear in rows; and the means are compared in the span of the kernels at the centres (Nyström),
    where the squared distance is (H a − h)ᵀ K⁻¹ (H a − h), with H = mean_reference k kᵀ, h = mean_e k and K the kernel
    matrix of the centres. The original's condition that weights average 1 is left out, since no weights meet it where
    environments lie apart; so is its upper bound on weights, since a penalised sum of bumps is bounded. Mean matching
    has no score of its own to choose σ and λ by (distances of means under different σ do not compare): that of uLSIF
    on held-out rows is used.

    It cannot tell differences between environments that are finer than σ.

    Reference: Huang, Smola, Gretton, Borgwardt, Schölkopf (2007), Correcting sample selection bias by unlabeled data,
    NIPS 19.

    >>> rng = np.random.default_rng(0)
    >>> narrow, wide = rng.normal(size=(2000, 1)), 1.5 * rng.normal(size=(2000, 1))
    >>> fit = fit_kmm(GroupedRows(np.vstack([narrow, wide]), np.array([0, 2000, 4000])), rng)
    >>> scores = fit.log_densities(np.array([[0.0], [2.0]]))
    >>> np.round(scores[:, 0] - scores[:, 1], 1)  # truth: ln 1.5 − x² (1 − 1/1.5²) / 2
    array([ 0.4, -0.7])
    """
    return fit_quadratic(rows, rng, "KMM", _mean_matching)
