"""What environments count in the Hessian: all the same, by their rows, or by shares; one convention with penalties and
without."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.influence.penalties import PENALTIES
from invariscope.criteria.influence.shares import of_worst
from invariscope.datasets.synthetic.nulls import null_shifted
from invariscope.errors import InputError
from invariscope.heads.linear_head import LinearHead
from invariscope.results import InfluenceResult

UNEQUAL = (40, 90, 250)
TASKS = {"regression": 1, "binary": 1, "multiclass": 3}


def rows_of(task: str, sizes: tuple[int, ...] = UNEQUAL, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = null_shifted(n=sizes, d=3, environments=len(sizes), task=task, seed=seed)
    return np.asarray(data.X), np.asarray(data.y), np.asarray(data.env)


def head_of(outputs: int, seed: int) -> LinearHead:
    rng = np.random.default_rng([seed, outputs])
    return LinearHead(0.4 * rng.standard_normal((outputs, 3)), 0.3 * rng.standard_normal(outputs))


def index(rows: tuple[np.ndarray, ...], **options: object) -> InfluenceResult:
    return influence_index(*rows, **{"damping": 0.0, "n_boot": 0, **options})


# --- one convention --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("hessian", ["domains", "rows", {0: 0.2, 1: 0.5, 2: 0.3}])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("task", TASKS)
def test_v_does_not_jump_as_a_penalty_comes_in(
    task: str, given: bool, penalty: str, hessian: object, seed: int
) -> None:
    """Environments of unequal sizes: the limit of a weight of 0 is the index without a penalty, head and Hessian."""
    rows = rows_of(task, seed=seed)
    options = {"hessian": hessian, "head": head_of(TASKS[task], seed) if given else None}
    plain = index(rows, **options)
    for weight in (0.0, 1e-7):
        found = index(rows, penalty=penalty, penalty_weight=weight, **options)
        assert found.value == pytest.approx(plain.value, abs=1e-4)
        np.testing.assert_allclose(found.eigenvalues, plain.eigenvalues, rtol=1e-4, atol=1e-6)
        assert found.without_penalty is not None
        assert found.without_penalty.value == pytest.approx(plain.value, abs=1e-4)


@pytest.mark.parametrize("task", TASKS)
def test_the_hessian_is_the_mean_of_those_of_the_environments(task: str, seed: int) -> None:
    """Each environment twice, so that it is one and shares are those of its rows: H = Σ_e q_e H_e."""
    X, y, env = rows_of(task, (60, 60, 180), seed)
    head = head_of(TASKS[task], seed)

    def hessian_of(chosen: np.ndarray) -> np.ndarray:  # tr H_e
        doubled = (np.tile(X[chosen], (2, 1)), np.tile(y[chosen], 2), np.repeat([0, 1], chosen.sum()))
        return index(
            doubled, head=head, task="regression" if task == "regression" else "classification"
        ).eigenvalues.sum()

    if task == "multiclass":
        pytest.skip("an environment by itself may lack a class") if any(
            len(set(y[env == e])) < 3 for e in range(3)
        ) else None
    traces = np.array([hessian_of(env == e) for e in range(3)])
    for hessian, shares in (
        ("domains", [1 / 3, 1 / 3, 1 / 3]),
        ("rows", [0.2, 0.2, 0.6]),
        ({0: 1, 1: 0, 2: 3}, [0.25, 0.0, 0.75]),
    ):
        found = index((X, y, env), head=head, hessian=hessian)
        assert found.eigenvalues.sum() == pytest.approx(traces @ shares, rel=1e-9)
        np.testing.assert_allclose(found.shares, shares, atol=1e-12)


def test_environments_of_equal_sizes_count_by_rows(seed: int) -> None:
    rows = rows_of("binary", (80, 80), seed)
    domains, pooled = (influence_index(*rows, n_boot=19, hessian=hessian) for hessian in ("domains", "rows"))
    assert domains.value == pooled.value
    np.testing.assert_array_equal(domains.null, pooled.null)


@pytest.mark.parametrize("task", TASKS)
def test_every_solver_has_the_same_hessian(task: str, seed: int) -> None:
    rows, shares = rows_of(task, seed=seed), {0: 0.5, 1: 0.1, 2: 0.4}
    head = head_of(TASKS[task], seed)
    layer = torch.nn.Linear(3, TASKS[task]).double()
    with torch.no_grad():
        layer.weight[:], layer.bias[:] = torch.tensor(head.weight), torch.tensor(head.bias)
    for hessian in ("domains", "rows", shares):
        options = {"hessian": hessian, "damping": 0.2, "n_boot": 9}
        whole = influence_index(*rows, head=head, **options)
        for solver, given, close in (("kronecker", head, 1e-5), ("autograd", layer, 1e-8), ("cg", layer, 1e-2)):
            found = influence_index(*rows, head=given, solver=solver, **options)
            assert found.value == pytest.approx(whole.value, abs=close), (solver, hessian)
        if hessian != "domains":
            assert abs(whole.value - influence_index(*rows, head=head, damping=0.2, n_boot=0).value) > 1e-4


def test_exact_and_drawn_shuffles_go_through_the_hessian_of_domains(seed: int) -> None:
    rows = rows_of("binary", (60, 150, 600), seed)
    drawn = influence_index(*rows, n_boot=1000, seed=seed)
    dealt = influence_index(*rows, n_boot=1000, seed=seed + 1, exact=True)
    product = influence_index(*rows, n_boot=1000, seed=seed + 2, solver="kronecker")
    bound = 2.23 * np.sqrt(2 / 1000) + 0.02
    assert ks_2samp(drawn.null, dealt.null, method="asymp").statistic < bound
    assert ks_2samp(product.null, dealt.null, method="asymp").statistic < bound


def test_without_a_penalty_deals_have_hessians_of_their_own_if_asked_and_sizes_differ(seed: int) -> None:
    rows = rows_of("binary", (60, 90, 300), seed)
    drawn, dealt = (
        influence_index(*rows, n_boot=600, seed=seed, shuffles="recomputed", exact=exact) for exact in (False, True)
    )
    assert ks_2samp(drawn.null, dealt.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 600) + 0.02
    assert (drawn.shuffles, drawn.without_penalty) == ("recomputed", None)
    # counted by rows, H does not know how they were dealt
    fixed, again = (
        influence_index(*rows, n_boot=99, seed=seed, hessian="rows", shuffles=word)
        for word in ("fixed_hessian", "recomputed")
    )
    np.testing.assert_array_equal(fixed.null, again.null)


# --- the largest risk ------------------------------------------------------------------------------------------------
def least_squares(X: np.ndarray, y: np.ndarray, env: np.ndarray, shares: np.ndarray) -> np.ndarray:
    design = np.column_stack([X, np.ones(len(X))])
    weight = (shares / np.bincount(env))[env]
    return np.linalg.solve(design.T @ (weight[:, None] * design), design.T @ (weight * y))


def test_shares_of_a_group_dro_head_are_read_off_its_gradients(seed: int) -> None:
    """The head that is best for shares q has Σ q_e g_e = 0, and tells them: exponentiated-gradient steps end there."""
    rng = np.random.default_rng(seed)
    env = np.repeat([0, 1, 2], (100, 200, 150))
    X = rng.normal(size=(450, 3))
    y = X[:, 0] + (env - 1) * X[:, 1] + rng.normal(size=450) * np.array([1.2, 0.6, 0.8])[env]
    shares = np.full(3, 1 / 3)
    for _ in range(3000):
        theta = least_squares(X, y, env, shares)
        errors = (np.column_stack([X, np.ones(450)]) @ theta - y) ** 2
        risks = np.bincount(env, errors) / np.bincount(env)
        shares = shares * np.exp(0.05 * risks)
        shares /= shares.sum()
    head = LinearHead(theta[:3], theta[3])
    found = index((X, y, env), head=head, hessian="worst")
    np.testing.assert_allclose(found.shares, shares, atol=2e-3)
    given = index((X, y, env), head=head, hessian=dict(enumerate(shares)))
    assert found.value == pytest.approx(given.value, abs=1e-2)
    note = found.notes[-1]
    assert note.startswith('The Hessian counts environments as a head at the minimum of the largest risk does: "0" ')
    assert "Train further" not in note
    layer = torch.nn.Linear(3, 1).double()
    with torch.no_grad():
        layer.weight[:], layer.bias[:] = torch.tensor(head.weight), torch.tensor(head.bias)
    automatic = index((X, y, env), head=layer, hessian="worst", solver="autograd")
    assert automatic.value == pytest.approx(found.value, abs=1e-6)
    far = index((X, y, env), head=LinearHead([4.0, 1.0, 1.0], 3.0), hessian="worst")
    assert any("No mixture of their gradients is near 0" in note for note in far.notes)


def test_an_environment_below_the_largest_risk_has_no_share() -> None:
    gradients = np.array([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.3]])
    shares, left = of_worst(gradients)
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0.0], atol=1e-12)
    assert left == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(of_worst(np.zeros((4, 2)))[0], 0.25)
    # none vanishes: what is left is the least that any mixture leaves
    shares, left = of_worst(np.array([[1.0, 1.0], [1.0, -1.0]]))
    np.testing.assert_allclose(shares, 0.5, atol=1e-12)
    assert left == pytest.approx(1 / np.sqrt(2))


def test_errors_are_readable(seed: int) -> None:
    rows = rows_of("regression", (40, 40), seed)
    for hessian, said in (
        ("pooled", 'hessian "pooled" is unknown'),
        (3, "hessian 3 is unknown"),
        ({0: 1.0}, 'no share of "1"'),
        ({0: 1.0, 1: 1.0, "c": 1.0}, 'a share of "c"'),
        ({0: -1.0, 1: 1.0}, 'hessian has -1.0 for "0"'),
        ({0: float("nan"), 1: 1.0}, 'hessian has nan for "0"'),
        ({0: 0, 1: 0}, "a share of 0 for every environment"),
        ("worst", "give it as head"),
    ):
        with pytest.raises(InputError, match=said):
            influence_index(*rows, hessian=hessian)
    with pytest.raises(InputError, match='shuffles "drawn" is unknown'):
        influence_index(*rows, shuffles="drawn")
    with pytest.raises(InputError, match='solver "kronecker" holds none'):
        influence_index(*rows, shuffles="recomputed", solver="kronecker")
