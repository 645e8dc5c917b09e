"""Training against the worst case: hand values, a slow dual, gradients, and any objective as its base."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp
from torch import Tensor, nn

from invariscope.errors import InputError
from invariscope.models.torch_heads import feature_head
from invariscope.objectives import REGISTRY, Batch, WorstCase, objective_of
from invariscope.objectives.worst_points import Search, squared_unit, worst_moves
from invariscope.torch import worst_case_penalty
from invariscope.training import Settings, train
from tests.objectives.finite_differences import central_differences
from tests.objectives.worlds import OUTPUTS, SIZES, WIDTH, adversary_of, batch_of, memory_of
from tests.training.conftest import built, made_rows

RATIO_BASES = ("dric", "transport_gap")
BASES = sorted(set(REGISTRY) - {"worst_case", *RATIO_BASES})


def linear(weight: list[list[float]] | Tensor) -> nn.Linear:
    weight = torch.as_tensor(weight, dtype=torch.float64)
    head = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.float64)
    head.weight.data = weight
    return head


def doubles(*values: float | list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def drawn(task: str, seed: int, rows: int = 12) -> tuple[nn.Linear, Tensor, Tensor]:
    """A head, features and targets, about half of which the head gets right."""
    batch = batch_of("erm", task, seed, (rows,))
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(OUTPUTS[task], WIDTH, generator=generator, dtype=torch.float64)
    return linear(2 * weight), batch.features[0], batch.targets[0]


# --- hand values ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("radius", "expected"), [(0.0, 25.0), (0.2, 36.0), (1.0, 100.0)])
def test_squared_error_grows_by_the_norm_of_the_weights(radius: float, expected: float) -> None:
    found = worst_case_penalty(
        None, [doubles(2, 11)], [doubles([1, 0], [0, 1])], head=linear([[3, 4]]), task="regression", radius=radius
    )
    assert found.item() == pytest.approx(expected, abs=1e-9)


def test_cross_entropy_of_one_row_between_two_answers() -> None:
    found = worst_case_penalty(
        None,
        [torch.tensor([1])],
        [doubles([0.0])],
        head=linear([[-1], [1]]),
        task="multiclass",
        radius=0.5,
        bisections=40,
    )
    assert found.item() == pytest.approx(np.log(1 + np.e), abs=1e-9)


@pytest.mark.parametrize("radius", [0.5, 1.0])
def test_of_several_maxima_the_highest_is_taken(radius: float) -> None:
    """Right by a score of 8: staying costs nothing, so a share ρ²/4 of the mass goes to the opposite answer, 2 away."""
    found = worst_case_penalty(
        None,
        [torch.tensor([1])],
        [doubles([1.0])],
        head=linear([[-4], [4]]),
        task="multiclass",
        radius=radius,
        iterations=60,
        bisections=40,
    )
    assert found.item() == pytest.approx(radius**2 / 4 * 8 + np.log1p(np.exp(-8)), abs=1e-5)


def test_two_classes_with_one_score_are_two_with_two() -> None:
    """Scores (0, 2z) differ as (−z, z) do."""
    one = worst_case_penalty(
        None, [doubles(1.0)], [doubles([0.0])], head=linear([[2.0]]), task="binary", radius=0.5, bisections=40
    )
    assert one.item() == pytest.approx(np.log(1 + np.e), abs=1e-9)


def test_the_unit_is_the_distance_to_the_nearest_wrong_answer() -> None:
    rows = doubles([1.0], [3.0], [-2.0])  # at distances 1 and 3 of the boundary at 0; the third is wrong already
    head = feature_head(linear([[0.0], [1.0]]), rows)
    targets = doubles([0, 1], [0, 1], [0, 1])
    assert squared_unit(head, rows, targets, "multiclass").item() == pytest.approx((1 + 9 + 0) / 3)
    head = feature_head(linear([[3.0, 4.0]]), torch.eye(2).double())
    assert squared_unit(head, torch.eye(2).double(), doubles(2, 11), "regression").item() == pytest.approx(25 / 25)


def test_the_unit_of_three_classes_is_that_of_differences_of_weights() -> None:
    """(difference of scores)² / ‖difference of weights‖², the smaller of both wrong answers."""
    head = linear([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]])
    rows = doubles([1.5, 1.0])  # scores 3, 2.5, −1.5 of the first class: 0.5² / 2 and 4.5² / 9
    found = squared_unit(feature_head(head, rows), rows, doubles([1, 0, 0]), "multiclass")
    assert found.item() == pytest.approx(0.125)
    # of the second class that row is wrong already; another, of scores 0, 1, 0, is 1² / 2 and 1² / 5 away
    rows = doubles([1.5, 1.0], [0.0, 1.0])
    found = squared_unit(feature_head(head, rows), rows, doubles([0, 1, 0], [0, 1, 0]), "multiclass")
    assert found.item() == pytest.approx((0 + 0.2) / 2)


def test_a_head_that_says_the_same_everywhere_has_nothing_to_fear() -> None:
    for task, targets in (
        ("multiclass", torch.tensor([0, 1])),
        ("binary", doubles(0, 1)),
        ("regression", doubles(1, 2)),
    ):
        outputs = 2 if task == "multiclass" else 1
        head = linear(torch.zeros(outputs, 1))
        found = worst_case_penalty(None, [targets], [doubles([1.0], [2.0])], head=head, task=task)
        assert found.item() == pytest.approx({"regression": 2.5}.get(task, np.log(2)))


# --- the dual, slowly -------------------------------------------------------------------------------------------------
def slow_dual(weight: np.ndarray, rows: np.ndarray, targets: np.ndarray, radius: float) -> float:
    """inf over γ of γρ² + mean φ_i(γ), each φ_i by a general optimiser from the row and from far along all answers."""

    def phi(gamma: float) -> float:
        total = 0.0
        for row, target in zip(rows, targets, strict=True):

            def lost(z: np.ndarray, row: np.ndarray = row, target: np.ndarray = target) -> float:
                scores = weight @ z
                return float(-(logsumexp(scores) - target @ scores - gamma * ((z - row) ** 2).sum()))

            starts = [row, *(row + (weight[k] - target @ weight) / (2 * gamma) for k in range(len(weight)))]
            total -= min(float(minimize(lost, start).fun) for start in starts)
        return total / len(rows)

    found = minimize_scalar(lambda log: np.exp(log) * radius**2 + phi(np.exp(log)), bounds=(-6, 6), method="bounded")
    return float(found.fun)


@pytest.mark.slow
@pytest.mark.parametrize("radius", [0.1, 0.7])
def test_cross_entropy_reaches_the_dual(radius: float, seed: int) -> None:
    head, rows, targets = drawn("multiclass", seed, 5)
    found = worst_case_penalty(
        None, [targets], [rows], head=head, task="multiclass", radius=radius, iterations=30
    ).item()
    expected = slow_dual(head.weight.detach().numpy(), rows.numpy(), targets.numpy(), radius)
    assert found == pytest.approx(expected, rel=2e-3)
    assert found <= expected * (1 + 1e-6)  # what is reached is never more than there is


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_few_iterations_come_close(task: str, seed: int) -> None:
    head, rows, targets = drawn(task, seed, 40)
    for fraction in (0.1, 0.25, 0.5, 1.0):
        few, many = (
            worst_case_penalty(None, [targets], [rows], head=head, task=task, fraction=fraction, **search).item()
            for search in ({}, {"iterations": 200, "bisections": 40})
        )
        assert few == pytest.approx(many, rel=0.01)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_the_budget_is_spent_and_not_more(task: str, seed: int) -> None:
    head, rows, targets = drawn(task, seed)
    moves = worst_moves(feature_head(head, rows), rows, targets, task, torch.tensor(0.3**2), Search(30, 30))
    spent = sum(float(move.share * (move.by**2).sum(dim=1).mean()) for move in moves)
    assert spent == pytest.approx(0.09, rel=1e-6)
    assert sum(float(move.share) for move in moves) == pytest.approx(1)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_units_of_the_features_do_not_matter(task: str, seed: int) -> None:
    head, rows, targets = drawn(task, seed)
    first = worst_case_penalty(None, [targets], [rows], head=head, task=task)
    second = worst_case_penalty(None, [targets], [7 * rows], head=linear(head.weight.detach() / 7), task=task)
    assert second.item() == pytest.approx(first.item(), rel=1e-6)


# --- gradients --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_gradient_at_a_fixed_radius_is_that_of_the_worst_case(task: str, seed: int) -> None:
    head, rows, targets = drawn(task, seed, 5)

    def value(weight: Tensor, features: Tensor) -> Tensor:
        moved = feature_head(head, features, {"weight": weight})
        return worst_case_penalty(
            None, [targets], [features], head=moved, task=task, radius=0.3, iterations=100, bisections=30
        )

    point = (head.weight.detach().clone(), rows)
    for which in range(2):
        found = torch.func.grad(value, argnums=which)(*point)
        expected = central_differences(value, *point, step=1e-5, which=which)
        assert float((found - expected).abs().max()) < 1e-3 * float(expected.abs().max())


# --- heads that are not linear ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_ascent_finds_most_of_what_closed_forms_find(task: str, seed: int) -> None:
    """A linear head in disguise: never more than the worst case, and more than the loss without moving."""
    head, rows, targets = drawn(task, seed, 30)
    plain, exact, found = (
        worst_case_penalty(None, [targets], [rows], head=given, task=task, radius=radius, bisections=30).item()
        for given, radius in ((head, 0.0), (head, 0.3), (nn.Sequential(head), 0.3))
    )
    assert found <= exact * (1 + 1e-6)
    assert found - plain > (0.999 if task == "regression" else 0.8) * (exact - plain)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_the_unit_of_a_linear_head_in_disguise_is_the_same(task: str, seed: int) -> None:
    head, rows, targets = drawn(task, seed)
    plain, disguised = (
        squared_unit(feature_head(given, rows), rows, targets, task).item() for given in (head, nn.Sequential(head))
    )
    assert disguised == pytest.approx(plain)


class Upright(nn.Module):
    """A head that reads images of 2 × 2, with layers that act otherwise while training."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(4, 3))

    def forward(self, images: Tensor) -> Tensor:
        assert images.shape[1:] == (1, 2, 2)
        return self.layers(images)


