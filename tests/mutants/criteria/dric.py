"""Mistakes in DRIC as published, its resamples and its bound."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="dric_gap_against_the_column",
        file="criteria/dric/resampling.py",
        old="return float(np.sum((means - own[:, None]) ** 2))",
        new="return float(np.sum((means - own[None, :]) ** 2))",
        seen="another number than the papers'",
        tests=("criteria/dric/test_dric.py::test_equals_the_loops_of_the_paper",),
    ),
    Mutant(
        name="dric_means_not_weighted_by_rows",
        file="criteria/dric/resampling.py",
        old="mean[:, b] = ratio.T @ values[part] / totals[b]  # eq. 6",
        new="mean[:, b] = ratio.T @ values[part] / ratio.sum(axis=0)[:, None]",
        seen="weights that are normalised, which eq. 6 has not",
        tests=("criteria/dric/test_dric.py::test_equals_the_loops_of_the_paper",),
    ),
    Mutant(
        name="dric_numerator_and_denominator_swapped",
        file="criteria/dric/dric.py",
        old="value = numerator / denominator if denominator > 0 else math.nan",
        new="value = denominator / numerator if denominator > 0 else math.nan",
        seen="shrunk predictions score high instead of low",
        tests=("criteria/dric/test_dric.py::test_shrunk_predictions_score_by_the_square_of_the_factor",),
    ),
    Mutant(
        name="dric_variance_divided_by_n",
        file="criteria/dric/resampling.py",
        old="max(weight.sum() - 1.0, 1.0)",
        new="max(weight.sum(), 1.0)",
        seen="sample sizes a little too small",
        tests=("criteria/dric/test_dric_options.py::test_variances_equal_loops_and_rows_needed_follow_by_hand",),
    ),
    Mutant(
        name="dric_interval_of_ninety_per_cent",
        file="criteria/dric/dric.py",
        old="np.quantile(draws, [0.025, 0.975])",
        new="np.quantile(draws, [0.05, 0.95])",
        seen="an interval called 95 % that is one of 90 %",
        tests=("criteria/dric/test_resampling.py::test_bootstrap_and_shuffles_equal_rows_written_out",),
    ),
    Mutant(
        name="dric_bound_with_variance_over_all_rows",
        file="criteria/dric/information_bound.py",
        old="covariance_squared = float(np.sum((share * environment @ y) ** 2))",
        new="covariance_squared = float(np.sum(share * environment @ y) ** 2)",
        seen="another bound for classes",
        tests=("criteria/dric/test_dric_options.py::test_classes_count_as_columns_of_zeros_and_ones",),
    ),
    Mutant(
        name="dric_environments_not_centred_in_the_bound",
        file="criteria/dric/information_bound.py",
        old="environment = environment - share @ environment",
        new="environment = environment - 0.0",
        seen="a bound that depends on which number the first environment has",
        tests=("criteria/dric/test_dric_options.py::test_the_bound_equals_loops_for_numbered_environments",),
    ),
    Mutant(
        name="dric_dealt_rows_keep_their_environment",
        file="criteria/dric/resampling.py",
        old="placed = rng.permutation(len(self.order))",
        new="placed = np.arange(len(self.order))",
        seen="shuffles that shuffle nothing: no p-value is ever small",
        tests=("criteria/dric/test_resampling.py::test_every_row_is_dealt_everywhere",),
    ),
    Mutant(
        name="dric_mean_of_ratio_reported_the_wrong_way",
        file="criteria/dric/dric.py",
        old='f"Rows of {data.labels[b]} cannot stand in for those of {data.labels[a]}',
        new='f"Rows of {data.labels[a]} cannot stand in for those of {data.labels[b]}',
        seen="the note names the two environments the wrong way round",
        tests=("criteria/dric/test_dric_options.py::test_a_ratio_whose_mean_is_not_one_is_named",),
    ),
    Mutant(
        name="dric_draws_although_none_are_wanted",
        file="criteria/dric/dric.py",
        old='draws: int | str = "auto" if options.n_boot else 0',
        new='draws: int | str = "auto"',
        seen="n_boot=0 waits for hundreds of refits",
        tests=("auditing/test_audit.py::test_all_criteria_do_without_draws",),
    ),
    Mutant(
        name="value_outside_its_interval_not_told",
        file="criteria/dric/dric.py",
        old="if value < interval[0] or value > interval[1]:",
        new="if value > interval[1]:",
        seen="a number beside an interval that does not hold it, without a word",
        tests=("criteria/dric/test_resampling.py::test_a_value_outside_the_middle_of_its_refits_is_said_to_be",),
    ),
]
