"""Classifiers of the environment, judged on rows that they have not seen, in two ways.

``crossed``: every fold is judged by a classifier that was fitted to all other folds, which wastes no rows, but makes
what is said of folds depend on each other, so that no simple null distribution holds. ``ahead``: every fold is judged
by a classifier that was fitted to the folds before it. Given those, the classifier is fixed and the fold is new, and so
is every later one: chance can be drawn fold by fold, whatever the classifier is and however it was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.special

from invariscope.criteria.comparators.samples import Sample
from invariscope.errors import InputError
from invariscope.ratios.estimator import GroupedRows
from invariscope.ratios.logistic import fit_logistic
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.resampling import direction, folds_by_content, whole

FOLDS = 5
FEWEST = 2 * FOLDS  # rows of an environment: every fold then has two of them
OURS = {"TorchNetwork": "network of Table 8"}  # classifiers that users do not know by the names of their classes
NAMED = ("mlp", "forest", "boosting")  # functions of ratios.classifiers, which is imported when it is needed


@dataclass(frozen=True)
class FittedClassifier:
    """A classifier of the environment, fitted once to rows in the units of :class:`GroupedRows`."""

    model: Any = field(repr=False)
    environments: int
    log_totals: Floats | None = None  # of a logistic fit, which leaves the sizes of the environments out

    @classmethod
    def of(cls, classifier: Any, rows: GroupedRows, rng: np.random.Generator) -> FittedClassifier:
        """Fit to rows: "logistic" chooses its basis by these rows alone, as density ratios do."""
        if classifier == "logistic":
            return cls(fit_logistic(rows, rng), rows.environments, np.log(rows.totals))
        from invariscope.ratios import classifiers

        chosen = getattr(classifiers, classifier)(rows, rng) if isinstance(classifier, str) else classifier
        classifiers.refuse_without_weights(chosen, rows)
        model = classifiers.fitted_once(chosen, rows.X, rows.codes, rows.weight, 'classifier="logistic"')
        return cls(model, rows.environments)

    @property
    def description(self) -> str:
        if self.log_totals is not None:
            return "logistic regression"
        name = type(self.model).__name__
        return OURS.get(name, name)

    def log_probabilities(self, X: Floats) -> Floats:
        """log p̂(e | x), (n, E)."""
        if self.log_totals is None:
            from invariscope.ratios.classifiers import log_probabilities

            return log_probabilities(self.model, X, self.environments)
        scores = self.model.log_densities(X) + self.log_totals
        return np.asarray(scores - scipy.special.logsumexp(scores, axis=1, keepdims=True))


@dataclass(frozen=True)
class Judged:
    """Rows, the fold of each, and what classifiers say of them: log p̂(e | x), (n, E), ``crossed`` and ``ahead``.

    There is nothing before the first fold: ``ahead`` is NaN there, and ``later`` marks all other rows. A classifier
    that was fitted elsewhere says the same in both ways, of one fold.
    """

    rows: GroupedRows = field(repr=False)
    fold: Integers = field(repr=False)
    crossed: Floats = field(repr=False)
    ahead: Floats = field(repr=False)
    description: str

    @cached_property
    def later(self) -> Booleans:
        return np.asarray(~np.isnan(self.ahead[:, 0]))

    @cached_property
    def weight(self) -> Floats:
        return np.ones(len(self.fold)) if self.rows.weight is None else self.rows.weight


def checked_classifier(classifier: Any) -> Any:
    """A name that is known, or a scikit-learn classifier with probabilities."""
    known = ("logistic", *NAMED)
    if isinstance(classifier, str):
        if classifier not in known:
            raise InputError(
                f'classifier "{classifier}" is unknown: there are {", ".join(known)}, or pass a scikit-learn classifier'
            )
    else:
        from invariscope.ratios.classifiers import refuse_no_classifier

        refuse_no_classifier(classifier, "telling environments apart needs")
    return classifier


def rows_of(sample: Sample) -> GroupedRows:
    """The rows of a sample, each environment's in an order that follows from what they hold.

    Those of weight 0 are not there; whole weights are written out.
    """
    codes, columns, weight = sample.data.codes, sample.columns, sample.weight
    order = np.lexsort((columns @ direction(columns.shape[1]), codes))
    if weight is not None:
        order = order[weight[order] > 0]
        weight = weight[order]
        if (times := whole(weight)) is not None:
            order, weight = np.repeat(order, times), None
    sizes = np.bincount(codes[order], minlength=len(sample.data))
    return GroupedRows(columns[order], np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp), weight)


def rows_to_judge(sample: Sample) -> GroupedRows:
    """The same, where every environment has enough of them for every fold."""
    rows = rows_of(sample)
    sizes = np.diff(rows.offsets)
    if sizes.min() < FEWEST:
        label = sample.data.labels[int(sizes.argmin())]
        raise InputError(
            f"{sample.data.name(label)} has {sizes.min()} rows, and classifiers that are judged on rows they have not "
            f"seen need {FEWEST} of every environment: drop it, or merge it with another",
            environments=[label],
        )
    return rows


def judged(classifier: Any, rows: GroupedRows, rng: np.random.Generator, fold: Integers | None = None) -> Judged:
    """What a classifier says of rows it has not seen, crosswise and ahead; the folds are dealt by content if not given.

    The last fold is judged by the same fit in both ways.
    """
    if fold is None:
        fold = folds_by_content(rows.X, rows.offsets, FOLDS)
    crossed, ahead = np.empty((2, len(fold), rows.environments))
    ahead[fold == 0] = np.nan
    for k in range(FOLDS):
        out = fold == k
        fit = FittedClassifier.of(classifier, rows.take(~out), rng)
        crossed[out] = fit.log_probabilities(rows.X[out])
        if 0 < k < FOLDS - 1:
            ahead[out] = FittedClassifier.of(classifier, rows.take(fold < k), rng).log_probabilities(rows.X[out])
        elif k:
            ahead[out] = crossed[out]
    return Judged(rows, fold, crossed, ahead, fit.description)
