"""Training objectives: one file each, pure functions of one batch per environment."""

from invariscope.objectives.cdann import CDANN
from invariscope.objectives.coral import CORAL
from invariscope.objectives.dann import DANN
from invariscope.objectives.dric import DRIC
from invariscope.objectives.erm import ERM
from invariscope.objectives.g2dm import G2DM
from invariscope.objectives.group_dro import GroupDRO
from invariscope.objectives.information_bottleneck import IBERM, IBIRM
from invariscope.objectives.invrat import InvRat
from invariscope.objectives.irm import IRM
from invariscope.objectives.lisa import LISA
from invariscope.objectives.mixup import Mixup
from invariscope.objectives.mmd import MMD
from invariscope.objectives.objective import REGISTRY, Batch, Objective, objective, objective_of
from invariscope.objectives.regret import Regret
from invariscope.objectives.transport_gap import TransportGap
from invariscope.objectives.vrex import VREx
from invariscope.objectives.wasserstein_matching import WassersteinMatching
from invariscope.objectives.worst_case import WorstCase

__all__ = [
    "CDANN",
    "CORAL",
    "DANN",
    "DRIC",
    "ERM",
    "G2DM",
    "IBERM",
    "IBIRM",
    "IRM",
    "LISA",
    "MMD",
    "REGISTRY",
    "Batch",
    "GroupDRO",
    "InvRat",
    "Mixup",
    "Objective",
    "Regret",
    "TransportGap",
    "VREx",
    "WassersteinMatching",
    "WorstCase",
    "objective",
    "objective_of",
]
