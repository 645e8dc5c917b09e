"""Mistakes in the training loop: schedules, batches, stopping, many models at once."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="ramp_begins_at_once",
        file="training/schedule.py",
        old="(full - before) * ((step - self.wait) / self.ramp)",
        new="(full - before) * (step / self.ramp)",
        seen="the penalty jumps when waiting ends",
        tests=("training/test_schedule.py::test_waits_then_rises_in_a_straight_line",),
    ),
    Mutant(
        name="full_weight_one_step_late",
        file="training/schedule.py",
        old="if step >= self.full_from:",
        new="if step > self.full_from:",
        seen="held-out rows are judged under another weight than the full one",
        tests=("training/test_schedule.py",),
    ),
    Mutant(
        name="rescaling_divides_small_weights",
        file="training/schedule.py",
        old="torch.clamp(weight, min=1.0) if self.rescale",
        new="torch.clamp(weight, max=1.0) if self.rescale",
        seen="large penalties make steps explode",
        tests=("training/test_schedule.py::test_rescaling_divides_by_weights_above_one_only",),
    ),
    Mutant(
        name="held_out_rows_are_trained_on",
        file="training/rows.py",
        old="trained_on.append(torch.as_tensor(np.sort(order[count:])))",
        new="trained_on.append(torch.as_tensor(np.sort(order)))",
        seen="training stops by rows it was trained on",
        tests=("training/test_rows.py::test_held_out_rows_are_a_share_of_every_environment_and_no_row_is_in_both",),
    ),
    Mutant(
        name="batches_repeat_rows",
        file="training/rows.py",
        old="[place * batch : (place + 1) * batch]",
        new="[place : place + batch]",
        seen="some rows come several times before others come at all",
        tests=("training/test_rows.py::test_every_row_comes_once_before_any_comes_again",),
    ),
    Mutant(
        name="epochs_in_the_same_order",
        file="training/rows.py",
        old="np.random.default_rng([seed, environment, epoch])",
        new="np.random.default_rng([seed, environment, 0])",
        seen="batches hold the same rows in every epoch",
        tests=("training/test_rows.py::test_orders_differ_between_epochs_environments_and_seeds",),
    ),
    Mutant(
        name="patience_is_never_over",
        file="training/loop.py",
        old="self.waited = torch.where(gained, 0, self.waited + waits.long())",
        new="self.waited = torch.where(gained, 0, self.waited)",
        seen="training never stops early",
        tests=("training/test_train.py::test_stops_when_held_out_rows_gain_no_more_and_keeps_the_best",),
    ),
    Mutant(
        name="keeps_the_last_not_the_best",
        file="training/loop.py",
        old="self.best[name] = torch.where(mask, now.detach(), self.best[name])",
        new="self.best[name] = now.detach().clone()",
        seen="the weights of the last step in place of the best",
        tests=("training/test_train.py::test_stops_when_held_out_rows_gain_no_more_and_keeps_the_best",),
    ),
    Mutant(
        name="weight_decay_doubled",
        file="training/program.py",
        old="sum((value**2).sum() for value in parameters.values()) / 2",
        new="sum((value**2).sum() for value in parameters.values())",
        seen="twice the ridge asked for",
        tests=("training/test_loop.py::test_weight_decay_is_half_the_squared_parameters",),
    ),
    Mutant(
        name="penalty_not_divided",
        file="training/program.py",
        old="total = total / self.schedule.divisor(weight)",
        new="total = total / 1.0",
        seen="steps of the size of the penalty",
        tests=("training/test_train.py::test_large_weights_keep_the_size_of_steps",),
    ),
    Mutant(
        name="turns_swapped",
        file="training/loop.py",
        old='return name.startswith("head.") == (self.step % 2 == 0)',
        new='return name.startswith("head.") == (self.step % 2 == 1)',
        seen="the head moves first where the representation should",
        tests=("training/test_train.py::test_representation_and_head_take_turns_where_the_objective_says_so",),
    ),
    Mutant(
        name="replicates_in_another_order",
        file="training/replicates.py",
        old="every_seed, every_weight = [seed for seed in chosen for _ in each], each * len(chosen)",
        new="every_seed, every_weight = chosen * len(each), each * len(chosen)",
        seen="models reported under other seeds than their own",
        tests=("training/test_replicates.py",),
    ),
]
