"""Group distributionally robust optimisation: the worst environment counts most."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, risks
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective


def group_dro_risk(
    logits: Tensors,
    targets: Tensors,
    features: Tensors | None = None,
    *,
    task: str = "auto",
    shares: Tensor | None = None,
    rate: float = 0.01,
) -> tuple[Tensor, Tensor]:
    """Σ_e q_e R_e with the shares after one exponentiated-gradient step, and those shares for the next call.

        q_e ← q_e exp(rate · R_e) / Σ_k q_k exp(rate · R_k)

    What it cannot tell: environments whose targets are noisier have larger risks whatever is learned, and get the
    attention all the same.

    Reference: Sagawa et al. (2020), "Distributionally robust neural networks for group shifts", algorithm 1.

    >>> scores, truth = [torch.tensor([[1.0]]), torch.tensor([[2.0]])], [torch.zeros(1), torch.zeros(1)]
    >>> loss, shares = group_dro_risk(scores, truth, rate=1.0)
    >>> [round(float(share), 4) for share in shares]  # 1 : exp(4 − 1)
    [0.0474, 0.9526]
    """
    each = risks(logits, targets, checked_task(task, logits, targets))
    shares = torch.full_like(each, 1 / len(each)) if shares is None else shares
    if shares.shape != each.shape:
        raise InputError(f"{shares.numel()} shares for {len(each)} environments: give one share for each")
    moved = _moved(shares, each, rate)
    return (moved * each).sum(), moved


def _moved(shares: Tensor, each: Tensor, rate: float) -> Tensor:
    smallest = torch.finfo(shares.dtype).tiny  # a share of 0 would never grow again
    return torch.softmax(torch.log(shares.clamp_min(smallest)) + rate * each.detach(), dim=0)


@objective("group_dro")
class GroupDRO(Objective):
    """Risk weighted towards the worst environments: :func:`group_dro_risk`. ``rate`` is that of the shares."""

    weight: float = 0.0
    rate: float = 0.01

    def memory(self, environments: int) -> Named:
        return {"shares": torch.full((environments,), 1 / environments)}

    def remember(self, batch: Batch, memory: Named) -> Named:
        return {"shares": _moved(memory["shares"], batch.risks, self.rate)}

    def risk(self, batch: Batch, memory: Named) -> Tensor:
        return (memory["shares"] * batch.risks).sum()

    def judgement(self, batch: Batch, weight: Tensor | float, memory: Named, adversary: Named) -> Tensor:
        """The worst environment's risk: the shares keep moving, so sums with them do not compare over time."""
        return batch.risks.max()
