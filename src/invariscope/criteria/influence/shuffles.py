"""The shuffle baseline of the influence index: what V would be if rows were dealt into environments at random."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from invariscope.criteria.influence.row_derivatives import RowDerivatives
from invariscope.rows.arrays import Floats, Integers

LEADING = 64  # directions of row noise drawn one by one; the others together are one Wishart matrix
NUMBERS = int(1e7)  # numbers drawn at a time
ENTRIES = int(2e7)  # rows dealt at a time


def gaussian_shuffles(covariance: Floats, rows: Floats, shuffles: int, rng: np.random.Generator) -> Floats:
    """V of random deals when mean influences are normal: ``covariance`` (P, P) is that of one row's influence.

    Dealing without replacement gives Cov(mean_e, mean_k) = (δ_ek / n_e − 1 / n) S: independent draws N(0, S / n_e) less
    their pooled mean. ‖Cov_e‖ only depends on the eigenvalues of S, so nothing of size P is rotated.
    """
    values = np.linalg.eigvalsh((covariance + covariance.T) / 2)[::-1]
    values = values[values > 1e-14 * max(values[0], 0.0)]
    leading, rest = values[:LEADING], values[LEADING:]
    return spectral_shuffles(leading, float(rest.sum()), float(rest @ rest), rows, shuffles, rng)


def spectral_shuffles(
    leading: Floats, rest: float, rest_squares: float, rows: Floats, shuffles: int, rng: np.random.Generator
) -> Floats:
    """The same from the leading eigenvalues of one row's covariance, and the sum and sum of squares of the rest.

    Products of environments' means are Σ_r λ_r z_r z_rᵀ with z_r ~ N(0, I). What many small λ contribute is a Wishart
    matrix of ν = (Σλ)² / Σλ² degrees of freedom, right in its mean and variance, drawn by Bartlett's triangles.
    """
    environments = len(rows)
    freedom = rest**2 / rest_squares if rest_squares > 0 else 0.0
    if 0 < freedom < environments + 2:  # too few for a triangle: as many equal eigenvalues as there are left
        count = max(1, round(freedom))
        leading, freedom = np.append(leading, np.full(count, rest / count)), 0.0
    centre = (np.eye(environments) - 1.0 / environments) / np.sqrt(rows)
    values = np.empty(shuffles)
    for batch in batches(shuffles, NUMBERS // (environments * max(1, len(leading)))):
        size = batch.stop - batch.start
        draws = rng.standard_normal((size, environments, len(leading))) * np.sqrt(leading)
        products = np.matmul(draws, np.swapaxes(draws, 1, 2))
        if freedom > 0:
            triangle = np.tril(rng.standard_normal((size, environments, environments)), -1)
            places = np.arange(environments)
            triangle[:, places, places] = np.sqrt(rng.chisquare(freedom - places, (size, environments)))
            products += rest / freedom * np.matmul(triangle, np.swapaxes(triangle, 1, 2))
        values[batch] = _log_largest(centre @ products @ centre.T / environments)
    return values


def exact_shuffles(
    rows: RowDerivatives,
    theta: Floats,
    to_influence: Floats,
    offsets: Integers,
    shuffles: int,
    rng: np.random.Generator,
) -> Floats:
    """V of rows really dealt at random: influences of rows are added up by sparse products, many deals at a time."""
    influence = np.concatenate([part @ to_influence.T for _, part in rows.joint(theta, slopes=False)])
    values = np.empty(shuffles)
    for batch in batches(shuffles, ENTRIES // len(influence)):
        _, means = dealt(influence, rows.weight, offsets, batch.stop - batch.start, rng)
        values[batch] = largest_spread(means)
    return values


def largest_spread(means: Floats) -> Floats:
    """ln of the largest eigenvalue of the covariance over environments, for a batch (B, E, P), by E × E matrices."""
    centred = means - means.mean(axis=1, keepdims=True)
    return _log_largest(np.matmul(centred, np.swapaxes(centred, 1, 2)) / means.shape[1])


def _log_largest(products: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.linalg.eigvalsh(products)[:, -1], 0.0)))


def batches(count: int, size: int) -> Iterator[slice]:
    """Consecutive runs of at most ``size``, and at least one."""
    for start in range(0, count, max(1, size)):
        yield slice(start, min(start + max(1, size), count))


def dealt(
    lines: Floats, weight: Floats, offsets: Integers, deals: int, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Random orders of the rows (B, n), and the means (B, J, P) of ``lines`` over groups of consecutive places."""
    from scipy.sparse import csr_matrix

    n, groups = len(lines), len(offsets) - 1
    order = rng.permuted(np.tile(np.arange(n), (deals, 1)), axis=1)
    pointers = (np.arange(deals)[:, None] * n + offsets[:-1]).ravel()
    member = csr_matrix(
        (weight[order.ravel()], order.ravel(), np.append(pointers, deals * n)), shape=(deals * groups, n)
    )
    counts = np.asarray(member.sum(axis=1))
    return order, (np.asarray(member @ lines) / counts.reshape(-1, 1)).reshape(deals, groups, -1)
