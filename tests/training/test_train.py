from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from invariscope.errors import InputError
from invariscope.models.torch_networks import convnet, linear
from invariscope.objectives import ERM, IRM, VREx, objective_of
from invariscope.training import Rows, Schedule, Settings, train
from tests.training.conftest import assert_same, built, every_objective, made_rows

FEW = Settings(steps=12, batch_size=8, check_every=3)


def test_one_step_is_the_gradient_step_by_hand() -> None:
    rows = Rows.of([[1.0], [2.0], [3.0]], [1.0, 1.0, 1.0], ["a", "a", "b"], task="regression")
    network = linear(1, 1).double()
    with torch.no_grad():
        network.represent.weight.fill_(2.0)
        network.represent.bias.fill_(0.0)
    settings = Settings(steps=1, optimiser="sgd", learning_rate=0.1, momentum=0.0)
    trained = train(network, rows, "erm", settings=settings)
    # residuals 1, 3 in a and 5 in b; environments count the same: mean of (1·1 + 3·2)·2/2 = 7 and 5·3·2 = 30
    assert trained.network.represent.weight.item() == pytest.approx(2.0 - 0.1 * (7 + 30) / 2)
    assert trained.network.represent.bias.item() == pytest.approx(-0.1 * ((1 + 3) + 2 * 5) / 2)
    assert trained.history["risk"].tolist() == pytest.approx([((1 + 9) / 2 + 25) / 2])


def test_erm_ends_at_least_squares(seed: int) -> None:
    rows = made_rows(seed, sizes=(40, 40))
    trained = train(linear(3, 1), rows, "erm", settings=Settings(steps=700, learning_rate=0.05))
    X, y = (np.concatenate(parts) for parts in rows.arrays())
    solution = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    found = [*trained.network.represent.weight[0].tolist(), trained.network.represent.bias.item()]
    np.testing.assert_allclose(found, solution, atol=1e-4)


@pytest.mark.slow
def test_what_counts_the_same_is_up_to_the_user(seed: int) -> None:
    rows = made_rows(seed, sizes=(20, 80))
    by_row = train(linear(3, 1), rows, ERM(per="row"), settings=Settings(steps=700, learning_rate=0.05))
    X, y = (np.concatenate(parts) for parts in rows.arrays())
    solution = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), y, rcond=None)[0]
    np.testing.assert_allclose(by_row.network.represent.weight[0].tolist(), solution[:3], atol=1e-4)


def test_large_weights_keep_the_size_of_steps() -> None:
    """Divided by the weight, a million times the penalty moves parameters as far as the penalty alone."""
    rows, network = made_rows(0), linear(3, 1).double()
    sgd = Settings(steps=1, optimiser="sgd", learning_rate=1e-9)
    moved = train(network, rows, IRM(weight=1e6), settings=sgd).network.represent.weight - network.represent.weight
    wild = Settings(steps=1, optimiser="sgd", learning_rate=1e-9, schedule=Schedule(rescale=False))
    unscaled = train(network, rows, IRM(weight=1e6), settings=wild).network.represent.weight - network.represent.weight
    torch.testing.assert_close(unscaled, 1e6 * moved, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", every_objective())
def test_the_same_seed_gives_the_same_bits(name: str, seed: int) -> None:
    rows, network = made_rows(seed, "binary"), built(seed, dropout=0.3)
    first, second = (train(network, rows, name, settings=FEW, seed=seed) for _ in range(2))
    assert_same(first.network, second.network)
    other = train(network, rows, name, settings=FEW, seed=seed + 1)
    assert not torch.equal(first.network.head.weight, other.network.head.weight)


def test_nothing_of_the_callers_is_changed(seed: int) -> None:
    network = built(seed)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    dropping = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 1))
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(dropping, made_rows(seed), settings=FEW)
    trained = train(network, made_rows(seed), "vrex", settings=FEW)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not trained.network.training


# --- batches, alternating updates, own modules ------------------------------------------------------------------------
def test_batches_hold_the_same_number_of_rows_of_every_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def risk(self: ERM, batch: object, memory: object) -> torch.Tensor:
        seen.append([len(part) for part in batch.logits])  # type: ignore[attr-defined]
        return batch.risks.mean()  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(ERM, "risk", risk)
    train(linear(3, 1), made_rows(0, sizes=(30, 500)), "erm", settings=FEW)
    assert seen == [[8, 8]] * 12


