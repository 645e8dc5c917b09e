"""DRIC (also known as CRIC): the density-ratio criterion of the papers, to the letter."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.dric.information_bound import information_bound, total_variance
from invariscope.criteria.dric.remarks import (
    NOT_REFITTED,
    OUTSIDE,
    fitted_here,
    remarks,
    two_sides,
    without_common_ground,
)
from invariscope.criteria.dric.resampling import Sampler, Side, resample, total_gap, transported_means, variances
from invariscope.criteria.dric.result import DricResult
from invariscope.criteria.dric.terms import TERMS, both_outputs, losses_of, target_for, with_own_means
from invariscope.criteria.material import MOST_WEIGHTS, AuditOptions, Material, have
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.progress import Say, reporting
from invariscope.ratios.density_ratio import DensityRatio, is_given, ratio_for
from invariscope.ratios.estimator import GroupedRows
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator, pvalue
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, one_of, switch
from invariscope.rows.spelling import spelling
from invariscope.rows.tables import matrix_of

RESAMPLES, FEWEST = 99, 19
QUICK = ("logistic", "gaussian")  # estimators whose refits cost little
CELLS = 1.5e5  # rows × columns × environments up to which all resamples are drawn by default


def _from_material(material: Material, options: AuditOptions) -> DricResult:
    predictions, inputs = have(material.predictions).values, have(material.inputs)
    if inputs.X.shape[1] >= MOST_WEIGHTS:
        raise InputError(
            f"density ratios of {inputs.X.shape[1]:,} columns take minutes, and an audit estimates them for less than "
            f"{MOST_WEIGHTS:,}. Use fewer columns, or call "
            f"{spelling().call('iv.dric', 'predictions, X, env, baseline=..., svd=128')}, which reduces them first."
        )
    draws: int | str = "auto" if options.n_boot else 0
    baseline = have(material.baseline)
    found = dric(predictions, inputs, baseline=baseline.values, ratio=options.ratio, n_boot=draws, seed=options.seed)
    return replace(found, notes=(*found.notes, fitted_here())) if baseline.fitted_here else found


@criterion(
    title="DRIC as published",
    needs={"predictions", "inputs", "baseline"},
    better="lower",
    tells="The number the DRIC and CRIC papers report: 1 for the baseline, smaller for predictions that vary less.",
    cannot_tell=(
        "Invariance: with the true density ratio it is 0 for every predictor; what is left is the error of the "
        "estimated ratio times the size of the predictions. Shrinking predictions by 10 divides it by 100."
    ),
    call=_from_material,
    draws=RESAMPLES,
)
def dric(
    predictions: Any,
    X: Any,
    env: Any = None,
    *,
    baseline: Any,
    ratio: Any = "logistic",
    pairwise: bool = False,
    representation: Any = None,
    svd: int | None = None,
    y: Any = None,
    terms: str = "predictions",
    task: str = "auto",
    self_normalised: bool = False,
    overlap: str = "needed",
    n_boot: int | str = "auto",
    seed: int = 0,
    weight: Any = None,
    progress: bool | Say = False,
) -> DricResult:
    """The published density-ratio criterion of representation invariance (DRIC; CRIC in the older paper).

    **What it cannot tell: invariance.** f is one function shared by all environments, so with the true ratio
    q_f(e, e') = q_f(e, e) below for *every* f, invariant or not. The published number measures how far the estimated
    ratio is off, times the size of the predictions: a predictor shrunk towards 0 scores near 0, however variant its
    representation is, and an invariant predictor may score 1. Use :func:`~invariscope.regret` to measure invariance,
    and this to compare with published tables. docs/what_dric_measures.md has the numbers.

        q_f(e, e') = mean_{e'}[ f(x) ρ̂_{e,e'}(x) ],   q_f(e, e) = mean_e[ f(x) ]                              (eq. 6)
        Q̂ = Σ_{e,e'} (q_f(e,e') − q_f(e,e))² / Σ_{e,e'} (q_b(e,e') − q_b(e,e))²                                 (eq. 8)

    f are the model's predictions (of two classes the probability of the second), b those of the baseline (ERM on x), so
    Q̂ = 1 exactly for the baseline itself. The papers fit one binary classifier for every pair (eq. 10), as
    ``pairwise=True`` does; else one fit serves all pairs, so that they agree. Q̂ stays as it is where y, and with it f
    and b, is multiplied (the papers' property 3). It does not where a constant is added, or f alone is changed: 3 f + 2
    has another Q̂.

    With ``terms="own_means"`` f is E[Y | φ(x)] *of the environment the rows come from*, as eq. 4 defines q, which does
    measure how far relations differ; with ``terms="losses"`` f is the loss of the model, as in appendix A.3.

    Parameters
    ----------
    predictions : (n,) numbers or (n, K) class probabilities of the model, in the rows' order
    X : (n, d) inputs, or an :class:`~invariscope.Environments` of them (then ``env`` is left out)
    baseline : predictions of the baseline, same shape; ``None`` will do with ``terms="own_means"``
    ratio : how ρ̂ is had: the name of an estimator or a scikit-learn classifier, see :func:`~invariscope.density_ratio`,
        fitted on the rows it is applied to, as published (classifiers judge rows they have not seen: a forest knows its
        own by heart); a :class:`DensityRatio` fitted elsewhere (on training rows, say, for test rows); or, where it is
        known, a function from rows (n, d) to log densities (n, E)
    pairwise : a fit for every pair of environments, uncalibrated, all of whose rows it has seen, as published: see
        :func:`~invariscope.density_ratio`. A ratio that fails, with a mean off by more than a factor 2, is refused.
    representation : (n, p), z = φ(x); the ratio for the model's terms is then fitted on z, that for the baseline's on x
        (appendix A.3). Ratios from elsewhere are given as a pair, for z and for x.
    svd : reduce ``X`` to this many singular directions first (Table 14 has 128)
    y : (n,), adds the published lower bound Cov²(Y, E) / R_Υ as ``bound`` (which does not hold: see its notes).
        Environments count by their labels where these are numbers, else as 0, 1, 2, … in the order of the labels.
    terms : what stands in the sums
        "predictions" (default, eq. 6). "own_means" (eq. 4, needs y): m̂_e'(φ(x)) at the rows of e', by a linear head
        (on log-odds for classes) fitted in e' alone and, from 50 rows on, without the row's fifth of them. φ(x) is the
        ``representation`` or else the predictions, and x itself for the baseline, whose predictions are not used.
        ``bound.variance_form`` is then the right-hand side of eq. 5. "losses" (A.3, needs y): squared or log-loss of
        model and baseline; give the ``representation``, on which A.3 has its ratio.
    task : what kind of target y is, for ``terms`` that need it: "auto", "regression" or "classification"
    self_normalised : divide by Σ ρ̂ in place of the number of rows: a constant added to f then changes nothing
    overlap : "needed" (default) or "ignored"
        Where no environment's rows can stand in for another's, Q̂ is NaN, with the reason in the notes, and a ratio that
        has failed is refused. "ignored" gives the published number all the same. Where some pairs overlap, the sum is
        over all, and notes name the others.
    n_boot : refits for the interval, and as many again for shuffles: 0, or at least 19. "auto" is 99 on small data,
        fewer on larger and none where refits are slow, which a note says.
    progress : say on the terminal how many refits are done

    Returns
    -------
    DricResult
        ``value`` Q̂ with ``log10``; ``numerator`` and ``denominator``; ``pairs[a, b]`` = q_f(labels[a], labels[b]), with
        a last axis for classes; ``overlap`` of the environments; ``table()`` of all pairs. ``spread`` of f over that of
        b, and ``spread_alone`` = spread², the Q̂ that b would have in that size: a Q̂ near it is about size alone.
        ``interval``: where the middle 95 % of Q̂ lie when rows are drawn anew within environments and the ratio is
        refitted. How far the number moves from sample to sample, no more: it need not hold Q̂ itself, since squares of
        noisy gaps grow with noise.
        ``null``, ``null_numerator``: Q̂ and its numerator when rows are dealt to environments at random, ratio
        refitted. There Q̂ is noise over noise, of any size around that of (spread of f / spread of b)²; so the
        ``pvalue`` is that of the numerator. A small one says that *inputs* differ between environments in a way that
        moves f and that the ratio does not undo. It is no test of invariance.
        ``rows_needed(epsilon)``, ``sample_size(epsilon)``: section 3.2; ``combined(error, theta)``: error + θ Q̂;
        ``difference(other)``: how far Q̂ is from that of another model on the same rows, with a paired interval.

    References: "Measuring invariance in representation learning: a robust evaluation framework" (DRIC) and "A robust
    assessment for invariant representations" (CRIC).

    >>> rng = np.random.default_rng(0)
    >>> x, env = rng.normal(size=(400, 3)), np.repeat(["a", "b"], 200)
    >>> f = x[:, 0]
    >>> dric(f, x, env, baseline=f).value, round(dric(0.1 * f, x, env, baseline=f).value, 12)
    (1.0, 0.01)
    """
    for_draws = generator(seed).spawn(1)[0]
    if not isinstance(n_boot, str) or n_boot != "auto":
        n_boot = number_of_draws(n_boot, FEWEST, '"auto", ')
    terms, overlap = one_of(terms, "terms", TERMS), one_of(overlap, "overlap", ("needed", "ignored"))
    self_normalised = switch(self_normalised, "self_normalised")
    data = Environments.of(X, None, env, weight)
    reference = predictions if terms == "own_means" and baseline is None else baseline
    outputs = both_outputs(data, predictions, reference)
    labelled = None if terms == "predictions" else target_for(terms, data, y, outputs[0].shape[1], task)
    stands = losses_of(outputs, *labelled) if labelled is not None and terms == "losses" else outputs
    ratios, sides = _ratios(data, *stands, ratio, representation, svd, seed, pairwise, overlap == "needed")
    own_means = labelled is not None and terms == "own_means"
    sides = with_own_means(sides, *labelled, outputs[0]) if labelled is not None and own_means else sides
    sides = [replace(side, self_normalised=self_normalised) for side in sides]
    scores = [data.grouped(fitted.at_rows, "ratio") for fitted in ratios]
    stored = GroupedRows(sides[0].rows.X, data.offsets, data.weight)  # rows of weight 0 count nothing in the sums below
    model, reference = (values for side in sides for values in side.outputs)
    means = [
        each
        for side, at in zip(sides, scores, strict=True)
        for each in transported_means(stored, at, side.outputs, self_normalised)
    ]
    numerator, denominator = (total_gap(each) for each in means)
    value = numerator / denominator if denominator > 0 else math.nan
    spread = _spread(model, reference, data.weight)
    apart = [overlap == "needed" and without_common_ground(fitted.overlap) for fitted in ratios]
    notes = remarks(data, ratios, apart, denominator, spread, TERMS[terms])

    draws = 0 if apart[0] else _number_of_resamples(n_boot, sides, ratio, notes)
    with one_blas_thread(), reporting(progress) as say:
        booted, shuffled = resample(sides, Sampler.of(sides[-1].rows, data.weight), draws, for_draws, say)
    if draws and not len(shuffled):
        notes.append(NOT_REFITTED)
    value = math.nan if any(apart) else value
    bound = None if y is None or own_means else information_bound(data, y, *outputs)
    if labelled is not None and own_means:
        bound = information_bound(data, data.original(labelled[1].values), model, reference)
        notes.append(two_sides(value, bound))
    notes.extend([] if bound is None else bound.notes)
    quotients, by_chance = (np.empty(0) if any(apart) else _quotients(drawn) for drawn in (booted, shuffled))
    interval = _middle(quotients)
    if value < interval[0] or value > interval[1]:
        notes.append(OUTSIDE)
    return DricResult(
        value=value,
        log10=math.log10(value) if value > 0 else -math.inf if value == 0 else math.nan,
        numerator=numerator,
        denominator=denominator,
        labels=data.labels,
        pairs=_without_lone_axis(means[0]),
        overlap=ratios[0].overlap,
        terms=terms,
        self_normalised=self_normalised,
        spread=spread,
        spread_alone=spread**2,
        interval=interval,
        numerator_interval=_middle(booted[:, 0]),
        numerator_draws=booted[:, 0],
        denominator_draws=booted[:, 1],
        null=by_chance,
        null_numerator=shuffled[:, 0],
        pvalue=pvalue(numerator, shuffled[:, 0]) if numerator > 0 and not apart[0] else math.nan,
        sigma2=_without_lone_axis(variances(stored, scores[0], model, means[0], self_normalised)),
        rows=data.rows,
        ratio=ratios[0].description,
        bound=bound,
        notes=tuple(dict.fromkeys(notes)),
    )


def _spread(model: Floats, baseline: Floats, weight: Floats | None) -> float:
    """Standard deviation of the model's terms over that of the baseline's; of classes, the root of summed variances."""
    share = np.full(len(model), 1.0 / len(model)) if weight is None else weight / weight.sum()
    of_model, of_baseline = (total_variance(values, share) for values in (model, baseline))
    return math.sqrt(of_model / of_baseline) if of_baseline > 0 else math.nan


def _without_lone_axis(pairs: Floats) -> Floats:
    """(E, E, K), or (E, E) where there is one output."""
    return pairs[:, :, 0] if pairs.shape[2] == 1 else pairs


def _ratios(
    data: Environments,
    model: Floats,
    baseline: Floats,
    ratio: Any,
    representation: Any,
    svd: int | None,
    seed: int,
    pairwise: bool,
    refuse_failed: bool,
) -> tuple[list[DensityRatio], list[Side]]:
    """The ratio of the model's terms, then of the baseline's (one for both without a representation), and each with the
    outputs it reweights."""
    wanted: list[tuple[Environments, Any, int | None, tuple[Floats, ...]]] = [(data, ratio, svd, (model, baseline))]
    if representation is not None:
        pair = ratio if isinstance(ratio, tuple) else (ratio, ratio)
        if len(pair) != 2 or (not isinstance(ratio, tuple) and is_given(ratio)):
            raise InputError(
                "with a representation, give ratios from elsewhere as a pair: (on the representation, on X)"
            )
        z, _ = matrix_of(representation)
        if len(z) != len(data.X):
            raise InputError(f"X has {len(data.X)} rows but the representation has {len(z)}: give one for every row")
        wanted = [(data.with_matrix(z), pair[0], None, (model,)), (data, pair[1], svd, (baseline,))]
    fits, sides = [], []
    for rows, one, directions, outputs in wanted:
        rng = generator(seed)
        fitted = ratio_for(rows, one, pairwise=pairwise, svd=directions, rng=rng, refuse_failed=refuse_failed)
        fits.append(fitted)
        columns = GroupedRows(fitted._units.apply(rows.X), data.offsets)
        sides.append(Side(fitted._fit, columns, outputs, is_given(one)))
    return fits, sides


def _number_of_resamples(n_boot: int | str, sides: list[Side], ratio: Any, notes: list[str]) -> int:
    if not isinstance(n_boot, str):
        notes.extend([] if n_boot else [NOT_DRAWN])
        return n_boot
    names = ratio if isinstance(ratio, tuple) else (ratio,)
    refitted = [side.rows for side in sides if not side.given]
    by_itself = spelling().call("iv.dric", f"n_boot={RESAMPLES}")
    if any(not is_given(one) and one not in QUICK for one in names):
        notes.append(f"No interval and no shuffles, which need refits of this ratio: {by_itself} draws them.")
        return 0
    cells = sum(rows.X.size * rows.environments for rows in refitted)
    draws = RESAMPLES if cells <= CELLS else int(RESAMPLES * CELLS / cells)
    if draws < FEWEST:
        notes.append(f"No interval and no shuffles, since there are many rows to refit: {by_itself} does.")
        return 0
    if draws < RESAMPLES:
        notes.append(
            f"Interval and shuffles rest on {draws} refits, since there are many rows: "
            f"{spelling().call('iv.dric', 'n_boot=')} sets them."
        )
    return draws


def _quotients(gaps: Floats) -> Floats:
    """Q̂ of every draw; not a number where the baseline did not move."""
    out = np.full(len(gaps), math.nan)
    np.divide(gaps[:, 0], gaps[:, 1], out=out, where=gaps[:, 1] > 0)
    return out


def _middle(draws: Floats) -> tuple[float, float]:
    if not len(draws) or not np.isfinite(draws).all():
        return math.nan, math.nan
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)
