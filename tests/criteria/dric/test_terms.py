"""What stands in the sums of DRIC beside predictions, as eq. 4 and A.3 have it: against loops and counted by hand."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariscope.criteria.dric.dric import dric as with_resamples
from invariscope.criteria.dric.own_means import FOLDS
from invariscope.criteria.dric.resampling import Sampler
from invariscope.errors import InputError
from invariscope.ratios.density_ratio import density_ratio
from invariscope.ratios.estimator import GroupedRows
from invariscope.rows.resampling import folds_by_content
from tests.reference import dric as reference

dric = partial(with_resamples, n_boot=0)


def shifted(seed: int, n: int = 60) -> SimpleNamespace:
    rng = np.random.default_rng(seed)
    code = rng.permutation(np.repeat(np.arange(3), n + 15 * np.arange(3)))
    X = rng.normal(size=(len(code), 2)) + 0.4 * code[:, None] * [1.0, -1.0]
    y = X[:, 0] + (code - 1) * X[:, 1] + 0.5 * rng.normal(size=len(code))
    return SimpleNamespace(X=X, env=np.array(["u", "v", "w"])[code], f=X[:, 0] + 0.5, b=X[:, 0] - X[:, 1], y=y)


def counted() -> SimpleNamespace:
    """x is 0 or 1, in environments a (3 of 4 rows are 1) and b (1 of 4); y is its mean at x plus and minus 1.

    a: E[y|0] = 0, E[y|1] = 2; b: E[y|0] = 1, E[y|1] = 1.
    q(a, a) = 1.5, q(a, b) = 1, q(b, b) = 1, q(b, a) = ¾·0 + ¼·2 = 0.5.
    """
    x = np.repeat([0.0, 1.0, 0.0, 1.0], [4, 12, 12, 4])
    env = np.repeat(["a", "b"], 16)
    mean = np.repeat([0.0, 2.0, 1.0, 1.0], [4, 12, 12, 4])
    y = mean + np.resize([1.0, -1.0], 32)

    def ratio(rows: Any) -> Any:  # log p_a, log p_b
        return np.where(rows > 0.5, np.log([0.75, 0.25]), np.log([0.25, 0.75]))

    return SimpleNamespace(x=x, X=x[:, None], env=env, y=y, ratio=ratio)


def test_own_means_counted_by_hand() -> None:
    rows = counted()
    found = dric(rows.x, rows.X, rows.env, baseline=None, y=rows.y, terms="own_means", ratio=rows.ratio)
    np.testing.assert_allclose(found.pairs, [[1.5, 1.0], [0.5, 1.0]], atol=1e-12)
    assert found.numerator == pytest.approx(0.5**2 + 0.5**2, abs=1e-12)
    assert (found.terms, found.value) == ("own_means", pytest.approx(1.0, abs=1e-12))
    # eq. 6, with the same ratio: one function of x has the same mean however it is reached
    assert dric(rows.x, rows.X, rows.env, baseline=rows.x + 1, ratio=rows.ratio).numerator < 1e-28
    # right-hand side of eq. 5: m_e(x) − E[y|e] is ±0.5 … in a, 0 in b: half of Var(m_a | a) = ¾·¼·2²
    assert found.bound.model_variance == pytest.approx(0.5 * 0.75 * 0.25 * 4, abs=1e-12)
    assert any("two sides of eq. 5 are 1.00 and 1.00" in note for note in found.notes)


def test_an_invariant_representation_has_no_gap_and_still_a_right_hand_side_of_eq_5() -> None:
    rows = counted()
    y = 2.0 * rows.x + np.resize([1.0, -1.0], 32)
    found = dric(rows.x, rows.X, rows.env, baseline=None, y=y, terms="own_means", ratio=rows.ratio)
    assert found.numerator < 1e-28
    assert found.bound.model_variance == pytest.approx(0.75 * 0.25 * 4, abs=1e-12)  # Var(2 x | e), in both


@pytest.mark.parametrize("seen", [False, True])
def test_own_means_equal_the_loops(seen: bool, seed: int) -> None:
    rows = shifted(seed, n=20 if seen else 60)  # fewer than 50 rows are not dealt into folds
    order = np.argsort(rows.env, kind="stable")
    X, env, y = rows.X[order], rows.env[order], rows.y[order]
    phi = rows.f[order]
    standard = (phi - phi.mean()) / phi.std()
    offsets = np.searchsorted(env, ["u", "v", "w", "x"])
    fold = None if seen else folds_by_content(standard[:, None], offsets, FOLDS, tie=y).tolist()
    values = reference.own_means(phi.tolist(), y.tolist(), env.tolist(), fold)
    at_rows = density_ratio(X, env).at_rows.tolist()
    means = reference.transported_means(values, at_rows, env.tolist(), ["u", "v", "w"])
    found = dric(rows.f, rows.X, rows.env, baseline=rows.b, y=rows.y, terms="own_means")
    np.testing.assert_allclose(found.pairs, means, rtol=1e-6)
    on_x = dric(rows.f, rows.X, rows.env, baseline=rows.b, y=rows.y, terms="own_means", representation=rows.X)
    assert on_x.value == pytest.approx(1.0, rel=1e-9)  # φ(x) = x is the baseline
    assert found.denominator == pytest.approx(on_x.numerator, rel=1e-9)


def test_own_means_of_classes_are_probabilities_of_the_second(seed: int) -> None:
    rows = shifted(seed, n=300)
    label = np.where(rows.y > 0, "yes", "no")
    p = 1 / (1 + np.exp(-rows.f))
    found = dric(p, rows.X, rows.env, baseline=None, y=label, terms="own_means")
    for e, name in enumerate(found.labels):  # logistic regression has the right mean on the rows it was fitted on
        assert found.pairs[e, e] == pytest.approx(np.mean(label[rows.env == name] == "yes"), abs=0.02)
    three = np.digitize(rows.y, [-1.0, 1.0])
    several = np.column_stack([p / 2, p / 2, 1 - p])
    assert dric(several, rows.X, rows.env, baseline=None, y=three, terms="own_means").pairs.shape == (3, 3, 3)


def test_whole_weights_are_rows_of_own_means(seed: int) -> None:
    rows = shifted(seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(rows.y))
    again = np.repeat(np.arange(len(weight)), weight)
    one = dric(rows.f, rows.X, rows.env, baseline=None, y=rows.y, terms="own_means", weight=weight)
    repeated = (rows.f[again], rows.X[again], rows.env[again])
    other = dric(*repeated, baseline=None, y=rows.y[again], terms="own_means")
    np.testing.assert_allclose(one.pairs, other.pairs, rtol=1e-6)
    assert one.value == pytest.approx(other.value, rel=1e-5)


def test_draws_equal_heads_fitted_to_rows_written_out(seed: int) -> None:
    """With a ratio of 1 everywhere and fewer than 50 rows, so that heads see all rows of a draw."""
    rows = shifted(seed, n=15)
    order = np.argsort(rows.env, kind="stable")
    x, y, env = rows.X[order, 0], rows.y[order], rows.env[order]
    given: dict[str, Any] = {"y": y, "terms": "own_means", "ratio": lambda z: np.zeros((len(z), 3)), "n_boot": 19}
    found = with_resamples(x, x[:, None], env, baseline=None, **given)
    sampler = Sampler.of(GroupedRows(x[:, None], np.searchsorted(env, ["u", "v", "w", "x"])), None)
    for_bootstrap, _ = np.random.default_rng(0).spawn(1)[0].spawn(2)
    for draw in found.numerator_draws[:5]:
        again = np.repeat(np.arange(len(x)), sampler.bootstrap(for_bootstrap).astype(int))
        values = reference.own_means(x[again].tolist(), y[again].tolist(), env[again].tolist())
        means = reference.transported_means(values, np.zeros((len(x), 3)).tolist(), list(env[again]), ["u", "v", "w"])
        assert draw == pytest.approx(reference.total_gap(means), rel=1e-6)


def test_own_means_of_dealt_rows_do_not_differ(seed: int) -> None:
    rows = shifted(seed, n=150)
    found = with_resamples(rows.f, rows.X, rows.env, baseline=None, y=rows.y, terms="own_means", n_boot=19)
    assert found.pvalue == 1 / 20
    assert np.median(found.null_numerator) < 0.2 * found.numerator
    assert found.interval[0] < found.interval[1]


def test_losses_equal_the_loops(seed: int) -> None:
    rows = shifted(seed)
    given = (density_ratio(rows.X, rows.env).at_rows.tolist(), list(rows.env), ["u", "v", "w"])
    losses = [((values - rows.y) ** 2).tolist() for values in (rows.f, rows.b)]
    means = [reference.transported_means(values, *given) for values in losses]
    found = dric(rows.f, rows.X, rows.env, baseline=rows.b, y=rows.y, terms="losses")
    np.testing.assert_allclose(found.pairs, means[0], rtol=1e-10)
    assert found.value == pytest.approx(reference.total_gap(means[0]) / reference.total_gap(means[1]), rel=1e-10)
    assert found.spread == pytest.approx(reference.spread(*losses), rel=1e-10)
    assert any("The spread of the model's losses is" in note for note in found.notes)
    # appendix A.3: the ratio on the representation, for the model's losses
    Z = rows.X[:, :1]
    on_z = dric(rows.f, rows.X, rows.env, baseline=rows.b, y=rows.y, terms="losses", representation=Z)
    given = (density_ratio(Z, rows.env).at_rows.tolist(), list(rows.env), ["u", "v", "w"])
    np.testing.assert_allclose(on_z.pairs, reference.transported_means(losses[0], *given), rtol=1e-10)
    assert on_z.denominator == pytest.approx(found.denominator, rel=1e-12)


def test_losses_of_classes_are_log_losses(seed: int) -> None:
    rows = shifted(seed)
    yes = rows.y > 0
    p, b = (1 / (1 + np.exp(-values)) for values in (rows.f, rows.b))
    found = dric(p, rows.X, rows.env, baseline=b, y=np.where(yes, "yes", "no"), terms="losses")
    given = (density_ratio(rows.X, rows.env).at_rows.tolist(), list(rows.env), ["u", "v", "w"])
    by_hand = [-math.log(share if hit else 1 - share) for share, hit in zip(p, yes, strict=True)]
    np.testing.assert_allclose(found.pairs, reference.transported_means(by_hand, *given), rtol=1e-10)


# --- self-normalised --------------------------------------------------------------------------------------------------
def test_self_normalised_weights_do_not_mind_shifts(seed: int) -> None:
    rows = shifted(seed)
    given = (density_ratio(rows.X, rows.env).at_rows.tolist(), list(rows.env), ["u", "v", "w"])
    means = [reference.self_normalised_means(values.tolist(), *given) for values in (rows.f, rows.b)]
    found = dric(rows.f, rows.X, rows.env, baseline=rows.b, self_normalised=True)
    np.testing.assert_allclose(found.pairs, means[0], rtol=1e-10)
    assert found.value == pytest.approx(reference.total_gap(means[0]) / reference.total_gap(means[1]), rel=1e-10)
    assert found.self_normalised
    moved = dric(3 * rows.f + 2, rows.X, rows.env, baseline=rows.b, self_normalised=True)
    assert moved.value == pytest.approx(9 * found.value, rel=1e-10)
    assert moved.numerator == pytest.approx(9 * found.numerator, rel=1e-10)
    both = dric(3 * rows.f + 2, rows.X, rows.env, baseline=3 * rows.b + 2, self_normalised=True)
    assert both.value == pytest.approx(found.value, rel=1e-10)
    np.testing.assert_allclose(moved.sigma2, 9 * found.sigma2, rtol=1e-9)
    published = [dric(a * rows.f + c, rows.X, rows.env, baseline=a * rows.b + c).value for a, c in ((1, 0), (3, 2))]
    assert abs(published[1] / published[0] - 1) > 0.01  # a constant moves the published number
    scaled = dric(3 * rows.f, rows.X, rows.env, baseline=3 * rows.b).value
    assert scaled == pytest.approx(published[0], rel=1e-10)  # a factor does not: property 3


def test_self_normalised_is_plain_where_the_mean_of_the_ratio_is_one() -> None:
    """A ratio of counts: its mean over the rows of e' is 1 to the last digit."""
    rows = counted()
    f = np.sin(3.0 * rows.x) + 0.1 * rows.y
    given: dict[str, Any] = {"baseline": rows.y, "ratio": rows.ratio}
    plain, divided = (dric(f, rows.X, rows.env, self_normalised=choice, **given) for choice in (False, True))
    np.testing.assert_allclose(divided.pairs, plain.pairs, rtol=1e-12)
    assert divided.value == pytest.approx(plain.value, rel=1e-10)


