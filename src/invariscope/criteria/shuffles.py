"""The shuffle baseline of the influence index: what V would be if rows were dealt into environments at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from invariscope.environments import Environments
from invariscope.losses import loss_of, score_rows
from invariscope.results import Floats
from invariscope.targets import Target


def gaussian_shuffles(covariance: Floats, rows: Floats, shuffles: int, rng: np.random.Generator) -> Floats:
    """V of random deals when mean influences are normal: ``covariance`` (P, P) is that of one row's influence.

    Dealing without replacement gives Cov(mean_e, mean_k) = (δ_ek / n_e − 1 / n) S: independent draws N(0, S / n_e) less
    their pooled mean. ‖Cov_e‖ only depends on the eigenvalues of S, so nothing of size P is rotated.
    """
    spectrum = np.linalg.eigvalsh((covariance + covariance.T) / 2)
    spectrum = np.maximum(spectrum[spectrum > 1e-14 * max(spectrum[-1], 0.0)], 0.0)
    environments = len(rows)
    values = np.empty(shuffles)
    batch = max(1, int(1e7 // (environments * max(1, len(spectrum)))))
    for start in range(0, shuffles, batch):
        size = min(batch, shuffles - start)
        means = rng.standard_normal((size, environments, len(spectrum))) / np.sqrt(rows)[:, None]
        means -= np.einsum("e,ber->br", rows / rows.sum(), means)[:, None]
        means *= np.sqrt(spectrum)
        values[start : start + size] = largest_spread(means)
    return values


def exact_shuffles(
    data: Environments, target: Target, theta: Floats, to_influence: Floats, shuffles: int, rng: np.random.Generator
) -> Floats:
    """V of rows really dealt at random: influences of rows are added up by sparse products, many deals at a time."""
    from scipy.sparse import csr_matrix

    influence = _row_influences(data, target, theta, to_influence)
    n, environments = len(influence), len(data)
    weight = np.ones(n) if data.weight is None else data.weight
    values = np.empty(shuffles)
    batch = max(1, int(2e7 // n))
    for start in range(0, shuffles, batch):
        size = min(batch, shuffles - start)
        deals = rng.permuted(np.tile(np.arange(n), (size, 1)), axis=1)
        pointers = (np.arange(size)[:, None] * n + data.offsets[:-1]).ravel()
        member = csr_matrix(
            (weight[deals.ravel()], deals.ravel(), np.append(pointers, size * n)), shape=(size * environments, n)
        )
        counts = np.asarray(member.sum(axis=1))
        means = np.asarray(member @ influence) / counts.reshape(-1, 1)
        values[start : start + size] = largest_spread(means.reshape(size, environments, -1))
    return values


def largest_spread(means: Floats) -> Floats:
    """ln of the largest eigenvalue of the covariance over environments, for a batch (B, E, P), by E × E matrices."""
    centred = means - means.mean(axis=1, keepdims=True)
    products = np.matmul(centred, np.swapaxes(centred, 1, 2)) / means.shape[1]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(np.linalg.eigvalsh(products)[:, -1], 0.0)))


def _row_influences(data: Environments, target: Target, theta: Floats, to_influence: Floats) -> NDArray[np.float64]:
    loss = loss_of(target)
    out = np.empty((len(data.X), len(to_influence)))
    for block, design in data.blocks.designs(slice(0, len(data.X))):
        residual = loss.residual(design @ theta.reshape(loss.n_scores, -1).T, target.values[block])
        out[block] = score_rows(design, residual) @ to_influence.T
    return out
