"""What an audit is told about how a model was trained."""

from __future__ import annotations

import pytest

from invariscope.models.trained_with import TrainedWith, trained_with
from invariscope.objectives import ERM, IRM, VREx
from invariscope.objectives.objective import Objective


@pytest.mark.parametrize(
    ("objective", "scale", "expected"),
    [
        (ERM(), 2.0, TrainedWith("erm", None, 0.0)),
        (IRM(weight=8.0, form="square"), 1.0, TrainedWith("irm", "irm", 8.0)),
        (IRM(weight=8.0, form="split"), 1.0, TrainedWith("irm", "irm_split", 8.0)),
        (VREx(weight=8.0), 2.0, TrainedWith("vrex", "vrex", 2.0)),  # of a target that was halved: by its square
        (VREx(weight=0.0), 1.0, TrainedWith("vrex", None, 0.0)),
    ],
)
def test_penalties_are_told_in_units_of_the_target(objective: Objective, scale: float, expected: TrainedWith) -> None:
    assert trained_with(objective, scale) == expected
