"""A linear head: the last step of a model, from a representation to scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.losses import softmax
from invariscope.rows.arrays import Floats
from invariscope.rows.blocks import out_of_range
from invariscope.rows.tables import plain

SMALLEST_PROBABILITY = 1e-6  # log-odds stay within about ±13.8, so that one over-confident row cannot rule a fit


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LinearHead:
    """The last, linear step of a model: scores = Z Wᵀ + b.

    Parameters
    ----------
    weight : (K, d) array
        One row per output; (1, d), or plainly (d,), for regression and for two classes.
    bias : (K,) array
        A single number will do when K = 1.

    One output is the prediction (regression) or the log-odds of the second class (two classes); K outputs are the
    scores that softmax turns into class probabilities. A head cannot tell which of these it is: the task does.

    >>> head = LinearHead([[2.0, -1.0]], 0.5)
    >>> head.scores([[1.0, 1.0], [0.0, 3.0]]).ravel().tolist()
    [1.5, -2.5]
    >>> head
    LinearHead(1 output, 2 features)
    """

    weight: Floats
    bias: Floats

    def __init__(self, weight: Any, bias: Any) -> None:
        matrix, vector = _numbers(weight, "weight"), _numbers(bias, "bias")
        if matrix.ndim == 1:
            matrix = matrix[None, :]
        if matrix.ndim != 2 or matrix.size == 0:
            raise InputError(f"weight must be outputs x features (K x d): it has shape {matrix.shape}")
        if vector.ndim == 0 and len(matrix) == 1:
            vector = vector[None]
        if vector.shape != (len(matrix),):
            raise InputError(
                f"bias must hold one number per output: weight has {len(matrix)} rows, bias has shape {vector.shape}"
            )
        for name, values in (("weight", matrix), ("bias", vector)):
            values.setflags(write=False)  # they are copies: the caller's arrays stay writable
            object.__setattr__(self, name, values)

    @property
    def n_outputs(self) -> int:
        """K: 1 for regression and two classes."""
        return int(self.weight.shape[0])

    @property
    def n_features(self) -> int:
        """d: the columns of the representation it reads."""
        return int(self.weight.shape[1])

    def refuse_extreme(self) -> None:
        """Weights of 1e200, say, have squares that are infinite, and nothing that is computed with them is a number."""
        largest = max(float(np.abs(self.weight).max()), float(np.abs(self.bias).max()))
        if largest > 1 and out_of_range(largest):
            raise InputError(
                f"the head has weights of the order of {largest:.0e}, too far from 1 to compute with: give weight and "
                "bias in the units of Z and y"
            )

    def scores(self, Z: Any) -> Floats:
        """Z Wᵀ + b: (n, d) in, (n, K) out."""
        Z = np.asarray(plain(Z))
        if Z.ndim != 2 or Z.shape[1] != self.n_features:
            raise InputError(
                f"the head reads {self.n_features} columns, but the representation has shape {Z.shape}: "
                "give the representation it was made for"
            )
        scores: Floats = Z @ self.weight.T
        scores += self.bias
        return scores

    def probabilities(self, Z: Any) -> Floats:
        """Class probabilities: those of the scores."""
        return probabilities_of(self.scores(Z))

    def __repr__(self) -> str:
        outputs = "output" if self.n_outputs == 1 else "outputs"
        return f"LinearHead({self.n_outputs} {outputs}, {self.n_features} features)"


def probabilities_of(scores: Floats) -> Floats:
    """Class probabilities: sigmoid of a single output as (n, 2), softmax of K outputs as (n, K)."""
    if scores.shape[1] == 1:  # sigmoid(s) is softmax over (0, s)
        scores = np.hstack([np.zeros_like(scores), scores])
    return softmax(scores)


def log_odds(probabilities: Floats) -> Floats:
    """Class probabilities (n, K) as K - 1 unbounded numbers, which a linear head can use.

    Two classes: log p₂/p₁, the log-odds of the second. More: log pₖ/p_K, the last class being the reference.
    Probabilities are clipped to 1e-6 .. 1 - 1e-6 first.

    >>> log_odds(np.array([[0.5, 0.5], [1.0, 0.0]])).round(2).ravel().tolist()
    [0.0, -13.82]
    """
    logs = np.log(np.clip(probabilities, SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY))
    if logs.shape[1] == 2:
        return logs[:, 1:] - logs[:, :1]
    return logs[:, :-1] - logs[:, -1:]


def of_torch_layer(layer: Any) -> LinearHead | None:
    """An nn.Linear as a linear head, ``None`` for anything else; recognised by name, since torch may not be there."""
    if (type(layer).__module__.partition(".")[0], type(layer).__name__) != ("torch", "Linear"):
        return None
    return of_weights(layer)


def of_weights(layer: Any) -> LinearHead:
    """The head with the weight and bias of a torch layer, which must be linear."""
    weight = layer.weight.detach().cpu().double().numpy()
    return LinearHead(
        weight, np.zeros(len(weight)) if layer.bias is None else layer.bias.detach().cpu().double().numpy()
    )


def order_note(classes: Sequence[Any]) -> list[str]:
    """A remark on labels that were sorted to match the outputs of a head; none for numbers, which count from 0.

    >>> order_note([0, 1, 2]), order_note(["hi", "lo"])
    ([], ["The head's outputs were taken to be, in this order: hi, lo."])
    """
    if not any(isinstance(label, str) for label in classes):
        return []
    return [f"The head's outputs were taken to be, in this order: {', '.join(map(str, classes))}."]


def _numbers(values: Any, name: str) -> Floats:
    try:
        array = np.array(plain(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from error
    bad = int(np.sum(~np.isfinite(array)))
    if bad:
        raise InputError(f"{name} has {bad} missing or infinite values: a head needs finite numbers")
    return array
