"""How much each environment counts in the risk that was minimised, and so in the Hessian of the influence index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from invariscope.errors import InputError
from invariscope.rows.arrays import Floats
from invariscope.rows.environments import Environments
from invariscope.rows.settings import BEYOND, is_real, shown
from invariscope.wording import names, percent, quoted

DOMAINS, ROWS, WORST = "domains", "rows", "worst"
WORDS = (DOMAINS, ROWS, WORST)
AT_REST = 0.1  # of the largest gradient: what the shares of a min-max head may leave of it
SEEN = 5e-5  # a share that is shown


def shares_of(hessian: Any, data: Environments) -> Floats | None:
    """q (m,), adding up to 1, of the risk Σ_e q_e ℓ_e; ``None`` for "worst", whose shares the head tells.

        domains   q_e = 1 / m        ℓ(f, S) of the paper, section 3.1
        rows      q_e = n_e / n      all rows pooled

    >>> data = Environments(np.arange(6.0)[:, None], np.arange(6.0), list("aaaabb"))
    >>> shares_of("rows", data).round(3).tolist(), shares_of({"a": 1, "b": 3}, data).tolist()
    ([0.667, 0.333], [0.25, 0.75])
    """
    if isinstance(hessian, Mapping):
        return _given(hessian, data)
    if not (isinstance(hessian, str) and hessian in WORDS):
        said = f'"{hessian}"' if isinstance(hessian, str) else shown(hessian)
        raise InputError(
            f'hessian {said} is unknown: use "domains", "rows" or "worst", or give the share of every environment, '
            'such as {"a": 0.3, "b": 0.7}'
        )
    if hessian == WORST:
        return None
    if hessian == ROWS:
        return np.asarray(data.rows / data.rows.sum())
    return np.full(len(data), 1.0 / len(data))


def _given(shares: Mapping[Any, Any], data: Environments) -> Floats:
    missing = [label for label in data.labels if label not in shares]
    if missing or len(shares) != len(data):
        other = [label for label in shares if label not in data.labels]
        what = f"no share of {quoted(missing[0])}" if missing else f"a share of {quoted(other[0])}"
        raise InputError(
            f"hessian has {what}: give one for each environment ({', '.join(names(data.labels))}) and for no other"
        )
    for label in data.labels:
        if not is_real(shares[label]) or not 0 <= shares[label] < BEYOND:
            raise InputError(
                f"hessian has {shown(shares[label])} for {quoted(label)}: give numbers of at least 0, not all of them 0"
            )
    values = np.array([float(shares[label]) for label in data.labels])
    if not values.any():
        raise InputError("hessian has a share of 0 for every environment: give one of them more")
    return np.asarray(values / values.max() / (values / values.max()).sum())


def of_worst(gradients: Floats) -> tuple[Floats, float]:
    """Shares of a head that minimises the largest risk: a mixture of the environments' gradients is 0 there.

    q = argmin ‖Σ_e q_e g_e‖² over shares (m,), by non-negative least squares, and what is left, of the largest ‖g_e‖.
    Environments below the largest risk have no share, since nothing pulls back at the others' mixture for them.

    >>> of_worst(np.array([[3.0, 0.0], [-1.0, 0.0], [5.0, 5.0]]))[0].round(6).tolist()
    [0.25, 0.75, 0.0]
    """
    from scipy.optimize import nnls

    size = float(np.sqrt(np.max(np.sum(gradients**2, axis=1))))
    if size == 0:
        return np.full(len(gradients), 1.0 / len(gradients)), 0.0
    # min ‖Gᵀx‖² + (Σx − 1)²: its direction is that of the best shares
    sides = np.vstack([gradients.T / size, np.ones(len(gradients))])
    solved = nnls(sides, np.append(np.zeros(gradients.shape[1]), 1.0))[0]
    shares = np.asarray(solved / solved.sum())
    return shares, float(np.linalg.norm(shares @ gradients)) / size


def by_row(data: Environments, weight: Floats, shares: Floats) -> Floats:
    """What every row's loss is multiplied with in Σ_e q_e ℓ_e: (n,), adding up to 1."""
    return np.asarray(weight * (shares / data.rows)[data.codes])


def rows_that_count(data: Environments, shares: Floats) -> float:
    """As many rows, all counting the same, would have a mean as noisy: 1 / Σ_e q_e² / n_e."""
    return float(1.0 / np.sum(shares**2 / data.rows))


def words_of(shares: Floats, data: Environments) -> str:
    """The shares by environment, but for those that have none."""
    each = zip(data.labels, shares.tolist(), strict=True)
    return ", ".join(f"{quoted(label)} {percent(share)}" for label, share in each if share >= SEEN)


def settled(shares: Floats | None, data: Environments, gradients: Callable[[], Floats]) -> tuple[Floats, list[str]]:
    """The shares as given; or as the head tells them by its gradients (m, P), and what is to be said of that."""
    if shares is not None:
        return shares, []
    shares, left = of_worst(gradients())
    told = (
        f"The Hessian counts environments as a head at the minimum of the largest risk does: {words_of(shares, data)}."
    )
    if left > AT_REST:
        told += (
            f" No mixture of their gradients is near 0 (at best {percent(left)} of the largest): this head is not at "
            "such a minimum. Train further, or give the shares that training ended with."
        )
    return shares, [told]
