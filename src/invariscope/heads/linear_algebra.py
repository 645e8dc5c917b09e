"""Stacks of small problems: symmetric matrices that may be singular, largest eigenvalues, Newton's method.

Heads of all environments and folds go side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Booleans, Floats, Integers

RELATIVE_CUTOFF = 1e-13  # of the largest eigenvalue, after scaling to unit diagonal: below lies rounding error
WIDE = 200  # parameters from which a Cholesky factor is worth a look: it takes a twentieth of a decomposition's time
MAX_NEWTON_STEPS = 100
MAX_PRODUCTS = 500  # of conjugate gradients
NEWTON_TOLERANCE = 1e-13  # of the value: what one more step could still gain
ROUNDING = 1e-12  # of the value: a step that loses less than this is not called a step up

#: Hessians (k, P, P), or whatever is known of them
Hessians = TypeVar("Hessians")
#: parameters (k, P) of k problems → their values (k,), gradients (k, P) and Hessians
Evaluate: TypeAlias = Callable[[Floats], tuple[Floats, Floats, Hessians]]
#: Hessians and gradients → H⁻¹ g, (k, P), whatever stands for the inverse where H is singular or bends down
Solve: TypeAlias = Callable[[Hessians, Floats], Floats]


@dataclass(frozen=True)
class Spectrum:
    """``matrix ≈ D V diag(values) Vᵀ D`` with D = ``scale``, so that columns in other units are equals.

    ``values`` below the cutoff are zero: constant, duplicated or dependent columns. All fields may be stacks.
    """

    scale: Floats
    values: Floats
    vectors: Floats

    @property
    def rank(self) -> Integers:
        """Directions that are left: how many values are not zero."""
        return np.asarray(np.count_nonzero(self.values, axis=-1))

    def inverse_root(self) -> Floats:
        """F with F Fᵀ = inverse (pseudo-inverse of the scaled matrix, mapped back)."""
        root = np.zeros_like(self.values)
        np.divide(1.0, np.sqrt(self.values), out=root, where=self.values > 0)
        inverse_scale = np.where(self.scale > 0, 1.0 / np.where(self.scale > 0, self.scale, 1.0), 0.0)
        return np.asarray(inverse_scale[..., :, None] * self.vectors * root[..., None, :])

    def root(self) -> Floats:
        """F with F Fᵀ = matrix."""
        return np.asarray(self.scale[..., :, None] * self.vectors * np.sqrt(self.values)[..., None, :])

    def inverse(self) -> Floats:
        """Pseudo-inverse."""
        factor = self.inverse_root()
        return np.asarray(factor @ np.swapaxes(factor, -1, -2))


def spectrum(matrix: Floats, cutoff: float = RELATIVE_CUTOFF) -> Spectrum:
    """Eigen-decompose a symmetric positive semi-definite matrix (or a stack), scaled to unit diagonal first."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix, axis1=-2, axis2=-1), 0.0))
    safe = np.where(scale > 0, scale, 1.0)
    scaled = matrix / safe[..., :, None] / safe[..., None, :]
    values, vectors = np.linalg.eigh((scaled + np.swapaxes(scaled, -1, -2)) / 2)
    # the sign of an eigenvector is arbitrary: fix it, or rounding (another unit, say) would deal other random draws
    against = np.einsum("p,...pr->...r", 1.0 / np.arange(1, matrix.shape[-1] + 1), vectors)
    vectors = vectors * np.where(against < 0, -1.0, 1.0)[..., None, :]
    floor = cutoff * matrix.shape[-1] * np.maximum(values[..., -1:], 0.0)
    return Spectrum(scale, np.where(values > floor, values, 0.0), vectors)


def solved(matrix: Floats, vector: Floats) -> Floats:
    """Pseudo-inverse times vector, of one problem or a stack; wide ones by Cholesky factors where nothing is singular.

    >>> solved(np.diag([2.0, 4.0, 0.0]), np.array([1.0, 1.0, 0.0])).round(9).tolist()
    [0.5, 0.25, 0.0]
    """
    if matrix.shape[-1] < WIDE:
        return np.asarray(np.einsum("...pq,...q->...p", spectrum(matrix).inverse(), vector))
    out = np.empty_like(vector)
    for place in np.ndindex(vector.shape[:-1]):
        quick = cholesky(matrix[place])
        out[place] = spectrum(matrix[place]).inverse() @ vector[place] if quick is None else quick.solve(vector[place])
    return out


