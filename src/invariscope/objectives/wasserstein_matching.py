"""Wasserstein matching: moving the features of one environment onto those of another should cost nothing."""

from __future__ import annotations

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, target_columns
from invariscope.objectives.adversaries import gradient_only
from invariscope.objectives.mmd import squared_distances
from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective

SMALLEST_ENTROPY = 1e-12  # where all rows are one point there is no mean cost to be relative to


def wasserstein_matching_penalty(
    logits: Tensors | None,
    targets: Tensors | None,
    features: Tensors,
    *,
    task: str = "auto",
    conditional: bool = True,
    entropy: float = 0.1,
    iterations: int = 50,
) -> Tensor:
    """Squared 2-Wasserstein distance of the features (n_e, d), within classes, averaged over pairs and classes.

        W_ε(e, f) = min_P Σ_ij P_ij |x_i − y_j|² + ε KL(P | a bᵀ),    S = W_ε(e, f) − W_ε(e, e)/2 − W_ε(f, f)/2

    over plans P with the rows' weights a and b as margins. S is 0 for equal samples and not negative; it is the squared
    distance itself as ε → 0. ε is ``entropy`` times the mean of |x_i − y_j|² over rows of all pairs of
    environments, one for every class, held fixed. With
    ``conditional`` the weights are those of one class at a time, and a class counts for the pairs of environments that
    have rows of it; in regression there are no classes and all rows are matched. Targets can be probabilities.

    The gradient is that of Σ P |x − y|² with the plan held fixed, which at the minimum is exact (envelope theorem), as
    far as the ``iterations`` have come; what is left out is that ε itself follows the mean cost. With the defaults and
    normal features, values are settled to about 1 in 1,000 and gradients to some per cent, and the value is some 10%
    below the squared distance; a smaller ``entropy`` comes nearer and needs more iterations.

    What it cannot tell: samples of the same distribution are some distance apart, the more so the more columns; and a
    representation can lower it by shrinking.

    Reference: Zhou et al. (2021), "Domain generalization via optimal transport with metric similarity learning", for
    matching of environments; Feydy et al. (2019), "Interpolating between optimal transport and MMD using Sinkhorn
    divergences", for S.

    >>> features = [torch.tensor([[0.0], [1.0]]), torch.tensor([[3.0], [4.0]])]  # the same, moved by 3
    >>> round(float(wasserstein_matching_penalty(None, None, features, conditional=False)), 3)
    9.0
    """
    if entropy <= 0 or iterations < 1:
        raise InputError(f"entropy {entropy} with {iterations} iterations: use numbers above 0, such as 0.1 and 50")
    checked_features(features)
    classes = _classes(logits, targets, features, task, conditional)
    totals = [columns.sum(dim=0) for columns in classes]
    present = torch.stack([(total > 0).to(total.dtype) for total in totals])  # (environments, classes)
    # A class without rows gets equal weights, so that nothing is divided by 0, and then does not count
    weights = [
        torch.where(total > 0, columns / torch.where(total > 0, total, 1.0), 1 / columns.shape[0]).T
        for columns, total in zip(classes, totals, strict=True)
    ]
    pairs = list(combinations(range(len(features)), 2))
    costs = [squared_distances(features[first], features[second]) for first, second in pairs]
    counted = torch.stack([present[first] * present[second] for first, second in pairs])  # (pairs, classes)
    means = torch.stack(
        [
            (weights[first] @ cost.detach() * weights[second]).sum(dim=1)
            for (first, second), cost in zip(pairs, costs, strict=True)
        ]
    )
    epsilon = (entropy * (counted * means).sum(dim=0) / counted.sum(dim=0).clamp_min(1)).clamp_min(SMALLEST_ENTROPY)
    within = [
        transport_cost(squared_distances(rows), weight, weight, epsilon, iterations, 1 / entropy)
        for rows, weight in zip(features, weights, strict=True)
    ]
    divergences = torch.stack(
        [
            transport_cost(cost, weights[first], weights[second], epsilon, iterations, 1 / entropy)
            - (within[first] + within[second]) / 2
            for (first, second), cost in zip(pairs, costs, strict=True)
        ]
    )
    return (counted * divergences).sum() / counted.sum().clamp_min(1)


def _classes(
    logits: Tensors | None, targets: Tensors | None, features: Tensors, task: str, conditional: bool
) -> list[Tensor]:
    """How much every row belongs to every class, (n_e, classes): one class of all rows where there are none."""
    if conditional and (logits is None or targets is None):
        raise InputError("conditional matching needs logits and targets: give them, or use conditional=False")
    if conditional and logits is not None and targets is not None:
        task = checked_task(task, logits, targets)
    if not conditional or task == "regression" or logits is None or targets is None:
        return [torch.ones_like(rows[:, :1]) for rows in features]
    columns = [
        target_columns(values, task, scores.shape[-1], rows.dtype)
        for scores, values, rows in zip(logits, targets, features, strict=True)
    ]
    return [torch.cat([1 - second, second], dim=1) for second in columns] if task == "binary" else columns


def transport_cost(
    cost: Tensor, first: Tensor, second: Tensor, epsilon: Tensor, iterations: int, start: float = 1.0
) -> Tensor:
    """W_ε for costs (n, m), weights (C, n) and (C, m) that add up to 1, and ε (C,): (C,), by Sinkhorn's iterations.

    The first half of them goes down from ``start`` · ε to ε in equal factors, which leads potentials quickly to where a
    small ε would take long. Both are updated at once and averaged with the last ones, so that the result does not
    depend on which side comes first. Everything is in logarithms; a weight of 0 is −∞ there and takes part in nothing.
    """
    costs, first, second = cost.detach(), first.detach(), second.detach()
    log_first, log_second = torch.log(first), torch.log(second)
    f, g = torch.zeros_like(log_first), torch.zeros_like(log_second)
    for step in range(iterations + 1):
        scale = epsilon.detach()[:, None] * start ** max(0.0, 1 - 2 * step / iterations)
        to_second = log_second[:, None, :] + (g[:, None, :] - costs) / scale[:, :, None]  # (C, n, m)
        to_first = log_first[:, :, None] + (f[:, :, None] - costs) / scale[:, :, None]
        new_f, new_g = -scale * torch.logsumexp(to_second, dim=2), -scale * torch.logsumexp(to_first, dim=1)
        # The last step is not averaged: half of the plan below has exact margins on one side, half on the other
        f, g = (new_f, new_g) if step == iterations else ((f + new_f) / 2, (g + new_g) / 2)
    rows = first[:, :, None] * torch.softmax(to_second, dim=2)
    columns = second[:, None, :] * torch.softmax(to_first, dim=1)
    value = (first * f).sum(dim=1) + (second * g).sum(dim=1)
    return value + gradient_only((((rows + columns) / 2) * cost).sum(dim=(1, 2)))


@objective("wasserstein_matching")
class WassersteinMatching(Objective):
    """Mean risk + weight · :func:`wasserstein_matching_penalty`, ``conditional`` on the class or not.

    ``entropy`` is relative to the mean squared distance of rows of different environments.
    """

    rows_at_once: ClassVar[int | None] = 64

    weight: float = 1.0
    conditional: bool = True
    entropy: float = 0.1
    iterations: int = 50

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return wasserstein_matching_penalty(
            batch.logits,
            batch.targets,
            batch.features,
            task=batch.task,
            conditional=self.conditional,
            entropy=self.entropy,
            iterations=self.iterations,
        )
