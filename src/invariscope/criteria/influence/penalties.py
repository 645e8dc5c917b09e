"""Training objectives with a penalty on differences between environments: values, gradients and Hessians in the head.

Every penalty here is made of means over groups of rows, so its Hessian is a weighted sum over rows of their second
derivatives, plus a matrix of low rank made of the groups' gradients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from invariscope.criteria.influence.inverse import Curvatures, balanced
from invariscope.criteria.influence.row_derivatives import Means, RowDerivatives, group_means
from invariscope.errors import InputError
from invariscope.heads.fit import SEPARATED
from invariscope.heads.linear_algebra import newton
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.settings import BEYOND, real_number

NONE = "none"
PENALTIES = ("irm", "irm_split", "vrex")
CHOICES = " or ".join(f'penalty="{name}"' for name in PENALTIES)
WARM_UP = (1e-3, 1e-2, 1e-1, 1.0)  # of the penalty's weight: each optimum is the start of the next
MAX_STEPS = 200
NO_LOSS = 1e-2 * SEPARATED  # classes that are split: no head is best, and this one will do
PENALISED_TOLERANCE = 1e-14  # of the objective: what one more step could still gain


@dataclass(frozen=True)
class Penalised:
    """Σ_e q_e ℓ_e + strength · R, everything in units in which the squared loss is ½ (s − y)².

        none       R = 0
        irm        R = (1/m) Σ_e D_e²            D_e the mean slope: derivative of ℓ_e in a factor on the scores
        irm_split  R = (1/m) Σ_e D_e' D_e''      of the even and of the odd rows of e
        vrex       R = (1/m) Σ_e (ℓ_e − ℓ̄)²

    ``shares`` q (m,) add up to 1: 1/m each in the paper. With a loss c times as large, as reported (c = 2 for the
    squared loss), objective = c (mean ℓ + λ c R): the strength is c λ. Groups are the environments or, for the split
    form, their halves 2e and 2e + 1. R is made of squares: without ``residual_curvature`` its second derivatives are
    those of Gauss and Newton, from which what is multiplied with D_e, or with ℓ_e − ℓ̄, is left out. It is 0 where the
    penalty is met; elsewhere it may bend the objective down.
    """

    name: str
    strength: float
    shares: Floats
    residual_curvature: bool = True

    @property
    def parts(self) -> int:
        """Groups per environment."""
        return 2 if self.name == "irm_split" else 1

    @property
    def uses_slopes(self) -> bool:
        return self.name in ("irm", "irm_split")

    def objective(self, means: Means, sizes: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        losses, gradients = self.by_environment(means, sizes)
        value = float(self.shares @ losses)
        if self.name == NONE:
            return value, self.shares @ gradients
        if self.name == "vrex":
            apart = losses - losses.mean()
            penalty, pull = np.mean(apart**2), 2 * self.strength / len(apart) * apart @ gradients
        else:
            other = self._other(means.slope)
            penalty = np.mean(means.slope * other)
            pull = 2 * self.strength * np.mean(other[:, None] * means.slope_gradient, axis=0)
        return value + self.strength * float(penalty), self.shares @ gradients + pull

    def coefficients(self, means: Means, sizes: Floats) -> tuple[Floats, Floats | None]:
        """What the second derivatives of loss and slope of a row are multiplied with, by group: (..., J) each."""
        m = len(sizes) // self.parts
        on_risk = np.repeat(self.shares / sizes.reshape(m, self.parts).sum(axis=1), self.parts)
        if not self.residual_curvature:
            return np.broadcast_to(on_risk, means.loss.shape), None
        if not self.uses_slopes:
            apart = means.loss - means.loss.mean(axis=-1, keepdims=True)
            return on_risk + 2.0 * self.strength * apart / (m * sizes), None
        on_slope = 2.0 * self.strength / (m * self.parts) * self._other(means.slope) / sizes
        return np.broadcast_to(on_risk, on_slope.shape), on_slope

    def low_rank(self, means: Means, sizes: Floats) -> tuple[Floats, Floats]:
        """Vectors u (..., J, P) and signs (J,): the rest of the Hessian is Σ_j sign_j u_j u_jᵀ."""
        m = len(sizes) // self.parts
        if not self.uses_slopes:
            vectors = means.gradient - means.gradient.mean(axis=-2, keepdims=True)
            return math.sqrt(2 * self.strength / m) * vectors, np.ones(m)
        vectors = means.slope_gradient
        if self.name == "irm":
            return math.sqrt(2 * self.strength / m) * vectors, np.ones(m)
        # a bᵀ + b aᵀ = ½ (a + b)(a + b)ᵀ − ½ (a − b)(a − b)ᵀ
        even, odd = vectors[..., 0::2, :], vectors[..., 1::2, :]
        if not self.residual_curvature:  # a and b differ by noise alone
            return math.sqrt(self.strength / (2 * m)) * (even + odd), np.ones(m)
        both = np.concatenate([even + odd, even - odd], axis=-2)
        return math.sqrt(self.strength / (2 * m)) * both, np.repeat([1.0, -1.0], m)

    def by_environment(self, means: Means, sizes: Floats) -> tuple[Floats, Floats]:
        """Mean losses (..., m) and gradients (..., m, P) of whole environments, from those of their groups."""
        if self.parts == 1:
            return means.loss, means.gradient
        share = (sizes.reshape(-1, 2) / sizes.reshape(-1, 2).sum(axis=1, keepdims=True)).ravel()
        loss, gradient = means.loss * share, means.gradient * share[:, None]
        return loss[..., 0::2] + loss[..., 1::2], gradient[..., 0::2, :] + gradient[..., 1::2, :]

    def _other(self, slope: Floats) -> Floats:
        """The slope each group's own is multiplied with: itself, or that of the other half."""
        if self.parts == 1:
            return slope
        return np.asarray(slope.reshape(*slope.shape[:-1], -1, 2)[..., ::-1].reshape(slope.shape))


