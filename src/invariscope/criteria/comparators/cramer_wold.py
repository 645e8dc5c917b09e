"""Cramér–Wold: laws are the same where they are the same along every direction."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from invariscope.criteria.comparators.deals import Deals
from invariscope.criteria.comparators.kernel_test import holm, notes_on_pairs
from invariscope.criteria.comparators.projections import KNOTS, Projection, directions
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.comparators.samples import Sample, sample_of
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.results import Estimate
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.blocks import one_blas_thread
from invariscope.rows.resampling import generator, notes_on_weights, pvalue
from invariscope.rows.settings import NOT_DRAWN, number_of_draws, one_of, whole_number

PROJECTIONS, MOST_PROJECTIONS = 50, 10_000
NUMBERS = 2**22  # of the masses of one block of deals: 16 MB


def _from_material(material: Material, options: AuditOptions) -> ComparatorResult:
    return cramer_wold(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Cramér–Wold distance",
    needs={"compared", "target"},
    better="lower",
    tells="Whether representation and target together follow the same law in every environment, direction by "
    "direction.",
    cannot_tell="Whether what differs matters for predictions: inputs that are merely commoner somewhere make it "
    "large, too.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def cramer_wold(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    on: str = "auto",
    projections: int = PROJECTIONS,
    over: str = "mean",
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> ComparatorResult:
    """Do environments differ along any of many directions of (z, y)?

    By the device of Cramér and Wold two laws are the same if and only if they are the same along every direction. Along
    a direction θ, in units of the spread of all rows there, with F_e the distribution function of environment e, which
    has a share π_e of the rows, and F that of all rows,

        T_θ = Σ_e π_e ∫ (F_e(t) − F(t))² dt = Σ_{a<b} π_a π_b ∫ (F_a(t) − F_b(t))² dt

    is the k-sample statistic of Cramér and von Mises with dt for dF (twice it is the energy distance). ``value`` is the
    mean, or the largest, over ``projections`` directions, which are always the same for so many columns. The p-value
    compares it with the same rows, along the same directions, when environments are dealt at random.

    Parameters
    ----------
    Z : (n, d) representation or (n,) predictions, or :class:`~invariscope.Environments` (then y and env are left out)
    y, env, weight : (n,) arrays; weight counts rows
    on : "zy" compares z and the target together, "z" the representation alone; "auto" takes in a target that is given
    projections : how many directions; one column has only one
    over : "mean" of the directions, or their "max", which sees what only a few of them show
    task : "auto", "regression" or "classification"; classes are a column each
    n_boot, seed : how often environments are dealt at random, and the seed of that

    Returns
    -------
    ComparatorResult
        ``pairs[a, b]`` = ∫ (F_a − F_b)² dt, ``per_environment`` the same for one environment and all others together.
        ``pair_pvalues`` come from dealing the rows of two environments alone, and allow for having looked at all
        pairs (Holm). Above 512 different values along a direction distribution
        functions are compared at 512 quantiles, which ``estimator`` then says.

    What it cannot tell: whether E[Y | z] differs or only z itself does; and in many columns a difference in one of them
    is thin along most directions.

    Reference: Chiu and Bloem-Reddy (2023), "Hypothesis tests for distributional group symmetry"; column CW of Table 18
    of the DRIC paper, which does not say how it is scaled.

    >>> rng = np.random.default_rng(0)
    >>> z, site = rng.normal(size=(300, 2)), np.repeat(["Bern", "Oslo", "Rome"], 100)
    >>> z[site == "Rome", 0] += 1.0
    >>> found = cramer_wold(z, env=site)
    >>> found.pvalue, found.pair_pvalues.round(2).tolist()
    (0.001, [[1.0, 0.36, 0.0], [0.36, 1.0, 0.0], [0.0, 0.0, 1.0]])
    """
    draws, rng = number_of_draws(n_boot), generator(seed)
    one_of(over, "over", ("mean", "max"))
    count = whole_number(projections, "projections", 1, MOST_PROJECTIONS)
    sample = sample_of(Z, y, env, weight, on=on, task=task)
    deals = Deals.of(sample)
    along = _along(sample, deals, count)
    with one_blas_thread():
        observed = _distances(along, deals, deals.observed[None], over)
        dealt = _dealt(along, deals, over, draws, rng)
        value, null = float(observed.total[0]), np.concatenate([np.empty(0), *(part.total for part in dealt)])
        pair_pvalues = _pair_pvalues(sample, count, over, draws, value, null, rng)
    data = sample.data
    apart = [Estimate(float(distance)) for distance in observed.others[0]]
    return ComparatorResult(
        value=value,
        pvalue=pvalue(value, null),
        null=null,
        labels=data.labels,
        pairs=observed.pairs[0],
        pair_pvalues=pair_pvalues,
        per_environment=dict(zip(data.labels, apart, strict=True)),
        compared=sample.compared,
        estimator="exact" if all(each.exact for each in along) else f"at {KNOTS} quantiles",
        notes=(
            *data.notes,
            *notes_on_weights(data.weight),
            *notes_on_pairs(math.comb(len(data), 2), draws),
            *(() if draws else (NOT_DRAWN,)),
        ),
    )


@dataclass(frozen=True)
class _Distances:
    """Of every deal: T (draws,), ∫ (F_a − F_b)² of pairs (draws, E, E), and of one and all others (draws, E)."""

    total: Floats
    pairs: Floats
    others: Floats


def _along(sample: Sample, deals: Deals, count: int) -> list[Projection]:
    """The rows of the deals along every direction."""
    columns = sample.columns
    weight = np.ones(len(deals.order)) if deals.weight is None else deals.weight
    along = (columns @ directions(columns.shape[1], count).T)[deals.order]
    return [Projection.of(values, weight) for values in along.T]


def _distances(along: list[Projection], deals: Deals, codes: Integers, over: str) -> _Distances:
    """Distances of environments for every line of codes, over all directions."""
    weight = 1.0 if deals.weight is None else deals.weight
    total = len(deals.order) if deals.weight is None else deals.weight.sum()
    exact = np.float32 if deals.weight is None else np.float64  # counts of rows are exact in single precision
    masses = np.stack([((codes == e) * weight).T.astype(exact) for e in range(deals.environments - 1)], axis=1)
    shares = masses.sum(axis=0, dtype=np.float64) / total
    shares = np.concatenate([shares, 1.0 - shares.sum(axis=0, keepdims=True)])
    add = np.maximum if over == "max" else np.add
    sums: tuple[Any, ...] = (0.0, 0.0, 0.0)  # no distance is below 0
    for projection in along:
        products = projection.products(masses, shares, total)
        own = np.diagonal(products, axis1=1, axis2=2)
        each = (
            np.einsum("ed,de->d", shares, own),  # Σ_e π_e ∫ (F_e − F)²
            np.maximum(own[:, :, None] + own[:, None, :] - 2.0 * products, 0.0),  # ∫ (F_a − F_b)²
            own / (1.0 - shares.T) ** 2,  # F_e − F = (1 − π_e)(F_e − F of all others)
        )
        sums = tuple(add(past, new) for past, new in zip(sums, each, strict=True))
    of_all, pairs, others = (part / (len(along) if over == "mean" else 1) for part in sums)
    return _Distances(of_all, pairs, others)


def _dealt(along: list[Projection], deals: Deals, over: str, draws: int, rng: np.random.Generator) -> list[_Distances]:
    """Distances of deals, as many at a time as memory holds well."""
    block = max(1, NUMBERS // (len(deals.order) * (deals.environments - 1)))
    return [
        _distances(along, deals, deals.draw(rng, min(block, draws - first)), over) for first in range(0, draws, block)
    ]


def _pair_pvalues(
    sample: Sample, count: int, over: str, draws: int, value: float, null: Floats, rng: np.random.Generator
) -> Floats:
    """p-values of two environments each, whose rows alone are dealt, along the same directions (Holm)."""
    labels = len(sample.data)
    places = list(itertools.combinations(range(labels), 2))
    out = np.full((labels, labels), np.nan)
    if not draws:
        return out
    each = []
    for pair in places:
        if labels > 2:
            deals = Deals.of(sample, pair)
            two = replace(deals, codes=_coded(deals.codes, pair), observed=_coded(deals.observed, pair), environments=2)
            along = _along(sample, two, count)
            value = float(_distances(along, two, two.observed[None], over).total[0])
            each.append(pvalue(value, np.concatenate([part.total for part in _dealt(along, two, over, draws, rng)])))
        else:
            each.append(pvalue(value, null))
    for (a, b), adjusted in zip(places, holm(np.array(each)), strict=True):
        out[a, b] = out[b, a] = adjusted
    np.fill_diagonal(out, 1.0)
    return out


def _coded(codes: Integers, pair: tuple[int, int]) -> Integers:
    """0 and 1 for the two environments of a pair."""
    return np.asarray(codes == pair[1], dtype=np.intp)
