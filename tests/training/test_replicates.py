from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.models.torch_networks import mlp
from invariscope.objectives import REGISTRY, objective_of
from invariscope.training import Rows, Schedule, Settings, train, train_replicates
from tests.training.conftest import built, every_objective, made_rows

WEIGHTS = (0.0, 0.5, 20.0)
slow = pytest.mark.slow  # 133 trainings for a task; several classes take the way of one output and more


def assert_as_one_by_one(
    build: partial[object], rows: object, name: str, settings: Settings, seed: int, held_out: object = None
) -> None:
    """Every model of a joint training has the parameters it gets when it is trained alone."""
    seeds = (seed, seed + 1)
    objective = objective_of(name)
    if objective.ratio_on is not None:
        objective = objective_of(name, options={"refresh": 7})
    many = train_replicates(build, rows, objective, seeds=seeds, weights=WEIGHTS, settings=settings, held_out=held_out)  # type: ignore[arg-type]
    assert len(many) == 6
    for model in range(6):
        place, weight = divmod(model, 3)
        assert (many.seeds[model], many.weights[model]) == (seeds[place], WEIGHTS[weight])
        with torch.random.fork_rng():
            torch.manual_seed(seeds[place])
            network = build()
        one = train(
            network,
            rows if isinstance(rows, Rows) else rows[place],  # type: ignore[index]
            objective_of(objective, WEIGHTS[weight]),
            settings=settings,
            held_out=held_out if isinstance(held_out, Rows | None) else held_out[place],  # type: ignore[index]
            seed=seeds[place],
        )
        assert one.kept_step == many.kept_step[model]
        for key, value in one.network.state_dict().items():
            torch.testing.assert_close(many.parameters[key][model], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "task", [pytest.param("regression", marks=slow), pytest.param("binary", marks=slow), "multiclass"]
)
@pytest.mark.parametrize("name", every_objective())
def test_models_trained_at_once_are_those_trained_alone(name: str, task: str, seed: int) -> None:
    build = partial(mlp, 3, 3 if task == "multiclass" else 1, (5,), activation="tanh", dropout=0.2)
    settings = Settings(steps=15, batch_size=10, schedule=Schedule(wait=5, ramp=5))
    assert_as_one_by_one(build, made_rows(seed, task), name, settings, seed)


@slow
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_with_all_rows_at_every_step(name: str, seed: int) -> None:
    assert_as_one_by_one(partial(mlp, 3, 1, (5,)), made_rows(seed), name, Settings(steps=15), seed)


@pytest.mark.parametrize("batch_size", [None, 8])
def test_stops_every_model_where_it_stops_alone(batch_size: int | None, seed: int) -> None:
    rows, held_out = made_rows(seed, sizes=(20, 20), columns=6).halved(0.4, seed)
    settings = Settings(steps=400, batch_size=batch_size, learning_rate=0.03, check_every=4, patience=3)
    assert_as_one_by_one(partial(mlp, 6, 1, (24,)), rows, "vrex", settings, seed, held_out)


@pytest.mark.parametrize("name", ["irm", "lisa", pytest.param("transport_gap", marks=slow), "group_dro"])
@pytest.mark.parametrize("batch_size", [None, 9])
def test_every_seed_may_have_its_own_draw_of_the_data(name: str, batch_size: int | None, seed: int) -> None:
    pairs = [made_rows(seed + k).halved(0.2, seed) for k in range(2)]
    rows, held_out = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    settings = Settings(steps=15, batch_size=batch_size, check_every=5)
    assert_as_one_by_one(partial(mlp, 3, 1, (4,)), rows, name, settings, seed, held_out)


def test_one_of_the_models_alone(seed: int) -> None:
    rows = made_rows(seed)
    many = train_replicates(partial(mlp, 3, 1, (4,)), rows, "vrex", seeds=(0, 1), weights=(1, 2), settings=Settings(5))
    logits, features = many(rows.inputs[0])
    assert logits.shape == (4, 30, 1)
    assert features.shape == (4, 30, 4)
    torch.testing.assert_close(many.network(3)(rows.inputs[0])[0], logits[3])
    assert many.history["loss"].shape[1] == 4
    assert not many.diverged.any()


def test_one_model_that_diverges_leaves_the_others_alone(seed: int) -> None:
    rows = made_rows(seed)
    settings = Settings(steps=200, optimiser="sgd", learning_rate=0.05, schedule=Schedule(rescale=False))
    many = train_replicates(partial(mlp, 3, 1, ()), rows, "vrex", weights=(0.0, 1e6), settings=settings)
    assert many.diverged.tolist() == [False, True]
    assert np.isfinite(many.history["loss"][:, 0]).all()


@pytest.mark.parametrize(
    ("layer", "message"), [(nn.BatchNorm1d(4), "running statistics"), (nn.Dropout(), "random numbers by itself")]
)
def test_refuses_layers_with_a_state_of_their_own(layer: nn.Module, message: str) -> None:
    network = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 1))
    with pytest.raises(InputError, match=message):
        train_replicates(lambda: network, made_rows(0))


def test_refuses_draws_that_do_not_match_the_seeds() -> None:
    with pytest.raises(InputError, match="1 draws of the data for 2 seeds"):
        train_replicates(partial(built, 0), [made_rows(0)], seeds=(0, 1))


@pytest.mark.parametrize("wrong", ["10", np.nan, -1])
def test_refuses_weights_that_are_none(wrong: object) -> None:
    with pytest.raises(InputError, match=r"^a penalty weight is .*: give a number of at least 0$"):
        train_replicates(partial(built, 0), made_rows(0), "vrex", weights=(1.0, wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [-1, 0.5, True])
def test_refuses_seeds_that_are_none(wrong: float) -> None:
    with pytest.raises(InputError, match="seed is"):
        train_replicates(partial(built, 0), made_rows(0), seeds=(wrong,))  # type: ignore[arg-type]


def test_says_what_build_seeds_and_weights_should_be() -> None:
    with pytest.raises(InputError, match="function without arguments"):
        train_replicates(mlp(3, 1, ()), made_rows(0))  # type: ignore[arg-type]
    for wrong in ({"seeds": 3}, {"weights": 3}, {"seeds": ()}, {"weights": []}):
        with pytest.raises(InputError, match="give a list"):
            train_replicates(partial(built, 0), made_rows(0), "vrex", **wrong)  # type: ignore[arg-type]


def test_prints_short() -> None:
    rows = made_rows(0)
    assert repr(rows) == "<Rows for regression; site 0: 30, site 1: 40>"
    many = train_replicates(partial(built, 0), rows, "vrex", seeds=(0, 1), weights=(1, 2, 3), settings=Settings(2))
    assert repr(many) == "<Replicates: 6 models by vrex; 2 seeds, 3 weights>"
