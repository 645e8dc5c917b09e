"""A classifier that learned to tell environments apart by one model's rows, and is asked about another's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.comparators.fold_scores import FittedClassifier, Judged, checked_classifier, rows_of
from invariscope.criteria.comparators.result import DomainClassifierResult
from invariscope.criteria.comparators.samples import Sample, sample_of, target_columns
from invariscope.criteria.comparators.told_apart import told_apart
from invariscope.errors import InputError
from invariscope.ratios.estimator import GroupedRows, Units
from invariscope.rows.arrays import Floats
from invariscope.rows.resampling import generator
from invariscope.rows.settings import NOT_DRAWN, number_of_draws
from invariscope.rows.targets import target_of

SEEN = (
    "The classifier was trained on these rows, or on rows with these very environments and targets: accuracy and areas "
    "are in-sample, and no p-value is given."
)


class EnvironmentClassifier:
    """A classifier of the environment that is trained once, on (z, y) of one model, and applied to those of others.

    This is the protocol of the DRIC paper (appendix B.4): train it on the rows of a model that is not invariant, apply
    it to those of others.

    What it cannot tell: differences that the first model's rows do not show, or show in other columns or units; and on
    the rows it was trained on it is right for having seen them.

    Parameters
    ----------
    classifier, on, task, seed : as those of :func:`~invariscope.domain_classifier`

    >>> rng = np.random.default_rng(0)
    >>> site = np.repeat(["Bern", "Oslo"], 200)
    >>> z, y = rng.normal(size=(400, 1)), rng.normal(size=400)
    >>> trained = EnvironmentClassifier().fit(z + 3.0 * (site == "Oslo")[:, None], y, site)
    >>> other = rng.normal(size=(400, 1)), rng.normal(size=400), site
    >>> round(trained.apply(*other).auc, 1)
    0.5
    """

    def __init__(self, classifier: Any = "logistic", *, on: str = "auto", task: str = "auto", seed: int = 0) -> None:
        self.classifier, self.on, self.task, self.seed = classifier, on, task, seed

    def __repr__(self) -> str:
        name = self.classifier if isinstance(self.classifier, str) else type(self.classifier).__name__
        names = f"trained to name {', '.join(map(str, self.labels_))}" if hasattr(self, "fitted_") else "not trained"
        return f"<EnvironmentClassifier ({name}), {names}>"

    def fit(self, Z: Any, y: Any = None, env: Any = None, *, weight: Any = None) -> EnvironmentClassifier:
        """Train it on rows ``Z`` with targets ``y`` from ``env``; ``weight`` counts rows."""
        rng = generator(self.seed)
        sample, self.classes_ = self._sample(Z, y, env, weight)
        self.labels_ = sample.data.labels
        columns, weights = sample.columns, sample.weight
        centre = np.average(columns, axis=0, weights=weights)
        spread = np.sqrt(np.average((columns - centre) ** 2, axis=0, weights=weights))
        self.units_ = Units(np.arange(columns.shape[1]), centre, np.where(spread > 0, spread, 1.0))
        self.fitted_ = FittedClassifier.of(checked_classifier(self.classifier), self._rows(sample), rng)
        self.seen_ = _who_is_where(sample)
        return self

    def apply(
        self, Z: Any, y: Any = None, env: Any = None, *, weight: Any = None, n_boot: int = 999, seed: int = 0
    ) -> DomainClassifierResult:
        """How well it tells the environments of other rows apart, which have the same columns and the same labels."""
        draws, rng = number_of_draws(n_boot), generator(seed)
        if not hasattr(self, "fitted_"):
            raise InputError("the classifier was not trained: call fit first")
        sample, classes = self._sample(Z, y, env, weight)
        if sample.columns.shape[1] != len(self.units_.columns) or classes != self.classes_:
            raise InputError(
                f"the classifier was trained on {len(self.units_.columns)} columns of representation and target, and "
                f"these rows have {sample.columns.shape[1]}: give a representation of the same width, and a target of "
                "the same classes"
            )
        if sample.data.labels != self.labels_:
            raise InputError(
                f"the classifier was trained on {', '.join(map(str, self.labels_))}, but the rows come from "
                f"{', '.join(map(str, sample.data.labels))}: give rows of the same environments"
            )
        rows = self._rows(sample)
        scores = self.fitted_.log_probabilities(rows.X)
        seen = _same(self.seen_, _who_is_where(sample))
        said = Judged(rows, np.zeros(len(rows.X), dtype=np.intp), scores, scores, self.fitted_.description)
        estimator = f"{said.description}, trained on other rows" if not seen else f"{said.description}, in-sample"
        result = told_apart(sample, said, 0 if seen else draws, rng, estimator)
        if not seen or not draws:
            return result
        return replace(result, notes=(*(note for note in result.notes if note != NOT_DRAWN), SEEN))

    def _sample(self, Z: Any, y: Any, env: Any, weight: Any) -> tuple[Sample, tuple[Any, ...]]:
        """The rows in the user's own units, and the classes of the target."""
        sample = sample_of(Z, y, env, weight, on=self.on, task=self.task)
        z, classes = np.asarray(sample.data.X, dtype=np.float64), ()
        if not sample.y.shape[1]:
            return replace(sample, z=z), classes
        target = target_of(sample.data, self.task)
        return replace(sample, z=z, y=target_columns(target)), target.classes

    def _rows(self, sample: Sample) -> GroupedRows:
        """The rows in the units of those it is trained on."""
        rows = rows_of(sample)
        return replace(rows, X=self.units_.apply(rows.X))


def _who_is_where(sample: Sample) -> tuple[Floats, Floats]:
    """Rows by all they hold, and by environment and target alone: another model's rows have these in common."""
    where = sample.data.codes[:, None].astype(np.float64)
    return np.hstack([where, sample.z, sample.y]), np.hstack([where, sample.y])


def _same(trained: tuple[Floats, Floats], given: tuple[Floats, Floats]) -> bool:
    """Whether these are rows it was trained on: all or some of them, in any order, also of another model.

    They are if more than half of them hold what exactly one row of those it was trained on holds. Of new rows with
    values that repeat, at most about 1/e do by chance: k e^{−k}, where each value is held by k rows on average.
    Classes repeat too often for that; there, the same classes in the same order are the same rows.
    """
    if given[1].shape[1] > 1 and np.array_equal(trained[1], given[1]):
        return True
    return any(_known(before, now) > 0.5 for before, now in zip(trained, given, strict=True))


def _known(trained: Floats, given: Floats) -> float:
    """The share of rows that hold what exactly one row of the others holds."""
    held, times = np.unique(trained, axis=0, return_counts=True)
    once = held[times == 1]
    both, place = np.unique(np.concatenate([once, given]), axis=0, return_inverse=True)
    there = np.zeros(len(both), dtype=bool)
    there[place.reshape(-1)[: len(once)]] = True
    return float(there[place.reshape(-1)[len(once) :]].mean())
