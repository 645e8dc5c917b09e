"""LISA: mix rows of the same label across environments, or of other labels within one."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives.mixup import as_drawn, mixed_rows, numpy_generator, target_floats
from invariscope.objectives.objective import Named, Objective, Tensors, objective
from invariscope.rows.arrays import Booleans, Integers


def lisa(
    inputs: Tensors,
    targets: Tensors,
    *,
    p_sel: float = 0.5,
    alpha: float = 2.0,
    classes: int | None = None,
    generator: torch.Generator | None = None,
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Rows mixed so that what differs between environments, but not the label, is averaged away; train on them by ERM.

        x = λ x_i + (1 − λ) x_j,   y = λ y_i + (1 − λ) y_j,   λ ~ Beta(alpha, alpha) for every row

    With probability ``p_sel`` the partners j of all rows have the same label and come from other environments, else
    they come from the same environment and have another label. A partner is drawn evenly among all rows that will do;
    where there is none (a class that only one environment has), the row stays as it is. Regression, which the paper
    leaves open: "the same label" is the row with the nearest target in another environment, itself drawn evenly for
    every row, and "another label" is any other row of the environment.

    ``inputs`` (n_e, …); ``targets`` (n_e,) or (n_e, K), as for :func:`~invariscope.objectives.mixup.mixup`; one column
    that holds nothing but 0 and 1 is taken for two classes.

    What it cannot tell: whether environments differ. It helps where the spurious part of a row can be told from the
    rest by comparing rows of one label, and mixing them keeps the label true.

    Reference: Yao et al. (2022), "Improving out-of-distribution robustness via selective augmentation".

    >>> x = [torch.tensor([[0.0], [8.0]]), torch.tensor([[1.0], [9.0]])]
    >>> y = [torch.tensor([0, 1]), torch.tensor([0, 1])]
    >>> (first, second), labels = lisa(x, y, p_sel=1.0, generator=torch.manual_seed(0))
    >>> bool(0 < first[0] < 1), bool(8 < first[1] < 9), labels[0].tolist()  # row 0 meets row 0, row 1 meets row 1
    (True, True, [0.0, 1.0])
    """
    values = target_floats(inputs, targets, classes)
    return mixed_rows(inputs, values, _draw(values, p_sel, alpha, generator))


def _draw(targets: Tensors, p_sel: float, alpha: float, generator: torch.Generator | None) -> Named:
    if not 0 <= p_sel <= 1:
        raise InputError(f"p_sel is {p_sel}: give a probability between 0 and 1")
    if not alpha > 0:
        raise InputError(f"alpha is {alpha}: a Beta law needs a positive number")
    rng = numpy_generator(generator)
    environment = np.repeat(np.arange(len(targets)), [len(values) for values in targets])
    values = torch.cat([part.detach() for part in targets]).cpu().numpy()
    across = rng.random() < p_sel
    labels = _labels(values)
    if labels is not None:
        partners = _partners(labels, environment, rng) if across else _partners(environment, labels, rng)
    elif across:
        partners = _nearest_elsewhere(values.reshape(len(values)), environment, len(targets), rng)
    else:
        partners = _partners(environment, np.arange(len(values)), rng)
    return as_drawn(partners, rng.beta(alpha, alpha, len(values)), targets[0])


def _labels(values: NDArray[np.floating]) -> Integers | None:
    """Class codes of the rows, or nothing if the targets are numbers."""
    if values.ndim == 2 and values.shape[1] > 1:
        return np.asarray(values.argmax(axis=1))
    column = values.reshape(len(values))
    return column.astype(np.intp) if np.isin(column, (0.0, 1.0)).all() else None


def _partners(group: Integers, block: Integers, rng: np.random.Generator) -> Integers:
    """For every row one of the same group but another block, drawn evenly; itself where there is none.

    Sorted by (group, block), the rows of a group lie side by side and those of one of its blocks too: the partner is
    the u-th row of the group after leaving the block out.
    """
    order = np.lexsort((block, group))
    groups, blocks = group[order], block[order]
    new_group = np.r_[True, groups[1:] != groups[:-1]]
    new_block = new_group | np.r_[True, blocks[1:] != blocks[:-1]]
    group_start, group_size = _runs(new_group)
    block_start, block_size = _runs(new_block)
    available = group_size - block_size
    place = group_start + rng.integers(0, np.maximum(available, 1))
    place = np.where(place < block_start, place, place + block_size)
    partners = np.empty_like(order)
    partners[order] = np.where(available > 0, order[np.minimum(place, len(order) - 1)], order)
    return partners


def _runs(starts: Booleans) -> tuple[Integers, Integers]:
    """Where the run of every row begins, and how long it is, from a mask of first rows."""
    first = np.flatnonzero(starts)
    size = np.diff(np.r_[first, len(starts)])
    return np.repeat(first, size), np.repeat(size, size)


def _nearest_elsewhere(
    values: NDArray[np.floating], environment: Integers, environments: int, rng: np.random.Generator
) -> Integers:
    """For every row the one of another environment, drawn evenly, whose target is nearest; itself if it is alone."""
    partners = np.arange(len(values))
    if environments == 1:
        return partners
    # a step of 1 .. E − 1 round the circle of environments reaches every other one
    chosen = (environment + rng.integers(1, environments, len(values))) % environments
    for other in range(environments):
        asking, there = np.flatnonzero(chosen == other), np.flatnonzero(environment == other)
        there = there[np.argsort(values[there], kind="stable")]
        above = np.searchsorted(values[there], values[asking]).clip(1, max(len(there) - 1, 1))
        pair = there[np.stack([above - 1, np.minimum(above, len(there) - 1)])]
        second = np.abs(values[pair[1]] - values[asking]) < np.abs(values[pair[0]] - values[asking])
        partners[asking] = np.where(second, pair[1], pair[0])
    return partners


@objective("lisa")
class LISA(Objective):
    """Mean risk of selectively mixed rows: :func:`lisa`, and no penalty. ``p_sel`` and ``alpha`` as there.

    Both defaults are the paper's: either way of choosing partners in half of the steps, and λ around a half.
    """

    weight: float = 0.0
    p_sel: float = 0.5
    alpha: float = 2.0

    def draw(self, targets: Tensors, generator: torch.Generator) -> Named:
        return _draw(targets, self.p_sel, self.alpha, generator)

    def mix(self, inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[Tensors, Tensors]:
        return mixed_rows(inputs, targets, drawn)
