"""What every comparator returns: how different environments look, by how much chance alone would, and pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from invariscope.results import Estimate, Label, Result
from invariscope.rows.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class ComparatorResult(Result):
    """A test of whether environments are alike in ``compared``: "z", "(z, y)" or "predictions" and the like.

    ``null`` holds the statistic for environments dealt at random, ``pvalue`` the share of them at least as large.
    ``pairs[a, b]`` is the statistic of ``labels[a]`` and ``labels[b]`` alone (0 on the diagonal; empty for statistics
    that have no pairs), ``pair_pvalues`` allow for having looked at all pairs. ``per_environment`` compares each with
    all others together. ``estimator`` says how it was computed: "exact", or what took over where rows are too many.
    """

    interval: tuple[float, float] = (math.nan, math.nan)
    pvalue: float = math.nan
    null: Floats = field(repr=False, default_factory=lambda: np.empty(0))
    labels: tuple[Label, ...]
    pairs: Floats = field(repr=False, default_factory=lambda: np.empty((0, 0)))
    pair_pvalues: Floats = field(repr=False, default_factory=lambda: np.empty((0, 0)))
    per_environment: Mapping[Label, Estimate] = field(default_factory=dict)
    compared: str
    estimator: str = "exact"


@dataclass(frozen=True, kw_only=True)
class DomainClassifierResult(ComparatorResult):
    """How well the environment can be told from its rows; see :func:`invariscope.domain_classifier`.

    ``value`` is the accuracy on unseen rows, ``chance`` that of always naming the largest environment. ``auc`` is the
    mean over environments of the area under the curve, each against all others, which are ``per_environment``; ½ is
    chance. ``pairs`` are the areas for two environments alone, ½ on the diagonal. ``statistic``, ``null``, ``pvalue``
    are about the mean area where every fold is judged by a fit to the folds before it; ``accuracy_ahead``,
    ``accuracy_null`` and ``accuracy_pvalue`` about the accuracy there.
    """

    chance: float
    auc: float
    statistic: float
    accuracy_ahead: float
    accuracy_pvalue: float
    accuracy_null: Floats = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class ConditionalInformationResult(ComparatorResult):
    """What the target tells of the environment beyond the prediction, in nats.

    See :func:`invariscope.conditional_mutual_information`. ``corrected`` is the value without the bias of counting
    (Miller and Madow), and not below 0. ``statistic`` is what ``null`` and ``pvalue`` are about: the value itself where
    rows are counted, and where classifiers judge them what they gain on rows that they were not fitted to, beyond
    chance. ``strata`` is how many different predictions there are; 0 where they were not counted.
    """

    corrected: float
    statistic: float
    strata: int
