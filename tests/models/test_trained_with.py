"""What an audit is told about how a model was trained."""

from __future__ import annotations

import pytest

from invariscope.models.trained_with import TrainedWith, trained_with
from invariscope.objectives import CORAL, ERM, IBIRM, IRM, LISA, GroupDRO, Mixup, Regret, VREx
from invariscope.objectives.objective import Objective


@pytest.mark.parametrize(
    ("objective", "scale", "expected"),
    [
        (ERM(), 2.0, TrainedWith("erm", None, 0.0)),
        (IRM(weight=8.0, form="square"), 1.0, TrainedWith("irm", "irm", 8.0)),
        (IRM(weight=8.0, form="split"), 1.0, TrainedWith("irm", "irm_split", 8.0)),
        (VREx(weight=8.0), 2.0, TrainedWith("vrex", "vrex", 2.0)),  # of a target that was halved: by its square
        (VREx(weight=0.0), 1.0, TrainedWith("vrex", None, 0.0)),
        (IBIRM(weight=3.0), 1.0, TrainedWith("ib_irm", "irm", 3.0)),
        (ERM(per="row"), 1.0, TrainedWith("erm", hessian="rows")),
        (GroupDRO(), 2.0, TrainedWith("group_dro", hessian="worst")),
        (CORAL(weight=5.0), 1.0, TrainedWith("coral")),
    ],
)
def test_penalties_are_told_in_units_of_the_target(objective: Objective, scale: float, expected: TrainedWith) -> None:
    assert trained_with(objective, scale) == expected


@pytest.mark.parametrize("objective", [Mixup(), LISA(), Regret(weight=1.0)])
def test_what_bends_in_the_head_in_ways_unknown_is_said(objective: Objective) -> None:
    told = trained_with(objective)
    assert (told.penalty, told.hessian) == (None, "domains")
    assert told.remark.startswith(f"The model was trained with {objective.name}, whose curvature in the head is not")
    assert trained_with(Regret(weight=0.0)).remark == ""
