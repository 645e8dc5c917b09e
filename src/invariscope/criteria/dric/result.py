"""What DRIC gives back: its number, what stands beside it, its pairs, and how far it is from that of another model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from invariscope.errors import InputError
from invariscope.results import Label, Overlap, Result

if TYPE_CHECKING:
    import pandas as pd

SAME = 1e-9  # relative distance up to which two sums over the same rows are one number, added up in another order


@dataclass(frozen=True, kw_only=True)
class InformationBound:
    """Cov²(Y, E) / R_Υ of Theorem 3.5 (DRIC); **not** a bound that holds, see notes and docs/what_dric_measures.md.

    Attributes
    ----------
    value : Cov²(Y, E) / R_Υ
    covariance_squared : Cov²(Y, E), rows pooled; summed over classes where the target is one
    model_variance : R_φ = Var( f(x) − E[Y | E] ) with f the model's predictions, or with ``terms="own_means"`` the
        conditional means m̂_E(φ(x)) of every environment, as eq. 5 has it
    baseline_variance : R_Υ = Var( b(x) − E[Y | E] ) with b those of the baseline, or m̂_E(x)
    variance_form : R_φ / R_Υ, the right-hand side of eq. 5, which the bound is about. It is not the left-hand side: it
        is the mean over environments of the variance *within* each of what φ predicts, which is above 0 for invariant
        representations that predict anything
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
    ``terms`` says what stands in the sums: "predictions" (eq. 6), "own_means" (eq. 4) or "losses" (appendix A.3);
    ``self_normalised`` that weights were divided by their sum.
    ``spread`` is the standard deviation over all rows of what stands in the model's sums over that of the baseline's
    (of several classes the root of the summed variances), and ``spread_alone`` = ``spread``² the Q̂ of ``spread`` ×
    baseline: of a model that says what the baseline says, in that size. A Q̂ near it is about size alone.
    Arrays [a, b] are about (e = ``labels[a]``, e' = ``labels[b]``), with a last axis for classes: ``pairs`` q̂(e, e'),
    ``sigma2`` the variance of f ρ̂ over the rows of e'; ``rows`` per environment; ``overlap`` for the ratio that the
    model's terms use, described by ``ratio``. ``interval`` and ``numerator_interval`` hold the middle 95 % of bootstrap
    samples, ``numerator_draws`` and ``denominator_draws`` what was found in each (``draws``: both). ``null`` and
    ``null_numerator`` are the values with rows dealt to environments at random, and ``pvalue`` is the numerator's place
    among the latter. ``bound`` is Theorem 3.5's number and the right-hand side of eq. 5, where a target was given.
    """

    log10: float
    numerator: float
    denominator: float
    labels: tuple[Label, ...]
    pairs: NDArray[np.float64]
    overlap: Overlap
    terms: str = "predictions"
    self_normalised: bool = False
    spread: float = math.nan
    spread_alone: float = math.nan
    interval: tuple[float, float] = (math.nan, math.nan)
    numerator_interval: tuple[float, float] = (math.nan, math.nan)
    numerator_draws: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    denominator_draws: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    null: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    null_numerator: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    pvalue: float = math.nan
    sigma2: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    rows: NDArray[np.float64] = field(repr=False, default_factory=lambda: np.empty(0))
    ratio: str = ""
    bound: InformationBound | None = None

    @property
    def draws(self) -> NDArray[np.float64]:
        """Numerator and denominator of every bootstrap sample, (B, 2)."""
        return np.column_stack([self.numerator_draws, self.denominator_draws])

    def difference(self, other: DricResult) -> DricDifference:
        """How far Q̂ of this model is from that of another on the very same rows, with paired 95 % intervals.

            Δ = log10 Q̂_1 − log10 Q̂_2 = log10 numerator_1 − log10 numerator_2

        Both results keep what they found in every bootstrap sample, and with the same rows, baseline, ratio, ``seed``
        and ``n_boot`` these samples are the same: what moves both models alike drops out. Intervals are the middle 95 %
        of the differences in the samples.

        What it cannot tell: which model is invariant. And where environments do not differ at all for a model, both
        numerators are noise, of which no interval of this kind is one.
        """
        _refuse_other_draws(self, other)
        plain, logs = (_middle(*parts) for parts in zip(_both(self), _both(other), strict=True))
        return DricDifference(
            value=self.value - other.value,
            interval=plain,
            log10=_subtracted(self.log10, other.log10),
            log10_interval=logs,
            notes=_of_each(self.notes, other.notes),
        )

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
class DricDifference(Result):
    """Q̂ of one model less that of another on the same rows; see :meth:`DricResult.difference`.

    ``value`` and ``interval`` are those of Q̂_1 − Q̂_2, ``log10`` and ``log10_interval`` those of log10 Q̂_1 − log10 Q̂_2,
    in which the baseline cancels.
    """

    interval: tuple[float, float]
    log10: float
    log10_interval: tuple[float, float]


def _of_each(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on both as they are; those on one model alone say which."""
    return (
        *(note for note in first if note in second),
        *(f"The first: {note}" for note in first if note not in second),
        *(f"The second: {note}" for note in second if note not in first),
    )


def _refuse_other_draws(one: DricResult, other: DricResult) -> None:
    """Paired intervals want the same samples: the baseline's sum tells, which is the same number in each of them."""
    if not isinstance(other, DricResult):
        raise InputError(f"a {type(other).__name__} was given: give another result of iv.dric, for the same rows")
    for name, given in {
        "terms": (one.terms, other.terms),
        "self_normalised": (one.self_normalised, other.self_normalised),
        "n_boot": (len(one.draws), len(other.draws)),
    }.items():
        if given[0] != given[1]:
            raise InputError(
                f"{name} is {given[0]!r} for one result and {given[1]!r} for the other: compute both alike"
            )
    if not len(one.draws):
        raise InputError("nothing was drawn for these results, so there is no interval: compute both with n_boot=99")
    mine, yours = (np.array([result.denominator, *result.draws[:, 1]]) for result in (one, other))
    if one.labels != other.labels or not np.allclose(mine, yours, rtol=SAME, atol=0.0):
        raise InputError(
            "the two results do not share their baseline's sums, so they were not computed on the same rows: give both "
            "the same X, env, weight, baseline, ratio, pairwise, svd and seed"
        )


def _both(result: DricResult) -> tuple[tuple[float, NDArray[np.float64]], tuple[float, NDArray[np.float64]]]:
    """Q̂ and its draws; log10 Q̂ and its draws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = result.draws[:, 0] / result.draws[:, 1]
        return (result.value, drawn), (result.log10, np.log10(drawn))


def _subtracted(one: float, other: float) -> float:
    """NaN where both are −∞ or one is not there."""
    return one - other if math.isfinite(one) or math.isfinite(other) else math.nan


def _middle(one: tuple[float, NDArray[np.float64]], other: tuple[float, NDArray[np.float64]]) -> tuple[float, float]:
    """The middle 95 % of the differences, draw by draw."""
    with np.errstate(invalid="ignore"):
        drawn = one[1] - other[1]
    if not (math.isfinite(_subtracted(one[0], other[0])) and np.isfinite(drawn).all()):
        return math.nan, math.nan
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
