"""Mistakes in comparing models on the same rows."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STEPS = "selection/test_three_steps.py"
PAIRED = "selection/test_paired_losses.py"

MUTANTS = [
    Mutant(
        name="steps_fail_at_the_point_estimate",
        file="selection/three_steps.py",
        old="if behind.interval[0] > tolerance or",
        new="if behind.value >= tolerance or",
        seen="a model is eliminated by noise",
        tests=(f"{STEPS}::test_a_model_within_noise_of_the_tolerance_is_open",),
    ),
    Mutant(
        name="steps_pass_at_the_point_estimate",
        file="selection/three_steps.py",
        old="return PASSED if behind.interval[1] <= tolerance and",
        new="return PASSED if behind.value <= tolerance and",
        seen="a model passes step 1 though rows do not settle it",
        tests=(f"{STEPS}::test_a_model_within_noise_of_the_tolerance_is_open",),
    ),
    Mutant(
        name="steps_let_constants_pass",
        file="selection/three_steps.py",
        old="and above_constant.interval[0] > 0 else OPEN",
        new="else OPEN",
        seen="a collapsed model, whose V is small, is called ready",
        tests=(f"{STEPS}::test_a_constant_never_passes_however_wide_the_tolerance",),
    ),
    Mutant(
        name="steps_at_another_level",
        file="selection/three_steps.py",
        old="return FAILED if influence.pvalue < alpha else PASSED",
        new="return FAILED if influence.pvalue < ALPHA else PASSED",
        seen="alpha changes nothing",
        tests=(f"{STEPS}::test_the_level_of_step_two",),
    ),
    Mutant(
        name="steps_ask_any_reference",
        file="selection/three_steps.py",
        old='if reference.trained_with != "erm" or reference.reaches',
        new="if reference.reaches",
        seen="a model that was trained for unseen environments is said to show that no algorithm is needed",
        tests=(f"{STEPS}::test_a_reference_that_is_no_erm_says_nothing_of_need",),
    ),
    Mutant(
        name="steps_forget_the_penalty",
        file="selection/three_steps.py",
        old="material = replace(material, trained_with=told.get(name, material.trained_with))",
        new="pass",
        seen="the penalty that a user tells of has no part in the Hessian",
        tests=(f"{STEPS}::test_a_penalty_enters_the_hessian",),
    ),
    Mutant(
        name="steps_read_loaders_again_and_again",
        file="selection/three_steps.py",
        old="if holds_torch(X) else (X, y, env)",
        new="if False else (X, y, env)",
        seen="a loader is read again for every model, and augmented rows are paired with other rows",
        tests=(f"{STEPS}::test_loaders_are_read_once",),
    ),
    Mutant(
        name="steps_do_not_tell_of_refitted_heads",
        file="selection/three_steps.py",
        old="elif isinstance(material.trained_head, Missing):",
        new="elif False:",
        seen="V of a forest looks like that of its own head",
        tests=(f"{STEPS}::test_a_model_without_a_linear_head_is_judged_on_a_refitted_one_and_says_so",),
    ),
    Mutant(
        name="best_unseen_environment",
        file="selection/steps.py",
        old='pick = min if self.measure == "accuracy" else max',
        new='pick = max if self.measure == "accuracy" else min',
        seen="OOD accuracy is that of the easiest environment",
        tests=(f"{STEPS}::test_the_worst_of_several_unseen_environments",),
    ),
    Mutant(
        name="ends_of_accuracies_swapped",
        file="selection/paired_losses.py",
        old="estimates(labels, 1.0 - means.value, 1.0 - high, 1.0 - low)",
        new="estimates(labels, 1.0 - means.value, 1.0 - low, 1.0 - high)",
        seen="an accuracy's lower end is above its upper end",
        tests=(f"{STEPS}::test_the_worst_of_several_unseen_environments",),
    ),
    Mutant(
        name="agreement_is_certainty",
        file="selection/paired_losses.py",
        old="differing + 1.0 - (n * mean)",
        new="differing - (n * mean)",
        seen="two models that agree on all rows are known to agree on all others",
        tests=(f"{PAIRED}::test_by_hand",),
    ),
    Mutant(
        name="constant_of_the_largest_environment",
        file="selection/paired_losses.py",
        old="share = share / np.repeat(rows.rows, rows.sizes) / len(rows)",
        new="share = share / rows.rows.sum()",
        seen="the constant is that of the environment with the most rows",
        tests=(f"{PAIRED}::test_no_other_constant_is_better", f"{PAIRED}::test_the_constant_of_classes_by_search"),
    ),
    Mutant(
        name="ratio_without_its_own_noise",
        file="selection/paired_losses.py",
        old="(self.values - ratio * reference.values) / base",
        new="(self.values - reference.values) / base",
        seen="intervals of extra losses are those of plain differences",
        tests=(f"{PAIRED}::test_extra_loss_is_a_share_of_the_references",),
    ),
]
