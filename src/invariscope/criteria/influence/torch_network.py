"""Influence on the parameters of a torch module: derivatives of rows by automatic differentiation; of whole networks by
Hessian-vector products and conjugate gradients. Only imported where torch is there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vjp, vmap

from invariscope.criteria.influence.inverse import Damping, given_damping
from invariscope.criteria.influence.penalties import penalty_of
from invariscope.criteria.influence.shares import by_row, settled
from invariscope.criteria.influence.shuffles import largest_spread
from invariscope.criteria.influence.solution import (
    LARGEST_DENSE,
    OfRisks,
    Options,
    Solution,
    Trained,
    as_shrunk,
    by_penalty,
    known_of,
    refuse_recomputed,
    result_of,
)
from invariscope.errors import InputError
from invariscope.heads.linear_algebra import NegativeCurvatureError, conjugate_gradients, largest_eigenvalue
from invariscope.heads.torch_losses import row_losses, slopes, target_columns
from invariscope.results import InfluenceResult
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.environments import Environments
from invariscope.rows.settings import NOT_DRAWN
from invariscope.rows.spelling import spelling
from invariscope.rows.targets import Target
from invariscope.wording import percent

NUMBERS = int(2e7)  # in the per-row gradients, or the columns of the Hessian, computed at a time
SHUFFLES = 19  # each costs a solve per environment
CG_TOLERANCE = 1e-3  # of the right-hand side
MAX_CG_STEPS = 200
POWER_STEPS = 30
DAMPING = 1e-2  # of the largest curvature: the spectrum of a whole network cannot be seen
GROWTH = 4.0  # of the damping where negative curvature is met
ATTEMPTS = 10


def outputs_of(module: torch.nn.Module, data: Environments) -> int:
    """How many numbers the module gives per row."""
    rows = torch.tensor(np.asarray(data.X[:2]), dtype=torch.float64)
    try:
        with torch.no_grad():
            scores = copy.deepcopy(module).cpu().eval().double()(rows)
    except RuntimeError as error:
        raise InputError(
            f"the head cannot read rows of {rows.shape[1]} columns ({error}): give a head that reads as many"
        ) from error
    return int(scores.reshape(len(rows), -1).shape[1])


class ModuleRows:
    """Rows under a torch module: the derivatives that linear heads have in closed form."""

    def __init__(self, data: Environments, target: Target, module: torch.nn.Module) -> None:
        self.module = copy.deepcopy(module).cpu().eval().double()
        self.parameters = {n: p.detach() for n, p in self.module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InputError("the head has no parameter that is trained: leave some of them trainable (requires_grad)")
        self.task = target.task
        self.inputs = torch.tensor(np.asarray(data.X), dtype=torch.float64)
        self.size = sum(value.numel() for value in self.parameters.values())
        self.reported = 2.0 if self.task == "regression" else 1.0
        self.weight = np.ones(len(data.X)) if data.weight is None else data.weight
        self.theta = torch.cat([value.reshape(-1) for value in self.parameters.values()])
        outputs = _checked_outputs(module, data, target)
        if self.task == "binary" and outputs == 2:
            self.task = "multiclass"
        self.targets = torch.tensor(target.values, dtype=torch.float64)
        self.columns = (
            self.targets if target.values.ndim == 2 else target_columns(self.targets, self.task, outputs, torch.float64)
        )

    def names(self) -> tuple[str, ...]:
        """Every single parameter: "0.weight[3, 1]"."""
        return tuple(
            f"{name}[{', '.join(map(str, place))}]" if place else name
            for name, value in self.parameters.items()
            for place in np.ndindex(*value.shape)
        )

    # --- functions of the flat parameter vector ---------------------------------------------------------------------
    def scores(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """(n, K)."""
        parts, start = {}, 0
        for name, value in self.parameters.items():
            parts[name] = theta[start : start + value.numel()].reshape(value.shape)
            start += value.numel()
        scores: Tensor = functional_call(self.module, parts, (inputs,))
        return scores.reshape(len(inputs), -1)

    def losses(self, theta: Tensor, inputs: Tensor, columns: Tensor) -> Tensor:
        """Loss of every row, in units in which the squared loss is ½ (s − y)²: (n,)."""
        scores = self.scores(theta, inputs)
        if self.task == "regression":
            return ((scores - columns) ** 2).sum(dim=1) / 2
        return row_losses(scores, columns, self.task)

    def slopes(self, theta: Tensor, inputs: Tensor, columns: Tensor) -> Tensor:
        """Derivative of every row's loss in a factor on its scores: (n,)."""
        return slopes(self.scores(theta, inputs), columns, self.task)

    # --- what the closed forms do as well -----------------------------------------------------------------------------
    def joint(self, theta: Floats, slopes: bool = True) -> Iterator[tuple[slice, Floats]]:
        point = torch.tensor(theta)

        def of_row(function: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
            return lambda vector, x, y: function(vector, x[None], y[None])[0]

        step = max(1, NUMBERS // (self.size * (2 if slopes else 1)))
        for start in range(0, len(self.inputs), step):
            block = slice(start, min(start + step, len(self.inputs)))
            x, y = self.inputs[block], self.columns[block]
            parts = [vmap(grad(of_row(self.losses)), in_dims=(None, 0, 0))(point, x, y)]
            if slopes:
                parts.append(vmap(grad(of_row(self.slopes)), in_dims=(None, 0, 0))(point, x, y))
                parts += [self.losses(point, x, y)[:, None], self.slopes(point, x, y)[:, None]]
            yield block, torch.cat(parts, dim=1).numpy()

    def hessians(self, theta: Floats, on_loss: Floats, on_slope: Floats | None = None) -> Floats:
        first = torch.tensor(on_loss)
        second = None if on_slope is None else torch.tensor(np.ascontiguousarray(on_slope))

        def total(vector: Tensor, place: int) -> Tensor:
            weighted = first[place] @ self.losses(vector, self.inputs, self.columns)
            if second is not None:
                weighted = weighted + second[place] @ self.slopes(vector, self.inputs, self.columns)
            return weighted

        point, chunk = torch.tensor(theta), max(1, NUMBERS // self.inputs.numel())
        directions = torch.eye(self.size, dtype=torch.float64)

        def hessian(place: int) -> Floats:
            # H is symmetric, so the reverse of the gradient gives its columns; forward mode would do no better
            back = vjp(grad(partial(total, place=place)), point)[1]
            return np.asarray(vmap(lambda direction: back(direction)[0], chunk_size=chunk)(directions).numpy())

        return np.stack([hessian(place) for place in range(len(on_loss))])


def _checked_outputs(module: torch.nn.Module, data: Environments, target: Target) -> int:
    outputs = outputs_of(module, data)
    expected = target.values.shape[1] if target.values.ndim == 2 else max(1, len(target.classes))
    allowed = {1, 2} if target.task == "binary" else {expected}
    if outputs not in allowed:
        raise InputError(f"the head has {outputs} outputs but the target needs {expected}: give a head with as many")
    return outputs


def measured_network(
    data: Environments,
    target: Target,
    module: torch.nn.Module,
    penalty: str | None,
    penalty_weight: float,
    shares: Floats | None,
    options: Options,
    solver: str,
) -> InfluenceResult:
    """The influence index of a torch module on the rows of ``data``; its environments' ``shares``, or ``None`` where
    the module tells them."""
    rows = ModuleRows(data, target, module)
    theta = rows.theta.numpy()
    shares, told = settled(shares, data, lambda: _mean_gradients(rows, data, 0, options.rng))
    chosen = penalty_of(penalty, penalty_weight, rows.reported, shares)
    if chosen is not None and data.weight is not None:
        raise InputError(
            "weights under a penalty must be whole numbers where the head is a torch module: repeat rows, or leave the "
            "weights out"
        )
    if solver == "auto":
        solver = "autograd" if rows.size <= LARGEST_DENSE else "cg"
    refuse_recomputed(options, solver)
    if solver == "autograd" and rows.size > LARGEST_DENSE:
        raise InputError(
            f"the head has {rows.size:,} parameters, and a whole Hessian is only computed up to {LARGEST_DENSE:,}: "
            'give the top model alone and its features as Z, or use solver="cg"'
        )
    with one_blas_thread():
        if solver == "cg":
            solution = by_conjugate_gradients(rows, data, penalty, float(penalty_weight), shares, options)
        else:
            known = None if chosen else known_of(rows, theta, data, shares)
            solution = by_penalty(rows, theta, data, known, chosen, shares, options)
    if solver == "autograd":
        solution = replace(solution, solver="autograd")
    if options.shuffles == 0:
        solution = solution.without_shuffles(NOT_DRAWN)
    solution.notes.extend(told)
    trained = Trained(penalty, float(penalty_weight), shares, options.shuffles_through)
    return result_of(data, solution, rows.names(), slice(None), rows.task, trained)


def objective_of(
    rows: ModuleRows, data: Environments, penalty: str | None, weight: float, shares: Floats
) -> Callable[[Tensor], Tensor]:
    """The training objective as a function of the flat parameters, with the penalties of :class:`Penalised`; in units
    in which the squared loss is ½ (s − y)². Without a penalty, the risks alone, by their ``shares``."""
    counted = torch.tensor(by_row(data, rows.weight, shares))
    runs = [slice(int(a), int(b)) for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)]

    def objective(theta: Tensor) -> Tensor:
        losses = rows.losses(theta, rows.inputs, rows.columns)
        risk = counted @ losses
        if penalty is None:
            return risk
        if penalty == "vrex":
            risks = torch.stack([losses[run].mean() for run in runs])
            return risk + weight * rows.reported * risks.var(correction=0)
        slopes = rows.slopes(theta, rows.inputs, rows.columns)
        halves = [slice(0, None, 2), slice(1, None, 2)] if penalty == "irm_split" else [slice(None), slice(None)]
        # IRM: (1/m) Σ_e D_e' D_e'', D the mean slopes of the even and of the odd rows, or both times of all
        means = torch.stack([torch.stack([slopes[run][half].mean() for half in halves]) for run in runs])
        return risk + weight * rows.reported * means.prod(dim=1).mean()

    return objective


def by_conjugate_gradients(
    rows: ModuleRows, data: Environments, penalty: str | None, weight: float, shares: Floats, options: Options
) -> Solution:
    """Influences of the environments and of a few deals, with Hessian-vector products only.

    A network that was not trained to a minimum has negative curvature; where conjugate gradients meet it, damping is
    made larger (if it is "auto") until they do not. Deals keep the Hessian of the environments as they are.
    """
    notes: list[str] = []
    deals = options.shuffles if options.exact else min(options.shuffles, SHUFFLES)
    if deals < options.shuffles:
        notes.append(
            f"{deals} shuffles were dealt instead of {options.shuffles}, since each costs a solve: "
            f"{spelling().call('iv.influence_index', 'exact=True')} deals them all."
        )
    m, gradients = len(data), _mean_gradients(rows, data, deals, options.rng)
    plain = None
    if penalty is not None:  # the deals are those of the risks
        quiet = _solved(objective_of(rows, data, None, 0.0, shares), rows, gradients, options, [])
        null = largest_spread(quiet[0][m:].reshape(deals, m, rows.size))
        plain, gradients = OfRisks(-quiet[0][:m], null, quiet[2]), gradients[:m]
    solved, largest, added, reason = _solved(
        objective_of(rows, data, penalty, weight, shares), rows, gradients, options, notes
    )
    null = largest_spread(solved[m:].reshape(deals, m, rows.size)) if plain is None else as_shrunk(plain, -solved)
    chosen = Damping(added, added, -np.inf, reason, notes)
    return Solution(-solved[:m], null, np.array([largest]), rows.size, chosen, "cg", plain)


def _solved(
    objective: Callable[[Tensor], Tensor], rows: ModuleRows, gradients: Floats, options: Options, notes: list[str]
) -> tuple[Floats, float, float, str]:
    """(H + damping)⁻¹ g for all gradients, the largest curvature, the damping and its reason; ``notes`` grow."""
    back = vjp(grad(objective), rows.theta)[1]

    def times(vectors: Floats) -> Floats:
        # one after the other: rows are many, vectors few, and memory is that of one pass
        products: Tensor = vmap(lambda vector: back(vector)[0], chunk_size=1)(torch.tensor(vectors))
        return products.numpy()

    largest = largest_eigenvalue(times, options.rng.standard_normal((1, rows.size)), POWER_STEPS)
    automatic = options.damping == "auto"
    start = DAMPING * largest if automatic else given_damping(options.damping)
    solved, residual, steps, added, lowest = _damped_solve(times, gradients, start, automatic)
    reason = f"given, {added / largest:.2g} of the largest curvature"
    if automatic:
        reason = f"{percent(added / largest)} of the largest curvature"
        if lowest < 0:
            reason += f", for a curvature of {lowest:.3g} was met: the network is not at a minimum"
        notes.append(f"Damping {added:.3g} ({reason}) was added to the Hessian.")
    notes.append(
        f"Influences on {rows.size:,} parameters by {steps} steps of conjugate gradients; largest relative residual "
        f"{residual:.1g}{'' if residual <= CG_TOLERANCE else ': not solved, so damp more'}."
    )
    return solved, largest, added, reason


def _damped_solve(
    times: Callable[[Floats], Floats], gradients: Floats, added: float, automatic: bool
) -> tuple[Floats, float, int, float, float]:
    """(H + damping)⁻¹ g: solutions, residual, steps, the damping that was enough, and the lowest curvature met."""
    lowest = 0.0
    for _ in range(ATTEMPTS):

        def damped(stack: Floats, added: float = added) -> Floats:
            return times(stack) + added * stack

        try:
            solutions = conjugate_gradients(damped, gradients, lambda stack: stack, CG_TOLERANCE, MAX_CG_STEPS)
            return *solutions, added, lowest
        except NegativeCurvatureError as met:
            if not automatic:
                raise
            lowest = min(lowest, met.curvature - added)
            added = max(GROWTH * added, 1.5 * (added - met.curvature))
    raise InputError(
        "the Hessian stays indefinite however much is added: train the network further, or call "
        f"{spelling().call('iv.influence_index', 'damping=')}"
    )


def _mean_gradients(rows: ModuleRows, data: Environments, deals: int, rng: np.random.Generator) -> Floats:
    """Gradients of the mean loss of every environment, then of every environment of every deal: (r, P)."""
    codes = np.concatenate([data.codes[None], rng.permuted(np.tile(data.codes, (deals, 1)), axis=1)])
    member = (codes[:, None, :] == np.arange(len(data))[:, None]) * rows.weight
    member = member.reshape(-1, member.shape[-1])
    shares = torch.tensor(member / member.sum(axis=1, keepdims=True))

    def of_group(theta: Tensor, share: Tensor) -> Tensor:
        return share @ rows.losses(theta, rows.inputs, rows.columns)

    gradients: Tensor = vmap(grad(of_group), in_dims=(None, 0), chunk_size=1)(rows.theta, shares)
    return gradients.numpy()
