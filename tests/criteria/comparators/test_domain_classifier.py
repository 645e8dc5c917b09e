"""Domain classifier: areas against loops and peers, who has seen which rows, and classifiers trained elsewhere."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import invariscope as iv
from invariscope.criteria.comparators.fold_scores import FOLDS, Judged, judged, rows_to_judge
from invariscope.criteria.comparators.kernel_test import holm
from invariscope.criteria.comparators.rank_sums import Gains, accuracy_and_areas, dealt, pair_areas, pair_pvalues
from invariscope.criteria.comparators.samples import sample_of
from invariscope.criteria.comparators.told_apart import told_apart
from tests.reference import projections_and_information as loops

ENV = np.repeat(["a", "b", "c"], [40, 30, 20])


def rows(seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(90, 2)) + shift * (ENV == "c")[:, None], rng.normal(size=90)


def some_scores(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log probabilities with ties, codes, groups and weights."""
    rng = np.random.default_rng(seed)
    logs = np.log(np.round(rng.dirichlet([2.0, 2.0, 2.0], 30), 1) + 0.1)
    return logs, rng.integers(0, 3, 30), rng.integers(0, 2, 30), rng.uniform(0.5, 2.0, 30)


@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_and_areas_equal_loops_over_pairs(weighted: bool, seed: int) -> None:
    logs, codes, group, weight = some_scores(seed)
    weight = weight if weighted else np.ones(30)
    parts = [Gains.of(logs[group == k], codes[group == k], weight[group == k]) for k in (0, 1)]
    accuracy, areas = accuracy_and_areas(parts, [part.codes[None] for part in parts])
    right = [weight[i] for i in range(30) if np.argmax(logs[i]) == codes[i]]
    assert accuracy[0] == pytest.approx(sum(right) / weight.sum())
    for e in range(3):
        assert areas[0, e] == pytest.approx(loops.area(logs[:, e], codes == e, group, weight))
    pairs, _ = pair_areas(logs, codes, group, weight)
    there = codes != 2
    expected = loops.area((logs[:, 0] - logs[:, 1])[there], codes[there] == 0, group[there], weight[there])
    assert pairs[0, 1] == pairs[1, 0] == pytest.approx(expected)
    assert np.diag(pairs).tolist() == [0.5] * 3


def test_areas_of_one_group_are_those_of_scikit_learn(seed: int) -> None:
    logs, codes, _, _ = some_scores(seed)
    one = Gains.of(logs, codes, np.ones(30))
    areas = accuracy_and_areas([one], [codes[None]])[1][0]
    assert areas == pytest.approx([roc_auc_score(codes == e, logs[:, e]) for e in range(3)])


def test_pairs_are_the_test_of_mann_and_whitney_with_ties_and_by_holm(seed: int) -> None:
    """Scores of three values: most of them are tied."""
    rng = np.random.default_rng(seed)
    logs, codes = rng.integers(0, 2, (60, 3)).astype(float), rng.permutation(np.repeat([0, 1, 2], 20))
    logs[np.arange(60), codes] += rng.integers(0, 2, 60)
    areas, deviations = pair_areas(logs, codes, np.zeros(60, dtype=int), np.ones(60))
    peers = np.zeros(3)
    for k, (a, b) in enumerate([(0, 1), (0, 2), (1, 2)]):
        score = logs[:, a] - logs[:, b]
        peer = mannwhitneyu(
            *(score[codes == e] for e in (a, b)), alternative="greater", method="asymptotic", use_continuity=False
        )
        peers[k] = peer.pvalue
        assert areas[a, b] == areas[b, a] == pytest.approx(peer.statistic / 400)
        assert norm.sf(deviations[a, b]) == pytest.approx(peer.pvalue, rel=1e-9)
    found = pair_pvalues(deviations)
    assert found[[0, 0, 1], [1, 2, 2]] == pytest.approx(holm(peers))
    np.testing.assert_array_equal(found, found.T)