def test_representation_and_head_take_turns_where_the_objective_says_so(seed: int) -> None:
    rows, network = made_rows(seed), built(seed)
    one = train(network, rows, "dric", settings=Settings(steps=1)).network
    two = train(network, rows, "dric", settings=Settings(steps=2)).network
    start = network.double()
    assert torch.equal(one.head.weight, start.head.weight)
    assert not torch.equal(one.represent.layers[0].weight, start.represent.layers[0].weight)
    assert torch.equal(two.represent.layers[0].weight, one.represent.layers[0].weight)
    assert not torch.equal(two.head.weight, one.head.weight)


@pytest.mark.slow
def test_images_train(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = Rows.of(rng.random((24, 2 * 6 * 6)), rng.integers(0, 3, 24), np.arange(24) % 2, task="multiclass")
    trained = train(convnet((2, 6, 6), 3), rows, "coral", settings=Settings(steps=20, learning_rate=1e-3))
    assert trained.history["loss"][-1] < trained.history["loss"][0]


def test_own_modules_with_running_statistics_and_dropout_train_and_resume(tmp_path: Path, seed: int) -> None:
    rows = made_rows(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 1))
    straight = train(network, rows, "vrex", settings=Settings(steps=20), seed=seed)
    file = tmp_path / "half.safetensors"
    train(network, rows, "vrex", settings=Settings(steps=9), seed=seed, checkpoint=file)
    resumed = train(network, rows, "vrex", settings=Settings(steps=20), seed=seed, checkpoint=file)
    assert_same(straight.network, resumed.network)
    assert float(straight.network.represent[1].running_mean.abs().sum()) > 0


# --- checkpoints ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", every_objective())
@pytest.mark.parametrize("optimiser", ["adam", pytest.param("sgd", marks=pytest.mark.slow)])
def test_resuming_continues_bit_for_bit(name: str, optimiser: str, tmp_path: Path, seed: int) -> None:
    rows, held_out = made_rows(seed, "multiclass", sizes=(40, 50)).halved(0.2, seed)
    network, objective = built(seed, outputs=3, dropout=0.2), objective_of(name)
    if objective.ratio_on is not None:
        objective = objective_of(name, options={"on": "z", "refresh": 5})

    def run(steps: int, file: Path | None) -> object:
        settings = Settings(steps, 8, 0.01, optimiser=optimiser, check_every=2, schedule=Schedule(wait=4, restart=True))
        return train(
            network,
            rows,
            objective,
            settings=settings,
            held_out=held_out,
            seed=seed,
            checkpoint=file,
            checkpoint_every=3,
        )

    straight = run(17, None)
    file = tmp_path / "training.safetensors"
    run(7, file)
    resumed = run(17, file)
    assert_same(straight.network, resumed.network)  # type: ignore[attr-defined]
    for key, values in straight.history.items():  # type: ignore[attr-defined]
        np.testing.assert_array_equal(values, resumed.history[key])  # type: ignore[attr-defined]


def test_a_training_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path: Path, seed: int) -> None:
    rows, network, file = made_rows(seed), built(seed), tmp_path / "training.safetensors"
    straight = train(network, rows, "vrex", settings=Settings(steps=30), seed=seed)

    class KilledError(Exception):
        pass

    def kill(words: str) -> None:
        raise KilledError(words)

    with pytest.raises(KilledError, match="training vrex"):
        train(network, rows, "vrex", settings=Settings(steps=30, check_every=20), seed=seed,
              checkpoint=file, checkpoint_every=15, progress=kill)  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    resumed = train(network, rows, "vrex", settings=Settings(steps=30, check_every=20), seed=seed, checkpoint=file)
    assert_same(straight.network, resumed.network)


