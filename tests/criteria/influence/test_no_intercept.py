"""Appendix A.2 of the influence paper, without an intercept: IRM's limit, its head, its Hessian and its index."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from invariscope.criteria.influence.influence_index import influence_index
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead

SIGMA, SPREAD = (1.0, 2.0), (1.0, 1.5)  # of x2's noise, and of x1, in the two domains


def exact_domains(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose second moments are those of the populations, to the last digit: x1, the noise of y and that of x2 are
    made orthogonal and of the right length. Least squares and IRM see nothing else."""
    rng, rows, targets = np.random.default_rng(seed), [], []
    for sigma, spread in zip(SIGMA, SPREAD, strict=True):
        x1, noise, other = np.sqrt(n) * np.linalg.qr(rng.normal(size=(n, 3)))[0].T
        y = spread * x1 + noise
        rows.append(np.column_stack([spread * x1, y + sigma * other]))
        targets.append(y)
    return np.concatenate(rows), np.concatenate(targets), np.repeat([0, 1], n)


def moments() -> list[tuple[np.ndarray, np.ndarray]]:
    """E[x xᵀ] and E[x y] of the two domains, from the structural equations."""
    return [
        (np.array([[d, d], [d, d + 1 + sigma**2]]), np.array([d, d + 1]))
        for d, sigma in zip(np.square(SPREAD), SIGMA, strict=True)
    ]


def derivative(beta: np.ndarray, second: np.ndarray, cross: np.ndarray) -> float:
    """E[xᵀβ (y − xᵀβ)]."""
    return float(beta @ cross - beta @ second @ beta)


def irm(weight: float) -> np.ndarray:
    """The minimum of E[(y − xᵀβ)²] + 4 λ E[xᵀβ (y − xᵀβ)]², both means over domains."""
    beta = np.array([0.7, 0.3])
    for part in (1e-3, 1e-2, 1e-1, 1.0):
        scaled = weight * part
        found = minimize(
            lambda b, w=scaled: float(
                np.mean([b @ s @ b - 2 * b @ c + 4 * w * derivative(b, s, c) ** 2 for s, c in moments()])
            ),
            beta,
            method="Nelder-Mead",
            options={"xatol": 1e-11, "fatol": 1e-15, "maxiter": 4000},
        )
        beta = found.x
    return beta


def published_hessian(beta: np.ndarray, weight: float) -> np.ndarray:
    """Eq. 10: H_ERM + (8 λ / m) Σ_e ( E[x (y − 2 xᵀβ)] E[x (y − 2 xᵀβ)]ᵀ − 2 E[xᵀβ (y − xᵀβ)] E[x xᵀ] )."""
    whole = np.zeros((2, 2))
    for second, cross in moments():
        bent = cross - 2 * second @ beta
        whole += second  # H_ERM = 2 Σ_e E[x xᵀ] / m, of m = 2 domains
        whole += 4 * weight * (np.outer(bent, bent) - 2 * derivative(beta, second, cross) * second)
    return whole


def published_index(beta: np.ndarray, weight: float) -> float:
    """V = 2 ln( ½ ‖H⁻¹ (∇ℓ_1 − ∇ℓ_2)‖ )."""
    gradients = [2 * (second @ beta - cross) for second, cross in moments()]
    pulled = np.linalg.solve(published_hessian(beta, weight), gradients[0] - gradients[1])
    return 2 * math.log(0.5 * float(np.linalg.norm(pulled)))


def test_least_squares_are_the_closed_form_to_the_last_digit() -> None:
    s = SIGMA[0] ** 2 + SIGMA[1] ** 2
    found = influence_index(*exact_domains(), intercept=False, n_boot=0)
    assert found.parameters == ("x0", "x1")
    second = sum(part for part, _ in moments()) / 2
    np.testing.assert_allclose(found.eigenvalues, np.linalg.eigvalsh(second)[::-1], rtol=1e-10)
    # A.2 has x1 of the same spread in both domains for its last line; without that only β is closed
    beta = np.array([s / (s + 2), 2 / (s + 2)])
    assert found.value == pytest.approx(published_index(beta, 0.0), abs=1e-10)
    expected = 2 * math.log(2 * math.sqrt(2) * abs(SIGMA[0] ** 2 - SIGMA[1] ** 2) / (s + 2) ** 2)
    assert found.value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0, 100.0, 1000.0])
