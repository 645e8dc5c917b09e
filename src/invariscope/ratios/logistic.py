"""Density ratios by probabilistic classification: one multinomial logistic regression of the environment on x."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from invariscope.ratios.basis import Basis, Expansion, bases_for
from invariscope.ratios.estimator import GroupedRows, JointFit
from invariscope.ratios.multinomial import Multinomial, fit_multinomial
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import run_over_rows
from invariscope.rows.resampling import folds_by_content, places_by_content, whole

RIDGE = 1.0  # on standardised columns, against the summed log-loss; any keeps ratios finite
STRONGER, WEAKER = (10.0, 100.0, 1000.0), (0.1, 0.01, 0.001)
FOLDS = 5
ROWS_TO_CHOOSE = 10_000  # enough to tell bases apart, so that the choice costs the same however many rows there are
COARSE = 0.1  # nats: a choice between bases needs no more


@dataclass(frozen=True)
class LogisticFit(JointFit):
    """Log densities linear in a basis: B(x) Wᵀ + b, less the logarithm of the environments' sizes."""

    basis: Basis
    model: Multinomial
    ridge: float
    totals: Floats = field(repr=False)
    notes: tuple[str, ...] = ()
    held_out: Floats | None = None

    @property
    def description(self) -> str:
        return f"logistic regression on a {self.basis.name} basis, ridge {self.ridge:g}"

    def log_densities(self, X: Floats) -> Floats:
        expanded, shift = Expansion(self.basis, X), self.model.bias - np.log(self.totals)
        parts = run_over_rows(lambda rows: expanded[rows] @ self.model.weight.T + shift, len(X))
        return np.concatenate(parts) if parts else np.empty((0, len(shift)))

    def again(self, rows: GroupedRows) -> LogisticFit:
        return _fitted(rows, self.basis, self.ridge, self.model)


def fit_logistic(rows: GroupedRows, rng: np.random.Generator) -> LogisticFit:
    """Fit p̂(e | x) and correct for the sizes: ρ̂_{e,e'} = n_e' p̂(e | x) / (n_e p̂(e' | x))   (eq. 10 of the paper).

    A linear basis sees shifts of the mean but not of the spread, so richer ones (squares, second order, splines) are
    tried, and the one that gives unseen rows the smallest log-loss is taken, with the ridge that suits it.
    """
    few = _at_most(rows, ROWS_TO_CHOOSE)
    best = _with_best_ridge(_with_best_basis(few, folds_by_content(few.X, few.offsets, FOLDS)))
    return _fitted(rows, best.basis, best.ridge, best.model)


def _fitted(rows: GroupedRows, basis: Basis, ridge: float, start: Multinomial | None) -> LogisticFit:
    model = fit_multinomial(Expansion(basis, rows.X), rows.offsets, rows.weight, ridge, start)
    return LogisticFit(basis, model, ridge, rows.totals)


def _with_best_basis(few: GroupedRows, fold: Integers) -> _Trial:
    """A simple basis whose log-loss on unseen rows is within one standard error of the best.

    Bases are compared on one fold after another; those worse than the best by more than two standard errors of the
    difference leave, so that with many rows a fold or two is all it takes.
    """
    trials = [_Trial(basis, few, fold, RIDGE) for basis in bases_for(few)]
    for k in range(FOLDS):
        for trial in trials:
            if trial.model is None:
                trial.start_from(trials)
            trial.judge(k)
        best = min(trials, key=lambda trial: trial.loss)
        trials = [trial for trial in trials if not trial.worse_than(best, 2.0)]
        if len(trials) == 1:
            break
    # squares cost little, and a small change of spread goes unseen without them; others must win by more than chance
    plain = [trial for trial in trials if trial.basis.name in ("linear", "squares")]
    if plain and not (simple := min(plain, key=lambda trial: trial.loss)).worse_than(best, 1.0):
        return simple
    return next(trial for trial in trials if not trial.worse_than(best, 1.0))


def _with_best_ridge(best: _Trial) -> _Trial:
    """The same basis with a stronger or weaker ridge, as long as each is better by more than chance."""
    for ridges in (STRONGER, WEAKER):
        for ridge in ridges:
            trial = _Trial(best.basis, best.rows, best.fold, ridge, best.model)
            for k in best.judged:
                trial.judge(k)
            if not best.worse_than(trial, 1.0):
                break
            best = trial
        if best.ridge != RIDGE:
            break
    return best


class _Trial:
    """A basis on trial: the losses of the rows of the folds it was judged on."""

    def __init__(
        self, basis: Basis, rows: GroupedRows, fold: Integers, ridge: float, start: Multinomial | None = None
    ) -> None:
        self.basis, self.rows, self.fold, self.ridge, self.model = basis, rows, fold, ridge, start
        self.expanded = basis.expand(rows.X)
        self.judged: list[int] = []
        self.losses, self.counts = np.empty(0), np.empty(0)

    def start_from(self, others: list[_Trial]) -> None:
        """Take over the fit of the basis that shares the most columns: the first ones are always the same."""
        d, squares = self.rows.X.shape[1], self.basis.squares
        fitted = [(d + min(len(t.basis.squares), len(squares)), t.model) for t in others if t.model is not None]
        if fitted:
            common, model = max(fitted, key=lambda shared: shared[0])
            weight = np.zeros((len(model.bias), self.expanded.shape[1]))
            weight[:, :common] = model.weight[:, :common]
            self.model = Multinomial(weight, model.bias)

    def judge(self, k: int) -> None:
        """Fit on all folds but k, and take the losses on fold k."""
        self.judged.append(k)
        out = self.fold == k
        seen = self.rows.take(~out)
        self.model = fit_multinomial(
            self.expanded[~out], seen.offsets, seen.weight, self.ridge, self.model, tolerance=COARSE
        )
        log_probabilities = self.model.log_probabilities(self.expanded[out])
        codes, weight = self.rows.codes[out], self.rows.weight
        self.losses = np.append(self.losses, -log_probabilities[np.arange(len(log_probabilities)), codes])
        self.counts = np.append(self.counts, np.ones(len(log_probabilities)) if weight is None else weight[out])

    @property
    def loss(self) -> float:
        return float(np.average(self.losses, weights=self.counts))

    def worse_than(self, best: _Trial, errors: float) -> bool:
        """Whether its loss is larger by more than so many standard errors of the difference."""
        difference = self.losses - best.losses
        mean = np.average(difference, weights=self.counts)
        variance = np.average((difference - mean) ** 2, weights=self.counts) / self.counts.sum()
        return bool(mean > errors * np.sqrt(variance))


def _at_most(rows: GroupedRows, limit: int) -> GroupedRows:
    """All rows, or some drawn by lot of the environments that have more than their share of ``limit`` rows.

    Whole weights are written out, so that a row that stands for two may be in two folds, as two rows may.
    """
    counts = None if rows.weight is None else whole(rows.weight)
    if counts is not None:
        rows = rows.written_out(counts)
    strides = np.maximum(1, np.diff(rows.offsets) * rows.environments // limit)
    if np.all(strides == 1):
        return rows
    return rows.take(places_by_content(rows.X, rows.offsets) % np.repeat(strides, np.diff(rows.offsets)) == 0)
