"""Worst-case squared error of a linear predictor: a closed form for one output, one equation per radius for several."""

from __future__ import annotations

import numpy as np

from invariscope.criteria.worst_case.curve import TAILS, reweighted, shares
from invariscope.criteria.worst_case.margins import Curve
from invariscope.rows.arrays import Floats

HALVINGS = 80  # from a bracket of relative width 1 down to rounding error


def squared(
    residuals: Floats, slopes: Floats, radii: Floats, weight: Floats | None, n_boot: int, rng: np.random.Generator
) -> Curve:
    """The whole curve of ‖Wz + b − y‖² (summed over outputs), exactly, from mean squared residuals alone.

    One output, R the mean squared residual:  WC(ρ) = (√R + ρ‖w‖)²,  γ = ‖w‖² + ‖w‖√R / ρ. Several: along the
    eigenvectors of WWᵀ (eigenvalues λ_j) with C_j the mean squared residual along each,

        WC(ρ) = min over γ ≥ λ_max of γρ² + Σ_j C_j γ / (γ − λ_j),   where ρ² = Σ_j C_j λ_j / (γ − λ_j)²

    ``residuals`` (n, K), ``slopes`` (K, d). It has no ceiling: it grows like ρ²‖W‖².
    """
    values, vectors = np.linalg.eigh(slopes @ slopes.T)
    values = np.maximum(values, 0.0)
    along = (residuals @ vectors) ** 2
    share = shares(weight, len(along))
    loss, gamma = _solved(share @ along, values, radii)
    band = np.full((2, len(radii)), np.nan)
    if n_boot:
        _, draws = reweighted(lambda rows: along[rows].T, len(along), weight, n_boot, rng)
        band = np.quantile(_solved(draws, values, radii)[0], TAILS, axis=0)
    return Curve(loss, loss.copy(), loss.copy(), gamma, band)


def _solved(energy: Floats, values: Floats, radii: Floats) -> tuple[Floats, Floats]:
    """WC and γ for mean squared residuals (..., K) along the eigenvectors: (..., n_radii) each."""
    largest = float(values[-1])
    if largest == 0.0:  # a constant prediction: moving z changes nothing
        flat = np.repeat(energy.sum(axis=-1)[..., None], len(radii), axis=-1)
        return flat, np.zeros_like(flat)
    if len(values) == 1:
        root = np.sqrt(energy)
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(root > 0, np.sqrt(largest) * root / radii, 0.0)
        return (root + np.sqrt(largest) * radii) ** 2, largest + pull
    energy = energy[..., None, :]
    below = largest - values
    below[below <= 1e-12 * largest] = 0.0
    squares = (radii**2)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # γ = λ_max + x: one eigenvalue alone gives x from below, all of them at λ_max from above; then halve
        low = np.sqrt((energy * values * (below == 0)).sum(axis=-1) / squares[:, 0])
        high = np.sqrt((energy * values).sum(axis=-1) / squares[:, 0])
    finite = np.isfinite(high)
    low, high = (np.where(finite, bound, 1.0) for bound in (low, high))
    for _ in range(HALVINGS):
        middle = np.where(low > 0, np.sqrt(low * high), 0.5 * high)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = energy * values / (middle[..., None] + below) ** 2
        far = np.nan_to_num(terms).sum(axis=-1) > squares[:, 0]
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    # beyond the reach of the residuals the rest is moved along the steepest direction at γ = λ_max
    x = np.where(high > 1e-15 * largest, high, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        pulled = energy * (x[..., None] + largest) / (x[..., None] + below)
    pulled = np.where((energy > 0) & np.isfinite(pulled), pulled, 0.0)
    loss = (largest + x) * squares[:, 0] + pulled.sum(axis=-1)
    return np.where(finite, loss, energy.sum(axis=-1)), np.where(finite, largest + x, np.inf)
