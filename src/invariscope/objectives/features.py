"""What objectives that compare the features of environments share: checking them, and distances between rows."""

from __future__ import annotations

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives.objective import Tensors


def checked_features(features: Tensors, fewest_rows: int = 1) -> Tensors:
    """The features, if there are two environments of them, each (n_e, d) with the same d and enough rows."""
    if features is None or isinstance(features, Tensor):
        raise InputError("features must be a list of torch tensors, one for every environment")
    if len(features) < 2:
        raise InputError(f"features of {len(features)} environment: give those of two or more, to compare them")
    for place, rows in enumerate(features):
        if rows.ndim != 2:
            raise InputError(f"features of environment {place} have {rows.ndim} axes: give (rows, columns)")
        if rows.shape[1] != features[0].shape[1]:
            raise InputError(
                f"features of environment {place} have {rows.shape[1]} columns, those of the first "
                f"{features[0].shape[1]}: give all environments the same"
            )
        if rows.shape[0] < fewest_rows:
            raise InputError(
                f"environment {place} has {rows.shape[0]} row(s) in this batch, and {fewest_rows} are needed: use a "
                "larger batch"
            )
    return features


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
