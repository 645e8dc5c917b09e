"""Invariant risk minimisation, version 1: rescaling the predictions should help in no environment."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, slopes, target_columns
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, objective

FORMS = ("square", "split")


def irm_penalty(
    logits: Tensors, targets: Tensors, features: Tensors | None = None, *, task: str = "auto", form: str = "square"
) -> Tensor:
    """Squared derivative of the risk in a factor s on the logits, at s = 1, averaged over environments.

        D_e = d/ds R_e(s · logits) at s = 1,    penalty = (1/E) Σ_e D_e²            (form "square")
                                                penalty = (1/E) Σ_e D_e' · D_e''    (form "split")

    D_e' and D_e'' are of the even and of the odd rows: the noise of one half does not know that of the other, so the
    product has the right expectation, where the square is too large by the variance of D_e. The split is for batches
    drawn anew at every step: it can be negative, and on the same rows at every step a large weight drives it below any
    bound, with predictions that are wrong the opposite way in the two halves.
    The derivative is written out, mean f·(f − y)·2 for squared error and mean logitsᵀ(p − y) for classes, so
    that no second pass of automatic differentiation is needed.

    What it cannot tell: it is a condition of first order. A predictor that is best in no environment can pass.

    Reference: Arjovsky et al. (2019), "Invariant risk minimization", section 3.1 and appendix D.

    >>> float(irm_penalty([torch.tensor([[2.0]])], [torch.tensor([1.0])], form="square"))  # (2 · 2 · (2 − 1))²
    16.0
    """
    if form not in FORMS:
        raise InputError(f'form "{form}" is unknown: use "square" or "split"')
    task = checked_task(task, logits, targets)
    parts = []
    for scores, values in zip(logits, targets, strict=True):
        columns = scores.reshape(len(scores), -1)
        derivative = slopes(columns, target_columns(values, task, columns.shape[1], columns.dtype), task)
        derivative = derivative * (2.0 if task == "regression" else 1.0)
        if form == "square":
            parts.append(derivative.mean() ** 2)
        elif len(derivative) < 2:
            raise InputError('the split form needs two rows in every environment: use form="square"')
        else:
            parts.append(derivative[0::2].mean() * derivative[1::2].mean())
    return torch.stack(parts).mean()


@objective("irm")
class IRM(Objective):
    """Mean risk + weight · :func:`irm_penalty`; ``form`` "square", or "split" for batches drawn anew at every step.

    Where the weight is large, the training loop divides the whole by it (see
    :class:`~invariscope.training.Schedule`), so that the steps keep their size.
    """

    weight: float = 100.0
    form: str = "square"

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return irm_penalty(batch.logits, batch.targets, task=batch.task, form=self.form)
