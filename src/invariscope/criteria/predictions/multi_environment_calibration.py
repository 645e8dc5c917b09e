"""Calibration in every environment at once, without bins: the kernel calibration error that CLOvE sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.confidence import confidence_and_hits, probabilities_of
from invariscope.criteria.predictions.environment_means import TAIL, estimates
from invariscope.criteria.predictions.risks import hard_label_notes
from invariscope.criteria.registry import criterion
from invariscope.results import CalibrationResult
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator, pvalue
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, real_number
from invariscope.wording import number

WIDTH = 0.4  # of the kernel, on probabilities: that of Kumar et al.
NARROWEST = 0.01  # exp(1 / width) must leave room in a double
TILE = 1 << 20  # numbers of draws times rows that lie in memory at a time


def _from_material(material: Material, options: AuditOptions) -> CalibrationResult:
    predictions = have(material.predictions).rows
    return multi_environment_calibration(predictions, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Calibration in all environments",
    needs={"probabilities", "target"},
    better="lower",
    tells="How far stated probabilities are from what happens, in every environment at once, and whether chance "
    "explains it.",
    cannot_tell="Whether predictions are any good (stating every environment's overall share is calibrated).",
    call=_from_material,
)
def multi_environment_calibration(
    predictions: Any,
    y: Any = None,
    env: Any = None,
    *,
    width: float = WIDTH,
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> CalibrationResult:
    """Can the stated probabilities be taken at their word in all environments?

        MMCE_e² = (1/n_e²) Σ_{i,j in e} (c_i − r_i) (c_j − r_j) k(r_i, r_j),    k(r, s) = exp(−|r − s| / width)
        value = (1/E) Σ_e MMCE_e

    r_i is the probability that is checked and c_i is 1 where its event occurred, else 0: for two classes the
    probability of the second one, for more that of the most probable one and whether it is right. MMCE_e is 0 in the
    population if and only if P(c = 1 | r) = r in environment e, so the value is 0 exactly for a model that is
    calibrated in every environment; E times the value is the sum over environments that CLOvE penalises. Unlike an
    ECE it needs no bins.

    Parameters
    ----------
    predictions, y, env, weight : as of :func:`~invariscope.calibration_variance`
    width : of the kernel, at least 0.01; errors of probabilities that lie further apart hardly add up or cancel
    task : "auto" or "classification"
    n_boot, seed : how often labels are drawn, and rows given random signs; 0 for the value alone

    Returns
    -------
    CalibrationResult
        ``pvalue``: of "calibrated in every environment". Labels are drawn from the stated probabilities themselves,
        c_i ~ Bernoulli(r_i), which is what calibration means, so the test is exact for independent rows; ``null`` are
        the values then.
        ``per_environment``: MMCE_e with an interval that holds the true one in at least 95 % of cases, ``interval``
        the same for their mean. MMCE_e is the length of a mean in a space of functions, and a length is wrong by no
        more than the mean itself; how wrong that is, rows with random signs tell. So intervals are on the cautious
        side, and their low end is 0 unless the error is well above chance.

    An MMCE is above 0 by chance alone; ``notes`` say what a calibrated model would show at these numbers of rows. One
    pass over rows sorted by r takes the place of the n_e² pairs.

    What it cannot tell: whether the model is informative; and which way it errs.

    References: Wald et al. (2021), "On calibration and out-of-domain generalization" (CLOvE); Kumar et al. (2018),
    "Trainable calibration measures for neural networks from kernel mean embeddings" (MMCE).

    >>> import numpy as np
    >>> p = np.repeat([0.3, 0.7], 50)
    >>> hits = np.r_[np.arange(50) < 15, np.arange(50) < 35]            # 30 % and 70 %: calibrated
    >>> result = multi_environment_calibration(np.r_[p, p], np.r_[hits, 1 - hits], ["a"] * 100 + ["b"] * 100)
    >>> round(result.per_environment["a"].value, 4), round(result.per_environment["b"].value, 4)
    (0.0, 0.2249)
    >>> round(result.value, 4), result.worst, result.pvalue
    (0.1124, 'b', 0.001)
    """
    width, draws = real_number(width, "width", NARROWEST), number_of_draws(n_boot)
    rng = generator(seed)
    data, target, values = probabilities_of(predictions, y, env, task, weight)
    confidence, hits = confidence_and_hits(values, target)
    sorted_rows = list(_by_environment(data, confidence, hits, width))
    observed = np.array([rows.errors(rows.gap[None])[0] for rows in sorted_rows])
    value, count = float(observed.mean()), len(sorted_rows)
    null, noise = np.empty((draws, count)), np.empty((draws, count))
    for k, (rows, stream) in enumerate(zip(sorted_rows, rng.spawn(count), strict=True)):
        for tile in _tiles(draws, len(rows.confidence)):
            null[tile, k] = rows.errors(rows.deviations(rows.confidence, tile, stream))
            noise[tile, k] = rows.errors(2.0 * rows.each * rows.deviations(np.array(0.5), tile, stream))
    reach = _quantile(noise) if draws else np.full(count, math.nan)
    mean_reach = float(_quantile(noise.mean(axis=1, keepdims=True))[0]) if draws else math.nan
    worst = int(np.argmax(observed))
    notes = (*data.notes, *hard_label_notes(values, predictions), *_chance_notes(data, sorted_rows))
    return CalibrationResult(
        value=value,
        interval=(max(value - mean_reach, 0.0) if draws else math.nan, value + mean_reach),
        per_environment=estimates(data.labels, observed, np.maximum(observed - reach, 0.0), observed + reach),
        worst=data.labels[worst],
        unit="share",
        notes=notes if draws else (NOT_DRAWN, *notes),
        pvalue=pvalue(value, null.mean(axis=1)),
        null=null.mean(axis=1),
    )


@dataclass(frozen=True)
class _SortedRows:
    """One environment's rows by their stated probability: ``each`` is c − r of a row, ``gap`` that times its weight."""

    confidence: Floats
    each: Floats
    weight: Floats | None
    total: float
    growth: Floats

    @property
    def gap(self) -> Floats:
        return self.each if self.weight is None else self.each * self.weight

    def errors(self, gaps: Floats) -> Floats:
        """MMCE for every line of ``gaps`` (tile, n).

        For i before j the kernel is exp(r_i / width) / exp(r_j / width): the pairs of row j are a running sum.
        """
        running = np.cumsum(gaps * self.growth, axis=1)
        pairs = np.einsum("bi,bi->b", gaps / self.growth, running)  # row by row with itself and those before it
        squares = 2.0 * pairs - np.einsum("bi,bi->b", gaps, gaps)
        return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / self.total)

    def deviations(self, chance: Floats, tile: slice, rng: np.random.Generator) -> Floats:
        """Hits less their expectation for rows that hit with ``chance``, (tile, n).

        A weight of 2 is two rows. One that is not whole has the spread of so many rows, from the next whole number.
        """
        shape = (tile.stop - tile.start, len(self.confidence))
        if self.weight is None:
            return np.asarray((rng.random(shape) < chance) - chance)
        copies = np.ceil(self.weight)
        scale = np.sqrt(np.divide(self.weight, copies, out=np.zeros_like(copies), where=copies > 0))
        return np.asarray(scale * (rng.binomial(copies.astype(np.int64), chance, shape) - copies * chance))

    def chance(self) -> float:
        """Root mean square of the MMCE of a calibrated model, whose pairs cancel on average: √(Σ w r (1 − r)) / n."""
        weight = 1.0 if self.weight is None else self.weight
        return math.sqrt(float(np.sum(weight * self.confidence * (1.0 - self.confidence)))) / self.total


