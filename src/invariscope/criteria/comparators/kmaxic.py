"""KMaxIC: the kernel maximum invariance criterion, with other environments as what may be done to one."""

from __future__ import annotations

from typing import Any

from invariscope.criteria.comparators.discrepancies import mmd2_from_the_rest, pairwise_mmd2
from invariscope.criteria.comparators.kernel_test import kernel_test
from invariscope.criteria.comparators.result import ComparatorResult
from invariscope.criteria.material import AuditOptions, Material
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError


def _from_material(material: Material, options: AuditOptions) -> ComparatorResult:
    return kmaxic(material.compared, task=material.task, n_boot=options.n_boot, seed=options.seed)


@criterion(
    title="Kernel maximum invariance criterion (KMaxIC)",
    needs={"compared", "target"},
    better="lower",
    tells="How far the joint law of representation and target moves when an environment is exchanged for another.",
    cannot_tell="Whether the relation of target and representation differs, or only what rows there are; and it is "
    "above 0 for few rows even where nothing differs.",
    call=_from_material,
    on_request=True,
    mentioned=False,
)
def kmaxic(
    Z: Any,
    y: Any = None,
    env: Any = None,
    *,
    reference: Any = None,
    on: str = "auto",
    bandwidth: Any = "median",
    scale: str = "spread",
    task: str = "auto",
    weight: Any = None,
    n_boot: int = 999,
    seed: int = 0,
) -> ComparatorResult:
    """How far does the law of rows move, at most, when one environment is exchanged for another?

        KMaxIC = max over g of ‖μ(P) − μ(gP)‖²,     μ(P) = E k(x, ·),     k(x, x') = exp(−‖x − x'‖² / (2σ²))

    Soleymani et al. take the supremum over a group of transforms g. Appendix B.4 of the DRIC paper lets the
    environments be the group: P is (z, y) in the ``reference`` environment, gP is (z, y) in another. The plug-in
    estimate is used, whose size that paper's numbers have (0.005 for invariant methods, with 400 rows each): the biased
    MMD², which is at least 0 and about (1 − E k)(1/n_a + 1/n_b) where laws are the same.

    Parameters
    ----------
    Z : (n, d) representation, or predictions (n,) or (n, K), or an :class:`~invariscope.Environments`
    y : (n,) target
    env : (n,) environment labels
    reference : the environment that the others are held against (the paper draws one at random); without one, every
        environment is, and the largest distance of any two counts
    on : "z" for z alone, "zy" for z and y together, "auto" takes the target in where there is one
    bandwidth, scale, task : as in :func:`~invariscope.mmd`
    weight : rows each row stands for
    n_boot : deals for the p-value, or 0 for none

    Returns
    -------
    ComparatorResult
        ``pairs`` holds the squared distance of any two environments, ``per_environment`` that of each and the rest.

    What it cannot tell: why laws differ, as :func:`~invariscope.mmd`, which allows for the noise of few rows. Values of
    different numbers of rows, or of representations of different widths, are not comparable; p-values are.

    Above 10,000 rows in two environments (rows² × environments above 2 · 10⁸), sums of kernels are taken by random
    features, as ``estimator`` says.

    References: Soleymani, Tahmasebi, Jegelka and Jaillet (2025), A robust kernel statistical test of invariance;
    "Measuring invariance in representation learning" (DRIC), appendix B.4.

    >>> z, env = [0.0, 0.0, 2.0, 2.0], list("aabb")  # 2 − 2 exp(−2² / 2)
    >>> round(kmaxic(z, env=env, bandwidth=1.0, scale="none", n_boot=0).value, 4)
    1.7293
    """
    test = kernel_test(
        *(Z, y, env, weight), on=on, task=task, scale=scale, bandwidth=bandwidth, n_boot=n_boot, seed=seed
    )
    data = test.sample.data
    if reference is not None and reference not in data.labels:
        raise InputError(f"reference: no {data.name(reference)}; there are {', '.join(map(str, data.labels))}")
    sums, spreads, estimator = test.sums(test.deals)
    pairs = test.best(pairwise_mmd2(sums, unbiased=False), spreads)
    held = pairs if reference is None else pairs[:, [data.labels.index(reference)]]
    return test.result(
        held.max(axis=(1, 2)),
        estimator,
        pairs=pairs[0],
        per_environment=test.best(mmd2_from_the_rest(sums, unbiased=False), spreads)[0],
    )
