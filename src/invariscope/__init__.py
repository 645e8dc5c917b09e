"""Is a model's representation invariant across environments, and how badly could it fail in one nobody has seen?

>>> import numpy as np, invariscope as iv
>>> rng = np.random.default_rng(0)
>>> X, site = rng.normal(size=(600, 3)), np.repeat(["Bern", "Oslo"], 300)
>>> y = X[:, 0] + rng.normal(size=600)
>>> iv.regret(X, y, site).pvalue > 0.05
True
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from invariscope import datasets
from invariscope.auditing.audit import audit
from invariscope.auditing.record import Audit
from invariscope.criteria.comparators.conditional_mutual_information import conditional_mutual_information
from invariscope.criteria.comparators.cramer_wold import cramer_wold
from invariscope.criteria.comparators.domain_classifier import domain_classifier
from invariscope.criteria.comparators.environment_classifier import EnvironmentClassifier
from invariscope.criteria.comparators.hsic import hsic
from invariscope.criteria.comparators.kmaxic import kmaxic
from invariscope.criteria.comparators.mmd import mmd
from invariscope.criteria.comparators.subgroup_invariance import subgroup_invariance
from invariscope.criteria.dric.dric import dric
from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.predictions.calibration_variance import calibration_variance
from invariscope.criteria.predictions.irm_penalty import irm_penalty
from invariscope.criteria.predictions.risk_variance import risk_variance
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk
from invariscope.criteria.regret.regret import regret
from invariscope.criteria.transport.transport_gap import transport_gap
from invariscope.criteria.worst_case.worst_case import worst_case
from invariscope.criteria.worst_case.worst_case_in_inputs import worst_case_in_inputs
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.models import Split, split
from invariscope.ratios.density_ratio import DensityRatio, density_ratio
from invariscope.reading.read import read
from invariscope.results import VERSION as _VERSION
from invariscope.results import Estimate
from invariscope.rows.environments import Environments

if TYPE_CHECKING:
    from invariscope.estimators import InvariantClassifier, InvariantRegressor, LeaveOneEnvironmentOut

__version__ = _VERSION

__all__ = [
    "Audit",
    "DensityRatio",
    "EnvironmentClassifier",
    "Environments",
    "Estimate",
    "InputError",
    "InvariantClassifier",
    "InvariantRegressor",
    "LeaveOneEnvironmentOut",
    "LinearHead",
    "Split",
    "__version__",
    "audit",
    "calibration_variance",
    "conditional_mutual_information",
    "cramer_wold",
    "datasets",
    "density_ratio",
    "domain_classifier",
    "dric",
    "hsic",
    "influence_index",
    "irm_penalty",
    "kmaxic",
    "mmd",
    "read",
    "regret",
    "risk_variance",
    "split",
    "subgroup_invariance",
    "transport_gap",
    "worst_case",
    "worst_case_in_inputs",
    "worst_environment_risk",
]

#: Loaded on first use: they bring scikit-learn along.
_MODULE_OF = {
    "InvariantClassifier": "estimators.classifier",
    "InvariantRegressor": "estimators.regressor",
    "LeaveOneEnvironmentOut": "estimators.leave_one_environment_out",
}
_ROOMS = ("estimators", "objectives", "torch", "training")  # so that `iv.objectives.VREx` needs no second import


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return _import_module(f"{__name__}.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
