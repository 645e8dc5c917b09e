"""Training objectives: one file each, pure functions of one batch per environment."""

from invariscope.objectives.erm import ERM
from invariscope.objectives.group_dro import GroupDRO
from invariscope.objectives.irm import IRM
from invariscope.objectives.objective import REGISTRY, Batch, Objective, objective, objective_of
from invariscope.objectives.vrex import VREx

__all__ = [
    "ERM",
    "IRM",
    "REGISTRY",
    "Batch",
    "GroupDRO",
    "Objective",
    "VREx",
    "objective",
    "objective_of",
]