@pytest.mark.parametrize("change", ["data", "seed", "objective", "settings"])
def test_refuses_the_checkpoint_of_another_training(change: str, tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    train(built(0), made_rows(0), "vrex", settings=FEW, checkpoint=file)
    settings = Settings(steps=12, batch_size=9) if change == "settings" else FEW
    objective = VREx(weight=3.0) if change == "objective" else "vrex"
    with pytest.raises(InputError, match="belongs to another training"):
        train(built(0), made_rows(change == "data"), objective, settings=settings, checkpoint=file,
              seed=int(change == "seed"))  # fmt: skip


def test_refuses_a_file_that_is_no_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a checkpoint")
    with pytest.raises(InputError, match="not a readable checkpoint"):
        train(built(0), made_rows(0), settings=FEW, checkpoint=file)
    assert file.read_text() == "not a checkpoint"
    with pytest.raises(InputError, match="no folder"):
        train(built(0), made_rows(0), settings=FEW, checkpoint=tmp_path / "nowhere" / "file.safetensors")


# --- early stopping ---------------------------------------------------------------------------------------------------
def test_stops_when_held_out_rows_gain_no_more_and_keeps_the_best(seed: int) -> None:
    rows, held_out = made_rows(seed, sizes=(12, 12), columns=8).halved(0.4, seed)
    assert held_out is not None
    settings = Settings(steps=5000, learning_rate=0.02, check_every=5, patience=6)
    trained = train(built(seed, inputs=8, hidden=(32,)), rows, "erm", settings=settings, held_out=held_out, seed=seed)
    judged = trained.history["held_out"]
    best = int(judged.argmin())
    assert len(judged) == best + 1 + 6  # six looks without gain, then the end
    assert trained.kept_step == trained.history["step"][best]
    with torch.no_grad():
        logits = [trained.network(part)[0][:, 0] for part in held_out.inputs]
    risk = np.mean([float(((a - b) ** 2).mean()) for a, b in zip(logits, held_out.targets, strict=True)])
    assert risk == pytest.approx(judged[best])


def test_held_out_rows_are_judged_only_under_the_full_weight() -> None:
    rows, held_out = made_rows(0).halved(0.2, 0)
    settings = Settings(steps=40, check_every=5, schedule=Schedule(wait=20))
    trained = train(linear(3, 1), rows, "vrex", settings=settings, held_out=held_out)
    assert len(trained.history["step"]) == 8
    assert np.isfinite(trained.history["held_out"]).tolist() == [False] * 3 + [True] * 5
    assert trained.kept_step >= 20


def test_refuses_to_stop_by_a_test_environment() -> None:
    rows, _ = made_rows(0).halved(0.2, 0)
    elsewhere = Rows.of(np.zeros((4, 3)), np.zeros(4), ["new", "new", "site 0", "site 0"], task="regression")
    with pytest.raises(InputError, match=re.escape("training environments (site 0, site 1), not from new, site 0")):
        train(linear(3, 1), rows, settings=FEW, held_out=elsewhere)


# --- what is refused --------------------------------------------------------------------------------------------------
def test_says_when_training_diverges() -> None:
    with pytest.raises(InputError, match=r"diverged at step .*: lower the learning rate"):
        train(linear(3, 1), made_rows(0), settings=Settings(steps=500, optimiser="sgd", learning_rate=50.0))


def test_refuses_one_environment_where_several_are_compared() -> None:
    rows = Rows.of(np.zeros((4, 2)), np.arange(4.0), task="regression")
    with pytest.raises(InputError, match='objective "vrex" compares environments'):
        train(linear(2, 1), rows, "vrex")
    assert train(linear(2, 1), rows, "erm", settings=FEW).history["risk"].shape == (4,)


def test_refuses_an_environment_of_one_row() -> None:
    with pytest.raises(InputError, match='environment "site 1" has 1 row'):
        train(linear(3, 1), made_rows(0, sizes=(5, 1)), "vrex")


def test_refuses_a_network_with_other_outputs() -> None:
    with pytest.raises(InputError, match="gives 2 outputs, but the target needs 1: give its last layer as many"):
        train(linear(3, 2), made_rows(0))


@pytest.mark.parametrize(
    "wrong",
    [{"steps": 0}, {"batch_size": 0}, {"learning_rate": 0.0}, {"weight_decay": -1.0}, {"optimiser": "lion"},
     {"patience": 1.5}, {"check_every": 0}],
)  # fmt: skip
def test_refuses_settings_that_make_no_sense(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Settings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "message"), [("vrx", 'Did you mean "vrex"?'), (3, "not a int")])
def test_refuses_unknown_objectives(given: object, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        train(linear(3, 1), made_rows(0), given)


def test_refuses_unknown_hyper_parameters() -> None:
    with pytest.raises(InputError, match='objective "irm" has no hyper-parameter "gamma": it has weight, form'):
        objective_of("irm", options={"gamma": 1})
