"""Frozen results: a value, its uncertainty, its whole null distribution, its parts by environment, and notes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from invariscope.errors import InputError
from invariscope.wording import names

if TYPE_CHECKING:
    import pandas as pd

Label = Hashable
#: Of this package, which every result depends on.
VERSION = "0.1.0"


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval (``(nan, nan)`` where none can be given)."""

    value: float
    interval: tuple[float, float] = (math.nan, math.nan)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What every criterion returns: one headline number, and remarks on how far it can be trusted."""

    value: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain Python data, ready for JSON: arrays become lists, numbers that do not exist become ``None``."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class RegretResult(Result):
    """Shared-head regret; see :func:`invariscope.regret`.

    The intervals of ``per_environment`` are those that a verdict rests on. Their lower ends allow for having looked at
    all environments: that any of them is above its true regret has a chance of 2.5 % at most. Each upper end is below
    its own with a chance of 2.5 %. So each interval holds its regret in 95 to 97.5 % of cases, and ``worst_interval``,
    from the largest lower to the largest upper end, whosever they are, the largest regret in 95 %.
    """

    interval: tuple[float, float]
    pvalue: float
    per_environment: Mapping[Label, Estimate]
    worst: Label
    worst_interval: tuple[float, float]
    explained: float
    explained_own: float
    task: str
    labels: tuple[Label, ...]
    columns: tuple[str, ...]
    rows: NDArray[np.float64]
    shared_loss: NDArray[np.float64]
    own_loss: NDArray[np.float64]
    pairs: NDArray[np.float64] = field(repr=False)
    drivers: NDArray[np.float64] = field(repr=False)
    statistic: float
    null: NDArray[np.float64] = field(repr=False)

    @property
    def known(self) -> dict[Label, Estimate]:
        """Environments whose regret could be computed, the largest first."""
        known = [(label, one) for label, one in self.per_environment.items() if not math.isnan(one.value)]
        return dict(sorted(known, key=lambda item: -item[1].value))


@dataclass(frozen=True)
class IndexWithoutPenalty:
    """V of a model that was trained with a penalty, through the Hessian of its risks alone, and its shuffles."""

    value: float
    null: NDArray[np.float64] = field(repr=False)
    pvalue: float
    damping: float


@dataclass(frozen=True, kw_only=True)
class InfluenceResult(Result):
    """Influence index; see :func:`invariscope.influence_index`.

    ``influences`` (E, P) holds one vector per environment of ``labels``, in the order of ``parameters``; ``direction``
    is the unit vector along which they differ most. ``eigenvalues`` are those of the Hessian, the largest first (of the
    leading ones only, where it is too large to hold), ``rank`` how many count; ``damping`` was added to them, for the
    reason in ``damping_reason``. ``solver`` says how: "dense" or "autograd", "kronecker", "cg". ``shares`` (E,) are
    what the environments count in the Hessian, ``shuffles`` says whether deals have that one ("fixed_hessian") or each
    its own ("recomputed"). Under a penalty ``value`` has it in the Hessian; ``without_penalty`` is V without it.
    """

    null: NDArray[np.float64] = field(repr=False)
    pvalue: float
    labels: tuple[Label, ...]
    parameters: tuple[str, ...]
    influences: NDArray[np.float64] = field(repr=False)
    direction: NDArray[np.float64] = field(repr=False)
    eigenvalues: NDArray[np.float64] = field(repr=False)
    damping: float
    rank: int
    loss: str
    solver: str = "dense"
    damping_reason: str = ""
    penalty: str | None = None
    penalty_weight: float = 0.0
    without_penalty: IndexWithoutPenalty | None = None
    shares: NDArray[np.float64] = field(default_factory=lambda: np.empty(0), repr=False)
    shuffles: str = "fixed_hessian"

    def loadings(self, count: int | None = None) -> dict[str, float]:
        """What makes the environments disagree: loadings on the leading direction by parameter, the largest first."""
        order = np.argsort(-np.abs(self.direction), kind="stable")[:count]
        return {self.parameters[j]: float(self.direction[j]) for j in order}

    def influence_of(self, label: Label) -> dict[str, float]:
        """Where more weight on one environment would move the head: parameter by parameter."""
        if label not in self.labels:
            raise InputError(f'no environment "{label}": there are {", ".join(map(str, self.labels))}')
        moves = self.influences[self.labels.index(label)]
        return dict(zip(self.parameters, moves.tolist(), strict=True))


@dataclass(frozen=True, kw_only=True)
class InformationBound:
    """Cov²(Y, E) / R_Υ of Theorem 3.5 (DRIC); **not** a bound that holds, see notes and docs/what_dric_measures.md.

    Attributes
    ----------
    value : Cov²(Y, E) / R_Υ
    covariance_squared : Cov²(Y, E), rows pooled; summed over classes where the target is one
    model_variance : R_φ = Var( f(x) − E[Y | E] ) with f the model's predictions
    baseline_variance : R_Υ = Var( b(x) − E[Y | E] ) with b those of the baseline
    variance_form : R_φ / R_Υ, the right-hand side of eq. 5, which the bound is about
    holds : is R_φ at least Cov²(Y, E) on these rows?
    coding : the numbers that stand for the environments
    assumptions : what the theorem asks for
    """

    value: float
    covariance_squared: float
    model_variance: float
    baseline_variance: float
    variance_form: float
    holds: bool
    coding: dict[Label, float]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DricResult(Result):
    """Density-ratio criterion as published; see :func:`invariscope.dric`.

    ``value`` is Q̂ = ``numerator`` / ``denominator``; papers also print ``log10``, −``log10``, or ``numerator`` alone.
    Arrays [a, b] are about (e = ``labels[a]``, e' = ``labels[b]``), with a last axis for classes: ``pairs`` q̂(e, e'),
    ``sigma2`` the variance of f ρ̂ over the rows of e'; ``rows`` per environment; ``overlap`` for the ratio that the
    model's terms use, described by ``ratio``. ``interval`` and ``numerator_interval`` hold the middle 95 % of bootstrap
    samples. ``null`` and ``null_numerator`` are the values with rows dealt to environments at random, and
    ``pvalue`` is the numerator's place among the latter. ``bound`` is Theorem 3.5's number, where a target was given.
    """

    log10: float
    numerator: float
    denominator: float
    labels: tuple[Label, ...]
    pairs: NDArray[np.float64]
    overlap: Overlap
    interval: tuple[float, float] = (math.nan, math.nan)
    numerator_interval: tuple[float, float] = (math.nan, math.nan)
    null: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    null_numerator: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    pvalue: float = math.nan
    sigma2: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    rows: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    ratio: str = ""
    bound: InformationBound | None = None

    def table(self) -> pd.DataFrame:
        """One line per pair (Table 1 of the CRIC paper, pair by pair).

        Columns: ``environment`` e, ``from_rows_of`` e', ``class`` where there are several, ``q`` = q̂(e, e'), ``gap`` =
        q̂(e, e') − q̂(e, e), ``standard_error`` of q̂ for a ratio that is known, ``rows`` of e', ``effective_rows`` that
        are left of them after weighting, and ``overlap`` in a word.
        """
        import pandas as pd

        q, sigma2 = (values[..., None] if values.ndim == 2 else values for values in (self.pairs, self.sigma2))
        count = len(self.labels)
        return pd.DataFrame(
            [
                {
                    "environment": self.labels[a],
                    "from_rows_of": self.labels[b],
                    **({"class": k} if q.shape[2] > 1 else {}),
                    "q": q[a, b, k],
                    "gap": q[a, b, k] - q[a, a, k],
                    "standard_error": math.sqrt(sigma2[a, b, k] / self.rows[b]),
                    "rows": self.rows[b],
                    "effective_rows": self.overlap.effective_rows[a, b],
                    "overlap": self.overlap.pair_verdicts[a][b],
                }
                for a in range(count)
                for b in range(count)
                for k in range(q.shape[2])
            ]
        )

    def rows_needed(self, epsilon: float, alpha: float = 0.05) -> NDArray[np.float64]:
        """Rows of e' for q̂(e, e') to lie within ±ε of its mean with probability 1 − α: (E, E).

        n ≥ 2 σ²(e, e') log(2 / α) / ε², from P(|q̂ − E q̂| ≥ ε) ≤ 2 exp(−n ε² / (2σ²)). Section 3.2 leaves the constant
        open: 2 (and the 2 in the logarithm, for both sides) is that of terms with tails no heavier than a normal's.
        For α = 0.05 it asks for 1.9 times the rows of a normal approximation. The largest over classes is given.

        It counts the sampling noise of a mean whose ratio is known. The error of the estimated ratio comes on top and
        need not shrink with rows at all; and where overlap is weak, the measured σ² itself misses the rare heavy rows.
        """
        if not (epsilon > 0 and 0 < alpha < 1):
            raise InputError(f"epsilon is {epsilon!r} and alpha {alpha!r}: give epsilon above 0, alpha between 0 and 1")
        sigma2 = self.sigma2 if self.sigma2.ndim == 2 else self.sigma2.max(axis=2)
        return np.asarray(np.ceil(2.0 * sigma2 * math.log(2.0 / alpha) / epsilon**2))

    def sample_size(self, epsilon: float, alpha: float = 0.05) -> str:
        """:meth:`rows_needed` in words, one sentence for each environment and its most demanding pair."""
        needed = self.rows_needed(epsilon, alpha)
        sentences = []
        for b, label in enumerate(self.labels):
            a = int(np.argmax(needed[:, b]))
            sentences.append(
                f"You have {self.rows[b]:,.0f} rows in {label}; for q({self.labels[a]}, {label}) within ±{epsilon:g} "
                f"in {100 * (1 - alpha):g} % of samples you need about {needed[a, b]:,.0f}."
            )
        return " ".join(sentences) + " This counts sampling noise only, not the error of the estimated ratio."

    def combined(self, error: float, theta: float) -> float:
        """Prediction error plus θ times Q̂: the combined criterion of section 5 of the CRIC paper.

        The paper gives no rule for θ. What Q̂ cannot tell, this cannot tell either: shrinking predictions lowers it.
        """
        return error + theta * self.value


@dataclass(frozen=True, kw_only=True)
class TransportGapResult(Result):
    """Transport gap; see :func:`invariscope.transport_gap`."""

    interval: tuple[float, float]
    pvalue: float
    labels: tuple[Label, ...]
    pairs: NDArray[np.float64]
    se: NDArray[np.float64] = field(repr=False)
    pair_intervals: NDArray[np.float64] = field(repr=False)
    pair_pvalues: NDArray[np.float64] = field(repr=False)
    by_class: NDArray[np.float64] | None = field(repr=False)
    moving_class: tuple[tuple[Any, ...], ...] | None = field(repr=False)
    overlap: Overlap = field(repr=False)
    task: str
    statistic: float
    null: NDArray[np.float64] = field(repr=False)
    outcome: str
    ratio: str


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Do the environments cover the same ground?

    Arrays [a, b] are about the rows of ``labels[b]``, weighted to look like ``labels[a]``: ``effective`` the share of
    them that still counts (1 = all, near 0 = no overlap), ``effective_rows`` the same in rows, ``mean_ratio`` the mean
    weight (should be 1), ``largest`` the share of all weight that the heaviest row carries, ``beyond_cap`` the share of
    rows that weigh more than ``cap``, ``reached`` the share of the rows of ``labels[a]`` that lie where ``labels[b]``
    has any (its density at least a hundredth). ``pooled[b]`` is ``effective`` for all other environments together.
    ``calibration[b]`` is the mean distance between the predicted and the found share of ``labels[b]`` among rows of
    similar prediction. ``verdicts`` and ``pair_verdicts`` call it "good", "weak" or "none".
    """

    labels: tuple[Label, ...]
    effective: NDArray[np.float64] = field(repr=False)
    effective_rows: NDArray[np.float64] = field(repr=False)
    mean_ratio: NDArray[np.float64] = field(repr=False)
    largest: NDArray[np.float64] = field(repr=False)
    beyond_cap: NDArray[np.float64] = field(repr=False)
    reached: NDArray[np.float64] = field(repr=False)
    cap: float
    calibration: NDArray[np.float64] = field(repr=False)
    pair_verdicts: tuple[tuple[str, ...], ...] = field(repr=False)
    pooled: NDArray[np.float64] = field(repr=False)
    verdicts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class WorstCaseResult(Result):
    """Worst-case loss at every Wasserstein distance; see :func:`invariscope.worst_case`.

    ``value`` is the worst-case loss at half the ``unit``. Arrays of equal length: ``radii`` (distances in the units of
    the representation), ``loss`` the worst case there, certified to lie between ``lower`` and ``upper``, and ``gamma``
    the multiplier (the curve's slope is 2 · radius · gamma). ``band`` (2, n_radii) is a pointwise 95 % bootstrap band.
    ``unit`` is the distance that makes radii comparable between models, ``of`` the name of the loss. ``exact`` says
    whether the curve is known but for rounding (log-loss of two classes: to 1e-5); otherwise it is known to within its
    bounds, or, where it was searched, from below: ``lower`` was reached, ``loss`` runs smoothly through it. From
    ``saturates_at`` on the curve is flat; ``others`` are further losses at the same radii. With environments,
    ``apart`` (E,) is how far each of ``labels`` is from all others together, ``distances`` (E, E) how far they are
    from each other.
    """

    of: str
    unit: float
    radii: NDArray[np.float64] = field(repr=False)
    loss: NDArray[np.float64] = field(repr=False)
    lower: NDArray[np.float64] = field(repr=False)
    upper: NDArray[np.float64] = field(repr=False)
    gamma: NDArray[np.float64] = field(repr=False)
    band: NDArray[np.float64] = field(repr=False)
    exact: bool
    saturates_at: float = math.inf
    others: Mapping[str, WorstCaseResult] = field(repr=False, default_factory=dict)
    labels: tuple[Label, ...] = ()
    apart: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    distances: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty((0, 0)))

    @property
    def relative(self) -> NDArray[np.float64]:
        """The radii in multiples of ``unit``: 1 is where every row could have been made wrong."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.radii / self.unit


@dataclass(frozen=True, kw_only=True)
class InputWorstCaseResult(WorstCaseResult):
    """Worst-case loss in input space; see :func:`invariscope.worst_case_in_inputs`.

    Beside the curve, for some of its points: ``moved``, how far the representation moved, in multiples of its own R;
    ``reached``, the loss there; ``representation``, the worst case in the representation at that distance.
    """

    moved: NDArray[np.float64] = field(repr=False)
    reached: NDArray[np.float64] = field(repr=False)
    representation: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class EnvironmentResult(Result):
    """A criterion made of one number per environment (risks, calibration errors, penalties)."""

    interval: tuple[float, float] = (math.nan, math.nan)
    per_environment: Mapping[Label, Estimate]
    worst: Label
    unit: str


def plain(value: Any) -> Any:
    """Turn results into what JSON can hold."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return dict(zip(names(value), map(plain, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if value is None or isinstance(value, int | bool):
        return value
    return str(value).encode(errors="backslashreplace").decode()  # halves of letters cannot be written to any file
