"""Two environments that drift apart by a dial, from the same law to disjoint ones, with the true density ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from invariscope.datasets.entry import Entry
from invariscope.datasets.synthetic.nulls import LinearTarget
from invariscope.datasets.synthetic.synthetic import MOST_COLUMNS, Generator, Synthetic, designed, drawn
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import is_real, one_of, shown, whole_number

LABELS = ("A", "B")


def overlap_dial(
    overlap: float = 0.5,
    n: int | Sequence[int] = 1000,
    d: int = 2,
    seed: int = 0,
    *,
    law: str = "uniform",
    task: str = "regression",
) -> Synthetic:
    """Two environments, A and B, whose laws of Z share exactly the mass ``overlap``, with the same E[Y | Z].

        uniform: z1 ~ U[0, 1] in A, U[1 − overlap, 2 − overlap] in B;  z2, ..., zd ~ U[0, 1] in both
        normal:  z1 ~ N(∓δ/2, 1) with 2 Φ(−δ/2) = overlap;              z2, ..., zd ~ N(0, 1) in both

    The shared mass is ∫ min(p_A, p_B). Y | Z is that of :func:`~invariscope.datasets.null_same_law`, with a head of
    length 1 in units of the columns' spread. One head serves both environments at any overlap: criteria that need a
    density ratio lose their footing here as the dial goes down, though nothing becomes less invariant.

    Parameters
    ----------
    overlap : 0 to 1; above 0 for ``law="normal"``, whose environments are never disjoint
    n : rows per environment; one number, or two
    task : "regression" (noise 1), "binary" or "multiclass"

    Returns
    -------
    Synthetic, with truth ``overlap``; ``shift``: how far B's first column lies above A's; ``log_ratio``: the function
    :class:`LogRatio`, ``log_ratio(Z, "A", "B")`` = ln p_A(z)/p_B(z); ``effective_share``: (Σρ)²/(n Σρ²) with the true
    ratio ρ on the rows of the other environment, n → ∞; ``mean_ratio``: the mean of ρ there; ``head``, ``bias``,
    ``regret`` = 0. Both laws are symmetric in A and B, so one number serves both directions:

        uniform: effective_share = overlap, mean_ratio = overlap (rows of A outside B's range are reached by no weight)
        normal:  effective_share = exp(−δ²), mean_ratio = 1

    >>> truth = overlap_dial(0.25).truth
    >>> truth["effective_share"], truth["log_ratio"](np.array([[0.1, 0.5], [0.9, 0.5], [1.5, 0.5]]), "A", "B").tolist()
    (0.25, [inf, 0.0, -inf])
    """
    one_of(law, "law", ("uniform", "normal"))
    if not is_real(overlap) or not 0 <= overlap <= 1:
        raise InputError(f"overlap is {shown(overlap)}: give a number from 0 (disjoint) to 1 (the same law)")
    if law == "normal" and overlap == 0:
        raise InputError('overlap is 0, but normal laws always overlap: use law="uniform", or a number above 0')
    whole_number(d, "d", 1, MOST_COLUMNS)
    design, (head_rng,) = designed(LABELS, n, seed, further=1)
    uniform = law == "uniform"
    shift = 1.0 - overlap if uniform else -2.0 * NormalDist().inv_cdf(overlap / 2.0)
    spread = 1.0 / np.sqrt(12.0) if uniform else 1.0
    unit = LinearTarget.random(task, d, head_rng)
    # scores are 0 on average half-way between the environments, so that no class is rare in either
    middle = np.full(d, 0.5 if uniform else 0.0)
    middle[0] += shift / 2.0 if uniform else 0.0
    head = unit.head / spread
    target = replace(unit, head=head, bias=unit.bias - head @ middle)

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        z = stream.random((count, d)) if uniform else stream.standard_normal((count, d))
        z[:, 0] += position * shift if uniform else (position - 0.5) * shift
        return z, target.sample(z, 1.0, stream)

    return drawn(
        sample,
        design,
        columns=tuple(f"z{j + 1}" for j in range(d)),
        invariant=tuple(range(d)),
        description=f"Two environments with {law} laws that share {overlap:g} of their mass, and the same E[Y | Z].",
        source="drawn here",
        truth={
            "overlap": float(overlap),
            "shift": float(shift),
            "log_ratio": LogRatio(law, float(shift)),
            "effective_share": float(overlap) if uniform else float(np.exp(-(shift**2))),
            "mean_ratio": float(overlap) if uniform else 1.0,
            **target.truth,
        },
    )


@dataclass(frozen=True)
class LogRatio:
    """The true ln p_a(z)/p_b(z) of :func:`overlap_dial`, a function of rows and two labels.

    Uniform: 0 where both laws have mass, +inf where only a has, −inf where only b has, NaN where neither has (no row
    of the data lies there). Normal: ∓shift · z1. Only the first column matters: the others have the same law.

    >>> LogRatio("normal", 2.0)([[0.5], [1.0]], "A", "B").tolist()
    [-1.0, -2.0]
    """

    law: str
    shift: float

    def __call__(self, Z: ArrayLike, a: str, b: str) -> Floats:
        for label in (a, b):
            if label not in LABELS:
                raise InputError(f'environment "{label}" is unknown: use "A" or "B"')
        z = np.asarray(Z, dtype=np.float64)[:, 0]
        if self.law == "normal":
            ratio: Floats = (LABELS.index(a) - LABELS.index(b)) * self.shift * z
            return ratio
        density = {label: (z >= low) & (z <= low + 1.0) for label, low in zip(LABELS, (0.0, self.shift), strict=True)}
        in_a, in_b = density[a], density[b]
        return np.select([in_a & in_b, in_a, in_b], [0.0, np.inf, -np.inf], np.nan)


ENTRY = Entry(overlap_dial, "synthetic", "Two environments from identical to disjoint, with the true density ratio")
