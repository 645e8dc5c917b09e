from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from invariscope.criteria.predictions.irm_penalty import irm_penalty, scale_gradients
from invariscope.errors import InputError
from invariscope.rows.targets import Target
from invariscope.wording import number
from tests.reference import prediction_criteria as reference


def rows(task, rng, n=60):
    env = np.repeat(["u", "v", "w"], n // 3)
    if task == "regression":
        p = rng.normal(size=n)
        return p, p + rng.normal(size=n), env, p.tolist()
    k = 2 if task == "binary" else 4
    p = rng.dirichlet(np.ones(k), size=n)
    y = rng.permuted(np.tile(np.arange(n // 3) % k, (3, 1)), axis=1).ravel()
    return (p[:, 1] if k == 2 else p), y, env, p.tolist()


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_both_forms_equal_loops_over_numerical_derivatives(task, seed):
    p, y, env, as_lists = rows(task, np.random.default_rng(seed))
    gradients = np.array([reference.scale_gradient(f, t) for f, t in zip(as_lists, y.tolist(), strict=True)])
    expected = {label: gradients[env == label] for label in ("u", "v", "w")}
    square, split = irm_penalty(p, y, env), irm_penalty(p, y, env, form="split")
    for label, g in expected.items():
        assert square.per_environment[label].value == pytest.approx(np.mean(g) ** 2, rel=1e-5, abs=1e-8)
        assert split.per_environment[label].value == pytest.approx(reference.split_penalty(g), rel=1e-5, abs=1e-8)
    assert square.value == pytest.approx(np.mean([np.mean(g) ** 2 for g in expected.values()]), rel=1e-5)
    assert split.value == pytest.approx(
        np.mean([e.value for e in split.per_environment.values()]), rel=1e-12, abs=1e-15
    )


def test_split_form_is_the_average_over_all_halves(seed):
    rng = np.random.default_rng(seed)
    p, y = rng.normal(size=12), rng.normal(size=12)
    result = irm_penalty(p, y, list("aaaaaabbbbbb"), form="split")
    g = 2 * (p - y) * p
    assert result.per_environment["a"].value == pytest.approx(reference.split_penalty_by_halves(g[:6]), rel=1e-11)
    assert result.per_environment["b"].value == pytest.approx(reference.split_penalty_by_halves(g[6:]), rel=1e-11)


def test_two_classes_as_softmax_and_as_logit_agree(seed):
    rng = np.random.default_rng(seed)
    p, y = rng.uniform(0.01, 0.99, size=50), rng.integers(0, 2, size=50).astype(float)
    logit = scale_gradients(p, Target("binary", y, (0, 1)))
    softmax = scale_gradients(np.column_stack([1 - p, p]), Target("multiclass", y, (0, 1)))
    np.testing.assert_allclose(logit, softmax, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(logit, (p - y) * np.log(p / (1 - p)), rtol=1e-10, atol=1e-13)


def test_interval_is_the_squared_interval_of_the_gradient(seed):
    rng = np.random.default_rng(seed)
    p = np.r_[rng.uniform(1, 2, size=40), rng.normal(size=40)]
    y = p + np.r_[rng.normal(5, 1, size=40), rng.permutation(np.tile([-1.0, 1.0], 20))]
    env = np.repeat(["far", "near"], 40)
    result = irm_penalty(p, y, env)
    for label in ("far", "near"):
        g = (2 * (p - y) * p)[env == label]
        low, high = stats.t.interval(0.95, 39, g.mean(), stats.sem(g))
        expected = (0 if low < 0 < high else min(low**2, high**2), max(low**2, high**2))
        assert result.per_environment[label].interval == pytest.approx(expected, rel=1e-9)
    assert result.per_environment["far"].interval[0] > 1
    assert result.worst == "far"


def test_split_may_be_negative_and_says_so():
    p, y = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 0.0, 2.0, -1.0, 3.0, 0.0, 2.5]
    result = irm_penalty(p, y, list("aaaabbbb"), form="split")
    assert result.per_environment["a"].value == pytest.approx(-(16 / 3) / 4, rel=1e-12)  # mean gradient 0: −s²/n
    assert result.value < 0
    assert result.interval[0] == result.value
    assert "A negative penalty" in result.notes[0]


def test_square_says_what_noise_adds():
    p, y = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 0.0, 2.0, -1.0, 3.0, 0.0, 2.5]
    square, split = irm_penalty(p, y, list("aaaabbbb")), irm_penalty(p, y, list("aaaabbbb"), form="split")
    assert f"adds about {number(square.value - split.value)} " in square.notes[0]
    assert f"is {number(split.value)}." in square.notes[0]


def test_penalty_vanishes_where_the_scale_is_right(seed):
    rng = np.random.default_rng(seed)
    x, env = rng.normal(size=200), np.repeat(["a", "b"], 100)
    y = 2 * x + rng.normal(size=200)
    best = np.array([x[env == e] @ y[env == e] / (x[env == e] @ x[env == e]) for e in "ab"])
    result = irm_penalty(x * np.repeat(best, 100), y, env)
    assert result.value == pytest.approx(0, abs=1e-20)
    assert irm_penalty(x * 3, y, env).value > 1


def test_unknown_form_is_refused():
    with pytest.raises(InputError, match='form "cube" is unknown'):
        irm_penalty([1.0, 2.0, 3.0, 4.0], [1.0, 2.5, 3.0, 5.0], list("aabb"), form="cube")