def test_deals_within_groups_are_all_deals(seed: int) -> None:
    logs = some_scores(seed)[0]
    groups = [Gains.of(logs[part], np.array([0, 1, 1, 2]), np.ones(4)) for part in (slice(0, 4), slice(4, 8))]
    accuracy, areas = dealt(groups, 6000, np.random.default_rng(seed))
    every = sorted(set(itertools.permutations([0, 1, 1, 2])))
    expected = [accuracy_and_areas(groups, [np.array([one]), np.array([other])]) for one in every for other in every]
    mean = np.mean([each[1][0].mean() for each in expected])
    spread = np.std([each[1][0].mean() for each in expected])
    assert abs(areas.mean() - mean) < 5 * spread / np.sqrt(6000)
    assert np.std(areas.mean(axis=1)) == pytest.approx(spread, rel=0.05)
    assert set(np.round(accuracy, 9)) == {round(float(each[0][0]), 9) for each in expected}


class Recorder(ClassifierMixin, BaseEstimator):
    """Knows nothing, and says which rows it has seen: the second column is the number of a row."""

    seen: ClassVar[list[Any]] = []

    def fit(self, X: Any, y: Any) -> Recorder:
        self.classes_, self.rows_ = np.unique(y), frozenset(np.round(X[:, 1], 6).tolist())
        return self

    def predict_proba(self, X: Any) -> Any:
        Recorder.seen.append((self.rows_, frozenset(np.round(X[:, 1], 6).tolist())))
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_nobody_judges_what_he_has_seen_and_ahead_is_ahead() -> None:
    sample = sample_of(np.column_stack([np.ones(90), np.arange(90.0)]), None, ENV)
    Recorder.seen.clear()
    said = judged(Recorder(), rows_to_judge(sample), np.random.default_rng(0))
    number = np.round(said.rows.X[:, 1], 6)
    folds = [frozenset(number[said.fold == k].tolist()) for k in range(FOLDS)]
    assert len(frozenset.union(*folds)) == 90
    assert all(np.bincount(said.rows.codes[said.fold == k], minlength=3).tolist() == [8, 6, 4] for k in range(FOLDS))
    crossed = {folds[k]: frozenset.union(*(folds[j] for j in range(FOLDS) if j != k)) for k in range(FOLDS)}
    ahead = {folds[k]: frozenset.union(*folds[:k]) for k in range(1, FOLDS)}
    asked = [(judged_rows, seen) for seen, judged_rows in Recorder.seen]
    assert set(asked) == {*crossed.items(), *ahead.items()}
    assert np.isnan(said.ahead[said.fold == 0]).all()
    assert said.later.tolist() == (said.fold > 0).tolist()


def test_environments_far_apart_are_told_apart_without_error(seed: int) -> None:
    z, y = rows(seed)
    found = iv.domain_classifier(z + 20.0 * np.array([ord(label) for label in ENV])[:, None], y, ENV, n_boot=199)
    assert (found.value, found.auc, found.accuracy_ahead, found.statistic) == (1.0, 1.0, 1.0, 1.0)
    assert (found.pvalue, found.accuracy_pvalue) == (1 / 200, 1 / 200)
    assert found.chance == pytest.approx(40 / 90)
    assert found.pairs.tolist() == [[0.5, 1, 1], [1, 0.5, 1], [1, 1, 0.5]]
    assert (found.pair_pvalues[np.triu_indices(3, 1)] < 1e-6).all()
    assert found.estimator == "logistic regression, 5 folds"


def test_no_pvalue_is_0_however_many_rows_say_so() -> None:
    """100 standard errors are beyond what a double holds of a normal law's tail."""
    found = pair_pvalues(np.array([[0.0, 100.0], [100.0, 0.0]]))
    assert 0 < found[0, 1] == found[1, 0] < 1e-300


@pytest.mark.parametrize("count", [0.5, 1e9])
def test_pvalues_of_pairs_are_of_rows_where_weights_are_no_counts(count: float, seed: int) -> None:
    """As those of all environments are: the same weight for every row says nothing."""
    z, y = rows(seed)
    trained = iv.EnvironmentClassifier().fit(*rows(seed + 1, shift=1.0), ENV)
    plain = trained.apply(z, y, ENV, n_boot=99)
    weighted = trained.apply(z, y, ENV, n_boot=99, weight=np.full(90, count))
    assert weighted.pair_pvalues == pytest.approx(plain.pair_pvalues, rel=1e-6)


def test_the_target_gives_environments_away_where_it_is_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    env = np.repeat(["a", "b"], 100)
    z = rng.normal(size=200)
    y = np.where(env == "a", z, -z) + 0.3 * rng.normal(size=200)
    assert iv.domain_classifier(z, y, env, n_boot=99).auc > 0.8  # by the product of z and y
    assert iv.domain_classifier(z, y, env, on="z", n_boot=99).auc < 0.65


