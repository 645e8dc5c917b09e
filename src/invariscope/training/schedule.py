"""How the weight of a penalty grows while training: one schedule for all objectives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from invariscope.rows.settings import real_number, switch


@dataclass(frozen=True)
class Schedule:
    """First learn to predict, then to be invariant: the penalty's weight at every step.

    Parameters
    ----------
    wait : steps with weight ``before`` (or the full weight, if that is smaller); an adversary learns only above 0
    ramp : steps over which it then rises in a straight line to the full weight; 0 is a jump
    rescale : divide the whole objective by the weight where that is above 1, so that steps keep their size
    restart : forget the optimiser's averages when the full weight is reached (as DomainBed does for IRM and V-REx)

    >>> [float(Schedule(wait=2, ramp=2).weight(step, 100.0)) for step in range(5)]
    [1.0, 1.0, 1.0, 50.5, 100.0]
    """

    wait: int = 0
    ramp: int = 0
    before: float = 1.0
    rescale: bool = True
    restart: bool = False

    def __post_init__(self) -> None:
        for name in ("wait", "ramp", "before"):
            real_number(getattr(self, name), name)
        for name in ("rescale", "restart"):
            switch(getattr(self, name), name)

    @property
    def full_from(self) -> int:
        """The first step with the full weight."""
        return self.wait + self.ramp

    def weight(self, step: int, full: Tensor | float) -> Tensor:
        """The weight at a step, of the shape of ``full``."""
        full = full if isinstance(full, Tensor) else torch.tensor(float(full))
        if step >= self.full_from:
            return full
        before = torch.clamp(full, max=self.before)
        return before if step < self.wait else before + (full - before) * ((step - self.wait) / self.ramp)

    def divisor(self, weight: Tensor) -> Tensor:
        """What the whole objective is divided by."""
        return torch.clamp(weight, min=1.0) if self.rescale else torch.ones_like(weight)

    def restarts_at(self, step: int) -> bool:
        """Whether the optimiser starts afresh before this step."""
        return self.restart and step == self.full_from > 0
