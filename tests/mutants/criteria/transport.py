"""Mistakes in the transport gap, its standard errors and its outcome models."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="transport_gap_turned_round",
        file="criteria/transport/estimates.py",
        old="gap = np.swapaxes(mean[:, 0], 0, 1) - mean[:, 1]",
        new="gap = mean[:, 1] - np.swapaxes(mean[:, 0], 0, 1)",
        seen="gaps of the wrong sign",
        tests=("criteria/transport/test_transport_gap.py::test_by_exact_arithmetic",),
    ),
    Mutant(
        name="transport_gap_transposed",
        file="criteria/transport/estimates.py",
        old="gap = np.swapaxes(mean[:, 0], 0, 1) - mean[:, 1]",
        new="gap = mean[:, 0] - np.swapaxes(mean[:, 1], 0, 1)",
        seen="the gap of a under b's relation is shown as that of b under a's",
        tests=("criteria/transport/test_transport_gap.py::test_equals_the_loops_for_given_predictions",),
    ),
    Mutant(
        name="welch_without_its_minus_one",
        file="criteria/transport/estimates.py",
        old="np.maximum(1.0 / squares - 1.0, 1.0)",
        new="np.maximum(1.0 / squares, 1.0)",
        seen="pair intervals a little too narrow with few rows",
        tests=("criteria/transport/test_transport_gap.py::test_pair_intervals_are_welchs_where_all_ratios_are_one",),
    ),
    Mutant(
        name="welch_shares_swapped",
        file="criteria/transport/estimates.py",
        old="welch = 1.0 / (part**2 / freedom[:, 0].T[:, :, None] + (1.0 - part) ** 2 / freedom[:, 1][:, :, None])",
        new="welch = 1.0 / ((1.0 - part) ** 2 / freedom[:, 0].T[:, :, None] + part**2 / freedom[:, 1][:, :, None])",
        seen="pair intervals too narrow where the small environment has the noise",
        tests=("criteria/transport/test_transport_gap.py::test_pair_intervals_are_welchs_where_all_ratios_are_one",),
    ),
    Mutant(
        name="transport_pair_intervals_one_sided",
        file="criteria/transport/transport_gap.py",
        old="stdtrit(of_moving(freedom), 1.0 - MISSED / 2) * se",
        new="stdtrit(of_moving(freedom), 1.0 - MISSED) * se",
        seen="pair intervals of 90 % called 95 %",
        tests=("criteria/transport/test_transport_gap.py::test_pair_intervals_are_welchs_where_all_ratios_are_one",),
    ),
    Mutant(
        name="transport_value_keeps_noise",
        file="criteria/transport/transport_gap.py",
        old="value = (squares - bias) / variance",
        new="value = squares / variance",
        seen="a positive gap under invariance",
        tests=("criteria/transport/test_transport_gap.py::test_by_exact_arithmetic",),
    ),
    Mutant(
        name="transport_pvalues_not_adjusted",
        file="criteria/transport/transport_gap.py",
        old="largest[rows] = np.abs(drawn / noise[compared]).max(axis=(1, 2))",
        new="largest[rows] = np.abs(drawn / noise[compared]).mean(axis=(1, 2))",
        seen="pairs called different by chance",
        tests=(
            "criteria/transport/test_estimates.py::test_the_null_is_that_of_the_largest_gap_of_all_pairs_and_classes",
        ),
    ),
    Mutant(
        name="transport_noise_of_a_pair_from_the_wrong_rows",
        file="criteria/transport/estimates.py",
        old="out[:, k] += means[:, 1]",
        new="out[:, :, k] += means[:, 1]",
        seen="p-values that treat the noise of both environments of a pair as one",
        tests=("criteria/transport/test_estimates.py::test_draws_have_the_covariance_of_the_means_they_are_made_of",),
    ),
    Mutant(
        name="transport_few_effective_rows_are_kept",
        file="criteria/transport/transport_gap.py",
        old="(overlap.effective_rows < FEWEST_ROWS)",
        new="(overlap.effective_rows > FEWEST_ROWS)",
        seen="gaps of a handful of rows are shown",
        tests=("criteria/transport/test_transport_gap.py::test_few_effective_rows_are_refused",),
    ),
    Mutant(
        name="transport_variance_about_the_grand_mean",
        file="criteria/transport/transport_gap.py",
        old="return float(weight @ (target.values - mean[data.codes]) ** 2 / rows.sum())",
        new="return float(weight @ (target.values - mean.mean()) ** 2 / rows.sum())",
        seen="a value that shrinks when environments differ in level",
        tests=("criteria/transport/test_transport_gap.py::test_by_exact_arithmetic",),
    ),
    Mutant(
        name="transport_folds_leak",
        file="criteria/transport/outcome_models.py",
        old="train = used.with_weight(np.where(fold == k, 0.0, weight) if folds > 1 else weight)",
        new="train = used.with_weight(weight)",
        seen="outcome models judge rows they have seen",
        tests=("criteria/transport/test_transport_gap.py::test_equals_the_loops_with_cross_fitted_heads",),
    ),
    Mutant(
        name="transport_noise_of_the_fit_forgotten",
        file="criteria/transport/estimates.py",
        old="influence[:, 0] -= outcome.noise(k, residual[:, k], unbalanced)",
        new="influence[:, 0] -= 0.0",
        seen="standard errors too small where the ratio leaves columns unbalanced",
        tests=(
            "criteria/transport/test_transport_gap.py::test_standard_errors_are_the_derivatives_in_the_weights_of_rows",
        ),
    ),
    Mutant(
        name="transport_influence_not_corrected_for_its_mean",
        file="criteria/transport/estimates.py",
        old="np.maximum(1.0 - 2.0 * single + squares, 1e-12)",
        new="np.maximum(1.0 - 0.0 * single + squares, 1e-12)",
        seen="standard errors of n instead of n − 1",
        tests=("criteria/transport/test_transport_gap.py::test_by_exact_arithmetic",),
    ),
    Mutant(
        name="gaps_judged_by_rounding",
        file="criteria/transport/transport_gap.py",
        old="(gaps.se[compared] <= rounding).all()",
        new="(gaps.se[compared] <= -1.0).all()",
        seen="a p-value of 0.001, or of 1, that is rounding error over rounding error",
        tests=("criteria/transport/test_transport_gap.py::test_an_exact_relation_has_no_gap_and_no_noise",),
    ),
]
