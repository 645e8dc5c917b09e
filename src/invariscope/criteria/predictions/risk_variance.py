"""Variance of the risk over environments: the quantity V-REx penalises."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.environment_means import (
    NO_INTERVAL,
    EnvironmentMeans,
    as_asked,
    quadratic_interval,
)
from invariscope.criteria.predictions.risks import environment_risks
from invariscope.criteria.registry import criterion
from invariscope.results import EnvironmentResult
from invariscope.rows.settings import intervals_wanted
from invariscope.wording import number


def _from_material(material: Material, options: AuditOptions) -> EnvironmentResult:
    predictions = have(material.predictions)
    return risk_variance(predictions.rows, task=material.task, loss=predictions.loss, n_boot=options.n_boot)


@criterion(
    title="Variance of the risk",
    needs={"predictions", "target"},
    better="lower",
    tells="How much the mean loss of the predictions differs between environments.",
    cannot_tell="Whether the relation itself differs: environments with more noise have more loss under any predictor, "
    "and a predictor that is equally bad everywhere has none.",
    call=_from_material,
)
def risk_variance(
    predictions: Any,
    y: Any = None,
    env: Any = None,
    *,
    task: str = "auto",
    loss: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> EnvironmentResult:
    """How unequal is the loss of these predictions across environments?

        R_e = mean loss in environment e,    value = (1/E) Σ_e (R_e − R̄)²,    R̄ = (1/E) Σ_e R_e

    (Krueger et al. 2021, the penalty of V-REx.) The plug-in value is biased upward by sampling noise, on average by
    (1 − 1/E) mean_e SE_e²; the value follows the published definition and ``notes`` say what is left without it.

    Parameters
    ----------
    predictions : (n,) or (n, K) array, or :class:`Environments` that hold them as ``X``
        Numbers for a numeric target; for two classes the probability of the second one, (n,), or of both, (n, 2);
        for K classes (n, K) probabilities in the order of the sorted classes, or of 0..K-1 where some are absent.
    y, env, weight : (n,) arrays
        Target, environment and, if wanted, how many rows each row stands for.
    task : "auto", "regression" or "classification"
    loss : "auto", "squared", "absolute", "log_loss" or "zero_one"
        "auto" is the squared error for numbers and the log-loss for classes.
    n_boot, seed : nothing is drawn, since the intervals are formulas; they are left out with ``n_boot=0``

    Returns
    -------
    EnvironmentResult
        ``per_environment``: the risk R_e with a 95 % interval (Student's t; Wilson's for shares of errors), in
        ``unit``; ``value`` is in that unit squared; ``interval``: 95 % for the true variance, which includes 0 when
        noise alone can explain the value (see ``quadratic_interval``);
        ``worst``: the environment with the highest risk.

    It cannot tell why risks differ: an environment with noisier targets has a higher risk under any predictor.

    >>> import numpy as np
    >>> result = risk_variance(np.zeros(8), [1, -1, 1.2, -1.2, 2, -2, 2.2, -2.2], list("aaaabbbb"))
    >>> round(result.value, 4), result.worst, result.unit
    (2.56, 'b', 'squared target units')
    >>> round(result.per_environment["a"].value, 4)
    1.22
    """
    wanted = intervals_wanted(n_boot, seed)
    risks = environment_risks(predictions, y, env, task, loss, weight)
    result = EnvironmentResult(
        value=float(np.var(risks.means.value)),
        interval=quadratic_interval(risks.means.value, risks.means.spread, centred=True),
        per_environment=risks.per_environment,
        worst=risks.data.labels[risks.worst],
        unit=risks.unit,
        notes=_bias_notes(risks.means) + risks.notes,
    )
    return as_asked(result, wanted)


def _bias_notes(risks: EnvironmentMeans) -> tuple[str, ...]:
    value = float(np.var(risks.value))
    bias = float(np.mean(risks.squared_error) * (1.0 - 1.0 / len(risks.value)))
    if not np.isfinite(risks.spread).all():
        return (NO_INTERVAL,)
    if bias >= value:
        return (f"Sampling noise alone adds about {number(bias)} to this number: that explains all of it.",)
    return (
        f"Sampling noise alone adds about {number(bias)} to this number; without it {number(value - bias)} is left.",
    )
