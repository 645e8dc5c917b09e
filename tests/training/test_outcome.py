"""A training that diverged is refused; one that hardly moved, or collapsed, says so; and what is advised helps."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn

from invariscope.errors import InputError
from invariscope.estimators import InvariantClassifier
from invariscope.models.torch_networks import Halves, linear, mlp
from invariscope.objectives import ERM, MMD, VREx
from invariscope.training import Rows, Schedule, Settings, train, train_replicates
from invariscope.training.outcome import Standing, constant_risk, notes_on, refuse_diverged
from tests.training.conftest import built, made_rows

SIXTY = Settings(steps=60, learning_rate=0.05)


def test_the_best_constant_counts_environments_alike() -> None:
    numbers = Rows.of(np.arange(5.0)[:, None], [0.0, 0.0, 0.0, 0.0, 3.0], list("aaaab"), task="regression")
    assert constant_risk(numbers) == pytest.approx(1.5**2)  # the middle of the means 0 and 3
    two = Rows.of(np.arange(5.0)[:, None], [0, 1, 1, 1, 1], list("aaaab"))
    share = (0.75 + 1) / 2
    assert constant_risk(two) == pytest.approx(-share * math.log(share) - (1 - share) * math.log(1 - share))
    three = Rows.of(np.arange(6.0)[:, None], [0, 1, 2, 0, 1, 2], list("aaabbb"), task="multiclass")
    assert constant_risk(three) == pytest.approx(math.log(3))
    same = Rows.of(np.arange(4.0)[:, None], [7.0] * 4, list("aabb"), task="regression")
    assert constant_risk(same) == 0


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_a_training_that_diverged_is_refused_and_the_advice_helps(task: str) -> None:
    rows = made_rows(0, task)
    network = linear(3, rows.outputs)
    wild = replace(SIXTY, learning_rate=1e30)
    with pytest.raises(InputError) as refused:
        train(network, rows, "erm", settings=wild)
    constant = f"{constant_risk(rows):.2g}"
    assert str(refused.value).startswith("training diverged: the loss on the rows it was trained on is ")
    assert f", and {constant} for the best constant: " in str(refused.value)
    assert str(refused.value).endswith(": lower the learning rate (1e+30 now), to 0.01 say")
    assert train(network, rows, "erm", settings=replace(wild, learning_rate=0.01)).notes == ()


def test_the_penalty_is_named_where_there_is_one() -> None:
    with pytest.raises(InputError) as refused:
        train(linear(3, 1), made_rows(0), "vrex", settings=replace(SIXTY, learning_rate=1e200))
    assert str(refused.value) == (
        "training diverged at step 10: lower the learning rate (1e+200 now), to 0.01 say, or the penalty (10 now), or "
        "let it grow slowly (wait, ramp)"
    )
    network = linear(3, 1)
    with torch.no_grad():
        network.represent.weight.fill_(1e6)
    small = Settings(steps=3, optimiser="sgd", learning_rate=0.009)
    steep = Rows.of(1e3 * np.eye(4)[:, :3], [0.0, 1.0, 2.0, 3.0], list("aabb"), task="regression")
    with pytest.raises(InputError, match=r"lower the learning rate \(0.009 now\), to 9e-05 say$"):
        train(network, steep, "erm", settings=small)


def test_ten_times_the_best_constant_is_where_divergence_begins() -> None:
    rows = made_rows(0)
    constant = constant_risk(rows)

    def ends_at(times: float, began: float) -> None:
        ends = [Standing({}, risk, 1.0, 0, 0) for risk in (began * constant, times * constant)]
        refuse_diverged(ends[0], ends[1], rows, loop)

    class loop:  # noqa: N801
        calmer = "lower it"

    ends_at(9.99, 1.0)
    ends_at(15.0, 2.0)  # a start that was bad already, and training did not make it ten times worse
    for times, began in ((10.01, 1.0), (25.0, 2.0), (math.nan, 1.0), (math.inf, 1.0)):
        with pytest.raises(InputError, match=r"training diverged: .* for the best constant: lower it"):
            ends_at(times, began)


def test_rows_held_out_that_never_had_a_loss_are_told() -> None:
    class Wild(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values if self.training else values / 0

    rows, held_out = made_rows(0).halved(0.3, 0)
    network = Halves(nn.Sequential(nn.Linear(3, 1), Wild()), nn.Identity())
    with pytest.raises(
        InputError, match="training diverged: the loss of rows held out was never a number: lower the l"
    ):
        train(network, rows, "erm", settings=SIXTY, held_out=held_out)


@pytest.mark.parametrize("rate", [1e-30, 1e-10, 1e-5])
@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_a_training_that_hardly_moved_says_so_and_the_advice_helps(rate: float, task: str) -> None:
    rows = made_rows(0, task)
    network = linear(3, rows.outputs)
    with torch.no_grad():
        network.represent.weight.copy_(
            -torch.ones_like(network.represent.weight) * torch.arange(1, rows.outputs + 1)[:, None]
        )
    still = train(network, rows, "erm", settings=replace(SIXTY, learning_rate=rate))
    began = Standing.of(network.double(), rows).risk
    (note,) = still.notes
    assert note.startswith(f"Training hardly moved: in 60 steps the loss went from {began:.4g} to ")
    assert note.endswith(
        f"constant has {constant_risk(rows):.4g}. Raise the learning rate ({rate:g} now), to 0.01 say."
    )
    assert train(network, rows, "erm", settings=replace(SIXTY, learning_rate=0.01, steps=600)).notes == ()


def test_a_start_from_large_weights_is_told_and_the_advice_helps() -> None:
    rows, network = made_rows(0), linear(3, 1)
    with torch.no_grad():
        network.represent.weight.fill_(-1000.0)
    stuck = train(network, rows, "erm", settings=Settings(steps=50, learning_rate=0.01))
    assert stuck.notes[0].startswith("Training hardly moved: in 50 steps the loss went from 3.5")
    advice = "Start from smaller weights (up to 1e+03 now); train for more steps, 1,000 say."
    assert stuck.notes[0].endswith(advice)
    (note,) = train(network, rows, "erm", settings=Settings(steps=49, learning_rate=0.01)).notes
    assert note.startswith("The network is worse than a constant: its loss is 3.5")
    assert note.endswith(f"e+06, where the best constant has {constant_risk(rows):.4g}. {advice}")
    assert train(built(0), rows, "erm", settings=Settings(steps=1000, learning_rate=0.01)).notes == ()


def test_more_steps_are_advised_where_all_else_is_usual() -> None:
    rows, network = made_rows(0), linear(3, 1)
    with torch.no_grad():
        network.represent.weight.fill_(-2.9)
    for steps, proposed in ((60, 1000), (1000, 10_000)):
        slow = Settings(steps=steps, learning_rate=0.01, optimiser="sgd", weight_decay=0.0)
        end = Standing({"w": torch.ones(1)}, 20 * constant_risk(rows), 1.0, 0, 0)
        start = Standing({"w": torch.zeros(1)}, 20 * constant_risk(rows), 1.0, 0, 0)
        loop: Any = SimpleNamespace(program=SimpleNamespace(objective=ERM()), step=steps, settings=slow)
        assert notes_on(start, end, rows, loop)[0].endswith(f"Train for more steps, {proposed:,} say.")
    few = train(network, rows, "erm", settings=Settings(steps=60, learning_rate=0.01))
    assert few.notes[0].endswith(" Train for more steps, 1,000 say.")
    assert train(network, rows, "erm", settings=Settings(steps=1000, learning_rate=0.01)).notes == ()


def noisy(scale: Any = 1.0, times: float = 1.0, plus: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three columns that explain nine tenths of a number, in any units."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X @ [1, -1, 0.5] + 0.5 * rng.normal(size=600)
    return X * scale, times * y + plus, np.repeat([0, 1], 300)


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


@pytest.mark.parametrize("task", ["regression", "binary"])
@pytest.mark.parametrize(
    ("scale", "settings", "says"),
    [
        (1e3, Settings(steps=100, learning_rate=5e-4), "spread 9.7e+02 to 1e+03)"),
        (1e4, Settings(steps=100, learning_rate=0.01), "spread 9.7e+03 to 1e+04)"),
        (1e-3, Settings(steps=1000, learning_rate=0.01), "spread 0.00097 to 0.001)"),
        (1e-6, Settings(steps=200, learning_rate=0.01), "spread 9.7e-07 to 1e-06)"),
        ([1e-6, 1e-6, 1e-5], Settings(steps=200, learning_rate=0.01), "spread 9.7e-07 to 1e-05)"),
    ],
)
def test_columns_in_unusual_units_are_told_and_the_advice_helps(
    scale: Any, settings: Settings, says: str, task: str
) -> None:
    X, y, env = noisy(scale)
    y = y if task == "regression" else (y > 0).astype(int)
    rows = Rows.of(X, y, env, task=task)
    torch.manual_seed(0)
    hopeless = train(linear(3, 1), rows, "erm", settings=settings)
    (note,) = hopeless.notes
    assert note.startswith(
        ("The network is worse than a constant: its loss is ", "Next to nothing was learnt: the loss")
    )
    assert note.startswith("The network is") == (Standing.of(hopeless.network, rows).risk > 10 * constant_risk(rows))
    advice = note.partition(". Standardise X (means up to ")[2]
    assert says in advice
    assert ("raise the learning rate (0.0005 now), to 0.01 say" in advice) == (settings.learning_rate < 0.01)
    assert ("train for more steps, 1,000 say" in advice) == (settings.steps < 1000)
    rows = Rows.of(standardised(X), y, env, task=task)
    trained = train(linear(3, 1), rows, "erm", settings=Settings(steps=1000, learning_rate=0.01))
    assert trained.notes == ()
    assert Standing.of(trained.network, rows).risk < (0.15 if task == "regression" else 0.5) * constant_risk(rows)


@pytest.mark.parametrize(
    ("times", "plus", "begins", "says"),
    [
        (1e3, 0.0, "Next to nothing was learnt: ", "Standardise y (means up to 2.2e+02 from 0, spread 1.5e+03)."),
        (1.0, 1e3, "The network is worse than a constant: ", "Standardise y (means up to 1e+03 from 0, spread 1.5)."),
    ],
)
def test_a_target_in_unusual_units_is_told_and_the_advice_helps(
    times: float, plus: float, begins: str, says: str
) -> None:
    X, y, env = noisy(times=times, plus=plus)
    usual = Settings(steps=1000, learning_rate=0.01)
    torch.manual_seed(0)
    (note,) = train(linear(3, 1), Rows.of(X, y, env, task="regression"), "erm", settings=usual).notes
    assert note.startswith(begins)
    assert note.endswith(f". {says}")  # a thousand steps more would not do
    rows = Rows.of(X, standardised(y), env, task="regression")
    trained = train(linear(3, 1), rows, "erm", settings=usual)
    assert trained.notes == ()
    assert Standing.of(trained.network, rows).risk < 0.15


def test_columns_that_say_nothing_need_no_advice_in_any_units() -> None:
    X, _, env = noisy(1e-3)
    noise = np.random.default_rng(1).normal(size=600)
    few = Settings(steps=100, learning_rate=0.01)
    assert train(linear(3, 1), Rows.of(X, noise, env, task="regression"), "erm", settings=few).notes == ()
    # sixty columns of noise fit some of seventy rows, but explain nothing
    rng = np.random.default_rng(2)
    wide = Rows.of(1e-3 * rng.normal(size=(70, 60)), rng.normal(size=70), np.repeat([0, 1], 35), task="regression")
    assert train(linear(60, 1), wide, "erm", settings=few).notes == ()


@pytest.mark.parametrize(("gain", "told"), [(0.085, True), (0.095, False), (-1.0, True), (-8.9, True)])
def test_a_tenth_of_what_least_squares_explain_is_next_to_nothing(gain: float, told: bool) -> None:
    """They explain nine tenths here, in any units of X and y."""
    for times in (1e-3, 1.0, 1e6):
        rows = Rows.of(*noisy(1e-3, times), task="regression")
        constant = constant_risk(rows)
        start = Standing({"w": torch.zeros(1)}, 20 * constant, 1.0, 0, 0)
        end = Standing({"w": torch.ones(1)}, (1 - gain) * constant, constant**0.5, 0, 0)
        loop: Any = SimpleNamespace(program=SimpleNamespace(objective=ERM()), step=60, settings=SIXTY)
        notes = notes_on(start, end, rows, loop)
        assert [note.partition(":")[0] for note in notes] == ["Next to nothing was learnt"] * told


def test_under_a_penalty_units_are_told_where_they_are_unusual() -> None:
    few = Settings(steps=100, learning_rate=0.01)
    (note,) = train(linear(3, 1), Rows.of(*noisy(1e-3), task="regression"), "vrex", settings=few).notes
    assert note.startswith("Next to nothing was learnt: ")
    usual = Settings(steps=1000, learning_rate=0.01)
    X, y, env = noisy(1e-3)
    trained = train(linear(3, 1), Rows.of(standardised(X), y, env, task="regression"), "vrex", settings=usual)
    assert trained.notes == ()


def test_what_is_no_model_among_many_is_told_of_one() -> None:
    rows = Rows.of(*noisy(1e3), task="regression")
    settings = Settings(steps=100, learning_rate=5e-4)
    many = train_replicates(lambda: linear(3, 1), rows, "erm", seeds=range(2), settings=settings)
    assert many.diverged.tolist() == [True, True]
    for seed in range(2):
        torch.manual_seed(seed)
        (note,) = train(linear(3, 1), rows, "erm", settings=settings, seed=seed).notes
        assert note.startswith("The network is worse than a constant: ")


def test_a_start_that_is_best_already_needs_no_advice() -> None:
    rows = made_rows(0)
    best = train(linear(3, 1), rows, "erm", settings=Settings(steps=800, learning_rate=0.05)).network
    assert train(best, rows, "erm", settings=Settings(steps=60, learning_rate=1e-3)).notes == ()


def test_a_representation_that_collapsed_says_so_and_the_advice_helps() -> None:
    rows = made_rows(0)
    pressed = train(built(0), rows, "mmd", settings=Settings(steps=200, learning_rate=0.05))
    assert pressed.notes == ()
    collapsed = train(built(0), rows, MMD(weight=1e6), settings=Settings(steps=200, learning_rate=0.05))
    assert collapsed.notes == (
        "The predictions collapsed: they hardly differ between rows, and a constant is as good. If the columns do say "
        "something about the target, lower the penalty (1e+06 now), to 1 say, or let it grow slowly (wait, ramp).",
    )
    assert train(built(0), rows, MMD(weight=1.0), settings=Settings(steps=200, learning_rate=0.05)).notes == ()


@pytest.mark.parametrize(("spread", "share", "told"), [(0.09, 0.96, True), (0.11, 0.96, False), (0.09, 0.94, False)])
def test_a_constant_neither_spreads_nor_gains(spread: float, share: float, told: bool) -> None:
    rows, weights = made_rows(0), {"w": torch.zeros(1)}
    constant = constant_risk(rows)
    program = SimpleNamespace(objective=VREx(weight=10.0))
    loop: Any = SimpleNamespace(program=program, step=60, settings=SIXTY)
    start = Standing({"w": torch.ones(1)}, 2 * constant, 1.0, 0, 0)
    end = Standing(weights, share * constant, spread * constant**0.5, 0, 0)
    assert [note.partition(":")[0] for note in notes_on(start, end, rows, loop)] == ["The predictions collapsed"] * told


def dead(units: int, of: int) -> Halves:
    """A network some of whose hidden units never fire."""
    torch.manual_seed(0)
    network = mlp(3, 1, (of,))
    with torch.no_grad():
        network.represent.layers[0].bias[:units] = -1e3
    return network


def test_hidden_units_that_are_silent_are_counted() -> None:
    rows = made_rows(0)
    (note,) = train(dead(6, 6), rows, "erm", settings=SIXTY).notes
    assert note == (
        "The representation collapsed: all 6 hidden units are the same in all rows. If the columns do say something "
        "about the target, use another activation or another seed."
    )
    (note,) = train(dead(4, 6), rows, "erm", settings=SIXTY).notes
    assert note == (
        "The representation shrank: 4 of 6 hidden units are the same in all rows. Use another activation, another seed "
        "or fewer units."
    )
    assert train(dead(3, 6), rows, "erm", settings=SIXTY).notes == ()
    assert train(dead(0, 6), rows, "erm", settings=SIXTY).notes == ()


def test_a_schedule_that_is_not_over_says_so() -> None:
    slow = replace(SIXTY, schedule=Schedule(wait=50, ramp=20))
    (note,) = train(linear(3, 1), made_rows(0), "vrex", settings=slow).notes
    assert note == (
        "The penalty never had its full weight: it grows until step 70, and training ended after step 60. Train for "
        "more steps, or shorten wait and ramp."
    )
    assert train(linear(3, 1), made_rows(0), "erm", settings=slow).notes == ()  # which has no penalty
    assert train(linear(3, 1), made_rows(0), "vrex", settings=replace(slow, steps=70)).notes == ()


@pytest.mark.parametrize(
    ("inputs", "targets", "words"),
    [
        (np.arange(4.0), [7.0] * 4, "The target is the same in all rows: there was nothing to learn."),
        (np.full(4, 3.0), [1.0, 2.0, 3.0, 5.0], "No column varies: there was nothing to learn from."),
    ],
)
def test_where_nothing_varies_nothing_is_advised(inputs: Any, targets: Any, words: str) -> None:
    rows = Rows.of(inputs[:, None], targets, list("aabb"), task="regression")
    (note,) = train(linear(1, 1), rows, "vrex", settings=SIXTY).notes
    assert note.startswith(words)


def test_only_some_rows_of_many_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariscope.training.outcome.ROWS_JUDGED", 10)
    rows, network = made_rows(0, sizes=(30, 45)), linear(3, 1).double()
    residuals = [
        (network(rows.inputs[e][:: (3, 5)[e]])[0][:, 0] - rows.targets[e][:: (3, 5)[e]]) ** 2 for e in range(2)
    ]
    assert Standing.of(network, rows).risk == pytest.approx(sum(part.mean().item() for part in residuals) / 2)


def test_replicates_mark_the_models_that_diverged() -> None:
    rows = made_rows(0)
    many = train_replicates(
        lambda: linear(3, 1), rows, "erm", seeds=range(2), settings=replace(SIXTY, learning_rate=1e30)
    )
    assert many.diverged.tolist() == [True, True]
    assert np.isfinite(many.history["risk"][-1]).all()
    draws = [made_rows(seed) for seed in range(2)]
    calm = train_replicates(lambda: linear(3, 1), draws, "erm", seeds=range(2), settings=SIXTY)
    assert calm.diverged.tolist() == [False, False]
    same = Rows.of(np.arange(4.0)[:, None], [7.0] * 4, list("aabb"), task="regression")  # nothing is worse than nothing
    assert not train_replicates(lambda: linear(1, 1), same, "erm", seeds=range(2), settings=SIXTY).diverged.any()


def test_notes_are_none_for_a_training_that_went_well(seed: int) -> None:
    for task in ("regression", "binary", "multiclass"):
        rows = made_rows(seed, task)
        assert train(built(seed, outputs=rows.outputs), rows, "vrex", settings=Settings(steps=200)).notes == ()


@pytest.mark.parametrize(("times", "told"), [(1.04, False), (1.06, True)])
def test_a_loss_above_that_of_a_constant_is_told_under_a_penalty(times: float, told: bool) -> None:
    rows = made_rows(0)
    start = Standing(weights={"w": torch.zeros(1)}, risk=2.0 * constant_risk(rows), spread=1.0, units=0, silent=0)
    end = replace(start, weights={"w": torch.ones(1)}, risk=times * constant_risk(rows))

    def notes(objective: Any, step: int = 60, rate: float = 1.0) -> tuple[str, ...]:
        schedule = SimpleNamespace(full_from=0)
        settings = SimpleNamespace(schedule=schedule, learning_rate=rate)
        program = SimpleNamespace(objective=objective)
        return notes_on(start, end, rows, SimpleNamespace(program=program, settings=settings, step=step))  # type: ignore[arg-type]

    remedy = "Lower the learning rate (1 now), to 0.01 say and the penalty (100 now), to 1 say."
    assert [note.endswith(remedy) for note in notes(VREx(100.0))] == [True] * told
    assert [note.endswith(". Lower the penalty (0.5 now), to 0.05 say.") for note in notes(VREx(0.5), rate=0.001)] == [
        True
    ] * told
    assert notes(VREx(100.0), step=10) == ()


def test_a_penalty_that_cost_the_whole_model_is_told_and_the_advice_helps() -> None:
    rng = np.random.default_rng(0)
    X, env = rng.normal(size=(300, 3)), np.repeat(["a", "b", "c"], 100)
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    model = InvariantClassifier(objective="vrex", penalty=1e9, learning_rate=5, steps=120, random_state=0)
    with pytest.warns(ConvergenceWarning, match="ended worse than a constant"):
        [note] = model.fit(X, y, env=env).notes_
    assert note.startswith("Training ended worse than a constant, which holds everywhere: the loss is ")
    assert note.endswith("Lower the learning rate (5 now), to 0.01 say and the penalty (1e+09 now), to 1 say.")
    calm = model.set_params(penalty=1.0, learning_rate=0.01, steps=1000).fit(X, y, env=env)
    assert calm.notes_ == ()
    assert calm.score(X, y) > 0.8
