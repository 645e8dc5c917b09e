"""What holds for every criterion on predictions: the door they share, and the symmetries of the data."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest

from invariscope.criteria.predictions.calibration_variance import calibration_variance
from invariscope.criteria.predictions.irm_penalty import irm_penalty
from invariscope.criteria.predictions.risk_variance import risk_variance
from invariscope.criteria.predictions.worst_environment_risk import worst_environment_risk
from invariscope.criteria.registry import CRITERIA
from invariscope.errors import InputError
from invariscope.rows.environments import Environments

CASES = {
    "risk_variance-regression": (risk_variance, "regression"),
    "risk_variance-absolute": (partial(risk_variance, loss="absolute"), "regression"),
    "risk_variance-binary": (risk_variance, "binary"),
    "risk_variance-zero_one": (partial(risk_variance, loss="zero_one"), "multiclass"),
    "worst_environment_risk-regression": (worst_environment_risk, "regression"),
    "worst_environment_risk-zero_one": (partial(worst_environment_risk, loss="zero_one"), "binary"),
    "worst_environment_risk-multiclass": (worst_environment_risk, "multiclass"),
    "calibration_variance-binary": (calibration_variance, "binary"),
    "calibration_variance-multiclass": (calibration_variance, "multiclass"),
    "irm_penalty-regression": (irm_penalty, "regression"),
    "irm_penalty-binary": (irm_penalty, "binary"),
    "irm_penalty-split": (partial(irm_penalty, form="split"), "multiclass"),
}
every_case = pytest.mark.parametrize(("function", "task"), CASES.values(), ids=CASES.keys())


def example(task, seed, n=240):
    """Rows that any task can use, in random order: every class occurs in every environment."""
    rng = np.random.default_rng(seed)
    env = rng.permutation(np.repeat([0, 1, 2], [n // 2, n // 3, n - n // 2 - n // 3]))
    if task == "regression":
        y = rng.normal(size=n)
        return y * 0.6 + (0.3 + 0.3 * env) * rng.normal(size=n), y, env
    k = 2 if task == "binary" else 3
    y = np.empty(n, int)
    for e in range(3):
        rows = np.flatnonzero(env == e)
        y[rows] = rng.permutation(np.arange(len(rows)) % k)
    logits = rng.normal(size=(n, k)) + np.eye(k)[y] * (2.0 - 0.5 * env)[:, None]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return (p[:, 1] if k == 2 else p), y, env


def numbers(result):
    """Everything numeric in a result, environments by sorted label."""
    parts = [result.value, *result.interval]
    for label in sorted(result.per_environment):
        estimate = result.per_environment[label]
        parts += [estimate.value, *estimate.interval]
    return np.array(parts)


@every_case
def test_weight_is_repetition(function, task, seed):
    p, y, env = example(task, seed)
    weight = np.random.default_rng(seed + 1).integers(1, 4, size=len(y))
    again = np.repeat(np.arange(len(y)), weight)
    np.testing.assert_allclose(
        numbers(function(p, y, env, weight=weight)), numbers(function(p[again], y[again], env[again])), rtol=1e-10
    )


@every_case
def test_rows_of_weight_zero_are_not_there(function, task, seed):
    p, y, env = example(task, seed)
    keep = np.random.default_rng(seed + 1).uniform(size=len(y)) < 0.8
    np.testing.assert_allclose(
        numbers(function(p, y, env, weight=keep.astype(float))),
        numbers(function(p[keep], y[keep], env[keep])),
        rtol=1e-10,
    )


@every_case
def test_row_order_does_not_matter(function, task, seed):
    p, y, env = example(task, seed)
    order = np.random.default_rng(seed + 1).permutation(len(y))
    np.testing.assert_allclose(
        numbers(function(p[order], y[order], env[order])), numbers(function(p, y, env)), rtol=1e-9
    )


@every_case
def test_names_of_environments_do_not_matter(function, task, seed):
    p, y, env = example(task, seed)
    names = {0: "zebra", 1: "ant", 2: "mole"}
    before, after = function(p, y, env), function(p, y, [names[e] for e in env])
    assert after.worst == names[before.worst]
    assert set(after.per_environment) == set(names.values())
    np.testing.assert_allclose((after.value, *after.interval), (before.value, *before.interval), rtol=1e-9)
    for label, name in names.items():
        ours, theirs = before.per_environment[label], after.per_environment[name]
        np.testing.assert_allclose((theirs.value, *theirs.interval), (ours.value, *ours.interval), rtol=1e-9)


@every_case
def test_intervals_contain_their_values(function, task, seed):
    result = function(*example(task, seed))
    for value, (low, high) in [
        (result.value, result.interval),
        *((estimate.value, estimate.interval) for estimate in result.per_environment.values()),
    ]:
        assert low <= value <= high
        assert low < high
    assert result.per_environment[result.worst].value == max(e.value for e in result.per_environment.values())


@every_case
def test_grouped_rows_frames_and_single_precision_give_the_same(function, task, seed):
    p, y, env = example(task, seed)
    expected = numbers(function(p, y, env))
    np.testing.assert_array_equal(numbers(function(Environments(p, y, env))), expected)
    frame = pd.DataFrame(p)
    np.testing.assert_array_equal(numbers(function(frame, pd.Series(y), pd.Series(env))), expected)
    if function is not calibration_variance:  # rounding may move a row into the next bin
        np.testing.assert_allclose(numbers(function(p.astype(np.float32), y, env)), expected, rtol=2e-4, atol=1e-7)


@every_case
def test_results_are_plain_data(function, task, seed):
    result = function(*example(task, seed))
    plain = result.to_dict()
    assert plain["value"] == result.value
    assert plain["per_environment"]["0"]["value"] == result.per_environment[0].value
    assert isinstance(plain["notes"], list)
    assert plain["unit"]


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, calibration_variance, irm_penalty])
def test_two_columns_are_the_second_one_and_labels_may_be_text(function, seed):
    p, y, env = example("binary", seed)
    expected = numbers(function(p, y, env))
    np.testing.assert_allclose(numbers(function(np.column_stack([1 - p, p]), y, env)), expected, rtol=1e-12)
    np.testing.assert_array_equal(numbers(function(p, np.where(y == 1, "yes", "no"), env)), expected)
    np.testing.assert_array_equal(numbers(function(p, y == 1, env)), expected)


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, calibration_variance, irm_penalty])
def test_bad_probabilities_are_refused_with_counts(function, seed):
    p, y, env = example("binary", seed)
    logits = p.copy()
    logits[:7] = 3.0
    with pytest.raises(InputError, match=r"predictions of 7 rows lie outside 0\.\.1.*sigmoid"):
        function(logits, y, env)
    with pytest.raises(InputError, match=r"probabilities of 240 rows do not sum to 1"):
        function(np.column_stack([p, p * 0 + 0.2]) * 0.5, y, env)
    probabilities, classes, env = example("multiclass", seed)
    with pytest.raises(InputError, match=r"2 columns, but target .* has 3 classes.*0, 1, 2"):
        function(probabilities[:, :2], classes, env)
    with pytest.raises(InputError, match=r"3 columns, but target .* has 2 classes"):
        function(probabilities, np.array(["a", "b"])[np.minimum(classes, 1)], env)
    with pytest.raises(InputError, match="already hold"):
        function(Environments(p, y, env), y)
    with pytest.raises(InputError, match="no target"):
        function(p, None, env)
    missing = p.copy()
    missing[np.flatnonzero(env == env[0])[:2]] = np.nan, np.inf
    said = (
        rf"^predictions: 2 rows have missing or infinite values \({env[0]}: 2 of {np.count_nonzero(env == env[0])}\); "
    )
    for given in (missing, np.column_stack([1 - missing, missing])):
        with pytest.raises(InputError, match=said + "predict those rows too, or drop them$"):
            function(given, y, env)


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, calibration_variance, irm_penalty])
def test_columns_are_the_classes(function, seed):
    """0 to 14 are amounts, unless fifteen columns say otherwise; and a class without rows changes nothing."""
    rng = np.random.default_rng(seed)
    p, env = rng.dirichlet(np.ones(15), 300), np.repeat(["a", "b"], 150)
    codes = rng.permutation(np.arange(300) % 15)
    names = np.array([*"abcdefghijklmno"])[codes]
    np.testing.assert_array_equal(numbers(function(p, codes, env)), numbers(function(p, names, env)))
    few = codes % 3
    known = Environments(p, few, env).with_classes(few[np.argsort(env, kind="stable")], tuple(range(15)))
    np.testing.assert_array_equal(numbers(function(p, few, env)), numbers(function(known)))


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, irm_penalty])
def test_one_column_is_numbers_unless_the_classes_are_two(function, seed):
    p, y, env = example("binary", seed)
    amounts = np.arange(len(y)) % 3 + 1
    np.testing.assert_array_equal(
        numbers(function(p, amounts, env)), numbers(function(p, amounts, env, task="regression"))
    )
    np.testing.assert_array_equal(numbers(function(p, 5 + 2 * y, env)), numbers(function(p, y, env)))
    with pytest.raises(InputError, match=r"1 columns, but target .* has 3 classes.*a, b, c"):
        function(p, np.array(["a", "b", "c"])[amounts - 1], env)


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, irm_penalty])
def test_bad_numbers_are_refused(function, seed):
    p, y, env = example("regression", seed)
    with pytest.raises(InputError, match="2 columns: a numeric target needs one"):
        function(np.column_stack([p, p]), y, env)
    p = p.copy()
    p[3] = 1e200
    with pytest.raises(InputError, match="of 1 rows is above 1e"):
        function(p, y, env)


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk])
def test_losses_must_fit_the_target(function, seed):
    with pytest.raises(InputError, match='"zero_one" does not fit a target of numbers: use "squared" or "absolute"'):
        function(*example("regression", seed), loss="zero_one")
    with pytest.raises(InputError, match='"squared" does not fit a target of classes: use "log_loss" or "zero_one"'):
        function(*example("binary", seed), loss="squared")
    with pytest.raises(InputError, match='loss "brier" is unknown'):
        function(*example("binary", seed), loss="brier")


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, irm_penalty])
def test_noise_that_cannot_be_estimated_is_said(function):
    result = function(
        [0.0, 1.0, 0.5, 2.0, 3.0, 1.0], [0.1, 0.8, 1, 2, 3, 1.2], list("aaabbb"), weight=[0.5, 0.25, 0.2, 2, 2, 2]
    )
    assert np.isfinite(result.value)
    assert np.isnan(result.interval).all()
    assert np.isnan(result.per_environment["a"].interval).all()
    assert np.isfinite(result.per_environment["b"].interval).all()
    assert "weights sum to 1 or less" in result.notes[0]


@pytest.mark.parametrize("function", [risk_variance, worst_environment_risk, irm_penalty])
def test_impossible_events_are_capped_and_counted(function):
    result = function([0.0, 1.0, 0.2, 0.7, 0.3, 0.6], [1, 0, 0, 1, 0, 1], list("aabbba"))
    assert np.isfinite(result.value)
    assert any(note.startswith("2 rows belong to a class that was given probability 0") for note in result.notes)


def test_environments_with_few_rows_are_named(seed):
    p, y, env = example("regression", seed, n=60)
    assert any("Fewer than 30 rows in 1, 2:" in note for note in risk_variance(p, y, env).notes)


@every_case
def test_an_environment_may_lack_a_class_or_have_a_constant_target(function, task, seed):
    """Risks are means over rows: no head is fitted that would have to see every class everywhere."""
    predictions, y, env = example(task, seed)
    y = np.where(env == 1, 0, y)
    result = function(predictions, y, env)
    assert np.isfinite(numbers(result)).all()
    others = env != 1
    rest = function(predictions[others], y[others], env[others])
    for label in (0, 2):
        assert result.per_environment[label].value == pytest.approx(rest.per_environment[label].value, rel=1e-12)


def test_criteria_are_registered_with_their_needs():
    for name, need in {
        "risk_variance": "predictions",
        "worst_environment_risk": "predictions",
        "irm_penalty": "scores",
        "calibration_variance": "probabilities",
    }.items():
        entry = CRITERIA[name]
        assert entry.needs == {need, "target"}
        assert entry.better == "lower"
        assert entry.tells.endswith(".")
        assert entry.cannot_tell.endswith(".")
