"""Transport gap: by how much the mean outcome of one environment would move under the relation of another."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from scipy.special import stdtrit

from invariscope.criteria.material import AuditOptions, Material, fittable_apart, have
from invariscope.criteria.registry import criterion
from invariscope.criteria.regret.inference import MISSED, Draws, invert
from invariscope.criteria.transport.estimates import Gaps, estimate_gaps
from invariscope.criteria.transport.outcome_models import (
    OutcomeModels,
    class_counts,
    fit_linear_heads,
    given_predictions,
)
from invariscope.errors import InputError
from invariscope.heads.losses import loss_of
from invariscope.models.outputs import HARD_LABELS, are_hard, counted_by_environment, prediction_columns
from invariscope.ratios.density_ratio import DensityRatio, ratio_for
from invariscope.ratios.estimator import Units, grouped_rows
from invariscope.results import Overlap, TransportGapResult
from invariscope.rows.arrays import Booleans, Floats, Integers
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import folds_by_content, generator, pvalue, whole
from invariscope.rows.settings import MOST_FOLDS, NOT_DRAWN, number_of_draws, whole_number
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads, target_of, target_of_columns
from invariscope.wording import listed, names

FEWEST_ROWS = 20  # effective rows below which a weighted mean has no standard error to speak of
ROWS_PER_FOLD = 10  # with fewer, too little is left to fit on
APART = 0.5  # of the spreads of two environments together: a distance of their means worth naming
NOISELESS = "No interval and no p-value: the outcome models make no error, so there is no noise to judge gaps by."
NO_NOISE = 1e-10  # of the target's spread: a standard error below it is rounding error
LARGEST_SPREAD = 0.5  # of anything between 0 and 1: a larger standard error says that nothing is known
DRAWN_AT_ONCE = 2e7  # numbers
MOST_WORK = 2e10  # environments × the cube of their means, in an audit: each has a matrix decomposed; ten seconds or so
MOST_NUMBERS = 5e8  # in all these matrices: 4 GB


def _from_material(material: Material, options: AuditOptions) -> TransportGapResult:
    rows = have(fittable_apart(material.compared, material.target))
    means = _means_of_one(rows, material.target)
    if len(rows) * means**3 > MOST_WORK:
        raise InputError(
            f"{len(rows) * (len(rows) - 1):,} pairs of {len(rows):,} environments take minutes to compare. Group the "
            "environments into fewer; up to about 500, iv.transport_gap itself takes its time."
        )
    return transport_gap(rows, ratio=options.ratio, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Transport gap",
    needs={"compared", "target"},
    better="lower",
    tells="How far the mean outcome of one environment would move if the relation found in another held there.",
    cannot_tell=(
        "Differences that cancel in the mean, and anything where environments do not overlap: those pairs are left out."
    ),
    call=_from_material,
)
def transport_gap(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    predictions: Any = None,
    ratio: Any = "logistic",
    folds: int = 5,
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> TransportGapResult:
    """If the relation between z and y found in one environment held in another, how far would its mean outcome move?

        δ(e, e') = Σ_{i in e'} ρ̂_i r_i / Σ_{i in e'} ρ̂_i − mean_e[ r ],     r = y − f̂_{e'}(z),   ρ̂ = dP_e / dP_e' (z)

    estimates E_e[ m_{e'}(Z) ] − E_e[ Y ], m_{e'}(z) = E[Y | z] in e'. It is 0 for all pairs if E[Y | z] is the same
    everywhere. This is the published density-ratio criterion (eq. 6 of the DRIC paper) made doubly robust by applying
    it to residuals: right if either the density ratio or the outcome model is. Both judge rows they have not seen.

    Standard errors come from influence functions, including that of fitting f̂ where the weights leave z unbalanced, so
    that they also hold where the ratio is wrong but f̂ is not; a wrong f̂ needs a good ratio. ``value`` sums the gaps up:

        value = mean over pairs of (δ̂² − SE²) / variance of y within environments

    0 on average under invariance (so noise may make it negative), whatever the units of y. It is not divided by the gap
    of a baseline, as DRIC is: where the raw inputs are invariant, that would be a division by 0.

    Parameters
    ----------
    Z : (n, d) representation, or an :class:`~invariscope.Environments` (then ``y`` and ``env`` are left out)
    y : (n,) target
    env : (n,) environment labels
    predictions : outcome model of the user's own instead of a linear head per environment, one for all of them: (n,)
        numbers, or probabilities (n,) or (n, K) for classes; from a model that was not fitted on these rows
    ratio : estimator of :func:`~invariscope.density_ratio`, a fitted one, or a function from rows to log densities
    folds : every row is judged by models fitted without its fold
    task : "auto", "regression" or "classification"
    n_boot : draws for the p-values and for the interval of ``value``, which are NaN for 0; intervals of pairs need none
    weight : rows each row stands for

    Returns
    -------
    TransportGapResult
        ``pairs[a, b]``, its standard error ``se[a, b]`` and its 95 % ``pair_intervals[a, b]`` are for e = ``labels[a]``
        under the relation of e' = ``labels[b]``: in units of y, or in probability for classes (with two, that of the
        second in sorted order). ``pvalue`` is that of "no pair moves", from the largest |δ| / SE; ``pair_pvalues``
        allow for having looked at all pairs (the diagonal is 0 with p = 1). With three or more classes
        ``by_class[a, b]`` has the gap of every class, and ``pairs`` that of the one that moves most for its standard
        error, ``moving_class``; p-values allow for that choice, intervals do not. ``interval`` is that of ``value``;
        ``outcome`` and ``ratio`` say in words what was fitted. Pairs of too little ``overlap``, or with fewer than 20
        effective rows, are NaN and named in ``notes``.

    What it cannot tell: it looks at means only, so relations may differ and cancel (the regret sees that). Where rows
    of e have no like in e', nothing can say what the relation of e' would do. It extrapolates to no other environment.

    References: "Measuring invariance in representation learning" (DRIC); Robins, Rotnitzky and Zhao (1994) and
    Chernozhukov et al. (2018) for double robustness and cross-fitting; Satterthwaite (1946) and Wallace (1959) for t.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(1600, 2)), np.repeat(["Bern", "Rome"], 800)
    >>> y = z[:, 0] + 0.5 * (env == "Rome") + rng.normal(size=1600)
    >>> result = transport_gap(z, y, env)
    >>> print(np.round(result.pairs, 1) + 0.0)  # under Rome's relation, the mean of y in Bern would be 0.5 higher
    [[ 0.   0.5]
     [-0.5  0. ]]
    >>> result.pvalue
    0.001
    """
    data = Environments.of(Z, y, env, weight)
    folds, n_boot = whole_number(folds, "folds", 2, MOST_FOLDS), number_of_draws(n_boot)
    with counted_by_environment(data):
        given = None if predictions is None else prediction_columns(predictions, len(data.X))
    counts = None if data.weight is None else whole(data.weight)
    if counts is not None:  # a row that stands for two may then be in two folds, as two rows may
        given = None if given is None else np.repeat(data.grouped(given, "predictions"), counts, axis=0)
        data = data.written_out(counts)
    target = target_of(data, task) if given is None else target_of_columns(data, task, columns=given.shape[1])
    refuse_unfit_for_own_heads(data, target)
    numbers = len(data) * _means_of_one(data, target) ** 2
    if numbers > MOST_NUMBERS:
        raise InputError(
            f"comparing {len(data):,} environments with each other takes {numbers * 8e-9:,.0f} GB of memory: group "
            "them into fewer"
        )
    ratio_rng, draw_rng = generator(seed).spawn(2)
    with one_blas_thread():
        fold, used, notes = _folds(data, target, folds)
        if given is not None and target.task != "regression" and are_hard(given):
            warnings.warn(HARD_LABELS, stacklevel=2)
            notes = (*notes, HARD_LABELS)
        held_out = fold[fold >= 0] if used > 1 else 0
        fitted = ratio_for(data, ratio, folds=held_out, rng=ratio_rng, refuse_failed=False)
        outcome = (
            fit_linear_heads(data, target, fold, used) if given is None else given_predictions(data, target, given)
        )
        gaps = estimate_gaps(data, outcome, data.grouped(fitted.at_rows, "ratio"))
        return _result(data, target, fitted, outcome, gaps, n_boot, draw_rng, notes)


def _means_of_one(data: Environments, target: Target) -> int:
    """How many means the rows of one environment enter: with every other, weighted and as they are, by class."""
    return 2 * len(data) * loss_of(target).n_scores


def _folds(data: Environments, target: Target, folds: int) -> tuple[Integers, int, tuple[str, ...]]:
    """The fold of every row (−1 if it has no weight), by lot, how many there are (perhaps one), and why."""
    rows = grouped_rows(data, Units.of(data))
    sizes = np.diff(rows.offsets)
    fold = np.full(len(data.X), -1)
    counted = slice(None) if data.weight is None else data.weight > 0
    if sizes.min() < ROWS_PER_FOLD * folds:
        fold[counted] = 0
        least = data.labels[int(sizes.argmin())]
        few = int(np.count_nonzero(sizes < ROWS_PER_FOLD * folds))
        who = f"{data.name(least)} has {sizes.min()} rows,"
        who = who[0].upper() + who[1:] if few == 1 else f"{few} environments have rows (down to {sizes.min()})"
        return fold, 1, (f"{who} too few to hold some out: models saw the rows they judge.",)
    # rows of the same z but another outcome are different rows
    fold[counted] = folds_by_content(rows.X, rows.offsets, folds, tie=target.values[counted])
    return fold, folds, ()


def _result(
    data: Environments,
    target: Target,
    fitted: DensityRatio,
    outcome: OutcomeModels,
    gaps: Gaps,
    n_boot: int,
    rng: np.random.Generator,
    notes: tuple[str, ...],
) -> TransportGapResult:
    count = len(data)
    diagonal = np.eye(count, dtype=bool)
    wrong = fitted.failed
    far_off, unsure = _refused(fitted.overlap) & ~wrong, _undetermined(target, gaps)
    refused = wrong | far_off | unsure
    compared = ~(refused | diagonal)
    variance = _variance_within(data, target)
    rounding = NO_NOISE * math.sqrt(variance)
    noise = np.maximum(gaps.se, rounding)
    # as far out under a normal law as t is under its own (Wallace), so that one null serves all degrees of freedom
    freedom = gaps.freedom
    t = np.where(np.abs(gaps.gap) > rounding, np.abs(gaps.gap) / noise, 0.0)
    normal = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t**2 / freedom))
    moving = normal.argmax(axis=2)
    largest, draws = _draw(gaps, noise, compared, n_boot, rng)
    squares, bias = (float(np.sum(part[compared] ** 2)) / max(int(compared.sum()), 1) for part in (gaps.gap, gaps.se))
    value, interval = math.nan, (math.nan, math.nan)
    noiseless = bool(compared.any()) and bool((gaps.se[compared] <= rounding).all())
    if noiseless:  # rounding would be judged by rounding
        value, n_boot, largest = squares / variance if squares > rounding**2 else 0.0, 0, largest[:0]
        notes = (*notes, NOISELESS)
    elif compared.any():
        value = (squares - bias) / variance
        unit = Draws(draws.linear / variance, (draws.quadratic - bias) / variance)
        low, high = invert(unit, max(squares / variance, 1e-300), value)
        interval = (float(low), float(high))

    def of_moving(values: Floats) -> Floats:
        picked = np.take_along_axis(values, moving[:, :, None], axis=2)[:, :, 0]
        return np.where(refused, np.nan, picked)

    pairs, se, observed = of_moving(gaps.gap), of_moving(gaps.se), of_moving(normal)
    reach = stdtrit(of_moving(freedom), 1.0 - MISSED / 2) * se if n_boot else np.full(se.shape, np.nan)
    exceeded = len(largest) - np.searchsorted(np.sort(largest), observed - 1e-12 * np.maximum(observed, 1.0))
    by_chance = (1.0 + exceeded) / (1.0 + len(largest))
    statistic = float(normal[compared].max()) if compared.any() else math.nan
    several = target.task == "multiclass"
    return TransportGapResult(
        value=value,
        interval=interval,
        pvalue=pvalue(statistic, largest),
        labels=data.labels,
        pairs=pairs,
        se=se,
        pair_intervals=np.stack([pairs - reach, pairs + reach], axis=2),
        pair_pvalues=np.where(refused | (n_boot == 0), np.nan, np.where(diagonal, 1.0, by_chance)),
        by_class=np.where(refused[:, :, None], np.nan, gaps.gap) if several else None,
        moving_class=_moving_classes(target, moving, compared) if several else None,
        overlap=fitted.overlap,
        task=target.task,
        statistic=statistic,
        null=largest,
        outcome=outcome.description,
        ratio=fitted.description,
        notes=(
            *([] if n_boot or noiseless else [NOT_DRAWN]),
            *data.notes,
            *notes,
            *_notes(data, far_off, compared),
            *_notes_on_failure(data, wrong),
            *_notes_on_undetermined(data, unsure & ~far_off & ~wrong),
            *outcome.notes,
            *fitted.notes,
        ),
    )


def _refused(overlap: Overlap) -> Booleans:
    """Pairs that cannot be compared: (E, E)."""
    out = (np.array(overlap.pair_verdicts) == "none") | (overlap.effective_rows < FEWEST_ROWS)
    np.fill_diagonal(out, False)
    return np.asarray(out)


def _undetermined(target: Target, gaps: Gaps) -> Booleans:
    """Pairs whose standard error no probability can have: (E, E).

    A head that nearly splits its classes, or reads a column that hardly varies in its rows, has next to no curvature:
    where those do not look like the rows it is asked about, the inverse makes a standard error of any size.
    """
    if target.task == "regression":
        return np.zeros(gaps.se.shape[:2], dtype=np.bool_)
    return np.asarray((gaps.se > LARGEST_SPREAD).any(axis=2))


def _draw(gaps: Gaps, noise: Floats, compared: Booleans, n_boot: int, rng: np.random.Generator) -> tuple[Floats, Draws]:
    """Draws, (B,), of the largest |δ| / SE if all gaps are 0, and of the noise of the mean δ², in units of y²."""
    if not compared.any():
        return np.empty(0), Draws(np.empty(0), np.empty(0))
    largest, linear, quadratic = (np.empty(n_boot) for _ in range(3))
    batch = max(1, int(DRAWN_AT_ONCE // max(gaps.gap.size, gaps.covariance.shape[1])))
    for start in range(0, n_boot, batch):
        rows = slice(start, min(start + batch, n_boot))
        drawn = gaps.draw(rows.stop - rows.start, rng)[:, compared]
        largest[rows] = np.abs(drawn / noise[compared]).max(axis=(1, 2))
        linear[rows] = 2 * np.einsum("bpc,pc->b", drawn, gaps.gap[compared]) / compared.sum()
        quadratic[rows] = np.einsum("bpc,bpc->b", drawn, drawn) / compared.sum()
    return largest, Draws(linear, quadratic)


def _variance_within(data: Environments, target: Target) -> float:
    """Variance of y about the means of its environments; of classes, that of their indicators added up."""
    rows = data.rows
    if target.task == "regression":
        weight = np.ones(len(data.X)) if data.weight is None else data.weight
        mean = np.add.reduceat(weight * target.values, data.offsets[:-1]) / rows
        return float(weight @ (target.values - mean[data.codes]) ** 2 / rows.sum())
    share = class_counts(data, target) / rows[:, None]
    each = float(rows @ (share * (1 - share)).sum(axis=1) / rows.sum())
    return each / 2 if len(target.classes) == 2 else each  # two classes have one indicator


def _moving_classes(target: Target, moving: Integers, compared: Booleans) -> tuple[tuple[Any, ...], ...]:
    return tuple(
        tuple(target.classes[c] if ok else None for c, ok in zip(row, fine, strict=True))
        for row, fine in zip(moving, compared, strict=True)
    )


def _notes(data: Environments, refused: Booleans, compared: Booleans) -> tuple[str, ...]:
    notes = []
    if refused.any():
        shown = _listing(data, refused)
        notes.append(f"No gap where rows hardly overlap, or too few are left to stand in for others: {shown}.")
        apart = _columns_apart(data, refused)
        if apart:
            notes.append(f"They lie apart most in {listed(apart)}: leaving such columns out may make them comparable.")
    if not compared.any():
        notes.append("No pair of environments can be compared, so there is no gap to sum up.")
    return tuple(notes)


def _notes_on_failure(data: Environments, wrong: Booleans) -> tuple[str, ...]:
    if not wrong.any():
        return ()
    return (
        f"No gap where the estimator of the density ratio failed: {_listing(data, wrong)}. Another ratio= or fewer "
        "columns may settle it.",
    )


def _notes_on_undetermined(data: Environments, unsure: Booleans) -> tuple[str, ...]:
    if not unsure.any():
        return ()
    return (
        "No gap where its rows leave open what an outcome model would say of others, for a column that hardly varies "
        f"there, or that nearly splits the classes: {_listing(data, unsure)}. Fewer columns may settle it.",
    )


def _listing(data: Environments, pairs: Booleans) -> str:
    called = names(data.labels)
    listing = [f"{called[a]} under the relation of {called[b]}" for a, b in np.argwhere(pairs)]
    more = f" and {len(listing) - 5} more of {len(data) * (len(data) - 1)} pairs" if len(listing) > 6 else ""
    return ", ".join(listing[:5] if more else listing) + more


def _columns_apart(data: Environments, refused: Booleans) -> list[str]:
    """At most three columns whose means differ most, for their spread, between environments of a refused pair."""
    counts = np.ones(len(data.X)) if data.weight is None else data.weight
    centred = data.X - data.blocks.shift
    mean = np.add.reduceat(counts[:, None] * centred, data.offsets[:-1]) / data.rows[:, None]
    square = np.add.reduceat(counts[:, None] * centred**2, data.offsets[:-1]) / data.rows[:, None]
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    first, second = np.nonzero(refused)
    between = np.abs(mean[first] - mean[second])
    within = np.maximum(spread[first] + spread[second], 1e-9 * np.abs(mean).max(axis=0) + 1e-300)
    distance = (between / within).max(axis=0)
    return [data.columns[j] for j in np.argsort(-distance, kind="stable")[:3] if distance[j] > APART]
