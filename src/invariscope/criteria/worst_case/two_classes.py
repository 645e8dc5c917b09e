"""The worst point of one row under cross-entropy with two classes: one equation in one unknown, solved for all rows."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from invariscope.rows.arrays import Floats

STEPS = 60  # Newton gains digits twice as fast at every step, except where two roots are about to meet
ROUNDING = 4e-16  # relative, of the two terms of φ


def two_class_points(above: Floats, length: float, gamma: float) -> tuple[Floats, Floats, Floats]:
    """(loss, moved, ceiling), each (n,): the highest point of log(1 + e^t) − γ‖z − z_i‖² for every row.

    ``above`` (n,) is u = s_other − s_y, ``length`` q = ‖w_other − w_y‖². With t the difference at the worst point and
    κ = q/(2γ):   t = u + κσ(t),   ‖z* − z‖² = qσ(t)²/(4γ²).
    h(t) = t − κσ(t) rises everywhere for κ ≤ 4; else it falls between ∓t₀, cosh t₀ = κ/2 − 1, and only roots outside
    are maxima. h is concave left of 0 and convex right of it, so Newton from u rises to the left root, and from u + κ
    falls to the right one, without a safeguard. The higher of the two is the maximum.

    >>> loss, moved, ceiling = two_class_points(np.zeros(1), 4.0, 1.4621171572600098)  # t = 1: moved by 1/2
    >>> np.round([loss[0], moved[0]], 6).tolist()
    [1.313262, 0.25]
    """
    kappa = length / (2.0 * gamma)
    turn = np.arccosh(kappa / 2.0 - 1.0) if kappa > 4.0 else 0.0
    candidates = []
    for side in (-1.0, 1.0):
        limit = side * turn - kappa * expit(side * turn)
        exists = side * above >= side * limit
        t = above if side < 0 else above + kappa
        t = np.where(exists, t, 0.0)
        goal = np.where(exists, above, -kappa / 2.0)
        for _ in range(STEPS):
            p = expit(t)
            slope = np.maximum(1.0 - kappa * p * (1.0 - p), 1e-12)
            step = np.where(exists, (goal - t + kappa * p) / slope, 0.0)
            # never past the turn, where the slope is 0 and rounding could throw it across
            t = np.minimum(t + step, -turn) if side < 0 else np.maximum(t + step, turn)
            if np.all(np.abs(step) <= 1e-13 * (1.0 + np.abs(t))):
                break
        p = expit(t)
        loss, moved = np.logaddexp(0.0, t), length * (p / (2.0 * gamma)) ** 2
        candidates.append((np.where(exists, loss - gamma * moved, -np.inf), loss, moved))
    (left, *_), (right, *_) = candidates
    loss, moved = (np.where(left >= right, candidates[0][j], candidates[1][j]) for j in (1, 2))
    return loss, moved, loss - gamma * moved + ROUNDING * (loss + gamma * moved)
