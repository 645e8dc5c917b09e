"""The estimators of density ratios by name: one fit for all environments, or one for every pair of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from invariscope.errors import InputError
from invariscope.ratios.estimator import Estimator, Fit

#: name → module and function of one fit for all environments
ESTIMATORS = {
    "logistic": ("invariscope.ratios.logistic", "fit_logistic"),
    "gaussian": ("invariscope.ratios.gaussian", "fit_gaussian"),
    "mlp": ("invariscope.ratios.classifiers", "fit_mlp"),
    "forest": ("invariscope.ratios.classifiers", "fit_forest"),
    "boosting": ("invariscope.ratios.classifiers", "fit_boosting"),
    "ulsif": ("invariscope.ratios.least_squares", "fit_ulsif"),
    "rulsif": ("invariscope.ratios.least_squares", "fit_rulsif"),
    "kliep": ("invariscope.ratios.kliep", "fit_kliep"),
    "kmm": ("invariscope.ratios.least_squares", "fit_kmm"),
}
#: name → module and function of one fit for every pair
PAIRS = {
    "logistic": ("invariscope.ratios.plain_logistic", "logistic_pairs"),
    "gaussian": ("invariscope.ratios.pairs", "gaussian_pairs"),
    "mlp": ("invariscope.ratios.pairs", "network_pairs"),
    "forest": ("invariscope.ratios.pairs", "forest_pairs"),
    "boosting": ("invariscope.ratios.pairs", "boosting_pairs"),
}
KERNELS = ("ulsif", "rulsif", "kliep", "kmm")  # the functions of which fit pairs on request


def estimator_of(estimator: Any) -> Estimator:
    """The estimator of a name, or one made of a scikit-learn classifier."""
    if isinstance(estimator, str):
        return _named(estimator, ESTIMATORS)
    from invariscope.ratios.classifiers import classifier_estimator

    return classifier_estimator(estimator)


def pairs_of(estimator: Any) -> Estimator:
    """The same for one fit of every pair."""
    if isinstance(estimator, str):
        if estimator in KERNELS:
            return partial(_named(estimator, ESTIMATORS), pairwise=True)
        return _named(estimator, PAIRS)
    from invariscope.ratios.classifiers import refuse_no_classifier
    from invariscope.ratios.pairs import classifier_pairs

    refuse_no_classifier(estimator, "density ratios need")
    return lambda rows, rng: classifier_pairs(rows, estimator)


def in_units(estimator: Any) -> bool:
    """Whether pairs are fitted in columns in units of their spread; classifiers see the columns as they are."""
    return isinstance(estimator, str) and estimator in (*KERNELS, "gaussian")


def _named(name: str, table: dict[str, tuple[str, str]]) -> Callable[..., Fit]:
    if name not in ESTIMATORS:
        raise InputError(
            f'density ratio estimator "{name}" is unknown: there are {", ".join(ESTIMATORS)}, '
            "or pass a scikit-learn classifier"
        )
    module, function = table[name]
    fit: Callable[..., Fit] = getattr(importlib.import_module(module), function)
    return fit
