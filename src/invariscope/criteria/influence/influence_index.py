"""Influence index: would giving one environment more weight move the top model, and more than chance explains?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.penalties import Penalised, penalty_of
from invariscope.criteria.influence.row_derivatives import LinearRows
from invariscope.criteria.influence.shares import DOMAINS, WORST, rows_that_count, settled, shares_of
from invariscope.criteria.influence.solution import (
    FIXED,
    LARGEST_DENSE,
    RECOMPUTED,
    Known,
    Options,
    Solution,
    Trained,
    by_penalty,
    known_of,
    refuse_recomputed,
    result_of,
)
from invariscope.criteria.influence.structured import structured
from invariscope.criteria.influence.top_model import (
    UNFINISHED,
    as_head_has_it,
    given_or_fitted,
    gradients_of_given,
    plain_head,
    rows_and_targets,
    written_out,
)
from invariscope.criteria.material import FEWER_COLUMNS, MOST_WEIGHTS, AuditOptions, Material, Missing, fittable, have
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.heads.fit import evaluate, least_loss, score_covariances
from invariscope.heads.linear_head import LinearHead, order_note
from invariscope.heads.losses import loss_of
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, one_of, switch
from invariscope.rows.spelling import spelling
from invariscope.rows.targets import Target

INTERCEPT = "(intercept)"
EXACT = "The head makes no error on any row: nothing pulls at it, and there is no noise for a p-value."
SEPARATE = (
    "No p-value: the head splits the classes (almost) without error, so that no head is best and influences depend on "
    "where its fit stopped. Pass the head of a model that was trained with a penalty on its weights."
)
SOLVERS = ("auto", "dense", "kronecker", "autograd", "cg")


def _from_material(material: Material, options: AuditOptions) -> InfluenceResult:
    head, rows = material.trained_head, material.representation
    if isinstance(head, Missing):
        have(fittable(rows, material.target))  # one will be fitted
    largest = min(len(rows.X), rows.blocks.width)
    if largest > MOST_WEIGHTS:
        raise InputError(
            f"the influence index of a head on {rows.X.shape[1]:,} columns decomposes a matrix of {largest:,} x "
            f"{largest:,}, and an audit goes up to {MOST_WEIGHTS:,}. {FEWER_COLUMNS} Called by itself, "
            f"{spelling().call('iv.influence_index', 'Z, y, env, head=...')} takes its time."
        )
    trained = material.trained_with
    fitted = isinstance(head, Missing)
    wide = rows.blocks.width * loss_of(material.target).n_scores > MOST_WEIGHTS
    result = influence_index(
        rows,
        head=None if fitted else head,
        solver="kronecker" if wide and trained.penalty is None else "auto",
        task=material.task,
        penalty=trained.penalty,
        penalty_weight=trained.weight,
        hessian=DOMAINS if fitted and trained.hessian == WORST else trained.hessian,
        n_boot=options.n_boot,
        seed=options.seed,
    )
    return replace(result, notes=(*result.notes, trained.remark)) if trained.remark else result


@criterion(
    title="Influence index",
    needs={"representation", "target"},
    better="lower",
    tells="Whether environments pull the top model apart more than random ones would: is an OOD algorithm needed?",
    cannot_tell="How much loss that costs; its value depends on units, so compare it with its own shuffles only.",
    call=_from_material,
)
def influence_index(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    head: Any = None,
    task: str = "auto",
    penalty: str | None = None,
    penalty_weight: float = 0.0,
    damping: float | str = "auto",
    n_boot: int = 999,
    exact: bool = False,
    seed: int = 0,
    weight: Any = None,
    solver: str = "auto",
    intercept: bool = True,
    hessian: Any = DOMAINS,
    shuffles: str = FIXED,
) -> InfluenceResult:
    """How differently the environments pull the top model, against environments dealt at random.

        IF_e = −(H + damping)⁻¹ ∇_γ ℓ_e,   V = ln ‖ Cov_e(IF_e) ‖₂                  (eq. 5 and 6 of the paper)

    γ is the linear head (weights and intercept) on the columns of ``Z`` as they are (columns further than 30 spreads
    from zero, such as years, are moved there first, or V would only see the intercept), ℓ_e the mean loss in
    environment e, H the Hessian of the training objective (1/m) Σ_e ℓ_e + penalty_weight · R (eq. 3), domains counting
    the same with a penalty and without. Cov_e divides by the number of environments.

    Under a penalty ``without_penalty`` has V, shuffles and p-value through the Hessian of the risks alone. The two may
    say opposite things along the weight: the penalty makes H steep just where environments differ, so V falls while
    the gradients may not come together at all.

    The shuffle baseline pools the rows, deals them into environments of the same sizes and computes V again: ``null``
    holds all of these values, and the p-value is their share at least as large as V. Mean gradients of random
    environments are normal to very good accuracy, so by default they are drawn as N(ḡ, (1/n_e − 1/n) S); ``exact=True``
    really deals the rows. H stays that of the environments as they are (see ``shuffles``).

    Parameters
    ----------
    Z, y, env : representation (n, d), target and environments; or one :class:`~invariscope.Environments`. Here (and
        in ``worst_case``) y may be (n, q), q numbers per row: the loss is then Σ_k (s_k − y_k)².
    head : the model's own :class:`~invariscope.LinearHead`; without one, the head that minimises the objective is
        fitted. Or a torch module that maps rows of ``Z`` to predictions, log-odds or class scores.
    task : "auto", "regression" or "classification"
    penalty : what the model was trained with beside the risks: "irm", "irm_split" (even and odd rows of every
        environment) or "vrex", as :mod:`invariscope.objectives` have them, and ``penalty_weight`` its weight. It enters
        H, not the gradients: more weight is put on an environment's rows, not on its part of the penalty.
    damping : a number added to H's diagonal (of numbers: that of ½ Σ (s − y)²), or "auto": the sampling noise of H,
        √(λ₁ Σλ / n), where a live eigenvalue is below it (as in wide ReLU layers, where V is pure noise otherwise),
        else 0. Dead units and dependent columns make H singular; their directions have no gradient and are left out.
        Where a penalty takes curvature away, "auto" leaves out its part that vanishes where the penalty is met (Gauss
        and Newton); where H still has negative curvature, it is made positive. Notes say so.
    n_boot : how many random deals; 0 for V alone, without a p-value
    solver : "auto"; "dense", the whole Hessian; "kronecker", products of two small matrices, for over 5,000 parameters
        (no penalty; see docs/influence_index.md for its error); for torch modules "autograd" (the whole Hessian) or
        "cg", conjugate gradients for a whole network (each shuffle costs a solve, so at most 19 are dealt unless
        ``exact=True``)
    intercept : ``False`` for linear heads without one, as in the paper's examples
    hessian : what environments count in the risk, in H and in the head that is fitted here: "domains", all the same;
        "rows", as many as rows; a share for each label, as of GroupDRO's last step; or "worst", the shares with which
        the gradients of the given head cancel, as they do where the largest risk is smallest
    shuffles : "fixed_hessian", or "recomputed": every deal has a Hessian of its own, with the penalty of its own
        environments, as in the paper. That has no power against a head that was fitted under a heavy penalty: for dealt
        environments it is no minimum, curvature vanishes, and shuffled values grow. With the fixed one, V of a deal is
        V + (what it is without the penalty − what that of the model is): the spread is that of deals, and what the
        penalty makes of it stays as it is.

    What it cannot tell: how much loss the disagreement costs (see :func:`~invariscope.regret`); V is on a logarithmic
    scale in the units of the head's parameters, so V of two models cannot be compared, only V with its shuffles.

    Reference: "Out-of-distribution generalization analysis via influence function", §4.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(600, 2)), np.repeat([2019, 2020, 2021], 200)
    >>> y = z[:, 0] + (env - 2020) * z[:, 1] + rng.normal(size=600)
    >>> result = influence_index(z, y, env)
    >>> bool(result.value > result.null.max()), result.pvalue, list(result.loadings(1))
    (True, 0.001, ['x1'])
    >>> rex = influence_index(z, y, env, penalty="vrex", penalty_weight=10.0)  # trained against the difference
    >>> bool(rex.value < result.value)
    True
    """
    if solver not in SOLVERS:
        raise InputError(f'solver "{solver}" is unknown: use {", ".join(SOLVERS)}')
    exact, with_intercept = switch(exact, "exact"), switch(intercept, "intercept")
    through = one_of(shuffles, "shuffles", (FIXED, RECOMPUTED))
    options = Options(damping, number_of_draws(n_boot, fewest=1), exact, generator(seed), through)
    head, with_intercept = plain_head(head, solver, with_intercept)
    data, target, names = rows_and_targets(Z, y, env, weight, task, head)
    of_module = head is not None and not isinstance(head, LinearHead)
    if data.weight is not None and (penalty is not None or exact or of_module or options.recomputed):
        data, target = written_out(data, target, strictly=exact and (penalty is not None or options.recomputed))
    shares = shares_of(hessian, data)
    if of_module:
        from invariscope.criteria.influence.torch_network import measured_network

        return measured_network(data, target, head, penalty, penalty_weight, shares, options, solver)
    if solver in ("autograd", "cg"):
        raise InputError(f'solver "{solver}" is for torch modules: give one as head, or use "dense" or "kronecker"')
    target = as_head_has_it(target, head, data)
    rows = LinearRows(data, loss_of(target), target.values, intercept=with_intercept)
    with one_blas_thread():
        shares, told = settled(shares, data, lambda: gradients_of_given(data, rows, head))
        chosen = penalty_of(penalty, penalty_weight, rows.reported, shares)
        solver = _solver_for(rows.size, solver, chosen)
        refuse_recomputed(options, solver)
        theta, reached = given_or_fitted(data, target, rows, head, chosen, shares)
        if solver == "kronecker":
            solution = structured(rows, theta, data, shares, options)
        else:
            known = None if chosen else _known(data, target, rows, theta, shares)
            solution = by_penalty(rows, theta, data, known, chosen, shares, options)
        if not reached:
            solution.notes.append(UNFINISHED)
        if options.shuffles == 0:
            solution = solution.without_shuffles(NOT_DRAWN)
        elif target.task == "regression" or head is None:
            solution = _unless_without_error(solution, data, target, rows.mean_loss(theta))
    solution.notes.extend([*told, *(order_note(target.classes) if head is not None else ())])
    if penalty is not None and penalty_weight == 0:
        solution.notes.append("penalty_weight is 0: the penalty has no part in the Hessian.")
    return _result(data, target, rows, names, solution, Trained(penalty, float(penalty_weight), shares, through))


def _unless_without_error(solution: Solution, data: Environments, target: Target, loss: float) -> Solution:
    """No null distribution where the head makes no error: rounding would be judged by rounding.

    (A penalty on risks that are all 0 moves no head.) A head fitted here that splits classes has no best place.
    """
    if loss > np.average(least_loss(data, target), weights=data.rows):
        return solution
    if target.task == "regression":
        return solution.without_shuffles(EXACT, pull=0.0)
    return solution.without_shuffles(SEPARATE)


def _solver_for(size: int, solver: str, penalty: Penalised | None) -> str:
    """The solver for a linear head of so many parameters, if nobody says which."""
    if solver == "auto":
        solver = "dense" if size <= LARGEST_DENSE else "kronecker"
    if solver == "kronecker" and penalty is not None:
        raise InputError(
            f"the head has {size:,} parameters, and the Hessian of a penalty is only computed up to "
            f"{LARGEST_DENSE:,}: project the representation to fewer columns, or "
            f"""wait for {spelling().call("iv.influence_index", 'solver="dense"')}"""
        )
    return solver


def _known(data: Environments, target: Target, rows: LinearRows, theta: Floats, shares: Floats) -> Known:
    """Sums over rows without a penalty: of heads with an intercept, one number per row and scores they are had fast."""
    if target.values.ndim == 2 or not rows.intercept:
        blocks = rows.outputs if target.task == "regression" else 1
        return known_of(rows, theta, data, shares, blocks)
    total = float(data.rows.sum())
    at_head = evaluate(data, target, np.tile(theta, (len(data), 1)))

    def covariance() -> Floats:
        outer, sums = score_covariances(data, target, at_head.theta)
        mean = sums.sum(axis=0) / total
        return np.asarray((outer.sum(axis=0) - total * np.outer(mean, mean)) / (total - 1.0))

    hessian = np.tensordot(shares / data.rows, at_head.hessian, axes=1)  # H = Σ_e q_e H_e
    return Known(at_head.gradient / data.rows[:, None], hessian, covariance, rows_that_count(data, shares))


def _result(
    data: Environments,
    target: Target,
    rows: LinearRows,
    names: tuple[str, ...],
    solution: Solution,
    trained: Trained,
) -> InfluenceResult:
    order, columns = np.arange(rows.size), data.columns
    if rows.intercept:  # comes last in results
        order = np.roll(order.reshape(rows.outputs, -1), -1, axis=1).ravel()
        columns = (*columns, INTERCEPT)
    if rows.outputs > 1:
        columns = tuple(f"{column} [{label}]" for label in names or target.classes for column in columns)
    return result_of(data, solution, columns, order, target.task, trained)
