"""Every door of the package with a small plain call, and for each of its parameters the kind of hostile input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

import invariscope as iv
from tests.hostile import example as plain

COLUMNS = {"X": "matrix", "y": "numbers", "env": "environments"}
DRAWN = {"n_boot": "n_boot", "seed": "seed"}


@dataclass(frozen=True)
class Door:
    """A call with plain arguments; ``kinds`` says for which of them there are hostile ones, and of which kind."""

    call: Callable[..., Any]
    given: Mapping[str, Any]
    kinds: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False  # beyond the quick part, since another door leads through the same checks

    def __call__(self, **changed: Any) -> Any:
        return self.call(**{**self.given, **changed})


ROWS = {"X": plain.X, "y": plain.Y, "env": plain.ENV}
IN_CLASSES = {**ROWS, "y": plain.CLASSES}
REPRESENTED = {"Z": plain.X, "y": plain.Y, "env": plain.ENV}
PREDICTED = {"predictions": plain.PREDICTIONS, "y": plain.Y, "env": plain.ENV}
LIKELY = {"predictions": plain.PROBABILITIES, "y": plain.CLASSES, "env": plain.ENV}
Z_KINDS = {"Z": "matrix", "y": "numbers", "env": "environments", "weight": "weight"}
P_KINDS = {"predictions": "predictions", "y": "numbers", "env": "environments", "weight": "weight", "task": "task"}
ONE = {"criteria": "regret", "n_boot": 0}
A_KINDS = {**COLUMNS, "weight": "weight"}


def _fitted(kind: Any, X: Any, y: Any, env: Any, **options: Any) -> Any:
    """What an estimator learned, as numbers."""
    settings = {"objective": "erm", "steps": 3, **options}
    return np.asarray(
        kind(**settings).fit(X, y, env=env).predict(plain.X).tolist()
        if kind is iv.InvariantRegressor
        else kind(**settings).fit(X, y, env=env).predict_proba(plain.X)
    )


def _regressor(X: Any, y: Any, env: Any, **options: Any) -> Any:
    return _fitted(iv.InvariantRegressor, X, y, env, **options)


def _classifier(X: Any, y: Any, env: Any, **options: Any) -> Any:
    return _fitted(iv.InvariantClassifier, X, y, env, **options)


def _audit_of_a_function(**given: Any) -> Any:
    return iv.audit(plain.function, **given)


def _steps(**given: Any) -> Any:
    return iv.three_steps({"ERM": None}, **given).to_dict()


def _read(X: Any, **options: Any) -> Any:
    return iv.read(X, **options)


def _rows_to_train(X: Any, y: Any, env: Any, **options: Any) -> Any:
    rows = iv.training.Rows.of(X, y, env, **options)
    return {"values": [t.tolist() for t in rows.inputs], "y": [t.tolist() for t in rows.targets]}


def _trained(**given: Any) -> Any:
    rows = iv.training.Rows.of(plain.X, plain.Y, plain.ENV)
    settings = iv.training.Settings(steps=2)
    trained = iv.training.train(plain.network(), **{"rows": rows, "settings": settings, **given})
    return {"loss": trained.history["loss"].tolist()}


def _replicates(**given: Any) -> Any:
    rows = iv.training.Rows.of(plain.X, plain.Y, plain.ENV)
    settings = iv.training.Settings(steps=2)
    many = iv.training.train_replicates(plain.network, **{"rows": rows, "settings": settings, **given})
    return {"weights": many.weights}


def _objective(name: str, **options: Any) -> Any:
    return {"weight": iv.objectives.objective_of(name, options=options).weight}


def _grouped(**given: Any) -> Any:
    return iv.Environments(**given)


TENSORS = {"logits": plain.LOGITS, "targets": plain.TARGETS, "features": plain.TENSORS}
#: Penalties for own loops: what they read of a batch, and what they ask for beside it.
PENALTIES: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    **dict.fromkeys(("vrex_penalty", "irm_penalty", "group_dro_risk"), (("logits", "targets"), {})),
    **dict.fromkeys(("coral_penalty", "mmd_penalty", "bottleneck_penalty"), (("features",), {})),
    "regret_penalty": (("logits", "targets", "features"), {}),
    "wasserstein_matching_penalty": (("features",), {}),
    "worst_case_penalty": (("logits", "targets"), {"head": torch.nn.Linear(2, 1).double()}),
    "invrat_penalty": (("logits", "targets"), {"own_logits": plain.LOGITS}),
}
TABLE = pd.DataFrame({"x0": plain.X[:, 0], "x1": plain.X[:, 1], "y": plain.Y, "site": plain.ENV})

DOORS: dict[str, Door] = {
    "audit": Door(
        iv.audit,
        {"model": None, **ROWS, **ONE},
        {
            **A_KINDS,
            **DRAWN,
            "task": "task",
            "criteria": "criteria",
            "margin": "share",
            "alpha": "share",
            "ratio": "ratio",
            "env_name": "name",
            "target_name": "name",
        },
    ),
    "audit, alpha": Door(iv.audit, {"model": None, **ROWS, **ONE}, {"alpha": "alpha"}),
    "audit of classes": Door(iv.audit, {"model": None, **IN_CLASSES, **ONE}, {"y": "classes"}),
    "audit of a linear model": Door(iv.audit, {"model": plain.linear(), **ROWS, **ONE}, {**A_KINDS, "model": "model"}),
    "audit of a classifier": Door(
        iv.audit, {"model": plain.logistic(), **IN_CLASSES, **ONE}, {"X": "matrix"}, slow=True
    ),
    "audit of a function": Door(_audit_of_a_function, {**ROWS, **ONE}, {"X": "rows of a function"}),
    "audit of predictions": Door(
        iv.audit, {"model": plain.PREDICTIONS, **ROWS, **ONE}, {"model": "predictions as a model"}
    ),
    "audit of probabilities": Door(
        iv.audit, {"model": plain.PROBABILITIES, **IN_CLASSES, **ONE}, {"y": "classes"}, slow=True
    ),
    "audit of a network": Door(iv.audit, {"model": plain.network(), **ROWS, **ONE}, {**A_KINDS}, slow=True),
    "audit of an estimator": Door(iv.audit, {"model": plain.regressor(), **ROWS, **ONE}, {"X": "matrix"}, slow=True),
    "three steps": Door(
        _steps,
        {**ROWS, "n_boot": 0},
        {**A_KINDS, **DRAWN, "task": "task", "alpha": "share", "env_name": "name", "target_name": "name"},
    ),
    "three steps of classes": Door(_steps, {**IN_CLASSES, "n_boot": 0}, {"y": "classes"}, slow=True),
    "audit, every criterion": Door(
        iv.audit,
        {"model": plain.linear(), **ROWS, "n_boot": 0, "weight": plain.WEIGHT},
        {**A_KINDS, "baseline": "predictions as a model"},
        slow=True,
    ),
    "audit of classes, every criterion": Door(
        iv.audit,
        {"model": None, **IN_CLASSES, "n_boot": 0},
        {"y": "classes", "env": "environments"},
        slow=True,
    ),
    "regret": Door(iv.regret, {**REPRESENTED, "n_boot": 0}, {**Z_KINDS, **DRAWN, "task": "task", "folds": "folds"}),
    "regret of classes": Door(iv.regret, {**REPRESENTED, "y": plain.CLASSES, "n_boot": 0}, {"y": "classes"}),
    "influence_index": Door(
        iv.influence_index,
        {**REPRESENTED, "n_boot": 0},
        {
            **Z_KINDS,
            **DRAWN,
            "task": "task",
            "damping": "damping",
            "head": "head",
            "hessian": "hessian",
            "shuffles": "shuffles",
        },
    ),
    "transport_gap": Door(
        iv.transport_gap,
        {**REPRESENTED, "n_boot": 0, "ratio": "gaussian"},
        {**Z_KINDS, **DRAWN, "task": "task", "folds": "folds", "ratio": "ratio", "predictions": "predictions"},
    ),
    "mmd": Door(
        iv.mmd,
        {**REPRESENTED, "n_boot": 0},
        {**Z_KINDS, **DRAWN, "task": "task", "bandwidth": "bandwidth", "unbiased": "switch"},
    ),
    "hsic": Door(iv.hsic, {**REPRESENTED, "n_boot": 0}, {"bandwidth": "bandwidth", "unbiased": "switch"}),
    "kmaxic": Door(iv.kmaxic, {**REPRESENTED, "n_boot": 0}, {"reference": "label"}),
    "subgroup_invariance": Door(iv.subgroup_invariance, {**REPRESENTED, "n_boot": 0}, {"parts": "parts"}),
    "worst_case": Door(
        iv.worst_case,
        {"head": plain.HEAD, **REPRESENTED, "n_boot": 0},
        {**Z_KINDS, **DRAWN, "task": "task", "head": "head", "radii": "radii"},
        slow=True,
    ),
    "worst_case_in_inputs": Door(
        iv.worst_case_in_inputs,
        {"model": iv.split(plain.network()), "X": plain.X, "y": plain.Y, "rows": 5, "n_boot": 0},
        {"X": "matrix", "y": "numbers", "rows": "count"},
        slow=True,
    ),
    "dric of own means": Door(
        iv.dric,
        {
            "predictions": plain.PREDICTIONS,
            "X": plain.X,
            "env": plain.ENV,
            "y": plain.Y,
            "baseline": plain.Y,
            "terms": "own_means",
            "n_boot": 0,
            "ratio": "gaussian",
        },
        {"y": "numbers", "task": "task", "self_normalised": "switch"},
        slow=True,
    ),
    "dric": Door(
        iv.dric,
        {
            "predictions": plain.PREDICTIONS,
            "X": plain.X,
            "env": plain.ENV,
            "baseline": plain.Y,
            "n_boot": 0,
            "ratio": "gaussian",
        },
        {
            "predictions": "predictions",
            "baseline": "predictions",
            "X": "matrix",
            "env": "environments",
            "weight": "weight",
            "n_boot": "n_boot_or_auto",
            "seed": "seed",
            "ratio": "ratio",
        },
    ),
    "density_ratio": Door(
        iv.density_ratio,
        {"X": plain.X, "env": plain.ENV, "ratio": "gaussian"},
        {
            "X": "matrix",
            "env": "environments",
            "weight": "weight",
            "ratio": "ratio",
            "folds": "folds_or_none",
            "seed": "seed",
        },
    ),
    "cramer_wold": Door(
        iv.cramer_wold,
        {**REPRESENTED, "n_boot": 0, "projections": 5},
        {**Z_KINDS, **DRAWN, "task": "task", "projections": "count"},
    ),
    "domain_classifier": Door(
        iv.domain_classifier, {**REPRESENTED, "n_boot": 0}, {**Z_KINDS, **DRAWN, "task": "task"}, slow=True
    ),
    "conditional_mutual_information": Door(
        iv.conditional_mutual_information,
        {**PREDICTED, "predictions": plain.X, "n_boot": 0},
        {**P_KINDS, **DRAWN, "predictions": "matrix"},
        slow=True,
    ),
    "conditional_mutual_information of classes": Door(
        iv.conditional_mutual_information,
        {**LIKELY, "predictions": np.round(plain.PROBABILITIES), "n_boot": 0},
        {"y": "classes"},
        slow=True,
    ),
    "risk_variance": Door(iv.risk_variance, PREDICTED, {**P_KINDS, "loss": "loss"}),
    "risk_variance of classes": Door(iv.risk_variance, LIKELY, {"predictions": "probabilities", "y": "classes"}),
    "worst_environment_risk": Door(iv.worst_environment_risk, PREDICTED, {**P_KINDS, "loss": "loss"}, slow=True),
    "calibration_variance": Door(
        iv.calibration_variance,
        LIKELY,
        {"predictions": "probabilities", "y": "classes", "env": "environments", "weight": "weight", "bins": "bins"},
        slow=True,
    ),
    "calibration_variance, words": Door(iv.calibration_variance, LIKELY, {"binning": "setting", "unit": "setting"}),
    "multi_environment_calibration": Door(
        iv.multi_environment_calibration,
        {**LIKELY, "n_boot": 99},
        {"predictions": "probabilities", "y": "classes", "env": "environments", "weight": "weight", "seed": "seed"},
        slow=True,
    ),
    "irm_penalty": Door(iv.irm_penalty, PREDICTED, {**P_KINDS, "form": "form"}),
    "Environments": Door(_grouped, ROWS, {**A_KINDS, "env_name": "name", "target_name": "name"}),
    "Environments of classes": Door(_grouped, IN_CLASSES, {"y": "classes"}),
    "InvariantRegressor.fit": Door(
        _regressor,
        ROWS,
        {
            **COLUMNS,
            "learning_rate": "learning_rate",
            "steps": "steps",
            "objective": "objective",
            "penalty": "penalty",
            "held_out": "held_out",
            "hidden": "hidden",
            "random_state": "random_state",
        },
    ),
    "InvariantRegressor.predict": Door(lambda X: plain.regressor().predict(X), {"X": plain.X}, {"X": "matrix"}),
    "InvariantClassifier.fit": Door(_classifier, IN_CLASSES, {"y": "classes"}, slow=True),
    "InvariantClassifier.predict_proba": Door(
        lambda X: plain.classifier().predict_proba(X), {"X": plain.X}, {"X": "matrix"}, slow=True
    ),
    "training.Rows.of": Door(_rows_to_train, ROWS, {**COLUMNS, "task": "task"}),
    "train": Door(
        _trained,
        {},
        {
            "rows": "thing in place of rows",
            "held_out": "thing in place of held-out rows",
            "settings": "thing in place of settings",
            "seed": "seed",
        },
    ),
    "train_replicates": Door(
        _replicates, {}, {"rows": "thing in place of rows", "settings": "thing in place of settings", "seeds": "seeds"}
    ),
    "Settings": Door(
        iv.training.Settings, {}, {"optimiser": "setting", "schedule": "thing in place of a schedule", "steps": "steps"}
    ),
    "Schedule": Door(iv.training.Schedule, {}, {"rescale": "switch", "restart": "switch"}),
    "options of dann": Door(_objective, {"name": "dann"}, {"hidden": "count of an objective"}),
    "options of g2dm": Door(_objective, {"name": "g2dm"}, {"projection": "number", "slack": "number"}),
    "options of transport_gap": Door(
        _objective,
        {"name": "transport_gap"},
        {"refresh": "count of an objective", "svd": "count of an objective", "debias": "switch", "floor": "number"},
    ),
    "options of worst_case": Door(
        _objective, {"name": "worst_case"}, {"fraction": "number", "iterations": "count of an objective"}
    ),
    "LinearHead": Door(iv.LinearHead, {"weight": np.array([1.0, 0.5]), "bias": 0.25}, {"weight": "coefficients"}),
    "log_densities_of": Door(
        lambda X: iv.torch.log_densities_of([X, plain.X], ratio="gaussian"), {"X": plain.X}, {"X": "matrix"}, slow=True
    ),
    "read": Door(
        iv.read,
        {"path": TABLE, "target": "y", "env": "site"},
        {
            "path": "path",
            "target": "column",
            "env": "column",
            "features": "columns",
            "drop": "columns",
            "categories": "columns",
            "missing": "missing",
            "env_bins": "env_bins",
            "drop_env": "drop_env",
        },
    ),
    "split": Door(
        iv.split,
        {"model": plain.network()},
        {"layer": "layer", "task": "task", "batch_size": "batch_size", "device": "device", "classes": "answers"},
    ),
    "linear_sem": Door(
        iv.datasets.linear_sem,
        {"n": 20},
        {
            "n": "rows per environment",
            "environments": "numbers of environments",
            "dim": "dimension",
            "seed": "seed",
            "setting": "setting",
        },
    ),
    "nonlinear_sem": Door(
        iv.datasets.nonlinear_sem,
        {"n": 20, "n_test": 0},
        {"n": "rows per environment", "environments": "numbers of environments", "seed": "seed", "setting": "setting"},
    ),
    "bayesian_network": Door(
        iv.datasets.bayesian_network,
        {"n": 20},
        {
            "n": "rows per environment",
            "environments": "numbers of environments",
            "dim": "dimension",
            "seed": "seed",
            "weights": "setting",
        },
    ),
    "null_same_law": Door(
        iv.datasets.null_same_law,
        {"n": 20},
        {"n": "rows per environment", "d": "dimension", "seed": "seed", "task": "setting"},
    ),
    "overlap_dial": Door(
        iv.datasets.overlap_dial,
        {"n": 20},
        {"overlap": "fraction", "n": "rows per environment", "d": "dimension", "seed": "seed", "law": "setting"},
    ),
    "two_domain_example": Door(
        iv.datasets.two_domain_example, {"n": 20}, {"n": "rows per environment", "seed": "seed"}
    ),
    "null_shifted": Door(
        iv.datasets.null_shifted,
        {"n": 20},
        {
            "environments": "number of environments",
            "noise": "rates",
            "shift": "fraction of any size",
            "task": "setting",
            "seed": "seed",
        },
    ),
    "two_domain_example, scales": Door(
        iv.datasets.two_domain_example, {"n": 20}, {"sigma": "two scales", "spread": "two scales"}
    ),
    "bayesian_network, component": Door(iv.datasets.bayesian_network, {"n": 20}, {"component": "place"}),
    "linear_sem, total": Door(iv.datasets.linear_sem, {}, {"total": "total"}),
    "linear_sem, law": Door(iv.datasets.linear_sem, {"n": 20}, {"law": "setting"}),
    "nonlinear_sem, law": Door(iv.datasets.nonlinear_sem, {"n": 20, "n_test": 0}, {"law": "setting"}),
    "nonlinear_sem, square": Door(iv.datasets.nonlinear_sem, {"n": 20, "n_test": 0}, {"square": "switch"}),
    "ladder": Door(
        lambda betas: iv.datasets.ladder(iv.datasets.linear_sem(n=20), betas).predictions,
        {"betas": [0.0, 1.0]},
        {"betas": "rates"},
    ),
    "colored_mnist": Door(
        iv.datasets.colored_mnist,
        {"images": "digits", "n": 20},
        {
            "flip": "rates",
            "label_noise": "fraction",
            "variant": "setting",
            "images": "setting",
            "n": "rows of images",
            "n_test": "count or none",
            "downsample": "count of pixels",
            "seed": "seed",
        },
    ),
    "rotated_mnist": Door(
        iv.datasets.rotated_mnist, {"images": "digits", "n": 20}, {"angles": "rates", "seed": "seed"}
    ),
    "adult": Door(iv.datasets.adult, {}, {"rows": "setting", "environments": "setting", "seed": "seed, refused"}),
    "law_school": Door(iv.datasets.law_school, {}, {"environments": "setting", "seed": "seed, refused"}),
    "financial_indicators": Door(iv.datasets.financial_indicators, {}, {"target": "setting"}),
    "bike_sharing": Door(iv.datasets.bike_sharing, {}, {"features": "features"}),
    "heart_disease": Door(iv.datasets.heart_disease, {}, {"drop": "features"}),
    "pacs": Door(iv.datasets.pacs, {}, {"test_domain": "setting", "side": "count of pixels"}),
    "image_folder": Door(
        iv.datasets.image_folder,
        {"root": "."},
        {"root": "path", "side": "count of pixels", "errors": "setting", "limit": "limit"},
    ),
    **{
        f"torch.{name}": Door(getattr(iv.torch, name), {**TENSORS, **given}, dict.fromkeys(read, "list of tensors"))
        for name, (read, given) in PENALTIES.items()
    },
}