def test_self_normalised_refits_are_self_normalised(seed: int) -> None:
    rows = shifted(seed)
    given: dict[str, Any] = {"self_normalised": True, "n_boot": 19}
    one = with_resamples(rows.f, rows.X, rows.env, baseline=rows.b, **given)
    moved = with_resamples(rows.f + 50.0, rows.X, rows.env, baseline=rows.b - 7.0, **given)
    np.testing.assert_allclose(moved.draws, one.draws, rtol=1e-6)
    np.testing.assert_allclose(moved.null, one.null, rtol=1e-6)
    assert moved.pvalue == one.pvalue


def test_ratios_that_vanish_leave_means_that_are_numbers() -> None:
    X, env = np.repeat([0.0, 1.0], 20)[:, None], np.repeat(["a", "b"], 20)
    f = np.arange(40.0)
    for far in (-900.0, -np.inf):

        def apart(rows: Any, far: float = far) -> Any:
            return np.where(rows > 0.5, [far, 0.0], [0.0, far])

        given: dict[str, Any] = {"baseline": f, "ratio": apart, "overlap": "ignored", "self_normalised": True}
        found = dric(f, X, env, **given)
        np.testing.assert_allclose(found.pairs, [[9.5, 29.5], [9.5, 29.5]])


# --- size and two classes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("factor", [0.5, -2.0])
def test_spread_is_beside_the_number_and_says_what_it_gives_alone(factor: float, seed: int) -> None:
    rows = shifted(seed)
    found = dric(factor * rows.b + 3.0, rows.X, rows.env, baseline=rows.b)
    assert found.spread == pytest.approx(abs(factor), rel=1e-12)
    matched = dric(found.spread * rows.b, rows.X, rows.env, baseline=rows.b)
    assert found.spread_alone == pytest.approx(matched.value, rel=1e-10)
    assert any(f"has a Q̂ of {factor**2:.3g}" in note or f"has a Q̂ of {factor**2:.2f}" in note for note in found.notes)
    assert "spread=" in repr(found)
    assert "spread_alone=" in repr(found)
    assert {"spread", "spread_alone"} <= set(found.to_dict())
    own = dric(rows.f, rows.X, rows.env, baseline=rows.b)
    assert own.spread == pytest.approx(reference.spread(rows.f.tolist(), rows.b.tolist()), rel=1e-12)
    flat = dric(rows.f, rows.X, rows.env, baseline=np.zeros(len(rows.f)))
    assert math.isnan(flat.spread)


