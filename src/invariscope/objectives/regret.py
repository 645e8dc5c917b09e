"""Shared-head regret: one head should serve every environment as well as its own would."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective
from invariscope.objectives.shared_heads import best_heads, problems_of

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
    if features is None or len(features) != len(logits):
        raise InputError("the regret is that of features: give as many environments of features as of logits")
    for values, scores in zip(features, logits, strict=True):
        if len(values) != len(scores):
            raise InputError(f"{len(values)} rows of features, but {len(scores)} of logits in one environment")
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
