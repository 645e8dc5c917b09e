"""Influence on all parameters of a whole network: Hessian-vector products and conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from invariscope.criteria.influence.conjugate import NegativeCurvatureError, conjugate_gradients
from invariscope.criteria.influence.damping import Damping, given_damping
from invariscope.criteria.influence.dense import Found
from invariscope.criteria.influence.shuffles import largest_spread
from invariscope.criteria.influence.torch_autograd import ModuleRows
from invariscope.errors import InputError
from invariscope.objectives.irm import irm_penalty
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments

SHUFFLES = 19  # each costs a solve per environment
TOLERANCE = 1e-3  # of the right-hand side
MAX_STEPS = 200
POWER_STEPS = 30
DAMPING = 1e-2  # of the largest curvature: the spectrum of a whole network cannot be seen
GROWTH = 4.0  # of the damping where negative curvature is met
ATTEMPTS = 10

Objective = Callable[[Tensor], Tensor]


def objective_of(
    rows: ModuleRows, data: Environments, penalty: str | None, weight: float
) -> Callable[[Tensor], Tensor]:
    """The training objective as a function of the flat parameters, its penalty from :mod:`invariscope.objectives`; in
    units in which the squared loss is ½ (s − y)². Without a penalty, the pooled mean loss."""
    counts = torch.tensor(rows.weight)
    runs = [slice(int(a), int(b)) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]

    def objective(theta: Tensor) -> Tensor:
        losses = rows.losses(theta, rows.inputs, rows.columns)
        if penalty is None:
            return counts @ losses / counts.sum()
        risks = torch.stack([losses[run].mean() for run in runs])
        if penalty == "vrex":
            return risks.mean() + weight * rows.reported * risks.var(correction=0)
        if rows.targets.ndim == 2:  # the objectives take one number per row
            slopes = rows.slopes(theta, rows.inputs, rows.columns)
            halves = [slice(0, None, 2), slice(1, None, 2)] if penalty == "irm_split" else [slice(None), slice(None)]
            means = torch.stack([torch.stack([slopes[run][half].mean() for half in halves]) for run in runs])
            return risks.mean() + weight * rows.reported * means.prod(dim=1).mean()
        scores = rows.scores(theta, rows.inputs)
        given = [rows.targets[run] for run in runs]
        form = "split" if penalty == "irm_split" else "square"
        found = irm_penalty([scores[run] for run in runs], given, task=rows.task, form=form)
        return risks.mean() + weight * found / rows.reported

    return objective


def by_conjugate_gradients(
    rows: ModuleRows,
    data: Environments,
    penalty: str | None,
    weight: float,
    damping: float | str,
    shuffles: int,
    exact: bool,
    rng: np.random.Generator,
) -> Found:
    """Influences of the environments and of a few deals, with Hessian-vector products only.

    A network that was not trained to a minimum has negative curvature; where conjugate gradients meet it, damping is
    made larger (if it is "auto") until they do not. Deals keep the Hessian of the environments as they are: exact
    without a penalty, and an approximation with one.
    """
    objective = objective_of(rows, data, penalty, weight)
    back = vjp(grad(objective), rows.theta)[1]

    def times(vectors: Floats) -> Floats:
        # one after the other: rows are many, vectors few, and memory is that of one pass
        found: Tensor = vmap(lambda vector: back(vector)[0], chunk_size=1)(torch.tensor(vectors))
        return found.numpy()

    notes = []
    wanted = shuffles if exact else min(shuffles, SHUFFLES)
    if wanted < shuffles:
        notes.append(
            f"{wanted} shuffles were dealt instead of {shuffles}, since each costs a solve: exact=True deals them all."
        )
    largest = _largest_curvature(times, rows.size, rng)
    automatic = damping == "auto"
    added = DAMPING * largest if automatic else given_damping(damping)
    gradients = _mean_gradients(rows, data, wanted, rng)
    lowest = 0.0
    for _ in range(ATTEMPTS):
        try:
            solved, residual, steps = conjugate_gradients(
                lambda stack, added=added: times(stack) + added * stack,  # type: ignore[misc]
                gradients,
                lambda stack: stack,
                TOLERANCE,
                MAX_STEPS,
            )
            break
        except NegativeCurvatureError as met:
            if not automatic:
                raise
            lowest = min(lowest, met.curvature - added)
            added = max(GROWTH * added, 1.5 * (added - met.curvature))
    else:
        raise InputError("the Hessian stays indefinite however much is added: train the network further")
    reason = f"given, {added / largest:.2g} of the largest curvature"
    if automatic:
        reason = f"{added / largest:.2%} of the largest curvature"
        if lowest < 0:
            reason += f", for a curvature of {lowest:.3g} was met: the network is not at a minimum"
        notes.append(f"Damping {added:.3g} ({reason}) was added to the Hessian.")
    notes.append(
        f"Influences on {rows.size:,} parameters by {steps} steps of conjugate gradients; largest relative residual "
        f"{residual:.1g}{'' if residual <= TOLERANCE else ': not solved, so damp more'}."
    )
    by_deal = solved.reshape(1 + wanted, len(data), -1)
    eigenvalues = np.array([largest])
    chosen = Damping(added, added, -np.inf, reason, notes)
    return Found(-by_deal[0], largest_spread(by_deal[1:]), eigenvalues, rows.size, chosen, "cg")


def _largest_curvature(times: Callable[[Floats], Floats], size: int, rng: np.random.Generator) -> float:
    vector, value = rng.standard_normal((1, size)), 0.0
    for _ in range(POWER_STEPS):
        vector = vector / np.linalg.norm(vector)
        image = times(vector)
        value = float(np.linalg.norm(image))
        vector = image
    return value


def _mean_gradients(rows: ModuleRows, data: Environments, deals: int, rng: np.random.Generator) -> Floats:
    """Gradients of the mean loss of every environment, then of every environment of every deal: (r, P)."""
    codes = np.concatenate([data.codes[None], rng.permuted(np.tile(data.codes, (deals, 1)), axis=1)])
    member = (codes[:, None, :] == np.arange(len(data))[:, None]) * rows.weight
    member = member.reshape(-1, member.shape[-1])
    shares = torch.tensor(member / member.sum(axis=1, keepdims=True))

    def of_group(theta: Tensor, share: Tensor) -> Tensor:
        return share @ rows.losses(theta, rows.inputs, rows.columns)

    found: Tensor = vmap(grad(of_group), in_dims=(None, 0), chunk_size=1)(rows.theta, shares)
    return found.numpy()
