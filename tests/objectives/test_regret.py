"""Regret as a penalty: heads that are really the best, a gradient that includes their refitting, and iv.regret."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

import invariscope as iv
from invariscope.errors import InputError
from invariscope.objectives.regret import accelerated_heads, best_heads, newton_heads, problems_of, regret_penalty
from tests.objectives.finite_differences import assert_gradient

TASKS = ("regression", "binary", "multiclass")
OUTPUTS = {"regression": 1, "binary": 1, "multiclass": 3}
SIZES = (14, 20, 17)


def drawn(
    task: str, seed: int, sizes: tuple[int, ...] = SIZES, width: int = 2, strength: float = 1.0
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Logits (zeros), targets and features of environments whose relations differ."""
    rng = np.random.default_rng(seed)
    features = [rng.normal(size=(size, width)) + 0.5 * place for place, size in enumerate(sizes)]
    scores = [strength * part @ rng.normal(size=(width, OUTPUTS[task])) for part in features]
    if task == "regression":
        targets = [part[:, 0] + rng.normal(size=len(part)) for part in scores]
    elif task == "binary":
        targets = [(part[:, 0] + rng.logistic(size=len(part)) > 0).astype(np.int64) for part in scores]
    else:
        targets = [(part + rng.gumbel(size=part.shape)).argmax(axis=1) for part in scores]
    logits = [torch.zeros(size, OUTPUTS[task], dtype=torch.float64) for size in sizes]
    return logits, [torch.from_numpy(part) for part in targets], [torch.from_numpy(part) for part in features]


def reference(task: str, targets: list[Tensor], features: list[Tensor], ridge: float) -> float:
    """The definition, with heads found by scipy from losses written out here."""
    Z = [part.numpy() for part in features]
    y = [part.numpy() for part in targets]
    centre = np.mean([part.mean(axis=0) for part in Z], axis=0)
    scale = ridge * np.mean([np.mean((part - centre) ** 2) for part in Z])
    width, outputs = Z[0].shape[1], OUTPUTS[task]

    def risk(flat: NDArray[np.float64], e: int) -> float:
        head = flat.reshape(width + 1, outputs)
        scores = (Z[e] - centre) @ head[1:] + head[0]
        if task == "regression":
            loss = (y[e] - scores[:, 0]) ** 2
        elif task == "binary":
            loss = np.log(1 + np.exp(-(2 * y[e] - 1) * scores[:, 0]))
        else:
            loss = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), y[e]]
        of_intercept = 0.0 if task == "regression" else ridge * (head[0] ** 2).sum()
        return float(loss.mean() + scale * (head[1:] ** 2).sum() + of_intercept)

    def lowest(function: object) -> float:
        start = np.zeros((width + 1) * outputs)
        return float(minimize(function, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 2000}).fun)

    own = [lowest(lambda w, e=e: risk(w, e)) for e in range(len(Z))]
    return lowest(lambda w: float(np.mean([risk(w, e) / own[e] for e in range(len(Z))]))) - 1


