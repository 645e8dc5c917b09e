"""E[Y | φ(x)] of every environment by itself, which equation 4 has where the published estimator has the model."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from invariscope.criteria.transport.outcome_models import ROWS_PER_PARAMETER, class_counts
from invariscope.errors import InputError
from invariscope.heads.fit import fit_own
from invariscope.heads.linear_head import probabilities_of
from invariscope.heads.losses import loss_of
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import folds_by_content, whole
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads
from invariscope.wording import count

FOLDS = 5
ROWS_PER_FOLD = 10  # with fewer, too little is left to fit on


@dataclass(frozen=True)
class OwnMeans:
    """m̂_e(φ(x)) at the rows of every environment e, by a linear head (on log-odds for classes) fitted in e alone.

    Rows of an environment are dealt into five folds, and each is judged by the head fitted without its fold; with
    fewer than 50 rows in the smallest environment, by the head fitted on all. ``values`` (n, K) are those of the stored
    rows: numbers, probabilities of the second of two classes, or of every class.
    """

    columns: Floats
    target: Target
    fold: Integers
    values: Floats

    @classmethod
    def of(cls, data: Environments, columns: Floats, target: Target) -> OwnMeans:
        """Of the rows of ``data`` with φ(x) as their ``columns``, both in the stored order.

        A row that stands for several has copies in several folds, and gets the mean of theirs.
        """
        _refuse_too_few(data, target, columns.shape[1])
        index, weight = np.arange(len(columns)), None
        if data.weight is not None:
            copies = whole(data.weight)
            index = np.flatnonzero(data.weight > 0) if copies is None else np.repeat(index, copies)
            weight = data.weight[index] if copies is None else None
        offsets = np.searchsorted(index, data.offsets)
        fold = np.zeros(len(index), dtype=np.intp)
        if np.diff(offsets).min() >= FOLDS * ROWS_PER_FOLD:
            fold = folds_by_content(columns[index], offsets, FOLDS, tie=target.values[index])
        found = _judged(columns[index], target, index, offsets, weight, fold)
        times = np.bincount(index, minlength=len(columns))
        values = np.zeros((len(columns), found.shape[1]))
        np.add.at(values, index, found)
        values /= np.maximum(times, 1)[:, None]
        of_row = np.zeros(len(columns), dtype=np.intp)
        of_row[index[::-1]] = fold[::-1]  # drawn anew, a row keeps all its copies in one fold: none sees another
        return cls(columns, target, of_row, values)

    def again(self, index: Integers, offsets: Integers, weight: Floats | None) -> Floats:
        """The same on other rows, row i of which is stored row ``index[i]``: heads are fitted to these."""
        return _judged(self.columns[index], self.target, index, offsets, weight, self.fold[index])


def _judged(
    columns: Floats, target: Target, index: Integers, offsets: Integers, weight: Floats | None, fold: Integers
) -> Floats:
    """Every row by the head of its own environment that was fitted without its fold; of one fold by that of all."""
    data = Environments(columns, None, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), weight)
    here = Target(target.task, target.values[index], target.classes)
    n_scores = loss_of(here).n_scores
    counted = np.ones(len(columns)) if weight is None else weight
    scores = np.empty((len(columns), n_scores))
    folds = np.unique(fold)
    for k in folds:
        train = data if len(folds) == 1 else data.with_weight(np.where(fold == k, 0.0, counted))
        theta = fit_own(train, here).theta.reshape(len(data), n_scores, -1)
        for e, (start, stop) in enumerate(itertools.pairwise(offsets)):
            for block, design in data.blocks.designs(slice(int(start), int(stop))):
                held_out = fold[block] == k
                scores[block.start + np.flatnonzero(held_out)] = design[held_out] @ theta[e].T
    if here.task == "regression":
        return scores
    shares = probabilities_of(scores)
    return shares[:, 1:] if n_scores == 1 else shares


def _refuse_too_few(data: Environments, target: Target, columns: int) -> None:
    refuse_unfit_for_own_heads(data, target)
    rows = data.rows if target.task == "regression" else class_counts(data, target).min(axis=1)
    least = int(np.argmin(rows))
    wanted = ROWS_PER_PARAMETER * (columns + 1)
    if rows[least] < wanted:
        of_class = "" if target.task == "regression" else " of its rarest class"
        raise InputError(
            f"{data.name(data.labels[least])} has {rows[least]:,.0f} rows{of_class}, and a conditional mean of its own "
            f"on {count(columns, 'column')} asks for {wanted}: give fewer columns (svd= reduces them), drop that "
            'environment, or leave out terms="own_means"'
        )
