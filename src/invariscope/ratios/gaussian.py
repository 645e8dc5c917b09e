"""Density ratios of one normal law per environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from invariscope.ratios.estimator import GroupedRows, JointFit
from invariscope.rows.arrays import Floats

FLOOR = 1e-6  # of a column's variance within environments, added to it: columns may depend on each other
SMALLEST = 1e-12  # of its variance over all rows: a column may be constant within every environment


@dataclass(frozen=True)
class GaussianFit(JointFit):
    """log p_e(x) = −½ (x − μ_e)ᵀ Σ_e⁻¹ (x − μ_e) − ½ log det Σ_e, with ``factors`` the Cholesky factors of the Σ_e."""

    means: Floats
    factors: Floats
    description: str = "one normal law per environment"
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    def log_densities(self, X: Floats) -> Floats:
        out = np.empty((len(X), len(self.means)))
        for e, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            whitened = scipy.linalg.solve_triangular(factor, (X - mean).T, lower=True, check_finite=False)
            out[:, e] = -0.5 * np.einsum("ij,ij->j", whitened, whitened) - np.log(np.diag(factor)).sum()
        return out

    def again(self, rows: GroupedRows) -> GaussianFit:
        return fit_gaussian(rows)


def fit_gaussian(rows: GroupedRows, rng: np.random.Generator | None = None) -> GaussianFit:
    """Means and covariances by environment: exact if every environment is normal, and wrong in the tails if not.

    Covariances are shrunk towards that of all environments as if it had been seen on d + 1 further rows, so that an
    environment with few rows has one at all. Nothing in it is random.
    """
    d = rows.X.shape[1]
    means, scatters = np.empty((rows.environments, d)), np.empty((rows.environments, d, d))
    for e in range(rows.environments):
        part = rows.X[rows.of(e)]
        counts = np.ones(len(part)) if rows.weight is None else rows.weight[rows.of(e)]
        means[e] = counts @ part / counts.sum()
        centred = part - means[e]
        scatters[e] = (centred * counts[:, None]).T @ centred
    pooled = scatters.sum(axis=0) / rows.totals.sum()
    pooled[np.diag_indices(d)] += FLOOR * np.diag(pooled) + SMALLEST
    prior = d + 1.0
    covariances = (scatters + prior * pooled) / (rows.totals + prior)[:, None, None]
    return GaussianFit(means, np.linalg.cholesky(covariances))
