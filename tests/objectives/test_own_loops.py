"""Penalties as people call them in their own loops, and what they are told when they call them wrongly."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

import invariscope.torch as penalties
from invariscope.errors import InputError
from invariscope.objectives import REGISTRY, Objective, objective_of


def batches(seed: int, task: str) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    logits = [torch.randn(n, 3 if task == "multiclass" else 1, generator=generator) for n in (6, 8)]
    features = [torch.randn(n, 2, generator=generator) for n in (6, 8)]
    if task == "regression":
        return logits, [torch.randn(len(one), generator=generator) for one in logits], features
    codes = [torch.arange(len(one)) % (3 if task == "multiclass" else 2) for one in logits]
    return logits, codes, features


def test_every_objective_with_a_penalty_has_a_function() -> None:
    named = {"ib_erm": "bottleneck_penalty", "ib_irm": "bottleneck_penalty", "group_dro": "group_dro_risk"}
    named |= {"mixup": "mixup", "lisa": "lisa"}
    wanted = {named.get(name, f"{name}_penalty") for name in REGISTRY if name != "erm"}
    assert sorted(wanted - set(penalties.__all__)) == []


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("name", ["irm", "vrex", "mmd", "coral", "regret", "wasserstein_matching"])
def test_the_task_is_told_by_the_tensors(name: str, task: str, seed: int) -> None:
    logits, targets, features = batches(seed, task)
    function = getattr(penalties, f"{name}_penalty")
    found = function(logits, targets, features)
    assert float(found) == float(function(logits, targets, features, task=task))


@pytest.mark.parametrize("name", ["irm_penalty", "vrex_penalty", "regret_penalty"])
def test_zeros_and_ones_as_floats_must_be_named(name: str, seed: int) -> None:
    logits, targets, features = batches(seed, "binary")
    floats = [one.float() for one in targets]
    function = getattr(penalties, name)
    with pytest.raises(InputError, match='say task="binary" or "regression"'):
        function(logits, floats, features)
    assert float(function(logits, floats, features, task="binary")) == pytest.approx(
        float(function(logits, targets, features))
    )


def test_a_column_of_targets_counts_as_one(seed: int) -> None:
    logits, targets, _ = batches(seed, "regression")
    columns = [one[:, None] for one in targets]
    assert float(penalties.vrex_penalty(logits, columns)) == float(penalties.vrex_penalty(logits, targets))


@pytest.mark.parametrize("name", ["irm_penalty", "vrex_penalty", "regret_penalty"])
def test_says_what_is_wrong_with_tensors(name: str, seed: int) -> None:
    logits, targets, features = batches(seed, "regression")
    function = getattr(penalties, name)
    with pytest.raises(InputError, match="list of torch tensors"):
        function(torch.cat(logits), torch.cat(targets), features)
    with pytest.raises(InputError, match="list of torch tensors"):
        function([one.numpy() for one in logits], targets, features)
    with pytest.raises(InputError, match="no rows"):
        function([logits[0], logits[1][:0]], [targets[0], targets[1][:0]], features)


@pytest.mark.parametrize("name", ["mmd_penalty", "coral_penalty", "bottleneck_penalty"])
def test_says_when_features_are_missing(name: str, seed: int) -> None:
    logits, targets, _ = batches(seed, "regression")
    with pytest.raises(InputError, match="features must be a list"):
        getattr(penalties, name)(logits, targets, None)


def test_log_densities_may_come_as_they_are_fitted(seed: int) -> None:
    logits, targets, _ = batches(seed, "regression")
    rng = np.random.default_rng(seed)
    densities = penalties.log_densities_of([rng.normal(size=(len(one), 2)) for one in logits], "gaussian")
    as_tensors = [torch.as_tensor(one) for one in densities]
    for function in (penalties.dric_penalty, penalties.transport_gap_penalty):
        assert float(function(logits, targets, log_densities=densities)) == float(
            function(logits, targets, log_densities=as_tensors)
        )


@pytest.mark.parametrize(
    ("name", "weight", "options", "message"),
    [
        ("vrex", "high", None, '"weight" of objective "vrex" is \'high\': give a number'),
        ("group_dro", None, {"rate": "x"}, '"rate" of objective "group_dro" is \'x\''),
        ("vrex", 3.0, {"weight": 7.0}, "given twice"),
        ("IRM", None, None, 'Did you mean "irm"?'),
    ],
)
def test_says_what_is_wrong_with_hyper_parameters(
    name: str, weight: object, options: dict[str, object] | None, message: str
) -> None:
    with pytest.raises(InputError) as told:
        objective_of(name, weight, options)  # type: ignore[arg-type]
    assert message in str(told.value)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_hyper_parameters_are_in_the_documentation(name: str) -> None:
    found = objective_of(name)
    weight = "none" if type(found).penalty is Objective.penalty else f"{found.weight:g}"
    others = [one.name for one in fields(found) if one.name not in ("weight", "denominator")]
    options = ", ".join(f"`{other}={getattr(found, other)!r}`" for other in others)
    page = Path(__file__).parents[2] / "docs" / "invariant_learning.md"
    assert f"| `{name}` | {weight} | {options} |" in page.read_text(encoding="utf-8")