def test_heads_of_ones_own_are_asked_as_they_predict(seed: int) -> None:
    rows = made_rows(seed, "multiclass")
    network = (nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (1, 2, 2))), Upright())
    trained = train(network, rows, WorstCase(), settings=Settings(3), seed=seed)
    normalising = trained.network.head.layers[0]
    assert int(normalising.num_batches_tracked) == 3  # once a step, whatever the search asks
    assert np.isfinite(trained.history["penalty"]).all()
    assert (trained.history["penalty"] > 0).all()


# --- any base ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("base", BASES)
def test_the_whole_is_that_of_the_base_plus_the_worst_case(base: str, task: str, seed: int) -> None:
    batch, adversary = batch_of(base, task, seed), adversary_of(base, task, seed)
    plain = objective_of(base)
    objective = WorstCase(weight=0.3, base=base)
    expected, remembered = plain(batch, None, {k: v.double() for k, v in plain.memory(3).items()}, adversary)
    found, memory = objective(batch, None, {k: v.double() for k, v in objective.memory(3).items()}, adversary)
    worst = worst_case_penalty(batch.logits, batch.targets, batch.features, head=batch.head, task=task)
    torch.testing.assert_close(found, expected + 0.3 * worst)
    torch.testing.assert_close({k[5:]: v for k, v in memory.items() if k.startswith("base.")}, remembered)
    judged = objective.judgement(batch, 0.3, memory, adversary)
    torch.testing.assert_close(judged, plain.judgement(batch, plain.weight, remembered, adversary) + 0.3 * worst)