def penalty_of(name: str | None, weight: float, reported: float, shares: Floats) -> Penalised | None:
    """The penalised risk a user asked for; ``None`` without a penalty."""
    weight = real_number(weight, "penalty_weight", below=BEYOND)
    if name is None:
        if weight > 0:
            raise InputError(f"penalty_weight is {weight:g}, but there is no penalty: say {CHOICES}")
        return None
    if name not in PENALTIES:
        raise InputError(f'penalty "{name}" is unknown: use {CHOICES}, or None')
    return Penalised(name, weight * reported, shares)


def groups_of(data: Environments, penalty: Penalised, weight: Floats) -> tuple[Integers, Floats]:
    """The group of every stored row, and how many rows each stands for."""
    codes = data.codes
    if penalty.parts == 2:
        places = np.arange(len(codes)) - data.offsets[:-1][codes]
        codes = 2 * codes + places % 2
    sizes = np.bincount(codes, weight, penalty.parts * len(data)).astype(np.float64)
    return codes, sizes


def penalised_hessian(
    rows: RowDerivatives, theta: Floats, penalty: Penalised, codes: Integers, sizes: Floats
) -> tuple[Floats, Means]:
    """Hessian (P, P) of the training objective, and the means it is made of."""
    means = group_means(rows, theta, codes, len(sizes))
    by_row = [(part[codes] * rows.weight)[None] for part in penalty.coefficients(means, sizes) if part is not None]
    vectors, signs = penalty.low_rank(means, sizes)
    return rows.hessians(theta, *by_row)[0] + (vectors.T * signs) @ vectors, means


def fit_penalised(
    rows: RowDerivatives, theta: Floats, penalty: Penalised, codes: Integers, sizes: Floats
) -> tuple[Floats, bool]:
    """The head that minimises the penalised objective, from the ERM head on, under growing weights; and whether
    it got there. IRM's objective is not convex: this is the minimum that continues the ERM head."""
    reached, stack = True, theta[None]
    floor = -np.inf if penalty.strength > 0 or rows.reported > 1 else NO_LOSS
    for share in WARM_UP if penalty.strength > 0 else (1.0,):
        weaker = replace(penalty, strength=share * penalty.strength)

        def objective(stack: Floats, penalty: Penalised = weaker) -> tuple[Floats, Floats, Floats]:
            hessian, means = penalised_hessian(rows, stack[0], penalty, codes, sizes)
            value, gradient = penalty.objective(means, sizes)
            return np.array([value]), gradient[None], hessian[None]

        stack, reached = newton(
            objective, _newton_step, stack, floor=floor, tolerance=PENALISED_TOLERANCE, max_steps=MAX_STEPS
        )
    return stack[0], reached


def _newton_step(hessian: Floats, gradient: Floats) -> Floats:
    """|H|⁺ g: negative curvatures turned round, so that every step goes down."""
    curvature, vectors = np.linalg.eigh(hessian[0])
    live, curvature = Curvatures(curvature, balanced(hessian[0])).live, np.abs(curvature)
    return np.asarray((vectors[:, live] @ (vectors[:, live].T @ gradient[0] / curvature[live]))[None])
