"""Worlds in which invariance holds exactly: the same law everywhere, or everything differs but E[Y | Z]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariscope.datasets.entry import Entry
from invariscope.datasets.synthetic.synthetic import (
    MOST_COLUMNS,
    MOST_ENVIRONMENTS,
    Design,
    Generator,
    Synthetic,
    designed,
    drawn,
)
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import POSITIVE, numbers, one_of, whole_number

_SCORES_OF_TASK = {"regression": 1, "binary": 1, "classification": 1, "multiclass": 3}


def null_same_law(
    n: int | Sequence[int] = 1000, d: int = 5, environments: int = 3, task: str = "regression", seed: int = 0
) -> Synthetic:
    """The same law in every environment: whatever a criterion finds here is chance.

        Z ~ N(0, I_d)     regression: Y = bias + headᵀ Z + N(0, 1)     binary: P(Y=1|Z) = logistic(bias + headᵀ Z)
        multiclass (3 classes): P(Y=k|Z) ∝ exp(bias_k + head_kᵀ Z)

    Labels are 0, 1, ..., ``environments`` − 1. Truth: ``head`` (d,) or (3, d), ``bias``, ``regret`` = 0.

    >>> data = null_same_law(n=(50, 100), d=2, environments=2, task="binary")
    >>> data.X.shape, sorted(set(data.y.tolist()))
    ((150, 2), [0, 1])
    """
    _check(d, environments)
    design, (_, head_rng) = designed(range(environments), n, seed, further=2)
    means, roots = np.zeros((environments, d)), np.broadcast_to(np.eye(d), (environments, d, d))
    text = "The same law in every environment."
    return _null(design, means, roots, np.ones(environments), LinearTarget.random(task, d, head_rng), text)


def null_shifted(
    n: int | Sequence[int] = 1000,
    d: int = 5,
    environments: int = 3,
    task: str = "regression",
    seed: int = 0,
    *,
    noise: Sequence[float] | None = None,
    shift: float = 1.0,
) -> Synthetic:
    """Environments that differ in everything but E[Y | Z]: one head serves all, though means, spreads and noise move.

        Z ~ N(μ_e, Σ_e)     Y | Z as in :func:`null_same_law`, with noise scale ``noise[e]`` for regression

    The entries of μ_e are N(0, shift²/d) and Σ_e has a random orientation and eigenvalues from ¼ to 4. ``noise``
    defaults to scales from 0.5 to 2, one per environment; two classes or more have no noise scale to move, so it is
    refused there. Tests that assume one noise level or one law of Z report a difference here that does not exist.

    Labels are 0, 1, ...; truth as in :func:`null_same_law`, and ``mean`` (E, d), ``covariance`` (E, d, d), ``noise``.

    >>> data = null_shifted(n=100, d=3, noise=(0.5, 1.0, 3.0))
    >>> data.truth["regret"], data.truth["noise"].tolist()
    (0.0, [0.5, 1.0, 3.0])
    """
    if noise is not None and task != "regression":
        raise InputError(f'noise cannot be set for task "{task}": only regression has a noise scale, leave noise out')
    _check(d, environments)
    (shift,) = numbers(shift, "shift", "a finite number", count=1)
    wanted = f"one positive number for each of the {environments} environments"
    scales = np.geomspace(0.5, 2.0, environments)
    scales = scales if noise is None else np.array(numbers(noise, "noise", wanted, POSITIVE, count=environments))
    design, (law_rng, head_rng) = designed(range(environments), n, seed, further=2)
    means = shift / np.sqrt(d) * law_rng.standard_normal((environments, d))
    axes = np.linalg.qr(law_rng.standard_normal((environments, d, d)))[0]
    roots = axes * np.exp(law_rng.uniform(np.log(0.5), np.log(2.0), (environments, 1, d)))
    text = "The same E[Y | Z] in every environment, with other means, covariances and noise."
    return _null(design, means, roots, scales, LinearTarget.random(task, d, head_rng), text)


@dataclass(frozen=True, eq=False)
class LinearTarget:
    """A target whose mean, or whose classes' odds, are a linear head of Z: score = Z headᵀ + bias.

    Attributes
    ----------
    task : "regression", "binary" (also called "classification") or "multiclass"
    head, bias : (K, d) and (K,), K = 3 scores for three classes, else 1
    """

    task: str
    head: Floats
    bias: Floats

    @classmethod
    def random(cls, task: str, d: int, rng: Generator) -> LinearTarget:
        """A head of length 1 whatever d: if Z ~ N(0, I), half of the variance is explained, and no class is rare."""
        head = rng.standard_normal((_SCORES_OF_TASK[one_of(task, "task", _SCORES_OF_TASK)], d))
        head /= np.linalg.norm(head, axis=1, keepdims=True)
        return cls(task, head, 0.5 * rng.standard_normal(len(head)))

    def sample(self, z: Floats, noise: float, stream: Generator) -> Array:
        """Draw the target of every row; ``noise`` is the standard deviation for regression."""
        score = z @ self.head.T + self.bias
        if self.task == "regression":
            numbers: Floats = score[:, 0] + noise * stream.standard_normal(len(z))
            return numbers
        if len(self.head) == 1:
            return np.asarray(score[:, 0] + stream.logistic(size=len(z)) > 0, dtype=np.int64)
        # the largest of score + Gumbel noise is a draw from the softmax of the scores
        classes: NDArray[np.int64] = np.argmax(score + stream.gumbel(size=score.shape), axis=1)
        return classes

    @property
    def truth(self) -> dict[str, Any]:
        """``head``, ``bias``, and that one head serves all environments: ``regret`` 0."""
        one = len(self.head) == 1
        return {
            "head": self.head[0] if one else self.head,
            "bias": float(self.bias[0]) if one else self.bias,
            "regret": 0.0,
        }


def _check(d: int, environments: int) -> None:
    whole_number(d, "d", 1, MOST_COLUMNS)
    whole_number(environments, "environments", 1, MOST_ENVIRONMENTS)


def _null(
    design: Design, means: Floats, roots: Floats, noise: Floats, target: LinearTarget, description: str
) -> Synthetic:
    d = means.shape[1]

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        z = means[position] + stream.standard_normal((count, d)) @ roots[position].T
        return z, target.sample(z, float(noise[position]), stream)

    return drawn(
        sample,
        design,
        columns=tuple(f"z{j + 1}" for j in range(d)),
        invariant=tuple(range(d)),
        description=description,
        source="drawn here",
        truth={
            **target.truth,
            "mean": means,
            "covariance": roots @ np.swapaxes(roots, 1, 2),
            **({"noise": noise} if target.task == "regression" else {}),
        },
    )


ENTRIES = (
    Entry(null_same_law, "synthetic", "The same law in every environment: whatever is found is chance"),
    Entry(null_shifted, "synthetic", "Means, spreads and noise differ between environments, E[Y | Z] does not"),
)
