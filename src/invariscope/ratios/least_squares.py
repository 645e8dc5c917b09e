"""Density ratios by quadratic programs on kernels: least squares (uLSIF, RuLSIF) and kernel mean matching (KMM)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from invariscope.ratios import kernels
from invariscope.ratios.estimator import Fit, GroupedRows
from invariscope.ratios.kernel_pairs import fit_kernels
from invariscope.ratios.kernels import Bumps, Sample
from invariscope.rows.arrays import Floats

ALPHA = 0.1  # of the relative ratio, as its authors use it: p / (0.1 p + 0.9 q) is below 10
PENALTIES = (1e-3, 1e-2, 1e-1)  # as shares of the average entry on the diagonal of the quadratic form
SMALLEST_DIAGONAL = 1e-6
JITTER = 1e-6  # on the diagonal of the kernel matrix of the centres, which is singular to rounding for wide bumps


@dataclass(frozen=True)
class KernelMoments:
    """Means of the features k(x) of some bumps, all that least squares and mean matching need to know of the rows.

    ``own`` (m,) = h = mean_e k; ``gram`` (m, m) = H = mean of k kᵀ over the reference, or over its mixture with the
    environment, α of e to 1 − α of the reference.
    """

    own: Floats
    gram: Floats

    @classmethod
    def mixed(cls, own: dict[str, Floats], reference: dict[str, Floats], alpha: float) -> KernelMoments:
        """From the means "k" and "kk" of both samples ("kk" of the environment's own rows only if α > 0)."""
        if alpha == 0.0:
            return cls(own["k"], reference["kk"])
        return cls(own["k"], alpha * own["kk"] + (1.0 - alpha) * reference["kk"])

    def score(self, coefficients: Floats) -> float:
        """½ mean_reference r² − mean_e r: half the mean squared error of r = kᵀ a, up to a constant."""
        return float(0.5 * coefficients @ self.gram @ coefficients - self.own @ coefficients)


#: (moments, bumps) → quadratic and linear part of what the coefficients minimise
Equations = Callable[[KernelMoments, Bumps], tuple[Floats, Floats]]


def feature_means(k: Floats, weight: Floats, squares: bool) -> dict[str, Floats]:
    """Sums over rows of k and, if asked for, k kᵀ."""
    sums = {"k": weight @ k}
    if squares:
        sums["kk"] = (k * weight[:, None]).T @ k
    return sums


def solve_quadratic(
    own: Sample,
    reference: Sample,
    bumps: Bumps,
    penalty: float,
    *,
    alpha: float,
    equations: Equations,
) -> Floats:
    """Coefficients from all rows, for given bumps and penalty."""

    def statistics(X: Floats, weight: Floats, squares: bool) -> dict[str, Floats]:
        return feature_means(bumps.features(X), weight, squares)

    here = kernels.means_over(own, partial(statistics, squares=alpha > 0.0))
    there = kernels.means_over(reference, partial(statistics, squares=True))
    coefficients = _minimum(*equations(KernelMoments.mixed(here, there, alpha), bumps), penalty)
    # a ratio has mean 1 under what it is a ratio to; the penalty alone would have it a little lower
    return coefficients / max(float((alpha * here["k"] + (1.0 - alpha) * there["k"]) @ coefficients), kernels.SMALLEST)


def choose_quadratic(
    samples: list[tuple[Sample, Sample]], centres: Floats, *, alpha: float, equations: Equations
) -> tuple[float, float]:
    """Width and penalty of the lowest ½ mean_reference r² − mean_e r over rows the coefficients were not fitted on."""
    folds = [[(kernels.squared_distances(part.X, centres), part.weight) for part in pair] for pair in samples]
    best_penalty: dict[float, float] = {}

    def score(width: float) -> float:
        sums = [
            [
                feature_means(kernels.features_at(squared, width), weight, squares) | {"rows": weight.sum()}
                for (squared, weight), squares in zip(pair, (alpha > 0.0, True), strict=True)
            ]
            for pair in folds
        ]
        bumps = Bumps(centres, width)
        scores = np.zeros(len(PENALTIES))
        for k in range(len(folds)):
            others = [pair for j, pair in enumerate(sums) if j != k] or sums  # one row alone judges itself
            training, test = (
                KernelMoments.mixed(_merged([own for own, _ in pairs]), _merged([there for _, there in pairs]), alpha)
                for pairs in (others, [sums[k]])
            )
            quadratic, linear = equations(training, bumps)
            scores += [test.score(_minimum(quadratic, linear, penalty)) for penalty in PENALTIES]
        best_penalty[width] = PENALTIES[int(np.argmin(scores))]
        return float(scores.min())

    width = kernels.best_width(score, kernels.typical_distance(centres))
    return width, best_penalty[width]


def _merged(parts: list[dict[str, Floats]]) -> dict[str, Floats]:
    """Means over several folds from their sums."""
    rows = sum(part["rows"] for part in parts)
    return {name: np.asarray(sum(part[name] for part in parts) / rows) for name in parts[0] if name != "rows"}


def _minimum(quadratic: Floats, linear: Floats, penalty: float) -> Floats:
    # bumps that the reference never comes near have nothing on the diagonal
    ridge = penalty * max(np.trace(quadratic) / len(linear), SMALLEST_DIAGONAL)
    return kernels.nonnegative_minimum(quadratic + ridge * np.eye(len(linear)), linear)


def fit_quadratic(
    rows: GroupedRows,
    rng: np.random.Generator,
    name: str,
    equations: Equations,
    alpha: float = 0.0,
    pairwise: bool = False,
) -> Fit:
    """All environments by one kind of equations."""
    choose = partial(choose_quadratic, alpha=alpha, equations=equations)
    solve = partial(solve_quadratic, alpha=alpha, equations=equations)
    return fit_kernels(rows, name, choose, solve, rng, alpha, pairwise)


def _least_squares(moments: KernelMoments, bumps: Bumps) -> tuple[Floats, Floats]:
    return moments.gram, moments.own


def fit_ulsif(rows: GroupedRows, rng: np.random.Generator, pairwise: bool = False) -> Fit:
    """Density ratios by least squares (uLSIF): the sum of Gaussian bumps closest to p_e / p_reference.

        min_{a ≥ 0}  ½ mean_reference[r(x)²] − mean_e[r(x)] + λ/2 |a|²,   r(x) = Σ_l a_l exp(−|x − c_l|² / 2σ²)

    The first two terms are half the mean squared error of r under the reference, up to a constant. uLSIF drops a ≥ 0
    to get a linear system and sets negative a_l to 0 afterwards; the problem with a ≥ 0 kept (which its authors call
    LSIF) takes about a millisecond here and its ratios are never negative, so that is what is solved. σ and λ are those
    of the lowest score on held-out rows. Cost is linear in rows.

    It cannot tell how large a ratio is where the reference has no rows: there r is what its bumps happen to be.

    Reference: Kanamori, Hido, Sugiyama (2009), A least-squares approach to direct importance estimation, JMLR 10.

    >>> rng = np.random.default_rng(0)
    >>> narrow, wide = rng.normal(size=(2000, 1)), 1.5 * rng.normal(size=(2000, 1))
    >>> fit = fit_ulsif(GroupedRows(np.vstack([narrow, wide]), np.array([0, 2000, 4000])), rng)
    >>> scores = fit.log_densities(np.array([[0.0], [2.0]]))
    >>> np.round(scores[:, 0] - scores[:, 1], 1)  # truth: ln 1.5 − x² (1 − 1/1.5²) / 2
    array([ 0.4, -0.7])
    """
    return fit_quadratic(rows, rng, "uLSIF", _least_squares, pairwise=pairwise)


def fit_rulsif(rows: GroupedRows, rng: np.random.Generator, pairwise: bool = False) -> Fit:
    """Density ratios by relative least squares (RuLSIF): uLSIF against a mixture, whose ratio is bounded.

        r_α = p_e / (α p_e + (1 − α) p_reference) < 1/α,   p_e / p_reference = (1 − α) r_α / (1 − α r_α),   α = 0.1

    r_α is found as in :func:`fit_ulsif`, with the mixture in place of the reference. Where environments hardly overlap
    it is steadier than uLSIF: no row can have a large pull.

    It cannot tell ratios to the reference above 9 · 999 apart.

    Reference: Yamada, Suzuki, Kanamori, Hachiya, Sugiyama (2011), Relative density-ratio estimation for robust
    distribution comparison, NIPS 24.
    """
    return fit_quadratic(rows, rng, "RuLSIF", _least_squares, ALPHA, pairwise=pairwise)


def _mean_matching(moments: KernelMoments, bumps: Bumps) -> tuple[Floats, Floats]:
    """Aᵀ A and Aᵀ b with A = L⁻¹ H, b = L⁻¹ h, K = L Lᵀ: then |A a − b|² is the squared distance of the means."""
    kernel = bumps.features(bumps.centres)
    kernel[np.diag_indices_from(kernel)] += JITTER
    root = kernels.root_of(kernel, np.eye(len(kernel)))
    both = scipy.linalg.solve_triangular(root, np.column_stack([moments.gram, moments.own]), lower=True)
    return both[:, :-1].T @ both[:, :-1], both[:, :-1].T @ both[:, -1]


def fit_kmm(rows: GroupedRows, rng: np.random.Generator, pairwise: bool = False) -> Fit:
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
    return fit_quadratic(rows, rng, "KMM", _mean_matching, pairwise=pairwise)
