"""One mean per environment, its interval, and intervals for how far such means spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chndtr, ndtr, ndtri, stdtrit

from invariscope.results import EnvironmentResult, Estimate, Label
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.settings import NOT_DRAWN

TAIL = 0.025  # either side of a 95 % interval
NORMAL_QUANTILE = float(ndtri(1.0 - TAIL))
FEW_ROWS = 30
NO_INTERVAL = (
    "No interval: all rows of an environment have the same loss, or their weights sum to 1 or less, so its noise "
    "cannot be estimated."
)
ALL_ALIKE = 1e-12  # of the mean: a standard error below it is rounding error, or exactly 0
NEARLY_NORMAL = 1e8  # degrees of freedom plus noncentrality from which a chi-square is treated as normal


@dataclass(frozen=True)
class EnvironmentMeans:
    """Mean of a per-row quantity in every environment, all arrays (E,).

    ``squared_error`` is the squared standard error s²/n, with s² the unbiased variance within the environment. For a
    quantity that is 0 or 1 (``share``) the intervals are Wilson's, which stay honest when no row (or every row) is 1.
    """

    value: Floats
    squared_error: Floats
    rows: Floats
    share: bool = False

    def ends(self, tail: float = TAIL) -> tuple[Floats, Floats]:
        """Lower and upper ends that each miss with probability ``tail``; NaN where rows say nothing of spread: where
        there is one, or all are alike, which is no certainty about other rows."""
        if self.share:
            z2 = float(ndtri(1.0 - tail)) ** 2
            centre = (self.value + z2 / (2 * self.rows)) / (1 + z2 / self.rows)
            inner = self.value * (1 - self.value) / self.rows + z2 / (4 * self.rows**2)
            half = np.sqrt(z2 * inner) / (1 + z2 / self.rows)
            return centre - half, centre + half
        told = (self.rows > 1) & (self.squared_error > (ALL_ALIKE * self.value) ** 2)
        quantile = np.where(told, stdtrit(np.maximum(self.rows - 1, 1e-9), 1.0 - tail), np.nan)
        half = quantile * np.sqrt(self.squared_error)
        return self.value - half, self.value + half

    @property
    def spread(self) -> Floats:
        """Standard error as a normal distribution would need it: half the 95 % interval over 1.96 (covers small n)."""
        low, high = self.ends()
        return (high - low) / (2 * NORMAL_QUANTILE)


def environment_means(data: Environments, values: Floats, *, share: bool = False) -> EnvironmentMeans:
    """Mean and squared standard error of ``values`` (n,) in every environment; a weight of 2 is a row given twice."""
    starts, rows = data.offsets[:-1], data.rows
    weighted = values if data.weight is None else values * data.weight
    mean = np.add.reduceat(weighted, starts) / rows
    # a second pass: Σv² − n·mean² would lose all digits when the mean dwarfs the spread
    squares = (values - np.repeat(mean, data.sizes)) ** 2
    if data.weight is not None:
        squares *= data.weight
    freedom = np.where(rows > 1, rows - 1, np.nan)
    return EnvironmentMeans(mean, np.add.reduceat(squares, starts) / freedom / rows, rows, share)


def estimates(labels: tuple[Label, ...], value: Floats, low: Floats, high: Floats) -> dict[Label, Estimate]:
    """Numbers by environment as results hold them."""
    return {label: Estimate(float(value[k]), (float(low[k]), float(high[k]))) for k, label in enumerate(labels)}


def as_asked(result: EnvironmentResult, intervals: bool) -> EnvironmentResult:
    """The result, or, where no intervals are wanted, its point estimates alone."""
    if intervals:
        return result
    alone = {label: Estimate(estimate.value) for label, estimate in result.per_environment.items()}
    return replace(result, interval=(math.nan, math.nan), per_environment=alone, notes=(NOT_DRAWN, *result.notes))


def few_rows_notes(data: Environments) -> tuple[str, ...]:
    """A remark for environments too small for normal theory."""
    small = [str(label) for label, rows in zip(data.labels, data.rows, strict=True) if rows < FEW_ROWS]
    if not small:
        return ()
    names = ", ".join(small[:5]) + (f" and {len(small) - 5} more" if len(small) > 5 else "")
    return (f"Fewer than {FEW_ROWS} rows in {names}: intervals there are rough.",)


def quadratic_interval(value: Floats, spread: Floats, *, centred: bool, shrunk: bool = False) -> tuple[float, float]:
    """95 % interval of (1/E) Σ_e (μ_e − μ̄)² (``centred``) or (1/E) Σ_e μ_e².

    Given are independent value_e ~ N(μ_e, spread_e²), both (E,). The observed Q = Σ (value − mean)² is a quadratic form
    in normal variables. Its size under a true sum of squares λ is inverted: the lower end is the λ under which Q would
    be as high as it is with probability 2.5 %, the upper end the λ under which it would be as low. So the upward bias
    of Q is taken out, and 0 is inside when noise alone can explain Q. Two conventions keep the interval sensible at the
    border: an observed Q below what noise alone would give counts as that much, and the interval always reaches up
    to the plug-in value Q / E itself. ``shrunk`` values had their noise taken out before: the upper end then takes out
    none, which is the cautious choice.
    """
    if not (np.isfinite(value).all() and np.isfinite(spread).all()):
        return (np.nan, np.nan)
    n = len(value)
    deviation = value - value.mean() if centred else value
    plug_in = float(np.mean(deviation**2))
    scale = float(np.mean(spread**2))
    if scale == 0.0:
        return (plug_in, plug_in)
    variance, deviation = spread**2 / scale, deviation / np.sqrt(scale)
    observed = float(deviation @ deviation)
    noise, signal = _cumulants(deviation, variance, centred)

    from scipy.optimize import brentq  # here, because it takes as long to import as everything else together

    def below(limit: float, noncentrality: float) -> float:
        return _quadratic_form_cdf(limit, noise + noncentrality * signal)

    low = 0.0
    if below(observed, 0.0) > 1.0 - TAIL:
        low = brentq(lambda noncentrality: below(observed, noncentrality) - (1.0 - TAIL), 0.0, observed)
    floor = observed + float(noise[0]) if shrunk else max(observed, float(noise[0]))
    bracket = floor
    while below(floor, bracket) > TAIL:
        bracket *= 2.0
    high = brentq(lambda noncentrality: below(floor, noncentrality) - TAIL, 0.0, bracket)
    return (low * scale / n, max(high * scale / n, plug_in))


def _cumulants(deviation: Floats, variance: Floats, centred: bool) -> tuple[Floats, Floats]:
    """Q's first four cumulants (over 2^(k-1) (k-1)!) are ``noise + λ signal`` for a true sum of squares λ, each (4,).

    noise_k = tr (A D)^k, signal_k = k mᵀ A (D A)^(k-1) m / mᵀ A m with D = diag(variance) and A the centring
    matrix (or the identity). The true pattern m is known up to noise only, so the moments of the observed pattern are
    joined by those of the noise: without that, a noisy environment that happens to look average hides its noise.
    """
    n = len(deviation)
    projection = np.eye(n) - (1.0 / n if centred else 0.0)
    eigenvalues = np.maximum(np.linalg.eigvalsh(projection * variance @ projection), 0.0)
    noise, pattern = np.empty(4), np.empty(4)
    vector = deviation
    for k in range(4):
        noise[k] = np.sum(eigenvalues ** (k + 1))
        pattern[k] = deviation @ vector + noise[k]
        vector = projection @ (variance * vector)
    return noise, np.arange(1, 5) * pattern / pattern[0]


def _quadratic_form_cdf(limit: float, cumulants: Floats) -> float:
    """P(Q ≤ limit) by matching four cumulants with a noncentral chi-square (Liu, Tang and Zhang 2009); exact when all
    variances are equal."""
    first, second, third, fourth = (float(c) for c in cumulants)
    skewness, kurtosis = third / second**1.5, fourth / second**2
    if skewness**2 > kurtosis:
        root = 1.0 / (skewness - np.sqrt(skewness**2 - kurtosis))
        noncentrality = max(skewness * root**3 - root**2, 0.0)
        freedom = root**2 - 2.0 * noncentrality
    else:
        root, noncentrality, freedom = 1.0 / skewness, 0.0, 1.0 / skewness**2
    standardised = (limit - first) / np.sqrt(2.0 * second)
    if freedom + noncentrality > NEARLY_NORMAL:
        return float(ndtr(standardised))
    matched = standardised * np.sqrt(2.0) * root + freedom + noncentrality
    return float(chndtr(matched, freedom, noncentrality)) if matched > 0 else 0.0
