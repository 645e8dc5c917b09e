"""What objectives with density ratios share: log densities at the rows, and the linear baseline of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.fit import pooled_head
from invariscope.objectives.objective import Objective, Tensors
from invariscope.ratios.density_ratio import DensityRatio, ratio_for
from invariscope.ratios.estimator import Units
from invariscope.rows.arrays import Array, Floats, Integers
from invariscope.rows.environments import Environments, refuse_empty
from invariscope.rows.resampling import generator
from invariscope.rows.settings import one_of
from invariscope.rows.tables import array_of, matrix_of
from invariscope.rows.targets import Target

DIRECTIONS = 128  # singular directions that wide rows are reduced to, as in table 14 of the DRIC paper
PLACES = ("x", "z")


def log_densities_of(
    rows: Sequence[Array],
    ratio: Any = "logistic",
    seed: int = 0,
    *,
    svd: int | None = DIRECTIONS,
    also: Sequence[Array] = (),
) -> tuple[Floats, ...]:
    """log p_k(x_i) of all environments k at the rows of each, up to a term common to all k: one (n_e, E) for each.

    ``rows`` are (n_e, d) arrays, ``ratio`` an estimator of :func:`~invariscope.density_ratio`; columns beyond ``svd``
    are first reduced to so many singular directions. Arrays in ``also``, in the order of the environments too, are not
    fitted on, and judged after the others.

    >>> rng = np.random.default_rng(0)
    >>> near, far = log_densities_of([rng.normal(0, 1, (2000, 1)), rng.normal(1, 1, (1000, 1))])
    >>> near.shape, bool((near[:, 0] - near[:, 1]).mean() > 0)
    ((2000, 2), True)
    """
    rows = _matrices(rows)
    data = Environments(_pooled(rows), None, _codes(rows))
    # one step of many does not end the training: what the ratio of a step is off by, the next step's is not
    fitted = ratio_for(data, ratio, svd=svd, rng=generator(seed), refuse_failed=False)
    return (*_split(fitted.at_rows, rows), *(_at(fitted, part, k % len(rows)) for k, part in enumerate(also)))


def _at(fitted: DensityRatio, part: Array, environment: int) -> Floats:
    """Log densities at further rows of an environment; of a pairwise ratio those relative to it."""
    rows = _pooled([part])
    return fitted.log_ratios(rows, environment) if fitted.pairwise else fitted.log_densities(rows)


def _matrices(rows: Sequence[Any]) -> list[Array]:
    """The rows of every environment, from whatever table or tensor, with the same columns; images are flattened."""
    matrices = []
    for part in rows:
        array = array_of(part, "rows", table=True)
        flat = array.reshape(len(array), -1) if array.ndim > 2 and array.size else part
        matrices.append(matrix_of(flat)[0])
        refuse_empty(matrices[-1])
    widths = [matrix.shape[1] for matrix in matrices]
    if len({*widths}) > 1:
        raise InputError(f"environments have {', '.join(map(str, widths))} columns: give all the same columns")
    return matrices


def linear_scores(
    rows: Sequence[Array], targets: Sequence[Array], task: str, *, svd: int | None = DIRECTIONS
) -> tuple[Floats, ...]:
    """Scores (n_e, K) of the linear head fitted by ERM on all rows pooled: the papers' baseline.

    ``targets`` are numbers or class codes (n_e,); K = 1 for regression and two classes.
    """
    values = np.concatenate([np.asarray(part, dtype=np.float64) for part in targets])
    data = Environments(_pooled(rows), values, _codes(rows))
    data = Environments(Units.of(data, svd).apply(data.X), values, _codes(rows))
    classes = () if task == "regression" else tuple(range(max(int(values.max()) + 1, 2)))
    return _split(pooled_head(data, Target(task, values, classes))[1], rows)


def checked_log_densities(log_densities: Tensors | None, logits: Tensors) -> list[Tensor]:
    """Log densities without a gradient, or a sentence about what is wrong with them."""
    if log_densities is None:
        raise InputError("no log densities given: pass log_densities=, one (rows, environments) tensor for each")
    count = len(logits)
    if len(log_densities) != count:
        raise InputError(f"{count} environments of logits, but {len(log_densities)} of log densities: give one of each")
    for scores, densities in zip(logits, log_densities, strict=True):
        if densities.shape != (len(scores), count):
            raise InputError(
                f"log densities have shape {tuple(densities.shape)}: give {len(scores)} rows by {count} environments"
            )
    # numpy, as log_densities_of gives it, or torch; where an environment has no density at all, a very small one keeps
    # differences defined
    return [
        torch.as_tensor(densities).detach().to(scores.dtype).clamp(min=-1e30)
        for scores, densities in zip(logits, log_densities, strict=True)
    ]


@dataclass(frozen=True)
class RatioObjective(Objective):
    """An objective whose penalty needs density ratios between environments.

    ``ratio`` is an estimator of :func:`~invariscope.density_ratio`, fitted on the features (``on="z"``, again every
    ``refresh`` steps) or on the inputs (``on="x"``, once). Wider rows are reduced to ``svd`` singular directions.
    """

    ratio: Any = "logistic"
    on: str = "z"
    refresh: int = 100
    svd: int | None = DIRECTIONS

    @property
    def ratio_on(self) -> str | None:
        return one_of(self.on, "on", PLACES)


def _pooled(rows: Sequence[Array]) -> Floats:
    return np.concatenate([np.asarray(part, dtype=np.float64).reshape(len(part), -1) for part in rows])


def _codes(rows: Sequence[Array]) -> Integers:
    return np.repeat(np.arange(len(rows)), [len(part) for part in rows])


def _split(values: Floats, rows: Sequence[Array]) -> tuple[Floats, ...]:
    return tuple(np.split(values, np.cumsum([len(part) for part in rows])[:-1]))
