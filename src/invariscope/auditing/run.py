"""All criteria in one place: which of them an audit computes, and what comes of it. Importing one registers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from invariscope.criteria.comparators.conditional_mutual_information import (  # noqa: F401
    conditional_mutual_information,
)
from invariscope.criteria.comparators.cramer_wold import cramer_wold  # noqa: F401
from invariscope.criteria.comparators.domain_classifier import domain_classifier  # noqa: F401
from invariscope.criteria.comparators.hsic import hsic  # noqa: F401
from invariscope.criteria.comparators.kmaxic import kmaxic  # noqa: F401
from invariscope.criteria.comparators.mmd import mmd  # noqa: F401
from invariscope.criteria.comparators.subgroup_invariance import subgroup_invariance  # noqa: F401
from invariscope.criteria.dric.dric import dric  # noqa: F401
from invariscope.criteria.influence.influence_index import influence_index  # noqa: F401
from invariscope.criteria.material import AuditOptions, Material, Missing
from invariscope.criteria.predictions.calibration_variance import calibration_variance  # noqa: F401
from invariscope.criteria.predictions.irm_penalty import irm_penalty  # noqa: F401
from invariscope.criteria.predictions.multi_environment_calibration import multi_environment_calibration  # noqa: F401
from invariscope.criteria.predictions.risk_variance import risk_variance  # noqa: F401
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk  # noqa: F401
from invariscope.criteria.registry import CRITERIA, Criterion
from invariscope.criteria.regret.regret import regret  # noqa: F401
from invariscope.criteria.transport.transport_gap import transport_gap  # noqa: F401
from invariscope.criteria.worst_case.worst_case import worst_case  # noqa: F401
from invariscope.criteria.worst_case.worst_case_in_inputs import worst_case_in_inputs  # noqa: F401
from invariscope.errors import InputError
from invariscope.progress import Say
from invariscope.results import Result
from invariscope.rows.settings import several
from invariscope.rows.spelling import spelt

EVERY = "all"


def chosen_criteria(names: str | Sequence[str] | None) -> list[Criterion]:
    """Criteria by name, "all", or those that nobody need ask for; the regret, on which the verdict rests, always."""
    if names is None:
        return [criterion for criterion in CRITERIA.values() if not criterion.on_request]
    names = several(names, "criteria", '"dric"')
    unknown = [name for name in names if name not in (*CRITERIA, EVERY)]
    if "cric" in unknown:
        raise InputError('criterion "cric" is the older name of "dric": ask for that')
    if unknown:
        raise InputError(f'criterion "{unknown[0]}" is unknown: there are {", ".join(CRITERIA)}, and "{EVERY}"')
    return [CRITERIA[name] for name in (CRITERIA if EVERY in names else dict.fromkeys(("regret", *names)))]


def not_asked_for(names: str | Sequence[str] | None) -> list[Criterion]:
    """Criteria that an audit would have if it was asked for them, and should mention."""
    unasked = [criterion for criterion in CRITERIA.values() if criterion.on_request]
    return [criterion for criterion in unasked if criterion.mentioned] if names is None else []


def run(
    criteria: Sequence[Criterion],
    material: Material,
    options: AuditOptions,
    say: Say,
    unasked: Sequence[Criterion] = (),
) -> tuple[dict[str, Any], dict[str, Missing]]:
    """Results of the criteria that can be had, and the reasons for those that cannot, both by name."""
    results: dict[str, Any] = {}
    left_out: dict[str, Missing] = {}
    for criterion in (*criteria, *unasked):
        reasons = [reason for need in sorted(criterion.needs) if (reason := material.lacks(need)) is not None]
        if reasons:
            left_out[criterion.name] = reasons[0]
            continue
        if criterion in unasked:
            left_out[criterion.name] = Missing(
                f"it takes long: ask for it with {spelt('criteria', EVERY)}, or by name with "
                f"{spelt('criteria', criterion.name)}"
            )
            continue
        say(f"computing {criterion.title} for {len(material.representation)} environments")
        try:
            result = criterion.call(material, _options_of(criterion, options))
        except InputError as error:
            if criterion.name == "regret":  # whether it can be had was asked before: the input itself is bad
                raise
            left_out[criterion.name] = Missing(str(error), error.environments)
        except RuntimeError as error:  # torch's own words about a module of the user's
            if "network" not in criterion.needs:
                raise
            why = f"the network cannot be followed by gradients ({str(error).splitlines()[0]})"
            left_out[criterion.name] = Missing(why)
        else:
            if not isinstance(result, Result):  # a criterion of the user's own
                raise TypeError(f'criterion "{criterion.name}" gave a {type(result).__name__}: it must give a Result')
            results[criterion.name] = result
    return results, left_out


def _options_of(criterion: Criterion, options: AuditOptions) -> AuditOptions:
    """Those of the audit, with no more draws than the criterion says are enough."""
    return options if criterion.draws is None else replace(options, n_boot=min(options.n_boot, criterion.draws))
