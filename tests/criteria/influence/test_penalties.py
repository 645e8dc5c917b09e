"""The influence index under penalties: Hessians against automatic differentiation, fits, shuffles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.influence.inverse import noise_level
from invariscope.criteria.influence.penalties import PENALTIES
from invariscope.datasets.synthetic.bayesian_network import two_domain_example
from invariscope.datasets.synthetic.nulls import null_shifted
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from tests.reference import penalised_influence as reference

LOSSES = {"squared": ("regression", 1), "logistic": ("binary", 1), "softmax": ("multiclass", 3)}


def rows_of(loss: str, sizes: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = null_shifted(n=sizes, d=3, environments=len(sizes), task=LOSSES[loss][0], seed=seed)
    return np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)


def head_of(outputs: int, seed: int, size: float = 0.3) -> LinearHead:
    rng = np.random.default_rng([seed, outputs])
    return LinearHead(size * rng.standard_normal((outputs, 3)), size * rng.standard_normal(outputs))


def parameters_of(head: LinearHead) -> np.ndarray:
    return np.column_stack([head.weight, head.bias]).ravel()


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_equals_automatic_differentiation_of_the_training_objective(loss: str, penalty: str, seed: int) -> None:
    X, y, env = rows_of(loss, (40, 31, 60), seed)
    head = head_of(LOSSES[loss][1], seed)
    found = influence_index(X, y, env, head=head, penalty=penalty, penalty_weight=3.0, damping=0.2, n_boot=9)
    value, influences = reference.influence_index(X, y, env, parameters_of(head), loss, penalty, 3.0, 0.2)
    np.testing.assert_allclose(found.influences, influences, rtol=1e-8, atol=1e-10 * np.abs(influences).max())
    assert found.value == pytest.approx(value, rel=1e-8)
    _, hessian = reference.derivatives(X, y, env, parameters_of(head), loss, penalty, 3.0)
    scale = 2.0 if loss == "squared" else 1.0
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(hessian)[::-1] / scale, rtol=1e-9, atol=1e-11)
    name = "squared" if loss == "squared" else "log_loss"
    assert (found.penalty, found.penalty_weight, found.loss) == (penalty, 3.0, name)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repetitions(loss: str, penalty: str, seed: int) -> None:
    X, y, env = rows_of(loss, (50, 70), seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    options = {"head": head_of(LOSSES[loss][1], seed), "penalty": penalty, "penalty_weight": 2.0}
    options |= {"n_boot": 19, "damping": 0.3}
    weighted = influence_index(X, y, env, weight=weight, **options)
    repeated = influence_index(*(np.repeat(part, weight, axis=0) for part in (X, y, env)), **options)
    np.testing.assert_allclose(weighted.influences, repeated.influences, rtol=1e-9, atol=1e-12)
    # as fractions of rows, all the same, they change nothing
    plain, tenths = (influence_index(X, y, env, weight=w, **options) for w in (None, np.full(len(y), 0.1)))
    np.testing.assert_allclose(tenths.influences, plain.influences, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_weight_of_zero_is_the_mean_risk_of_environments(loss: str, seed: int) -> None:
    X, y, env = rows_of(loss, (60, 60, 60), seed)  # as many rows each: the pooled mean loss as well
    head = head_of(LOSSES[loss][1], seed)
    plain = influence_index(X, y, env, head=head, n_boot=9)
    for penalty in PENALTIES:
        found = influence_index(X, y, env, head=head, penalty=penalty, n_boot=9)
        np.testing.assert_allclose(found.influences, plain.influences, rtol=1e-8, atol=1e-11)


# --- heads fitted here -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("penalty", ["irm", "vrex"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_fitted_head_minimises_the_penalised_objective(loss: str, penalty: str, seed: int) -> None:
    """At the minimum influences of all environments add up to minus the penalty's share of the gradient; moving the
    head along any influence makes the objective worse."""
    import torch

    X, y, env = rows_of(loss, (80, 100, 60), seed)
    found = influence_index(X, y, env, penalty=penalty, penalty_weight=1.0, n_boot=9)
    from invariscope.criteria.influence.penalties import fit_penalised, groups_of, penalty_of
    from invariscope.criteria.influence.row_derivatives import LinearRows
    from invariscope.heads.fit import fit_shared
    from invariscope.heads.losses import loss_of
    from invariscope.rows.environments import Environments
    from invariscope.rows.targets import target_of

    data = Environments(X, y, env)
    target = target_of(data)
    rows = LinearRows(data, loss_of(target), target.values)
    chosen = penalty_of(penalty, 1.0, rows.reported, np.full(3, 1 / 3))
    assert chosen is not None
    start = fit_shared(data, target, np.full(3, 1.0 / len(y))).theta[0]
    theta, reached = fit_penalised(rows, start, chosen, *groups_of(data, chosen, rows.weight))
    assert reached
    by_score = theta.reshape(-1, 4)  # the shift of columns is 0 here: intercept first
    parameters = np.column_stack([by_score[:, 1:], by_score[:, 0]]).ravel()
    inputs, targets = reference.tensors(X, env), reference.tensors(y, env)

    def objective(p: torch.Tensor) -> torch.Tensor:
        return reference.objective(p, inputs, targets, loss, penalty, 1.0)

    point = torch.tensor(parameters)
    assert torch.func.grad(objective)(point).abs().max() < 1e-5
    for influence in found.influences:
        step = torch.tensor(influence / np.linalg.norm(influence))
        assert min(objective(point + s * step) for s in (-0.03, 0.03)) > objective(point)
    _, influences = reference.influence_index(X, y, env, parameters, loss, penalty, 1.0, found.damping)
    np.testing.assert_allclose(found.influences, influences, rtol=1e-4, atol=1e-6 * np.abs(influences).max())


@pytest.mark.slow
def test_irm_takes_the_index_to_minus_infinity(seed: int) -> None:
    """Appendix A.2: as the weight grows, the head goes to (1, 0) and V to minus infinity."""
    data = two_domain_example(sigma=(1.0, 2.0), n=2000, seed=seed)
    rows = (data.X, data.y, data.env)
    weights = (0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0)
    # without an intercept, as in the paper: with one, IRM gets its derivative to 0 by moving it
    values = [
        influence_index(*rows, intercept=False, penalty="irm", penalty_weight=w, n_boot=0, damping=0.0).value
        for w in weights
    ]
    assert values[0] == pytest.approx(data.truth["V"], abs=0.15)
    assert all(np.diff(values[1:]) < 0)
    assert values[-1] < values[0] - 10


# --- shuffles ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize(("loss", "sizes"), [("squared", (300, 300, 300)), ("logistic", (100, 200, 400))])
def test_quick_shuffles_agree_with_exact_ones(loss: str, sizes: tuple[int, ...], penalty: str, seed: int) -> None:
    X, y, env = rows_of(loss, sizes, seed)
    options = {"penalty": penalty, "penalty_weight": 0.3, "n_boot": 1000, "shuffles": "recomputed"}
    drawn = influence_index(X, y, env, seed=seed, **options)
    dealt = influence_index(X, y, env, seed=seed + 1, exact=True, **options)
    assert drawn.value == dealt.value
    assert not any("really dealt" in note for note in drawn.notes)
    # largest distance of two empirical distributions: exceeded by chance once in 10,000 times at 2.23 √(2 / n)
    assert ks_2samp(drawn.null, dealt.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 1000) + 0.02


@pytest.mark.slow  # 150 deals of the rows by loops
@pytest.mark.parametrize("penalty", PENALTIES)
def test_exact_shuffles_agree_with_dealing_rows_one_by_one(penalty: str, seed: int) -> None:
    X, y, env = rows_of("logistic", (30, 51), seed)
    head, rng = head_of(1, seed), np.random.default_rng(seed)
    slow = reference.shuffled_index(X, y, env, parameters_of(head), "logistic", penalty, 4.0, 0.5, 150, rng)
    fast = influence_index(
        *(X, y, env),
        head=head,
        penalty=penalty,
        penalty_weight=4.0,
        damping=0.5,
        n_boot=600,
        exact=True,
        seed=seed,
        shuffles="recomputed",
    ).null
    assert ks_2samp(slow, fast, method="asymp").statistic < 2.23 * np.sqrt(1 / 150 + 1 / 600)


def test_a_heavy_penalty_is_dealt_with_exactly_and_said(seed: int) -> None:
    X, y, env = rows_of("squared", (60, 80), seed)
    options = {"penalty": "irm", "penalty_weight": 1000.0, "n_boot": 300, "shuffles": "recomputed"}
    found = influence_index(X, y, env, seed=seed, **options)
    assert any("really dealt" in note for note in found.notes)
    exact = influence_index(X, y, env, seed=seed + 1, exact=True, **options)
    assert ks_2samp(found.null, exact.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 300)


def test_directions_are_not_flat_because_the_penalty_makes_others_steep(seed: int) -> None:
    """IRM's penalty bends the head along its own scores alone, here a thousand times as much as the risk does."""
    X, y, env = rows_of("squared", (80, 90), seed)
    penalised = influence_index(X, y, env, penalty="irm", penalty_weight=1000.0, n_boot=19)
    plain = influence_index(X, y, env, n_boot=19)
    assert penalised.eigenvalues[0] > 100 * plain.eigenvalues[0]
    assert noise_level(penalised.eigenvalues, len(y)) > plain.eigenvalues[-1]  # judged as a whole, it would be damped
    assert penalised.damping == plain.damping == 0.0


