"""Penalties to drop into anybody's own PyTorch training loop.

Every penalty is a function of one tensor per environment: logits (n_e, K), targets (n_e,) and features (n_e, d), what
the head reads. It gives a number to add to the loss:

>>> import torch
>>> from invariscope.torch import vrex_penalty
>>> network = torch.nn.Linear(3, 1)
>>> batches = [(torch.randn(8, 3), torch.randn(8)) for environment in range(2)]
>>> logits, targets = [network(x) for x, _ in batches], [y for _, y in batches]
>>> risk = sum(((f[:, 0] - y) ** 2).mean() for f, y in zip(logits, targets)) / 2
>>> (risk + 10 * vrex_penalty(logits, targets)).backward()

Two columns of logits or more are classes, one column with whole-number targets is two classes, with floats regression;
``task=`` says it in words. ``mixup`` and ``lisa`` mix rows before the forward pass. ``reverse_parameters`` trains a
discriminator along with the network in the same step. ``log_densities_of`` fits the density ratios that
``dric_penalty`` and ``transport_gap_penalty`` ask for.
"""

from invariscope.objectives.adversaries import reverse_parameters
from invariscope.objectives.cdann import cdann_penalty
from invariscope.objectives.coral import coral_penalty
from invariscope.objectives.dann import dann_penalty
from invariscope.objectives.dric import dric_penalty
from invariscope.objectives.g2dm import discriminator_risk, g2dm_penalty
from invariscope.objectives.group_dro import group_dro_risk
from invariscope.objectives.information_bottleneck import bottleneck_penalty
from invariscope.objectives.invrat import invrat_penalty
from invariscope.objectives.irm import irm_penalty
from invariscope.objectives.lisa import lisa
from invariscope.objectives.mixup import mixup
from invariscope.objectives.mmd import mmd_penalty
from invariscope.objectives.regret import regret_penalty
from invariscope.objectives.transport_gap import transport_gap_penalty
from invariscope.objectives.transported import log_densities_of
from invariscope.objectives.vrex import vrex_penalty
from invariscope.objectives.wasserstein_matching import wasserstein_matching_penalty
from invariscope.objectives.worst_case import worst_case_penalty

__all__ = [
    "bottleneck_penalty",
    "cdann_penalty",
    "coral_penalty",
    "dann_penalty",
    "discriminator_risk",
    "dric_penalty",
    "g2dm_penalty",
    "group_dro_risk",
    "invrat_penalty",
    "irm_penalty",
    "lisa",
    "log_densities_of",
    "mixup",
    "mmd_penalty",
    "regret_penalty",
    "reverse_parameters",
    "transport_gap_penalty",
    "vrex_penalty",
    "wasserstein_matching_penalty",
    "worst_case_penalty",
]
