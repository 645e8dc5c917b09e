"""Results: frozen, and plain enough for JSON without losing a number or inventing one."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariscope.criteria.dric.result import DricResult
from invariscope.results import (
    EnvironmentResult,
    Estimate,
    InfluenceResult,
    Overlap,
    RegretResult,
    Result,
    plain,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.5, 1.5),
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (3, 3),
        (True, True),
        (None, None),
        ("text", "text"),
        (np.float64(2.5), 2.5),
        (np.float32(0.5), 0.5),
        (np.float64("nan"), None),
        (np.int64(7), 7),
        (np.bool_(False), False),
        (np.str_("label"), "label"),
        (np.array([1.0, np.nan]), [1.0, None]),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(2.0), 2.0),
        (np.array(["a", "b"]), ["a", "b"]),
        ((1, (2.0, math.inf)), [1, [2.0, None]]),
        ({2019: 1.0, "b": (1,)}, {"2019": 1.0, "b": [1]}),
        (Estimate(1.0, (0.5, math.nan)), {"value": 1.0, "interval": [0.5, None]}),
        (datetime.date(2020, 2, 29), "2020-02-29"),
        (np.datetime64("2020-02-29"), "2020-02-29"),
    ],
)
def test_plain_data(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(json.dumps(found, allow_nan=False)) == expected


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(json_like)
def test_whatever_comes_out_is_strict_json(value: Any) -> None:
    found = plain(value)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def regret_result() -> RegretResult:
    values: dict[str, Any] = {
        "value": 0.25,
        "notes": ("a remark",),
        "interval": (0.1, math.nan),
        "pvalue": 0.01,
        "per_environment": {2019: Estimate(0.5, (0.25, 0.75)), 2020: Estimate(math.nan)},
        "worst": 2019,
        "worst_interval": (0.2, 0.9),
        "explained": 0.5,
        "task": "regression",
        "labels": (2019, 2020),
        "columns": ("a", "(overall level)"),
        "rows": np.array([10.0, 20.0]),
        "shared_loss": np.array([1.0, 2.0]),
        "own_loss": np.array([1.0, 1.5]),
        "pairs": np.array([[0.0, 1.0], [np.nan, 0.0]]),
        "drivers": np.zeros((2, 2)),
        "statistic": 7.0,
        "null": np.array([1.0, 8.0]),
    }
    for extra in dataclasses.fields(RegretResult):
        values.setdefault(extra.name, 0.125)  # whatever number a later version adds
    return RegretResult(**values)


def test_regret_results_become_json() -> None:
    found = json.loads(json.dumps(regret_result().to_dict(), allow_nan=False))
    assert found["value"] == 0.25
    assert found["interval"] == [0.1, None]
    assert found["per_environment"] == {
        "2019": {"value": 0.5, "interval": [0.25, 0.75]},
        "2020": {"value": None, "interval": [None, None]},
    }
    assert found["pairs"] == [[0.0, 1.0], [None, 0.0]]
    assert found["null"] == [1.0, 8.0]
    assert found["notes"] == ["a remark"]
    assert set(found) == {field.name for field in dataclasses.fields(RegretResult)}


def test_large_arrays_stay_out_of_the_short_form() -> None:
    text = repr(regret_result())
    assert "value=0.25" in text
    assert "null=" not in text
    assert "pairs=" not in text


def test_results_are_frozen_and_travel() -> None:
    result = regret_result()
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 0.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Estimate(1.0).value = 0.0  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(result))
    assert again.to_dict() == result.to_dict()


def test_influence_results_name_their_leading_columns() -> None:
    result = InfluenceResult(
        value=-1.0,
        null=np.zeros(3),
        pvalue=0.25,
        labels=("a", "b"),
        parameters=("dose", "age", "(intercept)"),
        influences=np.zeros((2, 3)),
        direction=np.array([0.1, -0.9, 0.4]),
        eigenvalues=np.ones(3),
        damping=0.0,
        rank=3,
        loss="squared",
    )
    assert list(result.loadings(2)) == ["age", "(intercept)"]
    assert list(result.loadings(9)) == ["age", "(intercept)", "dose"]
    assert result.to_dict()["direction"] == [0.1, -0.9, 0.4]
    assert result.notes == ()


def test_nested_results_become_json() -> None:
    overlap = Overlap(
        labels=("a", "b"),
        effective=np.eye(2),
        effective_rows=10 * np.eye(2),
        mean_ratio=np.ones((2, 2)),
        largest=np.full((2, 2), 0.1),
        beyond_cap=np.zeros((2, 2)),
        reached=np.ones((2, 2)),
        cap=20.0,
        calibration=np.array([0.01, 0.02]),
        pair_verdicts=(("good", "none"), ("none", "good")),
        pooled=np.array([0.5, np.nan]),
        verdicts=("good", "weak"),
    )
    dric = DricResult(
        value=0.5,
        log10=-math.inf,
        numerator=0.0,
        denominator=1.0,
        labels=("a", "b"),
        pairs=np.zeros((2, 2)),
        overlap=overlap,
    )
    found = json.loads(json.dumps(dric.to_dict(), allow_nan=False))
    assert found["log10"] is None
    assert found["overlap"]["pooled"] == [0.5, None]
    risks = EnvironmentResult(value=1.0, per_environment={"a": Estimate(1.0)}, worst="a", unit="share")
    assert risks.to_dict()["interval"] == [None, None]
    assert Result(value=math.nan, notes=("too few rows",)).to_dict() == {"value": None, "notes": ["too few rows"]}
