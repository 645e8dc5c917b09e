"""Shared-head regret: one head should serve every environment as well as its own would."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.heads.torch_losses import (
    checked_task,
    column_losses,
    curvature,
    predicted,
    refuse_no_tensors,
    target_columns,
)
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective

NEWTON_STEPS = 25
ACCELERATED_STEPS = 200
NEWTON_NUMBERS = 512  # classes² × columns up to which Newton's Hessian is formed: what it holds for every row
NO_LOSS = 1e-6  # of the target's variance: what own heads are taken to lose at least


def regret_penalty(
    logits: Tensors, targets: Tensors, features: Tensors | None = None, *, task: str = "auto", ridge: float = 1e-3
) -> Tensor:
    """How much more every environment loses under the best shared linear head than under its own, on average.

        penalty = (1/E) Σ_e R_e(w*) / R_e(w_e) − 1,   w_e = argmin R_e,   w* = argmin_w Σ_e R_e(w) / R_e(w_e)

    0 exactly when one linear head on the features is best in every environment: the papers' definition of an invariant
    representation. R_e is the mean loss in e plus ridge · (mean square of the centred features) · ‖w‖² (for classes
    plus ridge · intercept²), in what is minimised and in what is reported alike. So both heads are minima of what they
    appear in, their own movement has no effect to first order (the envelope theorem), and the gradient needs none of
    the fits.

    ``features`` (n_e, d) or (n_e,); ``logits`` only tell the task and the number of classes. The value does not change
    if features are shifted or scaled, or a numeric target. Heads are exact for squared error; for two classes 25
    damped Newton steps; for more classes the same if they are few, else 200 accelerated steps with a fixed bound of the
    Hessian. In wide features (hundreds of columns) this can cost more than the network's own step.

    What it cannot tell: it is an in-sample value. Own heads overfit their n_e rows, so it is about
    (1 − 1/E) (d + 1) / n_e too large, under invariance as well; with no more rows than columns own heads lose next to
    nothing, and it means little: use batches of many more rows than columns, or a larger ridge, and with every class in
    every environment. A constant representation has a regret of 0 if the target's mean is the same everywhere; the risk
    must keep it from that. And a flexible network can bend its features until linear heads agree in a few training
    environments, while still using what changes in the next.

    References: Definition 2.1 of "Measuring invariance in representation learning" (DRIC); see
    :func:`~invariscope.regret`. Compare Chang et al. (2020), "Invariant rationalization".

    >>> z = torch.tensor([[-1.0], [1.0], [-1.0], [1.0]])
    >>> y = z[:, 0] + torch.tensor([1.0, 1.0, -1.0, -1.0])  # slope 1 and noise of variance 1; then slope −1
    >>> none = [torch.zeros(4, 1)] * 2
    >>> round(float(regret_penalty(none, [y, -y], [z, z], ridge=1e-6)), 4)  # the shared slope is 0: (1 + 1) / 1 − 1
    1.0
    """
    task = checked_task(task, logits, targets)
    refuse_no_tensors("features", features)
    if features is None or len(features) != len(logits):
        raise InputError("the regret is that of features: give as many environments of features as of logits")
    for values, scores in zip(features, logits, strict=True):
        if len(values) != len(scores):
            raise InputError(
                f"{len(values)} rows of features, but {len(scores)} of logits in one environment: give one of each"
            )
    if not ridge > 0:
        raise InputError(f"ridge is {ridge}: give a positive number, or dead features leave heads undetermined")
    problems = problems_of(features, targets, task, logits[0].reshape(len(logits[0]), -1).shape[1], ridge)
    fixed = problems.detached()
    floor = _floor(fixed.targets, fixed.share)
    own = best_heads(fixed)
    weight = 1 / (fixed.objectives(own) + floor)
    shared = best_heads(fixed.pooled(weight / weight.sum()))
    return ((problems.objectives(shared) + floor) / (problems.objectives(own) + floor)).mean() - 1


def _floor(targets: Tensor, share: Tensor) -> Tensor:
    """A loss too small to divide by, from the variance of the target over all rows, environments counting alike."""
    counted = share[:, :, None] / len(share)
    centred = targets - (counted * targets).sum(dim=(0, 1))
    number = torch.finfo(targets.dtype)
    rounding = (10 * number.eps) ** 2 * (counted * targets**2).sum()  # of a constant target nothing else is left
    smallest: Tensor = NO_LOSS * (counted * centred**2).sum() + rounding + number.tiny**0.5
    return smallest


@objective("regret")
class Regret(Objective):
    """Mean risk + weight · :func:`regret_penalty` of the features; ``ridge`` as there.

    The penalty acts on the representation alone: the head of the model is trained by the risk.
    """

    weight: float = 10.0
    ridge: float = 1e-3

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return regret_penalty(batch.logits, batch.targets, batch.features, task=batch.task, ridge=self.ridge)


# --- linear heads of all environments at once ---------------------------------------------------------------------
# The same number of steps whatever the data. Everything works under torch.func.vmap: there is no branch on values, and
# no failed factorisation stops the other models that are trained beside this one.
@dataclass(frozen=True)
class Problems:
    """Rows of several problems, padded to the same length.

    ``design`` (B, n, p) with a first column of ones; ``targets`` (B, n, K) as in
    :func:`~invariscope.heads.torch_losses.target_columns`; ``share`` (B, n), 0 where a row is padding, else what it
    counts; ``ridge`` (p,) multiplies the squared weights.
    """

    design: Tensor
    targets: Tensor
    share: Tensor
    ridge: Tensor
    task: str

    def objectives(self, heads: Tensor) -> Tensor:
        """Mean loss plus ridge · squared weights, (B,), of heads (B, p, K), or one (1, p, K) for all."""
        penalty = (self.ridge[:, None] * heads**2).sum(dim=(1, 2))
        return (self.share * column_losses(self.design @ heads, self.targets, self.task)).sum(dim=1) + penalty

    def detached(self) -> Problems:
        """The same without gradients."""
        return replace(self, design=self.design.detach(), targets=self.targets.detach(), ridge=self.ridge.detach())

    def pooled(self, weight: Tensor) -> Problems:
        """All problems as one, each counting as much as its ``weight`` (B,), which add up to 1."""
        share = (weight[:, None] * self.share).reshape(1, -1)
        design, targets = (stacked.reshape(1, -1, stacked.shape[2]) for stacked in (self.design, self.targets))
        return replace(self, design=design, targets=targets, share=share)


def problems_of(features: Tensors, targets: Tensors, task: str, classes: int, ridge: float) -> Problems:
    """One problem for every environment.

    ``ridge`` is relative to the mean square of the centred features. For classes the intercept has it too, or it would
    run away where an environment lacks a class; numbers need none, and stay free of their units.
    """
    values = [part.reshape(len(part), -1) for part in features]
    dtype = values[0].dtype
    centre = torch.stack([part.mean(dim=0) for part in values]).mean(dim=0)
    values = [part - centre for part in values]
    square = torch.stack([(part**2).mean() for part in values]).mean()
    most = max(map(len, values))
    design, columns, share = [], [], []
    for part, truth in zip(values, targets, strict=True):
        padding = (0, 0, 0, most - len(part))
        design.append(functional.pad(functional.pad(part, (1, 0), value=1.0), padding))
        columns.append(functional.pad(target_columns(truth, task, classes, dtype), padding))
        share.append(functional.pad(torch.full_like(part[:, 0], 1 / len(part)), padding[2:]))
    # features that are all the same leave no square: a little more than nothing keeps the equations solvable
    # and what rounding leaves of a constant column, some eps · |centre|, must not pass for a column that varies
    rounding = torch.finfo(dtype).eps * (centre.detach() ** 2).mean()
    slope = ridge * (square + rounding) + torch.finfo(dtype).tiny ** 0.5
    of_intercept = torch.full_like(slope, 0.0 if task == "regression" else ridge)
    ridges = torch.cat([of_intercept.reshape(1), slope.expand(values[0].shape[1])])
    return Problems(torch.stack(design), torch.stack(columns), torch.stack(share), ridges, task)


def best_heads(problems: Problems) -> Tensor:
    """Heads that minimise the objective of each problem, (B, p, K)."""
    if problems.task == "regression":
        right = (problems.share[:, :, None] * problems.design).mT @ problems.targets
        return _solved(_gram(problems) + torch.diag(problems.ridge), right)
    classes, width = problems.targets.shape[2], problems.design.shape[2]
    return newton_heads(problems) if classes**2 * width <= NEWTON_NUMBERS else accelerated_heads(problems)


def newton_heads(problems: Problems, steps: int = NEWTON_STEPS) -> Tensor:
    """Damped Newton steps for classes.

    Along a step the second derivative changes by a factor of at most exp(c t), c the largest change of a difference of
    scores in any row. A step of log(1 + c) / c minimises the bound this gives, so that every one goes down, and the
    last ones are whole.
    """
    count, _, width = problems.design.shape
    classes = problems.targets.shape[2]
    heads = problems.design.new_zeros((count, width, classes))
    penalty = torch.diag(2 * problems.ridge.repeat(classes))
    for _ in range(steps):
        predictions = predicted(problems.design @ heads, problems.task)
        gradient = _gradient(problems, heads, predictions)
        weighted = problems.share[:, :, None, None] * curvature(predictions, problems.task)
        # H = Σ_n share_n (diag(p) − p pᵀ + 1 1ᵀ / K) ⊗ x xᵀ + 2 ridge; 1 1ᵀ / K is that of `curvature`
        hessian = torch.einsum("bnst,bni,bnj->bsitj", weighted, problems.design, problems.design)
        hessian = hessian.reshape(count, classes * width, classes * width) + penalty
        step = _solved(hessian, gradient.mT.reshape(count, classes * width, 1)).reshape(count, classes, width).mT
        change = problems.design @ step
        if problems.task == "binary":
            largest = change.abs().amax(dim=(1, 2))
        else:
            largest = (change.amax(dim=2) - change.amin(dim=2)).amax(dim=1)
        largest = largest.clamp(min=torch.finfo(heads.dtype).tiny ** 0.5)
        heads = heads - (torch.log1p(largest) / largest)[:, None, None] * step
    return heads


def accelerated_heads(problems: Problems, steps: int = ACCELERATED_STEPS) -> Tensor:
    """Nesterov's accelerated steps for classes, with a bound of the Hessian in place of the Hessian.

    ½ (I − 11ᵀ/K) ⊗ ZᵀZ is above the Hessian of K classes wherever it is taken (¼ ZᵀZ for two classes with one score).
    Gradients add up to 0 over classes, where the first factor is the identity: one small matrix serves all classes and
    all steps. Momentum starts again where it points uphill (O'Donoghue and Candès, 2015).
    """
    bound = (0.25 if problems.task == "binary" else 0.5) * _gram(problems)
    bound = bound + torch.diag(2 * problems.ridge)
    inverse = _solved(bound, torch.eye(bound.shape[-1], dtype=bound.dtype, device=bound.device).expand_as(bound))
    heads = problems.design.new_zeros((*problems.design.shape[::2], problems.targets.shape[2]))
    ahead, pace = heads, torch.ones_like(problems.share[:, 0])
    for _ in range(steps):
        gradient = _gradient(problems, ahead, predicted(problems.design @ ahead, problems.task))
        moved = ahead - inverse @ gradient
        uphill = (gradient * (moved - heads)).sum(dim=(1, 2)) > 0
        next_pace = torch.where(uphill, 1.0, (1 + torch.sqrt(1 + 4 * pace**2)) / 2)
        momentum = torch.where(uphill, 0.0, (pace - 1) / next_pace)
        ahead = moved + momentum[:, None, None] * (moved - heads)
        heads, pace = moved, next_pace
    return heads


def _gradient(problems: Problems, heads: Tensor, predictions: Tensor) -> Tensor:
    """Xᵀ (f − y) of the counted rows, plus 2 ridge w."""
    of_losses = problems.design.mT @ (problems.share[:, :, None] * (predictions - problems.targets))
    return of_losses + 2 * problems.ridge[:, None] * heads


def _gram(problems: Problems) -> Tensor:
    return (problems.share[:, :, None] * problems.design).mT @ problems.design


def _solved(left: Tensor, right: Tensor) -> Tensor:
    """left⁻¹ right; not a number where there is no solution, instead of an error that would stop all other models."""
    solution: Tensor = torch.linalg.solve_ex(left, right)[0]
    return solution
