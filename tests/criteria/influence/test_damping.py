"""Damping of Hessians that a penalty has bent down: no direction ends up nearer to zero than the floor that is told."""

from __future__ import annotations

import math

import numpy as np
import pytest

from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.influence.inverse import Curvatures, choose_damping, noise_level
from invariscope.datasets.images.colored import colored_digits
from invariscope.heads.linear_head import LinearHead

ROWS = 900.0
SPECTRA = {
    "healthy": ([0.5, 1.0, 2.0], [0.5, 1.0, 2.0]),
    "steep on purpose": ([0.5, 1.0, 2000.0], [0.5, 1.0, 2.0]),
    "negative, risks healthy": ([-3.0, 0.4, 2.0], [0.5, 1.0, 2.0]),
    "negative, risks nearly flat": ([-3.0, 0.4, 2.0], [1e-9, 1.0, 2.0]),
    "negative just as much as the noise": ([-0.0816, 0.4, 2.0], [1e-9, 1.0, 2.0]),
    "several negative": ([-3.0, -2.999, -1.0], [1e-9, 1e-6, 2.0]),
    "positive, but nearly flat": ([1e-9, 0.4, 2.0], [0.5, 1.0, 2.0]),
}


def curvatures(values: list[float]) -> Curvatures:
    return Curvatures(np.sort(values), np.sort(values))


@pytest.mark.parametrize("name", SPECTRA)
def test_no_direction_ends_up_nearer_to_zero_than_the_floor(name: str) -> None:
    """Also where damping and the lowest eigenvalue would cancel: the risks' own curvature may be almost 0."""
    whole, risks = SPECTRA[name]
    chosen = choose_damping("auto", curvatures(whole), curvatures(risks), ROWS)
    noise = noise_level(np.array(risks), ROWS)
    assert chosen.floor == pytest.approx(noise)
    assert np.min(np.array(whole) + chosen.added) >= noise * (1 - 1e-9)
    assert (chosen.added == 0) == (name in ("healthy", "steep on purpose"))
    # a deal with another lowest curvature is damped to the same floor
    lowest = np.array([-50.0, -noise, 0.0, noise, 1.0])
    assert np.all(lowest + chosen.of(lowest) >= noise * (1 - 1e-9))


def test_a_number_that_cancels_a_curvature_is_added_as_given_and_said() -> None:
    chosen = choose_damping(3.0, curvatures([-3.0, 0.4, 2.0]), curvatures([0.5, 1.0, 2.0]), ROWS)
    assert chosen.added == 3.0
    assert any("With this damping a direction is left within 0 of zero" in note for note in chosen.notes)
    some = choose_damping(1.0, curvatures([-3.0, 0.4, 2.0]), curvatures([0.5, 1.0, 2.0]), ROWS)
    assert any("It still has some with this damping." in note for note in some.notes)
    enough = choose_damping(4.0, curvatures([-3.0, 0.4, 2.0]), curvatures([0.5, 1.0, 2.0]), ROWS)
    assert not any("damping" in note for note in enough.notes)


def test_colored_digits_under_a_heavy_irm_penalty(seed: int) -> None:
    """A head short of its best scale, on features whose risk is nearly flat along some: the lowest eigenvalue is far
    below 0, and V would be that of a division by nothing if what is added cancelled it to the last digits."""
    data = colored_digits((0.1, 0.2), n=400, seed=seed)
    rng = np.random.default_rng(seed)
    pixels = np.asarray(data.X, dtype=float)
    hidden = np.maximum(pixels @ rng.normal(size=(pixels.shape[1], 24)) / 8, 0.0)
    features = np.column_stack([hidden, hidden[:, :2] + 1e-4 * rng.normal(size=(len(hidden), 2))])
    features /= features.std(axis=0)
    target, weight = np.asarray(data.y), np.zeros(26)
    weight[:24] = 0.3 * np.linalg.lstsq(hidden - hidden.mean(axis=0), target - target.mean(), rcond=None)[0]
    head = LinearHead(weight, -float(features.mean(axis=0) @ weight))
    given = {"head": head, "penalty": "irm", "penalty_weight": 1000.0, "n_boot": 0}
    found = influence_index(features, target, data.env, **given)
    as_it_is = influence_index(features, target, data.env, **given, damping=0.0)
    assert as_it_is.eigenvalues[-1] < -1.0
    assert found.without_penalty is not None
    risks = influence_index(features, target, data.env, head=head, n_boot=0, damping=0.0).eigenvalues
    noise = noise_level(risks, len(target))
    assert risks[-1] < 1e-3 * noise
    # without what bends the objective down, every direction is at least as steep as for the risks
    assert np.all(found.eigenvalues >= risks * (1 - 1e-9))
    assert np.min(found.eigenvalues + found.damping) >= noise
    assert any("in the form of Gauss and Newton" in note for note in found.notes)
    # the other choice: just so much as to leave the flattest curvature of the risks
    cancelling = float(risks[-1] - as_it_is.eigenvalues[-1])
    old = influence_index(features, target, data.env, **given, damping=cancelling)
    assert old.value > found.value + 5.0
    assert math.isfinite(found.value)


def test_noise_of_unequal_environments_is_that_of_as_many_rows_as_count(seed: int) -> None:
    """Domains count the same, so 60, 100 and 40 rows are as noisy as 9 / (1/60 + 1/100 + 1/40) that count alike; two
    columns that are nearly one make a direction flatter than that, and the noise is added."""
    rng, sizes = np.random.default_rng(seed), np.array([60, 100, 40])
    env = np.repeat(["a", "b", "c"], sizes)
    Z = rng.normal(size=(200, 3))
    Z = np.column_stack([Z, Z[:, 0] + 0.02 * rng.normal(size=200)])
    y = Z[:, 0] + 0.5 * (env == "c") * Z[:, 1] + rng.normal(size=200) * (1 + (env == "b"))
    design = np.column_stack([Z, np.ones(200)])
    curved = [design[env == label].T @ design[env == label] / np.sum(env == label) for label in "abc"]
    for shares in (np.full(3, 1 / 3), sizes / 200):
        spectrum = np.linalg.eigvalsh(np.tensordot(shares, curved, axes=1))
        noise = math.sqrt(spectrum[-1] * spectrum.sum() * np.sum(shares**2 / sizes))
        assert spectrum[0] < noise
        given = {"head": LinearHead(np.array([0.5, 0.1, 0.05, 0.4]), 0.2), "n_boot": 0}
        found = influence_index(Z, y, env, **given, hessian=dict(zip("abc", shares, strict=True)))
        assert found.damping == pytest.approx(noise)
