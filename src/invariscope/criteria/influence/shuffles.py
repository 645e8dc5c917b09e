"""The shuffle baseline of the influence index: what V would be if rows were dealt into environments at random.

Under a penalty the Hessian changes with every deal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.influence.inverse import Damping
from invariscope.criteria.influence.penalties import Penalised
from invariscope.criteria.influence.row_derivatives import OUTER, Means, RowDerivatives, row_covariance
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.spelling import spelling
from invariscope.wording import percent

LEADING = 64  # directions of row noise drawn one by one; the others together are one Wishart matrix
NUMBERS = int(1e7)  # numbers drawn at a time
ENTRIES = int(2e7)  # rows dealt at a time
TRIALS = 8  # deals on which the quick way is tried; fewer where Hessians are large
NEGLIGIBLE = 0.1  # of the Hessian: what the quick way may leave out of it
OPERATIONS = 2e11  # multiplications that dealing rows may cost if nobody asked for it: about twenty seconds
ENOUGH = 99  # deals, for a p-value of 0.01


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
        if freedom == 0:
            values[batch] = _log_largest_square(centre @ draws / math.sqrt(environments))
            continue
        products = np.matmul(draws, np.swapaxes(draws, 1, 2))
        triangle = np.tril(rng.standard_normal((size, environments, environments)), -1)
        places = np.arange(environments)
        triangle[:, places, places] = np.sqrt(rng.chisquare(freedom - places, (size, environments)))
        products += rest / freedom * np.matmul(triangle, np.swapaxes(triangle, 1, 2))
        values[batch] = _log_largest(centre @ products @ centre.T / environments)
    return values


def exact_shuffles(
    rows: RowDerivatives, theta: Floats, inverse: Floats, offsets: Integers, shuffles: int, rng: np.random.Generator
) -> Floats:
    """V of rows really dealt at random: influences of rows are added up by sparse products, many deals at a time."""
    influence = np.concatenate([part @ inverse.T for _, part in rows.joint(theta, slopes=False)])
    values = np.empty(shuffles)
    for batch in batches(shuffles, ENTRIES // len(influence)):
        _, means = dealt(influence, rows.weight, offsets, batch.stop - batch.start, rng)
        values[batch] = largest_spread(means)
    return values


def largest_spread(means: Floats) -> Floats:
    """ln of the largest eigenvalue of the covariance over environments, for a batch (B, E, P)."""
    return _log_largest_square((means - means.mean(axis=1, keepdims=True)) / math.sqrt(means.shape[1]))


def _log_largest_square(factors: Floats) -> Floats:
    """ln of the largest eigenvalue of F Fᵀ, which is that of FᵀF: the smaller of the two is decomposed."""
    turned = np.swapaxes(factors, 1, 2)
    return _log_largest(np.matmul(turned, factors) if factors.shape[1] > factors.shape[2] else factors @ turned)


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


@dataclass(frozen=True)
class PenalisedShuffles:
    """V of random deals of the rows of a top model. ``sizes`` are rows per group of ``codes``, ``basis`` (P, r) spans
    the directions with curvature."""

    rows: RowDerivatives
    theta: Floats
    penalty: Penalised
    codes: Integers
    sizes: Floats
    basis: Floats
    damping: Damping

    def draw(self, shuffles: int, exact: bool, rng: np.random.Generator) -> Floats:
        """Shuffled values: rows really dealt, or, where a trial shows that it makes no difference, normal draws."""
        if exact:
            return self.dealt(shuffles, rng)
        expected = self._expected()
        left_out = self._left_out(expected, rng)
        if left_out <= NEGLIGIBLE:
            return self.drawn(expected, shuffles, rng)
        affordable = min(shuffles, int(OPERATIONS / (len(self.rows.weight) * self.rows.size**2)))
        if affordable >= min(ENOUGH, shuffles):
            fewer = "" if affordable == shuffles else f", {affordable} times instead of {shuffles}"
            self.damping.notes.append(
                "The penalty weighs so much that its Hessian differs from deal to deal: rows were really dealt, as "
                f"{spelling().call('iv.influence_index', 'exact=True')} does{fewer}."
            )
            return self.dealt(affordable, rng)
        self.damping.notes.append(
            f"The penalty weighs so much that its Hessian differs from deal to deal (by some {percent(left_out)}): "
            "shuffled values are rough. "
            f"{spelling().call('iv.influence_index', 'exact=True')} deals the rows, and takes long."
        )
        return self.drawn(expected, shuffles, rng)

    def drawn(self, expected: Floats, shuffles: int, rng: np.random.Generator) -> Floats:
        """Normal draws of the groups' mean gradients and mean slope gradients, together.

        The penalty's Hessian is, for IRM, (2/m) Σ_e ∇D_e ∇D_eᵀ + (2/m) Σ_e D_e ∇²D_e (and alike for the others): the
        first sum is taken as it falls out, by a low-rank update of the inverse, the second is replaced by what is
        ``expected``. Left out is the noise of D_e times that of ∇²D_e.
        """
        penalty, sizes = self.penalty, self.sizes
        mean, covariance = row_covariance(self.rows, self.theta, penalty.uses_slopes)
        curvature, turned = np.linalg.eigh(expected)
        curvature, basis = curvature + self.damping.of(curvature[0]), self.basis @ turned
        parts = 2 if penalty.uses_slopes else 1  # gradients, or gradients and slope gradients
        quarters = [
            [basis.T @ part @ basis for part in np.hsplit(half, parts)] for half in np.vsplit(covariance, parts)
        ]
        values, vectors = np.linalg.eigh(np.block(quarters))
        live = values > 1e-14 * values[-1]
        root, middle = vectors[:, live] * np.sqrt(values[live]), (mean.reshape(parts, -1) @ basis).ravel()
        groups, size = len(sizes), basis.shape[1]
        shuffled = np.empty(shuffles)
        for batch in batches(shuffles, NUMBERS // (4 * groups * len(root))):
            # means of groups dealt without replacement: N(0, S / n_j) less their pooled mean, about the mean of all
            draws = rng.standard_normal((batch.stop - batch.start, groups, root.shape[1])) / np.sqrt(sizes)[:, None]
            draws -= np.einsum("j,bjr->br", sizes / sizes.sum(), draws)[:, None]
            joint = draws @ root.T + middle
            nothing = np.zeros(joint.shape[:2])
            means = Means(nothing, nothing, joint[..., :size], joint[..., -size:])
            _, gradient = penalty.by_environment(means, sizes)
            update, signs = penalty.low_rank(means, sizes)
            # (K + Σ_j ± u_j u_jᵀ)⁻¹ g = K⁻¹g − K⁻¹U (±I + UᵀK⁻¹U)⁻¹ UᵀK⁻¹g, K diagonal in this basis (Woodbury)
            first, inner = gradient / curvature, update / curvature
            core = np.diag(signs) + np.matmul(update, np.swapaxes(inner, 1, 2))
            along = np.linalg.solve(core, np.matmul(update, np.swapaxes(first, 1, 2)))
            shuffled[batch] = largest_spread(first - np.matmul(np.swapaxes(along, 1, 2), inner))
        return shuffled

    def dealt(self, shuffles: int, rng: np.random.Generator) -> Floats:
        """Rows really dealt: gradients, penalty, Hessian and damping computed anew for every deal."""
        joint = np.concatenate([part for _, part in self.rows.joint(self.theta)])
        values = np.empty(shuffles)
        for batch in batches(shuffles, min(ENTRIES // len(joint), 4 * OUTER // self.rows.size**2)):
            means, hessians = self._deals(joint, batch.stop - batch.start, rng)
            vectors, signs = self.penalty.low_rank(means, self.sizes)
            vectors = vectors @ self.basis
            hessians += np.matmul(np.swapaxes(vectors, 1, 2) * signs, vectors)  # + Σ_j ± u_j u_jᵀ
            curvature, turned = np.linalg.eigh(hessians)
            curvature += self.damping.of(curvature[:, :1])
            gradient = self.penalty.by_environment(means, self.sizes)[1] @ self.basis
            values[batch] = largest_spread(np.matmul(gradient, turned) / curvature[:, None])
        return values

    def _deals(self, joint: Floats, count: int, rng: np.random.Generator) -> tuple[Means, Floats]:
        """Means by group of random deals, and the Hessians in the basis without their low-rank part: (B, r, r)."""
        places = np.bincount(self.codes, minlength=len(self.sizes))
        offsets = np.concatenate([[0], np.cumsum(places)]).astype(np.intp)
        order, group_lines = dealt(joint, self.rows.weight, offsets, count, rng)
        means, by_row = Means.of(group_lines), []
        for part in self.penalty.coefficients(means, self.sizes):
            if part is not None:
                weights = np.empty(order.shape)
                np.put_along_axis(weights, order, np.repeat(part, places, axis=1), axis=1)
                by_row.append(weights * self.rows.weight)
        return means, self.basis.T @ self.rows.hessians(self.theta, *by_row) @ self.basis

    def _left_out(self, expected: Floats, rng: np.random.Generator) -> float:
        """How far, relative to itself, the Hessian of a deal is from what is expected (low-rank parts aside)."""
        if np.ptp(self.rows.weight) > 0:  # rows cannot be dealt: sizes of groups would not stay the same
            return 0.0
        joint = np.concatenate([part for _, part in self.rows.joint(self.theta)])
        _, hessians = self._deals(joint, max(1, min(TRIALS, 4 * OUTER // self.rows.size**2)), rng)
        curvature, turned = np.linalg.eigh(expected)
        size = np.abs(curvature + self.damping.of(curvature[0]))
        root = turned / np.sqrt(np.maximum(size, 1e-12 * size.max()))  # ‖K^{−½} (H_deal − K) K^{−½}‖₂, mean over deals
        return float(np.abs(np.linalg.eigvalsh(root.T @ (hessians - expected) @ root)).max(axis=1).mean())

    def _expected(self) -> Floats:
        """The Hessian without its low-rank part, expected over deals, in the basis: (r, r)."""
        rows, penalty, sizes = self.rows, self.penalty, self.sizes
        last = np.concatenate([part[:, -2:] for _, part in rows.joint(self.theta)])
        total, m = float(rows.weight.sum()), len(sizes) // penalty.parts
        watched = last[:, 1] if penalty.uses_slopes else last[:, 0]
        mean = float(rows.weight @ watched) / total
        apart = (watched - mean) / (total - 1.0)
        on_loss, on_slope = rows.weight / total, None
        if not penalty.uses_slopes:  # vrex: Σ (ℓ_e − ℓ̄) H_e: the mean over environments is taken off
            noise = (1.0 - 1.0 / m) * float(np.mean(1.0 / sizes))
            on_loss = on_loss + 2.0 * penalty.strength * noise * rows.weight * apart
        else:  # of two halves, dealt without replacement, one knows the other by −1/n only
            noise = -1.0 / total if penalty.parts == 2 else float(np.mean(1.0 / sizes)) - 1.0 / total
            on_slope = (2.0 * penalty.strength * rows.weight * (mean / total + noise * apart))[None]
        return np.asarray(self.basis.T @ rows.hessians(self.theta, on_loss[None], on_slope)[0] @ self.basis)
