"""All criteria in one place: which of them an audit computes, and how each is called. Importing one registers it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np

from invariscope.auditing.material import Material
from invariscope.criteria.dric.dric import dric  # noqa: F401
from invariscope.criteria.influence.influence_index import influence_index  # noqa: F401
from invariscope.criteria.predictions.calibration_variance import calibration_variance  # noqa: F401
from invariscope.criteria.predictions.irm_penalty import irm_penalty  # noqa: F401
from invariscope.criteria.predictions.risk_variance import risk_variance  # noqa: F401
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk  # noqa: F401
from invariscope.criteria.registry import CRITERIA, Criterion
from invariscope.criteria.regret.regret import regret  # noqa: F401
from invariscope.criteria.transport.transport_gap import transport_gap  # noqa: F401
from invariscope.criteria.worst_case.worst_case import worst_case  # noqa: F401
from invariscope.criteria.worst_case.worst_case_in_inputs import worst_case_in_inputs  # noqa: F401
from invariscope.errors import InputError
from invariscope.results import Result


def chosen_criteria(names: str | Sequence[str] | None) -> list[Criterion]:
    """Criteria by name, or all; the regret, on which the verdict rests, is always among them."""
    if names is None:
        return list(CRITERIA.values())
    names = [names] if isinstance(names, str) else names
    unknown = [name for name in names if name not in CRITERIA]
    if "cric" in unknown:
        raise InputError('criterion "cric" is the older name of "dric": ask for that')
    if unknown:
        raise InputError(f'criterion "{unknown[0]}" is unknown: there are {", ".join(CRITERIA)}')
    return [CRITERIA[name] for name in dict.fromkeys(("regret", *names))]


def run(criterion: Criterion, material: Material, ratio: Any, n_boot: int, seed: int) -> Result:
    """Call a criterion with what its signature asks for: the first argument by its needs, options by their names."""
    loss: Any = material.task if "representation" in criterion.needs else material.loss
    if "head" in criterion.needs:
        loss = ["squared"] if material.task == "regression" else ["zero_one", "log_loss", "hinge"]
    offered = {
        "task": material.task,
        "loss": loss,
        "ratio": ratio,
        "n_boot": n_boot,
        "seed": seed,
        "head": material.head,
        "baseline": material.has.get("baseline"),
        "classes": material.has["target"].classes or None,
        "penalty": material.trained_with.penalty,
        "penalty_weight": material.trained_with.weight,
    }
    parameters = inspect.signature(criterion.function).parameters
    options = {name: value for name, value in offered.items() if name in parameters}
    if criterion.name == "dric":
        del options["n_boot"]  # it has a budget of its own
    result: Result
    if "inputs" in criterion.needs:
        result = criterion.function(material.has["predictions"], material.has["inputs"], **options)
    elif "network" in criterion.needs:
        options |= {"loss": "squared" if material.task == "regression" else "log_loss", "classes": None}
        result = criterion.function(material.has["network"], material.has["raw inputs"], _labels(material), **options)
    elif "head" in criterion.needs:
        result = criterion.function(**options | {"head": material.has["head"], "Z": material.full})
    elif "head" in options:
        result = criterion.function(material.full, **options)
    elif "representation" in criterion.needs:
        result = criterion.function(material.has["representation"], **options)
    else:
        result = criterion.function(material.judged, **options)
    return result


def _labels(material: Material) -> Any:
    """The target in the user's row order and in the user's own labels."""
    target = material.has["target"]
    values = material.data.original(target.values)
    return values if target.task == "regression" else np.array(target.classes)[values.astype(np.intp)]
