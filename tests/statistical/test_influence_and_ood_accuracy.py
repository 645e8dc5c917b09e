"""Figures 2, 3 and 6 of the influence paper: what V and the conditional information tell on coloured digits."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "influence_and_ood_accuracy.py"
SMALL = {"rows": 4000, "hidden": 48, "models": 2, "before": 150, "after": 150, "batch": 500}


@cache
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("influence_and_ood_accuracy", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("objective", ["vrex", "irm"])
def test_models_of_lower_v_do_better_where_colours_are_turned_round(mnist: None, objective: str) -> None:
    """Two domains, a fifth of the page's table: two models for each of three weights; all keep their accuracy."""
    found = example().figure3("two domains", objective, example().Size(**SMALL), 0, (0.0, 100.0, 1000.0))
    kept = [model for model in found if model.keeps_accuracy]
    assert len(kept) >= 5
    assert max(model.ood for model in kept) - min(model.ood for model in kept) > 0.3
    assert example().correlation(kept, "V of the risks") < -0.8
    assert example().correlation(kept, "V") < -0.8
    assert example().correlation(kept, "I(E; Y | ŷ)") < -0.8


def test_v_of_erm_grows_with_the_distance_of_the_domains(mnist: None) -> None:
    x, V, shuffled = example().figure2(example().Size(**SMALL), 0, points=5)
    assert pearsonr(x, V).statistic > 0.9
    assert abs(V[0] - shuffled[0]) < 1.0  # where domains do not differ V is where its shuffles are
    assert np.all(V[2:] > shuffled[2:] + 0.5)


def test_the_worst_domain_is_an_end(mnist: None) -> None:
    """Accuracy is linear in the rate at which colours disagree: rows of any p are a mixture of the two ends."""
    data = example().digits((0.0, 0.1), 3000, 0)
    assert [len(part[1]) for part in (data.seen, data.held_out, data.worst)] == [3000, 750, 3750]
    assert not set(np.unique(data.worst[2])) & set(np.unique(data.seen[2]))
    images = [{row.tobytes() for row in part[0]} for part in (data.seen, data.held_out, data.worst)]
    assert not images[0] & images[1]  # who is judged was not trained on
    assert not images[0] & images[2]


@pytest.mark.calibration
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("objective", "setting", "name"),
    [
        ("vrex", "two domains", "V"),
        ("vrex", "five domains", "V"),
        ("irm", "two domains", "V"),
        ("irm", "two domains", "V of the risks"),
        *((objective, f"{many} domains", "I(E; Y | ŷ)") for objective in ("vrex", "irm") for many in ("two", "five")),
    ],
)
def test_figures_3_and_6(mnist: None, objective: str, setting: str, name: str, seed: int) -> None:
    """The page's table, among models that keep their accuracy; where -0.8 is not reached it is not here, but there."""
    found = models(setting, objective, seed)
    assert example().correlation([model for model in found if model.keeps_accuracy], name) <= -0.8


@pytest.mark.calibration
@pytest.mark.parametrize("seed", [0, 1])
def test_figure_2(mnist: None, seed: int) -> None:
    x, V, _ = example().figure2(example().Size(hidden=128), seed)
    assert pearsonr(x, V).statistic >= 0.97


@cache
def models(setting: str, objective: str, seed: int) -> list[Any]:
    return example().figure3(setting, objective, example().Size(), seed)


@pytest.fixture
def mnist(data_dir: Path) -> None:
    if not (data_dir / "mnist").is_dir():
        pytest.skip("needs the MNIST files")
