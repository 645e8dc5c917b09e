"""What every solver of the influence index is given and hands back, and the one that has the whole Hessian at hand: one
eigen-decomposition, then everything is a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.inverse import NULL_SPACE, Damping, choose_damping
from invariscope.criteria.influence.penalties import Penalty, groups_of, penalised_hessian
from invariscope.criteria.influence.row_derivatives import RowDerivatives, group_means, row_covariance
from invariscope.criteria.influence.shuffles import PenalisedShuffles, exact_shuffles, gaussian_shuffles
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import pvalue

LARGEST_DENSE = 5000  # parameters: a Hessian of 200 MB, half a minute to decompose


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

    def without_shuffles(self, why: str, pull: float = 1.0) -> Solution:
        """The same without a null distribution, for a reason; where nothing really pulls, ``pull`` is 0."""
        self.notes.append(why)
        return replace(self, influences=pull * self.influences, null=np.empty(0))


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
    notes = [*data.notes, *solution.notes]
    if not np.isfinite(value):
        notes.append("All environments pull the head alike: V is minus infinity.")
    return InfluenceResult(
        value=value,
        null=solution.null,
        pvalue=pvalue(value, solution.null),
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


@dataclass(frozen=True)
class Known:
    """Sums over rows that were computed already: mean gradients (E, P), the Hessian of the pooled mean loss (P, P),
    and a function for the covariance (P, P) of one row's gradient. ``blocks`` > 1: H is that many equal blocks."""

    gradient: Floats
    hessian: Floats
    covariance: Callable[[], Floats]
    blocks: int = 1


def known_of(rows: RowDerivatives, theta: Floats, data: Environments, blocks: int = 1) -> Known:
    """The sums of any top model, by passes over its rows."""
    hessian = rows.hessians(theta, (rows.weight / rows.weight.sum())[None])[0]
    gradient = group_means(rows, theta, data.codes, len(data)).gradient
    return Known(gradient, hessian, lambda: row_covariance(rows, theta, slopes=False)[1], blocks)


def dense(rows: RowDerivatives, theta: Floats, data: Environments, known: Known, options: Options) -> Solution:
    """Influences on the minimiser of the pooled mean loss."""
    eigenvalues, vectors = _eigen(known.hessian, known.blocks)
    chosen = choose_damping(options.damping, eigenvalues, eigenvalues, float(data.rows.sum()))
    live = np.abs(eigenvalues) > NULL_SPACE * np.abs(eigenvalues).max()
    # (H + damping)⁻¹ on the directions with curvature; IF_e = −(H + damping)⁻¹ ∇ℓ_e, eq. 5
    inverse = (vectors[:, live] / (eigenvalues[live] + chosen.added)) @ vectors[:, live].T
    if options.shuffles == 0:
        null = np.empty(0)
    elif options.exact:
        null = exact_shuffles(rows, theta, inverse, data.offsets, options.shuffles, options.rng)
    else:
        null = gaussian_shuffles(inverse @ known.covariance() @ inverse, data.rows, options.shuffles, options.rng)
    return Solution(-known.gradient @ inverse, null, eigenvalues, int(live.sum()), chosen)


def dense_penalised(
    rows: RowDerivatives, theta: Floats, data: Environments, penalty: Penalty, options: Options
) -> Solution:
    """Influences on the minimiser of the mean loss over environments plus a penalty."""
    codes, sizes = groups_of(data, penalty, rows.weight)
    hessian, means = penalised_hessian(rows, theta, penalty, codes, sizes)
    even = rows.weight / (len(data) * data.rows[data.codes])
    of_risks = np.linalg.eigvalsh(rows.hessians(theta, even[None])[0])
    eigenvalues, vectors = _eigen(hessian)
    chosen = choose_damping(options.damping, eigenvalues, of_risks, float(data.rows.sum()))
    live = np.abs(eigenvalues) > NULL_SPACE * np.abs(eigenvalues).max()
    basis = vectors[:, live]
    influences = -penalty.by_environment(means, sizes)[1] @ (basis / (eigenvalues[live] + chosen.added)) @ basis.T
    deals = PenalisedShuffles(rows, theta, penalty, codes, sizes, basis, chosen)
    null = deals.draw(options.shuffles, options.exact, options.rng) if options.shuffles else np.empty(0)
    return Solution(influences, null, eigenvalues, int(live.sum()), chosen)


def _eigen(hessian: Floats, blocks: int = 1) -> tuple[Floats, Floats]:
    """Eigenvalues, the smallest first, and eigenvectors; of equal diagonal blocks only one is decomposed."""
    size = len(hessian) // blocks
    part = hessian[:size, :size]
    values, vectors = np.linalg.eigh((part + part.T) / 2)
    if blocks == 1:
        return values, vectors
    order = np.argsort(np.tile(values, blocks), kind="stable")
    return np.tile(values, blocks)[order], np.kron(np.eye(blocks), vectors)[:, order]
