"""Mistakes in the scikit-learn estimators and in training on tables."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="pixels_by_their_own_spread",
        file="estimators/networks.py",
        old="return layer.in_channels if columns % layer.in_channels == 0 else 1",
        new="return None",
        seen="images are standardised pixel by pixel, and black pixels turn predictions",
        tests=("estimators/test_standardise.py::test_a_network_with_convolutions_has_a_number_per_channel",),
    ),
    Mutant(
        name="moved_inputs_in_raw_units",
        file="estimators/estimator.py",
        old="return self._standardised(self._checked(X))",
        new="return self._checked(X)",
        seen="the worst case in inputs is that of rows the network never read",
        tests=("criteria/worst_case/test_worst_case_in_inputs.py::test_the_split_of_an_estimator_carries_its_network",),
    ),
    Mutant(
        name="network_in_units_of_training",
        file="models/torch_networks.py",
        old="return self.centre + self.scale * scores",
        new="return scores",
        seen="squared losses of moved inputs are not those of the target",
        tests=("criteria/worst_case/test_worst_case_in_inputs.py::test_the_split_of_an_estimator_carries_its_network",),
    ),
    Mutant(
        name="predictions_in_network_units",
        file="estimators/regressor.py",
        old="return self.target_centre_ + self.target_scale_ * scores",
        new="return self.target_scale_ * scores",
        seen="predictions about 0 instead of the target's mean",
        tests=("estimators/test_estimator.py::test_erm_without_environments_is_least_squares",),
    ),
    Mutant(
        name="probabilities_of_classes_swapped",
        file="estimators/classifier.py",
        old="np.hstack([expit(-scores), expit(scores)])",
        new="np.hstack([expit(scores), expit(-scores)])",
        seen="probabilities under the other class",
        tests=("estimators/test_estimator.py::test_erm_without_environments_is_logistic_regression",),
    ),
    Mutant(
        name="classes_predicted_from_the_wrong_side",
        file="estimators/classifier.py",
        old="(scores[:, 0] > 0)",
        new="(scores[:, 0] < 0)",
        seen="the less probable class is predicted",
        tests=("estimators/test_estimator.py::test_two_classes_of_any_type",),
    ),
    Mutant(
        name="test_environment_is_trained_on",
        file="estimators/leave_one_environment_out.py",
        old="yield np.flatnonzero(codes != code), np.flatnonzero(codes == code)",
        new="yield np.flatnonzero(codes >= 0), np.flatnonzero(codes == code)",
        seen="cross-validation that has seen what it tests on",
        tests=("estimators/test_scikit_learn.py::test_every_environment_is_the_test_set_once",),
    ),
    Mutant(
        name="left_out_environments_are_trained_on",
        file="estimators/table_training.py",
        old="seen = _among(self.data, self.trained_on)",
        new="seen = np.ones(len(self.rows.env), dtype=bool)",
        seen="an environment said to be left out was trained on",
        tests=("estimators/test_table_training.py",),
    ),
    Mutant(
        name="left_out_losses_weighted_by_all_rows",
        file="estimators/table_training.py",
        old="return np.bincount(codes, values, minlength=environments) / np.bincount(codes, minlength=environments)",
        new="return np.bincount(codes, values, minlength=environments) / len(codes)",
        seen="losses of environments a fraction of what they are",
        tests=("estimators/test_table_training.py",),
    ),
    Mutant(
        name="squared_errors_not_as_reported",
        file="estimators/table_training.py",
        old="each = loss.reported * loss.value(",
        new="each = loss.value(",
        seen="mean squared errors halved",
        tests=("estimators/test_table_training.py",),
    ),
    Mutant(
        name="auto_is_erm",
        file="estimators/estimator.py",
        old='objective_of("vrex" if len(labels) > 1 else "erm"',
        new='objective_of("vrex" if len(labels) > 2 else "erm"',
        seen="two environments are trained as if they were one",
        tests=("estimators/test_estimator.py::test_vrex_is_the_default_and_brings_the_risks_together",),
    ),
    Mutant(
        name="columns_standardised_by_variance",
        file="estimators/estimator.py",
        old="values: Floats = (X - self.centre_) / self.scale_",
        new="values: Floats = (X - self.centre_) / self.scale_**2",
        seen="penalties that depend on units of columns",
        tests=("estimators/test_estimator.py::test_units_of_columns_and_target_do_not_matter",),
    ),
    Mutant(
        name="rows_beyond_a_block_not_standardised",
        file="estimators/estimator.py",
        old="rows = self._standardised(X[start : start + ROWS_AT_ONCE])",
        new=(
            "rows = self._standardised(X[start : start + ROWS_AT_ONCE]) if not start else X[start : start + "
            "ROWS_AT_ONCE]"
        ),
        seen="predictions of long tables wrong from some row on",
        tests=("estimators/test_represent_and_split.py::test_rows_beyond_one_block_are_represented_too",),
    ),
]
