"""What every worst case of a linear classifier needs: score differences, and how far each row is from a mistake."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from invariscope.heads.linear_head import LinearHead
from invariscope.rows.arrays import Array, Floats, Integers

SAME = 4.0 * float(np.finfo(np.float64).eps)  # of the largest weight: smaller differences are rounding error


@dataclass(frozen=True)
class Curve:
    """A worst-case curve at given radii: the value, its certified bounds, its multiplier, and its bootstrap band."""

    loss: Floats
    lower: Floats
    upper: Floats
    gamma: Floats
    band: Floats


@dataclass(frozen=True)
class Margins:
    """A linear head's scores as differences to the score of the true class.

    ``above`` (n, K): u_k = s_k − s_y, 0 for the class itself; ``codes`` (n,): the classes; ``product`` (K, K): M = WWᵀ
    with W centred over the classes (a common vector moves no difference); ``apart`` (K, K): ‖w_j − w_k‖².
    """

    above: Floats
    codes: Integers
    product: Floats
    apart: Floats

    @property
    def n(self) -> int:
        return len(self.codes)

    @cached_property
    def lengths(self) -> Floats:
        """(n, K): q_k = ‖w_k − w_y‖², the squared slope of u_k in z."""
        lengths: Floats = self.apart[self.codes]
        return lengths

    @cached_property
    def squared_distance(self) -> Floats:
        """(n,): d², the squared distance to the nearest wrong answer (a tie is one); 0 if wrong already.

        d² = min over k ≠ y of max(0, −u_k)² / q_k; infinite if the head is constant there.
        """
        behind, lengths = np.maximum(0.0, -self.above), self.lengths
        with np.errstate(divide="ignore", invalid="ignore"):
            squared = np.where(behind > 0, behind**2 / lengths, 0.0)
        squared[np.arange(self.n), self.codes] = np.inf
        nearest: Floats = squared.min(axis=1)
        return nearest


def margins_of(head: LinearHead, Z: Array, codes: Integers) -> Margins:
    """One product Z Wᵀ; a single output is the log-odds of the second of two classes.

    >>> margins = margins_of(LinearHead([[0.0], [1.0]], [0.0, 0.0]), np.array([[1.0], [3.0]]), np.array([1, 1]))
    >>> margins.above.tolist(), margins.squared_distance.tolist()
    ([[-1.0, 0.0], [-3.0, 0.0]], [1.0, 9.0])
    """
    scores, weight = head.scores(Z).astype(np.float64, copy=False), head.weight
    if head.n_outputs == 1:
        scores = np.hstack([np.zeros_like(scores), scores])
        weight = np.vstack([np.zeros_like(weight), weight])
    above = scores - scores[np.arange(len(codes)), codes][:, None]
    centred = weight - weight.mean(axis=0)
    product = centred @ centred.T
    # from differences, not from products: those would lose what is below 1e-8 of the longest weight vector
    apart = np.stack([((weight - own) ** 2).sum(axis=1) for own in weight])
    apart[apart <= (SAME * float(np.abs(weight).max())) ** 2 * weight.shape[1]] = 0.0
    return Margins(above, codes, product, apart)
