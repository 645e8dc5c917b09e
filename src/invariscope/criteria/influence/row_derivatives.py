"""What the influence index needs to know of every row under a linear head: loss, slope, their first and second
derivatives in the head's parameters, in closed form (see :mod:`invariscope.heads.losses` for those in the scores)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.losses import Loss, score_rows
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.tables import matrix_of

OUTER = int(4e6)  # numbers in the outer products of a block of rows, and in the Hessians of a batch of shuffles


@dataclass(frozen=True)
class Means:
    """Means over groups of rows: ``loss`` and ``slope`` (J,), their gradients (J, P). Shuffles come in front."""

    loss: Floats
    slope: Floats
    gradient: Floats
    slope_gradient: Floats

    @classmethod
    def of(cls, joint: Floats) -> Means:
        """From (..., J, 2P + 2): gradient, gradient of the slope, loss, slope."""
        size = joint.shape[-1] // 2 - 1
        return cls(joint[..., -2], joint[..., -1], joint[..., :size], joint[..., size : 2 * size])


class RowDerivatives(Protocol):
    """A top model and its rows; parameters are one flat vector of ``size`` numbers."""

    size: int
    reported: float
    """What the loss is multiplied with before anyone sees it: 2 for the squared loss, which is ½ (s − y)² in here."""
    weight: Floats
    """How many rows every row stands for: (n,)."""

    def joint(self, theta: Floats, slopes: bool = True) -> Iterator[tuple[slice, Floats]]:
        """Block after block, one line per row: gradient (P,) and, if wanted, slope gradient (P,), loss, slope."""

    def hessians(self, theta: Floats, on_loss: Floats, on_slope: Floats | None = None) -> Floats:
        """Σ_i on_loss[b, i] ∇²loss_i + on_slope[b, i] ∇²slope_i for every b: (B, n) in, (B, P, P) out."""


class LinearRows:
    """Rows under a linear head; ``targets`` (n,) for one output and for classes, (n, q) for q numbers at once.

    Parameters are score after score, the intercept (if there is one) before the weights.
    """

    def __init__(self, data: Environments, loss: Loss, targets: Floats, *, intercept: bool = True) -> None:
        self.data, self.loss, self.targets, self.intercept = data, loss, targets, intercept
        self.outputs, self.reported = loss.n_scores, loss.reported
        self.width = data.blocks.width - (not intercept)
        self.size = self.outputs * self.width
        self.weight = np.ones(len(data.X)) if data.weight is None else data.weight

    def designs(self) -> Iterator[tuple[slice, Floats]]:
        """Block after block of rows (1, z − shift), or of z itself where there is no intercept to take the shift."""
        for block, design in self.data.blocks.designs(slice(0, len(self.data.X))):
            yield block, design if self.intercept else design[:, 1:] + self.data.blocks.shift

    def mean_loss(self, theta: Floats) -> float:
        """The mean loss of a row."""
        scores = ((block, design @ theta.reshape(self.outputs, -1).T) for block, design in self.designs())
        total = sum(self.weight[block] @ self.loss.value(given, self.targets[block]) for block, given in scores)
        return float(total / self.weight.sum())

    def joint(self, theta: Floats, slopes: bool = True) -> Iterator[tuple[slice, Floats]]:
        for block, design in self.designs():
            scores, y = design @ theta.reshape(self.outputs, -1).T, self.targets[block]
            residual = self.loss.residual(scores, y)
            if not slopes:
                yield block, score_rows(design, residual)
                continue
            out = np.empty((len(design), 2 * self.size + 2))
            slope, slope_residual = self.loss.slope(scores, y)
            score_rows(design, residual, out[:, : self.size])
            score_rows(design, slope_residual, out[:, self.size : -2])
            out[:, -2], out[:, -1] = self.loss.value(scores, y), slope
            yield block, out

    def hessians(self, theta: Floats, on_loss: Floats, on_slope: Floats | None = None) -> Floats:
        count, width = len(on_loss), self.width
        step = len(self.data.X) if count == 1 else max(1, OUTER // width**2)
        out = np.zeros((self.outputs, self.outputs, count, width * width))
        for block, design in self.designs():
            scores = design @ theta.reshape(self.outputs, -1).T
            for start in range(0, len(design), step):
                part = slice(start, min(start + step, len(design)))
                rows = slice(block.start + part.start, block.start + part.stop)
                x = design[part]
                # one product for all shuffles: weights (B, rows) times outer products of rows (rows, p²)
                outer = None if count == 1 else np.einsum("ip,iq->ipq", x, x).reshape(len(x), -1)
                for (k, j), curvature, slope_curvature in self.loss.curvatures(scores[part]):
                    weights = on_loss[:, rows] * curvature
                    if on_slope is not None:
                        weights = weights + on_slope[:, rows] * slope_curvature
                    if outer is None:
                        out[k, j, 0] += (x.T @ (weights[0][:, None] * x)).ravel()
                    else:
                        out[k, j] += weights @ outer
        for k in range(self.outputs):
            for j in range(k):
                out[k, j] = out[j, k]
        blocks = out.reshape(self.outputs, self.outputs, count, width, width)
        return np.ascontiguousarray(blocks.transpose(2, 0, 3, 1, 4)).reshape(count, self.size, self.size)


def group_means(rows: RowDerivatives, theta: Floats, codes: Integers, count: int) -> Means:
    """Weighted means over groups 0, ..., count − 1 of rows."""
    total = np.zeros((count, 2 * rows.size + 2))
    for block, joint in rows.joint(theta):
        member = (codes[block] == np.arange(count)[:, None]) * rows.weight[block]
        total += member @ joint
    return Means.of(total / np.bincount(codes, rows.weight, count)[:, None])


def row_covariance(rows: RowDerivatives, theta: Floats, slopes: bool) -> tuple[Floats, Floats]:
    """Mean and covariance, over all rows, of one row's gradients (P,), or of gradients and slope gradients (2P,)."""
    width = 2 * rows.size if slopes else rows.size
    outer, total = np.zeros((width, width)), np.zeros(width)
    for block, joint in rows.joint(theta, slopes):
        part, weight = joint[:, :width], rows.weight[block]
        total += weight @ part
        scaled = part * np.sqrt(weight)[:, None]
        outer += scaled.T @ scaled
    number = rows.weight.sum()
    mean = total / number
    return mean, (outer - number * np.outer(mean, mean)) / (number - 1.0)


