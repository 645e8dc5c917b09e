"""Domain-adversarial training: nothing should be able to tell from the features which environment a row is from."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.objectives.adversaries import Discriminator, environment_knowledge, network, opposed_network
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective


def dann_penalty(
    logits: Tensors | None,
    targets: Tensors | None,
    features: Tensors,
    *,
    discriminator: Discriminator,
    task: str = "auto",
) -> Tensor:
    """What a discriminator knows about the environment from the features (n_e, d), in nats.

        penalty = log E − (1/E) Σ_e mean_i cross-entropy(D(z_i), e)

    ``discriminator`` turns features (n, d) into scores (n, E). The representation minimises this number and the
    discriminator maximises it: pass it with :func:`~invariscope.objectives.adversaries.reverse_parameters` to train
    both by one descent, or train it by an optimiser of its own. For the best of all discriminators the penalty is the
    Jensen–Shannon divergence of the environments' features: 0 when they are the same, log E when they never overlap.
    Logits and targets are not used.

    What it cannot tell: a discriminator that is badly trained knows nothing of any features; and where p(y) differs
    between environments, features that predict y must differ as well.

    Reference: Ganin et al. (2016), "Domain-adversarial training of neural networks". Left out: its schedule of the
    weight. The gradient is reversed in the parameters, not at the features, so that the value keeps its meaning.

    >>> features = [torch.tensor([[1.0]]), torch.tensor([[-1.0]])]
    >>> guess = dann_penalty(None, None, features, discriminator=lambda z: torch.zeros(len(z), 2))
    >>> round(float(guess), 6) == 0
    True
    """
    return environment_knowledge([discriminator(rows) for rows in checked_features(features)])


@objective("dann")
class DANN(Objective):
    """Mean risk + weight · :func:`dann_penalty`; the discriminator has one layer of ``hidden`` units."""

    weight: float = 1.0
    hidden: int = 64

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        return network(width, self.hidden, environments, generator)

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        opponent = opposed_network(self.name, adversary, len(batch.features))
        return dann_penalty(batch.logits, batch.targets, batch.features, discriminator=opponent, task=batch.task)