def test_spread_of_classes_is_that_of_all_columns_and_counts_weights(seed: int) -> None:
    rows = shifted(seed)
    model, baseline = (np.column_stack([values, 2 * rows.f, rows.b**2]) for values in (rows.f, rows.b))
    found = dric(model, rows.X, rows.env, baseline=baseline)
    assert found.spread == pytest.approx(math.sqrt(model.var(axis=0).sum() / baseline.var(axis=0).sum()), rel=1e-12)
    weight = np.random.default_rng(seed).integers(1, 4, len(rows.f))
    again = np.repeat(np.arange(len(weight)), weight)
    weighted = dric(rows.f, rows.X, rows.env, baseline=rows.b, weight=weight)
    assert weighted.spread == pytest.approx(rows.f[again].std() / rows.b[again].std(), rel=1e-12)


def test_two_classes_are_the_second_however_they_are_written(seed: int) -> None:
    rows = shifted(seed)
    p, b = (1 / (1 + np.exp(-values)) for values in (rows.f, rows.b))
    one = dric(p, rows.X, rows.env, baseline=b)
    two, of_baseline = (np.column_stack([1 - values, values]) for values in (p, b))
    for model, baseline in ((two, of_baseline), (two, b), (p, of_baseline)):
        found = dric(model, rows.X, rows.env, baseline=baseline)
        assert (found.value, found.numerator, found.spread) == (one.value, one.numerator, one.spread)
        np.testing.assert_array_equal(found.pairs, one.pairs)


