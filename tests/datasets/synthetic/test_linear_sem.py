"""Linear structural equations: covariances source by source, paper sizes, streams, and what is refused."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from invariscope.datasets.entry import facts
from invariscope.datasets.synthetic.linear_sem import ENTRIES, LAWS, SETTINGS, linear_sem, linear_sem_b6
from invariscope.errors import InputError
from tests.reference import structural


def noise_of(setting: str, e: float) -> tuple[float, float]:
    return (e, 1.0) if setting[1] == "O" else (1.0, e)


def weights_of(data):
    names = ("hidden_to_causes", "hidden_to_target", "hidden_to_effects", "target_to_effects")
    return [data.truth[name] for name in names]


EVERY = [*((setting, law) for law in LAWS for setting in SETTINGS), ("B.6", "effects")]


def of_law(setting, law, **options):
    return linear_sem_b6(**options) if setting == "B.6" else linear_sem(setting, law=law, **options)


@pytest.mark.parametrize(("setting", "law"), EVERY)
@pytest.mark.parametrize(("dim", "hidden_scale"), [(5, None), (3, 1.0)])
def test_covariances_are_those_of_the_equations(setting, law, dim, hidden_scale, seed):
    data = of_law(setting, law, n=10, dim=dim, hidden_scale=hidden_scale, seed=seed)
    for e, covariance in data.truth["covariance"].items():
        noise = noise_of("PEU" if setting == "B.6" else setting, e)
        expected = structural.linear_covariance(e, *noise, *weights_of(data))
        scale = np.abs(expected).max()  # where weights of N(0, 1) cancel, what is left is small beside what went in
        np.testing.assert_allclose(covariance, expected, rtol=1e-12, atol=1e-13 * max(scale, e**2))


@pytest.mark.parametrize(("setting", "law"), EVERY)
def test_truths_follow_from_the_covariances(setting, law, seed):
    rows = (10, 30, 20)
    data = of_law(setting, law, n=rows, seed=seed)
    covariances = list(data.truth["covariance"].values())
    for covariance, risk in zip(covariances, data.truth["invariant_risk"].values(), strict=True):
        head = np.linalg.solve(covariance[:5, :5], covariance[:5, -1])
        np.testing.assert_allclose(head, data.truth["head"], rtol=1e-9)  # the same in every environment
        assert risk == pytest.approx(covariance[-1, -1] - head @ covariance[:5, -1], rel=1e-9)
    pooled = sum(n / 60 * c for n, c in zip(rows, covariances, strict=True))
    np.testing.assert_allclose(pooled[:-1, :-1] @ data.truth["erm"], pooled[:-1, -1], rtol=1e-9)
    signed = np.array([*-data.truth["erm"], 1.0])
    np.testing.assert_allclose(list(data.truth["erm_risk"].values()), [signed @ c @ signed for c in covariances])
    expected = structural.regret_of_prediction(data.truth["erm"], covariances, [np.zeros(11)] * 3)
    np.testing.assert_allclose(list(data.truth["erm_regret"].values()), expected, rtol=1e-7, atol=1e-10)
    if law == "printed" and setting[0] == "F":
        assert data.truth["V"] == -np.inf  # no environment pulls at ERM
    else:
        assert data.truth["V"] == pytest.approx(structural.influence_index(covariances, list(rows)), abs=1e-8)
    assert data.truth["erm_intercept"] == 0


@pytest.mark.parametrize("setting", ["FOU", "FEU"])
def test_with_all_causes_observed_the_truth_can_be_worked_out_by_hand(setting):
    """Given X1, Y has noise σ_y² and dim measurements of it with noise σ_2²: effects get c/dim, causes 1 − c."""
    data = linear_sem(setting, n=10)
    noise = np.array([noise_of(setting, e) for e in (0.2, 2.0, 5.0)]) ** 2
    target, effect = noise.mean(axis=0)
    share = target / (target + effect / 5)
    np.testing.assert_allclose(data.truth["erm"], [1 - share] * 5 + [share / 5] * 5, rtol=1e-9)
    np.testing.assert_allclose(list(data.truth["invariant_risk"].values()), noise[:, 0], rtol=1e-9)
    risks = (1 - share) ** 2 * noise[:, 0] + share**2 * noise[:, 1] / 5
    np.testing.assert_allclose(list(data.truth["erm_risk"].values()), risks, rtol=1e-9)


@pytest.mark.parametrize("setting", ["FOU", "FEU"])
def test_as_printed_the_effects_are_noise_and_least_squares_is_invariant(setting):
    """W_{Y→2} = 0: Var(X2) = σ_2² and nothing else, so the best head is 1 on the causes and 0 on the rest."""
    data = linear_sem(setting, n=(10, 30, 20), law="printed")
    for e, covariance in data.truth["covariance"].items():
        target, effect = noise_of(setting, e)
        expected = np.zeros((11, 11))
        expected[:5, :5], expected[5:10, 5:10] = e**2 * np.eye(5), effect**2 * np.eye(5)
        expected[:5, 10] = expected[10, :5] = e**2
        expected[10, 10] = 5 * e**2 + target**2
        np.testing.assert_allclose(covariance, expected, rtol=1e-12)
        assert data.truth["erm_risk"][e] == pytest.approx(target**2, rel=1e-9)
    np.testing.assert_allclose(data.truth["erm"], [1.0] * 5 + [0.0] * 5, atol=1e-12)
    np.testing.assert_allclose(list(data.truth["erm_regret"].values()), 0.0, atol=1e-9)


def test_printed_weights_are_standard_normal_and_the_same_draws(seed):
    drawn = [linear_sem("POU", n=2, law="printed", seed=seed + k) for k in range(60)]
    for name in ("hidden_to_causes", "hidden_to_target", "target_to_effects"):
        values = np.concatenate([data.truth[name].ravel() for data in drawn])
        # 4.5 standard errors of a mean and of a variance
        assert abs(values.mean()) < 4.5 / np.sqrt(len(values))
        assert abs(values.var() - 1.0) < 4.5 * np.sqrt(2.0 / len(values))
    printed, effects = drawn[0], linear_sem("POU", n=2, hidden_scale=1.0, seed=seed)
    np.testing.assert_array_equal(printed.X[:, :5], effects.X[:, :5])
    np.testing.assert_array_equal(printed.y, effects.y)
    np.testing.assert_array_equal(effects.truth["target_to_effects"], 1.0)
    assert not np.any(printed.truth["hidden_to_effects"])


def test_which_law_was_drawn_is_told():
    assert linear_sem(n=5).choices[2].startswith("The paper prints W_{Y→2} = 0 in the F settings")
    assert "those the paper prints" in linear_sem("POU", n=5, law="printed").choices[2]
    assert not any("hidden weights of N" in choice for choice in linear_sem("POU", n=5, law="printed").choices)


def test_the_law_with_effects_has_the_rows_it_always_had():
    """Integers of the rows: rounding of a product may differ between machines, these digits do not."""
    digest = hashlib.sha256()
    for setting in SETTINGS:
        data = linear_sem(setting, n=50, seed=3)
        digest.update(np.round(1e6 * np.column_stack([data.X, data.y])).astype(np.int64).tobytes())
    assert digest.hexdigest()[:16] == "030c9dd91858dd91"


def test_hidden_paths_only_in_the_partially_observed_settings(seed):
    for setting in SETTINGS:
        moved = np.abs(linear_sem(setting, n=10, seed=seed).truth["head"] - 1).max()
        assert (moved > 1e-4) if setting[0] == "P" else (moved == 0)
    wide, narrow = (linear_sem("POU", n=10, seed=seed, hidden_scale=s).truth["covariance"][5.0] for s in (1.0, 0.1))
    assert np.trace(wide[:5, :5]) > np.trace(narrow[:5, :5])


def test_b6_is_peu_with_one_more_path(seed):
    plain, more = linear_sem("PEU", n=20, seed=seed), linear_sem_b6(n=20, seed=seed)
    np.testing.assert_allclose(plain.X[:, :5], more.X[:, :5], rtol=1e-12)
    np.testing.assert_allclose(plain.y, more.y, rtol=1e-12)
    assert not np.any(plain.truth["hidden_to_effects"])
    assert np.abs(more.X[:, 5:] - plain.X[:, 5:]).min() > 0
    assert any("appendix b.6 gives neither" in choice.lower() for choice in more.choices)


def test_shapes_labels_and_imbalance(seed):
    data = linear_sem("POU", n=(5, 20, 10), environments=(3.0, 1.0, 2.0), dim=4, seed=seed)
    assert data.X.shape == (35, 8)
    assert len(data.columns) == 8
    assert data.y.shape == data.env.shape == (35,)
    assert data.env.tolist() == [3.0] * 5 + [1.0] * 20 + [2.0] * 10
    assert data.invariant == (0, 1, 2, 3)
    assert data.X.flags.c_contiguous
    assert data.part is None


@pytest.mark.parametrize(
    ("total", "train", "test"),
    [(1300, [267, 267, 266], [167, 167, 166]), (1800, [400, 400, 400], [200, 200, 200])],
)
def test_sizes_of_the_paper(total, train, test, seed):
    data = linear_sem("FOU", total=total, seed=seed)
    for part, counts in ((data.train, train), (data.test, test)):
        assert [int(np.sum(part.env == e)) for e in (0.2, 2.0, 5.0)] == counts
    assert any("as evenly as possible" in choice for choice in data.choices)
    np.testing.assert_array_equal(data.train.X, linear_sem("FOU", n=train, seed=seed).X)
    pooled = linear_sem("FOU", n=train, seed=seed).truth["erm"]
    np.testing.assert_array_equal(data.truth["erm"], pooled)  # test rows have no part in what is pooled
    assert len(linear_sem("FOU", total=1300, environments=(1.0, 2.0), seed=seed).train) == 800


def test_the_choice_about_hidden_weights_is_told_where_it_matters():
    assert any("N(0, 0.1²)" in choice for choice in linear_sem("POU", n=5).choices)
    assert not any("hidden weights" in choice for choice in linear_sem("FOU", n=5).choices)


def test_entries_agree_with_what_is_published():
    assert [entry.name for entry in ENTRIES] == ["linear_sem", "linear_sem_b6"]
    for entry in ENTRIES:
        assert entry.kind == "synthetic"
        for number in entry.published:
            assert facts(entry.load(**number.options))[number.what] == number.value


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"law": "code"}, '"effects" or "printed"'),
        ({"setting": "XYZ"}, '"POU", "PEU", "FOU" or "FEU"'),
        ({"environments": (1.0, 1.0)}, "different positive"),
        ({"environments": (0.0, 1.0)}, "different positive"),
        ({"environments": (np.nan, 1.0)}, "different positive"),
        ({"dim": 0}, "give a whole number from 1"),
        ({"n": (10, 10)}, "each of 3 environments"),
        ({"n": 0}, "positive number of rows"),
        ({"n_test": -1}, "n_test must be a positive number"),
        ({"n_test": (5, 5)}, "n_test .* each of 3 environments"),
        ({"setting": "POU", "hidden_scale": -1.0}, "hidden_scale is -1.0"),
        ({"total": 1500}, "1300 and 1800"),
        ({"total": 1300, "n_test": 5}, "leave n_test out"),
    ],
)
def test_impossible_requests_are_refused_in_words(options, words):
    with pytest.raises(InputError, match=words):
        linear_sem(**options)
