"""Mistakes in the comparators."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="comparators_units_without_weights",
        file="criteria/comparators/samples.py",
        old="np.average(values**2, axis=0, weights=weight)",
        new="np.average(values**2, axis=0)",
        seen="weighted rows are compared in other units than repeated ones",
        tests=("criteria/comparators/test_samples.py",),
    ),
]

_CRAMER_WOLD = "criteria/comparators/test_cramer_wold.py"
_DOMAIN = "criteria/comparators/test_domain_classifier.py"
_INFORMATION = "criteria/comparators/test_conditional_mutual_information.py"
MUTANTS += [
    Mutant(
        name="projections_in_the_units_of_the_columns",
        file="criteria/comparators/projections.py",
        old="values = centred / spread if spread > 1e-9",
        new="values = centred / 1.0 if spread > 1e-9",
        seen="distances along a direction depend on how columns are correlated",
        tests=(f"{_CRAMER_WOLD}::test_four_rows_by_hand", f"{_CRAMER_WOLD}::test_equals_the_loops"),
    ),
    Mutant(
        name="last_environment_is_not_what_is_left",
        file="criteria/comparators/projections.py",
        old="each = np.concatenate([each, -each.sum(axis=1, keepdims=True)], axis=1) / shares",
        new="each = np.concatenate([each, each.sum(axis=1, keepdims=True)], axis=1) / shares",
        seen="the environment that sorts last is far from all others",
        tests=(f"{_CRAMER_WOLD}::test_equals_the_loops",),
    ),
    Mutant(
        name="largest_direction_is_the_mean",
        file="criteria/comparators/cramer_wold.py",
        old='add = np.maximum if over == "max" else np.add',
        new="add = np.add",
        seen="the largest direction grows with their number",
        tests=(f"{_CRAMER_WOLD}::test_equals_the_loops",),
    ),
    Mutant(
        name="cramer_wold_one_against_itself",
        file="criteria/comparators/cramer_wold.py",
        old="own / (1.0 - shares.T) ** 2",
        new="own / (1.0 - shares.T)",
        seen="an environment is nearer to all others than it is",
        tests=(f"{_CRAMER_WOLD}::test_equals_the_loops",),
    ),
    Mutant(
        name="folds_judged_by_those_who_saw_them",
        file="criteria/comparators/fold_scores.py",
        old="rows.take(~out)",
        new="rows.take(out | ~out)",
        seen="environments that are alike are told apart",
        tests=(f"{_DOMAIN}::test_nobody_judges_what_he_has_seen_and_ahead_is_ahead",),
    ),
    Mutant(
        name="ahead_is_not_ahead",
        file="criteria/comparators/fold_scores.py",
        old="rows.take(fold < k)",
        new="rows.take(fold != k)",
        seen="p-values of one law are below 5 % in 10 % of samples",
        tests=(f"{_DOMAIN}::test_nobody_judges_what_he_has_seen_and_ahead_is_ahead",),
    ),
    Mutant(
        name="areas_without_ties",
        file="criteria/comparators/rank_sums.py",
        old="return np.asarray((np.cumsum(counts) - counts / 2)[place])",
        new="return np.asarray(np.cumsum(counts)[place])",
        seen="areas above 1",
        tests=(f"{_DOMAIN}::test_accuracy_and_areas_equal_loops_over_pairs",),
    ),
    Mutant(
        name="ranks_vary_as_without_ties",
        file="criteria/comparators/rank_sums.py",
        old="pairs / 12 * (total + 1 - ties)",
        new="pairs / 12 * (total + 1)",
        seen="p-values of pairs are too large where scores repeat",
        tests=(f"{_DOMAIN}::test_areas_of_one_group_are_those_of_scikit_learn_and_scipy",),
    ),
    Mutant(
        name="reference_in_units_of_the_others",
        file="criteria/comparators/environment_classifier.py",
        old="return replace(rows, X=self.units_.apply(rows.X))",
        new="return replace(rows, X=rows.X - rows.X.mean(axis=0))",
        seen="a classifier trained on one model finds nothing in another that is shifted",
        tests=(f"{_DOMAIN}::test_a_reference_in_other_units_is_another_reference",),
    ),
    Mutant(
        name="seen_rows_have_a_pvalue",
        file="criteria/comparators/environment_classifier.py",
        old="seen = _same(self.seen_, _who_is_where(sample.data))",
        new="seen = False",
        seen="a classifier that knows its rows by heart is called significant",
        tests=(f"{_DOMAIN}::test_trained_on_a_reference_and_applied_to_others",),
    ),
    Mutant(
        name="strata_without_rows_count",
        file="criteria/comparators/counted_information.py",
        old="return np.asarray(counts[counts.any(axis=(1, 2))])",
        new="return np.asarray(counts)",
        seen="rows of weight 0 change the interval",
        tests=(f"{_INFORMATION}::test_weights_count_rows_and_the_order_of_rows_does_not_matter",),
    ),
    Mutant(
        name="information_not_given_the_prediction",
        file="criteria/comparators/counted_information.py",
        old="place = np.ravel_multi_index((strata, codes, classes), shape)",
        new="place = np.ravel_multi_index((0 * strata, codes, classes), shape)",
        seen="what the prediction explains is called information",
        tests=(f"{_INFORMATION}::test_counts_equal_loops_and_scikit_learn_stratum_by_stratum",),
    ),
    Mutant(
        name="bias_of_counting_with_the_wrong_sign",
        file="criteria/comparators/counted_information.py",
        old="return float(cells - rows - columns + np.count_nonzero",
        new="return -float(cells - rows - columns + np.count_nonzero",
        seen="the corrected value is further off than the value",
        tests=(f"{_INFORMATION}::test_two_by_two_by_two_by_hand",),
    ),
    Mutant(
        name="gains_not_cleared",
        file="criteria/comparators/judged_information.py",
        old="return np.asarray(gains - design @ theta.reshape(count, width).T)",
        new="return np.asarray(gains + 0 * design @ theta.reshape(count, width).T)",
        seen="p-values that are too large where the prediction gives environments away",
        tests=(f"{_INFORMATION}::test_gains_are_cleared_of_what_the_fit_explains",),
    ),
    Mutant(
        name="pairs_gain_what_all_gain",
        file="criteria/comparators/judged_information.py",
        old="return np.asarray(logs[:, a] - np.logaddexp(logs[:, a], logs[:, b]))",
        new="return np.asarray(logs[:, a])",
        seen="information of a pair that counts all environments",
        tests=(f"{_INFORMATION}::test_gains_are_means_of_logarithms",),
    ),
]
