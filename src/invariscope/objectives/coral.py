"""Correlation alignment: features should have the same mean and covariance in all environments."""

from __future__ import annotations

from itertools import combinations

import torch
from torch import Tensor

from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective


def coral_penalty(logits: Tensors | None, targets: Tensors | None, features: Tensors, *, task: str = "auto") -> Tensor:
    """Squared differences of the means and of the covariances of features (n_e, d), averaged over pairs.

        penalty_ef = (1/d) Σ_j (m_e − m_f)_j² + (1/d²) Σ_jk (C_e − C_f)_jk²

    with C_e the covariance of environment e divided by n_e − 1. Logits and targets are not used.

    What it cannot tell: two moments are not the distribution; and it depends on the scale of the features, so a
    representation can lower it by shrinking.

    Reference: Sun and Saenko (2016), "Deep CORAL", for the covariances; the means and the scaling as in Gulrajani and
    Lopez-Paz (2021), "In search of lost domain generalization" (DomainBed).

    >>> features = [torch.tensor([[-1.0], [1.0]]), torch.tensor([[2.0], [4.0]])]
    >>> float(coral_penalty(None, None, features))  # the same variance, means 0 and 3
    9.0
    """
    checked_features(features, fewest_rows=2)
    means = [rows.mean(dim=0) for rows in features]
    covariances = [
        (rows - mean).T @ (rows - mean) / (rows.shape[0] - 1) for rows, mean in zip(features, means, strict=True)
    ]
    return torch.stack(
        [
            ((means[first] - means[second]) ** 2).mean() + ((covariances[first] - covariances[second]) ** 2).mean()
            for first, second in combinations(range(len(features)), 2)
        ]
    ).mean()


@objective("coral")
class CORAL(Objective):
    """Mean risk + weight · :func:`coral_penalty`."""

    weight: float = 1.0

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return coral_penalty(batch.logits, batch.targets, batch.features, task=batch.task)
