"""DRIC-regularised training: the density-ratio criterion of the DRIC paper as a penalty, to the letter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import checked_task, probabilities
from invariscope.objectives.objective import Batch, Named, Tensors, objective
from invariscope.objectives.transported import RatioObjective, checked_log_densities, linear_scores, log_densities_of
from invariscope.ratios.overlap import LARGEST_LOG_RATIO
from invariscope.rows.arrays import Array

NO_GAP = 1e-12  # of the variance of the baseline's predictions: a smaller sum of gaps is rounding error


def dric_penalty(
    logits: Tensors,
    targets: Tensors,
    features: Tensors | None = None,
    *,
    log_densities: Tensors | None = None,
    denominator: Tensor | float = 1.0,
    task: str = "auto",
) -> Tensor:
    """The published criterion Q of the predictions f, over the same sum for a baseline.

        q(e, e') = mean_{e'}[ f(x) ρ_{e,e'}(x) ],   q(e, e) = mean_e[ f(x) ]                                  (eq. 6)
        Q = Σ_{e ≠ e'} (q(e, e') − q(e, e))² / denominator                                                    (eq. 8)

    f are numbers, or probabilities of the classes, whose squares are added up; with two classes that of the second
    alone, whether they come as one column of logits or as two.

    **What it cannot tell: invariance.** f is one function shared by all environments, so with the true ratio
    q(e, e') = q(e, e) for *every* f, invariant or not: the population value is 0. What is minimised is how far the
    estimated ratio is off, times the size of the predictions. Shrinking predictions towards 0 lowers it, by 100 for a
    factor of 10, however variant the representation stays. It is here because it is published; use
    :func:`~invariscope.objectives.regret.regret_penalty` to train for invariance.

    ``log_densities`` (n_e, E): log p_k(x_i) up to a term common to all k, from
    :func:`~invariscope.objectives.transported.log_densities_of`, say; no gradient runs through them. ``denominator``:
    the numerator of the baseline, linear ERM on raw x. Ratios beyond e¹⁵⁰, or e⁴⁰ in single precision, are cut there.

    Reference: "Measuring invariance in representation learning: a robust evaluation framework" (DRIC), section 3.

    >>> f = [torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [4.0]])]
    >>> same = [torch.zeros(2, 2), torch.zeros(2, 2)]  # ρ = 1: (3 − 2)² + (2 − 3)²
    >>> float(dric_penalty(f, [torch.zeros(2), torch.zeros(2)], log_densities=same))
    2.0
    """
    task = checked_task(task, logits, targets)
    densities = checked_log_densities(log_densities, logits)
    columns = []
    for environment, (scores, at_rows) in enumerate(zip(logits, densities, strict=True)):
        largest = min(LARGEST_LOG_RATIO, 0.45 * math.log(torch.finfo(scores.dtype).max))  # its square is finite
        ratios = torch.exp(torch.clamp(at_rows - at_rows[:, environment : environment + 1], max=largest))
        columns.append(ratios.T @ _predicted(scores, task) / len(scores))
    means = torch.stack(columns, dim=1)  # (e, e', K)
    own = torch.diagonal(means, dim1=0, dim2=1).T
    return ((means - own[:, None]) ** 2).sum() / denominator


def _predicted(scores: Tensor, task: str) -> Tensor:
    """Numbers, or probabilities: of two classes that of the second, as everywhere."""
    columns = probabilities(scores, task)
    return columns[:, 1:] if task != "regression" and columns.shape[1] == 2 else columns


@objective("dric")
class DRIC(RatioObjective):
    """Mean risk + weight · :func:`dric_penalty`, representation and head in turn: equation 9 of the DRIC paper.

    **It does not train for invariance**: see :func:`dric_penalty` for what the published penalty rewards instead.

    ``ratio``, ``on``, ``refresh`` and ``svd`` say where the density ratio comes from: on the inputs ("x", once, the
    paper's main text) or the features ("z", its appendix A.3), see
    :class:`~invariscope.objectives.transported.RatioObjective`. ``denominator`` is set by :meth:`fitted`, so that the
    baseline scores 1 on the training rows; the default weight of 1 lets that count as much as the risk of a
    standardised target.
    """

    alternates: ClassVar[bool] = True

    weight: float = 1.0
    on: str = "x"
    denominator: float = 1.0

    def fitted(self, inputs: Sequence[Array], targets: Sequence[Array], task: str, seed: int) -> DRIC:
        """The same objective, with the numerator of linear ERM on the raw inputs as its denominator.

        ``inputs`` (n_e, d) and ``targets`` (n_e,), numbers or class codes, are those of all training rows. The
        baseline's ratio is always fitted on the inputs, as in the paper.
        """
        scores = [torch.from_numpy(part) for part in linear_scores(inputs, targets, task, svd=self.svd)]
        densities = [torch.from_numpy(part) for part in log_densities_of(inputs, self.ratio, seed, svd=self.svd)]
        values = [torch.as_tensor(np.asarray(part)) for part in targets]
        denominator = float(dric_penalty(scores, values, log_densities=densities, task=task))
        spread = float(torch.cat([_predicted(part, task) for part in scores]).var(dim=0).sum())
        if not denominator > NO_GAP * spread:
            raise InputError(
                "the baseline of DRIC predicts the same mean in all environments, so there is nothing to divide by: "
                "use another objective, or other environments"
            )
        return replace(self, denominator=denominator)

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return dric_penalty(
            batch.logits,
            batch.targets,
            log_densities=batch.log_densities,
            denominator=self.denominator,
            task=batch.task,
        )
