"""What every training objective is: pure functions of one batch per environment, and its own hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar, dataclass_transform

import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.heads.torch_losses import refuse_no_tensors, risks
from invariscope.models.torch_heads import FeatureHead
from invariscope.rows.arrays import Floats
from invariscope.rows.settings import is_real, shown, switch, whole_number

Tensors = Sequence[Tensor]  # one for every environment
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """What an objective sees of one step; every tuple has one entry per environment, in the same order.

    ``logits`` (n_e, K): scores of the head, K = 1 for regression and two classes; ``targets`` (n_e,) numbers or
    probabilities of the second class, or (n_e, K) probabilities of classes: always floats, so that rows can be mixed;
    ``features`` (n_e, d): what the head reads; ``log_densities`` (n_e, E): log p_k(x_i) up to a term common to all k,
    only for objectives with ``ratio_on``; ``head``: the head as a function of features, for objectives that ask what it
    says elsewhere than at the rows (:func:`~invariscope.models.torch_heads.feature_head` makes one).
    """

    logits: Tensors
    targets: Tensors
    features: Tensors
    task: str
    log_densities: Tensors | None = None
    head: FeatureHead | None = None

    @cached_property
    def risks(self) -> Tensor:
        """Mean loss of every environment, (E,)."""
        return risks(self.logits, self.targets, self.task)


MOST = 10**9  # of whole numbers: more steps or units take days


def checked_features(features: Tensors, fewest_rows: int = 1) -> Tensors:
    """The features, if there are two environments of them, each (n_e, d) with the same d and enough rows."""
    refuse_no_tensors("features", features)
    if len(features) < 2:
        raise InputError(f"features of {len(features)} environment: give those of two or more, to compare them")
    for place, rows in enumerate(features):
        if rows.ndim != 2:
            raise InputError(f"features of environment {place} have {rows.ndim} axes: give (rows, columns)")
        if rows.shape[1] != features[0].shape[1]:
            raise InputError(
                f"features of environment {place} have {rows.shape[1]} columns, those of the first "
                f"{features[0].shape[1]}: give all environments the same"
            )
        if rows.shape[0] < fewest_rows:
            raise InputError(
                f"environment {place} has {rows.shape[0]} row(s) in this batch, and {fewest_rows} are needed: use a "
                "larger batch"
            )
    return features


@dataclass(frozen=True)
class Objective:
    """risk + weight · penalty; subclasses say what the penalty is, and whatever else they need.

    Every method is pure and works on tensors alone: no optimiser, no global random numbers, no branch on values. So
    the same code trains one model, or hundreds of them at once under ``torch.func.vmap``.
    """

    name: ClassVar[str] = ""
    #: Environments it needs to make sense
    fewest_environments: ClassVar[int] = 2
    #: Rows of every environment that a batch had better hold, where the work grows with their square
    rows_at_once: ClassVar[int | None] = None
    #: Representation and head are updated in turn, not together
    alternates: ClassVar[bool] = False

    weight: float = 1.0

    def __post_init__(self) -> None:
        """Refuse hyper-parameters of another kind than they are declared as; further bounds are for who uses them."""
        for field in fields(self):
            value, name = getattr(self, field.name), f'"{field.name}" of objective "{self.name}"'
            kind, _, optional = str(getattr(field.type, "__name__", field.type)).partition(" | ")
            if value is None and optional:
                continue
            if kind == "int":
                whole_number(value, name, 1, MOST)
            elif kind == "bool":
                switch(value, name)
            elif kind == "float" and not (is_real(value) and math.isfinite(value)):
                raise InputError(f"{name} is {shown(value)}: give a number")

    @property
    def penalises(self) -> bool:
        """Whether it has a penalty at all, for a weight to count."""
        return type(self).penalty is not Objective.penalty

    @property
    def ratio_on(self) -> str | None:
        """Where density ratios are fitted: "x" (once, beforehand), "z" (refreshed while training) or not at all."""
        return None

    def draw(self, targets: Tensors, generator: torch.Generator) -> Named:
        """Random numbers of one step, drawn outside the objective from the targets of the batch."""
        return {}

    def mix(self, inputs: Tensors, targets: Tensors, drawn: Named) -> tuple[Tensors, Tensors]:
        """Rows to train on in place of those of the batch; only augmentations change them."""
        return inputs, targets

    def memory(self, environments: int) -> Named:
        """Numbers carried from step to step without being trained, at the start."""
        return {}

    def remember(self, batch: Batch, memory: Named) -> Named:
        """The memory after this batch."""
        return memory

    def adversary(self, width: int, environments: int, outputs: int, generator: torch.Generator) -> Named:
        """Parameters that are trained against the representation, at the start; ``width`` columns of features."""
        return {}

    def risk(self, batch: Batch, memory: Named) -> Tensor:
        """What is minimised besides the penalty: by default the mean risk, every environment counting the same."""
        return batch.risks.mean()

    def penalty(self, batch: Batch, adversary: Named) -> Tensor:
        """How far from invariant, in the sense of this objective; 0 if it has no penalty."""
        return batch.logits[0].new_zeros(())

    def parts(self, batch: Batch, memory: Named, adversary: Named) -> tuple[Tensor, Tensor]:
        """Risk and penalty as a step of training minimises them; the penalty may then know the memory too."""
        return self.risk(batch, memory), self.penalty(batch, adversary)

    def judgement(self, batch: Batch, weight: Tensor | float, memory: Named, adversary: Named) -> Tensor:
        """What held-out rows are judged by, to stop early: risk + weight · penalty.

        With an adversary the risk alone: its penalty depends on how far the adversary has come.
        """
        risk = self.risk(batch, memory)
        return risk if adversary else risk + weight * self.penalty(batch, adversary)

    def fitted(self, inputs: Sequence[Floats], targets: Sequence[Floats], task: str, seed: int) -> Objective:
        """The objective with whatever it takes from the data before training; arrays of every environment's rows."""
        return self

    def __call__(
        self,
        batch: Batch,
        weight: Tensor | float | None = None,
        memory: Named | None = None,
        adversary: Named | None = None,
    ) -> tuple[Tensor, Named]:
        """The number to minimise and the memory for the next step."""
        memory = self.remember(batch, self.memory(len(batch.logits)) if memory is None else memory)
        weight = self.weight if weight is None else weight
        risk, penalty = self.parts(batch, memory, adversary or {})
        return risk + weight * penalty, memory


