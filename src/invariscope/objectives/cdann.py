"""Conditional domain-adversarial training: among rows of one target, features should not tell the environment."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.heads.torch_losses import checked_task, target_columns
from invariscope.objectives.adversaries import Discriminator, environment_knowledge, network, opposed_network
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective


def cdann_penalty(
    logits: Tensors, targets: Tensors, features: Tensors, *, discriminator: Discriminator, task: str = "auto"
) -> Tensor:
    """What a discriminator knows about the environment from features and target, classes counting the same, in nats.

        penalty = log E − (1/E) Σ_e Σ_i w_i cross-entropy(D(z_i, y_i), e),    w_i = 1 / (C_e · rows of class y_i in e)

    with C_e the classes that occur in the batch of environment e. ``discriminator`` turns (n, d + K) columns, those of
    the features and then those of the target, into scores (n, E); K is that of the logits: one column for each of
    several classes, one column in {0, 1} for two, the number itself in regression (where all w_i = 1/n_e). It is
    trained as that of :func:`~invariscope.objectives.dann.dann_penalty`. With these weights every environment has the
    same share of each class, so that the target alone says nothing: a shift of p(y) is not penalised, unless a class
    is absent from an environment, or in regression.

    What it cannot tell: features that differ within classes by p(z | y, e) may be what an invariant p(y | z) needs.

    Reference: Li et al. (2018), "Deep domain generalization via conditional invariant adversarial networks", of which
    this is the part with class-balanced weights. DomainBed adds an embedding of the class to the features (a special
    case of columns of their own before a linear layer) and balances the classes over all environments together; the
    two are the same where all environments have the same classes in equal numbers.

    >>> two = [torch.zeros(2, 1), torch.zeros(2, 1)]
    >>> rows = cdann_penalty(two, [torch.tensor([0, 1])] * 2, two, discriminator=lambda zy: zy @ torch.ones(2, 2))
    >>> round(float(rows), 6) == 0
    True
    """
    task = checked_task(task, logits, targets)
    checked_features(features)
    scores, weights = [], []
    for outputs, values, rows in zip(logits, targets, features, strict=True):
        columns = target_columns(values, task, outputs.reshape(outputs.shape[0], -1).shape[1], rows.dtype)
        scores.append(discriminator(torch.cat([rows, columns], dim=1)))
        weights.append(balanced_weights(columns, task))
    return environment_knowledge(scores, weights)


def balanced_weights(columns: Tensor, task: str) -> Tensor:
    """Weights (n,) of one environment's rows that give every class in it the same share; they add up to 1.

    >>> balanced_weights(torch.tensor([[0.0], [0.0], [0.0], [1.0]]), "binary")
    tensor([0.1667, 0.1667, 0.1667, 0.5000])
    """
    if task == "regression":
        return torch.full_like(columns[:, 0], 1 / columns.shape[0])
    classes = torch.cat([1 - columns, columns], dim=1) if task == "binary" else columns
    counts = classes.sum(dim=0)
    present = (counts > 0).to(classes.dtype)
    shares = present / torch.where(counts > 0, counts, 1.0) / present.sum()
    return classes @ shares


@objective("cdann")
class CDANN(Objective):
    """Mean risk + weight · :func:`cdann_penalty`; the discriminator has one layer of ``hidden`` units."""

    weight: float = 1.0
    hidden: int = 64

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        return network(width + outputs, self.hidden, environments, generator)

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        opponent = opposed_network(self.name, adversary, len(batch.features))
        return cdann_penalty(batch.logits, batch.targets, batch.features, discriminator=opponent, task=batch.task)
