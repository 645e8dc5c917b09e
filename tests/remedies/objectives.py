"""Refusals of objectives: penalties on one tensor per environment, and their hyper-parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import invariscope.torch as penalties
from invariscope.models.torch_heads import feature_head
from invariscope.objectives import REGISTRY, Batch, objective_of
from tests.remedies.case import Case

ROOM = "objectives"
ROWS = 6
FEATURES = [torch.linspace(-1, 1, 2 * ROWS).reshape(ROWS, 2) ** power for power in (1, 2, 3)]
LOGITS = [rows.sum(dim=1, keepdim=True) + 0.5 for rows in FEATURES]
NUMBERS = [rows[:, 0] + 0.1 * place for place, rows in enumerate(FEATURES)]
CLASSES = [torch.arange(ROWS) % 2] * 3
THREE = [torch.arange(ROWS) % 3] * 3
HEAD = torch.nn.Linear(2, 1)
DENSITIES = [torch.zeros(ROWS, 3)] * 3
BATCH = Batch(tuple(LOGITS), tuple(NUMBERS), tuple(FEATURES), "regression")


def first(tensors: list[Tensor], rows: int) -> list[Tensor]:
    return [values[:rows] for values in tensors]


def shares(count: int) -> Tensor:
    return torch.full((count,), 1 / count)


def told_apart(columns: int) -> Any:
    """A discriminator of the environments with so many columns of scores."""
    return lambda rows: rows.sum(dim=1, keepdim=True).expand(-1, columns)


def dric_fitted(noise: float) -> Any:
    """DRIC on environments that are far apart, of a baseline that sees something, or nothing."""
    inputs = [np.arange(40.0)[:, None] / 10 + place for place in range(2)]
    targets = [noise * values[:, 0] for values in inputs]
    return REGISTRY["dric"]().fitted(inputs, targets, "regression", 0)


def dann(environments: int | None, batch: Batch = BATCH) -> Any:
    objective, generator = REGISTRY["dann"](), torch.Generator().manual_seed(0)
    adversary = None if environments is None else objective.adversary(2, environments, 1, generator)
    return objective(batch, adversary=adversary)


def irm(form: str, rows: int = ROWS) -> Tensor:
    return penalties.irm_penalty(first(LOGITS, rows), first(CLASSES, rows), form=form)


def worst(**options: Any) -> Tensor:
    given = {"logits": LOGITS, "targets": NUMBERS, "features": FEATURES, "head": HEAD, **options}
    return penalties.worst_case_penalty(**given)


def of_classes(targets: list[Tensor]) -> Tensor:
    return worst(logits=None, targets=targets, task="multiclass", head=torch.nn.Linear(2, 3))


CASES = [
    Case(
        "environments have 2, 3 columns",
        lambda: penalties.log_densities_of([np.eye(9)[:, :2], np.eye(9)[:, :3]]),
        lambda: penalties.log_densities_of([np.eye(9)[:, :2], np.eye(9)[:, 1:3]]),
    ),
    # --- which objective, and its hyper-parameters ---
    Case('Did you mean "vrex"?', lambda: objective_of("vrexx"), lambda: objective_of("vrex")),
    Case("an objective is a name or", lambda: objective_of(3), lambda: objective_of("irm")),
    Case("leave one out", lambda: objective_of("vrex", 2.0, {"weight": 3.0}), lambda: objective_of("vrex", 2.0)),
    Case(
        "it has weight, form",
        lambda: objective_of("irm", options={"from": "square"}),
        lambda: objective_of("irm", options={"form": "square"}),
    ),
    Case(
        "give a dict of hyper-parameters",
        lambda: objective_of("vrex", options=[3.0]),
        lambda: objective_of("vrex", options={"weight": 3.0}),
    ),
    Case("give a number", lambda: objective_of("vrex", "heavy"), lambda: objective_of("vrex", 10)),
    Case(
        'use "environment" or "row"',
        lambda: REGISTRY["erm"](per="site")(BATCH),
        lambda: REGISTRY["erm"](per="environment")(BATCH),
    ),
    # --- irm ---
    Case('use "square" or "split"', lambda: irm("cube"), lambda: irm("square")),
    Case('use form="square"', lambda: irm("split", rows=1), lambda: irm("square", rows=1)),
    # --- features ---
    Case(
        "must be a list of torch tensors",
        lambda: penalties.coral_penalty(None, None, torch.ones(3, 2)),
        lambda: penalties.coral_penalty(None, None, FEATURES),
    ),
    Case(
        "give those of two or more",
        lambda: penalties.coral_penalty(None, None, FEATURES[:1]),
        lambda: penalties.coral_penalty(None, None, FEATURES[:2]),
    ),
    Case(
        "give (rows, columns)",
        lambda: penalties.coral_penalty(None, None, [rows[:, 0] for rows in FEATURES]),
        lambda: penalties.coral_penalty(None, None, [rows[:, :1] for rows in FEATURES]),
    ),
    Case(
        "give all environments the same",
        lambda: penalties.coral_penalty(None, None, [FEATURES[0], LOGITS[1]]),
        lambda: penalties.coral_penalty(None, None, [FEATURES[0], FEATURES[1]]),
    ),
    Case(
        "use a larger batch",
        lambda: penalties.coral_penalty(None, None, first(FEATURES, 1)),
        lambda: penalties.coral_penalty(None, None, first(FEATURES, 3)),
    ),
    Case(
        "so there is no variance: add rows",
        lambda: penalties.bottleneck_penalty(None, None, first(FEATURES, 1)),
        lambda: penalties.bottleneck_penalty(None, None, first(FEATURES, 2)),
    ),
    # --- adversaries ---
    Case("pass adversary=objective.adversary(", lambda: dann(None), lambda: dann(3)),
    Case("make one for this many", lambda: dann(2), lambda: dann(3)),
    Case(
        "give one column for each of the 3 environments",
        lambda: penalties.dann_penalty(None, None, FEATURES, discriminator=told_apart(2)),
        lambda: penalties.dann_penalty(None, None, FEATURES, discriminator=told_apart(3)),
    ),
    Case(
        "use a number above 1, such as 1.5",
        lambda: penalties.g2dm_penalty(None, None, FEATURES, discriminators=told_apart(3), slack=1.0),
        lambda: penalties.g2dm_penalty(None, None, FEATURES, discriminators=told_apart(3), slack=1.5),
    ),
    Case(
        "give one tensor (n_e, K) for every environment",
        lambda: penalties.invrat_penalty(LOGITS, NUMBERS, own_logits=LOGITS[:2]),
        lambda: penalties.invrat_penalty(LOGITS, NUMBERS, own_logits=LOGITS),
    ),
    # --- shares and mixtures of rows ---
    Case(
        "give one share for each",
        lambda: penalties.group_dro_risk(LOGITS, NUMBERS, shares=shares(2)),
        lambda: penalties.group_dro_risk(LOGITS, NUMBERS, shares=shares(3)),
    ),
    Case(
        "a probability between 0 and 1",
        lambda: penalties.lisa(FEATURES, CLASSES, p_sel=2.0),
        lambda: penalties.lisa(FEATURES, CLASSES, p_sel=0.5),
    ),
    Case(
        "a positive number",
        lambda: penalties.lisa(FEATURES, CLASSES, alpha=0.0),
        lambda: penalties.lisa(FEATURES, CLASSES, alpha=2.0),
    ),
    Case(
        "a positive number",
        lambda: penalties.mixup(FEATURES, NUMBERS, alpha=-1.0),
        lambda: penalties.mixup(FEATURES, NUMBERS, alpha=0.2),
    ),
    Case(
        "of targets: give one of each",
        lambda: penalties.mixup(FEATURES, NUMBERS[:2]),
        lambda: penalties.mixup(FEATURES[:2], NUMBERS[:2]),
    ),
    Case(
        "in one environment: give",
        lambda: penalties.mixup(first(FEATURES, 3), NUMBERS),
        lambda: penalties.mixup(first(FEATURES, 3), first(NUMBERS, 3)),
    ),
    Case(
        "leave it out of the batch",
        lambda: penalties.mixup([*FEATURES, FEATURES[0][:0]], [*NUMBERS, NUMBERS[0][:0]]),
        lambda: penalties.mixup(FEATURES, NUMBERS),
    ),
    Case(
        "say how many there are with classes=",
        lambda: penalties.mixup(FEATURES, THREE),
        lambda: penalties.mixup(FEATURES, THREE, classes=3),
    ),
    # --- density ratios ---
    Case(
        "pass log_densities=",
        lambda: penalties.dric_penalty(LOGITS, NUMBERS),
        lambda: penalties.dric_penalty(LOGITS, NUMBERS, log_densities=DENSITIES),
    ),
    Case(
        "of log densities: give",
        lambda: penalties.dric_penalty(LOGITS, NUMBERS, log_densities=DENSITIES[:2]),
        lambda: penalties.dric_penalty(LOGITS, NUMBERS, log_densities=DENSITIES),
    ),
    Case(
        "give 6 rows by 3 environments",
        lambda: penalties.dric_penalty(LOGITS, NUMBERS, log_densities=first(DENSITIES, 5)),
        lambda: penalties.dric_penalty(LOGITS, NUMBERS, log_densities=DENSITIES),
    ),
    Case(
        'use "x" or "z"',
        lambda: REGISTRY["dric"](on="y").ratio_on,
        lambda: REGISTRY["dric"](on="z").ratio_on,
    ),
    Case("use another objective, or other environments", lambda: dric_fitted(0.0), lambda: dric_fitted(1.0)),
    # --- regret and matching ---
    Case(
        "as many environments of features as of logits",
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, FEATURES[:2]),
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, FEATURES),
    ),
    Case(
        "in one environment: give",
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, first(FEATURES, 4)),
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, FEATURES),
    ),
    Case(
        "give a positive number",
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, FEATURES, ridge=0.0),
        lambda: penalties.regret_penalty(LOGITS, NUMBERS, FEATURES, ridge=1e-3),
    ),
    Case(
        "such as 0.1 and 50",
        lambda: penalties.wasserstein_matching_penalty(LOGITS, CLASSES, FEATURES, entropy=0.0),
        lambda: penalties.wasserstein_matching_penalty(LOGITS, CLASSES, FEATURES, entropy=0.1, iterations=50),
    ),
    Case(
        "or use conditional=False",
        lambda: penalties.wasserstein_matching_penalty(None, None, FEATURES, conditional=True),
        lambda: penalties.wasserstein_matching_penalty(None, None, FEATURES, conditional=False),
    ),
    # --- worst case ---
    Case("pass logits=, or task=", lambda: worst(logits=None), lambda: worst(logits=None, task="regression")),
    Case("give a distance of at least 0", lambda: worst(radius=-1.0), lambda: worst(radius=0.5)),
    Case("at least 0, such as 0.25", lambda: worst(fraction=-1.0), lambda: worst(fraction=0.25)),
    Case("a whole number of at least 1", lambda: worst(iterations=0), lambda: worst(iterations=4)),
    Case("must be a list of torch tensors", lambda: worst(features=FEATURES[0]), lambda: worst(features=FEATURES)),
    Case("give (rows, columns)", lambda: worst(features=first(FEATURES, 4)), worst),
    Case("give one of each", lambda: worst(features=FEATURES[:2]), worst),
    Case(
        'say task="multiclass"',
        lambda: worst(logits=None, task="regression", head=torch.nn.Linear(2, 3)),
        lambda: of_classes(THREE),
    ),
    Case(
        "give as many",
        lambda: of_classes([torch.ones(ROWS, 2) / 2] * 3),
        lambda: of_classes([torch.ones(ROWS, 3) / 3] * 3),
    ),
    Case("must be class codes 0 to 2", lambda: of_classes([codes + 1 for codes in THREE]), lambda: of_classes(THREE)),
    Case(
        "a number of at least 0",
        lambda: objective_of("worst_case", options={"base": "vrex", "base_weight": -1.0}),
        lambda: objective_of("worst_case", options={"base": "vrex", "base_weight": 1.0}),
    ),
    Case(
        'such as "erm" or "vrex"',
        lambda: objective_of("worst_case", options={"base": "worst_case"}),
        lambda: objective_of("worst_case", options={"base": "erm"}),
    ),
    Case(
        'such as "erm" or "vrex"',
        lambda: objective_of("worst_case", options={"base": "dric"}),
        lambda: objective_of("worst_case", options={"base": "vrex"}),
    ),
    Case(
        "feature_head(module, features)",
        lambda: REGISTRY["worst_case"]()(BATCH),
        lambda: REGISTRY["worst_case"]()(replace(BATCH, head=feature_head(HEAD, FEATURES[0]))),
    ),
]
