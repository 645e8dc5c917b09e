"""Estimators of density ratios by name, imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

from invariscope.errors import InputError
from invariscope.ratios.estimator import Estimator

#: name → module and function
ESTIMATORS = {
    "logistic": ("invariscope.ratios.logistic", "fit_logistic"),
    "gaussian": ("invariscope.ratios.gaussian", "fit_gaussian"),
    "mlp": ("invariscope.ratios.classifiers", "fit_mlp"),
    "forest": ("invariscope.ratios.classifiers", "fit_forest"),
    "boosting": ("invariscope.ratios.classifiers", "fit_boosting"),
    "ulsif": ("invariscope.ratios.least_squares", "fit_ulsif"),
    "rulsif": ("invariscope.ratios.least_squares", "fit_rulsif"),
    "kliep": ("invariscope.ratios.kliep", "fit_kliep"),
    "kmm": ("invariscope.ratios.kmm", "fit_kmm"),
}


def estimator_of(estimator: Any) -> Estimator:
    """The estimator of a name, or one made of a scikit-learn classifier."""
    if isinstance(estimator, str):
        if estimator not in ESTIMATORS:
            raise InputError(
                f'density ratio estimator "{estimator}" is unknown: there are {", ".join(ESTIMATORS)}, '
                "or pass a scikit-learn classifier"
            )
        module, function = ESTIMATORS[estimator]
        fit: Estimator = getattr(importlib.import_module(module), function)
        return fit
    from invariscope.ratios.classifiers import classifier_estimator

    return classifier_estimator(estimator)
