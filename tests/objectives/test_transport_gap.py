"""Transport gap as a penalty: the criterion's own number, with a gradient through residuals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import invariscope as iv
from invariscope.objectives import TransportGap
from invariscope.objectives.transport_gap import transport_gap_penalty
from tests.objectives.finite_differences import assert_gradient

SIZES = (150, 230, 190)
TASKS = ("regression", "binary", "multiclass")


def densities_at(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log densities of three normal laws, left out what they have in common."""
    centres = np.array([[0.0, 0.0], [0.3, -0.3], [-0.4, 0.2]])
    return np.stack([Z @ centre - centre @ centre / 2 for centre in centres], axis=1)


def drawn(task: str, seed: int) -> tuple[list[NDArray[np.float64]], list[Tensor], list[Tensor]]:
    """Features, logits and targets of three environments."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(size, 2)) for size in SIZES]
    outputs = 3 if task == "multiclass" else 1
    logits = [torch.from_numpy(part @ rng.normal(size=(2, outputs)) + place / 2) for place, part in enumerate(rows)]
    classes = {"regression": 0, "binary": 2, "multiclass": 3}[task]
    targets = [
        torch.from_numpy(np.r_[np.arange(classes), rng.integers(0, classes, size - classes)])
        if classes
        else torch.from_numpy(rng.normal(size=size) + place)
        for place, size in enumerate(SIZES)
    ]
    return rows, logits, targets


def log_densities(rows: list[NDArray[np.float64]]) -> list[Tensor]:
    return [torch.from_numpy(densities_at(part)) for part in rows]


def test_pencil_case() -> None:
    # rows of b stand in for a with weights 1 : 3, those of a for b with equal ones
    densities = [torch.zeros(2, 2), torch.tensor([[0.0, 0.0], [float(np.log(3.0)), 0.0]])]
    targets = [torch.tensor([1.0, 3.0]), torch.tensor([0.0, 4.0])]
    scores = [torch.ones(2, 1), torch.ones(2, 1)]
    # residuals (0, 2) and (−1, 3): δ(a, b) = (−1 + 9) / 4 − 1 = 1, δ(b, a) = 1 − 1 = 0; variance (1 + 4) / 2
    found = transport_gap_penalty(scores, targets, log_densities=densities, debias=False)
    assert float(found) == pytest.approx((1 + 0) / 2 / 2.5)


def test_one_pair_by_loops_over_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    densities = [rng.normal(size=(6, 2)), rng.normal(size=(9, 2))]
    y, f = ([rng.normal(size=size) for size in (6, 9)] for _ in range(2))
    squares, noises = [], []
    for e, other in ((0, 1), (1, 0)):
        rho = [np.exp(row[e] - row[other]) for row in densities[other]]
        r = [truth - guess for truth, guess in zip(y[other], f[other], strict=True)]
        transported = sum(a * b for a, b in zip(rho, r, strict=True)) / sum(rho)
        own = [truth - guess for truth, guess in zip(y[e], f[e], strict=True)]
        squares.append((transported - sum(own) / len(own)) ** 2)
        w = [a / sum(rho) for a in rho]
        total = sum(a * a for a in w)
        noise = sum(a * a * (b - transported) ** 2 / (1 - 2 * a + total) for a, b in zip(w, r, strict=True))
        noises.append(noise + np.var(own, ddof=1) / len(own))
    variance = (6 * np.var(y[0]) + 9 * np.var(y[1])) / 15

    def found(debias: bool) -> float:
        scores, values = ([torch.from_numpy(part) for part in parts] for parts in (f, y))
        given = [torch.from_numpy(part) for part in densities]
        scores = [part[:, None] for part in scores]
        return float(transport_gap_penalty(scores, values, log_densities=given, debias=debias, floor=0.0))

    assert found(False) == pytest.approx(np.mean(squares) / variance, rel=1e-12)
    assert found(True) == pytest.approx((np.mean(squares) - np.mean(noises)) / variance, rel=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_equals_the_criterion(task: str, seed: int) -> None:
    rows, logits, targets = drawn(task, seed)
    Z, y, env = np.concatenate(rows), torch.cat(targets).numpy(), np.repeat(["a", "b", "c"], SIZES)
    scores = torch.cat(logits)
    predictions = {
        "regression": scores[:, 0],
        "binary": 1 / (1 + torch.exp(-scores[:, 0])),
        "multiclass": torch.exp(scores) / torch.exp(scores).sum(dim=1, keepdim=True),
    }[task].numpy()
    kind = "regression" if task == "regression" else "classification"
    expected = iv.transport_gap(Z, y, env, predictions=predictions, ratio=densities_at, task=kind, n_boot=99)
    assert np.isfinite(expected.pairs).all()
    found = transport_gap_penalty(logits, targets, log_densities=log_densities(rows), task=task)
    assert float(found) == pytest.approx(expected.value, rel=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_gradient_is_that_of_the_squares_alone(task: str, seed: int) -> None:
    rows, logits, targets = drawn(task, seed)
    short = [part[:6] for part in logits], [part[:6] for part in targets], log_densities([part[:6] for part in rows])

    def value(debias: bool, *scores: Tensor) -> Tensor:
        return transport_gap_penalty(scores, short[1], log_densities=short[2], task=task, debias=debias)

    assert_gradient(lambda *scores: value(False, *scores), *short[0])
    for plain, centred in zip(
        torch.func.grad(value, argnums=(1, 2, 3))(False, *short[0]),
        torch.func.grad(value, argnums=(1, 2, 3))(True, *short[0]),
        strict=True,
    ):
        assert torch.equal(plain, centred)


@pytest.mark.slow
def test_is_centred_at_zero_under_invariance_if_noise_is_taken_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = {True: [], False: []}
    for _ in range(400):
        centres = (np.array([0.0, 0.0]), np.array([0.3, -0.3]), np.array([-0.4, 0.2]))
        rows = [rng.normal(size=(60, 2)) + centre for centre in centres]
        truth = [part[:, 0] + part[:, 1] ** 2 for part in rows]  # the model below knows half of it
        values = [torch.from_numpy(part + rng.normal(size=60)) for part in truth]
        scores = [torch.from_numpy(part[:, :1]) for part in rows]
        for debias, kept in found.items():
            given = log_densities(rows)
            kept.append(float(transport_gap_penalty(scores, values, log_densities=given, debias=debias)))
    error = np.std(found[True]) / np.sqrt(400)
    assert abs(np.mean(found[True])) < 5 * error
    assert np.mean(found[False]) > 12 * error


def test_pairs_that_hardly_overlap_count_nothing() -> None:
    # one row of b has all the weight for a: a share of 1/4; a stands in for b evenly: a share of 1
    densities = [torch.zeros(4, 2), torch.tensor([[50.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])]
    targets = [torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([8.0, 8.0, 10.0, 10.0])]
    scores = [torch.zeros(4, 1)] * 2

    def found(floor: float) -> float:
        return float(transport_gap_penalty(scores, targets, log_densities=densities, debias=False, floor=floor))

    assert found(0.2) == pytest.approx((8**2 + 9**2) / 2)  # variances 1 and 1
    assert found(0.3) == pytest.approx(9**2)
    assert found(1.5) == 0.0


def test_no_function_of_the_features_changes_the_gap_if_the_ratio_is_that_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [np.r_[np.arange(4), rng.integers(0, 4, size - 4)] for size in (30, 50)]  # z takes four values
    counts = np.stack([np.bincount(each, minlength=4) / len(each) for each in cells], axis=1)
    densities = [torch.from_numpy(np.log(counts[each])) for each in cells]
    targets = [torch.from_numpy(each + rng.normal(size=len(each))) for each in cells]

    def found(f: NDArray[np.float64]) -> float:
        scores = [torch.from_numpy(f[each])[:, None] for each in cells]
        return float(transport_gap_penalty(scores, targets, log_densities=densities, debias=False, floor=0.0))

    nothing = found(np.zeros(4))
    assert nothing > 1e-6
    assert found(rng.normal(size=4)) == pytest.approx(nothing, rel=1e-9)


def test_ratios_beyond_all_bounds_stay_finite() -> None:
    densities = [torch.tensor([[0.0, 1e6], [0.0, -1e6]]), torch.tensor([[-1e6, 0.0], [-2e6, 0.0]])]
    targets = [torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0])]
    scores = [torch.zeros(2, 1)] * 2

    def value(*logits: Tensor) -> Tensor:
        return transport_gap_penalty(logits, targets, log_densities=densities)

    assert torch.isfinite(value(*scores))
    for gradient in torch.func.grad(value, argnums=(0, 1))(*scores):
        assert torch.isfinite(gradient).all()


def test_many_at_once_are_those_one_by_one(seed: int) -> None:
    each = [drawn("binary", 10 * seed + place) for place in range(3)]
    logits = [torch.stack(parts) for parts in zip(*(one[1] for one in each), strict=True)]
    targets = [torch.stack(parts) for parts in zip(*(one[2] for one in each), strict=True)]
    densities = [torch.stack(parts) for parts in zip(*(log_densities(one[0]) for one in each), strict=True)]

    def value(scores: list[Tensor], values: list[Tensor], given: list[Tensor]) -> Tensor:
        return transport_gap_penalty(scores, values, log_densities=given, task="binary")

    found = torch.func.vmap(value)(logits, targets, densities)
    for together, (rows, scores, values) in zip(found, each, strict=True):
        torch.testing.assert_close(together, value(scores, values, log_densities(rows)))


def test_objective_fits_its_ratio_on_features_by_default() -> None:
    assert TransportGap().ratio_on == "z"
    assert TransportGap(on="x").ratio_on == "x"
