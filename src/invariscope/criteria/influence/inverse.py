"""Inverting a Hessian: what is added to it first, and why; and conjugate gradients, where only its products are had."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import is_real

NULL_SPACE = 1e-12  # of the largest eigenvalue: below lies rounding error
MAX_STEPS = 500


def noise_level(eigenvalues: Floats, rows: float) -> float:
    """How far sampling moves the eigenvalues of a Hessian that is a mean over ``rows`` rows: λ₁ √(r / n).

    r = Σλ / λ₁ is the effective rank; the operator norm of the error of a mean of n random matrices x xᵀ is of this
    order (Koltchinskii and Lounici, 2017). Directions that are flatter cannot be told from flat ones.

    >>> round(noise_level(np.array([4.0, 3.0, 2.0]), 900), 4)  # √(4 · 9 / 900)
    0.2
    """
    values = np.maximum(eigenvalues, 0.0)
    return math.sqrt(float(values.max() * values.sum()) / rows)


@dataclass(frozen=True)
class Damping:
    """What is ``added`` to the Hessian and why; ``base`` would be enough for curvatures of at least ``floor``, so that
    the Hessian of a deal can be treated as that of the environments."""

    added: float
    base: float
    floor: float
    reason: str
    notes: list[str]

    def of(self, lowest: Floats) -> Floats:
        """Damping for Hessians whose smallest curvatures are ``lowest``."""
        return np.maximum(self.base, self.floor - lowest)


def given_damping(damping: Any) -> float:
    """The number a user gave in place of "auto"."""
    if not is_real(damping) or not 0 <= damping < math.inf:
        raise InputError(f'damping is {damping!r}: give a number of at least 0, or "auto"')
    return float(damping)


def choose_damping(damping: float | str, eigenvalues: Floats, of_risks: Floats, rows: float) -> Damping:
    """Damping from the spectrum, or as given.

    ``eigenvalues`` are those of the whole Hessian, ``of_risks`` those without the penalty: a penalty makes a few
    directions steep on purpose, and the others are not flat for that. Where it takes curvature away, what is missing
    to that of the risks (or to the sampling noise, if that is less) is added.
    """
    notes = []
    largest, steepest = float(np.abs(eigenvalues).max()), float(of_risks.max())
    if not largest > 0:
        raise InputError(
            "the head has no curvature at all: its predictions are saturated (probabilities of exactly 0 or 1) or all "
            "columns are 0, so influences do not exist: give a less extreme head, or none to have one fitted"
        )
    live = np.abs(eigenvalues) > NULL_SPACE * largest
    lowest = float(eigenvalues[live].min())
    if not live.all():
        notes.append(
            f"{int((~live).sum())} of {len(live)} directions of the head have no curvature (dead units, constant or "
            "dependent columns, or the softmax's free constant); they carry no gradient and are left out."
        )
    if damping != "auto":
        given = given_damping(damping)
        if lowest < 0:
            rest = " It still has some with this damping." if given <= -lowest else ""
            notes.append(f"{_not_a_minimum(lowest)}{rest}")
        return Damping(given, given, -math.inf, "given", notes)
    of_risks = of_risks[of_risks > NULL_SPACE * steepest]
    noise = noise_level(of_risks, rows)
    small = int(np.count_nonzero(of_risks < noise))
    base, reason = 0.0, "0: no direction is flatter than sampling noise"
    if small:
        base = noise
        reason = f"sampling noise of the Hessian, {noise / steepest:.2%} of the largest curvature of the risk"
        notes.append(
            f"Damping {base:.3g} ({reason}) was added to the Hessian: {small} of its directions are flatter than that, "
            "and dividing by them amplifies noise."
        )
    floor = min(noise, float(of_risks.min()))
    added = max(base, floor - lowest)
    if added > base:
        reason = "what is missing to the curvature of the risks, or to sampling noise"
        ahead = _not_a_minimum(lowest) if lowest < 0 else "The penalty takes curvature away."
        notes.append(f"{ahead} Damping {added:.3g} gives it back.")
    return Damping(added, base, floor, reason, notes)


def _not_a_minimum(lowest: float) -> str:
    return (
        f"The objective has negative curvature at this head (down to {lowest:.3g}): it is not at a minimum, and "
        "influences say less there. Train further, or check penalty and penalty_weight."
    )


class NegativeCurvatureError(InputError):
    """A direction was met along which the matrix bends down: it is not positive definite."""

    def __init__(self, curvature: float) -> None:
        super().__init__(
            f"the Hessian has negative curvature ({curvature:.3g}) even with damping: give a larger damping"
        )
        self.curvature = curvature


def conjugate_gradients(
    times: Callable[[Floats], Floats],
    targets: Floats,
    precondition: Callable[[Floats], Floats],
    tolerance: float,
    max_steps: int = MAX_STEPS,
) -> tuple[Floats, float, int]:
    """Solve M x = b for a stack of right-hand sides (r, ...): solutions, largest relative residual, steps taken.

    ``times`` and ``precondition`` act on such a stack. What the preconditioner maps to 0 is left out of the solution
    and of the residual, so singular matrices do no harm.

    >>> matrix, target = np.diag([1.0, 2.0, 0.0]), np.array([[3.0, 4.0, 0.0]])
    >>> conjugate_gradients(lambda v: v @ matrix, target, lambda v: v * [1, 1, 0], 1e-12)[0].tolist()
    [[3.0, 2.0, 0.0]]
    """
    flat = (len(targets), -1)

    def dot(a: Floats, b: Floats) -> Floats:
        return np.asarray(np.einsum("ri,ri->r", a.reshape(flat), b.reshape(flat)))

    def along(factor: Floats, vectors: Floats) -> Floats:
        return np.asarray(factor.reshape(-1, *[1] * (vectors.ndim - 1)) * vectors)

    solution, residual = np.zeros_like(targets), targets.copy()
    better = precondition(residual)
    direction, product = better, dot(residual, better)
    start = np.where(product > 0, product, 1.0)
    steps = 0
    while steps < max_steps:
        active = product > tolerance**2 * start
        if not active.any():
            break
        image = times(direction)
        curvature = dot(direction, image)
        if np.any(active & (curvature <= 0)):
            lengths = dot(direction, direction)
            raise NegativeCurvatureError(float((curvature[active] / lengths[active]).min()))
        length = np.where(active, product / np.where(curvature > 0, curvature, 1.0), 0.0)
        solution = solution + along(length, direction)
        residual = residual - along(length, image)
        better = precondition(residual)
        before, product = product, dot(residual, better)
        direction = better + along(np.where(active, product / np.where(before > 0, before, 1.0), 0.0), direction)
        steps += 1
    return solution, float(np.sqrt(np.maximum(product, 0.0) / start).max()), steps
