"""What least squares does with infinitely many rows: all of it follows from the moments of (X, y) per environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from invariscope.rows.arrays import Floats


@dataclass(frozen=True, eq=False)
class Population:
    """Second moments of (X, 1, y) in every environment, from which every number of a linear head follows.

    A head here is a (d + 1, k) matrix: coefficients of the d columns of X, and the intercept in the last row. Where
    all means are 0 the intercepts are 0 as well, and every number is also that of heads without one.

    Attributes
    ----------
    moments : (E, d + 1 + k, d + 1 + k), E_e[v vᵀ] of v = (X, 1, y)
    shares : (E,) share of the rows that each environment holds; only pooled fits use it
    targets : k, the number of targets

    >>> law = Population.of(np.array([[[1.0, 1.0], [1.0, 2.0]], [[4.0, 8.0], [8.0, 17.0]]]))
    >>> law.own_heads()[:, 0, 0].tolist(), law.risks(law.own_heads()).round(6).tolist()
    ([1.0, 2.0], [1.0, 1.0])
    >>> law.least_squares()[0, 0].round(3), law.regrets().round(3).tolist()  # Σ Cov(x, y) / Σ Var x = 9/5
    (np.float64(1.8), [0.64, 0.16])
    """

    moments: Floats
    shares: Floats
    targets: int = 1

    @classmethod
    def of(
        cls, covariances: Floats, means: Floats | None = None, *, rows: Sequence[int] | None = None, targets: int = 1
    ) -> Self:
        """From covariances (E, d + k, d + k) and means (E, d + k) of (X, y); means 0 and equal rows unless given."""
        count, width = covariances.shape[:2]
        means = np.zeros((count, width)) if means is None else means
        sizes = np.ones(count) if rows is None else np.asarray(rows, dtype=np.float64)
        features = width - targets
        centre = np.insert(means, features, 1.0, axis=1)
        moments = centre[:, :, None] * centre[:, None, :]
        variables = np.delete(np.arange(width + 1), features)
        moments[:, variables[:, None], variables] += covariances
        return cls(moments, sizes / sizes.sum(), targets)

    def mapped(self, weights: Floats) -> Self:
        """The law of (X · weights, y), weights (d, q): of a representation, or of a prediction."""
        rest = np.eye(1 + self.targets)
        gap = np.zeros((len(weights), 1 + self.targets))
        full = np.block([[weights, gap], [np.zeros((len(rest), weights.shape[1])), rest]])
        return replace(self, moments=full.T @ self.moments @ full)

    def selected(self, columns: Sequence[int]) -> Self:
        """The law of (these columns of X, y)."""
        features = self.moments.shape[1] - 1 - self.targets
        return self.mapped(np.eye(features)[:, list(columns)])

    def least_squares(self, weights: Floats | None = None) -> Floats:
        """The head that minimises Σ_e weights_e R_e; pooled rows unless weights are given."""
        pooled = np.tensordot(self.shares if weights is None else weights, self.moments, axes=1)
        return _head(pooled, self.targets)

    def own_heads(self) -> Floats:
        """(E, d + 1, k): the best head of each environment."""
        return np.stack([_head(moments, self.targets) for moments in self.moments])

    def risks(self, head: Floats) -> Floats:
        """(E,): E_e ‖y − headᵀ (x, 1)‖², for one head or one per environment."""
        identity = np.broadcast_to(np.eye(self.targets), (*head.shape[:-2], self.targets, self.targets))
        signed = np.concatenate([-head, identity], axis=-2)
        risks: Floats = np.trace(np.swapaxes(signed, -1, -2) @ self.moments @ signed, axis1=-2, axis2=-1)
        return risks

    def regrets(self) -> Floats:
        """(E,): R_e(w*) / R_e(w_e*) − 1 with w* = argmin Σ_e R_e(w) / R_e(w_e*); 0 iff one linear head serves all."""
        own = self.risks(self.own_heads())
        return self.risks(self.least_squares(1.0 / own)) / own - 1.0

    def influences(self) -> Floats:
        """(E, (d + 1) k): −H⁻¹ ∇ℓ_e at the pooled head, H = 2 E[(x, 1)(x, 1)ᵀ]; the factor 2 cancels."""
        head = self.least_squares()
        size = len(head)
        pooled = np.tensordot(self.shares, self.moments, axes=1)[:size, :size]
        pull = self.moments[:, :size, size:] - self.moments[:, :size, :size] @ head
        return (_inverse(pooled) @ pull).reshape(len(pull), -1)

    def influence_index(self) -> float:
        """V = ln ‖ Cov_e(IF_e) ‖₂ of the pooled head, the covariance with 1/E; −inf where no environment pulls."""
        influences = self.influences()
        largest = np.linalg.norm(influences - influences.mean(axis=0), 2) ** 2 / len(influences)
        # what is left of a difference of 0 after rounding is no pull
        return float(np.log(largest)) if largest > 1e-24 * max(1.0, np.sum(self.least_squares() ** 2)) else -np.inf


def linear_truth(population: Population, invariant: Population, labels: Sequence[Any]) -> dict[str, Any]:
    """The truths that every law with known moments can state, by the names under which data sets carry them.

    ``population`` is the law of (X, y); ``invariant`` that of (columns on which E[y | ·] is linear and shared, y).

    erm, erm_intercept : coefficients (d,) or (d, k) and intercept of least squares on the pooled rows
    erm_risk : environment → risk of that head
    erm_regret : environment → R_e(shared) / R_e(own) − 1 of the linear head on ERM's prediction
    invariant_risk : environment → risk of the invariant head
    V : influence index of ERM on all columns; an intercept changes nothing where all means are 0
    population : the moments themselves, a :class:`Population`
    """

    def by_label(values: Floats) -> Mapping[Any, float]:
        return dict(zip(labels, values.tolist(), strict=True))

    erm = population.least_squares()
    one = population.targets == 1
    return {
        "erm": erm[:-1, 0] if one else erm[:-1],
        "erm_intercept": float(erm[-1, 0]) if one else erm[-1],
        "erm_risk": by_label(population.risks(erm)),
        "erm_regret": by_label(population.mapped(erm[:-1]).regrets()),
        "invariant_risk": by_label(invariant.risks(invariant.least_squares())),
        "V": population.influence_index(),
        "population": population,
    }


def _head(moments: Floats, targets: int) -> Floats:
    return _inverse(moments[:-targets, :-targets]) @ moments[:-targets, -targets:]


def _inverse(matrix: Floats) -> Floats:
    """Inverse in units of the columns' own size; a column that is always 0 gets the coefficient 0."""
    size = np.sqrt(np.diag(matrix))
    units = np.outer(size, size)
    units[units == 0] = 1.0
    inverse: Floats = np.linalg.pinv(matrix / units, hermitian=True) / units
    return inverse
