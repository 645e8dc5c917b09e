"""Shared-head regret: what it costs each environment that one head serves them all."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from invariscope import wording
from invariscope.criteria.material import AuditOptions, Material, fewer_columns, have
from invariscope.criteria.registry import criterion
from invariscope.criteria.regret.inference import MISSED, Draws, draw_excess, invert, score_test
from invariscope.criteria.regret.shared_head import SharedHead, fit_for_test, fit_shared_head
from invariscope.errors import InputError
from invariscope.heads.fit import cross_losses, fit_shared, held_out_loss, loss_of_constant
from invariscope.heads.losses import loss_of
from invariscope.heads.wide import rank_of
from invariscope.results import Estimate, RegretResult
from invariscope.rows.arrays import Booleans, Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.moments import moments_of
from invariscope.rows.resampling import generator, pvalue
from invariscope.rows.settings import MOST_FOLDS, NOT_DRAWN, number_of_draws, whole_number
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads, target_of

LEVEL = "(overall level)"
MOST_DRAWS = 10_000
NOTHING_LOST = -1.0  # the regret of a shared head without any loss: no lower end lies below it
SPARE_ROWS = 5  # rows an environment must have beyond the parameters of its own head


def _from_material(material: Material, options: AuditOptions) -> RegretResult:
    rows = have(material.own_heads)
    return regret(rows, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Shared-head regret",
    needs={"own_heads", "target"},
    better="lower",
    tells="Extra loss an environment bears because all share one head; 0 when one head is best everywhere.",
    cannot_tell="Anything about environments that are not in the data, or about heads richer than linear ones.",
    call=_from_material,
)
def regret(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    task: str = "auto",
    folds: int = 5,
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> RegretResult:
    """How much more each environment loses under one shared head than under its own.

        regret_e = R_e(w*) / R_e(w_e*) − 1,   w_e* = best linear head in e,   w* = argmin_w Σ_e R_e(w) / R_e(w_e*)

    0 exactly when one head is optimal in every environment, which is the papers' definition of an invariant
    representation. It does not change when z or y are shifted or scaled, and it needs no overlap between environments.

    Both risks are in-sample losses plus their optimism, estimated from the sandwich Σ ggᵀ with leverage-corrected
    residuals; for squared loss R_e(w_e*) is the mean of residual × leave-one-out residual, exactly unbiased under
    constant noise. (Plain cross-fitting charges the own head for its estimation noise and hides real differences.)
    Values below 0 are sampling noise around 0. The p-value is that of the score test of "one head serves all".

    Parameters
    ----------
    Z : (n, d) representation, or an :class:`~invariscope.Environments` (then ``y`` and ``env`` are left out)
    y : (n,) target
    env : (n,) environment labels
    task : "auto", "regression" or "classification"
    folds : folds for ``explained``, which is judged on rows the shared head has not seen
    n_boot : draws for the intervals and for the score test's null; 0 for point estimates alone, as for a log of every
        epoch: intervals and p-value are then NaN
    weight : rows each row stands for

    Returns
    -------
    RegretResult
        ``value`` is the mean over environments with its 95 % ``interval``; ``per_environment`` maps labels to
        estimates, whose lower ends allow for having looked at all of them; ``worst_interval`` bounds the largest
        regret, from the largest of their lower ends to the largest of their upper ends; ``explained`` is the share of
        the target's variance (or log-loss) the shared head removes on rows it has not seen, and ``explained_own`` what
        own heads remove of that within environments; ``pairs[a, b]`` is the extra loss in a if the head of b served
        it; ``drivers[e, j]`` the part of regret_e carried by ``columns[j]``.

    What it cannot tell: how an environment outside the data behaves, whether a richer head would serve all, and
    whether the representation predicts anything (see ``explained``).

    References: Definition 2.1 of "Measuring invariance in representation learning"; MacKinnon and White (1985) for the
    leverage correction; Takeuchi (1976) for the optimism; Ledoit and Wolf (2004) for the shrinkage of Σ ggᵀ.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(600, 2)), np.repeat(["north", "south"], 300)
    >>> y = z[:, 0] + np.where(env == "north", 1, -1) * z[:, 1] + rng.normal(size=600)
    >>> result = regret(z, y, env)
    >>> print(f"{result.value:.2f} p = {result.pvalue:.3f}")
    0.81 p = 0.001
    """
    data = Environments.of(Z, y, env, weight)
    target = target_of(data, task)
    refuse_unfit_for_own_heads(data, target)
    folds, n_boot = whole_number(folds, "folds", 2, MOST_FOLDS), number_of_draws(n_boot)
    refuse_too_few_rows(data, target)
    with one_blas_thread():
        return _measured(data, target, folds, n_boot, seed)


def _measured(data: Environments, target: Target, folds: int, n_boot: int, seed: int) -> RegretResult:
    if target.task == "regression":
        moments_of(data, target, folds)  # one pass now serves every head below, whole or with a fold left out
    fit = fit_shared_head(data, target)
    told = fit.shared_risk > 0  # few rows per weight: noise may take more off the loss than there is
    usable, own_risk = fit.usable & told, fit.own_risk
    excess = fit.excess
    value = np.where(usable, excess / fit.divisor, np.where(fit.boundless, math.inf, math.nan))

    interval_rng, test_rng = generator(seed).spawn(2)
    # the interval of the largest regret looks further into the tail, the more environments there are
    count = min(max(n_boot, 200 * len(data)), MOST_DRAWS) if n_boot else 0
    draws, scale = draw_excess(fit, count, interval_rng)
    statistic, null = score_test(fit_for_test(data, target, fit), n_boot, test_rng)
    per_environment, worst, worst_interval = _estimates(data, value, excess, own_risk, draws, scale)
    mean, mean_interval = _mean_over_environments(value, fit, draws, scale)
    reported = loss_of(target).reported
    return RegretResult(
        value=mean,
        interval=mean_interval,
        pvalue=pvalue(statistic, null),
        per_environment=per_environment,
        worst=worst,
        worst_interval=worst_interval,
        explained=_explained(data, target, fit, folds),
        explained_own=1.0 - float(own_risk @ data.rows) / float(_constant_loss(data, target, pooled=False)),
        task=target.task,
        labels=data.labels,
        columns=(*data.columns, LEVEL),
        rows=data.rows,
        shared_loss=reported * np.where(told, fit.shared_risk, np.nan),
        own_loss=reported * own_risk,
        pairs=_pairs(data, target, fit),
        drivers=_drivers(fit, data.blocks.width),
        statistic=statistic,
        null=null,
        notes=(*([] if n_boot else [NOT_DRAWN]), *data.notes, *_notes(data, target, fit)),
    )


def refuse_too_few_rows(data: Environments, target: Target) -> None:
    """An environment needs more rows than a head of its own has parameters."""
    needed = data.blocks.width * max(1, len(target.classes) - 1) + SPARE_ROWS
    short = [k for k, rows in enumerate(data.rows) if rows < needed]
    if short:
        others = ", ".join(str(data.labels[k]) for k in short[1:6]) + (", ..." if len(short) > 6 else "")
        also = f" (too few also: {others})" if others else ""
        first = f"{data.name(data.labels[short[0]])} has {data.rows[short[0]]:.0f} rows{also}"
        some_left = len(data) - len(short) >= 2
        # of two, nothing could be compared without it
        choices = ["Drop it", "merge it with another"] if len(data) > 2 else ["Add rows to it"]
        remedy = f"{wording.alternatives([*choices, 'use fewer columns'] if data.X.shape[1] > 1 else choices)}."
        if len(short) == len(data):
            remedy = fewer_columns(data)
        columns = wording.count(data.X.shape[1], "column")
        raise InputError(
            f"{first}, but a head of its own on {columns} needs at least {needed:,}. {remedy}",
            environments=[data.labels[k] for k in short] if some_left else (),
        )


def _estimates(
    data: Environments, value: Floats, excess: Floats, own_risk: Floats, draws: Draws, scale: Floats
) -> tuple[dict[Any, Estimate], Any, tuple[float, float]]:
    """Every environment's regret, which is worst, and an interval for the largest of them.

    The largest regret is above each environment's lower end; having looked at E of them, lower ends are taken at level
    α / 2E. It is below the largest upper end, for which no adjustment is needed.
    """
    count, strict = len(draws.linear), MISSED / 2 / len(data)
    ends_known = np.isfinite(value) & bool(count)
    per_environment = {
        label: Estimate(float(one), (float(one), float(one)) if count else (math.nan, math.nan))
        for label, one in zip(data.labels, value, strict=True)
    }
    for e in np.flatnonzero(ends_known):
        single = Draws(draws.linear[:, e], draws.quadratic[:, e])
        low = max(invert(single, scale[e], excess[e], strict)[0] / own_risk[e], NOTHING_LOST)
        high = invert(single, scale[e], excess[e])[1] / own_risk[e]
        per_environment[data.labels[e]] = Estimate(float(value[e]), (float(low), float(high)))
    if np.isnan(value).all():
        return per_environment, data.labels[0], (math.nan, math.nan)
    worst = data.labels[int(np.nanargmax(value))]
    if not count:
        return per_environment, worst, (math.nan, math.nan)
    ends = np.array([estimate.interval for estimate in per_environment.values()])
    low, high = np.nanmax(ends, axis=0)
    return per_environment, worst, (float(low), float(high))


def _mean_over_environments(
    value: Floats, fit: SharedHead, draws: Draws, scale: Floats
) -> tuple[float, tuple[float, float]]:
    usable = np.isfinite(value)
    if fit.boundless.any() or not usable.any():
        whole = math.inf if fit.boundless.any() else math.nan
        end = whole if len(draws.linear) else math.nan
        return whole, (end, end)
    share = usable / fit.divisor / usable.sum()
    mean = float(np.mean(value[usable]))
    low, high = invert(Draws(draws.linear @ share, draws.quadratic @ share), float(scale @ share), mean)
    return mean, (low if math.isnan(low) else max(low, NOTHING_LOST), high)


def _explained(data: Environments, target: Target, fit: SharedHead, folds: int) -> float:
    """Share of the loss of the best constant that the shared head removes on rows it has not seen."""
    heads = fit_shared(data, target, fit.weights, fit.shared.theta[0], folds=folds, tolerance=1e-6, near=fit.inverse)
    lost = float(held_out_loss(data, target, heads.theta).sum())
    return 1.0 - lost / _constant_loss(data, target, pooled=True)


def _constant_loss(data: Environments, target: Target, *, pooled: bool) -> float:
    """Summed loss of the best constant prediction, one for all environments or one for each."""
    ends = data.offsets[[0, -1]] if pooled else data.offsets
    return sum(loss_of_constant(data, target, slice(a, b)) for a, b in pairwise(ends))


def _pairs(data: Environments, target: Target, fit: SharedHead) -> Floats:
    """Relative extra loss in environment a under the head of b, freed from the estimation noise of b's head."""
    dispersion = 2 * fit.own_optimism / fit.rank  # J_b ≈ dispersion · H_b
    # E[½ (ŵ_b − w_b)ᵀ H_a (ŵ_b − w_b)] = ½ tr(H_a H_b⁻¹ J_b H_b⁻¹)
    noise = 0.5 * np.einsum("apq,bqp->ab", fit.hessian, fit.own_inverse, optimize=True) * dispersion
    risk = (cross_losses(data, target, fit.own.theta) - noise) / fit.rows[:, None]
    pairs = risk / fit.divisor[:, None] - 1.0
    pairs[~fit.usable] = np.nan
    np.fill_diagonal(pairs, 0.0)
    return np.asarray(pairs)


