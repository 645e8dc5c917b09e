"""Wide heads, with more parameters than a Hessian can be held for: H ≈ A ⊗ B, made exact by conjugate gradients.

A (K × K) is the mean curvature of the scores, B (p × p) the second moment of the rows weighted by theirs. Both are
decomposed; their product inverts in a moment, tells the spectrum, and starts conjugate gradients with the true H.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from invariscope.criteria.influence.inverse import NULL_SPACE, Curvatures, choose_damping
from invariscope.criteria.influence.row_derivatives import LinearRows
from invariscope.criteria.influence.shares import by_row, rows_that_count
from invariscope.criteria.influence.shuffles import batches, largest_spread, spectral_shuffles
from invariscope.criteria.influence.solution import Options, Solution, eigen
from invariscope.heads.linear_algebra import conjugate_gradients, largest_eigenvalue
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments

LEADING = 32  # vectors that find the leading directions of row noise
POWERS = 3  # times they are turned towards them
PROBES = 12  # further vectors, for what those leave out
POWER_STEPS = 15  # for the largest eigenvalue, to well below a per cent
DEALS = 10  # exact shuffles at a time
SOLVE_TOLERANCE = 1e-6  # of the right-hand side, in the norm of the inverse
SKETCH_TOLERANCE = 1e-3  # where thousandths do not matter


class Moment:
    """Σ w z zᵀ over rows of a certain width; where there are fewer of them, as those rows and not as a matrix."""

    def __init__(self, width: int, rows: int) -> None:
        self.thin = rows < width
        self.matrix, self.parts = np.zeros((0, 0) if self.thin else (width, width)), list[Floats]()

    def add(self, design: Floats, weight: Floats) -> None:
        if self.thin:
            self.parts.append(np.sqrt(weight)[:, None] * design)
        else:
            self.matrix += design.T @ (weight[:, None] * design)

    def eigen(self, whole: float) -> tuple[Curvatures, Floats]:
        """Eigenvalues of the moment / whole, the smallest first, and eigenvectors (p, r); of few rows those above 0.

        With M the weighted rows, M Mᵀ has the eigenvalues of MᵀM that are not 0, and its vectors u give Mᵀu. (It
        is a sum over columns, and has none to put into other units.)
        """
        if not self.thin:
            return eigen(self.matrix / whole)
        rows = np.concatenate(self.parts)
        values, left = np.linalg.eigh(rows @ rows.T / whole)
        there = values > NULL_SPACE * values[-1]
        vectors = rows.T @ (left[:, there] / np.sqrt(values[there] * whole))
        return Curvatures(values[there], values[there]), vectors


class Kronecker:
    """The Hessian of the mean loss as a product A ⊗ B, beside the true one as a function; ``counted`` (n,) is what
    the loss of every row is multiplied with there.

    Vectors come in stacks (r, K, p).
    """

    def __init__(self, rows: LinearRows, theta: Floats, counted: Floats) -> None:
        self.rows, self.theta, self.counted, self.total = rows, theta, counted, float(rows.weight.sum())
        scores_curvature, whole = np.zeros((rows.outputs, rows.outputs)), 0.0
        moment = Moment(rows.width, len(rows.weight))
        for block, design, scores, _ in self._blocks():
            of_row, weight = np.zeros(len(design)), counted[block]
            for (k, j), curvature, _ in rows.loss.curvatures(scores):
                of_pair = np.broadcast_to(curvature, len(design))
                scores_curvature[k, j] += weight @ of_pair
                of_row = of_row + of_pair if k == j else of_row
            moment.add(design, weight * of_row)
            whole += float((weight * of_row).sum())
        upper = np.triu(scores_curvature, 1)
        of_scores, self.score_basis = eigen(scores_curvature + upper.T)
        of_rows, self.row_basis = moment.eigen(whole)
        self.live = np.outer(of_scores.live, of_rows.live)
        self.eigenvalues = np.where(self.live, np.outer(of_scores.values, of_rows.values), 0.0)
        self.balanced = np.where(self.live, np.outer(of_scores.balanced, of_rows.balanced), 0.0)

    def _blocks(self) -> Iterator[tuple[slice, Floats, Floats, Floats]]:
        for block, design in self.rows.designs():
            yield block, design, design @ self.theta.reshape(self.rows.outputs, -1).T, self.rows.weight[block]

    def turned(self, vectors: Floats) -> Floats:
        """Into the basis of A's and B's eigenvectors."""
        return np.asarray(self.score_basis.T @ vectors @ self.row_basis)  # Uᵀ V W, A = U α Uᵀ, B = W β Wᵀ

    def solve(self, vectors: Floats, damping: float) -> Floats:
        """(A ⊗ B + damping)⁻¹ on the directions that have curvature."""
        inner = self.turned(vectors) * (self.live / np.where(self.live, self.eigenvalues + damping, 1.0))
        return np.asarray(self.score_basis @ inner @ self.row_basis.T)

    def times(self, vectors: Floats) -> Floats:
        """The true Hessian: one pass for all vectors."""
        count, outputs, width = vectors.shape
        out, flat = np.zeros((width, count * outputs)), vectors.reshape(count * outputs, width)
        for block, design, scores, _ in self._blocks():
            along = (design @ flat.T).reshape(len(design), count, outputs)
            # H v = Σ_i a_i (C V z) zᵀ, a_i = q_e / n_e
            bent = self.rows.loss.curved(scores, along) * self.counted[block][:, None, None]
            out += design.T @ bent.reshape(len(design), -1)
        return np.ascontiguousarray(out.T).reshape(vectors.shape)

    def covariance_times(self, vectors: Floats) -> Floats:
        """The covariance of one row's gradient: one pass for all vectors."""
        count, outputs, width = vectors.shape
        out, mean = np.zeros((width, count * outputs)), np.zeros((outputs, width))
        flat = vectors.reshape(count * outputs, width)
        for block, design, scores, weight in self._blocks():
            residual = self.rows.loss.residual(scores, self.rows.targets[block])
            along = (design @ flat.T).reshape(len(design), count, outputs)
            inner = np.matmul(along, residual[:, :, None]) * weight[:, None, None]  # (b, r, 1): gradient · vector
            out += design.T @ (inner * residual[:, None, :]).reshape(len(design), -1)
            mean += (weight[:, None] * residual).T @ design
        mean /= self.total
        image = np.ascontiguousarray(out.T).reshape(vectors.shape) / self.total
        # (1/n) Σ w g (gᵀ v) − ḡ (ḡᵀ v)
        return np.asarray(image - np.einsum("rkp,kp->r", vectors, mean)[:, None, None] * mean)

    def largest(self) -> float:
        """The largest eigenvalue of the true Hessian, by power iteration from that of A ⊗ B."""
        start = np.outer(self.score_basis[:, -1], self.row_basis[:, -1])[None]
        return largest_eigenvalue(self.times, start, POWER_STEPS)

    def gradients(self, deals: Floats) -> Floats:
        """Mean gradients over groups, whose rows and weights are lines of ``deals`` (r, n): (r, K, p)."""
        out = np.zeros((len(deals), self.rows.outputs, self.rows.width))
        for block, design, scores, weight in self._blocks():
            residual = self.rows.loss.residual(scores, self.rows.targets[block])
            member = deals[:, block] * weight
            for k in range(self.rows.outputs):
                out[:, k] += (member * residual[:, k]) @ design
        return out / (deals @ self.rows.weight)[:, None, None]

    def inverse_times(self, vectors: Floats, damping: float, tolerance: float) -> tuple[Floats, float, int]:
        """(H + damping)⁻¹ with the true Hessian, by conjugate gradients: solutions, residual, steps."""
        return conjugate_gradients(
            lambda stack: self.times(stack) + damping * stack,
            vectors,
            lambda stack: self.solve(stack, damping),
            tolerance,
        )

    def row_spectrum(self, damping: float, rng: np.random.Generator) -> tuple[Floats, float, float]:
        """Leading eigenvalues of the covariance T = H⁻¹ S H⁻¹ of one row's influence, then sum and sum of squares of
        the others; nothing of size P × P is formed.

        Vectors Ω near the leading directions give T Ω and from it the Nyström approximation N = TΩ (ΩᵀTΩ)⁻¹ ΩᵀT; random
        ones, which Ω does not know, tell trace and squares of what N leaves out.
        """
        live = int(self.live.sum())
        leading = min(LEADING, live)
        count = leading + (PROBES if leading < live else 0)
        draws = np.where(self.live, rng.standard_normal((count, *self.live.shape)), 0.0)
        draws = self.score_basis @ draws @ self.row_basis.T
        start = draws[:leading]
        for _ in range(POWERS):  # towards the leading directions under A ⊗ B, which costs no conjugate gradients
            start = self.solve(self.covariance_times(self.solve(start, damping)), damping)
            start = np.linalg.qr(start.reshape(leading, -1).T)[0].T.reshape(start.shape)
        draws[:leading] = start
        # T Ω = H⁻¹ S H⁻¹ Ω
        half = self.inverse_times(draws, damping, SKETCH_TOLERANCE)[0]
        image = self.inverse_times(self.covariance_times(half), damping, SKETCH_TOLERANCE)[0]
        draws, image = draws.reshape(count, -1), image.reshape(count, -1)
        inner = draws[:leading] @ image[:leading].T  # Ωᵀ T Ω
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        clear = values > 1e-8 * values[-1]
        factor = image[:leading].T @ (vectors[:, clear] / np.sqrt(values[clear]))  # N = factor factorᵀ
        spectrum = np.linalg.eigvalsh(factor.T @ factor)[::-1]
        if leading == live:
            return spectrum, 0.0, 0.0
        probes = draws[leading:]
        # tr(T − N) ≈ mean of ωᵀ (T − N) ω, ‖T − N‖² ≈ mean of ‖(T − N) ω‖²
        missed = image[leading:] - (probes @ factor) @ factor.T
        rest = max(float(np.einsum("ri,ri->", probes, missed)) / PROBES, 0.0)
        bounds = (rest**2 / (live - leading), rest * float(spectrum[-1]))
        return spectrum, rest, float(np.clip((missed**2).sum() / PROBES, *bounds)) if rest > 0 else 0.0


