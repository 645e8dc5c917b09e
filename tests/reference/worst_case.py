"""The worst case by brute force: every row's supremum by many local searches, then the best multiplier; and by a linear
program over transport plans to a list of places. Slow, and nothing shared with the package."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.sparse import eye, kron
from scipy.special import logsumexp

Loss = Callable[[np.ndarray, int], float]


def cross_entropy(scores: np.ndarray, y: int) -> float:
    return float(logsumexp(scores) - scores[y])


def hinge(scores: np.ndarray, y: int) -> float:
    return max(0.0, 1.0 + max(scores[k] - scores[y] for k in range(len(scores)) if k != y))


def zero_one(scores: np.ndarray, y: int) -> float:
    """A tie is an error; a hair's breadth beyond the boundary counts as on it."""
    return float(max(scores[k] for k in range(len(scores)) if k != y) >= scores[y] - 1e-9)


LOSSES: dict[str, Loss] = {"log_loss": cross_entropy, "hinge": hinge, "zero_one": zero_one}


def supremum(loss: Loss, W: np.ndarray, b: np.ndarray, z: np.ndarray, y: int, gamma: float) -> float:
    """sup over z' of loss(Wz' + b, y) − γ‖z' − z‖², by searches from z and from the parabola top of every class."""

    def below(place: np.ndarray) -> float:
        return gamma * float(np.sum((place - z) ** 2)) - loss(W @ place + b, y)

    tops = [z + (w - W[y]) / (2 * gamma) for w in W]
    starts = [*tops, *[(one + other) / 2 for one, other in itertools.combinations([z, *tops], 2)]]
    smooth = loss is cross_entropy
    options = {"gtol": 1e-8} if smooth else {"xatol": 1e-9, "fatol": 1e-13}
    method = "BFGS" if smooth else "Nelder-Mead"
    found = [minimize(below, start, method=method, options=options) for start in starts]
    return max(-below(z), *(-one.fun for one in found))


def by_duality(
    name: str, W: np.ndarray, b: np.ndarray, Z: np.ndarray, y: np.ndarray, radius: float, bracket: tuple[float, float]
) -> float:
    """inf over γ within a bracket of γρ² + mean supremum, the logarithm of γ being searched."""

    def upper(log_gamma: float) -> float:
        gamma = float(np.exp(log_gamma))
        return gamma * radius**2 + np.mean(
            [supremum(LOSSES[name], W, b, z, int(label), gamma) for z, label in zip(Z, y, strict=True)]
        )

    return float(minimize_scalar(upper, np.log(bracket), bounds=np.log(bracket), options={"xatol": 1e-5}).fun)


def by_transport(value: np.ndarray, Z: np.ndarray, places: np.ndarray, radius: float) -> float:
    """max of the mean loss over plans that bring row i to places[i] at mean squared distance ≤ ρ²: a lower bound.

    ``places`` (n, m, d): where each row may go; ``value`` (n, m): what it loses there.
    """
    n, m, _ = places.shape
    cost = ((places - Z[:, None, :]) ** 2).sum(axis=2)
    rows = kron(eye(n), np.ones((1, m)), format="csr")
    done = linprog(
        -value.ravel() / n, A_ub=cost.ravel()[None] / n, b_ub=[radius**2], A_eq=rows, b_eq=np.ones(n), method="highs"
    )
    assert done.status == 0, done.message
    return float(-done.fun)


def losses_at(name: str, W: np.ndarray, b: np.ndarray, places: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, m): the losses of every row at its places; the same as the functions above, for many places at once."""
    scores = places @ W.T + b
    own = np.take_along_axis(scores, y[:, None, None], axis=2)[..., 0]
    others = np.where(np.arange(len(W)) == y[:, None, None], -np.inf, scores).max(axis=2)
    if name == "log_loss":
        return logsumexp(scores, axis=2) - own
    return np.maximum(0.0, 1.0 + others - own) if name == "hinge" else (others >= own - 1e-9).astype(float)


def grid(Z: np.ndarray, reach: float, steps: int) -> np.ndarray:
    """(n, m, d): a regular grid of odd width around every row, which is its middle."""
    axis = np.linspace(-reach, reach, steps)
    offsets = np.stack(np.meshgrid(*[axis] * Z.shape[1]), axis=-1).reshape(-1, Z.shape[1])
    return Z[:, None, :] + offsets[None]


def error_places(W: np.ndarray, b: np.ndarray, z: np.ndarray, y: int) -> list[np.ndarray]:
    """z, and the nearest point where each other class draws level: the only places worth going to under 0/1 loss."""
    found = [z]
    for k in range(len(W)):
        normal = W[k] - W[y]
        behind = float((W[y] - W[k]) @ z + b[y] - b[k])
        if k != y and behind > 0 and normal @ normal > 0:
            found.append(z + normal * behind / (normal @ normal))
    return found + [z] * (len(W) - len(found))
