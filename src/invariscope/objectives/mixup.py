"""Mixup between environments: train on rows halfway between those of two environments; and what mixing takes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import target_columns
from invariscope.objectives.objective import Named, Objective, Tensors, objective
from invariscope.rows.arrays import Floats, Integers


def mixup(
    inputs: Tensors,
    targets: Tensors,
    *,
    alpha: float = 0.2,
    classes: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Rows of every environment mixed with rows of another one, inputs and targets alike; train on them by ERM.

        x = λ x_i + (1 − λ) x_j,   y = λ y_i + (1 − λ) y_j,   i in e,  j in π(e),   λ ~ Beta(alpha, alpha)

    π sends the environments round a random circle, so that none meets itself; there is one λ for each of the pairs.
    Rows of π(e) are drawn without repetition, or with it where π(e) has fewer rows than e. Mixed targets stand for
    the published λ ℓ(f(x), y_i) + (1 − λ) ℓ(f(x), y_j): that is the same number for classes, and the same up to a
    constant, hence with the same gradient, for squared error.

    ``inputs`` (n_e, …); ``targets`` (n_e,) numbers or codes of two classes, or (n_e, K) probabilities; for integer
    codes of three classes or more say how many there are by ``classes``. Shapes stay, and targets come back as floats.

    What it cannot tell: whether environments differ. It smooths between them, which removes a spurious relation only
    where mixing rows of the two weakens it.

    References: Xu et al. (2020), "Adversarial domain adaptation with domain mixup"; Yan et al. (2020), "Improve
    unsupervised domain adaptation with mixup training"; in this form Gulrajani and Lopez-Paz (2021), "In search of lost
    domain generalization".

    >>> zeros, ones = torch.zeros(3, 1), torch.ones(3, 1)
    >>> (x, _), (y, _) = mixup([zeros, ones], [torch.zeros(3), torch.ones(3)], generator=torch.manual_seed(0))
    >>> bool((x[:, 0] == y).all()), bool((x == x[0]).all())  # one λ for all rows of the pair
    (True, True)
    """
    values = target_floats(inputs, targets, classes)
    return mixed_rows(inputs, values, _draw(values, alpha, generator))


def _draw(targets: Tensors, alpha: float, generator: torch.Generator | None) -> Named:
    if not alpha > 0:
        raise InputError(f"alpha is {alpha}: a Beta law needs a positive number")
    rng = numpy_generator(generator)
    sizes = np.array([len(values) for values in targets])
    starts = np.cumsum(sizes) - sizes
    circle = rng.permutation(len(sizes))
    after = np.empty_like(circle)
    after[circle] = np.roll(circle, -1)
    partners = [
        starts[other] + rng.choice(sizes[other], size, replace=bool(sizes[other] < size))
        for size, other in zip(sizes, after, strict=True)
    ]
    shares = rng.beta(alpha, alpha, len(sizes))
    return as_drawn(np.concatenate(partners), np.repeat(shares, sizes), targets[0])


@objective("mixup")
class Mixup(Objective):
    """Mean risk of rows mixed between environments: :func:`mixup`, and no penalty. ``alpha`` as there.

    The default 0.2 is that of Gulrajani and Lopez-Paz: most mixtures are then close to one of the two rows.
    """

    weight: float = 0.0
    alpha: float = 0.2

    def draw(self, targets: Tensors, generator: torch.Generator) -> Named:
        return _draw(targets, self.alpha, generator)

    def mix(self, inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[Tensors, Tensors]:
        return mixed_rows(inputs, targets, drawn)


# --- what all augmentations share ----------------------------------------------------------------------------------
def numpy_generator(generator: torch.Generator | None) -> np.random.Generator:
    """A numpy generator seeded by one draw of torch's, since Beta laws of torch cannot be given a generator."""
    return np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))


def as_drawn(partners: Integers, shares: Floats, like: Tensor) -> Named:
    """The random numbers of a step as tensors: for every row of the batch its partner, and the share it keeps itself.

    Rows are counted through all environments, one after the other: (N,) each.
    """
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return {
        "partners": torch.as_tensor(partners, dtype=torch.int64, device=like.device),
        "shares": torch.as_tensor(shares, dtype=dtype, device=like.device),
    }


def mixed_rows(inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """share · row + (1 − share) · partner, for inputs and targets alike; shapes stay as they are."""
    sizes = [len(rows) for rows in inputs]
    return _mixed(torch.cat(tuple(inputs)), drawn, sizes), _mixed(torch.cat(tuple(targets)), drawn, sizes)


def _mixed(pooled: Tensor, drawn: Named, sizes: list[int]) -> tuple[Tensor, ...]:
    shares = drawn["shares"].to(pooled.dtype).reshape(-1, *(1,) * (pooled.ndim - 1))
    partners = pooled[drawn["partners"]]
    return torch.split(partners + shares * (pooled - partners), sizes)


def target_floats(inputs: Tensors, targets: Tensors, classes: int | None) -> Tensors:
    """Targets that can be mixed: floats stay, codes of two classes become 0.0 and 1.0, of more become indicators."""
    if not inputs or len(inputs) != len(targets):
        raise InputError(f"{len(inputs)} environments of inputs, but {len(targets)} of targets: give one of each")
    for rows, values in zip(inputs, targets, strict=True):
        if len(rows) != len(values):
            raise InputError(
                f"{len(rows)} rows of inputs, but {len(values)} of targets in one environment: give one of each"
            )
        if len(rows) == 0:
            raise InputError("an environment has no rows: leave it out of the batch")
    if targets[0].is_floating_point():
        return tuple(targets)
    dtype = inputs[0].dtype if inputs[0].is_floating_point() else torch.get_default_dtype()
    if classes is not None and classes > 2:
        return tuple(target_columns(values, "multiclass", classes, dtype) for values in targets)
    highest = max(int(values.max()) for values in targets)
    if highest > 1:
        raise InputError(f"targets hold class codes up to {highest}: say how many there are with classes=")
    return tuple(values.to(dtype) for values in targets)
