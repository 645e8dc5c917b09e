"""From what classifiers said of rows to how well environments are told apart, and how well by chance."""

from __future__ import annotations

import numpy as np

from invariscope.criteria.comparators.fold_scores import Judged
from invariscope.criteria.comparators.rank_sums import Gains, accuracy_and_areas, dealt, pair_areas, pair_pvalues
from invariscope.criteria.comparators.result import DomainClassifierResult
from invariscope.criteria.comparators.samples import Sample
from invariscope.results import Estimate
from invariscope.rows.resampling import notes_on_weights, pvalue
from invariscope.rows.settings import NOT_DRAWN


def told_apart(
    sample: Sample, said: Judged, draws: int, rng: np.random.Generator, estimator: str
) -> DomainClassifierResult:
    """Accuracy and areas crosswise; p-values by dealing environments within folds that are judged ahead."""
    data, later, codes = sample.data, said.later, said.rows.codes
    whole = [
        Gains.of(said.crossed[rows], codes[rows], said.weight[rows])
        for rows in (said.fold == k for k in np.unique(said.fold))
    ]
    groups = [
        Gains.of(said.ahead[rows], codes[rows], said.weight[rows])
        for rows in (said.fold == k for k in np.unique(said.fold[later]))
    ]
    accuracy, areas = accuracy_and_areas(whole, [group.codes[None] for group in whole])
    hit_ahead, areas_ahead = accuracy_and_areas(groups, [group.codes[None] for group in groups])
    accuracy_null, null_areas = dealt(groups, draws, rng)
    null, ahead = null_areas.mean(axis=1), float(areas_ahead[0].mean())
    pairs, _ = pair_areas(said.crossed, codes, said.fold, said.weight)
    worth = said.weight if said.rows.weight is None else said.weight * said.weight.sum() / (said.weight**2).sum()
    # dealt are rows: those whose weights are no counts vary as so many rows as they are worth
    _, deviations = pair_areas(said.ahead[later], codes[later], said.fold[later], worth[later])
    shares = said.rows.totals / said.rows.totals.sum()
    return DomainClassifierResult(
        value=float(accuracy[0]),
        pvalue=pvalue(ahead, null),
        null=null,
        labels=data.labels,
        pairs=pairs,
        pair_pvalues=pair_pvalues(deviations) if draws else np.full(pairs.shape, np.nan),
        per_environment={label: Estimate(float(area)) for label, area in zip(data.labels, areas[0], strict=True)},
        compared=sample.compared,
        estimator=estimator,
        notes=(*data.notes, *notes_on_weights(data.weight), *(() if draws else (NOT_DRAWN,))),
        chance=float(shares.max()),
        auc=float(areas[0].mean()),
        statistic=ahead,
        accuracy_ahead=float(hit_ahead[0]),
        accuracy_pvalue=pvalue(float(hit_ahead[0]), accuracy_null),
        accuracy_null=accuracy_null,
    )
