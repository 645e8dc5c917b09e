"""What every solver of the influence index is given and hands back, and the one that has the whole Hessian at hand: one
eigen-decomposition, then everything is a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.inverse import NULL_SPACE, Curvatures, Damping, balanced, choose_damping
from invariscope.criteria.influence.penalties import Penalty, groups_of, penalised_hessian
from invariscope.criteria.influence.row_derivatives import RowDerivatives, group_means, row_covariance
from invariscope.criteria.influence.shuffles import PenalisedShuffles, exact_shuffles, gaussian_shuffles
from invariscope.errors import InputError
from invariscope.heads.linear_algebra import spectrum
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import pvalue

RESOLVED = 1e-11  # of the largest eigenvalue: what a decomposition finds to four digits at least
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
        notes.append("All environments pull the head exactly alike, down to the last digit: V is minus infinity.")
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
    curvatures, vectors = eigen(known.hessian, known.blocks)
    chosen = choose_damping(options.damping, curvatures, curvatures, float(data.rows.sum()))
    eigenvalues, live = curvatures.values, curvatures.live
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
    of_risks, _ = eigen(rows.hessians(theta, even[None])[0])
    _refuse_overbearing(hessian, float(of_risks.values.max()))
    curvatures, vectors = eigen(hessian)
    chosen = choose_damping(options.damping, curvatures, of_risks, float(data.rows.sum()))
    eigenvalues, live = curvatures.values, curvatures.live
    basis = vectors[:, live]
    influences = -penalty.by_environment(means, sizes)[1] @ (basis / (eigenvalues[live] + chosen.added)) @ basis.T
    deals = PenalisedShuffles(rows, theta, penalty, codes, sizes, basis, chosen)
    null = deals.draw(options.shuffles, options.exact, options.rng) if options.shuffles else np.empty(0)
    return Solution(influences, null, eigenvalues, int(live.sum()), chosen)


def _refuse_overbearing(hessian: Floats, of_risks: float) -> None:
    """Beside a penalty that outweighs them so far, the risks are rounding error, and so are influences on them."""
    steepest = float(np.abs(hessian).max())
    if not steepest * NULL_SPACE < of_risks:
        times = f"{steepest / of_risks:.0e} times" if math.isfinite(steepest) else "beyond all bounds of"
        raise InputError(
            f"the penalty makes the objective {times} the curvature of the risks, which are rounding error beside it: "
            "give a smaller penalty_weight"
        )


def eigen(hessian: Floats, blocks: int = 1) -> tuple[Curvatures, Floats]:
    """Eigenvalues, the smallest first, and eigenvectors; of equal diagonal blocks only one is decomposed."""
    size = len(hessian) // blocks
    part = hessian[:size, :size]
    part = (part + part.T) / 2
    alike = balanced(part)
    values, vectors = _in_any_units(part) if alike[0] >= -NULL_SPACE * alike[-1] else np.linalg.eigh(part)
    if blocks == 1:
        return Curvatures(values, alike), vectors
    order = np.argsort(np.tile(values, blocks), kind="stable")
    return Curvatures(np.tile(values, blocks)[order], np.tile(alike, blocks)), np.kron(np.eye(blocks), vectors)[
        :, order
    ]


def _in_any_units(matrix: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of a matrix that bends nowhere down, small ones to as many digits as large ones.

    The usual way knows them to 1e-16 of the largest: enough unless columns are in very different units. Then H = F Fᵀ
    with F in the units of the columns, whose singular values Jacobi's rotations find one by one.
    """
    values, vectors = np.linalg.eigh(matrix)
    if values[0] > RESOLVED * values[-1]:  # spares another decomposition
        return values, vectors
    alike = spectrum(matrix, NULL_SPACE / len(matrix))
    live = alike.values > 0
    flat = len(values) - np.count_nonzero(live)
    if flat == len(values) or values[flat] > RESOLVED * values[-1]:
        return values, vectors
    from scipy.linalg import lapack  # here: few Hessians are of such columns

    singular, left, _, work, _, failed = lapack.dgejsv(alike.root()[:, live], joba=2, jobu=0, jobv=3)
    if failed:
        return np.maximum(values, 0.0), vectors
    values = np.concatenate([np.zeros(flat), (work[0] / work[1] * singular[::-1]) ** 2])
    return values, np.hstack([np.zeros((len(values), flat)), left[:, ::-1]])
