"""What an audit has for its criteria: every part a value, or the reason why it is not there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypeVar, Union

import numpy as np

from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.heads.losses import loss_of
from invariscope.models.splits import Split
from invariscope.models.trained_with import TrainedWith
from invariscope.rows.arrays import Array, Floats
from invariscope.rows.environments import Environments
from invariscope.rows.targets import Target, label_array
from invariscope.wording import count

#: Weights of a head that an audit fits: every Newton step solves as many equations at once.
MOST_WEIGHTS = 2_000
#: Environments × the cube of the weights of their own heads: so many matrices are decomposed, in about ten seconds.
MOST_WORK = 4e9
FEWER_COLUMNS = "Use fewer columns: choose some, or audit a model whose representation has fewer."

Part = TypeVar("Part")


@dataclass(frozen=True)
class Missing:
    """Why something is not there; ``environments`` are those that could be dropped to have it."""

    reason: str
    environments: tuple[Hashable, ...] = ()


Have: TypeAlias = Union[Part, Missing]  # noqa: UP007 (an alias with a variable needs the long form)


def have(part: Have[Part]) -> Part:
    """The value, where there is one; else its reason as an error, which leaves the criterion out of the audit."""
    if isinstance(part, Missing):
        raise InputError(part.reason, environments=part.environments)
    return part


@dataclass(frozen=True)
class Predictions:
    """Predictions as the columns of ``rows``, grouped like everything else.

    ``kind`` is "numbers", "probabilities" (a column per class, in the order of the target's classes) or "votes"
    (0 and 1, from a model that has no probabilities).
    """

    rows: Environments
    kind: str

    @property
    def values(self) -> Floats:
        """(n,) numbers or (n, K), in the user's row order."""
        values: Floats = self.rows.original(self.rows.X)
        return values[:, 0] if self.kind == "numbers" else values

    @property
    def loss(self) -> str:
        """The loss they can be judged by: the log-loss of a vote is 0 or a cap nobody chose, its error is not."""
        return "zero_one" if self.kind == "votes" else "auto"


@dataclass(frozen=True)
class Baseline:
    """Predictions of the baseline, in the user's row order; ``fitted_here`` if it was fitted on the audited rows."""

    values: Floats
    fitted_here: bool


@dataclass(frozen=True)
class Network:
    """A model in two halves whose inputs can be moved, and its inputs as they are given, in the user's row order."""

    split: Split
    inputs: Any


@dataclass(frozen=True)
class AuditOptions:
    """How an audit wants its criteria computed."""

    n_boot: int = 999
    seed: int = 0
    ratio: Any = "logistic"


@dataclass(frozen=True)
class Material:
    """Everything a criterion may need; the names are those of ``needs``.

    representation : what the model computes, or the user's columns, in units of their own spread (the pixels of an
        image in units of one spread, channel by channel)
    compared : the columns on which environments are compared: the representation or, where a learned one is too wide
        for the rows there are, the predictions
    own_heads : the same, where every environment can have a head of its own on them
    head : the linear map from the representation to the predictions: the trained one, the one that was fitted where
        there is no model, or none but a change of units where the predictions are the representation
    trained_head : the last step of the model, if that is linear
    inputs : the model's inputs as numbers, or the representation in their place; what density ratios look at
    baseline : predictions of the baseline, and whether it was fitted on these rows
    """

    representation: Environments
    compared: Environments
    own_heads: Have[Environments]
    target: Target
    predictions: Have[Predictions]
    head: Have[LinearHead]
    trained_head: Have[LinearHead]
    trained_with: TrainedWith
    network: Have[Network]
    inputs: Have[Environments]
    baseline: Have[Baseline]

    @property
    def task(self) -> str:
        """The task of the target: "regression", "binary" or "multiclass"."""
        return self.target.task

    @property
    def labels(self) -> Array:
        """The target in the user's row order and in the user's own labels."""
        values = self.representation.original(self.target.values)
        return values if self.task == "regression" else label_array(self.target.classes)[values.astype(np.intp)]

    def lacks(self, need: str) -> Missing | None:
        """Why a need cannot be met; ``None`` if it can."""
        part = self.predictions if need in KINDS else getattr(self, need)
        if isinstance(part, Missing):
            return part
        if need in KINDS and part.kind not in KINDS[need]:
            why = "this is a regression" if part.kind == "numbers" else "this model only votes"
            return Missing(f"needs class probabilities; {why}")
        return None


#: Needs that are predictions of certain kinds.
KINDS = {"probabilities": ("probabilities",), "scores": ("probabilities", "numbers")}
#: What a criterion may say that it needs. An audit runs a criterion when it has all of them, and else says why not.
NEEDS = frozenset({*(field.name for field in fields(Material)), *KINDS})


def fewer_columns(data: Environments) -> str:
    """The remedy where rows are too few for their columns; of a single column nobody can use fewer."""
    return FEWER_COLUMNS if data.X.shape[1] > 1 else f"Collect more rows in every {data.env_name}."


def fittable(data: Environments, target: Target) -> Have[Environments]:
    """The rows, where a linear head can be fitted on their columns in good time, and leaves an error to speak of."""
    outputs, columns = loss_of(target).n_scores, f"a linear head on {count(data.X.shape[1], 'column')}"
    weights = data.blocks.width * outputs
    if weights > MOST_WEIGHTS:
        of_classes = f" for {outputs} classes" if outputs > 1 else ""
        return Missing(
            f"{columns}{of_classes} has {weights:,} weights, and an audit fits at most {MOST_WEIGHTS:,}. "
            f"{FEWER_COLUMNS}"
        )
    rows = len(data.X) if data.weight is None else int(np.count_nonzero(data.weight))
    if rows <= data.blocks.width:
        return Missing(
            f"{columns} has as many weights as there are rows ({rows:,}), so that it fits them whatever they say. "
            f"{fewer_columns(data)}"
        )
    return data


def fittable_apart(data: Environments, target: Target) -> Have[Environments]:
    """The rows, where every environment can have a linear head of its own on their columns in good time."""
    together = fittable(data, target)
    weights = data.blocks.width * loss_of(target).n_scores
    if isinstance(together, Missing) or len(data) * weights**3 <= MOST_WORK:
        return together
    return Missing(
        f"linear heads of {weights:,} weights for each of {len(data)} environments take minutes, and an audit fits "
        f"{int(np.cbrt(MOST_WORK / len(data)) + 1e-6):,} weights for so many. {FEWER_COLUMNS} "
        "Called by themselves, iv.regret and iv.transport_gap have no such limit."
    )
