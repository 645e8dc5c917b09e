"""HSIC: how strongly rows depend on the environment they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.comparators.discrepancies import hsic as normalised_hsic
from invariscope.criteria.comparators.kernel_sums import KernelSums, Spreads
from invariscope.criteria.comparators.kernel_test import KernelTest, kernel_test
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.settings import is_real, one_of, switch

OF_ENVIRONMENTS = ("delta", "gaussian")


def _from_material(material: Material, options: AuditOptions) -> ComparatorResult:
    return hsic(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Dependence on the environment (HSIC)",
    needs={"compared", "target"},
    better="lower",
    tells="How strongly representation and target, taken together, depend on the environment.",
    cannot_tell="Whether the relation of target and representation depends on it, or only what rows there are.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def hsic(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    on: str = "auto",
    env_kernel: str = "delta",
    unbiased: bool = True,
    bandwidth: Any = "collection",
    scale: str = "spread",
    task: str = "auto",
    weight: Any = None,
    n_boot: int = 999,
    seed: int = 0,
) -> ComparatorResult:
    """How strongly do rows depend on the environment they come from?

        value = HSIC(K, L) / √(HSIC(K, K) HSIC(L, L)),     k_ij = exp(−‖x_i − x_j‖² / (2σ²)),  l_ij = 1 if e_i = e_j

    a correlation of two kernels: 0 on average where rows and environment are independent, at most 1. ``unbiased``
    takes n (n − 3) HSIC = tr(K̃L̃) + 1ᵀK̃1 1ᵀL̃1 / ((n − 1)(n − 2)) − 2 / (n − 2) 1ᵀK̃L̃1, with diagonals set to 0, and
    may come out below 0; else n² HSIC = tr(KHLH), H = I − 11ᵀ/n. The p-value is the share of random deals of the rows
    to environments of the same sizes that come out at least as large. All environments are compared at once, weighted
    by their rows, where :func:`~invariscope.mmd` looks at the worst pair.

    Parameters
    ----------
    Z : (n, d) representation, or predictions (n,) or (n, K), or an :class:`~invariscope.Environments`
    y : (n,) target
    env : (n,) environment labels
    on : "z" for z alone, "zy" for z and y together, "auto" takes the target in where there is one
    env_kernel : "delta" asks whether two rows share their environment; "gaussian", for environments that are numbers
        (years, doses), how near they lie, in units of the median distance of two rows
    unbiased : leave k(x, x) out
    bandwidth : σ, as in :func:`~invariscope.mmd`; of several, the one with the largest correlation counts
    scale, task : as in :func:`~invariscope.mmd`
    weight : rows each row stands for
    n_boot : deals for the p-value, or 0 for none

    Returns
    -------
    ComparatorResult
        ``per_environment`` is the correlation with being in that environment or not; there are no ``pairs``.

    What it cannot tell: whether the relation of y and z differs or only the law of z; and how far environments lie
    apart: the value falls with the share of rows that an environment has. A large p-value is no proof of invariance.

    Above 10,000 rows in two environments (rows² × environments above 2 · 10⁸), sums of kernels are taken by random
    features, as ``estimator`` says.

    With ``bandwidth="median"``, ``scale="none"`` and up to 2,000 rows, ``value`` is the statistic of hyppo's
    ``Hsic(bias=False)``, given z and one column of 0 and 1 per environment (or one for two environments); with
    ``unbiased=False``, the square of what it returns for ``bias=True``. hyppo's p-value is, from 21 rows on, that of a
    χ² approximation unless ``auto=False``.

    References: Gretton et al. (2007), A kernel statistical test of independence; Song et al. (2012), Feature selection
    via dependence maximization, eq. 5.

    >>> rng = np.random.default_rng(0)
    >>> z, env = rng.normal(size=(200, 2)), np.repeat(["Bern", "Rome"], 100)
    >>> hsic(z, env=env).pvalue > 0.05, hsic(z + (env == "Rome")[:, None], env=env).pvalue
    (True, 0.001)
    """
    one_of(env_kernel, "env_kernel", OF_ENVIRONMENTS)
    unbiased = switch(unbiased, "unbiased")
    test = kernel_test(
        *(Z, y, env, weight), on=on, task=task, scale=scale, bandwidth=bandwidth, n_boot=n_boot, seed=seed
    )
    data = test.sample.data
    _refuse_few(data)
    alike = np.eye(len(data)) if env_kernel == "delta" else _nearness(data)
    sums, spreads, estimator = test.sums(test.deals)
    return test.result(
        normalised_hsic(sums, spreads, alike, unbiased).max(axis=1),
        estimator,
        pairs=np.empty((0, 0)),
        per_environment=_of_each(test, sums, spreads, unbiased),
    )


def _of_each(test: KernelTest, sums: KernelSums, spreads: Spreads, unbiased: bool) -> Floats:
    """The correlation with being in one environment, or in any of the others: (E,)."""
    observed = KernelSums(sums.between[:1], sums.totals[:1])
    count = len(test.sample.data)
    each = np.empty(count)
    for k in range(count):
        mine = np.arange(count) == k
        each[k] = normalised_hsic(observed, spreads, (mine[:, None] == mine).astype(np.float64), unbiased).max()
    return each


def _nearness(data: Environments) -> Floats:
    """The Gaussian kernel of environments that are numbers, (E, E)."""
    strange = [label for label in data.labels if not is_real(label)]
    if strange:
        raise InputError(
            f'env_kernel="gaussian" measures how far environments lie apart, and {data.name(strange[0])} is no number: '
            'use "delta"'
        )
    values = np.array(data.labels, dtype=np.float64)
    apart = np.abs(values[:, None] - values)
    median = _weighted_median(apart, data.rows)
    return np.asarray(np.exp(-0.5 * (apart / (median or 1.0)) ** 2))


def _weighted_median(apart: Floats, rows: Floats) -> float:
    """The median distance of two different rows, where so many rows lie at every place."""
    times = np.outer(rows, rows) - np.diag(rows)
    order = np.argsort(apart, axis=None, kind="stable")
    reached = np.cumsum(times.ravel()[order])
    half = reached[-1] / 2
    at = apart.ravel()[order]
    low, high = np.searchsorted(reached, half, side="left"), np.searchsorted(reached, half, side="right")
    return float((at[low] + at[min(high, len(at) - 1)]) / 2)


def _refuse_few(data: Environments) -> None:
    if data.rows.sum() <= 3:
        raise InputError(f"there are {data.rows.sum():.3g} rows: HSIC takes at least 4")
