"""What every solver of the influence index is given and hands back, and how that becomes a result."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.criteria.influence.damping import Damping
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import pvalue


@dataclass(frozen=True)
class Options:
    """Damping of the Hessian as the user gave it, how many shuffles, whether rows are really dealt, and the lots."""

    damping: float | str
    shuffles: int
    exact: bool
    rng: np.random.Generator


@dataclass(frozen=True)
class Solution:
    """What a solver hands back; parameters in the order of the flat vector."""

    influences: Floats
    null: Floats
    eigenvalues: Floats
    rank: int
    damping: Damping
    solver: str = "dense"

    @property
    def notes(self) -> list[str]:
        return self.damping.notes


def index_of(influences: Floats) -> tuple[float, Floats]:
    """V = ln of the largest eigenvalue of the covariance (1/m) of m influence vectors, and its eigenvector.

    >>> value, direction = index_of(np.array([[2.0, 0.0], [-2.0, 0.0]]))
    >>> round(value, 4), direction.tolist()
    (1.3863, [1.0, 0.0])
    """
    centred = influences - influences.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    largest = float(singular[0] ** 2) / len(influences)  # ‖Cov_e(IF_e)‖₂, eq. 6
    direction = right[0] * np.sign(right[0, np.argmax(np.abs(right[0]))])
    return (math.log(largest) if largest > 0 else -math.inf), direction


def result_of(
    data: Environments,
    solution: Solution,
    parameters: tuple[str, ...],
    order: Any,
    task: str,
    penalty: str | None,
    penalty_weight: float,
) -> InfluenceResult:
    """Influences and shuffles as a result; ``order`` picks the flat parameters in the order of their names."""
    value, direction = index_of(solution.influences)
    notes = list(solution.notes)
    if not np.isfinite(value):
        notes.append("All environments pull the head alike: V is minus infinity.")
    return InfluenceResult(
        value=value,
        null=solution.null,
        pvalue=_pvalue(value, solution.null),
        labels=data.labels,
        parameters=parameters,
        influences=solution.influences[:, order],
        direction=direction[order],
        eigenvalues=solution.eigenvalues[::-1].copy(),
        damping=solution.damping.added,
        rank=solution.rank,
        loss="squared" if task == "regression" else "log_loss",
        solver=solution.solver,
        damping_reason=solution.damping.reason,
        penalty=penalty,
        penalty_weight=penalty_weight,
        notes=tuple(notes),
    )


def _pvalue(value: float, null: Floats) -> float:
    if not len(null):
        return float("nan")
    return pvalue(value, null) if np.isfinite(value) else 1.0
