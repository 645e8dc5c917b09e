"""Information bottleneck: keep no more in the features than the target needs, with or without IRM."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import refuse_no_tensors
from invariscope.objectives.irm import irm_penalty
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective


def bottleneck_penalty(
    logits: Tensors | None, targets: Tensors | None, features: Tensors, *, task: str = "auto"
) -> Tensor:
    """Variance of the features within environments, mean over their d columns, then over environments.

        penalty = (1/E) Σ_e (1/d) Σ_j Var_e(z_j),      Var_e with n_e − 1

    The variance stands for the entropy of the features (for normal ones it bounds it). ``features`` (n_e, d) or (n_e,);
    logits and targets are not looked at.

    What it cannot tell: invariance by itself. And it is not free of units: features shrunk by 10, with a head 10 times
    as large, have the same predictions and a hundredth of the penalty. Where the features are the score itself, as in
    a linear model, there is no head to make up for it and predictions are shrunk.

    Reference: Ahuja et al. (2021), "Invariance principle meets information bottleneck for out-of-distribution
    generalization", section 4.

    >>> float(bottleneck_penalty(None, None, [torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.zeros(2, 2)]))
    0.5
    """
    refuse_no_tensors("features", None if features == [] else features)
    for rows in features:
        if len(rows) < 2:
            raise InputError("an environment has fewer than two rows of features, so there is no variance: add rows")
    return torch.stack([rows.var(dim=0, correction=1).mean() for rows in features]).mean()


@objective("ib_erm")
class IBERM(Objective):
    """Mean risk + weight · :func:`bottleneck_penalty`.

    The default weight is small: features of standardised inputs have variances near 1, as the target has, and where the
    features are the score itself (linear models) a weight of 1 would halve the predictions.
    """

    fewest_environments: ClassVar[int] = 1

    weight: float = 0.1

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return bottleneck_penalty(batch.logits, batch.targets, batch.features)


@objective("ib_irm")
class IBIRM(Objective):
    """Mean risk + bottleneck · :func:`bottleneck_penalty` + weight · :func:`~invariscope.objectives.irm.irm_penalty`.

    ``weight`` is that of the IRM penalty, and what a schedule moves. The bottleneck has a weight of its own, and is
    part of what :meth:`risk` returns. ``form`` is that of the IRM penalty, "split" or "square".
    """

    weight: float = 100.0
    bottleneck: float = 0.1
    form: str = "square"

    def risk(self, batch: Batch, memory: Named) -> Tensor:
        return batch.risks.mean() + self.bottleneck * bottleneck_penalty(batch.logits, batch.targets, batch.features)

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return irm_penalty(batch.logits, batch.targets, task=batch.task, form=self.form)
