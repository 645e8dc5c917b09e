"""What a training keeps, judges, stores and leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.models.torch_networks import linear, mlp
from invariscope.objectives import DANN, DRIC, ERM, GroupDRO, TransportGap, VREx, objective_of
from invariscope.training import Rows, Schedule, Settings, Trained, train, train_replicates
from tests.training.conftest import assert_same, built, made_rows

ONE_STEP = Settings(steps=1, optimiser="sgd", learning_rate=0.1, momentum=0.0)


def test_weight_decay_is_half_the_squared_parameters() -> None:
    rows, network = made_rows(0), linear(3, 1).double()
    plain = train(network, rows, "erm", settings=ONE_STEP).network.represent.weight
    settings = Settings(steps=1, optimiser="sgd", learning_rate=0.1, momentum=0.0, weight_decay=0.5)
    decayed = train(network, rows, "erm", settings=settings).network.represent.weight
    torch.testing.assert_close(plain - decayed, 0.1 * 0.5 * network.represent.weight)


def test_weight_decay_is_divided_along_with_the_rest() -> None:
    """At a weight of 1000 it must not count a thousand times as much as the risk."""
    rows, network = made_rows(0), linear(3, 1).double()
    moved = []
    for decay in (0.0, 0.5):
        settings = Settings(1, optimiser="sgd", learning_rate=0.1, momentum=0.0, weight_decay=decay)
        moved.append(train(network, rows, VREx(1000.0), settings=settings).network.represent.weight)
    torch.testing.assert_close(moved[0] - moved[1], 0.1 * 0.5 / 1000 * network.represent.weight)


def test_the_optimiser_starts_afresh_when_the_full_weight_comes() -> None:
    """Adam's first step has the size of the learning rate in every parameter, whatever the gradient."""
    rows, network = made_rows(0), linear(3, 1).double()

    def after(steps: int, restart: bool) -> torch.Tensor:
        settings = Settings(steps, learning_rate=0.01, schedule=Schedule(wait=20, restart=restart))
        weight: torch.Tensor = train(network, rows, VREx(50.0), settings=settings).network.represent.weight
        return weight.detach()

    first_step = (after(21, True) - after(20, True)).abs()
    torch.testing.assert_close(first_step, torch.full_like(first_step, 0.01), rtol=1e-4, atol=0)
    assert not torch.allclose((after(21, False) - after(20, False)).abs(), first_step, rtol=0.01)


def test_held_out_rows_are_judged_with_the_penalty_and_without_dropout(seed: int) -> None:
    rows, held_out = made_rows(seed).halved(0.4, seed)
    assert held_out is not None
    settings = Settings(steps=30, check_every=10)
    trained = train(built(seed, dropout=0.5), rows, VREx(7.0), settings=settings, held_out=held_out, seed=seed)
    with torch.no_grad():
        errors = [trained.network(x)[0][:, 0] - y for x, y in zip(held_out.inputs, held_out.targets, strict=True)]
    first, second = (float((error**2).mean()) for error in errors)
    expected = (first + second) / 2 + 7.0 * ((first - second) / 2) ** 2
    assert np.nanmin(trained.history["held_out"]) == pytest.approx(expected)


def test_with_an_adversary_held_out_rows_are_judged_by_the_risk_alone(seed: int) -> None:
    rows, held_out = made_rows(seed).halved(0.4, seed)
    assert held_out is not None
    settings = Settings(steps=30, check_every=10)
    trained = train(built(seed), rows, DANN(1000.0), settings=settings, held_out=held_out, seed=seed)
    with torch.no_grad():
        errors = [trained.network(x)[0][:, 0] - y for x, y in zip(held_out.inputs, held_out.targets, strict=True)]
    assert np.nanmin(trained.history["held_out"]) == pytest.approx(np.mean([float((e**2).mean()) for e in errors]))
    assert np.all(1000.0 * np.abs(trained.history["penalty"]) > 0.01)  # what a discriminator knows would show


def test_running_statistics_are_kept_from_the_best_step(seed: int) -> None:
    rows, held_out = made_rows(seed, sizes=(12, 12), columns=8).halved(0.4, seed)
    assert held_out is not None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))
    settings = Settings(steps=600, learning_rate=0.02, check_every=5, patience=5)
    trained = train(network, rows, "erm", settings=settings, held_out=held_out, seed=seed)
    risks = []
    for x, y in zip(held_out.inputs, held_out.targets, strict=True):
        risks.append(float(((trained(x)[0][:, 0] - y) ** 2).mean()))
    assert trained.kept_step < trained.history["step"][-1]
    assert np.mean(risks) == pytest.approx(np.nanmin(trained.history["held_out"]))


