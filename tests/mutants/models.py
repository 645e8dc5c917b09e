"""Mistakes in taking models apart: heads, outputs, classes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="columns_of_probabilities_in_the_models_order",
        file="models/outputs.py",
        old="matrix = matrix[:, [columns.index(label) for label in classes]]",
        new="matrix = matrix[:, [list(classes).index(label) for label in columns]]",
        seen="probabilities under other classes than their own",
        tests=("models/test_outputs.py::test_columns_of_a_model_follow_the_classes_of_the_target",),
    ),
    Mutant(
        name="one_column_is_the_first_class",
        file="models/outputs.py",
        old="matrix = np.hstack([1.0 - matrix, matrix])",
        new="matrix = np.hstack([matrix, 1.0 - matrix])",
        seen="one column of probabilities is read as that of the first class",
        tests=("models/test_outputs.py::test_one_column_is_a_number_or_the_second_class",),
    ),
    Mutant(
        name="sums_checked_loosely",
        file="models/outputs.py",
        old="bad = np.abs(sums - 1.0) >",
        new="bad = sums - 1.0 >",
        seen="probabilities that sum to less than 1 pass",
        tests=("models/test_outputs.py::test_what_does_not_fit_is_refused_with_counts",),
    ),
    Mutant(
        name="hidden_layer_beyond_the_last",
        file="models/sklearn_models.py",
        old="zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True)",
        new="zip(network.coefs_, network.intercepts_, strict=True)",
        seen="the output in place of the last hidden layer",
        tests=("models/test_sklearn_models.py::test_hidden_layer_is_computed_layer_by_layer",),
    ),
    Mutant(
        name="votes_for_the_wrong_class",
        file="models/sklearn_models.py",
        old="(labels[:, None] == np.array(classes, dtype=object))",
        new="(labels[:, None] != np.array(classes, dtype=object))",
        seen="votes for all classes but the one",
        tests=("models/test_sklearn_models.py::test_classifiers_that_only_vote",),
    ),
    Mutant(
        name="any_coefficients_are_a_head",
        file="models/sklearn_models.py",
        old="return head if said.shape == ours.shape and np.all(np.abs(said - ours) <= allowed) else None",
        new="return head if said.shape == ours.shape else None",
        seen="a head that does not predict what the model predicts",
        tests=(
            "models/test_sklearn_models.py::test_linear_models_with_another_link_keep_the_features_but_have_no_head",
        ),
    ),
    Mutant(
        name="search_gives_its_first_model",
        file="models/sklearn_models.py",
        old="return _steps(model.best_estimator_)",
        new="return _steps(model.estimator)",
        seen="an unfitted model in place of the best",
        tests=("models/test_sklearn_models.py::test_nested_pipelines_and_searches_are_unrolled",),
    ),
    Mutant(
        name="log_odds_of_the_first_class",
        file="heads/linear_head.py",
        old="return logs[:, 1:] - logs[:, :1]",
        new="return logs[:, :1] - logs[:, 1:]",
        seen="log-odds named after the other class",
        tests=("models/test_sklearn_models.py::test_classifiers_are_judged_by_their_log_odds",),
    ),
    Mutant(
        name="names_of_log_odds_shifted",
        file="models/splits.py",
        old="for label in self.classes[:-1])",
        new="for label in self.classes[1:])",
        seen="columns of log-odds under other classes' names",
        tests=("models/test_sklearn_models.py::test_classifiers_are_judged_by_their_log_odds",),
    ),
    Mutant(
        name="penalty_not_in_units_of_the_target",
        file="models/trained_with.py",
        old="weight = float(objective.weight) / scale**2 if penalty else 0.0",
        new="weight = float(objective.weight) / scale if penalty else 0.0",
        seen="influences under another penalty than that of training",
        tests=("models/test_trained_with.py",),
    ),
    Mutant(
        name="split_form_taken_for_the_square",
        file="models/trained_with.py",
        old='"irm" if form == "square" else "irm_split"',
        new='"irm" if form != "square" else "irm_split"',
        seen="influences under the other form of IRM's penalty",
        tests=("models/test_trained_with.py",),
    ),
    Mutant(
        name="heads_answer_with_dropout",
        file="models/torch_heads.py",
        old=("    module.eval()\n"),
        new=("    module.train()\n"),
        seen="answers that change from call to call",
        tests=("models/test_torch_heads.py",),
    ),
]
