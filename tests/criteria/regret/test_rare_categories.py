"""Categories so rare that all of their rows in an environment share one class: own heads run off to infinity there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import invariscope as iv


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("case", range(8))
def test_rare_categories_leave_the_regret_small(case: int, classes: int, seed: int) -> None:
    rng = np.random.default_rng([seed, case])
    levels, share = int(rng.integers(4, 21)), rng.uniform(0.0025, 0.01)
    level = rng.choice(levels, 2000, p=[1 - (levels - 1) * share] + [share] * (levels - 1))
    chances = [0.7, 0.3] if classes == 2 else [0.5, 0.3, 0.2]
    y, env = rng.choice(classes, 2000, p=chances), np.repeat(["F", "M"], 1000)
    found = iv.regret(np.eye(levels)[level], y, env, n_boot=99)
    assert all(abs(estimate.value) < 0.03 * (classes - 1) for estimate in found.per_environment.values())
    assert all(0.4 < loss < 1.1 for loss in (*found.shared_loss, *found.own_loss))
    assert found.explained < 0.01


@pytest.mark.slow  # 32,000 real rows with a hundred columns
@pytest.mark.parametrize("environments", ["workclass", "native-country"])
def test_income_in_small_environments(
    environments: str, data_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of the shared head run away as well, further than those of a larger environment's own head."""
    monkeypatch.setenv("INVARISCOPE_DATA", str(data_file("adult/adult.data").parents[1]))
    found = iv.regret(*iv.datasets.adult(environments=environments).train, n_boot=199)
    assert all(abs(estimate.value) < 0.2 for estimate in found.per_environment.values())
    assert -0.3 < found.interval[0] < found.interval[1] < 0.5
    assert all(0.1 < loss < 0.5 for loss in (*found.shared_loss, *found.own_loss))
    assert found.pvalue > 0.1


@pytest.mark.slow  # 32,000 real rows with a hundred columns
def test_income_by_sex(data_file: Callable[[str], Path]) -> None:
    """Census data, one-hot encoded: 42 countries, some with a handful of rows."""
    names = [
        "age",
        "workclass",
        "weight",
        "education",
        "years",
        "marital",
        "occupation",
        "relationship",
        "race",
        "sex",
        "gain",
        "loss",
        "hours",
        "country",
        "income",
    ]
    frame = pd.read_csv(data_file("adult/adult.data"), header=None, names=names, skipinitialspace=True)
    words = ["workclass", "education", "marital", "occupation", "relationship", "race", "country"]
    encoder = make_column_transformer(
        (OneHotEncoder(), words), (StandardScaler(), ["age", "years", "gain", "loss", "hours"])
    )
    model = make_pipeline(encoder, LogisticRegression(max_iter=300)).fit(frame, frame.income)
    found = iv.audit(model, frame, frame.income, frame.sex, criteria=["regret"], n_boot=199)["regret"]
    assert found.explained == pytest.approx(0.39, abs=0.02)
    assert found.shared_loss == pytest.approx([0.182, 0.389], abs=0.003)  # women, men; unpenalised
    assert all(0 < estimate.value < 0.03 for estimate in found.per_environment.values())
