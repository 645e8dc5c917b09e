"""Influence index: would giving one environment more weight move the top model, and more than chance explains?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariscope.blocks import one_blas_thread
from invariscope.criteria.registry import criterion
from invariscope.criteria.shuffles import exact_shuffles, gaussian_shuffles
from invariscope.environments import Environments
from invariscope.errors import InputError
from invariscope.heads import evaluate, fit_shared, score_covariances, theta_of
from invariscope.linear_head import LinearHead
from invariscope.losses import loss_of
from invariscope.resampling import generator, pvalue
from invariscope.results import Floats, InfluenceResult
from invariscope.targets import Target, target_of

INTERCEPT = "(intercept)"
FLAT = 1e-3  # of the largest curvature: flatter directions carry noise, not structure
DAMPING = 1e-2  # of the largest curvature, where there are flat directions
NULL_SPACE = 1e-12  # of the largest eigenvalue: below lies rounding error


@criterion(
    title="Influence index",
    needs={"representation", "target"},
    better="lower",
    tells="Whether environments pull the top model apart more than random ones would: is an OOD algorithm needed?",
    cannot_tell="How much loss that costs; its value depends on units, so compare it with its own shuffles only.",
)
def influence_index(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    head: LinearHead | None = None,
    loss: str = "auto",
    damping: float | str = "auto",
    shuffles: int = 999,
    exact: bool = False,
    seed: int = 0,
    weight: Any = None,
) -> InfluenceResult:
    """How differently the environments pull the top model, against environments dealt at random.

        IF_e = −(H + damping)⁻¹ ∇_γ ℓ_e,   V = ln ‖ Cov_e(IF_e) ‖₂                  (eq. 5 and 6 of the paper)

    γ is the linear head (weights and intercept) on the columns of ``Z`` as they are (columns further than 30 spreads
    from zero, such as years, are moved there first, or V would only see the intercept), ℓ_e the mean loss in
    environment e, H the Hessian of the pooled mean loss; Cov_e divides by the number of environments.

    The shuffle baseline pools the rows, deals them into environments of the same sizes and computes V again:
    ``shuffled`` holds all of these values, and the p-value is their share at least as large as V. Mean gradients of
    random environments are normal to very good accuracy, so by default they are drawn as N(ḡ, (1/n_e − 1/n) S);
    ``exact=True`` really deals the rows.

    Parameters
    ----------
    Z, y, env : representation (n, d), target and environments; or one :class:`~invariscope.Environments`
    head : the model's own :class:`~invariscope.LinearHead`; without one, the pooled (ERM) head is fitted
    loss : "auto", "squared", "logistic" or "softmax"
    damping : a number added to H's diagonal, or "auto": 0 for a healthy spectrum, 1 % of the largest eigenvalue if any
        live one is below a thousandth of it (as in wide ReLU layers, where V is pure noise otherwise). Dead units and
        dependent columns make H singular; their directions have no gradient and are left out.
    shuffles : how many random deals

    What it cannot tell: how much loss the disagreement costs (see :func:`~invariscope.regret`); V is on a logarithmic
    scale in the units of the head's parameters, so V of two models cannot be compared, only V with its shuffles.

    Reference: "Out-of-distribution generalization analysis via influence function", §4.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(600, 2)), np.repeat([2019, 2020, 2021], 200)
    >>> y = z[:, 0] + (env - 2020) * z[:, 1] + rng.normal(size=600)
    >>> result = influence_index(z, y, env)
    >>> bool(result.value > result.shuffled.max()), result.pvalue, result.top_columns(1)
    (True, 0.001, ('x1',))
    """
    data = Environments.of(Z, y, env, weight)
    target = target_of(data, loss)
    target = _as_head_has_it(target, head, data)
    with one_blas_thread():
        return _measured(data, target, head, damping, shuffles, exact, generator(seed))


def _measured(
    data: Environments,
    target: Target,
    head: LinearHead | None,
    damping: float | str,
    shuffles: int,
    exact: bool,
    rng: np.random.Generator,
) -> InfluenceResult:
    kind = loss_of(target)
    total = float(data.rows.sum())
    if head is None:
        fitted = fit_shared(data, target, np.full(len(data), 1.0 / total))
    else:
        theta = theta_of(data, head.weight, head.bias)
        fitted = evaluate(data, target, np.tile(theta, (len(data), 1)))

    width = data.blocks.width
    gradient = fitted.gradient / data.rows[:, None]
    hessian = fitted.hessian.sum(axis=0) / total
    eigenvalues, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    live = eigenvalues > NULL_SPACE * max(float(eigenvalues[-1]), 0.0)
    added, notes = _damping(damping, eigenvalues, live)
    inverse = (vectors[:, live] / (eigenvalues[live] + added)) @ vectors[:, live].T

    influences = -gradient @ inverse
    value, direction = index_of(influences)
    if exact:
        shuffled = exact_shuffles(data, target, fitted.theta[0], inverse, shuffles, rng)
    else:
        outer, sums = score_covariances(data, target, fitted.theta)
        mean = sums.sum(axis=0) / total
        spread = (outer.sum(axis=0) - total * np.outer(mean, mean)) / (total - 1.0)
        shuffled = gaussian_shuffles(inverse @ spread @ inverse, data.rows, shuffles, rng)
    if not np.isfinite(value):
        notes.append("All environments pull the head alike: V is minus infinity.")
    order = np.concatenate([np.r_[1:width, 0] + k * width for k in range(kind.n_scores)])
    return InfluenceResult(
        value=value,
        shuffled=shuffled,
        pvalue=pvalue(value, shuffled) if np.isfinite(value) else 1.0,
        labels=data.labels,
        parameters=_names(data, target, kind.n_scores),
        influences=influences[:, order],
        direction=direction[order],
        eigenvalues=eigenvalues[::-1].copy(),
        damping=added,
        rank=int(live.sum()),
        loss=kind.name,
        notes=tuple(notes),
    )


def index_of(influences: Floats) -> tuple[float, Floats]:
    """V = ln of the largest eigenvalue of the covariance (1/m) of m influence vectors, and its eigenvector.

    >>> value, direction = index_of(np.array([[2.0, 0.0], [-2.0, 0.0]]))
    >>> round(value, 4), direction.tolist()
    (1.3863, [1.0, 0.0])
    """
    centred = influences - influences.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    largest = float(singular[0] ** 2) / len(influences)
    direction = right[0] * np.sign(right[0, np.argmax(np.abs(right[0]))])
    return (math.log(largest) if largest > 0 else -math.inf), direction


def _damping(damping: float | str, eigenvalues: Floats, live: NDArray[np.bool_]) -> tuple[float, list[str]]:
    notes = []
    if not live.all():
        notes.append(
            f"{int((~live).sum())} of {len(live)} directions of the head have no curvature (dead units, constant or "
            "dependent columns, or the softmax's free constant); they carry no gradient and are left out."
        )
    if damping != "auto":
        if isinstance(damping, str) or not (damping >= 0 and math.isfinite(damping)):
            raise InputError(f'damping is {damping!r}: give a number of at least 0, or "auto"')
        return float(damping), notes
    largest = float(eigenvalues[-1])
    small = int(np.count_nonzero(eigenvalues[live] < FLAT * largest))
    if small == 0:
        return 0.0, notes
    added = DAMPING * largest
    notes.append(
        f"Damping {added:.3g} ({DAMPING:.0%} of the largest curvature) was added to the Hessian: {small} of its "
        f"directions are over {1 / FLAT:,.0f} times flatter than the steepest, and dividing by them amplifies noise. "
        "If the columns have mixed units, put them in units of their spread first."
    )
    return added, notes


def _as_head_has_it(target: Target, head: LinearHead | None, data: Environments) -> Target:
    """Check a given head against the data; a two-class head may have one score or two."""
    if head is None:
        return target
    if head.n_features != data.X.shape[1]:
        raise InputError(f"the head has {head.n_features} weights but the representation has {data.X.shape[1]} columns")
    if target.task == "binary" and head.n_outputs == 2:
        return replace(target, task="multiclass")
    expected = loss_of(target).n_scores
    if head.n_outputs != expected:
        raise InputError(f"the head has {head.n_outputs} outputs but the target needs {expected}")
    return target


def _names(data: Environments, target: Target, n_scores: int) -> tuple[str, ...]:
    columns = (*data.columns, INTERCEPT)
    if n_scores == 1:
        return columns
    return tuple(f"{column} [{label}]" for label in target.classes for column in columns)