# --- targets of several numbers ------------------------------------------------------------------------------------
def has_several_targets(y: Any) -> bool:
    """Whether y is a table of two columns or more: only the influence index takes that."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list | tuple) and y and isinstance(y[0], list | tuple):
        shape = (len(y), len(y[0]))
    return isinstance(shape, tuple) and len(shape) == 2 and shape[1] > 1


def with_several_targets(Z: Any, y: Any, env: Any, weight: Any) -> tuple[Environments, Floats, tuple[str, ...]]:
    """Rows grouped by environment, targets (n, q) in the same order, and the targets' names."""
    if isinstance(Z, Environments):
        raise InputError("Environments hold one target per row: pass Z, y and env by themselves for several")
    values, names = matrix_of(np.asarray(y) if isinstance(y, list | tuple) else y)
    if not hasattr(y, "columns") and not hasattr(y, "column_names"):
        names = tuple(f"y{k}" for k in range(values.shape[1]))
    values = values.astype(np.float64)
    for name, column in zip(names, values.T, strict=True):
        bad = int(np.sum(~np.isfinite(column)))
        if bad:
            raise InputError(f'target "{name}" has {bad} missing or infinite values: drop those rows or fill them in')
        if np.ptp(column) == 0:
            raise InputError(f'target "{name}" has only one value: leave it out')
    if len(values) != len(Z):
        raise InputError(f"X has {len(Z)} rows but y has {len(values)}: give one value per row")
    data = Environments(Z, values[:, 0], env, weight)
    return data, data.grouped(values, "y"), names
