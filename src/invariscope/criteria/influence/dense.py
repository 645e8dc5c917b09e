"""Influence with the whole Hessian at hand: one eigen-decomposition, then everything is a product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.influence.damping import NULL_SPACE, choose_damping
from invariscope.criteria.influence.penalised_shuffles import PenalisedShuffles
from invariscope.criteria.influence.penalties import Penalty, groups_of, penalised_hessian
from invariscope.criteria.influence.row_derivatives import RowDerivatives, group_means, row_covariance
from invariscope.criteria.influence.shuffles import exact_shuffles, gaussian_shuffles
from invariscope.criteria.influence.solution import Options, Solution
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments

LARGEST_DENSE = 5000  # parameters: a Hessian of 200 MB, half a minute to decompose


@dataclass(frozen=True)
class Known:
    """Sums over rows that were computed already: mean gradients (E, P), the Hessian of the pooled mean loss (P, P),
    and a function for the covariance (P, P) of one row's gradient. ``blocks`` > 1: H is that many equal blocks."""

    gradient: Floats
    hessian: Floats
    covariance: Callable[[], Floats]
    blocks: int = 1


def known_of(rows: RowDerivatives, theta: Floats, data: Environments, blocks: int = 1) -> Known:
    """The sums of any top model, by passes over its rows."""
    hessian = rows.hessians(theta, (rows.weight / rows.weight.sum())[None])[0]
    gradient = group_means(rows, theta, data.codes, len(data)).gradient
    return Known(gradient, hessian, lambda: row_covariance(rows, theta, slopes=False)[1], blocks)


def dense(rows: RowDerivatives, theta: Floats, data: Environments, known: Known, options: Options) -> Solution:
    """Influences on the minimiser of the pooled mean loss."""
    eigenvalues, vectors = _eigen(known.hessian, known.blocks)
    chosen = choose_damping(options.damping, eigenvalues, eigenvalues, float(data.rows.sum()))
    live = np.abs(eigenvalues) > NULL_SPACE * np.abs(eigenvalues).max()
    # (H + damping)⁻¹ on the directions with curvature; IF_e = −(H + damping)⁻¹ ∇ℓ_e, eq. 5
    inverse = (vectors[:, live] / (eigenvalues[live] + chosen.added)) @ vectors[:, live].T
    if options.exact:
        null = exact_shuffles(rows, theta, inverse, data.offsets, options.shuffles, options.rng)
    else:
        null = gaussian_shuffles(inverse @ known.covariance() @ inverse, data.rows, options.shuffles, options.rng)
    return Solution(-known.gradient @ inverse, null, eigenvalues, int(live.sum()), chosen)


def dense_penalised(
    rows: RowDerivatives, theta: Floats, data: Environments, penalty: Penalty, options: Options
) -> Solution:
    """Influences on the minimiser of the mean loss over environments plus a penalty."""
    codes, sizes = groups_of(data, penalty, rows.weight)
    hessian, means = penalised_hessian(rows, theta, penalty, codes, sizes)
    even = rows.weight / (len(data) * data.rows[data.codes])
    of_risks = np.linalg.eigvalsh(rows.hessians(theta, even[None])[0])
    eigenvalues, vectors = _eigen(hessian)
    chosen = choose_damping(options.damping, eigenvalues, of_risks, float(data.rows.sum()))
    live = np.abs(eigenvalues) > NULL_SPACE * np.abs(eigenvalues).max()
    basis = vectors[:, live]
    influences = -penalty.by_environment(means, sizes).gradient @ (basis / (eigenvalues[live] + chosen.added)) @ basis.T
    null = PenalisedShuffles(rows, theta, penalty, codes, sizes, basis, chosen).draw(
        options.shuffles, options.exact, options.rng
    )
    return Solution(influences, null, eigenvalues, int(live.sum()), chosen)


def _eigen(hessian: Floats, blocks: int = 1) -> tuple[Floats, Floats]:
    """Eigenvalues, the smallest first, and eigenvectors; of equal diagonal blocks only one is decomposed."""
    size = len(hessian) // blocks
    part = hessian[:size, :size]
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    if blocks == 1:
        return values, vectors
    order = np.argsort(np.tile(values, blocks), kind="stable")
    return np.tile(values, blocks)[order], np.kron(np.eye(blocks), vectors)[:, order]
