"""Newton's method for a stack of small problems, with halving: heads of all environments and folds go side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from invariscope.rows.arrays import Floats

MAX_NEWTON_STEPS = 100
NEWTON_TOLERANCE = 1e-13  # of the value: what one more step could still gain
ROUNDING = 1e-12  # of the value: a step that loses less than this is not called a step up

#: parameters (k, P) of k problems → their values (k,), gradients (k, P) and Hessians (k, P, P)
Evaluate = Callable[[Floats], tuple[Floats, Floats, Floats]]
#: Hessians and gradients → H⁻¹ g, (k, P), whatever stands for the inverse where H is singular or bends down
Solve = Callable[[Floats, Floats], Floats]


def newton(
    evaluate: Evaluate,
    solve: Solve,
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
    evaluate(theta)
    return theta, False
