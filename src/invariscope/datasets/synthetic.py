"""Data with a known truth: structural equations, a closed form, and worlds in which invariance holds exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from invariscope.errors import InputError

Floats = NDArray[np.float64]
Generator = np.random.Generator

SETTINGS = ("POU", "PEU", "FOU", "FEU")


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Rows drawn from a known law, environment after environment.

    Attributes
    ----------
    X : (n, d) features
    y : (n,) target: numbers, or classes 0..K-1
    env : (n,) environment label of every row
    columns : names of the d features
    invariant : positions of the columns that form the invariant representation
    description : one sentence on the law the rows come from
    truth : population quantities of that law, under the names each function documents
    """

    X: Floats
    y: NDArray[Any]
    env: NDArray[Any]
    columns: tuple[str, ...]
    invariant: tuple[int, ...]
    description: str
    truth: Mapping[str, Any]


def linear_sem(
    setting: str = "FEU",
    n: int | Sequence[int] = 1000,
    environments: Sequence[float] = (0.2, 2.0, 5.0),
    dim: int = 5,
    seed: int = 0,
    *,
    hidden_scale: float | None = None,
) -> Synthetic:
    """Causes X1, a target Y and its effects X2, whose noise depends on the environment: X1 is invariant, X2 is not.

    In environment e, with H and X1 and X2 of length ``dim`` and Y a number:

        H ~ N(0, e² I)                           X1 = W_{H→1} H + N(0, e² I)
        Y = 1ᵀ X1 + W_{H→Y} H + N(0, σ_y²)       X2 = 1 Y + N(0, σ_2² I)

    ========  ===============================  ==============================
    setting   hidden paths W_{H→1}, W_{H→Y}    noise
    ========  ===============================  ==============================
    ``POU``   random: H is not observed        σ_y² = e², σ_2² = 1
    ``PEU``   random: H is not observed        σ_y² = 1,  σ_2² = e²
    ``FOU``   0: all causes are observed       σ_y² = e², σ_2² = 1
    ``FEU``   0: all causes are observed       σ_y² = 1,  σ_2² = e²
    ========  ===============================  ==============================

    X1 and H share the factor e², so E[Y | X1] = headᵀ X1 with the same ``head`` in every environment, also in the
    P settings, where it differs from the causal coefficients (all 1).

    Parameters
    ----------
    n : rows per environment; one number, or one per environment for imbalanced data
    environments : the values of e, all different and positive; they are also the labels
    hidden_scale : hidden weights are N(0, hidden_scale²). The default, 1/(2·``dim``), is that of the code of Arjovsky
        et al. The paper cited below states N(0, 1): pass 1.0 for that. Hidden paths then dominate Y, so the effects
        add little that could vary, and the mean of ``erm_regret`` is mostly 0.05 to 0.07, not 0.26.

    Returns
    -------
    Synthetic, with truth ``head`` (dim,): the head on X1; ``erm`` (2·dim,): the least-squares coefficients of the
    pooled rows; ``erm_regret``: environment → R_e(shared) / R_e(own) − 1 of the linear head on ERM's prediction;
    ``covariance``: environment → covariance of (X1, X2, Y).

    Reference: section 4.1 of "Measuring invariance in representation learning: a robust evaluation framework", after
    section 5.1 of Arjovsky et al. (2019), where Y is a vector that is summed in the end; here Y is that sum itself.

    >>> data = linear_sem("FEU", n=100)
    >>> data.X.shape, data.invariant
    ((300, 10), (0, 1, 2, 3, 4))
    >>> data.truth["head"].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    if setting not in SETTINGS:
        raise InputError(f'setting "{setting}" is unknown: use one of {", ".join(SETTINGS)}')
    scales = [float(e) for e in environments]
    if len(set(scales)) < len(scales) or not all(0 < e < np.inf for e in scales):
        raise InputError(f"environments must be different positive numbers: got {scales}")
    if dim < 1:
        raise InputError(f"dim is {dim}: at least 1 cause is needed")
    rows = _rows(n, len(scales))
    weights_rng, *streams = np.random.default_rng(seed).spawn(1 + len(scales))
    scale = (0.5 / dim if hidden_scale is None else hidden_scale) if setting[0] == "P" else 0.0
    hidden_to_causes = scale * weights_rng.standard_normal((dim, dim))
    hidden_to_target = scale * weights_rng.standard_normal(dim)

    # every variable is a linear map of independent standard normals (H, noise of X1, of Y, of X2): the sample and
    # the population covariance both follow from that one map
    causes = np.hstack([hidden_to_causes, np.eye(dim), np.zeros((dim, 1 + dim))])
    target = causes.sum(axis=0) + np.concatenate([hidden_to_target, np.zeros(dim), [1.0], np.zeros(dim)])
    effects = target + np.hstack([np.zeros((dim, 2 * dim + 1)), np.eye(dim)])
    system = np.vstack([causes, effects, target])

    parts, covariances = [], []
    for e, count, stream in zip(scales, rows, streams, strict=True):
        target_noise, effect_noise = (e, 1.0) if setting[1] == "O" else (1.0, e)
        spread = np.repeat([e, e, target_noise, effect_noise], [dim, dim, 1, dim])
        mixing = system * spread
        parts.append(stream.standard_normal((count, mixing.shape[1])) @ mixing.T)
        covariances.append(mixing @ mixing.T)
    table = np.vstack(parts)

    first = covariances[0]
    pooled = np.tensordot(np.array(rows) / sum(rows), covariances, axes=1)
    erm = np.linalg.solve(pooled[:-1, :-1], pooled[:-1, -1])
    return Synthetic(
        X=np.ascontiguousarray(table[:, :-1]),
        y=np.ascontiguousarray(table[:, -1]),
        env=np.repeat(scales, rows),
        columns=(*(f"cause {j + 1}" for j in range(dim)), *(f"effect {j + 1}" for j in range(dim))),
        invariant=tuple(range(dim)),
        description=f"Linear structural equations, setting {setting}: causes, a target and its effects.",
        truth={
            "head": np.ones(dim) if scale == 0 else np.linalg.solve(first[:dim, :dim], first[:dim, -1]),
            "erm": erm,
            "erm_regret": dict(zip(scales, _regret_of_prediction(erm, np.array(covariances)).tolist(), strict=True)),
            "covariance": dict(zip(scales, covariances, strict=True)),
        },
    )


def two_domain_example(
    sigma: tuple[float, float] = (1.0, 2.0),
    n: int | Sequence[int] = 1000,
    seed: int = 0,
    *,
    spread: tuple[float, float] = (1.0, 1.5),
) -> Synthetic:
    """One cause and one effect in two domains (labels 1 and 2), for which the influence index is known in closed form.

        x1 ~ N(0, spread_e²)      y = x1 + N(0, 1)      x2 = y + N(0, σ_e²)

    With least squares on (x1, x2) and the pooled variance s̄ = Σ_e (n_e/n) σ_e²:

        beta = (s̄, 1) / (1 + s̄)          V = 2 ln( |σ_1² − σ_2²| / (√2 (1 + s̄)²) )

    which for equally large domains is 2 ln( 2√2 |σ_1² − σ_2²| / (s + 2)² ), s = σ_1² + σ_2². V does not depend on
    the law of x1, and is −∞ when σ_1 = σ_2.

    Returns
    -------
    Synthetic with truth ``beta`` (2,) and ``V``; x1 alone is invariant.

    Reference: appendix A.2 of "Out-of-distribution generalization analysis via influence function".

    >>> two_domain_example(sigma=(1.0, 2.0)).truth["beta"].round(4).tolist()
    [0.7143, 0.2857]
    """
    if len(sigma) != 2 or len(spread) != 2 or min(*sigma, *spread) <= 0:
        raise InputError(f"two positive numbers are needed for sigma and for spread: got {sigma} and {spread}")
    rows = _rows(n, 2)
    parts = []
    for scale, width, count, stream in zip(sigma, spread, rows, np.random.default_rng(seed).spawn(2), strict=True):
        cause, target_noise, effect_noise = stream.standard_normal((3, count))
        y = width * cause + target_noise
        parts.append(np.column_stack([width * cause, y + scale * effect_noise, y]))
    table = np.vstack(parts)
    variances = np.square(np.asarray(sigma, dtype=np.float64))
    pooled = float(np.average(variances, weights=rows))
    gap = abs(variances[0] - variances[1])
    return Synthetic(
        X=np.ascontiguousarray(table[:, :2]),
        y=np.ascontiguousarray(table[:, 2]),
        env=np.repeat([1, 2], rows),
        columns=("x1", "x2"),
        invariant=(0,),
        description="One cause x1 and one effect x2 of the target in two domains.",
        truth={
            "beta": np.array([pooled, 1.0]) / (1.0 + pooled),
            "V": 2.0 * float(np.log(gap / (np.sqrt(2.0) * (1.0 + pooled) ** 2))) if gap > 0 else -np.inf,
        },
    )


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
    _, head_rng, rows, streams = _null_world(n, d, environments, seed)
    means, roots = np.zeros((environments, d)), np.broadcast_to(np.eye(d), (environments, d, d))
    text = "The same law in every environment."
    return _null(rows, means, roots, np.ones(environments), task, head_rng, streams, text)


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
        raise InputError(f'noise cannot be set for task "{task}": only regression has a noise scale')
    scales = np.geomspace(0.5, 2.0, environments) if noise is None else np.asarray(noise, dtype=np.float64)
    if scales.shape != (environments,) or not np.all(scales > 0):
        raise InputError(f"noise needs one positive number for each of the {environments} environments: got {noise}")
    law_rng, head_rng, rows, streams = _null_world(n, d, environments, seed)
    means = shift / np.sqrt(d) * law_rng.standard_normal((environments, d))
    axes = np.linalg.qr(law_rng.standard_normal((environments, d, d)))[0]
    roots = axes * np.exp(law_rng.uniform(np.log(0.5), np.log(2.0), (environments, 1, d)))
    text = "The same E[Y | Z] in every environment, with other means, covariances and noise."
    return _null(rows, means, roots, scales, task, head_rng, streams, text)


# --- the parts the laws above share ----------------------------------------------------------------------------------


def _rows(n: int | Sequence[int], environments: int) -> list[int]:
    rows = [int(n)] * environments if isinstance(n, int | np.integer) else [int(count) for count in n]
    if environments < 1 or len(rows) != environments or min(rows) < 1:
        raise InputError(
            f"n must be a positive number of rows, or one for each of {environments} environments: got {n}"
        )
    return rows


def _null_world(
    n: int | Sequence[int], d: int, environments: int, seed: int
) -> tuple[Generator, Generator, list[int], list[Generator]]:
    """Separate streams for the law, the head and each environment: more rows in one change nothing in the others."""
    if d < 1:
        raise InputError(f"d is {d}: at least 1 column is needed")
    rows = _rows(n, environments)
    law_rng, head_rng, *streams = np.random.default_rng(seed).spawn(2 + environments)
    return law_rng, head_rng, rows, streams


def _null(
    rows: list[int],
    means: Floats,
    roots: Floats,
    noise: Floats,
    task: str,
    head_rng: Generator,
    streams: list[Generator],
    description: str,
) -> Synthetic:
    d = means.shape[1]
    classes = {"regression": 1, "binary": 1, "classification": 1, "multiclass": 3}.get(task)
    if classes is None:
        raise InputError(f'task "{task}" is unknown: use "regression", "binary" or "multiclass"')
    head = head_rng.standard_normal((classes, d))
    # length 1 whatever d: half of the variance is explained in regression, and no class is rare
    head /= np.linalg.norm(head, axis=1, keepdims=True)
    bias = 0.5 * head_rng.standard_normal(classes)
    features, targets = [], []
    for mean, root, scale, count, stream in zip(means, roots, noise, rows, streams, strict=True):
        z = mean + stream.standard_normal((count, d)) @ root.T
        score = z @ head.T + bias
        if task == "regression":
            targets.append(score[:, 0] + scale * stream.standard_normal(count))
        elif classes == 1:
            targets.append((score[:, 0] + stream.logistic(size=count) > 0).astype(np.int64))
        else:  # the largest of score + Gumbel noise is a draw from the softmax of the scores
            targets.append(np.argmax(score + stream.gumbel(size=score.shape), axis=1))
        features.append(z)
    truth = {
        "head": head[0] if classes == 1 else head,
        "bias": float(bias[0]) if classes == 1 else bias,
        "regret": 0.0,
        "mean": means,
        "covariance": roots @ np.swapaxes(roots, 1, 2),
    }
    if task == "regression":
        truth["noise"] = noise
    return Synthetic(
        X=np.vstack(features),
        y=np.concatenate(targets),
        env=np.repeat(np.arange(len(rows)), rows),
        columns=tuple(f"z{j + 1}" for j in range(d)),
        invariant=tuple(range(d)),
        description=description,
        truth=truth,
    )


def _regret_of_prediction(coefficients: Floats, covariances: Floats) -> Floats:
    """Population regret per environment of a linear head on f = Xᵀ coefficients (all means are zero)."""
    explained = np.einsum("eij,i,j->e", covariances[:, :-1, :-1], coefficients, coefficients)
    shared = covariances[:, :-1, -1] @ coefficients
    total = covariances[:, -1, -1]
    own_risk = total - shared**2 / explained
    slope = np.sum(shared / own_risk) / np.sum(explained / own_risk)
    regret: Floats = (total - 2 * slope * shared + slope**2 * explained) / own_risk - 1.0
    return regret
