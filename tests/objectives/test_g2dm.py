"""Several discriminators: by hand, their weights, and what each side learns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from invariscope.errors import InputError
from invariscope.objectives import G2DM, Batch
from invariscope.objectives.g2dm import discriminator_risk, g2dm_penalty, one_against_rest_losses
from tests.objectives.finite_differences import assert_gradient


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def losses_in_loops(scores: list[Tensor], swapped: bool) -> list[float]:
    result = []
    for k in range(len(scores)):
        environments = []
        for place, rows in enumerate(scores):
            label = (place == k) != swapped
            environments.append(sum(math.log1p(math.exp(-s if label else s)) for s in rows[:, k].tolist()) / len(rows))
        result.append(sum(environments) / len(environments))
    return result


@pytest.mark.parametrize("swapped", [False, True])
def test_losses_equal_loops(swapped: bool, seed: int) -> None:
    scores = [normal(seed + rows, rows, 3) for rows in (2, 5, 4)]
    found = one_against_rest_losses(scores, swapped)
    assert found.tolist() == pytest.approx(losses_in_loops(scores, swapped), rel=1e-10)


def test_penalty_by_hand() -> None:
    # D_1 is sure and right by a score of log 3 (swapped loss log 4), D_2 guesses (log 2)
    sure = math.log(3.0)
    features = [torch.tensor([[1.0]]).double(), torch.tensor([[-1.0]]).double()]
    found = g2dm_penalty(None, None, features, discriminators=lambda z: torch.cat([sure * z, 0 * z], dim=1), slack=2.0)
    nadir = 2 * math.log(4)
    expected = -(math.log(nadir - math.log(4)) + math.log(nadir - math.log(2))) / 2
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_features_follow_the_gradient_with_the_nadir_held_fixed(seed: int) -> None:
    features, head = [normal(seed, 3, 2), normal(seed + 1, 4, 2), normal(seed + 2, 2, 2)], normal(seed + 3, 2, 3)
    nadir = 1.5 * max(losses_in_loops([rows @ head for rows in features], swapped=True))

    def held(*rows: Tensor) -> Tensor:
        return -torch.log(nadir - one_against_rest_losses([part @ head for part in rows], swapped=True)).mean()

    assert_gradient(held, *features)
    for which in range(3):
        found = torch.func.grad(
            lambda *rows: g2dm_penalty(None, None, rows, discriminators=lambda z: z @ head), argnums=which
        )(*features)
        torch.testing.assert_close(found, torch.func.grad(held, argnums=which)(*features))


def test_the_discriminator_that_sees_most_clearly_counts_most() -> None:
    features = [torch.tensor([[1.0]]).double(), torch.tensor([[-1.0]]).double()]

    def value(sharpness: Tensor) -> Tensor:
        return g2dm_penalty(
            None, None, features, discriminators=lambda z: z * torch.stack([sharpness[0], -sharpness[1]])
        )

    slopes = torch.func.grad(value)(torch.tensor([3.0, 0.5]).double())
    swapped = [math.log1p(math.exp(3.0)), math.log1p(math.exp(0.5))]  # L_k at these scores, and its slope below
    expected = [
        1 / (1 + math.exp(-s)) / (1.5 * swapped[0] - loss) / 2 for s, loss in zip((3.0, 0.5), swapped, strict=True)
    ]
    assert slopes.tolist() == pytest.approx(expected, rel=1e-9)
    assert expected[0] > 2 * expected[1]


@pytest.mark.slow
def test_discriminators_learn_by_the_same_descent_and_projections_stay(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    features = tuple(torch.randn(30, 3, generator=generator) + 2 * shift for shift in (-1.0, 0.0, 1.0))
    batch = Batch(tuple(z[:, :1] for z in features), tuple(z[:, 0] for z in features), features, "regression")
    objective = G2DM(hidden=16)
    start = adversary = objective.adversary(3, 3, 1, generator)
    assert adversary["projection"].shape == (3, 2, 3)  # three quarters of three columns

    def risk(given: dict[str, Tensor]) -> float:
        total = 0.0
        for k in range(3):
            seen = [rows @ given["projection"][k].T for rows in features]
            hidden = [
                torch.nn.functional.gelu(rows @ given["hidden_weight"][k].T + given["hidden_bias"][k]) for rows in seen
            ]
            for place, rows in enumerate(hidden):
                scores = rows @ given["output_weight"][k] + given["output_bias"][k]
                total += float(torch.nn.functional.softplus(-scores if place == k else scores).mean()) / 9
        return total

    for _ in range(200):
        gradient = torch.func.grad(lambda given: objective.penalty(batch, given))(adversary)
        adversary = {name: parameter - gradient[name] for name, parameter in adversary.items()}
    assert torch.equal(adversary["projection"], start["projection"])
    assert risk(adversary) < 0.8 * risk(start)


def test_projections_keep_the_lengths_of_features_on_average(seed: int) -> None:
    start = G2DM(projection=0.25).adversary(400, 3, 1, torch.Generator().manual_seed(seed))
    assert start["projection"].shape == (3, 100, 400)
    assert float((start["projection"] ** 2).mean()) == pytest.approx(1 / 100, rel=0.05)


def test_risk_of_discriminators_that_guess_is_log_two() -> None:
    guess = discriminator_risk([torch.zeros(2, 1), torch.ones(3, 1)], lambda z: torch.zeros(len(z), 2))
    assert float(guess) == pytest.approx(math.log(2), rel=1e-6)


def test_input_that_does_not_fit_is_named() -> None:
    features = [torch.zeros(2, 1), torch.zeros(2, 1)]
    with pytest.raises(InputError, match=r"slack 1\.0 leaves no room"):
        g2dm_penalty(None, None, features, discriminators=lambda z: torch.zeros(len(z), 2), slack=1.0)
    with pytest.raises(InputError, match="one column for each of the 2 environments"):
        g2dm_penalty(None, None, features, discriminators=lambda z: torch.zeros(len(z), 3))