@pytest.mark.parametrize("base", ["g2dm", "mixup", "group_dro", "invrat", "vrex"])
def test_trains_with_whatever_the_base_needs(base: str, seed: int) -> None:
    rows = made_rows(seed, "binary")
    objective = WorstCase(base=base)
    trained = train(built(seed), rows, objective, settings=Settings(5, 8), seed=seed)
    assert np.isfinite(trained.history["loss"]).all()
    plain = train(built(seed), rows, replace(objective, weight=0.0), settings=Settings(5, 8), seed=seed)
    alone = train(built(seed), rows, base, settings=Settings(5, 8), seed=seed)
    if base in ("mixup", "group_dro", "g2dm"):  # a weight above 1 is divided by, but not that of a base
        torch.testing.assert_close(plain.network.state_dict(), alone.network.state_dict())
    assert not torch.equal(trained.network.head.weight, plain.network.head.weight)


def test_a_weight_of_the_base_can_be_given(seed: int) -> None:
    batch = batch_of("vrex", "regression", seed)
    sums = [WorstCase(0.0, "vrex", weight)(batch)[0] for weight in (0.0, 1.0, 3.0)]
    torch.testing.assert_close(sums[2] - sums[0], 3 * (sums[1] - sums[0]))
    assert objective_of("worst_case", options={"base": "vrex"}).fewest_environments == 2
    assert WorstCase().fewest_environments == 1
    assert WorstCase(base="wasserstein_matching").rows_at_once == 64


