"""What a model was trained with, as far as an audit should know: the objective, and the penalty in its curvature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from invariscope.errors import InputError
from invariscope.rows.settings import shown

ERM = "erm"


class TrainedWith(NamedTuple):
    """The name of an objective; ``penalty`` and ``weight`` as :func:`~invariscope.influence_index` takes them.

    ``penalty`` is ``None`` where the objective has none whose curvature in the head is known in closed form.
    """

    name: str = ERM
    penalty: str | None = None
    weight: float = 0.0
    hessian: str = "domains"


def trained_with(objective: Any, scale: float = 1.0) -> TrainedWith:
    """From an objective of :mod:`invariscope.objectives`; targets were divided by ``scale`` before training.

    Squared errors of the divided target are smaller by scale², penalties, which are squares of those, by scale⁴: in the
    target's own units the penalty weighs as much as ``weight / scale²``.
    """
    name = str(objective.name)
    form = getattr(objective, "form", "square")
    penalty = {"irm": "irm" if form == "square" else "irm_split", "vrex": "vrex"}.get(name)
    weight = float(objective.weight) / scale**2 if penalty else 0.0
    return TrainedWith(name, penalty if weight > 0 else None, weight)


def trained_with_of(said: Any, name: str) -> TrainedWith:
    """From what a user says of a model: an objective, or the name of one whose curvature in the head is that of ERM.

    >>> trained_with_of("group_dro", "trained_with")
    TrainedWith(name='group_dro', penalty=None, weight=0.0)
    """
    if isinstance(said, TrainedWith):
        return said
    if isinstance(said, str) and said.lower() not in ("irm", "vrex", "rex"):
        return TrainedWith(said.lower())
    if isinstance(said, str) or not hasattr(said, "name") or not hasattr(said, "penalty"):
        raise InputError(
            f"{name} is {shown(said)}: give an objective with its weight, such as iv.objectives.IRM(weight=100), or "
            'the name of one without a penalty on the head, such as "group_dro"'
        )
    return trained_with(said)


@runtime_checkable
class TrainedNetwork(Protocol):
    """What training gives: a network, the objective it was trained with, and how it got there."""

    @property
    def network(self) -> Any: ...
    @property
    def objective(self) -> Any: ...
    @property
    def history(self) -> Mapping[str, Any]: ...