def _drivers(fit: SharedHead, p: int) -> Floats:
    """Regret by column, (E, p = d + 1), the overall level last: ½ d_j (H_e d)_j, summed over scores, less its noise.

    d = H_e⁻¹ g_e is how far the shared head is from the environment's own (exactly so for squared loss; for classes own
    heads may be far off in rare categories). Columns are centred within the environment: the level is what is left.
    """
    environments = len(fit.rows)
    step = np.einsum("epq,eq->ep", fit.shared_inverse, fit.gradient)  # d = H_e⁻¹ g_e
    difference = step.reshape(environments, -1, p)
    hessian = fit.shared.hessian.reshape(environments, -1, p, difference.shape[1], p)
    noise = fit.difference_noise.reshape(hessian.shape)
    # centre of the columns under the curvature, Σ_k H_{k0,kj} / Σ_k H_{k0,k0}
    mass = np.einsum("ekk->e", hessian[:, :, 0, :, 0])
    centre = np.einsum("ekpk->ep", hessian[:, :, :, :, 0]) / np.where(mass > 0, mass, 1.0)[:, None]
    to_centred = np.tile(np.eye(p), (environments, 1, 1))  # θ on (1, z) → θ on (1, z − centre)
    to_centred[:, 0, 1:] = centre[:, 1:]
    back = np.tile(np.eye(p), (environments, 1, 1))
    back[:, 0, 1:] = -centre[:, 1:]
    # with T = to_centred and B = back = T⁻¹: T d, Bᵀ H B (T d), and the diagonal of Bᵀ H Cov(d) Tᵀ
    moved = np.einsum("epq,ekq->ekp", to_centred, difference)
    curved = np.einsum("eqp,ekqls,esr,elr->ekp", back, hessian, back, moved, optimize=True)
    curved_noise = np.einsum("eqp,ekqls,elskt,ept->ekp", back, hessian, noise, to_centred, optimize=True)
    parts = 0.5 * np.sum(moved * curved - curved_noise, axis=1) / (fit.rows * fit.divisor)[:, None]
    # the quadratic is an approximation: keep its proportions, make the parts add up to the regret
    regrets, whole = fit.excess / fit.divisor, parts.sum(axis=1)
    parts *= np.where(regrets * whole > 0, regrets / np.where(whole == 0, 1.0, whole), 1.0)[:, None]
    parts[~fit.usable] = np.nan
    return np.concatenate([parts[:, 1:], parts[:, :1]], axis=1)


