"""Laws that every registered objective keeps; a new one is tested as soon as it is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import invariscope.objectives
from invariscope.models.torch_heads import feature_head
from invariscope.objectives import REGISTRY, Batch, Objective, objective, objective_of
from tests.objectives.finite_differences import assert_gradient, central_differences
from tests.objectives.worlds import (
    OUTPUTS,
    SIZES,
    TASKS,
    WIDTH,
    adversary_of,
    batch_of,
    head_of,
    lawful,
    memory_of,
    parts,
)

# Something is held fixed on purpose, so that the gradient is not that of the value; their own tests check it
HOLDS_SOMETHING_FIXED = {"g2dm", "wasserstein_matching", "worst_case"}
# Not a comparison of environments that is 0 where they are alike
NOT_ZERO_WHEN_ALIKE = {"irm", "ib_erm", "ib_irm", "g2dm", "invrat", "worst_case"}

every_objective = pytest.mark.parametrize("name", sorted(REGISTRY))
every_task = pytest.mark.parametrize("task", TASKS)


def reordered(values: tuple[Tensor, ...] | None, rows: list[Tensor]) -> tuple[Tensor, ...] | None:
    return None if values is None else tuple(value[order] for value, order in zip(values, rows, strict=True))


# --- what the class says of itself -----------------------------------------------------------------------------------
@every_objective
def test_is_a_frozen_dataclass_that_can_be_made_without_arguments(name: str) -> None:
    kind = REGISTRY[name]
    assert kind.name == name
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for field in fields(kind):
        assert field.default is not MISSING, f"{field.name} has no default, or one that could be changed in place"
    assert isinstance(kind().weight, float)
    assert hash(kind()) == hash(kind())


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match=r'an objective "vrex" in invariscope\.objectives\.vrex'):
        objective("vrex")(type("Mine", (Objective,), {"__module__": __name__}))
    assert REGISTRY["vrex"] is invariscope.objectives.VREx


def test_a_class_that_is_a_frozen_dataclass_already_is_registered_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "own", type("Own", (Objective,), {"__module__": __name__}))  # taken back afterwards

    @dataclass(frozen=True)
    class Own(Objective):
        """Mean risk, with a hyper-parameter of its own."""

        share: float = 0.5

    assert objective("own")(Own) is Own
    assert objective_of("own", options={"share": 0.1}) == Own(share=0.1)


@every_objective
def test_says_what_it_is(name: str) -> None:
    text = REGISTRY[name].__doc__ or ""
    assert len(text.split()) >= 4
    assert not text.startswith(REGISTRY[name].__name__ + "("), "the docstring is the one dataclasses make up"


@every_objective
def test_is_exported_by_the_package(name: str) -> None:
    assert REGISTRY[name].__name__ in invariscope.objectives.__all__


# --- values ----------------------------------------------------------------------------------------------------------
@every_task
@every_objective
def test_is_one_finite_number(name: str, task: str, seed: int) -> None:
    objective, batch = REGISTRY[name](), batch_of(name, task, seed)
    for value in parts(objective, batch, seed).values():
        assert value.shape == ()
        assert value.dtype == torch.float64
        assert torch.isfinite(value)
    total, memory = objective(batch, adversary=adversary_of(name, task, seed))
    assert total.shape == ()
    assert torch.isfinite(total)
    assert memory.keys() == objective.memory(len(SIZES)).keys()
    judged = objective.judgement(batch, objective.weight, memory, adversary_of(name, task, seed))
    assert judged.shape == ()
    assert torch.isfinite(judged)


@every_task
@every_objective
def test_the_whole_is_risk_plus_weight_times_penalty(name: str, task: str, seed: int) -> None:
    objective, batch = REGISTRY[name](), batch_of(name, task, seed)
    adversary, memory = adversary_of(name, task, seed), objective.memory(len(SIZES))
    memory = {key: value.double() for key, value in memory.items()}
    expected = parts(objective, batch, seed)
    for weight in (0.0, 3.0, torch.tensor(0.5, dtype=torch.float64)):
        total, _ = objective(batch, weight, memory, adversary)
        torch.testing.assert_close(total, expected["risk"] + weight * expected["penalty"])


@every_task
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"worst_case"}))  # which its base judges: a test of its own
def test_held_out_rows_are_judged_by_the_whole_and_beside_an_adversary_by_the_risk(
    name: str, task: str, seed: int
) -> None:
    objective, batch, adversary = REGISTRY[name](), batch_of(name, task, seed), adversary_of(name, task, seed)
    expected, found = (
        parts(objective, batch, seed),
        objective.judgement(batch, 3.0, memory_of(objective, batch), adversary),
    )
    if name == "group_dro":
        assert float(found) == max(float(risk) for risk in batch.risks)
    elif adversary:
        assert float(found) == float(expected["risk"])
    else:
        torch.testing.assert_close(found, expected["risk"] + 3.0 * expected["penalty"])


@every_task
@every_objective
def test_takes_single_precision_too(name: str, task: str, seed: int) -> None:
    batch = batch_of(name, task, seed)
    head = {key: value.float() for key, value in head_of(task).parameters.items()}
    single = Batch(
        *(tuple(value.float() for value in values) for values in (batch.logits, batch.targets, batch.features)),
        task,
        None if batch.log_densities is None else tuple(value.float() for value in batch.log_densities),
        feature_head(torch.nn.Linear(WIDTH, OUTPUTS[task]), torch.zeros(1, WIDTH), head),
    )
    start = REGISTRY[name]().adversary(WIDTH, len(SIZES), OUTPUTS[task], torch.Generator().manual_seed(seed))
    values = [float(REGISTRY[name]()(given, adversary=start)[0]) for given in (batch, single)]
    assert values[1] == pytest.approx(values[0], rel=1e-3, abs=1e-3)


@every_objective
def test_rows_are_mixed_into_rows_of_the_same_kind(name: str, seed: int) -> None:
    objective, generator = REGISTRY[name](), torch.Generator().manual_seed(seed)
    for task in TASKS:
        batch = batch_of(name, task, seed)
        inputs, targets = objective.mix(batch.features, batch.targets, objective.draw(batch.targets, generator))
        assert len(inputs) == len(targets) == len(SIZES)
        for new, old, new_target, old_target in zip(inputs, batch.features, targets, batch.targets, strict=True):
            assert new.shape[1:] == old.shape[1:]
            assert new_target.shape[1:] == old_target.shape[1:]
            assert len(new) == len(new_target)
            assert torch.isfinite(new).all()
            assert torch.isfinite(new_target).all()


# --- gradients -------------------------------------------------------------------------------------------------------
@every_task
@pytest.mark.parametrize("part", ["risk", "penalty"])
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - HOLDS_SOMETHING_FIXED))
def test_gradient_in_logits_and_features_is_that_of_the_value(name: str, part: str, task: str, seed: int) -> None:
    objective, batch = lawful(name), batch_of(name, task, seed, (4, 6, 5))
    adversary, memory = adversary_of(name, task, seed), memory_of(objective, batch)

    def value(*tensors: Tensor) -> Tensor:
        moved = replace(batch, logits=tensors[:3], features=tensors[3:])
        return objective.risk(moved, memory) if part == "risk" else objective.penalty(moved, adversary)

    assert_gradient(value, *batch.logits, *batch.features)


def own_head_risk(batch: Batch, adversary: dict[str, Tensor]) -> Tensor:
    """Mean risk of the environments' own heads, with torch's own losses."""
    losses = []
    for place, (rows, values) in enumerate(zip(batch.features, batch.targets, strict=True)):
        scores = rows @ adversary["weight"][place].T + adversary["bias"][place]
        if batch.task == "multiclass":
            losses.append(torch.nn.functional.cross_entropy(scores, values))
        elif batch.task == "binary":
            losses.append(torch.nn.functional.binary_cross_entropy_with_logits(scores[:, 0], values))
        else:
            losses.append(torch.nn.functional.mse_loss(scores[:, 0], values))
    return torch.stack(losses).mean()


def one_against_rest_risk(batch: Batch, adversary: dict[str, Tensor]) -> Tensor:
    """Mean log-loss of the discriminators, one after the other."""
    losses = []
    for k in range(len(batch.features)):
        for place, rows in enumerate(batch.features):
            seen = rows @ adversary["projection"][k].detach().T
            hidden = torch.nn.functional.gelu(seen @ adversary["hidden_weight"][k].T + adversary["hidden_bias"][k])
            scores = hidden @ adversary["output_weight"][k] + adversary["output_bias"][k]
            label = torch.full_like(scores, float(place == k))
            losses.append(torch.nn.functional.binary_cross_entropy_with_logits(scores, label))
    return torch.stack(losses).mean()


# What each adversary goes down when the whole is minimised; None: what the representation goes up
AIMS: dict[str, Callable[[Batch, dict[str, Tensor]], Tensor] | None] = {
    "dann": None,
    "cdann": None,
    "invrat": own_head_risk,
    "g2dm": one_against_rest_risk,
}
WITH_ADVERSARY = sorted(
    name for name, kind in REGISTRY.items() if kind().adversary(WIDTH, 2, 1, torch.Generator().manual_seed(0))
)
NEVER_TRAINED = {"g2dm": {"projection"}}


@every_task
@pytest.mark.parametrize("name", WITH_ADVERSARY)
def test_adversary_goes_down_what_it_aims_at(name: str, task: str, seed: int) -> None:
    assert name in AIMS, "say in AIMS what the adversary of this objective minimises"
    objective = replace(REGISTRY[name](), **({"hidden": 3} if hasattr(REGISTRY[name], "hidden") else {}))
    batch, aim = batch_of(name, task, seed), AIMS[name]
    generator = torch.Generator().manual_seed(seed)
    adversary = {
        key: torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for key, value in objective.adversary(WIDTH, len(SIZES), OUTPUTS[task], generator).items()
    }
    keys = sorted(adversary)

    def aimed(*values: Tensor) -> Tensor:
        given = dict(zip(keys, values, strict=True))
        return -objective.penalty(batch, given) if aim is None else aim(batch, given)

    gradient = torch.func.grad(lambda given: objective.penalty(batch, given))(adversary)
    for which, key in enumerate(keys):
        if key in NEVER_TRAINED.get(name, ()):
            assert torch.equal(gradient[key], torch.zeros_like(gradient[key]))
            continue
        expected = central_differences(aimed, *(adversary[other] for other in keys), which=which)
        torch.testing.assert_close(gradient[key], expected, rtol=1e-6, atol=1e-7)
        if not (aim is None and key == "output_bias"):
            assert float(gradient[key].abs().max()) > 1e-6


@every_task
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - set(WITH_ADVERSARY)))
def test_without_an_adversary_the_penalty_needs_none(name: str, task: str, seed: int) -> None:
    assert torch.isfinite(REGISTRY[name]().penalty(batch_of(name, task, seed), {}))


# --- what must not matter --------------------------------------------------------------------------------------------
@every_task
@every_objective
def test_order_of_rows_does_not_matter(name: str, task: str, seed: int) -> None:
    batch, generator = batch_of(name, task, seed), torch.Generator().manual_seed(seed)
    rows = [torch.randperm(size, generator=generator) for size in SIZES]
    shuffled = replace(
        batch,
        logits=reordered(batch.logits, rows),
        targets=reordered(batch.targets, rows),
        features=reordered(batch.features, rows),
        log_densities=reordered(batch.log_densities, rows),
    )
    torch.testing.assert_close(
        parts(lawful(name), shuffled, seed), parts(lawful(name), batch, seed), rtol=1e-9, atol=1e-10
    )


@every_task
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - set(WITH_ADVERSARY)))
def test_order_of_environments_does_not_matter(name: str, task: str, seed: int) -> None:
    batch, order = batch_of(name, task, seed), [2, 0, 1]

    def turned(values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(values[place] for place in order)

    other = Batch(
        turned(batch.logits),
        turned(batch.targets),
        turned(batch.features),
        task,
        None if batch.log_densities is None else turned(tuple(value[:, order] for value in batch.log_densities)),
        batch.head,
    )
    torch.testing.assert_close(
        parts(lawful(name), other, seed), parts(lawful(name), batch, seed), rtol=1e-9, atol=1e-10
    )


@every_task
@pytest.mark.parametrize("name", sorted(set(REGISTRY) - NOT_ZERO_WHEN_ALIKE))
def test_environments_that_are_alike_have_no_penalty(name: str, task: str, seed: int) -> None:
    one, objective = batch_of(name, task, seed, (8,)), lawful(name)
    densities = None
    if objective.ratio_on:  # all environments have the same density
        densities = tuple(one.log_densities[0].expand(8, 3) for _ in range(3)) if one.log_densities else None
    alike = Batch(one.logits * 3, one.targets * 3, one.features * 3, task, densities)
    different = batch_of(name, task, seed)
    # A discriminator that knows nothing: the best there is for environments that are alike
    nothing = {key: torch.zeros_like(value) for key, value in adversary_of(name, task, seed).items()}
    assert float(objective.penalty(alike, nothing)) == pytest.approx(0, abs=1e-9)
    if name not in WITH_ADVERSARY and objective.weight > 0:
        assert abs(float(objective.penalty(different, {}))) > 1e-4


# --- many at once ----------------------------------------------------------------------------------------------------
@every_task
@every_objective
def test_many_replicates_at_once_are_those_one_by_one(name: str, task: str, seed: int) -> None:
    objective = REGISTRY[name]()
    batches = [batch_of(name, task, 10 * seed + place) for place in range(3)]
    adversaries = [adversary_of(name, task, 10 * seed + place) for place in range(3)]
    memory = {key: value.double() for key, value in objective.memory(len(SIZES)).items()}

    def tensors(batch: Batch) -> dict[str, Any]:
        given = {"logits": batch.logits, "targets": batch.targets, "features": batch.features}
        return given | ({} if batch.log_densities is None else {"log_densities": batch.log_densities})

    def whole(given: dict[str, Any], adversary: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return objective(Batch(task=task, head=batches[0].head, **given), None, memory, adversary)

    def total(given: dict[str, Any], adversary: dict[str, Tensor]) -> Tensor:
        return whole(given, adversary)[0]

    stacked = {
        key: tuple(torch.stack(values) for values in zip(*(tensors(batch)[key] for batch in batches), strict=True))
        for key in tensors(batches[0])
    }
    against = {key: torch.stack([adversary[key] for adversary in adversaries]) for key in adversaries[0]}
    values, memories = torch.func.vmap(whole)(stacked, against)
    gradients = torch.func.vmap(torch.func.grad(total))(stacked, against)
    for place, (batch, adversary) in enumerate(zip(batches, adversaries, strict=True)):
        value, remembered = whole(tensors(batch), adversary)
        torch.testing.assert_close(values[place], value)
        torch.testing.assert_close({key: kept[place] for key, kept in memories.items()}, remembered)
        gradient = torch.func.grad(total)(tensors(batch), adversary)
        for key, each in gradient.items():
            torch.testing.assert_close(tuple(grad[place] for grad in gradients[key]), each)


@every_task
@every_objective
def test_rows_of_many_replicates_are_mixed_at_once(name: str, task: str, seed: int) -> None:
    objective, generator = REGISTRY[name](), torch.Generator().manual_seed(seed)
    batches = [batch_of(name, task, 10 * seed + place) for place in range(3)]
    drawn = [objective.draw(batch.targets, generator) for batch in batches]
    inputs, targets = (
        tuple(torch.stack(values) for values in zip(*(getattr(batch, kind) for batch in batches), strict=True))
        for kind in ("features", "targets")
    )
    together = {key: torch.stack([numbers[key] for numbers in drawn]) for key in drawn[0]}
    found = torch.func.vmap(objective.mix)(inputs, targets, together)
    for place, (batch, numbers) in enumerate(zip(batches, drawn, strict=True)):
        expected = objective.mix(batch.features, batch.targets, numbers)
        for many, one in zip(found, expected, strict=True):
            torch.testing.assert_close(tuple(values[place] for values in many), tuple(one))
