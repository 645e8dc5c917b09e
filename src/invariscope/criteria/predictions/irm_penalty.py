"""The penalty of invariant risk minimisation (IRMv1): would rescaling the predictions help some environment?"""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.environment_means import (
    NO_INTERVAL,
    EnvironmentMeans,
    as_asked,
    environment_means,
    estimates,
    few_rows_notes,
    quadratic_interval,
)
from invariscope.criteria.predictions.risks import (
    CLIP,
    grouped_predictions,
    log_loss_notes,
    predictions_for,
    refuse_overflow,
)
from invariscope.criteria.registry import criterion
from invariscope.errors import InputError
from invariscope.results import EnvironmentResult
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import intervals_wanted
from invariscope.rows.targets import Target, target_of_columns
from invariscope.wording import number

FORMS = ("square", "split")


def _from_material(material: Material, options: AuditOptions) -> EnvironmentResult:
    return irm_penalty(have(material.predictions).rows, task=material.task, n_boot=options.n_boot)


@criterion(
    title="IRMv1 penalty",
    needs={"scores", "target"},
    better="lower",
    tells="Whether some environment would gain by scaling all predictions (or logits) up or down.",
    cannot_tell="Any difference that a common factor cannot mend; and it depends on the scale of the predictions, "
    "so that predictions shrunk to nothing have no penalty at all.",
    call=_from_material,
)
def irm_penalty(
    predictions: Any,
    y: Any = None,
    env: Any = None,
    *,
    form: str = "square",
    task: str = "auto",
    n_boot: int = 999,
    seed: int = 0,
    weight: Any = None,
) -> EnvironmentResult:
    """Would multiplying the predictions by a factor lower the risk of some environment?

    The gradient of R_e(s · f) in the factor s, at s = 1, is the mean over rows of

        g_i = 2 (f_i − y_i) f_i                   squared error of predictions f
        g_i = Σ_k (p_ik − 1[y_i = k]) log p_ik    log-loss of probabilities p (log p serves as the logits: adding a
                                                  constant to all logits of a row changes nothing)

    and the penalty of environment e (Arjovsky et al. 2019, IRMv1) is the squared gradient:

        "square"    (mean_i g_i)²                           as published; biased upward by Var(g)/n
        "split"     ((Σ g_i)² − Σ g_i²) / (n (n − 1))       the product of the gradients of two halves of the rows,
                                                            averaged over all ways to halve them; unbiased, so it may
                                                            be negative when the true penalty is near 0

    ``value`` is the mean over environments (the paper sums them: multiply by E).

    Parameters
    ----------
    predictions, y, env, task, n_boot, seed, weight : as of :func:`~invariscope.risk_variance`
    form : "square" or "split"

    Returns
    -------
    EnvironmentResult
        ``per_environment``: the penalty, with the 95 % interval of the true squared gradient (the squares of the ends
        of Student's interval of the mean gradient, from 0 when that contains 0); ``interval``: 95 % for their mean.
        Both are stretched, where needed, to contain the value they belong to.

    It cannot tell whether heads differ in direction: one factor is all it can move.

    >>> import numpy as np
    >>> result = irm_penalty([1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 2.0, 3.0], ["a", "a", "b", "b"], task="regression")
    >>> result.per_environment["a"].value, result.per_environment["b"].value, result.value
    (1.0, 4.0, 2.5)
    """
    if form not in FORMS:
        raise InputError(f'form "{form}" is unknown: use "square" or "split"')
    wanted = intervals_wanted(n_boot, seed)
    data = grouped_predictions(predictions, y, env, weight)
    target = target_of_columns(data, task, columns=data.X.shape[1])
    values = predictions_for(data, target)
    gradients = environment_means(data, refuse_overflow(scale_gradients(values, target), "gradient"))
    penalties = gradients.value**2
    if form == "split":
        # (Σg)² − Σg² over n (n − 1), written so that nothing cancels when the mean dwarfs the spread
        penalties = penalties - gradients.squared_error
    low, high = _squared_ends(gradients)
    total = quadratic_interval(gradients.value, gradients.spread, centred=False)
    value = float(np.mean(penalties))
    classes = target.task != "regression"
    result = EnvironmentResult(
        value=value,
        interval=(min(total[0], value), total[1]),
        per_environment=estimates(data.labels, penalties, np.minimum(low, penalties), high),
        worst=data.labels[int(np.argmax(penalties))],
        unit="squared nats" if classes else "(squared target units)²",
        notes=data.notes
        + _noise_notes(gradients, form)
        + (log_loss_notes(values, target, predictions) if classes else ())
        + few_rows_notes(data),
    )
    return as_asked(result, wanted)


def scale_gradients(predictions: Floats, target: Target) -> Floats:
    """Derivative of every row's loss in a factor on its prediction (or logits), at 1: (n,)."""
    y = target.values
    if target.task == "regression":
        with np.errstate(over="ignore", invalid="ignore"):
            return 2.0 * (predictions - y) * predictions
    logarithms = np.log(np.maximum(predictions, CLIP))
    if target.task == "binary":
        return np.asarray((predictions - y) * (logarithms - np.log(np.maximum(1.0 - predictions, CLIP))))
    of_truth = np.take_along_axis(logarithms, y.astype(np.intp)[:, None], axis=1)[:, 0]
    return np.asarray(np.einsum("ik,ik->i", predictions, logarithms) - of_truth)


def _squared_ends(gradients: EnvironmentMeans) -> tuple[Floats, Floats]:
    """Interval of the squared mean from the interval of the mean."""
    low, high = gradients.ends()
    largest = np.maximum(low**2, high**2)
    smallest = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
    return np.where(np.isfinite(largest), smallest, np.nan), largest


def _noise_notes(gradients: EnvironmentMeans, form: str) -> tuple[str, ...]:
    bias = float(np.mean(gradients.squared_error))
    if not np.isfinite(gradients.spread).all():
        return (NO_INTERVAL,)
    if form == "square":
        left = float(np.mean(gradients.value**2)) - bias
        return (
            f"Sampling noise alone adds about {number(bias)} to this number; the split form of iv.irm_penalty, without "
            f"it, is {number(left)}.",
        )
    if np.any(gradients.value**2 < gradients.squared_error):
        return ("A negative penalty is what an unbiased estimate gives when the true penalty is near 0.",)
    return ()