def _notes_on_heads_without_error(data: Environments, target: Target, fit: SharedHead) -> list[str]:
    notes = []

    def named(which: Booleans) -> str:
        return ", ".join(str(label) for label, chosen in zip(data.labels, which, strict=True) if chosen)

    why = "makes no error" if target.task == "regression" else "separates the classes perfectly"
    if not (fit.usable | fit.boundless).all():
        which = ~(fit.usable | fit.boundless)
        own = f"its own head {why} there" if which.sum() == 1 else f"own heads {why.replace('s ', ' ', 1)} there"
        notes.append(f"No regret for {named(which)}: {own}, so there is no loss to compare with.")
    if fit.boundless.any():
        notes.append(
            f"The regret of {named(fit.boundless)} is infinite: its own head makes no error there and the shared head "
            "does. So the heads differ; by how much of a loss of 0 nobody can say."
        )
    if not fit.usable.any():
        notes.append("No p-value: no own head makes an error, so there is no noise to compare differences with.")
    elif not fit.squared and np.count_nonzero(fit.usable) == 1:
        notes.append(
            f"No p-value: only the head of {named(fit.usable)} makes errors, and there is no other to compare."
        )
    elif not fit.usable.all():
        notes.append(f"The score test judges the others: there is no noise to judge {named(~fit.usable)} by.")
    lost = (fit.shared_risk <= 0) & (fit.usable | bool(target.classes))  # numbers without noise lose nothing, truly
    if lost.any():
        weights = data.blocks.width * max(1, len(target.classes) - 1)
        notes.append(
            f"No loss of the shared head, and so no regret, for {named(lost)}: noise in the heads may have added "
            f"all of it ({data.rows[lost].min():,.0f} rows and more, {weights:,} weights in a head)."
        )
    return notes


def _notes(data: Environments, target: Target, fit: SharedHead) -> tuple[str, ...]:
    notes = _notes_on_heads_without_error(data, target, fit)
    if not (fit.own.converged and fit.shared.converged):
        notes.append("A head was still moving after 100 Newton steps: losses and regrets may be slightly too large.")
    free = fit.own.theta.shape[1] - (data.blocks.width if len(target.classes) > 2 else 0)
    missing = free - rank_of(np.einsum("epq->pq", fit.shared.hessian), fit.scores)
    if missing > 0:
        counted = data.X if data.weight is None else data.X[data.weight > 0]
        constant = [name for name, scale in zip(data.columns, np.ptp(counted, axis=0), strict=True) if scale == 0]
        named = f" ({', '.join(constant[:5])}{', ...' if len(constant) > 5 else ''})" if constant else ""
        notes.append(
            f"{missing} parameters of the head are redundant: columns that are constant{named}, follow from others (as "
            "one-hot columns do) or hold rows of one class only. No effect."
        )
    return tuple(notes)