REGISTRY: dict[str, type[Objective]] = {}


@dataclass_transform(frozen_default=True)
def objective(name: str) -> Callable[[type[Objective]], type[Objective]]:
    """Make a class a frozen dataclass, if it is none yet, and register it under the name people type."""

    def register(kind: type[Objective]) -> type[Objective]:
        made = kind if "__dataclass_fields__" in vars(kind) else dataclass(frozen=True)(kind)
        if name in REGISTRY and REGISTRY[name].__module__ != made.__module__:
            raise ValueError(f'there is an objective "{name}" in {REGISTRY[name].__module__}: call it otherwise')
        made.name = name
        REGISTRY[name] = made
        return made

    return register


def objective_of(given: Any, weight: float | None = None, options: dict[str, Any] | None = None) -> Objective:
    """An objective from its name, its class or itself; ``weight`` and ``options`` replace its own hyper-parameters.

    >>> objective_of("vrex", 3.0)
    VREx(weight=3.0)
    """
    if isinstance(given, str):
        if given not in REGISTRY:
            close = get_close_matches(given.lower(), REGISTRY, n=1)
            hint = f' Did you mean "{close[0]}"?' if close else ""
            raise InputError(f'objective "{given}" is unknown: use one of {", ".join(sorted(REGISTRY))}.{hint}')
        given = REGISTRY[given]
    if isinstance(given, type) and issubclass(given, Objective):
        given = given()
    if not isinstance(given, Objective):
        raise InputError(f"an objective is a name or an invariscope.objectives object, not a {type(given).__name__}")
    if options is not None and not isinstance(options, Mapping):
        raise InputError(f'options is {shown(options)}: give a dict of hyper-parameters, such as {{"weight": 3.0}}')
    changes = dict(options or {})
    if weight is not None and "weight" in changes:
        raise InputError(
            f"the penalty's weight is given twice, as {weight!r} and as {changes['weight']!r}: leave one out"
        )
    if weight is not None:
        changes["weight"] = weight
    known = [field.name for field in fields(given)]
    for name in changes:
        if name not in known:
            raise InputError(f'objective "{given.name}" has no hyper-parameter "{name}": it has {", ".join(known)}')
    made = replace(given, **changes)
    return replace(made, weight=float(made.weight))
