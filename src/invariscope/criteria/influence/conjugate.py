"""Conjugate gradients for several right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats

MAX_STEPS = 500


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
