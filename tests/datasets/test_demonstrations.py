"""What the demonstrations show: models that predict, and whose columns have names people can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import invariscope as iv
from invariscope.datasets import demonstrations


def test_the_model_of_the_bikes_predicts_and_can_be_read(
    data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file("bike_sharing/hour.csv").parents[1]))
    shown = demonstrations.bikes()
    assert shown.model.score(shown.X, shown.y) > 0.75  # of another year
    halves = iv.split(shown.model)
    assert halves.head is not None
    columns = halves.columns(shown.X)
    assert len(columns) <= 60
    assert {"8:00 on working days", "17:00 on days off", "rain or snow", "temperature", "humidity"} <= set(columns)
    assert not [name for name in columns if "_" in name]


def test_the_model_of_the_digits_predicts() -> None:
    shown = demonstrations.digits()
    assert shown.model.score(shown.X, shown.y) > 0.6
    assert shown.X.shape == (898, 17)
