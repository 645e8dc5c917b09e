"""Mistakes in the influence index, its penalties and its shuffles."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="influence_of_the_wrong_sign",
        file="criteria/influence/solution.py",
        old="return Solution(-known.gradient @ inverse, null,",
        new="return Solution(known.gradient @ inverse, null,",
        seen="every environment pulls the other way",
        tests=("criteria/influence/test_influence_index.py::test_equals_the_reference_with_a_fitted_head",),
    ),
    Mutant(
        name="influence_covariance_divided_by_m_less_one",
        file="criteria/influence/solution.py",
        old="largest = float(singular[0] ** 2) / len(influences)",
        new="largest = float(singular[0] ** 2) / (len(influences) - 1)",
        seen="V larger than the paper's, while its shuffles are not",
        tests=("criteria/influence/test_influence_index.py::test_index_of_vectors_by_hand",),
    ),
    Mutant(
        name="influence_not_centred",
        file="criteria/influence/solution.py",
        old="centred = influences - influences.mean(axis=0)",
        new="centred = influences - 0.0",
        seen="V of environments that pull alike",
        tests=("criteria/influence/test_influence_index.py::test_index_of_vectors_by_hand",),
    ),
    Mutant(
        name="influence_direction_of_the_smallest",
        file="criteria/influence/solution.py",
        old="direction = right[0] * np.sign(right[0, np.argmax(np.abs(right[0]))])",
        new="direction = right[-1] * np.sign(right[-1, np.argmax(np.abs(right[-1]))])",
        seen="the columns named are those that environments agree about",
        tests=("criteria/influence/test_influence_index.py::test_the_leading_direction_names_the_column_that_differs",),
    ),
    Mutant(
        name="influence_intercept_not_moved_last",
        file="criteria/influence/influence_index.py",
        old="order = np.roll(order.reshape(rows.outputs, -1), -1, axis=1).ravel()",
        new="order = np.roll(order.reshape(rows.outputs, -1), 1, axis=1).ravel()",
        seen="influences under the names of other columns",
        tests=("criteria/influence/test_influence_index.py::test_equals_the_reference_with_a_fitted_head",),
    ),
    Mutant(
        name="shuffles_with_replacement",
        file="criteria/influence/shuffles.py",
        old="centre = (np.eye(environments) - 1.0 / environments) / np.sqrt(rows)",
        new="centre = np.eye(environments) / np.sqrt(rows)",
        seen="shuffled values too high: no OOD algorithm ever seems needed",
        tests=("criteria/influence/test_influence_index.py::test_gaussian_shuffles_agree_with_exact_ones",),
    ),
    Mutant(
        name="shuffles_of_equal_sizes",
        file="criteria/influence/shuffles.py",
        old="centre = (np.eye(environments) - 1.0 / environments) / np.sqrt(rows)",
        new="centre = (np.eye(environments) - 1.0 / environments) / np.sqrt(rows.mean())",
        seen="p-values wrong where environments have unequal rows",
        tests=(
            "criteria/influence/test_influence_index.py::test_variance_of_dealt_means_is_that_of_sampling_without_replacement",
        ),
    ),
    Mutant(
        name="noise_level_without_rows",
        file="criteria/influence/inverse.py",
        old="return math.sqrt(float(values.max() * values.sum()) / rows)",
        new="return math.sqrt(float(values.max() * values.sum())) / rows",
        seen="flat directions are not damped: V is noise",
        tests=("criteria/influence/test_influence_index.py::test_damping_is_chosen_from_the_spectrum",),
    ),
    Mutant(
        name="damping_added_to_dead_directions",
        file="criteria/influence/solution.py",
        old="inverse = (vectors[:, live] / (eigenvalues[live] + chosen.added)) @ vectors[:, live].T",
        new="inverse = (vectors[:, live] / eigenvalues[live]) @ vectors[:, live].T",
        seen="damping that is reported but not used",
        tests=("criteria/influence/test_influence_index.py::test_damping_of_the_user_is_honoured",),
    ),
    Mutant(
        name="row_covariance_divided_by_n",
        file="criteria/influence/row_derivatives.py",
        old="(outer - number * np.outer(mean, mean)) / (number - 1.0)",
        new="(outer - number * np.outer(mean, mean)) / number",
        seen="shuffled values a little too low",
        tests=("criteria/influence/test_row_derivatives.py",),
    ),
    Mutant(
        name="vrex_hessian_without_its_curvature",
        file="criteria/influence/penalties.py",
        old="return (1.0 + 2.0 * self.strength * apart) / (m * rows), None",
        new="return (1.0 + 0.0 * self.strength * apart) / (m * rows), None",
        seen="influences of a V-REx model are those of half its Hessian",
        tests=(
            "criteria/influence/test_penalties.py::test_equals_automatic_differentiation_of_the_training_objective",
        ),
    ),
    Mutant(
        name="irm_split_multiplies_with_itself",
        file="criteria/influence/penalties.py",
        old="[..., ::-1].reshape(slope.shape))",
        new="[..., ::1].reshape(slope.shape))",
        seen="the split penalty is the plain one",
        tests=(
            "criteria/influence/test_penalties.py::test_equals_automatic_differentiation_of_the_training_objective",
        ),
    ),
    Mutant(
        name="penalty_strength_not_in_units_of_the_loss",
        file="criteria/influence/penalties.py",
        old="return Penalty(name, float(weight) * reported)",
        new="return Penalty(name, float(weight))",
        seen="half the penalty for numbers",
        tests=(
            "criteria/influence/test_penalties.py::test_equals_automatic_differentiation_of_the_training_objective",
        ),
    ),
    Mutant(
        name="spread_of_environments_divided_by_rows",
        file="criteria/influence/shuffles.py",
        old="/ math.sqrt(means.shape[1])",
        new="/ math.sqrt(means.shape[1] - 1)",
        seen="shuffled values larger than V by definition",
        tests=("criteria/influence/test_influence_index.py::test_largest_spread_is_the_spectral_norm",),
    ),
]
