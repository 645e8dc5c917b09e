"""What every solver of the influence index is given and hands back, and the one that has the whole Hessian at hand: one
eigen-decomposition, then everything is a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.inverse import (
    NULL_SPACE,
    Curvatures,
    Damping,
    balanced,
    choose_damping,
    takes_curvature_away,
)
from invariscope.criteria.influence.penalties import NONE, Penalised, groups_of, penalised_hessian
from invariscope.criteria.influence.row_derivatives import RowDerivatives, group_means, row_covariance
from invariscope.criteria.influence.shares import by_row, rows_that_count
from invariscope.criteria.influence.shuffles import PenalisedShuffles, exact_shuffles, gaussian_shuffles
from invariscope.errors import InputError
from invariscope.heads.linear_algebra import spectrum
from invariscope.results import IndexWithoutPenalty, InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import pvalue

FIXED, RECOMPUTED = "fixed_hessian", "recomputed"
RESOLVED = 1e-11  # of the largest eigenvalue: what a decomposition finds to four digits at least
LARGEST_DENSE = 5000  # parameters: a Hessian of 200 MB, half a minute to decompose


@dataclass(frozen=True)
class Options:
    """Damping of the Hessian as the user gave it, how many shuffles, whether rows are really dealt, and the lots; and
    whether every deal has a Hessian of its own."""

    damping: float | str
    shuffles: int
    exact: bool
    rng: np.random.Generator
    shuffles_through: str = FIXED

    @property
    def recomputed(self) -> bool:
        return self.shuffles_through == RECOMPUTED


@dataclass(frozen=True)
class OfRisks:
    """Influences through the Hessian of the risks alone, the penalty left out, and V of deals through the same."""

    influences: Floats
    null: Floats
    damping: float

    @property
    def value(self) -> float:
        return index_of(self.influences)[0]


@dataclass(frozen=True)
class Solution:
    """What a solver hands back; parameters in the order of the flat vector. ``of_risks`` is there under a penalty."""

    influences: Floats
    null: Floats
    eigenvalues: Floats
    rank: int
    damping: Damping
    solver: str = "dense"
    of_risks: OfRisks | None = None

    @property
    def notes(self) -> list[str]:
        return self.damping.notes

    def without_shuffles(self, why: str, pull: float = 1.0) -> Solution:
        """The same without a null distribution, for a reason; where nothing really pulls, ``pull`` is 0."""
        self.notes.append(why)
        plain, none = self.of_risks, np.empty(0)
        if plain is not None:
            plain = replace(plain, influences=pull * plain.influences, null=none)
        return replace(self, influences=pull * self.influences, null=none, of_risks=plain)


@dataclass(frozen=True)
class Trained:
    """What the head was trained with: a penalty and its weight, and the environments' shares (m,) of the risk; and
    which Hessian deals have."""

    penalty: str | None
    weight: float
    shares: Floats
    shuffles: str


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
    trained: Trained,
) -> InfluenceResult:
    """Influences and shuffles as a result; ``order`` picks the flat parameters in the order of their names."""
    value, direction = index_of(solution.influences)
    plain = solution.of_risks
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
        penalty=trained.penalty,
        penalty_weight=trained.weight,
        without_penalty=None
        if plain is None
        else IndexWithoutPenalty(plain.value, plain.null, pvalue(plain.value, plain.null), plain.damping),
        shares=trained.shares,
        shuffles=trained.shuffles,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class Known:
    """Sums over rows that were computed already: mean gradients (E, P), the Hessian (P, P) of the mean loss, a function
    for the covariance (P, P) of one row's gradient, and how many rows the Hessian is as noisy as the mean of.
    ``blocks`` > 1: H is that many equal blocks."""

    gradient: Floats
    hessian: Floats
    covariance: Callable[[], Floats]
    rows: float
    blocks: int = 1


def known_of(rows: RowDerivatives, theta: Floats, data: Environments, shares: Floats, blocks: int = 1) -> Known:
    """The sums of any top model, by passes over its rows."""
    hessian = rows.hessians(theta, by_row(data, rows.weight, shares)[None])[0]
    gradient = group_means(rows, theta, data.codes, len(data)).gradient
    counted = rows_that_count(data, shares)
    return Known(gradient, hessian, lambda: row_covariance(rows, theta, slopes=False)[1], counted, blocks)


def dense(rows: RowDerivatives, theta: Floats, data: Environments, known: Known, options: Options) -> Solution:
    """Influences on the minimiser of the risks, without a penalty."""
    return _through(eigen(known.hessian, known.blocks), rows, theta, data, known, options)


def refuse_recomputed(options: Options, solver: str) -> None:
    """Solvers that hold no whole Hessian have one for all deals."""
    if options.recomputed and solver in ("kronecker", "cg"):
        raise InputError(
            f'shuffles="recomputed" has a Hessian for every deal, and solver "{solver}" holds none: leave '
            'shuffles out, or take fewer parameters and solver="dense" (of torch modules "autograd")'
        )


def by_penalty(
    rows: RowDerivatives,
    theta: Floats,
    data: Environments,
    known: Known | None,
    penalty: Penalised | None,
    shares: Floats,
    options: Options,
) -> Solution:
    """With a penalty or without; a deal has another Hessian only under a penalty, or where shares are not those of
    rows: for everything else the fixed one is that of every deal."""
    alike = np.allclose(shares, data.rows / data.rows.sum(), rtol=1e-12, atol=0.0)
    if penalty is None and options.recomputed and not alike:
        penalty = Penalised(NONE, 0.0, shares)
    if penalty is not None:
        return dense_penalised(rows, theta, data, penalty, options)
    assert known is not None
    return dense(rows, theta, data, known, options)


def _through(
    spectrum_of: tuple[Curvatures, Floats],
    rows: RowDerivatives,
    theta: Floats,
    data: Environments,
    known: Known,
    options: Options,
) -> Solution:
    """Influences and shuffles through a Hessian that is decomposed already, the same for every deal."""
    curvatures, vectors = spectrum_of
    chosen = choose_damping(options.damping, curvatures, curvatures, known.rows)
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
    rows: RowDerivatives, theta: Floats, data: Environments, penalty: Penalised, options: Options
) -> Solution:
    """Influences on the minimiser of the risks plus a penalty; and, beside them, through the Hessian of the risks."""
    codes, sizes = groups_of(data, penalty, rows.weight)
    hessian, means = penalised_hessian(rows, theta, penalty, codes, sizes)
    gradient, counted = penalty.by_environment(means, sizes)[1], rows_that_count(data, penalty.shares)
    risks = rows.hessians(theta, by_row(data, rows.weight, penalty.shares)[None])[0]
    of_risks = eigen(risks)
    _refuse_overbearing(hessian, float(of_risks[0].values.max()))
    curvatures, vectors = eigen(hessian)
    bent = () if options.damping != "auto" else takes_curvature_away(curvatures, of_risks[0], counted)
    if bent:
        penalty = replace(penalty, residual_curvature=False)
        hessian, _ = penalised_hessian(rows, theta, penalty, codes, sizes)
        curvatures, vectors = eigen(hessian)
    chosen = choose_damping(options.damping, curvatures, of_risks[0], counted)
    chosen.notes.extend(bent)
    eigenvalues, live = curvatures.values, curvatures.live
    basis = vectors[:, live]
    influences = -gradient @ (basis / (eigenvalues[live] + chosen.added)) @ basis.T
    known = Known(gradient, risks, lambda: row_covariance(rows, theta, slopes=False)[1], counted)
    plain = None
    if penalty.name != NONE:
        through = _through(of_risks, rows, theta, data, known, options)
        plain = OfRisks(through.influences, through.null, through.damping.added)
    if options.recomputed and options.shuffles:
        deals = PenalisedShuffles(rows, theta, penalty, codes, sizes, basis, chosen)
        null = deals.draw(options.shuffles, options.exact, options.rng)
    else:
        null = np.empty(0) if plain is None else as_shrunk(plain, influences)
    return Solution(influences, null, eigenvalues, int(live.sum()), chosen, of_risks=plain)


def as_shrunk(plain: OfRisks, influences: Floats) -> Floats:
    """Ṽ = Ṽ of the risks + (V − V of the risks): what the penalty's curvature makes of the environments' spread is
    held as it is for the model, and only the spread itself is that of deals."""
    shrunk = index_of(influences)[0] - plain.value
    return plain.null + shrunk if math.isfinite(shrunk) else plain.null


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