def test_pencil_case() -> None:
    # z = ±1 with mean square 1, y = ±z + noise of variance 1, uncorrelated with z; slopes shrink by 1 / (1 + r)
    z = torch.tensor([[-1.0], [1.0], [-1.0], [1.0]], dtype=torch.float64)
    y = z[:, 0] + torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=torch.float64)
    ridge = 0.25
    # own: min_b (1 − b)² + 1 + r b² = 1 + r / (1 + r); shared: b = 0, so 1 + 1
    own = 1 + ridge / (1 + ridge)
    found = regret_penalty([torch.zeros(4, 1)] * 2, [y, -y], [z, z], ridge=ridge)
    assert float(found) == pytest.approx(2 / own - 1, rel=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_equals_the_definition_with_heads_found_by_scipy(task: str, seed: int) -> None:
    logits, targets, features = drawn(task, seed)
    found = float(regret_penalty(logits, targets, features, task=task, ridge=0.02))
    assert found == pytest.approx(reference(task, targets, features, 0.02), rel=2e-5, abs=1e-6)
    assert found > 0


@pytest.mark.parametrize("ridge", [1e-3, 0.1])
@pytest.mark.parametrize("task", TASKS)
def test_gradient_includes_what_refitting_the_heads_does(task: str, ridge: float, seed: int) -> None:
    logits, targets, features = drawn(task, seed)
    assert_gradient(
        lambda *given: regret_penalty(logits, targets, given, task=task, ridge=ridge), *features, tolerance=1e-5
    )


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("strength", [1.0, 30.0])
def test_both_ways_to_fit_class_heads_end_where_the_gradient_is_zero(task: str, strength: float, seed: int) -> None:
    """Hard rows too: at strength 30 classes are nearly separate."""
    _, targets, features = drawn(task, seed, (60, 80, 70), 4, strength)
    rows = problems_of(features, targets, task, OUTPUTS[task], 1e-3)
    for fit in (newton_heads, accelerated_heads):
        heads = fit(rows)
        gradient = torch.func.grad(lambda w: rows.objectives(w).sum())(heads)
        assert float(gradient.abs().max()) < 1e-5, fit.__name__
    torch.testing.assert_close(best_heads(rows), newton_heads(rows), rtol=0, atol=0)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_newton_steps_never_go_up(task: str, seed: int) -> None:
    _, targets, features = drawn(task, seed, (60, 80, 70), 4, 30.0)
    rows = problems_of(features, targets, task, OUTPUTS[task], 1e-3)
    values = torch.stack([rows.objectives(newton_heads(rows, steps)) for steps in range(12)])
    assert bool((values[1:] <= values[:-1] + 1e-12).all())


def test_wide_features_of_several_classes_go_the_cheap_way(seed: int) -> None:
    _, targets, features = drawn("multiclass", seed, (300, 300), 60)
    rows = problems_of(features, targets, "multiclass", 3, 1e-2)
    torch.testing.assert_close(best_heads(rows), accelerated_heads(rows), rtol=0, atol=0)
    torch.testing.assert_close(
        rows.objectives(best_heads(rows)), rows.objectives(newton_heads(rows)), rtol=1e-6, atol=0
    )


@pytest.mark.parametrize("task", TASKS)
def test_agrees_with_the_criterion_on_many_rows(task: str, seed: int) -> None:
    logits, targets, features = drawn(task, seed, (20_000, 20_000), 2)
    found = float(regret_penalty(logits, targets, features, task=task, ridge=1e-6))
    Z, y = torch.cat(features).numpy(), torch.cat(targets).numpy()
    kind = "regression" if task == "regression" else "classification"
    expected = iv.regret(Z, y, np.repeat([0, 1], 20_000), task=kind, n_boot=99).value
    assert found == pytest.approx(expected, rel=5e-3, abs=3e-4)  # the criterion takes overfitting off, about 1e-4


def test_overfitting_of_own_heads_is_as_large_as_the_docstring_says(seed: int) -> None:
    rng, found = np.random.default_rng(seed), []
    rows, width, environments = 100, 4, 3
    for _ in range(200):
        features = [torch.from_numpy(rng.normal(size=(rows, width))) for _ in range(environments)]
        targets = [part.sum(dim=1) + torch.from_numpy(rng.normal(size=rows)) for part in features]
        logits = [torch.zeros(rows, 1, dtype=torch.float64)] * environments
        found.append(float(regret_penalty(logits, targets, features, ridge=1e-9)))
    expected = (1 - 1 / environments) * (width + 1) / rows
    assert np.mean(found) == pytest.approx(expected, rel=0.15)  # first order: 1 / (1 − 5 %) is left out


@pytest.mark.parametrize("task", TASKS)
def test_is_free_of_the_units_of_features_and_targets(task: str, seed: int) -> None:
    logits, targets, features = drawn(task, seed)
    found = regret_penalty(logits, targets, features, task=task)
    moved = [50.0 - 1000.0 * part for part in features]
    torch.testing.assert_close(regret_penalty(logits, targets, moved, task=task), found, rtol=1e-6, atol=1e-9)
    if task == "regression":
        other = [7.0 + 0.001 * part for part in targets]
        torch.testing.assert_close(regret_penalty(logits, other, features, task=task), found, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dead_and_collapsed_features_do_no_harm(task: str, dtype: torch.dtype, seed: int) -> None:
    logits, targets, features = drawn(task, seed)
    scores = [part.to(dtype) for part in logits]
    dead = [torch.cat([part, torch.zeros_like(part)], dim=1) for part in features]
    found = regret_penalty(scores, targets, [part.to(dtype) for part in dead], task=task, ridge=0.02)
    assert float(found) == pytest.approx(reference(task, targets, dead, 0.02), rel=1e-4, abs=1e-5)
    gone = [torch.zeros_like(part, dtype=dtype) for part in features]

    def value(*given: Tensor) -> Tensor:
        return regret_penalty(scores, targets, given, task=task)

    assert torch.isfinite(value(*gone))
    for gradient in torch.func.grad(value, argnums=(0, 1, 2))(*gone):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_class_that_an_environment_lacks_leaves_finite_heads(task: str, dtype: torch.dtype, seed: int) -> None:
    logits, targets, features = drawn(task, seed)
    scores = [part.to(dtype) for part in logits]
    lacking = [torch.zeros_like(targets[0]), *targets[1:]]

    def value(*given: Tensor) -> Tensor:
        return regret_penalty(scores, lacking, given, task=task)

    rows = [part.to(dtype) for part in features]
    assert 0 < float(value(*rows)) < 1000
    for gradient in torch.func.grad(value, argnums=(0, 1, 2))(*rows):
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("task", TASKS)
def test_many_at_once_are_those_one_by_one_even_beside_one_that_diverged(task: str, seed: int) -> None:
    each = [drawn(task, 10 * seed + place) for place in range(3)]
    if task == "multiclass":  # probabilities of classes, as the training loop gives them
        each = [(a, [torch.eye(3, dtype=torch.float64)[part] for part in b], c) for a, b, c in each]
    logits, targets, features = (
        [torch.stack(parts) for parts in zip(*(one[kind] for one in each), strict=True)] for kind in range(3)
    )
    features[0][1] = torch.nan

    def value(scores: list[Tensor], values: list[Tensor], given: list[Tensor]) -> Tensor:
        return regret_penalty(scores, values, given, task=task)

    found = torch.func.vmap(value)(logits, targets, features)
    gradients = torch.func.vmap(torch.func.grad(value, argnums=2))(logits, targets, features)
    for place in (0, 2):
        torch.testing.assert_close(found[place], value(*each[place]))
        alone = torch.func.grad(value, argnums=2)(*each[place])
        torch.testing.assert_close([part[place] for part in gradients], alone)
    assert torch.isnan(found[1])


def test_refuses_what_it_cannot_do() -> None:
    scores, values, rows = [torch.zeros(2, 1)] * 2, [torch.zeros(2)] * 2, [torch.zeros(2, 1)] * 2
    with pytest.raises(InputError, match="features"):
        regret_penalty(scores, values)
    with pytest.raises(InputError, match="3 rows of features, but 2"):
        regret_penalty(scores, values, [torch.zeros(2, 1), torch.zeros(3, 1)])
    with pytest.raises(InputError, match="ridge"):
        regret_penalty(scores, values, rows, ridge=0.0)