def test_density_ratios_on_features_are_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from invariscope.training import program

    fitted = []
    original = program.log_densities_of
    monkeypatch.setattr(program, "log_densities_of", lambda *a, **k: fitted.append(1) or original(*a, **k))  # type: ignore[func-returns-value]
    train(built(0), made_rows(0), TransportGap(refresh=5), settings=Settings(steps=17))
    assert len(fitted) == 4  # before steps 0, 5, 10 and 15
    fitted.clear()
    train(built(0), made_rows(0), DRIC(on="x", refresh=5), settings=Settings(steps=17))
    assert len(fitted) == 1


# --- checkpoints ------------------------------------------------------------------------------------------------------
def both(file: Path, run: Callable[[Path | None, int], Trained], steps: int, first: int) -> tuple[Trained, Trained]:
    straight = run(None, steps)
    run(file, first)
    return straight, run(file, steps)


@pytest.mark.parametrize("steps", [5, 25, 30])
def test_a_finished_training_is_found_again(steps: int, tmp_path: Path, seed: int) -> None:
    rows, held_out = made_rows(seed).halved(0.3, seed)

    def run(file: Path | None, steps: int) -> Trained:
        return train(built(seed), rows, settings=Settings(steps), held_out=held_out, seed=seed, checkpoint=file)

    straight, again = both(tmp_path / "done.safetensors", run, steps, steps)
    assert_same(straight.network, again.network)
    assert straight.kept_step == again.kept_step > 0
    for key, values in straight.history.items():
        np.testing.assert_array_equal(values, again.history[key])


@pytest.mark.parametrize("first", [40, 60, 80])
def test_patience_goes_on_where_it_was(first: int, tmp_path: Path, seed: int) -> None:
    rows, held_out = made_rows(seed, sizes=(12, 12), columns=8).halved(0.4, seed)

    def run(file: Path | None, steps: int) -> Trained:
        settings = Settings(steps, learning_rate=0.03, check_every=5, patience=8)
        network = built(seed, inputs=8, hidden=(32,))
        return train(network, rows, settings=settings, held_out=held_out, seed=seed, checkpoint=file)

    straight, resumed = both(tmp_path / "half.safetensors", run, 3000, first)
    assert_same(straight.network, resumed.network)
    np.testing.assert_array_equal(straight.history["step"], resumed.history["step"])


def test_refuses_a_checkpoint_that_is_further_than_asked(tmp_path: Path) -> None:
    file = tmp_path / "far.safetensors"
    train(built(0), made_rows(0), settings=Settings(30), checkpoint=file)
    with pytest.raises(InputError, match="has come to step 30 already"):
        train(built(0), made_rows(0), settings=Settings(10), checkpoint=file)


def other_rows(kind: str) -> Rows:
    rows = made_rows(0)
    if kind != "boundaries":
        return rows
    cut = [torch.cat(values).split([35, 35]) for values in (rows.inputs, rows.targets)]
    return Rows(cut[0], cut[1], rows.task, rows.labels)


@pytest.mark.parametrize("kind", ["dropout", "boundaries", "frozen layer"])
def test_tells_trainings_apart_that_print_alike(kind: str, tmp_path: Path) -> None:
    def network(second: bool) -> nn.Module:
        made = built(0, dropout=0.5 if second and kind == "dropout" else 0.0)
        if kind == "frozen layer":
            made.represent.layers[0].weight.requires_grad_(False).mul_(2.0 if second else 1.0)
        return made

    file = tmp_path / "one.safetensors"
    train(network(False), made_rows(0), settings=Settings(5), checkpoint=file)
    with pytest.raises(InputError, match="belongs to another training"):
        train(network(True), other_rows(kind), settings=Settings(5), checkpoint=file)


def known(rows: np.ndarray) -> np.ndarray:
    return np.column_stack([rows[:, 0], -rows[:, 0]])


def test_a_ratio_given_as_a_function_does_not_hinder_resuming(tmp_path: Path) -> None:
    file = tmp_path / "known.safetensors"
    objective = TransportGap(ratio=known, on="x", svd=None)
    straight = train(built(0), made_rows(0), objective, settings=Settings(9))
    train(built(0), made_rows(0), objective, settings=Settings(4), checkpoint=file)
    moved = TransportGap(ratio=lambda rows: known(rows), on="x", svd=None)
    with pytest.raises(InputError, match="belongs to another training"):
        train(built(0), made_rows(0), moved, settings=Settings(9), checkpoint=file)
    assert_same(
        straight.network, train(built(0), made_rows(0), objective, settings=Settings(9), checkpoint=file).network
    )


