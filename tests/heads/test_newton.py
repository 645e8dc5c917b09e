"""Newton's method for a stack: minima by hand, problems that do not disturb each other, and where it stops."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope.heads.newton import newton
from invariscope.rows.arrays import Floats


def divided(hessian: Floats, gradient: Floats) -> Floats:
    return gradient / np.abs(hessian[:, :, 0])


def roots(theta: Floats) -> tuple[Floats, Floats, Floats]:
    """√(1 + (x − c)²) for c = 0, 5: full steps from |x − c| > 1 overshoot."""
    apart = theta - np.array([[0.0], [5.0]])
    value = np.sqrt(1.0 + apart**2)
    return value[:, 0], apart / value, (1.0 / value**3)[..., None]


def test_steps_that_overshoot_are_halved() -> None:
    found, converged = newton(roots, divided, np.array([[3.0], [4.0]]), floor=0.0)
    assert converged
    np.testing.assert_allclose(found, [[0.0], [5.0]], atol=1e-6)


def test_problems_do_not_disturb_each_other() -> None:
    alone = newton(
        lambda x: tuple(part[:1] for part in roots(np.vstack([x, x]))), divided, np.array([[3.0]]), floor=0.0
    )
    both, _ = newton(roots, divided, np.array([[3.0], [5.0]]), floor=0.0)
    assert abs(float(both[0, 0] - alone[0][0, 0])) < 1e-6
    assert both[1, 0] == 5.0


def test_a_value_below_the_floor_is_left_alone() -> None:
    found, converged = newton(roots, divided, np.array([[0.5], [5.5]]), floor=2.0)
    assert converged
    assert found.tolist() == [[0.5], [5.5]]


@pytest.mark.parametrize("steps", [1, 7])
def test_values_without_a_bound_never_end(steps: int) -> None:
    def falling(theta: Floats) -> tuple[Floats, Floats, Floats]:
        return -theta[:, 0], -np.ones_like(theta), np.ones((1, 1, 1))

    found, converged = newton(falling, divided, np.zeros((1, 1)), floor=-np.inf, max_steps=steps)
    assert not converged
    assert found.item() == steps
