"""Refusals of the criteria, but those of the worst case, which has a module of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import invariscope as iv
from invariscope.criteria.influence import influence_index as index_module
from invariscope.rows.arrays import Array, Floats
from tests.remedies.case import Case, left_out

ROOM = ("criteria/dric", "criteria/influence", "criteria/predictions", "criteria/regret", "criteria/transport")
ENV = np.repeat(["a", "b"], 40)
Z = np.random.default_rng(0).normal(size=(80, 3))
Y = Z[:, 0] + np.random.default_rng(1).normal(size=80)
CLASS = np.where(Y > 0, "yes", "no")
RISK = 1 / (1 + np.exp(-Z[:, 0]))
BASE = 0.5 * Y
TWO = np.column_stack([Y, Z[:, 1] + 0.1 * Y])
WEIGHT = np.full(80, 1.5)
SHARES = {"a": 1.0, "b": 1.0}
WIDE = np.random.default_rng(2).normal(size=(80, 9))
EARLY = np.arange(80) % 40 < 20


def without(values: Floats, row: int = 5) -> Floats:
    """The values with a gap."""
    return np.where(np.arange(len(values)) == row, np.nan, values)


def dric(predictions: Any = Y, X: Any = Z, env: Any = ENV, **options: Any) -> Any:
    return iv.dric(predictions, X, env, **{"baseline": BASE, "n_boot": 0, **options})


def drawn(predictions: Any = Y, **options: Any) -> Any:
    return dric(predictions, **{"n_boot": 99, **options})


def index(Z: Any = Z, y: Any = Y, env: Any = ENV, **options: Any) -> Any:
    return iv.influence_index(Z, y, env, **{"n_boot": 99, **options})


def index_of(rows: Array, **options: Any) -> Any:
    """Of some rows alone, as one does who drops the others."""
    return index(Z[rows], Y[rows], ENV[rows], **options)


def wide(**options: Any) -> Any:
    """The index of a head on more columns than a whole Hessian is computed for (a small number here)."""
    limit, index_module.LARGEST_DENSE = index_module.LARGEST_DENSE, 2
    try:
        return index(penalty="irm", penalty_weight=1.0, **options)
    finally:
        index_module.LARGEST_DENSE = limit


def module(inputs: int = 3, outputs: int = 1) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(inputs, 4), torch.nn.Tanh(), torch.nn.Linear(4, outputs))


def frozen(module: torch.nn.Module) -> torch.nn.Module:
    return module.requires_grad_(False)


def big_module(**options: Any) -> Any:
    from invariscope.criteria.influence import torch_network

    limit, torch_network.LARGEST_DENSE = torch_network.LARGEST_DENSE, 2
    try:
        return index(head=module(), n_boot=0, **options)
    finally:
        torch_network.LARGEST_DENSE = limit


def at_a_saddle(**options: Any) -> Any:
    """Of a network far from its minimum, where no second damping is tried."""
    from invariscope.criteria.influence import torch_network

    attempts, torch_network.ATTEMPTS = torch_network.ATTEMPTS, 1
    try:
        return index(y=-50 * Y, head=module(), n_boot=0, solver="cg", **options)
    finally:
        torch_network.ATTEMPTS = attempts


def within(limit: str, most: float, call: Callable[[], Any]) -> Any:
    """As if so much were the most that is computed."""
    with patch(f"invariscope.criteria.{limit}", most):
        return call()


def audited(criterion: str, X: Any = Z, env: Any = ENV, head: Any = None) -> iv.Audit:
    return iv.audit(head or (lambda rows: rows[:, 0]), X, Y, env, n_boot=0, criteria=criterion)


def had(criterion: str, **options: Any) -> Any:
    """The criterion in an audit, or the reason why it is left out."""
    audit = audited(criterion, **options)
    return audit[criterion] if criterion in audit.results else left_out(audit, criterion)


WARDS = np.repeat(["a", "b", "c", "d"], 20)
LINEAR = iv.Split(represent=lambda rows: rows, head=iv.LinearHead(np.ones(3), 0.0), task="regression")
SATURATED = iv.LinearHead([[1e4, 0.0, 0.0]], 1e5)

CASES = [
    # --- regret ---
    Case("Use fewer columns", lambda: iv.regret(np.tile(Z, 14) + np.eye(80, 42), Y, ENV), lambda: iv.regret(Z, Y, ENV)),
    # --- dric ---
    Case("give the same", lambda: dric(TWO), lambda: dric(TWO, baseline=0.5 * TWO)),
    Case(
        "give ratios from elsewhere as a pair",
        lambda: dric(representation=Z[:, :1], ratio=iv.density_ratio(Z, ENV)),
        lambda: dric(representation=Z[:, :1], ratio=(iv.density_ratio(Z[:, :1], ENV), iv.density_ratio(Z, ENV))),
    ),
    Case("give one for every row", lambda: dric(representation=Z[:50]), lambda: dric(representation=Z)),
    Case('give "auto", 0 for point estimates', lambda: dric(n_boot=3), lambda: dric(n_boot=0)),
    Case("drop those rows or fill them in", lambda: dric(y=without(Y)), lambda: dric(y=np.nan_to_num(without(Y)))),
    Case("give one column per class", lambda: dric(y=np.resize(["u", "v", "w"], 80)), lambda: dric(y=CLASS)),
    Case("pass y, one value per row", lambda: dric(terms="losses"), lambda: dric(terms="losses", y=Y)),
    Case(
        "give fewer columns",
        lambda: dric(terms="own_means", y=Y, representation=WIDE),
        lambda: dric(terms="own_means", y=Y, representation=WIDE[:, :2]),
    ),
    Case(
        "compute both alike",
        lambda: drawn().difference(drawn(n_boot=19)),
        lambda: drawn().difference(drawn(Z[:, 0])),
    ),
    Case("compute both with n_boot=99", lambda: dric().difference(dric()), lambda: drawn().difference(drawn())),
    Case(
        "give both the same X, env, weight, baseline, ratio, pairwise, svd and seed",
        lambda: drawn().difference(drawn(seed=1)),
        lambda: drawn(seed=1).difference(drawn(Z[:, 0], seed=1)),
    ),
    Case("give epsilon above 0", lambda: dric().rows_needed(0), lambda: dric().rows_needed(0.1)),
    Case("give another result of iv.dric", lambda: drawn().difference(1.0), lambda: drawn().difference(drawn(-Y))),
    # --- criteria of predictions ---
    Case(
        "predict it too",
        lambda: iv.risk_variance(without(RISK), CLASS, ENV),
        lambda: iv.risk_variance(RISK, CLASS, ENV),
    ),
    Case(
        "give a whole number from 1 to 10,000",
        lambda: iv.calibration_variance(RISK, CLASS, ENV, bins=0),
        lambda: iv.calibration_variance(RISK, CLASS, ENV, bins=10),
    ),
    Case(
        "give classes",
        lambda: iv.calibration_variance(RISK, Y, ENV),
        lambda: iv.calibration_variance(RISK, CLASS, ENV),
    ),
    Case(
        'use "square" or "split"',
        lambda: iv.irm_penalty(Y, Y, ENV, form="cube"),
        lambda: iv.irm_penalty(Y, Y, ENV, form="split"),
    ),
    Case(
        'use "auto", "squared"',
        lambda: iv.risk_variance(BASE, Y, ENV, loss="mse"),
        lambda: iv.risk_variance(BASE, Y, ENV, loss="squared"),
    ),
    Case(
        'use "squared" or "absolute"',
        lambda: iv.risk_variance(BASE, Y, ENV, loss="log_loss"),
        lambda: iv.risk_variance(BASE, Y, ENV, loss="absolute"),
    ),
    Case("in other units", lambda: iv.risk_variance(1e170 * BASE, Y, ENV), lambda: iv.risk_variance(BASE, Y, ENV)),
    # --- influence index ---
    Case("use auto,", lambda: index(solver="lu"), lambda: index(solver="auto")),
    Case('use "domains", "rows" or "worst"', lambda: index(hessian="pooled"), lambda: index(hessian="rows")),
    Case("give one for each environment", lambda: index(hessian={"a": 1.0}), lambda: index(hessian=SHARES)),
    Case("give numbers of at least 0", lambda: index(hessian={**SHARES, "a": -1.0}), lambda: index(hessian=SHARES)),
    Case("give one of them more", lambda: index(hessian=dict.fromkeys(SHARES, 0)), lambda: index(hessian=SHARES)),
    Case("give it as head", lambda: index(hessian="worst"), lambda: index(hessian="worst", head=LINEAR.head)),
    Case(
        "leave shuffles out",
        lambda: index(solver="kronecker", shuffles="recomputed"),
        lambda: index(solver="kronecker"),
    ),
    Case(
        "leave intercept out",
        lambda: index(head=iv.LinearHead(np.ones(3), 1.0), intercept=False),
        lambda: index(head=iv.LinearHead(np.ones(3), 1.0)),
    ),
    Case("leave intercept out", lambda: index(head=module(), intercept=False, n_boot=0), lambda: index(head=module())),
    Case('or use "dense" or "kronecker"', lambda: index(solver="cg"), lambda: index(solver="dense")),
    Case("project the representation to fewer columns", wide, lambda: wide(solver="dense")),
    Case(
        "give a LinearHead, or a torch module",
        lambda: index(head=np.ones(3)),
        lambda: index(head=iv.LinearHead(np.ones(3), 0.0)),
    ),
    Case(
        'use "autograd" or "cg"',
        lambda: index(head=module(), solver="dense", n_boot=0),
        lambda: index(head=module(), solver="autograd"),
    ),
    Case(
        "use exact=False",
        lambda: index(weight=WEIGHT, penalty="irm", penalty_weight=1.0, exact=True),
        lambda: index(weight=WEIGHT, penalty="irm", penalty_weight=1.0, exact=False),
    ),
    Case(
        "give the columns it was fitted on",
        lambda: index(head=iv.LinearHead(np.ones(2), 0.0)),
        lambda: index(Z[:, :2], head=iv.LinearHead(np.ones(2), 0.0)),
    ),
    Case(
        "give a head with as many",
        lambda: index(y=TWO, head=iv.LinearHead(np.ones((3, 3)), np.zeros(3))),
        lambda: index(y=TWO, head=iv.LinearHead(np.ones((2, 3)), np.zeros(2))),
    ),
    Case(
        "give a smaller penalty_weight",
        lambda: index(penalty="irm", penalty_weight=1e20),
        lambda: index(penalty="irm", penalty_weight=1.0),
    ),
    Case('or "auto"', lambda: index(damping=-1.0), lambda: index(damping="auto")),
    Case(
        "a less extreme head",
        lambda: index(y=CLASS, head=SATURATED),
        lambda: index(y=CLASS, head=iv.LinearHead(SATURATED.weight / 1e4, SATURATED.bias / 1e5)),
    ),
    Case(
        "give a number of at least 0",
        lambda: index(penalty="irm", penalty_weight=-1.0),
        lambda: index(penalty="irm", penalty_weight=1.0),
    ),
    Case(
        "but there is no penalty: say",
        lambda: index(penalty_weight=1.0),
        lambda: index(penalty="vrex", penalty_weight=1.0),
    ),
    Case(
        "or None", lambda: index(penalty="rex", penalty_weight=1.0), lambda: index(penalty="vrex", penalty_weight=1.0)
    ),
    Case(
        "pass Z, y and env by themselves",
        lambda: index(iv.Environments(Z, None, ENV), TWO, None),
        lambda: index(Z, TWO, ENV),
    ),
    Case("drop those rows or fill them in", lambda: index(y=np.column_stack([Y, without(Y)])), lambda: index(y=TWO)),
    Case("leave it out", lambda: index(y=np.column_stack([TWO, np.ones(80)])), lambda: index(y=TWO)),
    Case("give one value per row", lambda: index(y=TWO[:70]), lambda: index(y=TWO)),
    Case(
        "give a head that reads as many", lambda: index(head=module(inputs=2), n_boot=0), lambda: index(head=module())
    ),
    Case("leave some of them trainable", lambda: index(head=frozen(module())), lambda: index(head=module())),
    Case(
        "give a head with as many",
        lambda: index(y=TWO, head=module(outputs=3)),
        lambda: index(y=TWO, head=module(outputs=2)),
    ),
    Case(
        "repeat rows, or leave the weights out",
        lambda: index(head=module(), weight=WEIGHT, penalty="irm", penalty_weight=1.0),
        lambda: index(head=module(), penalty="irm", penalty_weight=1.0, n_boot=0),
    ),
    Case('or use solver="cg"', lambda: big_module(solver="autograd"), lambda: big_module(solver="cg", damping=10.0)),
    Case("iv.influence_index(damping=)", at_a_saddle, lambda: at_a_saddle(damping=1e6)),
    # --- what an audit does not wait for ---
    Case(
        "Use fewer columns, or call iv.dric(",
        lambda: within("dric.dric.MOST_WEIGHTS", 3, lambda: had("dric")),
        lambda: within("dric.dric.MOST_WEIGHTS", 3, lambda: had("dric", X=Z[:, :2])),
    ),
    Case(
        "Called by itself, iv.influence_index(Z, y, env, head=...) takes its time",
        lambda: within("influence.influence_index.MOST_WEIGHTS", 3, lambda: had("influence_index", head=LINEAR)),
        lambda: index(head=LINEAR.head),
    ),
    Case(
        "Group the environments into fewer",
        lambda: within("transport.transport_gap.MOST_WORK", 1000, lambda: had("transport_gap", env=WARDS)),
        lambda: within("transport.transport_gap.MOST_WORK", 1000, lambda: had("transport_gap")),
    ),
    Case(
        "group them into fewer",
        lambda: within("transport.transport_gap.MOST_NUMBERS", 80, lambda: iv.transport_gap(Z, Y, WARDS, n_boot=0)),
        lambda: within("transport.transport_gap.MOST_NUMBERS", 80, lambda: iv.transport_gap(Z, Y, ENV, n_boot=0)),
    ),
]