def structured(rows: LinearRows, theta: Floats, data: Environments, shares: Floats, options: Options) -> Solution:
    """Influences of the environments by conjugate gradients, and shuffles from the spectrum of rows' influences."""
    kronecker = Kronecker(rows, theta, by_row(data, rows.weight, shares))
    missing = (rows.size - kronecker.live.size, 0)  # of fewer rows than columns
    spectrum = np.pad(np.sort(kronecker.eigenvalues, axis=None), missing)
    total, largest = float(spectrum.sum()), kronecker.largest()
    # the trace of A ⊗ B is that of H, its largest eigenvalue is not: with the true one, the others get what is left
    spectrum = np.append(spectrum[:-1] * (max(total - largest, 0.0) / max(total - spectrum[-1], 1e-300)), largest)
    curvatures = Curvatures(spectrum, np.pad(kronecker.balanced.ravel(), missing))
    chosen = choose_damping(options.damping, curvatures, curvatures, rows_that_count(data, shares))
    m, added = len(data), chosen.added
    member = (np.arange(m)[:, None] == data.codes).astype(np.float64)
    influences, residual, steps = kronecker.inverse_times(kronecker.gradients(member), added, SOLVE_TOLERANCE)
    null = np.empty(options.shuffles)
    if options.exact:
        for batch in batches(options.shuffles, DEALS):
            size = batch.stop - batch.start
            codes = options.rng.permuted(np.tile(data.codes, (size, 1)), axis=1)
            dealt = (codes[:, None, :] == np.arange(m)[:, None]).reshape(size * m, -1).astype(np.float64)
            pulled = kronecker.inverse_times(kronecker.gradients(dealt), added, SKETCH_TOLERANCE)[0]
            null[batch] = largest_spread(pulled.reshape(size, m, -1))
    elif options.shuffles:
        null = spectral_shuffles(*kronecker.row_spectrum(added, options.rng), data.rows, options.shuffles, options.rng)
    chosen.notes.append(
        f"The Hessian of {rows.size:,} parameters was taken as a product of {rows.outputs} x {rows.outputs} and "
        f"{rows.width:,} x {rows.width:,} matrices (from it are eigenvalues, all but the largest, and damping), and "
        f"influences were made exact by {steps} steps of conjugate gradients (relative residual {residual:.1g})."
    )
    live = int(kronecker.live.sum())
    return Solution(-influences.reshape(m, -1), null, spectrum, live, chosen, "kronecker")
