"""The risk in the environment where the predictions do worst."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariscope.criteria.material import AuditOptions, Material, have
from invariscope.criteria.predictions.environment_means import NO_INTERVAL, TAIL, EnvironmentMeans, as_asked
from invariscope.criteria.predictions.risks import environment_risks
from invariscope.criteria.registry import criterion
from invariscope.results import EnvironmentResult
from invariscope.rows.environments import Environments
from invariscope.rows.settings import intervals_wanted
from invariscope.wording import listed, quoted


def _from_material(material: Material, options: AuditOptions) -> EnvironmentResult:
    predictions = have(material.predictions)
    return worst_environment_risk(predictions.rows, task=material.task, loss=predictions.loss, n_boot=options.n_boot)


@criterion(
    title="Risk in the worst environment",
    needs={"predictions", "target"},
    better="lower",
    tells="How large the mean loss is where the predictions do worst among the environments at hand.",
    cannot_tell="How large it would be in an environment not seen, nor whether the worst one is merely noisier.",
    call=_from_material,
)
def worst_environment_risk(
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
    """How bad does it get in the environment where these predictions do worst?

        R_e = mean loss in environment e,    value = max_e R_e

    Parameters
    ----------
    predictions, y, env, task, loss, n_boot, seed, weight : as of :func:`~invariscope.risk_variance`

    Returns
    -------
    EnvironmentResult
        ``per_environment``: the risk R_e with a 95 % interval (Student's t; Wilson's for shares of errors);
        ``interval``: 95 % for the true maximum, allowing for the choice of the largest of E noisy numbers:

            low = max_e lower_e at level 1 − 0.025/E,    high = max_e upper_e at level 0.975

        The low end is too high only if some lower_e is (at most E · 0.025/E); the high end is too low only if that
        of the truly worst environment is (at most 0.025). With many environments it is therefore wide to the right.

    The largest of several noisy means tends to be too large itself; the interval allows for it, the value does not.
    It cannot tell how bad an unseen environment would be.

    >>> import numpy as np
    >>> result = worst_environment_risk([0.9, 0.2, 0.8, 0.6], [1, 0, 1, 0], ["a", "a", "b", "b"])
    >>> round(result.value, 4), result.worst, result.unit
    (0.5697, 'b', 'log-loss (nats)')
    """
    wanted = intervals_wanted(n_boot, seed)
    risks = environment_risks(predictions, y, env, task, loss, weight)
    means, worst = risks.means, risks.worst
    lower_ends, _ = means.ends(TAIL / len(risks.data))
    _, high = means.ends()
    result = EnvironmentResult(
        value=float(means.value[worst]),
        # every loss is 0 or more; one environment without an interval leaves the maximum without one (NaN spreads)
        interval=(float(np.maximum(lower_ends.max(), 0.0)), float(high.max())),
        per_environment=risks.per_environment,
        worst=risks.data.labels[worst],
        unit=risks.unit,
        notes=_rival_notes(risks.data, means, worst) + risks.notes,
    )
    return as_asked(result, wanted)


def _rival_notes(data: Environments, risks: EnvironmentMeans, worst: int) -> tuple[str, ...]:
    """Which other environments could be the worst one: those whose risk is within noise of it."""
    if not np.isfinite(risks.spread).all():
        return (NO_INTERVAL,)
    noise = np.sqrt(risks.spread**2 + risks.spread[worst] ** 2)
    close = risks.value + 2.0 * noise >= risks.value[worst]
    rivals = [quoted(label) for k, label in enumerate(data.labels) if close[k] and k != worst]
    if not rivals:
        return ()
    shown = listed([*rivals[:5], *([f"{len(rivals) - 5} more"] if len(rivals) > 5 else [])])
    return (f"Which environment is worst is not certain: {shown} cannot be told from {quoted(data.labels[worst])}.",)
