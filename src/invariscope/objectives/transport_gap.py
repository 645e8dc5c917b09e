"""Transport gap: what is left over in one environment should have the mean it has in another, at the same features."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.heads.torch_losses import checked_task, probabilities, target_columns
from invariscope.objectives.objective import Batch, Named, Tensors, objective
from invariscope.objectives.transported import RatioObjective, checked_log_densities

SMALLEST_VARIANCE = 1e-4  # of classes: rare ones may be missing from a batch, and nothing is left to divide by


def transport_gap_penalty(
    logits: Tensors,
    targets: Tensors,
    features: Tensors | None = None,
    *,
    log_densities: Tensors | None = None,
    floor: float = 0.05,
    debias: bool = True,
    task: str = "auto",
) -> Tensor:
    """Squared gaps between mean residuals of environments made to look alike, over the variance of the target.

        δ(e, e') = Σ_{i in e'} ρ_i r_i / Σ_{i in e'} ρ_i − mean_e[ r ],    r = y − f,    ρ = dP_e / dP_e' at row i
        penalty = mean over e ≠ e' of (δ² − SE²) / variance of y within environments

    0 on average where E[y | z] is the same in all environments and the ratio is that of z; unlike the published
    criterion (:func:`~invariscope.objectives.dric.dric_penalty`) it is not 0 elsewhere. f are numbers, or probabilities
    of the classes, whose squares are added up (with two classes, of the second alone).

    Pairs with an effective share of rows (Σρ)² / Σρ² / n below ``floor`` count nothing. The weights ρ / Σρ are a
    softmax of log ratios over rows, so that no ratio can overflow; no gradient runs through them. SE² is what noise
    alone makes of δ². It carries no gradient either, so ``debias`` centres the value and leaves the training as it is:
    if it did carry one, residuals could be made noisy on the training rows, for a value below any bound.

    ``log_densities`` (n_e, E): log p_k(z_i) up to a term common to all k, from
    :func:`~invariscope.objectives.transported.log_densities_of`, say.

    What it cannot tell: it looks at means only, so relations may differ and cancel (the regret sees that). And nothing
    can be said where environments do not overlap. **As a penalty it is weak**: with the right ratio on z, no function
    of z changes δ, since Σρf / Σρ and mean_e[f] cancel, so that no head can lower it; what would is another z, through
    the ratio, which has no gradient. What is left moves f towards what the ratio has not balanced, and need not lead to
    an invariant representation. It is good for watching a training run; to train for invariance use
    :func:`~invariscope.objectives.regret.regret_penalty`.

    References: "Measuring invariance in representation learning" (DRIC), equation 6, applied to residuals; see
    :func:`~invariscope.transport_gap`.

    >>> y = [torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0])]  # means 1 and 2, variance 1
    >>> f, same = [torch.zeros(2, 1)] * 2, [torch.zeros(2, 2)] * 2
    >>> float(transport_gap_penalty(f, y, log_densities=same, debias=False))
    1.0
    """
    task = checked_task(task, logits, targets)
    densities = checked_log_densities(log_densities, logits)
    weighted, noise, plain, plain_noise, shares, squares = [], [], [], [], [], []
    for environment, (scores, values, at_rows) in enumerate(zip(logits, targets, densities, strict=True)):
        rows = len(scores)
        truth = target_columns(values, task, scores.reshape(rows, -1).shape[1], scores.dtype)
        residual = truth - probabilities(scores, task)
        weight = torch.softmax(at_rows - at_rows[:, environment : environment + 1], dim=0)  # (n, E), 1 / n for itself
        weighted.append(weight.T @ residual)
        plain.append(residual.mean(dim=0))
        noise.append(_noise(weight, residual.detach()))
        plain_noise.append(_noise(torch.full_like(weight[:, :1], 1 / rows), residual.detach())[0])
        shares.append(1 / (weight**2).sum(dim=0) / rows)
        squares.append(((truth - truth.mean(dim=0)) ** 2).sum())
    gap = torch.stack(weighted, dim=1) - torch.stack(plain)[:, None]  # (e, e', K)
    counted = (torch.stack(shares, dim=1) >= floor) & ~torch.eye(len(logits), dtype=torch.bool, device=gap.device)
    each = (gap**2).sum(dim=2)
    if debias:
        each = each - (torch.stack(noise, dim=1) + torch.stack(plain_noise)[:, None]).sum(dim=2)
    variance = (torch.stack(squares).sum() / sum(map(len, logits))).detach()
    tiny = torch.finfo(variance.dtype).tiny ** 0.5
    variance = variance.clamp(min=tiny if task == "regression" else SMALLEST_VARIANCE)  # numbers have units
    return torch.where(counted, each, 0.0).sum() / counted.sum().clamp(min=1) / variance


def _noise(weight: Tensor, residual: Tensor) -> Tensor:
    """Squared standard errors of weighted means of the residuals, (E, K), from weights (n, E) that add up to 1.

    (r − mean)² is too small by 1 − 2 w + Σ w² where noise is even: for w = 1 / n that is the n − 1 of a variance.
    """
    apart = (residual[:, None] - (weight.T @ residual)) ** 2  # (n, E, K)
    too_small = (1 - 2 * weight + (weight**2).sum(dim=0)).clamp(min=1e-6)
    return torch.einsum("ne,nek->ek", weight**2 / too_small, apart)


@objective("transport_gap")
class TransportGap(RatioObjective):
    """Mean risk + weight · :func:`transport_gap_penalty`; ``floor`` and ``debias`` as there.

    ``ratio``, ``on``, ``refresh`` and ``svd`` say where the density ratio comes from, see
    :class:`~invariscope.objectives.transported.RatioObjective`. On the inputs ("x") what is compared is E[y | x], not
    E[y | z], and no representation can change that: "z" is the one to use.
    """

    weight: float = 10.0
    on: str = "z"
    floor: float = 0.05
    debias: bool = True

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return transport_gap_penalty(
            batch.logits,
            batch.targets,
            log_densities=batch.log_densities,
            floor=self.floor,
            debias=self.debias,
            task=batch.task,
        )
