"""What one can ask of the criterion beyond its number: other ratios, tables, sample sizes, the published bound."""

from __future__ import annotations

import json
import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from invariscope.criteria.dric.dric import dric as with_resamples
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import density_ratio
from invariscope.rows.environments import Environments
from tests.reference import dric as reference

dric = partial(with_resamples, n_boot=0)


def shifted(seed: int, environments: int = 3, n: int = 80, d: int = 4) -> SimpleNamespace:
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(environments), n + 15 * np.arange(environments)))
    X = rng.normal(size=(len(code), d)) + 0.4 * code[:, None] * np.resize([1.0, -1.0, 0.0], d)
    names = np.array([f"site {'zyxwv'[k]}" for k in range(environments)], dtype=object)
    y = X[:, 0] + rng.normal(size=len(code))
    return SimpleNamespace(X=X, env=names[code], code=code, f=X[:, 0] + 0.2 * X[:, 1] ** 2, baseline=X.sum(axis=1), y=y)


# --- ratios ---------------------------------------------------------------------------------------------------------
def test_a_ratio_on_the_representation_is_two_separate_calculations(seed: int) -> None:
    rows = shifted(seed)
    Z = np.column_stack([rows.X[:, 0], np.tanh(rows.X[:, 1])])
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, representation=Z)
    on_z = dric(rows.f, Z, rows.env, baseline=rows.f)
    on_x = dric(rows.baseline, rows.X, rows.env, baseline=rows.baseline)
    assert found.numerator == on_z.numerator
    assert found.denominator == on_x.denominator
    np.testing.assert_array_equal(found.pairs, on_z.pairs)
    np.testing.assert_array_equal(found.sigma2, on_z.sigma2)
    np.testing.assert_array_equal(found.overlap.effective, on_z.overlap.effective)
    assert found.value != dric(rows.f, rows.X, rows.env, baseline=rows.baseline).value


def test_a_representation_goes_with_grouped_rows_and_weights(seed: int) -> None:
    rows = shifted(seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(rows.f))
    Z = pd.DataFrame({"a": rows.X[:, 0], "b": rows.X[:, 2] ** 2})
    given: dict[str, Any] = {"baseline": rows.baseline, "representation": Z}
    one = dric(rows.f, rows.X, rows.env, weight=weight, **given)
    other = dric(rows.f, Environments(rows.X, None, rows.env, weight), **given)
    assert one.value == other.value
    again = np.repeat(np.arange(len(weight)), weight)
    given = {"baseline": rows.baseline[again], "representation": Z.iloc[again]}
    assert one.value == pytest.approx(dric(rows.f[again], rows.X[again], rows.env[again], **given).value, rel=1e-6)


def test_ratios_from_elsewhere_go_with_a_representation_as_a_pair(seed: int) -> None:
    rows = shifted(seed)
    Z = rows.X[:, :2]
    pair = (density_ratio(Z, rows.env), density_ratio(rows.X, rows.env))
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, representation=Z, ratio=pair)
    assert found.value == dric(rows.f, rows.X, rows.env, baseline=rows.baseline, representation=Z).value
    with pytest.raises(InputError, match="as a pair"):
        dric(rows.f, rows.X, rows.env, baseline=rows.baseline, representation=Z, ratio=pair[0])


def test_svd_is_the_ratio_on_the_first_singular_scores(seed: int) -> None:
    rows = shifted(seed, d=8)
    rows.X[:, 3] *= 5.0
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, svd=3)
    left, values, right = np.linalg.svd(rows.X - rows.X.mean(axis=0), full_matrices=False)
    # singular directions have no sign, but which rows share a fold, and so the choice of a ridge, depends on it
    signs = np.sign(np.diag(right[:3] @ density_ratio(rows.X, rows.env, svd=3)._units.axes))
    by_hand = dric(rows.f, left[:, :3] * values[:3] * signs, rows.env, baseline=rows.baseline)
    np.testing.assert_allclose(found.pairs, by_hand.pairs, rtol=1e-6)
    assert found.value == pytest.approx(by_hand.value, rel=1e-6)
    assert found.value != pytest.approx(dric(rows.f, rows.X, rows.env, baseline=rows.baseline).value, rel=1e-3)
    with pytest.raises(InputError, match="svd is 0"):
        dric(rows.f, rows.X, rows.env, baseline=rows.baseline, svd=0)


