"""Density ratios between environments: one fit for all of them, in log space, with overlap diagnostics."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.ratios.estimator import Estimator, Fit, GroupedRows, Units, grouped_rows
from invariscope.ratios.overlap import overlap_of, remarks
from invariscope.results import Overlap
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import folds_by_content, generator, whole
from invariscope.rows.settings import MOST_FOLDS, is_whole, shown
from invariscope.rows.tables import matrix_of

#: name → module and function
ESTIMATORS = {
    "logistic": ("invariscope.ratios.logistic", "fit_logistic"),
    "gaussian": ("invariscope.ratios.gaussian", "fit_gaussian"),
    "mlp": ("invariscope.ratios.classifiers", "fit_mlp"),
    "forest": ("invariscope.ratios.classifiers", "fit_forest"),
    "boosting": ("invariscope.ratios.classifiers", "fit_boosting"),
    "ulsif": ("invariscope.ratios.least_squares", "fit_ulsif"),
    "rulsif": ("invariscope.ratios.least_squares", "fit_rulsif"),
    "kliep": ("invariscope.ratios.kliep", "fit_kliep"),
    "kmm": ("invariscope.ratios.least_squares", "fit_kmm"),
}


@dataclass(frozen=True)
class DensityRatio:
    """ρ_{e,e'}(x) = dP_e / dP_e'(x) for all pairs of environments, from one function log p_e(x) + c(x) for each.

    Because all pairs come from the same (n, E) scores, ρ_{a,b} · ρ_{b,c} = ρ_{a,c} holds exactly.

    Attributes
    ----------
    labels : the environments
    columns : the columns it was fitted on; a table that has them in another order is read by name
    overlap : do they cover the same ground? See :class:`~invariscope.results.Overlap`
    description : what was fitted, in words
    at_rows : (n, E) log densities at the rows it was fitted on, in their order; each row judged by a fit that did not
        see it if ``folds`` was given or the estimator always does so
    """

    labels: tuple[Hashable, ...]
    overlap: Overlap
    description: str
    at_rows: Floats = field(repr=False)
    notes: tuple[str, ...]
    columns: tuple[str, ...]
    _units: Units = field(repr=False)
    _fit: Fit = field(repr=False)

    def __repr__(self) -> str:
        verdicts = ", ".join(f"{name} {v}" for name, v in zip(self.labels, self.overlap.verdicts, strict=True))
        return f"<DensityRatio by {self.description}; overlap: {verdicts}>"

    def log_densities(self, X: Any) -> Floats:
        """log p_e(x) up to a term common to all environments: (n, E)."""
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
        return self._fit.log_densities(self._units.apply(values))

    def log(self, X: Any, e: Hashable, e2: Hashable) -> Floats:
        """log ρ_{e,e2}(x): how much more likely x is in e than in e2."""
        for label in (e, e2):
            if label not in self.labels:
                raise InputError(f'no environment "{label}": there are {", ".join(map(str, self.labels))}')
        scores = self.log_densities(X)
        return np.asarray(scores[:, self.labels.index(e)] - scores[:, self.labels.index(e2)])


def density_ratio(
    X: Any,
    env: Any = None,
    *,
    ratio: Any = "logistic",
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
    folds : with 2 or more, ``at_rows`` and ``overlap`` judge every row by a fit that did not see it
    svd : first reduce the columns to this many singular directions (images, embeddings)
    weight : rows each row stands for

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
    fitted = ratio_for(data, ratio, folds=int(folds), svd=svd, rng=generator(seed))
    return replace(fitted, notes=(*data.notes, *fitted.notes))


def ratio_for(
    data: Environments, ratio: Any, *, folds: int | Integers = 0, svd: int | None = None, rng: np.random.Generator
) -> DensityRatio:
    """The density ratio a criterion works with: fitted here, or fitted elsewhere, or known, and judged at these rows.

    ``ratio`` is an estimator of :func:`density_ratio`, a fitted :class:`DensityRatio`, or a function from rows (n, d)
    to log densities (n, E), environments in the order of their labels. ``folds`` is how many, or the fold of every row
    of positive weight.
    """
    if svd is not None and is_given(ratio):
        raise InputError("svd is for ratios that are fitted here, and this one is given as it is: leave svd out")
    if isinstance(ratio, DensityRatio):
        if ratio.labels != data.labels:
            raise InputError(
                f"the ratio was fitted for {', '.join(map(str, ratio.labels))}, "
                f"but the rows come from {', '.join(map(str, data.labels))}: give rows of the same environments"
            )
        return _judged(data, ratio.log_densities(data.X), ratio._units, ratio._fit, ratio.columns)
    if is_given(ratio):
        return _known(data, ratio)
    if svd is not None and not (is_whole(svd) and svd >= 1):
        raise InputError(f"svd is {shown(svd)}: give the number of directions to keep, at least 1")
    units = Units.of(data, svd)
    rows = grouped_rows(data, units)
    fit = estimator_of(ratio)(rows, rng)
    held_out = fit.held_out if isinstance(folds, int) and folds < 2 else _held_out(fit, rows, folds)
    seen = held_out if held_out is not None else fit.log_densities(rows.X)
    if len(seen) == len(data.X):
        scores = seen
    else:  # rows of weight 0 were not fitted on
        scores = fit.log_densities(units.apply(data.X))
        scores[np.asarray(data.weight) > 0] = seen
    return _judged(data, scores, units, fit, data.columns)


def estimator_of(estimator: Any) -> Estimator:
    """The estimator of a name, or one made of a scikit-learn classifier."""
    if isinstance(estimator, str):
        if estimator not in ESTIMATORS:
            raise InputError(
                f'density ratio estimator "{estimator}" is unknown: there are {", ".join(ESTIMATORS)}, '
                "or pass a scikit-learn classifier"
            )
        module, function = ESTIMATORS[estimator]
        fit: Estimator = getattr(importlib.import_module(module), function)
        return fit
    from invariscope.ratios.classifiers import classifier_estimator

    return classifier_estimator(estimator)


def _judged(data: Environments, scores: Floats, units: Units, fit: Fit, columns: tuple[str, ...]) -> DensityRatio:
    """A ratio, wherever it comes from, with what its log densities at the stored rows say about them."""
    overlap = overlap_of(data, scores)
    return DensityRatio(
        labels=data.labels,
        overlap=overlap,
        description=fit.description,
        at_rows=data.original(scores),
        notes=(*fit.notes, *remarks(overlap)),
        columns=columns,
        _units=units,
        _fit=fit,
    )


def is_given(ratio: Any) -> bool:
    """Whether a ratio comes from outside, fitted or known, and stays as it is."""
    return isinstance(ratio, DensityRatio) or (
        callable(ratio) and not isinstance(ratio, type) and not hasattr(ratio, "predict_proba")
    )


@dataclass(frozen=True)
class _Known:
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
    return _judged(data, scores, units, fit, data.columns)


def _held_out(fit: Fit, rows: GroupedRows, fold: Integers | int) -> Floats:
    """Log densities of every row by a fit that did not see its fold; choices are those made on all rows.

    A row that stands for several has copies in several folds; it gets the mean of theirs.
    """
    counts = None if rows.weight is None or not isinstance(fold, int) else whole(rows.weight)
    written = rows if counts is None else rows.written_out(counts)
    if isinstance(fold, int):
        fold = folds_by_content(written.X, written.offsets, fold)
    scores = np.empty((len(written.X), rows.environments))
    for k in np.unique(fold):
        out = fold == k
        scores[out] = fit.again(written.take(~out)).log_densities(written.X[out])
    if counts is None:
        return scores
    return np.asarray(np.add.reduceat(scores, np.cumsum(counts) - counts) / counts[:, None])
