"""Newton steps of wide class heads without their whole Hessians: products with directions, and conjugate gradients.

A product is a pass over the rows of some n P operations, where the Hessian takes n P² / 2 and its factor P³ / 3.
With the inverse of a Hessian nearby to go by, some ten products give the same step, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from invariscope.heads.linear_algebra import (
    WIDE,
    Cholesky,
    NegativeCurvatureError,
    cholesky,
    conjugate_gradients,
    solved,
    spectrum,
)
from invariscope.heads.losses import Loss, weighted_gram
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.blocks import Sums, sum_by_environment
from invariscope.rows.environments import Environments

VERY_WIDE = 600  # parameters from which products are dearer to avoid than to make
MOST_PRODUCTS = 25  # that cost about as much as the Hessian and its factor: then that is made after all
SETTLED = 1e-11  # of a step, in the metric of the inverse nearby: what products may leave undone

Inverse = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Curvature:
    """The Hessians of k problems where they are: ``times`` directions (k, P), and as a ``whole`` (k, P, P).

    ``flat``: some column holds no curvature, and counts as dead: see :func:`~invariscope.heads.fit.evaluate`.
    """

    times: Callable[[Floats], Floats]
    whole: Callable[[], Floats]
    flat: bool


class Steps:
    """H⁻¹ g of one Newton step after the other, each by the inverse of the latest Hessian that was made whole."""

    def __init__(self, near: Inverse | None, scores: int) -> None:
        self.near, self.scores = near, scores

    def __call__(self, curvature: Curvature, gradient: Floats) -> Floats:
        """The step, by products if they settle and by the whole Hessian if not."""
        if self.near is not None and not curvature.flat:
            with suppress(NegativeCurvatureError):  # rounding may say so of a matrix that is nearly singular
                right = without_common_part(gradient, self.scores)
                step, left, _ = conjugate_gradients(curvature.times, right, self.near, SETTLED, MOST_PRODUCTS)
                if left <= SETTLED:
                    return step
        whole = without_free_constant(curvature.whole(), self.scores)
        self.near = inverse_of(whole)
        return solved(whole, gradient) if self.near is None else self.near(gradient)


def without_common_part(vectors: Floats, scores: int) -> Floats:
    """Gradients (k, P) without what all of several scores have in common, which is rounding error."""
    parts = vectors.reshape(len(vectors), scores, -1)
    return vectors if scores == 1 else (parts - parts.mean(axis=1, keepdims=True)).reshape(vectors.shape)


def inverse_of(matrices: Floats) -> Inverse | None:
    """Inverses of a stack (k, P, P), by factors; ``None`` where one of the matrices is singular."""
    factors = _factors(matrices)
    if factors is None:
        return None
    return lambda vectors: np.stack([one.solve(vector) for one, vector in zip(factors, vectors, strict=True)])


@dataclass(frozen=True)
class Inverted:
    """Pseudo-inverses of Hessians (E, P, P), with their ``rank`` and whether a weight is ``live``: has any curvature.

    ``factor``, F Fᵀ = ``inverse``, is None for wide ones, which were inverted without it. Those of several scores may
    hold any constant that is common to all scores, which no gradient and no Hessian sees.
    """

    inverse: Floats
    rank: Integers
    live: Booleans
    factor: Floats | None = None

    def whitened(self, outer: Floats) -> tuple[Floats, Floats]:
        """Trace and squared size of W = H^{−½} J H^{−½} of every J in ``outer`` (E, P, P): each (E,)."""
        if self.factor is None:
            product = self.inverse @ outer  # tr W = tr H⁻¹J, tr W² = tr (H⁻¹J)²
            return np.einsum("epp->e", product), np.einsum("epq,eqp->e", product, product)
        whitened = np.swapaxes(self.factor, -1, -2) @ outer @ self.factor
        return np.trace(whitened, axis1=-2, axis2=-1), np.sum(whitened**2, axis=(-1, -2))


def inverted(hessian: Floats, scores: int) -> Inverted:
    """Inverses of Hessians of so many scores: wide ones by Cholesky factors, where nothing but a constant is free."""
    factors = _wide_factors(hessian, scores)
    if factors is not None:
        live = np.stack([one.live for one in factors])
        return Inverted(np.stack([one.inverse() for one in factors]), _free(live, scores), live)
    part = spectrum(hessian)
    factor = part.inverse_root()
    return Inverted(factor @ np.swapaxes(factor, -1, -2), part.rank, part.scale > 0, factor)


def rank_of(hessian: Floats, scores: int) -> int:
    """The rank of one Hessian (P, P) of so many scores."""
    factors = _wide_factors(hessian[None], scores)
    return int(spectrum(hessian).rank) if factors is None else int(_free(factors[0].live, scores))


def _wide_factors(hessian: Floats, scores: int) -> list[Cholesky] | None:
    return _factors(without_free_constant(hessian, scores)) if hessian.shape[-1] >= WIDE else None


def _factors(matrices: Floats) -> list[Cholesky] | None:
    """Factors of all matrices of a stack (k, P, P), or ``None`` where one of them has none."""
    factors = [cholesky(matrix) for matrix in matrices]
    known = [factor for factor in factors if factor is not None]
    return known if len(known) == len(factors) else None


def _free(live: Booleans, scores: int) -> Integers:
    """Weights that are live, less the constant that several scores have in common in every column."""
    count = np.count_nonzero(live, axis=-1)
    return np.asarray(count - (count // scores if scores > 1 else 0))


def inverse_at_zero(data: Environments, loss: Loss, environment_weight: Floats | None) -> Inverse | None:
    """The inverse where all scores are 0: C ⊗ Σ z zᵀ, C the curvature at even odds, so that its parts are inverted.

    ``None`` where the columns depend on each other. Environments have one each or, with weights, one together.
    """

    def collect(environment: int, rows: slice) -> Sums:
        total = np.zeros((data.blocks.width, data.blocks.width))
        for block, design in data.blocks.designs(rows):
            total += weighted_gram(design, None if data.weight is None else data.weight[block])
        return {"gram": total}

    grams = sum_by_environment(collect, data.offsets)["gram"]
    if environment_weight is not None:
        grams = np.einsum("e,epq->pq", environment_weight, grams)[None]
    factors = _factors(grams)
    if factors is None:
        return None
    of_columns = np.stack([one.inverse() for one in factors])
    between = np.linalg.pinv(loss.curvature(np.zeros(loss.n_scores)))

    def inverse(vectors: Floats) -> Floats:
        parts = vectors.reshape(len(vectors), loss.n_scores, -1)
        # (C⁺ ⊗ G⁻¹) v, all problems by the one G or each by its own
        return np.asarray(np.matmul(between @ parts, of_columns)).reshape(vectors.shape)

    return inverse


def without_free_constant(hessian: Floats, scores: int) -> Floats:
    """Wide Hessians (k, P, P) of several scores, with curvature where they have none: the same added to all scores.

    Gradients have no part in these directions u_j = (e_j, e_j, …), so H + Σ_j c_j u_j u_jᵀ gives the same steps as H⁺
    but for a constant that no probability sees, and it can be inverted. Left as it is where a column is flat for
    some of the scores only.
    """
    if scores == 1 or hessian.shape[-1] < WIDE:
        return hessian
    size = np.einsum("...pp->...p", hessian).reshape(len(hessian), scores, -1)
    if ((size > 0).any(axis=1) != (size > 0).all(axis=1)).any():
        return hessian
    parts = hessian.reshape(len(hessian), scores, size.shape[2], scores, size.shape[2])
    pinned, column = parts.copy(), np.arange(size.shape[2])
    pinned[:, :, column, :, column] += np.moveaxis(size.mean(axis=1), 1, 0)[:, :, None, None]
    return pinned.reshape(hessian.shape)
