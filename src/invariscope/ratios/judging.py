"""What the rows say about a fitted ratio: do they overlap, has the estimator failed, how often are they guessed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from invariscope.ratios.accuracy import Guesses
from invariscope.ratios.estimator import Fit, GroupedRows, JointFit, Units
from invariscope.ratios.overlap import failed, mean_off, overlap_of, remarks
from invariscope.results import Overlap
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import folds_by_content, whole


@dataclass(frozen=True)
class Judgement:
    """Scores (n, E) at all rows and what they say.

    ``own`` is the overlap by the rows an estimator is judged by, those it was fitted on: how far off it is on rows held
    out, folds of few rows decide. A ratio from elsewhere is not judged by these rows, which may be others.
    """

    scores: Floats
    overlap: Overlap
    guesses: Guesses
    own: Overlap
    from_elsewhere: bool = False

    @property
    def failed(self) -> Booleans:
        """Pairs on which the estimator has failed: (E, E)."""
        return failed(self.own) & (not self.from_elsewhere)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know before trusting the ratio."""
        wrong = self.failed
        told = [f"The estimator has failed: {mean_off(self.own, wrong)}."] if wrong.any() else []
        return (*told, *self.guesses.notes, *remarks(self.overlap, wrong))


def judge_fit(data: Environments, rows: GroupedRows, units: Units, fit: Fit, folds: int | Integers) -> Judgement:
    """A fit by ``rows``, those it was fitted on; with folds, their scores are those of fits that did not see them."""
    seen, own = fit.scores_at(rows), fit.held_out
    held_out = own if isinstance(folds, int) and folds < 2 else _held_out(fit, rows, folds)
    pairwise, everywhere = not isinstance(fit, JointFit), rows
    if len(rows.X) < len(data.X):  # rows of weight 0 were not fitted on
        everywhere = GroupedRows(units.apply(data.X), data.offsets)
    backward = fit.backward_at(everywhere)

    def overlap(fitted_on: Floats) -> tuple[Floats, Overlap]:
        scores = fitted_on
        if everywhere is not rows:
            scores = fit.scores_at(everywhere)
            scores[np.asarray(data.weight) > 0] = fitted_on
        return scores, overlap_of(data, scores, pairwise, backward)

    scores, found = overlap(seen if held_out is None else held_out)
    mine = found if held_out is own else overlap(seen if own is None else own)[1]
    return Judgement(scores, found, Guesses.of(rows, seen, held_out, pairwise), mine)


def judge_given(data: Environments, rows: GroupedRows, fit: Fit) -> Judgement:
    """A fit from elsewhere at these rows, all that are stored."""
    scores, pairwise = fit.scores_at(rows), not isinstance(fit, JointFit)
    overlap = overlap_of(data, scores, pairwise, fit.backward_at(rows))
    return Judgement(scores, overlap, Guesses.of(rows, scores, None, pairwise), overlap, from_elsewhere=True)


def _held_out(fit: Fit, rows: GroupedRows, fold: Integers | int) -> Floats:
    """Scores of every row by a fit that did not see its fold; choices are those made on all rows.

    A row that stands for several has copies in several folds; it gets the mean of theirs.
    """
    counts = None if rows.weight is None or not isinstance(fold, int) else whole(rows.weight)
    written = rows if counts is None else rows.written_out(counts)
    if isinstance(fold, int):
        fold = folds_by_content(written.X, written.offsets, fold)
    scores = np.empty((len(written.X), rows.environments))
    for k in np.unique(fold):
        out = fold == k
        scores[out] = fit.again(written.take(~out)).scores_at(written.take(out))
    if counts is None:
        return scores
    return np.asarray(np.add.reduceat(scores, np.cumsum(counts) - counts) / counts[:, None])
