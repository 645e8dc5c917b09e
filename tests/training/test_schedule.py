from __future__ import annotations

import pytest
import torch

from invariscope.errors import InputError
from invariscope.training import Schedule


def test_without_waiting_the_weight_is_full_from_the_start() -> None:
    assert [float(Schedule().weight(step, 7.0)) for step in (0, 1, 100)] == [7.0, 7.0, 7.0]


def test_waits_then_rises_in_a_straight_line() -> None:
    schedule = Schedule(wait=10, ramp=4, before=2.0)
    found = [float(schedule.weight(step, 10.0)) for step in (0, 9, 10, 11, 12, 13, 14, 99)]
    assert found == [2.0, 2.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0]
    assert schedule.full_from == 14


def test_a_weight_below_the_first_one_is_never_exceeded() -> None:
    weights = torch.tensor([0.0, 0.5, 100.0])
    assert Schedule(wait=3).weight(0, weights).tolist() == [0.0, 0.5, 1.0]


def test_rescaling_divides_by_weights_above_one_only() -> None:
    weights = torch.tensor([0.0, 0.5, 1.0, 50.0])
    assert Schedule().divisor(weights).tolist() == [1.0, 1.0, 1.0, 50.0]
    assert Schedule(rescale=False).divisor(weights).tolist() == [1.0] * 4


def test_restarts_once_when_the_full_weight_comes() -> None:
    assert [step for step in range(20) if Schedule(wait=5, ramp=2, restart=True).restarts_at(step)] == [7]
    assert not any(Schedule(restart=True).restarts_at(step) for step in range(5))


@pytest.mark.parametrize("wrong", [{"wait": -1}, {"ramp": -1}, {"before": -0.5}])
def test_refuses_negative_numbers(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="at least 0"):
        Schedule(**wrong)
