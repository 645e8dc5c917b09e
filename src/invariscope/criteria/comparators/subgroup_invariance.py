"""T_sub: the subgroup-invariance statistic, distances between pieces of environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.comparators.discrepancies import pairwise_mmd2
from invariscope.criteria.comparators.kernel_test import kernel_test
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.rows.arrays import Floats, Integers
from invariscope.rows.environments import Environments
from invariscope.rows.settings import whole_number

MOST_PIECES = 200  # of all environments: every pair of them is compared in every deal


def _from_material(material: Material, options: AuditOptions) -> ComparatorResult:
    return subgroup_invariance(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Subgroup invariance (T_sub)",
    needs={"compared", "target"},
    better="lower",
    tells="How far pieces of one environment lie from pieces of another, on average.",
    cannot_tell="Whether the relation of target and representation differs, or only what rows there are; and it is far "
    "above 0 even where nothing differs, since pieces are small.",
    call=_from_material,
    on_request=True,
    mentioned=False,
    draws=199,
)
def subgroup_invariance(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    parts: int = 5,
    on: str = "auto",
    bandwidth: Any = "median",
    scale: str = "spread",
    task: str = "auto",
    weight: Any = None,
    n_boot: int = 999,
    seed: int = 0,
) -> ComparatorResult:
    """How far do pieces of one environment lie from pieces of another, on average?

        T_sub = mean of MMD(s, t) over all pieces s of e and t of e', e ≠ e'

    where MMD² is the biased estimate of :func:`~invariscope.mmd`. Appendix B.4 of the DRIC paper: environments are
    divided into sub-environments, at random and of equal size, the statistic of an invariance test (here the MMD) is
    recorded for every pair, and its mean is T_sub. Published numbers (0.11 to 0.36) have the size of roots, so MMD is
    the root. The p-value is the share of deals of all rows to pieces of the same sizes that come out at least as large.
    Koning and Hemerik choose a subgroup of all permutations to deal by; deals are random here, which tests the same.

    Parameters
    ----------
    Z : (n, d) representation, or predictions (n,) or (n, K), or an :class:`~invariscope.Environments`
    y : (n,) target
    env : (n,) environment labels
    parts : pieces of every environment
    on : "z" for z alone, "zy" for z and y together, "auto" takes the target in where there is one
    bandwidth, scale, task : as in :func:`~invariscope.mmd`
    weight : rows each row stands for
    n_boot : deals for the p-value, or 0 for none
    seed : of the cut and of the deals

    Returns
    -------
    ComparatorResult
        ``pairs`` holds the mean over the pieces of any two environments, ``per_environment`` the mean over all pairs of
        pieces of which one is of that environment.

    What it cannot tell: why laws differ. It depends on how rows are cut, and pieces of few rows lie far apart by noise
    alone, so it is never near 0: hold it against the mean of ``null``. Over all rows at once, :func:`~invariscope.mmd`
    has at least as much power in our simulations (docs/comparators.md).

    Above 10,000 rows in two pieces (rows² × pieces above 2 · 10⁸), sums of kernels are taken by random features, as
    ``estimator`` says.

    References: Koning and Hemerik (2024), More efficient exact group invariance testing: using a representative
    subgroup; "Measuring invariance in representation learning" (DRIC), appendix B.4.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(200, 2)), np.repeat(["Bern", "Rome"], 100)
    >>> alike, apart = (subgroup_invariance(z + k * (env == "Rome")[:, None], env=env) for k in (0, 1))
    >>> alike.pvalue > 0.05, apart.pvalue, bool(apart.value > 1.5 * apart.null.mean())
    (True, 0.001, True)
    """
    parts = whole_number(parts, "parts", 1, MOST_PIECES)
    test = kernel_test(
        *(Z, y, env, weight), on=on, task=task, scale=scale, bandwidth=bandwidth, n_boot=n_boot, seed=seed
    )
    data = test.sample.data
    deals = test.deals.split(parts, test.rng)
    _refuse_small(data, np.bincount(test.deals.observed, minlength=len(data)), parts)
    sums, spreads, estimator = test.sums(deals)
    distances = np.sqrt(np.maximum(test.best(pairwise_mmd2(sums, unbiased=False), spreads), 0.0))
    count = len(data)
    pairs = distances.reshape(-1, count, parts, count, parts).mean(axis=(2, 4))
    pairs[:, np.arange(count), np.arange(count)] = 0.0
    upper = np.triu_indices(count, 1)
    return test.result(
        pairs[:, *upper].mean(axis=1),
        estimator,
        pairs=pairs[0],
        per_environment=_of_each(pairs[0]),
    )


def _of_each(pairs: Floats) -> Floats:
    return np.asarray(pairs.sum(axis=1) / (len(pairs) - 1))


def _refuse_small(data: Environments, sizes: Integers, parts: int) -> None:
    """Every piece needs a row, and pieces of all environments together must not be too many to compare."""
    if sizes.min() < parts:
        k = int(np.argmin(sizes))
        raise InputError(f"{data.name(data.labels[k])} has {sizes[k]} rows for {parts} parts: give parts={sizes[k]}")
    if parts * len(data) > MOST_PIECES:
        raise InputError(
            f"{parts} parts of {len(data)} environments are {parts * len(data):,} pieces: give parts so that there are "
            f"at most {MOST_PIECES}"
        )