def _by_environment(data: Environments, confidence: Floats, hits: Floats, width: float) -> Iterator[_SortedRows]:
    for start, stop in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        stated, occurred = confidence[start:stop], hits[start:stop]
        order = np.lexsort((occurred, stated))
        weight = None if data.weight is None else data.weight[start:stop][order]
        stated = stated[order]
        growth = np.exp((stated - stated[0]) / width)
        total = float(stop - start) if weight is None else float(weight.sum())
        yield _SortedRows(stated, occurred[order] - stated, weight, total, growth)


def _tiles(draws: int, rows: int) -> Iterator[slice]:
    step = max(1, TILE // rows)
    for start in range(0, draws, step):
        yield slice(start, min(start + step, draws))


def _quantile(lengths: Floats) -> Floats:
    """The 95 % quantile of every column, rounded up to a draw."""
    return np.asarray(np.quantile(lengths, 1.0 - 2.0 * TAIL, axis=0, method="higher"))


def _chance_notes(data: Environments, sorted_rows: list[_SortedRows]) -> tuple[str, ...]:
    """What noise alone would show, per environment where there are few."""
    floor = [rows.chance() for rows in sorted_rows]
    if not any(floor):
        return ()
    named = ", ".join(f"{label}: {number(value, 2)}" for label, value in zip(data.labels, floor, strict=True))
    span = named if len(floor) <= 6 else f"{number(min(floor), 2)} to {number(max(floor), 2)}"
    return (f"Even a perfectly calibrated model would show some error at these numbers of rows, about {span}.",)
