"""Risk extrapolation: the risk should be the same in all environments."""

from __future__ import annotations

from torch import Tensor

from invariscope.heads.torch_losses import checked_task, risks
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective


def vrex_penalty(logits: Tensors, targets: Tensors, features: Tensors | None = None, *, task: str = "auto") -> Tensor:
    """Variance of the environments' risks, (1/E) Σ_e (R_e − R̄)².

    What it cannot tell: where the noise of the target differs between environments, the invariant predictor has
    different risks too, and this penalty moves away from it.

    Reference: Krueger et al. (2021), "Out-of-distribution generalization via risk extrapolation", equation 8, where
    risks are added up and not averaged: its weight is E times ours.

    >>> import torch
    >>> float(vrex_penalty([torch.tensor([[1.0]]), torch.tensor([[3.0]])], [torch.zeros(1), torch.zeros(1)]))
    16.0
    """
    return risks(logits, targets, checked_task(task, logits, targets)).var(correction=0)


@objective("vrex")
class VREx(Objective):
    """Mean risk + weight · variance of the environments' risks: :func:`vrex_penalty`."""

    weight: float = 10.0

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return batch.risks.var(correction=0)
