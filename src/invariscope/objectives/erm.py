"""Empirical risk minimisation: what everybody does, and what the others are compared with."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives.objective import Batch, Named, Objective, objective

COUNTED = ("environment", "row")


@objective("erm")
class ERM(Objective):
    """Mean risk and no penalty.

    ``per`` is what counts the same: "environment" (the mean of the environments' risks) or "row" (all rows pooled, so
    that large environments weigh more). With batches of equal size there is no difference.
    """

    fewest_environments: ClassVar[int] = 1

    weight: float = 0.0
    per: str = "environment"

    def risk(self, batch: Batch, memory: Named) -> Tensor:
        if self.per not in COUNTED:
            raise InputError(f'per "{self.per}" is unknown: use "environment" or "row"')
        if self.per == "environment":
            return batch.risks.mean()
        rows = batch.risks.new_tensor([len(scores) for scores in batch.logits])
        return (batch.risks * rows).sum() / rows.sum()
