"""The head whose influences are looked at: the user's own, or the minimiser of the objective, fitted here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from invariscope.criteria.influence.penalties import NONE, Penalised, fit_penalised, groups_of
from invariscope.criteria.influence.row_derivatives import (
    LinearRows,
    group_means,
    has_several_targets,
    with_several_targets,
)
from invariscope.errors import InputError
from invariscope.heads.fit import fit_pooled, fit_shared, theta_of
from invariscope.heads.linear_head import LinearHead, of_torch_layer
from invariscope.heads.losses import loss_of
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.resampling import whole
from invariscope.rows.targets import Target, refuse_unfit_for_own_heads, target_in, target_of

UNFINISHED = (
    "The head was fitted here, and the penalised objective was still falling at the last step: influences are "
    "those of an unfinished fit. Pass the head of a model that was trained to the end."
)


def given_or_fitted(
    data: Environments,
    target: Target,
    rows: LinearRows,
    head: LinearHead | None,
    penalty: Penalised | None,
    shares: Floats,
) -> tuple[Floats, bool]:
    """The head of the user, or the one that minimises the objective whose Hessian is taken, as a flat vector on the
    design; and whether its fit came to an end."""
    if head is not None:
        return _given(data, rows, head), True
    theta = _of_risks(data, target, rows, shares)
    if penalty is None:
        return theta, True
    return fit_penalised(rows, theta, penalty, *groups_of(data, penalty, rows.weight))


def _given(data: Environments, rows: LinearRows, head: LinearHead) -> Floats:
    return theta_of(data, head.weight, head.bias) if rows.intercept else head.weight.ravel()


def gradients_of_given(data: Environments, rows: LinearRows, head: LinearHead | None) -> Floats:
    """Mean gradients (m, P) at a head that tells what its environments counted."""
    if head is None:
        raise InputError(
            'hessian="worst" is read off a head that was trained on the largest risk: give it as head, or give the '
            "share of every environment"
        )
    return group_means(rows, _given(data, rows, head), data.codes, len(data)).gradient


def _of_risks(data: Environments, target: Target, rows: LinearRows, shares: Floats) -> Floats:
    """The head that minimises Σ_e q_e ℓ_e."""
    if target.values.ndim == 2 or not rows.intercept:
        risk = Penalised(NONE, 0.0, shares)
        return fit_penalised(rows, np.zeros(rows.size), risk, *groups_of(data, risk, rows.weight))[0]
    pooled = fit_pooled(data, target).theta[0]  # that of an audit, which is known already
    counted = shares / data.rows
    if np.allclose(counted, counted[0], rtol=1e-12, atol=0.0):
        return np.asarray(pooled)
    return np.asarray(fit_shared(data, target, counted, pooled).theta[0])


def rows_and_targets(
    Z: Any, y: Any, env: Any, weight: Any, task: str, head: Any
) -> tuple[Environments, Target, tuple[str, ...]]:
    """The rows, their target, and the names of the numbers to predict where a row has several."""
    if not has_several_targets(y):
        data = Environments.of(Z, y, env, weight)
        data.refuse_out_of_range()
        target = target_of(data, task, outputs=_outputs(head, data))
        if head is None:
            refuse_unfit_for_own_heads(data, target)
        return data, target, ()
    data, values, names = with_several_targets(Z, y, env, weight)
    return data, target_in(values, task=task, name="y"), names


def plain_head(head: Any, solver: str, intercept: bool) -> tuple[Any, bool]:
    """A torch layer nn.Linear is a linear head, unless automatic differentiation was asked for; and whether it has an
    intercept."""
    if isinstance(head, LinearHead):
        head.refuse_extreme()
        return head, _has_intercept(bool(head.bias.any()), intercept)
    if head is None:
        return head, intercept
    kinds = [(kind.__module__.split(".")[0], kind.__name__) for kind in type(head).__mro__]
    if ("torch", "Module") not in kinds:
        raise InputError(f"head is a {type(head).__name__}: give a LinearHead, or a torch module that maps Z to scores")
    plain = None if solver in ("autograd", "cg") else of_torch_layer(head)
    if plain is not None:
        return plain, head.bias is not None and _has_intercept(bool(plain.bias.any()), intercept)
    if not intercept:
        raise InputError(
            f"intercept=False is for linear heads, and a {type(head).__name__} has the parameters it has: leave "
            "intercept out"
        )
    if solver in ("dense", "kronecker"):
        raise InputError(f'solver "{solver}" is for linear heads: use "autograd" or "cg" for a {type(head).__name__}')
    return head, True


def _has_intercept(used: bool, intercept: bool) -> bool:
    if used and not intercept:
        raise InputError("intercept=False, and the head has an intercept that is not 0: leave intercept out")
    return intercept


def _outputs(head: Any, data: Environments) -> int | None:
    """How many numbers the head gives per row, if there is one."""
    if head is None or isinstance(head, LinearHead):
        return None if head is None else head.n_outputs
    from invariscope.criteria.influence.torch_network import outputs_of

    return outputs_of(head, data)


def written_out(data: Environments, target: Target, *, strictly: bool) -> tuple[Environments, Target]:
    """Rows as often as their weight says: deals, halves of environments and their penalties are made of single rows.

    Where weights are no whole numbers, rows of weight 0 leave, or they would be dealt like the others.
    """
    assert data.weight is not None
    counts = whole(data.weight)
    if counts is None and strictly:
        raise InputError(
            "exact shuffles under a penalty, or with a Hessian for every deal, need weights that are whole numbers: "
            "use exact=False"
        )
    times = (data.weight > 0).astype(np.intp) if counts is None else counts
    written = data.written_out(times)
    if counts is None:
        written = written.with_weight(data.weight[data.weight > 0])
    return written, replace(target, values=np.repeat(target.values, times, axis=0))


def as_head_has_it(target: Target, head: LinearHead | None, data: Environments) -> Target:
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
