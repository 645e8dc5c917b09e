"""Maximum mean discrepancy: features should have the same distribution in all environments, as kernels see it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from invariscope.objectives.objective import Batch, Named, Objective, Tensors, checked_features, objective

GAMMAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)


def mmd_penalty(
    logits: Tensors | None,
    targets: Tensors | None,
    features: Tensors,
    *,
    task: str = "auto",
    gammas: Sequence[float] = GAMMAS,
) -> Tensor:
    """Squared maximum mean discrepancy of the features (n_e, d), averaged over the pairs of environments.

        k(x, y) = Σ_γ exp(−γ |x − y|²),    MMD²_ef = mean k(x, x') + mean k(y, y') − 2 mean k(x, y)

    with x, x' over all rows of environment e (a row with itself included) and y, y' over those of f. It is 0 for equal
    samples and at most twice the number of ``gammas``. Logits and targets are not used.

    What it cannot tell: samples of the same distribution give about (1/n_e + 1/n_f) times the spread of the kernel,
    not 0; and where p(y) differs between environments, features that predict y must differ as well.

    Reference: Li et al. (2018), "Domain generalization with adversarial feature learning"; kernels and the average over
    pairs as in Gulrajani and Lopez-Paz (2021), "In search of lost domain generalization" (DomainBed).

    >>> features = [torch.tensor([[0.0]]), torch.tensor([[1.0]])]
    >>> float(mmd_penalty(None, None, features, gammas=(1.0,)))  # 1 + 1 − 2 exp(−1)
    1.264...
    """
    checked_features(features)
    within = [_kernel(squared_distances(rows), gammas).mean() for rows in features]
    return torch.stack(
        [
            within[first]
            + within[second]
            - 2 * _kernel(squared_distances(features[first], features[second]), gammas).mean()
            for first, second in combinations(range(len(features)), 2)
        ]
    ).mean()


def squared_distances(rows: Tensor, others: Tensor | None = None) -> Tensor:
    """|x_i − y_j|² as (n, m); without ``others`` those among the rows, with zeros on the diagonal.

    Written as |x|² + |y|² − 2xy, which needs no (n, m, d) tensor; the zeros are set, because this difference of large
    numbers would leave rounding where a narrow kernel is most sensitive.

    >>> squared_distances(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0], [5.0]]))
    tensor([[ 1., 25.],
            [ 4.,  4.]])
    """
    second = rows if others is None else others
    centre = rows.detach().mean(dim=0)  # distances do not change, and squares of smaller numbers round less
    x, y = rows - centre, second - centre
    squares = (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1)[None, :] - 2 * x @ y.T
    if others is None:
        squares = squares * (1 - torch.eye(x.shape[0], dtype=x.dtype, device=x.device))
    return squares.clamp_min(0)


def _kernel(squares: Tensor, gammas: Sequence[float]) -> Tensor:
    result = torch.zeros_like(squares)
    for gamma in gammas:
        result = result + torch.exp(-gamma * squares)
    return result


@objective("mmd")
class MMD(Objective):
    """Mean risk + weight · :func:`mmd_penalty`; ``gammas`` are the widths of its kernels, 1 / (2 · scale²) each."""

    rows_at_once: ClassVar[int | None] = 256

    weight: float = 1.0
    gammas: tuple[float, ...] = GAMMAS

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        return mmd_penalty(batch.logits, batch.targets, batch.features, task=batch.task, gammas=self.gammas)
