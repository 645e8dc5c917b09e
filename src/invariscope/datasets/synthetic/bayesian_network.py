"""Cause, target and effect of the influence-function paper: vectors in many domains, or numbers in two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from invariscope.datasets.entry import Entry, Published
from invariscope.datasets.synthetic.population import Population, linear_truth
from invariscope.datasets.synthetic.synthetic import (
    INFLUENCE,
    MOST_COLUMNS,
    Generator,
    Synthetic,
    cause_and_effect_names,
    designed,
    different_scales,
    drawn,
)
from invariscope.errors import InputError
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.settings import POSITIVE, is_whole, numbers, one_of, shown, whole_number


def bayesian_network(
    n: int | Sequence[int] = 1000,
    environments: Sequence[float] = (0.2, 0.7, 1.2, 1.7, 2.2),
    dim: int = 5,
    seed: int = 0,
    *,
    weights: str = "identity",
    component: int | None = None,
    n_test: int | Sequence[int] = 0,
) -> Synthetic:
    """A vector of causes x1, a target vector y and its effects x2, whose noise differs between domains.

        x1 ~ N(0, e² I)      y = x1 W_{1→y} + N(0, I)      x2 = y W_{y→2} + N(0, e² I)               (eq. 8)

    x1 alone is invariant: E[y | x1] = x1 W_{1→y}. Least squares on (x1, x2) uses x2 as well; with identity weights and
    the mean s̄ of e² over the rows, in every component

        Ŵ1 = s̄/(1+s̄) I,   Ŵ2 = 1/(1+s̄) I,   ‖Ŵ1 − W‖² = ‖Ŵ2‖² = dim/(1+s̄)²,   V = ln( 2 dim Var_e(e²) / (1+s̄)⁴ )

    with 1/m in the variance over domains.

    Parameters
    ----------
    n : rows per environment; one number, or one per environment
    environments : the values of e, all different and positive; they are also the labels
    weights : "identity", or "random": entries of both matrices N(0, 1/dim)
    component : position 0, ..., dim − 1 of the only target to keep, for criteria that want one number per row
    n_test : further rows per environment, as ``.test``

    Returns
    -------
    Synthetic; y is (n, dim), or (n,) with ``component``. Truth: ``head``: W_{1→y}, (dim, dim) or its column (dim,);
    ``effect_weights``: W_{y→2}; ``causal_error`` ‖Ŵ1 − W_{1→y}‖² and ``noncausal_error`` ‖Ŵ2‖² of ERM;
    ``covariance``: environment → covariance of (x1, x2, y); and ``erm`` (2·dim, dim) or (2·dim,), ``erm_intercept``,
    ``erm_risk`` and ``invariant_risk`` (summed over components), ``erm_regret``, ``V`` and ``population`` as in
    :func:`~invariscope.datasets.synthetic.population.linear_truth`.

    Reference: appendix A.1 of "Out-of-distribution generalization analysis via influence function". Its Table 3 gives
    0.582 and 0.581 for the errors of ERM, means of 500 repetitions; the population value with identity weights is
    0.578. For V of ERM it gives 15.844, which the paper's own formula does not reproduce on this law: it gives −0.89.

    >>> data = bayesian_network(n=100, component=0)
    >>> data.X.shape, data.y.shape, bayesian_network(n=100).y.shape
    ((500, 10), (500,), (500, 5))
    >>> truth = bayesian_network().truth
    >>> round(truth["causal_error"], 3), round(truth["noncausal_error"], 3), round(truth["V"], 2)
    (0.578, 0.578, -0.89)
    """
    one_of(weights, "weights", ("identity", "random"))
    whole_number(dim, "dim", 1, MOST_COLUMNS)
    if component is not None and not (is_whole(component) and 0 <= component < dim):
        raise InputError(f"component is {shown(component)}: give a position from 0 to {dim - 1}, or None for all of y")
    scales = different_scales(environments)
    design, (weights_rng,) = designed(scales, n, seed, n_test=n_test, further=1)
    if weights == "identity":
        to_target = to_effects = np.eye(dim)
    else:
        to_target, to_effects = weights_rng.standard_normal((2, dim, dim)) / np.sqrt(dim)
    components = slice(None) if component is None else component

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        e = scales[position]
        noise = stream.standard_normal((count, 3 * dim))
        x1 = e * noise[:, :dim]
        y = x1 @ to_target + noise[:, dim : 2 * dim]
        x2 = y @ to_effects + e * noise[:, 2 * dim :]
        return np.hstack([x1, x2]), y[:, components]

    # rows of (x1, x2, y) are standard normals (noise of x1, of y, of x2) times this matrix
    zero, one = np.zeros((dim, dim)), np.eye(dim)
    target = np.vstack([to_target, one, zero])
    system = np.hstack([np.vstack([one, zero, zero]), target @ to_effects + np.vstack([zero, zero, one]), target])
    mixings = [np.repeat([e, 1.0, e], dim)[:, None] * system for e in scales]
    covariances = np.stack([mixing.T @ mixing for mixing in mixings])
    if component is not None:
        kept = [*range(2 * dim), 2 * dim + component]
        covariances = covariances[:, kept][:, :, kept]
    population = Population.of(covariances, rows=design.rows, targets=dim if component is None else 1)
    truth = linear_truth(population, population.selected(range(dim)), scales)
    head = to_target[:, components]
    erm = truth["erm"].reshape(2 * dim, *head.shape[1:])
    return drawn(
        sample,
        design,
        columns=cause_and_effect_names(dim),
        invariant=tuple(range(dim)),
        description="A Bayesian network of causes, a target and its effects, whose noise differs between domains.",
        source=f"drawn here, after appendix A.1 of {INFLUENCE}",
        choices=(
            "The paper does not give the weights. With identity weights the errors of least squares are 0.578, close "
            "to the published 0.582 and 0.581, so these are the default.",
            "The published V of least squares, 15.844, is not the V of the paper's own formula on this law.",
        ),
        truth={
            "head": head,
            "effect_weights": to_effects,
            "causal_error": float(np.sum((erm[:dim] - head) ** 2)),
            "noncausal_error": float(np.sum(erm[dim:] ** 2)),
            "covariance": dict(zip(scales, covariances, strict=True)),
            **truth,
            "erm": erm,
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
    sigmas = numbers(sigma, "sigma", "two positive numbers", POSITIVE, count=2)
    spreads = numbers(spread, "spread", "two positive numbers", POSITIVE, count=2)
    design, _ = designed((1, 2), n, seed)

    def sample(position: int, count: int, stream: Generator) -> tuple[Floats, Array]:
        normal, target_noise, effect_noise = stream.standard_normal((3, count))
        cause = spreads[position] * normal
        y = cause + target_noise
        return np.column_stack([cause, y + sigmas[position] * effect_noise]), y

    variances = np.square(sigmas)
    pooled = float(np.average(variances, weights=design.rows))
    gap = abs(variances[0] - variances[1])
    return drawn(
        sample,
        design,
        columns=("x1", "x2"),
        invariant=(0,),
        description="One cause x1 and one effect x2 of the target in two domains.",
        source=f"drawn here, after appendix A.2 of {INFLUENCE}",
        truth={
            "beta": np.array([pooled, 1.0]) / (1.0 + pooled),
            "V": 2.0 * float(np.log(gap / (np.sqrt(2.0) * (1.0 + pooled) ** 2))) if gap > 0 else -np.inf,
        },
    )


ENTRIES = (
    Entry(
        kind="synthetic",
        title="Vectors of causes, targets and effects in five domains",
        load=bayesian_network,
        reference=f"appendix A.1 of {INFLUENCE}",
        published=(
            Published("environments", 5, "appendix A.1"),
            Published("rows in 0.2", 1000, "appendix A.1"),
        ),
    ),
    Entry(
        kind="synthetic",
        title="One cause and one effect in two domains, with the influence index in closed form",
        load=two_domain_example,
        reference=f"appendix A.2 of {INFLUENCE}",
    ),
)
