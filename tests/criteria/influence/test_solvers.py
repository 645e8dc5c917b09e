"""Targets of several numbers, torch heads, wide heads and whole networks: each route against the dense closed form."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from invariscope.criteria.influence import shuffles
from invariscope.criteria.influence.influence_index import INTERCEPT, influence_index
from invariscope.criteria.influence.penalties import PENALTIES
from invariscope.criteria.influence.shuffles import gaussian_shuffles, largest_spread, spectral_shuffles
from invariscope.criteria.influence.structured import Moment
from invariscope.datasets.synthetic.bayesian_network import bayesian_network
from invariscope.datasets.synthetic.nulls import null_same_law, null_shifted
from invariscope.errors import InputError
from invariscope.heads.linear_algebra import NegativeCurvatureError, conjugate_gradients
from invariscope.heads.linear_head import LinearHead
from invariscope.rows.environments import Environments

torch = pytest.importorskip("torch")
nn = torch.nn

TASKS = {"regression": 1, "binary": 1, "multiclass": 3}


def rows_of(task: str, sizes: tuple[int, ...], d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = null_shifted(n=sizes, d=d, environments=len(sizes), task=task, seed=seed)
    return np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)


def layer(outputs: int, d: int, seed: int, *, bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Linear(d, outputs, bias=bias).double()


def as_torch_orders(influences: np.ndarray, outputs: int) -> np.ndarray:
    """(weights, intercept) score after score, as all weights and then all intercepts."""
    by_score = influences.reshape(len(influences), outputs, -1)
    return np.concatenate([by_score[:, :, :-1].reshape(len(influences), -1), by_score[:, :, -1]], axis=1)


# --- targets of several numbers --------------------------------------------------------------------------------------
def test_several_targets_without_a_penalty_are_separate_regressions(seed: int) -> None:
    data = bayesian_network(n=(60, 80, 100, 70, 90), seed=seed)
    X, y, env = np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)
    found = influence_index(X, y, env, damping=0.0, n_boot=19)
    single = [influence_index(X, y[:, k], env, damping=0.0, n_boot=19) for k in range(5)]
    np.testing.assert_allclose(found.influences, np.hstack([one.influences for one in single]), rtol=1e-8, atol=1e-11)
    together = np.hstack([one.influences for one in single])
    assert found.value == pytest.approx(math.log(np.linalg.norm(np.cov(together.T, bias=True), 2)))
    np.testing.assert_allclose(found.eigenvalues, np.repeat(single[0].eigenvalues, 5), rtol=1e-9)
    assert found.parameters[10:12] == (f"{INTERCEPT} [y0]", "x0 [y1]")
    assert found.loss == "squared"


@pytest.mark.parametrize("penalty", [None, *PENALTIES])
def test_several_targets_equal_automatic_differentiation(penalty: str | None, seed: int) -> None:
    data = bayesian_network(n=(40, 51), environments=(0.5, 1.5), dim=2, seed=seed)
    X, y, env = np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)
    options = {"penalty": penalty, "penalty_weight": 0.0 if penalty is None else 2.0, "damping": 0.1, "n_boot": 19}
    head = layer(2, 4, seed)
    closed = influence_index(X, y, env, head=head, **options)
    automatic = influence_index(X, y, env, head=head, solver="autograd", **options)
    np.testing.assert_allclose(as_torch_orders(closed.influences, 2), automatic.influences, rtol=1e-8, atol=1e-11)
    assert (closed.solver, automatic.solver) == ("dense", "autograd")
    iterated = influence_index(X, y, env, head=head, solver="cg", **{**options, "damping": 5.0, "n_boot": 2})
    damped = influence_index(X, y, env, head=head, **{**options, "damping": 5.0})
    scale = np.abs(damped.influences).max()
    np.testing.assert_allclose(iterated.influences, as_torch_orders(damped.influences, 2), rtol=0.01, atol=0.01 * scale)


def test_several_targets_keep_names_order_and_weights(seed: int) -> None:
    data = bayesian_network(n=(40, 60), environments=(0.5, 1.5), dim=2, seed=seed)
    X, y, env = np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    weighted = influence_index(X, y, env, weight=weight, damping=0.0, n_boot=9)
    repeated = influence_index(*(np.repeat(p, weight, axis=0) for p in (X, y, env)), damping=0.0, n_boot=9)
    np.testing.assert_allclose(weighted.influences, repeated.influences, rtol=1e-8, atol=1e-11)
    order = np.random.default_rng(seed).permutation(len(y))
    frame = pd.DataFrame(y[order], columns=["mass", "height"])
    moved = influence_index(X[order], frame, env[order], weight=weight[order], damping=0.0, n_boot=9)
    np.testing.assert_allclose(moved.influences, weighted.influences, rtol=1e-8, atol=1e-11)
    assert moved.parameters[0] == "x0 [mass]"
    listed = influence_index(X, y.tolist(), env, damping=0.0, n_boot=9)
    np.testing.assert_allclose(listed.influences, influence_index(X, y, env, damping=0.0, n_boot=9).influences)


def test_several_targets_that_cannot_be_are_refused(seed: int) -> None:
    X, y, env = np.random.default_rng(seed).normal(size=(40, 3)), np.ones((40, 2)), np.repeat([0, 1], 20)
    with pytest.raises(InputError, match='target "y0" has only one value'):
        influence_index(X, y, env)
    y = X[:, :2].copy()
    y[3, 1] = np.nan
    with pytest.raises(InputError, match='target "y1" has 1 missing'):
        influence_index(X, y, env)
    with pytest.raises(InputError, match="one target per row"):
        influence_index(Environments(X, X[:, 0], env), X[:, :2])
    with pytest.raises(InputError, match="several numbers per row are a regression"):
        influence_index(X, X[:, :2], env, task="classification")
    with pytest.raises(InputError, match="the head has 1 outputs but the target needs 2"):
        influence_index(X, X[:, :2], env, head=LinearHead([1.0, 2.0, 3.0], 0.0))


# --- torch modules -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("penalty", [None, *PENALTIES])
@pytest.mark.parametrize("task", TASKS)
def test_automatic_differentiation_equals_the_closed_forms(task: str, penalty: str | None, seed: int) -> None:
    X, y, env = rows_of(task, (40, 31, 50), 3, seed)
    head, weight = layer(TASKS[task], 3, seed), 0.0 if penalty is None else 2.0
    options = {"head": head, "penalty": penalty, "penalty_weight": weight, "damping": 0.1, "n_boot": 49}
    closed = influence_index(X, y, env, exact=True, **options)
    automatic = influence_index(X, y, env, exact=True, solver="autograd", **options)
    scale = np.abs(closed.influences).max()
    np.testing.assert_allclose(
        as_torch_orders(closed.influences, TASKS[task]), automatic.influences, rtol=1e-8, atol=1e-8 * scale
    )
    np.testing.assert_allclose(closed.eigenvalues, automatic.eigenvalues, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(closed.null, automatic.null, rtol=1e-8, atol=1e-8)  # the same deals
    assert automatic.value == pytest.approx(closed.value, abs=1e-8)
    assert len(automatic.parameters) == closed.influences.shape[1]
    assert automatic.parameters[0] == "weight[0, 0]"


def test_a_layer_without_intercept_has_none(seed: int) -> None:
    X, y, env = rows_of("regression", (60, 80), 3, seed)
    found = influence_index(X, y, env, head=layer(1, 3, seed, bias=False), damping=0.0, n_boot=9, hessian="rows")
    theta = layer(1, 3, seed, bias=False).weight.detach().numpy()[0]
    gradients = [X[env == e].T @ (X[env == e] @ theta - y[env == e]) / np.sum(env == e) for e in (0, 1)]
    np.testing.assert_allclose(
        found.influences, -np.linalg.solve(X.T @ X / len(X), np.transpose(gradients)).T, rtol=1e-8
    )
    assert (found.solver, found.parameters) == ("dense", ("x0", "x1", "x2"))
    far = X + np.array(
        [1000.0, 0.0, 0.0]
    )  # further from 0 than 30 spreads: nothing is moved where no intercept takes it up
    for penalty, weight in ((None, 0.0), ("vrex", 0.01)):
        options = {"head": layer(1, 3, seed, bias=False), "penalty": penalty, "penalty_weight": weight, "damping": 1.0}
        plain, automatic = (
            influence_index(far, y, env, solver=solver, n_boot=9, **options) for solver in ("auto", "autograd")
        )
        np.testing.assert_allclose(plain.influences, automatic.influences, rtol=1e-6)


def test_a_deeper_top_model_is_differentiated_through(seed: int) -> None:
    """Two layers: gradients by hand (chain rule), the Hessian by differences of them."""
    X, y, env = rows_of("regression", (40, 50), 3, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    found = influence_index(X, y, env, head=head, damping=0.5, n_boot=19, hessian="rows")
    start = np.concatenate([p.detach().numpy().ravel() for p in head.parameters()])

    def gradient(theta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        first, shift, second, end = theta[:6].reshape(2, 3), theta[6:8], theta[8:10], theta[10]
        hidden = np.tanh(X[rows] @ first.T + shift)
        error = hidden @ second + end - y[rows]
        inner = error[:, None] * second * (1 - hidden**2)
        parts = [(inner.T @ X[rows]).ravel(), inner.sum(axis=0), error @ hidden, [error.sum()]]
        return np.concatenate(parts) / len(rows)

    everyone = np.arange(len(y))
    steps = 1e-5 * np.eye(11)
    hessian = np.array([(gradient(start + s, everyone) - gradient(start - s, everyone)) / 2e-5 for s in steps])
    gradients = np.array([gradient(start, np.flatnonzero(env == e)) for e in (0, 1)])
    expected = -np.linalg.solve(hessian + 0.5 * np.eye(11), gradients.T).T
    np.testing.assert_allclose(found.influences, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert found.parameters[0] == "0.weight[0, 0]"
    assert all(parameter.grad is None for parameter in head.parameters())


@pytest.mark.slow
def test_conjugate_gradients_give_what_the_whole_hessian_gives(seed: int) -> None:
    X, y, env = rows_of("binary", (60, 80, 50), 4, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    options = {"head": network, "damping": 1.0}
    whole = influence_index(X, y, env, solver="autograd", n_boot=199, **options)
    iterated = influence_index(X, y, env, solver="cg", n_boot=199, **options)
    np.testing.assert_allclose(
        iterated.influences, whole.influences, rtol=0.01, atol=0.01 * np.abs(whole.influences).max()
    )
    assert iterated.value == pytest.approx(whole.value, abs=0.01)  # residuals of 0.001
    assert len(iterated.null) == 19
    assert any("19 shuffles were dealt instead of 199" in note for note in iterated.notes)
    assert any("relative residual" in note for note in iterated.notes)
    assert iterated.eigenvalues[0] == pytest.approx(whole.eigenvalues[0], rel=0.05)
    all_dealt = influence_index(X, y, env, solver="cg", n_boot=60, exact=True, **options)
    assert ks_2samp(all_dealt.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(1 / 60 + 1 / 199)


def test_conjugate_gradients_take_penalties(seed: int) -> None:
    X, y, env = rows_of("regression", (60, 80), 3, seed)
    options = {"head": layer(1, 3, seed), "penalty": "vrex", "penalty_weight": 0.1, "damping": 0.5, "n_boot": 9}
    whole, iterated = (influence_index(X, y, env, solver=solver, **options) for solver in ("autograd", "cg"))
    np.testing.assert_allclose(
        iterated.influences, whole.influences, rtol=0.01, atol=0.01 * np.abs(whole.influences).max()
    )


def test_negative_curvature_of_a_network_is_damped_away_and_said(seed: int) -> None:
    X, y, env = rows_of("regression", (60, 80), 3, seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()  # not trained at all
    found = influence_index(X, 5 * y, env, head=network, solver="cg", n_boot=5)
    lowest = influence_index(X, 5 * y, env, head=network, solver="autograd", n_boot=5).eigenvalues[-1]
    assert lowest < 0
    assert found.damping >= 0.9 * 0.01 * found.eigenvalues[0]
    if found.damping > 0.011 * found.eigenvalues[0]:
        assert "not at a minimum" in found.damping_reason
    with pytest.raises(InputError, match="negative curvature"):
        influence_index(X, 5 * y, env, head=network, solver="cg", n_boot=5, damping=1e-9)


def test_heads_that_do_not_fit_are_refused(seed: int) -> None:
    X, y, env = rows_of("multiclass", (60, 60), 3, seed)
    with pytest.raises(InputError, match='tells 2 classes apart, but target "target" has 3 different'):
        influence_index(X, y, env, head=layer(2, 3, seed), solver="autograd")
    with pytest.raises(InputError, match="cannot read rows of 3 columns"):
        influence_index(X, y, env, head=layer(3, 4, seed), solver="autograd")
    with pytest.raises(InputError, match="whole Hessian is only computed up to 5,000"):
        influence_index(X, y, env, head=nn.Sequential(nn.Linear(3, 2000), nn.Linear(2000, 3)), solver="autograd")
    with pytest.raises(InputError, match="head is a str"):
        influence_index(X, y, env, head="linear")
    with pytest.raises(InputError, match='"kronecker" is for linear heads'):
        influence_index(X, y, env, head=nn.Sequential(nn.Linear(3, 3)), solver="kronecker")
    with pytest.raises(InputError, match="no parameter"):
        influence_index(X, y, env, head=nn.ReLU(), solver="autograd")


# --- wide heads ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("damping", [0.0, 0.05])
def test_the_kronecker_route_gives_exact_influences(task: str, damping: float, seed: int) -> None:
    X, y, env = rows_of(task, (150, 100, 200), 4, seed)
    weight = np.random.default_rng(seed).integers(1, 4, len(y))
    options = {"damping": damping, "weight": weight, "n_boot": 400}
    whole, product = (influence_index(X, y, env, solver=solver, **options) for solver in ("dense", "kronecker"))
    np.testing.assert_allclose(
        product.influences, whole.influences, rtol=1e-4, atol=1e-4 * np.abs(whole.influences).max()
    )
    assert product.value == pytest.approx(whole.value, abs=1e-4)
    assert (product.rank, product.solver) == (whole.rank, "kronecker")
    assert product.eigenvalues[0] == pytest.approx(whole.eigenvalues[0], rel=0.01)
    assert product.eigenvalues.sum() == pytest.approx(whole.eigenvalues.sum(), rel=0.2)
    assert ks_2samp(product.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 400) + 0.02


def test_the_kronecker_route_finds_the_spectrum_of_row_noise(seed: int) -> None:
    """More directions than random vectors: leading eigenvalues, and the rest by its trace and squares."""
    rng = np.random.default_rng(seed)
    env, scale = np.repeat([0, 1, 2], 400), 1.0 / np.arange(1, 41)
    X = np.maximum(rng.normal(size=(1200, 40)), 0.0) * scale
    y = np.argmax(X[:, :4] @ rng.normal(size=(4, 4)) + rng.gumbel(size=(1200, 4)), axis=1)
    whole, product = (
        influence_index(X, y, env, solver=solver, damping=0.01, n_boot=1000, seed=seed)
        for solver in ("dense", "kronecker")
    )
    assert product.value == pytest.approx(whole.value, abs=1e-4)
    assert abs(product.direction @ whole.direction) > 0.9999
    assert ks_2samp(product.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 1000) + 0.05
    dealt = influence_index(X, y, env, solver="kronecker", damping=0.01, n_boot=60, seed=seed, exact=True)
    assert ks_2samp(dealt.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(1 / 60 + 1 / 1000)


@pytest.mark.parametrize("outputs", [1, 3])
def test_fewer_rows_than_columns_are_decomposed_as_rows(outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(48, 70)) / np.arange(1, 71) ** 0.5, np.repeat([0, 1, 2], 16)
    head = LinearHead(0.3 * rng.normal(size=(outputs, 70)), np.zeros(outputs))
    y = np.tile(np.arange(max(2, outputs)), 24)[:48]
    weight = rng.integers(1, 3, 48)
    whole, product = (
        influence_index(X, y, env, head=head, weight=weight, solver=solver, damping=0.02, n_boot=400, seed=seed)
        for solver in ("dense", "kronecker")
    )
    np.testing.assert_allclose(
        product.influences, whole.influences, rtol=1e-4, atol=1e-4 * np.abs(whole.influences).max()
    )
    assert product.eigenvalues.shape == whole.eigenvalues.shape == (outputs * 71,)
    assert product.rank == whole.rank == 48 * max(1, outputs - 1)
    assert product.eigenvalues[0] == pytest.approx(whole.eigenvalues[0], rel=0.03)
    assert ks_2samp(product.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 400) + 0.05


@pytest.mark.parametrize("task", ["regression", "multiclass"])
def test_the_kronecker_route_calls_no_column_dead_for_its_small_units(task: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(600, 4)), np.repeat([0, 1, 2], 200)
    score = X[:, 0] + (env - 1) * X[:, 1] + rng.normal(size=600)
    y = score if task == "regression" else np.digitize(score, [-0.7, 0.7])
    X = np.column_stack([X, X[:, 2] + X[:, 3]]) * [1e-6, 1e-6, 1.0, 1e3, 1.0]  # the last follows from others
    options = {"damping": 0.0, "n_boot": 400, "seed": seed}
    whole, product = (influence_index(X, y, env, solver=solver, **options) for solver in ("dense", "kronecker"))
    assert product.rank == whole.rank == (5 if task == "regression" else 10)
    assert product.value == pytest.approx(whole.value, rel=1e-6)
    assert ks_2samp(product.null, whole.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 400) + 0.05


def test_the_moment_of_few_wide_rows_is_the_same_in_fewer_directions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, weight = rng.normal(size=(5, 9)), np.array([1.0, 2.0, 0.0, 0.5, 3.0])
    moment = Moment(9, 5)
    moment.add(rows[:3], weight[:3])
    moment.add(rows[3:], weight[3:])
    curvatures, vectors = moment.eigen(2.0)
    values = curvatures.values
    assert vectors.shape == (9, 4)  # a row of weight 0 is no direction
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(vectors * values @ vectors.T, rows.T @ (weight[:, None] * rows) / 2, atol=1e-12)
    assert np.all(np.diff(values) > 0)


@pytest.mark.slow
def test_wide_heads_take_the_kronecker_route_by_themselves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(300, 510)), np.repeat([0, 1], 150)
    head = LinearHead(0.05 * rng.normal(size=(10, 510)), np.zeros(10))
    y = np.argmax(head.scores(X) + rng.gumbel(size=(300, 10)), axis=1)
    y[:10], y[150:160] = np.arange(10), np.arange(10)
    found = influence_index(X, y, env, head=head, n_boot=99)
    assert found.solver == "kronecker"
    assert found.influences.shape == (2, 5110)
    with pytest.raises(InputError, match="the Hessian of a penalty is only computed up to 5,000"):
        influence_index(X, y, env, head=head, penalty="vrex", penalty_weight=1.0)


@pytest.mark.parametrize("environments", [3, 40])
def test_shuffles_are_the_spread_of_normal_means_however_many_environments_there_are(
    environments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger of two products is never decomposed: 1,000 environments took minutes."""
    decomposed, of_products = [], shuffles._log_largest
    monkeypatch.setattr(shuffles, "_log_largest", lambda given: decomposed.append(given.shape) or of_products(given))
    leading, rows = np.array([3.0, 1.0, 0.2, 0.1, 0.05]), np.linspace(20, 60, environments)
    null = spectral_shuffles(leading, 0.0, 0.0, rows, 6, np.random.default_rng(1))
    draws = np.random.default_rng(1).standard_normal((6, environments, 5)) * np.sqrt(leading)
    for value, draw in zip(null, draws, strict=True):
        means = draw / np.sqrt(rows)[:, None]
        assert value == pytest.approx(np.log(np.linalg.eigvalsh(np.cov(means.T, bias=True))[-1]), abs=1e-10)
    spread = largest_spread(draws)
    assert decomposed == [(6, min(environments, 5), min(environments, 5))] * 2
    for value, draw in zip(spread, draws, strict=True):
        assert value == pytest.approx(np.log(np.linalg.eigvalsh(np.cov(draw.T, bias=True))[-1]), abs=1e-10)


