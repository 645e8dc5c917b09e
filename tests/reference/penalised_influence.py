"""The influence index under a penalty, slowly: the objective of :mod:`invariscope.objectives` differentiated twice by
automatic differentiation, rows dealt one shuffle after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from invariscope.heads.torch_losses import risks
from invariscope.objectives.irm import irm_penalty
from invariscope.objectives.vrex import vrex_penalty
from tests.reference.influence import index_of

TASKS = {"squared": "regression", "logistic": "binary", "softmax": "multiclass"}


def objective(
    parameters: Tensor, Z: Sequence[Tensor], y: Sequence[Tensor], loss: str, penalty: str | None, weight: float
) -> Tensor:
    """(1/m) Σ_e ℓ_e + weight · R; parameters are score after score (weights, intercept)."""
    task, heads = TASKS[loss], parameters.reshape(-1, Z[0].shape[1] + 1)
    logits = [z @ heads[:, :-1].T + heads[:, -1] for z in Z]
    total = risks(logits, y, task).mean()
    if penalty == "vrex":
        return total + weight * vrex_penalty(logits, y, task=task)
    if penalty is not None:
        form = "split" if penalty == "irm_split" else "square"
        return total + weight * irm_penalty(logits, y, task=task, form=form)
    return total


def tensors(values: np.ndarray, env: np.ndarray) -> list[Tensor]:
    return [torch.tensor(np.asarray(values, dtype=float)[env == label]) for label in np.unique(env)]


def derivatives(
    Z: np.ndarray, y: np.ndarray, env: np.ndarray, parameters: np.ndarray, loss: str, penalty: str | None, weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (E, P) of the plain risks, and the Hessian (P, P) of the objective."""
    point, inputs, targets = torch.tensor(parameters), tensors(Z, env), tensors(y, env)
    gradients = [
        torch.func.grad(lambda p, z=z, t=t: objective(p, [z], [t], loss, None, 0.0))(point).numpy()
        for z, t in zip(inputs, targets, strict=True)
    ]
    slope = torch.func.grad(lambda p: objective(p, inputs, targets, loss, penalty, weight))
    hessian = torch.func.jacrev(slope)(point).numpy()
    return np.array(gradients), hessian


def influence_index(
    Z: np.ndarray,
    y: np.ndarray,
    env: np.ndarray,
    parameters: np.ndarray,
    loss: str,
    penalty: str | None,
    weight: float,
    damping: float,
) -> tuple[float, np.ndarray]:
    """V and the influences (E, P). ``damping`` is in units of a squared loss of ½ (s − y)², as in the package."""
    gradients, hessian = derivatives(Z, y, env, parameters, loss, penalty, weight)
    scale = 2.0 if loss == "squared" else 1.0
    values, vectors = np.linalg.eigh(hessian)
    live = np.abs(values) > 1e-10 * np.abs(values).max()
    inverse = (vectors[:, live] / (values[live] + scale * damping)) @ vectors[:, live].T
    influences = -gradients @ inverse
    return index_of(list(influences)), influences


def shuffled_index(
    Z: np.ndarray,
    y: np.ndarray,
    env: np.ndarray,
    parameters: np.ndarray,
    loss: str,
    penalty: str,
    weight: float,
    damping: float,
    deals: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """V of rows dealt at random into environments of the same sizes, penalty and Hessian anew every time."""
    out = []
    for _ in range(deals):
        order = rng.permutation(len(y))
        out.append(influence_index(Z[order], y[order], env, parameters, loss, penalty, weight, damping)[0])
    return np.array(out)