def test_a_ratio_of_training_rows_judges_test_rows(seed: int) -> None:
    train, test = shifted(seed), shifted(seed + 1, n=50)
    fitted = density_ratio(train.X, train.env)
    found = dric(test.f, test.X, test.env, baseline=test.baseline, ratio=fitted)
    given = (fitted.log_densities(test.X).tolist(), list(test.env), fitted.labels)
    means = [reference.transported_means(f.tolist(), *given) for f in (test.f, test.baseline)]
    np.testing.assert_allclose(found.pairs, means[0], rtol=1e-10)
    assert found.value == pytest.approx(reference.total_gap(means[0]) / reference.total_gap(means[1]), rel=1e-10)
    with pytest.raises(InputError, match="the ratio was fitted for"):
        dric(train.f, train.X, train.code, baseline=train.baseline, ratio=fitted)


def test_overlap_notes_say_which_ratio_they_are_about(seed: int) -> None:
    rows = shifted(seed)
    far = rows.X.copy()
    far[:, 0] += 30.0 * rows.code
    found = dric(rows.f, far, rows.env, baseline=rows.baseline, representation=rows.X[:, 2:])
    assert any(note.startswith("On X: No Q̂: there is hardly any overlap between any two") for note in found.notes)
    assert not any(note.startswith("On the representation: ") for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("ratio", ["gaussian", "ulsif", LogisticRegression()], ids=str)
def test_other_estimators_serve_as_well(ratio: Any, seed: int) -> None:
    rows = shifted(seed)
    fitted = density_ratio(rows.X, rows.env, ratio=ratio)
    given = (fitted.at_rows.tolist(), list(rows.env), fitted.labels)
    means = [reference.transported_means(f.tolist(), *given) for f in (rows.f, rows.baseline)]
    found = with_resamples(rows.f, rows.X, rows.env, baseline=rows.baseline, ratio=ratio, n_boot=19)
    assert found.value == pytest.approx(reference.total_gap(means[0]) / reference.total_gap(means[1]), rel=1e-6)
    assert found.interval[0] < found.interval[1]
    assert len(found.null) == 19


def test_classifiers_are_not_refitted_unless_asked(seed: int) -> None:
    rows = shifted(seed)
    found = with_resamples(rows.f, rows.X, rows.env, baseline=rows.baseline, ratio=LogisticRegression())
    assert len(found.null) == 0
    assert any("refits of this ratio: iv.dric(n_boot=99)" in note for note in found.notes)


# --- the table and the sample sizes ---------------------------------------------------------------------------------
def test_the_table_lists_every_pair(seed: int) -> None:
    rows = shifted(seed)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    table = found.table().set_index(["environment", "from_rows_of"])
    assert len(table) == 9
    for a, e in enumerate(found.labels):
        for b, e2 in enumerate(found.labels):
            line = table.loc[(e, e2)]
            n = int(np.sum(rows.env == e2))
            assert line["q"] == found.pairs[a, b]
            assert line["gap"] == found.pairs[a, b] - found.pairs[a, a]
            assert line["standard_error"] == pytest.approx(math.sqrt(found.sigma2[a, b] / n), rel=1e-12)
            assert (line["rows"], line["effective_rows"]) == (n, found.overlap.effective_rows[a, b])
            assert line["overlap"] == found.overlap.pair_verdicts[a][b]
    assert np.sum(table["gap"] ** 2) == pytest.approx(found.numerator, rel=1e-12)
    classes = np.column_stack([rows.f, 1 - rows.f])
    lines = dric(classes, rows.X, rows.env, baseline=classes).table()
    assert list(lines["class"].unique()) == [0, 1]
    assert len(lines) == 18


def test_variances_equal_loops_and_rows_needed_follow_by_hand(seed: int) -> None:
    rows = shifted(seed, n=30)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    at_rows = density_ratio(rows.X, rows.env).at_rows.tolist()
    np.testing.assert_allclose(
        found.sigma2, reference.variances(rows.f.tolist(), at_rows, list(rows.env), found.labels), rtol=1e-9
    )
    needed = found.rows_needed(0.2, alpha=0.1)
    for a in range(3):
        for b in range(3):
            assert needed[a, b] == math.ceil(2 * found.sigma2[a, b] * math.log(20) / 0.04)
    np.testing.assert_array_equal(found.rows_needed(0.1), found.rows_needed(0.1, alpha=0.05))
    both = np.column_stack([rows.f, 3 * rows.f])
    of_both = dric(both, rows.X, rows.env, baseline=both).rows_needed(0.2, alpha=0.1)
    np.testing.assert_allclose(of_both, 9 * needed, atol=9)
    for epsilon, alpha in ((0.0, 0.05), (-1.0, 0.05), (math.nan, 0.05), (0.1, 0.0), (0.1, 1.0)):
        with pytest.raises(InputError, match="give epsilon above 0"):
            found.rows_needed(epsilon, alpha)


def test_sample_size_is_said_in_a_sentence_for_every_environment(seed: int) -> None:
    rows = shifted(seed)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    said, needed = found.sample_size(0.25), found.rows_needed(0.25)
    for b, label in enumerate(found.labels):
        a = int(np.argmax(needed[:, b]))
        assert f"{np.sum(rows.env == label)} rows in {label}; for q({found.labels[a]}, {label}) within ±0.25" in said
        assert f"about {needed[a, b]:,.0f}." in said
    assert "not the error of the estimated ratio" in said


def test_a_mean_stays_within_epsilon_at_the_promised_rate(seed: int) -> None:
    """The constant 2 with log(2 / α) is on the safe side of a normal mean: 99.6 % where 95 % is promised."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(2000, 1)), np.repeat([0, 1], 1000)
    needed = dric(X[:, 0], X, env, baseline=X[:, 0], ratio=lambda x: np.zeros((len(x), 2))).rows_needed(0.3)[0, 1]
    means = rng.normal(size=(20_000, int(needed))).mean(axis=1)
    assert np.mean(np.abs(means) < 0.3) > 0.95
    assert needed == pytest.approx(7.378 / 0.09, abs=10)


def test_the_combined_criterion_adds_theta_times_the_value(seed: int) -> None:
    rows = shifted(seed)
    found = dric(rows.f, rows.X, rows.env, baseline=rows.baseline)
    assert found.combined(0.4, 2.5) == 0.4 + 2.5 * found.value


# --- the published bound --------------------------------------------------------------------------------------------
def test_the_bound_equals_loops_for_numbered_environments(seed: int) -> None:
    rows = shifted(seed, n=30)
    env = np.array([0.2, 2.0, 5.0])[rows.code]
    found = dric(rows.f, rows.X, env, baseline=rows.baseline, y=rows.y).bound
    squared, of_baseline = reference.bound(rows.y.tolist(), rows.baseline.tolist(), env.tolist())
    assert found.covariance_squared == pytest.approx(squared, rel=1e-10)
    assert found.baseline_variance == pytest.approx(of_baseline, rel=1e-10)
    assert found.value == pytest.approx(squared / of_baseline, rel=1e-10)
    of_model = reference.bound(rows.y.tolist(), rows.f.tolist(), env.tolist())[1]
    assert found.model_variance == pytest.approx(of_model, rel=1e-10)
    assert found.variance_form == pytest.approx(of_model / of_baseline, rel=1e-10)
    assert found.holds == (of_model >= squared)
    assert found.coding == {0.2: 0.2, 2.0: 2.0, 5.0: 5.0}


def test_names_are_numbered_in_their_order_and_a_note_says_so(seed: int) -> None:
    rows = shifted(seed)
    named = dric(rows.f, rows.X, rows.env, baseline=rows.baseline, y=rows.y)
    numbered = dric(rows.f, rows.X, 2 - rows.code, baseline=rows.baseline, y=rows.y)  # names sort backwards
    assert named.bound.value == numbered.bound.value
    assert any("site x = 0, site y = 1, site z = 2" in note for note in named.notes)
    assert not any("numbered in their order" in note for note in numbered.notes)
    assert any("not true in general" in note for note in numbered.notes)
    assert len(numbered.bound.assumptions) == 3
    assert json.loads(json.dumps(named.to_dict()))["bound"]["coding"] == {"site x": 0.0, "site y": 1.0, "site z": 2.0}


def test_weights_are_repetitions_in_the_bound(seed: int) -> None:
    rows = shifted(seed)
    weight = np.random.default_rng(seed).integers(0, 4, len(rows.f))
    again = np.repeat(np.arange(len(weight)), weight)
    one = dric(rows.f, rows.X, rows.code, baseline=rows.baseline, y=rows.y, weight=weight).bound
    other = dric(rows.f[again], rows.X[again], rows.code[again], baseline=rows.baseline[again], y=rows.y[again]).bound
    assert one.value == pytest.approx(other.value, rel=1e-10)
    assert one.model_variance == pytest.approx(other.model_variance, rel=1e-10)


def test_classes_count_as_columns_of_zeros_and_ones(seed: int) -> None:
    rows = shifted(seed)
    p = 1 / (1 + np.exp(-rows.X[:, 0]))
    label = np.where(rows.y > 0, "yes", "no")
    one = dric(p, rows.X, rows.code, baseline=p**2, y=label).bound
    two = dric(*(np.column_stack([1 - p, p]), rows.X, rows.code), baseline=np.column_stack([1 - p**2, p**2]), y=label)
    number = dric(p, rows.X, rows.code, baseline=p**2, y=(rows.y > 0).astype(int)).bound
    assert one.value == pytest.approx(number.value, rel=1e-12)
    assert one.value == pytest.approx(two.bound.value, rel=1e-12)
    assert two.bound.covariance_squared == pytest.approx(one.covariance_squared, rel=1e-12)  # the second class alone
    grade, share = np.digitize(rows.y, [-0.5, 0.5]), np.column_stack([p / 2, p / 2, 1 - p])
    three = dric(share, rows.X, rows.code, baseline=share**2, y=grade).bound
    each = [np.cov(grade == k, rows.code, bias=True)[0, 1] ** 2 for k in range(3)]
    assert three.covariance_squared == pytest.approx(sum(each), rel=1e-9)


@pytest.mark.parametrize(("noise", "holds"), [(1.0, True), (0.1, False)])
def test_the_bound_fails_where_the_environment_explains_the_target(noise: float, holds: bool, seed: int) -> None:
    """x = y = E + noise: R_φ = noise², Cov²(Y, E) = 1/16, and Q = 1 whatever the theorem says."""
    rng = np.random.default_rng(seed)
    env = np.repeat([0, 1], 4000)
    y = env + noise * rng.normal(size=8000)
    found = dric(y, y[:, None], env, baseline=y, y=y, overlap="ignored")  # with noise = 0.1 they lie apart
    assert found.value == 1.0
    assert found.bound.model_variance == pytest.approx(noise**2, rel=0.1)
    assert found.bound.covariance_squared == pytest.approx(1 / 16, rel=0.3)
    assert found.bound.holds is holds
    in_other_units = dric(y, y[:, None], 100 * env, baseline=y, y=y).bound
    assert in_other_units.value == pytest.approx(1e4 * found.bound.value, rel=1e-9)


def test_a_ratio_whose_mean_is_not_one_is_named(seed: int) -> None:
    """A known ratio that forgets a factor of 5: rows of 1 made to look like 0 weigh 5 on average."""
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(400, 1)), np.repeat([0, 1], 200)
    found = dric(X[:, 0], X, env, baseline=X[:, 0], ratio=lambda x: np.tile([math.log(5.0), 0.0], (len(x), 1)))
    pairs = (("1", "0", "5"), ("0", "1", "0.2"))  # off by the same factor, so either may be named
    said = [f"Rows of {b} cannot stand in for those of {a}: the mean of the ratio is {mean} " for b, a, mean in pairs]
    assert any(words in note for words in said for note in found.notes)
    fine = dric(X[:, 0], X, env, baseline=X[:, 0], ratio=lambda x: np.tile([math.log(1.9), 0.0], (len(x), 1)))
    assert not any("cannot stand in" in note for note in fine.notes)


def test_a_model_in_place_of_its_predictions_is_named(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, env = rng.normal(size=(60, 2)), np.repeat([0, 1], 30)
    with pytest.raises(InputError, match="baseline: a model was given; give the numbers it predicts"):
        dric(X[:, 0], X, env, baseline=LinearRegression())


def test_a_target_with_gaps_is_refused_whatever_it_holds() -> None:
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(60, 1)), np.repeat(["a", "b"], 30)
    share = 1 / (1 + np.exp(-X[:, 0]))
    label = np.resize(np.array(["no", "yes"], dtype=object), 60)
    gaps = np.where(np.arange(60) == 7, None, label)
    with pytest.raises(InputError, match=r'^"y" is missing in 1 of 60 rows: drop them or give them a label$'):
        with_resamples(share, X, site, baseline=share / 2, y=gaps, n_boot=0)
    assert with_resamples(share, X, site, baseline=share / 2, y=label, n_boot=0).bound is not None