@pytest.mark.parametrize("classifier", ["forest", "boosting", KNeighborsClassifier(5)], ids=str)
def test_other_classifiers_do_it_as_well(classifier: Any, seed: int) -> None:
    rng, env = np.random.default_rng(seed), np.repeat(["a", "b", "c"], 100)
    z = rng.normal(size=(300, 2)) + 2.0 * (env == "c")[:, None]
    found = iv.domain_classifier(z, rng.normal(size=300), env, classifier=classifier, n_boot=99)
    assert found.value > 0.45
    assert found.per_environment["c"].value > 0.75
    assert found.pvalue == 0.01


@pytest.mark.parametrize("what", ["some", "turned", "without y", "another model's, turned", "another model's, classes"])
def test_rows_it_has_seen_get_no_pvalue(what: str, seed: int) -> None:
    """In-sample accuracy is far above chance whatever the rows: a p-value would say that laws differ."""
    z, y = rows(seed)
    some, new = np.arange(0, len(ENV), 2), rows(seed + 1)
    target = (y > 0).astype(int) if what == "another model's, classes" else None if what == "without y" else y
    trained = iv.EnvironmentClassifier(DecisionTreeClassifier(random_state=0)).fit(z, target, ENV)
    given = {
        "some": (z[some], y[some], ENV[some]),
        "turned": (z[::-1], y[::-1], ENV[::-1]),
        "without y": (z[::-1], None, ENV[::-1]),
        "another model's, turned": (new[0][::-1], y[::-1], ENV[::-1]),
        "another model's, classes": (new[0], target, ENV),
    }[what]
    found = trained.apply(*given, n_boot=99)
    assert np.isnan(found.pvalue)
    assert found.estimator.endswith("in-sample")
    assert any("no p-value is given" in note for note in found.notes)
    targets = {"without y": None, "another model's, classes": (new[1] > 0).astype(int)}
    other = trained.apply(new[0], targets.get(what, new[1]), ENV, n_boot=99)
    assert other.estimator.endswith("trained on other rows")
    assert np.isfinite(other.pvalue)


def test_new_rows_of_values_that_repeat_are_new(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, len(ENV), size=(len(ENV), 1)).astype(float)  # each is held by one row on average
    trained = iv.EnvironmentClassifier().fit(z, None, ENV)
    new = trained.apply(rng.integers(0, len(ENV), size=(len(ENV), 1)).astype(float), None, ENV, n_boot=99)
    assert new.estimator.endswith("trained on other rows")
    binary = rng.integers(0, 2, size=(len(ENV), 3)).astype(float)
    few = iv.EnvironmentClassifier().fit(binary, None, ENV)
    assert few.apply(binary[::-1], None, ENV, n_boot=99).estimator.endswith("trained on other rows")


def test_a_trained_classifier_says_what_it_is(seed: int) -> None:
    z, y = rows(seed)
    assert repr(iv.EnvironmentClassifier("forest")) == "<EnvironmentClassifier (forest), not trained>"
    trained = iv.EnvironmentClassifier("mlp").fit(z, y, ENV)
    assert repr(trained) == f"<EnvironmentClassifier (mlp), trained to name {', '.join(sorted(set(ENV)))}>"
    assert trained.apply(z, y, ENV, n_boot=0).estimator.split(",")[0] in ("network of Table 8", "MLPClassifier")


def test_trained_on_a_reference_and_applied_to_others(seed: int) -> None:
    """The DRIC paper's protocol: right on every row it was trained on, at chance where environments look alike."""
    z, y = rows(seed, shift=1.0)
    tree = DecisionTreeClassifier(random_state=0)
    itself = iv.domain_classifier(z, y, ENV, classifier=tree, trained_on=(z, y, ENV))
    assert itself.value == 1.0
    assert np.isnan(itself.pvalue)
    assert "in-sample" in itself.estimator
    assert any("in-sample, and no p-value is given" in note for note in itself.notes)
    alike = rows(seed + 1)
    other = iv.domain_classifier(*alike, ENV, classifier=tree, trained_on=(z, y, ENV), n_boot=199)
    assert other.value < 0.6
    assert other.pvalue > 0.005
    trained = iv.EnvironmentClassifier(tree).fit(z, y, ENV)
    assert iv.domain_classifier(*alike, ENV, trained_on=trained, n_boot=199).value == other.value
    assert trained.apply(*alike, ENV, n_boot=199).null.tolist() == other.null.tolist()
    predicted = tree.fit(np.column_stack([z, y]), ENV).predict(np.column_stack(alike))
    assert other.value == pytest.approx(np.mean(predicted == ENV))
    assert other.accuracy_ahead == other.value