# --- not at a minimum ----------------------------------------------------------------------------------------------
def gauss_newton(rows: tuple[np.ndarray, ...], theta: np.ndarray, penalty: str, weight: float) -> float:
    """V of logistic regression by loops: H = mean_e H_e + (2 λ / m) Σ_e u_e u_eᵀ, u_e the gradient in the head of the
    environment's slope D_e or, for V-REx, of ℓ_e − ℓ̄; no term is multiplied with D_e or ℓ_e − ℓ̄."""
    X, y, env = rows
    design, labels = np.column_stack([X, np.ones(len(X))]), np.unique(env)
    classes = np.unique(y)
    gradients, slopes, hessian = [], [], np.zeros((4, 4))
    for label in labels:
        gradient, slope, there = np.zeros(4), np.zeros(4), np.flatnonzero(env == label)
        for i in there:
            score = float(design[i] @ theta)
            p = 1 / (1 + math.exp(-score))
            gradient += (p - (y[i] == classes[1])) * design[i] / len(there)
            slope += ((p - (y[i] == classes[1])) + p * (1 - p) * score) * design[i] / len(there)
            hessian += p * (1 - p) * np.outer(design[i], design[i]) / len(there) / len(labels)
        gradients.append(gradient)
        slopes.append(slope)
    vectors = slopes if penalty == "irm" else [g - np.mean(gradients, axis=0) for g in gradients]
    for vector in vectors:
        hessian += 2 * weight / len(labels) * np.outer(vector, vector)
    influences = np.linalg.solve(hessian, np.transpose(gradients)).T
    return math.log(np.linalg.eigvalsh(np.cov(influences.T, bias=True))[-1])


