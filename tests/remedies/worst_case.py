"""Refusals of the worst case, in representation space and in inputs."""

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import invariscope as iv
from invariscope.criteria.worst_case.torch_heads import sweep, worst_points
from tests.remedies.case import Case

ROOM = "criteria/worst_case"
Z = np.random.default_rng(0).normal(size=(40, 2))
CODES = (Z[:, 0] > 0).astype(int)
NUMBERS = Z[:, 0] + 0.1
HEAD = iv.LinearHead([[1.0, 0.5]], 0.0)
GAP = np.where(np.arange(40)[:, None] == 3, np.nan, Z)
ENV = np.repeat(["a", "b"], 20)
WRONG = iv.LinearHead([[0.0, 0.0]], 1.0)  # says "1" everywhere, and nothing can move it


def module(outputs: int = 1) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, outputs)).double()


def always_wrong(Z: torch.Tensor) -> torch.Tensor:
    """A head that calls every row the wrong class, wherever it moves."""
    return -10.0 + 0.0 * Z[:, :1]


def curve(head: Any = HEAD, Z: Any = Z, y: Any = CODES, **options: Any) -> Any:
    return iv.worst_case(head, Z, y, **{"n_boot": 0, "radii": [0.0, 0.5], **options})


def fitted_module() -> torch.nn.Module:
    """A network that gets every row right."""
    network = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.eye(2))
        network[0].bias.zero_()
        network[2].weight.copy_(torch.tensor([[3.0, 0.0]]))
        network[2].bias.zero_()
    return network


def in_inputs(model: Any = None, **options: Any) -> Any:
    given = iv.split(fitted_module(), classes=[0, 1]) if model is None else model
    return iv.worst_case_in_inputs(given, Z, CODES, **{"rows": 5, **options})


def points(head: Any = None, Z: Any = Z, y: Any = CODES, loss: str = "log_loss") -> Any:
    return worst_points(module() if head is None else head, Z, y, loss, 2.0)


def without_torch(head: Any) -> Any:
    """As where torch is not installed."""
    name = "invariscope.criteria.worst_case.torch_heads"
    kept = sys.modules.pop(name, None)
    try:
        with patch.dict(sys.modules, {"torch": None}):
            return curve(head)
    finally:
        if kept is not None:
            sys.modules[name] = kept


CASES = [
    Case(
        "make them with y",
        lambda: curve(Z=iv.Environments(Z, None, ENV), y=None),
        lambda: curve(Z=iv.Environments(Z, CODES, ENV), y=None),
    ),
    Case("pass y, one value per row", lambda: curve(y=None), curve),
    Case("give one value per row", lambda: curve(y=CODES[:30]), curve),
    Case(
        "drop those rows or fill them in",
        lambda: curve(iv.LinearHead(np.eye(2), np.zeros(2)), y=GAP),
        lambda: curve(iv.LinearHead(np.eye(2), np.zeros(2)), Z[4:], y=GAP[4:]),
    ),
    Case("give at least one row", lambda: curve(Z=Z[:0], y=CODES[:0]), curve),
    Case("drop or fill them", lambda: curve(Z=GAP), lambda: curve(Z=GAP[4:], y=CODES[4:])),
    Case('use "auto", ', lambda: curve(loss="logloss"), lambda: curve(loss="log_loss")),
    Case("ask for one kind at a time", lambda: curve(loss=["squared", "hinge"]), lambda: curve(loss=["hinge"])),
    Case("leave one of them out", lambda: curve(loss="hinge", task="regression"), lambda: curve(loss="hinge")),
    Case("radii must be numbers of at least 0", lambda: curve(radii="far"), lambda: curve(radii=[0.5])),
    Case("finite distances of at least 0", lambda: curve(radii=[-1.0]), lambda: curve(radii=[0.5])),
    Case("give radii in units of Z", lambda: curve(WRONG, relative=True), lambda: curve(WRONG, relative=False)),
    Case(
        "or a whole number of draws from 99",
        lambda: curve(n_boot=5),
        lambda: curve(n_boot=99),
    ),
    Case("make one with LinearHead(W, b)", lambda: curve(np.ones(2)), lambda: curve(iv.LinearHead(np.ones(2), 0.0))),
    Case("give Z.reshape(len(Z), -1)", lambda: curve(Z=Z.reshape(40, 1, 2)), curve),
    Case("give those it was fitted on", lambda: curve(Z=Z[:, :1]), curve),
    Case(
        "or radii to worst_case",
        lambda: curve(always_wrong, y=np.ones(40, dtype=int), classes=[0, 1], radii=None),
        lambda: curve(always_wrong, y=np.ones(40, dtype=int), classes=[0, 1], radii=[0.5]),
    ),
    Case("or give a LinearHead", lambda: without_torch(lambda rows: rows), lambda: without_torch(HEAD)),
    # --- searches with torch ---
    Case(
        "use one of log_loss",
        lambda: sweep(module(), Z, CODES, "logloss", radius=0.5),
        lambda: sweep(module(), Z, CODES, "log_loss", radius=0.5),
    ),
    Case("use log_loss, hinge or squared", lambda: points(loss="zero_one"), lambda: points(loss="hinge")),
    Case("give a torch module or a function of tensors", lambda: points(head=3), points),
    Case("give a row for every target", lambda: points(Z=Z[:30]), points),
    Case(
        "give as many", lambda: points(module(2), y=NUMBERS, loss="squared"), lambda: points(y=NUMBERS, loss="squared")
    ),
    Case("must be class codes 0 to 1", lambda: points(y=CODES + 1), points),
    Case(".float()", lambda: points(fitted_module().bfloat16()), lambda: points(fitted_module().bfloat16().float())),
    # --- in inputs ---
    Case("give iv.split(module)", lambda: in_inputs(module()), in_inputs),
    Case(
        "give rows of which some are right",
        lambda: iv.worst_case_in_inputs(iv.split(fitted_module(), classes=[0, 1]), Z, 1 - CODES, rows=5),
        in_inputs,
    ),
    Case("a whole number of at least 2", lambda: in_inputs(rows=1), lambda: in_inputs(rows=2)),
    Case("use log_loss, hinge or squared", lambda: in_inputs(loss="zero_one"), lambda: in_inputs(loss="hinge")),
]