# --- refusals -------------------------------------------------------------------------------------------------------
def apart(seed: int, gap: float = 30.0) -> SimpleNamespace:
    rows = shifted(seed)
    rows.X[:, 0] += gap * np.searchsorted(["u", "v", "w"], rows.env)
    return rows


def test_where_no_pair_overlaps_there_is_no_number(seed: int) -> None:
    rows = apart(seed)
    found = with_resamples(rows.f, rows.X, rows.env, baseline=rows.b, n_boot=19)
    for number in (found.value, found.log10, found.pvalue, *found.interval, *found.numerator_interval):
        assert math.isnan(number)
    assert len(found.null) == len(found.draws) == len(found.null_numerator) == 0
    said = [note for note in found.notes if "overlap" in note]
    assert len(said) == 1
    assert "between any two of u, v and w" in said[0]
    assert 'iv.dric(overlap="ignored")' in said[0]
    published = with_resamples(rows.f, rows.X, rows.env, baseline=rows.b, n_boot=19, overlap="ignored")
    assert published.value == pytest.approx(found.numerator / found.denominator, rel=1e-12)
    assert math.isfinite(published.log10)
    assert len(published.draws) == 19


def test_a_pair_that_overlaps_keeps_the_published_sum(seed: int) -> None:
    rows = shifted(seed)
    rows.X[rows.env == "w", 0] += 30.0
    found = dric(rows.f, rows.X, rows.env, baseline=rows.b)
    assert found.overlap.pair_verdicts[0][1] != "none"
    assert found.value == dric(rows.f, rows.X, rows.env, baseline=rows.b, overlap="ignored").value
    assert any("Hardly any overlap of w" in note for note in found.notes)


