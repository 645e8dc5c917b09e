"""Influence index: would giving one environment more weight move the top model, and more than chance explains?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.penalties import Penalty, fit_penalised, groups_of, penalty_of
from invariscope.criteria.influence.row_derivatives import (
    LinearRows,
    has_several_targets,
    least_squares,
    with_several_targets,
)
from invariscope.criteria.influence.solution import (
    LARGEST_DENSE,
    Known,
    Options,
    Solution,
    dense,
    dense_penalised,
    known_of,
    result_of,
)
from invariscope.criteria.influence.structured import structured
from invariscope.criteria.material import FEWER_COLUMNS, MOST_WEIGHTS, AuditOptions, Material, Missing, fittable, have
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.heads.fit import evaluate, fit_pooled, least_loss, score_covariances, theta_of
from invariscope.heads.linear_head import LinearHead, of_torch_layer, order_note
from invariscope.heads.losses import loss_of
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import generator, whole
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, switch
from invariscope.rows.spelling import spelling
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads, target_in, target_of

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
    wide = rows.blocks.width * loss_of(material.target).n_scores > MOST_WEIGHTS
    return influence_index(
        rows,
        head=None if isinstance(head, Missing) else head,
        solver="kronecker" if wide and material.trained_with.penalty is None else "auto",
        task=material.task,
        penalty=material.trained_with.penalty,
        penalty_weight=material.trained_with.weight,
        n_boot=options.n_boot,
        seed=options.seed,
    )


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
) -> InfluenceResult:
    """How differently the environments pull the top model, against environments dealt at random.

        IF_e = −(H + damping)⁻¹ ∇_γ ℓ_e,   V = ln ‖ Cov_e(IF_e) ‖₂                  (eq. 5 and 6 of the paper)

    γ is the linear head (weights and intercept) on the columns of ``Z`` as they are (columns further than 30 spreads
    from zero, such as years, are moved there first, or V would only see the intercept), ℓ_e the mean loss in
    environment e, H the Hessian of the training objective: of the pooled mean loss or, with a penalty, of
    (1/m) Σ_e ℓ_e + penalty_weight · R. Cov_e divides by the number of environments.

    The shuffle baseline pools the rows, deals them into environments of the same sizes and computes V again (with the
    penalty of the new environments): ``null`` holds all of these values, and the p-value is their share at least
    as large as V. Mean gradients of random environments are normal to very good accuracy, so by default they are drawn
    as N(ḡ, (1/n_e − 1/n) S); ``exact=True`` really deals the rows and computes everything anew.

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
        Where H has negative curvature, "auto" makes it positive and says so.
    n_boot : how many random deals; 0 for V alone, without a p-value
    solver : "auto"; "dense", the whole Hessian; "kronecker", products of two small matrices, for over 5,000 parameters
        (no penalty; see docs/influence_index.md for its error); for torch modules "autograd" (the whole Hessian) or
        "cg", conjugate gradients for a whole network (each shuffle costs a solve, so at most 19 are dealt unless
        ``exact=True``)

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
    exact = switch(exact, "exact")
    options = Options(damping, number_of_draws(n_boot, fewest=1), exact, generator(seed))
    head, intercept = _plain_head(head, solver)
    data, target, names = _rows_and_targets(Z, y, env, weight, task, head)
    of_module = head is not None and not isinstance(head, LinearHead)
    if data.weight is not None and (penalty is not None or exact or of_module):
        data, target = _written_out(data, target, strictly=exact and penalty is not None)
    if of_module:
        from invariscope.criteria.influence.torch_network import measured_network

        return measured_network(data, target, head, penalty, penalty_weight, options, solver)
    if solver in ("autograd", "cg"):
        raise InputError(f'solver "{solver}" is for torch modules: give one as head, or use "dense" or "kronecker"')
    target = _as_head_has_it(target, head, data)
    rows = LinearRows(data, loss_of(target), target.values, intercept=intercept)
    chosen = penalty_of(penalty, penalty_weight, rows.reported)
    solver = _solver_for(rows.size, solver, chosen)
    with one_blas_thread():
        theta = _given_or_fitted(data, target, rows, head)
        if solver == "kronecker":
            solution = structured(rows, theta, data, options)
        elif chosen is None:
            solution = _without_penalty(data, target, rows, theta, options)
        else:
            solution = _with_penalty(data, rows, theta, chosen, options, refit=head is None)
        if options.shuffles == 0:
            solution = solution.without_shuffles(NOT_DRAWN)
        elif target.task == "regression" or head is None:
            solution = _unless_without_error(solution, data, target, rows.mean_loss(theta))
    if head is not None:
        solution.notes.extend(order_note(target.classes))
    if penalty is not None and penalty_weight == 0:
        solution.notes.append("penalty_weight is 0: the penalty has no part in the Hessian.")
    return _result(data, target, rows, names, solution, penalty, float(penalty_weight))


def _unless_without_error(solution: Solution, data: Environments, target: Target, loss: float) -> Solution:
    """No null distribution where the head makes no error: rounding would be judged by rounding.

    (A penalty on risks that are all 0 moves no head.) A head fitted here that splits classes has no best place.
    """
    if loss > np.average(least_loss(data, target), weights=data.rows):
        return solution
    if target.task == "regression":
        return solution.without_shuffles(EXACT, pull=0.0)
    return solution.without_shuffles(SEPARATE)


