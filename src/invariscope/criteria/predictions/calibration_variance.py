"""Calibration error per environment, and how much it varies between environments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaln, ndtr, xlog1py, xlogy

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.confidence import confidence_and_hits, probabilities_of
from invariscope.criteria.predictions.environment_means import (
    NORMAL_QUANTILE,
    TAIL,
    as_asked,
    estimates,
    quadratic_interval,
)
from invariscope.criteria.predictions.risks import hard_label_notes
from invariscope.criteria.registry import criterion
from invariscope.results import EnvironmentResult
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.settings import intervals_wanted, one_of, whole_number

CLEAR_GAP = 2.0  # standard errors from which a bin's gap is taken for real at the lower end
FAR_FROM_ZERO = 8.0  # standard deviations from which |normal| is the normal itself
MOST_BINS = 10_000  # of every environment: more than that hold a row or none
BINNINGS = ("width", "mass")
PARTS = {"share": 1.0, "percent": 100.0}  # of the unit in which an ECE is told, in 1
BISECTIONS = 50  # 2⁻⁵⁰ of the range 0..1 is rounding error


def _from_material(material: Material, options: AuditOptions) -> EnvironmentResult:
    return calibration_variance(have(material.predictions).rows, task=material.task, n_boot=options.n_boot)


@criterion(
    title="Variance of the calibration error",
    needs={"probabilities", "target"},
    better="lower",
    tells="Whether stated probabilities are equally trustworthy in every environment.",
    cannot_tell="Whether predictions are any good (stating the overall share everywhere is calibrated), nor "
    "differences that average out within a bin.",
    call=_from_material,
)
def calibration_variance(
    predictions: Any,
    y: Any = None,
    env: Any = None,
    *,
    bins: int = 15,
    binning: str = "width",
    unit: str = "share",
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> EnvironmentResult:
    """Can the stated probabilities be trusted equally in all environments?

        ECE_e = Σ_b (n_eb / n_e) |mean probability − share of hits in bin b|,    value = (1/E) Σ_e (ECE_e − mean ECE)²

    over ``bins`` bins of equal width on 0..1 (left end included; the last bin holds 1 as well), or of equal numbers of
    rows. For two classes the probability is that of the second class and a hit is a row of that class; for more
    classes the probability is that of the most probable class and a hit is a row where it is right (top-label ECE,
    Guo et al. 2017).

    An ECE is biased upward: even a perfectly calibrated model shows some at a finite number of rows. ``notes`` give
    that floor for the rows at hand (exact for equal probabilities within a bin, by De Moivre's mean deviation). The
    floor lifts well calibrated environments most, so the variance may be too small as well as too large.

    Parameters
    ----------
    predictions : (n,) or (n, K) array of probabilities, or :class:`Environments` that hold them as ``X``
        For two classes the probability of the second one, (n,), or of both, (n, 2); for K classes (n, K), in the
        order of the sorted classes, or of 0..K-1 where some are absent.
    y, env, weight : (n,) arrays
        Target, environment and, if wanted, how many rows each row stands for.
    bins : int
    binning : "width" or "mass"
        "mass" is the adaptive ECE (Nixon et al. 2019; Yoshida and Naganuma 2024): every environment has bins of its
        own, each with the same number of its rows. Rows of one probability share a bin, that of the middle one among
        them, so the order of the rows does not matter.
    unit : "share" or "percent"
        "percent" tells an ECE in percentage points and the variance in their squares, 10,000 times that of shares.
        Table 15 of the DRIC paper (PACS) prints variances of 17.9 to 21.9, which shares cannot have (at most 0.25):
        they are such squares, so ECEs there spread by 4.2 to 4.7 points. The paper does not say whether it divides by
        E, as here, or by E − 1; with its three environments that is a factor of 1.5.
    task : "auto" or "classification"
    n_boot, seed : nothing is drawn, since the intervals are formulas; they are left out with ``n_boot=0``

    Returns
    -------
    EnvironmentResult
        ``per_environment``: the ECE with a 95 % interval for the true ECE over the same bins, from the normal theory
        of independent bins with the upward bias taken out (0 is inside when noise alone explains the ECE);
        ``interval``: at least 95 % for the true variance, on the cautious side. Both are stretched, where needed, to
        contain the value itself, and are wide when bins hold few rows.

    It cannot tell whether the model is informative, and errors of opposite sign within a bin cancel. The variance of
    the negative log-likelihood over environments is ``risk_variance(..., loss="log_loss")``; whether the model is
    calibrated in all of them at once, with a test and without bins, :func:`~invariscope.multi_environment_calibration`.

    >>> import numpy as np
    >>> p = np.repeat([0.3, 0.7], 50)
    >>> hits = np.r_[np.arange(50) < 15, np.arange(50) < 35]            # 30 % and 70 %: calibrated
    >>> result = calibration_variance(np.r_[p, p], np.r_[hits, 1 - hits], ["a"] * 100 + ["b"] * 100)
    >>> round(result.per_environment["a"].value, 4), round(result.per_environment["b"].value, 4)
    (0.0, 0.4)
    >>> round(result.value, 4), result.worst
    (0.04, 'b')
    >>> told = calibration_variance(np.r_[p, p], np.r_[hits, 1 - hits], ["a"] * 100 + ["b"] * 100, unit="percent")
    >>> round(told.per_environment["b"].value, 4), round(told.value, 4), told.unit
    (40.0, 400.0, 'percent')
    """
    bins, wanted = whole_number(bins, "bins", 1, MOST_BINS), intervals_wanted(n_boot, seed)
    equal_mass = one_of(binning, "binning", BINNINGS) == "mass"
    parts = PARTS[one_of(unit, "unit", PARTS)]
    data, target, values = probabilities_of(predictions, y, env, task, weight)
    cells = _cells_of(data, *confidence_and_hits(values, target), bins, equal_mass)
    observed = cells.calibration_error()
    low, centre, high = _error_interval(cells, observed)
    value = float(np.var(observed))
    spread = np.maximum(high - centre, centre - low) / NORMAL_QUANTILE
    between = quadratic_interval(centre, spread, centred=True, shrunk=True)
    worst = int(np.argmax(observed))
    result = EnvironmentResult(
        value=parts**2 * value,
        interval=(parts**2 * min(between[0], value), parts**2 * max(between[1], value)),
        per_environment=estimates(data.labels, parts * observed, parts * low, parts * high),
        worst=data.labels[worst],
        unit=unit,
        notes=data.notes + hard_label_notes(values, predictions) + _floor_notes(data, cells, observed, parts),
    )
    return as_asked(result, wanted)


@dataclass(frozen=True)
class _Cells:
    """Rows by (environment, bin), every array (E, bins); empty cells have share 0."""

    rows: Floats
    share: Floats
    confidence: Floats
    hits: Floats

    @property
    def gap(self) -> Floats:
        return np.abs(self.confidence - self.hits)

    @property
    def squared_error(self) -> Floats:
        """Squared standard error of the gap: binomial, with two more rows (half of them as stated by the model)."""
        rate = (self.rows * self.hits + 0.5 + self.confidence) / (self.rows + 2.0)
        return np.where(self.rows > 0, rate * (1.0 - rate) / np.where(self.rows > 0, self.rows, 1.0), 1.0)

    def calibration_error(self) -> Floats:
        """ECE of every environment."""
        return np.asarray(np.sum(self.share * self.gap, axis=1))

    def calibrated_error(self) -> Floats:
        """Expected ECE of every environment if the model were perfectly calibrated: E|hits − n p| in closed form."""
        n, p = self.rows, self.confidence
        below = np.floor(n * p)
        with np.errstate(divide="ignore"):
            # De Moivre: E|S − np| = 2 (m+1) C(n, m+1) p^(m+1) (1−p)^(n−m) with m = floor(np); gamma functions carry
            # it over to weights that are not whole numbers
            logarithm = (
                gammaln(n + 1.0) - gammaln(below + 1.0) - gammaln(n - below)
                + xlogy(below + 1.0, p) + xlog1py(n - below, -p)
            )  # fmt: skip
            deviation = np.where(n > 0, 2.0 * np.exp(logarithm), 0.0)
        return np.asarray(np.sum(deviation, axis=1) / np.sum(n, axis=1))


def _cells_of(data: Environments, confidence: Floats, hits: Floats, bins: int, equal_mass: bool = False) -> _Cells:
    inside = _bins_of_equal_mass(data, confidence, bins) if equal_mass else (confidence * bins).astype(np.intp)
    cell, shape = data.codes * bins + np.minimum(inside, bins - 1), (len(data), bins)
    weight = np.ones(len(cell)) if data.weight is None else data.weight
    rows, stated, occurred = (
        np.asarray(np.bincount(cell, values, minlength=shape[0] * bins), dtype=np.float64).reshape(shape)
        for values in (weight, weight * confidence, weight * hits)
    )
    occupied = np.where(rows > 0, rows, 1.0)
    # weights that are not whole numbers may round a mean of ones to just above 1
    mean_confidence, mean_hits = np.minimum(stated / occupied, 1.0), np.minimum(occurred / occupied, 1.0)
    return _Cells(rows, rows / rows.sum(axis=1, keepdims=True), mean_confidence, mean_hits)


def _bins_of_equal_mass(data: Environments, confidence: Floats, bins: int) -> Integers:
    """The bin of every row, (n,): where the middle of the rows of its probability stands among its environment's."""
    order = np.lexsort((confidence, data.codes))
    code, stated = data.codes[order], confidence[order]
    weight = np.ones(len(order)) if data.weight is None else data.weight[order]
    starts = np.flatnonzero(np.r_[True, (code[1:] != code[:-1]) | (stated[1:] != stated[:-1])])
    alike = np.add.reduceat(weight, starts)
    rows = np.bincount(data.codes, weight, minlength=len(data))
    before = np.cumsum(alike) - alike - (np.cumsum(rows) - rows)[code[starts]]
    place = np.maximum(np.floor(bins * (before + 0.5 * alike) / rows[code[starts]]), 0.0).astype(np.intp)
    inside = np.empty(len(order), dtype=np.intp)
    inside[order] = np.repeat(place, np.diff(np.r_[starts, len(order)]))
    return inside


def _error_interval(cells: _Cells, observed: Floats) -> tuple[Floats, Floats, Floats]:
    """Low end, bias-corrected value and high end of the true ECE, each (E,).

    Gaps are normal around their true values, so the ECE is a sum of independent |normal|s. True gaps are taken
    proportional to a pattern, and the factor is found under which the observed ECE would be as high (low end), as
    expected (centre) or as low (high end). Which pattern matters: the fewer bins carry the error, the more of the
    observed ECE is noise in the others. So the low end keeps only gaps clear of noise, the high end lets every gap be
    as large as its noise allows, and the centre shrinks each gap by the share that noise explains.
    """
    gap, noise = cells.gap, cells.squared_error
    clear = np.where(gap > CLEAR_GAP * np.sqrt(noise), gap, 0.0)
    shrunk = gap * np.maximum(0.0, 1.0 - noise / np.maximum(gap**2, noise))
    spread = np.where(cells.rows > 0, np.sqrt(gap**2 + noise), 0.0)
    floor = np.maximum(observed, _folded_moments(cells, spread, np.zeros(len(observed)))[0])

    def too_high(size: Floats) -> Floats:
        return 1.0 - TAIL - _probability_below(cells, clear, size, observed)

    def above_observed(size: Floats) -> Floats:
        return _folded_moments(cells, shrunk, size)[0] - observed

    def too_low(size: Floats) -> Floats:
        return TAIL - _probability_below(cells, spread, size, floor)

    low = np.where(clear.any(axis=1), _root(too_high, observed), 0.0)
    centre = np.where(shrunk.any(axis=1), _root(above_observed, observed), 0.0)
    return low, centre, np.maximum(_root(too_low, np.ones(len(observed))), observed)


def _root(increasing: Callable[[Floats], Floats], upper: Floats) -> Floats:
    """Where increasing functions, one per environment, cross 0 between 0 and ``upper`` (an end if they do not)."""
    low, high = np.zeros_like(upper), upper.copy()
    already = increasing(low) >= 0.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        beyond = increasing(middle) >= 0.0
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.where(already, 0.0, high)


def _probability_below(cells: _Cells, pattern: Floats, size: Floats, limit: Floats) -> Floats:
    """P(observed ECE ≤ limit) for a true ECE of ``size``: gamma with the sum's first three moments (normal if even)."""
    mean, variance, third = _folded_moments(cells, pattern, size)
    standardised, skewness = (limit - mean) / np.sqrt(variance), third / variance**1.5
    shape = 4.0 / np.maximum(skewness, 1e-3) ** 2
    skewed = gammainc(shape, np.maximum(shape + standardised * np.sqrt(shape), 0.0))
    return np.where(skewness > 1e-3, skewed, ndtr(standardised))


def _folded_moments(cells: _Cells, pattern: Floats, size: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and third central moment of the observed ECE when the true one is ``size``, each (E,)."""
    share, deviation = cells.share, np.sqrt(cells.squared_error)
    total = np.sum(share * pattern, axis=1)
    gap = pattern * np.divide(size, total, out=np.zeros_like(total), where=total > 0)[:, None]
    ratio = gap / deviation
    t = np.minimum(ratio, FAR_FROM_ZERO)
    density, inside = np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi), 2.0 * ndtr(t) - 1.0
    first = 2.0 * density + t * inside
    third = (t**3 + 3.0 * t) * inside + 2.0 * (t**2 + 2.0) * density - 3.0 * first * (t**2 + 1.0) + 2.0 * first**3
    mean = np.sum(share * deviation * np.where(ratio > t, ratio, first), axis=1)
    within = np.sum((share * deviation) ** 2 * (t**2 + 1.0 - first**2), axis=1)
    # which bins the rows fall into is chance as well
    between = np.maximum(np.sum(share * gap**2, axis=1) - np.sum(share * gap, axis=1) ** 2, 0.0)
    skew = np.sum((share * deviation) ** 3 * np.maximum(third, 0.0), axis=1)
    return mean, within + between / np.sum(cells.rows, axis=1), skew


def _floor_notes(data: Environments, cells: _Cells, observed: Floats, parts: float = 1.0) -> tuple[str, ...]:
    """What noise alone would show, per environment where there are few; an ECE of 1 is told as ``parts``."""
    floor, observed = parts * cells.calibrated_error(), parts * observed
    if not floor.any():  # predictions of 0 and 1, hard labels: chance adds nothing to what they miss
        return ()
    few = len(data) <= 6
    named = ", ".join(f"{label}: {value:.2g}" for label, value in zip(data.labels, floor, strict=True))
    span = named if few else f"{floor.min():.2g} to {floor.max():.2g}"
    notes = [f"Even a perfectly calibrated model would show some ECE at these numbers of rows, about {span}."]
    if np.var(floor) > 0.5 * np.var(observed) > 0.0:
        notes.append("Much of the variance may be due to different numbers of rows alone.")
    return tuple(notes)