# --- networks of one's own --------------------------------------------------------------------------------------------
def test_dropout_in_a_head_is_reproducible_and_leaves_the_callers_numbers_alone() -> None:
    network = (nn.Linear(3, 8), nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 1)))
    before = torch.random.get_rng_state()
    first, second = (train(network, made_rows(0), settings=Settings(10)) for _ in range(2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_same(first.network, second.network)


def test_frozen_layers_stay_as_they_are_one_by_one_and_at_once() -> None:
    def build() -> nn.Module:
        network = mlp(3, 1, (4,)).double()
        network.represent.layers[0].weight.requires_grad_(False)
        return network

    with torch.random.fork_rng():
        torch.manual_seed(0)
        start = build()
    one = train(start, made_rows(0), settings=Settings(5)).network
    many = train_replicates(build, made_rows(0), settings=Settings(5)).network(0)
    assert torch.equal(one.represent.layers[0].weight, start.represent.layers[0].weight)
    torch.testing.assert_close(many.state_dict(), one.state_dict())


def test_a_layer_in_evaluation_mode_stays_in_it() -> None:
    normalising = nn.BatchNorm1d(4).eval()
    network = nn.Sequential(nn.Linear(3, 4), normalising, nn.Linear(4, 1))
    trained = train(network, made_rows(0), settings=Settings(10), held_out=made_rows(0))
    assert float(trained.network.represent[1].running_mean.abs().sum()) == 0
    asleep = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval()  # a whole network is woken up
    assert float(train(asleep, made_rows(0), settings=Settings(10)).network.represent[1].running_mean.abs().sum()) > 0


def test_buffers_that_are_not_stored_with_a_network_do_no_harm() -> None:
    represent = nn.Linear(3, 4)
    represent.register_buffer("note", torch.ones(2), persistent=False)
    assert train((represent, nn.Linear(4, 1)), made_rows(0), settings=Settings(3)).kept_step == 3


def test_threads_are_given_back() -> None:
    torch.set_num_threads(2)
    train(linear(3, 1), made_rows(0), settings=Settings(2))
    assert torch.get_num_threads() == 2
    with pytest.raises(InputError, match="diverged"):
        train(linear(3, 1), made_rows(0), settings=Settings(500, optimiser="sgd", learning_rate=50.0))
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


# --- what is refused --------------------------------------------------------------------------------------------------
def test_refuses_to_stop_by_held_out_rows_before_they_count() -> None:
    rows, held_out = made_rows(0).halved(0.3, 0)
    with pytest.raises(InputError, match="judged from step 300 on"):
        train(linear(3, 1), rows, "vrex", settings=Settings(200, schedule=Schedule(wait=300)), held_out=held_out)


@pytest.mark.parametrize(
    ("y", "task", "message"),
    [
        ([1, 1], "binary", 'target "y" has only one value'),
        (["a", "b"], "regression", 'target "y" holds labels'),
        ([0, 1], "log_loss", 'task "log_loss" is unknown'),
        ([np.nan, 1.0], "regression", "y has missing"),
    ],
)
def test_refuses_targets_that_are_none(y: list[Any], task: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rows.of(np.zeros((2, 1)), y, task=task)
    with pytest.raises(InputError, match="X has missing"):
        Rows.of([[np.inf], [1.0]], [0, 1], task="binary")


@pytest.mark.parametrize("wrong", [-1, 1.5])
def test_refuses_seeds_and_weights_that_are_none(wrong: float) -> None:
    with pytest.raises(InputError, match="seed is"):
        train(linear(3, 1), made_rows(0), seed=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weight is -1"):
        train(linear(3, 1), made_rows(0), objective_of("vrex", -1.0))
    with pytest.raises(InputError, match="weight is -1"):
        train_replicates(lambda: linear(3, 1), made_rows(0), "vrex", weights=(1.0, -1.0))


def test_says_when_the_very_last_step_diverged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ERM, "risk", lambda self, batch, memory: batch.risks.sum() * torch.nan)
    with pytest.raises(InputError, match="diverged"):
        train(linear(3, 1), made_rows(0), settings=Settings(1))


@pytest.mark.slow
def test_shares_of_group_dro_recover_however_small_they_became() -> None:
    from invariscope.objectives.group_dro import group_dro_risk

    shares = None
    for worst in (0, 1):
        scores = [torch.full((1, 1), 2.0 if place == worst else 0.0) for place in range(2)]
        for _ in range(3000):
            _, shares = group_dro_risk(scores, [torch.zeros(1)] * 2, shares=shares, rate=0.1)
    assert shares is not None
    assert float(shares[1]) > 0.99
    assert GroupDRO().memory(2)["shares"].tolist() == [0.5, 0.5]