def test_where_only_x_lies_apart_the_numerator_on_the_representation_stays(seed: int) -> None:
    rows = apart(seed)
    found = with_resamples(
        *(rows.f, rows.X, rows.env), baseline=rows.b, representation=rows.X[:, 1:], n_boot=19, seed=seed
    )
    assert math.isnan(found.value)
    assert math.isnan(found.interval[0])
    assert len(found.null) == 0
    assert 0 < found.pvalue <= 1
    assert found.numerator_interval[0] <= found.numerator_interval[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terms": "loss"}, 'terms "loss" is unknown: use "predictions", "own_means" or "losses"'),
        ({"terms": "losses"}, 'terms="losses" needs a target: pass y'),
        ({"terms": "own_means"}, 'terms="own_means" needs a target: pass y'),
        ({"overlap": "no"}, 'overlap "no" is unknown: use "needed" or "ignored"'),
        ({"self_normalised": "yes"}, "self_normalised is 'yes': give True or False"),
        ({"terms": "own_means", "y": "flat"}, "is constant in"),
        (
            {"terms": "own_means", "y": "few"},
            "a conditional mean of its own on 1 column asks for 10",
        ),
        ({"terms": "losses", "y": "few"}, "lie outside 0..1"),
    ],
)
def test_what_terms_cannot_be_is_said(change: dict[str, Any], message: str, seed: int) -> None:
    rows = shifted(seed)
    few = np.where(np.arange(len(rows.y)) % 9 == 0, "yes", "no")
    targets = {"flat": np.where(rows.env == "u", 1.0, rows.y), "few": few}
    change = {**change, **({"y": targets[change["y"]]} if "y" in change else {})}
    f = 1 / (1 + np.exp(-rows.f)) if change.get("terms") == "own_means" else rows.f
    with pytest.raises(InputError, match=message):
        dric(f, rows.X, rows.env, **{"baseline": rows.b, **change})