@dataclass(frozen=True)
class Cholesky:
    """``matrix = D UᵀU D`` with D = ``scale``, on the columns that are ``live``; the others are zeros."""

    scale: Floats
    live: Booleans
    upper: Floats

    def solve(self, vector: Floats) -> Floats:
        """Pseudo-inverse times vector."""
        from scipy.linalg import lapack  # here: few problems are wide

        out = np.zeros_like(vector)
        out[self.live] = lapack.dpotrs(self.upper, vector[self.live] / self.scale)[0] / self.scale
        return out

    def inverse(self) -> Floats:
        """Pseudo-inverse."""
        from scipy.linalg import lapack

        half = lapack.dpotri(self.upper)[0] / self.scale[:, None] / self.scale  # its upper triangle
        lower = np.tril_indices(len(half), -1)
        half[lower] = half.T[lower]
        out = np.zeros((len(self.live), len(self.live)))
        out[np.ix_(self.live, self.live)] = half
        return out


def cholesky(matrix: Floats) -> Cholesky | None:
    """The factor where :func:`spectrum` would leave out no direction but columns of zeros; else ``None``."""
    from scipy.linalg import lapack

    scale = np.sqrt(np.maximum(np.diagonal(matrix), 0.0))
    live = scale > 0
    scale = scale[live]
    scaled = matrix[np.ix_(live, live)] / scale[:, None] / scale
    factor, failed = lapack.dpotrf(scaled, clean=False)
    if failed or lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max())[0] < 10 * RELATIVE_CUTOFF * len(matrix):
        return None
    return Cholesky(scale, live, factor)


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
    max_steps: int = MAX_PRODUCTS,
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


def largest_eigenvalue(times: Callable[[Floats], Floats], start: Floats, steps: int) -> float:
    """|λ|max of a symmetric matrix known by its products with vectors, by power iteration: v ← M v / ‖M v‖.

    >>> round(largest_eigenvalue(lambda v: v @ np.diag([1.0, 3.0]), np.ones((1, 2)), 30), 6)
    3.0
    """
    vector, value = start, 0.0
    for _ in range(steps):
        image = times(vector / np.linalg.norm(vector))
        value, vector = float(np.linalg.norm(image)), image
    return value


def newton(
    evaluate: Evaluate[Hessians],
    solve: Solve[Hessians],
    theta: Floats,
    *,
    floor: Floats | float,
    tolerance: float = NEWTON_TOLERANCE,
    max_steps: int = MAX_NEWTON_STEPS,
) -> tuple[Floats, bool]:
    """Parameters (k, P) that minimise k values, and whether they got there; the last point evaluated is the one given.

    θ ← θ − length · H⁻¹ g, halved until the value does not rise. A problem is done when ½ gᵀ H⁻¹ g, what a step could
    gain, is below ``tolerance`` times its value, or its value is below ``floor``: 0 or more where values are losses,
    −∞ where nothing bounds them.

    >>> bowl = lambda x: ((x[:, 0] - 3.0) ** 2 + 1.0, 2.0 * (x - 3.0), np.full((len(x), 1, 1), 2.0))
    >>> newton(bowl, lambda h, g: g / h[:, 0], np.zeros((1, 1)), floor=0.0)
    (array([[3.]]), True)
    """
    least = np.minimum(floor, 0.0)
    previous, allowed = theta, np.full(len(theta), np.inf)
    for _ in range(max_steps):
        value, gradient, hessian = evaluate(theta)
        worse = ~(value <= allowed)
        if worse.any():
            theta = theta + worse[:, None] * (previous - theta) / 2
            continue
        step = solve(hessian, gradient)
        gain = 0.5 * np.einsum("kp,kp->k", step, gradient)  # ½ gᵀ H⁻¹ g
        active = (gain > tolerance * np.abs(value)) & (value > floor)
        if not active.any():
            return theta, True
        # nothing gains more than the whole loss: a step that promises to comes from a flat place far off and overshoots
        length = active * np.minimum(1.0, (value - least) / np.where(active, gain, 1.0))
        previous, allowed = theta, value + ROUNDING * np.abs(value)
        theta = theta - length[:, None] * step
    value = evaluate(theta)[0]
    overshot = ~(value <= allowed)  # out of steps in the midst of halving one: back to where it started
    if overshot.any():
        theta = np.where(overshot[:, None], previous, theta)
        evaluate(theta)
    return theta, False