def test_a_reference_in_other_units_is_another_reference(seed: int) -> None:
    """The rows are put in the reference's units, not in their own."""
    z, y = rows(seed, shift=3.0)
    trained = iv.EnvironmentClassifier().fit(z, y, ENV)
    moved = trained.apply(z + 100.0, y[::-1], ENV, n_boot=0)
    assert moved.value < trained.apply(z, y[::-1], ENV, n_boot=0).value


def test_whole_weights_are_repeated_rows_for_a_reference_as_well(seed: int) -> None:
    z, y = rows(seed, shift=1.0)
    other, weight = rows(seed + 1), np.random.default_rng(seed).integers(1, 4, 90)
    again = np.repeat(np.arange(90), weight)
    one = iv.EnvironmentClassifier().fit(z, y, ENV, weight=weight).apply(*other, ENV, weight=weight)
    two = iv.EnvironmentClassifier().fit(z[again], y[again], ENV[again])
    two = two.apply(other[0][again], other[1][again], ENV[again])
    assert (one.value, one.auc, one.pvalue) == pytest.approx((two.value, two.auc, two.pvalue))


def test_broken_weights_count(seed: int) -> None:
    z, y = rows(seed, shift=1.0)
    found = iv.domain_classifier(z, y, ENV, weight=np.where(ENV == "c", 2.5, 0.5), n_boot=99)
    assert found.chance == pytest.approx(50 / 85)
    assert 0 < found.pvalue <= 1


def test_what_cannot_be_done_is_told(seed: int) -> None:
    z, y = rows(seed)
    for call, message in (
        (lambda: iv.domain_classifier(z, y, ENV, classifier="svm"), 'classifier "svm" is unknown: there are logistic'),
        (lambda: iv.domain_classifier(z, y, ENV, classifier=LinearSVC()), "LinearSVC is no classifier with prob"),
        (lambda: iv.domain_classifier(z, y, ENV, classifier=LinearSVC), "LinearSVC is a class, not a classifier"),
        (lambda: iv.domain_classifier(z[:75], y[:75], ENV[:75]), 'environment "c" has 5 rows, and classifiers'),
        (lambda: iv.domain_classifier(z, y, ENV, trained_on=z), "trained_on is array"),
        (lambda: iv.EnvironmentClassifier().apply(z, y, ENV), "not trained: call fit first"),
        (lambda: iv.EnvironmentClassifier().fit(z, y, ENV).apply(z[:, :1], y, ENV), "trained on 3 columns .* have 2"),
        (lambda: iv.EnvironmentClassifier().fit(z, y, ENV).apply(z[:70], y[:70], ENV[:70]), "trained on a, b, c, but"),
        (
            lambda: iv.domain_classifier(z, y, ENV, classifier=KNeighborsClassifier(), weight=np.arange(1, 91) / 2),
            "KNeighborsClassifier cannot be fitted with weights",
        ),
    ):
        with pytest.raises(iv.InputError, match=message):
            call()


def test_pairs_are_tested_by_what_is_said_ahead(seed: int) -> None:
    """Crosswise everything is known and ahead nothing: areas are 1, no pair is significant; and the other way round."""
    sample = sample_of(rows(seed)[0], None, ENV)
    there = rows_to_judge(sample)
    fold = np.arange(90) % FOLDS
    known, nothing = np.log(np.eye(3)[there.codes] * 0.97 + 0.01), np.full((90, 3), np.log(1 / 3))
    for crossed, ahead, area, significant in ((known, nothing, 1.0, False), (nothing, known, 0.5, True)):
        before = np.where((fold == 0)[:, None], np.nan, ahead)
        found = told_apart(sample, Judged(there, fold, crossed, before, ""), 99, np.random.default_rng(seed), "")
        upper = np.triu_indices(3, 1)
        assert found.pairs[upper] == pytest.approx(area)
        assert bool((found.pair_pvalues[upper] < 1e-4).all()) is significant
        assert (found.pvalue, significant) in ((1.0, False), (0.01, True))