def _rows_and_targets(
    Z: Any, y: Any, env: Any, weight: Any, task: str, head: Any
) -> tuple[Environments, Target, tuple[str, ...]]:
    """The rows, their target, and the names of the numbers to predict where a row has several."""
    if not has_several_targets(y):
        data = Environments.of(Z, y, env, weight)
        target = target_of(data, task, outputs=_outputs(head, data))
        if head is None:
            refuse_unfit_for_own_heads(data, target)
        return data, target, ()
    data, values, names = with_several_targets(Z, y, env, weight)
    return data, target_in(values, task=task, name="y"), names


def _solver_for(size: int, solver: str, penalty: Penalty | None) -> str:
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


def _without_penalty(data: Environments, target: Target, rows: LinearRows, theta: Floats, options: Options) -> Solution:
    if target.values.ndim == 2 or not rows.intercept:
        blocks = rows.outputs if target.task == "regression" else 1
        return dense(rows, theta, data, known_of(rows, theta, data, blocks), options)
    total = float(data.rows.sum())
    at_head = evaluate(data, target, np.tile(theta, (len(data), 1)))

    def covariance() -> Floats:
        outer, sums = score_covariances(data, target, at_head.theta)
        mean = sums.sum(axis=0) / total
        return np.asarray((outer.sum(axis=0) - total * np.outer(mean, mean)) / (total - 1.0))

    known = Known(at_head.gradient / data.rows[:, None], at_head.hessian.sum(axis=0) / total, covariance)
    return dense(rows, theta, data, known, options)


def _with_penalty(
    data: Environments, rows: LinearRows, theta: Floats, penalty: Penalty, options: Options, *, refit: bool
) -> Solution:
    reached = True
    if refit:
        theta, reached = fit_penalised(rows, theta, penalty, *groups_of(data, penalty, rows.weight))
    solution = dense_penalised(rows, theta, data, penalty, options)
    if not reached:
        solution.notes.append(
            "The head was fitted here, and the penalised objective was still falling at the last step: influences are "
            "those of an unfinished fit. Pass the head of a model that was trained to the end."
        )
    return solution


def _given_or_fitted(data: Environments, target: Target, rows: LinearRows, head: LinearHead | None) -> Floats:
    """The head of the user, or the one fitted by ERM, as a flat vector on the design."""
    if head is not None:
        return theta_of(data, head.weight, head.bias) if rows.intercept else head.weight.ravel()
    if target.values.ndim == 2:
        return least_squares(rows)
    return np.asarray(fit_pooled(data, target).theta[0])


def _result(
    data: Environments,
    target: Target,
    rows: LinearRows,
    names: tuple[str, ...],
    solution: Solution,
    penalty: str | None,
    penalty_weight: float,
) -> InfluenceResult:
    order, columns = np.arange(rows.size), data.columns
    if rows.intercept:  # comes last in results
        order = np.roll(order.reshape(rows.outputs, -1), -1, axis=1).ravel()
        columns = (*columns, INTERCEPT)
    if rows.outputs > 1:
        columns = tuple(f"{column} [{label}]" for label in names or target.classes for column in columns)
    return result_of(data, solution, columns, order, target.task, penalty, penalty_weight)


def _plain_head(head: Any, solver: str) -> tuple[Any, bool]:
    """A torch layer nn.Linear is a linear head, unless automatic differentiation was asked for; and whether it has an
    intercept."""
    if isinstance(head, LinearHead):
        head.refuse_extreme()
    if head is None or isinstance(head, LinearHead) or solver in ("autograd", "cg"):
        return head, True
    kinds = [(kind.__module__.split(".")[0], kind.__name__) for kind in type(head).__mro__]
    if ("torch", "Module") not in kinds:
        raise InputError(f"head is a {type(head).__name__}: give a LinearHead, or a torch module that maps Z to scores")
    plain = of_torch_layer(head)
    if plain is not None:
        return plain, head.bias is not None
    if solver in ("dense", "kronecker"):
        raise InputError(f'solver "{solver}" is for linear heads: use "autograd" or "cg" for a {type(head).__name__}')
    return head, True


def _outputs(head: Any, data: Environments) -> int | None:
    """How many numbers the head gives per row, if there is one."""
    if head is None or isinstance(head, LinearHead):
        return None if head is None else head.n_outputs
    from invariscope.criteria.influence.torch_network import outputs_of

    return outputs_of(head, data)


def _written_out(data: Environments, target: Target, *, strictly: bool) -> tuple[Environments, Target]:
    """Rows as often as their weight says: deals, halves of environments and their penalties are made of single rows.

    Where weights are no whole numbers, rows of weight 0 leave, or they would be dealt like the others.
    """
    assert data.weight is not None
    counts = whole(data.weight)
    if counts is None and strictly:
        raise InputError("exact shuffles under a penalty need weights that are whole numbers: use exact=False")
    times = (data.weight > 0).astype(np.intp) if counts is None else counts
    written = data.written_out(times)
    if counts is None:
        written = written.with_weight(data.weight[data.weight > 0])
    return written, replace(target, values=np.repeat(target.values, times, axis=0))


def _as_head_has_it(target: Target, head: LinearHead | None, data: Environments) -> Target:
    """Check a given head against the data; a two-class head may have one score or two."""
    if head is None:
        return target
    if head.n_features != data.X.shape[1]:
        raise InputError(
            f"the head has {head.n_features} weights but the representation has {data.X.shape[1]} columns: give the "
            "columns it was fitted on"
        )
    if target.task == "binary" and head.n_outputs == 2:
        return replace(target, task="multiclass")
    expected = loss_of(target).n_scores
    if head.n_outputs != expected:
        raise InputError(
            f"the head has {head.n_outputs} outputs but the target needs {expected}: give a head with as many"
        )
    return target
