"""Density ratios between environments: one fit for all of them, or one for every pair, with overlap diagnostics."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.ratios.catalogue import KERNELS, estimator_of, in_units, pairs_of
from invariscope.ratios.estimator import Fit, GroupedRows, JointFit, Units, grouped_rows
from invariscope.ratios.judging import Judgement, judge_fit, judge_given
from invariscope.ratios.overlap import mean_off
from invariscope.results import Overlap
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator
from invariscope.rows.settings import MOST_FOLDS, is_whole, shown, switch
from invariscope.rows.tables import matrix_of


@dataclass(frozen=True)
class DensityRatio:
    """ρ_{e,e'}(x) = dP_e / dP_e'(x) for all pairs of environments, from one function log p_e(x) + c(x) for each.

    Because all pairs come from the same (n, E) scores, ρ_{a,b} · ρ_{b,c} = ρ_{a,c} holds exactly. Where every pair was
    fitted by itself (``pairwise``) it need not.

    Attributes
    ----------
    labels : the environments
    columns : the columns it was fitted on; a table that has them in another order is read by name
    overlap : do they cover the same ground? See :class:`~invariscope.results.Overlap`
    description : what was fitted, in words
    at_rows : (n, E) log densities at the rows it was fitted on, in their order; each row judged by a fit that did not
        see it if ``folds`` was given or the estimator always does so. Of a ``pairwise`` ratio, log ρ of every
        environment to the row's own, which is all that reweighting its rows asks for.
    pairwise : every pair has a fit of its own
    accuracy : share of the fitted rows whose environment is guessed right by p(e | x) ∝ n_e p_e(x), the fit having seen
        them all (as Tables 5 and 6 of the DRIC paper print it); of a pairwise ratio, the mean over pairs
    accuracy_held_out : the same by fits that did not see the row; NaN where no rows were held out (``folds=5`` does,
        classifiers always do)
    pair_accuracy : (E, E), the accuracy among the rows of two environments alone
    chance : share of the largest environment, what guessing without looking gets right; pairwise, its mean over pairs
    failed : (E, E) pairs whose mean ratio is off though rows overlap; True nowhere in what ``density_ratio`` returns
    """

    labels: tuple[Hashable, ...]
    overlap: Overlap
    description: str
    at_rows: Floats = field(repr=False)
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    pairwise: bool
    accuracy: float
    accuracy_held_out: float
    pair_accuracy: Floats = field(repr=False)
    chance: float
    failed: Booleans = field(repr=False)
    _units: Units = field(repr=False)
    _fit: Fit = field(repr=False)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{name} {v}" for name, v in zip(self.labels, self.overlap.verdicts, strict=True))
        held_out = "" if math.isnan(self.accuracy_held_out) else f"held out {self.accuracy_held_out:.3g}, "
        guessed = f"environments guessed {self.accuracy:.3g} ({held_out}chance {self.chance:.3g})"
        return f"<DensityRatio by {self.description}; overlap: {verdicts}; {guessed}>"

    def log_densities(self, X: Any) -> Floats:
        """log p_e(x) up to a term common to all environments: (n, E). A pairwise ratio has none: see ``log_ratios``."""
        return self._fit.log_densities(self._rows(X))

    def log_ratios(self, X: Any, e2: Hashable) -> Floats:
        """log ρ_{e,e2}(x) of all environments e to one: (n, E)."""
        rows, base = self._rows(X), self._number(e2)
        if not self.pairwise:
            scores = self._fit.log_densities(rows)
            return np.asarray(scores - scores[:, [base]])
        return np.column_stack([self._fit.log_ratio(rows, a, base) for a in range(len(self.labels))])

    def log(self, X: Any, e: Hashable, e2: Hashable) -> Floats:
        """log ρ_{e,e2}(x): how much more likely x is in e than in e2."""
        first, second = self._number(e), self._number(e2)
        return self._fit.log_ratio(self._rows(X), first, second)

    def _number(self, label: Hashable) -> int:
        if label not in self.labels:
            raise InputError(f'no environment "{label}": there are {", ".join(map(str, self.labels))}')
        return self.labels.index(label)

    def _rows(self, X: Any) -> Floats:
        """Rows to judge, in the units of the fit."""
        values, names = matrix_of(X)
        if values.shape[1] != len(self.columns):
            raise InputError(
                f"the rows to judge have {values.shape[1]} columns, but the ratio was fitted on {len(self.columns)}: "
                "give the same columns"
            )
        if names != self.columns and set(names) == set(self.columns):  # the same columns in another order
            values = values[:, [names.index(name) for name in self.columns]]
        bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
        if bad.size:
            raise InputError(
                f'column "{self.columns[bad[0]]}" of the rows to judge has missing or infinite values: '
                "drop those rows or fill them in"
            )
        return self._units.apply(values)


def density_ratio(
    X: Any,
    env: Any = None,
    *,
    ratio: Any = "logistic",
    pairwise: bool = False,
    folds: int = 0,
    svd: int | None = None,
    seed: int = 0,
    weight: Any = None,
) -> DensityRatio:
    """How much more likely every row is in one environment than in another, for all pairs from one fit.

        ρ_{e,e'}(x) = dP_e / dP_e'(x),   by classification   ρ̂ = n_e' p̂(e | x) / (n_e p̂(e' | x))            (eq. 10)

    Parameters
    ----------
    X : (n, d) numbers, or an :class:`~invariscope.Environments` of them (then ``env`` is left out)
    ratio : name or classifier
        "logistic" (default: on the columns, with squares, splines or products, whichever predicts the environment of
        unseen rows best), "mlp", "forest", "boosting" or any scikit-learn classifier with ``predict_proba``
        (calibrated on rows it has not seen), "ulsif", "rulsif", "kliep", "kmm" (kernels), "gaussian" (normal laws)
    pairwise : one fit for every pair of environments, as the paper has it: a classifier of the two, uncalibrated, which
        has seen all their rows; ρ̂_{e',e} = 1 / ρ̂_{e,e'}. Classifiers then see the columns as they are. "logistic" is
        plain logistic regression on them, with the penalty ½ |w|² on its slopes against the summed log-loss (C = 1 of
        scikit-learn) and none on its intercept; "mlp" the network of Table 8; a scikit-learn classifier is that
        classifier as it is. "gaussian" fits two laws at a time, kernels ρ_{e,e'} and ρ_{e',e} apart; kernels do so
        without being asked where fits through one reference have a mean that is off.
    folds : with 2 or more, ``at_rows`` and ``overlap`` judge every row by a fit that did not see it
    svd : first reduce the columns to this many singular directions (images, embeddings)
    weight : rows each row stands for

    The mean of a true ratio ρ_{e,e'} over rows of e' is 1. If that of an estimated one is off by more than a factor 2
    (``MEAN_TOLERANCE``), the estimator has failed and is refused with the pair and the mean: above 2 (up to 100 without
    the heaviest row, which may make such a mean by chance), or below ½ where the same ratio finds good overlap. It is
    judged by the fit that all rows have seen, whatever ``folds`` are; classifiers by the rows they are calibrated on.
    Where rows have no like in the other environment, a mean near 0 is no failure but absent overlap: see ``overlap``.

    What it cannot tell: a ratio where one of the environments has no rows. ``overlap`` says how much of each is left.

    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(2000, 2)), np.repeat(["Bern", "Oslo"], 1000)
    >>> X[site == "Oslo", 0] += 1.0
    >>> ratio = density_ratio(X, site)
    >>> np.round(ratio.log([[0.5, 0.0], [2.5, 0.0]], "Oslo", "Bern"), 1) + 0.0
    array([0., 2.])
    >>> ratio.overlap.verdicts
    ('good', 'good')
    """
    if not is_whole(folds) or not (folds == 0 or 2 <= folds <= MOST_FOLDS):
        raise InputError(f"folds is {shown(folds)}: give 0 for none, or a whole number from 2 to {MOST_FOLDS:,}")
    data = Environments.of(X, None, env, weight)
    fitted = ratio_for(data, ratio, pairwise=pairwise, folds=int(folds), svd=svd, rng=generator(seed))
    return replace(fitted, notes=(*data.notes, *fitted.notes))


def ratio_for(
    data: Environments,
    ratio: Any,
    *,
    pairwise: bool = False,
    folds: int | Integers = 0,
    svd: int | None = None,
    rng: np.random.Generator,
    refuse_failed: bool = True,
) -> DensityRatio:
    """The density ratio a criterion works with: fitted here, or fitted elsewhere, or known, and judged at these rows.

    ``ratio`` is an estimator of :func:`density_ratio`, a fitted :class:`DensityRatio`, or a function from rows (n, d)
    to log densities (n, E), environments in the order of their labels. ``folds`` is how many, or the fold of every row
    of positive weight. ``refuse_failed``: pairs on which the estimator has failed refuse the ratio, instead of standing
    in its notes; what comes from elsewhere is never refused, since its rows may be others.
    """
    if is_given(ratio) and (svd is not None or switch(pairwise, "pairwise")):
        what = "svd" if svd is not None else "pairwise"
        raise InputError(f"{what} is for ratios that are fitted here, and this one is given as it is: leave {what} out")
    if isinstance(ratio, DensityRatio):
        if ratio.labels != data.labels:
            raise InputError(
                f"the ratio was fitted for {', '.join(map(str, ratio.labels))}, "
                f"but the rows come from {', '.join(map(str, data.labels))}: give rows of the same environments"
            )
        stored = GroupedRows(ratio._rows(data.X), data.offsets, data.weight)
        return _with(judge_given(data, stored, ratio._fit), data, ratio._units, ratio._fit, ratio.columns)
    if is_given(ratio):
        return _known(data, ratio)
    if svd is not None and not (is_whole(svd) and svd >= 1):
        raise InputError(f"svd is {shown(svd)}: give the number of directions to keep, at least 1")
    pairwise = switch(pairwise, "pairwise")
    fitted, judgement = _fitted(data, ratio, pairwise, folds, svd, rng)
    if isinstance(ratio, str) and ratio in KERNELS and not pairwise and (off := mean_off(judgement.own)):
        # what is bounded to the reference is not bounded back: bumps for every pair in its own direction are
        fitted, judgement = _fitted(data, ratio, True, folds, svd, rng)
        note = f"Every pair was fitted directly: through one reference {off}."
        fitted = replace(fitted, notes=(note, *fitted.notes))
    if refuse_failed and fitted.failed.any():
        raise InputError(_refusal(ratio, pairwise, mean_off(judgement.own, fitted.failed)))
    return fitted


def _fitted(
    data: Environments, ratio: Any, pairwise: bool, folds: int | Integers, svd: int | None, rng: np.random.Generator
) -> tuple[DensityRatio, Judgement]:
    """A ratio estimated from these rows, whether or not the estimator has failed."""
    if pairwise:
        estimator, units = pairs_of(ratio), (Units.of if in_units(ratio) else Units.as_given)(data, svd)
    else:
        estimator, units = estimator_of(ratio), Units.of(data, svd)
    rows = grouped_rows(data, units)
    fit = estimator(rows, rng)
    judgement = judge_fit(data, rows, units, fit, folds)
    return _with(judgement, data, units, fit, data.columns), judgement


def _refusal(ratio: Any, pairwise: bool, off: str) -> str:
    """Which pair the estimator has failed on, and what to do instead."""
    name = f'"{ratio}"' if isinstance(ratio, str) else type(ratio).__name__
    if isinstance(ratio, str) and ratio == "logistic" and not pairwise:
        return f"{name} fails on these rows: {off}. Give fewer columns"
    without = " without pairwise" if pairwise else ""
    return f'{name} fails on these rows: {off}. Use ratio="logistic"{without}, or give fewer columns'


def _with(judgement: Judgement, data: Environments, units: Units, fit: Fit, columns: tuple[str, ...]) -> DensityRatio:
    """A ratio, wherever it comes from, with what the stored rows say about it."""
    return DensityRatio(
        labels=data.labels,
        overlap=judgement.overlap,
        description=fit.description,
        at_rows=data.original(judgement.scores),
        notes=(*fit.notes, *judgement.notes),
        columns=columns,
        pairwise=not isinstance(fit, JointFit),
        accuracy=judgement.guesses.accuracy,
        accuracy_held_out=judgement.guesses.held_out,
        pair_accuracy=judgement.guesses.pairs,
        chance=judgement.guesses.chance,
        failed=judgement.failed,
        _units=units,
        _fit=fit,
    )


def is_given(ratio: Any) -> bool:
    """Whether a ratio comes from outside, fitted or known, and stays as it is."""
    return isinstance(ratio, DensityRatio) or (
        callable(ratio) and not isinstance(ratio, type) and not hasattr(ratio, "predict_proba")
    )


@dataclass(frozen=True)
class _Known(JointFit):
    """A ratio that is not estimated: other rows do not change it."""

    function: Callable[[Floats], Floats]
    description: str = "known ratio"
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    def log_densities(self, X: Floats) -> Floats:
        return np.asarray(self.function(X), dtype=np.float64)

    def again(self, rows: GroupedRows) -> _Known:
        return self


def _known(data: Environments, function: Callable[[Floats], Floats]) -> DensityRatio:
    columns = np.arange(data.X.shape[1])
    units = Units(columns, np.zeros(len(columns)), np.ones(len(columns)))
    fit = _Known(function)
    scores = fit.log_densities(units.apply(data.X))
    if scores.shape != (len(data.X), len(data)):
        raise InputError(
            f"the ratio function gives an array of shape {scores.shape}: give log densities, "
            f"{len(data.X)} rows by {len(data)} environments"
        )
    stored = GroupedRows(units.apply(data.X), data.offsets, data.weight)
    return _with(judge_given(data, stored, fit), data, units, fit, data.columns)
