"""Mistakes of the commands: exit codes, files, options that are not passed on."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant(
        name="margin_judged_late",
        file="cli/audit.py",
        old='return share_above_zero("it", margin, MARGIN)',
        new="return margin",
        seen="a margin of 2 is refused only when the table is read",
        tests=("cli/test_audit.py::test_a_margin_is_a_share_and_not_per_cent",),
    ),
    Mutant(
        name="commands_speak_python",
        file="cli/__init__.py",
        old="with typed_in(SHELL):",
        new="with suppress():",
        seen="advice on the command line that cannot be typed there",
        tests=("cli/test_spelling.py::test_no_sentence_names_an_option_as_python_does",),
    ),
    Mutant(
        name="met_conditions_pass",
        file="cli/audit.py",
        old="CONDITION_MET = 1",
        new="CONDITION_MET = 0",
        seen="a build goes on although a condition was met",
        tests=("cli/test_audit.py::test_a_condition_that_is_met",),
    ),
    Mutant(
        name="any_condition_is_all",
        file="cli/audit.py",
        old="return any(reasons.values())",
        new="return all(reasons.values())",
        seen="of two conditions one that is met does not fail the build",
        tests=("cli/test_audit.py::test_a_condition_that_is_met",),
    ),
    Mutant(
        name="quiet_hides_met_conditions",
        file="cli/audit.py",
        old=("        if reason is not None:\n            click.echo("),
        new=(
            '        if reason is not None and not click.get_current_context().params["quiet"]:\n'
            "            click.echo("
        ),
        seen="a build fails without a word",
        tests=("cli/test_audit.py::test_a_condition_that_is_met_is_told_even_when_quiet",),
    ),
    Mutant(
        name="bad_input_exits_like_a_condition",
        file="cli/options.py",
        old="BAD_INPUT = 2",
        new="BAD_INPUT = 1",
        seen="bad input looks like a failed condition",
        tests=("cli/test_audit.py::test_what_cannot_be_used_is_told_in_one_sentence",),
    ),
    Mutant(
        name="weights_not_passed_on",
        file="cli/audit.py",
        old='weight=rows.others.get("weight"),',
        new="weight=None,",
        seen="--weight changes nothing",
        tests=("cli/test_audit.py::test_weights_count_rows",),
    ),
    Mutant(
        name="html_and_json_swapped",
        file="cli/audit.py",
        old='output.tell("Numbers", json, shown)',
        new='output.tell("Numbers", html, shown)',
        seen="the terminal names the wrong files",
        tests=("cli/test_audit.py::test_table_page_and_numbers",),
    ),
    Mutant(
        name="output_overwrites_input",
        file="cli/output.py",
        old='["is read"] * (place.file in read) + earlier',
        new="earlier",
        seen="a table is overwritten by its report",
        tests=("cli/test_audit.py::test_what_cannot_be_used_is_told_in_one_sentence",),
    ),
    Mutant(
        name="hidden_layers_reversed",
        file="cli/train.py",
        old="return tuple(int(part) for part in parts)",
        new="return tuple(int(part) for part in parts[::-1])",
        seen="another network than asked for",
        tests=("cli/test_train.py::test_the_table_tells_the_loss_in_every_environment",),
    ),
    Mutant(
        name="trained_rows_count_all_environments",
        file="cli/train.py",
        old='wording.count(sum(data.sizes[training.trained_on]), "row"),',
        new='wording.count(sum(data.sizes), "row"),',
        seen="rows left out are said to be trained on",
        tests=("cli/test_train.py::test_the_table_tells_the_loss_in_every_environment",),
    ),
    Mutant(
        name="offline_downloads",
        file="cli/demo.py",
        old=("    if offline:\n"),
        new=("    if not offline:\n"),
        seen="the demo downloads although told not to",
        tests=("cli/test_demo.py::test_offline_uses_the_bundled_digits",),
    ),
]
