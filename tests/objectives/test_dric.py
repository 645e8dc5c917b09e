"""DRIC as a penalty: the criterion's own number, with a gradient, and what the paper's baseline makes of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import invariscope as iv
from invariscope.errors import InputError
from invariscope.objectives import DRIC, Batch
from invariscope.objectives.dric import dric_penalty
from invariscope.objectives.transported import linear_scores, log_densities_of
from tests.objectives.finite_differences import assert_gradient

SIZES = (30, 45, 25)
TASKS = ("regression", "binary", "multiclass")


def densities_at(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log densities of three normal laws, left out what they have in common: a ratio that is known."""
    centres = np.array([[0.0, 0.0], [0.5, -0.5], [-1.0, 0.3]])
    return np.stack([X @ centre - centre @ centre / 2 for centre in centres], axis=1)


def drawn(task: str, seed: int) -> tuple[list[NDArray[np.float64]], list[Tensor], list[Tensor]]:
    """Rows, logits and targets of three environments."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(size, 2)) + 0.3 * place for place, size in enumerate(SIZES)]
    outputs = 3 if task == "multiclass" else 1
    logits = [torch.from_numpy(rng.normal(size=(size, outputs))) for size in SIZES]
    classes = {"regression": 0, "binary": 2, "multiclass": 3}[task]
    targets = [torch.from_numpy(rng.integers(0, classes, size) if classes else rng.normal(size=size)) for size in SIZES]
    return rows, logits, targets


def log_densities(rows: list[NDArray[np.float64]]) -> list[Tensor]:
    return [torch.from_numpy(densities_at(part)) for part in rows]


def test_pencil_case() -> None:
    # rows of a are twice as likely in b, those of b as likely in a: q(b, a) = 2 · 1, q(a, b) = 1 · 3
    log_two = float(np.log(2.0))
    densities = [torch.tensor([[0.0, log_two]] * 2), torch.zeros(1, 2)]
    scores = [torch.tensor([[0.0], [2.0]]), torch.tensor([[3.0]])]
    found = dric_penalty(scores, [torch.zeros(2), torch.zeros(1)], log_densities=densities, denominator=4.0)
    assert float(found) == pytest.approx(((3 - 1) ** 2 + (2 - 3) ** 2) / 4)


@pytest.mark.parametrize("task", TASKS)
def test_equals_the_criterion(task: str, seed: int) -> None:
    rows, logits, targets = drawn(task, seed)
    X, env = np.concatenate(rows), np.repeat(["a", "b", "c"], SIZES)
    scores = torch.cat(logits)
    predictions = {
        "regression": scores[:, 0],
        "binary": 1 / (1 + torch.exp(-scores[:, 0])),
        "multiclass": torch.exp(scores) / torch.exp(scores).sum(dim=1, keepdim=True),
    }[task].numpy()
    baseline = np.random.default_rng(seed + 1).normal(size=predictions.shape)
    expected = iv.dric(predictions, X, env, baseline=baseline, ratio=densities_at, n_boot=0)
    found = dric_penalty(logits, targets, log_densities=log_densities(rows), task=task)
    assert float(found) == pytest.approx(expected.numerator, rel=1e-12)
    divided = dric_penalty(
        logits, targets, log_densities=log_densities(rows), denominator=expected.denominator, task=task
    )
    assert float(divided) == pytest.approx(expected.value, rel=1e-12)


def test_two_classes_are_the_second_in_criterion_and_penalty_however_they_are_written(seed: int) -> None:
    """One column of log-odds, two columns of logits, one probability or two: always the same number."""
    rows, logits, targets = drawn("binary", seed)
    X, env = np.concatenate(rows), np.repeat(["a", "b", "c"], SIZES)
    second = torch.sigmoid(torch.cat(logits)[:, 0]).numpy()
    baseline = 1 / (1 + np.exp(-X[:, 0]))
    given = {"ratio": densities_at, "n_boot": 0}
    one = iv.dric(second, X, env, baseline=baseline, **given)
    two = iv.dric(
        np.column_stack([1 - second, second]), X, env, baseline=np.column_stack([1 - baseline, baseline]), **given
    )
    in_two = [torch.cat([torch.zeros_like(part) + 0.7, part + 0.7], dim=1) for part in logits]
    densities = log_densities(rows)
    assert two.numerator == one.numerator
    for scores, task in ((logits, "binary"), (in_two, "multiclass"), (in_two, "auto"), (in_two, "classification")):
        found = dric_penalty(scores, targets, log_densities=densities, denominator=one.denominator, task=task)
        assert float(found) == pytest.approx(one.value, rel=1e-12)


@pytest.mark.parametrize("task", TASKS)
def test_gradient_is_that_of_the_value_and_none_runs_through_the_ratio(task: str, seed: int) -> None:
    rows, logits, targets = drawn(task, seed)
    densities = log_densities(rows)
    short = [part[:5] for part in logits], [part[:5] for part in targets], [part[:5] for part in densities]
    assert_gradient(lambda *scores: dric_penalty(scores, short[1], log_densities=short[2], task=task), *short[0])

    def of_densities(*given: Tensor) -> Tensor:
        return dric_penalty(logits, targets, log_densities=given, task=task)

    for gradient in torch.func.grad(of_densities, argnums=(0, 1, 2))(*densities):
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_shrunk_predictions_score_better_whatever_they_are(seed: int) -> None:
    rows, logits, targets = drawn("regression", seed)
    whole = dric_penalty(logits, targets, log_densities=log_densities(rows))
    tenth = dric_penalty([part / 10 for part in logits], targets, log_densities=log_densities(rows))
    torch.testing.assert_close(tenth, whole / 100)


def test_every_predictor_scores_zero_if_the_ratio_is_that_of_the_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = [np.r_[np.arange(4), rng.integers(0, 4, size - 4)] for size in (30, 50)]  # x takes four values
    counts = np.stack([np.bincount(each, minlength=4) / len(each) for each in cells], axis=1)
    f = rng.normal(size=4)
    scores = [torch.from_numpy(f[each])[:, None] for each in cells]
    densities = [torch.from_numpy(np.log(counts[each])) for each in cells]
    found = dric_penalty(scores, [part[:, 0] for part in scores], log_densities=densities)
    assert float(found) == pytest.approx(0.0, abs=1e-28)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratios_beyond_all_bounds_stay_finite(dtype: torch.dtype) -> None:
    densities = [torch.tensor([[0.0, 900.0]], dtype=dtype), torch.tensor([[0.0, 0.0]], dtype=dtype)]
    scores = [torch.ones(1, 1, dtype=dtype), torch.ones(1, 1, dtype=dtype)]
    targets = [torch.zeros(1, dtype=dtype)] * 2
    found = dric_penalty(scores, targets, log_densities=densities)
    assert torch.isfinite(found)
    assert float(found) > 1e30


def test_many_at_once_are_those_one_by_one(seed: int) -> None:
    each = [drawn("regression", 10 * seed + place) for place in range(3)]
    logits = [torch.stack(parts) for parts in zip(*(one[1] for one in each), strict=True)]
    targets = [torch.stack(parts) for parts in zip(*(one[2] for one in each), strict=True)]
    densities = [torch.stack(parts) for parts in zip(*(log_densities(one[0]) for one in each), strict=True)]

    def value(scores: list[Tensor], values: list[Tensor], given: list[Tensor]) -> Tensor:
        return dric_penalty(scores, values, log_densities=given, task="regression")

    found = torch.func.vmap(value)(logits, targets, densities)
    for together, (rows, scores, values) in zip(found, each, strict=True):
        torch.testing.assert_close(together, value(scores, values, log_densities(rows)))


@pytest.mark.parametrize("task", TASKS)
def test_baseline_of_the_paper_scores_one(task: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(size, 2)) * (1 + 0.3 * place) + place / 2 for place, size in enumerate((150, 220, 180))]
    classes = {"regression": 0, "binary": 2, "multiclass": 3}[task]
    if classes:
        slopes = rng.normal(size=(2, classes))
        targets = [(part @ slopes + rng.gumbel(size=(len(part), classes))).argmax(axis=1) for part in rows]
    else:
        targets = [part[:, 0] + rng.normal(size=len(part)) for part in rows]
    fitted = DRIC(ratio="gaussian").fitted(rows, targets, task, seed)
    X, y, env = np.concatenate(rows), np.concatenate(targets), np.repeat([0, 1, 2], [150, 220, 180])
    # another route to the same baseline: least squares by numpy, or scikit-learn without a penalty
    if classes:
        baseline = LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000).fit(X, y).predict_proba(X)
        baseline = baseline[:, 1] if classes == 2 else baseline
    else:
        design = np.column_stack([np.ones(len(X)), X])
        baseline = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    expected = iv.dric(baseline, X, env, baseline=baseline, ratio="gaussian", n_boot=0, seed=seed)
    assert fitted.denominator == pytest.approx(expected.numerator, rel=1e-4)
    batch = Batch(
        tuple(torch.from_numpy(part) for part in linear_scores(rows, targets, task)),
        tuple(torch.from_numpy(part) for part in targets),
        (),
        task,
        tuple(torch.from_numpy(part) for part in log_densities_of(rows, fitted.ratio, seed, svd=fitted.svd)),
    )
    assert float(fitted.penalty(batch, {})) == pytest.approx(1.0, rel=1e-12)


def test_log_densities_are_those_of_the_density_ratio(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(60, 3)), rng.normal(size=(80, 3)) + 0.5]
    found = log_densities_of(rows, "gaussian", seed)
    expected = iv.density_ratio(np.concatenate(rows), np.repeat([0, 1], [60, 80]), ratio="gaussian", seed=seed)
    np.testing.assert_array_equal(np.concatenate(found), expected.at_rows)
    assert [part.shape for part in found] == [(60, 2), (80, 2)]


def test_features_that_have_collapsed_have_the_same_density_everywhere() -> None:
    found = log_densities_of([np.ones((30, 2)), np.ones((40, 2))])
    assert [part.shape for part in found] == [(30, 2), (40, 2)]
    for part in found:
        np.testing.assert_allclose(part[:, 0] - part[:, 1], 0.0, atol=1e-6)


def test_refuses_what_it_cannot_do() -> None:
    scores, values = [torch.zeros(2, 1)] * 2, [torch.zeros(2)] * 2
    with pytest.raises(InputError, match="no log densities"):
        dric_penalty(scores, values)
    with pytest.raises(InputError, match="2 rows by 2 environments"):
        dric_penalty(scores, values, log_densities=[torch.zeros(2, 3)] * 2)
    with pytest.raises(InputError, match='on "y" is unknown: use "x" or "z"'):
        _ = DRIC(on="y").ratio_on
    rows, numbers = np.arange(20.0).reshape(10, 2) % 7, np.arange(10.0) % 3
    with pytest.raises(InputError, match="nothing to divide by"):
        DRIC().fitted([rows, rows], [numbers, numbers], "regression", 0)
