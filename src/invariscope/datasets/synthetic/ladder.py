"""A ladder of predictors, from one that uses only invariant columns to one that uses all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from invariscope.datasets.synthetic.population import Population
from invariscope.datasets.synthetic.synthetic import Synthetic
from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import numbers, shown

BETAS = tuple(k / 10 for k in range(11))


@dataclass(frozen=True, eq=False)
class Ladder:
    """Representations φ_β and predictors f_β of one data set, β after β.

    Attributes
    ----------
    data : the rows
    betas : (B,)
    head, intercept : w̃ (d,) and its intercept, the head of all f_β
    predictions : (B, n)
    regret : (B, E) population regret of the linear head on f_β, environments in the order of the data's truth; ``None``
        where the law's moments are not known
    """

    data: Synthetic
    betas: Floats
    head: Floats
    intercept: float
    predictions: Floats
    regret: Floats | None

    def representation(self, beta: float) -> Floats:
        """(n, d): the invariant columns as they are, the others times β."""
        return np.asarray(self.data.X * _factors(self.data, beta))


def ladder(data: Synthetic, betas: Sequence[float] = BETAS) -> Ladder:
    """Predictors that use non-invariant columns more and more: φ_β(x) = (x1, β x2), f_β(x) = w̃ᵀ φ_β(x).

    x1 are the columns ``data.invariant``, x2 the others, and w̃ is the ERM head on (x1, x2), intercept included: that
    of the population where ``data.truth`` has it, else least squares on the (training) rows. f_1 is ERM.

    What moves with β, and what does not. For any β > 0 a head that is fitted again undoes β, so a criterion that fits
    its own linear heads on φ_β and does not mind scale (regret, score test) is the same for all β > 0, and jumps to
    that value from β = 0. Only the predictor with its fixed head moves gradually.

    Even then "the larger β, the less invariant" is a finding and not a law. For the population regret of f_β, mean
    over environments, on the default steps and environments and 200 draws of the hidden weights:

    * ``linear_sem``, ``linear_sem_b6`` and ``bayesian_network`` with their default weights: 0 at β = 0, and growing
      all the way in every setting (in POU and FOU three quarters of it by β = 0.1; in PEU and FEU 2 % by then, and
      some 40 % by β = 0.5).
    * with ``hidden_scale=1.0``: PEU grows all the way in a quarter of the draws only, else it has its peak before
      β = 1 (in half of those at 0.2 to 0.4); B.6 grows all the way in 70 % of them, POU in all. ``bayesian_network``
      with random weights: in half of them.
    * single environments need not grow even where the mean does: the shared head moves towards some of them.
    * with ``law="printed"``: 0 for all β in the F settings, where ERM is the invariant predictor already; POU grows all
      the way in every draw, PEU in 30 % of them.
    * ``nonlinear_sem(square=True)``: grows in the F settings and in about 85 % of draws in the P settings, where f_0
      has a regret of its own, because w̃ weighs x1 and x1² otherwise than E[Y | x1] does.
    * ``nonlinear_sem`` without the square: f_0 is not invariant for linear heads, and the E settings mostly end
      BELOW it; in the F settings w̃ has no weight on x1, so f_β is the same predictor up to scale for all β > 0.

    Reference: appendix B.5 of "Measuring invariance in representation learning: a robust evaluation framework", where
    the criterion is said to grow with β from 0 to 1.

    >>> from invariscope.datasets.synthetic.linear_sem import linear_sem
    >>> steps = ladder(linear_sem("FEU", n=100), betas=(0.0, 0.5, 1.0))
    >>> steps.predictions.shape, steps.representation(0.5).shape
    ((3, 300), (300, 10))
    >>> steps.regret.mean(axis=1).round(3).tolist()
    [0.0, 0.07, 0.189]
    """
    if not isinstance(data, Synthetic):
        raise InputError(f"data is {shown(data)}: give data whose law is known, such as linear_sem()")
    if len(data.invariant) == len(data.columns):
        raise InputError(
            "every column of these data is invariant: a ladder needs some that are not, choose data with such columns"
        )
    if np.ndim(data.y) != 1 or np.asarray(data.y).dtype.kind != "f":
        raise InputError("a ladder needs one number per row as the target: for bayesian_network, pass component=0")
    steps = np.array(numbers(betas, "betas", "a list of finite numbers"))
    population: Population | None = data.truth.get("population")
    if population is not None:
        head, intercept = data.truth["erm"], data.truth["erm_intercept"]
    else:
        rows = data if data.part is None else data.train
        design = np.column_stack([rows.X, np.ones(len(rows))])
        *slopes, intercept = np.linalg.lstsq(design, rows.y, rcond=None)[0].tolist()
        head = np.array(slopes)
    heads = np.stack([head * _factors(data, beta) for beta in steps])
    return Ladder(
        data=data,
        betas=steps,
        head=head,
        intercept=float(intercept),
        predictions=heads @ data.X.T + intercept,
        regret=None if population is None else np.stack([population.mapped(w[:, None]).regrets() for w in heads]),
    )


def _factors(data: Synthetic, beta: float) -> Floats:
    factors = np.full(len(data.columns), float(beta))
    factors[list(data.invariant)] = 1.0
    return factors