# --- the pieces ----------------------------------------------------------------------------------------------------
def test_small_eigenvalues_together_are_one_wishart_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    covariance = np.diag(1.0 / np.arange(1, 301) ** 0.7)
    rows, count = np.array([100.0, 300.0, 50.0, 200.0]), 3000
    quick = gaussian_shuffles(covariance, rows, count, rng)
    whole = spectral_shuffles(np.diag(covariance), 0.0, 0.0, rows, count, rng)
    assert ks_2samp(quick, whole, method="asymp").statistic < 2.23 * np.sqrt(2 / count)


def test_conjugate_gradients_solve_and_see_negative_curvature(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(20, 12))
    matrix, targets = root.T @ root, rng.normal(size=(3, 12))
    solved, residual, steps = conjugate_gradients(lambda v: v @ matrix, targets, lambda v: v, 1e-12)
    np.testing.assert_allclose(solved, np.linalg.solve(matrix, targets.T).T, rtol=1e-6)
    assert residual <= 1e-12
    assert steps <= 30
    with pytest.raises(NegativeCurvatureError):
        conjugate_gradients(lambda v: v @ (matrix - 50 * np.eye(12)), targets, lambda v: v, 1e-12)


def test_loadings_and_influences_by_name(seed: int) -> None:
    data = null_same_law(n=200, d=3, seed=seed)
    y = data.y + (data.env - 1) * data.X[:, 1]
    found = influence_index(data.X, y, data.env, n_boot=99)
    loadings = found.loadings()
    assert next(iter(loadings)) == "x1"
    assert sorted(loadings) == sorted(found.parameters)
    np.testing.assert_allclose([loadings[name] for name in found.parameters], found.direction)
    assert np.all(np.diff(np.abs(list(loadings.values()))) <= 0)
    moves = found.influence_of(found.labels[2])
    np.testing.assert_allclose(list(moves.values()), found.influences[2])
    with pytest.raises(InputError, match='no environment "nowhere"'):
        found.influence_of("nowhere")