@pytest.mark.parametrize("penalty", ["irm", "vrex"])
def test_where_a_penalty_bends_down_its_squares_alone_count(penalty: str, seed: int) -> None:
    """One environment is noise, the other has wide columns and is told well by a head that is still too small: its loss
    is below the mean and its slope below 0, and a heavy penalty bends the objective down along its columns."""
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], [80, 91])
    X = rng.normal(size=(171, 3)) * np.where(env == "b", 3.0, 1.0)[:, None]
    y = np.where(env == "b", X @ [1.0, 0.5, 0.2] > 0, rng.random(171) < 0.5).astype(float)
    head = LinearHead(0.2 * np.array([[1.0, 0.5, 0.2]]), np.zeros(1))
    given = {"head": head, "penalty": penalty, "penalty_weight": 500.0}
    found = influence_index(X, y, env, **given, n_boot=19)
    as_it_is = influence_index(X, y, env, **given, n_boot=0, damping=0.0)
    assert as_it_is.eigenvalues[-1] < 0
    assert any("still has some" in note for note in as_it_is.notes)
    assert found.eigenvalues[-1] > 0
    assert any("negative curvature" in note and "Gauss and Newton" in note for note in found.notes)
    assert found.damping == 0.0
    assert found.value == pytest.approx(gauss_newton((X, y, env), parameters_of(head), penalty, 500.0), rel=1e-8)
    recomputed = influence_index(X, y, env, **given, n_boot=19, shuffles="recomputed")
    assert recomputed.value == found.value
    assert np.isfinite(recomputed.null).all()


def test_errors_are_readable(seed: int) -> None:
    X, y, env = rows_of("squared", (60, 60), seed)
    for weight in (-1.0, math.nan, "much"):
        with pytest.raises(InputError, match="penalty_weight is"):
            influence_index(X, y, env, penalty="irm", penalty_weight=weight)  # type: ignore[arg-type]
    with pytest.raises(InputError, match='penalty "coral" is unknown'):
        influence_index(X, y, env, penalty="coral", penalty_weight=1.0)
    with pytest.raises(InputError, match="penalty_weight is 2, but there is no penalty"):
        influence_index(X, y, env, penalty_weight=2.0)
    with pytest.raises(InputError, match="weights that are whole numbers"):
        influence_index(X, y, env, penalty="irm", penalty_weight=1.0, weight=np.full(120, 0.5), exact=True)
    with pytest.raises(InputError, match='solver "cg" is for torch modules'):
        influence_index(X, y, env, solver="cg")
    with pytest.raises(InputError, match='solver "newton" is unknown'):
        influence_index(X, y, env, solver="newton")
