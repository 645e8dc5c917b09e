"""V with the penalty in its Hessian and without it, and the shuffles both are held against."""

from __future__ import annotations

import json
from html import unescape

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

import invariscope as iv
from invariscope.criteria.influence.influence_index import influence_index
from invariscope.criteria.influence.penalties import PENALTIES
from invariscope.criteria.influence.solution import index_of
from invariscope.heads.linear_head import LinearHead
from invariscope.report.html import render
from tests.reference import influence as plain_reference
from tests.reference import penalised_influence as reference

SIZES = (60, 90, 150)


def spurious(seed: int, signal: float = 0.4, rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two causes of y, an effect of it that differs between environments, and two columns of noise."""
    rng = np.random.default_rng(seed)
    env = np.repeat([0, 1, 2], rows)
    causes = rng.normal(size=(3 * rows, 2))
    y = causes @ [1.0, 0.5] + rng.normal(size=3 * rows)
    effect = y * (1 + signal * (env - 1)) + rng.normal(size=3 * rows)
    return np.column_stack([causes, effect, rng.normal(size=(3 * rows, 2))]), y, env


def small(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, LinearHead]:
    rng = np.random.default_rng(seed)
    env = np.repeat([0, 1, 2], SIZES)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + 0.5 * (env - 1) * X[:, 1] + rng.logistic(size=300) > 0).astype(int)
    return X, y, env, LinearHead([[0.5, -0.3]], 0.1)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_both_are_the_slow_references(penalty: str, seed: int) -> None:
    X, y, env, head = small(seed)
    parameters = np.append(head.weight[0], head.bias)
    found = influence_index(X, y, env, head=head, penalty=penalty, penalty_weight=5.0, damping=0.2, n_boot=99)
    value, _ = reference.influence_index(X, y, env, parameters, "logistic", penalty, 5.0, 0.2)
    plain, _ = plain_reference.influence_index(X, y, env, parameters, "logistic", 0.2)
    assert found.value == pytest.approx(value, rel=1e-8)
    assert found.without_penalty is not None
    assert found.without_penalty.value == pytest.approx(plain, rel=1e-6)
    alone = influence_index(X, y, env, head=head, damping=0.2, n_boot=99)
    assert found.without_penalty.value == pytest.approx(alone.value, abs=1e-9)
    np.testing.assert_allclose(found.without_penalty.null, alone.null, atol=1e-8)
    assert found.without_penalty.pvalue == alone.pvalue == found.pvalue
    assert alone.without_penalty is None


def test_shuffles_have_the_spread_of_deals_and_the_shrinkage_of_the_model(seed: int) -> None:
    """Ṽ − V is the same with the penalty and without it, drawn or dealt."""
    X, y, env, head = small(seed)
    options = {"head": head, "penalty": "vrex", "penalty_weight": 20.0, "damping": 0.1}
    drawn = influence_index(X, y, env, n_boot=1500, seed=seed, **options)
    plain = drawn.without_penalty
    assert plain is not None
    np.testing.assert_allclose(drawn.null - drawn.value, plain.null - plain.value, atol=1e-12)
    dealt = influence_index(X, y, env, n_boot=1500, seed=seed + 1, exact=True, **options)
    assert ks_2samp(drawn.null, dealt.null, method="asymp").statistic < 2.23 * np.sqrt(2 / 1500) + 0.02
    # dealt one after the other
    parameters, rng = np.append(head.weight[0], head.bias), np.random.default_rng(seed)
    design = np.column_stack([X, np.ones(300)])
    hessian = sum(
        plain_reference.finite_difference_hessian(part, parameters, "logistic") / 3
        for part in plain_reference.domains_of(X, y, env)
    )
    pulled = ((1 / (1 + np.exp(-design @ parameters)) - y)[:, None] * design) @ np.linalg.inv(hessian + 0.1 * np.eye(3))
    slow = [
        index_of(
            np.array([part.mean(axis=0) for part in np.split(pulled[rng.permutation(300)], np.cumsum(SIZES)[:-1])])
        )[0]
        for _ in range(1000)
    ]
    assert ks_2samp(plain.null, slow, method="asymp").statistic < 2.23 * np.sqrt(1 / 1500 + 1 / 1000)


def test_the_penalty_in_h_hides_a_disagreement_that_is_still_there(seed: int) -> None:
    """V-REx heads of growing weight on a spurious column: with the penalty V falls by orders of magnitude, gradients go
    on spreading, and only the shuffles through a fixed Hessian see that."""
    rows = spurious(seed)
    found = [
        influence_index(*rows, penalty="vrex", penalty_weight=weight, n_boot=199) for weight in (0.1, 1.0, 10.0, 100.0)
    ]
    with_it, plain = [one.value for one in found], [one.without_penalty for one in found]
    assert np.all(np.diff(with_it) < 0)
    assert with_it[0] - with_it[-1] > 2.5
    values = [one.value for one in plain if one is not None]
    assert max(values) - min(values) < 1.5
    assert all(one.pvalue <= 0.05 for one in found)
    again = influence_index(*rows, penalty="vrex", penalty_weight=100.0, n_boot=99, shuffles="recomputed")
    assert again.value == found[-1].value
    assert again.pvalue > 0.5
    assert again.without_penalty is not None
    assert again.without_penalty.pvalue <= 0.05


@pytest.mark.parametrize("penalty", ["irm", "vrex"])
@pytest.mark.parametrize("solver", ["autograd", "cg"])
def test_networks_have_both(solver: str, penalty: str, seed: int) -> None:
    X, y, env, head = small(seed)
    layer = torch.nn.Linear(2, 1).double()
    with torch.no_grad():
        layer.weight[:], layer.bias[:] = torch.tensor(head.weight), torch.tensor(head.bias)
    options = {"penalty": penalty, "penalty_weight": 3.0, "damping": 0.3, "n_boot": 19}
    whole = influence_index(X, y, env, head=head, **options)
    found = influence_index(X, y, env, head=layer, solver=solver, **options)
    assert found.without_penalty is not None
    assert whole.without_penalty is not None
    close = 1e-8 if solver == "autograd" else 1e-2
    assert found.value == pytest.approx(whole.value, abs=close)
    assert found.without_penalty.value == pytest.approx(whole.without_penalty.value, abs=close)
    assert found.pvalue == found.without_penalty.pvalue
    assert len(found.null) == len(found.without_penalty.null) == 19


def test_both_are_in_the_repr_and_in_json(seed: int) -> None:
    X, y, env, head = small(seed)
    found = influence_index(X, y, env, head=head, penalty="vrex", penalty_weight=5.0, n_boot=19)
    plain = found.without_penalty
    assert plain is not None
    assert f"without_penalty=IndexWithoutPenalty(value={plain.value!r}, pvalue={plain.pvalue!r}" in repr(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["without_penalty"]["value"] == plain.value
    assert told["without_penalty"]["pvalue"] == plain.pvalue
    assert len(told["without_penalty"]["null"]) == 19
    assert told["shares"] == [1 / 3, 1 / 3, 1 / 3]
    none = influence_index(X, y, env, head=head, penalty="vrex", penalty_weight=5.0, n_boot=0)
    assert none.without_penalty is not None
    assert np.isnan(none.without_penalty.pvalue)
    exact = influence_index(X, X @ [1.0, 2.0] + 3.0, env, penalty="vrex", penalty_weight=5.0, n_boot=19)
    assert exact.without_penalty is not None
    assert (exact.value, exact.without_penalty.value) == (-np.inf, -np.inf)
    assert len(exact.without_penalty.null) == 0


def test_an_audit_tells_both_in_the_terminal_and_on_the_page(seed: int) -> None:
    X, y, env = spurious(seed)
    model = iv.InvariantRegressor(objective="vrex", penalty=10.0, steps=50, random_state=0).fit(X, y, env=env)
    audit = iv.audit(model, X, y, env, n_boot=99, criteria=("regret", "influence_index"))
    plain = audit["influence_index"].without_penalty
    assert plain is not None
    told = f"without the penalty in its curvature {plain.value:.2f}".replace("-", "−")
    assert told in " ".join(str(audit).split())
    written = " ".join(unescape(render(audit)).split())
    assert told in written
    assert "the first says how far environments could still move a head that the penalty holds" in written
    assert (
        json.loads(json.dumps(audit.to_dict()))["results"]["influence_index"]["without_penalty"]["value"] == plain.value
    )
