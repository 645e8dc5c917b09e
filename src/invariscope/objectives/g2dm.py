"""Distribution matching by several discriminators: no environment's features should stand out from the rest."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from invariscope.errors import InputError
from invariscope.objectives.adversaries import Discriminator, checked_adversary, gradient_only, one_column_each, uniform
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective

NADIR_FLOOR = 1e-8  # losses may all be 0, as far as floats can tell


def g2dm_penalty(
    logits: Tensors | None,
    targets: Tensors | None,
    features: Tensors,
    *,
    discriminators: Discriminator,
    task: str = "auto",
    slack: float = 1.5,
) -> Tensor:
    """How little the features (n_e, d) mislead E one-against-rest discriminators, the least misled counting most.

        L_k = mean_e mean_i log-loss(D_k(z_i), e ≠ k)      of answers that are wrong on purpose
        penalty = −(1/E) Σ_k log(η − L_k),    η = slack · max_k L_k, held fixed

    ``discriminators`` turns features (n, d) into scores (n, E), of which column k is large for rows that look like
    environment k. The labels are swapped: the representation moves so that every D_k takes its own rows for the rest
    and the rest for its own. The weights 1 / (η − L_k) that the logarithm gives (hypervolume maximisation) make the
    discriminator that still sees most clearly, with the largest L_k, count most. Train the discriminators by
    :func:`discriminator_risk` between the steps; this number must not train them. Logits and targets are not used.

    What it cannot tell: its value is no distance, since η moves with the losses: read :func:`discriminator_risk`
    instead, which is log-loss of a guess where features are alike.

    Reference: Albuquerque et al. (2019), "Generalizing to unseen domains via distribution matching", with the loss of
    the authors' published code (mean over discriminators, slack 1.5). Left out: smoothed labels, dropout in the
    discriminators, and their separate optimisers. Environments count the same whatever their rows.

    >>> features = [torch.tensor([[1.0]]), torch.tensor([[-1.0]])]
    >>> value = g2dm_penalty(None, None, features, discriminators=lambda z: torch.zeros(len(z), 2))
    >>> round(float(value), 4)  # −log(0.5 · log 2)
    1.0597
    """
    if slack <= 1:
        raise InputError(f"slack {slack} leaves no room above the largest loss: use a number above 1, such as 1.5")
    losses = one_against_rest_losses([discriminators(rows) for rows in checked_features(features)], swapped=True)
    nadir = (slack * losses.detach().amax()).clamp_min(NADIR_FLOOR)
    return -torch.log(nadir - losses).mean()


def discriminator_risk(features: Tensors, discriminators: Discriminator) -> Tensor:
    """Mean log-loss of the one-against-rest discriminators, every environment counting the same: what trains them."""
    return one_against_rest_losses([discriminators(rows) for rows in checked_features(features)]).mean()


def one_against_rest_losses(scores: Tensors, swapped: bool = False) -> Tensor:
    """Log-loss of every column k of scores (n_e, E) as an answer to "is this row of environment k?", (E,)."""
    parts = []
    for place, rows in enumerate(one_column_each(scores)):
        own = torch.arange(len(scores), device=rows.device) == place
        parts.append(functional.softplus(torch.where(own != swapped, -rows, rows)).mean(dim=0))
    return torch.stack(parts).mean(dim=0)


def _scores(parameters: Named, rows: Tensor) -> Tensor:
    layers = {name: parameter.to(rows.dtype) for name, parameter in parameters.items()}
    seen = torch.einsum("nd,epd->nep", rows, layers["projection"].detach())
    hidden = functional.gelu(torch.einsum("nep,ehp->neh", seen, layers["hidden_weight"]) + layers["hidden_bias"])
    return torch.einsum("neh,eh->ne", hidden, layers["output_weight"]) + layers["output_bias"]


@objective("g2dm")
class G2DM(Objective):
    """Mean risk + weight · :func:`g2dm_penalty`, and discriminators that learn on detached features meanwhile.

    ``hidden`` units of each discriminator; ``projection``, the share of columns that its fixed random projection of
    the features keeps; ``slack`` of the nadir point. The weight is (1 − α) / α with α = 0.8, the
    default of the authors' code. The projections are kept with the adversary and never trained: their gradient is 0.
    """

    weight: float = 0.25
    hidden: int = 64
    projection: float = 0.75
    slack: float = 1.5

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        kept = min(max(round(self.projection * width), 1), width)
        projection = torch.randn((environments, kept, width), generator=generator) / kept**0.5
        return {
            "projection": projection,
            "hidden_weight": uniform((environments, self.hidden, kept), generator),
            "hidden_bias": torch.zeros(environments, self.hidden),
            "output_weight": uniform((environments, self.hidden), generator),
            "output_bias": torch.zeros(environments),
        }

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        learning = checked_adversary(self.name, adversary, len(batch.features))
        fixed = {name: parameter.detach() for name, parameter in learning.items()}
        value = g2dm_penalty(
            batch.logits,
            batch.targets,
            batch.features,
            discriminators=lambda rows: _scores(fixed, rows),
            task=batch.task,
            slack=self.slack,
        )
        seen = [rows.detach() for rows in batch.features]
        return value + gradient_only(discriminator_risk(seen, lambda rows: _scores(learning, rows)))
