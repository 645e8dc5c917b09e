"""Invariant rationalisation: no environment should gain by a head of its own on the shared features."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, risks
from invariscope.objectives.adversaries import checked_adversary, gradient_only
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective


def invrat_penalty(
    logits: Tensors, targets: Tensors, features: Tensors | None = None, *, own_logits: Tensors, task: str = "auto"
) -> Tensor:
    """What environments gain by heads of their own, as far as they gain: (1/E) Σ_e max(0, R_e(shared) − R_e(own)).

    ``logits`` are those of the shared head and ``own_logits`` those of each environment's own head on the same
    features, both (n_e, K). Their gradient may pass to the features, but the own heads must not be trained by this
    number, which they would worsen: compute ``own_logits`` with their parameters detached, and train them by their own
    risk on detached features. That must go on where the penalty is 0: they could not catch up otherwise.

    What it cannot tell: own heads are no better than their training, and one that lags behind hides a gain; a gain on
    the rows that trained them is partly noise.

    Reference: Chang et al. (2020), "Invariant rationalization", with max(0, ·) for its convex function of the
    difference, and the features of any representation where the paper selects words.

    >>> scores, own = [torch.tensor([[2.0]]), torch.tensor([[1.0]])], [torch.tensor([[1.0]]), torch.tensor([[5.0]])]
    >>> float(invrat_penalty(scores, [torch.zeros(1), torch.zeros(1)], own_logits=own))  # (4 − 1, no gain) / 2
    1.5
    """
    task = checked_task(task, logits, targets)
    if len(own_logits) != len(logits) or any(
        own.shape != shared.shape for own, shared in zip(own_logits, logits, strict=True)
    ):
        raise InputError("own_logits do not have the shapes of logits: give one tensor (n_e, K) for every environment")
    return functional.relu(risks(logits, targets, task) - risks(own_logits, targets, task)).mean()


def _own_logits(features: Tensors, weight: Tensor, bias: Tensor) -> list[Tensor]:
    return [rows @ weight[place].T.to(rows.dtype) + bias[place].to(rows.dtype) for place, rows in enumerate(features)]


@objective("invrat")
class InvRat(Objective):
    """Mean risk + weight · :func:`invrat_penalty`, and linear heads of every environment that learn meanwhile.

    The heads start at 0 and follow the gradient of the mean of their own risks, on detached features.
    """

    weight: float = 10.0

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        return {"weight": torch.zeros(environments, outputs, width), "bias": torch.zeros(environments, outputs)}

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        checked_features(batch.features)
        heads = checked_adversary(self.name, adversary, len(batch.features), "bias")
        fixed = _own_logits(batch.features, heads["weight"].detach(), heads["bias"].detach())
        learning = _own_logits([rows.detach() for rows in batch.features], heads["weight"], heads["bias"])
        gain = invrat_penalty(batch.logits, batch.targets, batch.features, own_logits=fixed, task=batch.task)
        return gain + gradient_only(risks(learning, batch.targets, batch.task).mean())
