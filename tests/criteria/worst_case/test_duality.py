"""Every curve against a linear program over transport plans, and against a slow search: two independent routes."""

from __future__ import annotations

import numpy as np
import pytest

from invariscope import LinearHead, worst_case
from tests.reference import worst_case as slow


def problem(classes: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, classes, d])
    W, b = rng.normal(size=(classes, d)), 0.3 * rng.normal(size=classes)
    Z = rng.normal(size=(3, d))
    return W, b, Z, rng.integers(0, classes, 3)


SHAPES = [(2, 1), (3, 1), (2, 2), (3, 2)]
RADIUS = 0.4


@pytest.mark.parametrize(("classes", "d"), SHAPES)
@pytest.mark.parametrize("name", ["log_loss", "hinge"])
def test_no_transport_plan_beats_the_curve_and_one_comes_close(name: str, classes: int, d: int, seed: int) -> None:
    """The loss is convex, so a place h/2 beside the best costs at most γh²/4 per dimension; plans reach no more."""
    W, b, Z, y = problem(classes, d, seed)
    result = worst_case(LinearHead(W, b), Z, y, loss=name, radii=[RADIUS], n_boot=0)
    reach = 3 * RADIUS  # one of three rows can take all of the budget: √3 ρ
    steps = 2001 if d == 1 else 91
    spacing = 2 * reach / (steps - 1)
    places = slow.grid(Z, reach, steps)
    primal = slow.by_transport(slow.losses_at(name, W, b, places, y), Z, places, RADIUS)
    assert primal <= result.upper[0] + 1e-9
    assert result.lower[0] <= result.loss[0] <= result.upper[0]
    slack = 1.2 * d * result.gamma[0] * spacing**2 / 4 + 1e-6
    assert slack < 3e-3
    assert result.lower[0] - primal < slack


@pytest.mark.parametrize(("classes", "d"), SHAPES)
def test_error_rates_are_those_of_the_best_transport_plan(classes: int, d: int, seed: int) -> None:
    W, b, Z, y = problem(classes, d, seed)
    for radius in (0.0, 0.3, RADIUS, 3.0):
        places = np.stack([slow.error_places(W, b, z, int(label)) for z, label in zip(Z, y, strict=True)])
        primal = slow.by_transport(slow.losses_at("zero_one", W, b, places, y), Z, places, radius)
        found = worst_case(LinearHead(W, b), Z, y, loss="zero_one", radii=[radius], n_boot=0)
        assert found.loss[0] == pytest.approx(primal, abs=1e-7)


@pytest.mark.parametrize("outputs", [1, 2])
def test_squared_errors_are_those_of_the_best_transport_plan(outputs: int, seed: int) -> None:
    rng = np.random.default_rng([seed, outputs])
    d = outputs
    W, b, Z = rng.normal(size=(outputs, d)), rng.normal(size=outputs), rng.normal(size=(3, d))
    y = rng.normal(size=(3, outputs))
    result = worst_case(LinearHead(W, b), Z, y if outputs > 1 else y[:, 0], loss="squared", radii=[RADIUS], n_boot=0)
    steps = 2001 if d == 1 else 91
    places = slow.grid(Z, 3 * RADIUS, steps)
    primal = slow.by_transport(((places @ W.T + b - y[:, None, :]) ** 2).sum(axis=2), Z, places, RADIUS)
    slack = 1.2 * d * result.gamma[0] * (6 * RADIUS / (steps - 1)) ** 2 / 4 + 1e-6
    assert primal - 1e-9 <= result.loss[0] < primal + slack
    assert slack < 5e-3 * result.loss[0]


@pytest.mark.parametrize("name", [pytest.param("log_loss", marks=pytest.mark.slow), "hinge"])
def test_a_slow_search_finds_the_same_curve(name: str, seed: int) -> None:
    W, b, Z, y = problem(3, 2, seed)
    radii = np.array([0.2, 1.5])
    result = worst_case(LinearHead(W, b), Z, y, loss=name, radii=radii, n_boot=0)
    for radius, loss, gamma in zip(radii, result.loss, result.gamma, strict=True):
        expected = slow.by_duality(name, W, b, Z, y, float(radius), (gamma / 3, gamma * 3))
        assert loss == pytest.approx(expected, rel=2e-5)