def test_the_unit_is_a_running_mean(seed: int) -> None:
    objective, memory = WorstCase(refresh=4), WorstCase().memory(len(SIZES))
    units, weights = [], []
    for place in range(3):
        batch = batch_of("worst_case", "multiclass", seed + place)
        rows, targets = torch.cat(batch.features), torch.cat(batch.targets)
        assert batch.head is not None
        units.append(squared_unit(batch.head, rows, targets, "multiclass").item())
        weights = [0.75 * weight for weight in weights] + [0.25]
        memory = objective.remember(batch, memory)
        mean = memory["square"].item() / memory["counted"].item()
        assert mean == pytest.approx(np.average(units, weights=weights), rel=1e-6)
    expected = worst_case_penalty(
        None, batch.targets, batch.features, head=batch.head, task="multiclass", radius=0.25 * mean**0.5
    )
    torch.testing.assert_close(objective.parts(batch, memory, {})[1], expected)


def test_steps_do_not_pollute_the_memory_of_the_start() -> None:
    batch = batch_of("worst_case", "binary", 0)
    memory = memory_of(WorstCase(), batch)
    assert sorted(memory) == ["counted", "square"]


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WorstCase(base="dric"), '"dric" cannot be the base'),
        (lambda: WorstCase(base="transport_gap"), '"transport_gap" cannot be the base'),
        (lambda: WorstCase(base="worst_case"), "cannot be its own base"),
        (lambda: WorstCase(base="vrexx"), 'Did you mean "vrex"'),
        (lambda: WorstCase(fraction=-1.0), "fraction is -1.0"),
        (lambda: WorstCase(refresh=0), '"refresh" of objective "worst_case" is 0'),
        (lambda: WorstCase(base_weight=-1.0), "base_weight is -1.0"),
    ],
    ids=["dric", "transport_gap", "itself", "unknown", "fraction", "refresh", "base_weight"],
)
def test_refuses_what_cannot_work(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError) as told:
        make()
    assert message in str(told.value)


def test_says_when_the_head_is_missing() -> None:
    batch = replace(batch_of("erm", "binary", 0), head=None)
    with pytest.raises(InputError, match="this batch has no head"):
        WorstCase()(batch)
    rows = [torch.zeros(2, 1)]
    with pytest.raises(InputError, match="the head is a int"):
        worst_case_penalty(None, [torch.zeros(2)], rows, head=3, task="binary")
    with pytest.raises(InputError, match="neither logits nor a task"):
        worst_case_penalty(None, [torch.zeros(2)], rows, head=nn.Linear(1, 1))
    with pytest.raises(InputError, match="for 3 targets"):
        worst_case_penalty(None, [torch.zeros(3)], rows, head=nn.Linear(1, 1), task="binary")


def test_a_batch_without_a_head_is_fine_for_the_others() -> None:
    batch = Batch((torch.ones(2, 1),) * 2, (torch.zeros(2),) * 2, (torch.ones(2, 1),) * 2, "regression")
    assert objective_of("vrex")(batch)[0].item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"targets": [torch.tensor([0, 1, 2, 0])]}, "codes 0 to 1"),
        ({"targets": [torch.tensor([0, -1, 1, 0])]}, "codes 0 to 1"),
        ({"radius": -1.0}, "radius"),
        ({"radius": float("nan")}, "radius"),
        ({"iterations": 0}, "iterations"),
        ({"task": "log_loss"}, "unknown"),
        ({"task": "binary"}, "needs one"),
    ],
    ids=["beyond", "negative", "radius", "nan", "iterations", "task", "outputs"],
)
def test_what_the_penalty_cannot_use_is_said(change: dict[str, Any], words: str) -> None:
    head = torch.nn.Linear(2, 2)
    given: dict[str, Any] = {"targets": [torch.tensor([0, 1, 1, 0])], "task": "multiclass"} | change
    targets = given.pop("targets")
    with pytest.raises(InputError, match=words):
        worst_case_penalty(None, targets, [torch.ones(4, 2)], head=head, **given)
