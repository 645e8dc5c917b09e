"""Plain logistic regression of two environments on their columns, the classifier of the papers' equation 10."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from invariscope.heads.linear_algebra import newton, solved
from invariscope.heads.losses import LogisticLoss
from invariscope.ratios.estimator import GroupedRows, JointFit
from invariscope.ratios.pairs import PairwiseFit, fit_pairs
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread, run_over_rows

RIDGE = 1.0  # times ½ |w|² against the summed log-loss: the penalty of scikit-learn's default, C = 1
TOLERANCE = 1e-26  # of the loss: ratios are then right to ten digits
LARGEST_PENALTY = 1e60


@dataclass(frozen=True)
class PlainLogisticFit(JointFit):
    """log p̂ / (1 − p̂) = wᵀx + b of the second of two environments against the first."""

    weight: Floats
    bias: float
    totals: Floats = field(repr=False)
    description: str = "logistic regression of two environments on the columns"
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    def log_densities(self, X: Floats) -> Floats:
        # ρ̂ = n_e' p̂ / (n_e (1 − p̂))   (eq. 10)
        return np.column_stack([np.zeros(len(X)), X @ self.weight + self.bias]) - np.log(self.totals)

    def again(self, rows: GroupedRows) -> PlainLogisticFit:
        return fit_plain_logistic(rows)


@one_blas_thread()
def fit_plain_logistic(rows: GroupedRows) -> PlainLogisticFit:
    """min over w, b of  Σ_i w_i log(1 + exp(−s_i (wᵀx_i + b))) + ½ |w|²,  s = 1 for the second environment, −1 else.

    The intercept is not penalised. Solved by Newton's method in columns centred and in units of their spread, which
    moves the solution by rounding errors alone: the penalty is that of the columns as they are.
    """
    loss, y = LogisticLoss(), rows.codes.astype(np.float64)
    centre = np.average(rows.X, axis=0, weights=rows.weight)
    scale = np.sqrt(np.average((rows.X - centre) ** 2, axis=0, weights=rows.weight))
    scale[scale <= 0.0] = 1.0
    penalty = np.append(np.minimum(RIDGE / scale**2, LARGEST_PENALTY), 0.0)
    design = np.column_stack([(rows.X - centre) / scale, np.ones(len(rows.X))])

    def evaluate(theta: Floats) -> tuple[Floats, Floats, Floats]:
        def part(run: slice) -> tuple[float, Floats, Floats]:
            weight = None if rows.weight is None else rows.weight[run]
            scores = design[run] @ theta.T
            counts = np.ones(len(scores)) if weight is None else weight
            residual = loss.residual(scores, y[run])[:, 0] * counts
            gram = loss.gram(design[run], scores, weight)
            return float(counts @ loss.value(scores, y[run])), residual @ design[run], gram

        values, gradients, grams = zip(*run_over_rows(part, len(design)), strict=True)
        value = sum(values) + 0.5 * penalty @ theta[0] ** 2
        return (
            np.array([value]),
            np.sum(gradients, axis=0)[None] + penalty * theta,
            (sum(grams) + np.diag(penalty))[None],
        )

    start = np.zeros((1, design.shape[1]))
    start[0, -1] = np.log(rows.totals[1] / rows.totals[0])
    theta = newton(evaluate, solved, start, floor=0.0, tolerance=TOLERANCE)[0][0]
    weight = theta[:-1] / scale
    return PlainLogisticFit(weight, float(theta[-1] - weight @ centre), rows.totals)


def logistic_pairs(rows: GroupedRows, rng: np.random.Generator) -> PairwiseFit:
    """Plain logistic regression for every pair."""
    return fit_pairs(rows, fit_plain_logistic, "plain logistic regression on the columns for every pair, ridge 1")
