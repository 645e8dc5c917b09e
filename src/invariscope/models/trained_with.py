"""What a model was trained with, as far as an audit should know: the objective, and the penalty in its curvature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from invariscope.errors import InputError
from invariscope.rows.settings import shown

ERM = "erm"


#: the Hessian in the head is that of the mean risk: penalties on features alone, which the head does not move
OF_RISKS = (ERM, "ib_erm", "mmd", "coral", "dann", "cdann", "g2dm", "wasserstein_matching")
IRM = ("irm", "ib_irm")
REMARK = "The model was trained with {}, whose curvature in the head is not known in closed form: the Hessian is ERM's."


class TrainedWith(NamedTuple):
    """The name of an objective; ``penalty``, ``weight`` and ``hessian`` (what environments count in the risk) as
    :func:`~invariscope.influence_index` takes them.

    ``penalty`` is ``None`` where the objective has none that bends in the head. Where it has one whose Hessian is not
    known in closed form (rows that are mixed, as by Mixup and LISA, are drawn anew in every step), ``remark`` says so.
    """

    name: str = ERM
    penalty: str | None = None
    weight: float = 0.0
    hessian: str = "domains"
    remark: str = ""


def trained_with(objective: Any, scale: float = 1.0) -> TrainedWith:
    """From an objective of :mod:`invariscope.objectives`; targets were divided by ``scale`` before training.

    Squared errors of the divided target are smaller by scale², penalties, which are squares of those, by scale⁴: in the
    target's own units the penalty weighs as much as ``weight / scale²``.
    """
    name = str(objective.name)
    if name == "vrex" or name in IRM:
        form = getattr(objective, "form", "square")
        penalty = "vrex" if name == "vrex" else "irm" if form == "square" else "irm_split"
        weight = float(objective.weight) / scale**2
        return TrainedWith(name, penalty if weight > 0 else None, weight)
    if name == "group_dro":
        return TrainedWith(name, hessian="worst")
    if name in OF_RISKS:
        return TrainedWith(name, hessian="rows" if getattr(objective, "per", "") == "row" else "domains")
    bends = getattr(objective, "weight", 0.0) > 0 or name in ("mixup", "lisa")
    return TrainedWith(name, remark=REMARK.format(name) if bends else "")


def trained_with_of(said: Any, name: str) -> TrainedWith:
    """From what a user says of a model: an objective, or the name of one whose curvature in the head is that of ERM.

    >>> trained_with_of("group_dro", "trained_with").name
    'group_dro'
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