def test_irm_has_the_head_the_hessian_and_the_index_of_the_appendix(weight: float) -> None:
    rows, beta = exact_domains(), irm(weight)
    found = influence_index(*rows, intercept=False, penalty="irm", penalty_weight=weight, n_boot=0, damping=0.0)
    values = np.linalg.eigvalsh(published_hessian(beta, weight))[::-1]
    np.testing.assert_allclose(2 * found.eigenvalues, values, rtol=1e-4)  # here those of ½ (s − y)²
    assert found.value == pytest.approx(published_index(beta, weight), abs=2e-3)
    given = influence_index(
        *rows, head=LinearHead(beta, 0.0), intercept=False, penalty="irm", penalty_weight=weight, n_boot=0, damping=0.0
    )
    np.testing.assert_allclose(2 * given.eigenvalues, values, rtol=1e-9)
    assert given.value == pytest.approx(published_index(beta, weight), abs=1e-8)


def test_irm_goes_to_the_cause_and_its_index_to_minus_infinity() -> None:
    rows, weights = exact_domains(), 10.0 ** np.arange(1, 8)
    heads = [irm(weight) for weight in weights]
    far = [np.linalg.norm(head - [1.0, 0.0]) for head in heads]
    assert np.all(np.diff(far) < 0)
    assert far[-1] < 1e-3
    found = [
        influence_index(*rows, intercept=False, penalty="irm", penalty_weight=weight, n_boot=0, damping=0.0)
        for weight in weights
    ]
    values = [one.value for one in found]
    assert np.all(np.diff(values) < -3.0)
    assert values[-1] < -35
    # the head alone has its limit as well: without the penalty in H, V falls like that of its gradients
    plain = [one.without_penalty.value for one in found if one.without_penalty is not None]
    assert np.all(np.diff(plain) < -3.0)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("hessian", ["domains", "rows"])
def test_a_head_fitted_without_an_intercept_is_at_its_minimum(task: str, hessian: str, seed: int) -> None:
    """Gradients, counted as the Hessian counts them, add up to 0, and so do influences."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal([1.0, 0.0, 0.0], 1.0, size=(300, 3)), np.repeat([0, 1], (80, 220))
    score = X @ [1.0, -1.0, 0.0] + (env - 0.5) * X[:, 2] + rng.normal(size=300)
    y = score if task == "regression" else np.digitize(score, [0.5] if task == "binary" else [-0.5, 1.0])
    found = influence_index(X, y, env, intercept=False, hessian=hessian, n_boot=19)
    assert len(found.parameters) == (9 if task == "multiclass" else 3)
    shares = np.array([0.5, 0.5]) if hessian == "domains" else np.array([80, 220]) / 300
    np.testing.assert_allclose(shares @ found.influences, 0.0, atol=1e-5)
    damped, product = (
        influence_index(X, y, env, intercept=False, hessian=hessian, n_boot=0, damping=0.1, solver=solver)
        for solver in ("dense", "kronecker")
    )
    assert product.value == pytest.approx(damped.value, abs=1e-4)


def test_an_intercept_that_is_there_cannot_be_left_out() -> None:
    rows = exact_domains()
    with pytest.raises(InputError, match="the head has an intercept that is not 0"):
        influence_index(*rows, head=LinearHead([1.0, 0.0], 0.5), intercept=False)
    with pytest.raises(InputError, match="the head has an intercept that is not 0"):
        influence_index(*rows, head=torch.nn.Linear(2, 1), intercept=False)
    with pytest.raises(InputError, match="intercept=False is for linear heads"):
        influence_index(*rows, head=torch.nn.Sequential(torch.nn.Linear(2, 1)), intercept=False)
    layer = torch.nn.Linear(2, 1, bias=False)
    assert influence_index(*rows, head=layer, n_boot=0).parameters == ("x0", "x1")
    assert influence_index(*rows, head=layer, intercept=False, n_boot=0).parameters == ("x0", "x1")


@pytest.mark.parametrize("size", [1e150, 1e-150])
@pytest.mark.parametrize("solver", ["auto", "kronecker"])
def test_columns_too_far_from_one_are_refused_as_with_an_intercept(size: float, solver: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, env = rng.normal(size=(60, 2)), np.repeat(list("abc"), 20)
    with pytest.raises(InputError, match=r'column "x0" holds numbers of the order of .* multiply it by a constant'):
        influence_index(size * z, z[:, 0], env, intercept=False, solver=solver, n_boot=0)
