"""MMD: how far apart the laws of environments lie, in a distance that sees every difference of laws."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from invariscope.criteria.comparators.deals import Deals
from invariscope.criteria.comparators.discrepancies import mmd2_from_the_rest, pairwise_mmd2
from invariscope.criteria.comparators.kernel_sums import Spreads
from invariscope.criteria.comparators.kernel_test import KernelTest, by_chance, holm, kernel_test, notes_on_pairs
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import one_of, switch

OVER = ("max", "mean")


def _from_material(material: Material, options: AuditOptions) -> ComparatorResult:
    return mmd(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Distance of laws (MMD)",
    needs={"compared", "target"},
    better="lower",
    tells="How far apart the joint laws of representation and target lie in different environments.",
    cannot_tell="Whether the relation of target and representation differs, or only what rows there are: either makes "
    "laws differ.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def mmd(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    on: str = "auto",
    over: str = "max",
    unbiased: bool = True,
    bandwidth: Any = "collection",
    scale: str = "spread",
    task: str = "auto",
    weight: Any = None,
    n_boot: int = 999,
    seed: int = 0,
) -> ComparatorResult:
    """How far apart do the laws of different environments lie?

        MMD²(a, b) = E k(x_a, x_a') + E k(x_b, x_b') − 2 E k(x_a, x_b),     k(x, x') = exp(−‖x − x'‖² / (2σ²))

    It is 0 if and only if the laws of a and b are the same. The unbiased estimate leaves out k(x, x), so that it is 0
    on average where laws are the same, and may be negative; the biased one is at least 0, and about (1 − E k)(1/n_a +
    1/n_b) too large. ``value`` is the largest MMD² of all pairs of environments, or the mean over them. The p-value is
    the share of random deals of the rows to environments of the same sizes that come out at least as large.

    Parameters
    ----------
    Z : (n, d) representation, or predictions (n,) or (n, K), or an :class:`~invariscope.Environments`
    y : (n,) target
    env : (n,) environment labels
    on : "z" compares the law of z, "zy" that of z and y together, "auto" takes the target in where there is one
    over : "max" for the pair that lies farthest apart, "mean" for all pairs
    unbiased : leave k(x, x) out
    bandwidth : σ. "median": of the distances of any two rows; a number, or several; "collection": a quarter, half,
        once, twice and four times the median. Of several, the one in which MMD² is largest in units of its kernel's
        spread (root mean square of the centred kernel of two rows) counts, for deals as for what was observed, so that
        the test keeps its level; statistics are then in those units.
    scale : "spread" measures columns in units of their spread over all rows, and lets z and y count alike in distances
        however many columns they have; "none" leaves columns as they are
    task : "auto", "regression" or "classification"; classes are compared as one column each
    weight : rows each row stands for
    n_boot : deals for the p-values, or 0 for none

    Returns
    -------
    ComparatorResult
        ``pairs`` holds MMD² of any two environments, ``per_environment`` that of each and all others together.
        ``pvalue`` tests that all environments have one law. ``pair_pvalues`` test that two have: only rows of the two
        are dealt, since rows of a third, of another law, would say nothing about them; and they allow for having looked
        at all pairs (Holm).

    What it cannot tell: why laws differ. Where rows are easier or older in one environment, z has another law, though
    the relation of y and z may be the same; :func:`~invariscope.regret` looks at that. With many columns of noise, or
    few rows, it sees little: a large p-value is no proof of invariance. The value depends on the kernel's width.

    Above 10,000 rows in two environments (rows² × environments above 2 · 10⁸), sums of kernels are taken by random
    features, as ``estimator`` says.

    hyppo's ``MMD`` returns its normalised HSIC times 2 n² m² / (n + m)⁴: see :func:`~invariscope.hsic`. Its p-value is
    that of the same test: with two environments, HSIC is 2 n² m² / (n + m)⁴ times the biased MMD².

    References: Gretton et al. (2012), A kernel two-sample test; Schrab et al. (2023), MMD aggregated two-sample test;
    Biggs et al. (2023), MMD-FUSE, for units in which bandwidths can be compared.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(300, 2)), np.repeat(["Bern", "Paris", "Rome"], 100)
    >>> z[200:] += 1.0
    >>> result = mmd(z, env=env, bandwidth="median")
    >>> result.pvalue, round(result.value, 2)
    (0.001, 0.27)
    >>> print(result.pair_pvalues.round(3)[0])
    [1.    0.439 0.003]
    """
    one_of(over, "over", OVER)
    unbiased = switch(unbiased, "unbiased")
    test = kernel_test(
        *(Z, y, env, weight), on=on, task=task, scale=scale, bandwidth=bandwidth, n_boot=n_boot, seed=seed
    )
    sums, spreads, estimator = test.sums(test.deals)
    pairs = test.best(pairwise_mmd2(sums, unbiased), spreads)
    upper = np.triu_indices(pairs.shape[1], 1)
    statistic = pairs[:, *upper].max(axis=1) if over == "max" else pairs[:, *upper].mean(axis=1)
    pair_pvalues, notes = _of_pairs(test, pairs, spreads, unbiased)
    return test.result(
        statistic,
        estimator,
        pairs=pairs[0],
        pair_pvalues=pair_pvalues,
        per_environment=test.best(mmd2_from_the_rest(sums, unbiased), spreads)[0],
        notes=notes,
    )


def _of_pairs(test: KernelTest, pairs: Floats, spreads: Spreads, unbiased: bool) -> tuple[Floats, tuple[str, ...]]:
    """p-values of two environments each, (E, E), their rows alone being dealt; and what they cannot reach."""
    count = pairs.shape[1]
    out = np.full((count, count), math.nan)
    if not test.draws:
        return out, ()
    each = []
    places = list(itertools.combinations(range(count), 2))
    for a, b in places:
        dealt = pairs[:, a, b]
        if count > 2:
            sums, _, _ = test.sums(Deals.of(test.sample, (a, b)))
            dealt = test.best(pairwise_mmd2(sums, unbiased), spreads)[:, 0, 1]
        each.append(by_chance(dealt))
    adjusted = holm(np.array(each))
    for (a, b), value in zip(places, adjusted, strict=True):
        out[a, b] = out[b, a] = value
    np.fill_diagonal(out, 1.0)
    return out, notes_on_pairs(len(places), test.draws)
